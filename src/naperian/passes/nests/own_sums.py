"""What a row adds up over its rounds goes to a table of its own. loops → loops

    before   free for i in 0..n:                   after   free for i in 0..n:
                 for t in 0..m:                                for d in 0..k: store own[d] = s[d, i]
                     for d in 0..k:                            for t in 0..m:
                         update s[d, i] += x[t, d, i]              for d in 0..k:
                                                                       update own[d] += x[t, d, i]
                                                               for d in 0..k: store s[d, i] = own[d]

When rows go side by side (`lanes`), an element of the table is a vector that every lane has and
that crosses no line of the cache; of `s` the last lanes may have none, and its rows begin anywhere.
Where the row is another axis, as in `s[i, d]`, its elements are no vector at all. The sums are
added in the same order, to the same first values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from naperian.loops.syntax import (
    Allocate,
    Buffer,
    Load,
    Loop,
    Order,
    Role,
    Stmt,
    Store,
    Update,
)
from naperian.loops.walk import blocks, loads, mentions, rebuild, statements, used_in, writes
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.sizes import ZERO, Size, size

Buffers = Mapping[Var, Buffer]


def own_sums(row: Loop, buffers: Buffers) -> Loop:
    """A loop whose rounds go side by side; see the module."""
    around = {r.var for r in row.reductions}
    axes = dict(_again(row, row.body, None))
    own = {
        v: Buffer(fresh(v), buffers[v].dtype, _without(buffers[v].shape, axis), Role.TEMP)
        for v, axis in axes.items()
        if v in buffers and v not in around and _is_added_only(row, v, axis)
    }  # fmt: skip
    if not own:
        return row
    names = {v: (b.var, axes[v]) for v, b in own.items()}
    made = tuple(map(Allocate, own.values()))
    begun = {v: b for v, b in own.items() if not _is_begun(row, v, axes[v], b)}
    first = tuple(_copies(begun, axes, row.var, back=False))
    last = tuple(_copies(own, axes, row.var, back=True))
    return replace(row, body=(*made, *first, *_renamed(row.body, names), *last))


def _again(
    row: Loop, body: tuple[Stmt, ...], inside: frozenset[Var] | None
) -> Iterator[tuple[Var, int]]:
    """The arrays to whose elements of the row, and along which axis these lie, a loop in order adds
    again in each of its rounds, for every element that the loops `inside` it go to; None outside of
    all such."""
    for s in body:
        if isinstance(s, Update) and inside and (axis := _axis(row, s)) is not None:
            along = {v for e in _without(s.at, axis) for v in used_in(e)}
            if along and along <= inside:
                yield s.buffer, axis
        if not isinstance(s, Loop):
            deeper = inside
        elif inside is not None:
            deeper = inside | {s.var}
        else:
            deeper = frozenset() if s.order is Order.SERIAL else None
        for b in blocks(s):
            yield from _again(row, b, deeper)


def _is_added_only(row: Loop, v: Var, axis: int) -> bool:
    """Whether the row only adds to elements of its own, which no other row has."""
    for s in statements(row.body):
        if any(x.buffer == v for x in loads(s)):
            return False
        if writes(s) == v and not (isinstance(s, Store | Update) and _axis(row, s) == axis):
            return False
    return True


def _is_begun(row: Loop, v: Var, axis: int, own: Buffer) -> bool:
    """Whether the row first stores all of its elements, before it adds to them."""
    for s in row.body:
        match s:
            case Loop(d, low, high, (Store(buffer, at),)) if buffer == v:
                return _without(at, axis) == (size(d),) and low == ZERO and own.shape == (high,)
            case _ if v in mentions(s):
                return False
            case _:
                pass
    return False


def _axis(row: Loop, s: Store | Update) -> int | None:
    """The axis along which what is added to are elements of the row, if it is one."""
    axes = [k for k, e in enumerate(s.at) if row.var in used_in(e)]
    return axes[0] if len(axes) == 1 and s.at[axes[0]] == size(row.var) else None


def _without(at: tuple[Size, ...], axis: int) -> tuple[Size, ...]:
    return (*at[:axis], *at[axis + 1 :])


def _copies(
    own: Mapping[Var, Buffer], axes: Mapping[Var, int], row: Var, *, back: bool
) -> Iterator[Stmt]:
    """Loops that fill the tables, or write them back; one for those of a shape."""
    for shape in dict.fromkeys(b.shape for b in own.values()):
        names = [Var("d") for _ in shape]
        here: tuple[Size, ...] = tuple(map(size, names))
        body: list[Stmt] = []
        for v, b in own.items():
            there = (*here[: axes[v]], size(row), *here[axes[v] :])
            if b.shape == shape and back:
                body.append(Store(v, there, Load(b.var, here)))
            elif b.shape == shape:
                body.append(Store(b.var, here, Load(v, there)))
        for d, n in reversed(list(zip(names, shape, strict=True))):
            body = [Loop(d, ZERO, n, tuple(body), Order.FREE)]
        yield from body


def _renamed(body: tuple[Stmt, ...], names: Mapping[Var, tuple[Var, int]]) -> tuple[Stmt, ...]:
    return tuple(
        replace(s, buffer=names[s.buffer][0], at=_without(s.at, names[s.buffer][1]))
        if isinstance(s, Store | Update) and s.buffer in names
        else rebuild(s, lambda b: _renamed(b, names))
        for s in body
    )
