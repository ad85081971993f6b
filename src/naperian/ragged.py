"""Rows of unequal length, as NumPy sees them: all values in one array, and where each row starts.

>>> t = Ragged(np.arange(6.0), np.array([0, 1, 3, 6]))
>>> print(t)
[[0.]
 [1. 2.]
 [3. 4. 5.]]
>>> t[1]
array([1., 2.])
>>> np.asarray(t)
array([0., 1., 2., 3., 4., 5.])
>>> t == Ragged(np.arange(6), [0, 1, 3, 6]), t == Ragged(np.arange(6), [0, 2, 3, 6])
(True, False)

The values may be rows again, or structs of arrays, tables of an enum's values, tuples of arrays:

>>> Ragged(t, [0, 2, 3])[0]
Ragged([[0.],
        [1., 2.]])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from naperian.records import Struct, Variants, element, same

_MANY, _ENDS = 200, 3  # rows that are all shown; of more, so many at both ends


class Ragged:
    """A table whose rows have unequal lengths. `values` are the rows one after the other (views of
    which `t[i]` and `rows()` give), `offsets` where each starts, with the end of the last."""

    __slots__ = ("offsets", "values")

    def __init__(self, values: Any, offsets: Any) -> None:
        whole = isinstance(values, Ragged | Struct | Variants | tuple)
        self.values: Any = values if whole else np.asarray(values)
        self.offsets: np.ndarray[Any, Any] = np.asarray(offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int | slice | tuple[Any, ...]) -> Any:
        """A row; of a slice, the rows of it as a table of their own; `t[i, j]` is `t[i][j]`."""
        if isinstance(i, tuple):
            row, rest = self[i[0]], i[1:]
            return element(row, rest if len(rest) > 1 else rest[0]) if rest else row
        n = len(self)
        if isinstance(i, slice):
            low, high, step = i.indices(n)
            if step != 1:
                raise IndexError("rows are taken one after the other: a slice has no step")
            high = max(low, high)
            first = self.offsets[low]
            return Ragged(
                element(self.values, slice(first, self.offsets[high])),
                self.offsets[low : high + 1] - first,
            )
        if not -n <= i < n:
            raise IndexError(f"row {i} of {n}")
        return element(self.values, slice(self.offsets[i % n], self.offsets[i % n + 1]))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def rows(self) -> list[Any]:
        """The rows, as views."""
        return list(self)

    def tolist(self) -> list[Any]:
        """The rows as lists."""
        return [row.tolist() if hasattr(row, "tolist") else row for row in self]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """The values, packed."""
        return np.array(self.values, dtype, copy=copy) if copy else np.asarray(self.values, dtype)

    def __eq__(self, other: object) -> bool:
        """Whether all rows are equal."""
        if not isinstance(other, Ragged):
            return NotImplemented
        return np.array_equal(self.offsets, other.offsets) and same(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]  # the arrays may change

    def __str__(self) -> str:
        rows = self._texts(str, precision=6, suppress_small=True, prefix=" ")
        return "[" + "\n ".join(rows) + "]"

    def __repr__(self) -> str:
        """The rows, as they would be written: `Ragged([[0.], [1., 2.]])` is what a call takes."""
        lead = "Ragged(["
        rows = self._texts(_written, separator=", ", prefix=lead)
        return lead + (",\n" + " " * len(lead)).join(rows) + "])"

    def _texts(self, text: Any, **how: Any) -> list[str]:
        """The rows as texts; of very many, the first and the last."""
        n = len(self)
        shown = range(n) if n <= _MANY else (*range(_ENDS), *range(n - _ENDS, n))
        texts = []
        for i in shown:
            row = self[i]
            if isinstance(row, np.ndarray):
                texts.append(np.array2string(row, max_line_width=96, **how))
            else:
                texts.append(text(row).replace("\n", "\n" + " " * len(how["prefix"])))
        return texts if n <= _MANY else [*texts[:_ENDS], "...", *texts[_ENDS:]]


def _written(row: Any) -> str:
    """A row as it would be written among the rows around it."""
    if not isinstance(row, Ragged):
        return repr(row)
    own = "Ragged("
    return repr(row).removeprefix(own).removesuffix(")").replace("\n" + " " * len(own), "\n")
