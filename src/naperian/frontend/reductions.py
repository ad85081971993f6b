"""Reductions, folds and scans.

A reduction of a bare table consumes the innermost axis; a generator names the axes it consumes, and
the axes of its element are frame. `reduce` takes an associative operator, `fold` and `scan` any
function of the state and an element.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Protocol

from naperian.core import syntax as core
from naperian.dtypes import FLOATS, DType
from naperian.frontend.added_up import is_narrow, reduced
from naperian.frontend.best import best_of_kept, depends
from naperian.frontend.binders import Bound, open_binder, over_array
from naperian.frontend.boxes import alone, keeps_size
from naperian.frontend.calls import use_definition
from naperian.frontend.cells import clash, convert, equate, join_cells, show
from naperian.frontend.constraints import known_interface, need
from naperian.frontend.frames import Callee
from naperian.frontend.index_arguments import taken
from naperian.frontend.lifting import apply, lifted
from naperian.frontend.messages import errors
from naperian.frontend.once import acts_inside, asked_once, totals
from naperian.frontend.operators import apply_primitive
from naperian.frontend.scalars import INTERFACES, NUMBERS, Dtypes
from naperian.frontend.scope import Scope, Variable
from naperian.frontend.solve import Mismatch
from naperian.frontend.tables import ragged
from naperian.frontend.typed import Build, Typed, let_all, wrap
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.prims import unit
from naperian.sizes import Size, size
from naperian.source import Span
from naperian.surface import syntax as s
from naperian.types import (
    BOOL,
    INT,
    Function,
    Index,
    Scalar,
    Set,
    Table,
    Tuple,
    TupleSet,
    Type,
    TypeVar,
    cardinality,
    element,
    set_variables,
    table,
)


class Builtin(Protocol):
    """Types a call; `args` are given when the builtin is used as a function value."""

    def __call__(
        self, w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None
    ) -> Typed: ...


_REDUCTIONS: dict[str, tuple[str, Dtypes]] = {
    "sum": ("add", NUMBERS),
    "prod": ("mul", NUMBERS),
    "min": ("min", INTERFACES["Ord"]),
    "max": ("max", INTERFACES["Ord"]),
    "all": ("and", frozenset({DType.BOOL})),
    "any": ("or", frozenset({DType.BOOL})),
    "mean": ("add", FLOATS),
    "argmin": ("argmin", INTERFACES["Ord"]),
    "argmax": ("argmax", INTERFACES["Ord"]),
}


# What a reduction asks of values that are no scalars.
_NEEDS = {"sum": "Num", "prod": "Num", "min": "Bounded", "max": "Bounded", "mean": "Fractional",
          "argmin": "Real", "argmax": "Real"}  # fmt: skip


def _needs(name: str) -> tuple[str, ...]:
    return (_NEEDS[name],) if name in _NEEDS else ()


def unit_of(w: Walk, monoid: str, t: Type) -> core.Expr:
    """The unit of a monoid at a type."""
    kind = w.solver.zonk(t)
    if isinstance(kind, Scalar):
        value = unit(monoid, kind.dtype)
        return core.Const(Lit(value, kind.dtype))
    match monoid:
        case "min":
            return core.ConstOf(math.inf, kind)
        case "max":
            return core.ConstOf(-math.inf, kind)
        case "mul":
            return core.ConstOf(1, kind)
        case _:
            return core.ConstOf(0, kind)


def _reduction(name: str) -> Builtin:
    monoid, dtypes = _REDUCTIONS[name]

    def builtin(
        w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None
    ) -> Typed:
        given = e.args if args is None else ()
        if args is None and len(given) == 1 and isinstance(given[0], s.Generator):
            g = given[0]
            if g.condition is not None and monoid in ("argmin", "argmax") and depends(g):
                return alone(w, lambda: w.block(best_of_kept(e, g, partial(over_array, w))))
            return _reduce_generator(w, name, monoid, dtypes, g, e.span, expected)
        if args is None:
            args = _plain(w, e, name)
        if name in ("min", "max") and len(args) > 1:
            result = args[0]
            for a in args[1:]:
                result = apply_primitive(w, name, [result, a], e.span)
            return result
        if len(args) != 1:
            raise errors.arity(name, 1, len(args), e.span, "n=>a -> a", (_along(name),))
        return _reduce_table(w, name, monoid, dtypes, args[0], e.span, expected)

    return builtin


def _along(name: str) -> str:
    return f"an axis is chosen by the binder: `{name}(x[i, j] for i)` goes over `i`"


def _plain(w: Walk, e: s.Call, name: str) -> list[Typed]:
    out = []
    for a in e.args:
        if isinstance(a, s.Keyword):
            helps = {
                "axis": (_along(name),),
                "keepdims": ("nothing has to be kept: `x - mean(x)` lifts over the rows of `x`",),
            }
            raise errors.no_keyword(name, a.name, a.span, helps.get(a.name, ()))
        assert not isinstance(a, s.Generator)  # which the parser lets stand alone only
        out.append(w.infer(a))
    return out


def _reduce_table(
    w: Walk, name: str, monoid: str, dtypes: Dtypes, arg: Typed, span: Span,
    expected: Type | None,
) -> Typed:
    """A reduction of a bare table consumes the innermost axis."""
    solver = w.solver
    axes, cell = solver.axes(arg.type)
    if not axes and not solver.is_open(cell) and not isinstance(cell, Table):
        raise errors.not_a_table_argument(name, arg.span.text, show(w, arg.type), arg.span)
    if dtypes == FLOATS and isinstance(cell, TypeVar) and cell.var in solver.unknown:
        if solver.holds(cell):  # whole numbers with a name stay what they are
            floats = solver.type("a", FLOATS, DType.F64)
            solver.unknown[floats.var].floats = True
            arg = _as(w, arg, floats)
    elif dtypes == NUMBERS and (made := reduced(w, monoid, cell, expected)) != cell:
        arg = _as(w, arg, made)
    own, t = solver.set("n"), solver.type("a", dtypes)
    solver.unknown[t.var].ask(_needs(name))
    is_index = monoid in ("argmin", "argmax")
    scope = w.scope.so_far()
    result: Type = Index(own) if is_index else t

    def call(cells: list[core.Expr]) -> core.Expr:
        i, x = Var("i"), Var("x")
        axis = solver.zonk_set(own)
        value = core.At(core.Ref(x), core.Ref(i), axis)
        body: core.Expr = reduce_over(w, monoid, i, axis, value, t, span, scope)
        if name == "mean":
            body = _divide(w, body, core.Number(cardinality(axis)), t)
        return core.Let(x, cells[0], body)

    def text(texts: list[str]) -> str:
        return f"{name}({texts[0]})"

    callee = Callee(f"`{name}`", (Table(own, t),), result, call, names=("",), text=text)
    return apply(w, callee, [arg], span)


def _as(w: Walk, arg: Typed, cell: Type) -> Typed:
    """A table as one of such numbers, by a conversion of each element."""
    axes, _ = w.solver.axes(arg.type)
    t = table(axes, cell)

    def build() -> core.Expr:
        return convert(w, arg.build(), arg.type, w.solver.zonk(t))

    return Typed(t, build, arg.span)


def reduce_over(
    w: Walk, monoid: str, var: Var, axis: Set, value: core.Expr, t: Type, span: Span,
    scope: Scope,
) -> core.Expr:
    """The reduction. `argmax` of nothing is no index, so the run stops there, unless what is known
    in the scope says that there is something."""
    expr = core.Reduce(monoid, var, axis, unit_of(w, monoid, t), value, w.solver.zonk(t), span)
    some = w.solver.zonk_size(cardinality(axis)) - 1
    if monoid not in ("argmin", "argmax") or scope.facts().proves(some):
        return expr
    test = core.Op("ge", (core.Number(some), core.Const(Lit(0, DType.I64))), INT)
    return core.Check(test, f"`{monoid}` of nothing", expr, span)


def _divide(w: Walk, total: core.Expr, count: core.Expr, t: Type) -> core.Expr:
    kind = w.solver.zonk(t)
    return core.Op("div", (total, core.Op("cast", (count,), kind)), kind)


def _truth(w: Walk, name: str, cell: Type, span: Span) -> None:
    try:
        w.solver.unify(cell, BOOL)
    except Mismatch:
        raise errors.operand(name, "Booleans", show(w, cell), span) from None


def _reduce_generator(
    w: Walk, name: str, monoid: str, dtypes: Dtypes, g: s.Generator, span: Span,
    expected: Type | None,
) -> Typed:
    """`sum(e for i, j if p)`: the binders are the axis consumed; axes of `e` are frame."""
    solver = w.solver
    is_index = monoid in ("argmin", "argmax")
    scope = w.scope.so_far()
    with w.inside(w.scope.inner(block=True)):
        bounds: list[Bound] = [open_binder(w, b) for b in g.binders]
        condition = (
            alone(w, partial(w.infer, g.condition)) if g.condition is not None else None
        )
        if condition is not None:
            kind = solver.head(condition.type)
            if solver.is_open(kind):
                solver.unify(kind, BOOL)
            elif kind != BOOL:
                raise errors.condition_type(show(w, kind), condition.span)
            if condition.condition is not None:
                w.scope.assume(*condition.condition.then)
        body = alone(w, lambda: w.infer(g.element))
        w.region = bounds[0].around
    if is_index and len(bounds) > 1:
        ragged(w, bounds, span)
    decided: list[tuple[list[Set], Type]] = []  # the element's axes and the scalars reduced
    answer = solver.type("r")

    def attempt(force: bool) -> bool:
        axes, cell = solver.axes(body.type)
        if solver.is_open(cell) and not force:
            return False
        if dtypes == frozenset({DType.BOOL}):
            _truth(w, name, cell, body.span)
            operand: Type = BOOL
        elif isinstance(solver.head(cell), Index) and not is_index:
            operand = w.float if dtypes == FLOATS else INT
        else:
            items = [Typed(cell, body.build, body.span)]
            operand = join_cells(w, f"`{name}`", items, dtypes, span, _needs(name))
            operand = reduced(w, monoid, operand, expected)
            for interface in _needs(name):
                need(w, operand, interface)
        decided.append((axes, operand))
        sets = tuple(b.set for b in bounds)
        own: Set = sets[0] if len(sets) == 1 else TupleSet(sets)
        result = operand
        if is_index:
            first = bounds[0].element
            result = element(own) if first is None else first.type
        try:
            solver.unify(answer, table(axes, result))
        except Mismatch as m:
            raise clash(w, f"the result of `{name}`", answer, result, span, m) from None
        return True

    solver.later(attempt)

    def build() -> core.Expr:
        axes = [solver.zonk_set(a) for a in decided[-1][0]]
        operand = solver.zonk(decided[-1][1])
        frame = [Var("f") for _ in axes]
        lifted(w, span, axes, [(body, tuple(range(len(axes))))], operand)

        def items() -> core.Expr:
            return convert(w, body.build(), body.type, table(axes, operand))

        keeps = None if condition is None else condition.build
        asked, own, first = None, bounds, bounds[0].outside[:0]
        if name == "mean" and not axes and acts_inside(w, bounds):
            return _mean_of_asked(w, bounds, keeps, items, operand, span, scope)
        if name == "mean" or axes:  # what is gone over is asked for once, whatever is asked of it
            first = bounds[0].outside
            own = [dataclasses.replace(bounds[0], outside=()), *bounds[1:]]
        if axes or (keeps is not None and (is_index or name == "mean")):
            asked = asked_once(w, own, keeps, items, table(axes, operand))
            items, keeps = asked.items, asked.keeps

        def point() -> core.Expr:
            value = items()
            for v, axis in zip(frame, axes, strict=True):
                value = core.At(value, core.Ref(v), axis)
            if keeps is not None:
                unit = unit_of(w, monoid.removeprefix("arg"), operand)
                value = core.If(keeps(), value, unit)
            return value

        if not is_index:
            inner = _nested(w, monoid, own, point, operand, span, scope)
        else:
            find = _place if keeps is None else partial(_kept_place, keeps)
            lets = tuple(x for b in own for x in b.outside)
            args = (w, monoid, own, point, operand, span, scope)
            inner = wrap(lets, partial(find, *args))()
        if is_index and (found := bounds[0].element) is not None:
            inner = core.Let(bounds[0].var, inner, found.build())
        if name == "mean":
            inner = _mean(w, own, keeps, inner, operand, span, scope)
        for v, axis in zip(reversed(frame), reversed(axes), strict=True):
            inner = core.For(v, axis, inner)
        return let_all(first, inner if asked is None else asked.around(inner))

    return Typed(answer, build, span)


def _nested(
    w: Walk, monoid: str, bounds: list[Bound], point: Build, t: Type, span: Span, scope: Scope
) -> core.Expr:
    build = point
    for b in reversed(bounds):
        build = _reduce_bound(w, monoid, b, b.body(build), t, span, scope)
    return build()


def _reduce_bound(
    w: Walk, monoid: str, b: Bound, inner: Build, t: Type, span: Span, scope: Scope
) -> Build:
    return wrap(
        b.outside,
        lambda: reduce_over(w, monoid, b.var, w.solver.zonk_set(b.set), inner(), t, span, scope),
    )


def _place(
    w: Walk, monoid: str, bounds: list[Bound], point: Build, t: Type, span: Span, scope: Scope
) -> core.Expr:
    """`argmin(e for i, j)`: several binders are one axis of tuples."""
    sets = tuple(w.solver.zonk_set(b.set) for b in bounds)
    if len(bounds) == 1:
        var, body = bounds[0].var, bounds[0].body(point)
        return reduce_over(w, monoid, var, sets[0], body(), t, span, scope)
    pair = Var("p")
    body = _at_pair(bounds, pair, point)
    return reduce_over(w, monoid, pair, TupleSet(sets), body(), t, span, scope)


def _at_pair(bounds: list[Bound], pair: Var, point: Build) -> Build:
    body = point
    for k, b in reversed(list(enumerate(bounds))):
        body = _let_part(b, pair, k, b.body(body))
    return body


def _kept_place(
    kept: Build, w: Walk, monoid: str, bounds: list[Bound], point: Build, t: Type, span: Span,
    scope: Scope,
) -> core.Expr:
    """`argmin(e for i if p)`, where `point` is the worst of all values unless `p`:

        k = argmin(e if p else inf for i)
        k if p[i := k] else argmax(1 if p else 0 for i)

    For where `k` is not kept, no value that is kept is better than the worst. If that is not kept
    either, nothing is, and the run stops."""
    one, zero = core.Const(Lit(1, DType.I64)), core.Const(Lit(0, DType.I64))
    best, place = Var("best"), Var("place")

    def holds(place: Var) -> core.Expr:
        if len(bounds) > 1:
            return _at_pair(bounds, place, kept)()
        return core.Let(bounds[0].var, core.Ref(place), bounds[0].body(kept)())

    def mark() -> core.Expr:
        return core.If(kept(), one, zero)

    first = _place(w, "argmax", bounds, mark, INT, span, scope)
    chosen = core.If(holds(best), core.Ref(best), first)
    kept_one = core.Check(holds(place), f"`{monoid}` of nothing", core.Ref(place), span)
    found = core.Let(place, chosen, kept_one)
    return core.Let(best, _place(w, monoid, bounds, point, t, span, scope), found)


def _let_part(b: Bound, pair: Var, k: int, inner: Build) -> Build:
    return lambda: core.Let(b.var, core.Part(core.Ref(pair), k), inner())


def _mean(
    w: Walk, bounds: list[Bound], keeps: Build | None, total: core.Expr, t: Type, span: Span,
    scope: Scope,
) -> core.Expr:
    one = core.Const(Lit(1, DType.I64))
    zero = core.Const(Lit(0, DType.I64))

    def point() -> core.Expr:
        return one if keeps is None else core.If(keeps(), one, zero)

    before = {b.var for b in bounds}
    plain = all(not before & set(set_variables(w.solver.zonk_set(b.set))) for b in bounds)
    if keeps is None and plain and all(not b.outside and not b.region.wraps for b in bounds):
        count: core.Expr = core.Number(_count(w, bounds))
    else:
        count = _nested(w, "add", bounds, point, INT, span, scope)
    return _divide(w, total, count, t)


def _mean_of_asked(
    w: Walk, bounds: list[Bound], keeps: Build | None, items: Build, t: Type, span: Span,
    scope: Scope,
) -> core.Expr:
    def add(var: Var, axis: Set, value: core.Expr, kind: Type) -> core.Expr:
        return reduce_over(w, "add", var, axis, value, kind, span, scope)

    both = Var("both")
    found = totals(w, bounds, keeps, items, unit_of(w, "add", t), t, add)
    total, count = (core.Part(core.Ref(both), k) for k in range(2))
    return core.Let(both, found, _divide(w, total, count, t))


def _count(w: Walk, bounds: list[Bound]) -> Size:
    total = size(1)
    for b in bounds:
        total = total * cardinality(w.solver.zonk_set(b.set))
    return total


# ---------------------------------------------------------------- fold, reduce, scan

_OPERATOR_MONOIDS = {"+": "add", "*": "mul", "and": "and", "or": "or"}


def named_monoid(e: s.Expr) -> str | None:
    """The built-in commutative monoid that an operator is."""
    match e:
        case s.Section(_, op, None):
            return _OPERATOR_MONOIDS.get(op)
        case s.Name(_, ("min" | "max") as which):
            return which
        case _:
            return None


def _fold(name: str) -> Builtin:
    """fold(f, x0, xs), reduce(op, unit, xs), scan(op, unit, xs), scan_exclusive(op, unit, xs);
    reduce(xs) and scans of elements that are a `Monoid`."""

    def builtin(
        w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None
    ) -> Typed:
        solver = w.solver
        plain = [a for a in e.args if not isinstance(a, s.Keyword | s.Generator)]
        monoid = named_monoid(plain[0]) if plain else None
        if name == "reduce" and len(e.args) == 2 and monoid in ("min", "max", "add", "mul"):
            short = {"add": "sum", "mul": "prod"}.get(monoid, monoid)
            return _REDUCERS[short](w, s.Call(e.span, plain[0], e.args[1:]), None, expected)
        of_type = len(plain) == 1 and len(e.args) == 1 and name != "fold"
        if (len(plain) != 3 or len(e.args) != 3) and not of_type:
            raise errors.arity(
                name, 3, len(e.args), e.span,
                "((s, a) -> s, s, n=>a) -> " + ("s" if name in ("fold", "reduce") else "n=>s"),
            )
        _in_order(w, name, plain)
        if of_type:
            start, xs = _monoid(w, "empty", e.span, None, []), w.infer(plain[0])
        else:
            start, xs = w.infer(plain[1]), w.infer(plain[2])
            solver.carry(start.type)
        own, cell = solver.set("n"), solver.type("a")
        items = solver.axes(xs.type)[1]
        indices = name != "reduce" and isinstance(solver.head(items), Index)
        row = name != "reduce" and _is_row(w, xs.type)
        operator = of_type or isinstance(plain[0], s.Section | s.Rank)
        stepping = not operator and monoid is None  # a function says by itself what it takes
        says = stepping and (row or (indices and isinstance(plain[0], s.Name)))
        of_two = operator or (name != "fold" and not says)
        state = solver.head(start.type)
        if name != "fold" and not (stepping and row):
            state = _widest(w, start, xs, name, plain[0])
        knows = row and isinstance(plain[0], s.Lambda)
        if indices and (knows or (row and _is_defined(w, plain[0]))):
            solver.unify(cell, items)  # so that the function knows what it is given an index of
        elif name == "reduce" or of_type or (of_two and _alike(w, xs.type, state)):
            solver.unify(cell, state)
        elif knows:
            solver.unify(cell, items)
        step_type = Function((state, cell), state)
        if of_type:
            function = _monoid(w, "combine", e.span, step_type, None)
        else:
            function = w.infer(plain[0], step_type)
        taken_as = _step(w, function, state, cell, Typed(items, xs.build, plain[-1].span), plain[0])
        is_scan = name.startswith("scan")
        result: Type = Table(own, state) if is_scan else state

        def call(cells: list[core.Expr]) -> core.Expr:
            axis = solver.zonk_set(own)
            kind = keeps_size(w, f"what `{name}` carries", state, e.span)
            acc, t, table_var, f = Var("acc"), Var("t"), Var("xs"), Var("f")
            at = core.At(core.Ref(table_var), core.Ref(t), axis)
            step = core.Call(core.Ref(f), (core.Ref(acc), taken_as(at)))
            first = cells[0]
            carried = (core.Carried(acc, kind, first),)
            inner: core.Expr
            if is_scan:
                inner = core.Scan(carried, t, axis, step, name == "scan_exclusive", e.span)
            elif name == "reduce" and monoid is not None and isinstance(kind, Scalar | TypeVar):
                inner = core.Reduce(monoid, t, axis, first, at, kind, e.span)
            else:
                inner = core.Loop(carried, t, axis, None, step, e.span)
            body = core.Let(f, function.build(), inner)
            return core.Let(table_var, cells[1], body)

        callee = Callee(f"`{name}`", (state, Table(own, cell)), result, call, names=("", ""))
        return apply(w, callee, [start, xs], e.span)

    return builtin


def _in_order(w: Walk, name: str, given: list[s.Expr]) -> None:
    """That `fold(f, x0, xs)` is not written `fold(xs, f, x0)` or `fold(f, xs, x0)`, where it is
    plain which is which."""
    tables = [a for a in given if isinstance(a, s.Name) and _is_table(w, a)]
    starts = [a for a in given if isinstance(a, s.Number)]
    steps = [a for a in given if a not in (*tables, *starts)]
    right = [*steps, *starts, *tables]
    if (len(steps), len(starts), len(tables)) != (1, 1, 1) or given == right:
        return
    first = given[0] is not steps[0]
    place, what, wrong = ("first", "(s, a) -> s", given[0]) if first else ("second", "s", given[1])
    told = show(w, w.infer(wrong).type)
    texts = ", ".join(a.span.text for a in right)
    raise errors.wrong_type(
        f"the {place} argument of `{name}`", what, told, wrong.span,
        helps=(f"the function, what it starts with, and the table: `{name}({texts})`",),
    )


def _is_table(w: Walk, e: s.Name) -> bool:
    entry = w.scope.find(e.name)
    return isinstance(entry, Variable) and isinstance(w.solver.head(entry.type), Table)


def _monoid(
    w: Walk, method: str, span: Span, expected: Type | None, args: list[Typed] | None
) -> Typed:
    """`empty()`, or `combine` as a function, of a type that `Monoid` knows."""
    definition = known_interface(w, "Monoid").methods[method]
    return use_definition(w, definition, method, span, expected, args, {})


def _alike(w: Walk, xs: Type, state: Type) -> bool:
    """Whether a scan's elements may be values of its state, as an operator's are; a step function
    takes elements of any type."""
    solver = w.solver
    axes, cell = solver.axes(xs)
    a, b = solver.head(cell), solver.head(state)
    if solver.is_open(a):
        return True
    if isinstance(a, Tuple) and isinstance(b, Tuple):
        return len(a.items) == len(b.items)
    own, inner = solver.axes(state)
    if own and not solver.is_open(inner):
        pairs = zip(axes[-len(own) :], own, strict=False)
        return len(axes) > len(own) and all(solver.same_set(x, y) is not False for x, y in pairs)
    kinds = (Index, Tuple)
    return all(isinstance(a, k) == isinstance(b, k) for k in kinds)


def _is_row(w: Walk, xs: Type) -> bool:
    """Whether a table has one axis and known cells, so that nothing is left to lift over."""
    axes, cell = w.solver.axes(xs)
    return len(axes) == 1 and not w.solver.is_open(cell)


def _widest(w: Walk, start: Typed, xs: Typed, name: str, step: s.Expr) -> Type:
    """The state's type: the start's; a literal start takes the elements' type, or the one in which
    they are added up. A step that is a lambda says by itself what it does with bytes."""
    solver = w.solver
    kind = solver.head(start.type)
    _, cell = solver.axes(xs.type)
    if not solver.is_unknown(kind) or solver.dtypes_of(cell) is None:
        return kind
    narrow = isinstance(cell, Scalar) and is_narrow(cell.dtype)
    if narrow and isinstance(step, s.Lambda) and name != "reduce":
        return kind
    op = "add" if isinstance(step, s.Lambda) else named_monoid(step) or ""
    sides = [start, Typed(cell, xs.build, xs.span)]
    return join_cells(w, f"`{name}`", sides, NUMBERS, start.span, op=op)


def _is_defined(w: Walk, step: s.Expr) -> bool:
    """Whether a step is a definition, which is called at its place with what it is given."""
    return isinstance(step, s.Name) and step.name in w.globals.definitions and (
        w.scope.find(step.name) is None
    )


def _step(
    w: Walk, function: Typed, state: Type, cell: Type, item: Typed, text: s.Expr
) -> Callable[[core.Expr], core.Expr]:
    """The step is a function of the state and an element. How it takes an element: an index as one
    of the set that its parameter is of, as in a call."""
    solver = w.solver
    kind, what, x = solver.head(function.type), f"`{text.span.text}`", Var("x")
    item = Typed(item.type, lambda: core.Ref(x), item.span)
    given = item
    free = solver.is_unknown(cell) or solver.head(cell) == solver.head(item.type)
    if free and isinstance(kind, Function) and len(kind.params) == 2:
        before, param = kind.params
        given = taken(w, f"the element that {what} takes", param, item, (before, kind.result), None)
    if given is item:
        equate(w, what, Function((state, cell), state), kind, text.span)
        return lambda at: at
    solver.unify(cell, item.type)
    equate(w, what, Function((state, given.type), state), kind, text.span)
    return lambda at: core.Let(x, at, given.build())


_REDUCERS: dict[str, Builtin] = {name: _reduction(name) for name in _REDUCTIONS}

REDUCTIONS: dict[str, Builtin] = {
    **_REDUCERS,
    "fold": _fold("fold"),
    "reduce": _fold("reduce"),
    "scan": _fold("scan"),
    "scan_exclusive": _fold("scan_exclusive"),
}
