"""What comes before and after a recurrence does not go in its order: Cox's partial likelihood,
whose risk is a running sum of exponentials of products."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import naperian as nap
from naperian import pages

COX = nap.compile("""
def cox(beta: d=>Float, x: Fin(n)=>d=>Float, event: Fin(n)=>Float) -> Float:
    eta = x @ beta
    risk = cumsum(exp(eta))
    sum(event[i] * (eta[i] - log(risk[i])) for i)

def slope(beta: d=>Float, x: Fin(n)=>d=>Float, event: Fin(n)=>Float) = grad(cox)(beta, x, event)

def turned(beta: d=>Float, x: d=>Fin(n)=>Float) -> Fin(n)=>Float =
    log(cumsum([exp(sum(x[k, i] * beta[k] for k)) for i]))

def window(x: Fin(n + 2)=>Float) -> Fin(n)=>Float =
    cumsum([sum(x[i + k] for k in Fin(3)) for i in Fin(n)])
""")


@pytest.mark.parametrize(("n", "d"), [(0, 3), (1, 1), (7, 0), (300, 5), (129, 20)])
def test_a_running_sum_of_products(n: int, d: int) -> None:
    r = np.random.default_rng(n)
    beta, x, event = r.normal(size=d), r.normal(size=(n, d)), (r.uniform(size=n) < 0.5) * 1.0
    eta = x @ beta
    risk = np.cumsum(np.exp(eta))
    value = (event * (eta - np.log(risk))).sum()
    moved = np.cumsum(np.exp(eta)[:, None] * x, axis=0) / risk[:, None]
    np.testing.assert_allclose(COX.cox(beta, x, event), value, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        COX.slope(beta, x, event), event @ (x - moved), rtol=1e-10, atol=1e-10
    )
    np.testing.assert_allclose(COX.turned(beta, x.T.copy()), np.log(risk), rtol=1e-12, atol=1e-12)


def test_the_products_are_parallel_and_the_running_sum_is_not() -> None:
    text = COX.cox.show("loops")
    before, after = text.split("allocate small early")
    assert "parallel for four in 0..((n + 3) // 4)" in before
    assert "exp(" in after
    assert "for k" not in after


def test_what_reads_a_recurrence_backwards_is_added_up_as_memory_lies() -> None:
    text = COX.slope.show("loops")
    assert "f64[n, d]" not in text.split("\n", 1)[1]  # no products of all rows are kept
    assert "update out[" in text.split("for t")[-1]


def test_the_sum_of_a_window_is_made_where_it_is_read() -> None:
    assert "parallel" not in COX.window.show("loops")
    x = np.arange(7.0)
    np.testing.assert_array_equal(COX.window(x), [3, 9, 18, 30, 45])


def test_a_jacobian_of_chains_keeps_its_vectors_of_seeds() -> None:
    """What comes after the chain of the hand's bones goes on in the loop over all seeds."""
    text = (Path(__file__).parent.parent / "examples" / "hand.md").read_text("utf-8")
    m = nap.compile(next(c.program for c in pages.claims(text) if c.program))
    loops = m.by_angles.show("loops")
    assert loops.count("parallel for j") == 1
    assert "lanes for" in loops.split("parallel for j")[1]


FRACTIONS = nap.compile("""
def fractions(x: Fin(n)=>Fin(m)=>Float, steps: Int) -> Fin(steps)=>Fin(n)=>Fin(m)=>Float:
    for s:
        y = [2.5 + exp(x[i, j] * s) for i, j]
        c = [scan(lambda c, v: 1.0 / (v - c), 0.0, [y[i, j] for i]) for j]
        [c[j, n - 1 - i] for i, j]
""").fractions


def test_of_two_loops_around_a_recurrence_that_along_memory_goes_side_by_side() -> None:
    text = FRACTIONS.show("loops")
    assert "parallel for s in 0..steps" in text
    assert "16 * s" not in text


@pytest.mark.parametrize(("n", "m", "steps"), [(0, 3, 2), (3, 0, 2), (5, 1, 3), (4, 7, 20),
                                               (3, 16, 1), (6, 33, 17), (2, 530, 2)])  # fmt: skip
def test_the_rows_of_both_loops(n: int, m: int, steps: int) -> None:
    x = np.cos(np.arange(n * m, dtype=float)).reshape(n, m)
    expected = np.zeros((steps, n, m))
    for s in range(steps):
        c = np.zeros(m)
        for i in range(n):
            c = 1.0 / (2.5 + np.exp(x[i] * s) - c)
            expected[s, n - 1 - i] = c
    np.testing.assert_allclose(FRACTIONS(x, steps), expected, rtol=1e-13)


AHEAD = nap.compile("""
def means(x: n=>Float, a: Float) -> Float:
    loop y = x, w = 1.0 for i in Fin(3):
        loop z = a, q = 1.0 for l in Fin(3): (mean(y), q * z)
        (sin(y), q * w)
    w
""").means


def test_recurrences_that_each_go_ahead_of_the_other() -> None:
    """What a loop needs to begin is placed before it, once, also if that is itself a recurrence
    which the loop goes ahead of."""
    x, a, h = np.array([0.3, 0.7, 1.1]), 0.6, 1e-6
    value, slope = nap.jvp(AHEAD)(x, a, x)
    y, w = x, 1.0
    for _ in range(3):
        w *= a * y.mean() ** 2
        y = np.sin(y)
    assert value == pytest.approx(w)
    assert slope == pytest.approx((AHEAD(x + h * x, a) - AHEAD(x - h * x, a)) / (2 * h), rel=1e-7)
