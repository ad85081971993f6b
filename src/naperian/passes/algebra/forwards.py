"""Sums of what is read from behind are made from the front. ainf → ainf

    before   for t<c, j<l:  x = …
             for i<l:       s = add over t<c of x[t, l - i - 1]
    after    for i<l:       s = add over t<c of x[t, i]          and s[e] is read as s[l - e - 1]

The law is that of `turned`. The loops that make `x` add it up where they make it, and nobody keeps
its value of every `t`: the adjoint of a loop over layers, which runs backwards, reads them so.
"""

from __future__ import annotations

from naperian.ainf.syntax import Accumulate, Binding, Delay, Program, Read
from naperian.ainf.walk import free, variables
from naperian.names import Var
from naperian.passes.algebra.turned import turned
from naperian.sizes import ONE, size


def forwards(program: Program) -> Program:
    """See the module."""
    while axes := _axes(program):  # one of each sum after the other
        program = turned(program, axes)
    return program


def _axes(program: Program) -> dict[Var, int]:
    """The sums that go backwards through what is summed, with an index along which they do."""
    made = {b.var: b for b in program.bindings}
    times = {b.prim.time for b in program.bindings if isinstance(b.prim, Delay)}
    found = {b.var: _from_behind(program, made, times, b) for b in program.bindings}
    return {v: k for v, k in found.items() if k is not None}


def _from_behind(
    program: Program, made: dict[Var, Binding], times: set[Var], b: Binding
) -> int | None:
    """Which index of a sum goes backwards through what is summed."""
    if not isinstance(b.prim, Accumulate) or len(b.prim.entries) != 1:
        return None
    entry, indices = b.prim.entries[0], program.indices
    value = entry.value
    if entry.at != tuple(map(size, b.context)) or not isinstance(value, Read):
        return None
    if value.var not in made:
        return None
    elsewhere = {*free(b.prim.init)}
    for j in (*b.context, *entry.over):
        extent = indices[j].extent
        elsewhere.update(() if extent is None else variables(extent))
    for k, i in enumerate(b.context):
        extent = indices[i].extent
        places = [n for n, e in enumerate(value.at) if i in variables(e)]
        if extent is None or i in elsewhere or len(places) != 1:
            continue
        if i in times and (b.guards or entry.guards):  # which another round may not know yet
            continue
        theirs = indices[made[value.var].context[places[0]]].extent
        if value.at[places[0]] == extent - ONE - size(i) and theirs == extent:
            return k
    return None
