"""What is added up of integers is an Int, as NumPy's sums are.

    sum(x)                          of bytes: each as an Int
    s: U16 = sum(x)                 each as the type that is declared, if that holds it
    loop s = 0 for i: s + x[i]      what a round adds to; else `0` takes the type it is used at

Arithmetic on elements stays in their type and wraps around there, and so does what no round adds
to: the larger or the smaller of bytes is a byte.
"""

from __future__ import annotations

from naperian.dtypes import DType, join
from naperian.frontend.scalars import INTEGERS
from naperian.frontend.walk import Walk
from naperian.prims import PRIMITIVES, Kind
from naperian.types import INT, Scalar, Table, Tuple, Type, TypeVar

_GROWING = frozenset({"add", "sub", "mul", "pow", "floordiv", "mod", "shl", "shr"})
_COMPARED = frozenset(p.name for p in PRIMITIVES.values() if p.kind in (Kind.EQUAL, Kind.COMPARE))
_COMBINED = frozenset({"add", "mul"})


def is_narrow(d: DType) -> bool:
    """Whether these are integers of less than 64 bits."""
    return d.is_integer and d.bits < 64


def reduced(w: Walk, monoid: str, operand: Type, expected: Type | None) -> Type:
    """The type in which a reduction of these is made, where this is expected of it."""
    kind = w.solver.head(operand)
    if monoid not in _COMBINED:
        return operand
    if w.solver.is_unknown(kind):
        w.solver.grow(kind)
    if not (isinstance(kind, Scalar) and is_narrow(kind.dtype)):
        return operand
    declared = w.solver.axes(expected)[1] if expected is not None else INT
    holds = isinstance(declared, Scalar) and is_narrow(declared.dtype) and (
        join(kind.dtype, declared.dtype) is declared.dtype
    )
    return declared if holds else INT


def beside(
    w: Walk, op: str, known: DType, literals: list[TypeVar]
) -> tuple[DType, list[TypeVar]]:
    """The type of integers beside which numbers stand whose type is not known yet, and those of the
    numbers that take it by that. A number that rounds change takes none by being compared."""
    solver = w.solver
    if not is_narrow(known):
        return known, literals
    carried = [t for t in literals if solver.is_carried(t)]
    if any(op in _GROWING or solver.unknown[t.var].grows for t in carried):
        return DType.I64, literals
    if op not in _COMPARED:
        return known, literals
    for t in carried:
        solver.restrict(t, INTEGERS - {DType.U64})
    return (DType.I64, [t for t in literals if t not in carried]) if carried else (known, literals)


def computed(w: Walk, op: str, literal: TypeVar) -> None:
    """Arithmetic on a number whose type is not known yet."""
    if op in _GROWING and w.solver.is_carried(literal):
        w.solver.grow(literal)


def combined(w: Walk, place: Type, by: Type) -> None:
    """`s += e`: a place that starts with a number holds Ints if integers are added to it."""
    solver = w.solver
    match solver.head(place), solver.head(by):
        case TypeVar() as t, Scalar(d) if solver.is_unknown(t) and is_narrow(d):
            if solver.is_carried(t):
                solver.unify(t, INT)
        case Table(_, cell), Table(_, more):
            combined(w, cell, more)
        case Tuple(items), Tuple(others):
            for x, y in zip(items, others, strict=False):
                combined(w, x, y)
        case _:
            pass
