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
scatters. That pays for rounds that compute much, as those of gradients do: they become vectors. A
loop inside others whose rounds are in order only for what they add is taken apart, too: where the
largest element of every window gets what the window has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

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
from naperian.loops.walk import (
    blocks,
    expressions,
    loads,
    mentions,
    parts,
    rebuild_loops,
    statements,
    used,
    used_in,
)
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.nests.alike import is_sliding
from naperian.passes.nests.strips import hard_to_find, in_strips
from naperian.prims import PRIMITIVES
from naperian.sizes import ZERO, Clamp, Size, atom, size

_BYTES = 32 * 1024  # of all that waits, beside which the first cache has room
_ROUNDS = (256, 64)  # of a strip, as many as fit
_FEW = 16  # components, over which a loop is part of a round
_WORK = 60  # additions in a round that are worth vectors,
_LESS = 24  # if it computes also where it adds
_LITTLE = 4  # that are sooner done than asked for


def deferred(
    body: tuple[Stmt, ...], results: Mapping[Var, DType]
) -> tuple[Stmt, ...]:
    """The statements of a program, its outermost parallel loops rewritten, and loops in others
    whose rounds are in order only for what they add."""
    made = (s.buffer for s in statements(body) if isinstance(s, Allocate))
    return _outside(body, {**results, **{b.var: b.dtype for b in made}})


