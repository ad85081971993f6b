"""How dependent tables are stored, row after row: closed forms of how many cells and of where."""

from __future__ import annotations

from collections.abc import Sequence

from naperian.facts import Facts
from naperian.names import Var
from naperian.node import node
from naperian.sizes import ONE, ZERO, Size, clamp, rename, size
from naperian.sums import below
from naperian.types import (
    Set,
    Table,
    Type,
    cardinality,
    numbers,
    set_variables,
    whole,
)


@node
class Axis:
    """One of the axes that a dependent table is stored with; `index` as in `Table`."""

    set: Set
    index: Var | None


def runs(t: Type) -> tuple[list[tuple[Axis, ...]], Type]:
    """The axes of a table, outermost first, in runs of those that depend on each other (which are
    stored as one axis, row after row without gaps), and the type of its innermost cells."""
    found: list[Axis] = []
    while isinstance(t, Table):
        found.append(Axis(t.set, t.index))
        t = t.cell
    return grouped(found), t


def grouped(found: Sequence[Axis]) -> list[tuple[Axis, ...]]:
    """Axes in runs of those that depend on each other."""
    out: list[tuple[Axis, ...]] = []
    for k, axis in enumerate(found):
        needed = set(set_variables(axis.set))
        first = next((m for m, a in enumerate(found[:k]) if a.index in needed), k)
        run: tuple[Axis, ...] = (axis,)
        while sum(map(len, out)) > first:
            run = (*out.pop(), *run)
        out.append(run)
    return out


def count(run: tuple[Axis, ...]) -> Size | None:
    """How many elements a run of axes has, if that has a closed form."""
    return _count(run, ()) if len(run) > 1 else cardinality(run[0].set)


def bounds(v: Var, s: Set) -> list[Size]:
    """What is not negative where `v` is an element of a set of numbers."""
    first, step = numbers(s)
    n, k = cardinality(s), size(v)
    if step == ONE:
        return [k - first, first + n - 1 - k]
    return [k - first, *bounds(v, whole(s))]


def _count(run: tuple[Axis, ...], known: tuple[Size, ...]) -> Size | None:
    if not run:
        return ONE
    (first, *rest) = run
    n = cardinality(first.set)
    sizes = tuple(size(v) for v in set_variables(first.set))
    if not Facts(known + sizes).proves(n):
        n = clamp(n, n + 1)
    if first.index is None:
        inner = _count(tuple(rest), known)
        return None if inner is None else inner * n
    i = size(first.index)
    low, step = numbers(first.set)
    inner = _count(tuple(rest), (*known, *bounds(first.index, first.set)))
    if inner is None:
        return None
    return below(rename(inner, {first.index: i * step + low}), first.index, n)


def place(run: tuple[Axis, ...], at: Sequence[Size]) -> Size | None:
    """How many elements of a run of axes come before the one at these indices, if that has a
    closed form."""
    total = ZERO
    known: tuple[Size, ...] = ()
    for k, (axis, here) in enumerate(zip(run, at, strict=True)):
        first, step = numbers(axis.set)
        ordinal = (here - first) // step
        v = axis.index or Var("i")
        known = (*known, *bounds(v, axis.set))
        inner = _count(run[k + 1 :], known)
        if inner is None:
            return None
        before = below(rename(inner, {v: size(v) * step + first}), v, ordinal)
        if before is None:
            return None
        total = total + before
    outer = {a.index: s for a, s in zip(run, at, strict=True) if a.index is not None}
    return rename(total, outer)
