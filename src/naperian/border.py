"""From NumPy to a compiled function and back.

    choose    the dtypes of an instance, from the arguments
    call      convert, bind sizes, check, allocate, run, convert back

This is the slow way in, which knows everything and explains every mistake in NumPy's terms; the
fast way (`backends/entry.py`) accepts only what needs no conversion and falls back to this one.
Nothing a caller passes is modified, except what is given as `out`.
"""

from __future__ import annotations

import builtins
import ctypes
import difflib
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

import numpy as np

from naperian.dtypes import DType, holds, join
from naperian.forms import Blank, dressed, kind, nested, parted
from naperian.ragged import Ragged
from naperian.signature import (
    Bind,
    Constant,
    Equal,
    Fault,
    Form,
    Given,
    Instance,
    Leaf,
    Named,
    Opened,
    Record,
    Rows,
    Search,
    Signature,
    Tagged,
    TypeSlot,
    slots_of,
)
from naperian.sizes import Size, evaluate, show
from naperian.source import Error

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Runner: TypeAlias = Callable[[Any, Any, Any, Any, bool], int]
"""(sizes, buffers, scalars, error, release) → the kernel's answer; the arguments are ctypes."""

Free: TypeAlias = Callable[[int], None]
Empty: TypeAlias = Callable[[tuple[int, ...], np.dtype[Any]], Array]
"""Gives back memory a kernel made, by its address."""

LARGEST = 1 << 47  # bytes a process can address
RELEASE = 8192  # elements from which on other Python threads may run


class ShapeError(Error, ValueError):
    """The shapes of the arguments do not fit the function's type."""


class RunError(Error, RuntimeError):
    """A run stopped. `place` is `file:line:column` in the program, if it is known."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place


class AssertionError(RunError, builtins.AssertionError):
    """An `assert` of the program does not hold."""


class Thrown(RunError):
    """A `throw()` of the program, which nothing in it handled."""


class MemoryError(RunError, builtins.MemoryError):
    """A run needed more memory than there is."""


class IndexError(RunError, builtins.IndexError):
    """An index that is checked at run time, or given by the caller, is out of range."""


def at_border(error: BaseException) -> bool:
    """Whether this file raised it: what the caller gave does not fit."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and place.tb_frame.f_globals.get("__name__") == __name__


@dataclass(slots=True)
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
        takes = _count(len(names), "positional argument")
        raise TypeError(f"{sig.name}() takes {takes} but {len(args)} were given")
    for key in keywords:
        if key not in names and key not in implicit:
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
        for leaf, where, value in parted(p.form, given, f"argument {p.name}", _rows_given):
            values.append(_value(sig, sig.inputs[leaf], value, where))
    if missing:
        listed = " and ".join(repr(x) for x in missing)
        raise TypeError(f"{sig.name}() is missing {_count(len(missing), 'argument')}: {listed}")
    sizes: dict[int, int] = {}
    for name, slot in implicit.items():
        if name not in keywords:
            raise TypeError(
                f"{sig.name}() needs the size {name} by keyword, as in {name}=10: "
                "no argument's shape gives it"
            )
        sizes[slot] = as_size(name, keywords[name])
    return values, sizes


