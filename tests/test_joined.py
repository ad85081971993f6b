"""Tests of one condition, or of what it is made of, are one test: all is done in order still."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

RUNS = """
def runs(x: Fin(n)=>Int) -> (Int, Fin(n)=>Int, Fin(n)=>Int):
    none = [0 for _ in Fin(n)]
    (v, l, k) = with state(none) as v, state(none) as l, state(0) as k:
        for i in Fin(n):
            if k > 0 and v[(k - 1)?] == x[i]: l[(k - 1)?] += 1
            else:
                v[k?] := x[i]
                l[k?] := 1
                k += 1
    (k, v, l)

# What the first test changes, the second asks.
def changed(x: Fin(n)=>Int) -> (Int, Fin(n)=>Int):
    (v, k, m) = with state([0 for _ in Fin(n)]) as v, state(0) as k, state(0) as m:
        for i in Fin(n):
            if k > 2 and x[i] > 0:
                v[i] += 1
                k := 0
            else: k += 1
            if k > 2:
                if x[i] > 0: v[i] += 10
            m += k
    (m, v)

# The same side again, and what is in none.
def again(x: Fin(n)=>Int) -> (Int, Fin(n)=>Int):
    (v, k) = with state([0 for _ in Fin(n)]) as v, state(0) as k:
        for i in Fin(n):
            a = x[i] > 0 or k > 3
            b = k < 7
            if a and b: v[i] += 1
            if b:
                if a: v[i] *= 3
            if not (a and b): v[i] -= 1
            if a or b: v[i] += 100
            if not a:
                if not b: v[i] += 1000
            k := (k + x[i] + v[i]) % 11
    (k, v)
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(RUNS)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n", [0, 1, 2, 3, 50, 400])
def test_tests_of_parts_are_joined(m, n: int, seed: int) -> None:
    x = np.random.default_rng(seed).integers(-1, 2, n)
    v, length, k = np.zeros(n, int), np.zeros(n, int), 0
    for a in x:
        if k and v[k - 1] == a:
            length[k - 1] += 1
        else:
            v[k], length[k], k = a, 1, k + 1
    got = m.runs(x)
    assert got[0] == k
    assert np.array_equal(got[1], v)
    assert np.array_equal(got[2], length)

    v, k, total = np.zeros(n, int), 0, 0
    for i, a in enumerate(x):
        if k > 2 and a > 0:
            v[i] += 1
            k = 0
        else:
            k += 1
        if k > 2 and a > 0:
            v[i] += 10
        total += k
    got = m.changed(x)
    assert got[0] == total
    assert np.array_equal(got[1], v)

    v, k = np.zeros(n, int), 0
    for i in range(n):
        a, b = x[i] > 0 or k > 3, k < 7
        if a and b:
            v[i] = (v[i] + 1) * 3
        else:
            v[i] -= 1
        v[i] += 100 if a or b else 1000
        k = (k + x[i] + v[i]) % 11
    got = m.again(x)
    assert got[0] == k
    assert np.array_equal(got[1], v)


def test_a_run_goes_on_or_begins_by_one_test(m) -> None:
    lines = m.runs.show("loops").splitlines()
    begins = next(k for k, line in enumerate(lines) if "for i" in line and "parallel" not in line)
    tests = [line for line in lines[begins:] if line.strip().startswith("if ")]
    assert len(tests) == 2, tests
