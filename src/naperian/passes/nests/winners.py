"""The best of each window, and where it is, are found in pieces for many windows. loops → loops

    before   parallel for i in 0..n reducing add out:
                 var v = -inf
                 free for j in 0..k reducing max v: v := max(v, x[i + j])
                 worse = the number before v
                 free for j in 0..k reducing min first:
                     first := min(first, k if x[i + j] <= worse else j)
                 update out[i + first] += …

    after    parallel for every 1024 windows:           (see `pieces`)
                 … store best[i] = …, store place[i] = …
             parallel for i in 0..n reducing add out:
                 v := best[i]
                 first := place[i]
                 update out[i + first] += …

That is what the derivative of a maximum over windows looks for, and an `argmax` over them
(`fusion/best.py`). Of two pieces beside each other the first best is that of the one before, unless
the other has a better one, or NaN where that has none: log k steps in place of k, as for the best
value alone (`windows`). A loop that adds where the best was is no loop of vectors; it goes behind.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as changed

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Part,
    Reduction,
    Role,
    Stmt,
    Store,
)
from naperian.loops.walk import mentions, rebuild_loops, remade, statements
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.nests.pieces import Pieces
from naperian.passes.nests.sliding import Window, combined, runs
from naperian.passes.nests.windows import if_wide, in_strips
from naperian.sizes import ZERO, Atom, Size, size

_WIDE = 16  # elements of a window from which on it pays
_WORK = 16  # additions for each of them, where its best is known
_BETTER = {"max": "le", "min": "ge"}


def winners(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """See the module."""
    out: list[Stmt] = []
    for s in body:
        made = _in_pieces(s) if isinstance(s, Loop) else None
        out += (rebuild_loops(s, winners),) if made is None else made
    return tuple(out)


@dataclass(frozen=True)
class _Search:
    """A window, the loops that look for its best, and of each place that these find the best value
    that is there."""

    window: Window
    loops: list[Loop]
    of: dict[Var, Reduction]


def _in_pieces(s: Loop) -> tuple[Stmt, ...] | None:
    """A loop with windows whose best is looked for, once for all of these, if it has any."""
    if s.low != ZERO or s.order is Order.LANES:
        return None
    found = _searches(s)
    if not found:
        return None
    wide = found[0].window.wide
    found = [x for x in found if x.window.wide == wide]
    return if_wide(s, wide, _WIDE, tuple(_apart(s, found, wide)))


def _apart(s: Loop, found: list[_Search], wide: Size) -> Iterator[Stmt]:
    """First the best of each window, then the loop without those that found it."""
    kept: dict[Var, Load] = {}
    for x in found:
        for place, best in x.of.items():
            for v, dtype in ((best.var, best.dtype), (place, DType.I64)):
                if v not in kept:
                    table = Buffer(fresh(v), dtype, (s.high,), Role.TEMP)
                    yield Allocate(table)
                    kept[v] = Load(table.var, (size(s.var),))

    def made(first: Size, count: Size) -> tuple[list[Winners], list[Stmt]]:
        pieces: list[Winners] = []
        row = fresh(s.var)
        here: dict[Atom, Size] = {s.var: first + row}
        body: list[Stmt] = []
        taken: list[Stmt] = []
        for x in found:
            own = {
                r.var: Winners([r], wide, count, back=x.window.back) for r in x.of.values()
            }
            others = {r.var for r in x.window.loops[0].reductions} - own.keys()
            loops = [_without(y, others) for y in x.window.loops]
            body += changed(x.window, loops=loops).filled(s, own, first, count + wide - 1)
            for best, p in own.items():
                places = [kept[v] for v, r in x.of.items() if r.var == best]
                taken += p.put(row, kept[best], places)
            pieces += own.values()
        for p in pieces:
            body += p.steps()
        body.append(Loop(row, ZERO, count, remade(taken, here.get), Order.FREE))
        return pieces, body

    yield from in_strips(s, wide, (), made)
    rest = _rest(s, found, {v: Assign(v, e) for v, e in kept.items()})
    light = not any(isinstance(x, Loop) for x in statements(rest))
    yield replace(s, body=rest, work=size(_WORK) if light else s.work)


def _rest(s: Loop, found: list[_Search], known: Mapping[Var, Assign]) -> tuple[Stmt, ...]:
    """What a round is where what its loops found is known; without what only these asked for."""
    gone = {id(y) for x in found for y in (*x.window.loops, *x.loops)}
    out: list[Stmt] = []
    for t in s.body:
        if id(t) in gone and isinstance(t, Loop):
            if t.low == ZERO:
                out += [known[r.var] for r in t.reductions if r.var in known]
            t = _without(t, known.keys())
            if not t.body:
                continue
        out.append(t)
    asked: set[Var] = set()
    for t in reversed(out):
        if not isinstance(t, Let) or t.var in asked:
            asked |= mentions(t)
    return tuple(t for t in out if not isinstance(t, Let) or t.var in asked)


def _without(x: Loop, gone: Collection[Var]) -> Loop:
    """A loop that reduces, without some of its reductions."""
    left = tuple(r for r in x.reductions if r.var not in gone)
    body = tuple(t for t in x.body if not (isinstance(t, Assign) and t.var in gone))
    return replace(x, body=body if left else (), reductions=left)


@dataclass
class Winners(Pieces):
    """Pieces with the place of the best of each: the first one, or where windows go `back` the
    last."""

    back: bool = False
    place: Var = field(default_factory=lambda: Var("places"))
    place_so_far: Var = field(default_factory=lambda: Var("place_so_far"))

    def begun(self, v: Var, p: Var, value: Expr) -> Iterator[Store]:
        yield from super().begun(v, p, value)
        yield Store(self.place, (ZERO, size(p)), Number(size(p)))
        yield Store(self.place_so_far, (size(p),), Number(size(p)))

    def tables(self, rows: Size) -> Iterator[Allocate]:
        for t, v in zip(super().tables(rows), (self.place, self.place_so_far), strict=True):
            yield t
            yield Allocate(replace(t.buffer, var=v, dtype=DType.I64))

    def joined(self, to: Part, left: Part, right: Part) -> tuple[Stmt, ...]:
        lets, best, place = self.better(left, right)
        return (*lets, Store(*to, best), Store(self.places[to[0]], to[1], place))

    @property
    def places(self) -> dict[Var, Var]:
        """The table of places beside each table of values."""
        return {self.table: self.place, self.so_far: self.place_so_far}

    def better(self, left: Part, right: Part) -> tuple[tuple[Stmt, ...], Expr, Expr]:
        """The better of two parts and its place, by what is bound before."""
        one, other = Var("left"), Var("right")
        lets = (Let(one, self.dtype, Load(*left)), Let(other, self.dtype, Load(*right)))
        first, last = (Local(other), Local(one)) if self.back else (Local(one), Local(other))
        name = _BETTER[self.reductions[0].monoid]
        stays: Expr = Apply(name, (last, first), DType.BOOL, self.dtype)
        if self.dtype.is_float:
            odd = Apply("isnan", (first,), DType.BOOL, self.dtype)
            stays = Apply("or", (stays, odd), DType.BOOL, DType.BOOL)
        places: tuple[Expr, ...] = tuple(Load(self.places[v], at) for v, at in (left, right))
        places = places[::-1] if self.back else places
        place = Apply("select", (stays, *places), DType.I64, DType.I64)
        return lets, self.both(Local(one), Local(other)), place

    def put(self, row: Var, best: Load, places: list[Load]) -> Iterator[Stmt]:
        """The best of a window and how far in it that is, stored."""
        i = size(row)
        last = (self.table, (size(self.last), i + self.rest))
        lets, value, place = self.better((self.so_far, (i,)), last)
        at = Var("at")
        yield from lets
        yield Store(best.buffer, best.at, value)
        yield Let(at, DType.I64, place)
        way = i + self.wide - 1 - size(at) if self.back else size(at) - i
        for p in places:
            yield Store(p.buffer, p.at, Number(way))


# ---------------------------------------------------------------- what is looked for


def _searches(s: Loop) -> list[_Search]:
    """The windows that move along with a loop, with those behind them that look for their best."""
    bound = {x.var: x for x in s.body if isinstance(x, Let)}
    before: list[Window] = []
    out: list[_Search] = []
    for w in runs(s):
        for own in before:
            of = _found(own, w, bound)
            if of and own.moves(s):
                out.append(_Search(own, w.loops, of))
                break
        else:
            before.append(w)
    return out


def _found(own: Window, other: Window, bound: Mapping[Var, Let]) -> dict[Var, Reduction]:
    """Of which of a window's values loops behind look for the place."""
    if len(own.loops) != len(other.loops):
        return {}
    names: dict[Atom, Size] = {}  # of the other's ends
    out: dict[Var, Reduction] | None = None
    for x, y in zip(own.loops, other.loops, strict=True):
        y = replace(y, low=_renamed(y.low, names))
        here = names | {y.var: size(x.var)}
        if x.low != y.low or not _is_end(x.high, y.high, names, bound):
            return {}
        found = _places(own, x, replace(y, body=remade(y.body, here.get)), bound)
        if out is not None and found != out:
            return {}
        out = found
    return out or {}


