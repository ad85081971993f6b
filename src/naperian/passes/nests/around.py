"""Around the one round that changes what all read, rounds are independent. loops → loops

    before   for j in 0..n:                        after    m = clamp(u, n + 1)
                 store d[j] = min(d[j], d[u] + w[j])        one = d[u]
                                                            free for j in 0..m:
                                                                store d[j] = min(d[j], one + w[j])
                                                            if m < n: store d[m] = min(…)
                                                            two = d[u]
                                                            free for j in min(m + 1, n)..n: …

Shortest ways from vertex to vertex, and eliminations, read in every round the element that is a
round's own. Which round that is needs not be known before the run.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Program,
    Stmt,
    Store,
    Update,
    When,
)
from naperian.loops.walk import loads, rebuild_loops, remade, statements, used_in, whole
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.passes.nests.independent import At, are_apart
from naperian.sizes import ONE, Atom, Size, clamp, size

_FEW = 16  # rounds that are faster in order


def around(program: Program) -> Program:
    """See the module."""
    made = [s.buffer for s in statements(program.body) if isinstance(s, Allocate)]
    types = {b.var: b.dtype for b in (*program.buffers, *made)}
    cut: Counter[str] = Counter()
    inside = partial(_block, types=types, cut=cut)
    body = tuple(rebuild_loops(s, inside) for s in program.body)
    return replace(program, body=body, notes=tuple(_told(n, cut) for n in program.notes))


def _told(note: str, cut: Counter[str]) -> str:
    """What is said of a loop, which is no longer in order if it is cut."""
    head, _, why = note.partition(": ")
    name = next((v for v, k in cut.items() if k and head.startswith(f"loop over `{v}`")), None)
    if why.startswith("sequential") and name is not None:
        cut[name] -= 1
        return f"{head}: its iterations are independent around the one that changes what all read"
    return note


def _block(body: tuple[Stmt, ...], types: dict[Var, DType], cut: Counter[str]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        made = _cut(s, types) if isinstance(s, Loop) else None
        if made is not None and isinstance(s, Loop):
            cut[s.var.name] += 1
        out.append(made or rebuild_loops(s, partial(_block, types=types, cut=cut)))
    return tuple(out)


def _cut(s: Loop, types: dict[Var, DType]) -> When | None:
    """The rounds before the one that changes what all read, that one, and those after it."""
    trips = (s.high - s.low).constant
    if s.order is not Order.SERIAL or s.reductions or (trips is not None and trips < _FEW):
        return None
    inside = statements(s.body)
    if not all(isinstance(x, Let | Store | Update | When) for x in inside):
        return None
    stored: dict[Var, set[At]] = {}
    for x in inside:
        if isinstance(x, Store | Update):
            stored.setdefault(x.buffer, set()).add(x.at)
    own = {s.var, *(x.var for x in inside if isinstance(x, Let))}
    read = dict.fromkeys(e for x in s.body for e in loads(x) if e.buffer in stored)
    shared = [e for e in read if own.isdisjoint(v for i in e.at for v in used_in(i))]
    if not shared or not all(i.plain for e in shared for i in e.at):
        return None
    places = {_round(stored[e.buffer], e.at, s.var) for e in shared}
    place = places.pop()
    if place is None or places:
        return None
    one, two = (_read(s, shared, types) for _ in range(2))
    if not all(are_apart(x[1]) for x in (one, two)):
        return None
    middle, after = Var("middle"), Var("after")
    m = Number(s.low + clamp(place - s.low, s.high - s.low + 1))
    past = whole("min", Number(size(middle) + ONE), Number(s.high))
    some = Apply("lt", (Number(s.low), Number(s.high)), DType.BOOL, DType.I64)
    is_there = Apply("lt", (Number(size(middle)), Number(s.high)), DType.BOOL, DType.I64)
    mine = {v: fresh(v) for v in own - {s.var}}  # for a proof may open what it stands in
    names: dict[Atom, Size] = {s.var: size(middle), **{v: size(w) for v, w in mine.items()}}
    return When(some, (
        Let(middle, DType.I64, m), Let(after, DType.I64, past),
        *one[0], replace(one[1], high=size(middle)),
        When(is_there, remade(s.body, names.get, mine)),
        *two[0], replace(two[1], low=size(after)),
    ))  # fmt: skip


def _round(stored: set[At], at: At, loop: Var) -> Size | None:
    """The one round that may store what is at a place."""
    for k, place in enumerate(at):
        by, *more = {x[k] - size(loop) for x in stored}
        if not more and loop not in used_in(by):
            return place - by
    return None


def _read(
    s: Loop, shared: list[Load], types: dict[Var, DType]
) -> tuple[tuple[Let, ...], Loop]:
    """The elements that all rounds read, and the loop that finds them there."""
    names = {e: Var("shared") for e in shared}

    def expr(e: Expr) -> Expr:
        if isinstance(e, Load) and e in names:
            return Local(names[e])
        return replace(e, args=tuple(map(expr, e.args))) if isinstance(e, Apply) else e

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for x in body:
            match x:
                case When(condition, then, otherwise):
                    out.append(When(expr(condition), block(then), block(otherwise)))
                case Let() | Store() | Update():
                    out.append(replace(x, value=expr(x.value)))
                case _:
                    raise AssertionError(x)
        return tuple(out)

    lets = tuple(Let(v, types[e.buffer], e) for e, v in names.items())
    return lets, replace(s, body=block(s.body))
