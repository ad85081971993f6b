"""Numbers of fewer bits as arguments and results: every value, and no Python in between."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import naperian as nap

TYPES = ["I8", "I16", "I32", "U8", "U16", "U32", "U64", "I64"]


def kind(name: str) -> np.dtype:
    return np.dtype(f"{'i' if name[0] == 'I' else 'u'}{int(name[1:]) // 8}")


@pytest.fixture(scope="module")
def m():
    return nap.compile("\n".join(
        f"def greatest{t}(x: n=>{t}, y: {t}) = max(x) + y\ndef same{t}(y: {t}) = (y, y)"
        for t in TYPES
    ))  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_values(m, name: str) -> None:
    greatest, same = getattr(m, f"greatest{name}"), getattr(m, f"same{name}")
    t, info = kind(name), np.iinfo(kind(name))
    for v in (info.min, info.min + 1, -1, 0, 1, info.max // 2, info.max - 1, info.max):
        if v >= info.min:
            got = greatest(np.array([v, info.min], t), 0)
            assert got == v
            assert type(got) is int
            assert same(v) == (v, v)
            assert same(t.type(v)) == (v, v)
    for v in (info.max + 1, info.min - 1, 1 << 80):
        with pytest.raises(OverflowError):
            same(v)
    with pytest.raises(TypeError):
        same(True)
    with pytest.raises(TypeError):
        same(1.0)


@pytest.mark.parametrize("name", TYPES)
def test_no_python(m, name: str) -> None:
    greatest, x = getattr(m, f"greatest{name}"), np.array([1, 2, 3], kind(name))
    greatest(x, 4)
    greatest(x, 4)
    seen = []
    sys.setprofile(lambda frame, event, _: seen.append(event))
    try:
        greatest(x, 4)
    finally:
        sys.setprofile(None)
    assert "call" not in seen


def test_numpys_integers_are_taken_where_their_type_fits() -> None:
    """The native entry reads them; whether a type fits does not hang on the number."""
    f = nap.compile("def f(a: Int, b: U8, c: I32) -> Int = a + b + c").f
    for t in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
        ends = np.iinfo(t)
        for a in np.array([ends.min, ends.max, 3], t):
            assert f(a, 1, 1) == int(a) + 2
            for place, to in ((1, np.uint8), (2, np.int32)):
                given: list[object] = [1, 1, 1]
                given[place] = a
                if np.can_cast(t, to):
                    assert f(*given) == int(a) + 2
                else:
                    with pytest.raises(TypeError, match="would lose information"):
                        f(*given)


def test_functions_of_bytes() -> None:
    """A vector of bytes is wider than the forms that functions have."""
    text = """
def powers(x: n=>U8, g: Float) -> n=>U8 = [U8(254 * (x[i] / 255) ** g + 0.5) for i]
def waves(x: n=>U8, g: Float) -> n=>U8 = [U8(30 * (2 + sin(g * x[i]) + exp(x[i] / 255.0))) for i]
"""
    m, x, g = nap.compile(text), np.arange(200, dtype=np.uint8), 2.2
    assert (m.powers(x, g) == np.uint8(254 * (x / 255) ** g + 0.5)).all()
    assert (m.waves(x, g) == np.uint8(30 * (2 + np.sin(g * x) + np.exp(x / 255)))).all()


SUMS = """
def products(x: m=>k=>U8, w: n=>k=>I8) -> m=>n=>Int =
    [sum(I32(x[i, q]) * I32(w[j, q]) for q) for i, j]
def whole(x: m=>k=>U8, w: n=>k=>I8) -> m=>n=>Int =
    [sum(Int(x[i, q]) * Int(w[j, q]) for q) for i, j]
def total(x: n=>U8) -> Int = sum(x)
def cubes(x: n=>I8) -> Int = sum(Int(v) * v * v for v in x)
def less(x: n=>U8, y: n=>U8) -> Int = sum(Int(x[i]) - Int(y[i]) for i)
def many(x: n=>F32) -> Int = sum(1 for v in x if v > 0.5)
def two(x: n=>I16) -> (Int, Int) = (sum(x), sum(3 - Int(v) if v > 7 else -5 for v in x))
def true(x: n=>Bool) -> Int = sum(Int(v) for v in x)
def too_large(x: n=>I32) -> Int = sum(Int(v) * 2 for v in x)
"""


def test_sums_of_small_numbers_are_narrow_until_they_are_done() -> None:
    m = nap.compile(SUMS)
    for name in ("products", "whole", "total", "cubes", "less", "many", "two", "true"):
        assert "part: i32 = 0" in getattr(m, name).show("loops"), name
    assert "part: i32" not in m.too_large.show("loops")
    r = np.random.default_rng(0)
    for k in (0, 1, 7, 64, 65, 300, 65791, 65792, 65793, 70001):
        x, w = r.integers(0, 256, (3, k)), r.integers(-128, 128, (7, k))
        small = x.astype(np.uint8), w.astype(np.int8)
        ends = np.full((3, k), 255, np.uint8), np.full((7, k), -128, np.int8)
        for x, w in (small, ends):
            wanted = x.astype(int) @ w.astype(int).T
            assert np.array_equal(m.products(x, w), wanted)
            assert np.array_equal(m.whole(x, w), wanted)
            assert m.total(x[0]) == x[0].sum(dtype=int)
            assert m.cubes(w[0]) == (w[0].astype(int) ** 3).sum()
            assert m.less(x[0], x[1]) == x[0].sum(dtype=int) - x[1].sum(dtype=int)
            assert m.true(w[1] > 3) == (w[1] > 3).sum()
            v = w[2].astype(np.int16) * np.int16(256)
            assert m.two(v) == (v.sum(dtype=int), np.where(v > 7, 3 - v.astype(int), -5).sum())
            assert m.too_large(np.full(k, 2**31 - 1, np.int32)) == k * (2**32 - 2)
        f = r.random(k).astype(np.float32)
        assert m.many(f) == (f > 0.5).sum()
    x = np.full(9_000_000, 255, np.uint8)  # 8421504 of them are the most
    assert m.total(x) == 255 * len(x)