def _is_end(a: Size, b: Size, names: dict[Atom, Size], bound: Mapping[Var, Let]) -> bool:
    """Whether two loops end at the same place, if under different names."""
    if a == b:
        return True
    v, w = a.single, b.single
    if not (isinstance(v, Var) and isinstance(w, Var) and v in bound and w in bound):
        return False
    one, other = bound[v].value, bound[w].value
    if not (isinstance(one, Number) and isinstance(other, Number)):
        return False
    names[w] = a
    return one.value == _renamed(other.value, names)


def _renamed(s: Size, names: Mapping[Atom, Size]) -> Size:
    (made,) = remade((Assign(Var("renamed"), Number(s)),), names.get)
    assert isinstance(made, Assign)
    assert isinstance(made.value, Number)
    return made.value.value


def _places(own: Window, x: Loop, y: Loop, bound: Mapping[Var, Let]) -> dict[Var, Reduction]:
    """Of which values that `x` reduces the loop `y`, over the same variable, finds the place."""
    of = {r.var: r for r in x.reductions if r.monoid in _BETTER}
    values = {v: e for v, e in _values(x).items() if v in of}
    out: dict[Var, Reduction] = {}
    for r in y.reductions:
        e = _values(y).get(r.var) if r.monoid == "min" and r.dtype is DType.I64 else None
        for v, value in values.items():
            if e is not None and _looks_for(e, of[v], value, size(x.var), own.wide, bound):
                out[r.var] = of[v]
    return out


