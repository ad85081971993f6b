"""What a program prints, line by line.

    line ::= (text | form, …)
    form ::= dtype                          a number or a Boolean
           | Names(name, …)                 an element of an enum, by its ordinal
           | Several(name, fields, forms)   a tuple, or a struct
           | Choice(variants, forms)        an enum with fields: its tag, then what variants keep
           | Rows(form)                     a table: how many cells it has, then those

A run hands over numbers; a `Told` makes of them what is shown. Numbers and arrays look as NumPy
prints them, six digits after the point, tiny numbers suppressed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from naperian.broken import Broken
from naperian.dtypes import DType
from naperian.node import node
from naperian.types import (
    Data,
    EnumSet,
    Exists,
    Function,
    Index,
    Reference,
    Scalar,
    Table,
    Text,
    Tuple,
    Type,
    TypeVar,
    whole,
)

PRECISION = 6


@node
class Names:
    names: tuple[str, ...]


@node
class Several:
    """`name` is empty for a plain tuple, which has no fields."""

    name: str
    fields: tuple[str, ...]
    forms: tuple[Form, ...]


@node
class Choice:
    """Each variant with its fields, and which form keeps each."""

    variants: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    forms: tuple[Form, ...]


@node
class Rows:
    cell: Form


Form: TypeAlias = "DType | Names | Several | Choice | Rows"
Line: TypeAlias = "tuple[str | Form, ...]"
Write: TypeAlias = Callable[[str], object]
"""Shows a line."""


class Told:
    """The numbers that a run hands over, and the lines that they make. `read` makes a number of
    what stands for one.

    >>> told = Told(print)
    >>> told.tell([1.0 / 3])
    >>> told.tell([2, 7, 8], ("x is ", DType.F64, " of ", Rows(DType.I64)))
    x is 0.333333 of [7 8]
    """

    def __init__(self, write: Write, read: Callable[[Any, DType], Any] = lambda x, _: x) -> None:
        self.write = write
        self.read = read
        self.numbers: list[Any] = []

    def tell(self, numbers: Iterable[Any], line: Line = ()) -> None:
        self.numbers += numbers
        if line:
            rest = iter(self.numbers)
            self.numbers = []
            self.write("".join(
                p if isinstance(p, str) else _shown(p, self._taken(p, rest)) for p in line
            ))  # fmt: skip

    def _taken(self, form: Form, rest: Iterator[Any]) -> Any:
        match form:
            case DType():
                return self.read(next(rest), form)
            case Names():
                return int(next(rest))
            case Several(_, _, forms) | Choice(_, forms):
                return [self._taken(x, rest) for x in forms]
            case Rows(cell):
                return [self._taken(cell, rest) for _ in range(int(next(rest)))]


def form_of(t: Type) -> Form:
    """How values of a closed type are shown."""
    match t:
        case Scalar(dtype):
            return dtype
        case Index(s):
            base = whole(s)
            return Names(base.members) if isinstance(base, EnumSet) else DType.I64
        case Data(items, layout):
            forms = tuple(map(form_of, items))
            if layout.tagged:
                variants = ((v.name, tuple((f.name, f.item) for f in v.fields))
                            for v in layout.variants)  # fmt: skip
                return Choice(tuple(variants), forms)
            (variant,) = layout.variants
            return Several(variant.name, tuple(f.name for f in variant.fields), forms)
        case Tuple(items):
            return Several("", (), tuple(map(form_of, items)))
        case Table(_, cell):
            return Rows(form_of(cell))
        case Exists(_, body):
            return form_of(body)
        case Function() | Reference() | Text() | TypeVar():
            raise Broken(f"a value of type {t!r} is printed")


def from_word(word: int, dtype: DType) -> Any:
    """A number whose bits are the low ones of a 64-bit word."""
    bits = np.int64(word).view(np.uint64)
    width = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[dtype.bytes]
    return bits.astype(width).view(dtype.value)


def _shown(form: Form, value: Any) -> str:
    match form:
        case DType.BOOL:
            return str(bool(value))
        case DType():
            return number(value.item() if isinstance(value, np.generic) else value)
        case Names(names):
            return names[value] if 0 <= value < len(names) else str(value)
        case Several("", _, forms):
            inner = ", ".join(_shown(f, v) for f, v in zip(forms, value, strict=True))
            return f"({inner},)" if len(forms) == 1 else f"({inner})"
        case Several(name, fields, forms):
            parts = zip(fields, forms, value, strict=True)
            return f"{name}({', '.join(f'{n}={_shown(f, v)}' for n, f, v in parts)})"
        case Choice(variants, forms):
            chosen, slots = variants[int(value[0])]
            inner = ", ".join(f"{n}={_shown(forms[k], value[k])}" for n, k in slots)
            return f"{chosen}({inner})" if slots else chosen
        case Rows(cell):
            return _table(cell, value)


def _table(cell: Form, value: list[Any]) -> str:
    base = cell
    while isinstance(base, Rows):
        base = base.cell
    if isinstance(base, DType):
        try:
            return array(np.array(value, base.value))
        except ValueError:  # rows of unequal length
            return "[" + "\n ".join(_shown(cell, v) for v in value) + "]"
    return "[" + ", ".join(_shown(cell, v) for v in value) + "]"


def array(value: np.ndarray[Any, Any]) -> str:
    """An array as NumPy prints it."""
    return np.array2string(value, precision=PRECISION, suppress_small=True, max_line_width=96)


def number(x: bool | int | float) -> str:
    """A number as an element of an array would be printed."""
    if not isinstance(x, float):
        return str(x)
    if x == 0 or 1e-4 <= abs(x) < 1e16:
        return repr(round(x, PRECISION))
    if x != x or x in (np.inf, -np.inf):
        return str(x)
    return np.format_float_scientific(x, precision=PRECISION, trim="0")
