"""Gradients of a `while` loop for every row: rows go side by side, each as long as it takes."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

TEXT = """
def root(a: Float) -> Float:
    loop x = 1.0, d = 1.0 while abs(d) > 1e-12:
        e = (x * x * x - a) / (3.0 * x * x)
        (x - e, e)
    x
def roots(a: n=>Float, p: Float) -> Float = sum(root(a[i]) ** 2 * p for i)

def kepler(e: Float, m: n=>Float) -> Float:
    def solve(mi):
        loop x = mi, d = 1.0 while abs(d) > 1e-12:
            f = (x - e * sin(x) - mi) / (1.0 - e * cos(x))
            (x - f, f)
        x
    sum(cos(solve(m[i])) for i)

def march(c: Fin(2)=>Float, r: Float, x: n=>Float) -> Float:
    def ray(x):
        s = 1.0 / sqrt(x * x + 1.0)
        loop t = 0.0, d = 1.0, k = 0 while d > 1e-6 and t < 10.0 and k < 100:
            d = sqrt((t * x * s - c[0]) ** 2 + (t * s - c[1]) ** 2) - r
            (t + d, d, k + 1)
        t
    sum(ray(x[i]) for i)

def halved(x: n=>Float, w: m=>Float) -> Float:
    def one(xi):
        loop s = xi, p = 1.0 while abs(s) > 1.0:
            (0.5 * s, p * s + sqrt(s * s - 0.9))
        s * p
    sum(one(x[i]) * w[j] for i, j)

def twice(x: n=>Float) -> Float:
    def one(xi):
        loop s = 0.0, y = xi for k in Fin(3):
            y2 = loop y = y while y > 1.0: y / (1.5 + y * s + k)
            (s + y2 * y2, y2 + 2.0 * xi)
        s
    sum(one(x[i]) for i)

def pairs(x: n=>Float) -> Float:
    def one(q):
        loop v = [q, 0.0], d = 1.0 while d > 1e-10:
            w = [0.5 * cos(v[1]) + 0.1 * q, 0.5 * sin(v[0]) + 0.2 * q]
            (w, abs(w[0] - v[0]) + abs(w[1] - v[1]))
        v[0] * v[1]
    sum(one(x[i]) for i)
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


SIZES = [0, 1, 7, 8, 9, 31, 500]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", SIZES)
def test_roots(m, n: int, dtype: type) -> None:
    if dtype is np.float32:
        f = nap.compile(TEXT.replace("Float", "F32").replace("1e-12", "1e-3"))
    else:
        f = m
    r = np.random.default_rng(n)
    a = r.uniform(0.5, 9, n).astype(dtype)
    value, (da, dp) = nap.value_and_grad(f.roots, wrt=("a", "p"))(a, dtype(1.5))
    close = 1e-9 if dtype is np.float64 else 1e-2
    np.testing.assert_allclose(da, a ** (-1 / 3.0), rtol=close)
    np.testing.assert_allclose(dp, value / 1.5, rtol=1e-5)


