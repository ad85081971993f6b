"""The values of core, their storage order, and NumPy's arrays as such values.

A number or a Boolean is a NumPy scalar of its exact dtype, an index a Python `int` (of a
`BoolSet` a Boolean, of a `TupleSet` a tuple), a table a list in storage order, a tuple a tuple, a
function a Python function, a box the tuple of its sizes and its value.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from naperian.broken import Broken
from naperian.names import Var
from naperian.packing import count as packed_count
from naperian.packing import runs
from naperian.prims import scalar
from naperian.sizes import Atom, Size, rename, size
from naperian.sizes import evaluate as evaluated
from naperian.substitution import boxed, cell_at, dependent, opened
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
    cardinality,
    element,
    numbers,
)

Value: TypeAlias = Any
Evaluate: TypeAlias = Callable[[Size], int]


def constant(s: Size) -> int:
    """A size that is a number, or made of numbers, as `0 // 0`."""

    def unknown(_: Atom) -> int:
        raise Broken(f"the size {s!r} is not known here")

    return evaluated(s, unknown)


def count(s: Set, evaluate: Evaluate = constant) -> int:
    """How many elements there are; an empty range has none."""
    return max(0, evaluate(cardinality(s)))


class Element(tuple[Value, ...]):
    """An element of a set of tuples, which knows its ordinal: where sets are chosen by the caller
    it may stand in a size or be counted with."""

    ordinal: int

    @staticmethod
    def of(items: Iterable[Value], ordinal: int) -> Element:
        made = Element(items)
        made.ordinal = ordinal
        return made

    def __int__(self) -> int:
        return self.ordinal


def ordinal(s: Set, index: Value, evaluate: Evaluate = constant) -> int:
    """Where the cell at `index` is stored. Inverse of `element_at`."""
    match s:
        case Fin() | SetVar() | EnumSet() | BoolSet() | Sum():
            return int(index)
        case UnitSet():
            return 0
        case Range() | Slice():
            first, step = numbers(s)
            return (int(index) - evaluate(first)) // evaluate(step)
        case Reverse(inner):
            return count(inner, evaluate) - 1 - ordinal(inner, index, evaluate)
        case TupleSet(sets):
            place = 0
            for part, i in zip(sets, index, strict=True):
                place = place * count(part, evaluate) + ordinal(part, i, evaluate)
            return place


def element_at(s: Set, k: int, evaluate: Evaluate = constant) -> Value:
    """The element whose cell is stored at `k`."""
    match s:
        case Fin() | SetVar() | EnumSet() | Sum():
            return k
        case BoolSet():
            return np.bool_(k)
        case UnitSet():
            return Element.of((), 0)
        case Range() | Slice():
            first, step = numbers(s)
            return evaluate(first) + evaluate(step) * k
        case Reverse(inner):
            return element_at(inner, count(inner, evaluate) - 1 - k, evaluate)
        case TupleSet(sets):
            parts, place = [], k
            for part in reversed(sets):
                k, below = divmod(k, max(1, count(part, evaluate)))
                parts.append(element_at(part, below, evaluate))
            return Element.of(reversed(parts), place)


def blank(t: Type) -> Value:
    """A value of a closed type that nobody looks at: zeros (the first element, of an index set)."""
    match t:
        case Scalar(dtype):
            return scalar(0, dtype)
        case Index(TupleSet() | UnitSet() | BoolSet() as s):
            return blank(element(s))
        case Index(Range() | Slice() as s):
            return constant(numbers(s)[0])
        case Index():
            return 0
        case Tuple(items):
            return tuple(blank(x) for x in items)
        case Table(s, cell, index):
            places = (element_at(s, k) for k in range(count(s)))
            return [blank(cell if index is None else cell_at(t, size(k))) for k in places]
        case Function(_, result):
            return lambda *_: blank(result)
        case Exists(vars):
            return (0,) * len(vars), blank(opened(t, [size(0)] * len(vars)))
        case TypeVar() | Reference() | Text():
            raise Broken(f"no value of {t!r}")


def from_numpy(value: Any, t: Type) -> Value:
    """NumPy's scalar or array (of a tuple, or a table of tuples: a tuple of them) as a value of
    the closed type `t`; a table that a variant does not have is a number there."""
    if isinstance(t, Table | Exists) and _axisless(value):
        return blank(t)
    match t:
        case Scalar(dtype):
            return scalar(np.asarray(value)[()], dtype)
        case Index(TupleSet() | UnitSet() | BoolSet() as s):
            return from_numpy(value, element(s))
        case Index():
            return int(value)
        case Tuple(items):
            return tuple(from_numpy(v, x) for v, x in zip(value, items, strict=True))
        case Table(_, _, Var()):
            run = len(runs(t)[0][0])
            places = itertools.count()
            return _rows(t, run, lambda cell: from_numpy(_row(value, next(places)), cell))
        case Table(s, cell):
            return [from_numpy(_row(value, k), cell) for k in range(count(s))]
        case Exists():
            sizes = _sizes(value, t)
            return sizes, from_numpy(value, opened(t, [size(n) for n in sizes]))
        case TypeVar() | Function() | Reference() | Text():
            raise Broken(f"{t!r} has no NumPy form")


def _axisless(value: Any) -> bool:
    while isinstance(value, tuple) and value:
        value = value[0]
    try:
        len(value)
    except TypeError:  # a number, or an array of one without axes
        return True
    return False


def _sizes(value: Any, t: Exists) -> tuple[int, ...]:
    """The sizes of a box, from the axes that are one of them; 0 if no element has such an axis."""
    found: dict[Var, int] = {}

    def look(value: Any, t: Type) -> None:
        match t:
            case Tuple(items):
                for v, x in zip(value, items, strict=True):
                    look(v, x)
            case Table(s, _, Var()):
                v, number = cardinality(s).single, packed_count(runs(t)[0][0])
                if isinstance(v, Var) and number is not None:
                    n = _extent(value)
                    fits = (k for k in range(n + 1) if rename(number, {v: size(k)}) == size(n))
                    found.setdefault(v, next(fits, 0))
            case Table(s, cell, None):
                n = _extent(value)
                v = cardinality(s).single
                if isinstance(v, Var):
                    found.setdefault(v, n)
                if isinstance(value, np.ndarray):
                    look(np.empty(value.shape[1:]), cell)
                elif n:
                    look(_row(value, 0), cell)
            case _:
                pass

    look(value, t.body)
    return tuple(found.get(v, 0) for v in t.vars)


def _extent(value: Any) -> int:
    """How many elements a table has, which may be a tuple of tables."""
    return _extent(value[0]) if isinstance(value, tuple) else len(value)


def _row(value: Any, k: int) -> Any:
    return tuple(_row(v, k) for v in value) if isinstance(value, tuple) else value[k]


def _rows(t: Type, run: int, make: Callable[[Type], Value]) -> Value:
    """Nested rows of cells, over the first `run` axes of a dependent table, in storage order."""
    if run == 0:
        return make(t)
    assert isinstance(t, Table)
    places = [element_at(t.set, k) for k in range(count(t.set))]
    return [_rows(cell_at(t, size(k)) if t.index else t.cell, run - 1, make) for k in places]


def to_numpy(value: Value, t: Type) -> Any:
    """The inverse of `from_numpy`; empty tables keep their shape."""
    match t:
        case Scalar(dtype):
            return scalar(value, dtype)
        case Index(TupleSet() | UnitSet() | BoolSet() as s):
            return to_numpy(value, element(s))
        case Index():
            return np.int64(value)
        case Tuple(items):
            return tuple(to_numpy(v, x) for v, x in zip(value, items, strict=True))
        case Table(s, Exists() as box):  # the rows, one after the other
            return _one_after_the_other([to_numpy(x, box) for x in value or [blank(box)]])
        case Table(s, cell) if any(boxed(cell)) and not isinstance(cell, Tuple):
            return _one_after_the_other([to_numpy(x, cell) for x in value or [blank(cell)]])
        case Table():
            all_runs, cell = runs(t)
            depth = sum(map(len, all_runs))
            if isinstance(cell, Index):
                cell = element(cell.set)
            if isinstance(cell, Tuple):
                return tuple(
                    to_numpy(_component(value, depth, k), _with_cell(t, depth, x))
                    for k, x in enumerate(cell.items)
                )
            name = cell.dtype.value if isinstance(cell, Scalar) else "int64"
            cells = [value]
            for _ in range(depth):
                cells = [x for row in cells for x in row]
            return np.array(cells, np.dtype(name)).reshape(_shape(t))
        case Exists():
            sizes, inside = value
            return to_numpy(inside, opened(t, [size(n) for n in sizes]))
        case TypeVar() | Function() | Reference() | Text():
            raise Broken(f"{t!r} has no NumPy form")


def _one_after_the_other(parts: list[Any]) -> Any:
    """Arrays, or tuples of them, as one."""
    if isinstance(parts[0], tuple):
        return tuple(_one_after_the_other(list(x)) for x in zip(*parts, strict=True))
    return np.concatenate(parts)


def _shape(t: Type) -> list[int]:
    """The shape of the array of a table: a run of axes that depend on each other is one."""
    if not isinstance(t, Table):
        return []
    rest: Type = t
    run = len(runs(t)[0][0])
    for _ in range(run):
        assert isinstance(rest, Table)
        rest = rest.cell
    return [_length(t, run), *_shape(rest)]


def _length(t: Type, run: int) -> int:
    if run == 0:
        return 1
    assert isinstance(t, Table)
    cells = (cell_at(t, size(element_at(t.set, k))) if t.index else t.cell
             for k in range(count(t.set)))  # fmt: skip
    return sum(_length(cell, run - 1) for cell in cells)


def _with_cell(t: Type, depth: int, cell: Type) -> Type:
    """The table with another innermost cell."""
    if depth == 0:
        return cell
    assert isinstance(t, Table)
    inner = _with_cell(t.cell, depth - 1, cell)
    return dependent(t.set, t.index, inner) if t.index else Table(t.set, inner)


def _component(value: Value, depth: int, k: int) -> Value:
    return value[k] if depth == 0 else [_component(v, depth - 1, k) for v in value]
