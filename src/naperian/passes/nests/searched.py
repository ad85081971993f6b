"""The first best of a short row is looked for in one go. loops → loops

    before   parallel for i in 0..n:
                 var top = -inf
                 var first = last
                 free for j in 0..m reducing max top: top := max(top, x[i, j])
                 free for k in 0..m reducing min first:
                     first := min(first, k if x[i, k] == top or isnan(x[i, k]) else m)

    after    …   if 0 < m < 16:
                     first := 0
                     top := x[i, 0]
                     var all = x[i, 0]
                     for j in 1..m:
                         value = x[i, j]
                         better = value > top
                         top := value if better else top
                         first := j if better else first
                         all := all + value
                     if isnan(all):
                         var odd = last
                         for j in 0..m: odd := min(odd, j if isnan(x[i, j]) else last)
                         if odd != last: first := odd; top := nan
                 else: both loops                                                     as before

Two reductions are vectors each (`fusion/best.py`), but a few elements do not fill them, and to find
the largest in a vector takes longer than to compare them one after the other. A NaN is the best
there is; who asks for it in every comparison lets the next one wait. A sum is NaN if an element is
(and if there are infinities of both signs), so only then it is looked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest

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
    Program,
    Reduction,
    Stmt,
    Variable,
    When,
)
from naperian.loops.walk import rebuild_loops, remade, used_in
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.prims import unit
from naperian.sizes import ONE, ZERO, Atom, Size, size

_LONG = 16  # elements, from which on two loops of vectors are faster


def searched(program: Program) -> Program:
    """See the module."""
    sizes = frozenset(program.sizes)

    def block(body: tuple[Stmt, ...], inside: bool) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        both: Stmt | None = None
        for s, after in zip_longest(body, body[1:]):
            if both is not None:  # the second loop of two that are there already
                both = None
                continue
            both = _in_one_go(s, after, sizes) if inside and after is not None else None
            within = inside or isinstance(s, Loop)
            out.append(both or rebuild_loops(s, partial(block, inside=within)))
        return tuple(out)

    return replace(program, body=block(program.body, False))


def _is_short(high: Size) -> Expr:
    some = _op("gt", Number(high), Lit(0, DType.I64), operand=DType.I64)
    return _op("and", some, _op("lt", Number(high), Lit(_LONG, DType.I64), operand=DType.I64))


def _in_one_go(one: Stmt, two: Stmt, sizes: frozenset[Var]) -> Stmt | None:
    """Both ways to search a row, if two statements are those of the first best."""
    match one, two:
        case (
            Loop(j, low, high, (*lets, Assign(top, Apply("max" | "min" as name, (_, x), dtype))),
                 Order.FREE),
            Loop(k, begin, end, (*others, Assign(first, Apply(
                "min", (_, Apply("select", (hit, *_)))))), Order.FREE),
        ) if low == begin == ZERO and high == end:  # fmt: skip
            pass
        case _:
            return None
    known = high.constant is None and all(v in sizes for v in used_in(high))
    if not known or [r.var for r in (*one.reductions, *two.reductions)] != [top, first]:
        return None
    names = _alike(lets, others)
    wanted = _op("eq", x, Local(top), operand=dtype)
    if dtype.is_float:
        wanted = _op("or", wanted, _op("isnan", x, operand=dtype))
    here: dict[Atom, Size] = {k: size(j)}
    looked = remade((*others, Assign(first, hit)), here.get, names or {})
    if names is None or looked != (*lets, Assign(first, wanted)):
        return None
    more = "gt" if name == "max" else "lt"
    value, better, together = Var("value"), Var("better"), Var("all")

    def keep(v: Var, new: Expr, dtype: DType) -> Assign:
        return Assign(v, Apply("select", (Local(better), new, Local(v)), dtype, dtype))

    step: list[Stmt] = [
        *lets,
        Let(value, dtype, x),
        Let(better, DType.BOOL, _op(more, Local(value), Local(top), operand=dtype)),
        keep(top, Local(value), dtype),
        keep(first, Number(size(j)), DType.I64),
    ]
    own = {s.var: fresh(s.var) for s in (*lets, *step) if isinstance(s, Let)}
    at: dict[Atom, Size] = {j: ZERO, **{v: size(to) for v, to in own.items()}}
    head = remade((*lets, Let(value, dtype, x)), at.get, own)
    begin_with = Local(own[value])
    short: tuple[Stmt, ...] = (Assign(first, Lit(0, DType.I64)), *head, Assign(top, begin_with))
    again: tuple[Stmt, ...] = ()
    if dtype.is_float:
        short += (Variable(together, dtype, begin_with),)
        step.append(Assign(together, Apply("add", (Local(together), Local(value)), dtype, dtype)))
        odd, none = Var("odd"), Lit(unit("min", DType.I64), DType.I64)

        def whole(name: str, *args: Expr) -> Expr:
            return Apply(name, args, DType.I64, DType.I64)

        hit = whole("select", _op("isnan", x, operand=dtype), Number(size(j)), none)
        look = (*lets, Assign(odd, whole("min", Local(odd), hit)))
        told = Reduction(odd, "min", DType.I64)
        again = (
            Variable(odd, DType.I64, none),
            replace(one, body=look, order=Order.SERIAL, reductions=(told,)),
            When(
                _op("ne", Local(odd), none, operand=DType.I64),
                (Assign(first, Local(odd)), Assign(top, Lit(math.nan, dtype))),
            ),
        )
        again = (When(_op("isnan", Local(together), operand=dtype), again),)
    row = replace(one, low=ONE, body=tuple(step), order=Order.SERIAL, reductions=two.reductions)
    return When(_is_short(high), (*short, row, *again), (one, two))


def _alike(one: Sequence[Stmt], two: Sequence[Stmt]) -> dict[Var, Var] | None:
    """What the second statements bind, by the names of the first, if all of them bind."""
    if len(one) != len(two):
        return None
    names = {b.var: a.var for a, b in zip(one, two, strict=True)
             if isinstance(a, Let) and isinstance(b, Let)}  # fmt: skip
    return names if len(names) == len(one) else None


def _op(name: str, *args: Expr, operand: DType = DType.BOOL) -> Expr:
    return Apply(name, args, DType.BOOL, operand)
