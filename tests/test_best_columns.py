"""The best of columns, and what else goes along them, side by side: as vectors, where there are
enough of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap
from naperian.backends.llvm import optimised
from naperian.backends.target import host

TEXT = """
def largest(x: m=>n=>Float) -> n=>m = [argmax(x[i, j] for i) for j]
def least(x: m=>n=>Int) -> n=>m = argmin(transpose(x))
def nearest(x: m=>n=>Float, y: n=>Float) -> n=>m = [argmin(abs(x[i, j] - y[j]) for i) for j]
def within(x: k=>m=>n=>Float) -> k=>n=>m = [argmax(x[c, i, j] for i) for c, j]
def faded(x: m=>n=>Float) -> n=>Float =
    [fold(lambda a, i: 0.5 * a + x[i, j], 0.0, [i for i in m]) for j]
def rows(x: m=>n=>Float) -> m=>n = argmax(x)
def with_values(x: m=>n=>Float) -> (n=>m, n=>Float, m=>n, m=>Float) =
    ([argmax(x[i, j] for i) for j], [max(x[i, j] for i) for j], argmax(x), max(x))
def most(x: m=>n=>Float) -> Float = sum(max(x[i, j] for i) for j)
def least_of_rows(x: m=>n=>Float) -> Float = sum(min(x))
def ways(a: k=>k=>Float, b: t=>k=>Float) -> (t=>k=>k, k=>Float):
    with state([0.0 for _ in k]) as d:
        for s in t:
            now = d
            d := [max(now[i] + a[i, j] for i) + b[s, j] for j]
            [argmax(now[i] + a[i, j] for i) for j]
def taken(x: n=>Float) -> n=>n:
    (order, _) = with state([False for _ in n]) as done, state(x) as d:
        for _ in n:
            u = argmin(inf if done[j] else d[j] for j)
            done[u] := True
            u
    order
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 3, 15, 16, 17, 40, 511, 512, 530])
def test_columns(m, n: int, dtype: type) -> None:
    r = np.random.default_rng(n)
    for count in (1, 2, 5, 20):
        x, y = np.round(r.normal(size=(count, n)), 1).astype(dtype), r.normal(size=n).astype(dtype)
        assert np.array_equal(m.largest(x), x.argmax(0))
        assert np.array_equal(m.nearest(x, y), abs(x - y).argmin(0))
        assert np.array_equal(m.least(np.int64(10 * x)), np.int64(10 * x).argmin(0))
        assert np.array_equal(m.within(np.stack([x, -x])), np.stack([x, -x]).argmax(1))
        x[r.random(x.shape) < 0.1] = np.nan
        assert np.array_equal(m.largest(x), x.argmax(0))
        x = np.where(np.isnan(x), dtype(-np.inf), x)
        assert np.array_equal(m.largest(x), x.argmax(0))
        want = np.zeros(n, dtype)
        for row in y + np.zeros((count, 1), dtype):
            want = dtype(0.5) * want + row
        assert np.allclose(m.faded(np.tile(y, (count, 1))), want, rtol=1e-5)


@pytest.mark.parametrize("k", [1, 5, 16, 33])
def test_ways(m, k: int) -> None:
    """A read that is the same for all columns, and a maximum beside its place."""
    r = np.random.default_rng(k)
    a, b, now, back = r.normal(size=(k, k)), r.normal(size=(9, k)), np.zeros(k), []
    for row in b:
        by = now[:, None] + a
        back.append(by.argmax(0))
        now = by.max(0) + row
    found, last = m.ways(a, b)
    assert np.array_equal(found, back)
    assert np.allclose(last, now)
    assert re.search(r"update first\[.*min= k if", m.ways.show("loops"))  # by rows, as the best


def test_rounds_are_no_columns(m) -> None:
    """What a state holds in one round does not lie beside what it holds in the next."""
    x = np.random.default_rng(0).normal(size=70)
    assert np.array_equal(m.taken(x), np.argsort(x))
    assert m.taken.show("loops").count("reducing min") == 2


@pytest.mark.parametrize("n", [2, 10, 15, 16, 17, 31, 32, 40])
def test_rows(m, n: int) -> None:
    r = np.random.default_rng(n)
    x = np.round(r.normal(size=(50, n)), 1)
    assert np.array_equal(m.rows(x), x.argmax(1))
    x[r.random(x.shape) < 0.1] = np.nan
    assert np.array_equal(m.rows(x), x.argmax(1))


@pytest.mark.parametrize("name", ["largest", "least", "nearest", "within"])
def test_once_through_the_table_in_vectors(m, name: str) -> None:
    """No table of the best is looked through again for its places."""
    text = m[name].show("loops")
    assert "reducing" not in text
    assert "for panel" in text
    n = host().lanes(8)
    assert re.search(rf"select <{n} x i1> .*, <{n} x i64>", optimised(m[name].show("llvm")))


ODD = np.array([0.0, -0.0, 5e-324, -5e-324, 1.0, np.nan, np.inf, -np.inf])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (5, 2), (40, 17), (17, 40), (0, 3), (3, 0)])
def test_places_of_known_values(m, shape: tuple[int, int], dtype: type) -> None:
    """A maximum and its place, in either order; where its derivative goes."""
    r = np.random.default_rng(sum(shape))
    for odd in (ODD, ODD[:5], ODD[:2], ODD[:1], ODD[6:], ODD[7:], ODD[5:]):
        x = r.choice(odd, shape).astype(dtype)
        steep, least = np.zeros_like(x), np.zeros_like(x)
        if shape[0]:
            j = np.arange(shape[1])
            steep[x.argmax(0), j] = x.max(0) != -np.inf
        if shape[1]:
            i = np.arange(shape[0])
            least[i, x.argmin(1)] = x.min(1) != np.inf
        assert np.array_equal(nap.grad(m.most)(x), steep)
        assert np.array_equal(nap.grad(m.least_of_rows)(x), least)
        if x.size:
            want = (x.argmax(0), x.max(0), x.argmax(1), x.max(1))
            for mine, their in zip(m.with_values(x), want, strict=True):
                assert np.array_equal(mine, their, equal_nan=True)
