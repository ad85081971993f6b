"""A loop goes on in the copies that the loop before it has left. loops → loops

    allocate t[2, n]                                allocate t[2, n]
    while …: store t[(k + 1) % 2, i] = …            while …: store t[(k + 1) % 2, i] = …
    allocate u[2, n]                            ⇒   while …: store t[(k + m + 1) % 2, i] =
    for i: store u[0, i] = t[k % 2, i]                           g(t[(k + m) % 2, …])
    while …: store u[(m + 1) % 2, i] =
                 g(u[m % 2, …])

What a carried array begins with is copied, unless nobody asks for the array it comes from any more:
then it lies there already, in the copy whose turn it was.
"""

from __future__ import annotations

from naperian.loops.syntax import Allocate, Buffer, Load, Program, Role, Stmt
from naperian.loops.walk import assigned, rebuild_allocations, remade, statements, touched, used_in
from naperian.names import Var
from naperian.node import replace
from naperian.passes.nests.turns import whole
from naperian.sizes import ONE, ZERO, Remainder, Size


def continued(program: Program) -> Program:
    """See the module."""
    return replace(program, body=_block(program.body))


def _block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    pairs = {
        s.buffer.var: s.buffer for s in body
        if isinstance(s, Allocate) and s.buffer.role is Role.TEMP and not s.planes
        and len(s.buffer.shape) > 1 and s.buffer.shape[0].constant == 2
    }  # fmt: skip
    for later in pairs.values() if len(pairs) > 1 else ():
        body = _gone_on(body, later, pairs) or body
    return tuple([rebuild_allocations(s, _block) for s in body])


def _gone_on(
    body: tuple[Stmt, ...], later: Buffer, pairs: dict[Var, Buffer]
) -> tuple[Stmt, ...] | None:
    """A block without an array, if this begins as a copy of one that is read no more."""
    users = [k for k, s in enumerate(body) if later.var in touched(s)]
    if len(users) < 2:
        return None
    made, first = users[:2]
    allocate, copy = body[made], whole(body[first], later.shape[1:])
    if copy is None or not isinstance(copy.value, Load) or copy.value.buffer not in pairs:
        return None
    # whole rows of an array of two
    earlier, (turn, *at) = pairs[copy.value.buffer], copy.value.at
    if copy.buffer != later.var or copy.at[0] != ZERO or tuple(at) != copy.at[1:]:
        return None
    same = (earlier.shape, earlier.dtype) == (later.shape, later.dtype)
    plain = isinstance(allocate, Allocate) and allocate.fill is None
    rest = body[first + 1 :]
    if not (same and plain) or any(earlier.var in touched(s) for s in rest):
        return None
    if not frozenset(v for s in statements(rest) for v in assigned(s)).isdisjoint(used_in(turn)):
        return None
    strange: list[Size] = []

    def place(v: Var, where: tuple[Size, ...]) -> tuple[Size, ...]:
        if v != later.var:
            return where
        there = _turned(where[0], turn) if where else None
        if there is None:
            strange.extend(where[:1] or (ZERO,))
            return where
        return there, *where[1:]

    new = remade(rest, lambda _: None, {later.var: earlier.var}, place, {later.var})
    return None if strange else (*body[:made], *body[made + 1 : first], *new)


def _turned(at: Size, first: Size) -> Size | None:
    """The copy at whose turn it is, where the first turn is another one's."""
    if at == ZERO:
        return first
    begun = _counted(first) or first
    if at == ONE:
        return (begun + ONE) % 2
    rounds = _counted(at)
    return None if rounds is None else (begun + rounds) % 2


def _counted(at: Size) -> Size | None:
    """The number of which this is the remainder by two."""
    a = at.single
    return a.above if isinstance(a, Remainder) and a.below.constant == 2 else None
