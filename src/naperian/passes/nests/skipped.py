"""Rounds that cannot be better than the best so far are left out. loops → loops

    before   for i in 0..n: for j in 0..n:
                 value = d[i, j] if i < j and on[i] and on[j] else inf
                 better = not(value >= best) and best == best
                 at := n * i + j if better else at
                 best := min(best, value)

    after    for i in 0..n:
                 if i + 1 < n and on[i]:
                     for j in i + 1..n:
                         value = d[i, j] if on[j] else inf
                         …

Where the condition does not hold, the value is the worst there is, and the round changes nothing.
What of the condition a loop does not change is asked in front of it, if the loop has a round and
nothing but such stands before it, so that it would be asked; a comparison of the loop's index with
that of a loop around says where it begins or ends.
"""

from __future__ import annotations

import math

from naperian.loops.syntax import Apply, Assign, Expr, Let, Local, Loop, Number, Order, Stmt, When
from naperian.loops.walk import all_of, conjuncts, rebuild, used
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.passes.nests.once import asked, changed
from naperian.sizes import ZERO, clamp, size

_WORST = {"min": ("ge", math.inf), "max": ("le", -math.inf)}


def skipped(body: tuple[Stmt, ...], around: frozenset[Var] = frozenset()) -> tuple[Stmt, ...]:
    """The statements of a program, or of loops with these indices, which are not negative."""
    out: list[Stmt] = []
    for s in body:
        here = around | {s.var} if isinstance(s, Loop) and s.low == ZERO else around
        s = rebuild(s, lambda b, here=here: skipped(b, here))  # type: ignore[misc]
        out.append(_less(s, around) if isinstance(s, Loop) and s.order is Order.SERIAL else s)
    return tuple(out)


def _less(s: Loop, around: frozenset[Var]) -> Stmt:
    """The loop without rounds that are known to do nothing."""
    match s.body:
        case (Let(v, dtype, Apply("select", (condition, value, Lit() as worst), t, o)), *rest) if (
            _keeps_best(rest, Local(v), worst)
        ):
            pass
        case _:
            return s
    moved = changed(s)
    own: list[Expr] = []
    before: list[Expr] = []
    for c in conjuncts(condition):
        cut = _cut(s, c, around)
        if cut is not None:
            s = cut
        elif not own and moved.isdisjoint(used(c)):
            before.append(c)
        else:
            own.append(c)
    if own:
        value = Apply("select", (all_of(own), value, worst), t, o)
    s = replace(s, body=(Let(v, dtype, value), *rest))
    return When(asked(all_of(before), s), (s,)) if before else s


def _keeps_best(rest: list[Stmt], value: Expr, worst: Lit) -> bool:
    """Whether statements only ask whether a value is better, and keep it and its place if so."""
    match rest:
        case (
            Let(better, _, compares),
            Assign(at, Apply("select", (Local(b), _, Local(old)))),
            Assign(best, Apply(monoid, (Local(so_far), kept))),
        ) if better == b and at == old and best == so_far and kept == value and monoid in _WORST:
            how, number = _WORST[monoid]
            return worst.value == number and _is_better(compares, how, value, Local(best))
    return False


def _is_better(e: Expr, how: str, value: Expr, best: Expr) -> bool:
    """Whether this says that a value is better, and the best so far a number."""
    match e:
        case Apply("and", (Apply("not", (Apply(name, (x, y)),)), Apply("eq", (z, w)))):
            return name == how and (x, y, z, w) == (value, best, best, best)
        case _:
            return False


def _cut(s: Loop, c: Expr, around: frozenset[Var]) -> Loop | None:
    """The loop where a comparison with an index around it holds, if it compares nothing else."""
    match c:
        case Apply("lt", (Number(x), Number(y))):
            more = 1
        case Apply("le", (Number(x), Number(y))):
            more = 0
        case _:
            return None
    i = size(s.var)
    if y == i and x.single in around and s.low == ZERO:
        return replace(s, low=x + more)
    if x == i and y.single in around:
        return replace(s, high=clamp(y + 1 - more, s.high + 1))
    return None
