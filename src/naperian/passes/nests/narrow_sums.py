"""Sums of small numbers are added up in I32, and widened once. loops → loops

    before   var v: i64 = 0
             free for q in 0..k reducing add v:
                 v := v + i64(i32(x[i, q]) * i32(w[j, q]))            x: u8, w: i8

    after    var v: i64 = 0
             if k <= 65792:
                 var part: i32 = 0
                 free for q in 0..k reducing add part: part := part + i32(x[i, q]) * i32(w[j, q])
                 v := v + i64(part)
             else: the loop                                           as before

A vector has twice as many of them, and nothing is widened in a round. What a term can be, its types
say: as long as that many of them cannot leave the range of I32, the sum is the same.
"""

from __future__ import annotations

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Let,
    Local,
    Loop,
    Number,
    Order,
    Reduction,
    Stmt,
    Variable,
    When,
)
from naperian.loops.walk import reads, rebuild
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.nests.small import Known

_MOST = (1 << 31) - 1
_ROUNDS = 256  # of fewer it is not worth asking how many there are
_SHORT = 8  # statements: what does more takes as long, and would be there twice


def narrow_sums(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    out: list[Stmt] = []
    for s in body:
        made = _narrowed(s) if isinstance(s, Loop) else None
        out += made or (rebuild(s, narrow_sums),)
    return tuple(out)


def _narrowed(s: Loop) -> tuple[Stmt, ...] | None:
    """The loop in I32, where it has few enough rounds; if it does nothing but add up, and nothing
    that it adds is large."""
    if s.order not in (Order.FREE, Order.PARALLEL) or len(s.body) > _SHORT:
        return None
    body: list[Stmt] = []
    known = Known()
    parts = {r.var: Var("part") for r in s.reductions if (r.monoid, r.dtype) == ("add", DType.I64)}
    sizes = dict.fromkeys(parts, 0)
    for x in s.body:
        match x:
            case Let(v, _, e):
                body.append(x)
                far, value = known.range(e), known.made(e, DType.I32)
                if far is not None and value is not None:
                    own = fresh(v)
                    body.append(Let(own, DType.I32, value))
                    known.far[v], known.less[v] = far, (own, DType.I32)
            case Assign(v, Apply("add", (Local(old), e))) if v == old and v in parts:
                far, value = known.range(e), known.made(e, DType.I32)
                if far is None or value is None:
                    return None
                sizes[v] += max(-far[0], far[1])
                body.append(_plus(parts[v], value, DType.I32))
            case _:
                return None
    largest, rounds = max(sizes.values(), default=0), s.high - s.low
    if not largest or largest * _ROUNDS > _MOST or len(parts) < len(s.reductions):
        return None
    sums = tuple(Reduction(v, "add", DType.I32) for v in parts.values())
    narrow: tuple[Stmt, ...] = (
        *(Variable(v, DType.I32, Lit(0, DType.I32)) for v in parts.values()),
        replace(s, body=_read(body), reductions=sums),
        *(_plus(v, Apply("cast", (Local(x),), DType.I64, DType.I32), DType.I64)
          for v, x in parts.items()),
    )  # fmt: skip
    most = _MOST // largest
    if rounds.constant is not None:
        return narrow if rounds.constant <= most else None
    few = Apply("le", (Number(rounds), Lit(most, DType.I64)), DType.BOOL, DType.I64)
    return (When(few, narrow, (s,)),)


def _plus(v: Var, e: Expr, dtype: DType) -> Assign:
    return Assign(v, Apply("add", (Local(v), e), dtype, dtype))


def _read(body: list[Stmt]) -> tuple[Stmt, ...]:
    """What is named without being read, left out."""
    kept: list[Stmt] = []
    wanted: set[Var] = set()
    for s in reversed(body):
        if not isinstance(s, Let) or s.var in wanted:
            wanted |= reads(s)
            kept.append(s)
    return tuple(reversed(kept))
