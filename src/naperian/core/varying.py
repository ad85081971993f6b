"""What varies in a value: its floats, all but tags, integers, Booleans and indices.

    floating((Float, Int, n=>Bool))            (Float,)
    floating(exists k. Fin(k)=>(m, Float))     exists k. Fin(k)=>(Float,)
    with_floats(e, t, floats_of(e, t))         e

The tangent of a value is one of the same type, with the same in what does not vary.
"""

from __future__ import annotations

from functools import reduce

from naperian.core.rows import resized
from naperian.core.syntax import (
    At,
    Box,
    Const,
    Expr,
    For,
    Let,
    Op,
    Pack,
    Part,
    Reduce,
    Ref,
    Unbox,
)  # fmt: skip
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.sizes import size
from naperian.substitution import cell_at, dependent, opened
from naperian.types import BOOL, Data, Exists, Scalar, Table, Tuple, Type, TypeVar

_TRUE = Const(Lit(True, DType.BOOL))


def floating(t: Type) -> Type:
    """The type of what varies in values of a type."""
    match t:
        case _ if not partly(t):
            return t
        case Table(s, cell, None):
            return Table(s, floating(cell))
        case Table(s):
            i = Var("i")
            return dependent(s, i, floating(cell_at(t, size(i))))
        case Exists(vars, body):
            return Exists(vars, floating(body))
        case Tuple(items):
            return Tuple(tuple(floating(items[k]) for k in _slots(t)))
        case _:
            raise AssertionError("only what has parts varies in part")


def floats_of(e: Expr, t: Type) -> Expr:
    """What varies in a value."""
    match t:
        case _ if not partly(t):
            return e
        case Table(s):
            i = Var("i")
            return For(i, s, floats_of(At(e, Ref(i), s), cell_at(t, size(i))))
        case Exists(vars):
            names, x = tuple(Var(v.name) for v in vars), Var("x")
            sizes = tuple(map(size, names))
            box = floating(t)
            assert isinstance(box, Exists)
            return Unbox(names, x, e, Box(box, sizes, floats_of(Ref(x), opened(t, sizes))))
        case Tuple(items):
            x = Var("x")
            parts = tuple(floats_of(Part(Ref(x), k), items[k]) for k in _slots(t))
            return Let(x, e, Pack(parts))
        case _:
            raise AssertionError("only what has parts varies in part")


def with_floats(e: Expr, t: Type, varying: Expr) -> Expr:
    """A value like another one, with this for what varies."""
    match t:
        case _ if not partly(t):
            return varying
        case Table(s):
            i = Var("i")
            inner = At(varying, Ref(i), s)
            return For(i, s, with_floats(At(e, Ref(i), s), cell_at(t, size(i)), inner))
        case Exists():
            return _boxed(e, t, varying)
        case Tuple(items):
            x, v = Var("x"), Var("v")
            place = {k: m for m, k in enumerate(_slots(t))}
            parts = tuple(
                with_floats(Part(Ref(x), k), items[k], Part(Ref(v), place[k]))
                if k in place
                else Part(Ref(x), k)
                for k in range(len(items))
            )
            return Let(x, e, Let(v, varying, Pack(parts)))
        case _:
            raise AssertionError("only what has parts varies in part")


def _boxed(e: Expr, t: Exists, varying: Expr) -> Expr:
    """The floats are in a box of their own, which holds the same sizes."""
    mine, theirs = (tuple(Var(v.name) for v in t.vars) for _ in range(2))
    sizes, others = (tuple(map(size, names)) for names in (mine, theirs))
    box = floating(t)
    assert isinstance(box, Exists)
    x, v, same = Var("x"), Var("v"), Var("v")
    inner = with_floats(Ref(x), opened(t, sizes), Ref(same))
    again = resized(Ref(v), opened(box, others), opened(box, sizes))
    made = Let(same, again, Box(t, sizes, inner))
    return Unbox(mine, x, e, Unbox(theirs, v, varying, made))


def of_one_variant(e: Expr, other: Expr, t: Type) -> Expr | None:
    """Whether values of enums are of one variant each; None for a type without any. Rows of a
    hidden length are not asked, nor what a variant holds."""
    match t:
        case Data(items, layout) if layout.tagged:
            return Op("eq", (Part(e, 0), Part(other, 0)), items[0]) if has_floats(t) else None
        case Table(s):
            i = Var("i")
            inner = of_one_variant(At(e, Ref(i), s), At(other, Ref(i), s), cell_at(t, size(i)))
            return None if inner is None else Reduce("and", i, s, _TRUE, inner, BOOL)
        case Tuple(items):
            parts = (of_one_variant(Part(e, k), Part(other, k), x) for k, x in enumerate(items))
            asked = [x for x in parts if x is not None]
            return reduce(lambda x, y: Op("and", (x, y), BOOL), asked) if asked else None
        case _:
            return None


def has_floats(t: Type) -> bool:
    """Whether anything in values of a type varies."""
    match t:
        case Table(_, cell) | Exists(_, cell):
            return has_floats(cell)
        case Tuple(items):
            return any(map(has_floats, items))
        case Scalar(dtype):
            return dtype.is_float
        case _:
            return isinstance(t, TypeVar)


def partly(t: Type) -> bool:
    """Whether something in values of a type varies, and something does not."""
    match t:
        case Table(_, cell) | Exists(_, cell):
            return partly(cell)
        case Data(items, layout) if layout.tagged:
            return any(map(has_floats, items))
        case Tuple(items):
            found = [has_floats(x) for x in items]
            return (any(found) and not all(found)) or any(map(partly, items))
        case _:
            return False


def tagged(t: Type) -> bool:
    """Whether an enum is in values of a type."""
    match t:
        case Data(items, layout):
            return layout.tagged or any(map(tagged, items))
        case Table(_, cell) | Exists(_, cell):
            return tagged(cell)
        case Tuple(items):
            return any(map(tagged, items))
        case _:
            return False


def _slots(t: Tuple) -> list[int]:
    """The items that vary."""
    return [k for k, x in enumerate(t.items) if has_floats(x)]
