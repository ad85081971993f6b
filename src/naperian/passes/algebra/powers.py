"""A small power is a product. ainf → ainf

    before   for i: y = pow(x[i], 3.0)           after    for i: s = mul(x[i], x[i])
                                                          for i: y = mul(s[i], x[i])

Two to three multiplications take a tenth of the time of a power of any exponent. They round two to
four times, so a power is within the 4 units in the last place that every function keeps to (see
`docs/accuracy.md`), up to the sixth; a product of more factors would not be. It overflows,
vanishes, and is negative exactly where the power is: where a part of it underflows, so does all.
A strict definition has the power itself.
"""

from __future__ import annotations

from naperian.ainf.syntax import Binding, Op, Operand, Program, Read
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.prims import Math
from naperian.sizes import size

_FACTORS: dict[float, tuple[tuple[int, int], ...]] = {
    3.0: ((0, 0), (1, 0)),
    4.0: ((0, 0), (1, 1)),
    5.0: ((0, 0), (1, 1), (2, 0)),
    6.0: ((0, 0), (1, 0), (2, 2)),
}
"""Which of what is there are multiplied, one after the other: 0 is the base."""


def powers(program: Program) -> Program:
    """See the module."""
    if program.math is Math.STRICT:
        return program
    out: list[Binding] = []
    for b in program.bindings:
        out += _product(b)
    return program if len(out) == len(program.bindings) else replace(program, bindings=tuple(out))


def _product(b: Binding) -> list[Binding]:
    match b.prim:
        case Op("pow", (Read() as base, Lit(exponent))) if b.dtype.is_float:
            steps = _FACTORS.get(float(exponent))
        case _:
            return [b]
    if steps is None:
        return [b]
    here = tuple(size(i) for i in b.context)
    parts: list[Operand] = [base]
    out: list[Binding] = []
    for p, q in steps:
        product = Op("mul", (parts[p], parts[q]))
        out.append(replace(b, var=Var("power"), prim=product))
        parts.append(Read(out[-1].var, here))
    out[-1] = replace(out[-1], var=b.var)
    return out
