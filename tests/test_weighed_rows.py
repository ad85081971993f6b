"""Rows with weights of their own are added four at a time."""

from itertools import pairwise

import numpy as np
import pytest

import naperian as nap

TEXT = """
def causal(q: Fin(t)=>k=>Float, x: Fin(t)=>k=>Float) -> Fin(t)=>k=>Float:
    for s:
        p = softmax([sum(q[s, c] * x[u, c] for c) for u in ..=s])
        [sum(p[u] * x[u, c] for u in ..=s) for c]
def named(
    keys: Fin(n)=>m, p: Fin(n)=>Float, x: m=>k=>Float, l: Fin(b + 1)=>Fin(n + 1)
) -> Fin(b)=>k=>Float:
    for i in Fin(b):
        [sum(exp(p[e]) * x[keys[e], c] for e in l[i]..l[i + 1]) for c]
def carried(w: t=>Float, x: t=>k=>Float) -> k=>Float:
    with accum() as out:
        for s:
            f = w[s] / (1.0 + w[s])
            for c: out[c] += f * x[s, c]
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


@pytest.mark.parametrize("t", [0, 1, 3, 4, 5, 7, 8, 9, 21])
@pytest.mark.parametrize("k", [0, 1, 3, 8, 13])
def test_every_row_has_its_weight(m, t: int, k: int) -> None:
    assert "for four in" in m.causal.show("loops")
    r = np.random.default_rng(t)
    q, x = r.normal(size=(2, t, k))
    scores = np.where(np.tri(t, dtype=bool), q @ x.T, -np.inf)
    p = np.exp(scores - scores.max(1, keepdims=True, initial=-1e300))
    p /= p.sum(1, keepdims=True)
    np.testing.assert_allclose(m.causal(q, x), p @ x, rtol=1e-12, atol=1e-12)
    w = r.uniform(size=t)
    want = (w / (1 + w)) @ x
    np.testing.assert_allclose(m.carried(w, x), want, rtol=1e-12, atol=1e-12)


def test_rows_that_are_named(m) -> None:
    r = np.random.default_rng(0)
    keys, p, x = r.integers(0, 9, 40), r.normal(size=40), r.normal(size=(9, 5))
    ends = np.array([0, 0, 1, 4, 9, 21, 40])
    want = [np.exp(p[a:b]) @ x[keys[a:b]] for a, b in pairwise(ends)]
    np.testing.assert_allclose(m.named(keys, p, x, ends), want, rtol=1e-12, atol=1e-12)
    keys[33] = 9
    with pytest.raises(nap.IndexError):
        m.named(keys, p, x, ends)
