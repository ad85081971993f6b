"""The core of derivatives: functions of functions, put together from `Derivative`.

    gradient(f)    lambda x. vjp(lambda x. f(x), x; 1.0).1
    jacobian(f)    lambda x. for i: n. vjp(lambda x. f(x)[i], x; 1.0).1
    tangent(f)     lambda x, dx. jvp(lambda x. f(x), x; dx)
    pullback(f)    lambda x. (f(x), lambda y. vjp(lambda x. f(x), x; y).1)

A Jacobian is a gradient for every element of the value. Its body does not depend on which, so the
compiler computes it once, and all rows together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from naperian.core.syntax import (
    At,
    Call,
    Carried,
    ConstOf,
    Derivative,
    Expr,
    For,
    Lambda,
    Let,
    Op,
    Pack,
    Part,
    Ref,
)
from naperian.names import Var
from naperian.types import Function, Scalar, Table, Tuple, Type, TypeVar

Element = Callable[[Expr], Expr]


def gradient(f: Expr, t: Function, wrt: tuple[int, ...], value: bool = False) -> Lambda:
    """The gradient of a scalar function with respect to some parameters; (value, gradient) with
    `value`."""
    params, args = _parameters(t)
    seed = ConstOf(1.0, t.result)
    made = _reverse(f, t, wrt, args, seed, lambda e: e)
    return Lambda(params, made if value else Part(made, 1))


def jacobian(f: Expr, t: Function, wrt: tuple[int, ...]) -> Lambda:
    """For every element of the value, its gradient: the axes of the value outermost."""
    params, args = _parameters(t)

    def rows(kind: Type, element: Element) -> Expr:
        match kind:
            case Table(s, cell):
                i = Var("i")
                return For(i, s, rows(cell, lambda e: At(element(e), Ref(i), s)))
            case Tuple(items):
                return Pack(
                    tuple(
                        rows(x, lambda e, k=k: Part(element(e), k))  # type: ignore[misc]
                        for k, x in enumerate(items)
                    )
                )
            case _:
                return Part(_reverse(f, t, wrt, args, ConstOf(1.0, kind), element), 1)

    return Lambda(params, rows(t.result, lambda e: e))


def tangent(f: Expr, t: Function) -> Lambda:
    """(x, dx) to the value and its tangent; of several parameters, tuples of them."""
    x, dx, whole = Var("x"), Var("dx"), _whole(t)
    carried, given = _carried(t, Ref(x))
    made = Derivative(True, carried, Call(f, given), Ref(dx))
    return Lambda(((x, whole), (dx, whole)), made)


def pullback(f: Expr, t: Function) -> Lambda:
    """x to the value and the function that takes its cotangent to that of x."""
    x, y, whole = Var("x"), Var("y"), _whole(t)
    carried, given = _carried(t, Ref(x))
    back = Derivative(False, carried, Call(f, given), Ref(y))
    value = Call(f, _split(t, Ref(x)))
    return Lambda(((x, whole),), Pack((value, Lambda(((y, t.result),), Part(back, 1)))))


def linearized(f: Expr, t: Function) -> Lambda:
    """x to the value and the function that takes a tangent of x to that of the value."""
    x, dx, whole = Var("x"), Var("dx"), _whole(t)
    carried, given = _carried(t, Ref(x))
    along = Derivative(True, carried, Call(f, given), Ref(dx))
    value = Call(f, _split(t, Ref(x)))
    return Lambda(((x, whole),), Pack((value, Lambda(((dx, whole),), Part(along, 1)))))


def transposed(f: Expr, t: Function) -> Lambda:
    """The transpose of a linear function: its pullback, which is the same everywhere."""
    y = Var("y")
    carried, given = _carried(t, zero(_whole(t)))
    return Lambda(((y, t.result),), Part(Derivative(False, carried, Call(f, given), Ref(y)), 1))


def rows_of(t: Type, cell: Type) -> Type:
    """The type of a Jacobian: a cell for every number of a value."""
    match t:
        case Table(own, inner):
            return Table(own, rows_of(inner, cell))
        case Tuple(items):
            return Tuple(tuple(rows_of(x, cell) for x in items))
        case _:
            return cell


def bare(items: Sequence[Type]) -> Type:
    """One type as it is, several as a tuple."""
    return items[0] if len(items) == 1 else Tuple(tuple(items))


def zero(t: Type) -> Expr:
    """The zero of a type of floats."""
    match t:
        case Table(s, cell):
            return For(Var("i"), s, zero(cell))
        case Tuple(items):
            return Pack(tuple(zero(x) for x in items))
        case _:
            return ConstOf(0.0, t)


def stopped(e: Expr, t: Type) -> Expr:
    """A value whose floats are constants to every derivative; the rest of it is as it was."""
    match t:
        case Table(s, cell, None) if _has_floats(cell):
            i = Var("i")
            return For(i, s, stopped(At(e, Ref(i), s), cell))
        case Tuple(items) if any(map(_has_floats, items)):
            whole = Var("x")
            parts = tuple(stopped(Part(Ref(whole), k), x) for k, x in enumerate(items))
            return Let(whole, e, Pack(parts))
        case Scalar() | TypeVar() if _has_floats(t):
            return Op("stop_gradient", (e,), t)
        case _:
            return e


def _has_floats(t: Type) -> bool:
    match t:
        case Table(_, cell, _):
            return _has_floats(cell)
        case Tuple(items):
            return any(map(_has_floats, items))
        case Scalar(dtype):
            return dtype.is_float
        case _:
            return isinstance(t, TypeVar)


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


def _carried(t: Function, whole: Expr) -> tuple[tuple[Carried, ...], tuple[Expr, ...]]:
    carried = tuple(
        Carried(Var("x"), p, e) for p, e in zip(t.params, _split(t, whole), strict=True)
    )
    return carried, tuple(Ref(c.var) for c in carried)


def _reverse(
    f: Expr, t: Function, wrt: tuple[int, ...], args: list[Expr], seed: Expr, of: Element
) -> Derivative:
    carried = tuple(Carried(Var("x"), t.params[k], args[k]) for k in wrt)
    given = list(args)
    for k, c in zip(wrt, carried, strict=True):
        given[k] = Ref(c.var)
    return Derivative(False, carried, of(Call(f, tuple(given))), seed)
