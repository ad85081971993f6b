"""A loop whose rounds may fail is tried as vectors first. loops → loops

    before   free for j in 0..n:
                 v = 0.5 * x[j]
                 fail 1 if not(v <= 255)
                 store y[j] = u8(v)

    after    var odd = False
             free for j in 0..n reducing or odd:
                 v = 0.5 * x[j]
                 odd := odd or not(v <= 255)
                 store y[j] = u8(v)
             if odd: for j in 0..n:
                 v = 0.5 * x[j]
                 fail 1 if not(v <= 255)

A loop with a way out is not done in vectors. What a round does after it should have failed nobody
sees, if it can do no harm: the places where it stores and reads hang on nothing that the rounds
compute. If one did fail, the rounds are made again in order, without what they store, and the first
that fails says so.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Fail,
    Let,
    Local,
    Loop,
    Order,
    Reduction,
    Stmt,
    Store,
    Variable,
    When,
)
from naperian.loops.walk import index_expressions, loads, rebuild, statements, used_in
from naperian.names import Lit, Var


def tried(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Loop) and s.order in (Order.FREE, Order.PARALLEL) and _is_harmless(s):
            out += _both(s)
        else:
            out.append(rebuild(s, tried))
    return tuple(out)


def _is_harmless(s: Loop) -> bool:
    """Whether rounds may fail, and may go on when they should have."""
    inside = list(statements(s.body))
    if not any(isinstance(x, Fail) for x in inside):
        return False
    if not all(isinstance(x, Let | Variable | Assign | Store | When | Fail) for x in inside):
        return False
    stored = {x.buffer for x in inside if isinstance(x, Store)}
    if any(x.buffer in stored for y in inside for x in loads(y)):
        return False
    made = {x.var for x in inside if isinstance(x, Let | Variable)} | {r.var for r in s.reductions}
    indices = (v for x in inside for i in index_expressions(x) for v in used_in(i))
    return made.isdisjoint(indices) and all(x.code >= 0 for x in inside if isinstance(x, Fail))


def _both(s: Loop) -> tuple[Stmt, ...]:
    """The rounds as vectors, and once more if one of them failed."""
    odd = Var("odd")
    flag = Reduction(odd, "or", DType.BOOL)
    sums = {r.var for r in s.reductions}
    fast = replace(s, body=_noted(s.body, odd=odd), reductions=(*s.reductions, flag))
    again = replace(s, body=_alone(s.body, sums=sums), order=Order.SERIAL, reductions=())
    return (
        Variable(odd, DType.BOOL, Lit(False, DType.BOOL)),
        fast,
        When(Local(odd), (again,)),
    )


def _noted(body: tuple[Stmt, ...], odd: Var) -> tuple[Stmt, ...]:
    """Statements that say whether they would have failed."""

    def noted(s: Stmt) -> Stmt:
        if isinstance(s, Fail):
            return Assign(odd, _either(Local(odd), s.condition))
        return rebuild(s, partial(_noted, odd=odd))

    return tuple(noted(s) for s in body)


def _alone(body: tuple[Stmt, ...], sums: set[Var]) -> tuple[Stmt, ...]:
    """What statements compute to see whether they fail: nothing that is stored or summed."""
    return tuple(
        rebuild(s, partial(_alone, sums=sums))
        for s in body
        if not isinstance(s, Store) and not (isinstance(s, Assign) and s.var in sums)
    )


def _either(x: Expr, y: Expr) -> Expr:
    return Apply("or", (x, y), DType.BOOL, DType.BOOL)
