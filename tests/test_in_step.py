"""Tangents go with the loops that they are of, and tables that are changed in place are no copies.

Second derivatives of factorisations, which are written in place: forwards over backwards."""

from __future__ import annotations

import numpy as np
import pytest
from test_cost import cost

import naperian as nap

pytestmark = pytest.mark.usefixtures("keeping")

TEXT = """
import linalg

def by_cholesky(a: Fin(n)=>Fin(n)=>Float) -> Float:
    l = linalg.cholesky(a)
    2.0 * sum(log(l[i, i]) for i)

def by_lu(a: Fin(n)=>Fin(n)=>Float) -> Float = log(linalg.det(a))

def smoothed(x: Fin(n)=>Float, k: Fin(m)=>Fin(n), c: Float) -> Float:
    s = with state(x) as s:
        for t in Fin(m):
            s[k[t]] := sin(c * s[k[t]]) + s[clamp(t)]
    sum(s[i] ** 2 for i)
"""


@pytest.fixture(scope="module")
def m() -> nap.Module:
    return nap.compile(TEXT)


def positive(n: int) -> np.ndarray:
    a = np.random.default_rng(n).standard_normal((n, n))
    return a @ a.T / n + np.eye(n)


@pytest.mark.parametrize("name", ["by_cholesky", "by_lu"])
@pytest.mark.parametrize("n", [1, 2, 7, 20])
def test_second_derivatives_of_a_determinant(m: nap.Module, name: str, n: int) -> None:
    """d² log |A| = -tr(A⁻¹ V A⁻¹ ·): of symmetric directions, for half of A is read."""
    a, v = positive(n), np.random.default_rng(1).standard_normal((n, n))
    v = v + v.T
    inverse = np.linalg.inv(a)
    wanted = -(inverse @ v @ inverse)
    found = nap.hvp(m[name])(a, v)
    if name == "by_cholesky":
        found = (np.tril(found) + np.tril(found).T) / 2
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["by_cholesky", "by_lu"])
def test_they_cost_some_functions_of_any_size(m: nap.Module, name: str) -> None:
    ratios = []
    for n in (8, 32):
        a, v = positive(n), np.ones((n, n))
        ratios.append(cost(nap.hvp(m[name]), [a, v]).total / cost(m[name], [a]).total)
    assert max(ratios) < 20
    assert ratios[1] < 1.5 * ratios[0]


def test_second_derivatives_of_a_state(m: nap.Module) -> None:
    rng = np.random.default_rng(3)
    x, k, v = rng.standard_normal(6), rng.integers(0, 6, 11), rng.standard_normal(6)
    slope = nap.grad(m.smoothed)
    there, back = (slope(x + h * v, k, 0.7) for h in (1e-5, -1e-5))
    found = nap.hvp(m.smoothed)(x, k, 0.7, v)
    np.testing.assert_allclose(found, (there - back) / 2e-5, rtol=1e-7, atol=1e-8)
