"""Names: variables, definitions, members of enums, with the parameters that can be known."""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.frontend import data, references
from naperian.frontend.annotations import SCALARS
from naperian.frontend.builtins import BUILTINS
from naperian.frontend.calls import (
    function_value,
    use_definition,
)
from naperian.frontend.conversions import conversion
from naperian.frontend.messages import data_errors, errors, habit_errors, index_errors, name_errors
from naperian.frontend.operators import (
    apply_primitive,
)
from naperian.frontend.scope import SetName, SizeName, TypeName, Variable
from naperian.frontend.typed import Typed
from naperian.frontend.walk import Walk
from naperian.names import Lit
from naperian.prims import FLOAT_FUNCTIONS, PRIMITIVES
from naperian.sizes import size
from naperian.source import Span
from naperian.surface import syntax as s
from naperian.types import (
    BOOL,
    INT,
    Data,
    EnumSet,
    Index,
    Reference,
    Table,
    Tuple,
    Type,
    TypeVar,
    cardinality,
)


def name(w: Walk, e: s.Name, expected: Type | None) -> Typed:
    entry = w.scope.find(e.name)
    match entry:
        case Variable():
            kind, poly, var = w.solver.head(entry.type), entry.poly, entry.var
            if isinstance(kind, Reference):
                return references.read(w, e.name, e.span)
            if poly is None and kind == INT:
                poly = size(var)
            exact = isinstance(kind, Index)
            return Typed(entry.type, lambda: core.Ref(var), e.span, poly, exact=exact)
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
    known = known_names(w)
    raise habit_errors.habit(e.name, e.span, known) or name_errors.unknown_name(
        e.name, e.span, known
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
        *FLOAT_FUNCTIONS, *SCALARS, "abs", "sign", "min", "max",
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
