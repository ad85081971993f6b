"""The first place where something holds is found stretch by stretch, as it was place by place."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap
from naperian.backends.seeking import STRETCH

TEXT = """
def top(x: n=>Float) = argmax(x)
def least(x: n=>U8) = argmin(x)
def place(x: Fin(n)=>Int, k: Int) -> Int = min([Int(i) if x[i] == k else Int(n) for i])
def rows(x: m=>Fin(n)=>Float) = [argmax(x[i]) for i]
"""
LENGTHS = [1, 7, 64, STRETCH - 1, STRETCH, STRETCH + 1, 3 * STRETCH, 3 * STRETCH + 5, 200_000]


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


@pytest.mark.parametrize("n", LENGTHS)
def test_places(m, n: int) -> None:
    r = np.random.default_rng(n)
    for at in {0, n // 2, n - 1, *r.integers(0, n, 3).tolist()}:
        x = r.uniform(size=n)
        x[at] = x[min(n - 1, at + 9)] = 2.0
        assert int(m.top(x)) == at
        x[at] = np.nan
        assert int(m.top(x)) == at
        b = r.integers(3, 99, n).astype(np.uint8)
        b[at] = b[-1] = 1
        assert int(m.least(b)) == at
        k = np.zeros(n, int)
        k[at:] = 4
        assert m.place(k, 4) == at
        assert m.place(k, 5) == n
    assert m.rows(r.uniform(size=(3, n))).shape == (3,)


def test_nothing_and_all_alike(m) -> None:
    assert int(m.top(np.full(5 * STRETCH, -np.inf))) == 0
    assert m.place(np.zeros(0, int), 0) == m.place(np.zeros(0, int), 1)


def test_two_threads(m) -> None:
    x = np.zeros(1_000_000)
    x[[700_001, 900_000]] = 1.0
    before = nap.threads()
    try:
        found = []
        for threads in (1, 2):
            nap.threads(threads)
            found.append(int(m.top(x)))
    finally:
        nap.threads(before)
    assert found == [700_001, 700_001]


def test_chunks_behind_what_is_found_have_nothing_to_do(m) -> None:
    """And what they leave out does not matter, whichever thread is first."""
    assert "load atomic i64" in m.top.show("llvm")
    x = np.zeros(1_000_000, np.uint8)
    x[[3, 400_000, 700_001, 999_999]] = 9
    places = nap.compile("def top(x: n=>U8) = argmax(x)").top
    before = nap.threads()
    try:
        for threads in (1, 2):
            nap.threads(threads)
            for at in (3, 400_000, 700_001, 999_999):
                assert all(int(places(x)) == at for _ in range(20))
                x[at] = 0
            x[[3, 400_000, 700_001, 999_999]] = 9
    finally:
        nap.threads(before)
