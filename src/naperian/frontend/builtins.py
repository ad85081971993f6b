"""Functions with typing rules of their own: reductions, scans, conversions, sizes, `@`.

Everything that an ordinary signature can express is written in the library (`std.nap`) instead.
"""

from __future__ import annotations

import math
from typing import Protocol

from naperian.core import syntax as core
from naperian.dtypes import FLOATS, DType
from naperian.frontend import errors
from naperian.frontend.annotations import SCALARS, as_set
from naperian.frontend.binders import Bound, open_binder
from naperian.frontend.cells import clash, convert, equate, join_cells, show
from naperian.frontend.indexing import into_set
from naperian.frontend.lifting import Callee, apply
from naperian.frontend.operators import FALSE, apply_primitive
from naperian.frontend.solve import INTERFACES, NUMBERS, Dtypes, Mismatch
from naperian.frontend.typed import Build, Typed, wrap
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.prims import unit
from naperian.sizes import Size, size
from naperian.source import Span
from naperian.surface import syntax as s
from naperian.types import (
    BOOL,
    F64,
    INT,
    Fin,
    Function,
    Index,
    Scalar,
    Set,
    Table,
    TupleSet,
    Type,
    TypeVar,
    cardinality,
    element,
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
            return _reduce_generator(w, name, monoid, dtypes, given[0], e.span)
        if args is None:
            args = _plain(w, e, name)
        if name in ("min", "max") and len(args) > 1:
            result = args[0]
            for a in args[1:]:
                result = apply_primitive(w, name, [result, a], e.span)
            return result
        if len(args) != 1:
            raise errors.arity(name, 1, len(args), e.span, "n=>a -> a")
        return _reduce_table(w, name, monoid, dtypes, args[0], e.span)

    return builtin


def _plain(w: Walk, e: s.Call, name: str) -> list[Typed]:
    out = []
    for a in e.args:
        if isinstance(a, s.Keyword):
            helps = ("an axis is chosen by the binder: `sum(x[i, j] for i)` adds over `i`",)
            raise errors.no_keyword(name, a.name, a.span, helps if a.name == "axis" else ())
        if isinstance(a, s.Generator):
            raise errors.not_yet("a generator beside other arguments", a.span)
        out.append(w.infer(a))
    return out


def _reduce_table(
    w: Walk, name: str, monoid: str, dtypes: Dtypes, arg: Typed, span: Span
) -> Typed:
    """A reduction of a bare table consumes the innermost axis."""
    solver = w.solver
    axes, cell = solver.axes(arg.type)
    if not axes and not solver.is_open(cell):
        raise errors.not_a_table_argument(name, arg.span.text, show(w, arg.type), arg.span)
    own, t = solver.set("n"), solver.type("a", dtypes)
    is_index = monoid in ("argmin", "argmax")
    result: Type = Index(own) if is_index else t

    def call(cells: list[core.Expr]) -> core.Expr:
        i, x = Var("i"), Var("x")
        axis = solver.zonk_set(own)
        value = core.At(core.Ref(x), core.Ref(i), axis)
        body: core.Expr = _reduce(w, monoid, i, axis, value, t, span)
        if name == "mean":
            body = _divide(w, body, core.Number(cardinality(axis)), t)
        return core.Let(x, cells[0], body)

    def text(texts: list[str]) -> str:
        return f"{name}({texts[0]})"

    callee = Callee(f"`{name}`", (Table(own, t),), result, call, names=("",), text=text)
    return apply(w, callee, [arg], span)


def _reduce(
    w: Walk, monoid: str, var: Var, axis: Set, value: core.Expr, t: Type, span: Span
) -> core.Expr:
    return core.Reduce(monoid, var, axis, unit_of(w, monoid, t), value, w.solver.zonk(t), span)


def _divide(w: Walk, total: core.Expr, count: core.Expr, t: Type) -> core.Expr:
    kind = w.solver.zonk(t)
    return core.Op("div", (total, core.Op("cast", (count,), kind)), kind)


def _truth(w: Walk, name: str, cell: Type, span: Span) -> None:
    try:
        w.solver.unify(cell, BOOL)
    except Mismatch:
        raise errors.operand(name, "Booleans", show(w, cell), span) from None


def _reduce_generator(
    w: Walk, name: str, monoid: str, dtypes: Dtypes, g: s.Generator, span: Span
) -> Typed:
    """`sum(e for i, j if p)`: the binders are the axis consumed; axes of `e` are frame."""
    solver = w.solver
    with w.inside(w.scope.inner(block=True)):
        bounds: list[Bound] = [open_binder(w, b) for b in g.binders]
        condition = w.infer(g.condition) if g.condition is not None else None
        if condition is not None:
            from_facts = condition.condition
            kind = solver.head(condition.type)
            if solver.is_open(kind):
                solver.unify(kind, BOOL)
            elif kind != BOOL:
                raise errors.condition_type(show(w, kind), condition.span)
            if from_facts is not None:
                w.scope.assume(*from_facts.then)
        body = w.infer(g.element)
    is_index = monoid in ("argmin", "argmax")
    if is_index and condition is not None:
        raise errors.not_yet(f"`{name}` of a filtered generator", g.condition.span)  # type: ignore[union-attr]
    state: dict[str, object] = {}
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
            operand = join_cells(w, f"`{name}`", [Typed(cell, body.build, body.span)], dtypes, span)
        state["axes"], state["operand"] = axes, operand
        sets = tuple(b.set for b in bounds)
        own: Set = sets[0] if len(sets) == 1 else TupleSet(sets)
        result = element(own) if is_index else operand
        try:
            solver.unify(answer, table(axes, result))
        except Mismatch as m:
            raise clash(w, f"the result of `{name}`", answer, result, span, m) from None
        return True

    solver.later(attempt)

    def build() -> core.Expr:
        axes = [solver.zonk_set(a) for a in state["axes"]]  # type: ignore[attr-defined]
        operand = solver.zonk(state["operand"])  # type: ignore[arg-type]
        frame = [Var("f") for _ in axes]

        def point() -> core.Expr:
            value = convert(w, body.build(), body.type, table(axes, operand))
            for v, axis in zip(frame, axes, strict=True):
                value = core.At(value, core.Ref(v), axis)
            if condition is not None:
                value = core.If(condition.build(), value, unit_of(w, monoid, operand))
            return value

        if is_index and len(bounds) > 1:
            inner = _arg_of_pairs(w, monoid, bounds, point, operand, span)
        else:
            inner = _nested(w, monoid, bounds, point, operand, span)
        if name == "mean":
            inner = _mean(w, bounds, condition, inner, operand, span)
        for v, axis in zip(reversed(frame), reversed(axes), strict=True):
            inner = core.For(v, axis, inner)
        return inner

    return Typed(answer, build, span)


def _nested(
    w: Walk, monoid: str, bounds: list[Bound], point: Build, t: Type, span: Span
) -> core.Expr:
    build = point
    for b in reversed(bounds):
        build = _reduce_over(w, monoid, b, b.body(build), t, span)
    return build()


def _reduce_over(
    w: Walk, monoid: str, b: Bound, inner: Build, t: Type, span: Span
) -> Build:
    return wrap(
        b.outside, lambda: _reduce(w, monoid, b.var, w.solver.zonk_set(b.set), inner(), t, span)
    )


def _arg_of_pairs(
    w: Walk, monoid: str, bounds: list[Bound], point: Build, t: Type, span: Span
) -> core.Expr:
    """argmin over several binders: one axis of tuples."""
    pair = Var("p")
    body = point
    for k, b in reversed(list(enumerate(bounds))):
        body = _let_part(b, pair, k, b.body(body))
    own = TupleSet(tuple(w.solver.zonk_set(b.set) for b in bounds))
    expr = _reduce(w, monoid, pair, own, body(), t, span)
    lets = tuple(x for b in bounds for x in b.outside)
    return wrap(lets, lambda: expr)()


def _let_part(b: Bound, pair: Var, k: int, inner: Build) -> Build:
    return lambda: core.Let(b.var, core.Part(core.Ref(pair), k), inner())


def _mean(
    w: Walk, bounds: list[Bound], condition: Typed | None, total: core.Expr, t: Type, span: Span
) -> core.Expr:
    one = core.Const(Lit(1, DType.I64))
    zero = core.Const(Lit(0, DType.I64))

    def point() -> core.Expr:
        return one if condition is None else core.If(condition.build(), one, zero)

    if condition is None and all(not b.outside for b in bounds):
        count: core.Expr = core.Number(_count(w, bounds))
    else:
        count = _nested(w, "add", bounds, point, INT, span)
    return _divide(w, total, count, t)


def _count(w: Walk, bounds: list[Bound]) -> Size:
    total = size(1)
    for b in bounds:
        total = total * cardinality(w.solver.zonk_set(b.set))
    return total


# ---------------------------------------------------------------- fold, reduce, scan

_OPERATOR_MONOIDS = {"+": "add", "*": "mul", "and": "and", "or": "or"}


def _named_monoid(e: s.Expr) -> str | None:
    match e:
        case s.Section(_, op, None):
            return _OPERATOR_MONOIDS.get(op)
        case s.Name(_, ("min" | "max") as which):
            return which
        case _:
            return None


def _fold(name: str) -> Builtin:
    """fold(f, x0, xs), reduce(op, unit, xs), scan(op, unit, xs), scan_exclusive(op, unit, xs)."""

    def builtin(
        w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None
    ) -> Typed:
        solver = w.solver
        plain = [a for a in e.args if not isinstance(a, s.Keyword | s.Generator)]
        monoid = _named_monoid(plain[0]) if plain else None
        if name == "reduce" and len(e.args) == 2 and monoid in ("min", "max", "add", "mul"):
            short = {"add": "sum", "mul": "prod"}.get(monoid, monoid)
            return _REDUCERS[short](w, s.Call(e.span, plain[0], e.args[1:]), None, expected)
        if len(plain) != 3 or len(e.args) != 3:
            raise errors.arity(
                name, 3, len(e.args), e.span,
                "((s, a) -> s, s, n=>a) -> " + ("s" if name in ("fold", "reduce") else "n=>s"),
            )
        start = w.infer(plain[1])
        xs = w.infer(plain[2])
        own, cell = solver.set("n"), solver.type("a")
        state = _widest(w, start, xs, name)
        if name != "fold":
            solver.unify(cell, state)
        function = w.infer(plain[0], Function((state, cell), state))
        _function_of(w, function, Function((state, cell), state), plain[0].span)
        is_scan = name.startswith("scan")
        result: Type = Table(own, state) if is_scan else state

        def call(cells: list[core.Expr]) -> core.Expr:
            axis = solver.zonk_set(own)
            kind = solver.zonk(state)
            acc, t, table_var, f = Var("acc"), Var("t"), Var("xs"), Var("f")
            at = core.At(core.Ref(table_var), core.Ref(t), axis)
            step = core.Call(core.Ref(f), (core.Ref(acc), at))
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


def _widest(w: Walk, start: Typed, xs: Typed, name: str) -> Type:
    """The state's type: the start's; a literal start takes the elements' type for a scan."""
    solver = w.solver
    kind = solver.head(start.type)
    if name != "fold" and solver.is_unknown(kind):
        _, cell = solver.axes(xs.type)
        if solver.dtypes_of(cell) is not None:
            return join_cells(
                w, f"`{name}`", [start, Typed(cell, xs.build, xs.span)], NUMBERS, start.span
            )
    return kind


def _function_of(w: Walk, f: Typed, wanted: Type, span: Span) -> None:
    equate(w, f"`{span.text}`", wanted, f.type, span)


# ---------------------------------------------------------------- conversions and sizes


def conversion(w: Walk, name: str, arg: Typed, span: Span) -> Typed:
    """`Int(x)`, `F32(x)`, `U8(x)`: lifted; to a narrower integer it is checked."""
    solver = w.solver
    target: Type = w.float if name == "Float" else SCALARS[name]

    def scalars(w: Walk, cells: list[Typed], span: Span) -> tuple[list[Type], Type]:
        kind = solver.head(cells[0].type)
        if isinstance(kind, Index):
            return [INT], target
        if solver.is_unknown(kind) and isinstance(target, Scalar):
            allowed = solver.dtypes_of(kind)
            if allowed is not None and target.dtype in allowed and target.dtype.is_float:
                solver.unify(kind, target)
                return [target], target
        if solver.dtypes_of(kind) is None:
            raise errors.operand(name, "a number or an index", show(w, kind), cells[0].span)
        return [kind], target

    def call(args: list[core.Expr]) -> core.Expr:
        x = Var("x")
        found = solver.zonk(arg.type)
        while isinstance(found, Table):
            found = found.cell
        if isinstance(found, Index):
            found = INT
        wanted = solver.zonk(target)
        cast: core.Expr = core.Op("cast", (core.Ref(x),), wanted)
        if found == wanted:
            return args[0]
        test = _fits(found, wanted, x)
        if test is not None and isinstance(wanted, Scalar):
            message = f"a value does not fit {wanted.dtype.surface_name}"
            cast = core.Check(test, message, cast, span)
        return core.Let(x, args[0], cast)

    def text(texts: list[str]) -> str:
        return f"{name}({texts[0]})"

    callee = Callee(f"`{name}`", (TypeVar(Var("scalar")),), target, call, scalars, text=text)
    result = apply(w, callee, [arg], span)
    if name == "Int":
        result.poly, result.lets = arg.poly, arg.lets
    return result


def _fits(found: Type, wanted: Type, x: Var) -> core.Expr | None:
    """The test that a value is representable in a narrower integer type; None if it always is
    (Int of a float truncates and saturates)."""
    if not (isinstance(found, Scalar) and isinstance(wanted, Scalar)):
        return None
    a, b = found.dtype, wanted.dtype
    if not b.is_integer or a is DType.BOOL or (b is DType.I64 and not a.is_unsigned):
        return None
    low = 0 if b.is_unsigned else -(1 << (b.bits - 1))
    high = (1 << (b.bits - (0 if b.is_unsigned else 1))) - 1
    tests: list[core.Expr] = []
    if a.is_float:
        lowest, highest = float(low), float(high)
        return _both(
            core.Op("ge", (core.Ref(x), core.Const(Lit(lowest, a))), found),
            core.Op("le", (core.Ref(x), core.Const(Lit(highest, a))), found),
        )
    a_low = 0 if a.is_unsigned else -(1 << (a.bits - 1))
    a_high = (1 << (a.bits - (0 if a.is_unsigned else 1))) - 1
    if a_low < low:
        tests.append(core.Op("ge", (core.Ref(x), core.Const(Lit(low, a))), found))
    if a_high > high:
        tests.append(core.Op("le", (core.Ref(x), core.Const(Lit(high, a))), found))
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else _both(tests[0], tests[1])


def _both(a: core.Expr, b: core.Expr) -> core.Expr:
    return core.If(a, b, FALSE)


def _size(w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None) -> Typed:
    """`size(n)`, `size(x)`: how many elements a set, or the first axis of a table, has."""
    if args is None and len(e.args) == 1:
        a = e.args[0]
        if isinstance(a, s.Keyword | s.Generator):
            raise errors.arity("size", 1, 1, e.span, "n=>a -> Int")
        own = as_set(w, a)
        if own is None:
            typed = w.infer(a)
            t = w.solver.head(typed.type)
            if w.solver.is_open(t):
                t = Table(w.solver.set(), w.solver.type("a"))
                w.solver.unify(typed.type, t)
            if not isinstance(t, Table):
                raise errors.not_a_table_argument("size", a.span.text, show(w, t), a.span)
            own = t.set
        found = own
        poly = cardinality(w.solver.zonk_set(found))
        return Typed(
            INT, lambda: core.Number(cardinality(w.solver.zonk_set(found))), e.span, poly
        )
    raise errors.arity("size", 1, len(e.args), e.span, "n=>a -> Int")


def _bring(how: str) -> Builtin:
    """`clamp(k, n)` and `wrap(k, n)`; `clamp(x, low, high)` of numbers."""

    def builtin(
        w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None
    ) -> Typed:
        plain = [a for a in e.args if not isinstance(a, s.Keyword | s.Generator)]
        if how == "clamp" and len(plain) == 3:
            x, low, high = (w.infer(a) for a in plain)
            return apply_primitive(
                w, "min", [apply_primitive(w, "max", [x, low], e.span), high], e.span
            )
        if len(plain) == 1 and isinstance(kind := _expected_set(w, expected), Index):
            return into_set(w, how, w.infer(plain[0]), kind.set, e.span)
        if len(plain) != 2:
            raise errors.arity(how, 2, len(plain), e.span, "(Int, n) -> n")
        own = as_set(w, plain[1])
        if own is None:
            kind_text = "a number" if w.infer(plain[1]).poly is not None else "no index set"
            raise errors.not_a_set(plain[1].span.text, kind_text, plain[1].span)
        return into_set(w, how, w.infer(plain[0]), own, e.span)

    return builtin


def _expected_set(w: Walk, expected: Type | None) -> Type | None:
    return w.solver.head(expected) if expected is not None else None


def _filled(name: str) -> Builtin:
    """`zeros(n, m)`, `ones(n)`, `full(n, m, value)`: tables over the given sets."""

    def builtin(
        w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None
    ) -> Typed:
        plain = [a for a in e.args if not isinstance(a, s.Keyword | s.Generator)]
        count = len(plain) - (1 if name == "full" else 0)
        if count < 1:
            raise errors.arity(name, 1, len(plain), e.span, "(n, …) -> n=>…=>Float")
        sets: list[Set] = []
        for a in plain[:count]:
            own = as_set(w, a)
            if own is None:
                typed = w.infer(a)
                if typed.poly is None:
                    raise errors.not_a_set(a.span.text, "no index set", a.span)
                own = Fin(typed.poly)
            sets.append(own)
        if name == "full":
            value = w.infer(plain[-1])
        else:
            t = w.float
            value = Typed(
                t, lambda: core.ConstOf(0.0 if name == "zeros" else 1.0, w.solver.zonk(t)), e.span
            )

        def build() -> core.Expr:
            v = Var("x")
            body: core.Expr = core.Ref(v)
            for own in reversed(sets):
                body = core.For(Var("i"), w.solver.zonk_set(own), body)
            return core.Let(v, value.build(), body)

        return Typed(table(sets, value.type), build, e.span)

    return builtin


def _bitcast(w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None) -> Typed:
    """`bitcast(F32, u)`: the same bits as another type of the same width."""
    plain = [a for a in e.args if not isinstance(a, s.Keyword | s.Generator)]
    if len(plain) != 2 or not isinstance(plain[0], s.Name) or (
        plain[0].name not in SCALARS and plain[0].name != "Float"
    ):
        raise errors.arity("bitcast", 2, len(plain), e.span, "(type, number) -> type")
    target = SCALARS.get(plain[0].name, Scalar(DType.F64))
    arg = w.infer(plain[1])

    def scalars(w: Walk, cells: list[Typed], span: Span) -> tuple[list[Type], Type]:
        kind = w.solver.head(cells[0].type)
        if w.solver.is_unknown(kind):
            whole = w.solver.dtypes_of(kind) != FLOATS
            equate(w, f"`{cells[0].span.text}`", INT if whole else F64, kind, cells[0].span)
            kind = w.solver.head(kind)
        if not isinstance(kind, Scalar) or not isinstance(target, Scalar) or (
            kind.dtype.bits != target.dtype.bits
        ):
            raise errors.operand("bitcast", "types of one width", show(w, kind), cells[0].span)
        return [kind], target

    callee = Callee(
        "`bitcast`", (TypeVar(Var("scalar")),), target,
        lambda cells: core.Op("bitcast", (cells[0],), target), scalars,
    )
    return apply(w, callee, [arg], e.span)


def contract(w: Walk, left: Typed, right: Typed, span: Span, op_span: Span) -> Typed:
    """`a @ b`: the last axis of `a` with the first of `b`; every other axis stays. Not lifted."""
    solver = w.solver
    (a_axes, a_cell), (b_axes, b_cell) = solver.axes(left.type), solver.axes(right.type)
    for t, axes, cell, side in ((left, a_axes, a_cell, "left"), (right, b_axes, b_cell, "right")):
        if not axes:
            if not solver.is_open(cell):
                raise errors.contraction(
                    show(w, left.type), show(w, right.type), span, left.span, right.span, (),
                    f"the {side} side is `{show(w, t.type)}`, which has no axis",
                )
            fresh = Table(solver.set(), solver.type("a", NUMBERS))
            solver.unify(cell, fresh)
    (a_axes, a_cell), (b_axes, b_cell) = solver.axes(left.type), solver.axes(right.type)
    try:
        solver.unify_set(a_axes[-1], b_axes[0])
    except Mismatch:
        helps: tuple[str, ...] = ()
        if len(a_axes) == len(b_axes) > 2:
            helps = ("for a shared batch axis: `matmul~(2, 2)(a, b)`",)
        elif len(b_axes) > 1 and solver.same_set(a_axes[-1], b_axes[-1]):
            helps = (f"`{left.span.text} @ transpose({right.span.text})`",)
        elif len(a_axes) > 1 and solver.same_set(a_axes[0], b_axes[0]):
            helps = (f"`transpose({left.span.text}) @ {right.span.text}`",)
        raise errors.contraction(
            show(w, left.type), show(w, right.type), span, left.span, right.span, helps,
            "they have different index sets",
        ) from None
    sides = [Typed(a_cell, left.build, left.span), Typed(b_cell, right.build, right.span)]
    cell = join_cells(w, "`@`", sides, NUMBERS, op_span)
    rows, columns = a_axes[:-1], b_axes[1:]

    def build() -> core.Expr:
        a, b, k = Var("a"), Var("b"), Var("k")
        inner = solver.zonk_set(a_axes[-1])
        i = [Var("i") for _ in rows]
        j = [Var("j") for _ in columns]
        x: core.Expr = core.Ref(a)
        for v, own in zip(i, rows, strict=True):
            x = core.At(x, core.Ref(v), solver.zonk_set(own))
        x = core.At(x, core.Ref(k), inner)
        y: core.Expr = core.At(core.Ref(b), core.Ref(k), solver.zonk_set(b_axes[0]))
        for v, own in zip(j, columns, strict=True):
            y = core.At(y, core.Ref(v), solver.zonk_set(own))
        kind = solver.zonk(cell)
        product = core.Op(
            "mul", (convert(w, x, a_cell, kind), convert(w, y, b_cell, kind)), kind
        )
        body = _reduce(w, "add", k, inner, product, cell, span)
        for v, own in zip(reversed(i + j), reversed(rows + columns), strict=True):
            body = core.For(v, solver.zonk_set(own), body)
        return core.Let(a, left.build(), core.Let(b, right.build(), body))

    return Typed(table(rows + columns, cell), build, span)


_REDUCERS: dict[str, Builtin] = {name: _reduction(name) for name in _REDUCTIONS}

BUILTINS: dict[str, Builtin] = {
    **_REDUCERS,
    "fold": _fold("fold"),
    "reduce": _fold("reduce"),
    "scan": _fold("scan"),
    "scan_exclusive": _fold("scan_exclusive"),
    "size": _size,
    "clamp": _bring("clamp"),
    "wrap": _bring("wrap"),
    "zeros": _filled("zeros"),
    "ones": _filled("ones"),
    "full": _filled("full"),
    "bitcast": _bitcast,
}
