"""Laws of scalar operations: `rule(op, dtype, known)` gives a cheaper equal operation or operand.

Every rule's docstring is its law. A law holds bit for bit for all operands, signed zeros,
infinities and the extreme integers included; only which NaN a NaN is (its sign and payload) is
left open. `x + 0.0` is not `x` (at -0.0), `0.0 * x` is not `0.0`, `x ** 0.5` is not `sqrt(x)`.

`known` tells how an operand was made (with operands as seen from here) and its dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeAlias

from naperian.ainf.syntax import Op, Operand
from naperian.dtypes import DType, holds
from naperian.names import Lit
from naperian.prims import PRIMITIVES, convert, scalar


class Known(Protocol):
    """What is known of operands."""

    def made(self, o: Operand, name: str) -> tuple[Operand, ...] | None:
        """The operands of the operation that made `o`, if it was `name`."""
        ...

    def maker(self, o: Operand) -> str:
        """The name of the operation that made `o`, if one did."""
        ...

    def dtype(self, o: Operand) -> DType: ...


Law: TypeAlias = "Callable[[Op, DType, Known], Op | Operand | None]"

LAWS: dict[str, list[Law]] = {}


def law(*names: str) -> Callable[[Law], Law]:
    """Register a rule for these operations, in order."""

    def register(rule: Law) -> Law:
        for name in names:
            LAWS.setdefault(name, []).append(rule)
        return rule

    return register


def rules() -> list[Law]:
    """Every rule once."""
    return list(dict.fromkeys(rule for some in LAWS.values() for rule in some))


# looking at operands


def _is(o: Operand, value: bool | int | float) -> bool:
    """Whether an operand is this constant; 0.0 and -0.0 differ."""
    if not isinstance(o, Lit):
        return False
    if o.dtype.is_float:
        v = float(o.value)
        return v == value and math.copysign(1.0, v) == math.copysign(1.0, value)
    return o.value == value


def literal(value: bool | int | float, dtype: DType) -> Lit:
    """A constant of a dtype."""
    if dtype.is_float:
        return Lit(float(value), dtype)
    return Lit(bool(value) if dtype is DType.BOOL else int(value), dtype)


# constants


@law(*PRIMITIVES, "cast")
def fold(op: Op, dtype: DType, known: Known) -> Operand | None:
    """f(constant, …) = its value"""
    if op.name == "select" or not all(isinstance(a, Lit) for a in op.args):
        return None
    values = [scalar(a.value, a.dtype) for a in op.args if isinstance(a, Lit)]
    if op.name == "cast":
        return literal(convert(values[0], dtype).item(), dtype)
    return literal(PRIMITIVES[op.name].meaning(*values).item(), dtype)


@law("stop_gradient")
def stopped(op: Op, dtype: DType, known: Known) -> Operand:
    """stop_gradient(x) = x: the derivatives have been made"""
    return op.args[0]


# sums


@law("add")
def add_nothing(op: Op, dtype: DType, known: Known) -> Operand | None:
    """x + -0.0 = x; for integers x + 0 = x"""
    x, y = op.args
    nothing = -0.0 if dtype.is_float else 0
    if _is(y, nothing):
        return x
    return y if _is(x, nothing) else None


@law("sub")
def subtract_nothing(op: Op, dtype: DType, known: Known) -> Operand | None:
    """x - 0.0 = x; for integers x - 0 = x"""
    return op.args[0] if _is(op.args[1], 0) else None


@law("sub")
def subtract_from_nothing(op: Op, dtype: DType, known: Known) -> Op | None:
    """-0.0 - x = -x; for integers 0 - x = -x"""
    x, y = op.args
    return Op("neg", (y,)) if _is(x, -0.0 if dtype.is_float else 0) else None


@law("add")
def add_negated(op: Op, dtype: DType, known: Known) -> Op | None:
    """x + (-y) = x - y;  (-x) + y = y - x"""
    x, y = op.args
    if minus := known.made(y, "neg"):
        return Op("sub", (x, minus[0]))
    if minus := known.made(x, "neg"):
        return Op("sub", (y, minus[0]))
    return None


@law("sub")
def subtract_negated(op: Op, dtype: DType, known: Known) -> Op | None:
    """x - (-y) = x + y"""
    x, y = op.args
    minus = known.made(y, "neg")
    return Op("add", (x, minus[0])) if minus else None


@law("sub", "bitxor", "xor")
def cancel(op: Op, dtype: DType, known: Known) -> Operand | None:
    """x - x = 0 for integers; x ^ x = 0"""
    x, y = op.args
    return literal(0, dtype) if x == y and not dtype.is_float else None


@law("neg", "not", "bitnot")
def twice(op: Op, dtype: DType, known: Known) -> Operand | None:
    """-(-x) = x;  not not x = x;  ~~x = x"""
    inner = known.made(op.args[0], op.name)
    return inner[0] if inner else None


# products


@law("mul")
def multiply_by_one(op: Op, dtype: DType, known: Known) -> Operand | None:
    """x * 1 = x"""
    x, y = op.args
    if _is(y, 1):
        return x
    return y if _is(x, 1) else None


@law("mul", "div", "floordiv")
def by_minus_one(op: Op, dtype: DType, known: Known) -> Op | None:
    """x * -1 = -x;  x / -1 = -x for floats;  x // -1 = -x for integers"""
    x, y = op.args
    if op.name == "floordiv" and dtype.is_float:
        return None
    if _is(y, -1):
        return Op("neg", (x,))
    return Op("neg", (y,)) if op.name == "mul" and _is(x, -1) else None


