"""A row is read where it lies, or made where it goes. loops → loops

    allocate q[k]                               v := v + s[i, j] * s[i, j]
    for c in 0..k: store q[c] = s[i, c]    ⇒
    v := v + q[j] * q[j]

    allocate q[k]                               for c in 0..k: store s[i, c] = …
    for c in 0..k: store q[c] = …          ⇒    … s[i, c] …
    … q[c] …
    for c in 0..k: store s[i, c] = q[c]

    allocate q[k]                               for c in 0..k: store s[i, c] = …
    for c in 0..k: store q[c] = …          ⇒    … s[i, c] …
    … q[c] …                                    for c in 0..k: store s[i, c] = s[i, c] / v
    for c in 0..k: store s[i, c] = q[c] / v

The first is left of a carried table which is also read when it is handed on, once the two are one
(`coalesce`), the second of a function with a state that is applied to every row, the third of a
softmax: what is written to for the first time is fetched meanwhile, beside an exponential for
nothing, and behind it the division waits for memory. A row is all that follows the first indices of
an array. While the copy is used, nothing may be written to the array, or it may not be mentioned.
What fits into registers stays there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from naperian.dtypes import DType
from naperian.loops.memory import SMALL, constant_bytes
from naperian.loops.syntax import (
    Allocate,
    Assign,
    Buffer,
    Contract,
    Let,
    Load,
    Local,
    Loop,
    Program,
    Role,
    Sort,
    Stmt,
    Store,
    Variable,
)
from naperian.loops.walk import (
    loads,
    rebuild_allocations,
    remade,
    statements,
    touched,
    used_in,
    writes,
)
from naperian.names import Var
from naperian.node import replace
from naperian.passes.nests.collapse import digits_of
from naperian.sizes import ONE, ZERO, Size, size

Row = tuple[Var, tuple[Size, ...]]
"""All elements of an array whose first indices are these."""


def viewed(program: Program) -> Program:
    """Rows are read where they lie; see the module."""
    return replace(program, body=without_arrays(program.body, _read_there))


def placed(program: Program) -> Program:
    """Rows are made where they lie; see the module. After the passes that ask how each row is
    made in an array of its own."""
    made = (s.buffer for s in statements(program.body) if isinstance(s, Allocate))
    types = {b.var: b.dtype for b in (*program.buffers, *made)}
    return replace(program, body=without_arrays(program.body, partial(_made_there, types=types)))


Body = tuple[Stmt, ...]


def without_arrays(body: Body, without: Callable[[Buffer, Body], Body | None]) -> Body:
    out: list[Stmt] = []
    rest = body
    while rest:
        first, rest = rest[0], rest[1:]
        if isinstance(first, Allocate) and first.buffer.role is Role.TEMP:
            found = None
            if first.fill is None and not first.planes and rest:
                found = without(first.buffer, rest)
            if found is not None:
                rest = found
                continue
        out.append(rebuild_allocations(first, lambda b: without_arrays(b, without)))
    return tuple(out)


def _read_there(b: Buffer, body: Body) -> Body | None:
    """What follows an allocation, if the array is a copy of a row at once and stays it."""
    copy = _copy(body[0], b.shape)
    if copy is None or copy[0] != (b.var, ()) or copy[1][0] == b.var:
        return None
    row, rest = copy[1], body[1:]
    if any(writes(s) in (b.var, row[0]) for s in statements(rest)):
        return None
    return read_in(rest, b.var, row)


def _made_there(b: Buffer, body: Body, types: Mapping[Var, DType]) -> Body | None:
    """What follows an allocation, if the array is copied to a row at last, or replaced by one."""
    if (constant_bytes(b) or SMALL + 1) <= SMALL:
        return None
    last = next((k for k in reversed(range(len(body))) if b.var in touched(body[k])), 0)
    copy = _copy(body[last], b.shape)
    if copy is not None and copy[1] == (b.var, ()):
        row, before = copy[0], body[:last]
    else:
        found = _successor(body[last], b, types)
        if found is None:
            return None
        row, before = found, body[: last + 1]
    if row[0] == b.var or any(row[0] in touched(s) for s in body[:last]):
        return None
    made = read_in(before, b.var, row)
    return None if made is None else (*made, *body[last + 1 :])


def _successor(s: Stmt, b: Buffer, types: Mapping[Var, DType]) -> Row | None:
    """The row that a nest writes completely, where every round reads of an array of this shape no
    other element than it then writes."""
    nest = _nest(s, b.shape)
    if nest is None:
        return None
    body, places = nest
    inside = statements(body)
    if any(writes(x) == b.var for x in inside):
        return None
    if any(y.buffer == b.var and y.at != places for x in inside for y in loads(x)):
        return None
    for k, x in enumerate(body):
        if not isinstance(x, Store) or types[x.buffer] != b.dtype:
            continue
        alone = not any(x.buffer in touched(y) for y in (*body[:k], *body[k + 1 :]))
        unread = all(y.buffer != x.buffer for y in loads(x))
        if alone and unread and not any(b.var in touched(y) for y in body[k + 1 :]):
            row = _row(x.buffer, x.at, places)
            return row if row is not None and row[1] else None  # a whole array is for `over`
    return None


def _copy(s: Stmt, extents: tuple[Size, ...]) -> tuple[Row, Row] | None:
    """To what row a nest copies one of this shape, and from where."""
    match _nest(s, extents):
        case ((Store(to, at, Load(of, there)),), places):
            pass
        case ((Let(v, _, Load(of, there)), Store(to, at, Local(w))), places) if v == w:
            pass
        case _:
            return None
    row, other = _row(to, at, places), _row(of, there, places)
    return None if row is None or other is None else (row, other)


def _nest(s: Stmt, extents: tuple[Size, ...]) -> tuple[Body, tuple[Size, ...]] | None:
    """What is done for every element of an array of this shape, and the element's indices."""
    loops: list[Loop] = []
    body: Body = (s,)
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].low == ZERO:
        loops.append(body[0])
        body = body[0].body
        highs, places = tuple(x.high for x in loops), tuple(size(x.var) for x in loops)
        if highs == extents:
            return body, places
        if highs == (math.prod(extents, start=ONE),):
            return body, digits_of(places[0], extents)
    return None


def _row(v: Var, at: tuple[Size, ...], inner: tuple[Size, ...]) -> Row | None:
    outer = at[: len(at) - len(inner)]
    if (*outer, *inner) != at or any(not x.plain for x in outer):
        return None
    names = {y for x in inner for y in used_in(x)}
    return None if any(y in names for x in outer for y in used_in(x)) else (v, outer)


def read_in(body: Body, copy: Var, row: Row) -> Body | None:
    """Statements with an array's row for its copy, if they only read and write elements of that
    and do not change what says which row it is."""
    names = {y for x in row[1] for y in used_in(x)}
    for s in statements(body):
        match s:
            case Contract() | Sort() if copy in touched(s):
                return None
            case Loop() if any(r.var == copy for r in s.reductions):
                return None
            case Let(v) | Variable(v) | Assign(v) if v in names:
                return None
            case _:
                pass

    def place(v: Var, at: tuple[Size, ...]) -> tuple[Size, ...]:
        return (*row[1], *at) if v == copy else at

    return remade(body, lambda _: None, {copy: row[0]}, place, only=(copy,))
