"""The nearest of short rows, and what is added up of those that have the same: panels of one and
of two vectors, what is left of them, and strips of searches whose sums wait behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import naperian as nap

pytestmark = pytest.mark.usefixtures("keeping")

Array = NDArray[Any]

PROGRAM = """
def nearest(x: n=>d=>Float, c: k=>d=>Float) -> n=>k =
    [argmin(sum((x[i, a] - c[q, a]) ** 2 for a) for q) for i]

def distances(x: n=>d=>Float, c: k=>d=>Float) -> n=>k=>Float =
    [sum((x[i, a] - c[q, a]) ** 2 for a) for i, q]

def centres(x: n=>d=>Float, c: k=>d=>Float) -> (k=>d=>Float, Float):
    gaps = [[sum((x[i, a] - c[q, a]) ** 2 for a) for q] for i]
    label = [argmin(gaps[i]) for i]
    total = [sum(x[i, a] for i if label[i] == q) for q, a]
    count = [sum(1.0 for i if label[i] == q) for q]
    ([total[q, a] / max(count[q], 1.0) for q, a], sum(min(gaps[i]) for i))
"""


def points(n: int, d: int, dtype: type) -> Array:
    return np.random.default_rng(n + d).integers(-9, 10, (n, d)).astype(dtype)  # equal ones, too


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 3, 8, 17])
def test_nearest(d: int, dtype: type) -> None:
    m = nap.compile(PROGRAM)
    for n in (1, 7, 8, 127, 128, 129, 300):
        for k in (1, 5, 6, 7, 8, 9, 15, 16, 17, 24, 25, 32, 33, 49):
            x, c = points(n, d, dtype), points(k, d, dtype)
            gaps = ((x[:, None] - c) ** 2).sum(-1)
            label = gaps.argmin(1)
            np.testing.assert_array_equal(m.nearest(x, c), label)
            np.testing.assert_array_equal(m.distances(x, c), gaps)
            means, total = m.centres(x, c)
            hot = (label == np.arange(k)[:, None]).astype(dtype)
            want = hot @ x / np.maximum(hot.sum(1), 1)[:, None]
            np.testing.assert_allclose(means, want, rtol=1e-6)
            assert total == gaps.min(1).sum()


def test_a_nan_is_the_nearest() -> None:
    m = nap.compile(PROGRAM)
    for k in (6, 8, 10, 16, 20):
        x, c = points(40, 3, np.float64), points(k, 3, np.float64)
        for odd in range(k):
            c[odd, 1] = np.nan
            gaps = ((x[:, None] - c) ** 2).sum(-1)
            np.testing.assert_array_equal(m.nearest(x, c), gaps.argmin(1))
        np.testing.assert_array_equal(m.nearest(x, c), np.zeros(40))


def test_sums_wait_for_a_strip_of_searches() -> None:
    """They are in the loop behind it, and in the one of the searches there are none."""
    text = nap.compile(PROGRAM).centres.show("loops")
    search, _, sums = text.partition("update out[")
    assert "for strip in" in search
    assert search.count("128 * strip..") == 2
    assert "top" not in sums
