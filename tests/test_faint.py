"""Cotangents next to nothing, as of exponentials on their way to zero."""

from __future__ import annotations

import math

import numpy as np
import pytest

import naperian as nap

FIT = """
def fit(m: k=>d=>Float, x: n=>d=>Float) -> Float =
    sum(logsumexp([-sum((x[i, a] - m[j, a]) ** 2 for a) for j]) for i)

def slope(m: k=>d=>Float, x: n=>d=>Float) = grad(fit)(m, x)
"""


def slopes(text: str, far: float, d: int = 9) -> np.ndarray:
    """Of two centres, one where all 40 points are and one whose square distance is `far`."""
    m = np.zeros((2, d))
    m[1] = math.sqrt(far / d)
    return np.asarray(nap.compile(text).slope(m, np.zeros((40, d))))


@pytest.mark.parametrize("far", [1.0, 30.0, 690.0])
def test_what_is_small_is_exact(far: float) -> None:
    weight = math.exp(-far) / (1.0 + math.exp(-far))
    expected = -2.0 * 40 * weight * math.sqrt(far / 9)
    np.testing.assert_allclose(slopes(FIT, far)[1], expected, rtol=1e-12)


@pytest.mark.parametrize("far", [705.0, 720.0, 800.0])
def test_what_vanishes_is_nothing(far: float) -> None:
    assert np.all(slopes(FIT, far)[1] == 0.0)


def test_strictly_it_is_what_is_left_of_it() -> None:
    strict = FIT.replace("def ", "@strict\ndef ")
    found = slopes(strict, 720.0)[1]
    np.testing.assert_allclose(found, -80.0 * math.exp(-720.0) * math.sqrt(80.0), rtol=1e-9)


def test_infinities_and_nan_stay() -> None:
    m = nap.compile(FIT)
    x = np.zeros((40, 9))
    x[3, 4] = np.nan
    assert np.all(np.isnan(np.asarray(m.slope(np.ones((2, 9)), x))[:, 4]))


def test_a_value_is_never_cleared() -> None:
    text = """
def kernel(x: n=>d=>Float, y: m=>d=>Float) -> n=>d=>Float =
    for i:
        w = [exp(-sum((x[i, a] - y[j, a]) ** 2 for a)) for j]
        for a: sum(w[j] * y[j, a] for j)
"""
    far = math.sqrt(720.0 / 4)
    found = nap.compile(text).kernel(np.zeros((20, 4)), np.full((1, 4), far))
    np.testing.assert_allclose(np.asarray(found), math.exp(-720.0) * far, rtol=1e-9)
    single = nap.compile(FIT.replace("Float", "F32"))
    m = np.zeros((2, 9), np.float32)
    m[1] = np.sqrt(np.float32(70.0 / 9))
    small = np.asarray(single.slope(m, np.zeros((40, 9), np.float32)))[1]
    np.testing.assert_allclose(small, -80.0 * math.exp(-70.0) * math.sqrt(70.0 / 9), rtol=1e-4)
