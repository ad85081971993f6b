"""Inner loops whose rounds touch different elements are vector loops. loops → loops

    before   for j: store m[i, j] = m[i, j] - f * m[k, j]
    after    free for j: store m[i, j] = m[i, j] - f * m[k, j]

The law: where every access to an array that the loop changes has, on one and the same axis, the
loop's variable plus one and the same number, two rounds never meet in an element. So nothing needs
to be known of `i` and `k`. This is the strong SIV test of dependence analysis (Goff, Kennedy and
Tseng, 1991), for distance 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from naperian.loops.syntax import (
    Assign,
    Let,
    Loop,
    Order,
    Stmt,
    Store,
    Update,
    Variable,
    When,
)
from naperian.loops.walk import loads, rebuild, statements
from naperian.names import Var
from naperian.node import replace
from naperian.sizes import Size

At = tuple[Size, ...]


def independent(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    return tuple(rebuild(s, _inside) for s in body)


def _inside(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    out = []
    for s in body:
        new = rebuild(s, _inside)
        if isinstance(new, Loop) and new.order is Order.SERIAL and _apart(new):
            new = replace(new, order=Order.FREE)
        out.append(new)
    return tuple(out)


def _apart(s: Loop) -> bool:
    inside = list(statements(s.body))
    if s.reductions or not all(
        isinstance(x, Let | Variable | Assign | Store | Update | When) for x in inside
    ):
        return False
    own = {x.var for x in inside if isinstance(x, Let | Variable)}
    if any(isinstance(x, Assign) and x.var not in own for x in inside):
        return False
    found: dict[Var, list[At]] = {}
    for x in inside:
        for buffer, at in _accesses(x):
            found.setdefault(buffer, []).append(at)
    changed = {x.buffer for x in inside if isinstance(x, Store | Update)}
    return all(_one_axis(s.var, found[b], own) for b in changed)


def _one_axis(var: Var, places: list[At], own: set[Var]) -> bool:
    """Whether some axis has `var` plus the same number everywhere."""

    def moves(e: Size) -> bool:
        rest = e - var
        return all(isinstance(a, Var) and a != var and a not in own for a in rest.atoms())

    return any(moves(axis[0]) and len(set(axis)) == 1 for axis in zip(*places, strict=True))


def _accesses(s: Stmt) -> Iterator[tuple[Var, At]]:
    """The elements that a statement itself reads and writes."""
    if isinstance(s, Store | Update):
        yield s.buffer, s.at
    for x in loads(s):
        yield x.buffer, x.at
