"""Values made in the other order along an index. ainf → ainf

    before   for i<l:  y = f(x[i])                 … y[e] …
    after    for i<l:  y = f(x[l - i - 1])         … y[l - e - 1] …

The law: i ↦ l - i - 1 goes through the same elements, and each is made as before, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping

from naperian.ainf.syntax import Accumulate, Binding, Operand, Program, Read
from naperian.ainf.walk import rewrite, rewrite_guards, rewrite_prim
from naperian.names import Var
from naperian.node import replace
from naperian.sizes import ONE, Size, size


def turned(program: Program, axes: Mapping[Var, int]) -> Program:
    """The program with some values turned along one of their indices each, which has an extent that
    no index is in; accumulations among them are reductions."""
    if not axes:
        return program
    last: dict[Var, Size] = {}  # the last place on that axis
    for b in program.bindings:
        if b.var in axes:
            extent = program.indices[b.context[axes[b.var]]].extent
            assert extent is not None
            last[b.var] = extent - ONE

    def read(r: Read) -> Operand:
        if r.var not in last:
            return r
        k = axes[r.var]
        return Read(r.var, (*r.at[:k], last[r.var] - r.at[k], *r.at[k + 1 :]))

    def binding(b: Binding) -> Binding:
        names = {}
        if b.var in last:
            i = b.context[axes[b.var]]
            names = {i: last[b.var] - size(i)}
        prim = rewrite_prim(b.prim, names, read)
        if names and isinstance(prim, Accumulate) and isinstance(b.prim, Accumulate):
            both = zip(prim.entries, b.prim.entries, strict=True)  # each goes where it is made
            prim = replace(prim, entries=tuple(replace(e, at=old.at) for e, old in both))
        return replace(b, prim=prim, guards=rewrite_guards(b.guards, names, read))

    results = tuple(replace(r, value=rewrite(r.value, {}, read)) for r in program.results)
    return replace(program, bindings=tuple(map(binding, program.bindings)), results=results)
