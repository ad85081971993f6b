"""Rows are added where data say along the row: the gradient of a table of embeddings."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

MODULE = nap.compile("""
def means(e: v=>d=>Float, words: n=>t=>v) -> n=>d=>Float =
    [[mean(e[words[i, k], j] for k) for j] for i]

def loss(e: v=>d=>Float, words: n=>t=>v, y: n=>d=>Float) -> Float =
    sum(sum((means(e, words) - y) ** 2))

def slope(e: v=>d=>Float, words: n=>t=>v, y: n=>d=>Float) = grad(loss)(e, words, y)
""")


@pytest.mark.parametrize(
    ("v", "d", "n", "t"), [(1, 1, 1, 1), (9, 5, 0, 3), (50, 33, 20, 7), (3, 0, 4, 2)]
)
def test_the_gradient_of_embeddings(v: int, d: int, n: int, t: int) -> None:
    r = np.random.default_rng(v)
    e, y, words = r.normal(size=(v, d)), r.normal(size=(n, d)), r.integers(0, v, (n, t))
    rows = 2 * (e[words].mean(1) - y) / t
    want = np.zeros((v, d))
    np.add.at(want, words, np.broadcast_to(rows[:, None], (n, t, d)))
    np.testing.assert_allclose(MODULE.slope(e, words, y), want, rtol=1e-12, atol=1e-12)


def test_it_goes_along_rows() -> None:
    last = MODULE.slope.show("loops").split("update out[")[-2]
    assert "in 0..d" in last.rsplit("for ", 1)[1]
