"""A row that is only copied is read, or made, where it lies. loops → loops

    allocate q[k]                               v := v + s[i, j] * s[i, j]
    for c in 0..k: store q[c] = s[i, c]    ⇒
    v := v + q[j] * q[j]

    allocate q[k]                               for c in 0..k: store s[i, c] = …
    for c in 0..k: store q[c] = …          ⇒    … s[i, c] …
    … q[c] …
    for c in 0..k: store s[i, c] = q[c]

The first is left of a carried table which is also read when it is handed on, once the two are one
(`coalesce`), the second of a function with a state that is applied to every row. A row is all that
follows the first indices of an array. While the copy is used, nothing may be written to the array,
or it may not be mentioned. What fits into registers stays there.
"""

from __future__ import annotations

import math
from collections.abc import Callable

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
from naperian.loops.walk import rebuild_allocations, remade, statements, touched, used_in, writes
from naperian.names import Var
from naperian.node import replace
from naperian.passes.nests.collapse import digits_of
from naperian.sizes import ONE, ZERO, Size, size

Row = tuple[Var, tuple[Size, ...]]
"""All elements of an array whose first indices are these."""


def viewed(program: Program) -> Program:
    """Rows are read where they lie; see the module."""
    return replace(program, body=_block(program.body, _read_there))


def placed(program: Program) -> Program:
    """Rows are made where they lie; see the module. After the passes that ask how each row is
    made in an array of its own."""
    return replace(program, body=_block(program.body, _made_there))


_Body = tuple[Stmt, ...]


def _block(body: _Body, without: Callable[[Buffer, _Body], _Body | None]) -> _Body:
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
        out.append(rebuild_allocations(first, lambda b: _block(b, without)))
    return tuple(out)


def _read_there(b: Buffer, body: _Body) -> _Body | None:
    """What follows an allocation, if the array is a copy of a row at once and stays it."""
    copy = _copy(body[0], b.shape)
    if copy is None or copy[0] != (b.var, ()) or copy[1][0] == b.var:
        return None
    row, rest = copy[1], body[1:]
    if any(writes(s) in (b.var, row[0]) for s in statements(rest)):
        return None
    return _renamed(rest, b.var, row)


def _made_there(b: Buffer, body: _Body) -> _Body | None:
    """What follows an allocation, if the array is copied to a row at last."""
    if (constant_bytes(b) or SMALL + 1) <= SMALL:
        return None
    last = max((k for k, s in enumerate(body) if b.var in touched(s)), default=0)
    copy = _copy(body[last], b.shape)
    if copy is None or copy[1] != (b.var, ()) or copy[0][0] == b.var:
        return None
    row, before = copy[0], body[:last]
    if any(row[0] in touched(s) for s in before):
        return None
    made = _renamed(before, b.var, row)
    return None if made is None else (*made, *body[last + 1 :])


def _copy(s: Stmt, extents: tuple[Size, ...]) -> tuple[Row, Row] | None:
    """To what row a nest copies one of this shape, and from where."""
    loops: list[Loop] = []
    while isinstance(s, Loop) and s.low == ZERO:
        loops.append(s)
        match s.body:
            case (only,):
                s = only
            case (Let(v, _, value), Store(_, _, Local(w)) as store) if v == w:
                s = replace(store, value=value)
            case _:
                return None
    if not loops or not isinstance(s, Store) or not isinstance(s.value, Load):
        return None
    highs, places = tuple(x.high for x in loops), tuple(size(x.var) for x in loops)
    if highs == (math.prod(extents, start=ONE),):
        places = digits_of(places[0], extents)
    elif highs != extents:
        return None
    to, of = _row(s.buffer, s.at, places), _row(s.value.buffer, s.value.at, places)
    return None if to is None or of is None else (to, of)


def _row(v: Var, at: tuple[Size, ...], inner: tuple[Size, ...]) -> Row | None:
    outer = at[: len(at) - len(inner)]
    if (*outer, *inner) != at or any(not x.plain for x in outer):
        return None
    names = {y for x in inner for y in used_in(x)}
    return None if any(y in names for x in outer for y in used_in(x)) else (v, outer)


def _renamed(body: _Body, copy: Var, row: Row) -> _Body | None:
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
    return remade(
        body, lambda _: None, {copy: row[0]},
        lambda v, at: (*row[1], *at) if v == copy else at,
    )  # fmt: skip
