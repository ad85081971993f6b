"""The walk over expressions: for each one its type, and how to build its core."""

from __future__ import annotations

from functools import partial

from naperian.core import syntax as core
from naperian.dtypes import FLOATS, DType
from naperian.frontend import (
    data,
    data_errors,
    effects,
    errors,
    habit_errors,
    index_errors,
    lift_errors,
    limit_errors,
    name_errors,
    references,
)
from naperian.frontend.annotations import SCALARS
from naperian.frontend.binders import bind_pattern, pattern_type
from naperian.frontend.boxes import alone, open_box
from naperian.frontend.builtins import BUILTINS, contract
from naperian.frontend.calls import (
    apply_value,
    function_value,
    require_known,
    use_definition,
)
from naperian.frontend.cells import show
from naperian.frontend.conversions import conversion
from naperian.frontend.fields import field as struct_field
from naperian.frontend.fields import has_member, method
from naperian.frontend.in_range import checked_index, numbered
from naperian.frontend.indexing import get, index
from naperian.frontend.lifting import ranked
from naperian.frontend.operators import (
    apply_primitive,
    binary,
    compare,
    ternary,
    unary,
)
from naperian.frontend.scalars import NUMBERS
from naperian.frontend.scope import SetName, SizeName, TypeName, Variable
from naperian.frontend.tables import bracket, comprehension, generator_table, recast
from naperian.frontend.typed import Build, Typed, Wrap
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.prims import FLOAT_FUNCTIONS, OPERATORS, PRIMITIVES
from naperian.sizes import ONE, Size, size
from naperian.source import Span
from naperian.surface import syntax as s
from naperian.type_show import show_set
from naperian.types import (
    BOOL,
    INT,
    Data,
    EnumSet,
    Function,
    Index,
    Reference,
    Scalar,
    Table,
    Tuple,
    Type,
    TypeVar,
    cardinality,
    numbers,
)


def infer(w: Walk, e: s.Expr, expected: Type | None = None) -> Typed:
    """The typed form of an expression, opened if it is a box; `expected` only guides, it is not
    checked here."""
    around, w.place = w.place, e.span
    made = open_box(w, _infer(w, e, expected))
    w.place = around
    return made


def _infer(w: Walk, e: s.Expr, expected: Type | None) -> Typed:
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
        case s.IndexExpr() | s.Checked(_, s.IndexExpr()) if references.is_element(w, e):
            return references.read_element(w, e)
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
            return field(w, e, expected)
        case s.As():
            return recast(w, e)
        case s.Rank():
            return ranked_value(w, e, expected)
        case s.RangeExpr(span):
            raise index_errors.not_a_value(span.text, "a range", span)
        case s.String(span, _):
            raise errors.text_as_data(span)
        case s.Block():
            return w.block(e, expected)
        case s.TableType(span, _, _, _) | s.FunctionType(span, _, _, _) | s.Exists(span, _, _):
            raise index_errors.not_a_value(span.text, "a type", span)


# ---------------------------------------------------------------- names and literals


def name(w: Walk, e: s.Name, expected: Type | None) -> Typed:
    entry = w.scope.find(e.name)
    match entry:
        case Variable(_, kind) if isinstance(w.solver.head(kind), Reference):
            return references.read(w, e.name, e.span)
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
            raise index_errors.not_a_value(e.name, "a type", e.span)
        case None:
            pass
    member = _member(w, e, expected)
    if member is not None:
        return member
    maker = data.maker(w, e.name, expected, e.span)
    if maker is not None:
        return use_maker(w, maker, e.name, e.span, expected)
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
    raise habit_errors.habit(e.name, e.span) or name_errors.unknown_name(
        e.name, e.span, known_names(w)
    )


def use_maker(
    w: Walk, d: core.Definition, name: str, span: Span, expected: Type | None
) -> Typed:
    """A constructor without parentheses: a value if it has no fields, else a function."""
    return known_parameters(w, use_definition(w, d, name, span, expected), span)


def known_parameters(w: Walk, made: Typed, span: Span) -> Typed:
    """The data made, of which all parameters must be known at the end: `None` alone is nothing."""

    def goal() -> None:
        _, kind = w.solver.axes(made.type)
        if isinstance(kind, Data) and not w.solver.determined(kind):
            info = data.info_of(w, kind)
            for p, a in zip(info.params, kind.args, strict=True):
                if isinstance(p, TypeVar) and isinstance(a, TypeVar | Table | Tuple) and (
                    not w.solver.determined(a)
                ):
                    raise data_errors.open_parameter(span.text, p.var.name, span)

    w.solver.goals.append(goal)
    return made


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
        raise name_errors.bare_member(e.name, list(owners), e.span)
    return enum_member(next(iter(owners.values())).set, e.name, e.span)


