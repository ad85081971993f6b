"""What nobody reads is not computed. loops → loops

    allocate t[n]                        When a loop is cut where its guards change, the guards
    for i: store t[i] = i >= 1     ⇒     that decided the cuts may have no reader left.
    for i in 1..n: …

A name is needed if a result is made from it, or what the run prints or whether it stops, or which
statements that define a needed name are run. The rest goes, and so do the loops and branches it
leaves empty.
"""

from __future__ import annotations

from naperian.loops.syntax import (
    Allocate,
    Assign,
    Contract,
    Fail,
    Let,
    Loop,
    Print,
    Program,
    Sort,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.loops.walk import blocks, reads, rebuild, takes
from naperian.names import Var
from naperian.node import replace


def unread(program: Program) -> Program:
    """See the module."""
    graph = _Graph()
    graph.block(program.body, None)
    needed = graph.reached({b.var for b in program.buffers})
    return replace(program, body=_without(program.body, needed))


def _defined(s: Stmt) -> Var | None:
    """The name for whose sake alone a statement is there."""
    match s:
        case Let(var) | Variable(var) | Assign(var):
            return var
        case Store(buffer) | Update(buffer):
            return buffer
        case Allocate(buffer):
            return buffer.var
        case Contract() | Sort():
            return s.out[0]
        case Loop() | While() | When() | Fail() | Print():
            return None


class _Graph:
    """Which names a name is made from. A loop or a branch is a name too, `None` at the top: what
    is inside it needs what it evaluates, and what is around it."""

    def __init__(self) -> None:
        self.sources: dict[object, set[object]] = {}
        self.stops: set[object] = set()

    def block(self, body: tuple[Stmt, ...], around: object) -> None:
        for s in body:
            names: set[object] = {*reads(s), *takes(s), around}
            to: object = _defined(s)
            if to is None:
                to = object()
            self.sources.setdefault(to, set()).update(names)
            if isinstance(s, Fail | Print):
                self.stops.add(to)
            for inner in blocks(s):
                self.block(inner, to)

    def reached(self, start: set[Var]) -> set[object]:
        out: set[object] = set()
        todo: list[object] = [*start, *self.stops]
        while todo:
            v = todo.pop()
            if v not in out:
                out.add(v)
                todo.extend(self.sources.get(v, ()))
        return out


def _without(body: tuple[Stmt, ...], needed: set[object]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        name = _defined(s)
        if name is not None:
            if name in needed:
                out.append(s)
            continue
        s = rebuild(s, lambda b: _without(b, needed))
        if isinstance(s, Loop) and any(r.var not in needed for r in s.reductions):
            s = replace(s, reductions=tuple(r for r in s.reductions if r.var in needed))
        if isinstance(s, Fail | Print) or any(blocks(s)):
            out.append(s)
    return tuple(out)
