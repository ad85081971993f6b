"""Sums of a handful of columns, in a loop, go column by column. loops → loops

    before   for t in 0..m:
                 for j in 0..n: store b[j] = 0.0
                 for k in 0..n reducing add b:
                     free for j in 0..n:
                         update b[j] += a[k] * x[k, j]

    after    for t in 0..m:
                 if n < 12:
                     for j in 0..n:
                         var v = 0.0
                         for k in 0..n: v := v + a[k] * x[k, j]
                         store b[j] = v
                 else: …                                                                   as before

How many columns there are is known only when the program runs: the states of a Markov chain, the
species of a reaction. The rows of a matrix go side by side as vectors, and what they are added to
stands in memory. Of a few columns that is part of a vector, stored by a mask, which the next round
reads before it is there: it waits two or three times as long as the sums take. So each column has a
variable.

The best of each and its place, which vectors look for one after the other, are found at once (see
`best_of_few`).

Every element takes the same values in the same order as before, but for what a loop around adds
up: each of its rounds adds its sum.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import partial

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
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.loops.walk import atoms, mentions, parts, rebuild, remade, statements
from naperian.names import Lit, Var, fresh
from naperian.node import node, replace
from naperian.passes.nests.best_of_few import asked, is_quick, search, with_value
from naperian.prims import neutral
from naperian.sizes import ZERO, Atom, Remainder, Size, size

_FEW = 12  # columns; from here on vectors take less time


def few_columns(
    body: tuple[Stmt, ...], sizes: Collection[Var], results: Sequence[Buffer]
) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    made = (s.buffer for s in statements(body) if isinstance(s, Allocate))
    dtypes = {b.var: b.dtype for b in (*results, *made)}

    def block(
        body: tuple[Stmt, ...], inside: bool, summed: frozenset[Var] = frozenset()
    ) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        rest = list(body)
        done: list[Stmt] = []
        while rest:
            s = rest.pop(0)
            if s in done:
                out.append(s)
                continue
            sums = _sums(s, sizes, dtypes) if inside else None
            if sums is None:
                within = inside or isinstance(s, Loop | While)
                more = summed.union(r.var for r in s.reductions) if isinstance(s, Loop) else summed
                out.append(rebuild(s, partial(block, inside=within, summed=more)))
                continue
            fills = [_fill(out, x) for x in sums.updates]
            many = [f for f in fills if f is not None]
            for f in many:
                out.remove(f)
            search = _search(s, sums, rest)
            if search is not None and None not in fills:
                after, place = search
                own = _fill(out, place.updates[0])
                if own is not None:
                    out.remove(own)
                    at = rest.index(after)
                    rest[at] = _either(sums, (), (own, after))
                    done.append(rest[at])
                    told = any(sums.updates[0].buffer in mentions(x) for x in rest if x not in done)
                    out.append(_either(sums, (_found(sums, place, told),), (*many, s)))
                    continue
            out.append(_either(sums, (_added(sums, fills, summed),), (*many, s)))
        return tuple(out)

    return block(body, inside=False)


@node
class _Sums:
    """A loop over rows around one over columns, and what that adds to an element of each."""

    outer: Loop
    inner: Loop
    updates: tuple[Update, ...]
    types: tuple[DType, ...]


def _sums(s: Stmt, sizes: Collection[Var], dtypes: dict[Var, DType]) -> _Sums | None:
    """A nest of sums of columns, if it is one of quick operations."""
    if not isinstance(s, Loop) or s.order is Order.FREE or len(s.body) != 1:
        return None
    (inner,) = s.body
    if not isinstance(inner, Loop) or inner.order is not Order.FREE or inner.reductions:
        return None
    if inner.low != ZERO or inner.high.single not in sizes:
        return None
    updates = tuple(x for x in inner.body if isinstance(x, Update))
    changed = {x.buffer for x in updates}
    if len(changed) != len(updates) or not updates:
        return None
    for x in inner.body:
        match x:
            case Update(_, at, _, value) if at == (size(inner.var),):
                pass
            case Let(_, _, value):
                pass
            case _:
                return None
        read = {p.buffer for p in parts(value) if isinstance(p, Load)}
        if read & changed or not is_quick(value):
            return None
    return _Sums(s, inner, updates, tuple(dtypes[x.buffer] for x in updates))


def _fill(before: Sequence[Stmt], x: Update) -> Loop | None:
    """The loop that gave the elements their first value, if nobody has looked at them since."""
    for s in reversed(before):
        match s:
            case Loop(j, low, _, (Store(buffer, (at,), Lit()),), reductions=()) if (
                buffer == x.buffer and low == ZERO and at == size(j)
            ):
                return s
            case _ if x.buffer in mentions(s):
                return None
            case _:
                pass
    return None


def _either(sums: _Sums, few: tuple[Stmt, ...], many: tuple[Stmt, ...]) -> When:
    args = (Number(sums.inner.high), Lit(_FEW, DType.I64))
    if not few:
        return When(Apply("ge", args, DType.BOOL, DType.I64), many)
    return When(Apply("lt", args, DType.BOOL, DType.I64), few, many)


def _copied(sums: _Sums) -> tuple[Var, Var, tuple[Stmt, ...]]:
    """The body of the inner loop under names of its own: those of its column and row."""
    column, row = fresh(sums.inner.var), fresh(sums.outer.var)
    names = {x.var: fresh(x.var) for x in sums.inner.body if isinstance(x, Let)}
    here: dict[Atom, Size] = {sums.inner.var: size(column), sums.outer.var: size(row)}
    here |= {v: size(w) for v, w in names.items()}
    return column, row, remade(sums.inner.body, here.get, names)


def _added(sums: _Sums, fills: Sequence[Loop | None], summed: frozenset[Var]) -> Loop:
    """The columns, each with a variable for what it adds up to; of arrays that a loop around sums
    up, for what it adds to them."""
    column, row, body = _copied(sums)
    at = (size(column),)
    firsts: list[Stmt] = []
    lasts: list[Stmt] = []
    cells: dict[Var, tuple[Var, DType]] = {}
    for x, dtype, fill in zip(sums.updates, sums.types, fills, strict=True):
        v = Var("v")
        first: Expr = Load(x.buffer, at)
        last: Stmt = Store(x.buffer, at, Local(v))
        if x.buffer in summed:
            first = neutral(x.monoid, dtype)
            last = Update(x.buffer, at, x.monoid, Local(v))
        elif fill is not None:
            (stored,) = fill.body
            assert isinstance(stored, Store)
            first = stored.value
        firsts.append(Variable(v, dtype, first))
        lasts.append(last)
        cells[x.buffer] = v, dtype
    steps: list[Stmt] = []
    for y in body:
        if isinstance(y, Update):
            v, dtype = cells[y.buffer]
            y = Assign(v, Apply(y.monoid, (Local(v), y.value), dtype, dtype))
        steps.append(y)
    inner = Loop(row, sums.outer.low, sums.outer.high, tuple(steps), Order.SERIAL)
    return Loop(column, ZERO, sums.inner.high, (*firsts, inner, *lasts), Order.SERIAL)


def _search(s: Stmt, sums: _Sums, rest: Sequence[Stmt]) -> tuple[Loop, _Sums] | None:
    """The nest behind that looks for the first rows where the columns' best stands."""
    if len(sums.updates) != 1 or sums.updates[0].monoid not in ("max", "min"):
        return None
    (best,) = sums.updates
    between: list[Stmt] = []
    for x in rest:
        match x:
            case Loop(i, low, high, (Loop(j, _, n, body, Order.FREE, ()) as inner,)) if (
                (low, high) == (sums.outer.low, sums.outer.high) and n == sums.inner.high
                and body and isinstance(body[-1], Update) and body[-1].monoid == "min"
                and body[-1].at == (size(j),)
            ):
                there = _place(sums, best, inner, i, between)
                if there is None:
                    return None
                stores = (y for z in between for y in statements((z,)) if isinstance(y, Store))
                if all(_is_elsewhere(y, there) for y in stores):
                    return x, _Sums(x, inner, (body[-1],), (DType.I64,))
                return None
            case Loop() if all(isinstance(y, Let | Store) for y in x.body):
                between.append(x)
            case Allocate():
                pass
            case _:
                return None
    return None


