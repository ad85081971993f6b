"""What a round computes for places that data name is added to them behind. loops → loops

    before   parallel for i in 0..n reducing add out:
                 near = d[i] < 1.0
                 if near: …
                 update out[k[i], 0] += f
                 if near:
                     free for c in 0..3: update out[l[i], c] += g * x[i, c]

    after    parallel for s in 0..⌈n / 256⌉ reducing add out:
                 allocate small value[256], value_2[3, 256], there[256]
                 free for i in strip s:
                     store there[i - 256 s] = False
                     near = d[i] < 1.0
                     if near: …
                     store value[i - 256 s] = f
                     if near:
                         store there[i - 256 s] = True
                         free for c in 0..3: store value_2[c, i - 256 s] = g * x[i, c]
                 for i in strip s:
                     update out[k[i], 0] += value[i - 256 s]
                     if there[i - 256 s]:
                         free for c in 0..3: update out[l[i], c] += value_2[c, i - 256 s]

As in `strips`, which does the same for rounds without conditions and loops, flags stay with what
scatters. That pays for rounds that compute much, as those of gradients do: they become vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from naperian.dtypes import DType
from naperian.loops.memory import constant_bytes
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Expr,
    Let,
    Load,
    Loop,
    Number,
    Order,
    Role,
    Stmt,
    Store,
    Update,
    Variable,
    When,
)
from naperian.loops.walk import expressions, mentions, parts, statements, used, used_in
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.nests.strips import in_strips
from naperian.prims import PRIMITIVES
from naperian.sizes import ZERO, Clamp, Size, size

_BYTES = 32 * 1024  # of all that waits, beside which the first cache has room
_ROUNDS = (256, 64)  # of a strip, as many as fit
_FEW = 16  # components, over which a loop is part of a round
_WORK = 60  # additions in a round that are worth vectors


def deferred(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program, its outermost parallel loops rewritten."""
    return tuple(_deferred(s) if isinstance(s, Loop) else s for s in body)


def _deferred(s: Loop) -> Loop:
    inner = statements(s.body)
    if s.order is not Order.PARALLEL or not any(map(_scatters, inner)) or _work(inner) < _WORK:
        return s
    if not all(isinstance(x, Let | Variable | When) for x in s.body if not _plain(x, s)):
        return s
    for rounds in _ROUNDS:
        strip = Var("strip")
        count, low, high = in_strips(s, strip, rounds)
        parted = _Parted(s, size(s.var) - low, rounds)
        try:
            first = parted.block(s.body)
        except _Stays:
            return s
        if sum(constant_bytes(b) or 0 for b in parted.tables) <= _BYTES:
            break
    else:
        return s
    sums = tuple(r for r in s.reductions if r.var not in parted.behind)
    whole: tuple[Stmt, ...] = (
        *(Allocate(b, small=True) for b in parted.tables),
        Loop(s.var, low, high, (*parted.starts, *first), Order.FREE, sums, s.work),
        Loop(s.var, low, high, tuple(parted.second), Order.SERIAL, (), s.work),
    )
    return Loop(strip, ZERO, count, whole, Order.PARALLEL, s.reductions, s.work * rounds)


def _plain(x: Stmt, s: Loop) -> bool:
    """Whether a statement is one that a block of vectors may have."""
    match x:
        case Loop(var, low, high, body, order):
            n = (high - low).constant
            few = n is not None and n <= _FEW and order is Order.FREE
            return few and var != s.var and all(_plain(y, s) for y in body)
        case When(_, then, otherwise):
            return all(_plain(y, s) for y in (*then, *otherwise))
        case Allocate(buffer):
            return constant_bytes(buffer) is not None
        case _:
            return isinstance(x, Let | Variable | Assign | Store | Update)


def _scatters(s: Stmt) -> bool:
    return isinstance(s, Update) and any(
        isinstance(a, Load | Clamp) for e in s.at for a in e.atoms()
    )


def _work(inner: list[Stmt]) -> int:
    """What a round computes, in additions."""
    found = (y for x in inner for e in expressions(x) for y in parts(e) if isinstance(y, Apply))
    return sum(PRIMITIVES[y.name].cost for y in found if y.name in PRIMITIVES)


class _Stays(Exception):
    """A loop that is not taken apart."""


