"""Types without tuples: the arrays and scalars that a structured value is made of.

    leaves((a, n=>(b, c))) = (a, n=>b, n=>c)
    leaves(exists k. Fin(k)=>a) = (Int, Fin(k)=>a)          a box's sizes come before its value

A table of tuples is kept as a tuple of tables, everywhere after `normalize` and at the NumPy
border. The leaves stand in the order of the tuples' components. Laws:

    spread(t, rebuild(t, xs)) = xs          len(xs) = len(leaves(t))
    rebuild(t, spread(t, v)) = v            v: nested Python tuples as `t` has them, with arrays
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from naperian.names import Var
from naperian.substitution import dependent
from naperian.types import (
    INT,
    Exists,
    Index,
    Table,
    Tuple,
    TupleSet,
    Type,
    UnitSet,
    element,
)

T = TypeVar("T")


def leaves(t: Type) -> tuple[Type, ...]:
    """The types of the arrays and scalars `t` is made of; none of them has a tuple inside (but in
    a function)."""
    match t:
        case Tuple(items):
            return tuple(leaf for x in items for leaf in leaves(x))
        case Table(s, cell, None):
            return tuple(Table(s, leaf) for leaf in leaves(cell))
        case Table(s, cell, Var() as index):
            return tuple(dependent(s, index, leaf) for leaf in leaves(cell))
        case Index(TupleSet() | UnitSet() as s):
            return leaves(element(s))
        case Exists(vars, body):
            return (*(INT for _ in vars), *leaves(body))
        case _:
            return (t,)


def rebuild(t: Type, values: Sequence[T]) -> Any:
    """Nested tuples of leaves, as `t` nests them: a bare leaf where `t` is one."""
    rest = iter(values)
    whole = _take(t, rest)
    assert next(rest, None) is None, "more leaves than the type has"
    return whole


def _take(t: Type, rest: Iterator[Any]) -> Any:
    match t:
        case Tuple(items):
            return tuple(_take(x, rest) for x in items)
        case Table(_, cell):
            return _take(cell, rest)
        case Index(TupleSet() | UnitSet() as s):
            return _take(element(s), rest)
        case Exists(vars, body):
            for _ in vars:
                next(rest)
            return _take(body, rest)
        case _:
            return next(rest)


def spread(t: Type, value: Any) -> tuple[Any, ...]:
    """The leaves of nested tuples."""
    match t:
        case Tuple(items):
            pairs = zip(items, value, strict=True)
            return tuple(leaf for x, v in pairs for leaf in spread(x, v))
        case Table(_, cell):
            return spread(cell, value)
        case Index(TupleSet() | UnitSet() as s):
            return spread(element(s), value)
        case _:
            return (value,)
