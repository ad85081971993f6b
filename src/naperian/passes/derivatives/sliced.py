"""Of a state that a loop backwards reads in slices, these are kept and not the states. ainf → ainf

    for i<n, j<n, t<k + 1:  s = delay over t<k from x[i, j] next f[t, i, j]
    for u<k, i<n, j<n:      y = mul(w[u, i, j], s[k - u - 1, j, k - u - 1])

    for t<k, j<n:           slice = held(s[t, j, t])
    for u<k, i<n, j<n:      y = mul(w[u, i, j], slice[k - u - 1, j])

A step of a factorisation takes a row and a column of what it changes, and so does its derivative:
all states are n times as much. If another read needs more of them, all are kept anyway, and they
are left alone.

    for t<k, c<3:           slice = held(s[t, j[t], c])            s is changed in place
    for u<k, c<3:           y = mul(w[u, c], slice[k - u - 1, c])

Of a table that is changed in place those are kept that are a few elements a round, as single ones
are; for longer ones it is changed back (`undo`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from functools import cached_property

from naperian.ainf.syntax import (
    Binding,
    Delay,
    Op,
    Operand,
    Program,
    Read,
)
from naperian.ainf.walk import (
    Reader,
    atoms,
    closures,
    free,
    reads,
    rewrite,
    rewrite_guards,
    with_reads,
)
from naperian.facts import Facts
from naperian.names import Var, fresh
from naperian.node import mutable, replace
from naperian.passes.bindings.builder import Guards
from naperian.passes.bindings.ranges import checked, facts_about
from naperian.passes.bindings.states import state_of
from naperian.passes.derivatives.held import much
from naperian.sizes import ONE, Size, size


def sliced(program: Program) -> Program:
    """The program with slices of states that are not changed in place."""
    return _with_slices(program, in_place=False)


def elements(program: Program) -> Program:
    """The program with slices of a few elements of states that are changed in place."""
    return _with_slices(program, in_place=True)


def _with_slices(program: Program, in_place: bool) -> Program:
    known: _Known | None = None
    for b in program.bindings:
        if isinstance(b.prim, Delay) and len(b.context) > 1:
            known = known or _Known(program)
            made = _Slices(program, b, b.prim, in_place, known).result()
            if made is not None:
                program, known = made, None
    return program


class _Known:
    """What is asked of a program for each state."""

    def __init__(self, program: Program) -> None:
        self.program = program

    @cached_property
    def bindings(self) -> dict[Var, Binding]:
        return {b.var: b for b in self.program.bindings}

    @cached_property
    def readers(self) -> dict[Var, list[Binding]]:
        """The bindings that read each."""
        found: dict[Var, list[Binding]] = {}
        for b in self.program.bindings:
            for v in {r.var: None for r in reads(b)}:
                found.setdefault(v, []).append(b)
        return found

    @cached_property
    def place(self) -> dict[Var, int]:
        """Where each binding is in the text."""
        return {b.var: k for k, b in enumerate(self.program.bindings)}

    @cached_property
    def closures(self) -> dict[Var, frozenset[Var]]:
        return closures(self.program.indices)

    @cached_property
    def times(self) -> dict[Var, Size]:
        """Of all loops, how many rounds they make."""
        indices = self.program.indices
        return {
            b.prim.time: n for b in self.program.bindings if isinstance(b.prim, Delay)
            and (n := indices[b.prim.time].extent) is not None
        }  # fmt: skip


class _Whole(Exception):
    """A round reads as much of an earlier one as there is."""


@mutable
class _Slices:
    """A state, and what loops backwards read of it."""

    program: Program
    state: Binding
    delay: Delay
    in_place: bool
    known: _Known
    rounds: Size | None = field(init=False)
    place: dict[Var, int] = field(init=False)  # in the text
    bounds: dict[Var, Size | None] = field(init=False)  # what arguments are indices of
    closures: dict[Var, frozenset[Var]] = field(init=False)
    times: dict[Var, Size] = field(init=False)  # of all loops, how many rounds they make
    notes: dict[tuple[Read, Guards], Binding] = field(default_factory=dict)

    def result(self) -> Program | None:
        """The program with slices; None if it stays as it is."""
        p = self.program
        index = p.indices[self.delay.time]
        self.rounds = index.extent
        if index.condition is not None or self.rounds is None:
            return None
        readers = self.known.readers.get(self.state.var, ())
        far = {b.var for b in readers if any(map(self.is_far, reads(b)))}
        if not far:
            return None
        if (state_of(self.state, self.known.bindings, p.indices) is not None) != self.in_place:
            return None
        shown = (a for r in p.results for a in atoms(r.value))
        if any(isinstance(a, Read) and self.is_far(a) for a in shown):
            return None
        self.bounds = {x.var: x.bound for x in p.params}
        self.place, self.closures = self.known.place, self.known.closures
        self.times = self.known.times
        try:
            made = [self.rewritten(b) if b.var in far else b for b in p.bindings]
        except _Whole:
            return None
        if not self.are_few():
            return None
        behind: dict[int, list[Binding]] = {}
        for note in self.notes.values():
            behind.setdefault(self.after(note), []).append(note)
        out: list[Binding] = []
        for k, b in enumerate(made):
            out += (b, *behind.get(k, ()))
        return replace(p, bindings=tuple(out))

    def is_far(self, r: Read) -> bool:
        """Whether a read is of an earlier round, not of this one or of the end."""
        if r.var != self.state.var:
            return False
        at = r.at[self.state.context.index(self.delay.index)]
        return at not in (size(self.delay.time), self.rounds)

    def rewritten(self, b: Binding) -> Binding:
        """A binding that reads slices."""

        def reader(domain: tuple[Var, ...], guards: Guards) -> Reader:
            return lambda r: self.slice(r, b, domain, guards) if self.is_far(r) else r

        return with_reads(b, reader)

    def slice(self, r: Read, b: Binding, domain: tuple[Var, ...], guards: Guards) -> Operand:
        """A read of the state as one of a slice."""
        there, back = self.turn(r)
        here = rewrite(r, there)
        assert isinstance(here, Read)
        needed = self.needed(here, rewrite_guards(guards, there), {*domain, *there})
        known = self.notes.get((here, needed))
        if known is None:
            known = self.notes[here, needed] = self.noted(here, needed, there.keys())
        if self.place[b.var] <= self.after(known):
            raise _Whole
        return Read(known.var, tuple(back.get(i, size(i)) for i in known.context))

    def needed(self, r: Read, guards: Guards, domain: set[Var]) -> Guards:
        """Under which of the guards there is what is read: under none; under those that need no
        other indices; or under all, where it is read over a domain. If the indices that it does
        not need are of as many as others, all of it is."""
        indices, own = self.program.indices, self.around(free(r))
        some = tuple(g for g in guards if self.around(free(g.operand)) <= own)
        for few in ((), some):
            if self.is_inside(r, few):
                return few
        extents = {indices[i].extent for i in own}
        if some != guards or any(indices[i].extent not in extents for i in domain - own):
            raise _Whole
        return guards

    def around(self, found: Iterable[Var]) -> frozenset[Var]:
        """Indices, and what their extents need."""
        return frozenset[Var]().union(*(self.closures[v] for v in found if v in self.closures))

    def turn(self, r: Read) -> tuple[dict[Var, Size], dict[Var, Size]]:
        """The rounds of the loops backwards that a read is in as rounds of those forwards, and
        the other way round."""
        there: dict[Var, Size] = {}
        back: dict[Var, Size] = {}
        for i, e in zip(self.state.context, r.at, strict=True):
            t = self.delay.time if i == self.delay.index else i
            if t not in self.times:
                continue
            back[t] = e
            if e != size(t):
                rounds = self.times[t]
                u = (rounds - ONE - e).single
                if not isinstance(u, Var) or self.times.get(u) != rounds or u in there:
                    raise _Whole
                there[u] = rounds - ONE - size(t)
        return there, back

    def is_inside(self, r: Read, guards: Guards) -> bool:
        """Whether there is what is read, wherever the guards hold."""
        p = self.program
        known, sizes = Facts().and_(*checked(p)), frozenset(p.sizes)
        for i, e in zip(self.state.context, r.at, strict=True):
            extent = p.indices[i].extent
            if extent is None:
                return False
            if isinstance(e.single, Read) and self.bounds.get(e.single.var) == extent:
                continue
            for less in (e, extent - ONE - e):
                if not facts_about(less, p.indices, sizes, guards, known).proves(less):
                    return False
        return True

    def noted(self, r: Read, guards: Guards, turned: Iterable[Var]) -> Binding:
        """The slices of all rounds: of as many indices as the state they are no less."""
        found = {*free(r), *(v for g in guards for v in free(g.operand))}
        needed = self.around(found)
        context = tuple(i for i in self.program.indices if i in needed)
        note = Binding(
            fresh(self.state.var), context, guards, self.state.dtype, Op("held", (r,)),
            self.state.origin,
        )  # fmt: skip
        behind = {*turned}
        bindings = self.program.bindings
        asked = (bindings[self.place[x.var]] for x in reads(note) if x.var in self.place)
        if not behind.isdisjoint(needed) or not all(behind.isdisjoint(_loops(x)) for x in asked):
            raise _Whole
        return note

    def after(self, note: Binding) -> int:
        """Behind which binding a slice stands: all that it reads is there."""
        return max(self.place[x.var] for x in reads(note) if x.var in self.place)

    def are_few(self) -> bool:
        """Whether the slices of a round are less than a state."""
        whole = self.much(self.state.context)
        each = [self.much(note.context) for note in self.notes.values()]
        most = max(axes for axes, _ in each)
        if self.in_place and (most or not whole[0]):
            return False
        return (most, sum(n for axes, n in each if axes == most)) < whole

    def much(self, context: tuple[Var, ...]) -> tuple[int, int]:
        """See `held`, of a round."""
        return much(self.program, (i for i in context if i != self.delay.index), self.times)


def _loops(b: Binding) -> set[Var]:
    """The loops that a value is of."""
    return {*b.context, *((b.prim.time,) if isinstance(b.prim, Delay) else ())}
