"""Numbers of the interpreter: of their exact dtypes, in nests of tuples and lists, operated on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from naperian.core.dual import Varying, operate, primal
from naperian.core.values import Element, Value
from naperian.dtypes import DType
from naperian.packing import runs
from naperian.prims import PRIMITIVES, scalar
from naperian.types import Exists, Scalar, Table, Tuple, Type

_NUMBERS = (np.generic, Varying)


def exact(value: Value, t: Type) -> Value:
    """The value as its type says: a `Number` is a Python integer until it is known to be an Int."""
    match t:
        case Scalar(dtype):
            return as_number(value, dtype)
        case Tuple(items):
            made = tuple([exact(v, x) for v, x in zip(value, items, strict=True)])
            return Element.of(made, value.ordinal) if isinstance(value, Element) else made
        case Table():
            _, cell = runs(t)
            if not isinstance(cell, Scalar | Tuple | Exists):
                return value
            return [exact(v, t.cell) for v in value]
        case Exists(_, body):
            return value[0], exact(value[1], body)
        case _:
            return value


def as_number(value: Value, dtype: DType) -> Value:
    """An index taken as a number."""
    return value if isinstance(value, _NUMBERS) else scalar(value, dtype)


_PLAIN = {p.name: p.function for p in PRIMITIVES.values() if p.name != "select"}


def applied(name: str, args: list[Value], dtype: DType) -> Value:
    """An operation that gives a `dtype`, or compares two of them."""
    plain = _PLAIN.get(name)
    if plain is not None and all([isinstance(a, np.generic) for a in args]):
        return plain(*args)
    match name:
        case "cast":
            return operate(name, [int(a) if isinstance(a, Element) else a for a in args], dtype)
        case "known":
            return args[0]
        case "bitcast":
            return np.asarray(primal(args[0])).view(dtype.value)[()]
        case "select":
            return as_number(args[1] if args[0] else args[2], dtype)
        case _:
            return operate(name, [as_number(a, dtype) for a in args], dtype)


def scalars(value: Value) -> Iterator[Value]:
    """The numbers in nested tuples and tables."""
    if isinstance(value, tuple | list):
        for x in value:
            yield from scalars(x)
    else:
        yield value


def rebuilt(value: Value, numbers: Iterator[Value]) -> Value:
    """The same nest of other numbers."""
    if isinstance(value, tuple):
        return tuple([rebuilt(x, numbers) for x in value])
    if isinstance(value, list):
        return [rebuilt(x, numbers) for x in value]
    return next(numbers)


def regroup(cells: Iterator[Value], shape: list[int]) -> Value:
    """The next cells, as a table of this shape."""
    if not shape:
        return next(cells)
    return [regroup(cells, shape[1:]) for _ in range(shape[0])]
