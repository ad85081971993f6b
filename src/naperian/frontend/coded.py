"""Index sets of data that is numbered by its own `ordinal` and `at`.

    x[t]                 the place with the number ordinal(t), checked to be less than the size
    for t in T: …        for every place k: t = at(k)

`T=>a` is a table over places: a set of one-tuples (k,) with T's name, so that a place is no other
set's index. A place becomes a `T` where it is bound by name, and where a `T` is expected.
"""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.frontend.derived_sets import Numbering
from naperian.frontend.solve import Mismatch
from naperian.frontend.typed import Build, Typed
from naperian.frontend.unknowns import Because
from naperian.frontend.walk import Coded, Walk
from naperian.names import Var
from naperian.node import replace
from naperian.sizes import Size
from naperian.substitution import Substitution
from naperian.types import (
    SETS,
    Data,
    Index,
    Set,
    SetVar,
    Table,
    Tuple,
    TupleSet,
    Type,
    elements,
)


def coded(w: Walk, t: Type) -> Coded | None:
    """How the values of a type, or the places of its tables, are numbered."""
    if not isinstance(t, Data):
        return None
    info = w.globals.known_data.get(t.layout.var) or w.library.known_data.get(t.layout.var)
    if info is None or info.coded is None:
        return None
    sets: dict[Var, Set] = {}
    sizes: dict[Var, Size] = {}
    for p, a in zip(info.params, t.args, strict=True):
        if isinstance(p, SetVar) and isinstance(a, SETS):
            sets[p.var] = a
        elif isinstance(p, Var) and isinstance(a, Size):
            sizes[p] = a
    given = Substitution({}, sets, sizes)
    whole, place = given.type(info.coded.whole), given.type(info.coded.place)
    assert isinstance(whole, Data)
    assert isinstance(place, Data)
    return replace(info.coded, whole=whole, place=place, given=given)


def numbering(w: Walk) -> Numbering:
    """The numbers of the elements of index sets."""
    return Numbering(lambda t: value_of(w, t))


def value_of(w: Walk, t: Type) -> Coded | None:
    """How a type's own values are numbered, if they are by its definitions."""
    c = coded(w, t)
    return c if c is not None and isinstance(t, Data) and t.layout == c.whole.layout else None


def place_of(w: Walk, t: Type) -> Coded | None:
    """How the values are numbered whose place has this type; None if it is no place's."""
    c = coded(w, t)
    return c if c is not None and isinstance(t, Data) and t.layout == c.place.layout else None


def places(c: Coded) -> Set:
    """The set that tables are over."""
    own = elements(c.place)
    assert own is not None
    return own


def placed(w: Walk, t: Type) -> Type:
    """The type of an index of the tables over the set of a type's values."""
    c = value_of(w, t)
    if c is not None:
        return c.place
    if isinstance(t, Tuple) and not isinstance(t, Data):
        return Tuple(tuple(placed(w, w.solver.head(x)) for x in t.items))
    return t


def valued(w: Walk, t: Type) -> Type:
    """The type with the values of all places in it."""
    match t:
        case Data() if (c := place_of(w, t)) is not None:
            return c.whole
        case Table(s, cell, index):
            return Table(s, valued(w, cell), index)
        case Tuple(items) if not isinstance(t, Data):
            return Tuple(tuple(valued(w, x) for x in items))
        case _:
            return t


def encode(w: Walk, value: Typed, axis: Set, because: Because) -> Build | None:
    """A value as an index of the tables over its type; None if it is no such value, or the table
    is over something else."""
    kind = w.solver.head(value.type)
    place = placed(w, kind)
    own = elements(w.solver.zonk(place))
    if place == kind or own is None:
        return None
    target = w.solver.head_set(axis)
    free = isinstance(target, SetVar) and w.solver.set_is_open(target)
    if not free and not _alike(w, target, own):
        return None
    try:
        w.solver.unify_set(target, own, because)
    except Mismatch:
        return None
    return lambda: _index(w, w.solver.zonk(kind), value.build(), value)


def _alike(w: Walk, a: Set, b: Set) -> bool:
    """Whether two sets are of places of the same data, or of tuples with such."""
    a, b = w.solver.head_set(a), w.solver.head_set(b)
    if not (isinstance(a, TupleSet) and isinstance(b, TupleSet)):
        return not isinstance(a, TupleSet) and not isinstance(b, TupleSet)
    if a.made is not None or b.made is not None:
        return a.made is not None and b.made is not None and a.made.layout == b.made.layout
    return len(a.sets) == len(b.sets) and all(
        _alike(w, x, y) for x, y in zip(a.sets, b.sets, strict=True)
    )


def _index(w: Walk, kind: Type, e: core.Expr, value: Typed) -> core.Expr:
    """A value as an index."""
    c = value_of(w, kind)
    if c is not None:
        return core.Pack((c.number(e, value.span),))
    if placed(w, kind) == kind:
        return e
    assert isinstance(kind, Tuple)
    v = Var("t")
    parts = [
        _index(w, x, core.Part(core.Ref(v), n), value) for n, x in enumerate(kind.items)
    ]
    return core.Let(v, e, core.Pack(tuple(parts)))


def recoded(w: Walk, found: Type, wanted: Type) -> Type | None:
    """What numbered data becomes by itself where its place is wanted, or a place where its value
    is; None if it stays what it is."""
    found, wanted = w.solver.head(found), w.solver.head(wanted)
    c = coded(w, found)
    if c is None:
        return None
    target = wanted.layout if isinstance(wanted, Data) else None
    if place_of(w, found) is not None:
        return c.whole if target == c.whole.layout else None
    own = w.solver.head_set(wanted.set) if isinstance(wanted, Index) else None
    free = isinstance(own, SetVar) and own.var in w.solver.unknown_sets
    return c.place if free or target == c.place.layout else None


def at_place(c: Coded, place: core.Expr) -> core.Expr:
    """The value at a place."""
    return c.value(core.Part(place, 0))


def decoded(w: Walk, value: Typed) -> Typed:
    """A place as the value it is of; what is no place stays."""
    kind = w.solver.head(value.type)
    c = place_of(w, kind)
    if c is None:
        return value

    def build() -> core.Expr:
        own = place_of(w, w.solver.zonk(kind))
        assert own is not None
        return at_place(own, value.build())

    return Typed(c.whole, build, value.span, None, value.lets)
