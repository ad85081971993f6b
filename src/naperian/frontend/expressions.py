"""The walk over expressions: for each one its type, and how to build its core."""

from __future__ import annotations

from contextlib import suppress

from naperian.core import syntax as core
from naperian.dtypes import FLOATS, DType
from naperian.frontend import errors
from naperian.frontend.annotations import SCALARS, as_type
from naperian.frontend.binders import Bound, bind_pattern, open_binder, pattern_type
from naperian.frontend.builtins import BUILTINS, contract, conversion
from naperian.frontend.calls import (
    apply_value,
    function_value,
    require_known,
    use_definition,
)
from naperian.frontend.cells import convert, equate, show, widens
from naperian.frontend.indexing import _checked as checked_index
from naperian.frontend.indexing import get, index
from naperian.frontend.lifting import ranked
from naperian.frontend.operators import (
    apply_primitive,
    binary,
    compare,
    join_types,
    ternary,
    unary,
)
from naperian.frontend.scope import SetName, SizeName, TypeName, Variable
from naperian.frontend.solve import NUMBERS, Because, Mismatch
from naperian.frontend.typed import Build, Typed, Wrap, wrap
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.prims import FLOAT_FUNCTIONS, OPERATORS, PRIMITIVES
from naperian.sizes import ONE, ZERO, Size, size
from naperian.source import Span
from naperian.surface import syntax as s
from naperian.types import (
    BOOL,
    INT,
    EnumSet,
    Fin,
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
    show_type,
    table,
)


def infer(w: Walk, e: s.Expr, expected: Type | None = None) -> Typed:
    """The typed form of an expression; `expected` only guides, it is not checked here."""
    match e:
        case s.Name():
            return name(w, e, expected)
        case s.Number():
            return number(w, e)
        case s.Binary(_, "@", op_span, left, right):
            return contract(w, w.infer(left), w.infer(right), e.span, op_span)
        case s.Binary():
            return binary(w, e)
        case s.Unary():
            return unary(w, e)
        case s.Compare():
            return compare(w, e)
        case s.Ternary():
            return ternary(w, e, expected)
        case s.Call():
            return call(w, e, expected)
        case s.IndexExpr():
            return index(w, e)
        case s.Checked(_, s.IndexExpr() as inner):
            return index(w, inner, checked=True)
        case s.Checked(span, operand):
            return _checked_value(w, operand, span, expected)
        case s.Comprehension():
            return comprehension(w, e, expected)
        case s.Bracket():
            return bracket(w, e, expected)
        case s.TupleExpr(span, items):
            return _tuple(w, span, items, expected)
        case s.Lambda():
            return lambda_(w, e, expected)
        case s.Section():
            return section(w, e, expected)
        case s.Field():
            return field(w, e)
        case s.As():
            return recast(w, e)
        case s.Rank(span, function, _):
            raise errors.not_yet("a ranked function as a value", function.span.to(span))
        case s.RangeExpr(span, _, _, _):
            raise errors.not_a_value(span.text, "a range", span)
        case s.String(span, _):
            raise errors.text_as_data(span)
        case s.Block():
            return w.block(e, expected)
        case s.TableType(span, _, _, _) | s.FunctionType(span, _, _, _) | s.Exists(span, _, _):
            raise errors.not_a_value(span.text, "a type", span)


# ---------------------------------------------------------------- names and literals


