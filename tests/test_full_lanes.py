"""Where there are enough rows side by side, the last vector of them begins where it is full."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

M = nap.compile("""
def smoothed(x: Fin(w)=>Float, s: Float) -> Fin(w)=>Float:
    for j:
        (num, den) = with accum() as num, accum() as den:
            for a in Fin(7):
                v = x[clamp(j + a - 3)]
                k = exp(-(v - x[j]) ** 2 * s)
                num += k * v
                den += k
        num / den

def total(x: Fin(w)=>Float, s: Float) -> Float = sum(smoothed(x, s) ** 2)
""")


def smoothed(x: np.ndarray, s: float) -> np.ndarray:
    at = np.clip(np.arange(len(x))[:, None] + np.arange(-3, 4), 0, max(len(x) - 1, 0))
    v = x[at]
    k = np.exp(-((v - x[:, None]) ** 2) * s)
    return (k * v).sum(1) / k.sum(1)


@pytest.mark.parametrize("n", [0, 1, 6, 31, 37, 38, 39, 63, 70, 71, 97])
def test_values_and_slopes(n: int, threads: None) -> None:
    x = np.random.default_rng(n).random(n)
    np.testing.assert_allclose(M.smoothed(x, 2.0), smoothed(x, 2.0), rtol=1e-13)
    slope = nap.grad(M.total, "x")(x, 2.0)
    for k in range(0, n, 7):
        step = np.eye(1, n, k)[0] * 1e-6
        ends = [(smoothed(x + h, 2.0) ** 2).sum() for h in (step, -step)]
        assert slope[k] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6, abs=1e-8)


def test_no_lane_is_without_a_row() -> None:
    text = nap.grad(M.total, "x").show("loops")
    assert "lanes for" in text
    assert "first: i64" in text
    assert "if (lane" not in text


def test_lanes_far_apart_under_a_condition_are_vectors() -> None:
    """LLVM would take one element at a time, several of them at once, and abort."""
    m = nap.compile("""
def f(x: n=>Float, k: Int) -> Float:
    loop y = x, s = 0.0 for i in Fin(k):
        z = sort(y)
        ([z[i] * y[i] for i], s + prod(y))
    s
def g(x: n=>Float) -> Float = trace(hessian(lambda u: f(u, 2))(x))
""")
    x = np.random.default_rng(2).random(3)
    v = np.array([0.3, -0.2, 0.5])
    differences = (m.g(x + 1e-5 * v) - m.g(x - 1e-5 * v)) / 2e-5
    np.testing.assert_allclose(nap.grad(m.g)(x) @ v, differences, rtol=1e-6)