@dataclass
class _Parted:
    """The two loops over a strip of rounds, of which `at` says how far it is in it."""

    loop: Loop
    at: Size
    rounds: int
    tables: list[Buffer] = field(default_factory=list)
    starts: list[Stmt] = field(default_factory=list)  # what comes first in a round
    second: list[Stmt] = field(default_factory=list)
    behind: set[Var] = field(default_factory=set)  # what only the second loop changes
    asked: dict[tuple[Expr, ...], Load] = field(default_factory=dict)
    own: frozenset[Var] = frozenset()  # what a round binds or makes
    changed: frozenset[Var] = frozenset()  # what it changes, so that a condition may, too

    def __post_init__(self) -> None:
        made = {s.var for s in statements(self.loop.body) if isinstance(s, Let | Variable)}
        tables = (s for s in statements(self.loop.body) if isinstance(s, Allocate))
        stored = {s.buffer for s in statements(self.loop.body) if isinstance(s, Store | Update)}
        self.own = frozenset(made | {s.buffer.var for s in tables} | stored)
        assigned = (s.var for s in statements(self.loop.body) if isinstance(s, Assign))
        self.changed = frozenset(stored.union(assigned))

    def block(
        self, body: tuple[Stmt, ...], under: tuple[Expr, ...] = (), over: tuple[Loop, ...] = ()
    ) -> tuple[Stmt, ...]:
        """What of a block, under conditions and in small loops, stays in the first loop."""
        out: list[Stmt] = []
        for s in body:
            match s:
                case When(condition, then, otherwise):
                    other = Apply("not", (condition,), DType.BOOL, DType.BOOL)
                    yes = self.block(then, (*under, condition), over)
                    no = self.block(otherwise, (*under, other), over)
                    if yes or no:
                        out.append(When(condition, yes, no))
                case Loop():
                    inner = self.block(s.body, under, (*over, s))
                    if inner:
                        out.append(replace(s, body=inner))
                case Update(buffer) if buffer in self.sums():
                    out += self.update(s, under, over)
                case Assign(var) if var in self.flags():
                    if over or under or self.own & mentions(s):
                        raise _Stays
                    self.behind.add(var)
                    self.second.append(s)
                case _:
                    out.append(s)
        return tuple(out)

    def sums(self) -> set[Var]:
        return {r.var for r in self.loop.reductions}

    def flags(self) -> set[Var]:
        return {r.var for r in self.loop.reductions if r.monoid == "or"}

    def update(
        self, s: Update, under: tuple[Expr, ...], over: tuple[Loop, ...]
    ) -> list[Stmt]:
        """What waits for the second loop, stored; there it is added."""
        dtype = next(r.dtype for r in self.loop.reductions if r.var == s.buffer)
        out: list[Stmt] = []

        def kept(name: str, dtype: DType, value: Expr) -> Load:
            table = self.table(name, dtype, over)
            out.append(Store(table.buffer, table.at, value))
            return table

        def placed(e: Size) -> Size:
            if self.own.isdisjoint(used_in(e)):
                return e
            place = Var("place")
            lets.append(Let(place, DType.I64, kept("place", DType.I64, Number(e))))
            return size(place)

        lets: list[Stmt] = []
        value = kept("value", dtype, s.value)
        added: tuple[Stmt, ...] = (
            replace(s, at=tuple(map(placed, s.at)), value=value),
        )
        added = (*lets, *added)
        if under:
            there, told = self.there(under, over)
            out += told
            added = (When(there, added, ()),)
        for around in reversed(over):
            added = (replace(around, body=added, reductions=()),)
        self.behind.add(s.buffer)
        self.second += added
        return out

    def there(
        self, under: tuple[Expr, ...], over: tuple[Loop, ...]
    ) -> tuple[Load, list[Stmt]]:
        """Whether a round has come here, and what tells that if nothing has."""
        key = (*under, *(Number(size(x.var)) for x in over))
        if key in self.asked and self.changed.isdisjoint(v for e in under for v in used(e)):
            return self.asked[key], []
        there = self.asked[key] = self.table("there", DType.BOOL, over)
        no: tuple[Stmt, ...] = (Store(there.buffer, there.at, Lit(False, DType.BOOL)),)
        for around in reversed(over):
            no = (replace(around, body=no, reductions=()),)
        self.starts += no
        return there, [Store(there.buffer, there.at, Lit(True, DType.BOOL))]

    def table(self, name: str, dtype: DType, over: tuple[Loop, ...]) -> Load:
        """An element of a new table: of this round, and of the small loops it is in."""
        shape = (*(x.high for x in over), size(self.rounds))
        table = Buffer(fresh(Var(name)), dtype, shape, Role.TEMP)
        self.tables.append(table)
        return Load(table.var, (*(size(x.var) for x in over), self.at))
