"""Slices `x[a..b]` and ranges `a..b` as sets: their ends are sizes."""

from __future__ import annotations

from collections.abc import Callable

from naperian.core import syntax as core
from naperian.frontend.annotations import (
    between,
    end_of,
    ranged,
)
from naperian.frontend.cells import convert, show
from naperian.frontend.in_range import (
    Step,
    as_poly,
    base_of,
    number,
    numbered_at,
)
from naperian.frontend.messages import index_errors, set_errors
from naperian.frontend.naming import stands_for
from naperian.frontend.ordered import Places, places
from naperian.frontend.solve import Mismatch
from naperian.frontend.typed import Build, Typed, let_all, within
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.node import node
from naperian.sizes import ONE, ZERO, Size, show_fact, size, variables
from naperian.sizes import clamp as clamped
from naperian.sizes import show as show_size
from naperian.source import Span
from naperian.surface import syntax as s
from naperian.type_show import show_set
from naperian.types import (
    INT,
    Fin,
    Index,
    Set,
    Type,
    cardinality,
)


def slice_at(w: Walk, e: s.IndexExpr, r: s.RangeExpr, axis: Set) -> tuple[Set, Step]:
    """`x[a..b]`: the elements a … b-1, counted from 0; a view."""
    solver = w.solver
    if r.low is None and r.high is None:
        v = Var("i")

        def whole(table: core.Expr, rest: Callable[[core.Expr], core.Expr]) -> core.Expr:
            own = solver.zonk_set(axis)
            return core.For(v, own, rest(core.At(table, core.Ref(v), own)))

        return axis, whole
    extent = cardinality(axis)
    posts: list[Var] = []

    def end(e: s.Expr) -> Size:
        typed = w.infer(e)
        if typed.poly is None and isinstance(solver.head(typed.type), Index):
            posts.append(_post(w, typed))
            return size(posts[-1])
        number = as_poly(w, typed, stands_for(w, "k", typed.span))
        assert number.poly is not None
        w.region.names.update(v for v, _ in number.lets)
        w.region.wraps.append(lambda expr: let_all(number.lets, expr))
        return number.poly

    start = (end(r.low) if r.low is not None else ZERO) + int(r.after)
    stop = (end(r.high) if r.high is not None else extent) + int(r.inclusive)
    length = not_negative(w, stop - start) if posts else stop - start
    for x in (start, stop):
        if (x.constant or 0) < 0:
            shown, why = show_set(solver.zonk_set(axis)), f"{x!r} is negative"
            raise index_errors.slice_range(r.span.text, shown, why, show_fact(x), r.span)
    scope = w.scope.so_far()

    def goal() -> None:
        with w.inside(scope):
            facts = scope.facts()
            a, b, n = (solver.zonk_size(x) for x in (start, stop, extent))
            text, shown = r.span.text, show_set(solver.zonk_set(axis))
            doubts = [
                (a, f"{a!r} {{}} negative"),
                (n - b, f"{b!r} {{}} more than {n!r}"),
                (b - a, f"{a!r} {{}} more than {b!r}"),
            ]
            for needed, what in doubts[:2] if posts else doubts:
                if not facts.proves(needed):
                    why = what.format("may be" if needed.constant is None else "is")
                    needs, inside = show_fact(needed), ""
                    if not w.ranged.isdisjoint(variables(needed)) and needed is not doubts[2][0]:
                        outside = tuple(not facts.proves(x) for x, _ in doubts[:2])
                        inside = _kept_inside(r, show_size(n), *outside)
                    raise index_errors.slice_range(text, shown, why, needs, r.span, inside)

    solver.goals.append(goal)
    v = Var("i")

    def step(table: core.Expr, rest: Callable[[core.Expr], core.Expr]) -> core.Expr:
        own = solver.zonk_set(axis)
        a = solver.zonk_size(start)
        at = core.At(table, numbered_at(w, size(v) + a + base_of(own), own), own)
        new = Fin(solver.zonk_size(length))
        return core.For(v, new, rest(at))

    return Fin(length), step


