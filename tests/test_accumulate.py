"""Accumulations in parallel: right, and the same bits at any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from kernels import array, at, call, loop, put

import naperian as nap
from naperian.dtypes import DType
from naperian.loops.check import check
from naperian.loops.syntax import Order, Program, Reduction, Update
from naperian.names import Var
from naperian.sizes import atom

PROGRAM = """
def histogram(key: n=>bins) -> bins=>Int = [sum(1 if key[i] == b else 0 for i) for b]

def weighted(key: n=>bins, w: n=>Float) -> bins=>Float =
    [sum(w[i] if key[i] == b else 0.0 for i) for b]

def columns(a: n=>m=>Float) -> m=>Float = [sum(a[i, j] for i) for j]

def total(x: n=>Float) -> Float = sum(x)
"""


@pytest.fixture(scope="module")
def program() -> Any:
    return nap.compile(PROGRAM)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = nap.threads()
    yield
    nap.threads(before)


def alike(f: Callable[[], Any]) -> Any:
    """What all numbers of threads give."""
    found = []
    for k in (1, 2, 3, 8):
        nap.threads(k)
        found.append(np.asarray(f()))
    assert len({a.tobytes() for a in found}) == 1
    return found[0]


@pytest.mark.parametrize("n", [0, 1, 1000, 300_000])
@pytest.mark.parametrize("bins", [1, 7, 256, 5000, 200_000])
def test_histograms(program: Any, n: int, bins: int) -> None:
    r = np.random.default_rng(n + bins)
    key, w = r.integers(0, bins, n), r.standard_normal(n)
    count = alike(lambda: program.histogram(key, bins=bins))
    np.testing.assert_array_equal(count, np.bincount(key, minlength=bins))
    got = alike(lambda: program.weighted(key, w, bins=bins))
    np.testing.assert_allclose(got, np.bincount(key, w, minlength=bins), atol=1e-12)


@pytest.mark.parametrize(
    "shape", [(0, 5), (5, 0), (1, 1), (3, 300_000), (300_000, 3), (700, 900)]
)
def test_columns(program: Any, shape: tuple[int, int]) -> None:
    a = np.random.default_rng(3).standard_normal(shape)
    np.testing.assert_allclose(alike(lambda: program.columns(a)), a.sum(axis=0), atol=1e-10)


def test_totals(program: Any) -> None:
    x = np.random.default_rng(4).standard_normal(1_000_003)
    np.testing.assert_allclose(alike(lambda: program.total(x)), x.sum(), rtol=1e-9)


@pytest.mark.parametrize(
    ("monoid", "dtype", "ufunc"),
    [
        ("add", DType.U8, np.add),
        ("mul", DType.I64, np.multiply),
        ("min", DType.F64, np.minimum),
        ("max", DType.F32, np.maximum),
        ("and", DType.BOOL, np.logical_and),
        ("or", DType.BOOL, np.logical_or),
    ],
)
def test_every_monoid(monoid: str, dtype: DType, ufunc: Any) -> None:
    """Copies of every kind; the array keeps what it held."""
    n, m, i, k = (Var(x) for x in "nmik")
    key, x = array("key", n, dtype=DType.I64), array("x", n, dtype=dtype)
    first, out = array("first", m, dtype=dtype), array("out", m, dtype=dtype, out=True)
    update = Update(out.var, (atom(at(key.var, i)),), monoid, at(x.var, i))
    shared = (Reduction(out.var, monoid, dtype),)
    p = Program(
        "keys",
        (n, m),
        (key, x, first, out),
        (
            loop(k, m, put(out.var, [k], at(first.var, k))),
            loop(i, n, update, order=Order.PARALLEL, reductions=shared),
        ),
    )
    r = np.random.default_rng(5)
    keys, start = r.integers(0, 37, 400_000), r.integers(0, 2, 37).astype(dtype.value)
    values = r.integers(0, 2, len(keys)).astype(dtype.value)
    want = start.copy()
    ufunc.at(want, keys, values)
    np.testing.assert_array_equal(alike(lambda: call(check(p), [keys, values, start])), want)
