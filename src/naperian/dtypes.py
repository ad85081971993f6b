"""The scalar types and how they widen.

    BOOL  I8 I16 I32 I64  U8 U16 U32 U64  F32 F64

Widening is by itself only when nothing is lost: to a type that holds every value, and from the
64-bit integers to F64 (`Int` to `Float`). Nothing narrows by itself.
"""

from __future__ import annotations

from enum import Enum


class DType(Enum):
    """A scalar type; `value` is NumPy's name for it."""

    BOOL = "bool"
    I8 = "int8"
    I16 = "int16"
    I32 = "int32"
    I64 = "int64"
    U8 = "uint8"
    U16 = "uint16"
    U32 = "uint32"
    U64 = "uint64"
    F32 = "float32"
    F64 = "float64"

    @property
    def is_float(self) -> bool:
        return self in FLOATS

    @property
    def is_signed(self) -> bool:
        return self in SIGNED

    @property
    def is_unsigned(self) -> bool:
        return self in UNSIGNED

    @property
    def is_integer(self) -> bool:
        return self in SIGNED or self in UNSIGNED

    @property
    def bits(self) -> int:
        return _BITS[self]

    @property
    def bytes(self) -> int:
        return max(1, _BITS[self] // 8)

    @property
    def surface_name(self) -> str:
        """What the user writes: `Int` and `Float` for the 64-bit ones."""
        return _SURFACE[self]

    def __repr__(self) -> str:
        return self.name

    __hash__ = object.__hash__  # enum members are singletons; `Enum.__hash__` is a slow path


FLOATS = frozenset({DType.F32, DType.F64})
SIGNED = frozenset({DType.I8, DType.I16, DType.I32, DType.I64})
UNSIGNED = frozenset({DType.U8, DType.U16, DType.U32, DType.U64})
_BITS = {
    DType.BOOL: 1,
    DType.I8: 8, DType.I16: 16, DType.I32: 32, DType.I64: 64,
    DType.U8: 8, DType.U16: 16, DType.U32: 32, DType.U64: 64,
    DType.F32: 32, DType.F64: 64,
}  # fmt: skip
_SURFACE = {d: d.name for d in DType} | {
    DType.BOOL: "Bool",
    DType.I64: "Int",
    DType.F64: "Float",
}


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is a value of `wide`, or the step is `Int` to `Float`."""
    if wide is narrow:
        return True
    if narrow is DType.BOOL or wide is DType.BOOL:
        return False
    if wide.is_float:
        if narrow.is_float:
            return wide.bits > narrow.bits
        return wide is DType.F64 or narrow.bits < 32
    if narrow.is_float:
        return False
    if wide.is_signed:
        return wide.bits > narrow.bits if narrow.is_unsigned else wide.bits >= narrow.bits
    return narrow.is_unsigned and wide.bits >= narrow.bits


def join(a: DType, b: DType) -> DType | None:
    """The smallest type both widen to, or None (U64 with a signed integer, Bool with a number)."""
    if holds(a, b):
        return a
    if holds(b, a):
        return b
    for wide in (DType.I16, DType.I32, DType.I64, DType.F32, DType.F64):
        if holds(wide, a) and holds(wide, b) and not (wide.is_float and _both_integers(a, b)):
            return wide
    return None


def _both_integers(a: DType, b: DType) -> bool:
    return a.is_integer and b.is_integer
