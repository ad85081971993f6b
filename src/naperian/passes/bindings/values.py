"""What core expressions become while they are flattened.

    value ::= operand | Truth(size) | Items(value, …)
            | Row(set, index, …, value) | Listed(set, value, …)

A table is its cell in terms of indices of its own: reading it is substitution. So views cost
nothing, and a transposed or shifted table is the same bindings read at other places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from naperian.ainf.syntax import Guard, Number, Read
from naperian.ainf.walk import Names, number, rewrite, rewrite_size, size_of
from naperian.broken import Broken
from naperian.names import Lit, Var
from naperian.node import node
from naperian.sizes import ONE, ZERO, Size, size
from naperian.types import (
    BoolSet,
    EnumSet,
    Fin,
    Range,
    Reverse,
    Set,
    SetVar,
    Slice,
    Sum,
    TupleSet,
    UnitSet,
    cardinality,
    numbers,
)


@node
class Truth:
    """A Boolean known as the number 0 or 1 (an index of `BoolSet`)."""

    value: Size


@node
class Items:
    """A tuple. A table of tuples is a tuple of tables."""

    items: tuple[Value, ...]


@node
class Row:
    """The table whose element at `indices` (one for each component of `set`) is `cell`."""

    set: Set
    indices: tuple[Var, ...]
    cell: Value


@dataclass(slots=True, eq=False)
class Listed:
    """A table of given items, made under `guards`. `row` is the same table as a `Row`, once
    somebody reads it at an index that is no constant."""

    set: Set
    items: tuple[Value, ...]
    guards: tuple[Guard, ...]
    row: Value | None = field(default=None)


Value: TypeAlias = "Read | Lit | Number | Truth | Items | Row | Listed"


def row(set: Set, indices: tuple[Var, ...], cell: Value) -> Value:
    """The table of `cell`; of a tuple, the tuple of tables."""
    if isinstance(cell, Items):
        return Items(tuple(row(set, indices, x) for x in cell.items))
    return Row(set, indices, cell)


def substitute(value: Value, names: Names) -> Value:
    """A value with indices replaced."""
    if not names:
        return value
    match value:
        case Read() | Lit() | Number():
            return rewrite(value, names)
        case Truth(s):
            return Truth(rewrite_size(s, names))
        case Items(items):
            return Items(tuple(substitute(x, names) for x in items))
        case Row(set, indices, cell):
            return Row(set, indices, substitute(cell, names))
        case Listed(set, items, guards):
            new = tuple(substitute(x, names) for x in items)
            if all(x is y for x, y in zip(new, items, strict=True)):
                return value
            return Listed(set, new, guards)


def number_of(value: Value) -> Size:
    """A scalar value as an index expression."""
    match value:
        case Truth(s):
            return s
        case Read() | Lit() | Number():
            return size_of(value)
        case _:
            raise Broken("a table or tuple is used as a number")


def leaves(value: Value) -> Iterator[tuple[tuple[Var, ...], Value]]:
    """The scalars of a value without literal tables, each with the indices of its axes."""
    match value:
        case Items(items):
            for x in items:
                yield from leaves(x)
        case Row(_, indices, cell):
            for inner, leaf in leaves(cell):
                yield indices + inner, leaf
        case _:
            yield (), value


def mapped(value: Value, f: Callable[[Value], Value]) -> Value:
    """A value without literal tables, with other leaves."""
    match value:
        case Items(items):
            return Items(tuple(mapped(x, f) for x in items))
        case Row(s, own, cell):
            return row(s, own, mapped(cell, f))
        case _:
            return f(value)


# index sets, their own variables already replaced


def extents(s: Set) -> tuple[Size, ...]:
    """One extent for each component of an index set, which together number its elements by rows."""
    match s:
        case Fin(n):
            return (n,)
        case SetVar(var):
            return (size(var),)
        case BoolSet():
            return (size(2),)
        case UnitSet():
            return (ONE,)
        case EnumSet(_, members):
            return (size(len(members)),)
        case TupleSet(sets):
            return tuple(n for x in sets for n in extents(x))
        case Range(low, high):
            return (high - low,)
        case Reverse(inner):
            return extents(inner)
        case Sum() | Slice():
            return (cardinality(s),)


def element(s: Set, at: tuple[Size, ...]) -> Value:
    """The element of an index set at these components."""
    match s:
        case Fin() | SetVar() | EnumSet() | Sum():
            return number(at[0])
        case BoolSet():
            return Truth(at[0])
        case UnitSet():
            return Items(())
        case TupleSet(sets):
            items = []
            for x in sets:
                k = len(extents(x))
                items.append(element(x, at[:k]))
                at = at[k:]
            return Items(tuple(items))
        case Range() | Slice():
            first, step = numbers(s)
            return number(first + step * at[0])
        case Reverse(inner):
            return element(inner, mirror(extents(inner), at))


def components(s: Set, value: Value) -> tuple[Size, ...]:
    """Where an element stands: the inverse of `element`."""
    match s:
        case Fin() | SetVar() | EnumSet() | BoolSet() | Sum():
            return (number_of(value),)
        case UnitSet():
            return (ZERO,)
        case TupleSet(sets):
            if not isinstance(value, Items):
                raise Broken("an index of a product is no tuple")
            parts = zip(sets, value.items, strict=True)
            return tuple(e for x, v in parts for e in components(x, v))
        case Range() | Slice():
            first, step = numbers(s)
            return ((number_of(value) - first) // step,)
        case Reverse(inner):
            return mirror(extents(inner), components(inner, value))


def mirror(shape: tuple[Size, ...], at: tuple[Size, ...]) -> tuple[Size, ...]:
    """The same place counted from the other end."""
    return tuple(n - 1 - e for n, e in zip(shape, at, strict=True))


def ordinal(shape: tuple[Size, ...], at: tuple[Size, ...]) -> Size:
    """The number of a place, by rows."""
    total = ZERO
    for n, e in zip(shape, at, strict=True):
        total = total * n + e
    return total


def digits(shape: tuple[Size, ...], number: Size) -> tuple[Size, ...]:
    """The place with this number: the inverse of `ordinal`."""
    out: tuple[Size, ...] = ()
    for n in reversed(shape[1:]):
        out = (number % n, *out)
        number = number // n
    return (number, *out) if shape else ()


def reshaped(
    old: tuple[Size, ...], new: tuple[Size, ...], at: tuple[Size, ...]
) -> tuple[Size, ...]:
    """The place in `old` of what stands at `at` in `new`: same number. Equal outer and inner
    extents keep their components, so only what is really reshaped is divided."""
    front = 0
    while front < min(len(old), len(new)) and old[front] == new[front]:
        front += 1
    back = 0
    while back < min(len(old), len(new)) - front and old[-1 - back] == new[-1 - back]:
        back += 1
    middle = slice(front, len(new) - back)
    inner = digits(old[front : len(old) - back], ordinal(new[middle], at[middle]))
    return at[:front] + inner + at[len(new) - back :]
