"""Loops whose rounds all read what one of them changes: the rounds around that one are vectors."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

TEXT = """
def ways(w: n=>n=>Float) -> n=>n=>Float:
    with state(w) as d:
        for k in n:
            for i in n:
                for j in n:
                    if d[i, k] + d[k, j] < d[i, j]: d[i, j] := d[i, k] + d[k, j]

def less(x: m=>n=>Float, u: n) -> m=>n=>Float:
    with state(x) as s:
        for i in m:
            for j in n: s[i, j] -= 0.5 * s[i, u]

def beside(x: m=>Fin(n + 2)=>Float, u: Fin(n + 2)) -> m=>Fin(n + 2)=>Float:
    with state(x) as s:
        for i in m:
            for j in Fin(n): s[i, j + 2] += s[i, u]

def steps(x: m=>Fin(n)=>Fin(n + 1)=>Float, u: Fin(n)) -> m=>Fin(n)=>Fin(n + 1)=>Float:
    with state(x) as s:
        for i in m:
            for j in Fin(n):
                s[i, j, j] += s[i, u, u]
                s[i, j, j + 1] += s[i, u, u]
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 16, 17, 33])
def test_the_round_between(m, n: int) -> None:
    r = np.random.default_rng(n)
    w = r.normal(size=(n, n))  # with circles of negative length
    want = w.copy()
    for k in range(n):
        for i in range(n):
            for j in range(n):
                want[i, j] = min(want[i, j], want[i, k] + want[k, j])
    assert np.array_equal(m.ways(w), want)
    for u in range(n):
        x = r.normal(size=(3, n))
        want = x.copy()
        for row in want:
            for j in range(n):
                row[j] -= 0.5 * row[u]
        assert np.array_equal(m.less(x, u), want)
    for u in range(n + 2):
        x = r.normal(size=(3, n + 2))
        want = x.copy()
        for row in want:
            for j in range(n):
                row[j + 2] += row[u]
        assert np.array_equal(m.beside(x, u), want)


@pytest.mark.parametrize("n", [1, 2, 20])
def test_two_places_in_a_round(m, n: int) -> None:
    for u in range(n):
        x = np.random.default_rng(u).normal(size=(2, n, n + 1))
        want = x.copy()
        for row in want:
            for j in range(n):
                row[j, j] += row[u, u]
                row[j, j + 1] += row[u, u]
        assert np.array_equal(m.steps(x, u), want)


@pytest.mark.parametrize("name", ["ways", "less", "beside"])
def test_vectors_around_it(m, name: str) -> None:
    text = m[name].show("loops")
    assert "if middle < n" in text
    assert text.count("free for j") == 2


def test_what_is_said_of_a_loop_that_is_cut_around_one_round() -> None:
    f = nap.compile("""
def shortest(d: n=>n=>Float) -> n=>n=>Float:
    with state(d) as e:
        for k, i, j: e[i, j] := min(e[i, j], e[i, k] + e[k, j])
""").shortest
    around = "its iterations are independent around the one that changes what all read"
    assert f"loop over `j` (lines 3 and 4): {around}" in f.notes
    assert "loop over `k` (lines 3 and 4): sequential, it carries `e`" in f.notes
    assert "reads bytes: 8 * n * n of `out`;" in f.account[1]


def test_the_account_says_which_loops_of_a_nest_are_parallel() -> None:
    f = nap.compile("""
def heat(u: n=>Float, steps: Int) -> n=>Float:
    loop v = u for t in Fin(steps):
        [v[i] + 0.1 * v[clamp(i + 1, n)] for i]
""").heat
    assert f.account[0].startswith("nest over `t`, `i`: in order over `t`, parallel over `i`; ")


SHORTEST = """
def shortest(w: n=>n=>Float) -> n=>n=>Float:
    with state(w) as d:
        for k, i, j: d[i, j] := min(d[i, j], d[i, k] + d[k, j])

{strict}def f(w: n=>n=>Float, s: n=>n=>Float) -> Float:
    d = shortest(w)
    sum(d[i, j] * s[i, j] for i, j)
"""


@pytest.mark.parametrize("n", [0, 1, 2, 7, 16, 17, 33])
def test_what_all_rounds_add_to_goes_on_in_a_register(n: int) -> None:
    slope = nap.grad(nap.compile(SHORTEST.format(strict="")).f)
    assert slope.show("loops").count("reducing add sum") == 2
    r = np.random.default_rng(n)
    d, s = r.normal(size=(n, n)), r.normal(size=(n, n))  # with circles of negative length
    given, want, through = d.copy(), s.copy(), []
    for k, i, j in np.ndindex(n, n, n):
        other = d[i, k] + d[k, j]
        through.append((k, i, j, d[i, j] <= other))
        d[i, j] = min(d[i, j], other)
    for k, i, j, stays in reversed(through):
        if not stays:
            v, want[i, j] = want[i, j], 0.0
            want[i, k] += v
            want[k, j] += v
    np.testing.assert_allclose(slope(given, s), want, rtol=1e-12, atol=1e-12)


def test_strict_adds_in_order() -> None:
    slope = nap.grad(nap.compile(SHORTEST.format(strict="@strict\n")).f)
    assert "reducing add sum" not in slope.show("loops")


READ = """
def asked(g: Fin(n)=>Float, x: Fin(n)=>Float, y: Fin(n)=>Float) -> (Fin(n)=>Float, Fin(n)=>Float):
    with state(g) as s, state(x) as t:
        for r in Fin(n):
            for j in Fin(n):
                s[r] += s[j] * y[j]
                t[j] := t[j] * 0.5 + s[r]

def elsewhere(
    g: Fin(n)=>Float, x: Fin(n)=>Float, y: Fin(n)=>Float
) -> (Fin(n)=>Float, Fin(n)=>Float):
    with state(g) as s, state(x) as t:
        for r in Fin(n):
            for j in Fin(n):
                s[r] += s[j] * y[j]
                t[j] := t[j] * 0.5 + s[n - 1 - r]

def below(g: Fin(n)=>Float, x: Fin(n)=>Float, y: Fin(n)=>Float) -> (Fin(n)=>Float, Fin(n)=>Float):
    with state(g) as s, state(x) as t:
        for r in Fin(n):
            for j in Fin(n):
                s[r] += s[clamp(j + 1)] * y[j]
                if y[j] > 0.0: t[j] := t[j] * 0.5 + s[j]
"""


@pytest.mark.parametrize("name", ["asked", "elsewhere", "below"])
@pytest.mark.parametrize("n", [3, 16, 33])
def test_what_is_added_to_may_be_asked_for_meanwhile(name: str, n: int) -> None:
    r = np.random.default_rng(n)
    s, t, y = 0.3 * r.normal(size=(3, n))
    found = nap.compile(READ)[name](s, t, y)
    for k, j in np.ndindex(n, n):
        s[k] += s[min(j + 1, n - 1) if name == "below" else j] * y[j]
        if name == "below" and y[j] <= 0:
            continue
        t[j] = t[j] * 0.5 + s[{"asked": k, "elsewhere": n - 1 - k, "below": j}[name]]
    np.testing.assert_allclose(found, (s, t), rtol=1e-12)
