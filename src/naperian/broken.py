"""The compiler's own mistakes."""

from __future__ import annotations


class Broken(AssertionError):
    """The compiler broke its own promise: never the user's fault. Every `check` raises it, and so
    does a pass that meets what an earlier one should have removed."""

    def __str__(self) -> str:
        return f"{super().__str__()}\n{REPORT}"


REPORT = (
    "This is a mistake in Naperian, not in your program: please report it with the program and what"
    " `nap doctor` prints"
)
