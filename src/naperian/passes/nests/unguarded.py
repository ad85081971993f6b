"""What a round does only where something holds, done without asking.

    var v = 0.0                                v = x[i] - x[at] if c else 0.0
    if c:                                ⇒     fails:  c and (at < 0 or at >= n)
        fail 1 if at < 0 or at >= n            exists: at >= 0, n - 1 - at >= 0
        v := x[i] - x[at]

A vector of rounds computes on both sides of a condition. It may read what it does not need where
every round of the loop finds an element there, which is asked once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Fail,
    Let,
    Load,
    Loop,
    Number,
    Stmt,
    Store,
    Variable,
    When,
)
from naperian.loops.walk import (
    all_of,
    atoms,
    expressions,
    parts,
    statements,
    step,
    used,
    used_in,
)
from naperian.names import Var
from naperian.sizes import ZERO, Size, rename

Shapes = Mapping[Var, tuple[Size, ...]]


@dataclass
class Unguarded:
    """The rounds of a loop: names and values that nothing guards, assignments to what outlives a
    round, the conditions under which it fails, and those under which all of its places exist."""

    loop: Loop
    shapes: Shapes
    body: list[Stmt] = field(default_factory=list)
    fails: list[Expr] = field(default_factory=list)
    exists: list[Expr] = field(default_factory=list)
    _own: dict[Var, Variable] = field(default_factory=dict)  # not yet assigned in the round

    def find(self) -> bool:
        """Whether the rounds can be done so."""
        return all(self._stmt(s, ()) for s in self.loop.body) and not self._own

    def _stmt(self, s: Stmt, under: tuple[Expr, ...]) -> bool:
        if under and not all(self._is_there(x) for e in expressions(s) for x in _loads(e)):
            return False
        if not self._own.keys().isdisjoint(v for e in expressions(s) for v in used(e)):
            return False  # what it starts as, which is not what the name stands for
        match s:
            case Let():
                self.body.append(s)
            case Variable(v) if not under:
                self._own[v] = s
            case Assign(v, value) if v in self._own and under:
                own = self._own.pop(v)
                t = own.dtype
                choice = Apply("select", (all_of(under), value, own.value), t, t)
                self.body.append(Let(v, t, choice))
            case Assign():
                self.body.append(When(all_of(under), (s,)) if under else s)
            case Fail(condition):
                self.fails.append(all_of((*under, condition)))
            case Store() if not under:
                self.body.append(s)
            case When(condition, then, otherwise):
                not_ = Apply("not", (condition,), DType.BOOL, DType.BOOL)
                return all(self._stmt(x, (*under, condition)) for x in then) and all(
                    self._stmt(x, (*under, not_)) for x in otherwise
                )
            case _:
                return False
        return True

    def _is_there(self, e: Load) -> bool:
        """Whether the run can ask, for all rounds together, if there is such an element."""
        shape = self.shapes.get(e.buffer)
        if shape is None or len(shape) != len(e.at):
            return False
        low, high = self.loop.low, self.loop.high - 1
        if any(map(self._is_found, e.at)):
            return False
        for i, n in zip(e.at, shape, strict=True):
            by = step(i, self.loop.var)
            if by is None:  # between its first and its last place it goes anywhere
                return False
            first, last = (rename(i, {self.loop.var: end}) for end in (low, high))
            if by < 0:
                first, last = last, first
            for least in (first, n - 1 - last):
                if least.constant is None or least.constant < 0:
                    asked = Apply("ge", (Number(least), Number(ZERO)), DType.BOOL, DType.I64)
                    if asked not in self.exists:
                        self.exists.append(asked)
        return True

    def _is_found(self, i: Size) -> bool:
        """Whether only the round knows a place, which it has computed, or read."""
        inside = statements(self.loop.body)
        if {x.var for x in inside if isinstance(x, Let | Variable)}.intersection(used_in(i)):
            return True
        read = [a for a in atoms(i) if isinstance(a, Load)]
        return any(self.loop.var in used_in(k) for a in read for k in a.at)


def _loads(e: Expr) -> Iterator[Load]:
    return (x for x in parts(e) if isinstance(x, Load))
