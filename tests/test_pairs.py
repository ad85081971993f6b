"""Points that act on each other, of so many components as the call says: the rows of a gradient go
side by side, with what they send to the other point of a pair, and with sums of their own."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

POINTS = nap.compile("""
def far(x: n=>d=>Float) -> Float =
    sum(1.0 / sqrt(sum((x[i, k] - x[j, k]) ** 2 for k) + 0.01) for i, j)

def kernel(x: n=>d=>Float, w: n=>Float) -> Float =
    sum(w[i] * w[j] * exp(-sum((x[i, k] - x[j, k]) ** 2 for k)) for i, j)

def nearest(x: n=>d=>Float, y: m=>d=>Float) -> Float =
    sum(min(sum((y[i, k] - x[j, k]) ** 2 for k) for j) for i)

def stress(x: n=>d=>Float, g: n=>n=>Float) -> Float =
    sum((sqrt(sum((x[i, k] - x[j, k]) ** 2 for k) + 0.01) - g[i, j]) ** 2 for i, j)
""")
SHAPES = [(1, 3), (7, 2), (16, 3), (31, 1), (33, 3), (100, 3), (40, 9), (20, 140)]


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("name", ["far", "kernel", "stress", "nearest"])
def test_the_gradient_of_pairs(name: str, n: int, d: int) -> None:
    r = np.random.default_rng(n)
    others = {
        "far": [],
        "kernel": [r.random(n)],
        "stress": [r.random((n, n))],
        "nearest": [r.random((2 * n, d))],
    }[name]
    x, dx = r.random((n, d)), r.normal(size=(n, d))
    f = POINTS[name]
    value, slope = nap.value_and_grad(f, "x")(x, *others)
    np.testing.assert_allclose(value, f(x, *others), rtol=1e-12)
    h = 1e-6
    want = (f(x + h * dx, *others) - f(x - h * dx, *others)) / (2 * h)
    np.testing.assert_allclose(np.sum(slope * dx), want, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("threads")
def test_a_row_that_does_not_exist_adds_nothing() -> None:
    """The last of the rows that go side by side may be beyond the end."""
    x = np.zeros((33, 3))
    x[32] = np.nan
    _, slope = nap.value_and_grad(POINTS["kernel"], "x")(x, np.ones(33))
    assert np.isnan(slope).all()
    _, slope = nap.value_and_grad(POINTS["kernel"], "x")(x[:32], np.ones(32))
    assert (slope == 0.0).all()


@pytest.mark.parametrize("name", ["far", "kernel", "stress"])
def test_the_points_go_side_by_side(name: str) -> None:
    assert "lanes for" in nap.value_and_grad(POINTS[name], "x").show("loops")


def test_the_nearest_is_looked_for_in_vectors() -> None:
    """Its distance is known, and those of all are there."""
    text = nap.grad(POINTS.nearest, "x").show("loops")
    assert "free for j_2 in 0..n reducing min first" in text
    x = np.array([[1.0], [0.0], [0.0], [np.nan]])
    slope = nap.grad(POINTS.nearest, "x")(x[:3], np.array([[0.5], [-1.0]]))
    np.testing.assert_array_equal(slope, [[1.0], [2.0], [0.0]])
    slope = nap.grad(POINTS.nearest, "x")(x, np.array([[0.5], [-1.0]]))
    assert np.isnan(slope[3, 0])
    assert (slope[:3] == 0.0).all()


LINKED = """
def linked(d: Fin(n)=>Fin(n)=>Float, k: Int) -> (Float, Fin(n)=>Bool):
    (_, alive, total) = with state(d) as d, state([True for _ in d]) as alive, state(0.0) as total:
        for _ in Fin(k):
            (i, j) = argmin(d[i, j] for i, j if alive[i] and alive[j] and i < j)
            total += d[i, j]
            for q in Fin(n): d[i, q] := min(d[i, q], d[j, q])
            alive[j] := False
    (total, alive)
"""


def test_a_condition_that_is_asked_of_what_was_found_is_no_table() -> None:
    f = nap.compile(LINKED).linked
    assert "bool[n, n]" not in f.show("loops")
    x = np.random.default_rng(0).random((9, 9))
    d, alive, total = x.copy(), [True] * 9, 0.0
    for _ in range(5):
        pairs = [(a, b) for a in range(9) for b in range(a + 1, 9) if alive[a] and alive[b]]
        i, j = min(pairs, key=lambda p: d[p])
        total += d[i, j]
        d[i] = np.minimum(d[i], d[j])
        alive[j] = False
    assert f(x, 5)[0] == total
    np.testing.assert_array_equal(f(x, 5)[1], alive)
