"""Numbers that are there only once something else is, and are what they were.

    m' = after(m, w)      m'' = max over i of after(m, w[i])
"""

from __future__ import annotations

from collections.abc import Iterable

from naperian.ainf.syntax import Accumulate, Binding, Entry, Op, Operand, Program, Read
from naperian.dtypes import DType
from naperian.names import Var
from naperian.node import replace


def waiting(bindings: Iterable[Binding]) -> dict[Var, Operand]:
    """The bindings that wait, and what they are."""
    out: dict[Var, Operand] = {}
    for b in bindings:
        match b.prim:
            case Op("after", (first, _)) if b.dtype is DType.I64:
                out[b.var] = first
            case (
                Accumulate("max", first, (Entry(value=Read(var)),)) | Op("max", (first, Read(var)))
            ) if var in out:
                out[b.var] = first
            case _:
                pass
    return out


def at_once(program: Program) -> Program:
    """The program where numbers wait for nothing: for who keeps all rounds anyway, in tables that
    are made before them."""
    numbers = waiting(program.bindings)
    bindings = tuple(
        replace(b, prim=Op("copy", (numbers[b.var],))) if b.var in numbers else b
        for b in program.bindings
    )
    return replace(program, bindings=bindings)
