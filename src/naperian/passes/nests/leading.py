"""What does not wait for a recurrence comes before it, in vectors. loops → loops

    before   for t in 0..n reducing add total:
                 p = walk * exp(v * z[t])
                 total := total + p
                 walk := p

    after    for s in 0..⌈n / 128⌉ reducing add total:
                 allocate small early[128]
                 free for t in strip s: store early[t - 128 s] = exp(v * z[t])
                 for t in strip s reducing add total:
                     p = walk * early[t - 128 s]
                     total := total + p
                     walk := p

Only elementary functions of what lies side by side are worth it (as in `trailing`): a vector of
them takes as long as one by itself. Rows that go side by side (`lanes`) have vectors already; so
this is for a recurrence that no other is beside, or whose sums keep it apart.
"""

from __future__ import annotations

from functools import partial

from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Expr,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Order,
    Print,
    Role,
    Stmt,
    Store,
    Update,
    Variable,
    While,
)
from naperian.loops.walk import (
    atoms,
    mentions,
    parts,
    rebuild_loops,
    statements,
    used,
    used_in,
    writes,
)
from naperian.names import Var
from naperian.node import replace
from naperian.passes.nests.alike import sums_nothing
from naperian.passes.nests.trailing import LEAST, LONG
from naperian.passes.nests.until import is_open
from naperian.prims import PRIMITIVES
from naperian.sizes import ZERO, clamp, size

_STRIP = 128  # iterations, whose values take little beside what a loop backwards may take


def leading(body: tuple[Stmt, ...], beside: bool = False) -> tuple[Stmt, ...]:
    """The statements of a program, or of a row that may go `beside` others. In another loop in
    order, as one over checkpoints, what is kept on the way is all the memory there is."""
    out: list[Stmt] = []
    for s in body:
        cut = _cut(s) if isinstance(s, Loop) and not beside else None
        rows = isinstance(s, Loop) and s.order is not Order.SERIAL
        if isinstance(s, Loop) and rows:
            side = beside or sums_nothing(s) or is_open(s)
        else:
            side = beside or isinstance(s, Loop | While)
        out.append(cut or rebuild_loops(s, partial(leading, beside=side)))
    return tuple(out)


def _cut(s: Loop) -> Loop | None:
    """The loop in two, if it pays."""
    few = (s.high - s.low).constant
    if s.order is not Order.SERIAL or (few is not None and few < LEAST):
        return None
    inside = statements(s.body)
    if any(isinstance(x, Fail | Print | Loop | While | Allocate) for x in inside):
        return None
    late = {v for x in inside if (v := writes(x)) is not None}
    late |= {x.var for x in inside if isinstance(x, Variable | Assign)}
    early: list[Let] = []
    second: list[Stmt] = []
    found: dict[Apply, Var] = {}

    def told(e: Expr) -> Expr:
        """An expression, in which what is dear and known before is read."""
        if not isinstance(e, Apply):
            return e
        if late.isdisjoint(used(e)) and _is_dear(e):
            return Local(found.setdefault(e, Var("early")))
        return replace(e, args=tuple(map(told, e.args)))

    for x in s.body:
        if isinstance(x, Let) and late.isdisjoint(mentions(x)) and not _is_dear(x.value):
            early.append(x)
            continue
        if isinstance(x, Let | Variable | Assign | Store | Update):
            x = replace(x, value=told(x.value))
        if isinstance(x, Let):
            late.add(x.var)
        second.append(x)
    if not found or not any(isinstance(x, Assign) and x.var not in _sums(s) for x in inside):
        return None
    if not all(_is_along(e, s.var) for e in (*found, *(x.value for x in early))):
        return None
    strip = Var("strip")
    low = s.low + size(strip) * _STRIP
    high = low + clamp(s.high - low, size(_STRIP + 1))
    here = (size(s.var) - low,)
    buffers = [Buffer(Var("early"), e.dtype, (size(_STRIP),), Role.TEMP) for e in found]
    first: list[Stmt] = [*early]
    rest: list[Stmt] = [*early]
    for (e, v), b in zip(found.items(), buffers, strict=True):
        first.append(Store(b.var, here, e))
        rest.append(Let(v, e.dtype, Load(b.var, here)))
    inner: tuple[Stmt, ...] = (
        *(Allocate(b, small=True) for b in buffers),
        Loop(s.var, low, high, tuple(first), Order.FREE, (), s.work),
        Loop(s.var, low, high, (*rest, *second), Order.SERIAL, s.reductions, s.work),
    )
    count = (s.high - s.low + _STRIP - 1) // _STRIP
    return Loop(strip, ZERO, count, inner, Order.SERIAL, s.reductions, s.work * _STRIP)


def _sums(s: Loop) -> set[Var]:
    return {r.var for r in s.reductions}


def _is_dear(e: Expr) -> bool:
    return any(
        isinstance(x, Apply) and x.dtype.is_float and x.name in PRIMITIVES
        and PRIMITIVES[x.name].cost >= LONG
        for x in parts(e)
    )  # fmt: skip


def _is_along(e: Expr, loop: Var) -> bool:
    """Whether an expression reads what lies side by side, or is the same in every round."""
    found = [x for x in parts(e) if isinstance(x, Load)]
    if any(isinstance(a, Load) for x in found for i in x.at for a in atoms(i)):
        return False
    return all(
        loop not in used_in(i) or (k == len(x.at) - 1 and abs(i.coefficient(loop)) == 1)
        for x in found for k, i in enumerate(x.at)
    )  # fmt: skip
