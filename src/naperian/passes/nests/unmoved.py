"""What a round leaves as it was, the copy before the last has already. loops → loops

    allocate v[2, n]                                 allocate v[2, n]
    for t in 0..m:                                   for t in 0..m:
        middle = n - t                                   middle = n - t
        for i in 0..middle:                              for i in 0..middle:
            store v[(t + 1) % 2, i] = f(v[t % 2, …])         store v[(t + 1) % 2, i] = …
        for i in middle..n:                     ⇒        earlier = n - (t - 1)
            store v[(t + 1) % 2, i] = v[t % 2, i]        stop = n if t < 1 else min(n, earlier)
                                                         for i in middle..stop:
                                                             store v[(t + 1) % 2, i] = v[t % 2, i]

The copy that a round writes is the one that the round before read. What that round left as it was
is the same in both, so a round copies only what the round before has changed: of a tree of options
one element instead of all those behind it. Every element is written once in a round.
"""

from __future__ import annotations

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Stmt,
    Store,
    Variable,
)
from naperian.loops.walk import (
    loads,
    mentions,
    rebuild_loops,
    remade,
    statements,
    used_in,
    whole,
    writes,
)
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.sizes import ZERO, Remainder, Size, size, substitute


def unmoved(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    out: list[Stmt] = []
    for s in body:
        inner = rebuild_loops(s, unmoved)
        out.append(_round(inner) if isinstance(inner, Loop) else inner)
    return tuple(out)


def _round(s: Loop) -> Loop:
    """A loop over time, whose rounds copy no more than they must."""
    if s.order is not Order.SERIAL:
        return s
    out: list[Stmt] = []
    for x in s.body:
        out += (isinstance(x, Loop) and _less(s, x)) or (x,)
    return replace(s, body=tuple(out)) if len(out) > len(s.body) else s


def _copies(x: Loop) -> tuple[Store, Load] | None:
    """What a loop stores and loads, if it does nothing but leave elements as they were."""
    if not x.body or x.order is Order.SERIAL or x.reductions:
        return None
    values: dict[Var, Expr] = {}
    *before, last = x.body
    for y in before:
        if not isinstance(y, Let | Variable | Assign) or (
            isinstance(y, Assign) and y.var not in values
        ):
            return None
        values[y.var] = y.value
    if not isinstance(last, Store):
        return None
    value = last.value
    while isinstance(value, Local) and value.var in values:
        value = values.pop(value.var)
    if not isinstance(value, Load) or value.buffer != last.buffer or len(last.at) != 2:
        return None
    return (last, value) if value.at[1] == last.at[1] == size(x.var) else None


def _first(s: Loop, there: Size, here: Size) -> int | None:
    """In how many rounds, at the start, the copy that is written is not yet the one that the round
    before read; None if the copies do not take turns."""
    lets: dict[object, Expr] = {y.var: y.value for y in s.body if isinstance(y, Let)}
    source, target = (lets.get(e.single, Number(e)) for e in (here, there))
    rounds = 1
    match source:
        case Apply("select", (Apply("eq", (Number(t), Lit(0))), _, later)) if t == size(s.var):
            source, rounds = later, 2  # first it reads the argument, which nobody writes
        case _:
            pass
    if not (isinstance(source, Number) and isinstance(target, Number)):
        return None
    from_, to = source.value.single, target.value.single
    if not (isinstance(from_, Remainder) and isinstance(to, Remainder)):
        return None
    if not from_.below == to.below == size(2) or (rounds > 1 and s.low != ZERO):
        return None

    def before(e: Size) -> Size:
        return substitute(e, lambda a: size(s.var) - 1 if a == s.var else None)

    apart = (before(to.above) - from_.above, to.above - before(from_.above))
    even = all(d.constant is not None and d.constant % 2 == 0 for d in apart)
    return rounds if even else None


def _less(s: Loop, x: Loop) -> tuple[Stmt, ...] | None:
    """The loop from where it starts to where it started in the round before."""
    copy = _copies(x)
    rounds = None if copy is None else _first(s, copy[0].at[0], copy[1].at[0])
    if copy is None or rounds is None:
        return None
    table = copy[0].buffer
    others = [y for y in statements(s.body) if writes(y) == table]
    if any(not isinstance(y, Store) or y.at[0] != copy[0].at[0] for y in others):
        return None
    changed = {y.var for y in statements(s.body) if isinstance(y, Variable | Assign | Loop)}
    changed |= {v for y in statements(s.body) if (v := writes(y)) is not None}
    start, end = _made(s, x.low, changed), _made(s, x.high, changed)
    if start is None or end is None or any(s.var in mentions(y) for y in end):
        return None
    if s.var in used_in(x.high) or not any(s.var in mentions(y) for y in start):
        return None
    names = {y.var: fresh(y.var) for y in start}
    here = {s.var: size(s.var) - 1} | {v: size(w) for v, w in names.items()}
    low = size(names[x.low.single]) if isinstance(x.low.single, Var) else None
    if low is None:
        return None
    before = remade(start, lambda a: here.get(a) if isinstance(a, Var) else None, names)
    first = Apply("lt", (Number(size(s.var)), Number(s.low + rounds)), DType.BOOL, DType.I64)
    least = whole("max", Number(x.low), Number(low))
    most = whole("min", Number(x.high), least)
    stop = Var("stop")
    until = Apply("select", (first, Number(x.high), most), DType.I64, DType.I64)
    return (*before, Let(stop, DType.I64, until), replace(x, high=size(stop)))


def _made(s: Loop, e: Size, changed: set[Var]) -> tuple[Let, ...] | None:
    """The bindings of a round that make a number, in their order; None if it hangs on what rounds
    change but for these."""
    wanted, out = set(used_in(e)), list[Let]()
    for y in reversed(s.body):
        if isinstance(y, Let) and y.var in wanted:
            if loads(y):
                return None
            wanted |= mentions(y)
            out.insert(0, y)
    return None if wanted & changed else tuple(out)
