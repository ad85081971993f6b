"""What windows reduce is reduced once for many of them. loops → loops

    before   parallel for i in 0..n:
                 var a = 0.0
                 free for j in 0..k reducing add a: a := a + x[i + j]
                 store y[i] = a / k

    after    for every 1024 rows, `count` of them from `first` on:
                 free for p in 0..count + k - 1: store t[0, p] = x[first + p]
                 …                                                      (see `pieces`)
                 free for i in 0..count: store y[first + i] = (sums[i] + t[0, i + k % w]) / k

A window is put together from pieces that are pieces of other windows as well: log k steps in place
of k. The law: what is reduced depends on `i + j` alone, or on `i - j`, but for a few places from
which on it is something else, as at an edge (`fusion.split`); and the operation is associative and
commutative. For sums of floats it is another order, which is the window's own: it depends neither
on threads nor on where the window lies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Expr,
    Let,
    Local,
    Loop,
    Number,
    Order,
    Program,
    Reduction,
    Stmt,
    Update,
    Variable,
    When,
)
from naperian.loops.walk import rebuild_loops, remade, statements, used, used_in, writes
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.nests.pieces import Pieces, compare
from naperian.prims import Math
from naperian.sizes import ZERO, Atom, Clamp, Size, atom, clamp, end, size

_WIDE = 16  # elements of a window from which on it pays for each of its sums,
_CUT = 3  # if an edge is not in the way of vectors,
_MANY = 64  # and there are so many windows
_ROWS = 1024  # windows at a time: what belongs to them stays in the nearest cache
_WORK = 16  # additions for each of them


def windows(program: Program) -> Program:
    """See the module."""
    exact = program.math is Math.STRICT

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            made = _in_pieces(s, exact) if isinstance(s, Loop) else None
            out += (rebuild_loops(s, block),) if made is None else made
        return tuple(out)

    return replace(program, body=block(program.body))


def _in_pieces(s: Loop, exact: bool) -> tuple[Stmt, ...] | None:
    """A loop whose windows are put together from pieces where they are wide and many, if it has
    any."""
    if s.order is Order.SERIAL or s.low != ZERO or _is_less(s.high, _MANY):
        return None
    if any(isinstance(x, Update) for x in statements(s.body)):
        return None
    found = [w for w in _windows(s) if w.moves(s) and not (exact and w.is_float)]
    if not found or any(w.wide != found[0].wide for w in found):
        return None
    wide = found[0].wide
    made = tuple(_strips(s, found, wide))
    least = max(w.least for w in found)
    if wide.constant is not None:
        return made if wide.constant >= least else None
    long, many = compare("ge", wide, size(least)), compare("ge", s.high, size(_MANY))
    return (When(Apply("and", (long, many), DType.BOOL, DType.BOOL), made, (s,)),)


# ---------------------------------------------------------------- what a window is


@dataclass
class _Window:
    """Loops that go through a window one after the other, to `ends`, at which what they read
    changes. What they read at `j` in the window `i` has the place `i + j`, or if they go `back`,
    `i + wide - 1 - j`."""

    loops: list[Loop]
    ends: list[Size]  # without what is clamped, of all loops but the last
    back: bool = False

    @property
    def wide(self) -> Size:
        return self.loops[-1].high

    @property
    def least(self) -> int:
        """The width from which on pieces are faster. Sums share what they read, and maxima do not
        gain much by that."""
        monoids = {r.monoid for r in self.loops[0].reductions}
        sums = len(self.loops[0].reductions) if monoids == {"add"} else 1
        return _CUT if self.ends else _WIDE * sums

    @property
    def is_float(self) -> bool:
        return any(r.dtype.is_float for r in self.loops[0].reductions)

    def moves(self, s: Loop) -> bool:
        """Whether it moves along with the loop `s`, and nothing else in there changes it."""
        changing = _changing(s)
        read = {v for x in self.loops for v in _read(x)} | {*used_in(self.wide)}
        if s.var not in read or not read.isdisjoint(changing) or s.var in used_in(self.wide):
            return False
        if self.places(s, 1, changing):
            return True
        self.back = True
        return len(self.loops) < 3 and self.places(s, -1, changing)

    def places(self, s: Loop, by: int, changing: set[Var]) -> bool:
        """Whether the next window has the same elements, `by` places before."""
        for e in self.ends:
            at = {*used_in(e + size(s.var) * by)}
            if s.var in at or not at.isdisjoint(changing):
                return False
        for x in self.loops:
            after: dict[Atom, Size] = {s.var: size(s.var) + 1, x.var: size(x.var) - by}
            if remade(x.body, after.get) != x.body:
                return False
        return True

    def filled(
        self, s: Loop, of: Mapping[Var, Pieces], first: Size, count: Size
    ) -> Iterator[Stmt]:
        """What is reduced, from the place `first` on, in tables."""
        start = self.wide - 1 if self.back else ZERO
        loops, ends = self.loops, [e + s.var for e in self.ends]
        if self.back:
            loops, ends = loops[::-1], [self.wide - e + s.var for e in self.ends]
        low = ZERO
        for k, x in enumerate(loops):
            p, cut = Var("p"), Var("cut")
            high = count
            if k < len(ends):
                yield Let(cut, DType.I64, Number(end(ends[k] - first, low, count)))
                high = size(cut)
            here: dict[Atom, Size] = {s.var: first + p, x.var: start}
            body: list[Stmt] = []
            for t in remade(x.body, here.get):
                match t:
                    case Assign(v, Apply(_, (_, value))):
                        body += of[v].begun(v, p, value)
                    case _:
                        body.append(t)
            yield Loop(p, low, high, tuple(body), Order.FREE)
            low = high


def _windows(s: Loop) -> Iterator[_Window]:
    """Runs of loops that reduce the same, each from the end of the one before."""
    bound = {x.var: x.value for x in s.body if isinstance(x, Let)}
    now: _Window | None = None
    for x in s.body:
        if isinstance(x, Let):
            continue
        if not isinstance(x, Loop) or not _reduces(x):
            now = None
            continue
        if x.low == ZERO:
            now = _Window([x], [])
        elif now and x.low == now.wide and x.reductions == now.loops[0].reductions:
            now.loops.append(x)
        else:
            now = None
        if now is not None:
            cut = _cut(now, bound)
            if cut is None:
                yield now
                now = None
            else:
                now.ends.append(cut)


def _cut(w: _Window, bound: Mapping[Var, Expr]) -> Size | None:
    """Where the last loop so far ends, if that is a cut (`fusion.split.end`)."""
    last = w.loops[-1]
    match bound.get(v) if isinstance(v := last.high.single, Var) else None:
        case Number(value):
            at = next((a for a in (value - last.low).atoms if isinstance(a, Clamp)), None)
            if at is not None and value == last.low + atom(at):
                return at.value + last.low
        case _:
            pass
    return None


def _reduces(x: Loop) -> bool:
    """Whether all that a loop does is to reduce."""
    of = {r.var: r.monoid for r in x.reductions}
    steps = [t for t in x.body if isinstance(t, Assign)]
    plain = all(_value(t, of) is not None for t in x.body)
    return x.order is Order.FREE and plain and 0 < len(steps) == len(of)


def _read(x: Loop) -> set[Var]:
    """What a loop that reduces mentions, but for what it binds."""
    of = {r.var: r.monoid for r in x.reductions}
    values = (v for t in x.body if (v := _value(t, of)) is not None)
    return {v for e in values for v in used(e)} - {t.var for t in x.body if isinstance(t, Let)}


def _value(t: Stmt, of: Mapping[Var, str]) -> Expr | None:
    """What a statement of a window evaluates, but for the sum so far."""
    match t:
        case Let(_, _, value):
            return value
        case Assign(v, Apply(name, (Local(old), value))) if v == old and of.get(v) == name:
            return value
        case _:
            return None


def _changing(s: Loop) -> set[Var]:
    """What is not the same in all rounds of a loop, but for its variable."""
    out: set[Var] = set()
    for t in statements(s.body):
        match t:
            case Let(v) | Variable(v) | Assign(v):
                out.add(v)
            case Allocate(buffer):
                out.add(buffer.var)
            case _:
                to = writes(t)
                out.update(() if to is None else (to,))
    return out


def _strips(s: Loop, found: Sequence[_Window], wide: Size) -> Iterator[Stmt]:
    """The loop, so many rounds at a time."""
    strip, many, row = Var("strip"), Var("count"), fresh(s.var)
    if wide.constant is None:
        most, least = Var("rows"), Lit(_ROWS, DType.I64)
        yield Let(most, DType.I64, Apply("max", (Number(wide), least), DType.I64, DType.I64))
        rows = size(most)
    else:
        rows = size(max(wide.constant, _ROWS))
    first, count = size(strip) * rows, size(many)
    tables: list[Stmt] = []
    body: list[Stmt] = [Let(many, DType.I64, Number(clamp(s.high - first, rows + 1)))]
    sums: dict[Stmt, list[Stmt]] = {}
    kinds: dict[tuple[str, DType], list[Reduction]] = {}
    for r in (r for w in found for r in w.loops[0].reductions):
        kinds.setdefault((r.monoid, r.dtype), []).append(r)
    pieces = [Pieces(of, wide, count) for of in kinds.values()]
    of = {r.var: p for p in pieces for r in p.reductions}
    for w in found:
        body += w.filled(s, of, first, count + wide - 1)
        sums.update((x, []) for x in w.loops)
    for p in pieces:
        tables += p.tables(rows)
        body += p.steps()
    taken = {x.var: x for p in pieces for x in p.taken(row)}
    for w in found:
        sums[w.loops[0]] = [taken[r.var] for r in w.loops[0].reductions]
    here: dict[Atom, Size] = {s.var: first + row}
    rest = [y for x in s.body for y in sums.get(x, [x])]
    inner = replace(s, var=row, high=count, body=remade(rest, here.get), order=Order.FREE)
    body.append(inner)
    strips = (s.high + rows - 1) // rows
    threads = s.order is Order.PARALLEL
    if not threads:
        yield from tables
    order = Order.PARALLEL if threads else Order.SERIAL
    whole = (*tables, *body) if threads else tuple(body)
    yield Loop(strip, ZERO, strips, whole, order, s.reductions, rows * _WORK)


def _is_less(n: Size, least: int) -> bool:
    return n.constant is not None and n.constant < least
