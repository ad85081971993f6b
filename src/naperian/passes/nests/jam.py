"""Rows that are added to one array are added four at a time. loops → loops

    before   parallel for i in 0..n reducing add out:
                 free for j in 0..m:
                     update out[j] += x[i, j]

    after    parallel for four in 0..n // 4 reducing add out:
                 free for j in 0..m:
                     update out[j] += x[4 four, j]
                     update out[j] += x[4 four + 1, j]
                     …
             for i in 4 (n // 4)..n:
                 free for j in 0..m:
                     update out[j] += x[i, j]

An element of the result is then loaded and stored once for four rows, which come in as four streams
(unroll and jam). Each element takes the same values in the same order as before. Which rows they
are, if memory says so, is read before the loop along them:

    before   for e in 0..k:                            after   for four in 0..k // 4:
                 free for j in 0..m:                               row = key[4 four]
                     update out[j] += x[key[e], j]                 row_2 = key[4 four + 1]; …
                                                                   free for j in 0..m:
                                                                       update out[j] += x[row, j]
                                                                       …

So is what a round computes for its row, the weight of `v[u] * x[u, j]` in attention.
"""

from __future__ import annotations

from naperian.dtypes import DType
from naperian.loops.syntax import Let, Load, Loop, Number, Order, Stmt, Update
from naperian.loops.walk import atoms, expressions, mentions, parts, rebuild_loops, remade, used_in
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.passes.nests.rounds import whole_rounds
from naperian.sizes import ZERO, Atom, Size, size

ROWS = 4


def jam(body: tuple[Stmt, ...], sizes: tuple[Var, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Loop) and s.order is not Order.FREE and _adds_rows(s):
            out += _jammed(s, whole_rounds(s, ROWS, sizes))
        else:
            out.append(rebuild_loops(s, lambda b: jam(b, sizes)))
    return tuple(out)


def _adds_rows(s: Loop) -> bool:
    """Whether every round updates the same elements, each once."""
    heads, inner = _parted(s.body)
    own = {s.var, *(x.var for x in heads)}
    over: set[Var] = set()
    while len(inner) == 1 and isinstance(x := inner[0], Loop):
        bounds = {*used_in(x.low), *used_in(x.high)}
        if x.order is not Order.FREE or x.reductions or own & bounds:
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
                if along != over or not own.isdisjoint(v for e in at for v in used_in(e)):
                    return False
            case Let():
                pass
            case _:
                return False
    return not any(changed & mentions(x) for x in (*heads, *inner) if isinstance(x, Let))


def _parted(body: tuple[Stmt, ...]) -> tuple[tuple[Let, ...], tuple[Stmt, ...]]:
    """What a round computes first, and the rest."""
    first = next((k for k, x in enumerate(body) if not isinstance(x, Let)), len(body))
    return tuple([x for x in body[:first] if isinstance(x, Let)]), body[first:]


def _jammed(s: Loop, count: Size) -> list[Stmt]:
    four = Var("four")
    first = s.low + size(four) * ROWS
    heads, loops = _parted(s.body)
    own = [{x.var: fresh(x.var) for x in heads} for _ in range(ROWS)]

    rows: list[Stmt] = []  # which they are, and what each computes for itself

    def within(body: tuple[Stmt, ...], over: frozenset[Var]) -> tuple[Stmt, ...]:
        (x, *more) = body
        if isinstance(x, Loop) and not more:
            return (replace(x, body=within(x.body, over | {x.var}), work=x.work * ROWS),)
        keys = _keys(body, over)
        return tuple(y for k in range(ROWS) for y in copy(body, keys, k))

    def moved(
        stmts: tuple[Stmt, ...], k: int, names: dict[Var, Var], at: dict[Size, Size]
    ) -> tuple[Stmt, ...]:
        """Statements of one of the rows."""
        here: dict[Atom, Size] = {s.var: first + k}

        def replaced(a: Atom) -> Size | None:
            return size(names[a]) if isinstance(a, Var) and a in names else here.get(a)

        return remade(stmts, replaced, names, lambda _, where: tuple(at.get(e, e) for e in where))

    def copy(body: tuple[Stmt, ...], keys: list[Size], k: int) -> tuple[Stmt, ...]:
        at: dict[Size, Size] = {}
        for e in keys:
            row = Var("row")
            (key,) = moved((Let(row, DType.I64, Number(e)),), k, own[k], {})
            assert isinstance(key, Let)
            assert isinstance(key.value, Number)
            rows.append(key)
            at[key.value.value] = size(row)
        names = own[k] | {x.var: fresh(x.var) for x in body if isinstance(x, Let)}
        return moved(body, k, names, at)

    for k in range(ROWS):
        rows += moved(heads, k, own[k], {})
    rest = replace(s, low=s.low + count * ROWS, order=Order.SERIAL, reductions=())
    inner = within(loops, frozenset())
    many = Loop(four, ZERO, count, (*rows, *inner), s.order, s.reductions, s.work * ROWS)
    return [many] if rest.low == s.high else [many, rest]


def _keys(body: tuple[Stmt, ...], over: frozenset[Var]) -> list[Size]:
    """The indices of rows that are read from memory, at a place that is the same along them."""
    inside = over | {x.var for x in body if isinstance(x, Let)}
    tops = (e for x in body for e in expressions(x))
    rows = (p.at for e in tops for p in parts(e) if isinstance(p, Load))
    found = (e for at in rows if any(not over.isdisjoint(used_in(k)) for k in at) for e in at)
    return list(
        dict.fromkeys(
            e for e in found
            if any(isinstance(a, Load) for a in atoms(e)) and inside.isdisjoint(used_in(e))
        )
    )  # fmt: skip
