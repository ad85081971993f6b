"""What a caller gives, as the leaves of a signature."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np

from naperian.border.errors import ShapeError
from naperian.border.numbers import dtype_of, is_floating
from naperian.border.rows import packed, rows_given
from naperian.border.value import LARGEST, Array, Value, counted
from naperian.dtypes import DType
from naperian.forms import Blank, Column, element_name, kind, parted
from naperian.signature import Bind, Constant, Equal, Leaf, Named, Search, Signature
from naperian.sizes import atom


def gather(
    sig: Signature,
    args: tuple[Any, ...],
    keywords: Mapping[str, Any],
    constant: Callable[[str], Any],
) -> tuple[list[Value], dict[int, int]]:
    """The leaves in order, and the implicit sizes given by keyword. `constant` gives the value of
    a definition that is a default."""
    if sig.refusal:
        raise TypeError(f"{sig.name}() cannot be called from Python: {sig.refusal}")
    names = [p.name for p in sig.params]
    implicit = {sig.slots[k]: k for k in sig.implicit}
    if len(args) > len(names):
        takes = counted(len(names), "positional argument")
        raise TypeError(f"{sig.name}() takes {takes} but {len(args)} were given")
    sized = [key for key in keywords if key in sig.slots and key not in (*names, *implicit)]
    for key in keywords:
        if key not in names and key not in implicit and key not in sized:
            close = difflib.get_close_matches(key, [*names, *implicit], 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"{sig.name}() got an unexpected keyword argument {key!r}{hint}")
        if key in names[: len(args)]:
            raise TypeError(f"{sig.name}() got multiple values for argument {key!r}")
    values: list[Value] = []
    missing = []
    for k, p in enumerate(sig.params):
        if k < len(args):
            given = args[k]
        elif p.name in keywords:
            given = keywords[p.name]
        elif isinstance(p.default, Constant):
            given = p.default.value
        elif isinstance(p.default, Named):
            given = constant(p.default.name)
        else:
            missing.append(p.name)
            continue
        try:
            for leaf, where, value in parted(p.form, given, f"argument {p.name}", rows_given):
                values.append(_value(sig, sig.inputs[leaf], value, where))
        except RecursionError:
            if isinstance(given, list | tuple):
                _refuse_circles(given, f"argument {p.name}")
                why = "its lists are nested too deep"
                raise ShapeError(f"argument {p.name} is no array: {why}") from None
            raise
    if missing:
        listed = " and ".join(repr(x) for x in missing)
        raise TypeError(f"{sig.name}() is missing {counted(len(missing), 'argument')}: {listed}")
    sizes: dict[int, int] = {}
    for name, slot in implicit.items():
        if name not in keywords:
            if (n := _fixed(sig, slot)) is not None:
                sizes[slot] = n
                continue
            raise TypeError(
                f"{sig.name}() needs the size {name} by keyword, as in {name}=10: "
                "no argument's shape gives it"
            )
        sizes[slot] = as_size(name, keywords[name])
    free = unsaid(sig, values) if sized else {}
    for name in sized:
        if name not in free:
            raise TypeError(
                f"{sig.name}() got an unexpected keyword argument {name!r}: the size {name} is "
                "known from the shapes of arguments; leave it out"
            )
        sizes[free[name]] = as_size(name, keywords[name])
    return values, sizes


def _fixed(sig: Signature, slot: int) -> int | None:
    """The number that a size must be, if it was compiled for one."""
    least = {-n for f, _ in sig.facts if (n := (f - atom(slot)).constant) is not None}
    most = {n for f, _ in sig.facts if (n := (f + atom(slot)).constant) is not None}
    return min(least & most, default=None)


def unsaid(sig: Signature, values: list[Value]) -> dict[str, int]:
    """The sizes that arguments could have said and these do not, as a variant without the field:
    they are 0, if they are not given by keyword."""
    ends = [x for x in sig.plan if isinstance(x, Bind | Search | Equal)]
    slots = {x.slot for x in ends if not isinstance(x, Equal) and not values[x.leaf].says(x.axis)}
    said = {x.size.single for x in ends if isinstance(x, Equal) and values[x.leaf].says(x.axis)}
    return {sig.slots[k]: k for k in slots - said}


def as_size(name: str, given: Any) -> int:
    """A size given by keyword: a number, or an enum class for its number of members."""
    if isinstance(given, type) and hasattr(given, "__members__"):
        return len(given.__members__)
    try:
        if isinstance(given, bool | np.bool_):
            raise TypeError
        n = operator.index(given)
    except TypeError:
        raise TypeError(
            f"{name} is a size: a whole number or an enum class, not {kind(given)}"
        ) from None
    if n < 0 or n >= LARGEST:
        raise ShapeError(f"{name} is {n}, which is no size")
    return n


def _value(sig: Signature, leaf: Leaf, given: Any, where: str) -> Value:
    """What was given, as an array of its own dtype."""
    if isinstance(given, Blank):
        return Value(where, True, np.zeros((0,) * len(leaf.shape)), DType.BOOL, said=0)
    column = given if isinstance(given, Column) else None
    python = isinstance(given, bool | int | float | list | tuple)
    weak = python and not isinstance(given, np.generic)
    offsets = None
    if leaf.rows and leaf.rows[0]:
        given, offsets = packed(given, where)
    if leaf.members:
        given, weak = _ordinals(leaf, given, where), weak or isinstance(given, str | Enum)
    foreign = not isinstance(given, np.ndarray | np.generic | type)
    try:
        if foreign and hasattr(given, "__dlpack__") and not hasattr(given, "__array__"):
            given = np.from_dlpack(given)  # where it is
    except Exception as error:  # of whatever library it is of
        raise _no_array(given, where, error) from None
    if isinstance(given, np.ndarray) and hasattr(given, "mask"):
        raise TypeError(f"{where} is a masked array; fill it first, as in x.filled(0)")
    try:
        array = np.asarray(given)
    except Exception as error:
        if foreign and hasattr(given, "__array__"):
            raise _no_array(given, where, error) from None
        if not isinstance(error, ValueError | TypeError):
            raise
        _refuse_what_is_no_number(given, where)
        uneven = "inhomogeneous" in str(error)
        why = "its parts are of different lengths" if uneven else str(error)
        raise ShapeError(f"{where} is no array: {why}") from None
    if array.ndim == 0 and array.dtype.kind in "OUS" and not isinstance(given, int | np.ndarray):
        raise _no_number(given, where)
    if array.dtype.kind in "OUS":  # a column of pandas is what NumPy makes of it
        _refuse_what_is_no_number(array if hasattr(given, "__array__") else given, where)
    if python and array.dtype.kind == "f" and not is_floating(sig, leaf):
        array = _whole(given, array)
    if python and array.dtype == object and all(isinstance(x, int) for x in array.flat):
        array = _large(sig, leaf, array, where)
    said = None
    missing = len(leaf.shape) - array.ndim
    if column is not None and column.is_empty and missing > 0:
        said, array = array.ndim, array.reshape(array.shape + (0,) * missing)
    return Value(where, weak, array, dtype_of(where, array.dtype), offsets, said, column)


def _refuse_what_is_no_number(given: Any, where: str, around: tuple[int, ...] = ()) -> None:
    """Raise TypeError for the first thing in lists, or in an array of objects, that is none.
    `around` are the lists that it is in."""
    if id(given) in around:
        raise TypeError(f"{where} is a list that it is in itself: that has no end")
    if isinstance(given, list | tuple) or (
        isinstance(given, np.ndarray) and given.dtype == object and given.ndim
    ):
        for k, x in enumerate(given):
            _refuse_what_is_no_number(x, element_name(given, where, k), (*around, id(given)))
    elif isinstance(given, str | bytes):
        raise TypeError(f"{where} is {given!r}: text is no number{_read(given)}")
    elif not isinstance(given, int | float | np.number | np.bool_ | np.ndarray | Blank):
        raise _no_number(given, where)


def _no_array(given: Any, where: str, error: Exception) -> TypeError:
    """That what another library calls an array is none for NumPy, in that library's words."""
    why = str(error).strip().split("\n")[0]
    return TypeError(f"{where} is {said(given)}, which NumPy makes no array of: {why}")


