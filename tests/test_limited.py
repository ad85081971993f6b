"""A loop whose rounds hang on a product that grows ends where that is too large."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import naperian as nap

TEXT = """
def sieve(k: Int) -> Fin(k)=>Bool:
    with state([i >= 2 for i in Fin(k)]) as prime:
        for i in Fin(k):
            if prime[i]:
                for j in 2..k:
                    if i * j < k: prime[i * j] := False

def least_factor(k: Int) -> Fin(k)=>Int:
    with state([0 for _ in Fin(k)]) as p:
        for i in 2..k:
            for j in 2..k:
                if i * j < k:
                    if p[i * j] == 0: p[i * j] := Int(i)

def multiples(k: Int) -> Fin(k)=>Int = [sum(1 for j in Fin(k) if i * j < k) for i in Fin(k)]

def first(x: Fin(n)=>Int, a: Int, b: Int, c: Int) -> Int:
    with state(0) as s:
        for j in Fin(n):
            if a * j + b < c: s := s * 3 + x[j] + j

def last(x: Fin(n)=>Int, a: Int, b: Int, c: Int) -> Int:
    with state(0) as s:
        for j in Fin(n):
            m = a * j + b
            if m >= c and 2 * j < a: s := s * 3 + x[j] + j

def beside(a: Int, n: Int) -> Int = sum(1 for j in Fin(n) if a * j < 9223372036854775800)

def above(a: Int, n: Int) -> Int = sum(1 for j in Fin(n) if a * j + 9223372036854775800 >= 0)

def neither(x: Fin(n)=>Int, a: Int, b: Int, c: Int) -> (Int, Int):
    with state(0) as s, state(0) as t:
        for j in Fin(n):
            if a * j + b < c: s := s * 3 + x[j] + j
            t := t * 3 + x[j]
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def wrapped(v: int) -> int:
    return (v + (1 << 63)) % (1 << 64) - (1 << 63)


@pytest.mark.parametrize("k", [0, 1, 2, 3, 16, 17, 100])
def test_multiples(m, k: int) -> None:
    factors = [next((d for d in range(2, i) if i % d == 0), 0) for i in range(k)]
    assert list(m.sieve(k)) == [i >= 2 and not f for i, f in enumerate(factors)]
    assert list(m.least_factor(k)) == factors
    assert list(m.multiples(k)) == [sum(i * j < k for j in range(k)) for i in range(k)]


@pytest.mark.parametrize("n", [0, 1, 40])
def test_numbers_that_wrap_around(m, n: int) -> None:
    """Where a product is too large for an integer, the comparison holds again."""
    x = np.random.default_rng(n).integers(-9, 9, n)
    some = [0, 1, 3, -1, -5, 100, 1 << 30, (1 << 58) + 12345, 3 << 59, -(1 << 63), (1 << 63) - 1]

    def rounds(asked: Callable[[int], bool]) -> int:
        s = 0
        for j in range(n):
            s = wrapped(s * 3 + int(x[j]) + j) if asked(j) else s
        return s

    for a, b, c in itertools.product(some, some, some):
        less = rounds(lambda j, a=a, b=b, c=c: wrapped(a * j + b) < c)  # type: ignore[misc]
        most = rounds(lambda j, a=a, b=b, c=c: wrapped(a * j + b) >= c and 2 * j < a)  # type: ignore[misc]
        assert m.first(x, a, b, c) == less
        assert m.last(x, a, b, c) == most
        assert m.neither(x, a, b, c)[0] == less


@pytest.mark.parametrize("n", [0, 1, 40])
@pytest.mark.parametrize("a", [0, 1, 3, -1, -5, 1 << 58, 3 << 59, -(1 << 63), (1 << 63) - 1])
def test_a_comparison_with_what_fills_an_integer(m, n: int, a: int) -> None:
    """It leaves no bits for the others, so all rounds are made."""
    most = 9223372036854775800
    assert m.beside(a, n) == sum(wrapped(a * j) < most for j in range(n))
    assert m.above(a, n) == sum(wrapped(a * j + most) >= 0 for j in range(n))


def test_which_loops_end(m) -> None:
    for f in (m.sieve, m.least_factor, m.multiples, m.first, m.last):
        assert f.show("loops").count("border: i64") == 1
    assert "border" not in m.neither.show("loops")
