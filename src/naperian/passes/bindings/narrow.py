"""The least contexts. ainf → ainf

    for i<n, u<T+1: h = delay over t<T from 0.0 next v[i, t]          h[u], v[t]: nothing in
    for i<n, t<T:   v = add(h[i, t], 1.0)                      ⟶      the loop depends on i

Contexts are computed from operands as bindings are made, but a delay's must be known before its
loop's body exists: it starts out with every index in scope. The indices really needed are the
least solution of "what an operand depends on, I depend on"; the rest go. This is how a whole
loop leaves the loop around it: where it ends, before anything reads it (a derivative would send
back to it from every round), or, if states or a condition go through it, at the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Delay,
    Index,
    Number,
    Operand,
    Program,
    Read,
    Trips,
)
from naperian.ainf.walk import (
    atoms,
    atoms_in,
    atoms_of,
    map_guards,
    map_prim,
    operands,
    stops,
    variables,
)
from naperian.names import Var
from naperian.node import kept, replace
from naperian.passes.bindings.builder import Builder
from naperian.prims import Math
from naperian.sizes import Atom, Clamp, Quotient, Remainder, Size, atom, size, substitute

_Inner = tuple[Var, ...]  # the indices that are bound inside, of which nothing outside depends


def narrow(program: Program, always: bool = False) -> Program:
    """The program with no index in a context that nothing there depends on. Only delays have such
    indices, unless the caller has reason to think otherwise (`always`)."""
    if not always and not any(isinstance(b.prim, Delay) for b in program.bindings):
        return program
    return _Narrow(program).result()


def narrow_last(
    b: Builder, start: int, math: Math, whole: Collection[Var] = ()
) -> Callable[[Operand], Operand] | None:
    """The same for the bindings from `start` on, a loop that is complete, but for those that stay
    `whole`; what became of reads of them, if anything did."""
    program = replace(b.program((), (), math, ()), bindings=tuple(b.bindings[start:]))
    made = _Narrow(program, whole)
    if all(len(made.needs[x.var]) == len(x.context) for x in made.program.bindings):
        return None
    after = made.result()
    b.bindings[start:] = after.bindings
    for x in after.bindings:
        b.contexts[x.var], b.guards[x.var] = x.context, x.guards
    changed: set[Var] = set()
    for i, index in after.indices.items():  # what depends on an index comes after it
        if index != b.indices[i] or not changed.isdisjoint(b.closures[i]):
            b.add_index(i, index, made.open[i] - {i})
            changed.add(i)
    return made.new_operand


def without_unused_indices(program: Program) -> Program:
    """The program with only the indices that something still runs over."""
    used: set[Var] = set()
    for b in program.bindings:
        used.update(b.context)
        match b.prim:
            case Accumulate(_, _, entries):
                for e in entries:
                    used.update(e.over)
            case Delay(time):
                used.add(time)
            case _:
                pass
    for r in program.results:
        used.update(r.indices)
    for i in reversed(program.indices):  # extents mention earlier indices
        extent = program.indices[i].extent
        if i in used and extent is not None:
            used.update(variables(extent))
    return replace(program, indices={i: x for i, x in program.indices.items() if i in used})


def _trips(p: Program) -> Iterator[Trips]:
    """Every number of rounds that a program mentions."""
    if all(x.condition is None for x in p.indices.values()):
        return
    said: list[Operand] = [r.value for r in p.results]
    for x in p.indices.values():
        said += () if x.extent is None else (Number(x.extent),)
        said += () if x.condition is None else (x.condition,)
    for o in said:
        yield from (a for a in atoms(o) if isinstance(a, Trips))
    for b in p.bindings:
        yield from _trips_in(b)


@kept
def _trips_in(b: Binding) -> tuple[Trips, ...]:
    facts = [g.fact for g in b.guards]
    if isinstance(b.prim, Accumulate):
        facts += [g.fact for e in b.prim.entries for g in e.guards]
    found = [a for n in facts if n is not None and not n.plain for a in atoms_of(n)]
    found += atoms_in(b)
    return tuple([a for a in found if isinstance(a, Trips)])


class _Narrow:
    """Of every binding, the indices of its context that it `needs`; of every index, those that its
    extent and condition need (`open`). What is found is told once to whom it concerns: that a
    binding needs an index, to the readers of that axis; that an index needs another, to all that
    need the first."""

    def __init__(self, program: Program, whole: Collection[Var] = ()) -> None:
        self.program = program
        self.contexts = {b.var: b.context for b in program.bindings}
        self.needs: dict[Var, set[Var]] = {b.var: set() for b in program.bindings}
        self.open: dict[Var, set[Var]] = {i: {i} for i in program.indices}
        # of a binding's axis (an index that an index needs): who reads there, at what
        self.readers: dict[tuple[Var, Var], list[tuple[set[Var], Var, Size, _Inner]]] = (
            defaultdict(list)
        )
        self.dependants: dict[Var, list[tuple[set[Var], Var, _Inner]]] = {}
        self.found: list[tuple[Var, Var]] = []  # what is needed by whom, still to be told
        self.growing: set[Var] = set()  # the indices of which more may be told later
        for i, x in program.indices.items():
            n = x.extent
            if x.condition is not None or (
                n is not None and (atoms_of(n) or not self.growing.isdisjoint(variables(n)))
            ):
                self.growing.add(i)
            self.open_index(i)
        for b in program.bindings:
            self.binding(b)
            for i in b.context if b.var in whole else ():
                self.add(self.needs[b.var], b.var, i, ())
        self.settle()
        if all([x.condition is None for x in program.indices.values()]):
            return  # nothing is asked by what goes on in a loop
        self.keep_rows()
        self.settle()
        while self.keep_rounds():
            self.settle()

    def settle(self) -> None:
        """The least solution that has what is there already."""
        found, readers, dependants = self.found, self.readers, self.dependants
        while found:
            v, i = axis = found.pop()
            for known, whose, e, inner in readers.pop(axis, ()):
                self.size(known, whose, e, inner)
            for known, whose, inner in dependants.get(v, ()):
                self.add(known, whose, i, inner)

    def keep_rows(self) -> None:
        """Rows whose arrays go through a loop of their own each keep it, though its condition is
        the same for all: a row stays in the cache from round to round."""
        rows: dict[Var, set[Var]] = {}  # of a time, the outer indices that all its arrays need
        for b in self.program.bindings:
            match b.prim:
                case Delay(time, index):
                    condition = self.program.indices[time].condition
                    around = set(condition.at) if isinstance(condition, Read) else set()
                    outer = {i for i in b.context if size(i) in around} - {time}
                    if self.needs[b.var] - outer - {index}:
                        mine = self.needs[b.var] & outer
                        rows[time] = rows.get(time, mine) & mine
                case _:
                    pass
        for time, needed in rows.items():
            for i in needed:
                self.add(self.open[time], time, i, ())

    def keep_rounds(self) -> bool:
        """A `while` loop stays in the rounds of a loop around it as a whole, if anything in it
        depends on them: they go one after the other, so it cannot wait for what comes of all.
        Whether more depends on them now."""
        p = self.program
        rounds = {b.prim.time for b in p.bindings if isinstance(b.prim, Delay)}
        for b in p.bindings:
            times = {b.prim.time} if isinstance(b.prim, Delay) else self.needs[b.var]
            for time in times:
                condition = p.indices[time].condition
                if not isinstance(condition, Read):
                    continue
                around = {e.single for e in condition.at}
                for i in self.needs[b.var] & rounds:
                    if i in around and i != time:
                        self.add(self.open[time], time, i, ())
        return bool(self.found)

    def add(self, known: set[Var], whose: Var, i: Var, inner: _Inner) -> None:
        """An index is needed, unless it is bound inside."""
        if i not in known and i not in inner:
            known.add(i)
            self.found.append((whose, i))

    # what depends on what: each is gone through once

    def open_index(self, i: Var) -> None:
        index = self.program.indices[i]
        if index.extent is not None:
            self.size(self.open[i], i, index.extent, ())
        if index.condition is not None:
            self.operand(self.open[i], i, index.condition, ())

    def binding(self, b: Binding) -> None:
        v, known, all_ = b.var, self.needs[b.var], len(b.context)
        for g in b.guards:
            if len(known) == all_:
                return
            self.operand(known, v, g.operand, ())
        if stops(b.prim):
            for i in b.context:
                self.index(known, v, i, ())
            return
        match b.prim:
            case Accumulate(_, init, entries):
                self.operand(known, v, init, ())
                for k, i in enumerate(b.context):
                    if any(e.at[k] != size(i) or i in e.over for e in entries):
                        self.index(known, v, i, ())  # elements of it are chosen
                for e in entries:
                    self.operand(known, v, e.value, e.over)
                    for i, x in zip(b.context, e.at, strict=True):
                        if x != size(i):
                            self.size(known, v, x, e.over)
                    for g in e.guards:
                        self.operand(known, v, g.operand, e.over)
                    for i in e.over:
                        self.index(known, v, i, e.over)
            case Delay(time, index, init, next):
                self.index(known, v, time, (time,))
                self.operand(known, v, next, (time,))
                self.index(known, v, index, ())
                self.operand(known, v, init, ())
            case _:
                for o in operands(b.prim):
                    if len(known) == all_:
                        return
                    self.operand(known, v, o, ())

    def index(self, known: set[Var], whose: Var, i: Var, inner: _Inner) -> None:
        """What an index needs."""
        needed = self.open[i]
        if i in self.growing:
            self.dependants.setdefault(i, []).append((known, whose, inner))
            needed = needed.copy()
        if needed <= known:
            return
        for j in needed:
            if j not in known and j not in inner:
                known.add(j)
                self.found.append((whose, j))

    def operand(self, known: set[Var], whose: Var, o: Operand, inner: _Inner) -> None:
        """What an operand needs."""
        match o:
            case Read():
                self.read(known, whose, o, inner)
            case Number(value):
                self.size(known, whose, value, inner)
            case _:
                pass

    def read(self, known: set[Var], whose: Var, r: Read, inner: _Inner) -> None:
        var, at = r.var, r.at
        if var in self.contexts:
            self.where(self.needs[var], var, zip(self.contexts[var], at, strict=True),
                       known, whose, inner)  # fmt: skip
            return
        for e in at:
            self.size(known, whose, e, inner)

    def where(
        self, needs: set[Var], var: Var, at: Iterable[tuple[Var, Size]], known: set[Var],
        whose: Var, inner: _Inner,
    ) -> None:
        """What index expressions need, each once the axis where it stands is needed."""
        for i, e in at:
            if i in needs:
                self.size(known, whose, e, inner)
            else:
                self.readers[var, i].append((known, whose, e, inner))

    def size(self, known: set[Var], whose: Var, s: Size, inner: _Inner) -> None:
        for a in s.atoms:
            if type(a) is Var:
                needed = self.open.get(a)
                if needed is not None and (a in self.growing or not needed <= known):
                    self.index(known, whose, a, inner)
                continue
            match a:
                case Read():
                    self.read(known, whose, a, inner)
                case Trips():
                    self.where(self.open[a.time], a.time, a.at, known, whose, inner)
                case Quotient() | Remainder():
                    self.size(known, whose, a.above, inner)
                    self.size(known, whose, a.below, inner)
                case Clamp():
                    self.size(known, whose, a.value, inner)
                    self.size(known, whose, a.extent, inner)
                case _:
                    pass

    def kept(self, r: Read) -> tuple[Size, ...]:
        """The indices of a read that matter."""
        if r.var not in self.contexts:
            return r.at
        needs = self.needs[r.var]
        if len(needs) == len(r.at):
            return r.at
        return tuple(e for i, e in zip(self.contexts[r.var], r.at, strict=True) if i in needs)

    # the program again, with less

    def result(self) -> Program:
        p = self.program
        whole = all(len(self.needs[b.var]) == len(b.context) for b in p.bindings)
        if whole and all(i in self.open[x.time] for x in _trips(p) for i, _ in x.at):
            return p
        f, g = self.new_operand, self.new_size
        indices = {
            i: Index(
                None if x.extent is None else g(x.extent),
                None if x.condition is None else f(x.condition),
                x.name,
            )
            for i, x in p.indices.items()
        }
        bindings = tuple(self.new_binding(b) for b in p.bindings)
        results = tuple(replace(r, value=f(r.value)) for r in p.results)
        return replace(p, indices=indices, bindings=bindings, results=results)

    def stays(self, b: Binding) -> bool:
        """Whether a binding and all that it reads need all that they have."""
        if len(self.needs[b.var]) < len(b.context):
            return False
        for a in atoms_in(b):
            if isinstance(a, Trips) or len(self.needs.get(a.var, a.at)) < len(a.at):
                return False
        guards = [*b.guards]
        if isinstance(b.prim, Accumulate):
            guards += [g for e in b.prim.entries for g in e.guards]
        return all([g.fact is None or g.fact.plain for g in guards])

    def new_binding(self, b: Binding) -> Binding:
        if self.stays(b):
            return b
        needs = self.needs[b.var]
        prim = map_prim(b.prim, self.new_operand, self.new_size)
        if isinstance(prim, Accumulate):
            prim = replace(
                prim,
                entries=tuple(
                    replace(
                        e,
                        at=tuple(x for i, x in zip(b.context, e.at, strict=True) if i in needs),
                    )
                    for e in prim.entries
                ),
            )
        return replace(
            b,
            context=tuple(i for i in b.context if i in needs),
            guards=map_guards(b.guards, self.new_operand, self.new_size),
            prim=prim,
        )

    def new_operand(self, o: Operand) -> Operand:
        match o:
            case Read(var, at):
                kept = tuple(self.new_size(e) for e in self.kept(o))
                return o if kept == at else Read(var, kept)
            case Number(value):
                return Number(self.new_size(value))
            case _:
                return o

    def new_size(self, s: Size) -> Size:
        return s if s.plain or not atoms_of(s) else substitute(s, self.new_atom)

    def new_atom(self, a: Atom) -> Size | None:
        match a:
            case Read(var, at):
                kept = tuple(self.new_size(e) for e in self.kept(a))
                return None if kept == at else atom(Read(var, kept))
            case Trips(time, steps):
                left = tuple((i, self.new_size(e)) for i, e in steps if i in self.open[time])
                return atom(Trips(time, left))
            case _:
                return None