def _no_number(given: Any, where: str) -> TypeError:
    """That a thing is no number, and what makes one of it, or an array."""
    if hasattr(given, "toarray"):
        hint = "; .toarray() makes an array of it"
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        hint = "; list(…) makes a list of it"
    elif isinstance(given, str | bytes):
        hint = _read(given)
    else:
        hint = "; float(…) makes a number of it" if hasattr(given, "__float__") else ""
    return TypeError(f"{where} is {said(given)}: no number and no array{hint}")


def _refuse_circles(given: Sequence[Any], where: str) -> None:
    """Raise TypeError for a list that is in itself, which is looked for where recursion found no
    end."""
    around = {id(given): (where, iter(enumerate(given)))}
    done: set[int] = set()
    while around:
        here, (name, rest) = next(reversed(around.items()))
        k, x = next(rest, (-1, None))
        if k < 0:
            done.add(here)
            del around[here]
        elif id(x) in around:
            raise TypeError(f"{name}[{k}] is a list that it is in itself: that has no end")
        elif isinstance(x, list | tuple) and id(x) not in done:
            around[id(x)] = f"{name}[{k}]", iter(enumerate(x))


def _read(text: str | bytes) -> str:
    """What to write for a text that is a number."""
    try:
        float(text)
    except ValueError:
        is_bytes = isinstance(text, bytes)
        return "; np.frombuffer(…, np.uint8) has its bytes" if is_bytes else ""
    return "; float(…) reads it"


