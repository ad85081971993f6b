"""Rows that are added to one array are added four at a time. loops → loops

    before   parallel for i in 0..n reducing add out:
                 free for j in 0..m:
                     update out[j] += x[i, j]

    after    parallel for four in 0..n // 4 reducing add out:
                 free for j in 0..m:
                     for i in 4 four..4 four + 4:
                         update out[j] += x[i, j]
             for i in 4 (n // 4)..n:
                 free for j in 0..m:
                     update out[j] += x[i, j]

An element of the result is then loaded and stored once for four rows, which come in as four streams
(unroll and jam). Each element takes the same values in the same order as before.
"""

from __future__ import annotations

from dataclasses import replace

from naperian.loops.syntax import Let, Loop, Order, Stmt, Update
from naperian.loops.walk import mentions, rebuild, used_in
from naperian.names import Var
from naperian.sizes import ZERO, size

ROWS = 4


def jam(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Loop) and s.order is not Order.FREE and _adds_rows(s):
            out += _jammed(s)
        else:
            out.append(rebuild(s, jam))
    return tuple(out)


def _adds_rows(s: Loop) -> bool:
    """Whether every round updates the same elements, each once."""
    inner: tuple[Stmt, ...] = s.body
    over: set[Var] = set()
    while len(inner) == 1 and isinstance(x := inner[0], Loop):
        bounds = {*used_in(x.low), *used_in(x.high)}
        if x.order is not Order.FREE or x.reductions or s.var in bounds:
            return False
        over.add(x.var)
        inner = x.body
    if not over or not any(isinstance(x, Update) for x in inner):
        return False
    trips = (s.high - s.low).constant
    if trips is not None and trips < 2 * ROWS:
        return False
    changed = {x.buffer for x in inner if isinstance(x, Update)}
    for x in inner:
        match x:
            case Update(_, at):
                along = {v for v in over if size(v) in at}
                if along != over or any(s.var in used_in(e) for e in at):
                    return False
            case Let():
                pass
            case _:
                return False
    return not any(changed & mentions(x) for x in inner if isinstance(x, Let))


def _jammed(s: Loop) -> list[Stmt]:
    count = (s.high - s.low) // ROWS
    four = Var("four")
    first = s.low + size(four) * ROWS

    def within(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        (x, *more) = body
        if isinstance(x, Loop) and not more:
            return (replace(x, body=within(x.body), work=x.work * ROWS),)
        return (Loop(s.var, first, first + ROWS, body, Order.SERIAL, (), s.work),)

    rest = replace(s, low=s.low + count * ROWS, order=Order.SERIAL, reductions=())
    many = Loop(four, ZERO, count, within(s.body), s.order, s.reductions, s.work * ROWS)
    return [many] if rest.low == s.high else [many, rest]
