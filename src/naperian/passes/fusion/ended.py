"""How far a loop goes that another loop's end says is read from that end. ainf → ainf

    before   for b<m, j<s[b, k]: y = …            s: delay over t<k
    after    for b<m: end = held(s[b, k])
             for b<m, j<end[b]: y = …

An index is no task: what it reads of a loop would be read of all that the loop carried, which would
be kept for every round.
"""

from __future__ import annotations

from naperian.ainf.syntax import Accumulate, Binding, Delay, Op, Operand, Program, Read
from naperian.ainf.walk import (
    atoms,
    atoms_of,
    context_of,
    reads,
    rewrite,
    rewrite_guards,
    rewrite_prim,
    rewrite_size,
)
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.sizes import size


def ended(program: Program) -> Program:
    """See the module."""
    made = {b.var: b for b in program.bindings}
    ends: dict[Read, Binding] = {}
    first: dict[Var, list[Binding]] = {}  # of an index: what it reads
    indices = dict(program.indices)
    for i, index in program.indices.items():
        if index.extent is None or index.extent.plain:
            continue
        for r in atoms_of(index.extent):
            if isinstance(r, Read) and r.var in made and _is_end(program, made, r):
                if r not in ends:
                    b, v, context = made[r.var], fresh(r.var), context_of(program.indices, (r,))
                    ends[r] = Binding(v, context, (), b.dtype, Op("held", (r,)), b.origin)
                first.setdefault(i, []).append(ends[r])
        if i in first:
            extent = rewrite_size(index.extent, {}, lambda r: _end(ends, r))
            indices[i] = replace(index, extent=extent)
    if not ends:
        return program

    def read(r: Read) -> Operand:
        return _end(ends, r)

    out: list[Binding] = []
    waiting = {b.var: b for b in ends.values()}
    for b in program.bindings:
        over = [e.over for e in b.prim.entries] if isinstance(b.prim, Accumulate) else []
        times = (b.prim.time, b.prim.index) if isinstance(b.prim, Delay) else ()
        asked = [x for i in (*b.context, *times, *(i for o in over for i in o))
                 for x in first.get(i, ())]  # fmt: skip
        before = atoms(b.prim.init) if isinstance(b.prim, Delay) else reads(b)
        asked += (ends[r] for r in before if isinstance(r, Read) and r in ends)
        out += (waiting.pop(x.var) for x in asked if x.var in waiting)
        guards = rewrite_guards(b.guards, {}, read)
        out.append(replace(b, prim=rewrite_prim(b.prim, {}, read), guards=guards))
    out += waiting.values()  # only results are so long
    results = tuple(replace(r, value=rewrite(r.value, {}, read)) for r in program.results)
    return replace(program, bindings=tuple(out), indices=indices, results=results)


def _end(ends: dict[Read, Binding], r: Read) -> Read:
    return Read(ends[r].var, tuple(map(size, ends[r].context))) if r in ends else r


def _is_end(program: Program, made: dict[Var, Binding], r: Read) -> bool:
    """Whether a read is of a loop's last value, at places that are always there."""
    b = made[r.var]
    if not isinstance(b.prim, Delay):
        return False
    for a in (a for e in r.at for a in atoms_of(e)):
        if not isinstance(a, Read) or a.var not in made or made[a.var].guards:
            return False
    last = dict(zip(b.context, r.at, strict=True))[b.prim.index]
    return last == program.indices[b.prim.time].extent
