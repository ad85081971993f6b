"""Loops that end where a condition chooses: the choice is a jump, and no value changes."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

TEXT = """
def march(x: n=>Float) -> n=>(Float, Int):
    for i:
        loop t = 0.0, k = 0, go = True while go and k < 40:
            d = abs(x[i] - t) / 2.0
            (t, k + 1, False) if d < 1e-3 or t > 20.0 else (t + d, k + 1, True)
        (t, k)

def turned(x: n=>Float) -> n=>(Float, Int):
    for i:
        loop t = 0.0, k = 0, done = False while not done and k < 40:
            d = abs(x[i] - t) / 2.0
            (t + d, k + 1, False) if d >= 1e-3 and t <= 20.0 else (t, k + 1, True)
        (t, k)

def alone(x: Float) -> (Float, Int):
    loop a = x, k = 0, go = True while go:
        b = a / 2.0
        (a, k, False) if b < 1.0 else (b, k + 1, True)
    (a, k)

def never(x: Float) -> (Float, Int):
    loop a = x, k = 0, go = x > 0.0 while go:
        (a - 1.0, k, False) if a < 1.0 else (a - 1.0, k + 1, True)
    (a, k)
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def march(x: float) -> tuple[float, int]:
    t, k = 0.0, 0
    while k < 40:
        d = abs(x - t) / 2.0
        k += 1
        if d < 1e-3 or t > 20.0:
            break
        t += d
    return t, k


@pytest.mark.parametrize("name", ["march", "turned"])
def test_choices(m, name: str) -> None:
    x = np.array([0.0, 1e-4, 1.0, 3.5, 19.0, 45.0, 1e9])
    t, k = getattr(m, name)(x)
    want = [march(v) for v in x]
    assert t.tolist() == [a for a, _ in want]
    assert k.tolist() == [b for _, b in want]


def test_nan(m) -> None:
    """A comparison with it fails, whichever way it is asked."""
    assert m.march(np.array([np.nan]))[1].tolist() == [40]
    assert m.turned(np.array([np.nan]))[1].tolist() == [1]


def test_one_round_none_and_some(m) -> None:
    assert m.alone(1.5) == (1.5, 0)
    assert m.alone(40.0) == (1.25, 5)
    assert m.never(0.0) == (0.0, 0)
    assert m.never(3.5) == (-0.5, 3)
    assert all("\nstop" in f.show("llvm") for f in (m.alone, m.never))