def _count(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")


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
        return Value(where, True, np.zeros((0,) * len(leaf.shape)), DType.BOOL, blank=True)
    python = isinstance(given, bool | int | float | list | tuple)
    weak = python and not isinstance(given, np.generic)
    offsets = None
    if leaf.rows and leaf.rows[0]:
        given, offsets = _packed(given, where)
    if leaf.members:
        given, weak = _ordinals(leaf, given, where), weak or isinstance(given, str)
    if isinstance(given, np.ndarray) and hasattr(given, "mask"):
        raise TypeError(f"{where} is a masked array; fill it first, as in x.filled(0)")
    try:
        array = np.asarray(given)
    except (ValueError, TypeError) as error:
        uneven = "inhomogeneous" in str(error)
        why = "its parts are of different lengths" if uneven else str(error)
        raise ShapeError(f"{where} is no array: {why}") from None
    if array.ndim == 0 and array.dtype.kind in "OUS" and not isinstance(given, int | np.ndarray):
        raise TypeError(f"{where} is {_said(given)}: no number and no array")
    if python and array.dtype == object and all(isinstance(x, int) for x in array.flat):
        array = _large(sig, leaf, array, where)
    return Value(where, weak, array, _dtype(where, array.dtype), offsets)


def _said(given: Any) -> str:
    return "None" if given is None else type(given).__name__


def _large(sig: Signature, leaf: Leaf, integers: Array, where: str) -> Array:
    """Python's integers where some have more than 64 bits: a Float may hold them."""
    if _is_floating(sig, leaf):
        try:
            return integers.astype(np.float64)
        except OverflowError:
            raise OverflowError(f"{where} is too large for any Float") from None
    if leaf.dtype is DType.BOOL:
        raise TypeError(f"{where} is int, but it must be bool")
    wrong = max(integers.flat, key=abs)
    number = wrong if wrong.bit_length() <= 128 else f"an integer of {wrong.bit_length()} bits"
    kind = leaf.dtype.value if isinstance(leaf.dtype, DType) else "int64"
    raise OverflowError(f"{where} is {number}, which does not fit in {kind}")


def _packed(given: Any, where: str) -> tuple[Any, Array | None]:
    """Rows of unequal length one after the other, and where each starts. A flat array is packed
    already, and says nothing of its rows."""
    if isinstance(given, Ragged):
        return given.values, given.offsets
    rows = isinstance(given, list | tuple) and any(np.ndim(x) for x in given)
    if not rows:
        return given, None
    try:
        parts = [np.asarray(x) for x in given]
    except (ValueError, TypeError) as error:
        raise ShapeError(f"{where} is no list of rows: {error}") from None
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


def _rows_given(given: Any, where: str) -> tuple[Any, Array]:
    """The rows of a ragged array one after the other, and where each starts, which is checked."""
    if isinstance(given, np.ndarray) and given.ndim == 2:
        given = list(given)
    if isinstance(given, list | tuple) and not len(given):
        return [], np.zeros(1, np.int64)
    values, offsets = _packed(given, where)
    if offsets is None:
        raise TypeError(f"{where} must be rows, a list of arrays or nap.Ragged(values, offsets), "
                        f"not {kind(given)}")  # fmt: skip
    starts = np.asarray(offsets)
    length = len(np.asarray(values))
    if starts.ndim != 1 or not np.issubdtype(starts.dtype, np.integer) or not len(starts):
        raise ShapeError(f"{where}: the offsets must be one row of whole numbers, and at least one")
    if starts[0] != 0 or starts[-1] != length:
        raise ShapeError(f"{where}: the offsets go from {starts[0]} to {starts[-1]}, but they must "
                         f"go from 0 to {length}, the number of values")  # fmt: skip
    falls = np.flatnonzero(np.diff(starts.astype(np.int64)) < 0)
    if len(falls):
        i = int(falls[0])
        raise ShapeError(f"{where}: offset {i + 1} is {starts[i + 1]}, which is less than "
                         f"{starts[i]} before it")  # fmt: skip
    return values, starts.astype(np.int64)


def _check_rows(v: Value, leaf: Leaf, sizes: _Sizes) -> None:
    """The rows that were given are as long as the type says."""
    if v.offsets is None or len(leaf.rows[0]) != 2:
        return
    wanted = sizes.offsets(leaf.rows[0])
    found = v.offsets
    if len(wanted) != len(found):
        raise ShapeError(
            f"{v.where} has {_count(len(found) - 1, 'row')}, but it must have {len(wanted) - 1}"
        )
    wrong = np.flatnonzero(wanted != found)
    if len(wrong):
        i = int(wrong[0]) - 1
        raise ShapeError(
            f"{v.where}: row {i} has {_count(int(found[i + 1] - found[i]), 'element')}, "
            f"but it must have {int(wanted[i + 1] - wanted[i])}"
        )


def _is_floating(sig: Signature, leaf: Leaf) -> bool:
    if isinstance(leaf.dtype, int):
        return _chooses_precision(sig.types[leaf.dtype])
    return leaf.dtype.is_float


def _chooses_precision(slot: TypeSlot) -> bool:
    return slot.precision or slot.interface == "Floating"


def _ordinals(leaf: Leaf, given: Any, where: str) -> Any:
    """Names of enum members as their ordinals; other things as they are."""

    def ordinal(name: str) -> int:
        if name in leaf.members:
            return leaf.members.index(name)
        close = difflib.get_close_matches(name, leaf.members, 1)
        hint = f"; did you mean {close[0]}?" if close else f": {', '.join(leaf.members)}"
        raise ValueError(f"{where}: {leaf.enum} has no member {name!r}{hint}")

    if isinstance(given, str):
        return ordinal(given)
    if isinstance(given, list | tuple | np.ndarray):
        try:
            array = np.asarray(given)
        except ValueError:  # of different lengths, which is told of all arrays alike
            return given
        if array.dtype.kind == "U":
            return np.array([ordinal(str(x)) for x in array.ravel()], np.int64).reshape(array.shape)
    return given


# dtypes


def choose(sig: Signature, values: list[Value]) -> tuple[DType, ...]:
    """The dtype of each type slot.

    Arrays and NumPy scalars have a dtype; Python's numbers fit the others. `Float` is F32 if every
    floating argument is and the rest are held by it, else F64."""
    return tuple(
        _choice(t, [v for v, leaf in zip(values, sig.inputs, strict=True) if leaf.dtype == k])
        for k, t in enumerate(sig.types)
    )


def usual(sig: Signature) -> tuple[DType, ...]:
    """The instance when nothing is given that could choose."""
    return tuple(_choice(t, []) for t in sig.types)


def _choice(slot: TypeSlot, values: list[Value]) -> DType:
    strong = [v.dtype for v in values if not v.weak]
    weak = [v.dtype for v in values if v.weak and v.array.size and not v.blank]
    if _chooses_precision(slot):
        single = any(d is DType.F32 for d in strong) and all(holds(DType.F32, d) for d in strong)
        return DType.F32 if single else DType.F64
    if not values and slot.instances is None:
        return DType.I64  # as a literal of any number type
    chosen = strong[0] if strong else weak[0] if weak else DType.F64
    for v in values:
        joined = chosen if v.weak else join(chosen, v.dtype)
        if joined is None:
            raise TypeError(
                f"{v.where} is {v.dtype.value}, which has no common type with {chosen.value} "
                f"({slot.name} is one type)"
            )
        chosen = joined
    for d in weak:
        if d.is_float and chosen.is_integer:
            chosen = DType.F64
        elif not strong and d is not chosen and not chosen.is_float:
            chosen = join(chosen, d) or chosen
    if slot.instances is not None and chosen not in slot.instances:
        wider = [d for d in slot.instances if not strong and all(join(d, x) is d for x in weak)]
        if not wider:
            found = f"{values[0].where} is {chosen.value}: " if values else ""
            raise TypeError(f"{found}no instance for {slot.wanted}")
        return wider[0]
    if chosen is DType.BOOL and slot.interface == "Num":
        raise TypeError(f"{values[0].where} is bool; {slot.name} must be a number")
    return chosen


_DTYPES = {np.dtype(d.value): d for d in DType}


def _dtype(where: str, own: np.dtype[Any]) -> DType:
    """The scalar type of an argument. Half precision is held by single."""
    found = _DTYPES.get(own.newbyteorder("="))
    if found is not None:
        return found
    if own == np.float16:
        return DType.F32
    by_kind = {
        "c": "complex numbers are not supported",
        "O": "it holds Python objects",
        "U": "it holds text", "S": "it holds text",
        "M": "dates are not numbers", "m": "durations are not numbers",
        "V": "it holds records",
        "f": "it would lose precision in any type there is",
    }  # fmt: skip
    raise TypeError(f"{where} is {own}: {by_kind.get(own.kind, 'this is no number type')}")


def _converted(v: Value, dtype: DType) -> Array:
    """The argument in the dtype the kernel takes: itself if it is well laid out, else a copy."""
    target = np.dtype(dtype.value)
    if v.blank:
        return np.zeros(v.array.shape, target)
    if v.weak and v.array.size == 0:
        return np.empty(v.array.shape, target)
    if not holds(dtype, v.dtype) and not (v.weak and _python_fits(v, dtype)):
        own = v.array.dtype.newbyteorder("=")
        if DType.BOOL in (dtype, v.dtype):
            raise TypeError(f"{v.where} is {own}, but it must be {target}")
        hint = "" if v.weak else f"; convert it with .astype(np.{target}) if that is meant"
        raise TypeError(f"{v.where} is {own}, which would lose information as {target}{hint}")
    return np.require(v.array, target, ("C", "A"))


def _python_fits(v: Value, dtype: DType) -> bool:
    """Python's numbers have no size: an int goes where it fits, a float into any float."""
    if DType.BOOL in (v.dtype, dtype):
        return False
    if dtype.is_float:
        return True
    if v.dtype.is_float:
        return False
    limits = np.iinfo(dtype.value)
    least, most = int(v.array.min()), int(v.array.max())
    if least < limits.min or most > limits.max:
        wrong = least if least < limits.min else most
        raise OverflowError(f"{v.where} is {wrong}, which does not fit in {dtype.value}")
    return True


# shapes


@dataclass(slots=True)
class _Sizes:
    """The slots bound so far, and where each came from."""

    sig: Signature
    values: list[Value]
    known: dict[int, int]
    source: dict[int, str] = field(default_factory=dict)

    def value(self, s: Size) -> int:
        return evaluate(s, lambda a: self.known[a] if isinstance(a, int) else 0)

    def offsets(self, rows: tuple[Size, ...]) -> Array:
        """Where each row starts, and the end of the last."""
        count, length = rows
        at: dict[Any, int] = dict(self.known)
        lengths = []
        for at[-1] in range(max(0, self.value(count))):
            lengths.append(max(0, evaluate(length, at.__getitem__)))
        return np.cumsum([0, *lengths])

    def text(self, s: Size) -> str:
        return show(s, lambda a: self.sig.slots[a] if isinstance(a, int) else repr(a))

    def why(self, s: Size) -> str:
        """`n + 1 is 4 (n is 3 from axis 0 of y)`, `m is 3 from axis 1 of x`."""
        number = max(0, self.value(s))
        if s.constant is not None:
            return str(number)
        if isinstance(s.single, int):
            return f"{self.text(s)} is {number} from {self.source[s.single]}"
        return f"{self.text(s)} is {number} ({self.because(s)})"

    def because(self, s: Size) -> str:
        return ", ".join(
            f"{self.sig.slots[k]} is {self.known[k]} from {self.source[k]}"
            for k in sorted(slots_of(s))
        )

    def bind(self) -> None:
        """Follow the plan of the signature."""
        for slot, n in self.known.items():
            self.source[slot] = f"{self.sig.slots[slot]}={n}"
        for step in self.sig.plan:
            v = self.values[step.leaf]
            if isinstance(step, Given):
                self.known[step.slot] = int(v.array)
                self.source[step.slot] = v.where
                continue
            if v.blank:
                if not isinstance(step, Equal):
                    self.keep(step.slot, self.elsewhere(step.slot), v, step.axis)
                continue
            length = v.array.shape[step.axis]
            match step:
                case Bind(_, axis, slot, factor, rest):
                    f, above = self.value(factor), length - self.value(rest)
                    if f == 0 or above % f or above // f < 0:
                        whole = self.sig.inputs[step.leaf].shape[axis]
                        raise self.unsolved(v, axis, slot, whole)
                    self.keep(slot, above // f, v, axis)
                case Search(_, axis, slot, size):
                    found = self.search(size, slot, length)
                    if found is None:
                        raise self.unsolved(v, axis, slot, size)
                    self.keep(slot, found, v, axis)
                case Equal(leaf, axis, size):
                    if length != max(0, self.value(size)):
                        raise self.clash(v, self.sig.inputs[leaf], axis, size)
        for fact, text in self.sig.facts:
            if self.value(fact) < 0:
                raise ShapeError(f"{self.sig.name}() needs {text}, but {self.because(fact)}")

    def elsewhere(self, slot: int) -> int:
        """A size that a variant without the field does not say: as another argument has it."""
        for step in self.sig.plan:
            if isinstance(step, Equal) and step.size.single == slot:
                v = self.values[step.leaf]
                if not v.blank:
                    return int(v.array.shape[step.axis])
        return 0

    def keep(self, slot: int, n: int, v: Value, axis: int) -> None:
        self.known[slot] = n
        self.source[slot] = f"axis {axis} of {v.where.removeprefix('argument ')}"

    def search(self, s: Size, slot: int, length: int) -> int | None:
        """The smallest n >= 0 at which `s` is `length`, if `s` does not fall."""

        def at(n: int) -> int:
            self.known[slot] = n
            return self.value(s)

        low, high = -1, 1
        while at(high) < length:
            low, high = high, 2 * high
            if high > LARGEST:
                break
        while high - low > 1:
            middle = (low + high) // 2
            if at(middle) < length:
                low = middle
            else:
                high = middle
        found = high if at(high) == length else None
        del self.known[slot]
        return found

    def unsolved(self, v: Value, axis: int, slot: int, s: Size) -> ShapeError:
        name = self.sig.slots[slot]
        others = sorted(slots_of(s) - {slot})
        given = ", ".join(
            f"{self.sig.slots[k]} is {self.known[k]} from {self.source[k]}" for k in others
        )
        return ShapeError(
            f"{v.where}: axis {axis} is {v.array.shape[axis]}, but it must be {self.text(s)} "
            f"for some {name} >= 0" + (f" ({given})" if given else "")
        )

    def clash(self, v: Value, leaf: Leaf, axis: int, s: Size) -> ShapeError:
        length = v.array.shape[axis]
        if leaf.labels[axis]:
            n = self.value(s)
            reason = f"{leaf.labels[axis]} has {_count(n, 'element')}"
        elif s.constant is not None:
            reason = f"it must be {s.constant}"
        else:
            reason = self.why(s)
        return ShapeError(f"{v.where}: axis {axis} is {length}, but {reason}")


def _check_rank(v: Value, leaf: Leaf, sizes: _Sizes) -> None:
    wanted, actual = len(leaf.shape), v.array.ndim
    if wanted == actual:
        return
    if not wanted:
        raise ShapeError(f"{v.where} must be a single value, not an array of shape {v.array.shape}")
    axes = ", ".join(
        label or sizes.text(s) for label, s in zip(leaf.labels, leaf.shape, strict=True)
    )
    has = "a single value" if actual == 0 else f"an array with {_count(actual, 'axis')}"
    raise ShapeError(
        f"{v.where} must have {_count(wanted, 'axis').replace('axiss', 'axes')} ({axes}), "
        f"not {has.replace('axiss', 'axes')}"
        + (f", shape {v.array.shape}" if actual else "")
    )


def _is_empty(leaf: Leaf, sizes: _Sizes) -> bool:
    """Whether a set of indices has no element."""
    assert leaf.low is not None
    assert leaf.high is not None
    return sizes.value(leaf.high) <= sizes.value(leaf.low)


def _check_bounds(v: Value, leaf: Leaf, data: Array, sizes: _Sizes) -> None:
    """Every element of an array of indices is in its set."""
    if leaf.low is None or leaf.high is None or data.size == 0 or v.blank:
        return
    low, high = sizes.value(leaf.low), sizes.value(leaf.high)
    if data.min() >= low and data.max() < high:
        return
    wrong = (data < low) | (data >= high)
    position = tuple(int(k) for k in np.argwhere(wrong)[0])
    value = int(data[position])
    where = v.where
    if position:
        number = position[0] if len(position) == 1 else position
        where = f"{where}: element {number}"
    if value < low:
        raise IndexError(
            f"{where} is {value}, but it must be "
            + ("at least 0" if low == 0 else f"at least {low} ({sizes.text(leaf.low)})")
        )
    if leaf.members:
        reason = f"{leaf.enum} has {_count(high, 'member')}"
    elif isinstance(leaf.high.single, int):
        reason = f"the size of {sizes.source[leaf.high.single]}"
        if "=" in reason:
            reason = reason.removeprefix("the size of ")
    elif leaf.high.constant is not None:
        reason = ""
    else:
        reason = f"{sizes.text(leaf.high)}; {sizes.because(leaf.high)}"
    raise IndexError(
        f"{where} is {value}, but it must be below {high}" + (f" ({reason})" if reason else "")
    )


# the call


def call(
    inst: Instance,
    values: list[Value],
    implicit: dict[int, int],
    run: Runner,
    out: Any = None,
    free: Free | None = None,
    empty: Empty = np.empty,
) -> Any:
    """Run an instance on gathered arguments. `free` gives back memory that the kernel made for a
    result whose size the run found; NumPy owns it until then. `empty` makes the other results."""
    sig = inst.signature
    sizes = _Sizes(sig, values, dict(implicit))
    for v, leaf in zip(values, sig.inputs, strict=True):
        _check_rank(v, leaf, sizes)
    arrays = [_converted(v, inst.dtype(x)) for v, x in zip(values, sig.inputs, strict=True)]
    sizes.bind()
    for k, (v, leaf) in enumerate(zip(values, sig.inputs, strict=True)):
        if v.blank:
            shape = tuple(max(0, sizes.value(s)) for s in leaf.shape)
            low = 0 if leaf.low is None else sizes.value(leaf.low)
            arrays[k] = np.full(shape, low, arrays[k].dtype)
    for k, (v, leaf, data) in enumerate(zip(values, sig.inputs, arrays, strict=True)):
        _check_rows(v, leaf, sizes)
        if k not in inst.checked or _is_empty(leaf, sizes):
            _check_bounds(v, leaf, data, sizes)
    given = _outs(sig, out)
    results: list[Array] = []
    for k, leaf in enumerate(sig.outputs):
        dtype = np.dtype(inst.dtype(leaf).value)
        target = None if given is None else given[k]
        if sig.late(leaf):
            results.append(np.zeros((), np.intp))  # where the kernel says where it is
            continue
        shape = tuple(max(0, sizes.value(s)) for s in leaf.shape)
        if target is None:
            results.append(_allocate(sig.name, shape, dtype, empty))
        else:
            others = [a for j, a in enumerate(arrays)
                      if not ((j, k) in inst.donors and _same_memory(a, target))]  # fmt: skip
            results.append(_destination(target, shape, dtype, others))
    try:
        if not _run(inst, sizes, arrays, results, run):
            for v, leaf, data in zip(values, sig.inputs, arrays, strict=True):
                _check_bounds(v, leaf, data, sizes)
            raise IndexError(f"an array of indices was changed while {sig.name}() read it")
    except BaseException:
        for leaf, made in zip(sig.outputs, results, strict=True):
            if sig.late(leaf) and free is not None:
                free(int(made))
        raise
    results = _found(inst, sizes, results, free)
    if given is not None:
        for target, made in zip(given, results, strict=True):
            if target is not None and target is not made:
                target[...] = made
        results = [
            made if target is None else target for target, made in zip(given, results, strict=True)
        ]
    kept = [given is not None and given[k] is not None for k in range(len(results))]
    return _delivered(inst, sizes, results, kept)


def integers(
    inst: Instance, values: list[Value], implicit: dict[int, int]
) -> tuple[list[int], list[int | None]]:
    """The sizes of a call as the kernel takes them, and its arguments that are integers."""
    sizes = _Sizes(inst.signature, values, dict(implicit))
    for v, leaf in zip(values, inst.signature.inputs, strict=True):
        _check_rank(v, leaf, sizes)
    sizes.bind()
    scalars = [
        int(v.array) if not leaf.shape and not v.blank and v.array.dtype.kind in "iu" else None
        for v, leaf in zip(values, inst.signature.inputs, strict=True)
    ]
    return [sizes.known[k] for k in inst.order], scalars


class _Made:
    """Memory that a kernel made, for NumPy to hold and to give back."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], free: Free):
        self.address, self.free = address, free
        self.__array_interface__ = {
            "version": 3, "data": (address, False), "shape": shape, "typestr": dtype.str,
        }  # fmt: skip

    def __del__(self) -> None:
        self.free(self.address)


def _found(
    inst: Instance, sizes: _Sizes, results: list[Array], free: Free | None
) -> list[Array]:
    """The results, those of late sizes as arrays of the sizes that the run found."""
    sig = inst.signature
    out = [None if sig.late(x) else made for x, made in zip(sig.outputs, results, strict=True)]

    def found(k: int) -> Array:
        known = out[k]
        if known is None:
            assert free is not None
            leaf = sig.outputs[k]
            shape = tuple(max(0, sizes.value(s)) for s in leaf.shape)
            made = _Made(int(results[k]), shape, np.dtype(inst.dtype(leaf).value), free)
            out[k] = known = np.asarray(made)
        return known

    for slot, k in _late_sizes(sig.result):  # those of a table of boxes in a box after the box's
        sizes.known[slot] = int(np.maximum(found(k), 0).sum())
    return [found(k) for k in range(len(out))]


def _late_sizes(form: Form) -> Iterator[tuple[int, int]]:
    match form:
        case Opened(slots, value):
            yield from slots
            yield from _late_sizes(value)
        case Rows(slot, rows, _):
            yield slot, rows
        case Record(_, _, items) | Tagged(_, _, items):
            yield from _late_sizes(items)
        case tuple():
            for x in form:
                yield from _late_sizes(x)
        case int():
            pass


def _run(
    inst: Instance, sizes: _Sizes, arrays: list[Array], results: list[Array], run: Runner
) -> bool:
    """Whether all indices that the kernel checks were in their sets."""
    buffers = [*arrays, *results]
    words = (ctypes.c_int64 * max(1, len(inst.order)))(*(sizes.known[k] for k in inst.order))
    pointers = (ctypes.c_void_p * max(1, len(buffers)))(*(b.ctypes.data for b in buffers))
    scalars = np.zeros((max(1, len(buffers)), 8), np.uint8)
    for k, (leaf, a) in enumerate(zip(inst.signature.inputs, arrays, strict=True)):
        if not leaf.shape:
            scalars[k, : a.itemsize] = np.frombuffer(a.tobytes(), np.uint8)
    error = (ctypes.c_int64 * 4)()
    work = sum(b.size for b in buffers)
    code = run(words, pointers, scalars.ctypes.data, error, work >= RELEASE)
    if inst.found_outside(code):
        return False
    if code:
        stop(inst.faults, code, *error)
    return True


def stop(faults: tuple[Fault, ...], code: int, *values: int) -> NoReturn:
    """Raise what a kernel's answer means."""
    if code == -1:
        raise KeyboardInterrupt
    if code == -2:
        raise MemoryError("there is not enough memory for an intermediate array")
    fault = faults[code - 1]
    indexes = "{size}" in fault.message
    text = fault.message.replace("{value}", str(values[0])).replace("{size}", str(values[1]))
    kind: type[RunError] = IndexError if indexes else Thrown if fault.thrown else AssertionError
    if fault.too_large:
        kind = MemoryError
    raise kind(text, fault.place)


def _allocate(name: str, shape: tuple[int, ...], dtype: np.dtype[Any], empty: Empty) -> Array:
    """Memory for a result; a result that cannot exist is an error before any of it is touched."""
    needed = dtype.itemsize
    for n in shape:
        needed *= max(1, n)  # NumPy counts as if there were something
    if needed < LARGEST:
        try:
            return empty(shape, dtype)
        except builtins.MemoryError:
            pass
    raise builtins.MemoryError(
        f"the result of {name}() needs {_bytes(needed)}: shape {shape} of {dtype}"
    )


def _bytes(n: int) -> str:
    amount, unit = float(n), "bytes"
    for larger in ("kB", "MB", "GB", "TB", "PB", "EB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.3g} {unit}"


def _no_rows(given: Any, where: str) -> tuple[Any, Any]:
    raise TypeError(f"{where}: the size of this result is known only after the run")


def _outs(sig: Signature, out: Any) -> list[Array | None] | None:
    """The buffers given for results, leaf by leaf."""
    if out is None:
        return None
    found: list[Array | None] = [None] * len(sig.outputs)
    places: list[tuple[str, Array]] = []
    for leaf, where, given in parted(sig.result, out, "out", _no_rows):
        if given is not None and not isinstance(given, np.ndarray):
            raise TypeError(f"{where} must be an array, not {kind(given)}")
        if given is not None and not sig.outputs[leaf].shape:
            raise TypeError(f"{where}: this result is a single value, not an array")
        for other, before in places:
            if given is not None and np.shares_memory(given, before):
                raise ValueError(f"{other} and {where} share memory, and both are written")
        if given is not None:
            places.append((where, given))
        found[leaf] = given
    return found


def _same_memory(a: Array, b: Array) -> bool:
    """Whether these are the same elements at the same addresses."""
    return (
        a.ctypes.data == b.ctypes.data
        and (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)
    )  # fmt: skip


def _destination(
    target: Array, shape: tuple[int, ...], dtype: np.dtype[Any], inputs: Iterable[Array]
) -> Array:
    """Where the kernel writes: the caller's buffer, or memory to copy from when that buffer is
    not contiguous or shares memory with one of these arguments."""
    if target.shape != shape:
        raise ShapeError(f"out has shape {target.shape}, but the result has {shape}")
    if target.dtype != dtype:
        raise TypeError(f"out is {target.dtype}, but the result is {dtype}")
    if not target.flags.writeable:
        raise ValueError("out is read-only")
    direct = target.flags.c_contiguous and target.flags.aligned and target.dtype.isnative
    if direct and not any(np.may_share_memory(target, a) for a in inputs):
        return target
    return np.empty(shape, dtype)


def _delivered(inst: Instance, sizes: _Sizes, results: list[Array], kept: list[bool]) -> Any:
    def of(k: int) -> Any:
        leaf, value = inst.signature.outputs[k], results[k]
        if leaf.shape and len(leaf.rows[0]) == 2 and not kept[k]:
            return Ragged(value, sizes.offsets(leaf.rows[0]))
        if leaf.shape or kept[k]:
            return value
        return value[()] if inst.dtype(leaf) is DType.F32 else value.item()

    def rows(form: Rows) -> Ragged:
        lengths = np.maximum(results[form.rows], 0)
        return Ragged(results[form.values], np.cumsum([0, *lengths]))

    return dressed(inst.signature.result, nested(inst.signature.result, of, rows))
