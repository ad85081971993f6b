"""A power to an index of few elements is a choice of products, and one of integers what it was."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

TEXT = """
def sums(x: n=>Float) -> Fin(5)=>Float = [sum(x[i] ** r for i) for r in Fin(5)]
def normal(x: n=>Float) -> Fin(3)=>Fin(3)=>Float =
    [sum(x[i] ** (r + c) for i) for r in Fin(3), c in Fin(3)]
def below(x: n=>Float) -> n=>Fin(4)=>Float = [x[i] ** (r - 2) for i, r]
def asked(x: n=>Float, k: Int) -> Fin(4)=>Float = [x[(k + r)?] ** r if r > 0 else 0.5 for r]
def larger(x: n=>Float) -> Float = sum(x[i] ** (4 * r) for i, r in Fin(3))
def weighed(x: n=>Float) -> Float = sum(sums(x)[r] * (r + 1) for r in Fin(5))
"""
M = nap.compile(TEXT)
X = np.array([0.0, -0.0, 1.0, -2.5, 3e-200, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values(dtype: type) -> None:
    x = np.linspace(-2.0, 2.0, 37).astype(dtype)
    least = 1e-12 if dtype is np.float64 else 2e-5
    r = np.arange(5)
    np.testing.assert_allclose(M.sums(x), np.sum(x[:, None] ** r, 0, dtype=float), least, 1e-5)
    both = x[:, None, None] ** (r[:3, None] + r[:3])
    np.testing.assert_allclose(M.normal(x), both.sum(0, dtype=float), least, 1e-5)
    np.testing.assert_allclose(M.asked(x, 3)[1:], x[4:7] ** r[1:4], least)
    np.testing.assert_allclose(M.larger(x), np.sum(x[:, None] ** (4.0 * r[:3])), least)


def test_values_at_the_ends() -> None:
    with np.errstate(all="ignore"):
        expected = X[:, None] ** np.array([-2.0, -1.0, 0.0, 1.0])
    np.testing.assert_allclose(M.below(X), expected, rtol=4e-16)
    np.testing.assert_array_equal(np.signbit(M.below(X)), np.signbit(expected))


def test_gradients() -> None:
    x = np.array([0.0, -1.5, 2.0])
    r = np.arange(5)
    slope = sum((r[k] + 1) * k * x ** max(k - 1, 0) for k in r)
    np.testing.assert_allclose(nap.grad(M.weighed)(x), slope, rtol=1e-12)


def has_powers(f: nap.Function) -> bool:
    return "**" in f.show("loops").partition("# notes")[0]


def test_there_is_no_power() -> None:
    for f in (M.sums, M.normal, M.below, nap.grad(M.weighed)):
        assert not has_powers(f)
    assert has_powers(M.larger)  # the eighth is not exact enough as a product
    assert has_powers(nap.compile(TEXT, math="strict").sums)


@pytest.mark.parametrize("exponent", [-3, -2, -1, 0, 1, 2, 3, 7])
def test_powers_of_integers(exponent: int) -> None:
    """To a literal, which is no quotient where it is negative, and to a number of the run."""
    m = nap.compile(f"""
def literal(x: n=>Int) -> n=>Int = [v ** ({exponent}) for v in x]
def given(x: n=>Int, k: Int) -> n=>Int = [v ** k for v in x]
""")
    x = np.array([1, -1, 2, -3, 7])
    wanted = np.trunc(x.astype(float) ** exponent).astype(int)
    np.testing.assert_array_equal(m.literal(x), wanted)
    np.testing.assert_array_equal(m.given(x, exponent), wanted)
