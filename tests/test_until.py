"""A `while` loop for every row: rows go side by side until the last of a vector is done."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap
from naperian.backends.llvm import optimised
from naperian.backends.target import host

TEXT = """
def kepler(m: Float, e: Float) -> Float:
    loop x = m, d = 1.0 while abs(d) > 1e-6:
        d = (x - e * sin(x) - m) / (1.0 - e * cos(x))
        (x - d, d)
    x

def anomalies(m: n=>Float, e: n=>Float) -> n=>Float = [kepler(m[i], e[i]) for i]

def steps(re: Float, im: Float, limit: Int) -> Int:
    loop x = 0.0, y = 0.0, k = 0 while k < limit and x * x + y * y <= 4.0:
        (x * x - y * y + re, 2.0 * x * y + im, k + 1)
    k

def in_all(re: n=>Float, im: n=>Float, limit: Int) -> Int = sum(steps(re[i], im[i], limit) for i)

def bisected(a: n=>m=>Float, j: m) -> n=>Float:
    for i:
        (low, high, k) = with state(0.0) as low, state(8.0) as high, state(0) as k:
            while high - low > 1e-3 * a[i, j]:
                middle = 0.5 * (low + high)
                if middle * middle < a[i, j]:
                    low := middle
                    k += 1
                else:
                    high := middle
        high - low + k

def rounds(x: n=>Float, k: Int) -> n=>Float:
    for i:
        loop v = x[i], w = 0.0 for _ in Fin(k):
            u = loop u = v while u > 1.0: 0.5 * u
            (v + 0.75, w + u)
        w
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def kepler(m: np.ndarray, e: np.ndarray) -> np.ndarray:
    x, d = m.copy(), np.ones_like(m)
    while (goes := abs(d) > 1e-6).any():
        d = np.where(goes, (x - e * np.sin(x) - m) / (1 - e * np.cos(x)), d)
        x = np.where(goes, x - d, x)
    return x


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 16, 31, 100])
def test_rows_end_each_by_itself(m, n: int, dtype: type) -> None:
    r, close = np.random.default_rng(n), 1e-9 if dtype is np.float64 else 1e-4
    x, e = r.uniform(0, 6, n).astype(dtype), r.uniform(0, 0.7, n).astype(dtype)
    if dtype is np.float64:
        assert np.allclose(m.anomalies(x, e), kepler(x, e), rtol=close)
    re, im = r.uniform(-2, 1, n).astype(dtype), r.uniform(-1, 1, n).astype(dtype)
    one = [m.steps(a, b, 40) for a, b in zip(re, im, strict=True)]
    assert m.in_all(re, im, 40) == sum(one)
    a = r.uniform(1, 9, (n, 3)).astype(dtype)
    each = [m.bisected(row[None], 1)[0] for row in a]
    assert np.allclose(m.bisected(a, 1), each, rtol=close)
    each = [m.rounds(x[i : i + 1], 5)[0] for i in range(n)]
    assert np.allclose(m.rounds(x, 5), each, rtol=close)


def test_the_rounds_are_vectors_in_registers(m) -> None:
    for f in (m.anomalies, m.in_all, m.bisected, m.rounds):
        assert "reducing or going" in f.show("loops"), f.show("loops")
    if host().vector_bytes == 64:
        text = optimised(m.anomalies.show("llvm"))
        assert "fdiv contract <8 x double>" in text
        assert "fdiv contract double" not in text
        assert "alloca [8 x double]" not in text


def test_what_has_no_vectors_goes_row_by_row() -> None:
    """Integers alone, and what is read where a round says."""
    f = nap.compile("""
def gcd(a: n=>Int, b: n=>Int) -> n=>Int:
    for i:
        (x, _) = loop x = a[i], y = b[i] while y != 0: (y, x % y)
        x

def placed(xs: Fin(n)=>Float, v: m=>Float) -> m=>Int:
    for i:
        (low, _) = loop low = 0, high = n while low < high:
            k = (low + high) // 2
            if xs[k?] < v[i]: (k + 1, high)
            else: (low, k)
        low
""")
    assert f.gcd([12, 18, 7], [8, 27, 0]).tolist() == [4, 9, 7]
    assert f.placed([1.0, 2.0, 3.0], [0.5, 2.5, 9.0]).tolist() == [0, 2, 3]
    assert "going" not in f.gcd.show("loops") + f.placed.show("loops")


@pytest.mark.parametrize("k", [0, 1, 9, 37])
def test_what_a_row_names_tells_where_it_reads(k: int) -> None:
    """An element whose place is read itself is loaded after that, where there is a row."""
    f = nap.compile("""
def f(c: Fin(n)=>Bool, g: Fin(n)=>Fin(m), a: Fin(n)=>Fin(m)=>Float):
    [fold(lambda s, j: 0.5 * s + 1.0, a[i, g[i]], [j for j in Fin(m)]) for i in Fin(n) if c[i]]
""").f
    rng = np.random.default_rng(k)
    c, g, a = rng.random(k) < 0.7, rng.integers(0, 3, k), rng.random((k, 3))
    want = a[np.arange(k), g][c] / 8 + 1.75
    np.testing.assert_allclose(f(c, g, a), want)


@pytest.mark.parametrize("n", [0, 1, 9, 37])
def test_what_a_row_names_tells_where_it_adds(n: int) -> None:
    """A row adds to a place that it names itself, after rows beside it have gone through a loop."""
    f = nap.compile("""
def f(c: Fin(n)=>Bool, x: Fin(n)=>Float, k: Int) -> Float:
    y = [x[i] + fold(lambda o, j: 0.5 * o + x[i], 1.0, [j for j in Fin(k)]) for i in Fin(n) if c[i]]
    sum(e * e for e in sort(y))
""").f
    slopes = nap.grad(f, "x")
    places = re.findall(r"update out_2\[(\w+)\[lane\], lane\]", slopes.show("loops"))
    assert len({*places}) == 2
    rng = np.random.default_rng(n)
    c, x = rng.random(n) < 0.7, rng.random(n)
    y = x + (0.25 + 1.5 * x)  # o = 1, then 0.5·o + x twice
    np.testing.assert_allclose(slopes(c, x, 2), np.where(c, 2 * 2.5 * y, 0.0))


@pytest.mark.parametrize("n", [1, 9, 23, 40])
def test_where_no_row_is_left_nothing_is_added_beside_the_table(n: int) -> None:
    """The last vector of rows has lanes without a row: those have the place of the last row."""
    f = nap.compile("""
def f(x: Fin(n)=>Float, k: Int) -> Float:
    p = sort(x)
    d = [fold(lambda o, j: 0.5 * o, v, [j for j in Fin(k)]) for v in x]
    sum(p[i] * x[i] for i in Fin(n)) + sum(d[i] * x[i] for i in Fin(n))
""").f
    slopes = nap.grad(f, "x")
    updates = [x for x in slopes.show("loops").splitlines() if "update" in x and "[lane" in x]
    assert not updates, "\n".join(updates)  # at a row that may not be there
    x = np.random.default_rng(n).permutation(n) + 0.5
    rank = np.argsort(np.argsort(x))
    np.testing.assert_allclose(slopes(x, 3), np.sort(x) + x[rank] + 0.25 * x)
