"""What a round hands on as it was before is kept once. loops → loops

    allocate u[m + 1, n], p[m + 1, n]           allocate u[m + 2, n]
    for i: store u[0, i] = x[i]                 for i: store u[1, i] = x[i]
    for i: store p[0, i] = y[i]                 for i: store u[0, i] = y[i]
    for k in 0..m:                         ⇒    for k in 0..m:
        for i: store u[k + 1, i] = f(p[k, i])       for i: store u[k + 2, i] = f(u[k, i])
        for i: store p[k + 1, i] = u[k, i]
    … u[e, i] … p[e, i] …                       … u[e + 1, i] … u[e, i] …

`p` has in each round what `u` had in the one before: a wave's displacement two steps ago, of which
a derivative reads all (`older`, where there are two copies). Rows are written once, each before
anybody reads it, so it does not matter where in a round it was copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from naperian.loops.syntax import (
    Allocate,
    Buffer,
    Load,
    Loop,
    Order,
    Program,
    Role,
    Stmt,
    Store,
)
from naperian.loops.walk import rebuild_allocations, remade, statements, writes
from naperian.names import Var
from naperian.node import node, replace
from naperian.passes.nests.turns import whole
from naperian.sizes import ZERO, Size, size


def one_history(program: Program) -> Program:
    """See the module."""
    return replace(program, body=_block(program.body))


def _block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    body = tuple(rebuild_allocations(s, _block) for s in body)
    while (pair := next(_pairs(body), None)) is not None:
        body = pair.as_one(body)
    return body


@node
class _Pair:
    """Two histories, of which one has what the other had a round before: but for its first row,
    the loop at a place of a block copies it."""

    new: Buffer
    old: Buffer
    loop: int
    copy: int  # among the loop's statements

    def as_one(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        new, old = self.new.var, self.old.var

        def place(v: Var, at: tuple[Size, ...]) -> tuple[Size, ...]:
            return (at[0] + 1, *at[1:]) if v == new else at

        rows, *shape = self.new.shape
        both = [Allocate(replace(self.new, shape=(rows + 1, *shape)))]
        out: list[Stmt] = []
        for k, s in enumerate(body):
            if isinstance(s, Allocate) and s.buffer in (self.new, self.old):
                out += [both.pop()] if both else []
                continue
            if k == self.loop:
                assert isinstance(s, Loop)
                s = replace(s, body=s.body[: self.copy] + s.body[self.copy + 1 :])
            out += remade((s,), lambda _: None, {old: new}, place)
        return tuple(out)


def _pairs(body: tuple[Stmt, ...]) -> Iterator[_Pair]:
    made = {
        s.buffer.var: s.buffer for s in body
        if isinstance(s, Allocate) and s.buffer.role is Role.TEMP and not (s.fill or s.planes)
    }  # fmt: skip
    loops = [(k, s) for k, s in enumerate(body) if isinstance(s, Loop) and len(made) > 1]
    for at, loop in loops:
        if loop.order is not Order.SERIAL or loop.low != ZERO:
            continue
        for k, s in enumerate(loop.body):
            copy = _row(s, size(loop.var) + 1, made)
            if copy is None or not isinstance(copy.value, Load):
                continue
            new, old = made.get(copy.value.buffer), made[copy.buffer]
            if new is None or new == old or (new.shape, new.dtype) != (old.shape, old.dtype):
                continue
            if copy.value.at == (size(loop.var), *copy.at[1:]):
                pair = _Pair(new, old, at, k)
                if _is_written_by_rows(body, pair):
                    yield pair


def _row(s: Stmt, place: Size, made: Mapping[Var, Buffer]) -> Store | None:
    """The store of a nest that fills the row of an array at this place, and does nothing else."""
    inner: Stmt = s
    while isinstance(inner, Loop) and inner.body:
        inner = inner.body[-1]
    if not isinstance(inner, Store) or inner.buffer not in made or len(inner.at) < 2:
        return None
    found = whole(s, made[inner.buffer].shape[1:])
    return found if found is not None and found.at[0] == place else None


def _is_written_by_rows(body: tuple[Stmt, ...], pair: _Pair) -> bool:
    """Whether both histories have a first row before the loop, in it the newer one gets one row a
    round and the older one the copy, and nothing else changes either."""
    loop, both = body[pair.loop], {pair.new.var: pair.new, pair.old.var: pair.old}
    assert isinstance(loop, Loop)
    begun = [r.buffer for s in body[: pair.loop] if (r := _row(s, ZERO, both)) is not None]
    rest = loop.body[: pair.copy] + loop.body[pair.copy + 1 :]
    inside = [s for s in statements(rest) if writes(s) in both]
    outside = (*body[: pair.loop], *body[pair.loop + 1 :])
    return (
        len(begun) == 2
        and {*begun} == {*both}
        and sum(writes(s) in both for s in statements(outside)) == 2
        and all(
            isinstance(s, Store) and s.buffer == pair.new.var and s.at[0] == size(loop.var) + 1
            for s in inside
        )
    )
