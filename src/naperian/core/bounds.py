"""How much a run of the interpreter may do: a `while` loop may never end. What is asked of a run
beside its value: whether a number became too large for its type."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np


class Unended(Exception):
    """A run made more rounds of `while` loops, or took more time, than it may."""


class Dear(Unended):
    """A run went through more elements than it may."""


class Bounds:
    """How many rounds of `while` loops are left, until when runs may go on (`monotonic`), and how
    many elements may be gone through, if that is bounded."""

    def __init__(self, rounds: int, until: float, elements: int | None) -> None:
        self.rounds = rounds
        self.until = until
        self.elements = elements
        self.overflowed = False

    def noting(self) -> np.errstate:
        """NumPy without its warnings, which notes an overflow."""
        return np.errstate(all="ignore", over="call", call=self._note)

    def _note(self, *_: Any) -> None:
        self.overflowed = True

    def spend(self, rounds: int) -> None:
        """Time, and some rounds."""
        self.rounds -= rounds
        if self.rounds < 0 or time.monotonic() > self.until:
            raise Unended

    def visit(self, elements: int) -> None:
        """So many elements of a set; time, too, for sets in sets may have very many."""
        if time.monotonic() > self.until:
            raise Unended
        if self.elements is not None:
            self.elements -= elements
            if self.elements < 0:
                raise Dear


_here: ContextVar[Bounds | None] = ContextVar("bounds", default=None)


def bounds() -> Bounds | None:
    """Those of this run, if it has any."""
    return _here.get()


@contextmanager
def bounded(rounds: int, until: float, elements: int | None = None) -> Iterator[Bounds]:
    """Runs in here make so many rounds, all together, and go through so many elements."""
    made = Bounds(rounds, until, elements)
    token = _here.set(made)
    try:
        yield made
    finally:
        _here.reset(token)
