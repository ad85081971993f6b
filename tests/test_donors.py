"""Results written over arguments: `f(x, out=x)`."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest

import naperian as nap

CASES = {
    "def f(x: n=>Float, z: n=>Float) = [2.0 * x[i] + z[i] for i]": ("x", "z"),
    "def f(x: n=>Float, z: n=>Float) = [x[i] * sum(z) for i]": ("x", "z"),
    "def f(x: n=>Float, z: n=>Float) = [x[n - 1 - i] + z[i] for i in Fin(n)]": ("z",),
    "def f(x: n=>Float, z: n=>Float) = [x[i] + x[wrap(i + 1, n)] + z[i] for i]": (),
    "def f(x: n=>Float, z: n=>Float) = [x[i] if z[i] > 0.0 else 1.0 for i]": ("x", "z"),
    "def f(x: n=>Float, z: n=>Float) = scan(+, 0.0, x)": ("z",),
    """def f(x: n=>Float, z: n=>Float):
    scan(lambda s, k: s + x[k] + z[wrap(k + 1)], 0.0, [k for k in n])
""": (),
    """def f(x: n=>Float, z: n=>Float) -> n=>Float:
    with state(z) as s:
        for t in Fin(2):
            for i in Fin(n): s[i] := s[i] + x[clamp(i - 1)] if i > 0 else x[i]
""": ("z",),
    """def f(x: n=>Float, z: n=>Float) -> n=>Float:
    with state(x) as s:
        for t in Fin(3):
            for i: s[i] := 0.5 * s[i] + z[i]
""": ("x",),
    """def f(x: n=>Float, z: n=>Float) -> n=>Float:
    assert n >= 1
    [x[i] / z[0] for i]
""": ("x",),
}


@pytest.mark.parametrize("text", CASES)
def test_a_result_over_an_argument(text: str) -> None:
    """It is what it is elsewhere, whether the argument is a donor or not."""
    f: Any = nap.compile(text).f
    rng = np.random.default_rng(0)
    for n in (1, 7, 100_003):
        x, z = rng.normal(size=(2, n))
        want = f(x, z)
        for k in range(2):
            given = [x.copy(), z.copy()]
            assert f(*given, out=given[k]) is given[k]
            np.testing.assert_array_equal(given[k], want)
            np.testing.assert_array_equal(given[1 - k], (x, z)[1 - k])
    assert f.donors == CASES[text]


def test_a_donor_saves_the_memory_of_the_result() -> None:
    f: Any = nap.compile("""
def f(x: n=>Float) = [sin(x[i]) for i]
def g(x: n=>Float) = [x[n - 1 - i] for i in Fin(n)]
""")
    x = np.ones(1_000_000)

    def taken(function: Any) -> int:
        function(x, out=x)
        tracemalloc.start()
        function(x, out=x)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    assert taken(f.f) < x.nbytes / 10
    assert taken(f.g) >= x.nbytes


def test_who_may_fail_keeps_the_argument() -> None:
    """Nothing is lost by a call that stops."""
    f: Any = nap.compile("""
def f(x: n=>Float) -> n=>Float:
    for i:
        assert x[i] > 0.0
        2.0 * x[i]
""").f
    x = np.array([1.0, 2.0, -1.0])
    with pytest.raises(nap.RunError):
        f(x, out=x)
    assert x.tolist() == [1, 2, -1]


def test_two_results_and_one_argument() -> None:
    f: Any = nap.compile("def f(x: n=>Float) = ([x[i] + 1.0 for i], [2.0 * x[i] for i])").f
    for k in range(2):
        x = np.arange(5.0)
        out = (x, np.zeros(5)) if k == 0 else (np.zeros(5), x)
        a, b = f(x, out=out)
        assert (a.tolist(), b.tolist()) == ([1, 2, 3, 4, 5], [0, 2, 4, 6, 8])


OVER = {
    """def f(x: n=>d=>Float, w: d=>m=>Float, b: m=>Float) =
    [max(sum(x[i, k] * w[k, j] for k) + b[j], 0.0) for i, j]
""": 0,
    """def f(x: n=>d=>Float, w: d=>m=>Float, b: m=>Float):
    h = [max(sum(x[i, k] * w[k, j] for k) + b[j], 0.0) for i, j]
    [sum(h[i, j] * w[k, j] for j) for i, k]
""": 1,
    """def f(x: n=>d=>Float, w: d=>m=>Float, b: m=>Float):
    h = [sum(x[i, k] * w[k, j] for k) for i, j]
    [h[i, j] + h[i, wrap(j + 1)] + b[j] for i, j]
