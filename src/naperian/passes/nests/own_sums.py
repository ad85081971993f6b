"""What a row adds up over its rounds goes to a table of its own. loops → loops

    before   free for i in 0..n:                   after   free for i in 0..n:
                 for t in 0..m:                                for d in 0..k: store own[d] = s[d, i]
                     for d in 0..k:                            for t in 0..m:
                         update s[d, i] += x[t, d, i]              for d in 0..k:
                                                                       update own[d] += x[t, d, i]
                                                               for d in 0..k: store s[d, i] = own[d]

When rows go side by side (`lanes`), an element of the table is a vector that every lane has and
that crosses no line of the cache; of `s` the last lanes may have none, and its rows begin anywhere.
The sums are added in the same order, to the same first values.
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
from naperian.loops.walk import blocks, loads, rebuild, statements, used_in, writes
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.sizes import ZERO, Size, size

Buffers = Mapping[Var, Buffer]


def own_sums(row: Loop, buffers: Buffers) -> Loop:
    """A loop whose rounds go side by side; see the module."""
    around = {r.var for r in row.reductions}
    again = dict.fromkeys(s.buffer for s in _again(row, row.body, None))
    own = {
        v: Buffer(fresh(v), buffers[v].dtype, buffers[v].shape[:-1], Role.TEMP)
        for v in again if v in buffers and v not in around and _is_added_only(row, v)
    }  # fmt: skip
    if not own:
        return row
    names = {v: b.var for v, b in own.items()}
    made = tuple(map(Allocate, own.values()))
    first, last = (tuple(_copies(own, row.var, back=back)) for back in (False, True))
    return replace(row, body=(*made, *first, *_renamed(row.body, names), *last))


def _again(
    row: Loop, body: tuple[Stmt, ...], inside: frozenset[Var] | None
) -> Iterator[Update]:
    """The updates of the row's column that a loop in order makes again in each of its rounds, for
    every element that the loops `inside` it go to; None outside of all such."""
    for s in body:
        if isinstance(s, Update) and inside and _is_column(row, s):
            along = {v for e in s.at[:-1] for v in used_in(e)}
            if along and along <= inside:
                yield s
        if not isinstance(s, Loop):
            deeper = inside
        elif inside is not None:
            deeper = inside | {s.var}
        else:
            deeper = frozenset() if s.order is Order.SERIAL else None
        for b in blocks(s):
            yield from _again(row, b, deeper)


def _is_added_only(row: Loop, v: Var) -> bool:
    """Whether the row only adds to elements of its column, which no other row has."""
    for s in statements(row.body):
        if any(x.buffer == v for x in loads(s)):
            return False
        if writes(s) == v and not (isinstance(s, Update) and _is_column(row, s)):
            return False
    return True


def _is_column(row: Loop, s: Update) -> bool:
    """Whether what is added to is an element of the row's column."""
    return s.at[-1:] == (size(row.var),) and all(row.var not in used_in(e) for e in s.at[:-1])


def _copies(own: Mapping[Var, Buffer], row: Var, *, back: bool) -> Iterator[Stmt]:
    """Loops that fill the tables, or write them back; one for those of a shape."""
    for shape in dict.fromkeys(b.shape for b in own.values()):
        names = [Var("d") for _ in shape]
        here: tuple[Size, ...] = tuple(map(size, names))
        there = (*here, size(row))
        body: list[Stmt] = []
        for v, b in own.items():
            if b.shape == shape and back:
                body.append(Store(v, there, Load(b.var, here)))
            elif b.shape == shape:
                body.append(Store(b.var, here, Load(v, there)))
        for d, n in reversed(list(zip(names, shape, strict=True))):
            body = [Loop(d, ZERO, n, tuple(body), Order.FREE)]
        yield from body


def _renamed(body: tuple[Stmt, ...], names: Mapping[Var, Var]) -> tuple[Stmt, ...]:
    return tuple(
        replace(s, buffer=names[s.buffer], at=s.at[:-1])
        if isinstance(s, Update) and s.buffer in names
        else rebuild(s, lambda b: _renamed(b, names))
        for s in body
    )
