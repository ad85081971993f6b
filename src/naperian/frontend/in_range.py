"""An index at an axis: of the axis's set by type, proved to lie in it, or tested when it runs.

A bare index of the axis's own set needs nothing. Index arithmetic is a polynomial that must be
proved to lie in 0 … size-1 from what is known at the place. Everything else is an error that
offers `k?`, `clamp`, `wrap` and `get`.
"""

from __future__ import annotations

from collections.abc import Callable

from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.frontend.cells import convert, is_so, show
from naperian.frontend.choices import in_every_way
from naperian.frontend.coded import encode
from naperian.frontend.messages import errors, index_errors
from naperian.frontend.scope import Scope, Variable
from naperian.frontend.solve import Mismatch
from naperian.frontend.typed import Build, Typed, wrap
from naperian.frontend.unknowns import Because
from naperian.frontend.unproved import example, falls_out, index_bounds, wrong_set
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.sizes import ONE, ZERO, Size, size, variables
from naperian.source import Span
from naperian.type_show import show_set
from naperian.types import (
    INT,
    BoolSet,
    Data,
    EnumSet,
    Fin,
    Index,
    Range,
    Scalar,
    Set,
    SetVar,
    Slice,
    Sum,
    Tuple,
    TupleSet,
    TypeVar,
    UnitSet,
    cardinality,
    element,
    numbers,
    whole,
)

Step = Callable[[core.Expr, Callable[[core.Expr], core.Expr]], core.Expr]
"""One axis taken: from the table and what is done with the cell, the core expression."""


Refusal = Callable[[str], errors.Reported]
"""The message where an index is wanted that is no table's, from an example that falls outside."""


def use(
    w: Walk, t: Typed, axis: Set, table: str, checked: bool = False,
    refusal: Refusal | None = None,
) -> Build:
    """A typed expression as an index of `axis`: equal sets, an embedding, or a proof."""
    chosen: list[Build] = []
    scope = w.scope.so_far()

    def attempt(force: bool) -> bool:
        with w.inside(scope):
            try:
                build = _decide(w, scope, t, axis, table, checked, force, refusal)
            except errors.Reported:
                if refusal is None:
                    raise
                raise refusal("") from None
        if build is None:
            return False
        chosen.append(build)
        return True

    w.solver.later(attempt)
    return lambda: chosen[0]()


def _decide(
    w: Walk, scope: Scope, t: Typed, axis: Set, table: str, checked: bool, force: bool,
    refusal: Refusal | None,
) -> Build | None:
    solver = w.solver
    kind = solver.head(t.type)
    target = _added(w, solver.head_set(axis))
    because = is_so(w, t)
    if refusal is None:
        because = Because(t.span, f"`{t.span.text}` indexes `{table}` here")
    if solver.is_unknown(kind) and t.poly is None:
        if not force and solver.set_is_open(target):
            return None
        try:
            solver.unify(kind, element(target), because)
        except Mismatch:
            raise _no_index(w, t, axis, table) from None
        return t.build
    place = encode(w, t, target, because)
    if place is not None:
        return place
    match kind:
        case Index(own):
            own = _added(w, solver.head_set(own))
            if isinstance(own, SetVar) and own.var in solver.unknown_sets:
                if (solver.set_is_open(target) or _posts(w, target)) and not force:
                    return None
                _unify_index(w, t, own, axis, table, because)
                return t.build
            if isinstance(own, Range | Fin) and solver.set_is_open(own):
                _close_range(w, own, target, because)
            if solver.set_is_open(target):
                if isinstance(target, SetVar):
                    if (refusal is not None or isinstance(own, Range)) and not force:
                        return None
                    solver.unify_set(target, own, because)
                    return t.build
                if not force:
                    return None
            same = solver.same_set(own, target)
            if same or (same is None and _try_unify(w, own, target, because)):
                return t.build
            if isinstance(own, Slice) and _try_same(w, own, target):
                return t.build
            if isinstance(whole(own), EnumSet | BoolSet | TupleSet) or isinstance(
                whole(target), EnumSet | BoolSet | Sum | TupleSet | UnitSet
            ) or (isinstance(target, Slice) and numbers(target)[1] != ONE):
                raise wrong_set(w, t, own, axis, table)
            if isinstance(own, SetVar) and t.poly is not None and t.poly.single is not None:
                there = solver.zonk_set(target)
                if isinstance(there, SetVar) or not scope.facts().proves(
                    base_of(there) + cardinality(there) - 1 - t.poly
                ):
                    raise wrong_set(w, t, own, axis, table)
            return _prove_index(w, scope, t, own, axis, table, checked, refusal)
        case Scalar(DType.BOOL) if isinstance(target, BoolSet):
            return t.build
        case Scalar(DType.BOOL):
            raise _no_index(w, t, axis)
        case Tuple(items) if not isinstance(kind, Data) or kind.layout.indexed:
            unknown = isinstance(target, SetVar) and target.var in solver.unknown_sets
            if unknown or (isinstance(target, TupleSet) and len(target.sets) == len(items)):
                try:
                    solver.unify(Index(target) if unknown else element(target), kind, because)
                except Mismatch:
                    raise _no_index(w, t, axis) from None
                return t.build
            if isinstance(target, UnitSet) and not items:
                return t.build
            raise _no_index(w, t, axis)
        case _ if t.poly is not None:
            if refusal is not None and solver.set_is_open(target):
                if not force:
                    return None
                raise refusal("")
            number(w, t)
            if isinstance(target, EnumSet | TupleSet | BoolSet | UnitSet):
                raise _no_index(w, t, axis)
            return _prove_poly(w, scope, t, axis, table, checked, refusal)
        case _:
            if checked:
                return checked_index(w, t, axis, t.span)
            if isinstance(kind, Scalar) and isinstance(target, Fin | SetVar):
                small = kind.dtype.is_unsigned and kind.dtype.bits < 64
                if small and scope.facts().proves(cardinality(target) - (1 << kind.dtype.bits)):
                    named = as_poly(w, t)
                    assert named.poly is not None
                    number_of = named.poly
                    return wrap(named.lets, lambda: numbered_at(w, number_of, axis))
            raise _no_index(w, t, axis, table)


