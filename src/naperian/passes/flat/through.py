"""Which cells go through loops, rather than that their rounds add to them side by side.

    for p: loop z = k while z > 0: (h[z] += 1; z - 1)          the inner loop carries h
    for p: with state(0) as s: for q: (h[q] += s; s := q)      it carries s, and h with it
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from naperian.core import syntax as core
from naperian.core.walk import everything
from naperian.names import Var

_STOPS = (core.Check, core.Checked, core.Loop, core.Scan)


def going_through(flags: Iterable[Var], *bodies: core.Expr | None) -> set[Var]:
    """The cells that loops inside of these expressions carry, among them those they only add to.
    `flags` are the cells that an `except` outside of them has."""
    everywhere = [e for body in bodies if body is not None for e in everything(body)]
    handled = [c for e in everywhere if isinstance(e, core.Handle) for c in e.cells]
    known = {*flags, *(c.var for c in handled if is_flag(c))}
    found: set[Var] = set()
    for e in everywhere:
        match e:
            case core.Loop(condition=condition, body=inner):
                found |= _added(inner)
                found |= _added(condition) if condition is not None else set()
            case core.Scan(body=inner):
                found |= _added(inner)
            case core.For(body=inner) | core.Reduce(value=inner):
                found |= _added(inner) if _in_order(inner, known) else set()
            case _:
                pass
    return found


def _added(body: core.Expr) -> set[Var]:
    adds = (e.reference for e in everything(body) if isinstance(e, core.Add))
    return {v for v in map(root, adds) if v is not None}


def _in_order(body: core.Expr, flags: Set[Var]) -> bool:
    """Whether the rounds of a loop do more with cells outside of them than add to them. That they
    are thrown out of is no more, unless something else can stop them."""
    own: set[Var] = set()
    changed: set[Var | None] = set()
    stops = False
    for e in everything(body):
        match e:
            case core.Handle(cells):
                own |= {c.var for c in cells}
            case core.Assign(reference) | core.Get(reference) | core.Tell(reference):
                changed.add(root(reference))
            case _:
                stops = stops or isinstance(e, _STOPS)
    return not changed - own <= (frozenset() if stops else flags)


def is_flag(cell: core.Cell) -> bool:
    """Whether a cell is an `except`'s."""
    return cell.state and cell.monoid == "and"


def root(reference: core.Expr) -> Var | None:
    """The cell of a reference."""
    while isinstance(reference, core.At):
        reference = reference.table
    return reference.var if isinstance(reference, core.Ref) else None
