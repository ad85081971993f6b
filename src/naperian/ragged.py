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
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class Ragged:
    """A table whose rows have unequal lengths. `values` are the rows one after the other (views of
    which `t[i]` and `rows()` give), `offsets` where each starts, with the end of the last."""

    __slots__ = ("offsets", "values")

    def __init__(self, values: Array, offsets: Array) -> None:
        self.values = values
        self.offsets = offsets

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

    def __str__(self) -> str:
        rows = [
            np.array2string(r, precision=6, suppress_small=True, max_line_width=96, prefix=" ")
            for r in self
        ]
        return "[" + "\n ".join(rows) + "]"

    def __repr__(self) -> str:
        return f"Ragged({str(self)!s})"