def _values(x: Loop) -> dict[Var, Expr]:
    """What each reduction of a loop takes, written out."""
    of = {r.var: r.monoid for r in x.reductions}
    lets: dict[Var, Expr] = {}
    out: dict[Var, Expr] = {}
    for t in x.body:
        e = combined(t, of)
        match t:
            case Let(v) if e is not None:
                lets[v] = _written_out(e, lets)
            case Assign(v) if e is not None:
                out[v] = _written_out(e, lets)
            case _:
                pass
    return out


def _written_out(e: Expr, lets: Mapping[Var, Expr]) -> Expr:
    match e:
        case Local(v):
            return lets.get(v, e)
        case Apply(args=args):
            return replace(e, args=tuple(_written_out(a, lets) for a in args))
        case _:
            return e


def _looks_for(
    e: Expr, best: Reduction, value: Expr, j: Size, wide: Size, bound: Mapping[Var, Let]
) -> bool:
    """Whether the least of `e` is the first place where a value is the best one (`fusion/best`)."""
    top = Local(best.var)
    match e:
        case Apply("select", (Apply(name, (other, Local(v))), none, place)) if (
            name == _BETTER[best.monoid] and best.dtype.is_float and v in bound
        ):
            same = bound[v].value == _worse(top, best)
        case Apply("select", (Apply("or", (hit, odd)), place, none)):
            other = value
            same = hit == Apply("eq", (value, top), DType.BOOL, best.dtype)
            same = same and odd == Apply("isnan", (value,), DType.BOOL, best.dtype)
        case Apply("select", (Apply("eq", (other, right)), place, none)):
            same = right == top and not best.dtype.is_float
        case _:
            return False
    return same and other == value and _is(place, j) and _is(none, wide)


def _is(e: Expr, n: Size) -> bool:
    return e == Number(n) or (isinstance(e, Lit) and n.constant == e.value)


def _worse(top: Local, best: Reduction) -> Expr:
    """The best of the numbers that are worse than one, as `fusion/best` has it."""
    dtype = best.dtype
    bits = DType.I64 if dtype is DType.F64 else DType.I32
    zero, most = Lit(0.0, dtype), best.monoid == "max"
    signed = Apply("sub" if most else "add", (zero, top), dtype, dtype)
    signed = Apply("neg", (signed,), dtype, dtype) if most else signed
    above = Apply("gt" if most else "lt", (top, zero), DType.BOOL, dtype)
    step = Apply("select", (above, Lit(-1, bits), Lit(1, bits)), bits, bits)
    here = Apply("bitcast", (signed,), bits, dtype)
    worse = Apply("bitcast", (Apply("add", (here, step), bits, bits),), dtype, bits)
    odd = Apply("isnan", (top,), DType.BOOL, dtype)
    end = Lit(math.inf if most else -math.inf, dtype)
    return Apply("select", (odd, end, worse), dtype, dtype)
