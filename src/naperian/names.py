"""Names and literals, shared by every language.

A `Var` is a name that means one thing: two variables are equal only if they are the same
variable, however they are spelled. A `Lit` is a typed constant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from naperian.dtypes import DType
from naperian.node import keeper

_ids = count()


@dataclass(frozen=True, slots=True, eq=False)
class Var:
    """A variable. `name` is what the user wrote (for printing); identity is the object's own."""

    name: str
    id: int = field(default_factory=_ids.__next__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Var) and self.id == other.id

    def __hash__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"{self.name}.{self.id}"


def fresh(like: Var | str) -> Var:
    """A new variable that prints like an old one."""
    return Var(like if isinstance(like, str) else like.name)


@keeper
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
