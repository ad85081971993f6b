"""The numbering that data made of indices has without being told.

    enum Grade = Fail | Pass(mark: Fin(4))        ordinal     Fail -> 0, Pass(m) -> 1 + m
    instance Ix(Grade)                            at          k -> Fail if k < 1 else Pass(k - 1)

The variants follow each other; the fields of one are counted as tuples are, the last one fastest.
A field may be data that is numbered itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.frontend.walk import Coded
from naperian.names import Var
from naperian.node import node
from naperian.sizes import ONE, ZERO, Size, size
from naperian.source import NOWHERE, Span
from naperian.types import (
    INT,
    Data,
    Fin,
    Index,
    Scalar,
    SetVar,
    Tuple,
    Type,
    TypeVar,
    Variant,
    cardinality,
    numbers,
)


@node
class Numbering:
    """The numbers of the elements of index sets. `coded` tells of data how it is numbered, if by
    definitions of its own."""

    coded: Callable[[Data], Coded | None]

    def count(self, t: Type) -> Size | None:
        """How many values a type has; None if they are no elements of an index set."""
        match t:
            case Index(s):
                return cardinality(s)
            case Scalar(DType.BOOL):
                return size(2)
            case Data() if (c := self.coded(t)) is not None:
                return c.count
            case Data(_, layout) if not layout.indexed:
                return None
            case Tuple(items):
                return self.product(items)
            case _:
                return None

    def product(self, kinds: Sequence[Type]) -> Size | None:
        """How many tuples there are of values of these types."""
        total = ONE
        for t in kinds:
            n = self.count(t)
            if n is None:
                return None
            total = total * n
        return total

    def number(self, t: Type, e: core.Expr, span: Span = NOWHERE) -> core.Expr:
        """The number of a value, which `span` says."""
        match t:
            case Index(SetVar() as s):  # elements of what is chosen for it need not be numbers
                v, all_there = Var("k"), Fin(cardinality(s))
                table = core.For(v, all_there, core.Op("cast", (core.Ref(v),), INT))
                return core.At(core.Recast(table, (all_there,), (s,), INT), e, s)
            case Index(s):
                first, step = numbers(s)
                v = Var("k")
                return core.Let(
                    v, core.Op("cast", (e,), INT), core.Number((size(v) - first) // step)
                )
            case Data() if (c := self.coded(t)) is not None:
                return core.Op("cast", (c.number(e, span),), INT)
            case Tuple(items):
                v = Var("t")
                parts = [(x, core.Part(core.Ref(v), n)) for n, x in enumerate(items)]
                return core.Let(v, e, self.number_of_tuple(parts))
            case _:
                return core.If(e, core.Number(ONE), core.Number(ZERO))

    def number_of_tuple(self, parts: Sequence[tuple[Type, core.Expr]]) -> core.Expr:
        total: core.Expr = core.Number(ZERO)
        for n, (t, part) in enumerate(parts):
            here = self.number(t, part)
            if n:
                rows = core.Op("mul", (total, core.Number(self._count(t))), INT)
                here = core.Op("add", (rows, here), INT)
            total = here
        return total

    def value(self, t: Type, k: Size) -> core.Expr:
        """The value with the number `k`."""
        match t:
            case Index(SetVar() as s):
                return core.Checked(core.Number(k), s, True)
            case Index(s):
                first, step = numbers(s)
                return core.Number(first + step * k)
            case Data() if (c := self.coded(t)) is not None:
                return c.value(core.Number(k))
            case Tuple(items):
                return core.Pack(tuple(self.items(items, k)))
            case _:
                return core.Op("eq", (core.Number(k), core.Number(ONE)), INT)

    def items(self, kinds: Sequence[Type], k: Size) -> list[core.Expr]:
        """The items of the k-th tuple of values of these types."""
        out: list[core.Expr] = []
        for n, t in reversed(list(enumerate(kinds))):
            rows = self._count(t)
            out.append(self.value(t, k % rows if n else k))
            k = k // rows
        return out[::-1]

    def starts(self, t: Data) -> list[Size]:
        """The number of each variant's first value, and then of none."""
        starts = [ZERO]
        for v in t.layout.variants:
            kinds = [t.items[f.item] for f in v.fields]
            total = ONE
            for kind in kinds:
                total = total * self._count(kind)
            starts.append(starts[-1] + total)
        return starts

    def _count(self, t: Type) -> Size:
        n = self.count(t)
        assert n is not None
        return n


def methods(
    c: Coded, params: Sequence[TypeVar | SetVar | Var], own: Numbering, span: Span
) -> tuple[core.Definition, core.Definition]:
    """`ordinal` and `at`."""
    x, k = Var("x"), Var("k")
    ordinal: core.Expr = core.Number(ZERO)
    at: core.Expr = core.Number(ZERO)
    starts = own.starts(c.whole)
    for number, variant in reversed(list(enumerate(c.whole.layout.variants))):
        start = starts[number]
        parts = [(c.whole.items[f.item], core.Part(core.Ref(x), f.item)) for f in variant.fields]
        here = _plus(own.number_of_tuple(parts), start)
        made = _made(c, own, number, variant, size(k) - start)
        if number == len(starts) - 2:
            ordinal, at = here, made
            continue
        tag = core.Part(core.Ref(x), 0)
        ordinal = core.If(core.Op("eq", (tag, core.Number(size(number))), INT), here, ordinal)
        test = core.Op("lt", (core.Ref(k), core.Number(starts[number + 1])), INT)
        at = core.If(test, made, at)
    place = c.place.items[0]

    def definition(name: str, param: core.Param, result: Type, body: core.Expr) -> core.Definition:
        sets = tuple(p.var for p in params if isinstance(p, SetVar))
        sizes = tuple(p for p in params if isinstance(p, Var))
        return core.Definition(
            name, (), sets, sizes, (param,), result, (), (*sets, *sizes), body, None, False, span
        )

    return (
        definition(c.ordinal, core.Param("x", x, c.whole), INT, ordinal),
        definition(c.at, core.Param("k", k, place), c.whole, at),
    )


def _plus(e: core.Expr, n: Size) -> core.Expr:
    return core.Op("add", (e, core.Number(n)), INT) if n != ZERO else e


def _made(c: Coded, own: Numbering, number: int, variant: Variant, k: Size) -> core.Expr:
    """The value of a variant that is the k-th of them."""
    items: list[core.Expr] = [core.Blank(t) for t in c.whole.items]
    if c.whole.layout.tagged:
        items[0] = core.Number(size(number))
    found = own.items([c.whole.items[f.item] for f in variant.fields], k)
    for n, f in enumerate(variant.fields):
        items[f.item] = found[n]
    return core.Pack(tuple(items))