""": 1,
}


@pytest.mark.parametrize("text", OVER)
def test_an_array_that_is_replaced_element_by_element_is_written_over(text: str) -> None:
    """A product and what becomes of it are one array, and each is read in the order of memory."""
    f: Any = nap.compile(text).f
    rng = np.random.default_rng(0)
    x, w, b = rng.normal(size=(40, 30)), rng.normal(size=(30, 50)), rng.normal(size=50)
    h = x @ w
    want = {0: np.maximum(h + b, 0.0), 1: np.maximum(h + b, 0.0) @ w.T,
            2: h + np.roll(h, -1, 1) + b}[list(OVER).index(text)]  # fmt: skip
    np.testing.assert_allclose(f(x, w, b), want, rtol=1e-12, atol=1e-12)
    assert f.show("loops").count("allocate") == OVER[text]


SUMS = """
def below(x: h=>w=>Float) -> h=>w=>Float = transpose(cumsum(transpose(cumsum(x))))
def all_but(x: Fin(h)=>Fin(w)=>Float) -> Fin(h)=>Fin(w)=>Float:
    r = cumsum(x)
    loop s = [[0.0 for j] for i] for t in Fin(h):
        [[r[i, j] if i == t else s[i, j] for j] for i]
"""


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (2, 5), (3, 16), (40, 17), (90, 700)])
def test_rows_that_go_on_are_written_over_what_they_add(shape: tuple[int, int]) -> None:
    m: Any = nap.compile(SUMS)
    x = np.random.default_rng(0).normal(size=shape)
    want = np.cumsum(np.cumsum(x, 1), 0)
    before = nap.threads()
    for count in (1, 2):
        nap.threads(count)
        np.testing.assert_allclose(m.below(x), want, rtol=1e-12, atol=1e-12)
        own = x.copy()
        np.testing.assert_allclose(m.below(own, out=own), want, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(m.all_but(x), np.cumsum(x, 1), rtol=1e-12, atol=1e-12)
    nap.threads(before)
    lines = m.below.show("loops").splitlines()
    assert not any("allocate" in x and "small" not in x for x in lines)


ROWS = """
def shares(x: m=>n=>Float) -> m=>n=>Float:
    for i:
        e = exp(x[i] - max(x[i]))
        e / sum(e)
def planes(x: m=>k=>n=>Float) -> m=>k=>n=>Float:
    for i:
        e = exp(x[i])
        t = sum(e[k, j] for k, j)
        [e[k, j] / t for k, j]
def two(x: m=>n=>Float):
    (p, q) = for i:
        e = exp(x[i])
        t = sum(e)
        ([e[j] / t for j], [2.0 * e[j] for j])
    (p, q)
def turned(x: m=>n=>Float) -> m=>n=>Float:
    for i:
        e = exp(x[i])
        t = sum(e)
        [e[wrap(j + 1)] / t for j]
def upper(x: m=>n=>Float) -> m=>n=>Float:
    for i:
        e = exp(x[i])
        t = sum(e)
        [e[j] / t if j > 2 else 0.0 for j]
"""


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [0, 1, 5, 33, 64, 203])
def test_a_row_that_is_replaced_element_by_element_is_made_where_it_goes(
    n: int, dtype: type
) -> None:
    m: Any = nap.compile(ROWS)
    x = np.random.default_rng(n).normal(size=(70, n)).astype(dtype)
    x[3:4, :1], x[5:6, :2] = np.nan, -np.inf
    near = partial(np.testing.assert_allclose, rtol=20 * np.finfo(dtype).eps)
    before = nap.threads()
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
        shares = e / e.sum(1, keepdims=True)
        e = np.exp(x)
        p, pairs = e / e.sum(1, keepdims=True), e.reshape(35, 2, n)
        planes = pairs / pairs.sum((1, 2), keepdims=True)
    for count in (1, 2):
        nap.threads(count)
        own = x.copy()
        near(m.shares(x), shares)
        near(m.shares(own, out=own), shares)
        near(m.planes(x.reshape(35, 2, n)), planes)
        near(m.two(x)[0], p)
        near(m.two(x)[1], 2 * e)
        near(m.turned(x), np.roll(p, -1, 1))
        near(m.upper(x), np.where(np.arange(n) > 2, p, 0))
    nap.threads(before)
    for name, arrays in (("shares", 0), ("planes", 0), ("two", 0), ("turned", 1), ("upper", 1)):
        assert m[name].show("loops").count("allocate") == arrays, name


@pytest.mark.parametrize("n", [1, 5, 40, 300])
def test_what_is_written_over_may_lie_in_an_argument(n: int) -> None:
    """A result that a product is made in first is right wherever the caller puts it."""
    f: Any = nap.compile("""def f(x: n=>n=>Float, w: n=>n=>Float, b: n=>Float) =
    [max(sum(x[i, k] * w[k, j] for k) + b[j], 0.0) + x[i, j] for i, j]
""").f
    rng = np.random.default_rng(n)
    x, w, b = rng.normal(size=(n, n)), rng.normal(size=(n, n)), rng.normal(size=n)
    want = f(x, w, b)
    np.testing.assert_allclose(want, np.maximum(x @ w + b, 0.0) + x)
    for k in range(2):
        given = [x.copy(), w.copy(), b]
        assert f(*given, out=given[k]) is given[k]
        np.testing.assert_array_equal(given[k], want)
    for k in range(2):  # one element beside the argument
        memory = np.zeros(n * n + 1)
        beside = memory[1 - k : 1 - k + n * n].reshape(n, n)
        beside[:] = x
        out = memory[k : k + n * n].reshape(n, n)
        np.testing.assert_array_equal(f(beside, w, b, out=out), want)
