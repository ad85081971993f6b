"""Integers that have the order of numbers.

Positive floats have the order of their bits and negative ones the reverse, which is undone by
changing all but the sign; NaN is the last. Whoever asks for places means numbers: -0.0 is 0.0.
"""

from __future__ import annotations

from naperian.backends.code import REGISTER, Code, Value
from naperian.backends.orders.network import Shape
from naperian.dtypes import DType


def flipped(code: Code, s: Shape, x: Value, type: str) -> Value:
    """The bits of a float as a code, and back."""
    many = type == s.vector

    def of(k: int) -> Value:
        return s.constant(k) if many else str(k)

    sign = code.let(f"ashr {type} {x}, {of(s.bits - 1)}")
    rest = code.let(f"lshr {type} {sign}, {of(1)}")
    return code.let(f"xor {type} {x}, {rest}")


def decoded(code: Code, s: Shape, dtype: DType, x: Value, type: str) -> Value:
    """The bits of the number that has a code."""
    return flipped(code, s, x, type) if dtype.is_float else x


def encoded(code: Code, s: Shape, dtype: DType, x: Value, lanes: int) -> Value:
    """The code of a number; `x` is one, or a vector of them."""
    own = REGISTER[dtype]
    given, type = (own, s.scalar) if lanes == 1 else (f"<{lanes} x {own}>", s.vector)
    if not dtype.is_float:
        return x if dtype.bits == s.bits else code.let(f"sext {given} {x} to {type}")
    if dtype.bits < s.bits:
        real = REGISTER[DType.F64]
        wide = real if lanes == 1 else f"<{lanes} x {real}>"
        x, given = code.let(f"fpext {given} {x} to {wide}"), wide
    if s.parts > 1:
        zero = "0.0" if lanes == 1 else "zeroinitializer"
        x = code.let(f"fadd {given} {x}, {zero}")
    nan = code.let(f"fcmp uno {given} {x}, {x}")
    bits = flipped(code, s, code.let(f"bitcast {given} {x} to {type}"), type)
    last = (1 << (s.bits - 1)) - 1
    top, mask = (str(last), "i1") if lanes == 1 else (s.constant(last), s.mask)
    return code.let(f"select {mask} {nan}, {type} {top}, {type} {bits}")
