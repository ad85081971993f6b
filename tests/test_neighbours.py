"""Neighbours of elements that data name are found without a division."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

TEXT = """
def sums(x: Fin(n)=>Float, a: t=>Fin(n)) -> t=>Float =
    [x[wrap(a[k] - 1)] + 2 * x[wrap(a[k] + 1)] for k]

def far(x: Fin(n)=>Float, a: t=>Fin(n)) -> t=>Float = [x[wrap(a[k] + 2)] for k]

def other(x: Fin(m)=>Float, a: t=>Fin(n)) -> t=>Float = [x[wrap(a[k] + 1)] for k]

def sweep(s: Fin(n)=>Fin(n)=>Int, a: t=>Fin(n), b: t=>Fin(n)) -> Fin(n)=>Fin(n)=>Int:
    with state(s) as g:
        for k in t:
            i = a[k]
            j = b[k]
            around = g[wrap(i - 1), j] + g[wrap(i + 1), j] + g[i, wrap(j - 1)] + g[i, wrap(j + 1)]
            if g[i, j] * around < 3: g[wrap(i + 1), j] := -g[i, wrap(j - 1)]
"""


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("n", [1, 2, 3, 7, 64])
def test_values(n: int) -> None:
    m = nap.compile(TEXT)
    r = np.random.default_rng(n)
    x, a = r.normal(size=n), r.integers(0, n, 100)
    a[:2] = 0, n - 1
    assert np.array_equal(m.sums(x, a), x[(a - 1) % n] + 2 * x[(a + 1) % n])
    assert np.array_equal(m.far(x, a), x[(a + 2) % n])
    y = r.normal(size=n + 3)
    assert np.array_equal(m.other(y[:2], a, n=n), y[:2][(a + 1) % 2])
    s, b = r.choice([-1, 1], (n, n)), r.integers(0, n, 100)
    g = s.copy()
    for i, j in zip(a, b, strict=True):
        up, down, left, right = (i - 1) % n, (i + 1) % n, (j - 1) % n, (j + 1) % n
        if g[i, j] * (g[up, j] + g[down, j] + g[i, left] + g[i, right]) < 3:
            g[down, j] = -g[i, left]
    assert np.array_equal(m.sweep(s, a, b), g)


def test_of_nothing_there_are_none() -> None:
    m = nap.compile(TEXT)
    assert m.sums(np.zeros(0), np.zeros(0, int)).size == 0


def test_no_division() -> None:
    m = nap.compile(TEXT)
    for name in ("sums", "sweep"):
        assert "wrap(a" not in m[name].show("loops")
    assert "wrap(" in m.far.show("loops")
    assert "wrap(" in m.other.show("loops")