def _outside(body: tuple[Stmt, ...], types: Mapping[Var, DType]) -> tuple[Stmt, ...]:
    """The statements of a block that is in no loop."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Loop) and s.order is Order.PARALLEL:
            sums = {r.var: r.dtype for r in s.reductions}
            cut = _deferred(s, sums)
            s = rebuild_loops(s, partial(_within, types=types)) if cut is s else cut
        elif isinstance(s, When):
            s = rebuild_loops(s, partial(_outside, types=types))
        out.append(s)
    return tuple(out)


def _within(body: tuple[Stmt, ...], types: Mapping[Var, DType]) -> tuple[Stmt, ...]:
    """The statements of a block in a parallel loop."""
    out: list[Stmt] = []
    for s in body:
        sums = _only_added(s, types) if isinstance(s, Loop) else {}
        cut = _deferred(s, sums) if isinstance(s, Loop) and sums else s
        out.append(rebuild_loops(s, partial(_within, types=types)) if cut is s else cut)
    return tuple(out)


def _only_added(s: Loop, types: Mapping[Var, DType]) -> dict[Var, DType]:
    """The arrays that a loop in order adds to, if its rounds hand on nothing else but sums."""
    few = (s.high - s.low).constant
    if s.order is not Order.SERIAL or (few is not None and few < _FEW):
        return {}
    inner = statements(s.body)
    own = {x.var for x in inner if isinstance(x, Let | Variable)}
    own |= {x.buffer.var for x in inner if isinstance(x, Allocate)}
    own |= {r.var for r in s.reductions}
    changed = {x.var for x in inner if isinstance(x, Assign)}
    stores = [x for x in inner if isinstance(x, Store)]
    beside = _beside(s, stores)
    changed |= {x.buffer for x in stores if x.buffer not in beside}
    added = {x.buffer for x in inner if isinstance(x, Update)} - own
    read = {y.buffer for x in inner for y in loads(x)}
    if not beside.isdisjoint(added | read):
        return {}
    if not changed <= own or added & (changed | read) or not added <= types.keys():
        return {}
    return {v: types[v] for v in added}


def _beside(s: Loop, stores: list[Store]) -> set[Var]:
    """The arrays in which every round stores elements of its own: along one axis."""
    own = {x.var for x in statements(s.body) if isinstance(x, Let | Variable | Loop)}
    axes: dict[Var, set[tuple[int, Size]]] = {}
    for x in stores:
        along = [
            (k, e) for k, e in enumerate(x.at)
            if (n := e.coefficient(s.var))
            and {s.var, *own}.isdisjoint(used_in(e - size(s.var) * n))
        ]  # fmt: skip
        axes.setdefault(x.buffer, set()).add(along[0] if along else (-1, ZERO))
    return {v for v, found in axes.items() if len(found) == 1 and (-1, ZERO) not in found}


def _deferred(s: Loop, sums: Mapping[Var, DType]) -> Loop:
    inner = statements(s.body)
    made = {x.var for x in inner if isinstance(x, Let | Variable)}
    if not any(_scatters(x, made) for x in inner):
        return s
    if not is_sliding(s) and not _is_worth_it(s):
        return s
    if not all(isinstance(x, Let | Variable | When) or _reduces(x) for x in s.body
               if not _plain(x, s)):  # fmt: skip
        return s
    for rounds in _ROUNDS:
        strip = Var("strip")
        count, low, high = in_strips(s, strip, rounds)
        parted = _Parted(s, sums, size(s.var) - low, rounds)
        try:
            first = parted.block(s.body)
        except _Stays:
            return s
        if sum(constant_bytes(b) or _BYTES + 1 for b in parted.tables) <= _BYTES:
            break
    else:
        return s
    alone = tuple(r for r in s.reductions if r.var not in parted.behind)
    whole: tuple[Stmt, ...] = (
        *(Allocate(b, small=True) for b in parted.tables),
        Loop(s.var, low, high, (*parted.starts, *first), Order.FREE, alone, s.work),
        Loop(s.var, low, high, tuple(parted.second), Order.SERIAL, (), s.work),
    )
    return Loop(strip, ZERO, count, whole, s.order, s.reductions, s.work * rounds)


def _is_worth_it(s: Loop) -> bool:
    """Whether a round computes so much that it pays to store what it adds, in loops over few."""
    inner = statements(s.body)
    plain = any(_scatters(x, ()) for x in inner) and not _computes_where(s)
    if _work(s.body) < (_WORK if plain else _LESS):
        return False
    return all(_few(x) for x in inner if isinstance(x, Loop))


def _reduces(x: Stmt) -> bool:
    """Whether a statement goes through a window, of which it makes nothing but variables."""
    free = isinstance(x, Loop) and x.order is Order.FREE
    return free and all(isinstance(y, Let | Assign) for b in blocks(x) for y in b)


def _plain(x: Stmt, s: Loop) -> bool:
    """Whether a statement is one that a block of vectors may have."""
    match x:
        case Loop(var, _, _, body, order):
            few = _few(x) and order is Order.FREE
            return few and var != s.var and all(_plain(y, s) for y in body)
        case When(_, then, otherwise):
            return all(_plain(y, s) for y in (*then, *otherwise))
        case Allocate(buffer):
            return constant_bytes(buffer) is not None
        case _:
            return isinstance(x, Let | Variable | Assign | Store | Update)


def _few(s: Loop) -> bool:
    n = (s.high - s.low).constant
    return n is not None and n <= _FEW


def _scatters(s: Stmt, made: Collection[Var]) -> bool:
    """Whether data say where something is added, which a round may have a name for."""
    return isinstance(s, Update) and any(
        isinstance(a, Load | Clamp) or any(v in made for v in used_in(atom(a)))
        for e in s.at for a in e.atoms
    )


def _computes_where(s: Loop) -> bool:
    """Whether a round takes long to find the places that it adds to."""
    hard = hard_to_find(s.body)
    updates = [x for x in s.body if isinstance(x, Update)]
    return any(not hard.isdisjoint(used_in(e)) for x in updates for e in x.at)


def _work(body: tuple[Stmt, ...]) -> int:
    """What a round computes, in additions."""
    total = 0
    for s in body:
        found = (y for e in expressions(s) for y in parts(e) if isinstance(y, Apply))
        total += sum(PRIMITIVES[y.name].cost for y in found if y.name in PRIMITIVES)
        rounds = (s.high - s.low).constant if isinstance(s, Loop) else None
        total += max(rounds or 1, 1) * sum(map(_work, blocks(s)))
    return total


class _Stays(Exception):
    """A loop that is not taken apart."""


@dataclass
class _Parted:
    """The two loops over a strip of rounds, of which `at` says how far it is in it."""

    loop: Loop
    sums: Mapping[Var, DType]  # what is added to
    at: Size
    rounds: int
    tables: list[Buffer] = field(default_factory=list)
    starts: list[Stmt] = field(default_factory=list)  # what comes first in a round
    second: list[Stmt] = field(default_factory=list)
    behind: set[Var] = field(default_factory=set)  # what only the second loop changes
    asked: dict[tuple[Expr, ...], Load] = field(default_factory=dict)
    places: dict[tuple[Size, tuple[Expr, ...], tuple[Var, ...]], Load] = field(
        default_factory=dict
    )  # that are stored already
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
                case When(condition, then, ()) if not under and not over and self.is_little(then):
                    out += self.asked_behind(condition, then)
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
                case Update(buffer) if buffer in self.sums:
                    out += self.update(s, under, over)
                case Assign(var) if var in self.flags():
                    if over or under or self.own & mentions(s):
                        raise _Stays
                    self.behind.add(var)
                    self.second.append(s)
                case _:
                    out.append(s)
        return tuple(out)

    def is_little(self, body: tuple[Stmt, ...]) -> bool:
        """Whether statements only add what every round may compute, and soon has."""
        added = all(isinstance(x, Update) and x.buffer in self.sums for x in body)
        return added and _work(body) <= _LITTLE and not any(loads(x) for x in body)

    def asked_behind(self, condition: Expr, then: tuple[Stmt, ...]) -> list[Stmt]:
        """What is added under a condition: every round stores it, and whether it is added."""
        there = self.table("there", DType.BOOL, ())
        before, self.second = self.second, []
        stored = [Store(there.buffer, there.at, condition), *self.block(then)]
        self.second = [*before, When(there, tuple(self.second), ())]
        return stored

    def flags(self) -> set[Var]:
        return {r.var for r in self.loop.reductions if r.monoid == "or"}

    def update(
        self, s: Update, under: tuple[Expr, ...], over: tuple[Loop, ...]
    ) -> list[Stmt]:
        """What waits for the second loop, stored; there it is added."""
        dtype = self.sums[s.buffer]
        out: list[Stmt] = []

        def kept(name: str, dtype: DType, value: Expr) -> Load:
            table = self.table(name, dtype, over)
            out.append(Store(table.buffer, table.at, value))
            return table

        def placed(e: Size) -> Size:
            if self.own.isdisjoint(used_in(e)):
                return e
            place, key = Var("place"), (e, under, tuple(x.var for x in over))
            there = self.places.get(key) or kept("place", DType.I64, Number(e))
            if self.changed.isdisjoint((*used_in(e), *(v for c in under for v in used(c)))):
                self.places[key] = there
            lets.append(Let(place, DType.I64, there))
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