def enum_member(own: EnumSet, member: str, span: Span) -> Typed:
    ordinal = size(own.members.index(member))
    return Typed(Index(own), lambda: core.Number(ordinal), span, ordinal)


def number(w: Walk, e: s.Number) -> Typed:
    """A literal takes the type it is used at; left alone it is Int or Float."""
    whole = isinstance(e.value, int)
    t = w.solver.type("a", NUMBERS if whole else FLOATS, DType.I64 if whole else DType.F64)
    w.solver.unknown[t.var].floats = not whole
    w.solver.unknown[t.var].needs.add("Num")

    def build() -> core.Expr:
        return constant(w, e.value, t, e.span)

    poly = size(int(e.value)) if whole else None
    if poly is not None:
        _as_index(w, t, poly, e.span)
    return Typed(t, build, e.span, poly, exact=whole)


def _as_index(w: Walk, t: Type, value: Size, span: Span) -> None:
    """A literal that turns out to be an index is one of its set."""
    scope = w.scope.so_far()

    def goal() -> None:
        kind = w.solver.zonk(t)
        if not isinstance(kind, Index):
            return
        own = w.solver.zonk_set(kind.set)
        first, step = numbers(own)
        with w.inside(scope):
            facts = scope.facts()
            after, before = value - first, cardinality(own) - 1 - (value - first)
            if step != ONE or facts.absurd or (facts.proves(after) and facts.proves(before)):
                return
        raise index_errors.literal_index(span.text, show_set(own), span)

    w.solver.goals.append(goal)


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
        case TypeVar() | Tuple():
            return core.ConstOf(value, kind)
        case Index(own):
            return numbered(size(int(value)), own)
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
        body = alone(w, lambda: w.infer(e.body, result_hint), result_hint)

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
    if e.op == "@":
        return _joins(w, e, expected)
    op = OPERATORS[e.op]
    if e.right is None:
        return function_value(
            w, 2, lambda args: apply_primitive(w, op, args, e.span, e.op), e.span, expected
        )
    right = w.infer(e.right)
    return function_value(
        w, 1, lambda args: apply_primitive(w, op, [args[0], right], e.span, e.op), e.span, expected
    )


def _joins(w: Walk, e: s.Section, expected: Type | None) -> Typed:
    """`(@)` and `(@ b)` as functions of values whose axes their place says."""
    right = [] if e.right is None else [w.infer(e.right)]
    kind = known_axes(w, e, expected)

    def make(args: list[Typed]) -> Typed:
        a, b = (*args, *right)
        return contract(w, a, b, e.span, e.span)

    return function_value(w, 2 - len(right), make, e.span, kind)


def known_axes(w: Walk, e: s.Rank | s.Section, expected: Type | None) -> Function:
    """The type that its place expects of a function that depends on the axes of its arguments."""
    kind = w.solver.head(expected) if expected is not None else None
    if not isinstance(kind, Function):
        raise limit_errors.rank_unknown(e.span.text, e.span)
    w.solver.run()
    if any(w.solver.is_open(w.solver.axes(p)[1]) for p in kind.params):
        raise limit_errors.rank_unknown(e.span.text, e.span)
    return kind


# ---------------------------------------------------------------- calls and fields


def call(w: Walk, e: s.Call, expected: Type | None) -> Typed:
    match e.function:
        case s.Name(_, "throw") if w.scope.find("throw") is None and not e.args:
            return effects.throw(w, e, expected)
        case s.Name(span, "get") if w.scope.find("get") is None and len(e.args) == 1:
            return references.get(w, e)
        case s.Name(span, fname) if w.scope.find(fname) is None:
            maker = data.maker(w, fname, expected, span)
            if maker is not None:
                return known_parameters(w, _call_definition(w, maker, fname, e, expected), e.span)
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
                raise index_errors.not_a_value(e.span.text, "an index set", e.span)
        case s.Field(_, _, variant, _) if (maker := data.member(w, e.function)) is not None:
            return known_parameters(w, _call_definition(w, maker, variant, e, expected), e.span)
        case s.Field(_, s.Name(_, module), member, member_span) if (
            w.scope.find(module) is None and module in w.globals.modules
        ):
            there = w.globals.modules[module]
            if member in there.failed:
                raise errors.Silent()
            if member not in there.definitions:
                raise name_errors.unknown_member(module, member, member_span, there.names())
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
        case s.Field() as f if has_member(w, f.name) and (
            made := _call_member(w, e, f, expected)
        ) is not None:
            return made
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


