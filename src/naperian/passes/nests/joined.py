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

Who asks for the parts of a conjunction, one in the other, asks for it, or for the opposite of what
was made of their opposites.

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
from naperian.loops.walk import rebuild, statements, used, with_blocks, writes
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.passes.nests.between import met
from naperian.passes.nests.forked import forked, literal
from naperian.passes.nests.sink import sunk

_Known = dict[Expr, bool]


def joined(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    return _block(body, False, {})


def _block(body: tuple[Stmt, ...], in_order: bool, outer: dict[Var, Expr]) -> tuple[Stmt, ...]:
    definitions = outer | {s.var: s.value for s in body if isinstance(s, Let)}
    if in_order:
        body = _gathered(body, definitions)

    def inner(s: Stmt) -> Stmt:
        if isinstance(s, While):  # what its head binds its body needs: nothing moves into branches
            head = _block(s.head, False, definitions)
            return with_blocks(s, head, _block(s.body, True, definitions))
        deeper = s.order is Order.SERIAL if isinstance(s, Loop) else in_order
        return rebuild(s, lambda b: _block(b, deeper, definitions))

    return tuple(map(inner, body))


def _gathered(body: tuple[Stmt, ...], definitions: dict[Var, Expr]) -> tuple[Stmt, ...]:
    before, tests = 0, _tests(body)
    while before != tests:
        out: list[Stmt] = []
        for s in sunk(body, lambda _: True):
            both = None
            if isinstance(s, When):
                both = met(out, s, lambda one, two: _together(one, two, definitions))
            out = both or [*out, s]
        body = tuple(out)
        before, tests = tests, _tests(body)  # fewer: a name may be needed in one of them alone now
    return tuple(forked(body)) if tests else body


def _tests(body: tuple[Stmt, ...]) -> int:
    return sum(isinstance(s, When) for s in body)


def _together(one: When, two: When, definitions: dict[Var, Expr]) -> When | None:
    """Two statements as one, if the second asks again what the first asked."""
    if _changes(one, two.condition):
        return None
    if one.condition == two.condition:
        return replace(one, then=(*one.then, *two.then), otherwise=(*one.otherwise, *two.otherwise))
    (e, p), (f, q) = literal(one.condition), literal(two.condition)
    if e == f and p != q and not _changes(one, e):
        return replace(one, then=(*one.then, *two.otherwise), otherwise=(*one.otherwise, *two.then))
    inner, asked = _stripped(two)
    if any(_changes(one, e) for e in (one.condition, *asked)):
        return None
    if asked == _exactly(one.condition, True, definitions):
        return replace(one, then=(*one.then, *inner))
    if asked == _exactly(one.condition, False, definitions):
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
        e, holds = literal(body[0].condition)
        asked[e] = holds
        body = body[0].then
    return body, asked


def _exactly(e: Expr, holds: bool, definitions: dict[Var, Expr]) -> _Known:
    """What holds, all of it, exactly where a condition does, or does not. What it was made of is
    what it was then only if it was bound, not assigned."""
    one, positive = literal(e)
    holds = holds == positive
    made = definitions.get(one.var) if isinstance(one, Local) else None
    match made, holds:
        case (Apply("select", (x, Lit(True), y)) | Apply("or", (x, y))), False:
            pass
        case (Apply("select", (x, y, Lit(False))) | Apply("and", (x, y))), True:
            pass
        case _:
            return {one: holds}
    (a, p), (b, q) = literal(x), literal(y)
    bound = all(isinstance(z, Local) and z.var in definitions for z in (a, b))
    return {a: p == holds, b: q == holds} if a != b and bound else {one: holds}