def name(w: Walk, e: s.Name, expected: Type | None) -> Typed:
    entry = w.scope.find(e.name)
    match entry:
        case Variable(var, kind, _, poly, _):
            if poly is None and w.solver.head(kind) == INT:
                poly = size(var)
            exact = isinstance(w.solver.head(kind), Index)
            return Typed(kind, lambda: core.Ref(var), e.span, poly, exact=exact)
        case SetName(own, _):
            count = cardinality(own)
            return Typed(
                INT, lambda: core.Number(w.solver.zonk_size(count)), e.span, count, exact=True
            )
        case SizeName(var, _):
            return Typed(INT, lambda: core.Number(size(var)), e.span, size(var), exact=True)
        case TypeName(_, _):
            raise errors.not_a_value(e.name, "a type", e.span)
        case None:
            pass
    member = _member(w, e, expected)
    if member is not None:
        return member
    definition = w.globals.definitions.get(e.name) or (
        None if e.name in BUILTINS else w.library.definitions.get(e.name)
    )
    if definition is not None:
        return use_definition(w, definition, e.name, e.span, expected)
    if e.name in w.globals.failed:
        raise errors.Silent()
    if e.name in FLOAT_FUNCTIONS or e.name in ("abs", "sign", "min", "max"):
        arity = PRIMITIVES[e.name].arity
        return function_value(
            w, arity, lambda args: apply_primitive(w, e.name, args, e.span), e.span, expected
        )
    if e.name in BUILTINS:
        return function_value(
            w, 1, lambda args: BUILTINS[e.name](w, _call_of(w, e, args), args, expected),
            e.span, expected,
        )
    if e.name in ("True", "False"):
        truth = core.Const(Lit(e.name == "True", DType.BOOL))
        return Typed(BOOL, lambda: truth, e.span)
    if e.name in SCALARS or e.name == "Float":
        return function_value(
            w, 1, lambda args: conversion(w, e.name, args[0], e.span), e.span, expected
        )
    if e.name in w.globals.enums:
        poly = cardinality(w.globals.enums[e.name].set)
        return Typed(INT, lambda: core.Number(poly), e.span, poly)
    raise errors.unknown_name(e.name, e.span, known_names(w))


def _call_of(w: Walk, e: s.Name, args: list[Typed]) -> s.Call:
    return s.Call(e.span, e, tuple(s.Name(a.span, "_") for a in args))


def known_names(w: Walk) -> list[str]:
    return [
        *w.scope.all_names(), *w.globals.names(), *w.library.definitions, *BUILTINS,
        *FLOAT_FUNCTIONS, *SCALARS,
    ]


def _member(w: Walk, e: s.Name, expected: Type | None) -> Typed | None:
    """`X` of an enum, where the expected type decides or only one enum has it."""
    owners = {n: info for n, info in w.globals.enums.items() if e.name in info.set.members}
    if not owners:
        return None
    kind = w.solver.head(expected) if expected is not None else None
    if isinstance(kind, Index):
        own = w.solver.head_set(kind.set)
        for info in owners.values():
            if info.set == own:
                return enum_member(info.set, e.name, e.span)
    if len(owners) > 1:
        raise errors.bare_member(e.name, list(owners), e.span)
    return enum_member(next(iter(owners.values())).set, e.name, e.span)


def enum_member(own: EnumSet, member: str, span: Span) -> Typed:
    ordinal = size(own.members.index(member))
    return Typed(Index(own), lambda: core.Number(ordinal), span)


def number(w: Walk, e: s.Number) -> Typed:
    """A literal takes the type it is used at; left alone it is Int or Float."""
    whole = isinstance(e.value, int)
    t = w.solver.type("number", NUMBERS if whole else FLOATS, DType.I64 if whole else DType.F64)
    w.solver.unknown[t.var].floats = not whole

    def build() -> core.Expr:
        return constant(w, e.value, t, e.span)

    poly = size(int(e.value)) if whole else None
    return Typed(t, build, e.span, poly, exact=whole)


def constant(w: Walk, value: int | float, t: Type, span: Span) -> core.Expr:
    kind = w.solver.zonk(t)
    match kind:
        case Scalar(d):
            if d.is_float:
                return core.Const(Lit(float(value), d))
            low = 0 if d.is_unsigned else -(1 << (d.bits - 1))
            if not low <= value < (1 << (d.bits - (0 if d.is_unsigned else 1))):
                raise errors.literal_range(int(value), d, span)
            return core.Const(Lit(int(value), d))
        case TypeVar():
            return core.ConstOf(value, kind)
        case _:
            return core.Number(size(int(value)))


def _tuple(w: Walk, span: Span, items: tuple[s.Expr, ...], expected: Type | None) -> Typed:
    kind = w.solver.head(expected) if expected is not None else None
    wanted = kind.items if isinstance(kind, Tuple) and len(kind.items) == len(items) else None
    parts = [w.infer(x, wanted[k] if wanted else None) for k, x in enumerate(items)]
    return Typed(
        Tuple(tuple(p.type for p in parts)),
        lambda: core.Pack(tuple(p.build() for p in parts)),
        span,
    )


# ---------------------------------------------------------------- functions


