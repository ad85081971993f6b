"""A small power is a product. ainf → ainf

    before   for i: y = pow(x[i], 3.0)           after    for i: s = mul(x[i], x[i])
                                                          for i: y = mul(s[i], x[i])

Two to three multiplications take a tenth of the time of a power of any exponent, and a square root
with a product a fifth. They round two to four times, so a power is within the 4 units in the last
place that every function keeps to (see `docs/accuracy.md`), up to the sixth; a product of more
factors would not be (what the power itself does about that, see `backends/functions/powers.py`). It
overflows, vanishes, and is negative exactly where the power is: where a part of it underflows, so
does all. A square root knows no -∞, and its zero has a sign, so these are asked for. A strict
definition has the power itself.
"""

from __future__ import annotations

from math import inf

from naperian.ainf.syntax import Binding, Number, Op, Operand, Program, Read
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.prims import Math
from naperian.sizes import size

_Step = tuple[str, tuple[int | float, ...]]


def _root(*steps: _Step, least: float) -> tuple[_Step, ...]:
    """What is done with the square root, which is 1; and what is there for -∞."""
    n = len(steps) + 1
    return ("sqrt", (0,)), *steps, ("eq", (0, -inf)), ("select", (n + 1, least, n))


_STEPS: dict[float, tuple[_Step, ...]] = {
    -3.0: (("div", (1.0, 0)), ("mul", (1, 1)), ("mul", (2, 1))),
    -2.0: (("div", (1.0, 0)), ("mul", (1, 1))),
    -1.5: (("div", (1.0, 0)), ("sqrt", (1,)), ("mul", (1, 2)), ("eq", (0, 0.0)),
           ("select", (4, inf, 3))),
    -1.0: (("div", (1.0, 0)),),
    -0.5: _root(("abs", (1,)), ("div", (1.0, 2)), least=0.0),
    0.5: _root(("abs", (1,)), least=inf),
    1.5: _root(("mul", (0, 1)), least=inf),
    2.5: _root(("abs", (1,)), ("mul", (0, 0)), ("mul", (3, 2)), least=inf),
    3.0: (("mul", (0, 0)), ("mul", (1, 0))),
    4.0: (("mul", (0, 0)), ("mul", (1, 1))),
    5.0: (("mul", (0, 0)), ("mul", (1, 1)), ("mul", (2, 0))),
    6.0: (("mul", (0, 0)), ("mul", (1, 0)), ("mul", (2, 2))),
}
"""Operations on what is there, one after the other: 0 is the base, a Float is itself."""


def powers(program: Program) -> Program:
    """See the module."""
    if program.math is Math.STRICT:
        return program
    out: list[Binding] = []
    counts: set[Var] = set()  # what is as many as there are of something
    for b in program.bindings:
        if isinstance(b.prim, Op) and b.prim.name == "cast" and isinstance(b.prim.args[0], Number):
            counts.add(b.var)
        out += _product(b, counts)
    return replace(program, bindings=tuple(out))


def _product(b: Binding, counts: set[Var]) -> list[Binding]:
    match b.prim:
        case Op("pow", (Read(v) as base, Lit(0.5))) if v in counts:
            return [replace(b, prim=Op("sqrt", (base,)))]
        case Op("pow", (Read() as base, Lit(exponent))) if b.dtype.is_float:
            steps = _STEPS.get(float(exponent))
        case _:
            return [b]
    if steps is None:
        return [b]
    here = tuple(size(i) for i in b.context)
    made: list[Operand] = [base]
    out: list[Binding] = []
    for name, args in steps:
        op = Op(name, tuple(made[a] if isinstance(a, int) else Lit(a, b.dtype) for a in args))
        dtype = DType.BOOL if name == "eq" else b.dtype
        out.append(replace(b, var=Var("power"), prim=op, dtype=dtype))
        made.append(Read(out[-1].var, here))
    out[-1] = replace(out[-1], var=b.var)
    return out
