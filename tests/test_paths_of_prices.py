"""Paths that go side by side, and are read again for several strikes: what is kept of them lies by
times, with the paths of a vector beside each other."""

import re

import numpy as np
import pytest

import naperian as nap

TEXT = """
def path(vol: Float, z: Fin(n)=>Float) -> Float:
    (x, v, total) = loop x = 0.0, v = vol, total = 0.0 for t in Fin(n):
        new = x - 0.5 * v + sqrt(v) * z[t]
        (new, v + 0.1 * (0.04 - v) + 0.01 * sqrt(v) * z[t] / (1.0 + v), total + exp(new))
    total / Float(n)

def prices(vol: Float, z: Fin(p)=>Fin(n)=>Float, strikes: Fin(k)=>Float) -> Fin(k)=>Float:
    [mean([max(path(vol, z[i]) - strikes[j], 0.0) for i]) for j]

def misfit(vol: Float, z: Fin(p)=>Fin(n)=>Float, strikes: Fin(k)=>Float,
           market: Fin(k)=>Float) -> Float:
    found = prices(vol, z, strikes)
    sum((found[j] - market[j]) ** 2 for j)

def slope(vol: Float, z: Fin(p)=>Fin(n)=>Float, strikes: Fin(k)=>Float, market: Fin(k)=>Float):
    value_and_grad(misfit)(vol, z, strikes, market)
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def test_histories_lie_by_times(m) -> None:
    text = m.slope.show("loops")
    assert set(re.findall(r"allocate \w+: f64\[(n, p|p, n)\]", text)) == {"n, p"}, text


@pytest.mark.parametrize("p", [1, 3, 8, 15, 16, 17, 40])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_slope(m, p: int, n: int) -> None:
    r = np.random.default_rng(p)
    z, strikes, market = r.normal(size=(p, n)), np.array([0.8, 1.0, 1.3]), np.array([0.3, 0.2, 0.1])
    value, slope = m.slope(0.2, z, strikes, market)
    x, v, total = np.zeros(p), np.full(p, 0.2), np.zeros(p)
    for t in range(n):
        x = x - 0.5 * v + np.sqrt(v) * z[:, t]
        v = v + 0.1 * (0.04 - v) + 0.01 * np.sqrt(v) * z[:, t] / (1.0 + v)
        total += np.exp(x)
    found = np.maximum(total[:, None] / n - strikes, 0.0).mean(0)
    np.testing.assert_allclose(value, ((found - market) ** 2).sum(), rtol=1e-12)
    ends = [m.misfit(0.2 + e, z, strikes, market) for e in (1e-6, -1e-6)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-8)
