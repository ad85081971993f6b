"""Cholesky's triangle and QR against NumPy, of all shapes; one thread and two."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

pytestmark = pytest.mark.usefixtures("threads")

TEXT = """
import linalg

def triangle(a: n=>n=>Float) -> n=>n=>Float = linalg.cholesky(a)
def parts(a: Fin(n + d)=>Fin(n)=>Float) -> (Fin(n + d)=>Fin(n)=>Float, Fin(n)=>Fin(n)=>Float) =
    linalg.qr(a)
def small(a: k=>Fin(4)=>Fin(4)=>Float) -> k=>Fin(4)=>Fin(4)=>Float = [linalg.cholesky(a[i]) for i]
def weighed(a: n=>n=>Float, w: n=>n=>Float) -> Float =
    sum(linalg.cholesky(a)[i, j] * w[i, j] for i, j)
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def positive(r: np.random.Generator, *shape: int) -> np.ndarray:
    a = r.normal(size=(*shape, shape[-1]))
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])


@pytest.mark.parametrize("n", [0, 1, 2, 5, 33])
def test_cholesky(m, n: int) -> None:
    r = np.random.default_rng(n)
    a = positive(r, n)
    want = np.linalg.cholesky(a)
    upper = np.triu_indices(n, 1)
    a[upper] = np.nan  # only the lower half is read
    assert np.allclose(m.triangle(a), want)
    assert np.allclose(m.triangle(a.astype("f4")), want, rtol=1e-4, atol=1e-4)
    if n > 2:
        a[2, 2] = -1.0
        assert np.isnan(m.triangle(a)[2, 2])
        assert np.allclose(m.triangle(a)[:2], want[:2])
    many = positive(r, n, 4)
    assert np.allclose(m.small(many), np.linalg.cholesky(many))


@pytest.mark.parametrize("shape", [(0, 0), (3, 0), (1, 1), (2, 2), (9, 4), (40, 33)])
def test_qr(m, shape: tuple[int, int]) -> None:
    a = np.random.default_rng(0).normal(size=shape)
    q, r = m.parts(a)
    assert np.allclose(q @ r, a)
    assert np.allclose(q.T @ q, np.eye(shape[1]))
    assert np.array_equal(r, np.triu(r))
    if shape[1] > 3:
        a[:, 2] = 0.0
        q, r = m.parts(a)
        assert np.allclose(q @ r, a)


def test_gradient(m) -> None:
    r = np.random.default_rng(0)
    a, w, d = positive(r, 6), r.normal(size=(6, 6)), r.normal(size=(6, 6)) * 1e-6
    slope = (m.weighed(a + d, w) - m.weighed(a - d, w)) / 2
    assert np.isclose((nap.grad(m.weighed)(a, w) * d).sum(), slope, rtol=1e-5)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_gradients_of_small_determinants(k: int) -> None:
    """Where rows are two, a copy of a branch and the branch have the same table."""
    n = f"Fin({k})"
    d = nap.compile(f"""
import linalg
def det(a: {n}=>{n}=>Float) -> Float = linalg.det(a)
def dets(a: m=>{n}=>{n}=>Float) -> Float = sum(log(abs(linalg.det(a[i]))) for i)
def gauss(a: {n}=>{n}=>Float, x: m=>{n}=>Float) -> Float =
    sum(0.5 * dot(x[i], linalg.inv(a) @ x[i]) + 0.5 * log(linalg.det(a)) for i)
""")
    r = np.random.default_rng(k)
    a, many, x = positive(r, k), positive(r, 5, k), r.normal(size=(6, k))
    inverse = np.linalg.inv(a)
    np.testing.assert_allclose(nap.grad(d.det)(a), np.linalg.det(a) * inverse.T, rtol=1e-9)
    want = np.linalg.inv(many).transpose(0, 2, 1)
    np.testing.assert_allclose(nap.grad(d.dets)(many), want, rtol=1e-9)
    want = 3 * inverse.T - 0.5 * inverse.T @ x.T @ x @ inverse.T
    np.testing.assert_allclose(nap.grad(d.gauss)(a, x), want, rtol=1e-9)
