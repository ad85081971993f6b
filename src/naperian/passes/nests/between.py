"""What stands between two tests of one condition does not keep them apart. loops → loops

    before   if c: store p[d] = x                 after    y = d + 1
             y = d + 1                                     if c:
             if c: store q[y] = z                              store p[d] = x
             e = d - 1 if c else d                             store q[y] = z
                                                           e = d - 1 if c else d

A name goes in front of both if the second needs or changes it, else behind them. A few elements
that are stored in between are stored in both branches.
"""

from __future__ import annotations

from collections.abc import Callable

from naperian.loops.syntax import Expr, Fail, Let, Load, Number, Stmt, Store, Variable, When
from naperian.loops.walk import assigned, atoms, mentions, parts, reads, statements, writes
from naperian.names import Var
from naperian.sizes import Quotient, Remainder

_FEW = 2  # elements that are stored in both branches, and texts of code twice

_Together = Callable[[When, When], When | None]


def met(before: list[Stmt], second: When, together: _Together) -> list[Stmt] | None:
    """The statements with one more, if it can be joined to the last test among them."""
    k = len(before) - 1
    while k >= 0 and isinstance(before[k], Let | Variable | Store):
        k -= 1
    first = before[k] if k >= 0 else None
    if not isinstance(first, When):
        return None
    ahead: list[Stmt] = []
    behind: list[Stmt] = []
    stored: list[Stmt] = []
    wanted = mentions(second) | assigned(second)
    for s in reversed(before[k + 1 :]):
        if isinstance(s, Store):
            if any(s.buffer in reads(x) for x in ahead):  # it would be read before it is stored
                return None
            stored.insert(0, s)
            wanted |= reads(s)
        elif isinstance(s, Let | Variable) and s.var in wanted:
            ahead.insert(0, s)
            wanted |= reads(s)
        else:
            behind.insert(0, s)
    ends = any(isinstance(s, Fail) for s in statements((first,)))
    if any(_depends(s, (first,)) or (ends and not _total(s)) for s in ahead):
        return None
    if any(_depends(s, (*stored, second)) for s in behind):
        return None
    if len(stored) > _FEW or not _writes(tuple(stored)).isdisjoint(reads(second)):
        return None
    if stored:
        first = When(first.condition, (*first.then, *stored), (*first.otherwise, *stored))
    both = together(first, second)
    return None if both is None else [*before[:k], *ahead, both, *behind]


def _writes(body: tuple[Stmt, ...]) -> set[Var]:
    return {v for s in statements(body) if (v := writes(s)) is not None}


def _depends(s: Stmt, on: tuple[Stmt, ...]) -> bool:
    """Whether a name is another before these than behind them."""
    changed = _writes(on).union(*(assigned(x) for x in on))
    return not changed.isdisjoint(reads(s))


def _total(s: Stmt) -> bool:
    """Whether a name can be bound where the run may have ended without it."""
    assert isinstance(s, Let | Variable)
    return all(_is_total(x) for x in parts(s.value))


def _is_total(e: Expr) -> bool:
    match e:
        case Load():
            return False
        case Number(n):
            return not any(isinstance(a, Load) for a in atoms(n)) and not any(
                isinstance(a, Quotient | Remainder) for a in n.atoms
            )
        case _:
            return getattr(e, "name", "") not in ("floordiv", "mod")
