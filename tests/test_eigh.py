"""Eigenvalues beside NumPy's: values that meet, nothing beside the diagonal, large and small."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

M = nap.compile("""
import linalg
def e(a: Fin(n)=>Fin(n)=>Float) = linalg.eigh(a)
def cubes(a: Fin(n)=>Fin(n)=>Float) -> Float:
    (values, _) = linalg.eigh(a)
    sum(v ** 3 for v in values)
def largest(a: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Float:
    (_, v) = linalg.eigh(a)
    [sum(v[i, k] ** 2 if k + 1 == n else 0.0 for k) for i]
def root(a: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    (w, v) = linalg.eigh(a)
    [[sum(v[i, k] * sqrt(w[k]) * v[j, k] for k) for j] for i]
def roots(a: Fin(n)=>Fin(n)=>Float) -> Float = sum(root(a)[i, j] for i, j)
""")


def test_eigenvalues_and_vectors() -> None:
    r = np.random.default_rng(0)
    x = r.normal(size=(17, 17))
    x = x + x.T
    chain = np.diag(np.ones(8), 1)
    given = [x[:n, :n] for n in (0, 1, 2, 3, 8, 17)]
    given += [np.zeros((5, 5)), np.eye(6), np.diag([3.0, 1.0, 2.0, 1.0]), np.ones((7, 7))]
    given += [np.kron(np.eye(3), x[:4, :4]), chain + chain.T, x * 1e150, x * 1e-150]
    for a in given:
        values, vectors = M.e(a)
        near = 1e-13 * np.max(abs(a), initial=0.0)
        assert np.max(abs(values - np.linalg.eigvalsh(a)), initial=0.0) <= near
        assert np.max(abs(a @ vectors - vectors * values), initial=0.0) <= near
        assert np.max(abs(vectors.T @ vectors - np.eye(len(a))), initial=0.0) <= 1e-13


def test_vectors_of_equal_values_have_no_derivative_and_what_does_not_ask_for_it_has() -> None:
    a, turn = np.diag([1.0, 1.0, 2.0]), np.ones((3, 3))
    np.testing.assert_allclose(nap.grad(M.cubes)(a), 3 * a @ a)
    np.testing.assert_allclose(nap.jvp(M.cubes)(a, turn)[1], np.sum(3 * a @ a * turn))
    np.testing.assert_array_equal(nap.jvp(M.largest)(a, turn)[1], [0.0, 0.0, 0.0])
    slope = nap.jvp(M.largest)(np.diag([1.0, 1.0, 1.5]), turn + np.diag([1.0, 2.0, 3.0]))[1]
    np.testing.assert_array_equal(slope, [0.0, 0.0, 0.0])
    np.testing.assert_array_equal(nap.jacobian(M.largest)(a), np.zeros((3, 3, 3)))
    assert np.isnan(nap.grad(M.roots)(a)).any()
    assert np.isnan(nap.jvp(M.roots)(a, turn)[1])
    apart = np.array([[1.0, 0.1, 0.0], [0.1, 1.0, 0.2], [0.0, 0.2, 2.0]])
    ahead, back = (M.roots(apart + h * turn) for h in (1e-6, -1e-6))
    for found in (np.sum(nap.grad(M.roots)(apart)), nap.jvp(M.roots)(apart, turn)[1]):
        np.testing.assert_allclose(found, (ahead - back) / 2e-6, rtol=1e-7)


@pytest.mark.long
def test_how_vectors_turn_is_in_a_second_derivative() -> None:
    assert np.isnan(nap.hessian(M.cubes)(np.diag([1.0, 1.0, 2.0]))).any()
