"""Rows in order, as the service puts them: every width, length and sort of row, on every processor
that this one can be."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import naperian as nap
from naperian.backends.kernel import link
from naperian.backends.llvm import compile_ir
from naperian.backends.orders import rows
from naperian.backends.orders.calls import SORTED, Row
from naperian.backends.runtime import runtime
from naperian.backends.target import Target, host
from naperian.dtypes import DType
from naperian.prims import in_order, places_in_order

Array = np.ndarray[Any, Any]
KINDS = [Row(d, places) for d in SORTED for places in (False, True)]
LENGTHS = [*range(36), 63, 64, 65, 127, 128, 129, 255, 256, 257, 300, 511, 512, 513, 1001, 4097]


@cache
def service(row: Row, level: str | None = None) -> Callable[[Array, int, int], Array]:
    """The service as a function of a row, and of how far apart elements are there and here."""
    target = host(level)
    image = compile_ir(rows.row_module(row, target), target)
    library = link(image, (row.symbol,), runtime().services)
    word, pointer = ctypes.c_int64, ctypes.c_void_p
    entry = ctypes.CFUNCTYPE(word, word, pointer, word, pointer, word)(library.symbols[row.symbol])

    def call(x: Array, there: int = 1, here: int = 1) -> Array:
        assert library
        n = len(x[::here])
        to = np.full((n + 1) * there, 77, "i8" if row.places else row.dtype.value)
        assert entry(n, to.ctypes.data, there, x.ctypes.data, here) == 0
        assert (to[n * there :] == 77).all()
        assert (np.delete(to, np.s_[: n * there : there]) == 77).all()
        return to[: n * there : there]

    return call


def examples(dtype: DType, n: int) -> Iterator[Array]:
    rng, kind = np.random.default_rng(n), dtype.value
    low, high = (-(2**40), 2**40) if dtype.bits == 64 else (-(2**20), 2**20)
    yield rng.integers(low, high, n).astype(kind)
    for x in (np.arange(n), np.arange(n)[::-1], np.zeros(n), rng.integers(0, 3, n)):
        yield x.astype(kind)
    yield np.abs(np.arange(n) - n // 2).astype(kind)
    if dtype.is_float:
        special = np.array([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1e-40, -1.5], kind)
        yield special[rng.integers(0, len(special), n)]
        yield rng.standard_normal(n).astype(kind)
    else:
        ends = np.array([np.iinfo(kind).min, np.iinfo(kind).max, -1, 0], kind)
        yield ends[rng.integers(0, len(ends), n)]


def wanted(row: Row, x: Array) -> Array:
    return np.asarray((places_in_order if row.places else in_order)(x, row.dtype))


def agrees(row: Row, level: str | None, lengths: list[int]) -> None:
    call = service(row, level)
    for n in lengths:
        for x in examples(row.dtype, n):
            assert call(x).tobytes() == wanted(row, x).tobytes(), n


@pytest.mark.parametrize("row", KINDS, ids=lambda r: r.symbol)
def test_rows(row: Row) -> None:
    agrees(row, None, LENGTHS)


@pytest.mark.parametrize("level", ["avx2", "baseline"])
@pytest.mark.parametrize("row", KINDS, ids=lambda r: r.symbol)
def test_rows_of_old_processors(row: Row, level: str) -> None:
    agrees(row, level, [*range(0, 36, 3), 65, 129, 250, 1001])


@pytest.mark.parametrize("row", KINDS, ids=lambda r: r.symbol)
def test_other_processors_have_code(row: Row) -> None:
    for triple in ("aarch64-unknown-linux-gnu", "arm64-apple-darwin"):
        target = Target(triple, "generic", "", 16, 32)
        assert compile_ir(rows.row_module(row, target), target)


@pytest.mark.parametrize("row", KINDS, ids=lambda r: r.symbol)
def test_columns(row: Row) -> None:
    """Elements that are not side by side."""
    call = service(row)
    for n in (1, 7, 40, 500):
        for x in examples(row.dtype, 3 * n):
            assert call(x, 2, 3).tobytes() == wanted(row, x[::3]).tobytes()


@pytest.mark.parametrize("row", KINDS[:2], ids=lambda r: r.symbol)
def test_bad_pivots(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has been parted too often is merged."""
    monkeypatch.setattr(rows, "DEPTH", 0)
    service.cache_clear()
    agrees(row, None, [1, 200, 1001, 4097])
    service.cache_clear()


def test_threads_make_no_difference() -> None:
    m = nap.compile("""
def values(x: Fin(n)=>Float) -> Fin(n)=>Float = sort(x)
def places(x: Fin(n)=>Float) -> Fin(n)=>Fin(n) = argsort(x)
""")
    before = nap.threads()
    try:
        for x in (np.random.default_rng(0).standard_normal(300_001), np.arange(2.0**18) // 1000):
            for threads in (1, 2, 5):
                nap.threads(threads)
                assert m.values(x).tobytes() == np.sort(x).tobytes()
                assert np.array_equal(m.places(x), np.argsort(x, kind="stable"))
    finally:
        nap.threads(before)


def test_rows_of_any_length() -> None:
    """A few are sorted in loops where that is known, by the service where not."""
    text = "def dynamic(x: Fin(m)=>Fin(n)=>Float) -> Fin(m)=>Fin(n)=>Float = sort(x)\n"
    fixed = "def of{n}(x: Fin(m)=>Fin({n})=>Float) -> Fin(m)=>Fin({n})=>Float = sort(x)\n"
    m = nap.compile(text + "".join(fixed.format(n=n) for n in (1, 2, 5, 9, 10, 33)))
    for n in (1, 2, 5, 9, 10, 33):
        x = np.random.default_rng(n).standard_normal((50, n))
        for f in (m.dynamic, getattr(m, f"of{n}")):
            assert np.array_equal(f(x), np.sort(x))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_derivatives_follow_the_elements(dtype: str) -> None:
    f = nap.compile(
        "def spread(x: Fin(n)=>Float, w: Fin(n)=>Float) -> Float = dot(w, sort(x))"
    ).spread
    rng = np.random.default_rng(0)
    x, w = (rng.permutation(100).astype(dtype) for _ in range(2))
    back = np.empty_like(w)
    back[np.argsort(x)] = w
    assert np.array_equal(nap.grad(f)(x, w), back)
    _, slope = nap.jvp(f)(x, w, np.ones_like(x))
    assert slope == w.sum()


def test_unsigned_rows_are_as_wide_as_they_are() -> None:
    f = nap.compile("def f(x: n=>U32) -> n=>U32 = sort(x)").f
    x = np.random.default_rng(0).integers(0, 2**32, 1001).astype(np.uint32)
    x[[3, 500, 999]] = 0, 2**31, 2**32 - 1
    assert np.array_equal(f(x), np.sort(x))
    assert "nap_row_sort_i32" in f.show("llvm")
