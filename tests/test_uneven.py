"""Rows of triangles go side by side, if there are many where vectors may go along what is inside:
heads of attention."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

M = nap.compile("""
def attend(q: Fin(t)=>d=>Float, k: Fin(t)=>d=>Float, v: Fin(t)=>d=>Float) -> Fin(t)=>d=>Float:
    for i:
        p = softmax([sum(q[i, e] * k[j, e] for e) for j in ..=i])
        [sum(p[j] * v[j, e] for j in ..=i) for e]

def heads(q: h=>Fin(t)=>d=>Float, k: Fin(t)=>d=>Float, v: Fin(t)=>d=>Float) -> Float =
    sum(x ** 2 for a in [attend(q[a], k, v) for a], row in a, x in row)

def groups(
    q: g=>h=>Fin(t)=>d=>Float, k: g=>Fin(t)=>d=>Float, v: g=>Fin(t)=>d=>Float
) -> Float =
    sum(sum(x ** 2 for row in attend(q[a, b], k[a], v[a]), x in row) for a, b)

def forms(l: Fin(d)=>Fin(d)=>Float, x: n=>Fin(d)=>Float) -> Float =
    sum(sum(l[i, j] * x[a, j] for j in ..=i) ** 2 for a, i)
""")


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = np.where(np.tri(len(k), dtype=bool), q @ k.T, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True) @ v  # type: ignore[no-any-return]


def test_rows_of_longer_rows_go_side_by_side_where_there_are_many() -> None:
    assert "lanes for" in M.forms.show("loops")
    assert " if " not in M.forms.show("loops").partition("lanes for")[0]
    assert "if (h >= 32) and (128 >= d):" in M.heads.show("loops").partition("lanes for")[0]
    first, *_ = nap.grad(M.groups, "k").show("loops").partition("lanes for")
    assert ">= 32) and (128 >= " in first


SIZES = [(1, 1, 1), (2, 3, 5), (6, 17, 8), (40, 5, 2), (70, 4, 3), (0, 3, 2), (33, 2, 130)]


@pytest.mark.parametrize(("h", "t", "d"), SIZES)
def test_values(h: int, t: int, d: int, threads: None) -> None:
    r = np.random.default_rng(h)
    q, k, v = r.normal(size=(h, t, d)), r.normal(size=(t, d)), r.normal(size=(t, d))
    want = sum((attend(a, k, v) ** 2).sum() for a in q)
    assert M.heads(q, k, v) == pytest.approx(want, rel=1e-12)
    keys, values = k + np.arange(2.0)[:, None, None], v * np.arange(1.0, 3.0)[:, None, None]
    both = np.stack([q, -q])
    groups = zip(both, keys, values, strict=True)
    want = sum((attend(a, *kv) ** 2).sum() for g, *kv in groups for a in g)
    assert M.groups(both, keys, values) == pytest.approx(want, rel=1e-12)
    step = r.normal(size=keys.shape)
    ends = [M.groups(both, keys + e * step, values) for e in (1e-5, -1e-5)]
    slope = (nap.grad(M.groups, "k")(both, keys, values) * step).sum()
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-7)
