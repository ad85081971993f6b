"""Sums of what earlier rounds made are begun for eight rounds at once. loops → loops

    for j in 0..n:
        var v = 0.0
        for k in 0..j: v := v + l[j, k] * x[k]
        store x[j] = (b[j] - v) / l[j, j]

    for strip in 0..(n + 7) // 8:
        row = clamp(8 strip, n); … row_8 = clamp(8 strip + 7, n)
        var w = 0.0; … var w_8 = 0.0
        for k in 0..8 strip: w := w + l[row, k] * x[k]; … w_8 := w_8 + l[row_8, k] * x[k]
        store begun[0] = w; … store begun[7] = w_8
        for j in 8 strip..min(8 strip + 8, n):
            var v = begun[j - 8 strip]
            for k in 8 strip..j: v := v + l[j, k] * x[k]
            store x[j] = (b[j] - v) / l[j, j]

A round waited until all lanes of its sum were added up, of which one is what the round before has
just stored. Now it waits for seven products at most, and of that one for the last; and what all
eight sums read is loaded once. So go substitution, and decompositions row by row.
"""

from __future__ import annotations

from collections.abc import Iterator

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Print,
    Reduction,
    Role,
    Stmt,
    Store,
    Variable,
    While,
)
from naperian.loops.walk import loads, mentions, rebuild_loops, remade, statements, writes
from naperian.names import Lit, Var, fresh
from naperian.node import node, replace
from naperian.sizes import ZERO, Atom, Size, clamp, size

_STRIP = 8


def begun_sums(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    out: list[Stmt] = []
    for s in body:
        s = rebuild_loops(s, begun_sums)
        found = _found(s) if isinstance(s, Loop) else None
        out.append(s if found is None or not isinstance(s, Loop) else _in_strips(s, found))
    return tuple(out)


@node
class _Sum:
    """A sum in the rounds of a loop: which statement makes it, and how far beyond a strip's first
    round it needs nothing that the strip makes."""

    place: int
    loop: Loop
    beyond: int


def _found(s: Loop) -> _Sum | None:
    """The sum of a loop in order that goes over what its earlier rounds have made."""
    if s.order is not Order.SERIAL or s.reductions or s.low != ZERO:
        return None
    trips = s.high.constant
    if trips is not None and trips <= 2 * _STRIP:
        return None
    sums = [(k, x) for k, x in enumerate(s.body) if isinstance(x, Loop) and _is_sum(s, x)]
    if len(sums) != 1 or any(isinstance(x, Fail | Print | While) for x in statements(s.body)):
        return None
    ((place, x),) = sums
    far = (x.high - size(s.var)).constant
    near = _made(s, x)
    if far is None or near is None or not 0 <= near <= far or far - near > 1:
        return None
    return _Sum(place, x, near)


def _is_sum(s: Loop, x: Loop) -> bool:
    """Whether a loop adds up numbers of its own in any order, as far as the round has come."""
    match x:
        case Loop(low=low, reductions=(Reduction(v, "add", dtype),), body=(*lets, last)):
            pass
        case _:
            return False
    if low != ZERO or x.order is Order.SERIAL or not dtype.is_float:
        return False
    if not all(isinstance(y, Let) for y in lets):
        return False
    match last:
        case Assign(to, Apply("add", (Local(of), _))) if to == v == of:
            pass
        case _:
            return False
    if not any(isinstance(y, Variable) and y.var == v for y in s.body):
        return False
    made = set(_names(s.body)) - {v, x.var, *_names(x.body)}
    if not made.isdisjoint(mentions(x)):
        return False
    return any(s.var in mentions(y) for y in x.body)  # the same for all rounds is no eight sums


def _names(body: tuple[Stmt, ...]) -> Iterator[Var]:
    """What statements name, assign to or allocate."""
    for y in statements(body):
        match y:
            case Let() | Variable() | Assign() | Loop():
                yield y.var
            case Allocate():
                yield y.buffer.var
            case _:
                pass


def _made(s: Loop, x: Loop) -> int | None:
    """From which distance to the round on the sum needs what the strip's earlier rounds store;
    None if that is not told by one axis, or nothing is."""
    stores: dict[Var, list[tuple[Size, ...]]] = {}
    for y in statements(s.body):
        if (v := writes(y)) is not None:
            stores.setdefault(v, []).append(y.at if isinstance(y, Store) else ())
    near: list[int] = []
    for e in (e for y in x.body for e in loads(y) if e.buffer in stores):
        found = [_apart(s.var, x.var, at, e.at) for at in stores[e.buffer]]
        here = [d for d in found if d is not None]
        if len(here) < len(found):
            return None
        near += here
    return min(near, default=None)


def _apart(j: Var, k: Var, written: tuple[Size, ...], read: tuple[Size, ...]) -> int | None:
    """How far an element that a sum reads may be from the round, not to be stored by this one or a
    later one: `j + d` is, of what is read at `k` and stored at `j + d`."""
    for w, r in zip(written, read, strict=False):
        to, along = (w - size(j)).constant, (r - size(k)).constant
        if to is not None and along is not None:
            return to - along
    return None


def _in_strips(s: Loop, found: _Sum) -> Loop:
    x, strip = found.loop, Var("strip")
    (sum_,) = x.reductions
    first = size(strip) * _STRIP
    begun = Buffer(Var("begun"), sum_.dtype, (size(_STRIP),), Role.TEMP)
    value = Load(begun.var, (size(s.var) - first,))
    so_far = Apply("add", (Local(sum_.var), value), sum_.dtype, sum_.dtype)
    late = replace(x, low=first + found.beyond, order=Order.SERIAL, reductions=())
    before, after = s.body[: found.place], s.body[found.place + 1 :]
    body = (*before, Assign(sum_.var, so_far), late, *after)
    high = first + clamp(s.high - first, size(_STRIP + 1))
    rest = replace(s, low=first, high=high, body=body)
    return replace(
        s, var=strip, high=(s.high + _STRIP - 1) // _STRIP, work=s.work * _STRIP,
        body=(Allocate(begun), *_begin(s, found, first, begun), rest),
    )  # fmt: skip


def _begin(s: Loop, found: _Sum, first: Size, begun: Buffer) -> Iterator[Stmt]:
    """The sums of a strip's rounds as far as earlier strips made what they add; of rounds that are
    not there, the last one's."""
    x = found.loop
    (sum_,) = x.reductions
    k, zero = fresh(x.var), Lit(0.0, sum_.dtype)
    totals: list[Var] = []
    adds: list[Stmt] = []
    for q in range(_STRIP):
        row, total = Var("row"), fresh(sum_.var)
        yield Let(row, DType.I64, Number(clamp(first + q, s.high)))
        yield Variable(total, sum_.dtype, zero)
        names = {y: fresh(y) for y in _names(x.body)} | {sum_.var: total}
        here: dict[Atom, Size] = {v: size(to) for v, to in names.items()}
        here |= {s.var: size(row), x.var: size(k)}
        adds += remade(x.body, here.get, names)
        totals.append(total)
    sums = tuple(replace(sum_, var=v) for v in totals)
    yield Loop(k, ZERO, first + found.beyond, tuple(adds), Order.FREE, sums, x.work * _STRIP)
    for q, total in enumerate(totals):
        yield Store(begun.var, (size(q),), Local(total))