@law("mul", "bitand")
def by_zero(op: Op, dtype: DType, known: Known) -> Operand | None:
    """x * 0 = 0 for integers; x & 0 = 0"""
    zero = not dtype.is_float and any(_is(a, 0) for a in op.args)
    return literal(0, dtype) if zero else None


@law("mul", "div")
def signs(op: Op, dtype: DType, known: Known) -> Op | None:
    """(-x) * (-y) = x * y;  (-x) / (-y) = x / y"""
    x, y = (known.made(a, "neg") for a in op.args)
    return Op(op.name, (x[0], y[0])) if x and y else None


@law("mul")
def sign_into_constant(op: Op, dtype: DType, known: Known) -> Op | None:
    """(-x) * c = x * (-c) for a constant c"""
    x, y = op.args
    if isinstance(x, Lit):
        x, y = y, x
    inner = known.made(x, "neg")
    if inner is None or not isinstance(y, Lit):
        return None
    minus = PRIMITIVES["neg"].meaning(scalar(y.value, dtype))
    return Op("mul", (inner[0], literal(minus.item(), dtype)))


@law("mul")
def square_of_size(op: Op, dtype: DType, known: Known) -> Op | None:
    """|x| * |x| = x * x for floats"""
    x, y = op.args
    inner = known.made(x, "abs") if x == y and dtype.is_float else None
    return Op("mul", (inner[0], inner[0])) if inner else None


@law("div")
def divide_by_one(op: Op, dtype: DType, known: Known) -> Operand | None:
    """x / 1 = x"""
    return op.args[0] if _is(op.args[1], 1) else None


@law("div")
def divide_by_power_of_two(op: Op, dtype: DType, known: Known) -> Op | None:
    """x / 2**k = x * 2**-k, where 2**-k is a normal number"""
    x, y = op.args
    if not isinstance(y, Lit) or not math.isfinite(y.value) or y.value == 0:
        return None
    mantissa, exponent = math.frexp(y.value)
    limit = 1022 if dtype is DType.F64 else 126
    if abs(mantissa) != 0.5 or abs(exponent) >= limit:
        return None
    return Op("mul", (x, Lit(1.0 / y.value, dtype)))


@law("floordiv", "mod")
def divide_by_unit(op: Op, dtype: DType, known: Known) -> Operand | None:
    """x // 1 = x;  x % 1 = 0 for integers"""
    x, y = op.args
    if dtype.is_float or not _is(y, 1):
        return None
    return x if op.name == "floordiv" else literal(0, dtype)


