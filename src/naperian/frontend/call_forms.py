"""The forms of a call: `f(x)`, `x.f(y)`, a rank `f~1(x)`, sections `(+)` as values."""

from __future__ import annotations

from functools import partial

from naperian.core import syntax as core
from naperian.frontend import data, effects, references
from naperian.frontend.annotations import SCALARS, as_set
from naperian.frontend.arguments import at_points, points
from naperian.frontend.builtins import BUILTINS, contract
from naperian.frontend.calls import (
    apply_value,
    function_value,
    use_definition,
)
from naperian.frontend.conversions import conversion
from naperian.frontend.derivatives import is_operator, positional
from naperian.frontend.fields import field as struct_field
from naperian.frontend.fields import has_member, method
from naperian.frontend.indexing import get
from naperian.frontend.lifting import ranked
from naperian.frontend.messages import errors, index_errors, lift_errors, limit_errors, name_errors
from naperian.frontend.named import known_names, known_parameters
from naperian.frontend.operators import (
    apply_primitive,
)
from naperian.frontend.rows_in_order import OF_THE_LIBRARY
from naperian.frontend.tables import generator_table
from naperian.frontend.typed import Typed
from naperian.frontend.walk import Walk
from naperian.prims import FLOAT_FUNCTIONS, OPERATORS, PRIMITIVES
from naperian.surface import syntax as s
from naperian.types import (
    Function,
    Type,
)


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


def call(w: Walk, e: s.Call, expected: Type | None) -> Typed:
    match e.function:
        case s.Name(_, "throw") if w.scope.find("throw") is None:
            if e.args:
                text = e.args[0].span.text
                told = f"`assert …, {text}` stops the whole run, and says it"
                raise errors.arity(
                    "throw", 0, len(e.args), e.span, "() -> {Except} a",
                    (told,) if isinstance(e.args[0], s.String) else (),
                )
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
            if fname in OF_THE_LIBRARY and e.span.source.name == "<builtin>":
                return OF_THE_LIBRARY[fname](w, e, None, expected)
            if fname in SCALARS or fname == "Float":
                args = plain_args(w, e)
                if len(args) != 1:
                    raise errors.arity(fname, 1, len(args), e.span, f"number -> {fname}")
                return conversion(w, fname, args[0], e.span, _is_literal(e.args[0]))
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
            root = base
            while isinstance(root, s.Field):
                root = root.base
            if isinstance(root, s.Name) and (
                (w.scope.find(root.name) is None and root.name not in known_names(w))
                or method not in known_names(w)
            ):
                value = w.infer(base)  # a name that means nothing is told before the method is
                if method == "by" and value.poly is not None and as_set(w, base) is None:
                    raise index_errors.no_stride(base.span.text, method_span, e.span)
            if e.args and isinstance(e.args[0], s.Generator):
                raise errors.generator_beside(method, base.span, e.args[0].span)
            inner = s.Call(e.span, s.Name(method_span, method), (base, *e.args))
            return call(w, inner, expected)
        case s.Rank(_, function, ranks):
            return _call_ranked(w, e, function, ranks, expected)
        case _:
            pass
    if isinstance(e.function, s.Call) and is_operator(w, e.function):
        given = points(w, e.function, positional(e))
        return apply_value(w, w.infer(e.function, at_points(w, given)), e, given)
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
    if d.constant:  # a value, which may be a function: `square = lambda x: x * x`
        return apply_value(w, use_definition(w, d, fname, e.function.span, None), e)
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
            if d is not None and not d.constant:
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


def _is_literal(e: s.Expr | s.Star | s.Keyword | s.Generator) -> bool:
    """Whether an expression is written with numbers alone, but for what a choice asks."""
    match e:
        case s.Number():
            return True
        case s.Unary(_, _, operand):
            return _is_literal(operand)
        case s.Binary(_, _, _, left, right) | s.Ternary(_, _, left, right):
            return _is_literal(left) and _is_literal(right)
        case s.Bracket(_, items):
            return all(_is_literal(x) for x in items)
        case _:
            return False
