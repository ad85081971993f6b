"""What handlers hold while the interpreter runs, references into it, and what is outside of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar

from naperian.core.dual import primal
from naperian.core.exact import exact
from naperian.core.syntax import THROWN
from naperian.core.values import Value
from naperian.dtypes import DType
from naperian.lines import Told, Write
from naperian.prims import scalar
from naperian.source import Span
from naperian.types import Exists, Table, Tuple, Type

HEARD: ContextVar[bool] = ContextVar("heard", default=True)
"""Whether what is printed is shown: not what is evaluated once more."""


class RunError(Exception):
    """The program stopped itself: a failed `assert` or a checked index."""

    def __init__(self, message: str, origin: Span) -> None:
        super().__init__(message)
        self.message = message
        self.origin = origin


class Slot:
    """What a handler's cell holds, and what `+=` does to it."""

    def __init__(self, value: Value, t: Type, combine: Callable[[Type, Value, Value], Value]):
        self.value = value
        self.type = t
        self.combine = combine


class Place:
    """A reference: a slot, or an element or a component of one."""

    def __init__(self, slot: Slot, path: tuple[int, ...] = ()) -> None:
        self.slot = slot
        self.path = path

    def at(self, k: int) -> Place:
        return Place(self.slot, (*self.path, k))

    __getitem__ = at

    @property
    def type(self) -> Type:
        t = self.slot.type
        for k in self.path:
            assert isinstance(t, Table | Tuple)
            t = t.cell if isinstance(t, Table) else t.items[k]
        return t

    def get(self) -> Value:
        value = self.slot.value
        for k in self.path:
            value = value[k]
        return value

    def put(self, new: Value) -> None:
        self.slot.value = _replaced(self.slot.value, self.path, exact(new, self.type))

    def throw(self, origin: Span) -> None:
        self.put(scalar(False, DType.BOOL))


class Outside:
    """What handles the effects of a definition that is called from outside."""

    def __init__(self, write: Write) -> None:
        self.told = Told(write)

    def get(self) -> Value:
        return scalar(True, DType.BOOL)

    def throw(self, origin: Span) -> None:
        raise RunError(THROWN, origin)


def told(value: Value, t: Type) -> Iterator[Value]:
    """The numbers that are handed over to show a value."""
    match t:
        case Table(_, cell):
            yield len(value)
            for x in value:
                yield from told(x, cell)
        case Tuple(items):
            for x, item in zip(value, items, strict=True):
                yield from told(x, item)
        case Exists(_, body):
            yield from told(value[1], body)
        case _:
            yield primal(exact(value, t))


def _replaced(whole: Value, path: tuple[int, ...], new: Value) -> Value:
    if not path:
        return new
    k, *rest = path
    made = [*whole[:k], _replaced(whole[k], tuple(rest), new), *whole[k + 1 :]]
    return tuple(made) if isinstance(whole, tuple) else made
