"""Many products of square matrices, whose size nobody knows before: those of two or three rows are
sums that are written out, and the others calls."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

pytestmark = pytest.mark.usefixtures("keeping")

PROGRAM = """
def products(a: b=>n=>n=>Float, c: b=>n=>n=>Float) -> b=>n=>n=>Float = [a[q] @ c[q] for q]

def crossed(a: b=>n=>n=>Float, c: b=>n=>n=>Float) -> b=>n=>n=>Float =
    [sum(a[q, k, i] * c[q, j, k] for k) for q, i, j]

def total(a: b=>n=>n=>Float, c: b=>n=>n=>Float) -> Float = sum(sum(sum(a[q] @ c[q])) for q)
"""


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_size(dtype: type, threads: int) -> None:
    m = nap.compile(PROGRAM)
    before = nap.threads()
    nap.threads(threads)
    try:
        for n in (0, 1, 2, 3, 4, 5, 9):
            for many in (0, 1, 7, 5000 // (n + 1)):
                r = np.random.default_rng(n)
                a, c = (r.normal(size=(many, n, n)).astype(dtype) for _ in range(2))
                near = 1e-12 if dtype is np.float64 else 1e-4
                np.testing.assert_allclose(m.products(a, c), a @ c, atol=near)
                want = np.einsum("qki,qjk->qij", a, c)
                np.testing.assert_allclose(m.crossed(a, c), want, atol=near)
    finally:
        nap.threads(before)


def test_gradients() -> None:
    m = nap.compile(PROGRAM)
    for n in (1, 3, 4):
        r = np.random.default_rng(n)
        a, c = (r.normal(size=(6, n, n)) for _ in range(2))
        want = np.broadcast_to(c.sum(2)[:, None, :], a.shape)
        np.testing.assert_allclose(nap.grad(m.total)(a, c), want, atol=1e-12)
