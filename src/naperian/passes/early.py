"""A check that does not depend on a loop comes before it. loops → loops

    before   parallel for i in 0..n:
                 fail 1 if not(valid)
                 store y[i] = …
    after    if 0 < n:
                 fail 1 if not(valid)
             parallel for i in 0..n:
                 store y[i] = …

A function that checks its sizes and is lifted has one in every loop over its frame. Only what a
round checks first may come before the loop, because the first failure is the one that is told. A
loop of nothing else is gone.
"""

from __future__ import annotations

from dataclasses import replace

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Fail,
    Let,
    Loop,
    Number,
    Program,
    Stmt,
    Variable,
    When,
)
from naperian.loops.walk import mentions, rebuild, statements, writes
from naperian.names import Var


def early(program: Program) -> Program:
    """See the module."""
    return replace(program, body=_block(program.body))


def _block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        s = rebuild(s, _block)
        if isinstance(s, Loop):
            changed = _changed(s)
            first: list[Stmt] = []
            rest: list[Stmt] = []
            for k, x in enumerate(s.body):
                if _is_check(x) and changed.isdisjoint(mentions(x)):
                    first.append(x)
                elif isinstance(x, Let | Allocate):
                    rest.append(x)
                else:
                    rest += s.body[k:]
                    break
            if first:
                some = Apply("lt", (Number(s.low), Number(s.high)), DType.BOOL, DType.I64)
                out.append(When(some, tuple(first)))
                if all(isinstance(x, Let | Allocate) for x in rest):
                    continue
                s = replace(s, body=tuple(rest))
        out.append(s)
    return tuple(out)


def _is_check(s: Stmt) -> bool:
    match s:
        case Fail():
            return True
        case When(_, then, ()):
            return all(_is_check(x) for x in then)
        case _:
            return False


def _changed(s: Loop) -> set[Var]:
    """What a round binds or changes."""
    changed = {s.var}
    for x in statements(s.body):
        match x:
            case Let(v) | Variable(v) | Assign(v) | Loop(v):
                changed.add(v)
            case Allocate(buffer):
                changed.add(buffer.var)
            case _:
                pass
        if (to := writes(x)) is not None:
            changed.add(to)
    return changed
