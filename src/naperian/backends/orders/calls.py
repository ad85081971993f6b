"""What a kernel that has a row in order calls."""

from __future__ import annotations

from itertools import product

from naperian.dtypes import DType
from naperian.node import node


@node
class Row:
    """A row of numbers of a dtype, or with `places` their ordinals, in order."""

    dtype: DType
    places: bool

    @property
    def symbol(self) -> str:
        kind = "f" if self.dtype.is_float else "i"
        return f"nap_row_{'places' if self.places else 'sort'}_{kind}{self.dtype.bits}"

    @property
    def declaration(self) -> str:
        """How many; to where and how far apart; from where and how far apart. Gives a status."""
        return f"declare i64 @{self.symbol}(i64, ptr, i64, ptr, i64) nounwind"


SORTED = (DType.I32, DType.I64, DType.F32, DType.F64)


def rows(text: str) -> tuple[Row, ...]:
    """Those that a module calls."""
    every = (Row(d, places) for d, places in product(SORTED, (False, True)))
    return tuple(r for r in every if f"call i64 @{r.symbol}(" in text)
