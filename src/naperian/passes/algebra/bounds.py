"""Between which numbers an integer lies, by how it was made; and the law that follows.

    b = (x >> 56)        0 <= b <= 255, so b fits an `Int`, a `U8` and an axis of 256
    c = min(255, abs(y)) 0 <= c <= 255 where y is not the least of its type

Integers wrap: an operation whose exact results do not all fit its type says nothing.
"""

from __future__ import annotations

from typing import TypeAlias

from naperian.ainf.syntax import Op, Operand
from naperian.dtypes import DType
from naperian.names import Lit
from naperian.passes.algebra.laws import Known, law

Bounds: TypeAlias = "tuple[int, int]"

_DEEP = 6  # operations that are looked through

_MAKERS = frozenset({
    "cast", "bitand", "shr", "mod", "floordiv", "min", "max", "abs", "select", "add", "sub", "mul",
    "neg",
})  # fmt: skip


def type_bounds(dtype: DType) -> Bounds:
    """All values of an integer type, or of truth values."""
    if dtype is DType.BOOL:
        return 0, 1
    bits = dtype.bits
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.is_signed else (0, (1 << bits) - 1)


def between(o: Operand, known: Known, deep: int = _DEEP) -> Bounds:
    """The least and the largest value that an operand of an integer type can have."""
    dtype = known.dtype(o)
    whole = type_bounds(dtype)
    if isinstance(o, Lit):
        return int(o.value), int(o.value)
    if not deep or dtype is DType.BOOL:
        return whole
    name = known.maker(o)
    args = known.made(o, name) if name in _MAKERS else None
    if args is None or any(known.dtype(a).is_float for a in args):
        return whole
    found = _made(name, [between(a, known, deep - 1) for a in args])
    fits = found is not None and whole[0] <= found[0] and found[1] <= whole[1]
    return found if found is not None and fits else whole


def _made(name: str, args: list[Bounds]) -> Bounds | None:
    """The bounds of an operation's exact result."""
    match name, args:
        case "cast", [x]:
            return x
        case "bitand", [(a, b), (c, d)] if a >= 0 or c >= 0:
            return 0, min(top for low, top in ((a, b), (c, d)) if low >= 0)
        case "shr", [(a, b), (k, m)] if k == m and 0 <= k < 64:
            return a >> k, b >> k
        case "mod", [_, (k, m)] if k == m and k > 0:
            return 0, k - 1
        case "floordiv", [(a, b), (k, m)] if k == m and k > 0:
            return a // k, b // k
        case "min", [(a, b), (c, d)]:
            return min(a, c), min(b, d)
        case "max", [(a, b), (c, d)]:
            return max(a, c), max(b, d)
        case "abs", [(a, b)]:
            return (0 if a <= 0 <= b else min(abs(a), abs(b))), max(abs(a), abs(b))
        case "neg", [(a, b)]:
            return -b, -a
        case "select", [_, (a, b), (c, d)]:
            return min(a, c), max(b, d)
        case "add", [(a, b), (c, d)]:
            return a + c, b + d
        case "sub", [(a, b), (c, d)]:
            return a - d, b - c
        case "mul", [(a, b), (c, d)]:
            ends = (a * c, a * d, b * c, b * d)
            return min(ends), max(ends)
        case _:
            return None


@law("lt", "le", "gt", "ge", "eq", "ne")
def told_by_bounds(op: Op, dtype: DType, known: Known) -> Operand | None:
    """(x < y) = True where every value of x is less than every one of y; and so on"""
    x, y = op.args
    if not known.dtype(x).is_integer:
        return None
    (a, b), (c, d) = between(x, known), between(y, known)
    less, more = b < c, d < a
    outcome = {
        "lt": (less, d <= a), "le": (b <= c, more), "gt": (more, b <= c), "ge": (d <= a, less),
        "eq": (False, less or more), "ne": (less or more, False),
    }[op.name]  # fmt: skip
    return Lit(outcome[0], DType.BOOL) if any(outcome) else None
