"""Indices are checked some hundred at a time, before the rounds that go by them. loops → loops

    before   parallel for i in 0..n reducing add h:
                 fail OUTSIDE if k[i] != clamp(k[i], m)
                 update h[k[i]] += w[i]

    after    parallel for strip in 0..(n + 511) // 512 reducing add h:
                 end = min(512 * strip + 512, n)
                 var odd = False
                 free for i in 512 * strip..end reducing or odd: odd := odd or k[i] != …
                 fail OUTSIDE if odd
                 for i in 512 * strip..end: update h[k[i]] += w[i]

The check is vectors then, and a round without a way out can be written out several times. That
failure says all by its number, so it does not matter which round it comes from.
"""

from __future__ import annotations

from dataclasses import replace

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Fail,
    Let,
    Local,
    Loop,
    Number,
    Order,
    Reduction,
    Stmt,
    Update,
    Variable,
)
from naperian.loops.walk import rebuild, remade, used, writes
from naperian.names import Lit, Var, fresh
from naperian.sizes import ZERO, Atom, Size, clamp, size

_STRIP = 512  # rounds: what they read is in the nearest cache still


def ahead(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    out: list[Stmt] = []
    for s in body:
        checks = _checks(s) if isinstance(s, Loop) else ()
        if isinstance(s, Loop) and checks:
            out.append(_in_strips(s, checks))
        else:
            out.append(rebuild(s, ahead))
    return tuple(out)


def _checks(s: Loop) -> tuple[Fail, ...]:
    """The checks with which a round begins, if there is nothing else that may fail or take long and
    they hang on what the loop does not change."""
    count = 0
    while count < len(s.body) and isinstance(s.body[count], Fail):
        count += 1
    first, rest = s.body[:count], s.body[count:]
    if not first or not all(isinstance(x, Let | Update) for x in rest):
        return ()
    if not any(isinstance(x, Update) for x in rest) or (s.high - s.low).constant is not None:
        return ()
    changed = {writes(x) for x in rest}
    checks = tuple(x for x in first if isinstance(x, Fail) and x.code < 0 and not x.values)
    plain = all(changed.isdisjoint(used(x.condition)) for x in checks)
    return checks if plain and len(checks) == len(first) else ()


def _in_strips(s: Loop, checks: tuple[Fail, ...]) -> Loop:
    strip, stop, odd, row = Var("strip"), Var("end"), Var("odd"), fresh(s.var)
    low = s.low + size(strip) * _STRIP
    flag = Reduction(odd, "or", DType.BOOL)
    bad: Expr = Local(odd)
    for x in checks:
        bad = Apply("or", (bad, x.condition), DType.BOOL, DType.BOOL)
    here: dict[Atom, Size] = {s.var: size(row)}
    look = Loop(row, low, size(stop), remade((Assign(odd, bad),), here.get), Order.FREE, (flag,))
    rounds = replace(
        s, low=low, high=size(stop), body=s.body[len(checks) :], order=Order.SERIAL, reductions=()
    )
    body: tuple[Stmt, ...] = (
        Let(stop, DType.I64, Number(low + clamp(s.high - low, size(_STRIP + 1)))),
        Variable(odd, DType.BOOL, Lit(False, DType.BOOL)),
        look,
        Fail(Local(odd), checks[0].code),
        rounds,
    )
    count = (s.high - s.low + (_STRIP - 1)) // _STRIP
    return replace(s, var=strip, low=ZERO, high=count, body=body, work=s.work * _STRIP)
