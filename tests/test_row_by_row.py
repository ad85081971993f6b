"""What rows have together, or what a condition keeps of them, is stored where it belongs, row by
row: nobody writes down whose an element is, and looks it up."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

TEXT = """
def repeated(v: k=>Float, c: k=>Int) = [v[i] for i in k, _ in 0..c[i] if True]
def numbered(v: k=>Float, c: k=>Int) = [(i, Int(j), v[i] + j) for i in k, j in 0..c[i] if True]
def flattened(rows: n=>(exists k. Fin(k)=>Float)) = [v for r in rows, v in r if True]
def halves(rows: n=>(exists k. Fin(k)=>Float)) = [0.5 * v for r in rows, v in r if v > 0.0]
def total(v: k=>Float, c: k=>Int) -> Float:
    y = [v[i] * v[i] for i in k, _ in 0..c[i] if True]
    sum(y)
def weighed(v: k=>Float, c: k=>Int, w: Fin(3)=>Float) -> Float:
    y = [v[i] * (j + 1) for i in k, j in 0..c[i] if True]
    sum(y[q] * w[clamp(q)] for q)
def both(v: k=>Float, c: k=>Int):
    y = [v[i] for i in k, _ in 0..c[i] if True]
    (y, [y[reverse_of(q, size(y))] for q], sum(y))
def reverse_of(q: Fin(n), m: Int) -> Fin(n) = clamp(m - 1 - q)
def triplets(rows: Fin(n + 1)=>Fin(e + 1), vals: Fin(e)=>Float) =
    [(i, Int(k), vals[k]) for i in Fin(n), k in rows[i]..rows[i + 1] if vals[k] > 0.0]
def rises(x: n=>Float) = [x[j] - x[i] for i in n, j in i<.. if x[i] < x[j]]
def places(x: n=>Float) = [(i, Int(j)) for i in n, j in i<.. if x[i] < x[j]]
def thirds(x: n=>Float) = [x[i] + x[j] * x[k] for i in n, j in i<.., k in j<.. if x[i] < x[k]]
def flags(x: n=>Float) = [x[j] > 1.0 for i in n, j in i<.. if x[i] < x[j]]
def least(x: Fin(n)=>Float) -> (Int, Int) =
    argmin(x[i] * x[j] for i in Fin(n), j in 0..i if x[i] < x[j])
def leasts(xs: m=>Fin(n)=>Float) -> m=>(Int, Int) = [least(x) for x in xs]
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def _rows(r, n):
    c = r.integers(-1, 5, n)
    v = np.where(r.random(n) < 0.2, -0.0, np.round(r.normal(size=n), 1))
    return v, c


@pytest.mark.parametrize("n", [0, 1, 2, 7, 40])
def test_rows_of_counts(m, n: int) -> None:
    r = np.random.default_rng(n)
    v, c = _rows(r, n)
    own = np.maximum(c, 0)
    want = np.repeat(v, own)
    got = m.repeated(v, c)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    i, j, x = m.numbered(v, c)
    inner = np.concatenate([np.arange(k) for k in own]) if n else np.zeros(0)
    for a, b in zip((i, j, x), (np.repeat(np.arange(n), own), inner, want + inner), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(m.total(v, c), (want * want).sum(), rtol=1e-12)
    np.testing.assert_allclose(nap.grad(m.total)(v, c), 2 * v * own, rtol=1e-12)
    w = r.normal(size=3)
    there = np.minimum(np.arange(len(want)), 2)
    np.testing.assert_allclose(m.weighed(v, c, w), (want * (inner + 1) * w[there]).sum(), atol=1e-9)
    y, back, s = m.both(v, c)
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(back, want[::-1])
    np.testing.assert_allclose(s, want.sum(), atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 40])
@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_kept_of_rows(m, n: int, threads: int) -> None:
    r = np.random.default_rng(n)
    before = nap.threads()
    nap.threads(threads)
    try:
        rows = [np.round(r.normal(size=r.integers(0, 6)), 1) for _ in range(n)]
        flat = np.concatenate(rows) if n else np.zeros(0)
        if n:
            np.testing.assert_array_equal(m.flattened(rows), flat)
            np.testing.assert_array_equal(m.halves(rows), 0.5 * flat[flat > 0])
        ends = np.concatenate([[0], np.cumsum([len(x) for x in rows])]).astype(np.int64)
        row, place, value = m.triplets(ends, flat)
        np.testing.assert_array_equal(place, np.flatnonzero(flat > 0))
        np.testing.assert_array_equal(value, flat[flat > 0])
        np.testing.assert_array_equal(row, np.searchsorted(ends, place, side="right") - 1)
        x = np.round(r.normal(size=n), 1)
        if n > 3:
            x[2] = np.nan
        some = [(i, j) for i in range(n) for j in range(i + 1, n) if x[i] < x[j]]
        np.testing.assert_array_equal(m.rises(x), [x[j] - x[i] for i, j in some])
        both = np.transpose(m.places(x)).reshape(-1, 2)
        np.testing.assert_array_equal(both, np.reshape(some, (-1, 2)))
        np.testing.assert_array_equal(m.flags(x), [x[j] > 1 for _, j in some])
        if n < 10:
            three = [x[i] + x[j] * x[k] for i in range(n) for j in range(i + 1, n)
                     for k in range(j + 1, n) if x[i] < x[k]]
            np.testing.assert_allclose(m.thirds(x), three)
    finally:
        nap.threads(before)


def test_nobody_looks_up_rows(m) -> None:
    """One loop over rows stores the result, and no array says which row an element is of."""
    for f in (m.repeated, m.flattened, m.halves, m.rises, m.triplets):
        text = f.show("loops")
        assert "update" not in text, f
    for f in (m.halves, m.rises):
        assert f.show("loops").count("allocate") == 3, f  # counts, their sums, and the result
    assert "allocate" not in m.total.show("loops")


@pytest.mark.parametrize("n", [2, 3, 5, 9])
def test_where_the_best_of_rows_is(m, n: int) -> None:
    """The place of a best one is among all: it is asked for in one loop."""
    x = np.random.default_rng(n).permutation(n) - 1.5
    kept = [(x[i] * x[j], i, j) for i in range(n) for j in range(i) if x[i] < x[j]]
    if kept:
        assert m.least(x) == min(kept)[1:]
        i, j = m.leasts(np.array([x, x]))
        assert [*zip(i, j, strict=True)] == [min(kept)[1:]] * 2
    else:
        with pytest.raises(AssertionError, match="`argmin` of nothing"):
            m.least(x)
