"""The best of a few and its place, in a loop, are found at once. loops → loops

    before   for t in 0..m:                              after   for t in 0..m:
                 var top = inf                                       var top = inf
                 var first = 9223372036854775807                     var first = 9223372036854775807
                 for i in 0..n reducing min top: …                   if n < 16:
                 for i in 0..n reducing min first:                       var best = inf
                     first := min(first,                                 var place = 0
                         i if v[i] == top                                var total = 0.0
                         or isnan(v[i]) else n)                          for i in 0..n: …
                                                                         top := best
                                                                         first := place
                                                                     else: …              as before

where a round of the loop, of which total is no number if any value is none, is

    place := i if v[i] < best else place
    best := v[i] if v[i] < best else best
    total := total + v[i]

and if total is none, it is gone through once more, with an eye to NaN, which is the best; there may
be none, for infinities of both signs come to the same total. Vectors look for the best, then for
its place, and wait for what the round before has stored there: which of a few servers is free
first, the next of a few events. So few are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from naperian.dtypes import DType
from naperian.loops.syntax import (
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
    When,
    While,
)
from naperian.loops.walk import parts, rebuild_loops, remade
from naperian.names import Lit, Var, fresh
from naperian.node import node, replace
from naperian.prims import unit
from naperian.sizes import ZERO, Atom, Size, size

_FEW = 16
_QUICK = frozenset(("add", "sub", "mul", "neg", "abs", "min", "max", "select", "cast", "not", "and",
                    "or", "eq", "ne", "lt", "le", "gt", "ge", "isnan"))  # fmt: skip


def best_of_few(body: tuple[Stmt, ...], sizes: Collection[Var]) -> tuple[Stmt, ...]:
    """The statements of a program, whose `sizes` nobody knows; see the module."""

    def block(body: tuple[Stmt, ...], inside: bool) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        rest = list(body)
        while rest:
            s = rest.pop(0)
            pair = _pair(s, rest, sizes) if inside else None
            if pair is None:
                within = inside or isinstance(s, Loop | While)
                out.append(rebuild_loops(s, lambda b, w=within: block(b, w)))  # type: ignore[misc]
                continue
            n = Number(pair.many[0].high)
            few = Apply("lt", (n, Lit(_FEW, DType.I64)), DType.BOOL, DType.I64)
            out.append(When(few, pair.few(), pair.many))
            del rest[0]
        return tuple(out)

    return block(body, inside=False)


def is_quick(e: Expr) -> bool:
    """Whether a value is had sooner one by one than from what vectors wait for."""
    return all(not isinstance(p, Apply) or p.name in _QUICK for p in parts(e))


@node
class _Pair:
    """Two loops: of which `top` is the best value, and `first` its first place."""

    many: tuple[Loop, Loop]
    monoid: str
    dtype: DType
    value: Expr
    top: Var
    first: Var

    def few(self) -> tuple[Stmt, ...]:
        i, best, place = fresh(self.many[0].var), Var("best"), Var("place")
        here: dict[Atom, Size] = {self.many[0].var: size(i)}
        (value,) = remade((Let(Var("value"), self.dtype, self.value),), here.get)
        assert isinstance(value, Let)
        found = search(self.monoid, value, (i, self.many[0].high), best, place)
        return (*found, Assign(self.top, Local(best)), Assign(self.first, Local(place)))


def _pair(s: Stmt, rest: Sequence[Stmt], sizes: Collection[Var]) -> _Pair | None:
    """Two loops that belong together."""
    if not rest or not isinstance(s, Loop) or s.low != ZERO or s.high.single not in sizes:
        return None
    after = rest[0]
    if not isinstance(after, Loop) or (after.low, after.high) != (s.low, s.high):
        return None
    if len(s.reductions) != 1 or len(after.reductions) != 1 or len(s.body) != 1:
        return None
    best, place = s.reductions[0], after.reductions[0]
    if best.monoid not in ("min", "max") or place.monoid != "min":
        return None
    match s.body[0], after.body[-1]:
        case (
            Assign(top, Apply(name, (Local(old), value))),
            Assign(first, Apply("min", (Local(older), taken))),
        ) if (top, first, name) == (old, older, best.monoid) and (top, first) == (
            best.var, place.var,
        ):  # fmt: skip
            pass
        case _:
            return None
    lets = {x.var: x.value for x in after.body[:-1] if isinstance(x, Let)}
    if len(lets) != len(after.body) - 1 or len(lets) > 1 or not is_quick(value):
        return None
    there = asked(taken, Number(size(after.var)), Number(after.high), Local(top), best.dtype)
    if there is None:
        return None
    there = lets.get(there.var, there) if isinstance(there, Local) else there
    here: dict[Atom, Size] = {after.var: size(s.var)}
    (same,) = remade((Let(top, best.dtype, there),), here.get)
    if not isinstance(same, Let) or same.value != value:
        return None
    return _Pair((s, after), best.monoid, best.dtype, value, top, first)


def asked(taken: Expr, here: Expr, none: Expr, top: Expr, dtype: DType) -> Expr | None:
    """The value that is compared, if a place is taken where it is the best, or no number."""
    match taken:
        case Apply("select", (Apply("or", (Apply("eq", (x, y)), Apply("isnan", (z,)))), k, n)) if (
            (x, y, k, n) == (z, top, here, none)
        ):
            return x
        case Apply("select", (Apply("eq", (x, y)), k, n)) if (
            not dtype.is_float and (y, k, n) == (top, here, none)
        ):
            return x
        case _:
            return None


def search(
    monoid: str, value: Let, rows: tuple[Var, Size], best: Var, place: Var
) -> tuple[Stmt, ...]:
    """The statements that find the best value and its first place, the first of the rows' if there
    is none."""
    (row, count), dtype, take = rows, value.dtype, Var("better")
    x, top, total = Local(value.var), Local(best), Var("total")

    def test(name: str, *args: Expr, of: DType = dtype) -> Expr:
        return Apply(name, args, DType.BOOL, of)

    def chosen(new: Expr, old: Var, t: DType) -> Assign:
        return Assign(old, Apply("select", (Local(take), new, Local(old)), t, t))

    def loop(better: Expr, *more: Stmt) -> Loop:
        return Loop(row, ZERO, count, (
            value, Let(take, DType.BOOL, better),
            chosen(Number(size(row)), place, DType.I64), chosen(x, best, dtype), *more,
        ), Order.SERIAL)  # fmt: skip

    worst, none = Lit(unit(monoid, dtype), dtype), Lit(0, DType.I64)
    begun = Variable(best, dtype, worst), Variable(place, DType.I64, none)
    ahead = test("gt" if monoid == "max" else "lt", x, top)
    if not dtype.is_float:
        return (*begun, loop(ahead))
    added = Assign(total, Apply("add", (Local(total), x), dtype, dtype))
    worse = test("le" if monoid == "max" else "ge", x, top)
    either = test("and", test("not", worse, of=DType.BOOL), test("eq", top, top), of=DType.BOOL)
    again = Assign(best, worst), Assign(place, none), loop(either)
    odd = test("ne", Local(total), Local(total))
    start = Variable(total, dtype, Lit(0.0, dtype))
    return (*begun, start, loop(ahead, added), When(odd, again))


def with_value(e: Expr, lets: dict[Var, Expr]) -> Expr:
    """An expression without names of what is bound beside it."""
    match e:
        case Local(v) if v in lets:
            return with_value(lets[v], lets)
        case Apply(_, args):
            return replace(e, args=tuple(with_value(x, lets) for x in args))
        case _:
            return e
