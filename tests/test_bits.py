"""Loops along the bits of a word are written out, and words go side by side."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap
from naperian.backends.llvm import optimised
from naperian.backends.target import host

TEXT = """
def turned(x: n=>U32) -> n=>U32:
    for i:
        loop r = U32(0), v = x[i] for _ in Fin(32): ((r << 1) | (v & 1), v >> 1)
        r

def checked(x: n=>U32) -> n=>U32:
    for i:
        loop c = x[i] for _ in Fin(16): (0xEDB88320 ^ (c >> 1)) if c & 1 == 1 else c >> 1

def gray(x: n=>Int) -> n=>Int:
    for i:
        loop v = x[i] for k in Fin(6): v ^ (v >> (1 << k))

def spread(x: n=>Int) -> n=>Int = [sum(((x[i] >> k) & 1) << (2 * k) for k in Fin(16)) for i]

def unpacked(x: n=>U8) -> n=>Fin(8)=>U8 = [U8((x[i] >> (7 - j)) & 1) for i, j in Fin(8)]

def in_a_row(x: Fin(n)=>U8) -> Fin(8 * n)=>U8 =
    [U8((x[i // 8] >> (7 - i % 8)) & 1) for i in Fin(8 * n)]

def seen_as_row(x: Fin(n)=>U8) -> Fin(8 * n)=>U8 = unpacked(x) as Fin(8 * n)=>U8

def repeated(x: Fin(n)=>Float, k: Int) -> Fin(k)=>Float =
    [x[(i // 3)?] + 10 * (i % 3) for i in Fin(k)]

def ones(x: n=>Int, mask: m=>Int) -> n=>m=>Int =
    [sum(((x[i] & mask[j]) >> k) & 1 for k in Fin(32)) for i, j]
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 100])
def test_values(m, n: int) -> None:
    x = np.random.default_rng(n).integers(0, 1 << 32, n).astype(np.uint32)
    want = [int(f"{int(v):032b}"[::-1], 2) for v in x]
    assert np.array_equal(m.turned(x), np.array(want, np.uint32))
    c = x.copy()
    for _ in range(16):
        c = np.where(c & 1 == 1, np.uint32(0xEDB88320) ^ (c >> 1), c >> 1)
    assert np.array_equal(m.checked(x), c)
    k = x.astype(np.int64)
    assert np.array_equal(m.gray(k ^ (k >> 1)), k)
    assert np.array_equal(m.spread(k), [int(f"{v & 65535:b}", 4) for v in k])
    masks = np.array([255, (1 << 32) - 1, 1 << 31])
    assert np.array_equal(m.ones(k, masks), np.bitwise_count(k[:, None] & masks))


@pytest.mark.parametrize("name", ["turned", "checked", "gray", "spread"])
def test_words_side_by_side(m, name: str) -> None:
    assert m[name].show("loops").count("for ") == 1
    lanes = host().lanes(8)
    wide = rf"<({lanes} x i64|{2 * lanes} x i32|{lanes} x i32)>"
    assert re.search(wide, optimised(m[name].show("llvm")))


@pytest.mark.parametrize("n", [0, 1, 7, 100])
def test_the_bits_of_bytes(m, n: int) -> None:
    x = np.random.default_rng(n).integers(0, 256, n).astype(np.uint8)
    bits = np.unpackbits(x)
    assert (m.unpacked(x).reshape(-1) == bits).all()
    assert (m.in_a_row(x) == bits).all()
    assert (m.seen_as_row(x) == bits).all()


@pytest.mark.parametrize("k", [0, 1, 2, 3, 8, 60])
def test_rows_of_a_number_of_elements_that_need_not_divide_all(m, k: int) -> None:
    x = np.random.default_rng(k).random(20)
    i = np.arange(k)
    assert (m.repeated(x, k) == x[i // 3] + 10 * (i % 3)).all()


@pytest.mark.skipif(host().vector_bytes < 32, reason="SSE2 neither shifts nor shuffles bytes")
@pytest.mark.parametrize("name", ["unpacked", "in_a_row", "seen_as_row"])
def test_bits_go_side_by_side_by_bytes(m, name: str) -> None:
    text = optimised(m[name].show("llvm"))
    stored = [int(n) for n in re.findall(r"store <(\d+) x i8>", text)]
    assert max(stored) >= 64
