"""Around the one round that changes what all read, rounds are independent. loops → loops

    before   for j in 0..n:                        after    m = clamp(u, n + 1)
                 store d[j] = min(d[j], d[u] + w[j])        one = d[u]
                                                            free for j in 0..m:
                                                                store d[j] = min(d[j], one + w[j])
                                                            if m < n: store d[m] = min(…)
                                                            two = d[u]
                                                            free for j in min(m + 1, n)..n: …

Shortest ways from vertex to vertex, and eliminations, read in every round the element that is a
round's own. Which round that is needs not be known before the run. Their derivatives add to such an
element in every round: before its own and after it that goes on in a register, unless the program
is `strict`.

    before   for j in 0..n:                        after    m = clamp(u, n + 1)
                 update g[j] += f(g[j])                     var one = -0.0
                 update g[u] += g[j]                        free for j in 0..m reducing add one: …
                                                            if 0 < m: update g[u] += one
                                                            …
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import TypeAlias

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Program,
    Reduction,
    Stmt,
    Store,
    Update,
    Variable,
    When,
)
from naperian.loops.walk import loads, rebuild_loops, remade, statements, used_in, whole
from naperian.names import Lit, Var, fresh
from naperian.node import node, replace
from naperian.passes.nests.independent import At, are_apart
from naperian.prims import Math
from naperian.sizes import ONE, Atom, Size, clamp, size

Place: TypeAlias = tuple[Var, At]

_FEW = 16  # rounds that are faster in order


def around(program: Program) -> Program:
    """See the module."""
    made = [s.buffer for s in statements(program.body) if isinstance(s, Allocate)]
    types = {b.var: b.dtype for b in (*program.buffers, *made)}
    cut: Counter[str] = Counter()
    strict = program.math is Math.STRICT
    inside = partial(_block, types=types, cut=cut, strict=strict)
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


def _block(
    body: tuple[Stmt, ...], types: dict[Var, DType], cut: Counter[str], strict: bool
) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        made = _cut(s, types, strict) if isinstance(s, Loop) else None
        if made is not None and isinstance(s, Loop):
            cut[s.var.name] += 1
        out.append(made or rebuild_loops(s, partial(_block, types=types, cut=cut, strict=strict)))
    return tuple(out)


def _cut(s: Loop, types: dict[Var, DType], strict: bool) -> When | None:
    """The rounds before the one that changes what all read, that one, and those after it."""
    trips = (s.high - s.low).constant
    if s.order is not Order.SERIAL or s.reductions or (trips is not None and trips < _FEW):
        return None
    inside = list(statements(s.body))
    if not all(isinstance(x, Let | Store | Update | When) for x in inside):
        return None
    own = {s.var, *(x.var for x in inside if isinstance(x, Let))}

    def stands(at: At) -> bool:
        return own.isdisjoint(v for i in at for v in used_in(i))

    read = dict.fromkeys(e for x in s.body for e in loads(x))
    sums: dict[Place, None] = {}
    stored: dict[Var, set[At]] = {}
    for x in inside:
        if isinstance(x, Update) and x.monoid == "add" and stands(x.at) and not strict:
            sums[x.buffer, x.at] = None
        elif isinstance(x, Store | Update):
            stored.setdefault(x.buffer, set()).add(x.at)
    every = {e for x in inside for e in loads(x)}
    added = {buffer for buffer, _ in sums}
    if any(e.buffer in added and stands(e.at) for e in every):
        return None  # what has been added so far is asked for, or may be
    shared = [e for e in read if e.buffer in stored and stands(e.at)]
    places = dict.fromkeys((*((e.buffer, e.at) for e in shared), *sums))
    if not places or not all(i.plain for _, at in places for i in at):
        return None
    moving = {b: {e.at for e in every if e.buffer == b} for b in added}
    rounds = {_round(stored.get(b, set()) | moving.get(b, set()), at, s.var) for b, at in places}
    place = rounds.pop()
    if place is None or rounds:
        return None
    one, two = (_read(s, shared, sums, types) for _ in range(2))
    if not all(are_apart(x.loop) for x in (one, two)):
        return None
    middle, after = Var("middle"), Var("after")
    m = Number(s.low + clamp(place - s.low, s.high - s.low + 1))
    past = whole("min", Number(size(middle) + ONE), Number(s.high))
    is_there = Apply("lt", (Number(size(middle)), Number(s.high)), DType.BOOL, DType.I64)
    mine = {v: fresh(v) for v in own - {s.var}}  # for a proof may open what it stands in
    names: dict[Atom, Size] = {s.var: size(middle), **{v: size(w) for v, w in mine.items()}}
    return When(_some(s), (
        Let(middle, DType.I64, m), Let(after, DType.I64, past),
        *one.between(s.low, size(middle)),
        When(is_there, remade(s.body, names.get, mine)),
        *two.between(size(after), s.high),
    ))  # fmt: skip


def _some(s: Loop) -> Expr:
    """Whether a loop has rounds."""
    return Apply("lt", (Number(s.low), Number(s.high)), DType.BOOL, DType.I64)


def _round(stored: set[At], at: At, loop: Var) -> Size | None:
    """The one round that may store what is at a place."""
    for k, place in enumerate(at):
        for sign in (1, -1):
            rest = {x[k] - size(loop) * sign for x in stored}
            if len(rest) == 1:
                (by,) = rest
                if loop not in used_in(by):
                    return (place - by) * sign
    return None


@node
class _Rounds:
    """The rounds of a loop away from the one that changes what all read: what they read, a loop
    that finds it there, and what they add to, put down behind them."""

    reads: tuple[Stmt, ...]
    loop: Loop
    sums: tuple[Stmt, ...]

    def between(self, low: Size, high: Size) -> tuple[Stmt, ...]:
        loop = replace(self.loop, low=low, high=high)
        return (*self.reads, loop, *((When(_some(loop), self.sums),) if self.sums else ()))


def _read(
    s: Loop, shared: list[Load], sums: Iterable[Place], types: dict[Var, DType]
) -> _Rounds:
    """What all rounds read is read before them, and what all add to is added to behind them."""
    names = {e: Var("shared") for e in shared}
    registers = {place: Var("sum") for place in sums}

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
                case Update(buffer, at, "add") if (buffer, at) in registers:
                    v, dtype = registers[buffer, at], types[buffer]
                    new = Apply("add", (Local(v), expr(x.value)), dtype, dtype)
                    out.append(Assign(v, new))
                case Let() | Store() | Update():
                    out.append(replace(x, value=expr(x.value)))
                case _:
                    raise AssertionError(x)
        return tuple(out)

    reads: list[Stmt] = [Let(v, types[e.buffer], e) for e, v in names.items()]
    reductions, behind = [], []
    for (buffer, at), v in registers.items():
        dtype = types[buffer]
        reads.append(Variable(v, dtype, Lit(-0.0 if dtype.is_float else 0, dtype)))
        reductions.append(Reduction(v, "add", dtype))
        behind.append(Update(buffer, at, "add", Local(v)))
    loop = replace(s, body=block(s.body), reductions=tuple(reductions))
    return _Rounds(tuple(reads), loop, tuple(behind))
