"""Two rounds of a loop share what lanes load. loops → loops

    before   free for i in 0..n:                  after    free for p in 0..n // 2:
                 var a = 0.0                                   var a = 0.0
                 free for k in 0..m:                           var b = 0.0
                     a := a + x[i, k] * t[k]                   free for k in 0..m:
                 store y[i] = a                                    a := a + x[2 p, k] * t[k]
                                                                   b := b + x[2 p + 1, k] * t[k]
                                                               store y[2 p] = a
                                                               store y[2 p + 1] = b
                                                           free for i in 2 (n // 2)..n: …

`t` is the own table of a row that goes beside others (`lanes`), each of its elements is a vector,
which a round loads for one product. Two sums also wait for each other no longer.
"""

from __future__ import annotations

from naperian.loops.syntax import (
    Allocate,
    Assign,
    Let,
    Loop,
    Order,
    Stmt,
    Store,
    Variable,
)
from naperian.loops.walk import loads, reads, rebuild_loops, remade, statements, used_in
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.passes.nests.rounds import whole_rounds
from naperian.sizes import ONE, ZERO, Atom, Size, size

_SHORT = 16  # rounds that are not worth it
_SHARED = 2  # elements


def paired(row: Loop, sizes: tuple[Var, ...]) -> Loop:
    """A loop whose rounds go side by side, with the loops in it two rounds at a time."""
    own = {s.buffer.var for s in statements(row.body) if isinstance(s, Allocate)}
    return replace(row, body=_block(row.body, own, sizes)) if own else row


def _block(
    body: tuple[Stmt, ...], own: set[Var], sizes: tuple[Var, ...]
) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Loop) and _is_plain(s) and _pays(s, own):
            out += _pair(s, whole_rounds(s, 2, sizes))
        else:
            out.append(rebuild_loops(s, lambda b: _block(b, own, sizes)))
    return tuple(out)


def _is_plain(s: Loop) -> bool:
    """Whether the rounds of a loop are independent, and all do the same steps."""
    trips = (s.high - s.low).constant
    if s.order is not Order.FREE or s.reductions or (trips is not None and trips < _SHORT):
        return False
    varying = {s.var}
    for x in statements(s.body):
        match x:
            case Loop(_, low, high):
                if not varying.isdisjoint((*used_in(low), *used_in(high))):
                    return False
            case Let() | Variable() | Assign():
                if not varying.isdisjoint(reads(x)):
                    varying.add(x.var)
            case Store():
                pass
            case _:
                return False
    return True


def _pays(s: Loop, own: set[Var]) -> bool:
    """Whether the sums in every round read the same elements of the row's own tables."""
    sums = [
        x for x in statements(s.body)
        if isinstance(x, Loop) and x.reductions
        and all(isinstance(y, Let | Variable | Assign) for y in x.body)
    ]  # fmt: skip
    made = {x.var for x in statements(s.body) if isinstance(x, Let)}
    apart = made | {s.var}
    return any(
        sum(
            y.buffer in own and any(x.var in used_in(e) for e in y.at)
            and all(apart.isdisjoint(used_in(e)) for e in y.at)
            for z in x.body for y in loads(z)
        ) >= _SHARED
        for x in sums
    )  # fmt: skip


def _pair(s: Loop, count: Size) -> list[Stmt]:
    pair = fresh(s.var)
    first = s.low + size(pair) * 2
    here = (first, first + ONE)
    bound = (x.var for x in statements(s.body) if isinstance(x, Let | Variable))
    names: tuple[dict[Var, Var], ...] = ({}, {v: fresh(v) for v in bound})

    def copy(x: Stmt, k: int) -> Stmt:
        def replaced(a: Atom) -> Size | None:
            if a == s.var:
                return here[k]
            return size(names[k][a]) if isinstance(a, Var) and a in names[k] else None

        return remade((x,), replaced, names[k])[0]

    def both(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for x in body:
            if isinstance(x, Loop):
                more = (replace(r, var=names[1].get(r.var, r.var)) for r in x.reductions)
                out.append(replace(x, body=both(x.body), reductions=(*x.reductions, *more)))
            else:
                out += (copy(x, 0), copy(x, 1))
        return tuple(out)

    many = replace(s, var=pair, low=ZERO, high=count, body=both(s.body), work=s.work * 2)
    rest = replace(s, low=s.low + count * 2)
    return [many] if rest.low == s.high else [many, rest]
