"""What a round makes and hands on whole takes turns with what it was made of. loops → loops

    allocate row[n]                             allocate row[2, n]
    for i: store row[i] = x[i]                  for i: store row[0, i] = x[i]
    for t in 0..m:                              for t in 0..m:
        allocate new[n]                             for i: store row[(t + 1) % 2, i] = 0.0
        for i: store new[i] = 0.0          ⇒       for j: store row[(t + 1) % 2, j + 1] =
        for j: store new[j + 1] =                       f(row[t % 2, j], row[(t + 1) % 2, j])
            f(row[j], new[j])                   … row[m % 2, j] …
        for i: store row[i] = new[i]
    … row[j] …

A table that is filled row by row, each from the one before, copied a row in every round. All of the
new array is written in a round, for all of it is copied, so nothing is left of two rounds before.
An array of which some is kept is changed in place.
"""

from __future__ import annotations

from naperian.loops.memory import SMALL, constant_bytes
from naperian.loops.syntax import (
    Allocate,
    Contract,
    Load,
    Loop,
    Order,
    Program,
    Role,
    Sort,
    Stmt,
    Store,
)
from naperian.loops.walk import mentions, rebuild_allocations, remade, statements
from naperian.names import Var
from naperian.node import replace
from naperian.sizes import ZERO, Remainder, Size, atom, natural, size

_TWO = size(2)


def alternate(program: Program) -> Program:
    """See the module."""
    sizes = frozenset(program.sizes)

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        for k, s in enumerate(body):
            if isinstance(s, Allocate) and (found := _turning(s, body[k + 1 :])) is not None:
                body = (*body[:k], *_by_turns(s, *found, body[k + 1 :], sizes))
        return tuple(rebuild_allocations(s, block) for s in body)

    return replace(program, body=block(program.body))


def _is_plain(s: Allocate) -> bool:
    own = s.buffer.role is Role.TEMP and s.fill is None and not s.planes
    return own and bool(s.buffer.shape) and (constant_bytes(s.buffer) or SMALL + 1) > SMALL


def _turning(s: Allocate, rest: tuple[Stmt, ...]) -> tuple[Loop, Allocate, Loop] | None:
    """The loop that carries an array, what a round makes, and what copies that."""
    row = s.buffer
    if not _is_plain(s):
        return None
    for x in rest:
        if not isinstance(x, Loop) or x.order is not Order.SERIAL:
            continue
        for y in x.body:
            if isinstance(y, Allocate) and _is_plain(y) and y.buffer.shape == row.shape:
                both = {row.var, y.buffer.var}
                *_, last = (z for z in x.body if not both.isdisjoint(mentions(z)) or z is y)
                same = y.buffer.dtype is row.dtype and _is_copy(last, y, s)
                plain = all(z is y or both.isdisjoint(_whole(z)) for z in statements(rest))
                if same and plain and not any(_is_kept(z, y, s) for z in statements(x.body)):
                    assert isinstance(last, Loop)
                    return x, y, last
    return None


def _is_kept(s: Stmt, new: Allocate, row: Allocate) -> bool:
    """Whether an element stays as it was: of such arrays a round changes a part, in place."""
    own = isinstance(s, Store) and s.buffer == new.buffer.var
    return isinstance(s, Store) and own and s.value == Load(row.buffer.var, s.at)


def _whole(s: Stmt) -> frozenset[Var]:
    """The arrays that a statement has more to do with than with elements."""
    match s:
        case Loop():
            return frozenset(r.var for r in s.reductions)
        case Contract() | Sort() | Allocate():
            return mentions(s)
        case _:
            return frozenset()


def _is_copy(s: Stmt, source: Allocate, target: Allocate) -> bool:
    """Whether a nest does nothing but copy all of one array to another."""
    at: list[Size] = []
    for n in target.buffer.shape:
        if not isinstance(s, Loop) or s.low != ZERO or s.high != n or len(s.body) != 1:
            return False
        at.append(size(s.var))
        (s,) = s.body
    to = tuple(at)
    return s == Store(target.buffer.var, to, Load(source.buffer.var, to))


def _by_turns(
    s: Allocate, loop: Loop, new: Allocate, copy: Loop, rest: tuple[Stmt, ...],
    sizes: frozenset[Var],
) -> tuple[Stmt, ...]:
    row = s.buffer
    rounds = loop.high - loop.low
    if rounds.single not in sizes:
        rounds = natural(rounds)
    names = {new.buffer.var: row.var}

    def seen(body: tuple[Stmt, ...], turn: Size) -> tuple[Stmt, ...]:
        turns = {row.var: _parity(turn), new.buffer.var: _parity(turn + 1)}

        def place(v: Var, at: tuple[Size, ...]) -> tuple[Size, ...]:
            return (turns[v], *at) if v in turns else at

        return remade(body, lambda _: None, names, place)

    at = rest.index(loop)
    inside = tuple(x for x in loop.body if x is not new and x is not copy)
    body = seen(inside, size(loop.var) - loop.low)
    both = replace(s, buffer=replace(row, shape=(_TWO, *row.shape)))
    return (
        both, *seen(rest[:at], ZERO), replace(loop, body=body), *seen(rest[at + 1 :], rounds),
    )  # fmt: skip


def _parity(turn: Size) -> Size:
    return size(turn.constant % 2) if turn.constant is not None else atom(Remainder(turn, _TWO))
