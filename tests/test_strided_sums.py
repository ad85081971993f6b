"""Sums of what lies a row apart are vectors of elements that are read one by one, and several rows
that are added to one load and store it once; nothing of it is left to LLVM's vectoriser."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import naperian as nap
from naperian import pipeline
from naperian.backends.emit import emit
from naperian.backends.llvm import is_left
from naperian.backends.target import host
from naperian.backends.updates import until
from naperian.dtypes import DType
from naperian.loops.syntax import Let, Load, Local, Store, Update
from naperian.names import Lit, Var
from naperian.sizes import size
from naperian.source import Source
from naperian.substitution import Substitution
from naperian.types import F64

TEXT = """
def column(x: n=>m=>Float, j: m) -> Float = sum(x[i, j] for i)
def dot(x: n=>m=>Float, y: n=>Float, j: m) -> Float = sum(x[i, j] * y[i] for i)
def back(x: n=>m=>Float, y: n=>Float, j: m) -> Float = sum(x[wrap(-1 - i), j] * y[i] for i)
def least(x: n=>m=>Float, j: m) -> Float = min(x[i, j] for i)
def two(x: n=>m=>Float, j: m) -> (Float, Float) =
    (sum(x[i, j] for i), sum(x[i, j] * x[i, j] for i))
def rows(x: n=>m=>Float, y: n=>Float) -> m=>Float = [sum(x[i, j] * y[i] for i) for j]
def highest(x: n=>m=>Float) -> m=>Float = [max(x[i, j] for i) for j]
"""

EXACT = """
def column(x: n=>m=>Int, j: m) -> Int = sum(x[i, j] for i)
def single(x: n=>m=>F32, j: m) -> F32 = sum(x[i, j] for i)
def rows(x: n=>m=>Int) -> m=>Int = [sum(x[i, j] for i) for j]
def odd(x: n=>m=>Bool) -> m=>Int = [sum(1 if x[i, j] else 0 for i) for j]

@strict
def in_order(x: n=>m=>Float, j: m) -> Float = sum(x[i, j] for i)
@strict
def all_in_order(x: n=>m=>Float) -> m=>Float = [sum(x[i, j] for i) for j]
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


@pytest.fixture(scope="module")
def exact():
    return nap.compile(EXACT)


