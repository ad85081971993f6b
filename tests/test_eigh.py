"""Eigenvalues beside NumPy's: values that meet, nothing beside the diagonal, large and small."""

from __future__ import annotations

import numpy as np

import naperian as nap

M = nap.compile("import linalg\ndef e(a: Fin(n)=>Fin(n)=>Float) = linalg.eigh(a)\n")


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
