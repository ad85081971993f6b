"""Sums of a few small integers are made of small integers; what is known of them is not asked."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap
from naperian.backends.llvm import optimised
from naperian.backends.target import host

TEXT = """
def box(x: Fin(h + 4)=>Fin(w + 4)=>U8) -> Fin(h)=>Fin(w)=>U8 =
    [U8(sum(Int(x[i + a, j + b]) for a in Fin(5), b in Fin(5)) // 25) for i in Fin(h), j in Fin(w)]

def sums(x: Fin(n + 3)=>a) -> Fin(n)=>Int where a: Integral =
    [7 - 3 * sum(Int(x[i + k]) for k in Fin(4)) for i in Fin(n)]

def of_bytes(x: Fin(n + 3)=>I8) -> Fin(n)=>Int = sums(x)
def of_words(x: Fin(n + 3)=>U16) -> Fin(n)=>Int = sums(x)
def of_more(x: Fin(n + 3)=>U32) -> Fin(n)=>Int = sums(x)

def often(x: n=>Fin(100)=>U8) -> n=>U8 = [U8(sum(Int(x[i, k]) for k) // 99) for i]
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def test_means_of_bytes(m) -> None:
    r = np.random.default_rng(0)
    for h, w in ((1, 1), (3, 67), (2, 200)):
        x = r.integers(0, 256, (h + 4, w + 4), np.uint8)
        x[0] = 255
        windows = np.lib.stride_tricks.sliding_window_view(x, (5, 5))
        assert np.array_equal(m.box(x), windows.sum((2, 3), dtype=int) // 25)
    text = m.box.show("loops")
    assert "i16 = 0" in text
    assert "fail" not in text
    if host().vector_bytes == 64:
        assert "x i16>" in optimised(m.box.show("llvm"))


@pytest.mark.parametrize(("name", "dtype"), [("bytes", "i1"), ("words", "u2"), ("more", "u4")])
def test_sums_at_the_ends_of_their_types(m, name: str, dtype: str) -> None:
    ends = np.iinfo(dtype)
    x = np.array([ends.max] * 5 + [ends.min] * 5 + [1, 2, 3], dtype)
    f = getattr(m, f"of_{name}")
    want = [7 - 3 * int(x[i : i + 4].astype(int).sum()) for i in range(len(x) - 3)]
    assert f(x).tolist() == want
    assert ("few" in f.show("loops")) == (name != "more")


def test_what_may_be_too_much_is_asked(m) -> None:
    x = np.full((9, 100), 200, np.uint8)
    assert (m.often(x) == 202).all()
    x[3] = 255
    with pytest.raises(nap.RunError):
        m.often(x)


def test_what_is_asked_of_a_small_sum_is_asked_in_small_integers() -> None:
    f = nap.compile("""
def alive(b: Fin(h)=>Fin(w)=>U8) -> Fin(h)=>Fin(w)=>Bool:
    for i, j:
        n = sum(b[wrap(i + p - 1), wrap(j + q - 1)] for p in Fin(3), q in Fin(3)) - b[i, j]
        n == 3 or (n == 2 and b[i, j] == 1)
""").alive
    b = np.random.default_rng(0).integers(0, 2, (9, 40)).astype(np.uint8)
    n = sum(np.roll(b, (p, q), (0, 1)) for p in (-1, 0, 1) for q in (-1, 0, 1)) - b
    assert np.array_equal(f(b), (n == 3) | ((n == 2) & (b == 1)))
    text = f.show("loops")
    wide = set(re.findall(r"(\w+): i64 = i64", text))
    asked = [line for line in text.splitlines() if ": bool" in line and "==" in line]
    assert asked
    assert wide.isdisjoint(re.findall(r"\w+", " ".join(asked)))


def test_parts_of_a_loop_know_nothing_of_each_other() -> None:
    """They have the same names: a sum that is small in one may be kept as it was in another."""
    f = nap.compile("""
def f(q: Fin(n)=>Fin(m)=>I8, k: Int) -> Fin(k)=>Int =
    [sum(q[wrap(i), wrap(j)] for i in Fin(3), c in Fin(3) if c <= j) for j in Fin(k)]
""").f
    q = np.random.default_rng(0).integers(-128, 128, (3, 4)).astype(np.int8)
    columns = q.astype(np.int64).sum(0)
    for k in range(8):
        assert f(q, k).tolist() == [columns[j % 4] * min(j + 1, 3) for j in range(k)]
