"""What is inside a core expression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from naperian.core.syntax import (
    Add,
    Assign,
    At,
    Blank,
    Box,
    Call,
    Check,
    Checked,
    Const,
    ConstOf,
    Custom,
    Derivative,
    Either,
    Expr,
    For,
    Get,
    Handle,
    If,
    Lambda,
    Let,
    Literal,
    Loop,
    Method,
    Number,
    Op,
    Pack,
    Part,
    Print,
    Quiet,
    Recast,
    Reduce,
    Ref,
    Scan,
    Tell,
    Throw,
    Unbox,
    Use,
)
from naperian.names import Var
from naperian.sizes import variables
from naperian.types import (
    BoolSet,
    EnumSet,
    Exists,
    Fin,
    Function,
    Index,
    Range,
    Reference,
    Reverse,
    Scalar,
    Set,
    SetVar,
    Slice,
    Sum,
    Table,
    Text,
    Tuple,
    TupleSet,
    Type,
    TypeVar,
    UnitSet,
)


def children(e: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside."""
    match e:  # first what there is most of
        case Op():
            return e.args
        case Ref() | Const():
            return ()
        case Let():
            return (e.value, e.body)
        case At():
            return (e.table, e.index)
        case Number() | ConstOf() | Blank() | Use() | Method():
            return ()
        case For() | Lambda() | Quiet():
            return (e.body,)
        case Call(function, args):
            return (function, *args)
        case Pack() | Literal():
            return e.items
        case Part(whole, _):
            return (whole,)
        case If(condition, then, otherwise):
            return (condition, then, otherwise)
        case Recast(value, _, _, _) | Checked(value, _, _):
            return (value,)
        case Reduce(_, _, _, init, value, _):
            return (init, value)
        case Loop(carried, _, _, condition, body):
            starts = tuple(c.start for c in carried)
            return (*starts, body) if condition is None else (*starts, condition, body)
        case Scan(carried, _, _, body):
            return (*(c.start for c in carried), body)
        case Derivative(_, params, body, seed):
            return (*(p.start for p in params), body, seed)
        case Either(_, _, forward, reverse):
            return (forward, reverse)
        case Custom(params, body, rules):
            return (*(p.start for p in params), body, *(r.body for r in rules))
        case Check(condition, _, then):
            return (condition, then)
        case Handle(cells, body):
            starts = tuple(c.start for c in cells)
            operators = tuple(c.operator for c in cells if c.operator is not None)
            return (*starts, *operators, body)
        case Get(reference) | Throw(reference):
            return (reference,)
        case Assign(reference, value) | Add(reference, value):
            return (reference, value)
        case Print(world, _, values) | Tell(world, values):
            return (world, *values)
        case Box(_, _, value):
            return (value,)
        case Unbox(_, _, value, body):
            return (value, body)


def everything(e: Expr) -> Iterator[Expr]:
    """The expression and all inside it, in no particular order; needs no deep stack."""
    rest = [e]
    while rest:
        e = rest.pop()
        yield e
        rest.extend(children(e))


_SIZELESS = frozenset({
    Ref, Const, ConstOf, Op, Let, Pack, Part, If, Call, Check, Get, Assign, Add, Throw, Quiet, Tell,
    Unbox,
})  # fmt: skip


def size_variables(e: Expr) -> Iterable[Var]:
    """The variables in the sizes of this node itself: of its sets, its types and its number."""
    if type(e) in _SIZELESS:
        return ()
    if isinstance(e, At) or isinstance(e, For):  # most others  # noqa: SIM101
        return variables(e.set.size) if isinstance(e.set, Fin) else _of_set(e.set)
    return _size_variables(e)


def _size_variables(e: Expr) -> Iterator[Var]:
    match e:
        case Number(value):
            yield from variables(value)
        case Literal(s, _) | Checked(_, s, _):
            yield from _of_set(s)
        case Reduce(_, _, s, _, _, t):
            yield from _of_set(s)
            yield from of_type(t)
        case Blank(t):
            yield from of_type(t)
        case Recast(_, old, new, cell):
            for s in old + new:
                yield from _of_set(s)
            yield from of_type(cell)
        case Loop(carried, _, span, _, _):
            for c in carried:
                yield from of_type(c.type)
            if span is not None:
                yield from _of_set(span)
        case Scan(carried, _, s, _):
            for c in carried:
                yield from of_type(c.type)
            yield from _of_set(s)
        case Derivative(_, carried, _, _):
            for c in carried:
                yield from of_type(c.type)
        case Either(inputs, outputs):
            yield from (*of_type(inputs), *of_type(outputs))
        case Custom(carried, _, rules):
            for t in (*(c.type for c in carried), *(t for r in rules for _, t in r.given)):
                yield from of_type(t)
        case Lambda(params, _):
            for _, t in params:
                yield from of_type(t)
        case Method(_, _, _, t, _):
            yield from of_type(t)
        case Handle(cells, _):
            for place in cells:
                yield from of_type(place.type)
        case Print(_, parts):
            for x in parts:
                if not isinstance(x, str):
                    yield from of_type(x)
        case Use(_, at):
            for t in at.types.values():
                yield from of_type(t)
            for s in at.sets.values():
                yield from _of_set(s)
            for n in at.sizes.values():
                yield from variables(n)
        case Box(t, sizes):
            yield from of_type(t)
            for n in sizes:  # one of a table of boxes, in normal form, is itself
                yield from (v for v in variables(n) if v not in t.vars)
        case _:
            pass


def _of_set(s: Set) -> tuple[Var, ...]:
    match s:
        case Fin(n):
            return variables(n)
        case Range(low, high):
            return variables(low) + variables(high)
        case TupleSet(sets):
            return tuple([v for x in sets for v in _of_set(x)])
        case Reverse(inner):
            return _of_set(inner)
        case Sum(left, right):
            return _of_set(left) + _of_set(right)
        case Slice(inner, start, step, n):
            return _of_set(inner) + variables(start) + variables(step) + variables(n)
        case SetVar(var):
            return (var,)
        case BoolSet() | UnitSet() | EnumSet():
            return ()


def of_type(t: Type) -> Iterator[Var]:
    """The variables in the sizes of a type."""
    match t:
        case Table(s, cell, index):
            yield from _of_set(s)
            yield from (v for v in of_type(cell) if v != index)
        case Index(s):
            yield from _of_set(s)
        case Tuple(items):
            for x in items:
                yield from of_type(x)
        case Function(params, result):
            for x in (*params, result):
                yield from of_type(x)
        case Reference(cell):
            yield from of_type(cell)
        case Exists(vars, body):
            yield from (v for v in of_type(body) if v not in vars)
        case Scalar() | TypeVar() | Text():
            pass
