"""What one condition guards, statement by statement, stands under it once. loops → loops

    before   better = x[i] > o[k - 1]
             var j = k - 1
             repeat:
                 if better: …
                 while (j > 0 and o[j - 1] < x[i]) if better else False:
                     if better: store o[j] = o[j - 1]
                     j := j - 1
             if better: store o[j] = x[i]

    after    better = x[i] > o[k - 1]
             var j = k - 1
             if better:
                 repeat:
                     …
                     while j > 0 and o[j - 1] < x[i]:
                         store o[j] = o[j - 1]
                         j := j - 1
                 store o[j] = x[i]

Where it seldom holds, a loop over time does nothing in most rounds, and now it takes one jump.
"""

from __future__ import annotations

from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Let,
    Local,
    Stmt,
    Variable,
    When,
    While,
)
from naperian.loops.walk import rebuild, rebuild_loops, statements
from naperian.names import Lit, Var


def guarded(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    out: list[Stmt] = []
    run: list[Stmt] = []
    guard: Var | None = None

    def close() -> None:
        nonlocal guard
        inside = list(statements(tuple(run)))
        same = not any(isinstance(x, Assign) and x.var == guard for x in inside)
        if guard is not None and same and any(isinstance(x, While) for x in inside):
            inner = tuple(y for x in run for y in _under(x, guard))
            out.append(When(Local(guard), guarded(inner)))
        else:
            out.extend(rebuild_loops(x, guarded) for x in run)
        run.clear()
        guard = None

    for s in body:
        own = _guard(s)
        if own is None or own != guard:
            close()
        guard = own
        (out if own is None else run).append(s if own is not None else rebuild_loops(s, guarded))
    close()
    return tuple(out)


def _guard(s: Stmt) -> Var | None:
    """The condition without which a statement does nothing."""
    match s:
        case When(Local(v), _, ()):
            return v
        case While(head, Apply("select", (Local(v), _, Lit(False))), _) if all(
            x.var != v if isinstance(x, Let | Variable) else _guard(x) == v for x in head
        ):
            return v
        case _:
            return None


def _under(s: Stmt, guard: Var) -> tuple[Stmt, ...]:
    """A statement where its guard is known to hold."""

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(y for x in body for y in _under(x, guard))

    match s:
        case When(Local(v), then, _) if v == guard:
            return block(then)
        case While(head, condition, body):
            return (While(block(head), _known(condition, guard), block(body)),)
        case _:
            return (rebuild(s, block),)


def _known(e: Expr, guard: Var) -> Expr:
    match e:
        case Apply("select", (Local(v), yes, _)) if v == guard:
            return _known(yes, guard)
        case _:
            return e
