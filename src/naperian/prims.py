"""The scalar primitives: name, arity, signature and meaning.

The meaning is NumPy's, on NumPy scalars of the operands' dtype, including signed zeros, NaN,
infinities, wrap-around and division by zero. Where it must differ, the entry says so:

* integer `//` and `%` by zero give 0 (NumPy's value, without its warning);
* an integer to a negative power gives the truncated value (NumPy raises);
* `stop_gradient` is its argument; derivatives take it for a constant (`partials.FLAT`);
* shifts by the width or more give 0, or -1 for a negative number shifted right; a negative
  shift counts as one of the width or more (C leaves these undefined).

Signatures (`kind`), for operands that have been widened to one dtype:

    ARITH   numbers  -> same          FLOAT   floats -> same
    INTEGER integers -> same          LOGIC   Bool   -> Bool
    COMPARE ordered  -> Bool          EQUAL   any    -> Bool
    CLASSIFY floats  -> Bool          SIGNED  numbers -> same (unary)
    SELECT  Bool, a, a -> a
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from naperian.dtypes import DType
from naperian.names import Lit
from naperian.node import node


class Kind(Enum):
    """The signature of a primitive."""

    ARITH = "numbers"
    FLOAT = "floats"
    INTEGER = "integers"
    LOGIC = "Booleans"
    COMPARE = "ordered"
    EQUAL = "anything"
    CLASSIFY = "float to Bool"
    SELECT = "choice"


_TRUTHS = (Kind.COMPARE, Kind.EQUAL, Kind.CLASSIFY, Kind.LOGIC)
"""Those that give Booleans."""


class Math(Enum):
    """What may be done with floating-point arithmetic, beside what is written.

    DEFAULT  a·b + c may be rounded once; sums and products over an index may be taken in any order,
             which does not depend on the number of threads, but on the processor; a factor that
             does not depend on the index may come out of a sum
    STRICT   nothing: every operation is rounded, reductions go in the order of their index
    FAST     sums may be regrouped everywhere, a division become a product with the reciprocal, and
             the sign of a zero get lost; infinities and NaN stay
    """

    DEFAULT = "default"
    STRICT = "strict"
    FAST = "fast"


@node
class Primitive:
    """A named scalar operation. `function` is its meaning for who has NumPy `quiet`. `cost` is in
    additions, roughly, for the fuser."""

    name: str
    arity: int
    kind: Kind
    function: Callable[..., Any]
    cost: int = 1

    def meaning(self, *operands: Any) -> Any:
        """Its value for NumPy scalars."""
        with quiet():
            return self.function(*operands)

    def result(self, operand: DType) -> DType:
        """The dtype of the result, given that of the operands (of the choices, for `select`)."""
        if self.kind in _TRUTHS:
            return DType.BOOL
        return operand


def quiet() -> np.errstate:
    """NumPy without its warnings: overflow, invalid and division by zero have values here."""
    return np.errstate(all="ignore")


def _power(x: Any, y: Any) -> Any:
    if isinstance(x, np.integer):
        if y < 0:
            if x == 1:
                return type(x)(1)
            if x == -1:
                return type(x)(1 if y % 2 == 0 else -1)
            return type(x)(0)
        return np.power(x, y)
    return np.power(x, y)


def _shift_left(x: Any, k: Any) -> Any:
    width = x.dtype.itemsize * 8
    return x << k if 0 <= int(k) < width else type(x)(0)


def _shift_right(x: Any, k: Any) -> Any:
    width = x.dtype.itemsize * 8
    if 0 <= int(k) < width:
        return x >> k
    return type(x)(-1 if x < 0 else 0)


def _libm(f: Callable[[float], float], at_infinity: float) -> Callable[[Any], Any]:
    """A function that NumPy lacks, from Python's `math`, total over the floats."""

    def meaning(x: Any) -> Any:
        v = float(x)
        if math.isnan(v):
            return x
        try:
            return type(x)(f(v))
        except OverflowError:
            return type(x)(math.inf)
        except ValueError:
            return type(x)(at_infinity if math.isinf(v) else math.nan)

    return meaning


def _lgamma(x: float) -> float:
    if x == math.floor(x) and x <= 0:
        return math.inf
    return math.lgamma(x)


def _gamma(x: float) -> float:
    if abs(x) < 5e-309:  # 1/x overflows, with its sign
        return math.copysign(math.inf, x)
    return math.gamma(x)


def _sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    one = type(x)(1)
    return (e if x < 0 else one) / (one + e)


def _round(x: Any) -> Any:
    return np.rint(x)  # to even, as NumPy and IEEE 754 have it


def _sign(x: Any) -> Any:
    return np.sign(x)


