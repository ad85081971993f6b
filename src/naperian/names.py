"""Names and literals, shared by every language.

A `Var` is a name that means one thing: two variables are equal only if they are the same
variable, however they are spelled. A `Lit` is a typed constant.
"""

from __future__ import annotations

from itertools import count

from naperian.dtypes import DType
from naperian.node import keeper

_ids = count()


class Var(complex):
    """A variable. `name` is what the user wrote (for printing); identity is the object's own. What
    has no name in the text is `said` in messages by what the user wrote for it (`rows[i]`).

    It is a number only for its hash and equality, which are C's: a tenth of a compilation asks for
    them. Its real part is the `id`, and the imaginary one makes it unequal to what is no variable,
    and is not seen in the last 60 bits of the hash."""

    __slots__ = ("id", "name", "said")
    name: str
    id: int
    said: str

    def __new__(cls, name: str, id: int | None = None, said: str = "") -> Var:
        number = next(_ids) if id is None else id
        made = complex.__new__(cls, number, 0.5)
        made.name, made.id, made.said = name, number, said or name
        return made

    def __reduce__(self) -> tuple[type[Var], tuple[str, int]]:
        return Var, (self.name, self.id)

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


def zero(dtype: DType) -> Lit:
    """Nothing, of a type."""
    return Lit(False if dtype is DType.BOOL else 0.0 if dtype.is_float else 0, dtype)
