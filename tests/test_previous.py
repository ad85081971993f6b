"""Scans: what a round stores is read by the next one, and what a scan gives is kept as it is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import naperian as nap

TEXT = """
def down(x: n=>m=>Float) -> n=>m=>Float = transpose(cumsum(transpose(x)))
def integral(x: n=>m=>Float) -> n=>m=>Float = transpose(cumsum(transpose(cumsum(x))))
def faded(x: n=>m=>Float, start: m=>Float) -> n=>m=>Float =
    transpose([scan(lambda a, e: 0.5 * a + e, start[j], [x[i, j] for i]) for j])
def two(x: n=>m=>Float) -> (n=>m=>Float, n=>m=>Float) =
    ([scan(lambda a, e: max(a, e), -inf, [x[i, j] for i])[k] for k, j],
     transpose(cumsum(transpose(x))))
def counts(x: n=>m=>Int) -> n=>m=>Int = transpose(cumsum(transpose(x)))
def with_last(x: n=>m=>Float) -> (n=>m=>Float, m=>Float):
    s = cumsum(transpose(x))
    (transpose(s), [sum(x[i, j] for i) + 2.0 * fold((+), 0.0, [x[i, j] for i]) for j])
def backwards(x: n=>m=>Float) -> n=>m=>Float:
    s = [cumsum([x[i, j] for i]) for j]
    reversed = [s[j, i] for i, j]
    [2.0 * reversed[i, j] + s[j, i] * x[i, j] for i, j]
def both(x: n=>m=>Float) -> (m=>n=>Float, m=>n=>Float):
    ([scan_exclusive((+), 0.0, [x[i, j] for i]) for j], [cumsum([x[i, j] for i]) for j])
"""


@pytest.fixture(scope="module", params=["default", "strict"])
def m(request: pytest.FixtureRequest):
    return nap.compile(TEXT, math=request.param)


def summed(x: NDArray, axis: int) -> NDArray:
    """Sums in the precision of the elements, one after the other."""
    out = x.copy()
    rows = np.moveaxis(out, axis, 0)
    for i in range(1, len(rows)):
        rows[i] += rows[i - 1]
    return out


@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("columns", [0, 1, 15, 16, 37, 512, 1100])
def test_scans(m, columns: int, dtype: type, threads: None) -> None:
    r = np.random.default_rng(columns)
    for rows in (0, 1, 2, 3, 50):
        x = r.normal(size=(rows, columns)).astype(dtype)
        start = r.normal(size=columns).astype(dtype)
        if x.size:
            x[-1, 0] = np.nan
        assert np.array_equal(m.down(x), summed(x, 0), equal_nan=True)
        assert np.array_equal(m.integral(x), summed(summed(x, 1), 0), equal_nan=True)
        faded, a = np.empty_like(x), start
        for i in range(rows):
            faded[i] = a = dtype(0.5) * a + x[i]
        assert np.allclose(m.faded(x, start), faded, rtol=4 * np.finfo(dtype).eps, equal_nan=True)
        most, sums = m.two(x)
        if rows:
            assert np.array_equal(most, np.maximum.accumulate(x, 0), equal_nan=True)
        assert np.array_equal(sums, summed(x, 0), equal_nan=True)
        whole = np.int64(np.nan_to_num(10 * x))
        assert np.array_equal(m.counts(whole), whole.cumsum(0))
        all_, last = m.with_last(x)
        assert np.array_equal(all_, summed(x, 0), equal_nan=True)
        assert np.allclose(last, 3 * x.sum(0), atol=1e-3, equal_nan=True)
        want = 2 * summed(x, 0) + summed(x, 0) * x
        assert np.allclose(m.backwards(x), want, rtol=4 * np.finfo(dtype).eps, equal_nan=True)
        before, after = m.both(x)
        assert np.array_equal(after.T, summed(x, 0), equal_nan=True)
        assert np.array_equal(before.T[1:], summed(x, 0)[:-1], equal_nan=True)


def test_a_row_is_read_from_the_one_before() -> None:
    told = nap.compile(TEXT).down.show("loops")
    assert "before: f64 = out[t_2 - 1, i]" in told
    assert "small acc: f64[512]" not in told


def test_a_scan_that_others_read_is_kept_as_it_is() -> None:
    told = nap.compile(TEXT).integral.show("loops")
    assert "* `v` lies in the memory of `out`" in told
    assert "allocate v" not in told


LEAST = """
def warped(x: Fin(n)=>Float, y: Fin(m)=>Float) -> Fin(n + 1)=>Fin(m + 1)=>Float:
    with state([[0.0 if i == 0 or j == 0 else 9.0 for j in Fin(m + 1)] for i in Fin(n + 1)]) as d:
        for i in Fin(n):
            for j in Fin(m):
                d[i + 1, j + 1] := (x[i] - y[j]) ** 2 + min(d[i, j], min(d[i, j + 1], d[i + 1, j]))

def risen(x: Fin(n)=>Float, y: Fin(n)=>Float) -> Fin(n + 1)=>Float:
    with state([0.0 for _ in Fin(n + 1)]) as s:
        for i in Fin(n): s[i + 1] := x[i] - max(y[i], s[i])
"""


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_added_to_the_least_is_a_nan_where_one_of_them_is(dtype: type) -> None:
    m, r = nap.compile(LEAST), np.random.default_rng(2)
    x, y = r.normal(size=(2, 40)).astype(dtype)
    y[7] = x[30] = np.nan
    y[21] = np.inf
    d = np.full((41, 41), 9, dtype)
    d[0] = d[:, 0] = 0
    s = np.zeros(41, dtype)
    with np.errstate(invalid="ignore"):
        for i in range(40):
            s[i + 1] = x[i] - np.maximum(y[i], s[i])
            for j in range(40):
                least = np.minimum(d[i, j], np.minimum(d[i, j + 1], d[i + 1, j]))
                d[i + 1, j + 1] = (x[i] - y[j]) ** 2 + least
    np.testing.assert_allclose(m.warped(x, y), d, rtol=1e-5 if dtype is np.float32 else 1e-13)
    np.testing.assert_array_equal(m.risen(x, y), s)
