"""Types and sets with their variables looked up."""

from __future__ import annotations

from collections.abc import Callable

from naperian.names import Var
from naperian.node import node, replace
from naperian.sizes import Size
from naperian.substitution import dependent, mapped, set_mapped
from naperian.types import (
    Exists,
    Fin,
    Scalar,
    Set,
    SetVar,
    Table,
    Type,
    TypeVar,
)


@node
class Resolve:
    """What sizes, set variables and type variables become. The answers are final: they are not
    looked into again. `number` is told which indices dependent tables bind: they stay."""

    number: Callable[[Size, frozenset[Var]], Size]
    named: Callable[[Var], Set]
    chosen: Callable[[Var], Type]
    bound: frozenset[Var] = frozenset()

    def size(self, n: Size) -> Size:
        return self.number(n, self.bound)

    def set(self, s: Set) -> Set:
        if isinstance(s, Fin):
            new = self.number(s.size, self.bound)
            return s if new is s.size else Fin(new)
        if isinstance(s, SetVar):
            return self.named(s.var)
        return set_mapped(s, self.size, self.set, self.type)

    def type(self, t: Type) -> Type:
        match t:
            case Scalar():
                return t
            case TypeVar():
                return self.chosen(t.var)
            case Table(s, cell, index) if index is not None:
                inner = replace(self, bound=self.bound | {index})
                return dependent(self.set(s), index, inner.type(cell))
            case Exists(vars, body):
                inner = replace(self, bound=self.bound.union(vars))
                return Exists(vars, inner.type(body))
            case _:
                return mapped(t, self.size, self.set, self.type)


def resize(size: Callable[[Size], Size]) -> Resolve:
    """Only the sizes become something else."""
    return Resolve(lambda n, _: size(n), SetVar, TypeVar)
