"""What a recurrence does not wait for comes after it, in vectors. loops → loops

    before   for t in 0..n reducing add total:
                 w = walk + z[t]
                 total := total + exp(w)
                 walk := w

    after    for s in 0..⌈n / 512⌉:
                 allocate small kept[512]
                 for t in strip s:
                     w = walk + z[t]
                     store kept[t - 512 s] = w
                     walk := w
                 free for t in strip s reducing add total:
                     w = kept[t - 512 s]
                     total := total + exp(w)

Only elementary functions are worth it: a vector of them takes as long as one by itself. What does
not depend on the recurrence and is cheap is computed twice rather than kept.
"""

from __future__ import annotations

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Let,
    Load,
    Local,
    Loop,
    Order,
    Role,
    Stmt,
    Store,
    Variable,
)
from naperian.loops.walk import (
    expressions,
    index_expressions,
    loads,
    mentions,
    parts,
    rebuild_loops,
    remade,
    statements,
    used_in,
)
from naperian.names import Var, fresh
from naperian.prims import PRIMITIVES
from naperian.sizes import ZERO, clamp, size

STRIP = 512  # iterations, whose kept values fit a page
LEAST = 8  # iterations, where their number is known
LONG = 15  # additions that a function takes which is worth it
_DEAR = 4  # additions that are not done twice


def trailing(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    dtypes = {s.var: s.dtype for s in statements(body) if isinstance(s, (Variable, Let))}
    return _block(body, dtypes)


def _block(body: tuple[Stmt, ...], dtypes: dict[Var, DType]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        cut = _cut(s, dtypes) if isinstance(s, Loop) else None
        out.append(cut or rebuild_loops(s, lambda inner: _block(inner, dtypes)))
    return tuple(out)


def _cut(s: Loop, dtypes: dict[Var, DType]) -> Loop | None:
    """The loop in two, if it pays."""
    few = (s.high - s.low).constant
    if s.order is not Order.SERIAL or (few is not None and few < LEAST):
        return None
    if not all(isinstance(x, Let | Assign | Store) for x in s.body):
        return None
    if any(r.monoid not in ("add", "mul", "min", "max") for r in s.reductions):
        return None
    sums = {r.var for r in s.reductions}
    carried = {x.var for x in s.body if isinstance(x, Assign)} - sums
    chain = _needed(s.body, carried)
    rest = [x for k, x in enumerate(s.body) if k not in chain]
    if not carried or not any(_cost(x) >= LONG for x in rest):
        return None
    if not _follows(s, chain, carried, sums):
        return None
    strip = Var("strip")
    low = s.low + size(strip) * STRIP
    high = low + clamp(s.high - low, size(STRIP + 1))
    here = (size(s.var) - low,)
    first: list[Stmt] = []
    second: list[Stmt] = []
    buffers: list[Stmt] = []

    def keep(v: Var) -> None:
        b = Buffer(fresh(v), dtypes[v], (size(STRIP),), Role.TEMP)
        buffers.append(Allocate(b, small=True))
        first.append(Store(b.var, here, Local(v)))
        second.append(Let(old.get(v, v), dtypes[v], Load(b.var, here)))

    wanted = {v for x in rest for v in mentions(x)}
    again = _again(s.body, chain, carried, wanted)
    old = {v: fresh(v) for v in carried & wanted}
    for v in old:
        keep(v)
    for k, x in enumerate(s.body):
        if k in chain:
            first.append(x)
            if k in again:
                second.append(x)
            elif isinstance(x, Let) and x.var in wanted:
                keep(x.var)
        else:
            second.append(_renamed(x, old))
    inner = (
        *buffers,
        Loop(s.var, low, high, tuple(first), Order.SERIAL, (), s.work),
        Loop(s.var, low, high, tuple(second), Order.FREE, s.reductions, s.work),
    )
    count = (s.high - s.low + STRIP - 1) // STRIP
    return Loop(strip, ZERO, count, inner, Order.SERIAL, s.reductions, s.work * STRIP)


def _needed(body: tuple[Stmt, ...], carried: set[Var]) -> frozenset[int]:
    """The numbers of the statements that make the carried values."""
    wanted, chain = set(carried), set[int]()
    for k, x in reversed(list(enumerate(body))):
        if isinstance(x, Let | Assign) and x.var in wanted:
            chain.add(k)
            wanted |= mentions(x)
    return frozenset(chain)


def _again(
    body: tuple[Stmt, ...], chain: frozenset[int], carried: set[Var], wanted: set[Var]
) -> set[int]:
    """The bindings of the chain that are done in both loops; what they mention becomes wanted."""
    depend = set(carried)
    for x in body:
        if isinstance(x, Let) and mentions(x) & depend:
            depend.add(x.var)
    again: set[int] = set()
    for k, x in reversed(list(enumerate(body))):
        if k in chain and isinstance(x, Let) and x.var in wanted:
            if x.var not in depend and _cost(x) < _DEAR:
                again.add(k)
                wanted |= mentions(x)
    return again


def _follows(s: Loop, chain: frozenset[int], carried: set[Var], sums: set[Var]) -> bool:
    """Whether all that is not in the chain may be done after it, in any order."""
    made = {x.var for k, x in enumerate(s.body) if k in chain and isinstance(x, Let | Assign)}
    stored: set[Var] = set()
    read = {load.buffer for x in s.body for load in loads(x)}
    changed: set[Var] = set()
    for k, x in enumerate(s.body):
        if k in chain:
            if mentions(x) & sums:
                return False
            if isinstance(x, Assign):
                changed.add(x.var)
            continue
        if mentions(x) & changed or any(
            v in made for e in index_expressions(x) for v in used_in(e)
        ):
            return False
        if isinstance(x, Store):
            along = any((e - s.var).constant is not None for e in x.at)
            if not along or x.buffer in read | stored:
                return False
            stored.add(x.buffer)
    return True


def _cost(s: Stmt) -> int:
    """The longest operation of a statement, in additions."""
    return max(
        (PRIMITIVES[e.name].cost for top in expressions(s) for e in parts(top)
         if isinstance(e, Apply) and e.dtype.is_float and e.name in PRIMITIVES), default=0
    )  # fmt: skip


def _renamed(s: Stmt, names: dict[Var, Var]) -> Stmt:
    """A statement that reads what the carried variables were."""
    return remade((s,), lambda _: None, names)[0] if names else s
