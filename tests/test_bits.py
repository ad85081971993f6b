"""Loops along the bits of a word are written out, and words go side by side."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap
from naperian.backends.llvm import optimised

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
    assert re.search(r"<(8|16) x i(32|64)>", optimised(m[name].show("llvm")))
