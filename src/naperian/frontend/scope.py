"""What names mean at a place, and what is known there.

A scope has entries (variables, sets and sizes of the signature) and assumptions about integer
variables; both are inherited. `depth` tells an enclosing block from the same block: binding a
name of an enclosing block inside `for`, `if`, `loop` is an error (it would change nothing there).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from naperian.facts import Apart, Doubted, Facts
from naperian.frontend.solve import Solver
from naperian.names import Var
from naperian.node import mutable
from naperian.packing import bounds
from naperian.sizes import Size, size
from naperian.source import Span
from naperian.types import (
    EnumSet,
    Fin,
    Index,
    Range,
    Reverse,
    Set,
    SetVar,
    Slice,
    Sum,
    Type,
    cardinality,
)


@mutable
class Variable:
    """A parameter, a let-bound name, an index or a carried name. `poly` is its value as index
    arithmetic, when it has one; `what` says how it was made, for messages."""

    var: Var
    type: Type
    span: Span
    poly: Size | None = None
    what: str = "name"


@mutable
class SetName:
    """An index set of the signature, or an enum: usable as a set and, as a number, its size."""

    set: Set
    span: Span


@mutable
class SizeName:
    """A size of the signature, a number."""

    var: Var
    span: Span


@mutable
class TypeName:
    """A type variable of the signature."""

    type: Type
    span: Span


Entry = Variable | SetName | SizeName | TypeName


@mutable
class Scope:
    """Names and facts at a place."""

    solver: Solver
    parent: Scope | None = None
    block: bool = False  # starts a block whose bindings are its own
    function: bool = False  # starts a function: it may hide enclosing names
    names: dict[str, Entry] = field(default_factory=dict)
    indices: list[tuple[Var, Type]] = field(default_factory=list)
    known: list[Size | Apart | Doubted] = field(default_factory=list)
    _cache: tuple[object, Facts] | None = None
    _place: tuple[tuple[int, int], Scope] | None = None

    def inner(self, block: bool = False, function: bool = False) -> Scope:
        return Scope(self.solver, self, block, function)

    def so_far(self) -> Scope:
        """This place: what is known here, without what the lines after it will say. Whatever is
        proved later than it is walked is proved from this."""
        extent = (len(self.indices), len(self.known))
        around = None if self.parent is None else self.parent.so_far()
        if self._place is not None:
            before, place = self._place
            if before == extent and place.parent is around:
                return place
        place = Scope(
            self.solver, around, self.block, self.function, self.names, [*self.indices],
            [*self.known],
        )  # fmt: skip
        self._place = (extent, place)
        return place

    def find(self, name: str) -> Entry | None:
        scope: Scope | None = self
        while scope is not None:
            entry = scope.names.get(name)
            if entry is not None:
                return entry
            scope = scope.parent
        return None

    def enclosing(self, name: str) -> Entry | None:
        """The entry a new binding here would hide: one of an enclosing block of this function."""
        scope: Scope | None = self
        left_block = False
        while scope is not None:
            entry = scope.names.get(name)
            if entry is not None:
                return entry if left_block else None
            if scope.function:
                return None
            left_block = left_block or scope.block
            scope = scope.parent
        return None

    def all_names(self) -> Iterator[str]:
        scope: Scope | None = self
        while scope is not None:
            yield from scope.names
            scope = scope.parent

    def around(self) -> set[Var]:
        """The indices that are bound here or around this place."""
        above = set[Var]() if self.parent is None else self.parent.around()
        return above | {v for v, _ in self.indices}

    def assume_index(self, var: Var, s: Set) -> None:
        """`var` is an element of the set (which may not be known yet)."""
        self.indices.append((var, Index(s)))

    def assume_type(self, var: Var, t: Type) -> None:
        """`var` has this type, which may turn out to be an index."""
        self.indices.append((var, t))

    def ranges(self) -> Iterator[tuple[Var, Set]]:
        """The indices bound in this scope itself, and what each is an element of."""
        for var, t in self.indices:
            kind = self.solver.head(t)
            if isinstance(kind, Index):
                yield var, self.solver.zonk_set(kind.set)

    def assume(self, *facts: Size | Apart | Doubted) -> None:
        """These polynomials are not negative (or not 0) here."""
        self.known.extend(facts)

    def facts(self) -> Facts:
        """Everything known here, with what the solver has found so far."""
        solver = self.solver
        stamp = (len(solver.types), len(solver.sets), len(solver.sizes), self._extent())
        if self._cache is not None and self._cache[0] == stamp:
            return self._cache[1]
        known: list[Size] = []
        apart: list[Apart] = []
        doubted: list[Doubted] = []
        scope: Scope | None = self
        while scope is not None:
            for var, s in scope.ranges():
                known += _bounds(var, s)
            for k in scope.known:
                if isinstance(k, Apart):
                    apart.append(Apart(solver.zonk_size(k.poly)))
                elif isinstance(k, Doubted):
                    doubted.append(Doubted(solver.zonk_size(k.fact), k.test))
                else:
                    known.append(solver.zonk_size(k))
            for entry in scope.names.values():
                match entry:
                    case SetName(SetVar(v)) | SizeName(v):
                        known.append(solver.zonk_size(size(v)))
                    case _:
                        pass
            scope = scope.parent
        sure = Facts((), tuple(doubted)).and_(*dict.fromkeys(known))
        facts = sure.with_apart(apart)
        self._cache = (stamp, facts)
        return facts

    def _extent(self) -> int:
        scope: Scope | None = self
        total = 0
        while scope is not None:
            total += len(scope.indices) + len(scope.known) + len(scope.names)
            scope = scope.parent
        return total


def _bounds(var: Var, s: Set) -> list[Size]:
    """What membership in a set says of an index, as numbers."""
    match s:
        case Fin() | SetVar() | EnumSet() | Sum():
            return [*bounds(var, s), cardinality(s) - 1]
        case Range() | Slice():
            return bounds(var, s)
        case Reverse(inner):
            return _bounds(var, inner)
        case _:
            return []
