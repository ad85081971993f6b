"""Names and literals, shared by every language.

A `Var` is a name that means one thing: two variables are equal only if they are the same
variable, however they are spelled. A `Lit` is a typed constant.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from itertools import count
from typing import TYPE_CHECKING, Any

from naperian.dtypes import DType
from naperian.node import keeper

_ids = count(1)  # none is 0: a variable is true


if TYPE_CHECKING:
    _Identity = object
else:
    _Identity = complex


class Var(_Identity):
    """A variable. `name` is what the user wrote (for printing); identity is `id`.

    Half of what a compilation does is to look variables up. A number hashes and compares without
    a call of Python, always in the same way (sets of variables are walked in the same order in
    every run), and a complex one is taken for nothing else: it has no order, and is no index."""

    __slots__ = ("id", "name")
    __match_args__ = ("name", "id")

    name: str
    id: int

    def __new__(cls, name: str, id: int | None = None) -> Var:
        known = next(_ids) if id is None else id
        made = _new(cls, known)
        _set_name(made, name)
        _set_id(made, known)
        return made  # type: ignore[no-any-return]

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        return f"{self.name}.{self.id}"

    __str__ = __repr__

    def __reduce__(self) -> tuple[object, ...]:
        return Var, (self.name, self.id)


_new: Any = _Identity.__new__
_set_name: Any = Var.__dict__["name"].__set__
_set_id: Any = Var.__dict__["id"].__set__


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
