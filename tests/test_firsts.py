"""The first few of a row in order, or the last: they are selected, and no more is put in order."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap
from naperian.backends.llvm import optimised
from naperian.backends.target import host

TEXT = """
def least(x: m=>n=>a) -> m=>Fin(5)=>a where a: Ord, n >= 5 = [sort(x[i])[..5] for i]
def places(x: m=>n=>a) -> m=>Fin(5)=>n where a: Ord, n >= 5 =
    [argsort(x[i])[r] for i, r in Fin(5)]
def most(x: m=>n=>a) -> m=>Fin(5)=>a where a: Ord, n >= 5 = [sort(x[i])[n - 5..n] for i]
def last_places(x: m=>Fin(n)=>a) -> m=>Fin(5)=>Fin(n) where a: Ord, n >= 5 =
    [[argsort(row)[n - 1 - r] for r in Fin(5)] for row in x]
def second(x: Fin(n)=>Float) -> Float where n >= 2 = sort(x)[n - 2]
def third(x: Fin(n)=>Float) -> Float where n >= 3 = sort(x)[2]
def nearest(q: m=>d=>Float, p: Fin(n)=>d=>Float, kind: Fin(n)=>Fin(4)) -> m=>Fin(4) where n >= 5:
    for i:
        order = argsort([sum((q[i, c] - p[j, c]) ** 2 for c) for j])
        argmax([sum(1 if kind[order[r]] == k else 0 for r in Fin(5)) for k in Fin(4)])
def all_of_them(x: Fin(n)=>Float) -> (Float, Float) where n >= 3:
    s = sort(x)
    (s[0], s[n - 1])
def many(x: Fin(n)=>Float) -> Fin(40)=>Float where n >= 40 = sort(x)[..40]
"""
LENGTHS = [5, 127, 128, 129, 133, 200, 1000]


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.int16, np.uint64])
@pytest.mark.parametrize("n", LENGTHS)
def test_any_numbers(m, n: int, dtype: type) -> None:
    r = np.random.default_rng(n)
    few = r.integers(0, 9, (3, n))
    for x in (r.normal(size=(3, n)) * 1000, few, -np.arange(3 * n).reshape(3, n), few * 0):
        x = x.astype(np.int64).astype(dtype) if np.dtype(dtype).kind in "iu" else x.astype(dtype)
        assert np.array_equal(m.least(x), np.sort(x)[:, :5])
        assert np.array_equal(m.most(x), np.sort(x)[:, -5:])
        order = np.argsort(x, kind="stable")
        assert np.array_equal(m.places(x), order[:, :5])
        assert np.array_equal(m.last_places(x), order[:, :-6:-1])
        if dtype is np.float64:
            assert [m.second(row) for row in x] == [np.sort(row)[-2] for row in x]
            assert [m.third(row) for row in x] == [np.sort(row)[2] for row in x]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("some", [3, 198, 200])
def test_zeros_and_what_is_no_number(m, some: int, dtype: type) -> None:
    r = np.random.default_rng(some)
    x = np.where(r.random((4, 200)) < 0.5, 0.0, -0.0).astype(dtype)
    assert np.array_equal(m.places(x), np.tile(np.arange(5), (4, 1)))
    assert np.array_equal(m.last_places(x), np.tile(np.arange(199, 194, -1), (4, 1)))
    assert np.signbit(m.least(x)).all()
    assert not np.signbit(m.most(x)).any()
    for row in x:
        row[r.permutation(200)[:some]] = np.nan
    x[1, 50], x[2, 150] = np.inf, -np.inf
    assert np.array_equal(m.least(x), np.sort(x)[:, :5], equal_nan=True)
    assert np.array_equal(m.most(x), np.sort(x)[:, -5:], equal_nan=True)
    order = np.argsort(x, kind="stable")
    assert np.array_equal(m.places(x), order[:, :5])
    assert np.array_equal(m.last_places(x), order[:, :-6:-1])


@pytest.mark.parametrize("n", LENGTHS)
def test_neighbours(m, n: int) -> None:
    r = np.random.default_rng(n)
    q, p, kind = r.normal(size=(9, 3)), r.normal(size=(n, 3)), r.integers(0, 4, n)
    order = np.argsort(((q[:, None] - p) ** 2).sum(-1))[:, :5]
    want = [np.bincount(kind[row], minlength=4).argmax() for row in order]
    assert np.array_equal(m.nearest(q, p, kind), want)
    x = r.normal(size=n)
    assert m.all_of_them(x) == (x.min(), x.max())
    if n > 40:
        assert np.array_equal(m.many(x), np.sort(x)[:40])


def test_what_is_selected(m) -> None:
    for f in (m.third, m.nearest, m.second):
        text = optimised(f.show("llvm"))
        assert "codes" in f.show("loops")
        assert re.search(rf"icmp s[lg]t <{host().lanes(8)} x i64>", text)
    assert "codes" not in m.all_of_them.show("loops")
    assert "codes" not in m.many.show("loops")