def lambda_(w: Walk, e: s.Lambda, expected: Type | None) -> Typed:
    solver = w.solver
    kind = solver.head(expected) if expected is not None else None
    known: tuple[Type, ...] | None = None
    result_hint: Type | None = None
    if isinstance(kind, Function):
        if len(kind.params) != len(e.params):
            raise errors.lambda_arity(len(kind.params), len(e.params), show(w, kind), e.span)
        known, result_hint = kind.params, kind.result
    variables: list[tuple[Var, Type]] = []
    wraps: list[Wrap] = []
    with w.inside(w.scope.inner(block=True, function=True)) as scope:
        for k, p in enumerate(e.params):
            t = known[k] if known else pattern_type(w, p)
            if isinstance(p, s.PName):
                v = Var(p.name)
                kind_p = solver.head(t)
                poly = size(v) if isinstance(kind_p, Index) or kind_p == INT else None
                scope.names[p.name] = Variable(v, t, p.span, poly, "parameter")
                if isinstance(kind_p, Index):
                    scope.assume_index(v, kind_p.set)
            else:
                v = Var("p")
                value = Typed(t, _ref(v), p.span)
                wraps.append(bind_pattern(w, p, value, "parameter"))
            variables.append((v, t))
        body = w.infer(e.body, result_hint)

    def build() -> core.Expr:
        inner = body.build()
        for f in reversed(wraps):
            inner = f(inner)
        return core.Lambda(tuple((v, solver.zonk(t)) for v, t in variables), inner)

    whole = Typed(Function(tuple(t for _, t in variables), body.type), build, e.span)
    require_known(w, whole)
    return whole


def _ref(v: Var) -> Build:
    return lambda: core.Ref(v)


def section(w: Walk, e: s.Section, expected: Type | None) -> Typed:
    """`(+)` and `(* 2.0)` as functions."""
    op = OPERATORS.get(e.op)
    if op is None:
        raise errors.not_yet(f"`({e.op})` as a function", e.span)
    if e.right is None:
        return function_value(
            w, 2, lambda args: apply_primitive(w, op, args, e.span, e.op), e.span, expected
        )
    right = w.infer(e.right)
    return function_value(
        w, 1, lambda args: apply_primitive(w, op, [args[0], right], e.span, e.op), e.span, expected
    )


# ---------------------------------------------------------------- calls and fields


def call(w: Walk, e: s.Call, expected: Type | None) -> Typed:
    match e.function:
        case s.Name(span, fname) if w.scope.find(fname) is None:
            if fname in w.globals.definitions:
                definition = w.globals.definitions[fname]
                return _call_definition(w, definition, fname, e, expected)
            if fname in BUILTINS:
                return BUILTINS[fname](w, e, None, expected)
            if fname in SCALARS or fname == "Float":
                args = plain_args(w, e)
                if len(args) != 1:
                    raise errors.arity(fname, 1, len(args), e.span, f"number -> {fname}")
                return conversion(w, fname, args[0], e.span)
            if fname in FLOAT_FUNCTIONS or fname in ("abs", "sign"):
                return _call_primitive(w, fname, e)
            if fname in w.library.definitions:
                return _call_definition(w, w.library.definitions[fname], fname, e, expected)
            if fname == "Fin":
                raise errors.not_a_value(e.span.text, "an index set", e.span)
            if fname in ("enumerate", "zip", "range", "len", "print"):
                raise errors.python_habit(fname, span)
        case s.Field(_, s.Name(_, module), member, member_span) if (
            w.scope.find(module) is None and module in w.globals.modules
        ):
            there = w.globals.modules[module]
            if member in there.failed:
                raise errors.Silent()
            if member not in there.definitions:
                raise errors.unknown_member(module, member, member_span, there.names())
            return _call_definition(
                w, there.definitions[member], f"{module}.{member}", e, expected
            )
        case s.Field(_, s.Name(_, failed), _, _) if failed in w.globals.failed:
            raise errors.Silent()
        case s.Field(span, base, "get", _):
            args_e = [a for a in e.args if not isinstance(a, s.Keyword | s.Generator)]
            if len(args_e) < 2:
                raise errors.arity("get", 2, len(args_e), e.span, "(index, default)")
            return get(w, w.infer(base), args_e[:-1], args_e[-1], e.span)
        case s.Field(span, base, method, method_span):
            if isinstance(base, s.Name) and method not in known_names(w):
                w.infer(base)  # a name that means nothing is told before the method is
            inner = s.Call(e.span, s.Name(method_span, method), (base, *e.args))
            return call(w, inner, expected)
        case s.Rank(_, function, ranks):
            return _call_ranked(w, e, function, ranks, expected)
        case _:
            pass
    return apply_value(w, w.infer(e.function), e)


