"""Types, sets and sizes put for variables in types: cells at an index, what boxes hide."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_

from naperian.names import Var
from naperian.node import node
from naperian.sizes import Size, rename, size
from naperian.types import (
    SETS,
    BoolSet,
    Data,
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
    mentioned,
    sum_of,
)

_BOUND = tuple(Var(name) for name in "ijklpqrs")  # what dependent tables bind, inner ones first


def dependent(s: Set, index: Var, cell: Type) -> Table:
    """The table over `s` whose cell at `index` has the type `cell`."""
    if index not in mentioned(cell):
        return Table(s, cell)
    bound = _BOUND[_depth(cell)]
    return Table(s, Substitution({}, {}, {index: size(bound)}).type(cell), bound)


def cell_at(t: Table, index: Size) -> Type:
    """The type of the cell at an index."""
    return t.cell if t.index is None else Substitution({}, {}, {t.index: index}).type(t.cell)


def is_bound(v: Var) -> bool:
    """Whether a variable is one that dependent tables bind."""
    return v in _BOUND


def _depth(t: Type) -> int:
    """How many indices are bound inside a type, one in another."""
    match t:
        case Table(_, cell, index):
            return _depth(cell) + (index is not None)
        case Tuple(items):
            return max(map(_depth, items), default=0)
        case Function(params, result):
            return max(map(_depth, (*params, result)))
        case Reference(cell) | Exists(_, cell):
            return _depth(cell)
        case Scalar() | TypeVar() | Index() | Text():
            return 0


@node
class Substitution:
    """Types, sets and sizes for variables."""

    types: Mapping[Var, Type]
    sets: Mapping[Var, Set]
    sizes: Mapping[Var, Size]

    def and_(self, more: Substitution) -> Substitution:
        """Both; what `more` says comes first."""
        return Substitution(
            {**self.types, **more.types},
            {**self.sets, **more.sets},
            {**self.sizes, **more.sizes},
        )

    def size(self, s: Size) -> Size:
        if not self.sets:
            return rename(s, self.sizes)
        both = {v: cardinality(x) for v, x in self.sets.items()} | dict(self.sizes)
        return rename(s, both)

    def set(self, s: Set) -> Set:
        if isinstance(s, SetVar):
            return self.sets.get(s.var, s)
        return set_mapped(s, self.size, self.set, self.type)

    def type(self, t: Type) -> Type:
        match t:
            case TypeVar(var):
                return self.types.get(var, t)
            case Table(s, cell, index) if index is not None:
                sizes = {v: n for v, n in self.sizes.items() if v != index}
                return dependent(
                    self.set(s), index, Substitution(self.types, self.sets, sizes).type(cell)
                )
            case _:
                return mapped(t, self.size, self.set, self.type)


def set_mapped(
    s: Set,
    size: Callable[[Size], Size],
    set: Callable[[Set], Set],
    type: Callable[[Type], Type],
) -> Set:
    """The set with something done to every set, size and type that it is made of."""
    match s:
        case Fin(n):
            new = size(n)
            return s if new is n else Fin(new)
        case TupleSet(sets, made):
            kind = type(made) if made is not None else None
            assert kind is None or isinstance(kind, Data)
            return TupleSet(tuple(map(set, sets)), kind)
        case Range(low, high):
            return Range(size(low), size(high))
        case Reverse(inner):
            return Reverse(set(inner))
        case Sum(left, right):
            return sum_of(set(left), set(right))
        case Slice(inner, start, step, n):
            return Slice(set(inner), size(start), size(step), size(n))
        case SetVar() | BoolSet() | UnitSet() | EnumSet():
            return s


def mapped(
    t: Type,
    size: Callable[[Size], Size],
    set: Callable[[Set], Set],
    type: Callable[[Type], Type],
) -> Type:
    """The type with something done to every type, set and size that it is made of. What an index
    of a dependent table or a box binds is the caller's concern."""
    match t:
        case Scalar() | TypeVar() | Text():
            return t
        case Table():
            own, inner = set(t.set), type(t.cell)
            if t.index is not None:
                return dependent(own, t.index, inner)
            return t if own is t.set and inner is t.cell else Table(own, inner)
        case Index(s):
            own = set(s)
            return t if own is s and isinstance(s, Fin) else element(own)
        case Data():
            args = [
                size(a) if isinstance(a, Size) else set(a) if isinstance(a, SETS) else type(a)
                for a in t.args
            ]
            new = tuple(map(type, t.items))
            same = all(map(is_, new, t.items)) and all(map(is_, args, t.args))
            return t if same else Data(new, t.layout, tuple(args))
        case Tuple(items):
            new = tuple(map(type, items))
            return t if all(map(is_, new, items)) else Tuple(new)
        case Function(params, result):
            return Function(tuple(map(type, params)), type(result), t.effects)
        case Reference(cell):
            inner = type(cell)
            return t if inner is cell else Reference(inner)
        case Exists(vars, body):
            return Exists(vars, type(body))


def sets_in(t: Type) -> Iterator[Set]:
    """Every index set in a type; those inside dependent tables may mention what these bind."""
    match t:
        case Scalar() | TypeVar() | Text():
            pass
        case Table():
            yield t.set
            yield from sets_in(t.cell)
        case Reference(cell):
            yield from sets_in(cell)
        case Index(own):
            yield own
        case Tuple(items):
            for x in items:
                yield from sets_in(x)
        case Function(params, result):
            for x in (*params, result):
                yield from sets_in(x)
        case Exists(_, body):
            yield from sets_in(body)


def opened(t: Exists, sizes: Sequence[Size]) -> Type:
    """The type of a box's value, whose sizes these are."""
    named = dict(zip(t.vars, sizes, strict=True))
    return Substitution({}, {}, named).type(t.body)


def boxed(t: Type) -> Iterator[Var]:
    """The sizes that boxes in a type hide."""
    match t:
        case Exists(vars, body):
            yield from vars
            yield from boxed(body)
        case Table(_, cell):
            yield from boxed(cell)
        case Tuple(items):
            for x in items:
                yield from boxed(x)
        case Function(params, result):
            for x in (*params, result):
                yield from boxed(x)
        case Reference(cell):
            yield from boxed(cell)
        case Scalar() | TypeVar() | Index() | Text():
            pass


def apart(t: Type, seen: set[Var]) -> Type:
    """The type with other names for sizes of boxes that were `seen` before, as those of a struct
    are that is written twice."""
    match t:
        case Exists(vars):
            names = {v: Var(v.name) if v in seen else v for v in vars}
            seen.update(names.values())
            own = opened(t, [size(names[v]) for v in vars])
            return Exists(tuple(names.values()), apart(own, seen))
        case Table(s, cell, index):
            return Table(s, apart(cell, seen), index)
        case Data(items, layout, args):
            return Data(tuple(apart(x, seen) for x in items), layout, args)
        case Tuple(items):
            return Tuple(tuple(apart(x, seen) for x in items))
        case Scalar() | TypeVar() | Index() | Function() | Reference() | Text():
            return t
