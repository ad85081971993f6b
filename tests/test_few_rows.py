"""Products of a few rows, with the other factor by rows and by columns, on every processor."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from kernels import products
from numpy.typing import NDArray

import naperian as nap
from naperian.backends.target import host
from naperian.dtypes import DType

Array = NDArray[Any]


def product(c: Array, a: Array, b: Array, add: int, level: str) -> int:
    """c (+)= a·b by the kernel, whatever the arrays' strides."""
    dtype = DType.F64 if c.dtype == np.float64 else DType.F32
    kernel = products(dtype, host(level)).symbols[f"nap_contract_f{dtype.bits}"]
    words = [ctypes.c_int64, ctypes.c_int64, ctypes.c_int64]
    words += [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64] * 3
    words += [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    call = ctypes.CFUNCTYPE(ctypes.c_int64, *words)(kernel)
    arrays = [w for x in (c, a, b) for w in (x.ctypes.data, *(s // x.itemsize for s in x.strides))]
    return call(*c.shape, a.shape[1], *arrays, None, None, 0, add)


@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
def test_few_rows(m: int, dtype: type, level: str) -> None:
    r = np.random.default_rng(m)
    for n in (1, 3, 7, 24, 25, 50, 131):
        for k in (0, 1, 7, 8, 31, 64, 65, 130, 300, 700):
            a, b = r.normal(size=(m, k)).astype(dtype), r.normal(size=(k, n)).astype(dtype)
            for left in (a, np.asfortranarray(a)):
                for right in (b, np.asfortranarray(b)):
                    for add in (0, 1):
                        # what lies beside the result, and between its rows, stays
                        whole = np.full((m, n + 9), 7.0, dtype)
                        c = whole[:, :n]
                        if not add:
                            c[:] = np.nan
                        assert product(c, left, right, add, level) == 0
                        want = left.astype(float) @ right.astype(float) + 7.0 * add
                        np.testing.assert_allclose(
                            c, want, atol=60 * (k + 8) ** 0.5 * np.finfo(dtype).eps
                        )
                        assert (whole[:, n:] == 7.0).all()


@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [3, 4, 5, 9, 30])
def test_wide_rows(m: int, dtype: type, level: str) -> None:
    """Of what does not stay near, rows are read as they lie, or some panels of them are copied."""
    r = np.random.default_rng(m)
    for n, k in ((1003, 700), (2048, 515), (517, 2100), (97, 3000)):
        a, b = r.normal(size=(m, k)).astype(dtype), r.normal(size=(k, n)).astype(dtype)
        whole = np.full((m, n + 9), 7.0, dtype)
        for add in (0, 1):
            assert product(whole[:, :n], a, b, add, level) == 0
        want = 2 * (a.astype(float) @ b.astype(float))
        limit = 200 * k**0.5 * np.finfo(dtype).eps
        np.testing.assert_allclose(whole[:, :n], want, atol=limit)
        assert (whole[:, n:] == 7.0).all()


def test_what_is_not_finite_stays_where_it_is() -> None:
    m = nap.compile("""
def along(a: m=>k=>Float, b: k=>n=>Float) -> m=>n=>Float = a @ b
def across(a: m=>k=>Float, b: n=>k=>Float) -> m=>n=>Float = a @ transpose(b)
""")
    r = np.random.default_rng(0)
    for rows in (1, 2, 4):
        a, b = r.normal(size=(rows, 203)), r.normal(size=(203, 101))
        b[202, 100], b[7, 3], a[-1, 5] = np.nan, np.inf, np.nan
        with np.errstate(all="ignore"):
            want = a @ b
        for got in (m.along(a, b), m.across(a, b.T.copy())):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 9])
def test_threads_do_not_change_bits(rows: int) -> None:
    m = nap.compile("""
def along(a: m=>k=>Float, b: k=>n=>Float) -> m=>n=>Float = a @ b
def across(a: m=>k=>Float, b: n=>k=>Float) -> m=>n=>Float = a @ transpose(b)
""")
    r = np.random.default_rng(0)
    a, b = r.normal(size=(rows, 1500)), r.normal(size=(1500, 2203))
    turned, before, found = b.T.copy(), nap.threads(), []
    for threads in (1, 2):
        nap.threads(threads)
        found.append((m.along(a, b), m.across(a, turned)))
    nap.threads(before)
    assert all(np.array_equal(x, y) for x, y in zip(*found, strict=True))
    np.testing.assert_allclose(found[0][0], a @ b, atol=1e-10)
    np.testing.assert_allclose(found[0][1], a @ b, atol=1e-10)


def test_products_of_a_few_columns_are_sums_in_registers() -> None:
    """Nothing is stored for the moments of points in space, and they are read once."""
    m = nap.compile("""
def moments(p: n=>Fin(3)=>Float, w: n=>Float) -> Fin(3)=>Fin(3)=>Float:
    d = [[p[i, a] - 0.5 for a] for i]
    [sum(w[i] * d[i, a] * d[i, b] for i) for a, b]
def between(p: n=>Fin(3)=>Float, q: n=>Fin(4)=>Float) -> Fin(3)=>Fin(4)=>Float = transpose(p) @ q
def more(p: n=>Fin(5)=>Float, q: n=>Fin(4)=>Float) -> Fin(5)=>Fin(4)=>Float = transpose(p) @ q
""")
    r = np.random.default_rng(0)
    p, q, w = r.random((50, 3)), r.random((50, 4)), r.random(50)
    np.testing.assert_allclose(m.moments(p, w), (w * (p.T - 0.5)) @ (p - 0.5), rtol=1e-12)
    np.testing.assert_allclose(m.between(p, q), p.T @ q, rtol=1e-12)
    for f in (m.moments, m.between):
        assert "contract" not in f.show("loops")
        assert "allocate" not in f.show("loops")
    assert "contract" in m.more.show("loops")
