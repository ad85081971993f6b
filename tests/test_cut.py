"""Loops that add up, cut where a comparison with their index changes."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

pytestmark = pytest.mark.usefixtures("threads")

TEXT = """
def two(x: n=>Float, k: Int) -> Float = sum(exp(x[i]) if i < k else x[i] for i)

def one(x: n=>m=>Float, k: Int) -> n=>Float = [sum(x[i, j] ** 3 for j if j < i + k) for i]

def several(x: n=>Float, k: Int) -> (Float, Float, Float):
    with accum() as s, accum(max) as t, accum(*) as u:
        for i:
            if i >= k:
                s += x[i]
                u *= 0.5 + abs(x[i])
            t += x[i] if i >= k else -x[i]

def keyed(x: n=>Float, to: n=>Fin(3), k: Int) -> Fin(3)=>Float:
    with accum() as s:
        for i:
            s[to[i]] += x[i] if i <= k else 2.0 * x[i]

# An American option's value as it is looked for from the last day to the first.
def option(s: Float, p: Float, n: Int) -> Float:
    pay = [max(1.0 - s * j, 0.0) for j in Fin(n + 1)]
    loop v = pay for t in Fin(n):
        [max(p * v[clamp(j + 1)] + (1 - p) * v[j], pay[j]) if j < n - t else 0.0 for j in Fin(n + 1)]
    v[0?]
"""  # noqa: E501

KS = (-(2**63), -1, 0, 1, 4, 5, 99, 2**63 - 1)


@pytest.fixture(scope="module", params=["", "@strict\n"])
def m(request):
    return nap.compile(TEXT.replace("def ", f"{request.param}def "))


@pytest.mark.parametrize("n", [0, 1, 5, 40, 3000])
def test_both_sides(m, n: int) -> None:
    x = np.random.default_rng(n).normal(size=n)
    to, i = np.arange(n) % 3, np.arange(n)
    for k in (*KS, n - 1, n, n + 1, n // 2):
        np.testing.assert_allclose(m.two(x, k), np.where(i < k, np.exp(x), x).sum(), rtol=1e-12)
        late = i >= k
        best = np.where(late, x, -x).max(initial=-np.inf)
        want = x[late].sum(), best, (0.5 + abs(x[late])).prod()
        np.testing.assert_allclose(m.several(x, k), want, rtol=1e-11, atol=1e-12)
        sums = np.bincount(to, np.where(i <= k, x, 2 * x), 3)
        np.testing.assert_allclose(m.keyed(x, to, k), sums, rtol=1e-11, atol=1e-12)
        if n < 3000 and abs(k) < 100:
            rows = np.resize(x, (7, n)) if n else np.zeros((7, 0))
            want = [(row[: max(0, a + k)] ** 3).sum() for a, row in enumerate(rows)]
            np.testing.assert_allclose(m.one(rows, k), want, rtol=1e-11, atol=1e-12)


def test_a_sum_that_begins_with_less_than_nothing(m) -> None:
    """A side that adds 0.0 is no loop only where the sum is no -0.0."""
    f = nap.compile("""
def f(x: n=>Float, k: Int) -> Float:
    loop s = -0.0 for i in n: s + (x[i] if i < k else -0.0)
    s
def g(x: n=>Float, k: Int) -> Float:
    loop s = -0.0 for i in n: s + (x[i] if i < k else 0.0)
    s
""")
    zeros = np.full(20, -0.0)
    assert np.signbit(f.f(zeros, 0))
    assert np.signbit(f.f(zeros, 20))
    assert not np.signbit(f.g(zeros, 3))
    assert np.signbit(f.g(zeros, 20))


def test_the_gradient_of_an_option_keeps_no_comparisons(m) -> None:
    grad = nap.grad(m.option, wrt=("s", "p"))
    for n in (0, 1, 2, 9, 40):
        ds, dp = grad(0.03, 0.4, n)
        _, tangent = nap.jvp(m.option, wrt=("s", "p"))(0.03, 0.4, n, 2.0, -3.0)
        np.testing.assert_allclose(2 * ds - 3 * dp, tangent, rtol=1e-9, atol=1e-12)
    loops = grad.show("loops")
    if not loops.startswith("strict"):
        before, _, again = loops.partition("in 0..strips reducing")  # what is made once more
        assert again
        assert "bool[" not in before
        assert "middle" in before


def test_a_condition_of_three_indices_is_no_table_of_a_derivative() -> None:
    """Six questions are asked where they are cut, however many ways lead to each of them."""
    m = nap.compile("""
def half(a: Fin(n)=>Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Fin(n)=>Float:
    for i in Fin(n), j in Fin(n), k in Fin(n):
        if 0 < i and i < n - 1 and 0 < j and j < n - 1 and 0 < k and k < n - 1:
            a[i + 1, j, k] + a[i - 1, j, k] + a[i, j + 1, k] + a[i, j, k - 1] - 3.0 * a[i, j, k]
        else: a[i, j, k]
def loss(a: Fin(n)=>Fin(n)=>Fin(n)=>Float, steps: Int) -> Float:
    b = loop a = a for _ in Fin(steps): half(a)
    sum(b[i, j, k] ** 2 for i, j, k)
""")
    g = nap.grad(m.loss)
    assert g.show("loops").count("bool[n, n, n]") <= 1
    assert g(np.ones((1, 1, 1)), 3).tolist() == [[[2.0]]]
    rng = np.random.default_rng(1)
    a, d = rng.standard_normal((2, 4, 4, 4))
    slope = (m.loss(a + 1e-5 * d, 2) - m.loss(a - 1e-5 * d, 2)) / 2e-5
    np.testing.assert_allclose(np.sum(g(a, 2) * d), slope, rtol=1e-7)