_K = Kind
_TABLE: tuple[tuple[str, int, Kind, Callable[..., Any], int], ...] = (
    ("add", 2, _K.ARITH, np.add, 1),
    ("sub", 2, _K.ARITH, np.subtract, 1),
    ("mul", 2, _K.ARITH, np.multiply, 1),
    ("div", 2, _K.FLOAT, np.divide, 4),
    ("floordiv", 2, _K.ARITH, np.floor_divide, 8),
    ("mod", 2, _K.ARITH, np.remainder, 8),
    ("pow", 2, _K.ARITH, _power, 40),
    ("min", 2, _K.ARITH, np.minimum, 1),
    ("max", 2, _K.ARITH, np.maximum, 1),
    ("neg", 1, _K.ARITH, np.negative, 1),
    ("abs", 1, _K.ARITH, np.abs, 1),
    ("sign", 1, _K.ARITH, _sign, 2),
    ("sqrt", 1, _K.FLOAT, np.sqrt, 4),
    ("cbrt", 1, _K.FLOAT, np.cbrt, 30),
    ("exp", 1, _K.FLOAT, np.exp, 15),
    ("exp2", 1, _K.FLOAT, np.exp2, 15),
    ("expm1", 1, _K.FLOAT, np.expm1, 20),
    ("log", 1, _K.FLOAT, np.log, 15),
    ("log2", 1, _K.FLOAT, np.log2, 15),
    ("log10", 1, _K.FLOAT, np.log10, 15),
    ("log1p", 1, _K.FLOAT, np.log1p, 20),
    ("sin", 1, _K.FLOAT, np.sin, 20),
    ("cos", 1, _K.FLOAT, np.cos, 20),
    ("tan", 1, _K.FLOAT, np.tan, 30),
    ("asin", 1, _K.FLOAT, np.arcsin, 25),
    ("acos", 1, _K.FLOAT, np.arccos, 25),
    ("atan", 1, _K.FLOAT, np.arctan, 25),
    ("atan2", 2, _K.FLOAT, np.arctan2, 35),
    ("sinh", 1, _K.FLOAT, np.sinh, 25),
    ("cosh", 1, _K.FLOAT, np.cosh, 25),
    ("tanh", 1, _K.FLOAT, np.tanh, 25),
    ("sigmoid", 1, _K.FLOAT, _sigmoid, 20),
    ("asinh", 1, _K.FLOAT, np.arcsinh, 40),
    ("acosh", 1, _K.FLOAT, np.arccosh, 40),
    ("atanh", 1, _K.FLOAT, np.arctanh, 40),
    ("erf", 1, _K.FLOAT, _libm(math.erf, 1.0), 30),
    ("erfc", 1, _K.FLOAT, _libm(math.erfc, 0.0), 40),
    ("gamma", 1, _K.FLOAT, _libm(_gamma, math.nan), 80),
    ("lgamma", 1, _K.FLOAT, _libm(_lgamma, math.inf), 80),
    ("hypot", 2, _K.FLOAT, np.hypot, 10),
    ("copysign", 2, _K.FLOAT, np.copysign, 1),
    ("floor", 1, _K.FLOAT, np.floor, 1),
    ("ceil", 1, _K.FLOAT, np.ceil, 1),
    ("round", 1, _K.FLOAT, _round, 1),
    ("trunc", 1, _K.FLOAT, np.trunc, 1),
    ("stop_gradient", 1, _K.FLOAT, lambda x: x, 0),
    ("isnan", 1, _K.CLASSIFY, np.isnan, 1),
    ("isinf", 1, _K.CLASSIFY, np.isinf, 1),
    ("isfinite", 1, _K.CLASSIFY, np.isfinite, 1),
    ("eq", 2, _K.EQUAL, np.equal, 1),
    ("ne", 2, _K.EQUAL, np.not_equal, 1),
    ("lt", 2, _K.COMPARE, np.less, 1),
    ("le", 2, _K.COMPARE, np.less_equal, 1),
    ("gt", 2, _K.COMPARE, np.greater, 1),
    ("ge", 2, _K.COMPARE, np.greater_equal, 1),
    ("and", 2, _K.LOGIC, np.logical_and, 1),
    ("or", 2, _K.LOGIC, np.logical_or, 1),
    ("xor", 2, _K.LOGIC, np.logical_xor, 1),
    ("not", 1, _K.LOGIC, np.logical_not, 1),
    ("bitand", 2, _K.INTEGER, np.bitwise_and, 1),
    ("bitor", 2, _K.INTEGER, np.bitwise_or, 1),
    ("bitxor", 2, _K.INTEGER, np.bitwise_xor, 1),
    ("bitnot", 1, _K.INTEGER, np.invert, 1),
    ("shl", 2, _K.INTEGER, _shift_left, 1),
    ("shr", 2, _K.INTEGER, _shift_right, 1),
    ("select", 3, _K.SELECT, lambda c, a, b: a if c else b, 1),
)

FUNCTION = 15
"""Additions: what costs as much is a function, such as `exp`, and no mere operation."""

PRIMITIVES: dict[str, Primitive] = {
    name: Primitive(name, arity, kind, f, cost) for name, arity, kind, f, cost in _TABLE
}

