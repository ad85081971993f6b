"""What another loop asks of a table that is changed in place is noted. ainf → ainf

    for t<k:       new = last at [i[t]] of v[t] from s[t]      s: delay over t from x next new
    for j<m, t<k:  y = mul(s[e[t], t], d[j, t])

    for t<k:       note = held(s[e[t], t])
    for j<m, t<k:  y = mul(note[t], d[j, t])

Tangents in many directions are a loop over directions around the time, which the table itself does
not wait for. Their reads of it as it was in every round would keep it k times over, where they want
a few of its elements in a round. So would an operation in the time alone, once it is made again for
each direction. Reads in a loop backwards are not asked here (see `undo`); in the loop that changes
the table back they are.

If the table is read in other rounds, too, all of them are kept anyway, and it is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from naperian.ainf.syntax import (
    Binding,
    Delay,
    Guard,
    Op,
    Operand,
    Program,
    Read,
    Result,
)
from naperian.ainf.walk import Reader, atoms, context_of, reads, with_reads
from naperian.components import components
from naperian.names import Var, fresh
from naperian.node import mutable, replace
from naperian.passes.algebra.prune import needed
from naperian.passes.bindings.states import State, outermost, state_of
from naperian.sizes import size


def noted(program: Program) -> Program:
    """See the module."""
    found: list[Sequence[Var]] = []  # what goes round together, once somebody asks
    for v in outermost(program):
        bindings = {b.var: b for b in program.bindings}
        state = state_of(bindings[v], bindings, program.indices)
        made = None if state is None else _Notes(program, state, bindings, found).result()
        if made is not None:
            program, found = made, []
    return program


class _Other(Exception):
    """The table is read in another round."""


@mutable
class _Notes:
    """One state of a program, and what others read of it."""

    program: Program
    state: State
    bindings: dict[Var, Binding]
    together: list[Sequence[Var]]
    place: dict[Var, int] = field(init=False)  # in the text
    own: frozenset[Var] = field(init=False)  # what goes round with the table
    handed: frozenset[Var] = field(init=False)  # what is read in more loops than it is in
    times: dict[Var, tuple[Var, ...]] = field(default_factory=dict)  # around each version
    changed: dict[Var, Var] = field(default_factory=dict)  # each version: what comes of it
    notes: dict[tuple[Read, tuple[Guard, ...]], Binding] = field(default_factory=dict)
    before: dict[Var, list[Binding]] = field(default_factory=dict)
    behind: dict[Var, list[Binding]] = field(default_factory=dict)

    def result(self) -> Program | None:
        """The program with notes; None if it stays as it is."""
        p = self.program
        self.collect(self.state, ())
        if not any(r.var in self.times for b in p.bindings if self.is_beside(b) for r in reads(b)):
            return None
        self.place = {b.var: k for k, b in enumerate(p.bindings)}
        self.own = self.rounds()
        self.handed = self.handed_on()
        try:
            made = [b if b.var in self.own else self.rewritten(b) for b in p.bindings]
            if any(map(self.asks, _asked(p.results))):
                return None
        except _Other:
            return None
        if not self.notes:
            return None
        out: list[Binding] = []
        for b in made:
            out += self.before.get(b.var, ())
            out.append(b)
            out += self.behind.get(b.var, ())
        return replace(p, bindings=tuple(out))

    def collect(self, s: State, outer: tuple[Var, ...]) -> None:
        """The versions of the table, each with the times that it is in and what comes of it."""
        now: Binding = s.delay
        self.times[now.var] = (*outer, s.time)
        for x in reversed(s.links):
            after = x.delay if isinstance(x, State) else x
            self.changed.setdefault(now.var, after.var)
            if isinstance(x, State):
                self.collect(x, (*outer, s.time))
            else:
                self.times[after.var] = (*outer, s.time)
            now = after

    def rounds(self) -> frozenset[Var]:
        """What the table's next value needs and what needs the table: bindings, and the loops that
        go on or on and on as these say."""
        bindings, indices = self.bindings, self.program.indices
        if not self.together:
            nodes = (*bindings, *indices)
            self.together += components(nodes, lambda v: needed(v, bindings, indices))
        return frozenset(next(x for x in self.together if self.state.delay.var in x))

    def is_beside(self, b: Binding) -> bool:
        """Whether a binding is in the state's loop and in one that the state is not in."""
        mine = self.state.delay.context
        return self.state.time in b.context and any(
            i not in mine and i != self.state.time for i in b.context
        )

    def handed_on(self) -> frozenset[Var]:
        """What is read in more loops than it is in, and would be made there from the table."""
        beside = [b for b in self.program.bindings if b.var not in self.own and self.is_beside(b)]
        return frozenset(
            r.var for b in beside for r in reads(b)
            if r.var in self.bindings and len(self.bindings[r.var].context) < len(b.context)
        )

    def asks(self, r: Read) -> bool:
        """Whether a read is of this round of the table; of its end nobody has to note anything."""
        if r.var not in self.times:
            return False
        x = self.bindings[r.var]
        rounds = dict(zip(x.context, r.at, strict=True))
        now = list(self.times[r.var])
        if isinstance(x.prim, Delay):
            at, inner = rounds[x.prim.index], now.pop()
            if at != size(inner):
                if r.var == self.state.delay.var and at == self.program.indices[inner].extent:
                    return False
                raise _Other
        if any(rounds[t] != size(t) for t in now):
            raise _Other
        return True

    def rewritten(self, b: Binding) -> Binding:
        """A binding that reads notes."""
        if not any(r.var in self.times for r in reads(b)):
            return b

        def reader(_: tuple[Var, ...], guards: tuple[Guard, ...]) -> Reader:
            return lambda r: self.note(r, b, guards) if self.asks(r) else r

        return with_reads(b, reader)

    def note(self, r: Read, b: Binding, guards: tuple[Guard, ...]) -> Operand:
        """What is noted of a read, if that is less than its reader."""
        context = context_of(self.program.indices, (r, *(g.operand for g in guards)))
        if {*b.context} <= {*context} and b.var not in self.handed:
            return r
        known = self.notes.get((r, guards))
        if known is None:
            v = fresh(r.var)
            origin = self.bindings[r.var].origin
            dtype = self.bindings[r.var].dtype
            known = Binding(v, context, guards, dtype, Op("held", (r,)), origin)
            self.put(known, r, b)
            self.notes[r, guards] = known
        return Read(known.var, tuple(size(i) for i in known.context))

    def put(self, note: Binding, r: Read, reader: Binding) -> None:
        """A note's place in the text: before the table is changed; of what a round leaves, behind
        the change. Who reads it stands behind that, or is a delay that asks for what is bound
        later."""
        after = self.changed.get(r.var)
        needed = {x.var for x in reads(note) if x.var in self.place}
        if after is None:
            if any(self.place[v] > self.place[r.var] for v in needed):
                raise _Other
            self.behind.setdefault(r.var, []).append(note)
            return
        if any(self.place[v] >= self.place[after] for v in needed):
            raise _Other
        later = isinstance(reader.prim, Delay) and r not in atoms(reader.prim.init)
        if self.place[reader.var] < self.place[after] and not later:
            raise _Other
        self.before.setdefault(after, []).append(note)


def _asked(results: tuple[Result, ...]) -> Iterator[Read]:
    yield from (a for r in results for a in atoms(r.value) if isinstance(a, Read))
