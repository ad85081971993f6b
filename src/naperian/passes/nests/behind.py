"""What only the first part of a condition lets be read is read behind it. loops → loops

    before   repeat:                                 after   repeat:
                 c = j > 0                                       c = j > 0
                 v = o[clamp(j - 1, n)]                          var v = 0.0
                                                                 var holds = False
                                                                 if c:
                                                                     v := o[clamp(j - 1, n)]
                                                                     holds := v > x
                 while v > x if c else False: …                  while holds if c else False: …

The back end leaves the loop where c does not hold. There `proved` finds the index in range.
"""

from __future__ import annotations

from naperian.dtypes import DType
from naperian.loops.syntax import Apply, Assign, Expr, Let, Local, Stmt, Variable, When, While
from naperian.loops.walk import (
    all_of,
    assigned,
    conjuncts,
    mentions,
    reads,
    rebuild_loops,
    statements,
    used,
    writes,
)
from naperian.names import Lit, Var, zero
from naperian.passes.nests.guesses import clamped_in

_BOOL = DType.BOOL
_FALSE = Lit(False, _BOOL)


def behind(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    return tuple(
        _behind(x) if isinstance(x, While) else x for x in (rebuild_loops(s, behind) for s in body)
    )


def _behind(s: While) -> While:
    parts = conjuncts(s.condition)
    late: dict[Var, Let] = {}
    for x in s.head:
        if isinstance(x, Let) and (clamped_in(x) or not late.keys().isdisjoint(reads(x))):
            late[x.var] = x
    first = next(
        (k for k, e in enumerate(parts) if _is_clamped(e) or not late.keys().isdisjoint(used(e))),
        len(parts),
    )
    if not 0 < first < len(parts):
        return s
    stays = [x for x in s.head if not (isinstance(x, Let) and x.var in late)]
    changed = {v for x in s.head for v in assigned(x)}
    changed |= {v for y in statements(s.head) if (v := writes(y)) is not None}
    needed = {v for x in late.values() for v in reads(x)}
    if not changed.isdisjoint(needed) or not late.keys().isdisjoint(
        v for x in stays for v in mentions(x)
    ):
        return s
    before, rest = all_of(parts[:first]), all_of(parts[first:])
    c = before.var if isinstance(before, Local) else Var("c")
    if not isinstance(before, Local):
        stays.append(Let(c, _BOOL, before))
    elif c in changed:
        return s
    later = {v for x in s.body for v in mentions(x)}
    holds = Var("holds")
    inner: list[Stmt] = []
    for x in late.values():
        if x.var in later:
            stays.append(Variable(x.var, x.dtype, zero(x.dtype)))
        inner.append(Assign(x.var, x.value) if x.var in later else x)
    stays.append(Variable(holds, _BOOL, _FALSE))
    inner.append(Assign(holds, rest))
    condition = Apply("select", (Local(c), Local(holds), _FALSE), _BOOL, _BOOL)
    return While((*stays, When(Local(c), tuple(inner))), condition, s.body)


def _is_clamped(e: Expr) -> bool:
    return bool(clamped_in(Let(Var("e"), _BOOL, e)))
