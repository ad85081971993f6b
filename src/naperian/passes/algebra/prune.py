"""What no result and no check needs goes. ainf → ainf

A delay keeps its `next` alive only if something reads it, so a loop whose result is unused goes
as a whole, unless its rounds are counted. Checks stay, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from naperian.ainf.syntax import Accumulate, Binding, Delay, Index, Program, Read, Result, Trips
from naperian.ainf.walk import atoms, atoms_in, atoms_of, stops
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.passes.bindings.narrow import narrow, without_unused_indices
from naperian.prims import unit


def prune(program: Program) -> Program:
    """The program without dead bindings, and with the least contexts for the others."""
    results = tuple(_emptied(program, r) for r in program.results)
    program = program if results == program.results else replace(program, results=results)
    alive = _alive(program)
    bindings = tuple(b for b in program.bindings if b.var in alive)
    return without_unused_indices(narrow(replace(program, bindings=bindings)))


def _emptied(program: Program, r: Result) -> Result:
    """A result without elements needs nothing. What was made for one of them, and mentions none of
    its indices, would be made all the same, of what may not be there."""
    extents = (program.indices[i].extent for i in r.indices)
    if any(n is not None and n.constant == 0 for n in extents):
        nothing = unit("or" if r.dtype is DType.BOOL else "add", r.dtype)
        return replace(r, value=Lit(nothing, r.dtype))
    return r


def _alive(program: Program) -> set[Var]:
    bindings = {b.var: b for b in program.bindings}
    reached: set[Var] = set()  # bindings and indices
    todo: list[Var] = [b.var for b in program.bindings if stops(b.prim)]
    for r in program.results:
        todo += r.indices
        todo += (_var(a) for a in atoms(r.value))
    while todo:
        while todo:
            v = todo.pop()
            if v not in reached:
                reached.add(v)
                todo += needed(v, bindings, program.indices)
        todo += _counting(program, reached)
    return reached


def _counting(program: Program, reached: set[Var]) -> Iterator[Var]:
    """For each loop whose rounds are counted, one of the values that it carries: a condition may
    read none of them, and without any there is no loop."""
    carried: dict[Var, list[Binding]] = {}
    for b in program.bindings:
        match b.prim:
            case Delay(time) if time in reached and program.indices[time].condition is not None:
                carried.setdefault(time, []).append(b)
            case _:
                pass
    for found in carried.values():
        if reached.isdisjoint(b.var for b in found):
            yield min(found, key=lambda b: len(b.context)).var


def needed(
    v: Var, bindings: Mapping[Var, Binding], indices: Mapping[Var, Index]
) -> list[Var]:
    """The bindings and indices that a binding or an index depends on."""
    b = bindings.get(v)
    if b is not None:
        out = [*b.context, *[_var(a) for a in atoms_in(b)]]
        match b.prim:
            case Accumulate():
                for e in b.prim.entries:
                    out += e.over
            case Delay():
                out.append(b.prim.time)
            case _:
                pass
        return out
    out = []
    if v in indices:
        index = indices[v]
        if index.extent is not None:
            out += [_var(a) for a in atoms_of(index.extent)]
        if index.condition is not None:
            out += [_var(a) for a in atoms(index.condition)]
    return out


def _var(a: Read | Trips) -> Var:
    return a.var if isinstance(a, Read) else a.time
