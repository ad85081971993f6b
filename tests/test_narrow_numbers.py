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
