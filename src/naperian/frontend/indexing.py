"""Index expressions: in range by type, or proved, or checked where the user says so.

A bare index of the axis's own set needs nothing. Index arithmetic is a polynomial that must be
proved to lie in 0 … size-1 from what is known at the place. Everything else is an error that
offers `k?`, `clamp`, `wrap` and `get`.
"""

from __future__ import annotations

from collections.abc import Callable

from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.frontend import errors, index_errors, set_errors
from naperian.frontend.annotations import (
    between,
    end_of,
    ranged,
)
from naperian.frontend.cells import convert, converts, show
from naperian.frontend.coded import encode
from naperian.frontend.ordered import Places, places
from naperian.frontend.scope import Scope
from naperian.frontend.solve import Mismatch
from naperian.frontend.typed import Build, Typed, let_all, wrap
from naperian.frontend.unions import inject, side
from naperian.frontend.unknowns import Because
from naperian.frontend.unproved import falls_out, index_bounds, wrong_set
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.node import node
from naperian.sizes import ONE, ZERO, Size, size, variables
from naperian.sizes import clamp as clamped
from naperian.source import Span
from naperian.substitution import cell_at
from naperian.surface import syntax as s
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
    Table,
    Tuple,
    TupleSet,
    Type,
    TypeVar,
    UnitSet,
    cardinality,
    element,
    numbers,
    whole,
)

Step = Callable[[core.Expr, Callable[[core.Expr], core.Expr]], core.Expr]
"""One axis taken: from the table and what is done with the cell, the core expression."""


def index(w: Walk, e: s.IndexExpr, checked: bool = False) -> Typed:
    """`x[i, j]`; with `checked`, every index that is not proved is checked at run time."""
    return index_of(w, w.infer(e.base), e, checked)


def index_of(w: Walk, base: Typed, e: s.IndexExpr, checked: bool = False) -> Typed:
    """An element of `base`, which stands left of the brackets."""
    solver = w.solver
    steps: list[Step] = []
    sliced: list[Set] = []
    t = solver.head(base.type)
    for k, ix in enumerate(e.indices):
        if solver.is_open(t):
            fresh = Table(solver.set(), solver.type("a"))
            solver.unify(t, fresh)
            t = fresh
        if not isinstance(t, Table):
            text = e.base.span.text
            if k == 0:
                raise errors.not_a_table(text, show(w, base.type), e.base.span)
            raise errors.too_many_indices(
                text, show(w, base.type), k, len(e.indices), e.span
            )
        axis = t.set
        if k == 0 and len(solver.axes(t)[0]) < len(e.indices):
            _check_tuple_axis(w, e, axis)
        if t.index is not None:
            if isinstance(ix, s.RangeExpr) or sliced:
                raise set_errors.ragged_slice(e.base.span.text, show(w, base.type), e.span)
            place, step = _row(w, ix, axis, e.base.span.text, checked)
            steps.append(step)
            t = solver.head(cell_at(t, place))
            continue
        if isinstance(ix, s.RangeExpr):
            new, step = _slice(w, e, ix, axis)
            sliced.append(new)
            steps.append(step)
        else:
            build = at_axis(w, ix, axis, e.base.span.text, checked)
            steps.append(_point(w, build, axis))
        t = solver.head(t.cell)
    result: Type = t
    for axis in reversed(sliced):
        result = Table(axis, result)
    return Typed(result, lambda: _take(base.build(), steps), e.span)


def _check_tuple_axis(w: Walk, e: s.IndexExpr, axis: Set) -> None:
    axis = w.solver.head_set(axis)
    if isinstance(axis, TupleSet) and len(e.indices) == len(axis.plain) > 1 and not any(
        isinstance(ix, s.TupleExpr) for ix in e.indices
    ):
        inner = ", ".join(ix.span.text for ix in e.indices)
        raise index_errors.tuple_axis(
            e.base.span.text, inner, show_set(w.solver.zonk_set(axis)), e.span
        )


def _take(table: core.Expr, steps: list[Step]) -> core.Expr:
    if not steps:
        return table
    return steps[0](table, lambda cell: _take(cell, steps[1:]))


def _point(w: Walk, build: Build, axis: Set) -> Step:
    def step(table: core.Expr, rest: Callable[[core.Expr], core.Expr]) -> core.Expr:
        return rest(core.At(table, build(), w.solver.zonk_set(axis)))

    return step