def _kept_inside(r: s.RangeExpr, extent: str, first: bool, last: bool) -> str:
    """The range with ends that are never outside, where the first or the last may be."""
    if r.after or r.inclusive or "\n" in r.span.text:
        return ""
    low = r.low.span.text if r.low is not None else ""
    high = r.high.span.text if r.high is not None else ""
    return f"{f'max({low}, 0)' if first else low}..{f'min({high}, {extent})' if last else high}"


def _post(w: Walk, t: Typed) -> Var:
    """An index that is computed here, as a name of the region around."""
    v = stands_for(w, "post", t.span)
    _assume_later(w, v, t)
    w.region.names.add(v)
    w.region.wraps.append(
        lambda expr: let_all(
            t.lets, core.Let(v, convert(w, within(t.lets, t.build), t.type, INT), expr)
        )
    )
    return v


def not_negative(w: Walk, n: Size) -> Size:
    """How many elements a range has: none if it is reversed."""
    return n if w.scope.facts().proves(n) else clamped(n, n + 1)


def _assume_later(w: Walk, v: Var, t: Typed) -> None:
    """`v` is the number that `t` is: an index, as soon as its set is known, or else an Int."""
    solver, scope = w.solver, w.scope.so_far()
    w.scope.assume_type(v, t.type)

    def attempt(force: bool) -> bool:
        kind = solver.head(t.type)
        if isinstance(kind, Index):
            return True
        if solver.is_unknown(kind) and not force:
            return False
        with w.inside(scope):
            number(w, t)
        return True

    solver.later(attempt)


@node
class Ranged:
    """A range: the set of its elements, or of their places if they are no numbers, and the values
    that had to be named for its ends."""

    set: Set
    lets: tuple[tuple[Var, Build], ...]
    places: Places | None


def range_set(w: Walk, r: s.RangeExpr) -> Ranged:
    """`a..b` as an index set."""
    solver = w.solver
    lets: tuple[tuple[Var, Build], ...] = ()
    over: Set | None = None
    placed: Places | None = None

    def end(e: s.Expr) -> Size:
        nonlocal lets, over, placed
        typed = w.infer(e, placed.element if placed is not None else None)
        over = ranged(w, typed) or over
        kind = solver.head(typed.type)
        if placed is not None:
            _same_set(w, placed.element, typed)
        else:
            placed = places(w, kind)
        if placed is not None:
            v = stands_for(w, "post", typed.span)
            lets += (*typed.lets, (v, placed.place(w, typed)))
            return size(v)
        if typed.poly is None and (isinstance(kind, Index) or solver.is_unknown(kind)):
            v = stands_for(w, "post", typed.span)
            _assume_later(w, v, typed)
            lets += ((v, lambda: convert(w, typed.build(), typed.type, INT)),)
            return size(v)
        number = as_poly(w, typed, stands_for(w, "k", typed.span))
        lets += number.lets
        assert number.poly is not None
        return number.poly

    low = (end(r.low) if r.low is not None else ZERO) + int(r.after)
    if r.high is not None:
        high = end(r.high) + (ONE if r.inclusive else ZERO)
    elif placed is not None:
        high = placed.count
    else:
        known = end_of(w, w.infer(r.low)) if r.low is not None else None
        high = size(_some_end(w, r.span)) if known is None else known
    return Ranged(between(over, low, high), lets, placed)


def _some_end(w: Walk, span: Span) -> Var:
    """An end that the use of the range tells."""
    v = w.solver.size("end")

    def goal() -> None:
        if w.solver.zonk_size(size(v)) == size(v):
            raise index_errors.unknown_end(span.text, span)

    w.solver.goals.append(goal)
    return v


def _same_set(w: Walk, wanted: Type, end: Typed) -> None:
    """Both ends of a range are elements of one set."""
    try:
        w.solver.unify(wanted, end.type)
    except Mismatch:
        raise set_errors.unlike_ends(show(w, wanted), show(w, end.type), end.span) from None
