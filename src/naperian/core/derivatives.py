"""The core of derivatives: functions of functions, put together from `Derivative`.

    gradient(f)    lambda x. vjp(lambda x. f(x), x; 1.0).1
    jacobian(f)    lambda x. for i: n. vjp(lambda x. f(x)[i], x; 1.0).1
    tangent(f)     lambda x, dx. jvp(lambda x. f(x), x; dx)
    pullback(f)    lambda x. (f(x), lambda y. vjp(lambda x. f(x), x; y).1)

A Jacobian is a gradient for every element of the value. Its body does not depend on which, so the
compiler computes it once, and all rows together.

What is evaluated more than once shows what it prints once, but for Jacobians, which are derivatives
for every element.

What is no float does not vary (`varying.py`): the tangent of a value has the same tags, integers,
Booleans and indices.

    grad(area)(s)  with_floats(s, vjp(lambda x. area(with_floats(s, x)), floats_of(s); 1.0).1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from naperian.core.rows import Spread, hides, resized, spread, zero
from naperian.core.syntax import (
    OF_ANOTHER_VARIANT,
    SEED,
    At,
    Box,
    Call,
    Carried,
    Check,
    ConstOf,
    Derivative,
    Either,
    Expr,
    For,
    If,
    Lambda,
    Let,
    Op,
    Pack,
    Part,
    Quiet,
    Ref,
    Unbox,
)
from naperian.core.varying import (
    floating,
    floats_of,
    has_floats,
    of_one_variant,
    partly,
    with_floats,
)
from naperian.names import Var
from naperian.sizes import size
from naperian.source import NOWHERE, Span
from naperian.substitution import apart, cell_at, dependent, opened
from naperian.types import (
    INT,
    Exists,
    Function,
    Scalar,
    Table,
    Tuple,
    Type,
    TypeVar,
)

Element = Callable[[Expr], Expr]
Slope = Callable[[Type, Element], Expr]

_PARTS = 4  # forward, each table of a point has a derivative of its own: of more, it is the text


def gradient(f: Expr, t: Function, wrt: tuple[int, ...], value: bool = False) -> Lambda:
    """The gradient of a scalar function with respect to some parameters; (value, gradient) with
    `value`."""
    params, args = _parameters(t)
    made = _reverse(f, t, wrt, args, t.result, lambda e: e)
    return Lambda(params, made if value else Part(made, 1))


def jacobian(f: Expr, t: Function, wrt: tuple[int, ...]) -> Lambda:
    """For every element of the value, its gradient: the axes of the value outermost."""
    params, args = _parameters(t)
    types = [t.params[k] for k in wrt]
    back = bare(types)

    def rows(kind: Type, element: Element, slope: Slope) -> Expr:
        match kind:
            case Table(s):
                i = Var("i")
                cell = cell_at(kind, size(i))
                return For(i, s, rows(cell, lambda e: At(element(e), Ref(i), s), slope))
            case Tuple(items):
                return Pack(
                    tuple(
                        rows(x, lambda e, k=k: Part(element(e), k), slope)  # type: ignore[misc]
                        for k, x in enumerate(items)
                    )
                )
            case Exists():
                made = partial(rows, slope=slope)
                return _boxed_rows(element(Call(f, tuple(args))), kind, made, element, back)
            case _ if not has_floats(kind):
                return element(Call(f, tuple(args)))
            case _:
                return slope(kind, element)

    def gradient_of(kind: Type, element: Element) -> Expr:
        return Part(_reverse(f, t, wrt, args, kind, element), 1)

    def tangents_of(kind: Type, element: Element) -> Expr:
        at, call = [args[k] for k in wrt], called(f, args, wrt)

        def along(seed: Expr) -> Expr:
            return element(Part(differentiated(True, types, at, call, t.result, seed), 1))

        return _each(back, lambda e: e, along)

    reverse = rows(t.result, lambda e: e, gradient_of)
    if _parts(back) > _PARTS or not (_is_plain(back) and _is_plain(t.result)):
        return Lambda(params, reverse)
    forward = rows(t.result, lambda e: e, tangents_of)
    return Lambda(params, Either(back, t.result, forward, reverse))


def _is_plain(t: Type) -> bool:
    """Whether a value has nothing but numbers that vary, as many as its sizes say."""
    match t:
        case Table(_, cell, None):
            return _is_plain(cell)
        case Tuple(items):
            return all(map(_is_plain, items))
        case Scalar(dtype):
            return dtype.is_float
        case _:
            return isinstance(t, TypeVar)


def _parts(t: Type) -> int:
    """How many tables and numbers a value has beside each other."""
    match t:
        case Table(_, cell):
            return _parts(cell)
        case Tuple(items):
            return sum(map(_parts, items))
        case _:
            return 1


def _each(t: Type, whole: Element, made: Element) -> Expr:
    """What is made of each of the tangents of a type that are 1 in one place and 0 in all others,
    shaped as the type is; `whole` puts a tangent of a part in its place."""
    match t:
        case Table(s, cell):
            k = Var("k")

            def row(e: Expr) -> Expr:
                j = Var("j")
                here = Op("eq", (Ref(j), Ref(k)), INT)
                return whole(For(j, s, If(here, e, zero(cell))))

            return For(k, s, _each(cell, row, made))
        case Tuple(items):

            def part(n: int, e: Expr) -> Expr:
                return whole(Pack(tuple(e if n == k else zero(x) for k, x in enumerate(items))))

            return Pack(tuple(_each(x, partial(part, n), made) for n, x in enumerate(items)))
        case _:
            return made(whole(ConstOf(1.0, t)))


def _boxed_rows(
    value: Expr, box: Exists, rows: Callable[[Type, Element], Expr], element: Element, cell: Type
) -> Expr:
    """The rows for what is in a box: in a box of the same sizes."""
    names = tuple(Var(v.name) for v in box.vars)
    sizes = tuple(map(size, names))
    own = opened(box, sizes)

    def inside(e: Expr) -> Expr:
        theirs, x = tuple(Var(v.name) for v in box.vars), Var("x")
        found = opened(box, tuple(map(size, theirs)))
        return Unbox(theirs, x, element(e), resized(Ref(x), found, own))

    made = rows_of(box, cell)
    assert isinstance(made, Exists)
    return Unbox(names, Var("x"), value, Box(made, sizes, rows(own, inside)))


def tangent(f: Expr, t: Function, origin: Span = NOWHERE) -> Lambda:
    """(x, dx) to the value and its tangent; of several parameters, tuples of them."""
    x, dx, whole = Var("x"), Var("dx"), _whole(t)
    made = differentiated(True, t.params, _split(t, Ref(x)), _call(f), t.result, Ref(dx), origin)
    return Lambda(((x, whole), (dx, whole)), made)


def pullback(f: Expr, t: Function, origin: Span = NOWHERE) -> Lambda:
    """x to the value and the function that takes its cotangent to that of x."""
    x, y, whole = Var("x"), Var("y"), _whole(t)
    at = _split(t, Ref(x))
    back = differentiated(False, t.params, at, _call(f), t.result, Ref(y), origin)
    again = Lambda(((y, t.result),), Quiet(Part(back, 1)))
    return Lambda(((x, whole),), Pack((Call(f, at), again)))


def linearized(f: Expr, t: Function, origin: Span = NOWHERE) -> Lambda:
    """x to the value and the function that takes a tangent of x to that of the value."""
    x, dx, whole = Var("x"), Var("dx"), _whole(t)
    at = _split(t, Ref(x))
    along = differentiated(True, t.params, at, _call(f), t.result, Ref(dx), origin)
    again = Lambda(((dx, whole),), Quiet(Part(along, 1)))
    return Lambda(((x, whole),), Pack((Call(f, at), again)))


def transposed(f: Expr, t: Function, origin: Span = NOWHERE) -> Lambda:
    """The transpose of a linear function: its pullback, which is the same everywhere."""
    y, at = Var("y"), _split(t, zero(_whole(t)))
    back = differentiated(False, t.params, at, _call(f), t.result, Ref(y), origin, linear=True)
    return Lambda(((y, t.result),), Part(back, 1))


def differentiated(
    forward: bool, types: Sequence[Type], at: Sequence[Expr],
    f: Callable[[tuple[Expr, ...]], Expr], result: Type, seed: Expr, origin: Span = NOWHERE,
    linear: bool = False,
) -> Expr:  # fmt: skip
    """The value of `f` at a point, and its tangent (or the cotangent of the point)."""
    if any(map(partly, (*types, result))):
        return _in_part(forward, types, at, f, result, seed, origin, linear)
    if any(map(hides, (*types, result))):
        return _spread(forward, types, at, f, result, seed, origin, linear)
    carried = tuple(Carried(Var("x"), p, e) for p, e in zip(types, at, strict=True))
    given = tuple(Ref(c.var) for c in carried)
    return Derivative(forward, carried, f(given), seed, linear)


def _in_part(
    forward: bool, types: Sequence[Type], at: Sequence[Expr],
    f: Callable[[tuple[Expr, ...]], Expr], result: Type, seed: Expr, origin: Span, linear: bool,
) -> Expr:  # fmt: skip
    """The same where something in parameters or in the value does not vary."""
    whole = bare(types)
    pairs = tuple(zip(at, types, strict=True))

    def of_floats(given: tuple[Expr, ...]) -> Expr:
        again = (with_floats(e, p, v) for (e, p), v in zip(pairs, given, strict=True))
        return floats_of(f(tuple(again)), result)

    made = differentiated(
        forward, [floating(p) for p in types], [floats_of(e, p) for e, p in pairs],
        of_floats, floating(result), floats_of(seed, whole if forward else result),
        origin, linear,
    )  # fmt: skip
    both, value = Var("both"), Var("value")
    base, kind = (Ref(value), result) if forward else (_packed(at), whole)
    along = with_floats(base, kind, Part(Ref(both), 1))
    found = Quiet(f(tuple(at))) if partly(result) else Part(Ref(both), 0)
    pair: Expr = Pack((Ref(value), along))
    point, kind = (_packed(at), whole) if forward else (Ref(value), result)
    like = None if linear else of_one_variant(point, seed, kind)
    if like is not None:
        pair = Check(like, f"{SEED} {OF_ANOTHER_VARIANT}", pair, origin)
    return Let(both, made, Let(value, found, pair))


def _spread(
    forward: bool, types: Sequence[Type], at: Sequence[Expr],
    f: Callable[[tuple[Expr, ...]], Expr], result: Type, seed: Expr, origin: Span, linear: bool,
) -> Expr:  # fmt: skip
    """The same where sizes of parameters or of the value are known at run time only."""
    several = len(types) > 1

    def packed(e: Expr) -> Expr:
        return e if several else Pack((e,))

    def item(e: Expr) -> Expr:
        return e if several else Part(e, 0)

    def parts(e: Expr) -> tuple[Expr, ...]:
        return tuple(Part(e, k) for k in range(len(types)))

    def at_point(x: Spread) -> Expr:
        def call(given: tuple[Expr, ...]) -> Expr:
            whole = Var("x")
            return Let(whole, x.back(Pack(given)), f(parts(Ref(whole))))

        def with_value(y: Spread) -> Expr:
            both = Var("both")
            start = item(x.again(packed(seed), origin)) if forward else y.again(seed, origin)
            made = differentiated(
                forward, x.type.items if isinstance(x.type, Tuple) else (), parts(x.value),
                lambda given: y.again(Quiet(call(given)), None), y.type, start, linear=linear,
            )  # fmt: skip
            value, along = (Part(Ref(both), k) for k in range(2))
            found = y.back(along) if forward else item(x.back(packed(along)))
            return Let(both, made, Pack((y.back(value), found)))

        return spread(call(parts(x.value)), result, with_value)

    return spread(Pack(tuple(at)), Tuple(tuple(types)), at_point)


def rows_of(t: Type, cell: Type) -> Type:
    """The type of a Jacobian: a cell for every float of a value."""

    def each(t: Type) -> Type:
        match t:
            case Table(own, inner, None):
                return Table(own, each(inner))
            case Table(own, inner, Var() as index):
                i = Var(index.name)
                return dependent(own, i, each(cell_at(t, size(i))))
            case Tuple(items):
                return Tuple(tuple(map(each, items)))
            case Exists(vars, body):
                return Exists(vars, each(body))
            case _:
                return cell if has_floats(t) else t

    return apart(each(t), set())


def bare(items: Sequence[Type]) -> Type:
    """One type as it is, several as a tuple."""
    return items[0] if len(items) == 1 else Tuple(tuple(items))


def _packed(items: Sequence[Expr]) -> Expr:
    """One value as it is, several as a tuple."""
    return items[0] if len(items) == 1 else Pack(tuple(items))


def stopped(e: Expr, t: Type) -> Expr:
    """A value whose floats are constants to every derivative; the rest of it is as it was."""
    match t:
        case Table(s, cell, None) if has_floats(cell):
            i = Var("i")
            return For(i, s, stopped(At(e, Ref(i), s), cell))
        case Tuple(items) if any(map(has_floats, items)):
            whole = Var("x")
            parts = tuple(stopped(Part(Ref(whole), k), x) for k, x in enumerate(items))
            return Let(whole, e, Pack(parts))
        case Scalar() | TypeVar() if has_floats(t):
            return Op("stop_gradient", (e,), t)
        case _:
            return e


def _whole(t: Function) -> Type:
    """All parameters: one bare, several as a tuple."""
    return bare(t.params)


def _parameters(t: Function) -> tuple[tuple[tuple[Var, Type], ...], list[Expr]]:
    params = tuple((Var("x"), p) for p in t.params)
    return params, [Ref(v) for v, _ in params]


def _split(t: Function, whole: Expr) -> tuple[Expr, ...]:
    if len(t.params) == 1:
        return (whole,)
    return tuple(Part(whole, k) for k in range(len(t.params)))


def called(
    f: Expr, args: Sequence[Expr], wrt: Sequence[int]
) -> Callable[[tuple[Expr, ...]], Expr]:
    """The call of a function as one of some of its arguments, the others as they are."""

    def call(given: tuple[Expr, ...]) -> Expr:
        own = list(args)
        for k, e in zip(wrt, given, strict=True):
            own[k] = e
        return Call(f, tuple(own))

    return call


def _call(f: Expr) -> Callable[[tuple[Expr, ...]], Expr]:
    return lambda given: Call(f, given)


def _reverse(
    f: Expr, t: Function, wrt: tuple[int, ...], args: list[Expr], kind: Type, of: Element
) -> Expr:
    """A number of the value, of this type, and its gradient."""
    types, at = [t.params[k] for k in wrt], [args[k] for k in wrt]
    call = called(f, args, wrt)
    return differentiated(
        False, types, at, lambda given: of(call(given)), kind, ConstOf(1.0, kind)
    )