def said(given: Any) -> str:
    return "None" if given is None else type(given).__name__


def _whole(given: Any, floats: Array) -> Array:
    """What NumPy made floats of, as unsigned integers if it is made of such: where some of Python's
    integers have 64 bits and others less, NumPy has no type for all of them."""
    if not np.abs(floats).max(initial=0.0) >= 2.0**63:
        return floats
    exact = np.array(given, object)
    if not all(isinstance(x, int) for x in exact.flat):
        return floats
    return exact.astype(np.uint64) if min(exact.flat) >= 0 else exact


def _large(sig: Signature, leaf: Leaf, integers: Array, where: str) -> Array:
    """Python's integers where some have more than 64 bits: a Float may hold them."""
    if is_floating(sig, leaf):
        try:
            return integers.astype(np.float64)
        except OverflowError:
            raise OverflowError(f"{where} is too large for any Float") from None
    if leaf.dtype is DType.BOOL:
        raise TypeError(f"{where} is int, but it must be bool")
    kind = leaf.dtype.value if isinstance(leaf.dtype, DType) else "int64"
    range = np.iinfo(kind)
    wrong = next(x for x in integers.flat if not range.min <= x <= range.max)
    where += "".join(f"[{k}]" for k in np.argwhere(integers == wrong)[0])
    number = wrong if wrong.bit_length() <= 128 else f"an integer of {wrong.bit_length()} bits"
    raise OverflowError(f"{where} is {number}, which does not fit in {kind}")


def _ordinals(leaf: Leaf, given: Any, where: str) -> Any:
    """Names of enum members as their ordinals; other things as they are."""

    def ordinal(name: str, where: str) -> int:
        if name in leaf.members:
            return leaf.members.index(name)
        close = difflib.get_close_matches(name, leaf.members, 1)
        hint = f"; did you mean {close[0]}?" if close else f": {', '.join(leaf.members)}"
        raise ValueError(f"{where}: {leaf.enum} has no member {name!r}{hint}")

    def each(given: Any, where: str) -> Any:
        if isinstance(given, Enum) and not isinstance(given, int):  # of Python, by its name
            return ordinal(given.name, where)
        if isinstance(given, str):
            return ordinal(str(given), where)
        names = isinstance(given, np.ndarray) and given.ndim and given.dtype.kind in "UO"
        if isinstance(given, list | tuple) or names:
            parts = (each(x, element_name(given, where, k)) for k, x in enumerate(given))
            return given.like(parts) if isinstance(given, Column) else list(parts)
        return given

    return each(given, where)
