"""What reads a recurrence of its round from behind is made in its order. ainf → ainf

    before   for t, j<l:  x = …                     in order over j, the last layer first
             for t, i<l:  y = x[t, l - i - 1] · w[i]
    after    for t, i<l:  y = x[t, i] · w[l - i - 1]        and y[t, e] is read as y[t, l - e - 1]

The law is that of `turned`. So both may be one loop, and what it hands on stays in registers: the
adjoint of a loop over the layers of a network, itself in a loop over time, is followed so by what
every layer adds to its own weights. With a value are turned all that it reads, or that read it, at
their own index, also what is carried from round to round; none of them may have an order of its
own.
"""

from __future__ import annotations

from collections.abc import Iterator

from naperian.ainf.syntax import Accumulate, Binding, Check, Delay, Op, Program, Read
from naperian.ainf.walk import (
    atoms,
    atoms_of,
    free,
    is_reduction,
    reads,
    stops,
    variables,
)
from naperian.names import Var
from naperian.passes.algebra.turned import turned
from naperian.sizes import ONE, Size, size

_Axis = tuple[Var, int]  # a value, and which of its indices


def alongside(program: Program) -> Program:
    """See the module."""
    if sum(isinstance(b.prim, Delay) for b in program.bindings) < 2:
        return program
    turner = _Turner(program)
    found: dict[Var, int] = {}
    for b in program.bindings:
        if b.var not in found and (start := turner.start(b)) is not None:
            found.update(turner.group(*start) or {})
    return turned(program, found)


class _Turner:
    """What may be turned with what."""

    def __init__(self, program: Program) -> None:
        self.indices = program.indices
        self.made = {b.var: b for b in program.bindings}
        self.readers: dict[Var, list[tuple[Binding, Read]]] = {}
        for b in program.bindings:
            for r in reads(b):
                self.readers.setdefault(r.var, []).append((b, r))
        self.fixed: set[Var] = set()  # what an extent or a condition mentions
        for index in program.indices.values():
            if index.extent is not None:
                self.fixed.update(variables(index.extent))
                self.fixed.update(a.var for a in atoms_of(index.extent) if isinstance(a, Read))
            if index.condition is not None:
                self.fixed.update(free(index.condition))
                self.fixed.update(a.var for a in atoms(index.condition) if isinstance(a, Read))
        self.ordered = self._ordered()

    def _ordered(self) -> dict[Var, set[Var]]:
        """The loops in order that a value is in: it reads what they carry, in the same round."""
        out: dict[Var, set[Var]] = {b.var: set() for b in self.made.values()}
        work: list[tuple[Var, Var]] = []  # a value, and an index that it has in order
        for b in self.made.values():
            if isinstance(b.prim, Delay):
                out[b.var].add(b.prim.time)
                work.append((b.var, b.prim.index))
        while work:
            var, index = work.pop()
            b = self.made[var]
            k, t = b.context.index(index), index
            delayed = isinstance(b.prim, Delay) and index is b.prim.index
            if isinstance(b.prim, Delay) and delayed:
                t = b.prim.time  # who reads it by another index reads what is complete
            for reader, r in self.readers.get(var, ()):
                e = r.at[k]
                i = t if t in variables(e) else None if delayed else e.single
                if i in reader.context and i not in out[reader.var]:
                    out[reader.var].add(i)
                    work.append((reader.var, i))
        return out

    def start(self, b: Binding) -> tuple[_Axis, set[Var]] | None:
        """The index along which a binding reads a recurrence of its own round from behind, and the
        loops whose round it is."""
        for r in reads(b):
            if r.var not in self.made:
                continue
            inside = self.ordered[b.var] & self.ordered[r.var]
            q = self.made[r.var]
            for j, e in zip(q.context, r.at, strict=True) if inside else ():
                if j in self.ordered[q.var] and e.single is None:
                    for k, i in enumerate(b.context):
                        if self.from_behind(e, i, j):
                            return (b.var, k), inside
        return None

    def group(self, start: _Axis, inside: set[Var]) -> dict[Var, int] | None:
        """All that must be turned with a value; None if something may not."""
        found, work = dict([start]), [start]
        while work:
            var, k = work.pop()
            if not self.turns(var, k):
                return None
            for other in self.beside(var, k, inside):
                if other is None or found.get(other[0], other[1]) != other[1]:
                    return None
                if other[0] not in found:
                    found[other[0]] = other[1]
                    work.append(other)
        return found

    def beside(self, var: Var, k: int, inside: set[Var]) -> Iterator[_Axis | None]:
        """What is read, or reads, at the index `k` of a value, of those of the same rounds; None
        if one of them does so in another way than from the front or from behind."""
        b = self.made[var]
        i = b.context[k]
        for r in reads(b):
            q = self.made.get(r.var)
            if q is None or not self.within(q, inside):
                continue
            for n, (j, e) in enumerate(zip(q.context, r.at, strict=True)):
                if e.single is i:
                    yield (q.var, n) if self.as_long(i, j) else None
                elif i in variables(e) and not self.from_behind(e, i, j):
                    yield None
        for reader, r in self.readers.get(var, ()):
            there = r.at[k].single
            if isinstance(there, Var) and there in self.indices and self.within(reader, inside):
                found = there in reader.context and self.as_long(b.context[k], there)
                yield (reader.var, reader.context.index(there)) if found else None

    def turns(self, var: Var, k: int) -> bool:
        """Whether a value may be made in the other order along an index."""
        b = self.made[var]
        i = b.context[k]
        extent, prim = self.indices[i].extent, b.prim
        if extent is None or i in self.ordered[var] or var in self.fixed or i in self.fixed:
            return False
        if any(v in self.indices for v in variables(extent)):
            return False
        match prim:
            case Op():
                return not stops(prim) and prim.name not in ("held", "after")
            case Accumulate():
                return is_reduction(b.context, prim)
            case Delay():
                return prim.index is not i
            case Check():
                return False

    def within(self, b: Binding, inside: set[Var]) -> bool:
        """Whether a value is made in the rounds of a loop."""
        return bool(inside & {*b.context, *self.ordered[b.var]})

    def as_long(self, i: Var, j: Var) -> bool:
        return self.indices[i].extent == self.indices[j].extent

    def from_behind(self, e: Size, i: Var, j: Var) -> bool:
        """Whether `e` goes from the last element of `j`, where `i` begins, to the first."""
        extent = self.indices[i].extent
        return extent is not None and self.as_long(i, j) and e == extent - ONE - size(i)