def _is_elsewhere(s: Store, value: Expr) -> bool:
    """Whether nothing of what is stored is read: no such array, or another copy of those that take
    turns."""
    read = [p for p in parts(value) if isinstance(p, Load)]
    return all(p.buffer != s.buffer or _other_copy(s.at[0], p.at[0]) for p in read) and not any(
        isinstance(a, Load) and a.buffer == s.buffer for p in read for e in p.at for a in atoms(e)
    )  # fmt: skip


def _other_copy(a: Size, b: Size) -> bool:
    match a.single, b.single:
        case Remainder(x, n), Remainder(y, m) if n == m and n.constant:
            apart = (x - y).constant
            return apart is not None and apart % n.constant != 0
        case _:
            return False


def _place(
    sums: _Sums, best: Update, inner: Loop, i: Var, between: Sequence[Stmt]
) -> Expr | None:
    """What is compared, if a row is what a loop takes where the best of its column is there, or no
    number. (See `fusion/best.py` for how that is asked.)"""
    *lets, last = inner.body
    assert isinstance(last, Update)
    if len(lets) > 1 or len(sums.inner.body) != 1 or sums.outer.low != ZERO:
        return None
    values = {y.var: y.value for y in lets if isinstance(y, Let)}
    (dtype,), end = sums.types, Number(sums.outer.high)
    here, top = (size(inner.var),), Load(best.buffer, (size(inner.var),))
    number = Number(size(i))
    x = asked(last.value, number, end, top, dtype)
    match last.value:
        case Apply("select", (Apply("le" | "ge" as name, (y, Load(v, at))), n, k)) if (
            (name == "le") == (best.monoid == "max") and (at, k, n) == (here, number, end)
            and _is_next(v, best, dtype, between)
        ):
            x = y
        case _:
            pass
    if x is None:
        return None
    value = values.get(x.var, x) if isinstance(x, Local) else x
    same: dict[Atom, Size] = {inner.var: size(sums.inner.var), i: size(sums.outer.var)}
    (there,) = remade((replace(last, value=value),), same.get)
    assert isinstance(there, Update)
    return value if there.value == best.value else None


