"""What is carried along as the copy before the last has its place already. loops → loops

    allocate u[2, n], p[n]                      allocate u[2, n]
    for i: store u[0, i] = x[i]                 for i: store u[0, i] = x[i]
    for i: store p[i] = y[i]                    for i: store u[1, i] = y[i]
    for k in 0..m:                              for k in 0..m:
        for i: store u[(k + 1) % 2, i] =   ⇒       for i: store u[(k + 1) % 2, i] =
            f(u[k % 2, …]) - p[i]                       f(u[k % 2, …]) - u[(k + 1) % 2, i]
        for i: store p[i] = u[k % 2, i]

The copy that a round writes is the one that the round before read, which is what `p` is: a wave's
displacement two steps ago. A round may read its element until it writes it. Every element is
written once in a round, so what is read beside its own store is read in time. What is read of it
after the loop is in the copy that the last round read.
"""

from __future__ import annotations

from naperian.loops.syntax import (
    Allocate,
    Load,
    Loop,
    Order,
    Program,
    Role,
    Stmt,
    Store,
    Update,
    When,
)
from naperian.loops.walk import (
    blocks,
    loads,
    mentions,
    rebuild_allocations,
    remade,
    statements,
    takes,
    writes,
)
from naperian.names import Var
from naperian.node import replace
from naperian.passes.nests.turns import whole
from naperian.sizes import ONE, ZERO, Clamp, Size, is_natural, size

At = tuple[Size, ...]


def older(program: Program) -> Program:
    """See the module."""
    return replace(program, body=_block(program.body, program.sizes))


def _block(body: tuple[Stmt, ...], sizes: tuple[Var, ...]) -> tuple[Stmt, ...]:
    body = tuple(rebuild_allocations(s, lambda b: _block(b, sizes)) for s in body)
    made = [s for s in body if isinstance(s, Allocate)]
    twice = {s.buffer.shape[1:] for s in made if s.buffer.shape[:1] == (size(2),)}
    for s in made:
        if s.buffer.shape in twice:
            body = _without(body, s, sizes) or body
    return body


def _without(
    body: tuple[Stmt, ...], p: Allocate, sizes: tuple[Var, ...]
) -> tuple[Stmt, ...] | None:
    """The statements with the older copy in the newer array, if it is one."""
    old = p.buffer.var
    users = [k for k, x in enumerate(body) if old in mentions(x)]
    if p.buffer.role is not Role.TEMP or p.fill or p.planes or len(users) < 2:
        return None
    first, at, *afterwards = users
    loop = body[at]
    if not isinstance(loop, Loop) or loop.order is not Order.SERIAL or loop.low != ZERO:
        return None
    start, copy = whole(body[first], p.buffer.shape), whole(loop.body[-1], p.buffer.shape)
    if start is None or copy is None or start.buffer != old or copy.buffer != old:
        return None
    now, then = size(loop.var) % 2, (size(loop.var) + 1) % 2
    if not isinstance(copy.value, Load) or copy.value.at != (now, *copy.at):
        return None
    new = copy.value.buffer
    place = next(
        (k for k, x in enumerate(body[:first]) if isinstance(x, Allocate) and x.buffer.var == new),
        None,
    )
    made = None if place is None else body[place]
    shape = (size(2), *p.buffer.shape)
    if not isinstance(made, Allocate) or made.planes or made.buffer.shape != shape:
        return None
    if made.buffer.dtype is not p.buffer.dtype or new in mentions(body[first]):
        return None
    if not _in_time(loop.body[:-1], old, new, then, set()):
        return None
    rounds = isinstance(loop.high.single, Clamp) or is_natural(loop.high, sizes)
    if afterwards and not (rounds and _stays(body[at + 1 :], {old, new})):
        return None
    end = (loop.high + 1) % 2

    def begun(v: Var, at: At) -> At:
        return (ONE, *at) if v == old else at

    def read(v: Var, at: At) -> At:
        return (then, *at) if v == old else at

    def left(v: Var, at: At) -> At:
        return (end, *at) if v == old else at

    names = {old: new}
    out: list[Stmt] = []
    for k, x in enumerate(body):
        if k == first:
            out += remade((x,), lambda _: None, names, begun)
        elif k == at:
            out.append(replace(loop, body=remade(loop.body[:-1], lambda _: None, names, read)))
        elif k in afterwards:
            out += remade((x,), lambda _: None, names, left)
        elif x is not p:
            out.append(x)
    return tuple(out)


def _stays(body: tuple[Stmt, ...], both: set[Var]) -> bool:
    """Whether nothing changes either array, and all is read element by element."""
    return not any(writes(s) in both or both & {*takes(s)} for s in statements(body))


def _in_time(body: tuple[Stmt, ...], old: Var, new: Var, then: Size, waiting: set[At]) -> bool:
    """Whether the statements of a block, and of loops in it, read the old array at elements alone
    that the block stores afterwards. Adds to `waiting` the elements that it has not stored yet."""
    done: set[At] = set()
    for s in body:
        if any(isinstance(x, Update) and x.buffer in (old, new) for x in statements((s,))):
            return False
        waiting |= {x.at for x in loads(s) if x.buffer == old}
        if isinstance(s, Store):
            if s.buffer == old:
                return False
            if s.buffer == new and s.at[0] == then:
                waiting.discard(s.at[1:])
                done.add(s.at[1:])
        for block in blocks(s):
            inside = waiting if isinstance(s, When) else set[At]()
            if not _in_time(block, old, new, then, inside):
                return False
            if not isinstance(s, When) and inside:
                return False
        if not waiting.isdisjoint(done):
            return False
    return True