def _row(w: Walk, ix: s.Expr, axis: Set, table: str, checked: bool) -> tuple[Size, Step]:
    """The index of a dependent table, which the row's type mentions: a name."""
    if isinstance(ix, s.Name | s.Number) or (isinstance(ix, s.Binary) and ix.op in ("+", "-")):
        typed = w.infer(ix)
        if typed.poly is not None and not typed.lets and not checked:
            return typed.poly, _point(w, use(w, typed, axis, table), axis)
    build = at_axis(w, ix, axis, table, checked)
    v = Var("k")
    w.scope.assume_index(v, axis)
    w.region.names.add(v)
    w.region.wraps.append(lambda expr: core.Let(v, build(), expr))
    return size(v), _point(w, lambda: core.Ref(v), axis)


# ---------------------------------------------------------------- one index


def at_axis(w: Walk, e: s.Expr, axis: Set, table: str, checked: bool = False) -> Build:
    """The core of `e` as an index of `axis`."""
    match e:
        case s.Checked(_, inner):
            return _checked(w, w.infer(inner), axis, e.span)
        case s.Call(_, s.Name(_, ("clamp" | "wrap") as how), (arg,)) if not isinstance(
            arg, s.Keyword | s.Generator
        ):
            return _into(w, how, w.infer(arg), axis)
        case s.Call(span, s.Name(_, ("left" | "right") as name), (arg,)) if (
            isinstance(own := w.solver.head_set(axis), Sum)
            and not isinstance(arg, s.Keyword | s.Generator)
        ):
            return at_side(w, own, name, arg, span).build_all()
        case s.TupleExpr(_, items) if len(items) > 1:
            parts_of = w.solver.head_set(axis)
            if isinstance(parts_of, TupleSet) and len(parts_of.plain) == len(items):
                builds = [
                    at_axis(w, x, part, table, checked)
                    for x, part in zip(items, parts_of.sets, strict=True)
                ]
                return lambda: core.Pack(tuple(b() for b in builds))
        case s.Binary(_, "/", op_span, left, right):
            w.infer(e)
            raise index_errors.true_division(
                e.span.text, left.span.text, right.span.text, op_span
            )
        case _:
            pass
    typed = w.infer(e, element(w.solver.head_set(axis)) if _is_enum(w, axis) else None)
    return use(w, typed, axis, table, checked)


def at_side(w: Walk, own: Sum, name: str, arg: s.Expr, span: Span) -> Typed:
    """`left(i)` and `right(j)` as an index of a sum."""
    inner = at_axis(w, arg, side(w, own, name, arg.span), f"{name}(…)")
    return inject(w, own, name, inner, span)


def _is_enum(w: Walk, axis: Set) -> bool:
    return isinstance(w.solver.head_set(axis), EnumSet | BoolSet)


def use(w: Walk, t: Typed, axis: Set, table: str, checked: bool = False) -> Build:
    """A typed expression as an index of `axis`: equal sets, an embedding, or a proof."""
    chosen: list[Build] = []
    scope = w.scope.so_far()

    def attempt(force: bool) -> bool:
        with w.inside(scope):
            build = _decide(w, scope, t, axis, table, checked, force)
        if build is None:
            return False
        chosen.append(build)
        return True

    w.solver.later(attempt)
    return lambda: chosen[0]()


def _decide(
    w: Walk, scope: Scope, t: Typed, axis: Set, table: str, checked: bool, force: bool
) -> Build | None:
    solver = w.solver
    kind = solver.head(t.type)
    target = _added(w, solver.head_set(axis))
    because = Because(t.span, f"`{t.span.text}` indexes `{table}` here")
    if solver.is_unknown(kind) and t.poly is None:
        if not force and solver.set_is_open(target):
            return None
        try:
            solver.unify(kind, element(target), because)
        except Mismatch:
            raise _no_index(w, t, axis) from None
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
                    if isinstance(own, Range) and not force:
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
                facts, count = scope.facts(), cardinality(solver.zonk_set(target))
                if isinstance(target, SetVar) or not facts.proves(count - 1 - t.poly):
                    raise wrong_set(w, t, own, axis, table)
            return _prove_index(w, scope, t, own, axis, table, checked)
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
            number(w, t)
            if isinstance(target, EnumSet | TupleSet | BoolSet | UnitSet):
                raise _no_index(w, t, axis)
            return _prove_poly(w, scope, t, axis, table, checked)
        case _:
            if checked:
                return _checked(w, t, axis, t.span)
            raise _no_index(w, t, axis)


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


