"""What parameters are made of: arrays and scalars, of which a value is put together again.

    p: (Float, n=>Int)                      p.0: Float, p.1: n=>Int
    b: exists k. Fin(k)=>Float              b: Fin(k)=>Float              k: a size like any other
    t: n=>(exists k. Fin(k)=>a)             t.offsets: Fin(n + 1)=>Int, t.values: Fin(k)=>a
                                            t[i] = [t.values[t.offsets[i] + j] for j]

In a table, what a box hides is there as the length of all rows together. That is so at every depth:
the values of rows of rows are rows, and have offsets of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from naperian.broken import Broken
from naperian.core.syntax import At, Param, Ref
from naperian.leaves import leaves
from naperian.names import Var
from naperian.node import node
from naperian.passes.normal.denote import Bound, Boxed, Leaf, Meaning, Parts, View, number
from naperian.passes.normal.tables import shaped
from naperian.sizes import ONE, ZERO, Size, size
from naperian.substitution import boxed
from naperian.types import (
    INT,
    Exists,
    Fin,
    Table,
    Tuple,
    Type,
    cardinality,
)

Cell: TypeAlias = Callable[[Size], tuple[tuple[Bound, ...], Meaning]]
"""The value at a place, and what has to be named for it."""


@node
class Given:
    """A parameter of the source: the parameters it becomes, the sizes its boxes hide, its value."""

    params: tuple[Param, ...]
    sizes: tuple[Var, ...]
    value: Meaning


@node
class _Stored:
    """Values of one type, one after the other."""

    params: tuple[Param, ...]
    sizes: tuple[Var, ...]
    cell: Cell


def given(name: str, t: Type) -> Given:
    """What a parameter is made of."""
    match t:
        case Exists(vars, body):
            inner = given(name, body)
            box = Boxed(t, tuple(map(size, vars)), inner.value)
            return Given(inner.params, (*vars, *inner.sizes), box)
        case Tuple(items) if any(boxed(t)):
            parts = [given(f"{name}.{k}", x) for k, x in enumerate(items)]
            return Given(
                tuple(p for x in parts for p in x.params),
                tuple(v for x in parts for v in x.sizes),
                Parts(tuple(x.value for x in parts)),
            )
        case Table() if any(boxed(t)):
            whole = _stored(name, t, ONE)
            _, value = whole.cell(ZERO)
            return Given(whole.params, whole.sizes, value)
        case _:
            params = tuple(Param(label, Var(label), leaf) for label, leaf in _labels(name, t))
            return Given(params, (), shaped(t, [Leaf(Ref(p.var), p.type) for p in params]))


def _labels(name: str, t: Type) -> list[tuple[str, Type]]:
    """The leaves of a type and what they are called."""
    types = leaves(t)
    bare = types == (t,)
    return [(name if bare else f"{name}.{k}", leaf) for k, leaf in enumerate(types)]


def _stored(name: str, t: Type, total: Size) -> _Stored:
    """Values of a type, as many as `total`."""
    match t:
        case Tuple(items) if any(boxed(t)):
            parts = [_stored(f"{name}.{k}", x, total) for k, x in enumerate(items)]

            def each(p: Size) -> tuple[tuple[Bound, ...], Meaning]:
                made = [x.cell(p) for x in parts]
                names = tuple(n for own, _ in made for n in own)
                return names, Parts(tuple(value for _, value in made))

            return _Stored(
                tuple(p for x in parts for p in x.params),
                tuple(v for x in parts for v in x.sizes),
                each,
            )
        case Table(s, cell, None) if any(boxed(t)):
            n = cardinality(s)
            inner = _stored(name, cell, total * n)

            def regular(p: Size) -> tuple[tuple[Bound, ...], Meaning]:
                i = Var("i")
                names, value = inner.cell(p * n + size(i))
                return (), View(s, i, names, value)

            return _Stored(inner.params, inner.sizes, regular)
        case Exists((k,), Table(Fin(n), cell, None)) if n == size(k):
            return _rows(name, t, k, cell, total)
        case _ if any(boxed(t)):
            raise Broken(f"`{name}` is a table of what has no rows")
        case _:
            values = Fin(total)
            params = tuple(
                Param(label, Var(label), Table(values, leaf)) for label, leaf in _labels(name, t)
            )

            def element(p: Size) -> tuple[tuple[Bound, ...], Meaning]:
                parts: list[Meaning] = [
                    Leaf(At(Ref(x.var), number(p), values), leaf)
                    for x, leaf in zip(params, leaves(t), strict=True)
                ]
                return (), shaped(t, parts)

            return _Stored(params, (), element)


def _rows(name: str, box: Exists, k: Var, cell: Type, total: Size) -> _Stored:
    """Rows, as many as `total`: where each starts, and what they hold one after the other."""
    starts = Fin(total + 1)
    offsets = Var(f"{name}.offsets")
    inner = _stored(f"{name}.values", cell, size(k))

    def row(p: Size) -> tuple[tuple[Bound, ...], Meaning]:
        low, high, j = Var("low"), Var("high"), Var("j")
        ends = tuple(
            Bound(v, At(Ref(offsets), number(p + at), starts), INT, work=False)
            for at, v in enumerate((low, high))
        )
        length = size(high) - size(low)
        names, value = inner.cell(size(low) + size(j))
        return ends, Boxed(box, (length,), View(Fin(length), j, names, value))

    param = Param(offsets.name, offsets, Table(starts, INT))
    return _Stored((param, *inner.params), (k, *inner.sizes), row)
