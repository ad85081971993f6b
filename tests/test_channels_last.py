"""Convolutions of images whose channels are the last axis: forwards, backwards, and mirrored."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import naperian as nap
from naperian import pipeline
from naperian.loops.syntax import Allocate, Contract, Program
from naperian.loops.walk import statements, used_in
from naperian.signed import at

TEXT = """
def conv(x: Fin(b)=>Fin(h + 4)=>Fin(w + 3)=>Fin(c)=>Float,
         k: Fin(5)=>Fin(4)=>Fin(c)=>Fin(o)=>Float) -> Fin(b)=>Fin(h)=>Fin(w)=>Fin(o)=>Float =
    [sum(x[n, i + r, j + s, d] * k[r, s, d, q] for d, r, s)
     for n, i in Fin(h), j in Fin(w), q]

def mirrored(x: Fin(b)=>Fin(h + 4)=>Fin(w + 3)=>Fin(c)=>Float,
             k: Fin(o)=>Fin(c)=>Fin(5)=>Fin(4)=>Float) -> Fin(b)=>Fin(h)=>Fin(w)=>Fin(o)=>Float =
    [sum(k[q, d, r, s] * x[n, i + 4 - r, j + 3 - s, d] for d, r, s)
     for n, i in Fin(h), j in Fin(w), q]

def by_steps(x: Fin(2 * h + 4)=>Fin(2 * w + 3)=>Fin(c)=>Float,
             k: Fin(o)=>Fin(5)=>Fin(4)=>Fin(c)=>Float) -> Fin(h)=>Fin(w)=>Fin(o)=>Float =
    [sum(x[2 * i + r, 2 * j + s, d] * k[q, r, s, d] for r, s, d)
     for i in Fin(h), j in Fin(w), q]

def row(x: Fin(b)=>Fin(w + 3)=>Fin(c)=>Float,
        k: Fin(o)=>Fin(4)=>Fin(c)=>Float) -> Fin(b)=>Fin(w)=>Fin(o)=>Float =
    [sum(x[n, j + s, d] * k[q, s, d] for s, d) for n, j in Fin(w), q]

def row_back(x: Fin(b)=>Fin(w + 3)=>Fin(c)=>Float,
             k: Fin(4)=>Fin(o)=>Fin(c)=>Float) -> Fin(b)=>Fin(w)=>Fin(o)=>Float =
    [sum(x[n, j + 3 - s, d] * k[s, q, d] for d, s) for n, j in Fin(w), q]

def own(x: Fin(b)=>Fin(h + 4)=>Fin(w + 3)=>Fin(c)=>Float,
        k: Fin(b)=>Fin(o)=>Fin(c)=>Fin(5)=>Fin(4)=>Float) -> Fin(b)=>Fin(h)=>Fin(w)=>Fin(o)=>Float =
    [sum(x[n, i + r, j + s, d] * k[n, q, d, r, s] for d, r, s)
     for n, i in Fin(h), j in Fin(w), q]

def total(x: Fin(b)=>Fin(h + 4)=>Fin(w + 3)=>Fin(c)=>Float,
          k: Fin(5)=>Fin(4)=>Fin(c)=>Fin(o)=>Float,
          y: Fin(b)=>Fin(h)=>Fin(w)=>Fin(o)=>Float) -> Float:
    z = conv(x, k)
    sum(z[n, i, j, q] * y[n, i, j, q] for n, i, j, q)