@law("pow")
def small_power(op: Op, dtype: DType, known: Known) -> Op | Operand | None:
    """x ** 0 = 1;  x ** 1 = x;  x ** 2 = x * x"""
    x, y = op.args
    if isinstance(y, Lit) and y.value == 0:
        return literal(1, dtype)
    if _is(y, 1):
        return x
    return Op("mul", (x, x)) if _is(y, 2) else None


@law("pow")
def power_of_one(op: Op, dtype: DType, known: Known) -> Operand | None:
    """1 ** y = 1"""
    return op.args[0] if _is(op.args[0], 1) else None


# least, greatest, sizes and signs


@law("min", "max", "and", "or", "bitand", "bitor")
def idempotent(op: Op, dtype: DType, known: Known) -> Operand | None:
    """min(x, x) = x, and so for max, and, or, &, |"""
    return op.args[0] if op.args[0] == op.args[1] else None


@law("min", "max")
def beyond(op: Op, dtype: DType, known: Known) -> Operand | None:
    """min(x, greatest) = x;  max(x, least) = x, where inf and -inf are those of floats"""
    x, y = op.args
    if dtype.is_float:
        end: float = math.inf if op.name == "min" else -math.inf
    else:
        top = dtype.bits - 1 if dtype.is_signed else dtype.bits
        least = -(1 << top) if dtype.is_signed else 0
        end = (1 << top) - 1 if op.name == "min" else least
    if _is(y, end):
        return x
    return y if _is(x, end) else None


@law("abs")
def size_forgets_sign(op: Op, dtype: DType, known: Known) -> Op | None:
    """|-x| = |x| for signed x;  |copysign(x, y)| = |x|"""
    (x,) = op.args
    if dtype.is_unsigned:
        return None
    inner = known.made(x, "neg") or (known.made(x, "copysign") if dtype.is_float else None)
    return Op("abs", (inner[0],)) if inner else None


@law("abs")
def size_of_size(op: Op, dtype: DType, known: Known) -> Operand | None:
    """| |x| | = |x|"""
    return op.args[0] if known.made(op.args[0], "abs") else None


@law("copysign")
def sign_is_replaced(op: Op, dtype: DType, known: Known) -> Op | None:
    """copysign(-x, y) = copysign(|x|, y) = copysign(x, y)"""
    x, y = op.args
    inner = known.made(x, "neg") or known.made(x, "abs")
    return Op("copysign", (inner[0], y)) if inner else None


@law("copysign")
def own_sign(op: Op, dtype: DType, known: Known) -> Operand | None:
    """copysign(x, x) = x"""
    return op.args[0] if op.args[0] == op.args[1] else None


_ROUNDINGS = ("floor", "ceil", "round", "trunc")


@law(*_ROUNDINGS)
def rounded_already(op: Op, dtype: DType, known: Known) -> Operand | None:
    """floor(ceil(x)) = ceil(x), and so for any two of floor, ceil, round and trunc"""
    (x,) = op.args
    return x if any(known.made(x, name) for name in _ROUNDINGS) else None


# bits


@law("bitor", "bitxor")
def no_bits(op: Op, dtype: DType, known: Known) -> Operand | None:
    """x | 0 = x;  x ^ 0 = x"""
    x, y = op.args
    if _is(y, 0):
        return x
    return y if _is(x, 0) else None


@law("bitand")
def all_bits(op: Op, dtype: DType, known: Known) -> Operand | None:
    """x & all ones = x"""
    x, y = op.args
    ones = -1 if dtype.is_signed else (1 << dtype.bits) - 1
    if _is(y, ones):
        return x
    return y if _is(x, ones) else None


@law("shl", "shr")
def no_shift(op: Op, dtype: DType, known: Known) -> Operand | None:
    """x << 0 = x;  x >> 0 = x"""
    return op.args[0] if _is(op.args[1], 0) else None


# truth


