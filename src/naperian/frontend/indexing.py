"""Index expressions: `x[i, j]`, `x[i?]`, `x.get(i, default)`, axis by axis (`in_range`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.frontend.cells import convert, converts, show
from naperian.frontend.exactly import holds
from naperian.frontend.fitting import fits
from naperian.frontend.in_range import (
    Step,
    as_poly,
    base_of,
    checked_index,
    number,
    numbered,
    numbered_at,
    use,
)
from naperian.frontend.messages import errors, index_errors, set_errors
from naperian.frontend.scope import Scope
from naperian.frontend.slices import slice_at
from naperian.frontend.typed import Build, Typed, wrap
from naperian.frontend.unions import inject, side
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.sizes import ZERO, Size, size, variables
from naperian.sizes import clamp as clamped
from naperian.source import Span
from naperian.substitution import cell_at
from naperian.surface import syntax as s
from naperian.type_show import show_set
from naperian.types import (
    INT,
    BoolSet,
    EnumSet,
    Index,
    Scalar,
    Set,
    Sum,
    Table,
    Tuple,
    TupleSet,
    Type,
    UnitSet,
    cardinality,
    element,
)


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
            new, step = slice_at(w, e, ix, axis)
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
    v = Var("k", said=ix.span.text)
    w.scope.assume_index(v, axis)
    w.row_choices[v] = ix.span
    w.region.names.add(v)
    w.region.wraps.append(lambda expr: core.Let(v, build(), expr))
    return size(v), _point(w, lambda: core.Ref(v), axis)


# ---------------------------------------------------------------- one index


def at_axis(w: Walk, e: s.Expr, axis: Set, table: str, checked: bool = False) -> Build:
    """The core of `e` as an index of `axis`."""
    match e:
        case s.Checked(_, inner):
            return checked_index(w, w.infer(inner), axis, e.span)
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


# ---------------------------------------------------------------- proofs


# ---------------------------------------------------------------- clamp, wrap, get, `?`


def _into(w: Walk, how: str, t: Typed, axis: Set) -> Build:
    """`clamp(k)` and `wrap(k)` on an axis."""
    named = as_poly(w, t)
    assert named.poly is not None
    poly = named.poly
    for v in variables(poly):
        w.brought.setdefault(v, []).append(axis)
    w.solver.goals.append(lambda: _counted(w, how, t, axis))
    _something(w, how, axis, t.span)

    def build() -> core.Expr:
        target = w.solver.zonk_set(axis)
        extent = cardinality(target)
        value = w.solver.zonk_size(poly) - base_of(target)
        inside = clamped(value, extent) if how == "clamp" else value % extent
        return numbered_at(w, inside + base_of(target), target)

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
    if w.solver.set_is_open(target):
        return Typed(Index(target), _into(w, how, t, target), span)
    named = as_poly(w, t)
    assert named.poly is not None
    _counted(w, how, t, target)
    _something(w, how, target, span)
    extent = cardinality(w.solver.zonk_set(target))
    base = base_of(w.solver.zonk_set(target))
    value = named.poly - base
    poly = (clamped(value, extent) if how == "clamp" else value % extent) + base
    build = wrap(
        named.lets, lambda: numbered(w.solver.zonk_size(poly), w.solver.zonk_set(target))
    )
    return Typed(element(target), build, span, poly if not named.lets else None)


_FALSE = core.Const(Lit(False, DType.BOOL))


def get(w: Walk, base: Typed, indices: list[s.Expr], default: s.Expr, span: Span) -> Typed:
    """`x.get(i + 1, default)`: the element, or the default where an index is outside. Of a table of
    indices, a number as default makes it one of numbers. Of tables in tables a tuple is an index
    for each: `x.get((i - 1, j), 0.0)` is `x.get(i - 1, j, 0.0)`."""
    solver = w.solver
    t = solver.head(base.type)
    tests: list[Callable[[], list[core.Expr]]] = []
    steps: list[Step] = []
    lets: list[tuple[Var, Build]] = []
    for e in _side_by_side(w, indices, t):
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
        asked = [c for make in tests for c in make()]
        if not asked:
            return inner
        return core.If(reduce(lambda a, b: core.If(a, b, _FALSE), asked), inner, other)

    converts(w, "the default", kind, value.type, value, default.span)
    return Typed(kind, wrap(tuple(lets), build), span)


def _side_by_side(w: Walk, indices: list[s.Expr], t: Type) -> Sequence[s.Expr]:
    """The indices axis by axis: the items of a tuple where as many tables are in each other."""
    match indices:
        case [s.TupleExpr(_, items)] if isinstance(t, Table):
            own = w.solver.head_set(t.set)
            tuples = isinstance(own, TupleSet | UnitSet) or w.solver.set_is_open(own)
            if not tuples and 1 < len(items) <= len(w.solver.axes(t)[0]):
                return items
    return indices


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
    return lambda: numbered_at(w, w.solver.zonk_size(poly), axis)


def _range_tests(
    w: Walk, poly: Size, axis: Set, scope: Scope
) -> Callable[[], list[core.Expr]]:
    def tests() -> list[core.Expr]:
        target = w.solver.zonk_set(axis)
        value, extent = w.solver.zonk_size(poly) - base_of(target), cardinality(target)
        sides = (
            (value, core.Op("ge", (core.Number(value), core.Number(ZERO)), INT)),
            (extent - 1 - value, core.Op("lt", (core.Number(value), core.Number(extent)), INT)),
        )
        with w.inside(scope):
            asked = [(d, test) for d, test in sides if not scope.facts().proves(d)]
            if fits(w, value):
                return [test for _, test in asked]
            exact = [holds(w, d) for d, _ in asked]
        made = [test.build() for test in exact if test is not None]
        # what wraps is in range only if it is so on both sides
        return made if len(made) == len(exact) else [test for _, test in sides]

    return tests


# ---------------------------------------------------------------- slices


# ---------------------------------------------------------------- ranges as sets


