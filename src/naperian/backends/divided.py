"""Vectors divided by one number that a loop does not change, without the divider.

Intel's processors divide 64 bytes in 16 cycles, AMD's eight doubles in about 10, and norms, softmax
and whatever is scaled to a sum divide a row by one number. Its reciprocal r and what that lacks, l,
are computed in front of the loop; then

    q = x·r + x·l        less than a unit of x / d off
    q + (x - q·d)·r      x / d, correctly rounded (Markstein 1990)

has the same bits as the division, if nothing overflows or becomes subnormal on the way. A vector
with an element beyond the range in which that is sure, zero among that, is divided, and so is
every vector if the divisor is beyond it.
"""

from __future__ import annotations

import math
import struct

from naperian.backends.code import Value, literal
from naperian.backends.target import Target
from naperian.dtypes import DType
from naperian.node import node


@node
class _Format:
    """`divisor` and `element` are the greatest exponents, either way, that are sure."""

    dtype: DType
    bits: int
    mantissa: int
    bias: int
    divisor: int
    element: int


_FORMATS = {
    "double": _Format(DType.F64, 64, 52, 1023, 100, 900),
    "float": _Format(DType.F32, 32, 23, 127, 20, 60),
}
_PURE = "nounwind willreturn memory(none)"


def pays(target: Target, type: str, divisor: Value, outside: bool) -> bool:
    """Whether a division takes longer than what is done instead; what is divided by a power of two
    is multiplied. AMD's processors divide floats as fast, and doubles of a row or two; of a divisor
    from `outside` of the loop around there are more."""
    if not target.fuses or type not in _FORMATS:
        return False
    if target.cpu.startswith("znver") and not (
        outside and type == "double" and target.vector_bytes == 64
    ):
        return False
    if not divisor.startswith("0x"):
        return True
    [number] = struct.unpack(">d", bytes.fromhex(divisor[2:]))
    return bool(abs(math.frexp(number)[0]) != 0.5)


def inverse(type: str) -> tuple[str, str, str]:
    """The function of a divisor that gives r, l and for how many bit patterns of elements they
    serve: its symbol, the type of its result and its definition."""
    f = _FORMATS[type]
    name, result = f"@nap.inverse.f{f.bits}", f"{{ {type}, {type}, i{f.bits} }}"
    low, high = (literal(2.0**e, f.dtype) for e in (-f.divisor, f.divisor))
    # exponents, either way, without the sign, from the least number on: AVX2 compares signed ones
    none = -(1 << f.bits - 1)
    some = none + (f.element << f.mantissa + 2)
    return name, result, f"""\
define internal {result} {name}({type} %d) alwaysinline {_PURE} {{
  %r = fdiv {type} 1.0, %d
  %minus = fneg {type} %d
  %rest = call {type} @llvm.fma.f{f.bits}({type} %minus, {type} %r, {type} 1.0)
  %l = fmul {type} %rest, %r
  %size = call {type} @llvm.fabs.f{f.bits}({type} %d)
  %above = fcmp oge {type} %size, {low}
  %below = fcmp ole {type} %size, {high}
  %sure = and i1 %above, %below
  %served = select i1 %sure, i{f.bits} {some}, i{f.bits} {none}
  %one = insertvalue {result} poison, {type} %r, 0
  %two = insertvalue {result} %one, {type} %l, 1
  %all = insertvalue {result} %two, i{f.bits} %served, 2
  ret {result} %all
}}"""


def quotient(type: str, lanes: int) -> tuple[str, str]:
    """The function of elements, divisor, r, l and what they serve for, each in all lanes: its
    symbol and its definition."""
    f = _FORMATS[type]
    name, v, whole = f"@nap.quotient.f{f.bits}.{lanes}", f"<{lanes} x {type}>", f"i{f.bits}"
    t = f"<{lanes} x {whole}>"
    low = (f.bias - f.element << f.mantissa + 1) - (1 << f.bits - 1)
    fma = f"call {v} @llvm.fma.v{lanes}f{f.bits}"
    return name, f"""\
define internal {v} {name}({v} %x, {v} %d, {v} %r, {v} %l, {t} %served) alwaysinline {_PURE} {{
entry:
  %more = fmul {v} %x, %l
  %q = {fma}({v} %x, {v} %r, {v} %more)
  %minus = fneg {v} %d
  %rest = {fma}({v} %minus, {v} %q, {v} %x)
  %usual = {fma}({v} %rest, {v} %r, {v} %q)
  %bits = bitcast {v} %x to {t}
  %twice = shl {t} %bits, splat ({whole} 1)
  %pattern = sub {t} %twice, splat ({whole} {low})
  %fine = icmp slt {t} %pattern, %served
  %lanes = bitcast <{lanes} x i1> %fine to i{lanes}
  %all = icmp eq i{lanes} %lanes, -1
  br i1 %all, label %done, label %divide, !prof !{{!"branch_weights", i32 1000000, i32 1}}
divide:
  %divided = fdiv {v} %x, %d
  br label %done
done:
  %y = phi {v} [ %usual, %entry ], [ %divided, %divide ]
  ret {v} %y
}}"""
