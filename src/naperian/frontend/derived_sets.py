"""The numbering that an enum of indices has without being told.

    enum Grade = Fail | Pass(mark: Fin(4))        ordinal     Fail -> 0, Pass(m) -> 1 + m
    instance Ix(Grade)                            at          k -> Fail if k < 1 else Pass(k - 1)

The variants follow each other; the fields of one are counted as tuples are, the last one fastest.
"""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.frontend.walk import Coded
from naperian.names import Var
from naperian.sizes import ONE, ZERO, Size, size
from naperian.source import Span
from naperian.types import (
    INT,
    BoolSet,
    Data,
    Set,
    TupleSet,
    Type,
    UnitSet,
    Variant,
    cardinality,
    elements,
    numbers,
)


def methods(c: Coded, span: Span) -> tuple[core.Definition, core.Definition]:
    """`ordinal` and `at`."""
    x, k = Var("x"), Var("k")
    ordinal: core.Expr = core.Number(ZERO)
    at: core.Expr = core.Number(ZERO)
    starts = _starts(c.whole)
    for number, variant in reversed(list(enumerate(c.whole.layout.variants))):
        start = starts[number]
        here = _plus(_ordinal(_fields(c.whole, variant), _parts(x, variant)), start)
        made = _made(c, number, variant, size(k) - start)
        if number == len(starts) - 2:
            ordinal, at = here, made
            continue
        tag = core.Part(core.Ref(x), 0)
        ordinal = core.If(core.Op("eq", (tag, core.Number(size(number))), INT), here, ordinal)
        test = core.Op("lt", (core.Ref(k), core.Number(starts[number + 1])), INT)
        at = core.If(test, made, at)
    place = c.place.items[0]
    return (
        _definition(c.ordinal, core.Param("x", x, c.whole), INT, ordinal, span),
        _definition(c.at, core.Param("k", k, place), c.whole, at, span),
    )


def _definition(
    name: str, param: core.Param, result: Type, body: core.Expr, span: Span
) -> core.Definition:
    return core.Definition(
        name, (), (), (), (param,), result, (), (), body, None, False, span
    )


def count(t: Data) -> Size:
    """How many values there are."""
    return _starts(t)[-1]


def _starts(t: Data) -> list[Size]:
    """The number of each variant's first value, and then of none."""
    starts = [ZERO]
    for v in t.layout.variants:
        starts.append(starts[-1] + cardinality(_fields(t, v)))
    return starts


def _fields(t: Data, variant: Variant) -> TupleSet:
    """The set of what a variant holds."""
    found = [elements(t.items[f.item]) for f in variant.fields]
    return TupleSet(tuple(s for s in found if s is not None))


def _parts(x: Var, variant: Variant) -> list[core.Expr]:
    return [core.Part(core.Ref(x), f.item) for f in variant.fields]


def _plus(e: core.Expr, n: Size) -> core.Expr:
    return core.Op("add", (e, core.Number(n)), INT) if n != ZERO else e


def _made(c: Coded, number: int, variant: Variant, k: Size) -> core.Expr:
    """The value of a variant that is the k-th of them."""
    items: list[core.Expr] = [core.Blank(t) for t in c.whole.items]
    items[0] = core.Number(size(number))
    found = _element(_fields(c.whole, variant), k)
    for n, f in enumerate(variant.fields):
        items[f.item] = found[n]
    return core.Pack(tuple(items))


def _ordinal(own: TupleSet, parts: list[core.Expr]) -> core.Expr:
    """The number of a tuple of elements."""
    total: core.Expr = core.Number(ZERO)
    for n, (s, part) in enumerate(zip(own.sets, parts, strict=True)):
        here = place_in(s, part)
        if n:
            count = core.Number(cardinality(s))
            here = core.Op("add", (core.Op("mul", (total, count), INT), here), INT)
        total = here
    return total


def place_in(s: Set, e: core.Expr) -> core.Expr:
    """The number of an element."""
    match s:
        case BoolSet():
            return core.If(e, core.Number(ONE), core.Number(ZERO))
        case UnitSet():
            return core.Number(ZERO)
        case TupleSet(sets):
            return _ordinal(s, [core.Part(e, n) for n in range(len(sets))])
        case _:
            first, step = numbers(s)
            v = Var("k")
            return core.Let(
                v, core.Op("cast", (e,), INT), core.Number((size(v) - first) // step)
            )


def _element(own: TupleSet, k: Size) -> list[core.Expr]:
    """The items of the k-th tuple of elements."""
    out: list[core.Expr] = []
    for n, s in reversed(list(enumerate(own.sets))):
        count = cardinality(s)
        out.append(item_at(s, k % count if n else k))
        k = k // count
    return out[::-1]


def item_at(s: Set, k: Size) -> core.Expr:
    """The k-th element of a set."""
    match s:
        case BoolSet():
            return core.Op("eq", (core.Number(k), core.Number(ONE)), INT)
        case UnitSet():
            return core.Pack(())
        case TupleSet():
            return core.Pack(tuple(_element(s, k)))
        case _:
            first, step = numbers(s)
            return core.Number(first + step * k)
