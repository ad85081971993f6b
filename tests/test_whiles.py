"""Loops until a condition changes that stand in the rounds of other loops."""

import numpy as np
import pytest

import naperian as nap

TEXT = """
def counted(k: Int, m: Int) -> Int:
    loop f = 0 for p in Fin(m):
        loop g = f, j = k while j >= 0: (g + j, j - 1)
        g

def twice(k: Int, m: Int) -> Int:
    loop s = 0, i = 0 while i < m:
        loop g = s, j = k while j >= 0: (g + j, j - 1)
        (g + 1, i + 1)
    s

def state_in_rounds(k: Int, m: Int) -> Int:
    (f, _) = with state(0) as f, state(0) as j:
        for p in Fin(m):
            j := 0
            while j < k:
                f += 1
                j := j + 1
    f

def sifted(x: Fin(n)=>Float) -> Fin(n)=>Float:
    (h, _) = with state(x) as h, state(0) as c:
        for i in Fin(n):
            c := Int(i)
            while c > 0 and h[((c - 1) // 2)?] > h[c?]:
                q = (c - 1) // 2
                (h[c?], h[q?]) := (h[q?], h[c?])
                c := q
    h

def free(x: Fin(4)=>Int) -> Int:
    loop c = 2 while any(x[j] == c for j): c + 1
    c

def levelled(x: Fin(n)=>Int) -> Fin(n)=>Int:
    (p, _) = with state(x) as p, state(2) as c:
        for i in Fin(n):
            while c < p[i]: c += 1
            p[i] := c
    p

def never(x: Fin(4)=>Int) -> Fin(4)=>Int:
    (p, _) = with state(x) as p, state(2) as c:
        for i in Fin(4):
            while p[0] < i: c += p[i]
            p[i] := c + p[i]
    p

def guarded(n: Int, x: Fin(4)=>Int) -> (Int, Fin(4)=>Int):
    with state(0) as b, state(x) as t:
        if b > n:
            for i in Fin(n):
                t[1] += 1
                b := 1

def in_a_branch(n: Int, x: Fin(4)=>Int) -> (Int, Fin(4)=>Int):
    with state(n) as a, state(x) as t:
        if n > 1:
            for i in Fin(2):
                t[0] += 1
                for j in Fin(3):
                    t[1] += 1
                    a += t[0]
"""


@pytest.fixture(scope="module")
def module() -> nap.Module:
    return nap.compile(TEXT)


@pytest.mark.parametrize("k", [-1, 0, 3])
@pytest.mark.parametrize("m", [0, 1, 3])
def test_rounds_that_do_not_depend_on_the_loop_around(module: nap.Module, k: int, m: int) -> None:
    assert module.counted(k, m) == m * sum(range(k + 1))
    assert module.twice(k, m) == m * (sum(range(k + 1)) + 1)
    assert module.state_in_rounds(k, m) == m * max(k, 0)


def test_conditions_that_read_tables(module: nap.Module) -> None:
    assert module.free(np.array([2, 3, 5, 4])) == 6
    assert module.levelled(np.array([1, 5, 3, 9])).tolist() == [2, 5, 5, 9]
    assert module.levelled(np.array([], dtype=np.int64)).tolist() == []
    assert module.never(np.array([3, 1, 4, 1])).tolist() == [5, 3, 6, 3]


def test_a_table_that_a_condition_keeps_from_changing(module: nap.Module) -> None:
    for n in (-1, 0, 1, 4):
        b, t = module.guarded(n, np.array([3, 1, 4, 1]))
        assert (b, t.tolist()) == (0, [3, 1, 4, 1])


def test_a_short_loop_under_a_condition(module: nap.Module) -> None:
    a, t = module.in_a_branch(0, np.array([3, 1, 4, 1]))
    assert (a, t.tolist()) == (0, [3, 1, 4, 1])
    a, t = module.in_a_branch(2, np.array([3, 1, 4, 1]))
    assert (a, t.tolist()) == (2 + 3 * 4 + 3 * 5, [5, 7, 4, 1])


def test_what_a_round_asks_under_a_condition_it_goes_on_with(module) -> None:
    x = np.random.default_rng(0).random(40)
    heap = module.sifted(x)
    assert sorted(heap) == sorted(x)
    assert all(heap[(k - 1) // 2] <= heap[k] for k in range(1, 40))
