"""Rows that are summed each for itself, four at a time: any number of them, of any length, on every
processor, whatever is made of the sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import naperian as nap

Array = NDArray[Any]

TEXT = """
def times(w: n=>m=>Float, x: m=>Float) -> n=>Float = [sum(w[i, j] * x[j] for j) for i]

def layer(w: n=>m=>Float, x: m=>Float) -> n=>Float = [tanh(sum(w[i, j] * x[j] for j)) / 2.0 for i]

def far(w: n=>m=>Float, x: m=>Float) -> n=>Float =
    [sqrt(sum((w[i, j] - x[j]) ** 2 for j)) for i]

def spread(w: n=>m=>Float, x: m=>Float) -> n=>Float:
    for i:
        mean = sum(w[i, j] * x[j] for j) / (1.0 + m)
        sum((w[i, j] - mean) ** 2 for j)

def both(w: n=>m=>Float, x: m=>Float) -> (n=>Float, n=>Float):
    a = [sum(w[i, j] * x[j] for j) for i]
    b = [sum(w[i, j] ** 2 for j) for i]
    ([a[i] + b[i] for i], [exp(-b[i]) for i])

def thrice(w: n=>m=>Float, x: m=>Float) -> n=>Float = [sum(w[i, j] * x[j] for j, c in Fin(3)) for i]

def squares(w: n=>m=>Float, x: m=>Float) -> Float =
    sum((sum(w[i, j] * x[j] for j) - 1.0) ** 2 for i)

def logistic(w: n=>m=>Float, x: m=>Float) -> Float =
    sum(log(1.0 + exp(sum(w[i, j] * x[j] for j))) for i)

def largest(w: n=>m=>Float, x: m=>Float) -> Float where n >= 1 =
    max(sum(w[i, j] * x[j] for j) for i)

def several(w: n=>m=>Float, x: m=>Float) -> Int =
    sum(1 if sum(w[i, j] * x[j] for j) > 0.5 else 0 for i)

def product(w: n=>m=>Float, x: m=>Float) -> Float = prod(1.0 + sum(w[i, j] * x[j] for j) for i)

def state(w: n=>m=>Float, x: m=>Float) -> n=>Float:
    loop s = [0.1 for i in n] for _ in Fin(3):
        [tanh(s[i] + sum(w[i, j] * x[j] for j)) for i]

def over(w: n=>m=>Float, x: m=>Float) -> n=>Float:
    loop s = [0.5 for i in n] for _ in Fin(3):
        [0.5 * s[i] + sum(abs(w[i, j] - s[i] * x[j]) for j) for i]

def totals(w: n=>m=>Float, x: m=>Float) -> (Float, Float) =
    (sum(sum(w[i, j] * x[j] for j) ** 2 for i), sum(w[i, j] * x[j] ** 2 for i, j))

def found(w: n=>m=>Float, x: m=>Float) -> n=>n=>Float =
    [[sum(w[i, j] * w[k, j] * x[j] * x[j] for j) if i > k else 0.0 for k] for i]
