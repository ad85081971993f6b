"""A round that replaces one element of a carried table, or one row, changes it in place."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

TEXT = """
def if_there(x: Fin(n)=>Float, at: m=>Int, v: m=>Float) -> Fin(n)=>Float:
    loop s = x for t in m:
        [s[a] * v[t] + x[a] + s[clamp(a + 1)] if a == at[t] else s[a] for a]

def row(x: Fin(h)=>Fin(w)=>Float, r: m=>Fin(h)) -> Fin(h)=>Fin(w)=>Float:
    loop s = x for t in m:
        [[s[clamp(a - 1), j] - max(s[a]) if r[t] == a else s[a, j] for j] for a]

def few(x: Fin(8)=>Float, at: m=>Fin(8)) -> Fin(8)=>Float:
    loop s = x for t in m:
        [s[a] + 1.0 if a == at[t] else s[a] for a]

def total(x: Fin(n)=>Float, at: m=>Int, v: m=>Float) -> Float = sum(if_there(x, at, v) ** 2)
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


@pytest.mark.parametrize("n", [0, 1, 2, 17])
def test_what_is_replaced(m, n: int) -> None:
    r = np.random.default_rng(n)
    x, at, v = r.normal(size=n), r.integers(-3, n + 3, 30), r.normal(size=30)
    want = x.copy()
    for k, y in zip(at, v, strict=True):
        if 0 <= k < n:
            want[k] = want[k] * y + x[k] + want[min(k + 1, n - 1)]
    assert np.allclose(m.if_there(x, at, v), want, rtol=1e-9)
    if n:
        rows, which = r.normal(size=(n, 3)), r.integers(0, n, 30)
        want = rows.copy()
        for k in which:
            want[k] = want[max(k - 1, 0)] - want[k].max()
        assert np.allclose(m.row(rows, which), want)


def test_gradient(m) -> None:
    r = np.random.default_rng(0)
    x, at, v = r.normal(size=5), r.integers(-1, 6, 12), r.normal(size=12)
    g = nap.grad(m.total)(x, at, v)
    for k in range(5):
        d = np.eye(5)[k] * 1e-6
        slope = (m.total(x + d, at, v) - m.total(x - d, at, v)) / 2e-6
        assert np.isclose(g[k], slope, rtol=1e-4)


def test_what_is_in_place(m) -> None:
    """A round goes over the table only where that is as good: of eight elements."""
    assert "source" not in m.row.show("loops")
    assert m.if_there.show("loops").count("in 0..n:") == 1  # to begin with
    assert "select" not in m.if_there.show("prune")
    assert "select" in m.few.show("prune")
