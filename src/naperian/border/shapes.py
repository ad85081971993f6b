"""Sizes: what shapes say of them, and whether they agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np

from naperian.border.errors import IndexError, ShapeError
from naperian.border.value import LARGEST, Array, Value, counted
from naperian.node import mutable
from naperian.signature import Bind, Equal, Given, Leaf, Search, Signature, slots_of
from naperian.sizes import Size, evaluate, show


@mutable
class Sizes:
    """The slots bound so far, and where each came from."""

    sig: Signature
    values: list[Value]
    known: dict[int, int]
    source: dict[int, str] = field(default_factory=dict)

    def value(self, s: Size) -> int:
        return evaluate(s, lambda a: self.known[a] if isinstance(a, int) else 0)

    def offsets(self, rows: tuple[Size, ...]) -> Array:
        """Where each row starts, and the end of the last."""
        return starts(rows, self.known)

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
            if not v.says(step.axis):
                if not isinstance(step, Equal) and step.slot not in self.known:
                    self.keep(step.slot, *self.elsewhere(step.slot, v, step.axis))
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

    def elsewhere(self, slot: int, v: Value, axis: int) -> tuple[int, Value, int]:
        """A size that a value does not say, as a variant without the field: as another argument
        has it, and where."""
        for step in self.sig.plan:
            if isinstance(step, Equal) and step.size.single == slot:
                other = self.values[step.leaf]
                if other.says(step.axis):
                    return int(other.array.shape[step.axis]), other, step.axis
        return 0, v, axis

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
            reason = f"{leaf.labels[axis]} has {counted(n, 'element')}"
        elif s.constant is not None:
            reason = f"it must be {s.constant}"
        else:
            reason = self.why(s)
        return ShapeError(f"{v.where}: axis {axis} is {length}, but {reason}")


def starts(rows: tuple[Size, ...], known: Mapping[int, int]) -> Array:
    """Where each row of a dependent table starts, and the end of the last. In the length of a row
    -1 is its number, other atoms are slots."""
    count, length = rows
    at: dict[Any, Any] = dict(known)
    n = max(0, evaluate(count, at.__getitem__))
    if all(isinstance(a, int) for a in length.atoms):
        at[-1] = np.arange(n)  # all rows at once
        lengths = np.broadcast_to(evaluate(length, at.__getitem__), n)
    else:
        lengths = np.array([evaluate(length, {**at, -1: i}.__getitem__) for i in range(n)], int)
    return np.concatenate(([0], np.cumsum(np.maximum(lengths, 0))))


def check_rank(v: Value, leaf: Leaf, sizes: Sizes) -> None:
    wanted, actual = len(leaf.shape), v.array.ndim
    if wanted == actual:
        return
    if not wanted:
        raise ShapeError(f"{v.where} must be a single value, not an array of shape {v.array.shape}")
    axes = ", ".join(
        label or sizes.text(s) for label, s in zip(leaf.labels, leaf.shape, strict=True)
    )
    has = "a single value" if actual == 0 else f"an array with {counted(actual, 'axis')}"
    raise ShapeError(
        f"{v.where} must have {counted(wanted, 'axis').replace('axiss', 'axes')} ({axes}), "
        f"not {has.replace('axiss', 'axes')}"
        + (f", shape {v.array.shape}" if actual else "")
        + (f"; {_triangle(leaf)}" if leaf.rows and leaf.rows[0] and actual == wanted + 1 else "")
    )


def _triangle(leaf: Leaf) -> str:
    """What is wanted instead of a square."""
    _, length = leaf.rows[0]
    part = "triu" if length.coefficient(-1) < 0 else "tril"
    packed = f"m[np.{part}_indices(len(m))]"
    return f"rows are a list of them, or one after the other: for a triangle, {packed}"


def is_empty(leaf: Leaf, sizes: Sizes) -> bool:
    """Whether a set of indices has no element."""
    assert leaf.low is not None
    assert leaf.high is not None
    return sizes.value(leaf.high) <= sizes.value(leaf.low)


def check_bounds(v: Value, leaf: Leaf, data: Array, sizes: Sizes) -> None:
    """Every element of an array of indices is in its set."""
    if leaf.low is None or leaf.high is None or data.size == 0 or v.said is not None:
        return
    low, high = sizes.value(leaf.low), sizes.value(leaf.high)
    if data.min() >= low and data.max() < high:
        return
    wrong = (data < low) | (data >= high)
    position = tuple(int(k) for k in np.argwhere(wrong)[0])
    value = int(data[position])
    where = v.where
    if v.column is not None:
        where = v.column.name(where, *position)
    elif position:
        number = position[0] if len(position) == 1 else position
        where = f"{where}: element {number}"
    if value < low:
        raise IndexError(
            f"{where} is {value}, but it must be "
            + ("at least 0" if low == 0 else f"at least {low} ({sizes.text(leaf.low)})")
        )
    if leaf.members:
        reason = f"{leaf.enum} has {counted(high, 'member')}"
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