def _call_member(w: Walk, e: s.Call, f: s.Field, expected: Type | None) -> Typed | None:
    """`p.f(y)`: a field that is a function, else a method; None if `p` has neither."""
    value = w.infer(f.base)
    part = struct_field(w, value, f.name, f.span, f.name_span, strict=False)
    if part is not None:
        return apply_value(w, part, e)
    found = method(w, value, f.name)
    if found is None:
        return None
    given = [value, *(a for a in e.args if not isinstance(a, s.Keyword | s.Generator))]
    keys = {a.name: a for a in e.args if isinstance(a, s.Keyword)}
    return use_definition(w, found, f.name, e.span, expected, given, keys)


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
        raise lift_errors.rank_count(function.span.text, count, len(ranks), function.span)
    args = plain_args(w, e)
    return ranked(
        w, f"`{function.span.text}`", partial(_apply_to_cells, w, e, function, expected), args,
        ranks, e.span,
    )


def _apply_to_cells(
    w: Walk, e: s.Call, function: s.Expr, expected: Type | None, cells: list[Typed]
) -> Typed:
    """What is ranked, applied to cells of the ranks."""
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


def ranked_value(w: Walk, e: s.Rank, expected: Type | None) -> Typed:
    """`f~(1, 0)` as a function: of values whose axes its place says, as they say what is frame."""
    kind = known_axes(w, e, expected)
    count = len(kind.params)
    if len(e.ranks) not in (1, count):
        raise lift_errors.rank_count(e.function.span.text, count, len(e.ranks), e.span)

    def make(args: list[Typed]) -> Typed:
        called = s.Call(e.span, e.function, tuple(s.Name(e.span, "_") for _ in args))
        cells = partial(_apply_to_cells, w, called, e.function, None)
        return ranked(w, f"`{e.function.span.text}`", cells, args, e.ranks, e.span)

    return function_value(w, count, make, e.span, kind)


def field(w: Walk, e: s.Field, expected: Type | None) -> Typed:
    """`Axis.X`, `module.name`."""
    match e.base:
        case s.Name(_, base) if w.scope.find(base) is None:
            if base in w.globals.failed:
                raise errors.Silent()
            if base in w.globals.enums:
                own = w.globals.enums[base].set
                if e.name not in own.members:
                    raise name_errors.unknown_member(base, e.name, e.name_span, list(own.members))
                return enum_member(own, e.name, e.span)
            if base in w.globals.modules:
                there = w.globals.modules[base]
                if e.name in there.failed:
                    raise errors.Silent()
                if e.name in there.definitions:
                    return use_definition(w, there.definitions[e.name], e.name, e.span, None)
                raise name_errors.unknown_member(base, e.name, e.name_span, there.names())
        case s.Field(_, s.Name(_, module), base, _) if module in w.globals.modules:
            info = w.globals.modules[module].enums.get(base)
            if info is not None and e.name in info.set.members:
                return enum_member(info.set, e.name, e.span)
        case _:
            pass
    maker = data.member(w, e)
    if maker is not None:
        return use_maker(w, maker, e.name, e.span, expected)
    typed = w.infer(e.base)
    part = struct_field(w, typed, e.name, e.span, e.name_span)
    if part is not None:
        return part
    if e.name == "T":
        raise name_errors.no_field(e.base.span.text, show(w, typed.type), e.name, e.name_span,
                              f"write `transpose({e.base.span.text})`")
    if e.name == "size" and typed.poly is not None:
        raise name_errors.no_field(e.base.span.text, show(w, typed.type), e.name, e.name_span,
                              f"as a number `{e.base.span.text}` is its size")
    if e.name in ("shape", "size", "ndim"):
        raise name_errors.no_field(e.base.span.text, show(w, typed.type), e.name, e.name_span,
                              f"`size({e.base.span.text})` is the size of its first axis")
    hint = f"write `{e.name}({e.base.span.text})`" if e.name in known_names(w) else ""
    raise name_errors.no_field(e.base.span.text, show(w, typed.type), e.name, e.name_span, hint)


def _checked_value(w: Walk, operand: s.Expr, span: Span, expected: Type | None) -> Typed:
    """`k?` away from an axis: the set is what the place expects."""
    kind = w.solver.head(expected) if expected is not None else None
    if not isinstance(kind, Index):
        raise errors.undetermined(f"the index `{span.text}`", span)
    return Typed(kind, checked_index(w, w.infer(operand), kind.set, span), span)
