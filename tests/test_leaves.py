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