"""
SHAPES = ((2, 5, 7, 3, 9), (1, 1, 1, 1, 1), (3, 12, 20, 16, 8), (0, 4, 4, 2, 2), (2, 0, 3, 8, 9),
          (2, 3, 4, 0, 5), (2, 3, 4, 5, 0), (1, 2, 37, 17, 19))  # fmt: skip


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def compiled(f: nap.Function) -> Program:
    module = f._program.core()
    return pipeline.lower(module, f.__name__, at(module.definitions[f.__name__], f._usual()))


def windows(x: np.ndarray, *wide: int) -> np.ndarray:
    """The windows of the axes in front of the channels; there are some even of no pixels."""
    axes = tuple(range(x.ndim - 1 - len(wide), x.ndim - 1))
    return sliding_window_view(x, wide, axes)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_slopes(m, shape: tuple[int, ...], dtype: type) -> None:
    b, h, w, c, o = shape
    r = np.random.default_rng(0)

    def some(*n: int) -> np.ndarray:
        return r.normal(size=n).astype(dtype)

    near = {"rtol": 1e-11, "atol": 1e-11} if dtype is np.float64 else {"rtol": 1e-3, "atol": 1e-3}
    x, k, y = some(b, h + 4, w + 3, c), some(5, 4, c, o), some(b, h, w, o)
    seen = windows(np.pad(x, ((0, 0), (0, 1), (0, 1), (0, 0))), 5, 4)[:, :h, :w]

    def of(k: np.ndarray, kernel: str) -> np.ndarray:
        return np.einsum(f"nijdrs,{kernel}->nijq", seen, k)

    np.testing.assert_allclose(m.conv(x, k), of(k, "rsdq"), **near)
    turned = some(o, c, 5, 4)
    np.testing.assert_allclose(m.mirrored(x, turned), of(turned[..., ::-1, ::-1], "qdrs"), **near)
    own = some(b, o, c, 5, 4)
    np.testing.assert_allclose(m.own(x, own), of(own, "nqdrs"), **near)
    by_x, by_k = nap.grad(m.total, wrt=("x", "k"))(x, k, y)
    np.testing.assert_allclose(by_k, np.einsum("nijdrs,nijq->rsdq", seen, y), **near)
    back = np.zeros_like(x)
    for e in range(5):
        for f in range(4):
            back[:, e : e + h, f : f + w] += np.einsum("nijq,dq->nijd", y, k[e, f])
    np.testing.assert_allclose(by_x, back, **near)
    far = some(2 * h + 4, 2 * w + 3, c)
    apart = windows(np.pad(far, ((0, 1), (0, 1), (0, 0))), 5, 4)[: 2 * h : 2, : 2 * w : 2]
    k = some(o, 5, 4, c)
    np.testing.assert_allclose(m.by_steps(far, k), np.einsum("ijdrs,qrsd->ijq", apart, k), **near)
    x, k = some(b, w + 3, c), some(o, 4, c)
    near_by = windows(np.pad(x, ((0, 0), (0, 1), (0, 0))), 4)[:, :w]
    np.testing.assert_allclose(m.row(x, k), np.einsum("njds,qsd->njq", near_by, k), **near)
    back = np.ascontiguousarray(k.transpose(1, 0, 2)[::-1])
    np.testing.assert_allclose(m.row_back(x, back), m.row(x, k), **near)


@pytest.mark.parametrize(("name", "copies"), [
    ("conv", 0), ("mirrored", 1), ("by_steps", 1), ("own", 1), ("row", 0), ("row_back", 1),
])  # fmt: skip
def test_what_is_summed_is_in_one_piece(m, name: str, copies: int) -> None:
    """The loops of a sum go as the image does, and its columns lie side by side."""
    body = compiled(getattr(m, name)).body
    [s] = [s for s in statements(body) if isinstance(s, Contract)]
    [(_, image), (_, kernel)] = sorted((s.left, s.right), key=lambda x: x[0].name != "x")
    order = [v for e in image for v in used_in(e) if v in dict(s.inner)]
    assert order == [v for v, _ in s.inner]
    assert all(c > 0 for e in image for m, c in e.terms if m)
    assert sum(isinstance(s, Allocate) for s in statements(body)) == copies
    assert name == "row" or kernel[-1] == s.out[1][-1]


def test_the_slopes_of_a_layer_are_sums_in_one_piece(m) -> None:
    body = compiled(nap.grad(m.total, wrt="x")).body
    [*_, s] = [s for s in statements(body) if isinstance(s, Contract)]
    order = [v for e in s.left[1] for v in used_in(e) if v in dict(s.inner)]
    assert order == [v for v, _ in s.inner]
    assert s.right[1][-1] == s.out[1][-1]
    body = compiled(nap.grad(m.total, wrt="k")).body
    [s] = [s for s in statements(body) if isinstance(s, Contract)]
    image = s.left if s.left[0].name == "x" else s.right
    assert s.out[1][-1] == image[1][-1]  # and the channels of what is read in no windows first
