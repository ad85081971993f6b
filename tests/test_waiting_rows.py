"""Paths whose steps wait for a root or a quotient go side by side, also where loops out of order
read other elements of each path: a model of volatility with noises that hang together, whose
gradient by these noises is written element by element."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

HESTON = nap.compile("""
def price(kappa: Float, xi: Float, rho: Float, z: p=>t=>Fin(2)=>Float) -> Float =
    sum(max(path(kappa, xi, rho, z[i]) - 0.9, 0.0) for i) / p

def path(kappa: Float, xi: Float, rho: Float, z: t=>Fin(2)=>Float) -> Float:
    dt = 1.0 / t
    loop x = 0.0, v = 0.04 for s in t:
        known = max(v, 0.0)
        root = sqrt(known * dt + 1e-12)
        noise = rho * z[s, 0] + sqrt(1.0 - rho * rho) * z[s, 1]
        (x - 0.5 * known * dt + root * z[s, 0], v + kappa * (0.04 - known) * dt + xi * root * noise)
    exp(x)
""")
SLOPE = nap.value_and_grad(HESTON.price, ["kappa", "xi", "rho", "z"])


def price(kappa: float, xi: float, rho: float, z: np.ndarray) -> float:
    p, t, _ = z.shape
    x, v = np.zeros(p), np.full(p, 0.04)
    for s in range(t):
        known = np.maximum(v, 0.0)
        root = np.sqrt(known / t + 1e-12)
        noise = rho * z[:, s, 0] + np.sqrt(1.0 - rho * rho) * z[:, s, 1]
        x, v = (
            x - 0.5 * known / t + root * z[:, s, 0],
            v + kappa * (0.04 - known) / t + xi * root * noise,
        )
    return float(np.maximum(np.exp(x) - 0.9, 0.0).mean())


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("p", "t"), [(1, 1), (7, 3), (16, 5), (50, 20), (130, 2)])
def test_the_gradient_of_paths(p: int, t: int) -> None:
    z = np.random.default_rng(p).normal(size=(p, t, 2))
    at = (1.5, 0.3, -0.7, z)
    value, slopes = SLOPE(*at)
    np.testing.assert_allclose(value, price(*at), rtol=1e-12)
    d = [np.random.default_rng(k).normal(size=np.shape(x)) for k, x in enumerate(at)]
    h = 1e-6
    more, less = ([x + s * y for x, y in zip(at, d, strict=True)] for s in (h, -h))
    slope = sum(np.sum(g * y) for g, y in zip(slopes, d, strict=True))
    np.testing.assert_allclose(slope, (price(*more) - price(*less)) / (2 * h), rtol=2e-5, atol=1e-8)


def test_the_paths_go_side_by_side() -> None:
    assert "lanes for" in SLOPE.show("loops")


CLENSHAW = nap.compile("""
def series(x: Fin(n)=>Float, c: Fin(m)=>Float) -> Fin(n)=>Float:
    for i:
        (a, b) = loop p = 0.0, q = 0.0 for k in Fin(m):
            (c[m - 1 - k] + 2.0 * x[i] * p - q, p)
        a - x[i] * b

def square(x: Fin(n)=>Float, c: Fin(m)=>Float) -> Float = sum(v * v for v in series(x, c))
""")


@pytest.mark.parametrize(("n", "m"), [(1, 5), (16, 1), (37, 30), (100, 0), (0, 3)])
def test_rows_that_go_by_what_all_have_in_common(n: int, m: int) -> None:
    """A series by Clenshaw, whose gradient by where it is taken keeps a row's values."""
    rng = np.random.default_rng(n)
    x, c = rng.uniform(-1, 1, n), rng.normal(size=m)
    y = np.polynomial.chebyshev.chebval(x, c) if m else np.zeros(n)
    np.testing.assert_allclose(CLENSHAW.series(x, c), y, rtol=1e-12, atol=1e-12)
    slope = np.polynomial.chebyshev.chebval(x, np.polynomial.chebyshev.chebder(c)) if m else 0.0
    found = nap.grad(CLENSHAW.square)(x, c)
    np.testing.assert_allclose(found, 2 * y * slope, rtol=1e-9, atol=1e-9)
    both, by_c = nap.grad(CLENSHAW.square, wrt=("x", "c"))(x, c)
    np.testing.assert_array_equal(both, found)
    powers = np.polynomial.chebyshev.chebvander(x, max(m - 1, 0))[:, :m]
    np.testing.assert_allclose(by_c, 2 * y @ powers, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(nap.grad(CLENSHAW.square, wrt="c")(x, c), by_c, rtol=1e-12)


@pytest.mark.parametrize("wrt", ["x", "c", ("x", "c")])
def test_they_go_side_by_side(wrt: str | tuple[str, ...]) -> None:
    slope = nap.grad(CLENSHAW.square, wrt=wrt)
    assert "lanes for" in slope.show("loops")


MIXED = """
def mixed(g: e=>d=>Float, w: e=>h=>d=>Float, x: b=>d=>Float) -> b=>h=>Float where e >= 1:
    def one(r: b) -> h=>Float:
        p = softmax([sum(g[k, j] * x[r, j] for j) for k])
        k = argmax(p)
        [p[k] * sum(w[k, a, j] * x[r, j] for j) for a]
    [one(r) for r]
"""


def test_rows_whose_sums_are_longer_than_what_they_wait_for_go_by_themselves() -> None:
    """A choice among experts waits, but the chosen one's weights lie along the row."""
    f = nap.compile(MIXED).mixed
    assert "lanes" not in f.show("loops")
    rng = np.random.default_rng(2)
    g, w, x = (rng.standard_normal(n) for n in ((5, 7), (5, 6, 7), (40, 7)))
    z = x @ g.T
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    k = p.argmax(1)
    want = p.max(1)[:, None] * np.einsum("bhd,bd->bh", w[k], x)
    np.testing.assert_allclose(f(g, w, x), want, rtol=1e-12)
