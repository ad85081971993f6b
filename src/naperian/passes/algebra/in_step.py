"""Loops of which one reads in each round what another had then go in step. ainf → ainf

    for t<k:  s = delay over t<k from x next last at [i[t]] of v[t] from s[t]      in place
    for u<k:  r = delay over u<k from y next last at [i[u]] of w[u] from r[u]
    for u<k:  w = mul(s[j[u], u], d[u])

    for t<k:  r = delay over t<k from y next last at [i[t]] of w[t] from r[t]
    for t<k:  w = mul(s[j[t], t], d[t])

A derivative forwards computes its function once more, beside which its tangents go; where that is
found to be one that is there already (`bisimilar`), the tangents are left in a loop of their own.
A table that is changed in place would be kept for them as it was in every round. An index is but a
name: with the other's, both are one loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from naperian.ainf.syntax import Accumulate, Binding, Delay, Entry, Index, Program, Read
from naperian.ainf.walk import (
    atoms,
    reads,
    rewrite,
    rewrite_guards,
    rewrite_prim,
    rewrite_size,
    variables,
)
from naperian.names import Var
from naperian.node import replace
from naperian.passes.bindings.states import state_of
from naperian.sizes import Size, size


def in_step(program: Program) -> Program:
    """See the module."""
    refused: set[tuple[Var, Var]] = set()
    while (pair := next(_pairs(program, refused), None)) is not None:
        refused.add(pair)
        if _may(program, *pair):
            program = _renamed(program, *pair)
    return program


def _pairs(program: Program, refused: set[tuple[Var, Var]]) -> Iterator[tuple[Var, Var]]:
    """The time of a table that is changed in place, and that of a loop that reads it in step."""
    bindings = {b.var: b for b in program.bindings}
    times = {b.prim.time for b in program.bindings if isinstance(b.prim, Delay)}
    if len(times) < 2:
        return
    for b in program.bindings:
        for r in reads(b):
            x = bindings.get(r.var)
            if x is None or not isinstance(x.prim, Delay):
                continue
            own, other = x.prim.time, r.at[x.context.index(x.prim.index)].single
            if not isinstance(other, Var) or other == own or other not in times:
                continue
            if (own, other) not in refused and state_of(x, bindings, program.indices) is not None:
                yield own, other


def _may(program: Program, own: Var, other: Var) -> bool:
    """Whether the second loop may go with the first: it makes as many rounds, nothing is in both,
    and none of its rounds waits for the end of the first."""
    one, two = program.indices[own], program.indices[other]
    order = list(program.indices)
    if one.condition is not None or two.condition is not None or one.extent != two.extent:
        return False
    if order.index(own) > order.index(other) or one.extent is None:
        return False
    bindings = {b.var: b for b in program.bindings}
    if any({own, other} <= _mentioned(b) for b in program.bindings):
        return False
    if any({own, other} <= {*r.indices} for r in program.results):
        return False
    todo = [(b, True) for b in bindings.values() if isinstance(b.prim, Delay)
            and b.prim.time == other]  # fmt: skip
    seen: set[tuple[Var, bool]] = {(b.var, True) for b, _ in todo}
    for b, whole in todo:
        if isinstance(b.prim, Accumulate) and any(own in e.over for e in b.prim.entries):
            return False
        for r in _needed(b, whole):
            x = bindings.get(r.var)
            if x is None:
                continue
            if not all(_in_step(x, i, e, own, other) for i, e in zip(x.context, r.at, strict=True)):
                return False
            later = not isinstance(x.prim, Delay) or not _is_now(x, x.prim, r, own, other)
            if (x.var, later) not in seen:
                seen.add((x.var, later))
                todo.append((x, later))
    return True


def _needed(b: Binding, whole: bool) -> tuple[Read, ...]:
    """What a binding reads; of a recurrence in a round what it begins with, for what is carried
    comes from rounds before."""
    if whole or not isinstance(b.prim, Delay):
        return reads(b)
    return tuple(r for r in atoms(b.prim.init) if isinstance(r, Read))


def _is_now(x: Binding, prim: Delay, r: Read, own: Var, other: Var) -> bool:
    """Whether a read of a recurrence is of the round that it is in."""
    at = r.at[x.context.index(prim.index)]
    return at == size(prim.time) or (prim.time == own and at == size(other))


def _in_step(x: Binding, i: Var, e: Size, own: Var, other: Var) -> bool:
    """Whether an axis of what is read is no round of the first loop, or is read in the same."""
    time = x.prim.time if isinstance(x.prim, Delay) and i == x.prim.index else i
    return time != own or e in (size(own), size(other))


def _mentioned(b: Binding) -> set[Var]:
    """The indices that are anywhere in a binding."""
    found = {*b.context}
    match b.prim:
        case Delay(time):
            found.add(time)
        case Accumulate(_, _, entries):
            for e in entries:
                found.update(e.over)
        case _:
            pass
    return found.union(*(variables(e) for r in reads(b) for e in r.at))


def _renamed(program: Program, own: Var, other: Var) -> Program:
    """The program in which the second loop's index is the first's."""
    names = {other: size(own)}

    def axes(context: tuple[Var, ...]) -> tuple[Var, ...]:
        return tuple(own if i == other else i for i in context)

    def binding(b: Binding) -> Binding:
        prim = rewrite_prim(b.prim, names)
        match prim:
            case Delay(time) if time == other:
                prim = replace(prim, time=own)
            case Accumulate(_, _, entries) if any(other in e.over for e in entries):
                made = tuple(Entry(axes(e.over), e.at, e.value, e.guards) for e in entries)
                prim = replace(prim, entries=made)
            case _:
                pass
        guards = rewrite_guards(b.guards, names)
        return replace(b, context=axes(b.context), prim=prim, guards=guards)

    def index(x: Index) -> Index:
        extent = None if x.extent is None else rewrite_size(x.extent, names)
        condition = None if x.condition is None else rewrite(x.condition, names)
        return replace(x, extent=extent, condition=condition)

    results = tuple(
        replace(r, indices=axes(r.indices), value=rewrite(r.value, names)) for r in program.results
    )
    return replace(
        program, bindings=tuple(map(binding, program.bindings)), results=results,
        indices={i: index(x) for i, x in program.indices.items() if i != other},
    )  # fmt: skip