def _no_index(w: Walk, t: Typed, axis: Set) -> errors.Reported:
    kind = w.solver.head(t.type)
    generic = isinstance(kind, TypeVar) and not w.solver.is_open(kind)
    shown = show_set(w.solver.zonk_set(axis))
    return index_errors.not_an_index(t.span.text, show(w, kind), shown, t.span, generic)


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


def _close_range(w: Walk, own: Range | Fin, target: Set, because: Because) -> None:
    """`for i in 1..:` ends where the axis it indexes ends."""
    high = own.high if isinstance(own, Range) else own.size
    v = w.solver.zonk_size(high).single
    if isinstance(v, Var) and v in w.solver.unknown_sizes and not w.solver.set_is_open(target):
        w.solver.sizes[v] = cardinality(target)
        w.solver.why[v] = because


# ---------------------------------------------------------------- proofs


@node
class Goal:
    """`poly` must lie in 0 … extent-1 under the facts of a scope."""

    scope: Scope
    poly: Size
    axis: Set


def _prove_index(
    w: Walk, scope: Scope, t: Typed, own: Set, axis: Set, table: str, checked: bool
) -> Build:
    """An index of one set used on another axis: a `Fin` that provably contains it."""
    if t.poly is not None:
        return _prove_poly(w, scope, t, axis, table, checked)
    v = Var("k")
    inner = scope.inner()
    inner.assume_index(v, own)
    named = Typed(t.type, lambda: core.Ref(v), t.span, size(v), ((v, t.build),))
    return _prove_poly(w, inner, named, axis, table, checked)


def _prove_poly(
    w: Walk, scope: Scope, t: Typed, axis: Set, table: str, checked: bool
) -> Build:
    assert t.poly is not None
    poly = t.poly
    fallback: list[Build] = []

    def goal() -> None:
        with w.inside(scope):
            found = w.solver.zonk_size(poly)
            extent = cardinality(w.solver.zonk_set(axis))
            base = _base(w.solver.zonk_set(axis))
            facts = scope.facts()
            if facts.proves(found - base) and facts.proves(extent - 1 - (found - base)):
                return
            if facts.absurd:
                return
            if checked:
                fallback.append(_checked(w, t, axis, t.span))
                return
            raise falls_out(w, scope, facts, t, found, axis, table)

    w.solver.goals.append(goal)

    def build() -> core.Expr:
        if fallback:
            return fallback[0]()
        return _numbered(w, w.solver.zonk_size(poly), axis)

    return wrap(t.lets, build)


def _base(axis: Set) -> Size:
    return numbers(axis)[0]


def numbered(element: Size, own: Set) -> core.Expr:
    """A number that is known to be one of a set's elements, as an index of the set."""
    return core.Checked(core.Number(element - _base(own)), own, proved=True)


def _numbered(w: Walk, place: Size, axis: Set) -> core.Expr:
    """A number that is known to be in range, as an index of the axis. A set that the caller chooses
    may be one of pairs or Booleans."""
    own = w.solver.zonk_set(axis)
    number = core.Number(place)
    return core.Checked(number, own, proved=True) if isinstance(own, SetVar) else number


# ---------------------------------------------------------------- clamp, wrap, get, `?`


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


def as_poly(w: Walk, t: Typed, name: str = "k") -> Typed:
    """The same integer with a polynomial: its own, or that of a name made for it."""
    if t.poly is not None:
        if w.solver.is_unknown(t.type):
            number(w, t)
        return t
    build = number(w, t)
    v = Var(name)
    return Typed(INT, lambda: core.Ref(v), t.span, size(v), ((v, build),))


def _checked(w: Walk, t: Typed, axis: Set, span: Span) -> Build:
    build = number(w, t)
    return lambda: core.Checked(build(), w.solver.zonk_set(axis), origin=span)


def _into(w: Walk, how: str, t: Typed, axis: Set) -> Build:
    """`clamp(k)` and `wrap(k)` on an axis."""
    named = as_poly(w, t)
    assert named.poly is not None
    poly = named.poly
    w.solver.goals.append(lambda: _counted(w, how, t, axis))
    _something(w, how, axis, t.span)

    def build() -> core.Expr:
        target = w.solver.zonk_set(axis)
        extent = cardinality(target)
        value = w.solver.zonk_size(poly) - _base(target)
        inside = clamped(value, extent) if how == "clamp" else value % extent
        return _numbered(w, inside + _base(target), target)

    return wrap(named.lets, build)


def _counted(w: Walk, how: str, t: Typed, axis: Set) -> None:
    """A number can be brought into sets whose elements are counted, not into Booleans or tuples."""
    if not isinstance(element(w.solver.zonk_set(axis)), Index):
        raise index_errors.not_an_index(
            f"{how}({t.span.text})", "Int", show_set(w.solver.zonk_set(axis)), t.span
        )


