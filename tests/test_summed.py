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
    for k, line in enumerate(lines):
        if line.lstrip().startswith("for "):
            inside = takewhile(partial(_is_deeper, line), lines[k + 1 :])
            assert any(" for " in x for x in inside), line


def _is_deeper(one: str, other: str) -> bool:
    return len(other) - len(other.lstrip()) > len(one) - len(one.lstrip())