"""


def _spread(w: Array, x: Array) -> Array:
    mean = w @ x / (1.0 + w.shape[1])
    return ((w - mean[:, None]) ** 2).sum(1)  # type: ignore[no-any-return]


def _state(w: Array, x: Array) -> Array:
    s = np.full(len(w), 0.1, w.dtype)
    for _ in range(3):
        s = np.tanh(s + w @ x)
    return s


def _over(w: Array, x: Array) -> Array:
    s = np.full(len(w), 0.5, w.dtype)
    for _ in range(3):
        s = 0.5 * s + abs(w - s[:, None] * x).sum(1)
    return s


WANTED: dict[str, Callable[[Array, Array], Any]] = {
    "times": lambda w, x: w @ x,
    "layer": lambda w, x: np.tanh(w @ x) / 2,
    "far": lambda w, x: np.sqrt(((w - x) ** 2).sum(1)),
    "spread": _spread,
    "both": lambda w, x: (w @ x + (w**2).sum(1), np.exp(-((w**2).sum(1)))),
    "thrice": lambda w, x: 3 * (w @ x),  # by a variable of each row that is added to
    "squares": lambda w, x: ((w @ x - 1) ** 2).sum(),
    "logistic": lambda w, x: np.log(1 + np.exp(w @ x)).sum(),
    "largest": lambda w, x: (w @ x).max(),
    "several": lambda w, x: (w @ x > 0.5).sum(),
    "product": lambda w, x: (1 + w @ x).prod(),
    "state": _state,
    "over": _over,
    "totals": lambda w, x: (((w @ x) ** 2).sum(), (w @ x**2).sum()),
    "found": lambda w, x: np.tril((w * x**2) @ w.T, -1),
}

SHAPES = [(n, m) for n in (0, 1, 2, 3, 4, 5, 6, 7, 11) for m in (0, 1, 3, 4, 7, 8, 19, 40)]


@pytest.fixture(scope="module")
def module() -> nap.Module:
    return nap.compile(TEXT)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", WANTED)
def test_values(module: nap.Module, name: str, dtype: type) -> None:
    f, r = module[name], np.random.default_rng(7)
    for n, m in SHAPES:
        if name == "largest" and not n:
            continue
        w, x = r.normal(size=(n, m)).astype(dtype), r.normal(size=m).astype(dtype)
        got, want = f(w, x), WANTED[name](w, x)
        for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9 if dtype is np.float64 else 2e-3, atol=1e-3)


@pytest.mark.parametrize("name", [n for n in WANTED if n not in ("product", "totals", "found")])
def test_four_at_a_time(module: nap.Module, name: str) -> None:
    assert "for four in 0..((n + 3) // 4)" in module[name].show("loops")


def test_rows_may_be_replaced(module: nap.Module) -> None:
    loops = module["over"].show("loops")
    assert "store s[target, row] = made_2" in loops
    assert " = (0.5 * s[source, row]) + " in loops


def test_what_a_second_row_would_change_is_not_repeated(module: nap.Module) -> None:
    assert "four" not in module["product"].show("loops")


def test_a_nan_that_only_a_missing_row_would_give_is_not_added(module: nap.Module) -> None:
    w, x = np.ones((5, 3)), np.ones(3)
    w[4] = np.inf  # the last row, which stands for three more
    assert module["logistic"](w, x) == np.inf
    w[4] = -np.inf
    np.testing.assert_allclose(module["logistic"](w, x), 4 * np.log(1 + np.exp(3.0)))


def test_strict_sums_keep_their_order() -> None:
    f = nap.compile(TEXT, math="strict")["times"]
    r = np.random.default_rng(1)
    w, x = r.normal(size=(9, 37)), r.normal(size=37)
    for i, row in enumerate(w):
        total = 0.0
        for a, b in zip(row, x, strict=True):
            total += a * b
        assert abs(f(w, x)[i] - total) <= 1e-15 * np.abs(row * x).sum()


def test_two_threads_add_the_same(module: nap.Module) -> None:
    r = np.random.default_rng(2)
    w, x = r.normal(size=(30_001, 50)), r.normal(size=50)
    before, found = nap.threads(), []
    try:
        for n in (1, 2):
            nap.threads(n)
            found.append([module[f](w, x) for f in ("times", "layer", "spread")])
    finally:
        nap.threads(before)
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


SHARED = """
def f(
    x: Fin(n)=>Float, y: Fin(m)=>Float, a: Fin(n)=>Fin(m)=>Float, c: Fin(m)=>Fin(n)=>Fin(n)=>Float
) -> Fin(m)=>Float =
    grad(lambda z: sum(
        c[i, j, q] * (sum(z[i] for k in Fin(n) if x[0] > a[k, wrap(j)]) * x[q])
        for i in Fin(m), j in Fin(n), q in Fin(n)
    ))(y)
"""


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_a_row_that_fills_up_adds_nothing_to_what_all_rows_share(n: int) -> None:
    m, r = 3, np.random.default_rng(n)
    x, a, c = r.normal(size=n), r.normal(size=(n, m)), r.normal(size=(m, n, n))
    many = (x[0] > a[:, np.arange(n) % m]).sum(0)
    want = np.einsum("ijq,j,q->i", c, many.astype(float), x)
    np.testing.assert_allclose(nap.compile(SHARED).f(x, np.ones(m), a, c), want, atol=1e-12)


def test_a_loop_that_has_nothing_left_to_do() -> None:
    """Its rounds wrote the same to all of a state, which is written once, under their condition."""
    f = nap.compile("""
def f(m: Int) -> Fin(3)=>Int:
    with state([Int(i) for i in Fin(3)]) as s:
        for k in Fin(m):
            if 1 >= k: s := [7 for i in Fin(3)]
""").f
    for m, want in ((-1, [0, 1, 2]), (0, [0, 1, 2]), (1, [7, 7, 7]), (5, [7, 7, 7])):
        assert f(m).tolist() == want


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_dear_in_front_of_a_sum_has_the_type_that_it_has(dtype: type) -> None:
    """A remainder of integers in a condition of floats."""
    f = nap.compile("""
def f(x: Fin(n)=>Float, l: Fin(n)=>Int, c: Float) -> Fin(n)=>Float =
    [sum(c for i in x, j in x if l[k] % 2 == 0) for k in Fin(n)]
""").f
    for n in (0, 3, 5, 30):
        even = np.arange(n) % 2 == 0
        got = f(np.ones(n, dtype), np.arange(n), dtype(2))
        np.testing.assert_array_equal(got, np.where(even, dtype(2 * n * n), dtype(0)))
