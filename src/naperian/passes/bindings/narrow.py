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

from collections.abc import Callable, Iterable
from typing import TypeVar

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
    atoms_of,
    map_guards,
    map_prim,
    operands,
    stops,
    variables,
)
from naperian.names import Var
from naperian.node import replace
from naperian.passes.bindings.builder import Builder
from naperian.prims import Math
from naperian.sizes import Atom, Clamp, Quotient, Remainder, Size, atom, size, substitute

T = TypeVar("T")


def narrow(program: Program, always: bool = False) -> Program:
    """The program with no index in a context that nothing there depends on. Only delays have such
    indices, unless the caller has reason to think otherwise (`always`)."""
    if not always and not any(isinstance(b.prim, Delay) for b in program.bindings):
        return program
    return _Narrow(program).result()


def narrow_last(b: Builder, start: int, math: Math) -> Callable[[Operand], Operand] | None:
    """The same for the bindings from `start` on, a loop that is complete; what became of reads of
    them, if anything did."""
    made = _Narrow(replace(b.program((), (), math, ()), bindings=tuple(b.bindings[start:])))
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


class _Narrow:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.contexts = {b.var: b.context for b in program.bindings}
        self.needs: dict[Var, set[Var]] = {b.var: set() for b in program.bindings}
        self.open: dict[Var, set[Var]] = {}  # an index with what its extent and condition need
        self.asked: set[Var] = set()  # whose needs the answer at hand depends on
        self.askers: dict[Var, set[Var]] = {}  # whose answers depended on the needs of one
        self.due: set[Var] = {*program.indices, *self.needs}  # what is to be looked at
        self.settle()
        self.keep_rows()
        self.settle()

    def settle(self) -> None:
        """The least solution that has what is there already. What asked for nothing that has grown
        since is not looked at again."""
        while self.due:
            for i in self.program.indices:
                if i in self.due:
                    self.look(i, self.open.setdefault(i, {i}), self.open_index, i)
            for b in self.program.bindings:
                if b.var in self.due:
                    self.look(b.var, self.needs[b.var], self.binding, b)

    def look(self, v: Var, known: set[Var], ask: Callable[[T], set[Var]], about: T) -> None:
        self.due.discard(v)
        self.asked = set()
        found = ask(about)
        for x in self.asked:
            self.askers.setdefault(x, set()).add(v)
        self.grow(v, known, found)

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
        for time, kept in rows.items():
            self.grow(time, self.open[time], kept)

    def grow(self, v: Var, known: set[Var], found: Iterable[Var]) -> None:
        before = len(known)
        known.update(found)
        if len(known) > before:
            self.due |= self.askers.get(v, set())

    def open_index(self, i: Var) -> set[Var]:
        index = self.program.indices[i]
        found = {i}
        if index.extent is not None:
            self.size(index.extent, found)
        if index.condition is not None:
            self.operand(index.condition, found)
        return found

    def binding(self, b: Binding) -> set[Var]:
        out: set[Var] = set()
        for g in b.guards:
            self.operand(g.operand, out)
        if stops(b.prim):
            for i in b.context:
                out |= self.index(i)
            return out
        match b.prim:
            case Accumulate(_, init, entries):
                self.operand(init, out)
                for k, i in enumerate(b.context):
                    if any(e.at[k] != size(i) or i in e.over for e in entries):
                        out |= self.index(i)  # elements of it are chosen
                for e in entries:
                    inner: set[Var] = set()
                    self.operand(e.value, inner)
                    for i, x in zip(b.context, e.at, strict=True):
                        if x != size(i):
                            self.size(x, inner)
                    for g in e.guards:
                        self.operand(g.operand, inner)
                    for i in e.over:
                        inner |= self.index(i)
                    out |= inner - set(e.over)
            case Delay(time, index, init, next):
                inside = {*self.index(time)}
                self.operand(next, inside)
                out |= self.index(index) | (inside - {time})
                self.operand(init, out)
            case _:
                for o in operands(b.prim):
                    self.operand(o, out)
        return out

    def index(self, i: Var) -> set[Var]:
        """What an index needs."""
        self.asked.add(i)
        return self.open[i]

    def operand(self, o: Operand, out: set[Var]) -> None:
        """Adds what an operand needs."""
        match o:
            case Read():
                self.read(o, out)
            case Number(value):
                self.size(value, out)
            case _:
                pass

    def read(self, r: Read, out: set[Var]) -> None:
        for e in self.kept(r):
            self.size(e, out)

    def kept(self, r: Read) -> tuple[Size, ...]:
        """The indices of a read that matter."""
        if r.var not in self.contexts:
            return r.at
        self.asked.add(r.var)
        needs = self.needs[r.var]
        if len(needs) == len(r.at):
            return r.at
        return tuple(e for i, e in zip(self.contexts[r.var], r.at, strict=True) if i in needs)

    def size(self, s: Size, out: set[Var]) -> None:
        for m, _ in s.terms:
            for a in m:
                match a:
                    case Var():
                        self.asked.add(a)
                        if a in self.open:
                            out |= self.open[a]
                    case Read():
                        self.read(a, out)
                    case Trips(time, at):
                        for i, e in at:
                            if i in self.index(time):
                                self.size(e, out)
                    case Quotient(x, y) | Remainder(x, y) | Clamp(x, y):
                        self.size(x, out)
                        self.size(y, out)
                    case _:
                        pass

    # the program again, with less

    def result(self) -> Program:
        p = self.program
        whole = all(len(self.needs[b.var]) == len(b.context) for b in p.bindings)
        if whole and all(x.condition is None for x in p.indices.values()):
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

    def new_binding(self, b: Binding) -> Binding:
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
        return substitute(s, self.new_atom) if atoms_of(s) else s

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
