"""What goes wrong at the border, and what a run that stopped means."""

from __future__ import annotations

import builtins
from typing import NoReturn

from naperian.signature import Fault
from naperian.source import Error


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


for _kind in (ShapeError, RunError, AssertionError, Thrown, MemoryError, IndexError):
    _kind.__module__ = "naperian"  # where users find it


def at_border(error: BaseException) -> bool:
    """Whether the border raised it: what the caller gave does not fit."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    name = "" if place is None else place.tb_frame.f_globals.get("__name__", "")
    return name == "naperian.forms" or name.startswith("naperian.border.")


def stop(faults: tuple[Fault, ...], code: int, *values: int) -> NoReturn:
    """Raise what a kernel's answer means."""
    if code == -1:
        raise KeyboardInterrupt
    if code == -2:
        raise MemoryError("there is not enough memory for an intermediate array")
    fault = faults[code - 1]
    if fault.argument:
        raise ShapeError(fault.message)
    indexes = "{size}" in fault.message
    text = fault.message.replace("{value}", str(values[0])).replace("{size}", str(values[1]))
    kind: type[RunError] = IndexError if indexes else Thrown if fault.thrown else AssertionError
    if fault.too_large:
        kind = MemoryError
    raise kind(text, fault.place)
