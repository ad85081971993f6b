"""Inner loops whose rounds touch different elements are vector loops. loops → loops

    before   for j: store m[i, j] = m[i, j] - f * m[k, j]
    after    free for j: store m[i, j] = m[i, j] - f * m[k, j]

The law: where every access to an array that the loop changes has, on one and the same axis, the
loop's variable, or its negative, plus one and the same number, two rounds never meet in an element.
So nothing needs to be known of `i` and `k`. This is the strong SIV test of dependence analysis
(Goff, Kennedy and Tseng, 1991), for distance 0. What lies in another row, as `m[i - 1, c]`
beside `m[i, j]`, meets nothing that is written: the ZIV test.

What rounds that change an array add up besides may be added in any order, unless the program is
`strict`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from naperian.loops.edges import ends_apart
from naperian.loops.syntax import (
    Apply,
    Assign,
    Let,
    Local,
    Loop,
    Order,
    Stmt,
    Store,
    Update,
    Variable,
    When,
)
from naperian.loops.walk import atoms, expressions, loads, mentions, rebuild_loops, statements, used
from naperian.names import Var
from naperian.node import replace
from naperian.sizes import Size, size

At = tuple[Size, ...]


def independent(body: tuple[Stmt, ...], strict: bool) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    out: list[Stmt] = []
    for s in body:
        new = rebuild_loops(s, lambda b: independent(b, strict))
        sums = isinstance(new, Loop) and new.reductions
        if (
            isinstance(new, Loop) and new.order is Order.SERIAL
            and not (strict and sums) and are_apart(new)
        ):  # fmt: skip
            out += ends_apart(replace(new, order=Order.FREE))
        else:
            out.append(new)
    return tuple(out)


def are_apart(s: Loop) -> bool:
    """Whether no two rounds of a loop meet in an element."""
    inside = list(statements(s.body))
    if not all(
        isinstance(x, Let | Variable | Assign | Store | Update | When) for x in inside
    ):
        return False
    own = {x.var for x in inside if isinstance(x, Let | Variable)}
    sums = {r.var: r.monoid for r in s.reductions}
    if not all(_only_adds(x, sums) for x in inside):
        return False
    own |= sums.keys()
    if any(isinstance(x, Assign) and x.var not in own for x in inside):
        return False
    found: dict[Var, list[At]] = {}
    for x in inside:
        for buffer, at in _accesses(x):
            found.setdefault(buffer, []).append(at)
    written: dict[Var, list[At]] = {}
    for x in inside:
        if isinstance(x, Store | Update):
            written.setdefault(x.buffer, []).append(x.at)
    if sums and not written:
        return False  # it only sums: in order it was put because rows are short (`short`)
    own.add(s.var)
    return all(
        _one_axis(s.var, [at for at in found[b] if not _elsewhere(at, places, own)], own)
        for b, places in written.items()
    )


def _elsewhere(at: At, written: list[At], own: set[Var]) -> bool:
    """Whether on some axis a place is another one than all that are written, in all rounds: neither
    depends on what is `own` to a round."""

    def apart(axis: tuple[Size, ...]) -> bool:
        first, *others = axis
        same = all(isinstance(a, Var) and a not in own for e in axis for a in e.atoms)
        return same and all((first - e).constant not in (None, 0) for e in others)

    return any(map(apart, zip(at, *written, strict=True)))


def _only_adds(s: Stmt, sums: Mapping[Var, str]) -> bool:
    """Whether a statement mentions sums only to add to them, or the like."""
    if not (sums.keys() & mentions(s)) or isinstance(s, When):
        return not any(v in used(e) for e in expressions(s) for v in sums)
    match s:
        case Assign(var, Apply(name, (Local(v), new))) if v == var and name == sums.get(var):
            return sums.keys().isdisjoint(used(new))
    return False


def _one_axis(var: Var, places: list[At], own: set[Var]) -> bool:
    """Whether some axis has `var`, or so many times that, plus the same number everywhere."""

    def moves(e: Size) -> bool:
        by = e.coefficient(var)
        rest = e - size(var) * by
        known = (isinstance(a, Var) and a != var and a not in own for a in atoms(rest))
        return by != 0 and all(known)

    return any(moves(axis[0]) and len(set(axis)) == 1 for axis in zip(*places, strict=True))


def _accesses(s: Stmt) -> Iterator[tuple[Var, At]]:
    """The elements that a statement itself reads and writes."""
    if isinstance(s, Store | Update):
        yield s.buffer, s.at
    for x in loads(s):
        yield x.buffer, x.at
