"""What is added at places that a search has found waits for more searches. loops → loops

    before   parallel for i in 0..n reducing add out:
                 var at = 0
                 for q in 0..k: … at := q if nearer else at
                 free for c in 0..d: update out[at, c] += x[i, c]

    after    parallel for s in 0..⌈n / 128⌉ reducing add out:
                 allocate small place[128]
                 free for i in strip s:
                     var at = 0
                     for q in 0..k: … at := q if nearer else at
                     store place[i - 128 s] = at
                 for i in strip s:
                     at = place[i - 128 s]
                     free for c in 0..d: update out[at, c] += x[i, c]

An addition at a place that is not known yet is in the way of the next search: what that reads may
be what is added to, for all that the processor knows. Where no search is, `deferred` and `strips`
part rounds.
"""

from __future__ import annotations

from naperian.loops.syntax import (
    Allocate,
    Assign,
    Buffer,
    Let,
    Load,
    Local,
    Loop,
    Order,
    Program,
    Role,
    Stmt,
    Store,
    Update,
    Variable,
    When,
)
from naperian.loops.walk import mentions, rebuild_loops, statements, used_in
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.passes.nests.strips import in_strips
from naperian.sizes import ZERO, size

_ROUNDS = 128  # in a strip: what they read again is still in the first cache
_HANDED = 4  # values that the additions take from a search, at most
_FEW = 4  # candidates, which are no search


def found_first(program: Program) -> Program:
    """See the module."""
    return replace(program, body=_block(program.body))


def _block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a block that is in no loop."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Loop) and s.order is Order.PARALLEL:
            out.append(_parted(s))
        else:
            out.append(rebuild_loops(s, _block) if isinstance(s, When) else s)
    return tuple(out)


def _parted(s: Loop) -> Loop:
    adding = [k for k, x in enumerate(s.body) if _adds((x,))]
    if not adding:
        return s
    sums = tuple(s.body[k] for k in adding)
    search = tuple(x for k, x in enumerate(s.body) if k not in adding)
    later = {x.var for x in statements(s.body[adding[0] :]) if isinstance(x, Assign)}
    updates = [x for x in statements(sums) if isinstance(x, Update)]
    bound = {x.var for x in statements(sums) if isinstance(x, Let | Variable)}
    needed = {v for x in sums for v in mentions(x)} - bound
    handed = {
        x.var: x.dtype for x in search if isinstance(x, Let | Variable) and x.var in needed
    }  # fmt: skip
    chosen = {x.var for x in statements(search) if isinstance(x, Assign)}
    for x in search:
        if isinstance(x, Let) and not chosen.isdisjoint(mentions(x)):
            chosen.add(x.var)
    places = {v for x in updates for e in x.at for v in used_in(e)}
    if len(handed) > _HANDED or places.isdisjoint(chosen & handed.keys()):
        return s
    if not any(map(_is_long, search)):
        return s
    if not later.isdisjoint(handed) or not _only_add(sums, bound):
        return s
    if not _are_apart(search, needed, {x.buffer for x in updates}):
        return s
    strip = Var("strip")
    count, low, high = in_strips(s, strip, _ROUNDS)
    at = (size(s.var) - low,)
    tables = {
        v: Buffer(fresh(v), dtype, (size(_ROUNDS),), Role.TEMP) for v, dtype in handed.items()
    }  # fmt: skip
    stores = (Store(b.var, at, Local(v)) for v, b in tables.items())
    lets = (Let(v, b.dtype, Load(b.var, at)) for v, b in tables.items())
    added = {x.buffer for x in updates}
    alone = tuple(r for r in s.reductions if r.var not in added)
    body: tuple[Stmt, ...] = (
        *(Allocate(b, small=True) for b in tables.values()),
        Loop(s.var, low, high, (*search, *stores), Order.FREE, alone, s.work),
        Loop(s.var, low, high, (*lets, *sums), Order.SERIAL, (), s.work),
    )
    return Loop(strip, ZERO, count, body, s.order, s.reductions, s.work * _ROUNDS)


def _adds(body: tuple[Stmt, ...]) -> bool:
    return any(isinstance(x, Update) for x in statements(body))


def _is_long(s: Stmt) -> bool:
    """Whether a statement is a loop of a search."""
    few = (s.high - s.low).constant if isinstance(s, Loop) else 0
    return few is None or few > _FEW


def _only_add(sums: tuple[Stmt, ...], bound: set[Var]) -> bool:
    """Whether statements do nothing but add to arrays."""
    return all(
        isinstance(x, Let | Variable | Update | Loop | When)
        or (isinstance(x, Assign) and x.var in bound)
        for x in statements(sums)
    )


def _are_apart(search: tuple[Stmt, ...], needed: set[Var], added: set[Var]) -> bool:
    """Whether a search reads nothing that is added to, and hands on no table of its own."""
    tables = {x.buffer.var for x in statements(search) if isinstance(x, Allocate)}
    return tables.isdisjoint(needed) and not any(added & mentions(x) for x in search)
