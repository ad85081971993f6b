"""Loops whose rounds alternate: gradients of windows that go by steps, in every size."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap

WINDOWS = """
def known(x: Fin(67)=>Fin(67)=>Float, k: Fin(3)=>Fin(3)=>Float) -> Float =
    sum((sum(k[a, b] * x[2 * i + a, 2 * j + b] for a, b) ** 2)
        for i in Fin(33), j in Fin(33))
def by_twos(x: Fin(h)=>Fin(w)=>Float, k: Fin(3)=>Fin(3)=>Float) -> Float =
    sum((sum(k[a, b] * x[2 * i + a, 2 * j + b] for a, b) ** 2)
        for i in Fin((h - 1) // 2), j in Fin((w - 1) // 2))
def by_threes(x: Fin(h)=>Fin(w)=>Float, k: Fin(5)=>Fin(5)=>Float) -> Float =
    sum((sum(k[a, b] * x[3 * i + a, 3 * j + b] for a, b) ** 2)
        for i in Fin((h - 2) // 3), j in Fin((w - 2) // 3))
def twice(x: n=>Float) -> Fin(2 * n + 1)=>Float = [x[clamp(i // 2)] * i for i in Fin(2 * n + 1)]
def spread(x: n=>Float) -> Float = sum(y ** 2 for y in twice(x))
def alternate(x: Fin(n)=>Float) -> Fin(n)=>Float =
    [x[i] if i % 2 == 0 else -x[i] if i % 4 == 1 else 0.0 for i]
"""


def transposed(x: np.ndarray, k: np.ndarray, by: int) -> np.ndarray:
    """The gradient of the sum of squares, window by window."""
    out = np.zeros_like(x)
    n = len(k)
    for i in range((x.shape[0] - n) // by + 1):
        for j in range((x.shape[1] - n) // by + 1):
            window = np.s_[by * i : by * i + n, by * j : by * j + n]
            out[window] += 2 * np.sum(k * x[window]) * k
    return out


@pytest.mark.parametrize("shape", [(5, 5), (5, 6), (6, 8), (7, 17), (20, 35), (36, 67), (67, 67)])
def test_what_windows_by_steps_send_back(shape: tuple[int, int]) -> None:
    m = nap.compile(WINDOWS)
    rng = np.random.default_rng(0)
    x, k = rng.standard_normal(shape), rng.standard_normal((5, 5))
    three = np.ascontiguousarray(k[:3, :3])
    np.testing.assert_allclose(nap.grad(m.by_twos)(x, three), transposed(x, three, 2), atol=1e-12)
    np.testing.assert_allclose(nap.grad(m.by_threes)(x, k), transposed(x, k, 3), atol=1e-12)
    if shape == (67, 67):
        np.testing.assert_allclose(nap.grad(m.known)(x, three), transposed(x, three, 2), atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 15, 16, 17, 18, 19, 33, 100])
def test_rounds_that_no_turn_takes(n: int) -> None:
    m = nap.compile(WINDOWS)
    x = np.random.default_rng(n).standard_normal(n)
    i = np.arange(n)
    want = np.select([i % 2 == 0, i % 4 == 1], [x, -x], 0.0)
    np.testing.assert_array_equal(m.alternate(x), want)
    if n:
        at = np.arange(2 * n + 1)
        source = np.minimum(at // 2, n - 1)
        np.testing.assert_array_equal(m.twice(x), x[source] * at)
        want = np.zeros(n)
        np.add.at(want, source, 2 * x[source] * at**2)
        np.testing.assert_allclose(nap.grad(m.spread)(x), want)


def test_elements_under_a_window_ask_for_no_place_in_it() -> None:
    """Four kinds of elements are under 4, 2, 2 and 1 places of a window, which are 9 products."""
    text = nap.grad(nap.compile(WINDOWS).known).show("loops")
    assert not re.search(r"wrap|// 2", text)
    (rows,) = re.findall(r"\n    parallel for \w+ in 0\.\.32:\n((?:        .*\n)+)", text)
    inner = re.findall(r"free for \w+ in 0\.\.32:\n((?:            .*\n)+)", rows)
    assert len(inner) == 2
    assert sum(x.count(" * k[") for x in inner) == 9
    assert not any("if" in x for x in inner)


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (5, 19), (7, 40)])
def test_a_transposed_convolution_goes_along_its_rows(shape: tuple[int, int]) -> None:
    """Two elements lie beside each other for one that is read; an even number of rows is whole."""
    m = nap.compile("""
def larger(
    x: c=>Fin(h)=>Fin(v)=>Float, w: c=>o=>Fin(2)=>Fin(2)=>Float
) -> o=>Fin(2 * h)=>Fin(2 * v)=>Float =
    [sum(x[q, i // 2, j // 2] * w[q, p, i % 2, j % 2] for q)
     for p, i in Fin(2 * h), j in Fin(2 * v)]
""")
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((3, *shape)), rng.standard_normal((3, 5, 2, 2))
    want = np.einsum("qij,qpab->piajb", x, w).reshape(5, 2 * shape[0], 2 * shape[1])
    np.testing.assert_allclose(m.larger(x, w), want, atol=1e-12)
    text = m.larger.show("loops")
    assert "for j_2 in 0..v:" in text
    assert not re.search(r"if |clamp|wrap", text)


def test_gradients_of_a_transposed_convolution_go_along_rows() -> None:
    """Each place's factors are multiplied where they are summed, for a row at once, and what is
    sent to two weights by turns is two sums in registers."""
    m = nap.compile("""
def loss(x: c=>Fin(h)=>Fin(v)=>Float, w: c=>o=>Fin(2)=>Fin(2)=>Float) -> Float =
    sum(sum(x[q, i // 2, j // 2] * w[q, p, i % 2, j % 2] for q) ** 2
        for p, i in Fin(2 * h), j in Fin(2 * v))
""")
    rng = np.random.default_rng(0)
    slopes = nap.grad(m.loss, wrt=(0, 1))
    for h, v in ((1, 1), (2, 3), (5, 19), (7, 40)):
        x, w = rng.standard_normal((3, h, v)), rng.standard_normal((3, 5, 2, 2))
        back = 2 * np.einsum("qij,qpab->piajb", x, w)
        by_x, by_w = slopes(x, w)
        np.testing.assert_allclose(by_x, np.einsum("piajb,qpab->qij", back, w), atol=1e-12)
        np.testing.assert_allclose(by_w, np.einsum("piajb,qij->qpab", back, x), atol=1e-11)
    text = slopes.show("loops")
    assert "f64[o, 2 * h, c, 2 * v]" not in text
    assert len(re.findall(r"free for \w+ in 0\.\.v reducing add sum, add sum_2", text)) == 1
    assert not re.search(r"for q\w* in 0\.\.o reducing", text)
