"""Blocks under construction: statements, each with the guards it stands under."""

from __future__ import annotations

from typing import TypeAlias

from naperian.dtypes import DType
from naperian.loops import syntax as loops
from naperian.loops.syntax import Expr, Stmt

Guards: TypeAlias = tuple[tuple[Expr, bool], ...]
"""Conditions and the value each must have."""


class Block:
    """Statements, each with the guards it stands under."""

    def __init__(self, guards: Guards = (), entries: list[tuple[Guards, Stmt]] | None = None):
        self.guards = guards
        self.entries: list[tuple[Guards, Stmt]] = [] if entries is None else entries

    def put(self, s: Stmt, guards: Guards = ()) -> None:
        self.entries.append((self.guards + guards, s))

    def under(self, guards: Guards) -> Block:
        """The same block, under more guards."""
        return Block(self.guards + guards, self.entries) if guards else self

    def statements(self) -> tuple[Stmt, ...]:
        return _fold(self.entries, 0)


def _fold(entries: list[tuple[Guards, Stmt]], depth: int) -> tuple[Stmt, ...]:
    """Neighbours under the same guard share a `When`, opposite ones its two sides."""
    out: list[Stmt] = []
    k = 0

    def run(condition: Expr, holds: bool) -> tuple[Stmt, ...]:
        nonlocal k
        start = k
        while k < len(entries) and entries[k][0][depth : depth + 1] == ((condition, holds),):
            k += 1
        return _fold(entries[start:k], depth + 1)

    while k < len(entries):
        guards, s = entries[k]
        if len(guards) <= depth:
            out.append(s)
            k += 1
            continue
        condition, holds = guards[depth]
        one = run(condition, holds)
        other = run(condition, not holds)
        if holds:
            out.append(loops.When(condition, one, other))
        elif other:
            out.append(loops.When(condition, other, one))
        else:
            no = loops.Apply("not", (condition,), DType.BOOL, DType.BOOL)
            out.append(loops.When(no, one))
    return tuple(out)
