"""A leaf of an argument, on its way to a kernel."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from naperian.dtypes import DType
from naperian.forms import Column
from naperian.node import mutable

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

LARGEST = 1 << 47  # bytes a process can address


@mutable
class Value:
    """An argument's leaf: how to name it, and what was given. `weak` values (Python numbers and
    lists of them) have a kind of number, but no precision of their own. `said` is how many of its
    axes have a length that was given, if not all have: the others are as long as is needed. None
    is said of what a variant of an enum does not use, which is zeros; of what the structs in an
    empty list hold, how many there are."""

    where: str
    weak: bool
    array: Array
    dtype: DType
    offsets: Array | None = None  # of rows of unequal length
    said: int | None = None
    column: Column | None = None  # the list it was, which knows what its elements are called

    def says(self, axis: int) -> bool:
        """Whether the length of an axis was given."""
        return self.said is None or axis < self.said


def counted(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")