def _something(w: Walk, how: str, target: Set, span: Span) -> None:
    """Nothing is in an empty set, so the run stops where an index is to be brought into one, unless
    what is known here says that there is an element."""
    scope = w.scope.so_far()

    def checked(rest: core.Expr) -> core.Expr:
        some = w.solver.zonk_size(cardinality(w.solver.zonk_set(target))) - 1
        if scope.facts().proves(some):
            return rest
        test = core.Op("ge", (core.Number(some), core.Const(Lit(0, DType.I64))), INT)
        return core.Check(test, f"`{how}` into an empty set", rest, span)

    w.region.wraps.append(checked)


def into_set(w: Walk, how: str, t: Typed, target: Set, span: Span) -> Typed:
    """`clamp(k, n)` and `wrap(k, n)` away from an axis: an index of the set."""
    named = as_poly(w, t)
    assert named.poly is not None
    _counted(w, how, t, target)
    _something(w, how, target, span)
    extent = cardinality(w.solver.zonk_set(target))
    base = _base(w.solver.zonk_set(target))
    value = named.poly - base
    poly = (clamped(value, extent) if how == "clamp" else value % extent) + base
    build = wrap(
        named.lets, lambda: numbered(w.solver.zonk_size(poly), w.solver.zonk_set(target))
    )
    return Typed(element(target), build, span, poly if not named.lets else None)


def get(w: Walk, base: Typed, indices: list[s.Expr], default: s.Expr, span: Span) -> Typed:
    """`x.get(i + 1, default)`: the element, or the default where an index is outside. Of a table of
    indices, a number as default makes it one of numbers."""
    solver = w.solver
    t = solver.head(base.type)
    tests: list[Callable[[], list[core.Expr]]] = []
    steps: list[Step] = []
    lets: list[tuple[Var, Build]] = []
    for e in indices:
        if not isinstance(t, Table):
            raise errors.not_a_table(base.span.text, show(w, base.type), base.span)
        steps.append(_point(w, _tried(w, e, t.set, base.span.text, tests, lets), t.set))
        t = solver.head(t.cell)
    indexed = isinstance(t, Index)
    value = w.infer(default, None if indexed and _is_negative(default) else t)
    if indexed and (_is_negative(default) or isinstance(solver.head(value.type), Scalar)):
        number(w, value)
    kind = INT if indexed and solver.head(value.type) == INT else t
    cell = t

    def build() -> core.Expr:
        inner = convert(w, _take(base.build(), steps), cell, kind)
        other = convert(w, value.build(), value.type, kind)
        for test in reversed([c for make in tests for c in make()]):
            inner = core.If(test, inner, other)
        return inner

    converts(w, "the default", kind, value.type, value, default.span)
    return Typed(kind, wrap(tuple(lets), build), span)


def _is_negative(e: s.Expr) -> bool:
    return isinstance(e, s.Unary) and e.op == "-" and isinstance(e.operand, s.Number)


def _tried(
    w: Walk, e: s.Expr, axis: Set, table: str, tests: list[Callable[[], list[core.Expr]]],
    lets: list[tuple[Var, Build]],
) -> Build:
    """An index that may be outside, with the tests whether it is. What is no number is an element
    of the axis' own set, and inside."""
    own = w.solver.head_set(axis)
    if isinstance(e, s.TupleExpr) and isinstance(own, TupleSet) and len(own.plain) == len(e.items):
        parts = [
            _tried(w, x, part, table, tests, lets)
            for x, part in zip(e.items, own.sets, strict=True)
        ]
        return lambda: core.Pack(tuple(b() for b in parts))
    typed = w.infer(e)
    if isinstance(own, BoolSet | UnitSet | TupleSet) or isinstance(
        w.solver.head(typed.type), Tuple
    ):
        return use(w, typed, axis, table)
    named = as_poly(w, typed)
    lets += named.lets
    assert named.poly is not None
    tests.append(_range_tests(w, named.poly, axis, w.scope.so_far()))
    poly = named.poly
    return lambda: _numbered(w, w.solver.zonk_size(poly), axis)


