"""What a round adds to one element beside what it sums up goes on in registers: the gradients by
scales and shifts of channels, beside their image's or alone, are vectors along the image."""

from __future__ import annotations

from functools import partial
from itertools import takewhile

import numpy as np
import pytest

import naperian as nap

CHANNELS = nap.compile("""
def scaled(x: r=>n=>m=>Float, g: n=>Float, b: n=>Float) -> Float =
    sum(relu(g[q] * x[s, q, i] + b[q]) ** 2 for s, q, i)

def normed(x: r=>n=>m=>Float, g: n=>Float, b: n=>Float) -> Float =
    sum(sin(normal(x[s, q], g[q], b[q])[i]) for s, q, i in m)

def normal(x: m=>Float, g: Float, b: Float) -> m=>Float:
    centre = mean(x)
    spread = sqrt(mean((v - centre) ** 2 for v in x) + 0.01)
    [relu((v - centre) / spread * g + b) for v in x]
""")
SHAPES = [(0, 2, 3), (2, 0, 3), (2, 3, 0), (1, 1, 1), (3, 2, 9), (2, 5, 40), (4, 17, 33)]


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("wrt", [("g", "b"), ("x", "g", "b")])
@pytest.mark.parametrize("name", ["scaled", "normed"])
def test_the_gradient_of_channels(
    name: str, wrt: tuple[str, ...], shape: tuple[int, int, int]
) -> None:
    r = np.random.default_rng(len(wrt))
    n = shape[1]
    at = {"x": r.normal(size=shape), "g": r.normal(size=n), "b": r.normal(size=n)}
    d = {k: r.normal(size=v.shape) * (k in wrt) for k, v in at.items()}
    f = CHANNELS[name]
    value, slopes = nap.value_and_grad(f, wrt)(**at)
    np.testing.assert_allclose(value, f(**at), rtol=1e-12)
    h = 1e-6
    more, less = ({k: v + s * d[k] for k, v in at.items()} for s in (h, -h))
    want = (f(**more) - f(**less)) / (2 * h)
    got = sum(np.sum(s * d[k]) for k, s in zip(wrt, slopes, strict=True))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("wrt", [("g", "b"), ("x", "g", "b")])
@pytest.mark.parametrize("name", ["scaled", "normed"])
def test_no_round_waits_for_a_sum_in_memory(name: str, wrt: tuple[str, ...]) -> None:
    """No loop is in order that has no other loop in it."""
    lines = nap.value_and_grad(CHANNELS[name], wrt).show("loops").splitlines()
    assert any("update" in line for line in lines)
    _no_round_waits(lines)


PAIRS = """
def energies(x: n=>Float, m: n=>Float, steps: Int) -> Float:
    (_, e) = loop x = x, e = 0.0 for _ in Fin(steps):
        y = [x[i] + 0.1 * sin(x[i]) for i]
        (y, e + sum(m[i] * m[j] / sqrt((y[i] - y[j]) ** 2 + 1.0) for i in n, j in i<..))
    e
"""


def test_a_row_of_a_packed_triangle_is_a_vector() -> None:
    """What each pair of a round sends back is stored in a row of a triangle, and summed up beside:
    the rows start where squares of their numbers say, which no round of a row changes."""
    f = nap.compile(PAIRS).energies
    slope = nap.grad(f, wrt="x")
    _no_round_waits(slope.show("loops").splitlines())
    for n, steps in ((0, 2), (1, 1), (2, 3), (23, 2)):
        r = np.random.default_rng(n)
        x, m, d = r.normal(size=(3, n))
        want = (f(x + 1e-6 * d, m, steps) - f(x - 1e-6 * d, m, steps)) / 2e-6
        np.testing.assert_allclose(slope(x, m, steps) @ d, want, rtol=1e-6, atol=1e-7)


def _no_round_waits(lines: list[str]) -> None:
    for k, line in enumerate(lines):
        if line.lstrip().startswith("for "):
            inside = takewhile(partial(_is_deeper, line), lines[k + 1 :])
            assert any(" for " in x for x in inside), line


def _is_deeper(one: str, other: str) -> bool:
    return len(other) - len(other.lstrip()) > len(one) - len(one.lstrip())
