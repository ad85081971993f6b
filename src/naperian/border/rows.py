"""Rows of unequal length."""

from __future__ import annotations

from typing import Any

import numpy as np

from naperian.border.errors import ShapeError
from naperian.border.shapes import Sizes
from naperian.border.value import Array, Value, counted
from naperian.forms import Column, element_name, kind
from naperian.ragged import Ragged
from naperian.signature import Leaf


def packed(given: Any, where: str) -> tuple[Any, Array | None]:
    """Rows of unequal length one after the other, and where each starts. A flat array is packed
    already, and says nothing of its rows."""
    if isinstance(given, Ragged):
        return given.values, given.offsets
    given = _listed(given)
    if not isinstance(given, list | tuple):
        return given, None
    try:
        if not any(np.ndim(x) for x in given):
            return given, None
        parts = [np.asarray(x) for x in given]
    except (ValueError, TypeError) as error:
        raise ShapeError(f"{where} is no list of rows: {error}") from None
    if any(x.dtype.kind in "OUS" for x in parts):
        return _one_after_the_other(given, where)  # as they are: names of members, or a mistake
    # a row without elements says nothing of them: `[]` is an array of floats to NumPy
    used = [(k, x) for k, x in enumerate(parts) if x.size or x.ndim != 1]
    for k, x in used:
        first, start = used[0]
        if x.ndim and x.shape[1:] != start.shape[1:]:
            raise ShapeError(
                f"{where}: row {k} has shape {x.shape} and row {first} {start.shape}; rows may "
                "differ in their first axis only"
            )
    try:
        whole: Any = np.concatenate([x for _, x in used]) if used else []
    except (ValueError, TypeError) as error:
        raise ShapeError(f"{where} is no list of rows: {error}") from None
    ends = np.cumsum([0, *(len(x) for x in parts)])
    return whole, ends


def _listed(given: Any) -> Any:
    """An array of rows, as NumPy makes of lists of unequal lengths and pandas of a column of them,
    as a list; other things as they are."""
    if isinstance(given, np.ndarray | list | tuple | Ragged) or not hasattr(given, "__array__"):
        array = given
    else:
        array = np.asarray(given)
    is_rows = isinstance(array, np.ndarray) and array.dtype == object and array.ndim == 1
    return list(array) if is_rows and any(np.ndim(x) for x in array) else given


def rows_given(given: Any, where: str, plain: bool) -> tuple[Any, Array]:
    """What the rows of a ragged array hold, one after the other, and where each starts, which is
    checked. Of numbers, which are `plain`, that is an array; of others, a list."""
    given = list(given) if isinstance(given, np.ndarray) and given.ndim > 1 else _listed(given)
    if isinstance(given, list | tuple) and not len(given):
        return Column((), where), np.zeros(1, np.int64)
    if plain or isinstance(given, Ragged):
        values, offsets = packed(given, where)
    else:
        values, offsets = _one_after_the_other(given, where)
    if offsets is None:
        if isinstance(given, Column):  # of rows within rows
            where, given = given.name(where, 0), given[0]
        raise TypeError(f"{where} must be rows, a list of arrays or nap.Ragged(values, offsets), "
                        f"not {kind(given)}")  # fmt: skip
    return values, _checked(offsets, values, where)


def _checked(offsets: Any, values: Any, where: str) -> Array:
    """Offsets that are those of rows of the values."""
    starts = np.asarray(offsets)
    if starts.ndim != 1 or starts.dtype.kind not in "iu" or not len(starts):
        raise ShapeError(f"{where}: the offsets must be one row of whole numbers, and at least one")
    try:
        length = len(values[0] if isinstance(values, tuple) else values)
    except (TypeError, IndexError):
        raise TypeError(
            f"{where}: the values of rows must be a table, not {kind(values)}"
        ) from None
    if starts[0] != 0 or starts[-1] != length:
        raise ShapeError(f"{where}: the offsets go from {starts[0]} to {starts[-1]}, but they must "
                         f"go from 0 to {length}, the number of values")  # fmt: skip
    falls = np.flatnonzero(starts[1:] < starts[:-1])
    if len(falls):
        i = int(falls[0])
        raise ShapeError(f"{where}: offset {i + 1} is {starts[i + 1]}, which is less than "
                         f"{starts[i]} before it")  # fmt: skip
    return starts.astype(np.int64)


def _one_after_the_other(given: Any, where: str) -> tuple[Any, Array | None]:
    """Rows of anything as one table, and where each of them starts."""
    if not isinstance(given, list | tuple):
        return given, None
    ends = [0]
    for k, row in enumerate(given):
        try:
            if isinstance(row, bytes):  # whose elements would be integers
                raise TypeError
            ends.append(ends[-1] + len(row))
        except TypeError:
            name = element_name(given, where, k)
            raise TypeError(f"{name} must be a row, a list or an array, not {kind(row)}") from None
    records = {x.dtype for x in given if isinstance(x, np.ndarray) and x.dtype.names}
    if len(records) == 1 and all(isinstance(x, np.ndarray) for x in given):
        return np.concatenate(given), np.array(ends)
    elements = (row[j] for row in given for j in range(len(row)))
    return Column(elements, where, ends, given), np.array(ends)


def check_rows(v: Value, leaf: Leaf, sizes: Sizes) -> None:
    """The rows that were given are as long as the type says."""
    if v.offsets is None or len(leaf.rows[0]) != 2:
        return
    wanted = sizes.offsets(leaf.rows[0])
    found = v.offsets
    if len(wanted) != len(found):
        raise ShapeError(
            f"{v.where} has {counted(len(found) - 1, 'row')}, but it must have {len(wanted) - 1}"
        )
    wrong = np.flatnonzero(wanted != found)
    if len(wrong):
        i = int(wrong[0]) - 1
        raise ShapeError(
            f"{v.where}: row {i} has {counted(int(found[i + 1] - found[i]), 'element')}, "
            f"but it must have {int(wanted[i + 1] - wanted[i])}"
        )
