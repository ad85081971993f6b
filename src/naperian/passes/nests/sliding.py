"""What a window is: loops that reduce what lies beside each other, whose place moves along with a
loop around them.

    parallel for i in 0..n:
        var a = 0.0
        free for j in 0..k reducing add a: a := a + x[i + j]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    Stmt,
    Variable,
)
from naperian.loops.walk import remade, statements, used, used_in, writes
from naperian.names import Var
from naperian.passes.nests.pieces import Pieces
from naperian.sizes import ZERO, Atom, Clamp, Size, atom, end, size

_WIDE = 16  # elements of a window from which on it pays for each of its sums,
_CUT = 3  # if an edge is not in the way of vectors


@dataclass
class Window:
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
        others = changing(s)
        read = {v for x in self.loops for v in _read(x)} | {*used_in(self.wide)}
        if s.var not in read or not read.isdisjoint(others) or s.var in used_in(self.wide):
            return False
        if self.places(s, 1, others):
            return True
        self.back = True
        return len(self.loops) < 3 and self.places(s, -1, others)

    def places(self, s: Loop, by: int, others: set[Var]) -> bool:
        """Whether the next window has the same elements, `by` places before."""
        for e in self.ends:
            at = {*used_in(e + size(s.var) * by)}
            if s.var in at or not at.isdisjoint(others):
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


def runs(s: Loop) -> Iterator[Window]:
    """Runs of loops that reduce the same, each from the end of the one before."""
    bound = {x.var: x.value for x in s.body if isinstance(x, Let)}
    now: Window | None = None
    for x in s.body:
        if isinstance(x, Let):
            continue
        if not isinstance(x, Loop) or not _reduces(x):
            now = None
            continue
        if x.low == ZERO:
            now = Window([x], [])
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


def _cut(w: Window, bound: Mapping[Var, Expr]) -> Size | None:
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
    plain = all(combined(t, of) is not None for t in x.body)
    return x.order is Order.FREE and plain and 0 < len(steps) == len(of)


def _read(x: Loop) -> set[Var]:
    """What a loop that reduces mentions, but for what it binds."""
    of = {r.var: r.monoid for r in x.reductions}
    values = (v for t in x.body if (v := combined(t, of)) is not None)
    return {v for e in values for v in used(e)} - {t.var for t in x.body if isinstance(t, Let)}


def combined(t: Stmt, of: Mapping[Var, str]) -> Expr | None:
    """What a statement of a window evaluates, but for the sum so far."""
    match t:
        case Let(_, _, value):
            return value
        case Assign(v, Apply(name, (Local(old), value))) if v == old and of.get(v) == name:
            return value
        case _:
            return None


def changing(s: Loop) -> set[Var]:
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
