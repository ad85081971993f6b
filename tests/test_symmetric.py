"""A matrix times its own transpose is computed above the diagonal, and mirrored."""

from __future__ import annotations

import numpy as np
import pytest
from test_few_rows import product

import naperian as nap

TEXT = """
def outer(a: n=>k=>Float) -> n=>n=>Float = a @ transpose(a)
def inner(a: k=>n=>Float) -> n=>n=>Float = transpose(a) @ a
"""


@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [95, 96, 97, 128, 131, 250])
def test_a_matrix_by_itself(n: int, dtype: type, level: str) -> None:
    r = np.random.default_rng(n)
    for k in (40, 150, 240, 700):
        a = r.normal(size=(n, k)).astype(dtype)
        for left in (a, np.asfortranarray(a)):
            whole = np.full((n + 1, n + 9), 7.0, dtype)
            c = whole[:n, :n]
            c[:] = np.nan
            assert product(c, left, left.T, 0, level) == 0
            want = a.astype(float) @ a.T.astype(float)
            limit = 200 * k**0.5 * np.finfo(dtype).eps
            np.testing.assert_allclose(c, want, atol=limit)
            assert np.array_equal(c, c.T)
            assert (whole[n:] == 7.0).all()
            assert (whole[:, n:] == 7.0).all()
            # what is added to need not be symmetric
            c[:] = r.normal(size=(n, n))
            before = c.astype(float)
            assert product(c, left, left.T, 1, level) == 0
            np.testing.assert_allclose(c, before + want, atol=limit)


def test_the_same_matrix_under_another_shape_is_another() -> None:
    r = np.random.default_rng(0)
    a = r.normal(size=(200, 200))
    c = np.zeros((200, 200))
    assert product(c, a, a, 0, "native") == 0
    np.testing.assert_allclose(c, a @ a, atol=1e-10)
    c = np.zeros((100, 200))
    assert product(c, a[:100], a.T, 0, "native") == 0
    np.testing.assert_allclose(c, a[:100] @ a.T, atol=1e-10)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_threads_and_what_is_not_finite(dtype: str) -> None:
    m = nap.compile(TEXT)
    before = nap.threads()
    for n, k in ((120, 200), (333, 200), (150, 1000)):
        a = np.random.default_rng(n).normal(size=(n, k)).astype(dtype)
        a[n // 2, 3], a[7, k - 1], a[n - 1, 5] = np.nan, np.inf, -0.0
        turned, found = a.T.copy(), []
        for threads in (1, 2):
            nap.threads(threads)
            found.append((m.outer(a), m.inner(turned)))
        nap.threads(before)
        with np.errstate(all="ignore"):
            want = a.astype("f8") @ a.T.astype("f8")
        for one, two in zip(*found, strict=True):
            assert np.array_equal(one, two, equal_nan=True)
            close = 1e-9 if dtype == "f8" else 1e-3
            np.testing.assert_allclose(one, want, rtol=close, atol=close)
