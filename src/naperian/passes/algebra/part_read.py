"""Of a table of which all read a diagonal, or a column, only that is made. ainf → ainf

    before   for i<n, j<n: v = tanh(a[i, j])        after   for i<n: v = tanh(a[i, i])
             for i<n:      w = mul(v[i, i], v[i, i])         for i<n: w = mul(v[i], v[i])

What one loop reads once is computed there anyway; a derivative reads it again. Rounds of a loop in
order stay, as do rows that are put in order, and what may stop the run.
"""

from __future__ import annotations

from collections.abc import Iterator

from naperian.ainf.syntax import Accumulate, Binding, Delay, Op, Operand, Program, Read
from naperian.ainf.walk import (
    atoms,
    atoms_of,
    is_reduction,
    map_guards,
    map_prim,
    reads,
    rewrite,
    rewrite_size,
    stops,
    variables,
)
from naperian.facts import Facts
from naperian.names import Var
from naperian.node import replace
from naperian.passes.bindings.narrow import without_unused_indices
from naperian.passes.bindings.ranges import checked, facts_about
from naperian.prims import ORDERED
from naperian.sizes import Size, places, size

Tables = dict[Var, tuple[int, Size]]
"""Of which tables an axis goes, and what its index is then."""


def part_read(program: Program) -> Program:
    """See the module."""
    found = _found(program)
    if not found:
        return program
    while found:
        program = _without(program, found)
        found = _found(program)
    return without_unused_indices(program)


def _found(program: Program) -> Tables:
    places_of: dict[Var, list[tuple[Size, ...]]] = {}
    for r in _all_reads(program):
        places_of.setdefault(r.var, []).append(r.at)
    times = {b.prim.time for b in program.bindings if isinstance(b.prim, Delay)}
    known = Facts().and_(*checked(program))
    found: Tables = {}
    for b in program.bindings:
        if b.context and b.var in places_of and _may_be_less(program, b):
            told = _told(program, b, places_of[b.var], times, known)
            if told is not None:
                found[b.var] = told
    return found


def _all_reads(program: Program) -> Iterator[Read]:
    for b in program.bindings:
        yield from reads(b)
        entries = b.prim.entries if isinstance(b.prim, Accumulate) else ()
        for g in (*b.guards, *(g for e in entries for g in e.guards)):
            if g.fact is not None:
                yield from (a for a in atoms_of(g.fact) if isinstance(a, Read))
    for r in program.results:
        yield from (a for a in atoms(r.value) if isinstance(a, Read))
    for index in program.indices.values():
        found = () if index.extent is None else atoms_of(index.extent)
        more = () if index.condition is None else atoms(index.condition)
        yield from (a for a in (*found, *more) if isinstance(a, Read))


def _may_be_less(program: Program, b: Binding) -> bool:
    """Whether each element of a table is made by itself."""
    match b.prim:
        case Op(name):
            return not stops(b.prim) and name not in ("held", "after")
        case Accumulate(monoid):
            return monoid not in ORDERED and is_reduction(b.context, b.prim)
        case _:
            return False


def _told(
    program: Program, b: Binding, read: list[tuple[Size, ...]], times: set[Var], known: Facts
) -> tuple[int, Size] | None:
    """An axis at which all read the same place as at another one, or a number, and what its index
    is there."""
    inner = {i for e in getattr(b.prim, "entries", ()) for i in e.over}
    bound = {v for i in (*b.context, *inner) for v in _hangs_on(program, i)}
    first = read[0]
    for k, i in enumerate(b.context):
        index = program.indices[i]
        if i in times or i in bound or index.extent is None or index.condition is not None:
            continue
        if not set(variables(index.extent)) <= set(program.sizes):
            continue
        for m, j in enumerate(b.context[:k]):
            if program.indices[j].extent == index.extent and all(at[m] == at[k] for at in read):
                return k, size(j)
        e = first[k]
        if set(variables(e)) <= set(program.sizes) and not atoms_of(e):
            if all(at[k] == e for at in read) and _is_there(program, e, index.extent, known):
                return k, e
    return None


def _hangs_on(program: Program, i: Var) -> tuple[Var, ...]:
    extent = program.indices[i].extent
    return () if extent is None else variables(extent)


def _is_there(program: Program, e: Size, extent: Size, known: Facts) -> bool:
    """Whether an axis has an element at a place whatever the sizes are."""
    sizes = frozenset(program.sizes)
    return all(
        facts_about(low, program.indices, sizes, (), known).proves(low)
        for low in (e, extent - 1 - e)
    )


def _without(program: Program, found: Tables) -> Program:
    def read(r: Read) -> Operand:
        if r.var not in found:
            return r
        k, _ = found[r.var]
        return Read(r.var, (*r.at[:k], *r.at[k + 1 :]))

    def binding(b: Binding) -> Binding:
        names: dict[Var, Size] = {}
        context = b.context
        if b.var in found:
            k, e = found[b.var]
            names[context[k]] = e
            context = (*context[:k], *context[k + 1 :])

        def operand(o: Operand) -> Operand:
            return rewrite(o, names, read)

        def index(s: Size) -> Size:
            return rewrite_size(s, names, read)

        prim = map_prim(b.prim, operand, index)
        if b.var in found and isinstance(prim, Accumulate):
            here = places(context)
            prim = replace(prim, entries=tuple(replace(e, at=here) for e in prim.entries))
        guards = map_guards(b.guards, operand, index)
        return replace(b, context=context, guards=guards, prim=prim)

    results = tuple(replace(r, value=rewrite(r.value, {}, read)) for r in program.results)
    indices = {
        i: replace(
            x, extent=None if x.extent is None else rewrite_size(x.extent, {}, read),
            condition=None if x.condition is None else rewrite(x.condition, {}, read),
        )
        for i, x in program.indices.items()
    }  # fmt: skip
    bindings = tuple(binding(b) for b in program.bindings)
    return replace(program, indices=indices, bindings=bindings, results=results)
