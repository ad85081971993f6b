"""Rows of a few elements each are summed one by one. loops → loops

    before   parallel for i in 0..n:
                 var v = 0.0
                 free for e in 0..ends[i + 1] - ends[i] reducing add v: v := v + x[e + ends[i]]
                 store out[i] = v

    after    if ends[n] - ends[0] < 6 * n:
                 parallel for i in 0..n:
                     var v = 0.0
                     for e in 0..ends[i + 1] - ends[i] reducing add v: v := v + x[e + ends[i]]
                     store out[i] = v
             else: …                                                                    as before

How many elements the rows have together is known before the loop, because one ends where the next
begins. With a handful each, filling vectors and adding up what is in them takes longer than the
sums: the neighbours in a road network, the terms of a mesh, also if some of them are left out.
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
    Loop,
    Number,
    Order,
    Program,
    Stmt,
    Variable,
    When,
)
from naperian.loops.walk import rebuild_loops, statements, writes
from naperian.names import Var
from naperian.node import replace
from naperian.sizes import ZERO, Size, atom, size

_FEW = 6  # elements of a row on average


def short(program: Program) -> Program:
    """See the module."""
    buffers = {b.var: b for b in program.buffers}
    buffers |= {
        s.buffer.var: s.buffer for s in statements(program.body) if isinstance(s, Allocate)
    }
    sizes = frozenset(program.sizes)

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(_chosen(s, sizes, buffers) or rebuild_loops(s, block) for s in body)

    return replace(program, body=block(program.body))


def _chosen(s: Stmt, sizes: frozenset[Var], buffers: dict[Var, Buffer]) -> Stmt | None:
    """The two ways, if a loop does nothing but sum rows."""
    if not isinstance(s, Loop) or s.low != ZERO or s.high.single not in sizes:
        return None
    loops = [x for x in s.body if isinstance(x, Loop)]
    totals = {_total(s, x, buffers) if _is_sum(x) else None for x in loops}
    total = totals.pop() if len(totals) == 1 else None
    if total is None:
        return None
    sums = tuple(_one_by_one(x) for x in s.body)
    few = Apply("lt", (Number(total), Number(s.high * _FEW)), DType.BOOL, DType.I64)
    return When(few, (replace(s, body=sums),), (s,))


def _is_sum(x: Loop) -> bool:
    plain = all(isinstance(y, Let | Assign | Variable | When) for y in statements(x.body))
    return x.order is not Order.SERIAL and bool(x.reductions) and plain


def _total(s: Loop, x: Loop, buffers: dict[Var, Buffer]) -> Size | None:
    """The lengths of all rounds of `x`, if each ends where that of the next round begins."""
    changed = {writes(y) for y in statements(s.body)}
    for begin in (x.high - x.low).atoms:
        if not isinstance(begin, Load) or begin.buffer in changed or begin.at != (size(s.var),):
            continue
        (room,) = buffers[begin.buffer].shape
        end, start = atom(replace(begin, at=(size(s.var) + 1,))), atom(begin)
        beyond = (room - s.high).constant
        if x.high - x.low == end - start and beyond is not None and beyond >= 1:
            return atom(replace(begin, at=(s.high,))) - atom(replace(begin, at=(ZERO,)))
    return None


def _one_by_one(x: Stmt) -> Stmt:
    return replace(x, order=Order.SERIAL) if isinstance(x, Loop) else x
