"""Types and sets with their variables looked up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from naperian.names import Var
from naperian.node import node
from naperian.sizes import Size
from naperian.substitution import dependent, mapped
from naperian.types import (
    BoolSet,
    Data,
    EnumSet,
    Exists,
    Fin,
    Function,
    Index,
    Range,
    Reference,
    Reverse,
    Scalar,
    Set,
    SetVar,
    Slice,
    Sum,
    Table,
    Text,
    Tuple,
    TupleSet,
    Type,
    TypeVar,
    UnitSet,
    element,
    sum_of,
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
        match s:
            case Fin(n):
                return Fin(self.size(n))
            case SetVar(var):
                return self.named(var)
            case TupleSet(sets, made):
                kind = self.type(made) if made is not None else None
                assert kind is None or isinstance(kind, Data)
                return TupleSet(tuple(self.set(x) for x in sets), kind)
            case Range(low, high):
                return Range(self.size(low), self.size(high))
            case Reverse(inner):
                return Reverse(self.set(inner))
            case Sum(left, right):
                return sum_of(self.set(left), self.set(right))
            case Slice(inner, start, step, n):
                return Slice(self.set(inner), self.size(start), self.size(step), self.size(n))
            case BoolSet() | UnitSet() | EnumSet():
                return s

    def type(self, t: Type) -> Type:
        match t:
            case TypeVar(var):
                return self.chosen(var)
            case Index(s):
                return element(self.set(s))
            case Table(s, cell, index) if index is not None:
                inner = replace(self, bound=self.bound | {index})
                return dependent(self.set(s), index, inner.type(cell))
            case Table(s, cell):
                return Table(self.set(s), self.type(cell))
            case Data():
                return mapped(t, self.size, self.set, self.type)
            case Tuple(items):
                return Tuple(tuple(self.type(x) for x in items))
            case Function(params, result):
                own = tuple(self.type(p) for p in params)
                return Function(own, self.type(result), t.effects)
            case Exists(vars, body):
                inner = replace(self, bound=self.bound.union(vars))
                return Exists(vars, inner.type(body))
            case Reference(cell):
                return Reference(self.type(cell))
            case Scalar() | Text():
                return t


def resize(size: Callable[[Size], Size]) -> Resolve:
    """Only the sizes become something else."""
    return Resolve(lambda n, _: size(n), SetVar, TypeVar)
