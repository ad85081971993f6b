"""Loops in order that only add up, or the like: any order will do, and they are vectors."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap
from naperian.backends.llvm import optimised

TEXT = """
def total(x: n=>Int) -> Int:
    loop s = 7 for i in n: s + x[i]

def counted(x: n=>Int, least: Int) -> (Int, Int):
    loop above = 0, less = 100 for i in n:
        if x[i] > least: (above + 1, less)
        elif x[i] < 0: (above, less - x[i])
        else: (above, less)

def largest(x: n=>Float) -> (Float, Float):
    loop top = -inf, least = inf for i in n: (max(top, x[i]), min(x[i], least))

def some(x: n=>Int) -> Bool:
    loop found = False for i in n: found or x[i] == 3

def small(x: n=>U8) -> U8:
    loop product = U8(1) for i in n: product * x[i]

def rows(x: m=>n=>Int) -> m=>Int:
    for i:
        loop s = 0 for j in n: s + x[i, j] * x[i, j] if x[i, j] != i else s

@fast
def squares(x: n=>Float) -> Float:
    loop s = 0.0 for i in n: s + x[i] * x[i] if x[i] > 0 else s

def in_order(x: n=>Float) -> Float:
    loop s = 0.0 for i in n: s + x[i] if x[i] > 0 else s

def products(x: n=>Float) -> Float:
    loop s = -0.0 for i in n: s if x[i] > 0 else s - x[i]

def not_only(x: n=>Int) -> (Int, Int):
    loop s = 0, t = 0 for i in n: (s + x[i], t + s)

def words(t: n=>U8) -> Int:
    loop gap = True, c = 0 for i in n:
        g = t[i] == 32 or t[i] == 34
        (g, c + 1 if gap and not g else c)
    c

def runs(t: n=>U8) -> (Int, U8, U8):
    loop c = 0, last = U8(255), older = U8(7) for i in n:
        (c + (1 if t[i] != last and t[i] != older else 0), t[i], last)
    (c, last, older)

def steepest(x: m=>n=>Float) -> m=>Float:
    for i:
        loop top = -inf, last = 0.5 for j in n: (max(top, abs(x[i, j] - last)), x[i, j])
        top
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 64, 100, 1001])
def test_values(m, n: int) -> None:
    r = np.random.default_rng(n)
    k, x = r.integers(-9, 10, n), r.normal(size=n)
    assert m.total(k) == 7 + k.sum()
    assert m.counted(k, 2) == ((k > 2).sum(), 100 - k[k < 0].sum())
    assert m.largest(x) == (max([-np.inf, *x]), min([np.inf, *x]))
    assert m.some(k) == (3 in k)
    small = k.astype(np.uint8) | np.uint8(1)
    assert m.small(small) == np.multiply.reduce(small, dtype=np.uint8)
    table = r.integers(0, 4, (4, n))
    assert np.array_equal(m.rows(table), (table**2 * (table != np.arange(4)[:, None])).sum(1))
    assert np.isclose(m.squares(x), (np.maximum(x, 0) ** 2).sum(), rtol=1e-12)
    assert m.in_order(x) == sum(v for v in x if v > 0)
    assert m.products(x) == sum(-v for v in x if not v > 0)
    before = np.cumsum(k) - k
    assert m.not_only(k) == (k.sum(), before.sum())


def test_what_is_no_number_and_zeros(m) -> None:
    for at in (0, 3, 30):
        x = np.random.default_rng(at).normal(size=31)
        x[at] = np.nan
        assert np.isnan(m.largest(x)).all()
        assert m.in_order(x) == sum(v for v in x if v > 0)
    assert np.signbit(m.products(np.ones(20)))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 64, 1001])
@pytest.mark.usefixtures("threads")
def test_what_a_round_hands_on(n: int) -> None:
    r = np.random.default_rng(n)
    t = r.integers(32, 36, n).astype(np.uint8)
    gaps = np.r_[True, (t == 32) | (t == 34)]
    one, two = np.r_[255, t], np.r_[7, 255, t]
    x = r.normal(size=(3, n))
    m = nap.compile(TEXT)
    assert m.words(t) == (gaps[:-1] & ~gaps[1:]).sum()
    assert m.runs(t) == (((t != one[:-1]) & (t != two[:n])).sum(), one[-1], two[n])
    steps = np.abs(np.diff(x, axis=1, prepend=0.5))
    assert np.array_equal(m.steepest(x), steps.max(1, initial=-np.inf))


def test_what_only_the_round_before_knows_is_in_no_order() -> None:
    m = nap.compile(TEXT)
    for name in ("words", "runs", "steepest"):
        assert "reducing" in m[name].show("loops")
    assert "what it adds up may go in any order" in m.words.show("loops")


@pytest.mark.parametrize("name", ["total", "counted", "largest", "rows", "squares"])
def test_any_order(m, name: str) -> None:
    assert "reducing" in m[name].show("loops")
    sums = r"(?:add|sub|fadd|@llvm\.vector\.reduce|fcmp \w+ \w+).*<(?:4|8) x (?:i64|double)>"
    assert re.search(sums, optimised(m[name].show("llvm")))


def test_sums_of_floats_are_what_their_order_makes_them(m) -> None:
    for name in ("in_order", "products", "not_only"):
        assert "reducing" not in m[name].show("loops")
    assert "s + (x[i] if" in m.in_order.show("loops")


def test_floats_in_order_are_told() -> None:
    text = "def f(x: n=>Float) -> Float:\n    loop s = 0.0 for i in n: s + x[i]\n"
    assert "floats together in order" in nap.compile(text).f.show("loops")
    assert "any order" in nap.compile("@fast\n" + text).f.show("loops")