def _is_next(v: Var, best: Update, dtype: DType, between: Sequence[Stmt]) -> bool:
    """Whether an array has the numbers that are next to the best ones."""
    for s in between:
        for x in s.body if isinstance(s, Loop) else ():
            if isinstance(x, Store) and x.buffer == v:
                assert isinstance(s, Loop)
                lets = {y.var: y.value for y in s.body if isinstance(y, Let)}
                value = with_value(x.value, lets)
                there = (size(s.var),)
                top = Load(best.buffer, there)
                return x.at == there and value == _next(top, best.monoid, dtype)
    return False


def _next(top: Expr, monoid: str, dtype: DType) -> Expr:
    """The number next to the best one, as `_worse` in `fusion/best.py` has it."""
    bits = DType.I64 if dtype is DType.F64 else DType.I32
    zero = Lit(0.0, dtype)
    if monoid == "max":
        signed = Apply("neg", (Apply("sub", (zero, top), dtype, dtype),), dtype, dtype)
    else:
        signed = Apply("add", (zero, top), dtype, dtype)
    above = Apply("gt" if monoid == "max" else "lt", (top, zero), DType.BOOL, dtype)
    step = Apply("select", (above, Lit(-1, bits), Lit(1, bits)), bits, bits)
    moved = Apply("add", (Apply("bitcast", (signed,), bits, dtype), step), bits, bits)
    odd = Apply("isnan", (top,), DType.BOOL, dtype)
    end = Lit(math.inf if monoid == "max" else -math.inf, dtype)
    return Apply("select", (odd, end, Apply("bitcast", (moved,), dtype, bits)), dtype, dtype)


def _found(sums: _Sums, place: _Sums, told: bool) -> Loop:
    """The columns, each with the best so far and its row; the best is `told` if others read it."""
    column, row, body = _copied(sums)
    (update,) = body
    assert isinstance(update, Update)
    best, first, at = Var("best"), Var("place"), (size(column),)
    value = Let(Var("value"), sums.types[0], update.value)
    steps = list(search(update.monoid, value, (row, sums.outer.high), best, first))
    if told:
        steps.append(Store(sums.updates[0].buffer, at, Local(best)))
    steps.append(Store(place.updates[0].buffer, at, Local(first)))
    return Loop(column, ZERO, sums.inner.high, tuple(steps), Order.SERIAL)