def plain_args(w: Walk, e: s.Call) -> list[Typed]:
    """Positional arguments without special treatment."""
    out = []
    for a in e.args:
        if isinstance(a, s.Keyword):
            raise errors.unknown_keyword(e.function.span.text, a.name, a.span, [])
        if isinstance(a, s.Generator):
            out.append(generator_table(w, a))
        else:
            out.append(w.infer(a))
    return out


def _call_primitive(w: Walk, fname: str, e: s.Call) -> Typed:
    args = plain_args(w, e)
    wanted = PRIMITIVES[fname].arity
    if len(args) != wanted:
        signature = ", ".join(["Float"] * wanted)
        raise errors.arity(fname, wanted, len(args), e.span, f"({signature}) -> Float")
    return apply_primitive(w, fname, args, e.span)


def _call_definition(
    w: Walk, d: core.Definition, fname: str, e: s.Call, expected: Type | None
) -> Typed:
    from_generator = [a for a in e.args if isinstance(a, s.Generator)]
    if from_generator:
        value = generator_table(w, from_generator[0])
        return use_definition(w, d, fname, e.span, expected, [value], {})
    positional = [a for a in e.args if not isinstance(a, s.Keyword | s.Generator)]
    keywords = {a.name: a for a in e.args if isinstance(a, s.Keyword)}
    return use_definition(w, d, fname, e.span, expected, positional, keywords)


def _call_ranked(
    w: Walk, e: s.Call, function: s.Expr, ranks: tuple[int | None, ...], expected: Type | None
) -> Typed:
    """`f~(1, 1)(x, y)`."""
    count = len(e.args)
    if len(ranks) not in (1, count):
        raise errors.rank_count(function.span.text, count, len(ranks), function.span)
    args = plain_args(w, e)

    def make(cells: list[Typed]) -> Typed:
        match function:
            case s.Section(_, op, None) if op in OPERATORS:
                return apply_primitive(w, OPERATORS[op], cells, e.span, op)
            case s.Name(_, fname) if w.scope.find(fname) is None:
                d = w.globals.definitions.get(fname)
                if d is None and fname in BUILTINS:
                    return BUILTINS[fname](w, e, cells, expected)
                if d is None:
                    d = w.library.definitions.get(fname)
                if d is not None:
                    return use_definition(w, d, fname, e.span, None, cells, {})
                if fname in PRIMITIVES:
                    return apply_primitive(w, fname, cells, e.span)
            case _:
                pass
        return apply_value(w, w.infer(function), e, cells)

    return ranked(w, f"`{function.span.text}`", make, args, ranks, e.span)


def field(w: Walk, e: s.Field) -> Typed:
    """`Axis.X`, `module.name`."""
    match e.base:
        case s.Name(_, base) if w.scope.find(base) is None:
            if base in w.globals.failed:
                raise errors.Silent()
            if base in w.globals.enums:
                own = w.globals.enums[base].set
                if e.name not in own.members:
                    raise errors.unknown_member(base, e.name, e.name_span, list(own.members))
                return enum_member(own, e.name, e.span)
            if base in w.globals.modules:
                there = w.globals.modules[base]
                if e.name in there.failed:
                    raise errors.Silent()
                if e.name in there.definitions:
                    return use_definition(w, there.definitions[e.name], e.name, e.span, None)
                raise errors.unknown_member(base, e.name, e.name_span, there.names())
        case s.Field(_, s.Name(_, module), base, _) if module in w.globals.modules:
            info = w.globals.modules[module].enums.get(base)
            if info is not None and e.name in info.set.members:
                return enum_member(info.set, e.name, e.span)
        case _:
            pass
    typed = w.infer(e.base)
    if e.name == "T":
        raise errors.no_field(e.base.span.text, show(w, typed.type), e.name, e.name_span,
                              f"write `transpose({e.base.span.text})`")
    if e.name in ("shape", "size", "ndim"):
        raise errors.no_field(e.base.span.text, show(w, typed.type), e.name, e.name_span,
                              f"`size({e.base.span.text})` is the size of its first axis")
    raise errors.no_field(e.base.span.text, show(w, typed.type), e.name, e.name_span, "")


