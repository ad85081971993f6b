"""What takes long and waits for nothing leaves a recurrence whose values are stored anyway; what
rows add up over its rounds goes to tables of their own."""

import numpy as np
import pytest

import naperian as nap

TEXT = """
def path(x: Fin(n)=>Float) -> (Fin(n)=>Float, Fin(n)=>Float):
    prices = cumsum(x)
    (prices, [exp(p) for p in prices])
def last_only(x: Fin(n)=>Float) -> Float:
    loop level = 0.0, total = 0.0 for i in Fin(n):
        new = 0.5 * level + x[i]
        (new, total + exp(new))
    total
def loss(w: Fin(k)=>Fin(b)=>Float, x: Fin(n)=>Fin(b)=>Float) -> Float:
    loop h = [0.0 for c in Fin(b)], total = 0.0 for t in Fin(n):
        loop new = h for i in Fin(k):
            [tanh(new[c] * w[i, c] + x[t, c]) for c]
        (new, total + log(1.0 + sum(exp(new))))
    total
def slopes(w: Fin(k)=>Fin(b)=>Float, x: Fin(n)=>Fin(b)=>Float):
    value_and_grad(loss, wrt="w")(w, x)
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def test_a_function_of_stored_values_is_parallel(m) -> None:
    loops = m.path.show("loops")
    assert "parallel" in loops.split("exp(")[0].splitlines()[-2], loops
    x = np.linspace(-1.0, 1.0, 37)
    prices, grown = m.path(x)
    np.testing.assert_allclose(prices, np.cumsum(x), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(grown, np.exp(np.cumsum(x)), rtol=1e-14)


def test_nothing_is_stored_for_it(m) -> None:
    assert "allocate" not in m.last_only.show("loops")


@pytest.mark.parametrize("n", [0, 1, 2, 9])
@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("b", [1, 7, 8, 17, 33])
def test_sums_of_rows(m, n: int, k: int, b: int) -> None:
    r = np.random.default_rng(3)
    w, x = r.normal(size=(k, b)), r.normal(size=(n, b))
    value, found = m.slopes(w, x)
    assert np.isclose(value, m.loss(w, x), rtol=1e-14)
    d = r.normal(size=w.shape)
    e = 1e-6
    expected = (m.loss(w + e * d, x) - m.loss(w - e * d, x)) / (2 * e)
    np.testing.assert_allclose((found * d).sum(), expected, rtol=1e-6, atol=1e-7)


def test_sums_over_rounds_are_added_in_them() -> None:
    """The slope by the matrix of every round is added there: nothing of n by n is kept for each."""
    m = nap.compile("""
def smoothed(k: Fin(n + 1)=>Fin(n)=>Float, x: Fin(n)=>Fin(n)=>Float, tol: Float) -> Float:
    (y, _) = loop y = x, size = 1.0 while size > tol:
        def over(i: Fin(n), j: Fin(n)) -> Float = y[i - 1, j] if i > 0 else 0.0
        def left(i: Fin(n), j: Fin(n)) -> Float = y[i, j - 1] if j > 0 else 0.0
        new = for i, j: y[i, j] - 0.1 * (k[i + 1, j] * left(i, j) - k[i, j] * over(i, j))
        (new, size * 0.8)
    sum(y[i, j] ** 2 for i, j)
def slope(k: Fin(n + 1)=>Fin(n)=>Float, x: Fin(n)=>Fin(n)=>Float, tol: Float):
    value_and_grad(smoothed, wrt="k")(k, x, tol)
""")
    assert m.slope.show("loops").count("[t + 1, n, n]") == 1
    assert "[t, n, n]" not in m.slope.show("loops")
    r = np.random.default_rng(0)
    k, x, d = r.uniform(0.5, 1.0, (6, 5)), r.normal(size=(5, 5)), r.normal(size=(6, 5))
    _, slope = m.slope(k, x, 0.1)
    e = 1e-6
    expected = (m.smoothed(k + e * d, x, 0.1) - m.smoothed(k - e * d, x, 0.1)) / (2 * e)
    np.testing.assert_allclose((slope * d).sum(), expected, rtol=1e-6)
