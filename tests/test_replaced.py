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

def exchanged(x: Fin(n)=>Float, a: m=>Int, b: m=>Fin(n)) -> Fin(n)=>Float:
    loop s = x for t in m:
        i = clamp(a[t], Fin(n))
        [s[b[t]] + 1.0 if k == i else s[i] if k == b[t] else s[k] for k]

def rows_exchanged(x: Fin(h)=>Fin(w)=>Float, a: m=>Fin(h), b: m=>Fin(h)) -> Fin(h)=>Fin(w)=>Float:
    loop s = x for t in m:
        [s[b[t]] if k == a[t] else 2.0 * s[a[t]] if k == b[t] else s[k] for k]

def row_shifted(x: Fin(h)=>Fin(w)=>Float, r: m=>Fin(h)) -> Fin(h)=>Fin(w)=>Float:
    loop s = x for t in m:
        [[s[k, j] if k != r[t] else s[k, clamp(j + 1)] for j] for k]

def sorted(x: Fin(n)=>Float) -> Fin(n)=>Float:
    loop s = x for _ in Fin(n):
        loop s = s for j in Fin(n - 1):
            [s[j + 1] if k == j else s[j] if k == j + 1 else s[k] for k] if s[j] > s[j + 1] else s

def either(x: Fin(n)=>Float, at: m=>Fin(n)) -> Fin(n)=>Float:
    loop s = x for t in m:
        if s[at[t]] > 0.0:
            [s[k] / 2.0 if k == at[t] else s[k] for k]
        elif t < 20:
            [s[k] + 1.0 if k == clamp(at[t] + 1, Fin(n)) else s[k] for k]
        else:
            s

def corner(x: Fin(h)=>Fin(w)=>Float, r: m=>Fin(h), c: m=>Fin(w)) -> Fin(h)=>Fin(w)=>Float:
    loop s = x for t in m:
        [[s[k, j] + s[r[t], j] if j == c[t] else -s[k, j] if k == r[t] else s[k, j] for j] for k]

def divided(x: Fin(n)=>Float, at: m=>Fin(n)) -> Fin(n)=>Float:
    loop s = x for t in m:
        [0.5 if k == 0 else s[k - 1] if k == at[t] else s[k] for k]

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


@pytest.mark.parametrize("n", [1, 2, 3, 17])
def test_exchanged(m, n: int) -> None:
    r = np.random.default_rng(n)
    x, a, b = r.normal(size=n), r.integers(-2, n + 2, 30), r.integers(0, n, 30)
    want = x.copy()
    for i, k in zip(np.clip(a, 0, n - 1), b, strict=True):
        want[k], want[i] = (want[i], want[k] + 1.0)
    assert np.allclose(m.exchanged(x, a, b), want)
    assert np.array_equal(m.sorted(x), np.sort(x))

    want = x.copy()
    for t, k in enumerate(b):
        if want[k] > 0.0:
            want[k] /= 2.0
        elif t < 20:
            want[min(k + 1, n - 1)] += 1.0
    assert np.allclose(m.either(x, b), want)

    want = x.copy()
    for k in b:
        want[k] = want[k - 1]
        want[0] = 0.5
    assert np.allclose(m.divided(x, b), want)

    rows, a = r.normal(size=(n, 5)), np.clip(a, 0, n - 1)
    want = rows.copy()
    for i, k in zip(a, b, strict=True):
        first, second = want[k].copy(), 2.0 * want[i]
        want[k] = second
        want[i] = first
    assert np.allclose(m.rows_exchanged(rows, a, b), want)

    want = rows.copy()
    for i in a:
        want[i] = want[i, [1, 2, 3, 4, 4]]
    assert np.allclose(m.row_shifted(rows, a), want)

    want, c = rows.copy(), r.integers(0, 5, 30)
    for i, j in zip(a, c, strict=True):
        old = want.copy()
        want[i] = -old[i]
        want[:, j] = old[:, j] + old[i, j]
    assert np.allclose(m.corner(rows, a, c), want)


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
    for f in (m.exchanged, m.rows_exchanged, m.row_shifted, m.sorted, m.either, m.corner):
        assert "select" not in f.show("prune")
    assert "select" in m.few.show("prune")