def _added(w: Walk, own: Set) -> Set:
    """A sum of `Fin`s as the `Fin` it is."""
    return w.solver.zonk_set(own) if isinstance(own, Sum) else own


def _try_same(w: Walk, own: Set, target: Set) -> bool:
    """Whether a slice is of this set, or a slice of one that is."""
    while isinstance(own, Slice):
        own = w.solver.head_set(own.set)
        if w.solver.same_set(own, target):
            return True
    return False


def _posts(w: Walk, target: Set) -> bool:
    """Whether a set is one of fence posts, `Fin(n + 1)`: an index that is also used on `Fin(n)`
    ranges over that."""
    if not isinstance(target, Fin):
        return False
    n = w.solver.zonk_size(target.size)
    return len(n.terms) > 1 and index_bounds(w, w.scope).keys().isdisjoint(variables(n))


def _no_index(w: Walk, t: Typed, axis: Set, table: str = "") -> errors.Reported:
    kind = w.solver.head(t.type)
    shown = show_set(w.solver.zonk_set(axis))
    if table and w.solver.set_is_open(axis) and show(w, kind) in index_errors.INTEGERS:
        held = w.scope.find(table)
        by = held.span if isinstance(held, Variable) and held.what in ("accum", "state") else None
        return index_errors.unknown_axis(t.span.text, show(w, kind), table, by, t.span)
    generic = isinstance(kind, TypeVar) and not (
        w.solver.is_unknown(kind) or w.solver.dtypes_of(kind)
    )
    entry = w.scope.find(t.span.text)
    element = entry.span if isinstance(entry, Variable) and entry.what == "element" else None
    return index_errors.not_an_index(t.span.text, show(w, kind), shown, t.span, generic, element)


def _try_unify(w: Walk, a: Set, b: Set, because: Because) -> bool:
    try:
        w.solver.unify_set(a, b, because)
    except Mismatch:
        return False
    return True


def _unify_index(
    w: Walk, t: Typed, own: SetVar, axis: Set, table: str, because: Because
) -> None:
    place = Because(t.span, f"`{t.span.text}` got its range here: it indexes `{table}`")
    w.solver.unify_set(own, axis, place)


def _close_range(w: Walk, binder: Range | Fin, target: Set, because: Because) -> None:
    """`for i in 1..:` ends where the axis it indexes ends."""
    high = binder.high if isinstance(binder, Range) else binder.size
    v = w.solver.zonk_size(high).single
    if isinstance(v, Var) and v in w.solver.unknown_sizes and not w.solver.set_is_open(target):
        own = w.solver.zonk_set(target)
        first, step = numbers(own)
        end = first + step * (cardinality(own) - 1) + 1
        w.solver.sizes[v] = own.high if isinstance(own, Range) else end
        w.solver.why[v] = because


