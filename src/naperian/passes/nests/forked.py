"""A choice behind a test of the same is made in its branches. loops → loops

    before   if c: store p[d] = x                 after    var e = 0
             e = d - 1 if c else d                         if c:
                                                               store p[d] = x
                                                               e := d - 1
                                                           else: e := d

The processor foresees most tests, and goes on with what it foresees. A choice waits for what it
asks: the next round of a search with a stack, or with two ends, would wait for memory.
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
)
from naperian.loops.walk import assigned, mentions, statements, used, writes
from naperian.names import Var, zero


def forked(body: tuple[Stmt, ...]) -> list[Stmt]:
    """The statements of a block of a loop in order; see the module."""
    out: list[Stmt] = []
    test: int | None = None  # where the last test is, if nothing but names and choices came after
    for s in body:
        if isinstance(s, When):
            out, s = _from_ahead(out, s)
            test = len(out)
            out.append(s)
            continue
        if not isinstance(s, Let | Assign):
            test = None
        elif test is not None:
            one = out[test]
            assert isinstance(one, When)
            both = _branches(one, s.value)
            if both is not None and not _moved(s, out[test + 1 :]):
                out[test] = _with(one, s.var, *both)
                if isinstance(s, Let):
                    out.insert(test, Variable(s.var, s.dtype, zero(s.dtype)))
                    test += 1
                continue
        out.append(s)
    return out


def _from_ahead(before: list[Stmt], s: When) -> tuple[list[Stmt], When]:
    """A test with the choices before it that it does not need."""
    out: list[Stmt] = []
    for k, x in enumerate(before):
        both = _branches(s, x.value) if isinstance(x, Let) else None
        if isinstance(x, Let) and both is not None:
            if not any(x.var in mentions(y) for y in (*before[k + 1 :], s)) and not any(
                {*used(x.value)} & _changed(y) for y in before[k + 1 :]
            ):
                out.append(Variable(x.var, x.dtype, zero(x.dtype)))
                s = _with(s, x.var, *both)
                continue
        out.append(x)
    return out, s


def _branches(s: When, e: Expr) -> tuple[Expr, Expr] | None:
    """What a choice is in either branch of a test that does something in memory."""
    if not isinstance(e, Apply) or e.name != "select" or not _acts(s):
        return None
    (one, p), (two, q) = literal(s.condition), literal(e.args[0])
    if one != two or not isinstance(one, Local):
        return None
    changed = {one.var, *used(e)} & (_changed(s))
    if changed:
        return None
    _, yes, no = e.args
    return (yes, no) if p == q else (no, yes)


def _acts(s: When) -> bool:
    return any(not isinstance(x, Let | Variable | Assign | When) for x in statements((s,)))


def _changed(s: Stmt) -> set[Var]:
    """What is another behind a statement."""
    return {v for x in statements((s,)) if (v := writes(x)) is not None}.union(assigned(s))


def _moved(s: Let | Assign, past: list[Stmt]) -> bool:
    """Whether a statement may not go in front of these."""
    names = {s.var, *used(s.value)}
    return any(
        x.var in names or s.var in used(x.value) for x in past if isinstance(x, Let | Assign)
    )


def _with(s: When, v: Var, yes: Expr, no: Expr) -> When:
    return When(s.condition, (*s.then, Assign(v, yes)), (*s.otherwise, Assign(v, no)))


def literal(e: Expr) -> tuple[Expr, bool]:
    """A condition without negations, and whether it must hold."""
    match e:
        case Apply("not", (x,)):
            inner, holds = literal(x)
            return inner, not holds
        case _:
            return e, True
