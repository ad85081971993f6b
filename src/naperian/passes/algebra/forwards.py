"""Sums of what is read from behind are made from the front. ainf → ainf

    before   for t<c, j<l:  x = …
             for i<l:       s = add over t<c of x[t, l - i - 1]
    after    for i<l:       s = add over t<c of x[t, i]          and s[e] is read as s[l - e - 1]

The law: i ↦ l - i - 1 goes through the same elements, and every sum is made as before, bit for bit.
So the loops that make `x` add it up where they make it, and nobody keeps its value of every `t`:
the adjoint of a loop over layers, which runs backwards, reads them so.
"""

from __future__ import annotations

from naperian.ainf.syntax import Accumulate, Binding, Delay, Operand, Program, Read
from naperian.ainf.walk import free, rewrite, rewrite_guards, rewrite_prim, variables
from naperian.names import Var
from naperian.node import replace
from naperian.sizes import ONE, Size, size


def forwards(program: Program) -> Program:
    """See the module."""
    made = {b.var: b for b in program.bindings}
    turned = {b.var: found for b in program.bindings if (found := _from_behind(program, made, b))}
    if not turned:
        return program

    def read(r: Read) -> Operand:
        if r.var not in turned:
            return r
        k, last = turned[r.var]
        return Read(r.var, (*r.at[:k], last - r.at[k], *r.at[k + 1 :]))

    def binding(b: Binding) -> Binding:
        prim, back = rewrite_prim(b.prim, {}, read), {}
        if b.var in turned:
            k, last = turned[b.var]
            back = {b.context[k]: last - size(b.context[k])}
            assert isinstance(prim, Accumulate)
            entry = prim.entries[0]
            value, guards = rewrite(entry.value, back), rewrite_guards(entry.guards, back)
            prim = replace(prim, entries=(replace(entry, value=value, guards=guards),))
        return replace(b, prim=prim, guards=rewrite_guards(b.guards, back, read))

    bindings = tuple(map(binding, program.bindings))
    results = tuple(replace(r, value=rewrite(r.value, {}, read)) for r in program.results)
    return replace(program, bindings=bindings, results=results)


def _from_behind(
    program: Program, made: dict[Var, Binding], b: Binding
) -> tuple[int, Size] | None:
    """Which index of a sum goes backwards through what is summed, and the last place there."""
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
    times = {x.prim.time for x in made.values() if isinstance(x.prim, Delay)}
    for k, i in enumerate(b.context):
        extent = indices[i].extent
        places = [n for n, e in enumerate(value.at) if i in variables(e)]
        if extent is None or i in elsewhere or len(places) != 1:
            continue
        if i in times and (b.guards or entry.guards):  # which another round may not know yet
            continue
        theirs = indices[made[value.var].context[places[0]]].extent
        if value.at[places[0]] == extent - ONE - size(i) and theirs == extent:
            return k, extent - ONE
    return None