@law("and", "or", "xor", "eq", "ne")
def with_constant(op: Op, dtype: DType, known: Known) -> Op | Operand | None:
    """x and True = x;  x or False = x;  x xor False = x;  (x == True) = x;  (x != False) = x;
    x and False = False;  x or True = True;  x xor True = not x, and so on, for Booleans"""
    x, y = op.args
    if isinstance(x, Lit):
        x, y = y, x
    if not isinstance(y, Lit) or y.dtype is not DType.BOOL:
        return None
    match op.name, bool(y.value):
        case ("and", True) | ("or", False) | ("xor", False) | ("eq", True) | ("ne", False):
            return x
        case ("and", False) | ("or", True):
            return y
        case _:
            return Op("not", (x,))


@law("not")
def not_equal(op: Op, dtype: DType, known: Known) -> Op | None:
    """not (x == y) = (x != y);  not (x != y) = (x == y), also for NaN"""
    for name, other in (("eq", "ne"), ("ne", "eq")):
        if inner := known.made(op.args[0], name):
            return Op(other, inner)
    return None


_EXACT = {"eq": True, "le": True, "ge": True, "ne": False}


@law("eq", "ne", "lt", "le", "gt", "ge")
def with_itself(op: Op, dtype: DType, known: Known) -> Operand | None:
    """(x < x) = (x > x) = False;  for integers (x == x) = (x <= x) = True, (x != x) = False"""
    x, y = op.args
    if x != y:
        return None
    if op.name in ("lt", "gt"):
        return Lit(False, DType.BOOL)
    return None if known.dtype(x).is_float else Lit(_EXACT[op.name], DType.BOOL)


# choice


@law("select")
def chosen(op: Op, dtype: DType, known: Known) -> Operand | None:
    """(x if True else y) = x;  (x if False else y) = y;  (x if c else x) = x"""
    c, x, y = op.args
    if isinstance(c, Lit):
        return x if c.value else y
    return x if x == y else None


@law("select")
def choice_of_truth(op: Op, dtype: DType, known: Known) -> Op | Operand | None:
    """(True if c else False) = c;  (False if c else True) = not c"""
    c, x, y = op.args
    if dtype is not DType.BOOL or not isinstance(x, Lit) or not isinstance(y, Lit):
        return None
    return c if x.value else Op("not", (c,))


@law("select")
def choice_by_not(op: Op, dtype: DType, known: Known) -> Op | None:
    """(x if not c else y) = (y if c else x)"""
    c, x, y = op.args
    inner = known.made(c, "not")
    return Op("select", (inner[0], y, x)) if inner else None


@law("select")
def same_choice_again(op: Op, dtype: DType, known: Known) -> Op | None:
    """((x if c else y) if c else z) = (x if c else z);
    (x if c else (y if c else z)) = (x if c else z)"""
    c, x, y = op.args
    inner = known.made(x, "select")
    if inner and inner[0] == c:
        return Op("select", (c, inner[1], y))
    inner = known.made(y, "select")
    if inner and inner[0] == c:
        return Op("select", (c, x, inner[2]))
    return None


# conversions


@law("cast")
def cast_of_same(op: Op, dtype: DType, known: Known) -> Operand | None:
    """cast[T](x) = x for x of T"""
    return op.args[0] if known.dtype(op.args[0]) is dtype else None


@law("cast")
def cast_of_wider(op: Op, dtype: DType, known: Known) -> Op | None:
    """cast[T](cast[U](x)) = cast[T](x) where every value of x's type is one of U"""
    inner = known.made(op.args[0], "cast")
    if inner is None:
        return None
    wide, narrow = known.dtype(op.args[0]), known.dtype(inner[0])
    exact = holds(wide, narrow) and not (narrow in (DType.I64, DType.U64) and wide.is_float)
    return Op("cast", inner) if exact else None


@law("bitcast")
def bitcast_back(op: Op, dtype: DType, known: Known) -> Operand | None:
    """bitcast[T](bitcast[U](x)) = x for x of T"""
    inner = known.made(op.args[0], "bitcast")
    return inner[0] if inner and known.dtype(inner[0]) is dtype else None
