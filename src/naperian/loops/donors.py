"""Which results may be written over which arguments, as in `f(x, out=x)`.

    for i: y[i] = 2·x[i] + z[i]      x and z are donors of y
    for i: y[i] = x[n - 1 - i]       none: y[0] is written before x[0] is read
    for t: for i: y[t, i] = y[t - 1, i] + x[t, i]     x: each round has its row of both

An argument of a result's type and shape is a donor of it if all that is read of it was read before:
in an earlier nest, or in the same iteration of independent ones or of those that go through rows in
order, and then only the element that is written. A run that may still fail takes nothing, so that a
caller whose call failed has lost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from naperian.loops.syntax import (
    Allocate,
    Contract,
    Fail,
    Loop,
    Order,
    Program,
    Role,
    Sort,
    Stmt,
    Store,
    Update,
    When,
    While,
    made_here,
)
from naperian.loops.walk import blocks, loads, mentions, statements
from naperian.names import Var
from naperian.sizes import Size


def donors(program: Program) -> tuple[tuple[Var, Var], ...]:
    """Pairs of an argument and the result that may be written over it."""
    body = program.body
    if any(isinstance(s, Allocate) and s.planes for s in statements(body)):
        return ()
    named = [mentions(s) for s in body]
    failing = max(
        (k for k, s in enumerate(body) if any(isinstance(t, Fail) for t in statements((s,)))),
        default=-1,
    )
    own = made_here(body)
    pairs = []
    for r in program.buffers:
        first = next((k for k, names in enumerate(named) if r.var in names), None)
        if r.role is not Role.OUT or r.var in own or not r.shape:
            continue
        if first is None or failing >= first:
            continue
        for a in program.buffers:
            if a.role is not Role.IN or (a.dtype, a.shape) != (r.dtype, r.shape):
                continue
            last = max((k for k, names in enumerate(named) if a.var in names), default=-1)
            if last < first or (last == first and together((body[first],), a.var, r.var)):
                pairs.append((a.var, r.var))
    return tuple(pairs)


def together(block: tuple[Stmt, ...], a: Var, r: Var) -> bool:
    """Whether every iteration reads no other element of `a` than it writes of `r`, and before."""
    return _place(block, a, r) is not None


_Place: TypeAlias = tuple[Var | None, ...]
"""An element: of each of its indices the variable that it is, if it is one."""


def _place(block: Sequence[Stmt], a: Var, r: Var) -> _Place | None:
    """Which element of `r` an iteration writes, if it reads no other of `a`, and before. What it
    reads of `r` was written by then."""
    concerned = [s for s in block if not mentions(s).isdisjoint((a, r))]
    match concerned:
        case [Loop(_, _, _, body, Order.FREE | Order.LANES | Order.PARALLEL, reductions)]:
            return None if any(x.var == r for x in reductions) else _place(body, a, r)
        case [When(_, then, otherwise) as s] if otherwise and not loads(s):
            one, two = _place(then, a, r), _place(otherwise, a, r)
            if one is not None and two is not None:
                return tuple(v if v == w else None for v, w in zip(one, two, strict=True))
        case [Loop(order=Order.SERIAL) as s, *rest]:
            if (row := _of_rows(s, rest, a, r)) is not None:
                return row
        case _:
            pass
    return _of_one(concerned, a, r)


def _of_rows(s: Loop, rest: Sequence[Stmt], a: Var, r: Var) -> _Place | None:
    """The same of a loop, and of one that goes on where it ended, if each of their rounds has a row
    of its own. Elements in order stay apart: eight of them may be tried at once."""
    if not any(isinstance(x, Loop) for x in s.body):
        return None
    if any(isinstance(x, Store | Update) and x.buffer == a for x in statements((s, *rest))):
        return None
    place = _place(s.body, a, r)
    match place, rest:
        case (None, _):
            return None
        case (_, []):
            return place if s.var in place else None
        case (_, [Loop(var, low, _, body, Order.SERIAL)]) if low == s.high:
            other = _place(body, a, r)
            pairs = zip(place, other or (), strict=other is not None)
            return place if (s.var, var) in pairs else None
        case _:
            return None


def _of_one(block: Sequence[Stmt], a: Var, r: Var) -> _Place | None:
    """The same where no iteration is independent of another: there is one place."""
    places: set[tuple[Size, ...]] = set()
    written = False
    for s, repeated in _in_order(block):
        read = [x.at for x in loads(s) if x.buffer == a]
        places.update(read)
        if written and read:
            return None
        match s:
            case Store(buffer, at) if buffer == r:
                places.add(at)
                written = True
                if repeated:
                    return None
            case Update(buffer) if buffer == r:
                return None
            case Contract() | Sort() if not mentions(s).isdisjoint((a, r)):
                return None
            case _:
                pass
    if not written or len(places) > 1:
        return None
    return tuple(v if isinstance(v := e.single, Var) else None for e in places.pop())


def _in_order(block: Sequence[Stmt], repeated: bool = False) -> Iterator[tuple[Stmt, bool]]:
    """Statements with what is in them, and whether a loop of the block repeats them."""
    for s in block:
        yield s, repeated
        for inner in blocks(s):
            yield from _in_order(inner, repeated or isinstance(s, Loop | While))
