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


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("n", [0, 1, 7, 60, 20_000])
def test_short_steps_in_loops_are_made_where_they_stand(n: int) -> None:
    m = nap.compile(
        "def f(a: Fin(m)=>Fin(n)=>Float, c: Fin(m)=>Float) -> Fin(m)=>Fin(n)=>Float:\n"
        "    with state(a) as s:\n"
        "        for k in Fin(m):\n"
        "            for i in k<..: s[i] := [s[i, j] - s[i, clamp(0)] * c[k] * s[k, j] for j]\n"
    )
    r = np.random.default_rng(n)
    a, c = r.normal(size=(5, n)), r.normal(size=5) / 4
    want = a.copy()
    for k in range(5 if n else 0):
        for i in range(k + 1, 5):
            want[i] = want[i] - want[i, 0] * c[k] * want[k]
    assert np.allclose(m.f(a, c), want, rtol=1e-12)
    kernel = m.f.show("llvm").split("@kernel")[-1]
    assert "nap_run" in kernel
    assert "fmul" in kernel
