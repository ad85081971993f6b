"""What stands under one condition in a row, or under its opposite, is asked once. loops → loops

    before   new = True if first else x[i] != x[i - 1]
             if new: store v[k + 1] = x[i]
             if new: store c[k + 1] = 1
             if not(first):
                 if x[i] == x[i - 1]: update c[k] += 1

    after    if new:
                 store v[k + 1] = x[i]
                 store c[k + 1] = 1
             else: update c[k] += 1

Only in loops in order, where every test is a jump: in the others tests become masks.
"""

from __future__ import annotations

from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Let,
    Local,
    Loop,
    Order,
    Stmt,
    Variable,
    When,
    While,
)
from naperian.loops.walk import rebuild, statements, used, writes
from naperian.names import Lit, Var
from naperian.node import replace

_Known = dict[Expr, bool]


def joined(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    return _block(body, False, {})


def _block(body: tuple[Stmt, ...], in_order: bool, outer: dict[Var, Expr]) -> tuple[Stmt, ...]:
    definitions = dict(outer)
    out: list[Stmt] = []
    for s in body:
        match s:
            case Let(var, _, value):
                definitions[var] = value
            case When() if in_order and out and isinstance(out[-1], When):
                both = _together(out[-1], s, definitions)
                if both is not None:
                    out[-1] = both
                    continue
            case _:
                pass
        out.append(s)

    def inner(s: Stmt) -> Stmt:
        deeper = s.order is Order.SERIAL if isinstance(s, Loop) else in_order
        deeper = deeper or isinstance(s, While)
        return rebuild(s, lambda b: _block(b, deeper, definitions))

    return tuple(map(inner, out))


def _together(one: When, two: When, definitions: dict[Var, Expr]) -> When | None:
    """Two statements as one, if the second asks again what the first asked."""
    if _changes(one, two.condition):
        return None
    if one.condition == two.condition:
        return replace(one, then=(*one.then, *two.then), otherwise=(*one.otherwise, *two.otherwise))
    inner, asked = _stripped(two)
    if asked == _opposite(one.condition, definitions) and not any(
        _changes(one, e) for e in (one.condition, *asked)
    ):
        return replace(one, otherwise=(*one.otherwise, *inner))
    return None


def _changes(s: Stmt, condition: Expr) -> bool:
    names = set(used(condition))
    for x in statements((s,)):
        if writes(x) in names or (isinstance(x, Assign | Variable) and x.var in names):
            return True
    return False


def _stripped(s: When) -> tuple[tuple[Stmt, ...], _Known]:
    """What stands under conditions one in the other, and what holds there."""
    asked: _Known = {}
    body: tuple[Stmt, ...] = (s,)
    while len(body) == 1 and isinstance(body[0], When) and not body[0].otherwise:
        e, holds = _literal(body[0].condition)
        asked[e] = holds
        body = body[0].then
    return body, asked


def _literal(e: Expr) -> tuple[Expr, bool]:
    match e:
        case Apply("not", (x,)):
            inner, holds = _literal(x)
            return inner, not holds
        case _:
            return e, True


def _opposite(e: Expr, definitions: dict[Var, Expr]) -> _Known:
    """What holds, all of it, exactly where a condition does not. What it was made of is what it was
    then only if it was bound, not assigned."""
    one, holds = _literal(e)
    if holds and isinstance(one, Local):
        match definitions.get(one.var):
            case Apply("select", (x, Lit(True), y)) | Apply("or", (x, y)):
                (a, p), (b, q) = _literal(x), _literal(y)
                bound = all(isinstance(z, Local) and z.var in definitions for z in (a, b))
                return {a: not p, b: not q} if a != b and bound else {one: False}
            case _:
                pass
    return {one: not holds}
