"""A loop goes on in the copies that the one before it has left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import naperian as nap

pytestmark = pytest.mark.usefixtures("threads")

FFT = Path(__file__).parent.parent / "benchmarks" / "programs" / "fft.nap"

TEXT = """
def smooth(x: Fin(n)=>Float, y: Fin(n)=>Float) -> Fin(n)=>Float =
    [(x[clamp(i - 1)] + y[i]) / 2.0 for i]

def twice(x: Fin(n)=>Float, a: Int, b: Int) -> Fin(n)=>Float:
    loop s = x, k = 0 while k < a: (smooth(s, x), k + 1)
    loop s = s, k = 0 while k < b: (smooth(s, s), k + 1)
    s

def thrice(x: Fin(n)=>Float, a: Int, b: Int) -> Fin(n)=>Float:
    loop s = x, k = 0 while k < a: (smooth(s, x), k + 1)
    loop s = s, k = 0 while k < b: (smooth(s, s), k + 1)
    loop s = s, k = 0 while k < a + b: (smooth(x, s), k + 1)
    s

def kept(x: Fin(n)=>Float, a: Int, b: Int) -> Fin(n)=>Float:
    loop s = x, k = 0 while k < a: (smooth(s, x), k + 1)
    loop t = s, k = 0 while k < b: (smooth(t, s), k + 1)
    t

def rows(x: m=>Fin(n)=>Float, a: Int, b: Int) -> m=>Fin(n)=>Float = [twice(x[i], a, b) for i]
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def _smooth(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (np.concatenate([x[:1], x[:-1]]) + y) / 2 if len(x) else x


@pytest.mark.parametrize("n", [0, 1, 2, 9, 1000])
@pytest.mark.parametrize("a", [0, 1, 2])
@pytest.mark.parametrize("b", [0, 1, 4])
def test_values(m, n: int, a: int, b: int) -> None:
    x = np.random.default_rng(n).normal(size=n)
    s = x
    for _ in range(a):
        s = _smooth(s, x)
    t = first = s
    for _ in range(b):
        s = _smooth(s, s)
        t = _smooth(t, first)
    assert np.allclose(m.twice(x, a, b), s, rtol=1e-14)
    assert np.allclose(m.kept(x, a, b), t, rtol=1e-14)
    assert np.allclose(m.rows(np.array([x, x]), a, b), s, rtol=1e-14)
    for _ in range(a + b):
        s = _smooth(x, s)
    assert np.allclose(m.thrice(x, a, b), s, rtol=1e-14)


@pytest.mark.parametrize(("name", "arrays"), [("twice", 1), ("thrice", 1), ("kept", 3)])
def test_arrays(m, name: str, arrays: int) -> None:
    """What a later loop still reads stays."""
    assert m[name].show("loops").count("  allocate ") == arrays


@pytest.mark.parametrize("n", [1, 2, 4, 8, 512])
def test_transforms(n: int) -> None:
    f = nap.load(str(FFT)).transforms
    r = np.random.default_rng(n)
    x, y = r.normal(size=(2, 300, n))
    re, im = f(x, y)
    assert np.allclose(re + 1j * im, np.fft.fft(x + 1j * y), atol=1e-12)
    assert f.show("loops").count("  allocate ") == 6


def test_a_row_that_fails() -> None:
    f = nap.load(str(FFT)).transforms
    x = np.zeros((300, 24))
    with pytest.raises(nap.RunError, match="a power of two"):
        f(x, x)
