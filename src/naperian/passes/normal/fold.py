"""Operations whose result is known: constants, units and comparisons of index arithmetic.

`fold` never changes a result, not even a signed zero or a NaN: of floats only `x * 1`, `x / 1`,
`x - 0.0`, `x + -0.0` and `x ** 1` are `x`; in the integers every unit and zero is exact.
"""

from __future__ import annotations

from typing import Any

from naperian.core.syntax import Const, Expr, Number
from naperian.dtypes import DType
from naperian.names import Lit
from naperian.passes.normal.denote import size_of
from naperian.prims import PRIMITIVES, convert, scalar

_COMPARE = {
    "eq": lambda d: d == 0,
    "ne": lambda d: d != 0,
    "lt": lambda d: d < 0,
    "le": lambda d: d <= 0,
    "gt": lambda d: d > 0,
    "ge": lambda d: d >= 0,
}

# name: (unit on the right of integers, of floats, whether it is one on the left too)
_UNITS: dict[str, tuple[int | None, str | None, bool]] = {
    "add": (0, "-0.0", True),
    "sub": (0, "0.0", False),
    "mul": (1, "1.0", True),
    "div": (None, "1.0", False),
    "floordiv": (1, None, False),
    "pow": (1, "1.0", False),
    "bitor": (0, None, True),
    "bitxor": (0, None, True),
    "bitand": (-1, None, True),
    "shl": (0, None, False),
    "shr": (0, None, False),
}

_FALSE = Const(Lit(False, DType.BOOL))
_TRUE = Const(Lit(True, DType.BOOL))


def known(e: Expr, dtype: DType) -> Any:
    """The NumPy scalar a constant is, taken as `dtype` if it is index arithmetic, or None."""
    match e:
        case Const(lit):
            return scalar(lit.value, lit.dtype)
        case Number(value):
            n = value.constant
            return None if n is None else scalar(n, dtype)
        case _:
            return None


def constant(value: Any, dtype: DType) -> Const:
    return Const(Lit(scalar(value, dtype).item(), dtype))


def fold(name: str, args: tuple[Expr, ...], dtype: DType) -> Expr | None:
    """What the operation on operands of `dtype` is: a constant, one of the operands, or None."""
    if name in ("cast", "bitcast"):
        return _cast(name, args[0], dtype)
    values = [known(a, dtype) for a in args]
    if name == "select":
        return None if values[0] is None else args[1] if values[0] else args[2]
    if all(v is not None for v in values):
        prim = PRIMITIVES[name]
        return constant(prim.meaning(*values), prim.result(dtype))
    if name in _COMPARE:
        left, right = size_of(args[0]), size_of(args[1])
        distance = (left - right).constant if dtype is DType.I64 and left and right else None
        return None if distance is None else _TRUE if _COMPARE[name](distance) else _FALSE
    if len(args) == 2:
        return _unit(name, args, values, dtype)
    return None


def _cast(name: str, arg: Expr, dtype: DType) -> Expr | None:
    if isinstance(arg, Number) and name == "cast" and dtype is DType.I64:
        return arg
    value = known(arg, DType.I64)
    if value is None:
        return None
    if name == "cast":
        return constant(convert(value, dtype), dtype)
    return constant(value.view(dtype.value), dtype)


def _unit(
    name: str, args: tuple[Expr, ...], values: list[Any], dtype: DType
) -> Expr | None:
    left, right = values
    if left is None and right is None:
        return None
    match name:
        case "and":
            return _logic(args, left, right, stop=False)
        case "or":
            return _logic(args, left, right, stop=True)
        case "mul" | "bitand" if dtype.is_integer and (_is(left, 0) or _is(right, 0)):
            return constant(0, dtype)
    if name not in _UNITS or dtype is DType.BOOL:
        return None
    of_integers, of_floats, both_sides = _UNITS[name]
    spelled = of_floats if dtype.is_float else of_integers
    if spelled is None:
        return None
    unit = scalar(float(spelled) if dtype.is_float else spelled, dtype)
    if _is(right, unit):
        return args[0]
    if both_sides and _is(left, unit):
        return args[1]
    return None


def _logic(args: tuple[Expr, ...], left: Any, right: Any, stop: bool) -> Expr | None:
    for value, other in ((left, args[1]), (right, args[0])):
        if value is not None:
            return (_TRUE if stop else _FALSE) if bool(value) is stop else other
    return None


def _is(value: Any, unit: Any) -> bool:
    """The same number, with the same sign."""
    return value is not None and value == unit and str(value) == str(type(value)(unit))