# ---------------------------------------------------------------- tables


def open_all(
    w: Walk, binders: tuple[s.Binder, ...], expected: Type | None = None
) -> tuple[list[Bound], Type | None]:
    """Open binders in order; the expected type of the body is what is left of `expected`."""
    bounds = []
    left = w.solver.head(expected) if expected is not None else None
    for b in binders:
        axis = left.set if isinstance(left, Table) and b.domain is None else None
        bounds.append(open_binder(w, b, axis))
        left = w.solver.head(left.cell) if isinstance(left, Table) else None
    return bounds, left


def nest(w: Walk, bounds: list[Bound], body: Build) -> Build:
    """The table of the body over the binders."""
    for b in reversed(bounds):
        body = _one(w, b, b.body(body))
    return body


def _one(w: Walk, b: Bound, inner: Build) -> Build:
    return wrap(b.outside, lambda: core.For(b.var, w.solver.zonk_set(b.set), inner()))


def comprehension(w: Walk, e: s.Comprehension, expected: Type | None) -> Typed:
    if e.condition is not None:
        raise errors.existential(e.condition.span)
    with w.inside(w.scope.inner(block=True)):
        bounds, left = open_all(w, e.binders, expected)
        body = w.infer(e.element, left)
    return Typed(table([b.set for b in bounds], body.type), nest(w, bounds, body.build), e.span)


def generator_table(w: Walk, g: s.Generator) -> Typed:
    """`e for i, j` as an argument: the table over one axis of all binders."""
    if g.condition is not None:
        raise errors.existential(g.condition.span)
    with w.inside(w.scope.inner(block=True)):
        bounds, _ = open_all(w, g.binders)
        body = w.infer(g.element)
    build = nest(w, bounds, body.build)
    if len(bounds) == 1:
        return Typed(Table(bounds[0].set, body.type), build, g.span)

    def one_axis() -> core.Expr:
        sets = tuple(w.solver.zonk_set(b.set) for b in bounds)
        return core.Recast(build(), sets, (TupleSet(sets),), w.solver.zonk(body.type))

    return Typed(Table(TupleSet(tuple(b.set for b in bounds)), body.type), one_axis, g.span)


def bracket(w: Walk, e: s.Bracket, expected: Type | None) -> Typed:
    """`[a, b, c]` and joins `[x, *xs]`."""
    solver = w.solver
    kind = solver.head(expected) if expected is not None else None
    cell_hint = kind.cell if isinstance(kind, Table) else None
    if any(isinstance(x, s.Star) for x in e.items):
        return join(w, e, cell_hint)
    items = [w.infer(x, cell_hint) for x in e.items if not isinstance(x, s.Star)]
    axis: Set = Fin(size(len(items)))
    if isinstance(kind, Table):
        own = solver.head_set(kind.set)
        if isinstance(own, EnumSet) and len(own.members) == len(items):
            axis = own
    if not items:
        cell: Type = cell_hint if cell_hint is not None else solver.type("a")
    else:
        try:
            cell = join_types(w, items, e.span)
        except errors.Reported as r:
            if r.diagnostic.code == "N0315":
                first, other = items[0], items[-1]
                raise errors.elements(
                    show(w, first.type), show(w, other.type), first.span, other.span
                ) from None
            raise

    def build() -> core.Expr:
        return core.Literal(
            solver.zonk_set(axis), tuple(convert(w, x.build(), x.type, cell) for x in items)
        )

    return Typed(Table(axis, cell), build, e.span)


