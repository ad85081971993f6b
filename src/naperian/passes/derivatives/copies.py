"""Bindings of a loop once more, with indices of their own: for the reverse of the loop."""

from __future__ import annotations

from collections.abc import Iterator

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Check,
    Delay,
    Entry,
    Index,
    Number,
    Op,
    Operand,
    Prim,
    Read,
    Trips,
)
from naperian.ainf.walk import atoms, map_guards, map_prim, number, operands, size_of
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.passes.bindings.builder import Builder
from naperian.sizes import Atom, Size, atom, size, substitute


def body(b: Builder, component: list[Binding], time: Var) -> list[Binding]:
    """All that a loop's cycle is computed from in the loop, in order; checks have been made."""
    inside = {
        x.var: x for x in b.bindings
        if not isinstance(x.prim, Check) and (
            any(time in b.closures[i] for i in x.context)
            or (isinstance(x.prim, Delay) and x.prim.time == time)
        )
    }  # fmt: skip
    found = {x.var for x in component}
    todo = list(component)
    while todo:
        for v in mentioned(b, todo.pop(), time):
            if v in inside and v not in found:
                found.add(v)
                todo.append(inside[v])
    return [x for x in inside.values() if x.var in found]


def mentioned(b: Builder, x: Binding, time: Var) -> Iterator[Var]:
    """What a binding is computed from, how far its indices go, and when the loops inside it are
    over."""
    every: list[Operand] = [*operands(x.prim), *(g.operand for g in x.guards)]
    indices = [*x.context]
    if isinstance(x.prim, Accumulate):
        indices += (i for e in x.prim.entries for i in e.over)
    every += (number(n) for i in indices for n in (b.extent(i),) if n is not None)
    times = [t for o in every for a in atoms(o) if isinstance(a, Trips) for t in (a.time,)]
    times += [x.prim.time] if isinstance(x.prim, Delay) else []
    for t in times:
        condition = b.indices[t].condition
        if condition is not None and t != time:
            every.append(condition)
    for o in every:
        yield from (a.var for a in atoms(o) if isinstance(a, Read))


class Copy:
    """A copy of bindings of a loop over `time`: `moved` says what copies what, `names` what stands
    for their indices."""

    def __init__(self, b: Builder, time: Var, moved: dict[Var, Var]) -> None:
        self.b = b
        self.time = time
        self.moved = moved
        self.names: dict[Var, Size] = {}
        self.outside: frozenset[Var] = frozenset()  # of the names, those of loops around

    def indices(self, bindings: list[Binding]) -> None:
        """Copies of the indices that depend on the loop, that are bound by what is copied, or that
        go as far as such a one says."""
        bound: set[Var] = set()
        for x in bindings:
            match x.prim:
                case Delay(time, index):
                    bound |= {time, index}
                case Accumulate(_, _, entries):
                    bound.update(i for e in entries for i in e.over)
                case _:
                    pass
        every = {*bound, *(i for x in bindings for i in x.context)} - {*self.names}
        new: set[Var] = set()
        for i in self.b.order(every):
            around = self.b.closures[i] - {i}
            if i in bound or self.inside(i) or not around.isdisjoint(new):
                new.add(i)
                old = self.b.indices[i]
                extent = None if old.extent is None else self.extent(old.extent)
                self.names[i] = size(self.b.index(extent, old.name, set(map(self.var, around))))

    def extent(self, n: Size) -> Size:
        """How far a copy of an index goes that went so far."""
        return self.size(n)

    def inside(self, i: Var) -> bool:
        """Whether an index depends on the loop, and so is another one in the copy."""
        return self.time in self.b.closures[i]

    def conditions(self) -> None:
        """Those of the `while` loops inside, once what they read is there; and what are strips."""
        for i in self.names:
            if i in self.b.strips and i != self.time and i not in self.outside:
                self.b.strips[self.var(i)] = self.var(self.b.strips[i])
            old = self.b.indices[i]
            if old.condition is not None and i != self.time:
                new = self.var(i)
                extent = self.b.indices[new].extent
                self.b.indices[new] = Index(extent, self.operand(old.condition), old.name)

    def var(self, i: Var) -> Var:
        new = self.names[i].single if i in self.names else i
        assert isinstance(new, Var)
        return new

    def operand(self, o: Operand) -> Operand:
        match o:
            case Read(var, at) if var in self.moved:
                return Read(self.moved[var], tuple(map(self.at, self.b.contexts[var], at)))
            case Read(var, at):
                return Read(var, tuple(self.size(e) for e in at))
            case Number(value):
                return number(self.size(value))
            case Lit():
                return o

    def at(self, axis: Var, e: Size) -> Size:
        """Where the copy is read on an axis of what it copies."""
        return self.size(e)

    def size(self, s: Size) -> Size:
        return substitute(s, self.atom)

    def atom(self, a: Atom) -> Size | None:
        match a:
            case Var():
                return self.names.get(a)
            case Read():
                return size_of(self.operand(a))
            case Trips(time, at) if time in self.names and time != self.time:
                around = tuple((self.var(i), self.at(i, e)) for i, e in at)
                return atom(Trips(self.var(time), around))
            case Trips(time, at):
                return atom(Trips(time, tuple((i, self.size(e)) for i, e in at)))
            case _:
                return None

    def binding(self, x: Binding) -> Binding:
        context = tuple(self.var(i) for i in x.context)
        guards = map_guards(x.guards, self.operand, self.size)
        origin = replace(x.origin, again=True)
        self.b.add(self.prim(x), context, guards, x.dtype, origin, self.moved[x.var])
        return self.b.bindings[-1]

    def prim(self, x: Binding) -> Prim:
        new = map_prim(x.prim, self.operand, self.size)
        match new:
            case Delay(time, index, init, next):
                return Delay(self.var(time), self.var(index), init, next)
            case Accumulate(monoid, init, entries):
                assert isinstance(x.prim, Accumulate)
                copies = tuple(
                    Entry(
                        tuple(self.var(i) for i in e.over),
                        tuple(map(self.at, x.context, old.at)), e.value, e.guards,
                    )
                    for old, e in zip(x.prim.entries, entries, strict=True)
                )  # fmt: skip
                return Accumulate(monoid, init, copies)
            case Op("gate", args, code):  # the call is made in the copy, too
                self.b.ruled.append(
                    self.b.ruled[code].copied(
                        self.operand, self.size, self.var,
                        lambda guards: map_guards(guards, self.operand, self.size),
                    )
                )
                return Op("gate", args, len(self.b.ruled) - 1)
            case Op("checked" | "print", (k, *_)):  # it was, in the first loop
                return Op("copy", (k,))
            case _:
                return new