FLOAT_FUNCTIONS: tuple[str, ...] = tuple(
    p.name for p in PRIMITIVES.values() if p.kind in (Kind.FLOAT, Kind.CLASSIFY) and p.name != "div"
)
"""Those a user calls by name, beside `abs`, `sign`, `min`, `max` and the operators."""

# The operators of the surface language and the primitive each one is.
OPERATORS: dict[str, str] = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "mod", "**": "pow",
    "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
    "and": "and", "or": "or", "&": "bitand", "|": "bitor", "^": "bitxor", "<<": "shl", ">>": "shr",
}  # fmt: skip


# The built-in commutative monoids of reductions. `argmin` and `argmax` take values and give the
# ordinal of the first best one; a NaN is best of all, as in NumPy. `last` forgets what was there
# before: not commutative, so its entries overwrite in their order, and no loop around them is free.
# `nth` gives the value that so many others come before in ascending order, `argnth` its ordinal;
# how many is told where others have their first value.
MONOIDS = ("add", "mul", "min", "max", "and", "or", "last", "argmin", "argmax", "nth", "argnth")
EXTREMES = ("min", "max", "and", "or")  # as often as they come
UNORDERED = ("add", "mul", "min", "max", "and", "or")  # whatever comes first
ORDERED = ("nth", "argnth")
PLACES = ("argmin", "argmax", "argnth")


def combine(monoid: str, old: Any, new: Any) -> Any:
    """old ⊕ new, of scalars, where NumPy is `quiet`; ⊕ a monoid that is no `argmin` or `argmax`."""
    return new if monoid == "last" else PRIMITIVES[monoid].function(old, new)


_TYPES = {dtype: np.dtype(dtype.value).type for dtype in DType}


def scalar(value: Any, dtype: DType) -> Any:
    """A NumPy scalar of a dtype; integers wrap around, and an infinity is the end of their type."""
    t = _TYPES[dtype]
    if type(value) is t:
        return value
    if dtype is DType.F64:
        return t(value)
    if dtype.is_integer and isinstance(value, int | np.integer):
        bits = dtype.bits
        value = int(value) & ((1 << bits) - 1)
        if dtype.is_signed and value >= 1 << (bits - 1):
            value -= 1 << bits
        return t(value)
    if dtype.is_integer and math.isinf(value):
        return t(unit("min" if value > 0 else "max", dtype))
    with quiet():
        return t(value)


def in_order(values: Sequence[Any], dtype: DType) -> Any:
    """Numbers in ascending order: -0.0 before 0.0 and NaN, all of them the same one, last."""
    x = np.array(values, dtype.value)
    if not dtype.is_float:
        return np.sort(x)
    bits = x.view(f"i{dtype.bytes}")
    low = np.iinfo(bits.dtype).max
    codes = np.sort(np.where(np.isnan(x), low, bits ^ (bits >> (dtype.bits - 1) & low)))
    return (codes ^ (codes >> (dtype.bits - 1) & low)).view(x.dtype)


def places_in_order(values: Sequence[Any], dtype: DType) -> Any:
    """The ordinals of numbers in ascending order, of equal ones (-0.0 and 0.0, NaN) the first
    first."""
    return np.argsort(np.array(values, dtype.value), kind="stable")


def convert(value: Any, to: DType) -> Any:
    """A NumPy scalar converted as the `cast` of every stage converts: integers wrap around, floats
    to integers truncate and saturate (NaN gives 0), anything to Bool is `!= 0`."""
    if to is DType.BOOL:
        return np.bool_(value != 0)
    if to.is_float:
        return scalar(value, to)
    if isinstance(value, float | np.floating):
        low, high = (-(1 << (to.bits - 1)), (1 << (to.bits - 1)) - 1)
        if to.is_unsigned:
            low, high = 0, (1 << to.bits) - 1
        v = float(value)
        if math.isnan(v):
            return scalar(0, to)
        return scalar(low if v <= low else high if v >= high else int(v), to)
    return scalar(int(value), to)


def unit(monoid: str, dtype: DType) -> bool | int | float:
    """What an empty reduction gives."""
    match monoid:
        case "add":
            return 0.0 if dtype.is_float else 0
        case "mul":
            return 1.0 if dtype.is_float else 1
        case "and":
            return True
        case "or":
            return False
        case "min":
            if dtype.is_float:
                return math.inf
            return (1 << dtype.bits) - 1 if dtype.is_unsigned else (1 << (dtype.bits - 1)) - 1
        case "max":
            if dtype.is_float:
                return -math.inf
            return 0 if dtype.is_unsigned else -(1 << (dtype.bits - 1))
        case _:
            return 0


def neutral(monoid: str, dtype: DType) -> Lit:
    """What changes nothing: for floats `-0.0` is, `0.0` is not (`-0.0 + 0.0` is `0.0`)."""
    if monoid == "add" and dtype.is_float:
        return Lit(-0.0, dtype)
    return Lit(unit(monoid, dtype), dtype)