@pytest.mark.parametrize("n", SIZES)
def test_kepler(m, n: int) -> None:
    e, mean = 0.3, np.random.default_rng(n).uniform(0, 3, n)
    x = mean.copy()
    for _ in range(60):
        x -= (x - e * np.sin(x) - mean) / (1 - e * np.cos(x))
    value, (de, dm) = nap.value_and_grad(m.kepler, wrt=("e", "m"))(e, mean)
    slope = 1 - e * np.cos(x)
    np.testing.assert_allclose(value, np.cos(x).sum())
    np.testing.assert_allclose(dm, -np.sin(x) / slope, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(de, (-np.sin(x) * np.sin(x) / slope).sum(), rtol=1e-9)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", ["march", "halved", "twice", "pairs"])
def test_as_forwards(m, name: str, n: int) -> None:
    """The tangent along a direction, for which nothing is kept, is as the gradient says. Some rows
    make no round, others are beyond what is a number when these are done."""
    r = np.random.default_rng(n)
    x = r.uniform(-0.6, 0.6, n) if name == "march" else r.uniform(0, 50, n) ** r.integers(0, 3, n)
    before = {"march": (np.array([0.1, 4.0]), 2.0)}.get(name, ())
    after = (r.normal(size=3),) if name == "halved" else ()
    f = m[name]
    _, dx = nap.value_and_grad(f, wrt="x")(*before, x, *after)
    along = r.normal(size=n)
    _, tangent = nap.jvp(f, wrt="x")(*before, x, *after, along)
    np.testing.assert_allclose(dx @ along, tangent, rtol=1e-8, atol=1e-12)
    each = [nap.grad(f, wrt="x")(*before, x[i : i + 1], *after)[0] for i in range(min(n, 40))]
    np.testing.assert_allclose(dx[:40], each, rtol=1e-9)
    assert np.isfinite(dx).all()


def test_both_ways_are_vectors(m) -> None:
    for f, wrt in ((m.roots, "a"), (m.kepler, ("e", "m")), (m.march, ("c", "r")), (m.pairs, "x")):
        text = nap.value_and_grad(f, wrt=wrt).show("loops")
        assert text.count("in 0..most") >= 2, text


def test_a_table_of_rounds_that_are_left_is_of_one_row() -> None:
    """What is as long as the rounds that a row has not made is not longer for others."""
    f = nap.compile("""
def f(x: n=>Float, k: n=>Fin(5)) -> Float:
    def one(a, c):
        loop y = a, t = 0 while y < 3.0 and t < 4: (y * y + 0.5 * c, t + 1)
        rest = [y * a * i for i in Fin(5 - t)]
        sum(rest[i] * rest[i] for i) + y
    sum(one(x[i], k[i]) for i)
""").f
    r = np.random.default_rng(0)
    x, k = r.uniform(0, 2, 50), r.integers(0, 5, 50)
    v = r.normal(size=50)
    _, tangent = nap.jvp(f, wrt="x")(x, k, v)
    np.testing.assert_allclose(nap.grad(f, wrt="x")(x, k) @ v, tangent, rtol=1e-9)


def test_a_loop_leaves_another_before_its_gradient_is_made() -> None:
    """Each element of a function's value is read in a loop that the function has no part in."""
    f = nap.compile("""
def root(a: Float) -> Float:
    loop x = 1.0, d = 1.0 while abs(d) > 1e-12:
        e = (x * x - a) / (2.0 * x)
        (x - e, e)
    x

def roots(x: n=>Float) -> n=>Float:
    for i: root(x[i])

def f(x: n=>Float) -> Float = sum(roots(x)[i] ** 3 for i)

def inside(x: n=>Float, w: m=>Float) -> Float =
    sum(grad(lambda y: sum(roots(y)[i] * w[j] for i))(x)[k] * w[j] for j, k)
""")
    x, w = np.random.default_rng(0).uniform(0.5, 9, 37), np.array([1.0, -0.5, 2.0])
    grad = nap.grad(f.f)
    np.testing.assert_allclose(grad(x), 1.5 * np.sqrt(x), rtol=1e-10)
    assert "n, n" not in grad.show("loops")
    np.testing.assert_allclose(f.inside(x, w), (0.5 / np.sqrt(x)).sum() * (w * w).sum())
    np.testing.assert_allclose(
        nap.grad(f.inside)(x, w), -0.25 * x**-1.5 * (w * w).sum(), rtol=1e-8
    )


def test_what_is_no_list_of_rows() -> None:
    f = nap.compile("def f(x: n=>(exists k. Fin(k)=>Float)) -> n=>Float = [sum(r) for r in x]").f
    circle: list[object] = []
    circle.append(circle)
    for given in (circle, [[1.0, [2.0]]]):
        with pytest.raises(nap.ShapeError, match="argument x is no list of rows"):
            f(given)
    structs = nap.compile("struct P:\n    x: Float\ndef f(ps: n=>P) = sum(p.x for p in ps)").f
    pairs = nap.compile("def f(ps: n=>(Float, Int)) = sum(x for (x, k) in ps)").f
    for g in (structs, pairs):
        with pytest.raises(TypeError, match=r"argument ps\[0\] is a list that it is in itself"):
            g(circle)
    with pytest.raises(TypeError, match=r"x\[0\] must be a row, a list or an array, not bytes"):
        f([b"ab", [1.0]])
