"""Values as text and text as values: the command line, the REPL and the pages use these.

>>> show((1.0 / 3, np.arange(3)))
'(0.333333, [0 1 2])'
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from naperian import records
from naperian.lines import array, number
from naperian.ragged import Ragged


def show(value: Any) -> str:
    """A value as NumPy prints it, six digits after the point, tiny numbers suppressed."""
    match value:
        case tuple():
            inner = ", ".join(show(v) for v in value)
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        case records.Variants():
            return "[" + ", ".join(show(v) for v in value) + "]"
        case Ragged() if not isinstance(value.values, np.ndarray):
            rows = (show(row).replace("\n", "\n ") for row in value)
            return "[" + "\n ".join(rows) + "]"
        case records.Struct():
            name = type(value).__name__
            inner = ", ".join(f"{n}={show(v)}" for n, v in fields_of(value).items())
            bare = isinstance(value, records.Variant) and not inner
            return name if bare else f"{name}({inner})"
        case np.ndarray() if value.ndim:
            text = array(value)
            return text if value.size else f"{text}  # {shape_of(value)}"
        case np.ndarray() | np.generic():
            return show(value.item())
        case float():
            return number(value)
        case _:
            return str(value)


def fields_of(value: records.Struct) -> dict[str, Any]:
    """The fields of a struct or of a variant, by name."""
    return {f: getattr(value, f) for f in records.fields(value)}


def shape_of(array: np.ndarray[Any, Any]) -> str:
    """`3x0 float64`: what an empty array does not show by itself."""
    return "x".join(str(n) for n in array.shape) + f" {array.dtype}"


def duration(seconds: float) -> str:
    """`12.3 ms`: three digits and a unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def as_data(value: Any) -> Any:
    """A value for JSON: numbers, Booleans, nested lists, structs as objects; the value of an enum
    as the name of its variant, or an object of the name with its fields."""
    match value:
        case records.Variants() | Ragged():
            return [as_data(v) for v in value]
        case records.Variant():
            fields = {n: as_data(v) for n, v in fields_of(value).items()}
            return {type(value).__name__: fields} if fields else type(value).__name__
        case records.Struct():
            return {n: as_data(v) for n, v in fields_of(value).items()}
        case tuple():
            return [as_data(v) for v in value]
        case np.ndarray() | np.generic():
            return value.tolist()
        case _:
            return value


def literal(text: str) -> Any:
    """The value of a Python literal, lists as arrays; ValueError if `text` is none."""
    try:
        value = ast.literal_eval(text.strip())
    except (SyntaxError, TypeError, MemoryError, RecursionError) as e:
        raise ValueError(f"`{text}` is not a literal") from e
    return _arrays(value)


def _arrays(value: Any) -> Any:
    match value:
        case list():
            return np.array(value)
        case tuple():
            return tuple(_arrays(v) for v in value)
        case dict():
            return {k: _arrays(v) for k, v in value.items()}
        case bool() | int() | float():
            return value
        case _:
            raise ValueError(f"`{value!r}` is neither a number nor a Boolean")


def finite(value: Any) -> bool:
    """Whether all floats in a result are finite."""
    match value:
        case tuple():
            return all(map(finite, value))
        case Ragged() | records.Variants():
            return all(map(finite, value))
        case records.Struct():
            return all(map(finite, fields_of(value).values()))
        case _:
            x = np.asarray(value)
            return x.dtype.kind != "f" or bool(np.isfinite(x).all())


def _number(x: Any) -> Any:
    """A scalar as Python's own number, as which results come back, whatever its type is."""
    return x.item() if isinstance(x, np.generic | np.ndarray) and x.ndim == 0 else x


def _with_starts(a: Any, b: Any) -> Any:
    """What rows hold as those rows, where another result knows where each starts."""
    if isinstance(a, records.Variants) and isinstance(b, records.Variants):
        mine, theirs = a.columns, b.columns

        def columns(number: int) -> tuple[Any, ...]:
            pairs = zip(mine(number), theirs(number), strict=True)
            return tuple(_with_starts(x, y) for x, y in pairs)

        return records.Variants(a.enum, a.tag, columns)
    if isinstance(b, Ragged) and not isinstance(a, Ragged):
        return Ragged(_with_starts(a, b.values), b.offsets)
    return a


def same(a: Any, b: Any, slack: float = 1.0, scale: float = 1.0) -> bool:
    """Whether two results are equal: type and shape exactly, integers and Booleans exactly, floats
    up to what another order of additions changes, of numbers of a `scale` of 1 and more, times
    `slack` (NaN equals NaN)."""
    if isinstance(a, Ragged) or isinstance(b, Ragged):  # interpreters know only what rows hold
        known = isinstance(a, Ragged) and isinstance(b, Ragged)
        return (not known or np.array_equal(a.offsets, b.offsets)) and same(
            a.values if isinstance(a, Ragged) else a, b.values if isinstance(b, Ragged) else b,
            slack, scale,
        )  # fmt: skip
    if isinstance(a, records.Variants) and isinstance(b, records.Variants):
        if a.shape != b.shape:
            return False
        a, b = _with_starts(a, b), _with_starts(b, a)
        return all(same(a[k], b[k], slack, scale) for k in np.ndindex(a.shape))
    if isinstance(a, records.Struct) or isinstance(b, records.Struct):
        return type(a) is type(b) and same(
            tuple(fields_of(a).values()), tuple(fields_of(b).values()), slack, scale
        )
    if isinstance(a, tuple) or isinstance(b, tuple):
        return (
            isinstance(a, tuple)
            and isinstance(b, tuple)
            and len(a) == len(b)
            and all(same(x, y, slack, scale) for x, y in zip(a, b, strict=True))
        )
    if isinstance(a, bool | int | float) or isinstance(b, bool | int | float):
        a, b = _number(a), _number(b)
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    digits = slack * (1e-4 if a.dtype == np.float32 else 1e-9)
    least = digits * max(1.0, scale)
    return bool(np.allclose(a, b, rtol=digits, atol=least, equal_nan=True))
