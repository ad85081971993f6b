"""What only some rounds of a vector loop write, all write where they may: values stay, and nothing
beyond an array's end is touched."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap
from naperian import pipeline
from naperian.backends.emit import emit
from naperian.backends.llvm import assembly
from naperian.backends.target import host
from naperian.dtypes import DType
from naperian.source import Source
from naperian.substitution import Substitution
from naperian.types import Scalar

TEXT = """
def shortest(d: n=>n=>Float) -> n=>n=>Float:
    with state(d) as d:
        for k in n, i in n, j in n:
            if d[i, k] + d[k, j] < d[i, j]: d[i, j] := d[i, k] + d[k, j]

def best(x: n=>m=>Float) -> (m=>Float, m=>Int):
    with state([-inf for _ in m]) as top, state([0 for _ in m]) as at:
        for i in n, j in m:
            if x[i, j] > top[j]:
                top[j] := x[i, j]
                at[j] := Int(i)

def counted(x: n=>m=>Float, y: m=>Int) -> m=>Int:
    with state(y) as s:
        for i in n, j in m:
            if x[i, j] > 0.5: s[j] += 1

def summed(x: n=>m=>Float) -> m=>Float:
    with accum() as s:
        for i, j:
            if x[i, j] > 0: s[j] += x[i, j]

def largest(x: n=>m=>Float, limit: Float) -> m=>Float:
    with accum(max) as s:
        for i, j:
            if x[i, j] < limit: s[j] += x[i, j]

def set_(x: n=>Float, y: n=>Float) -> n=>Float:
    with state(y) as s:
        for i:
            if x[i] > 0: s[i] := x[i]

# Not every element is there.
def later(x: Fin(n)=>Float, y: Fin(m)=>Float) -> Fin(m)=>Float:
    with state(y) as s:
        for i in Fin(n):
            if i < m and x[i] > 0: s[i] := x[i]

# Two rounds may want one element.
def folded(x: Fin(n)=>Float, y: Fin(n)=>Float) -> Fin(n)=>Float:
    with state(y) as s:
        for i in Fin(n):
            if x[i] > 0: s[i] := x[i]
            if x[i] < 0: s[n - 1 - i] := x[i]

# What is written first is what the second condition asks.
def twice(x: n=>Float) -> n=>Float:
    with state(x) as s:
        for i:
            if s[i] < 0: s[i] := -s[i]
            if s[i] > 1: s[i] := 1.0
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def values(*shape: int, dtype: str = "f8") -> np.ndarray:
    """Numbers with what comparisons and sums treat apart."""
    r = np.random.default_rng(sum(shape))
    x = r.standard_normal(shape)
    odd = r.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], shape)
    return np.where(r.uniform(size=shape) < 0.2, odd, x).astype(dtype)


def same(a, b) -> None:
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype
    assert np.array_equal(a, b, equal_nan=True)
    assert np.array_equal(np.signbit(a)[~np.isnan(a)], np.signbit(b)[~np.isnan(b)])


pytestmark = pytest.mark.filterwarnings("ignore:invalid value")
SIZES = [0, 1, 2, 3, 4, 7, 8, 9, 16, 31, 33, 70]


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("n", SIZES)
def test_elements_are_replaced_where_a_condition_holds(m, n: int, dtype: str) -> None:
    x, y = values(n, dtype=dtype), values(2, n, dtype=dtype)[1]
    same(m.set_(x, y), np.where(x > 0, x, y))
    want = np.where(x < 0, -x, x)
    same(m.twice(x), np.where(want > 1, want.dtype.type(1), want))
    for k in (0, max(0, n - 3), n, n + 3):
        z = values(k + 1, dtype=dtype)[1:]
        want = z.copy()
        for i in range(min(n, k)):
            want[i] = x[i] if x[i] > 0 else z[i]
        same(m.later(x, z), want)
    want = y.copy()
    for i in range(n):
        if x[i] > 0:
            want[i] = x[i]
        if x[i] < 0:
            want[n - 1 - i] = x[i]
    same(m.folded(x, y), want)


@pytest.mark.parametrize("n", [0, 1, 5, 30])
@pytest.mark.parametrize("k", SIZES)
def test_columns_are_added_to_where_a_condition_holds(m, n: int, k: int) -> None:
    x = values(n, k)
    top, at, count, total = np.full(k, -np.inf), np.zeros(k, int), np.arange(k), np.zeros(k)
    for i in range(n):
        better = x[i] > top
        top, at = np.where(better, x[i], top), np.where(better, i, at)
        count = count + (x[i] > 0.5)
        total = np.where(x[i] > 0, total + x[i], total)
    same(m.best(x)[0], top)
    same(m.best(x)[1], at)
    same(m.counted(x, np.arange(k)), count)
    assert np.allclose(m.summed(x), total, equal_nan=True)
    same(m.largest(x, 0.5), np.where(x < 0.5, x, -np.inf).max(0, initial=-np.inf))


@pytest.mark.parametrize("n", SIZES)
def test_shortest_ways(m, n: int) -> None:
    d = values(n, n)
    want = d.copy()
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if want[i, k] + want[k, j] < want[i, j]:
                    want[i, j] = want[i, k] + want[k, j]
    same(m.shortest(d), want)


@pytest.mark.parametrize("name", ["best", "counted", "summed", "set_", "twice"])
def test_no_vector_is_stored_by_a_mask(name: str) -> None:
    """Without registers for masks that takes as long as twelve stores on some processors."""
    module, wrong = pipeline.front(Source("<text>", TEXT))
    assert module is not None, wrong
    kinds = {t.var: Scalar(DType.F64) for t in module.definitions[name].types}
    program = pipeline.lower(module, name, Substitution(kinds, {}, {}))
    listing = assembly(emit(program, host("avx2")), host("avx2"))
    assert "ymm" in listing
    assert "maskmov" not in listing


CHOICES = """
def chosen(x: n=>Float, y: n=>Float, k: Int) -> Float:
    loop v = x for _ in Fin(k):
        for i:
            (a, b) = (v[i], v[wrap(i + 1)])
            if a >= 0.1: a * y[i]
            else:
                if b <= 0.2: b * y[i]
                else: (a * b - y[i] * a) / (b + y[i])
    sum(v)
"""


def test_a_value_that_hangs_on_two_conditions_is_computed_in_lanes() -> None:
    """Beside the ends, where nothing is asked before what lies there is read."""
    m = nap.compile(CHOICES)
    text = nap.grad(m.chosen, wrt=("x", "y")).show("loops")
    assert re.search(r"holds_2: bool = holds and not\(v_\d+\[i_\d+ - 1\]\)", text)
    assert nap.check(m.chosen)
