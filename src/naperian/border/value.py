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
    lists of them) have a kind of number, but no precision of their own. A `blank` one is what a
    variant of an enum does not use: zeros, as many as are needed."""

    where: str
    weak: bool
    array: Array
    dtype: DType
    offsets: Array | None = None  # of rows of unequal length
    blank: bool = False
    column: Column | None = None  # the list it was, which knows what its elements are called


def counted(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")
