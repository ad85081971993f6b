"""What a loop does only under a condition that it does not change is asked once. loops → loops

    before   for q: r = i64(x[i] * s[q])          after    if e[i, j]:
                 if e[i, j]: update o[q, r] += 1               for q: r = …; update o[q, r] += 1

A check that fails in every round or in none is such a condition. It may load (`unswitch` asks only
what was computed before the loop and has a name), so it is evaluated only if the loop has a round.
"""

from __future__ import annotations

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Stmt,
    Variable,
    When,
)
from naperian.loops.walk import all_of, atoms, parts, rebuild_loops, statements, used, writes
from naperian.names import Lit, Var
from naperian.node import replace


def once(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    return tuple(_asked(rebuild_loops(s, once)) for s in body)


def _asked(s: Stmt) -> Stmt:
    if not isinstance(s, Loop) or s.order not in (Order.SERIAL, Order.FREE):
        return s
    needed = _needed(s.body, changed(s))
    if not needed:
        return s
    body = s.body
    for c in needed:
        body = _given(body, c)
    return When(asked(all_of(list(needed)), s), (replace(s, body=body),))


def asked(condition: Expr, s: Loop) -> Expr:
    """A condition in front of a loop, asked only if that has a round."""
    rounds = s.high - s.low
    if rounds.constant is not None and rounds.constant > 0:
        return condition
    some = Apply("gt", (Number(rounds), Lit(0, DType.I64)), DType.BOOL, DType.I64)
    return all_of([some, condition])


def _is_named(e: Expr) -> bool:
    """Whether it was computed before, as `unswitch` asks for."""
    match e:
        case Apply("not", (x,)):
            return _is_named(x)
        case _:
            return isinstance(e, Local)


def _needed(body: tuple[Stmt, ...], changed: set[Var]) -> dict[Expr, None]:
    """The conditions without each of which the statements do nothing, and that may be asked before
    the loop: one that loads stands under no other, or one that is asked first."""
    found: dict[Expr, None] | None = None
    for s in body:
        match s:
            case Let():
                continue
            case When(condition, then, ()):
                mine, inner = _may(condition, changed), _needed(then, changed)
                mine |= {c: None for c in inner if mine or not loaded(c)}
            case Fail(condition):
                mine = _may(condition, changed)
            case _:
                return {}
        found = mine if found is None else {c: None for c in found if c in mine}
    return found or {}


def _may(e: Expr, changed: set[Var]) -> dict[Expr, None]:
    return {} if _is_named(e) or not changed.isdisjoint(used(e)) else {e: None}


def loaded(e: Expr) -> bool:
    """Whether an expression reads memory."""
    indices = (a for x in parts(e) if isinstance(x, Number) for a in atoms(x.value))
    return any(isinstance(x, Load) for x in (*parts(e), *indices))


def _given(body: tuple[Stmt, ...], condition: Expr) -> tuple[Stmt, ...]:
    """The statements where the condition holds."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, When):
            then = _given(s.then, condition)
            out += then if s.condition == condition else (replace(s, then=then),)
        else:
            out.append(s)
    return tuple(out)


def changed(s: Loop) -> set[Var]:
    """What is another in another round."""
    out = {s.var}
    for x in statements(s.body):
        buffer = writes(x)
        if buffer is not None:
            out.add(buffer)
        if isinstance(x, (Let, Variable, Assign, Loop)):
            out.add(x.var)
    return out
