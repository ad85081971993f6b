"""Whole numbers of which a round keeps the last bits: eight rounds are written out at a time."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

pytestmark = pytest.mark.usefixtures("keeping")

PROGRAM = """
def walk(seed: Int, n: Int) -> (Int, Int):
    loop x = seed, p = 0, top = 0 for _ in Fin(n):
        y = (x * 1103515245 + 12345) % 2147483648
        q = p + (1 if y > 1073741824 else -1)
        (y, q, max(top, q))
    (x, top)

def numbers(seed: Int, n: Int) -> Fin(n)=>Int:
    (xs, _) = with state(seed) as s:
        for i in Fin(n):
            s := (s * 6364136223846793005 + 1442695040888963407) & 9223372036854775807
            s
    xs

def hashed(text: n=>U8) -> Int = fold(lambda h, c: (h * 33 + Int(c)) & 4294967295, 5381, text)

def odd(seed: Int, n: Int) -> Int:
    loop x = seed for _ in Fin(n): (x * 48271) % 2147483647
    x
"""


def walk(seed: int, n: int) -> tuple[int, int]:
    x, p, top = seed, 0, 0
    for _ in range(n):
        x = (x * 1103515245 + 12345) % 2147483648
        p += 1 if x > 1073741824 else -1
        top = max(top, p)
    return x, top


def numbers(seed: int, n: int) -> list[int]:
    out = []
    for _ in range(n):
        seed = (seed * 6364136223846793005 + 1442695040888963407) & (2**63 - 1)
        out.append(seed)
    return out


@pytest.mark.parametrize("seed", [0, 12345, -7, 2**62])
def test_every_number_of_rounds(seed: int) -> None:
    m = nap.compile(PROGRAM)
    for n in (0, 1, 2, 7, 8, 9, 15, 16, 17, 100):
        assert m.walk(seed, n) == walk(seed, n)
        assert m.numbers(seed, n).tolist() == numbers(seed, n)
        text = np.arange(n, dtype=np.uint8)
        h = 5381
        for c in text.tolist():
            h = h * 33 + c & 0xFFFFFFFF
        assert m.hashed(text) == h


def test_what_is_written_out() -> None:
    m = nap.compile(PROGRAM)
    for name in ("walk", "numbers", "hashed"):
        assert '"llvm.loop.unroll.count", i32 8' in getattr(m, name).show("llvm"), name
    assert "unroll.count" not in m.odd.show("llvm")  # what is left of a division is no last bits