def join(w: Walk, e: s.Bracket, cell_hint: Type | None) -> Typed:
    """`[a, *xs, b]`: pieces one after the other; the size is the sum."""
    solver = w.solver
    pieces: list[tuple[Typed, Size]] = []
    cells: list[Typed] = []
    for x in e.items:
        if isinstance(x, s.Star):
            if x.double:
                raise errors.not_yet("a grid of blocks", x.span)
            typed = w.infer(x.value)
            t = solver.head(typed.type)
            if not isinstance(t, Table):
                raise errors.not_a_table(x.value.span.text, show(w, t), x.value.span)
            pieces.append((typed, cardinality(solver.zonk_set(t.set))))
            cells.append(Typed(t.cell, typed.build, x.value.span))
        else:
            typed = w.infer(x, cell_hint)
            pieces.append((typed, ONE))
            cells.append(typed)
    cell = join_types(w, cells, e.span)
    total = ZERO
    for _, n in pieces:
        total = total + n

    def build() -> core.Expr:
        i = Var("i")
        lets: list[tuple[Var, core.Expr]] = []
        arms: list[tuple[Size, core.Expr]] = []
        start = ZERO
        for (typed, n), x, c in zip(pieces, e.items, cells, strict=True):
            value = typed.build()
            if isinstance(x, s.Star):
                v = Var("xs")
                lets.append((v, value))
                t = solver.zonk(typed.type)
                assert isinstance(t, Table)
                value = core.At(core.Ref(v), core.Number(size(i) - start), t.set)
            else:
                v = Var("x")
                lets.append((v, value))
                value = core.Ref(v)
            start = start + solver.zonk_size(n)
            arms.append((start, convert(w, value, c.type, cell)))
        body = arms[-1][1]
        for end, value in reversed(arms[:-1]):
            test = core.Op("lt", (core.Number(size(i)), core.Number(end)), INT)
            body = core.If(test, value, body)
        expr: core.Expr = core.For(i, Fin(solver.zonk_size(total)), body)
        for v, value in reversed(lets):
            expr = core.Let(v, value, expr)
        return expr

    return Typed(Table(Fin(total), cell), build, e.span)


# ---------------------------------------------------------------- conversions of axes


def _checked_value(w: Walk, operand: s.Expr, span: Span, expected: Type | None) -> Typed:
    """`k?` away from an axis: the set is what the place expects."""
    kind = w.solver.head(expected) if expected is not None else None
    if not isinstance(kind, Index):
        raise errors.undetermined(f"the index `{span.text}`", span)
    return Typed(kind, checked_index(w, w.infer(operand), kind.set, span), span)


def recast(w: Walk, e: s.As) -> Typed:
    """`e as T`: the same data under other index sets."""
    solver = w.solver
    target = as_type(w, e.type)
    new, cell = solver.axes(target)
    value = w.infer(e.operand, target if isinstance(e.operand, s.Bracket) else None)
    all_axes, found = solver.axes(value.type)
    if solver.is_open(found):
        raise errors.undetermined(f"`{e.operand.span.text}`", e.operand.span)
    old = all_axes
    if not new or not old:
        raise errors.wrong_type(
            "the operand of `as`", show(w, target), show(w, value.type), e.operand.span,
            notes=("`as` changes index sets; `Int(x)`, `F32(x)` … convert numbers",),
        )
    kept: Type = cell
    _cells(w, e, found, cell)
    left, right = _product(old), _product(new)
    scope = w.scope

    def goal() -> None:
        if e.checked:
            return
        a, b = solver.zonk_size(left), solver.zonk_size(right)
        with w.inside(scope):
            if not scope.facts().proves_equal(a, b):
                raise errors.recast_sizes(
                    show(w, value.type), show_type(solver.zonk(target)), repr(a), repr(b), e.span
                )

    with suppress(Mismatch):  # the goal below says it in the words of `as`
        solver.unify_size(left, right, Because(e.span, f"`{e.span.text}`"))
    solver.goals.append(goal)

    def build() -> core.Expr:
        body = convert(w, value.build(), value.type, table(old, kept))
        expr: core.Expr = core.Recast(
            body,
            tuple(solver.zonk_set(x) for x in old),
            tuple(solver.zonk_set(x) for x in new),
            solver.zonk(kept),
        )
        if e.checked:
            same = core.Op(
                "eq", (core.Number(solver.zonk_size(left)), core.Number(solver.zonk_size(right))),
                INT,
            )
            expr = core.Check(same, f"`{e.span.text}` needs equally many elements", expr, e.span)
        return expr

    return Typed(target, build, e.span)


def _cells(w: Walk, e: s.As, found: Type, wanted: Type) -> None:
    from_scalar = w.solver.head(found)
    if w.solver.dtypes_of(from_scalar) is not None and w.solver.dtypes_of(wanted) is not None:
        if w.solver.is_unknown(from_scalar) or w.solver.is_unknown(wanted):
            equate(w, "the elements", wanted, from_scalar, e.operand.span)
            return
    if not widens(w, found, wanted):
        equate(w, "the elements", wanted, found, e.operand.span)


def _product(sets: list[Set]) -> Size:
    total = ONE
    for x in sets:
        total = total * cardinality(x)
    return total

