"""Index sets of data that is numbered by its own `ordinal` and `at`.

    x[t]                 the place with the number ordinal(t), checked to be less than the size
    for t in T: …        for every place k: t = at(k)

`T=>a` is a table over places: a set of one-tuples (k,) with T's name, so that a place is no other
set's index. A place becomes a `T` where it is bound by name, and where a `T` is expected.
"""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.frontend.typed import Build, Typed
from naperian.frontend.walk import Coded, Walk
from naperian.types import Data, Fin, Set, Substitution, TupleSet, Type, cardinality, elements

_NOTHING = Substitution({}, {}, {})


def coded(w: Walk, t: Type) -> Coded | None:
    """How the values of a type, or the places of its tables, are numbered."""
    if not isinstance(t, Data):
        return None
    info = w.globals.known_data.get(t.layout.var) or w.library.known_data.get(t.layout.var)
    return info.coded if info is not None else None


def places(c: Coded) -> Set:
    """The set that tables are over."""
    own = elements(c.place)
    assert own is not None
    return own


def encode(w: Walk, value: Typed, axis: Set) -> Build | None:
    """A value as an index of the tables over its type; None if it is no such value, or the table
    is over something else."""
    kind = w.solver.head(value.type)
    c = coded(w, kind)
    target = w.solver.head_set(axis)
    if c is None or kind != c.whole:
        return None
    if w.solver.set_is_open(target):
        w.solver.unify_set(target, places(c))
    elif not isinstance(target, TupleSet) or target.made != c.place:
        return None
    numbers = Fin(cardinality(places(c)))

    def build() -> core.Expr:
        number = core.Call(core.Use(c.ordinal, _NOTHING), (value.build(),))
        return core.Pack((core.Checked(number, numbers, origin=value.span),))

    return build


def place_of(w: Walk, kind: Type) -> Coded | None:
    """How the values are numbered whose place has this type; None if it is no place's."""
    c = coded(w, kind)
    return c if c is not None and kind == c.place else None


def at_place(c: Coded, place: core.Expr) -> core.Expr:
    """The value at a place."""
    return core.Call(core.Use(c.at, _NOTHING), (core.Part(place, 0),))


def decoded(w: Walk, value: Typed) -> Typed:
    """A place as the value it is of; what is no place stays."""
    c = place_of(w, w.solver.head(value.type))
    if c is None:
        return value
    return Typed(c.whole, lambda: at_place(c, value.build()), value.span, None, value.lets)
