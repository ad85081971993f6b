"""What a helper computes of indices is index arithmetic, as if it were written in the brackets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import naperian as nap

TEXT = """\
def written(x: h=>w=>Float) -> h=>w=>Float:
    [x[i, clamp(j + 1)] - 2.0 * x[clamp(i - 1), j] for i, j]

def lambdas(x: h=>w=>Float) -> h=>w=>Float:
    for i, j:
        at = lambda a, b: x[clamp(i + a), clamp(j + b)]
        at(0, 1) - 2.0 * at(-1, 0)

def near(x: h=>w=>Float, i: Int, j: Int) -> Float = x[clamp(i), clamp(j)]

def functions(x: Fin(h)=>Fin(w)=>Float) -> Fin(h)=>Fin(w)=>Float:
    [near(x, i, j + 1) - 2.0 * near(x, i - 1, j) if h > 0 and w > 0 else 0.0 for i, j]

def smoothed(x: Fin(n)=>Float, rounds: Int) -> Fin(n)=>Float:
    with state(x) as s:
        at = lambda i: s[clamp(i)]
        for _ in Fin(rounds):
            for i in 1..n - 1:
                s[i] := 0.5 * (at(i - 1) + at(i + 1))

def around(x: h=>Float, k: Int) -> h=>Float:
    at = lambda i, a: x[wrap(Int(i) * 2 + a)]
    [at(i, -3) + at(i, k) for i]
"""


def loops(text: str) -> str:
    """The loops alone, without names."""
    return text.partition("\n# notes")[0].partition("\n")[2]


@pytest.fixture(scope="module")
def m() -> Any:
    return nap.compile(TEXT)


def test_loops_are_cut_where_helpers_clamp(m: Any) -> None:
    wanted = loops(m.written.show("loops"))
    assert loops(m.lambdas.show("loops")) == wanted
    assert "x[i, j + 1] - " in m.functions.show("loops")


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (1, 2), (3, 1), (5, 40)])
def test_values(m: Any, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape)
    h, w = shape
    right, up = np.minimum(np.arange(w) + 1, w - 1), np.maximum(np.arange(h) - 1, 0)
    wanted = x[:, right] - 2.0 * x[up]
    for f in (m.written, m.lambdas, m.functions):
        np.testing.assert_array_equal(f(x), wanted)


@pytest.mark.parametrize("k", [0, 7, -(2**63), 2**63 - 1])
def test_what_data_move_wraps_as_integers_do(m: Any, k: int) -> None:
    x = np.random.default_rng(1).standard_normal(9)
    i = np.arange(9, dtype=np.int64)
    with np.errstate(over="ignore"):
        wanted = x[(2 * i - 3) % 9] + x[(2 * i + np.int64(k)) % 9]
    np.testing.assert_array_equal(m.around(x, k), wanted)


@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_a_range_says_what_is_inside(m: Any, n: int) -> None:
    assert "clamp(i" not in loops(m.smoothed.show("loops"))
    x = np.random.default_rng(2).standard_normal(n)
    wanted = x.copy()
    for _ in range(3):
        for i in range(1, n - 1):
            wanted[i] = 0.5 * (wanted[i - 1] + wanted[i + 1])
    np.testing.assert_allclose(m.smoothed(x, 3), wanted, rtol=1e-14)


def test_interpreters_agree(m: Any) -> None:
    nap.check(m.around)
    nap.check(m.functions)


WIDE = """\
def multiple(x: Fin(5)=>Float, k: Int) -> Float = x[wrap(5 * k + 1)]

def whole(x: Fin(n)=>Float, k: Int) -> Float = x[wrap(n * k + 1)]

def quotient(x: n=>Float, k: Int) -> Float = x[wrap((6 * k) // 3)]

def twice(x: Fin(5)=>Float, k: Int) -> Float = x[wrap(wrap(k + 1, 5) + 1)]

def named(x: Fin(5)=>Float, k: Int) -> Float:
    j = wrap(k + 1, 5)
    at(x, j)

def at(x: Fin(5)=>Float, j: Fin(5)) -> Float = x[wrap(j + 1)]

def rows(x: Fin(5)=>Float, ks: Fin(1)=>Int) -> Float:
    made = [at(x, wrap(k + 1, 5)) for k in ks]
    made[0]

def carried(x: Fin(5)=>Float, k: Int) -> Float:
    loop s = wrap(0, 5), a = k for i in Fin(2):
        (wrap(5 * a + s + 1, 5), a + 5)
    x[s]
"""


def wrapped(x: int) -> int:
    return (x + (1 << 63)) % (1 << 64) - (1 << 63)


def carried(k: int) -> int:
    first = wrapped(5 * k + 1) % 5
    return wrapped(5 * wrapped(k + 5) + first + 1) % 5


PLACES = {
    "multiple": lambda k: wrapped(5 * k + 1) % 5,
    "whole": lambda k: wrapped(5 * k + 1) % 5,
    "quotient": lambda k: wrapped(6 * k) // 3 % 5,
    "twice": lambda k: (wrapped(k + 1) % 5 + 1) % 5,
    "named": lambda k: (wrapped(k + 1) % 5 + 1) % 5,
    "rows": lambda k: (wrapped(k + 1) % 5 + 1) % 5,
    "carried": carried,
}


@pytest.mark.parametrize("name", PLACES)
def test_multiples_of_data_may_have_wrapped_around(name: str) -> None:
    f = nap.compile(WIDE)[name]
    x = np.arange(5.0)
    for k in (7, -3, 2**61, 3 * 2**61 + 11, 2**62 + 12345, -(2**62) - 5, 2**63 - 2, -(2**63)):
        assert f(x, [k] if name == "rows" else k) == PLACES[name](k), k
