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
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray[Any, np.dtype[Any]]
_MANY, _ENDS = 200, 3  # rows that are all shown; of more, so many at both ends


class Ragged:
    """A table whose rows have unequal lengths. `values` are the rows one after the other (views of
    which `t[i]` and `rows()` give), `offsets` where each starts, with the end of the last."""

    __slots__ = ("offsets", "values")

    def __init__(self, values: ArrayLike, offsets: ArrayLike) -> None:
        self.values: Array = np.asarray(values)
        self.offsets: Array = np.asarray(offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> Array:
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"row {i} of {n}")
        return self.values[self.offsets[i % n] : self.offsets[i % n + 1]]

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    def rows(self) -> list[Array]:
        """The rows, as views."""
        return list(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The values, packed."""
        return np.array(self.values, dtype, copy=bool(copy)) if copy or dtype else self.values

    def __eq__(self, other: object) -> bool:
        """Whether all rows are equal."""
        if not isinstance(other, Ragged):
            return NotImplemented
        return np.array_equal(self.offsets, other.offsets) and np.array_equal(
            self.values, other.values
        )

    __hash__ = None  # type: ignore[assignment]  # the arrays may change

    def __str__(self) -> str:
        return "[" + "\n ".join(self._texts(precision=6, suppress_small=True, prefix=" ")) + "]"

    def __repr__(self) -> str:
        """The rows, as they would be written: `Ragged([[0.], [1., 2.]])` is what a call takes."""
        lead = "Ragged(["
        rows = self._texts(separator=", ", prefix=lead)
        return lead + (",\n" + " " * len(lead)).join(rows) + "])"

    def _texts(self, **how: Any) -> list[str]:
        """The rows as texts; of very many, the first and the last."""
        n = len(self)
        shown = range(n) if n <= _MANY else (*range(_ENDS), *range(n - _ENDS, n))
        texts = [np.array2string(self[i], max_line_width=96, **how) for i in shown]
        return texts if n <= _MANY else [*texts[:_ENDS], "...", *texts[_ENDS:]]
