"""What is stored in two arrays is read from the one that stays. loops → loops

    allocate v[n, m]                            for i, j:
    for i, j:                                       store h[i, j] = h[i, j] + f(e[i, j])
        store v[i, j] = h[i, j] + f(e[i, j])    ⇒   … h[i, j] - h[i - 1, j] …
        store h[i, j] = v[i, j]
    … v[i, j] - v[i - 1, j] …

So a field of a simulation that is changed in place, and that another field of the same step then
reads, needs no second array. Nothing may be written to the one that stays while the other is read.
Where it stays as it is, at the border of a field, nothing need be stored beside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from naperian.dtypes import DType
from naperian.loops.memory import SMALL, constant_bytes
from naperian.loops.syntax import (
    Allocate,
    Assign,
    Buffer,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Program,
    Stmt,
    Store,
)
from naperian.loops.walk import (
    blocks,
    loads,
    mentions,
    rebuild,
    statements,
    touched,
    used_in,
    writes,
)
from naperian.names import Var
from naperian.node import replace
from naperian.passes.nests.viewed import Body, read_in, without_arrays
from naperian.sizes import Size

Row = tuple[Var, tuple[Size, ...]]


def twice(program: Program) -> Program:
    """See the module."""
    made = (s.buffer for s in statements(program.body) if isinstance(s, Allocate))
    types = {b.var: b.dtype for b in (*program.buffers, *made)}
    return replace(program, body=without_arrays(program.body, partial(_read_from, types=types)))


def _read_from(b: Buffer, body: Body, types: Mapping[Var, DType]) -> Body | None:
    """What follows an allocation, if all that is stored in the array goes to the same place of a
    row of another one, too, before any of it is read."""
    if (constant_bytes(b) or SMALL + 1) <= SMALL:  # registers hold it
        return None
    start = next((s for s in body if b.var in touched(s)), None)
    if start is None or not any(_pairs((start,), b.var, len(b.shape))):
        return None
    stored = next(k + 1 for k in reversed(range(len(body)))
                  if any(writes(x) == b.var for x in _about(body[k], b.var)))  # fmt: skip
    first, rest = body[:stored], body[stored:]
    about = [x for s in first for x in _about(s, b.var)]
    if not rest or any(y.buffer == b.var for x in about for y in loads(x)):
        return None
    found = [*_pairs(first, b.var, len(b.shape))]
    rows = {row for _, row, _ in found}
    own = [x for x in about if writes(x) == b.var]
    if len(rows) != 1 or len(found) != len(own):
        return None
    (row,) = rows
    inside = statements(body)
    bound = {x.var for x in inside if isinstance(x, Loop)}
    names = {v for e in row[1] for v in used_in(e)}
    others = sum(writes(x) == row[0] for x in inside)
    if others != sum(beside for _, _, beside in found) or types[row[0]] is not b.dtype:
        return None
    if not bound.isdisjoint(names):
        return None
    read = read_in((*_without(first, b.var), *rest), b.var, row)
    return None if read is None or any(b.var in touched(s) for s in read) else read


def _about(s: Stmt, v: Var) -> list[Stmt]:
    """A statement and those in it, if any of them touches an array."""
    return statements((s,)) if v in touched(s) else []


def _pairs(body: Body, v: Var, axes: int) -> Iterator[tuple[Store, Row, bool]]:
    """The stores to an array, each with the row in which another one puts the same beside it, or,
    which is False then, where it is already."""
    for k, s in enumerate(body):
        if isinstance(s, Store) and s.buffer == v:
            for m, x in enumerate(body):
                if isinstance(x, Store) and x.buffer != v and x.value == s.value:
                    same = _is_same(body[min(k, m) : max(k, m) + 1])
                    if same and (row := _row(x, s.at, axes)) is not None:
                        yield s, row, True
                        break
            else:
                load = _loaded(body[:k], s.value)
                if load is not None and (row := _row(load, s.at, axes)) is not None:
                    yield s, row, False
        if v in touched(s):
            for block in blocks(s):
                yield from _pairs(block, v, axes)


def _row(x: Store | Load, at: tuple[Size, ...], axes: int) -> Row | None:
    """The row in which an element is at the place that it has in an array of so many axes."""
    outer = x.at[: len(x.at) - axes]
    there = (*outer, *at) == x.at and all(e.plain for e in outer)
    return (x.buffer, outer) if there else None


def _loaded(before: Body, value: Expr) -> Load | None:
    """The element that a value is after some statements, if it is one."""
    if isinstance(value, Local):
        made = [k for k, s in enumerate(before) if isinstance(s, Let) and s.var == value.var]
        if not made:
            return None
        let, before = before[made[0]], before[made[0] + 1 :]
        assert isinstance(let, Let)
        value = let.value
    else:
        before = ()
    if not isinstance(value, Load) or any(writes(s) == value.buffer for s in statements(before)):
        return None
    return value


def _is_same(stretch: Body) -> bool:
    """Whether the last of some statements, a store, finds what its value hangs on as the first, a
    store of the same, did."""
    last = stretch[-1]
    before = [*statements(stretch[:-1])]
    changed = {writes(x) for x in before} | {x.var for x in before if isinstance(x, Assign)}
    return changed.isdisjoint(mentions(last))


def _without(body: Body, v: Var) -> tuple[Stmt, ...]:
    """Statements but for what they store in an array."""
    kept = (s for s in body if not (isinstance(s, Store) and s.buffer == v))
    return tuple(rebuild(s, lambda b: _without(b, v)) if v in touched(s) else s for s in kept)