def _prove_index(
    w: Walk, scope: Scope, t: Typed, own: Set, axis: Set, table: str, checked: bool,
    refusal: Refusal | None,
) -> Build:
    """An index of one set used on another axis: a `Fin` that provably contains it."""
    if t.poly is not None:
        return _prove_poly(w, scope, t, axis, table, checked, refusal)
    v = Var("k")
    inner = scope.inner()
    inner.assume_index(v, own)
    named = Typed(t.type, lambda: core.Ref(v), t.span, size(v), ((v, t.build),))
    return _prove_poly(w, inner, named, axis, table, checked, refusal)


def _prove_poly(
    w: Walk, scope: Scope, t: Typed, axis: Set, table: str, checked: bool,
    refusal: Refusal | None,
) -> Build:
    assert t.poly is not None
    poly = t.poly
    fallback: list[Build] = []

    def goal() -> None:
        with w.inside(scope):
            if _is_inside(w, scope, poly, axis):
                return
            if checked:
                fallback.append(_tested(w, t, axis, t.span))
                return
            found, facts = w.solver.zonk_size(poly), scope.facts()
            if refusal is not None:
                base = base_of(w.solver.zonk_set(axis))
                raise refusal(example(w, scope, found, low_ok=facts.proves(found - base)))
            raise falls_out(w, scope, facts, t, found, axis, table)

    w.solver.goals.append(goal)

    def build() -> core.Expr:
        if fallback:
            return fallback[0]()
        if refusal is not None:
            return numbered(w.solver.zonk_size(poly), w.solver.zonk_set(axis))
        return numbered_at(w, w.solver.zonk_size(poly), axis)

    return wrap(t.lets, build)


def _is_inside(w: Walk, scope: Scope, poly: Size, axis: Set) -> bool:
    """Whether what is known here proves that a number is one of the axis's."""
    own = w.solver.zonk_set(axis)
    number, facts = w.solver.zonk_size(poly), scope.facts()
    place = number - base_of(own)
    inside = (place, cardinality(own) - 1 - place)
    proved = all(map(facts.proves, inside)) or in_every_way(w, facts, number, inside)
    return proved or facts.absurd


def base_of(axis: Set) -> Size:
    return numbers(axis)[0]


def numbered(element: Size, own: Set) -> core.Expr:
    """A number that is known to be one of a set's elements, as an index of the set."""
    return core.Checked(core.Number(element - base_of(own)), own, proved=True)


def numbered_at(w: Walk, place: Size, axis: Set) -> core.Expr:
    """A number that is known to be in range, as an index of the axis. A set that the caller chooses
    may be one of pairs or Booleans."""
    own = w.solver.zonk_set(axis)
    number = core.Number(place)
    return core.Checked(number, own, proved=True) if isinstance(own, SetVar) else number


def number(w: Walk, t: Typed) -> Build:
    """The expression as an Int, whatever integer or index it is."""
    solver = w.solver
    kind = solver.head(t.type)
    whole = solver.dtypes_of(kind)
    if solver.is_unknown(kind) and (whole is None or INT.dtype in whole):
        solver.unify(kind, INT)
    elif not isinstance(kind, Index) and not (
        isinstance(kind, Scalar) and kind.dtype.is_integer
    ):
        raise index_errors.not_an_index(t.span.text, show(w, kind), "an index set", t.span)
    return lambda: convert(w, t.build(), t.type, INT)


def as_poly(w: Walk, t: Typed, v: Var | None = None) -> Typed:
    """The same integer with a polynomial: its own, or that of a name, which is `v` if given."""
    if t.poly is not None:
        if w.solver.is_unknown(t.type):
            number(w, t)
        return t
    build = number(w, t)
    v = v or Var("k", said=t.span.text)
    return Typed(INT, lambda: core.Ref(v), t.span, size(v), ((v, build),))


def checked_index(w: Walk, t: Typed, axis: Set, span: Span) -> Build:
    """`k?`: an index like any other where it is proved to be one, else tested when it runs."""
    tested = _tested(w, t, axis, span)
    if t.poly is None:
        return tested
    poly, scope = t.poly, w.scope.so_far()
    proved: list[Size] = []

    def goal() -> None:
        with w.inside(scope):
            if not w.solver.set_is_open(axis) and _is_inside(w, scope, poly, axis):
                proved.append(w.solver.zonk_size(poly))

    w.solver.goals.append(goal)
    return wrap(
        t.lets, lambda: numbered(proved[0], w.solver.zonk_set(axis)) if proved else tested()
    )


def _tested(w: Walk, t: Typed, axis: Set, span: Span) -> Build:
    build = number(w, t)

    def test() -> core.Expr:
        own = w.solver.zonk_set(axis)
        place = build()
        if base_of(own) != ZERO:
            place = core.Op("sub", (place, core.Number(base_of(own))), INT)
        return core.Checked(place, own, origin=span)

    return test