def _range_tests(
    w: Walk, poly: Size, axis: Set, scope: Scope
) -> Callable[[], list[core.Expr]]:
    def tests() -> list[core.Expr]:
        target = w.solver.zonk_set(axis)
        value, extent = w.solver.zonk_size(poly) - _base(target), cardinality(target)
        facts = scope.facts()
        out: list[core.Expr] = []
        if not facts.proves(value):
            out.append(core.Op("ge", (core.Number(value), core.Number(ZERO)), INT))
        if not facts.proves(extent - 1 - value):
            out.append(core.Op("lt", (core.Number(value), core.Number(extent)), INT))
        return out

    return tests


# ---------------------------------------------------------------- slices


def _slice(w: Walk, e: s.IndexExpr, r: s.RangeExpr, axis: Set) -> tuple[Set, Step]:
    """`x[a..b]`: the elements a … b-1, counted from 0; a view."""
    solver = w.solver
    if r.low is None and r.high is None:
        v = Var("i")

        def whole(table: core.Expr, rest: Callable[[core.Expr], core.Expr]) -> core.Expr:
            own = solver.zonk_set(axis)
            return core.For(v, own, rest(core.At(table, core.Ref(v), own)))

        return axis, whole
    extent = cardinality(axis)
    lets: tuple[tuple[Var, Build], ...] = ()
    posts: list[Var] = []

    def end(e: s.Expr) -> Size:
        nonlocal lets
        typed = w.infer(e)
        if typed.poly is None and isinstance(solver.head(typed.type), Index):
            posts.append(_post(w, typed))
            return size(posts[-1])
        named = as_poly(w, typed)
        lets += named.lets
        assert named.poly is not None
        return named.poly

    start = (end(r.low) if r.low is not None else ZERO) + int(r.after)
    stop = (end(r.high) if r.high is not None else extent) + int(r.inclusive)
    length = not_negative(w, stop - start) if posts else stop - start
    scope = w.scope.so_far()

    def goal() -> None:
        with w.inside(scope):
            facts = scope.facts()
            a, b, n = (solver.zonk_size(x) for x in (start, stop, extent))
            text, shown = r.span.text, show_set(solver.zonk_set(axis))
            if not facts.proves(a):
                raise index_errors.slice_range(text, shown, f"{a!r} may be negative", r.span)
            if not facts.proves(n - b):
                raise index_errors.slice_range(text, shown, f"{b!r} may be more than {n!r}", r.span)
            if not posts and not facts.proves(b - a):
                raise index_errors.slice_range(text, shown, f"{a!r} may be more than {b!r}", r.span)

    solver.goals.append(goal)
    v = Var("i")

    def step(table: core.Expr, rest: Callable[[core.Expr], core.Expr]) -> core.Expr:
        own = solver.zonk_set(axis)
        a = solver.zonk_size(start)
        at = core.At(table, _numbered(w, size(v) + a + _base(own), own), own)
        new = Fin(solver.zonk_size(length))
        return wrap(lets, lambda: core.For(v, new, rest(at)))()

    return Fin(length), step


def _post(w: Walk, t: Typed) -> Var:
    """An index that is computed here, as a name of the region around."""
    v = Var("post")
    _assume_later(w, v, t)
    w.region.names.add(v)
    w.region.wraps.append(
        lambda expr: let_all(t.lets, core.Let(v, convert(w, t.build(), t.type, INT), expr))
    )
    return v


def not_negative(w: Walk, n: Size) -> Size:
    """How many elements a range has: none if it is reversed."""
    return n if w.scope.facts().proves(n) else clamped(n, n + 1)


# ---------------------------------------------------------------- ranges as sets


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
            v = Var("post")
            lets += (*typed.lets, (v, placed.place(w, typed)))
            return size(v)
        if typed.poly is None and (isinstance(kind, Index) or solver.is_unknown(kind)):
            v = Var("post")
            _assume_later(w, v, typed)
            lets += ((v, lambda: convert(w, typed.build(), typed.type, INT)),)
            return size(v)
        named = as_poly(w, typed)
        lets += named.lets
        assert named.poly is not None
        return named.poly

    low = (end(r.low) if r.low is not None else ZERO) + int(r.after)
    if r.high is not None:
        high = end(r.high) + (ONE if r.inclusive else ZERO)
    elif placed is not None:
        high = placed.count
    else:
        known = end_of(w, w.infer(r.low)) if r.low is not None else None
        high = size(solver.size("end")) if known is None else known
    return Ranged(between(over, low, high), lets, placed)


def _same_set(w: Walk, wanted: Type, end: Typed) -> None:
    """Both ends of a range are elements of one set."""
    try:
        w.solver.unify(wanted, end.type)
    except Mismatch:
        raise set_errors.unlike_ends(show(w, wanted), show(w, end.type), end.span) from None


