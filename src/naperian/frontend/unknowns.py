"""The unknowns of one definition: made here, and read as far as they are known.

An unknown is a variable (`types.TypeVar`, `types.SetVar`, or a `Var` in a size) that inference
made; everything else is rigid. An unknown type may be restricted to some dtypes (an *interface*:
`Num` is "one of the ten numbers"), which also says that it is a scalar, and may have a default
(a literal's). Every binding of an unknown keeps the reason why it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from naperian.dtypes import DType
from naperian.facts import Facts
from naperian.frontend.scalars import Dtypes
from naperian.names import Var
from naperian.node import mutable, node
from naperian.sizes import Size, substitute, variables
from naperian.source import Label, Span
from naperian.substitution import mapped, set_mapped, sets_in
from naperian.types import (
    BoolSet,
    EnumSet,
    Exists,
    Fin,
    Function,
    Index,
    Range,
    Reference,
    Reverse,
    Scalar,
    Set,
    SetVar,
    Slice,
    Sum,
    Table,
    Text,
    Tuple,
    TupleSet,
    Type,
    TypeVar,
    UnitSet,
    cardinality,
    element,
    set_variables,
)


@node
class Because:
    """Why something was believed. Most reasons are never told, so `said` may be what makes the
    text, of what was known when it was believed."""

    span: Span
    said: str | Callable[[], str]

    @property
    def text(self) -> str:
        return self.said if isinstance(self.said, str) else self.said()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Because) and (self.span, self.text) == (other.span, other.text)

    def __hash__(self) -> int:
        return hash(self.span)

    @property
    def label(self) -> Label:
        return Label(self.span, self.text)


class Place(Protocol):
    """A place in the program: what is known there."""

    def facts(self) -> Facts: ...

    def so_far(self) -> Place: ...


class Nowhere:
    """Nothing is known."""

    def facts(self) -> Facts:
        return Facts()

    def so_far(self) -> Place:
        return self


@mutable
class Unknown:
    """What is known of an unknown type so far."""

    dtypes: Dtypes | None = None  # None: it need not be a scalar
    default: DType | None = None
    floats: bool = False  # a float literal: its default is the definition's `Float`
    cell: bool = False  # an instance of an interface, so no table
    needs: set[str] = field(default_factory=set)  # built-in interfaces of what is no scalar
    computed: bool = False  # by arithmetic, of which no index is the result
    held: bool = False  # of an integer that has a name: arithmetic with floats leaves it one
    carried: bool = False  # of an integer that rounds change
    grows: bool = False  # of an integer that is added up: narrower ones are Ints beside it

    def ask(self, interfaces: Iterable[str]) -> None:
        """Somebody computes with it, as with an instance of these."""
        for interface in interfaces:
            self.needs.add(interface)
            self.computed |= interface not in ("Eq", "Ord")


@dataclass(slots=True)
class Unknowns:
    """The unknowns of a definition, and what they are bound to."""

    types: dict[Var, Type] = field(default_factory=dict)
    sets: dict[Var, Set] = field(default_factory=dict)
    sizes: dict[Var, Size] = field(default_factory=dict)
    unknown: dict[Var, Unknown] = field(default_factory=dict)
    unknown_sets: set[Var] = field(default_factory=set)
    unknown_sizes: set[Var] = field(default_factory=set)
    why: dict[Var, Because] = field(default_factory=dict)
    rigid: dict[Var, Dtypes] = field(default_factory=dict)
    chosen: set[Var] = field(default_factory=set)  # unknowns left to the caller
    place: Place = field(default_factory=Nowhere)  # the one that is walked

    # ------------------------------------------------------------ making unknowns

    def type(
        self, name: str = "t", dtypes: Dtypes | None = None, default: DType | None = None
    ) -> TypeVar:
        v = Var(name)
        self.unknown[v] = Unknown(dtypes, default)
        return TypeVar(v)

    def set(self, name: str = "n") -> SetVar:
        v = Var(name)
        self.unknown_sets.add(v)
        return SetVar(v)

    def size(self, name: str = "k") -> Var:
        v = Var(name)
        self.unknown_sizes.add(v)
        return v

    # ------------------------------------------------------------ reading

    def head(self, t: Type) -> Type:
        """The type with its outermost constructor known, if it is."""
        if type(t) is TypeVar:
            if t.var not in self.types:  # most are the precision, which the caller chooses
                return t
            t = self._bound(t)
        if type(t) is Index:
            s = self.head_set(t.set)
            if s is not t.set:
                return element(s)
        return t

    def _bound(self, first: TypeVar) -> Type:
        """What a variable is bound to, or the last of those that are bound to each other. What was
        passed on the way leads there at once from now on."""
        t: Type = first
        steps = 0
        while type(t) is TypeVar and (bound := self.types.get(t.var)) is not None:
            t, steps = bound, steps + 1
        on_the_way: Type = first
        for _ in range(steps - 1):
            assert isinstance(on_the_way, TypeVar)
            self.types[on_the_way.var], on_the_way = t, self.types[on_the_way.var]
        return t

    def head_set(self, s: Set) -> Set:
        while type(s) is SetVar and (bound := self.sets.get(s.var)) is not None:
            s = bound
        return s

    def zonk_size(self, s: Size) -> Size:
        """With every solved unknown written in."""
        for v in variables(s):
            if v in self.sizes or v in self.sets:
                return substitute(s, self._solved)
        return s

    def _solved(self, a: object) -> Size | None:
        if isinstance(a, Var):
            if a in self.sizes:
                return self.zonk_size(self.sizes[a])
            if a in self.sets:
                return self.zonk_size(cardinality(self.sets[a]))
        return None

    def zonk_set(self, s: Set) -> Set:
        s = self.head_set(s)
        if isinstance(s, SetVar):
            return s
        if isinstance(s, Fin):
            n = self.zonk_size(s.size)
            return s if n is s.size else Fin(n)
        if isinstance(s, Range):
            return make_range(self.zonk_size(s.low), self.zonk_size(s.high))
        return set_mapped(s, self.zonk_size, self.zonk_set, self.zonk)

    def zonk(self, t: Type) -> Type:
        if type(t) is Scalar:
            return t
        t = self.head(t)
        if isinstance(t, Scalar) or isinstance(t, TypeVar):  # noqa: SIM101
            return t
        if isinstance(t, Table) and t.index is None:
            own, cell = self.zonk_set(t.set), self.zonk(t.cell)
            return t if own is t.set and cell is t.cell else Table(own, cell)
        return mapped(t, self.zonk_size, self.zonk_set, self.zonk)

    def axes(self, t: Type) -> tuple[list[Set], Type]:
        """Axes, outermost first, and the cell, as far as known; a dependent table is a cell."""
        sets = []
        t = self.head(t)
        while type(t) is Table and t.index is None:
            sets.append(self.head_set(t.set))
            t = self.head(t.cell)
        return sets, t

    def is_open(self, t: Type) -> bool:
        """Whether the type is an unknown that may still turn out to be anything."""
        t = self.head(t)
        return (
            isinstance(t, TypeVar)
            and t.var in self.unknown
            and self.unknown[t.var].dtypes is None
        )

    def is_cell(self, t: Type) -> bool:
        """Whether a type variable is never a table: a number, or an instance of an interface."""
        t = self.head(t)
        if isinstance(t, TypeVar) and t.var in self.unknown and self.unknown[t.var].cell:
            return True
        return self.dtypes_of(t) is not None

    def is_unknown(self, t: Type) -> bool:
        """Whether the type is an unknown, a scalar one perhaps."""
        t = self.head(t)
        return isinstance(t, TypeVar) and t.var in self.unknown

    def set_is_open(self, s: Set) -> bool:
        s = self.head_set(s)
        match s:
            case SetVar(v):
                return v in self.unknown_sets
            case Fin(n):
                return self.size_is_open(n)
            case TupleSet(sets):
                return any(self.set_is_open(x) for x in sets)
            case Range(low, high):
                return self.size_is_open(low) or self.size_is_open(high)
            case Reverse(inner):
                return self.set_is_open(inner)
            case Sum(left, right):
                return self.set_is_open(left) or self.set_is_open(right)
            case Slice(inner, start, step, n):
                return self.set_is_open(inner) or any(map(self.size_is_open, (start, step, n)))
            case BoolSet() | UnitSet() | EnumSet():
                return False

    def unknown_types(self, t: Type) -> Iterator[Var]:
        """The unknown types in a type."""
        return self._unknown_in(self.zonk(t))

    def _unknown_in(self, t: Type) -> Iterator[Var]:
        """Those in a type with every solved unknown written in."""
        match t:
            case TypeVar(v):
                if v in self.unknown:
                    yield v
            case Table(_, cell):
                yield from self._unknown_in(cell)
            case Tuple(items):
                for x in items:
                    yield from self._unknown_in(x)
            case Function(params, result):
                for x in (*params, result):
                    yield from self._unknown_in(x)
            case Reference(cell):
                yield from self._unknown_in(cell)
            case Exists(_, body):
                yield from self._unknown_in(body)
            case Scalar() | Index() | Text():
                pass

    def unknown_extents(self, t: Type) -> Iterator[Var]:
        """The unknown sets and sizes in a type."""
        for own in sets_in(self.zonk(t)):
            for v in set_variables(own):
                if v in self.unknown_sets or v in self.unknown_sizes:
                    yield v

    def determined(self, t: Type) -> bool:
        """Whether all of a type is known, or left to the caller."""
        unknown = {*self.unknown_types(t), *self.unknown_extents(t)}
        return unknown <= self.chosen

    def size_is_open(self, s: Size) -> bool:
        return any(True for _ in self._open_in(s))

    def unsaid(self, s: Size) -> bool:
        """Whether nothing says a size, nor may a caller."""
        return not self.chosen.issuperset(self._open_in(s))

    def _open_in(self, s: Size) -> Iterator[Var]:
        for v in variables(self.zonk_size(s)):
            if v in self.unknown_sizes or v in self.unknown_sets:
                yield v

    def dtypes_of(self, t: Type) -> Dtypes | None:
        """The scalars a type may be, or None if it is no scalar (or not known to be one)."""
        t = self.head(t)
        match t:
            case Scalar(d):
                return frozenset({d})
            case TypeVar(v):
                if v in self.unknown:
                    return self.unknown[v].dtypes
                return self.rigid.get(v)
            case _:
                return None

    # ------------------------------------------------------------ sets as far as known

    def same_set(self, a: Set, b: Set) -> bool | None:
        """Whether two sets are the same; None if that depends on unknowns."""
        x, y = self.zonk_set(a), self.zonk_set(b)
        if x == y:
            return True
        if self.set_is_open(x) or self.set_is_open(y):
            return None
        if isinstance(x, Fin) and isinstance(y, Fin):
            return self.place.facts().proves_equal(x.size, y.size)
        return False

    # ------------------------------------------------------------ reasons

    def reasons_set(self, a: Set, b: Set) -> tuple[Because, ...]:
        """Why each side is what it is: the bindings on the way."""
        return tuple(dict.fromkeys(self._chain(a) + self._chain(b)))

    def _chain(self, s: Set) -> tuple[Because, ...]:
        out: list[Because] = []
        while isinstance(s, SetVar) and s.var in self.sets:
            if s.var in self.why:
                out.append(self.why[s.var])
            s = self.sets[s.var]
        if isinstance(s, Fin):
            out += [self.why[v] for v in variables(s.size) if v in self.why]
        return tuple(out)

    def _why_sizes(self, a: Size, b: Size) -> tuple[Because, ...]:
        out: list[Because] = []
        for s in (a, b):
            for v in variables(s):
                while v in self.sizes or v in self.sets:
                    if v in self.why:
                        out.append(self.why[v])
                    bound = self.sizes.get(v)
                    single = bound.single if bound is not None else None
                    target = self.sets.get(v)
                    if isinstance(target, SetVar):
                        v = target.var
                    elif isinstance(single, Var):
                        v = single
                    else:
                        break
        return tuple(dict.fromkeys(out))


def make_range(low: Size, high: Size) -> Set:
    """low..high; a range from 0 is a `Fin`."""
    return Fin(high) if low.constant == 0 else Range(low, high)
