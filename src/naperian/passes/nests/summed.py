"""What a loop adds to one element goes on in a register, and then there. loops → loops

    before   for j: update g[a, b] += v[i, j] * x[i, j + b]

    after    var sum = -0.0
             free for j reducing add sum: sum := sum + v[i, j] * x[i, j + b]
             if 0 < m: update g[a, b] += sum

A sum into memory waits for memory in every round, and is no sum to vectors: so are the derivatives
of a kernel, each from a whole image. It regroups what is added: `strict` has none of it. Where
there are no rounds, the element may not even exist.
"""

from __future__ import annotations

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Let,
    Local,
    Loop,
    Number,
    Order,
    Program,
    Reduction,
    Stmt,
    Update,
    Variable,
    When,
)
from naperian.loops.walk import loads, rebuild, statements, used_in
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.prims import Math

_FEW = 8  # rounds that are written out


def summed(program: Program) -> Program:
    """See the module."""
    if program.math is Math.STRICT:
        return program
    made = [s.buffer for s in statements(program.body) if isinstance(s, Allocate)]
    types = {b.var: b.dtype for b in (*program.buffers, *made)}
    return replace(program, body=_block(program.body, types))


def _block(body: tuple[Stmt, ...], types: dict[Var, DType]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Loop) and _is_sum(s):
            out += _in_register(s, types)
        else:
            out.append(rebuild(s, lambda b: _block(b, types)))
    return tuple(out)


def _is_sum(s: Loop) -> bool:
    """Whether a loop only adds to elements that are the same in all rounds."""
    if s.order is not Order.SERIAL or s.reductions:
        return False
    if not all(isinstance(x, Let | Update) for x in s.body):
        return False
    rounds = (s.high - s.low).constant
    if (rounds is not None and rounds <= _FEW) or not _goes_along(s):
        return False
    changed = {x.buffer for x in s.body if isinstance(x, Update)}
    own = {s.var, *(x.var for x in s.body if isinstance(x, Let))}
    return bool(changed) and all(
        changed.isdisjoint(y.buffer for y in loads(x))
        and (
            not isinstance(x, Update)
            or (x.monoid == "add" and all(own.isdisjoint(used_in(e)) for e in x.at))
        )
        for x in s.body
    )


def _goes_along(s: Loop) -> bool:
    """Whether a loop reads what lies side by side; others may be rows that a loop around it adds
    up side by side."""
    read = [y.at for x in s.body for y in loads(x) if y.at]
    steep = any(s.var in used_in(e) for at in read for e in at[:-1])
    return not steep and any(s.var in used_in(at[-1]) for at in read)


def _in_register(s: Loop, types: dict[Var, DType]) -> list[Stmt]:
    starts: list[Stmt] = []
    body: list[Stmt] = []
    ends: list[Stmt] = []
    reductions: list[Reduction] = []
    for x in s.body:
        if not isinstance(x, Update):
            body.append(x)
            continue
        dtype = types[x.buffer]
        v = Var("sum")
        starts.append(Variable(v, dtype, Lit(-0.0 if dtype.is_float else 0, dtype)))
        reductions.append(Reduction(v, "add", dtype))
        body.append(Assign(v, Apply("add", (Local(v), x.value), dtype, dtype)))
        ends.append(replace(x, value=Local(v)))
    loop = replace(s, body=tuple(body), order=Order.FREE, reductions=tuple(reductions))
    if not ((s.high - s.low).constant or 0) > 0:
        some = Apply("lt", (Number(s.low), Number(s.high)), DType.BOOL, DType.I64)
        ends = [When(some, tuple(ends))]
    return [*starts, loop, *ends]
