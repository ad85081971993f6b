"""A table that is a row or a column of another for a while lies there. loops → loops

    allocate h[k, n]                            allocate h[k, n]
    for t in 0..k:                              for t in 0..k:
        for i: store h[t, i] = x[i]                 for i: store h[t, i] = x[i]
        for j in 0..m:                              for j in 0..m:
            allocate s[n]                   ⇒           update h[t, e] += f(h[t, …])
            for i: store s[i] = h[t, i]
            update s[e] += f(s[…])
            for i: store h[t, i] = s[i]

In a round of any loop the row `t` of `h`, and a column, is an array like any other, which is read
after the round, if nothing else of `h` is touched there: `coalesce` says which tables it can be. So
a carried table of which all values are kept is changed in place, too, and so are tables of many
tangents. Where a round has a table but once it stays by itself: it may be on the stack, or in
registers, or have its rounds go side by side.
"""

from __future__ import annotations

from functools import partial

from naperian.loops.syntax import Allocate, Buffer, Loop, Program, Role, Stmt, While
from naperian.loops.walk import blocks, rebuild_allocations, remade, statements, used_in
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.passes.nests.coalesce import coalesce
from naperian.passes.nests.whole import Along, Arrays, arrays, on_axes, part_copied
from naperian.sizes import Size

At = tuple[Size, ...]


def in_rows(program: Program) -> Program:
    """See the module."""
    numbers = {b.var for b in program.buffers if b.role is Role.IN and not b.shape}
    body = _InRows(program).block(program.body, frozenset((*program.sizes, *numbers)))
    return replace(program, body=body)


class _InRows:
    def __init__(self, program: Program) -> None:
        made = [s.buffer for s in statements(program.body) if isinstance(s, Allocate)]
        self.program = program
        self.buffers = {b.var: b for b in (*program.buffers, *made) if b.role is not Role.IN}
        self.known = arrays(program)

    def block(self, body: tuple[Stmt, ...], fixed: frozenset[Var]) -> tuple[Stmt, ...]:
        return tuple([self.stmt(s, fixed) for s in body])

    def stmt(self, s: Stmt, fixed: frozenset[Var]) -> Stmt:
        if not isinstance(s, Loop):
            return rebuild_allocations(s, lambda body: self.block(body, fixed))
        inside = fixed | {s.var}
        return rebuild_allocations(s, partial(self.rounds, s.var, inside))

    def rounds(
        self, var: Var, fixed: frozenset[Var], body: tuple[Stmt, ...]
    ) -> tuple[Stmt, ...]:
        for array, part in _parts(body, self.known):
            names = {v for e in part if e is not None for v in used_in(e)}
            if array in self.buffers and var in names and names <= fixed:
                body = _in_part(self.program, body, self.buffers[array], part)
        return self.block(body, fixed)


def _parts(body: tuple[Stmt, ...], known: Arrays) -> list[tuple[Var, Along]]:
    """The parts of arrays of which tables are copies that are made in loops of a round."""
    loops = [s for s in statements(body) if isinstance(s, Loop | While)]
    inside = [x for s in loops for block in blocks(s) for x in statements(block)]
    own = {s.buffer.var for s in inside if isinstance(s, Allocate)}
    found = [part_copied(s, known) for s in inside] if own else []
    return [*dict.fromkeys(x[1:] for x in found if x is not None and x[0] in own)]


def _in_part(
    program: Program, body: tuple[Stmt, ...], array: Buffer, part: Along
) -> tuple[Stmt, ...]:
    """The statements of a round with the tables that can be its part of an array in that part."""
    whole = array.var
    if not _stays_in(body, whole, part):
        return body
    own = replace(array, var=fresh(whole), shape=on_axes(part, array.shape), role=Role.OUT)

    def apart(v: Var, at: At) -> At:
        return on_axes(part, at) if v == whole else at

    def back(v: Var, at: At) -> At:
        along = iter(at)
        return tuple([next(along) if e is None else e for e in part]) if v == own.var else at

    alone = remade(body, lambda _: None, {whole: own.var}, apart)
    made = coalesce(replace(program, buffers=(own,), body=alone)).body
    if any(own.var == r.var for s in statements(made) if isinstance(s, Loop) for r in s.reductions):
        return body  # each thread would add to a copy of all parts
    return remade(made, lambda _: None, {own.var: whole}, back)


def _stays_in(body: tuple[Stmt, ...], array: Var, part: Along) -> bool:
    """Whether nothing of an array is touched but a part, element by element."""
    places: list[At] = []

    def look(v: Var, at: At) -> At:
        if v == array:
            places.append(at)
        return at

    remade(body, lambda _: None, place=look)
    return all(len(at) == len(part) and _is_in(at, part) for at in places)


def _is_in(at: At, part: Along) -> bool:
    return all(e is None or e == x for x, e in zip(at, part, strict=True))