@pytest.mark.parametrize("width", [1, 2, 7])
def test_of_every_length(m, exact, width: int) -> None:
    r = np.random.default_rng(width)
    for n in (*range(1, 40), 200):
        x, y, j = r.normal(size=(n, width)), r.normal(size=n), width // 2
        np.testing.assert_allclose(m.column(x, j), x[:, j].sum(), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(m.dot(x, y, j), x[:, j] @ y, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(m.back(x, y, j), x[::-1, j] @ y, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(m.two(x, j), (x[:, j].sum(), (x[:, j] ** 2).sum()), atol=1e-13)
        np.testing.assert_allclose(m.rows(x, y), y @ x, rtol=1e-12, atol=1e-13)
        assert m.least(x, j) == x[:, j].min()
        assert np.array_equal(m.highest(x), x.max(axis=0))
        k = r.integers(-(2**62), 2**62, (n, width)) * 2
        assert exact.column(k, j) == k[:, j].sum()  # as integers wrap
        assert np.array_equal(exact.rows(k), k.sum(axis=0))
        assert np.array_equal(exact.odd(x > 0), (x > 0).sum(axis=0))
        single = x.astype(np.float32)
        np.testing.assert_allclose(exact.single(single, j), x[:, j].sum(), rtol=1e-4, atol=1e-5)
    empty = np.zeros((0, width))
    assert m.column(empty, 0) == 0.0
    assert not m.rows(empty, np.zeros(0)).any()


def test_in_order_where_that_is_meant(exact) -> None:
    x = np.random.default_rng(1).normal(size=(101, 3)) * 10.0 ** np.arange(101)[:, None]
    want = np.zeros(3)
    for row in x:
        want = want + row
    assert exact.in_order(x, 1) == want[1]
    assert np.array_equal(exact.all_in_order(x), want)


@pytest.mark.parametrize("n", [3, 8, 21])
def test_of_numbers_that_are_none(m, n: int) -> None:
    x = np.random.default_rng(n).normal(size=(n, 3))
    for k in range(n):
        for odd in (np.nan, np.inf):
            y = x.copy()
            y[k, 1] = odd
            by_rows = m.highest(y)[1], m.rows(y, y[:, 0] ** 2)[1]
            for found in (m.column(y, 1), m.least(-y, 1), *by_rows):
                assert np.isnan(found) if np.isnan(odd) else np.isinf(found)
            assert np.isfinite([m.column(y, 0), m.highest(y)[2]]).all()
    zeros = np.full((n, 3), -0.0)
    assert m.column(zeros, 1) == 0.0


@pytest.mark.parametrize("bytes", [16, 32, 64])
def test_nothing_is_left_to_llvm(bytes: int) -> None:
    """Neither sums that are a row apart, nor four rows that are added to one."""
    module, wrong = pipeline.front(Source("<text>", TEXT))
    assert module is not None, wrong
    machine = replace(host("avx2"), vector_bytes=bytes)
    for name in ("column", "dot", "least", "two", "rows"):
        at = Substitution({p.var: F64 for p in module.definitions[name].types}, {}, {})
        made = emit(pipeline.lower(module, name, at), machine)
        assert "!llvm.loop" in made
        assert not is_left(made), name
        assert "masked" not in made or name == "rows"  # what is read by itself has no mask


def test_of_rows_that_meet_elements_stay_where_they_are() -> None:
    a, b, x, t, i = (Var(name) for name in "abxti")
    here, there = (size(i),), (size(i) + 1,)
    from_x = Load(x, here)
    one, other = Update(a, here, "add", from_x), Update(a, here, "add", Local(t))
    let = Let(t, DType.F64, from_x)
    assert until((one, let, other, one), 0, {}) == 4
    assert until((one, let, other), 1, {}) == 1  # a statement that is no update
    assert until((one, Update(b, here, "add", from_x), one, Store(b, here, from_x)), 0, {}) == 3
    assert until((one,), 0, {}) == 0
    # another element, which may be this one; what is read of them; one array under two names
    assert until((one, Update(a, there, "add", from_x), one), 0, {}) == 0
    assert until((one, Let(t, DType.F64, Load(a, there)), one), 0, {}) == 0
    assert until((one, Update(a, here, "add", Load(a, here)), one), 0, {}) == 0
    assert until((one, Update(b, there, "add", from_x), one), 0, {b: a}) == 0
    assert until((one, Let(t, DType.F64, Load(b, here)), one), 0, {b: a}) == 0
    assert until((one, Update(b, here, "add", Lit(1.0, DType.F64)), one), 0, {b: a}) == 0
    assert until((Update(b, here, "add", from_x), one, one), 0, {b: a}) == 0
    # two that may be made in the memory of a third are two
    assert until((one, Update(b, there, "add", from_x), one), 0, {a: Var("c"), b: Var("c")}) == 3


def test_each_product_of_a_chain_goes_by_the_rows_of_its_matrix() -> None:
    """Of two products with matrices the one goes along what the other adds up: each has a loop of
    its own that must be innermost."""
    f = nap.compile("""
def f(x: d=>Float, a: d=>f=>Float, b: f=>g=>Float, c: g=>h=>Float) -> h=>Float =
    tanh(tanh(x @ a) @ b) @ c
""").f
    r = np.random.default_rng(0)
    x, a, b, c = r.normal(size=7), *(r.normal(size=s) for s in ((7, 30), (30, 20), (20, 15)))
    np.testing.assert_allclose(f(x, a, b, c), np.tanh(np.tanh(x @ a) @ b) @ c, rtol=1e-12)
    inner = [line.strip() for line in f.show("loops").splitlines() if "update" in line]
    for name in "abc":  # the last index is that of the loop around
        rows = [line for line in inner if f" {name}[" in line]
        assert rows, name
        for line in rows:
            into, _, value = line.partition(" += ")
            last = value.rpartition(f"{name}[")[2].partition("]")[0].split(", ")[-1]
            assert into.rstrip("]").endswith(last)
