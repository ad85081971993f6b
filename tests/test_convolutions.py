"""Convolutions of images with several channels, and their derivatives by kernels and images."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import naperian as nap

TEXT = """
def conv(k: o=>c=>Fin(3)=>Fin(2)=>Float,
         x: Fin(n)=>c=>Fin(h + 2)=>Fin(w + 1)=>Float) -> Fin(n)=>o=>Fin(h)=>Fin(w)=>Float:
    for b, q, i in Fin(h), j in Fin(w):
        sum(k[q, d, e, f] * x[b, d, i + e, j + f] for d, e in Fin(3), f in Fin(2))

def total(k: o=>c=>Fin(3)=>Fin(2)=>Float, x: Fin(n)=>c=>Fin(h + 2)=>Fin(w + 1)=>Float,
          y: Fin(n)=>o=>Fin(h)=>Fin(w)=>Float) -> Float:
    z = conv(k, x)
    sum(y[b, q, i, j] * z[b, q, i, j] for b, q, i, j)

def slopes(k: o=>c=>Fin(3)=>Fin(2)=>Float, x: Fin(n)=>c=>Fin(h + 2)=>Fin(w + 1)=>Float,
           y: Fin(n)=>o=>Fin(h)=>Fin(w)=>Float):
    grad(total, wrt=("k", "x"))(k, x, y)

# A small network in which all sizes are known.
def layer(k: o=>c=>Fin(3)=>Fin(3)=>Float,
          x: c=>Fin(10)=>Fin(10)=>Float) -> o=>Fin(8)=>Fin(8)=>Float:
    for o, i in Fin(8), j in Fin(8):
        max(sum(k[o, c, r, s] * x[c, i + r, j + s] for c, r in Fin(3), s in Fin(3)), 0.0)

def scores(k: Fin(6)=>Fin(4)=>Fin(3)=>Fin(3)=>Float, w: Fin(384)=>Fin(3)=>Float,
           x: Fin(4)=>Fin(10)=>Fin(10)=>Float) -> Fin(3)=>Float:
    y = layer(k, x)
    flat = [y[q // 64, q // 8 % 8, q % 8] for q in Fin(384)]
    for d: sum(flat[q] * w[q, d] for q)

def cost(k: Fin(6)=>Fin(4)=>Fin(3)=>Fin(3)=>Float, w: Fin(384)=>Fin(3)=>Float,
         xs: Fin(n)=>Fin(4)=>Fin(10)=>Fin(10)=>Float) -> Float:
    sum(logsumexp(scores(k, w, xs[b])) for b)

def step(k: Fin(6)=>Fin(4)=>Fin(3)=>Fin(3)=>Float, w: Fin(384)=>Fin(3)=>Float,
         xs: Fin(n)=>Fin(4)=>Fin(10)=>Fin(10)=>Float):
    grad(cost, wrt=("k", "w", "xs"))(k, w, xs)
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [
    (2, 5, 3, 7, 9), (1, 1, 1, 1, 1), (3, 8, 4, 12, 20), (2, 4, 8, 40, 33), (0, 4, 2, 5, 5),
    (2, 0, 3, 5, 5), (2, 5, 0, 5, 5), (2, 5, 3, 0, 8), (2, 5, 3, 8, 0), (1, 17, 9, 3, 530),
])  # fmt: skip
def test_derivatives_by_kernels_and_images(m, shape, dtype) -> None:
    n, o, c, h, w = shape
    r = np.random.default_rng(1)
    k = r.normal(size=(o, c, 3, 2)).astype(dtype)
    x = r.normal(size=(n, c, h + 2, w + 1)).astype(dtype)
    y = r.normal(size=(n, o, h, w)).astype(dtype)
    near = {"rtol": 1e-11, "atol": 1e-11} if dtype is np.float64 else {"rtol": 1e-3, "atol": 1e-3}
    wide = np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1)))  # a window, even where there are none
    windows = sliding_window_view(wide, (3, 2), (2, 3))[:, :, :h, :w]
    np.testing.assert_allclose(m.conv(k, x), np.einsum("qdef,bdijef->bqij", k, windows), **near)
    by_k, by_x = m.slopes(k, x, y)
    np.testing.assert_allclose(by_k, np.einsum("bqij,bdijef->qdef", y, windows), **near)
    expected = np.zeros_like(x)
    for e in range(3):
        for f in range(2):
            expected[:, :, e : e + h, f : f + w] += np.einsum("qd,bqij->bdij", k[:, :, e, f], y)
    np.testing.assert_allclose(by_x, expected, **near)


def test_a_network_of_known_sizes(m) -> None:
    r = np.random.default_rng(2)
    args = [r.normal(size=s) for s in ((6, 4, 3, 3), (384, 3), (5, 4, 10, 10))]
    found = m.step(*args)
    for at, slope in enumerate(found):
        d = r.normal(size=slope.shape)
        ends = []
        for e in (1e-6, -1e-6):
            moved = list(args)
            moved[at] = args[at] + e * d
            ends.append(m.cost(*moved))
        np.testing.assert_allclose((slope * d).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def test_what_is_flattened_is_read_back(m) -> None:
    """Places told by three digits of one number are told by the number: nothing is added there."""
    text = m.step.show("noted")
    assert "// (64)" not in "".join(x for x in text.splitlines() if " at [" in x)
