"""Zeros of which every element is added to once, by steps, are stored in one loop. loops → loops

    before   for q in 0..2 * n: store y[q] = 0.0
             free for i in 0..n: update y[2 * i + 1] += v[i]
             free for j in 0..n: update y[2 * j] += w[j]

    after    free for i in 0..n:
                 store y[2 * i + 1] = 0.0 + v[i]
                 store y[2 * i] = 0.0 + w[i]

So is the cotangent of what a window reads by its own length. Elements that lie beside each other
are written by the same round, in whole vectors, and nothing is read to be added to.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Let,
    Loop,
    Order,
    Program,
    Stmt,
    Store,
    Update,
    Variable,
    When,
)
from naperian.loops.walk import (
    assigned,
    index_expressions,
    loads,
    mentions,
    rebuild_loops,
    remade,
    statements,
    step,
    used_in,
    writes,
)
from naperian.names import Lit, Var
from naperian.node import node, replace
from naperian.sizes import ZERO, Atom, Size, size

_PLAIN = (Let, Variable, Assign, Store, Update, Loop, When)


def filled(program: Program) -> Program:
    """See the module."""
    return replace(program, body=_block(program.body))


@node
class _Nest:
    """Loops, each of which is all that the one around it does, and what the innermost one does."""

    loops: tuple[Loop, ...]
    body: tuple[Stmt, ...]

    @property
    def vars(self) -> tuple[Var, ...]:
        return tuple(s.var for s in self.loops)


def _block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    body = tuple(rebuild_loops(s, _block) for s in body)
    for k, s in enumerate(body):
        found = _filled(s, body[k + 1 :]) if isinstance(s, Loop) else None
        if found is not None:
            return (*body[:k], *_block(found))
    return body


def _filled(s: Loop, after: tuple[Stmt, ...]) -> tuple[Stmt, ...] | None:
    """What takes the place of a loop that stores zeros and what comes after it, if that adds to
    each of them once."""
    zeros = _nest(s)
    if zeros is None or len(zeros.body) != 1:
        return None
    zero = zeros.body[0]
    if not isinstance(zero, Store) or not isinstance(zero.value, Lit):
        return None
    first = next((k for k, x in enumerate(after) if zero.buffer in mentions(x)), len(after))
    named = {v for e in zero.at for v in used_in(e)}.difference(zeros.vars)
    if named and not _changed(after[:first]).isdisjoint(named):
        return None
    nests: list[_Nest] = []
    made: list[Stmt] = []
    steps = None
    for k, x in enumerate(after[first:], first + 1):
        if isinstance(x, Allocate):
            made.append(x)
            continue
        nest = _nest(x)
        if nest is None or (nests and not _goes_along(nests[0], nest)):
            return None
        nest = _Nest(nest.loops, _as(nests[0], nest)) if nests else nest
        nests.append(nest)
        steps = steps or _steps(zeros, zero, nests[0])
        if steps is None:
            return None
        if len(nests) == prod(steps):
            if not _once(zero, nests, steps) or not _apart(zero.buffer, nests):
                return None
            return (*after[:first], *made, _together(zero, nests), *after[k:])
    return None


def _changed(body: tuple[Stmt, ...]) -> set[Var]:
    """What statements assign or write."""
    inside = statements(body)
    return {v for x in inside for v in (writes(x), *assigned(x)) if v is not None}


def _nest(s: Stmt) -> _Nest | None:
    """Loops in any order from 0 on, around plain statements."""
    loops: list[Loop] = []
    body: tuple[Stmt, ...] = (s,)
    while len(body) == 1 and isinstance(body[0], Loop):
        inner = body[0]
        if inner.order not in (Order.FREE, Order.PARALLEL) or inner.reductions or inner.low != ZERO:
            return None
        loops.append(inner)
        body = inner.body
    if not loops or not all(isinstance(x, _PLAIN) for x in statements(body)):
        return None
    own = {x.var for x in loops}
    if any(not own.isdisjoint(used_in(x.high)) for x in loops):
        return None
    return _Nest(tuple(loops), body)


def _goes_along(one: _Nest, other: _Nest) -> bool:
    """Whether two nests go through the same rounds."""
    rounds = ([(x.high, x.order) for x in n.loops] for n in (one, other))
    names = (
        {x.var for x in statements(n.body) if isinstance(x, Let | Variable | Loop)}
        for n in (one, other)
    )
    return next(rounds) == next(rounds) and next(names).isdisjoint(next(names))


def _as(one: _Nest, other: _Nest) -> tuple[Stmt, ...]:
    """What a nest does in a round of another one."""
    names = {a: size(b) for a, b in zip(other.vars, one.vars, strict=True)}

    def here(a: Atom) -> Size | None:
        return names.get(a) if isinstance(a, Var) else None

    return remade(other.body, here)


def _steps(zeros: _Nest, zero: Store, nest: _Nest) -> tuple[int, ...] | None:
    """How far apart what a nest adds to lies on every axis, if from end to end."""
    adds = [x for x in nest.body if isinstance(x, Update) and x.buffer == zero.buffer]
    if len(adds) != 1:
        return None
    ends = {x.var: x.high for x in zeros.loops}
    rounds = {x.var: x.high for x in nest.loops}
    steps: list[int] = []
    for e, to in zip(zero.at, adds[0].at, strict=True):
        q = e.single
        if not isinstance(q, Var) or q not in ends:
            if e != to or not ends.keys().isdisjoint(used_in(e)):
                return None
            steps.append(1)
            continue
        mine = [v for v in used_in(to) if v in rounds]
        if len(mine) != 1:
            return None
        by = step(to, mine[0])
        if by is None or by < 1 or rounds.pop(mine[0]) * by != ends.pop(q):
            return None
        steps.append(by)
    return None if ends or rounds or prod(steps) < 2 else tuple(steps)


def _once(zero: Store, nests: Sequence[_Nest], steps: tuple[int, ...]) -> bool:
    """Whether the nests add to every element once."""
    first: tuple[Size, ...] | None = None
    offsets: set[tuple[int, ...]] = set()
    for nest in nests:
        adds = [x for x in nest.body if isinstance(x, Update) and x.buffer == zero.buffer]
        if len(adds) != 1 or adds[0].monoid != "add":
            return False
        at = adds[0].at
        base = tuple(e - e.offset if n > 1 else e for e, n in zip(at, steps, strict=True))
        first = first or base
        if base != first:
            return False
        offsets.add(tuple(e.offset if n > 1 else 0 for e, n in zip(at, steps, strict=True)))
    inside = all(0 <= c < n for o in offsets for c, n in zip(o, steps, strict=True))
    return inside and len(offsets) == prod(steps) and _is_plain(first, steps, nests[0])


def _is_plain(at: tuple[Size, ...] | None, steps: tuple[int, ...], nest: _Nest) -> bool:
    """Whether on every axis that the rounds go along, a place is a multiple of one index."""
    return at is not None and all(
        e == size(v) * n
        for e, n in zip(at, steps, strict=True) for v in used_in(e) if v in nest.vars
    )  # fmt: skip


def _apart(buffer: Var, nests: Sequence[_Nest]) -> bool:
    """Whether rounds may go on to the next nest at once: what one nest writes others only read in
    the same round, and after it."""
    stored: dict[Var, tuple[Size, ...]] = {}
    read: set[Var] = set()
    for nest in nests:
        inside = statements(nest.body)
        if sum(isinstance(x, Update) for x in inside) != 1:
            return False
        for x in inside:
            for y in loads(x):
                if y.buffer == buffer or stored.get(y.buffer, y.at) != y.at:
                    return False
                read.add(y.buffer)
            if any(not {buffer, *stored}.isdisjoint(used_in(e)) for e in index_expressions(x)):
                return False
            if isinstance(x, Store):
                if x.buffer in stored or x.buffer in read or x.buffer == buffer:
                    return False
                if {*x.at} != {size(v) for v in nests[0].vars}:
                    return False
                stored[x.buffer] = x.at
    return True


def _together(zero: Store, nests: Sequence[_Nest]) -> Stmt:
    """One nest that does what all do, and stores what they add."""

    def stored(x: Stmt) -> Stmt:
        if not isinstance(x, Update):
            return x
        assert isinstance(zero.value, Lit)
        dtype = zero.value.dtype
        return Store(x.buffer, x.at, Apply("add", (zero.value, x.value), dtype, dtype))

    body = tuple(stored(x) for nest in nests for x in nest.body)
    for loops in zip(*(reversed(n.loops) for n in nests), strict=True):
        work = sum((s.work for s in loops[1:]), loops[0].work)
        body = (replace(loops[0], body=body, work=work),)
    return body[0]
