"""Names and literals, shared by every language.

A `Var` is a name that means one thing: two variables are equal only if they are the same
variable, however they are spelled. A `Lit` is a typed constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

from naperian.dtypes import DType

_ids = count()
_NO_NUMBER = 2.0**40


class Var(complex):
    """A variable. `name` is what the user wrote (for printing); identity is the object's own.

    It is a number only to be found quickly: tables and sets of variables are asked some hundred
    times for every line of a program, and Python has these answers to two methods of complex
    numbers in C. No other number equals one.
    """

    __slots__ = ("id", "name")
    name: str
    id: int

    def __new__(cls, name: str, id: int | None = None) -> Var:
        number = next(_ids) if id is None else id
        made = complex.__new__(cls, number, _NO_NUMBER)
        made.name, made.id = name, number
        return made

    def __reduce__(self) -> Any:
        return Var, (self.name, self.id)

    def __repr__(self) -> str:
        return f"{self.name}.{self.id}"

    __str__ = __repr__


def fresh(like: Var | str) -> Var:
    """A new variable that prints like an old one."""
    return Var(like if isinstance(like, str) else like.name)


@dataclass(frozen=True, slots=True, eq=False)
class Lit:
    """A constant. Equality is by dtype and spelling, so `0.0`, `-0.0`, `0` and `False` all differ
    and a NaN equals itself (Python's own `==` would merge or lose them)."""

    value: bool | int | float
    dtype: DType

    def _key(self) -> tuple[str, DType]:
        return repr(self.value), self.dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lit) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())
