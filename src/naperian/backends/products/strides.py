"""The loops of a contraction and how far they step through its arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from naperian.loops.syntax import Load
from naperian.loops.walk import used_in
from naperian.names import Var
from naperian.sizes import ONE, Atom, Size, elements

_VECTORS = 8  # elements that lie side by side, and are worth loops around

Loops: TypeAlias = tuple[tuple[Var, Size], ...]
Offset: TypeAlias = Callable[[Var, tuple[Size, ...]], Size]
"""The distance of an element from its buffer's first, as a polynomial."""


def stride(offset: Size, v: Var) -> Size:
    """The factor of a loop variable."""
    return Size(tuple((tuple(a for a in m if a != v), c) for m, c in offset.terms if v in m))


def constant(offset: Size, vanish: set[Var]) -> Size:
    """The value where loop variables are 0, and what a table says of them. (What a table says of
    other loops, where a row of theirs begins, is as constant as they are.)"""
    return Size(tuple(
        (m, c) for m, c in offset.terms
        if vanish.isdisjoint(m) and not any(_told(a, vanish) for a in m)
    ))  # fmt: skip


def count(loops: Loops) -> Size:
    """How many rounds, where that is only estimated."""
    total = ONE
    for _, extent in loops:
        total = total * extent
    return total


def rounds(loops: Loops, sizes: Collection[Var]) -> Size:
    """How many rounds: none if one of the loops has none."""
    return elements((extent for _, extent in loops), sizes)


def without(loops: Loops, some: Loops) -> Loops:
    return tuple(p for p in loops if p not in some)


def runs(loops: Loops, *offsets: Size) -> list[Loops]:
    """The neighbouring loops that are one loop in all of these."""
    found: list[Loops] = []
    for v, extent in loops:
        if found and all(stride(o, found[-1][-1][0]) == stride(o, v) * extent for o in offsets):
            found[-1] = (*found[-1], (v, extent))
        else:
            found.append(((v, extent),))
    return found


def longest_run(loops: Loops, *offsets: Size) -> Loops:
    """The neighbouring loops that are one loop in both operands: some along both, if they fill
    vectors, else the most iterations of all, or any number."""

    def length(run: Loops) -> tuple[bool, bool, int]:
        n = count(run).constant
        along = all(stride(o, run[-1][0]) == ONE for o in offsets)
        return along and (n is None or n >= _VECTORS), n is None, n or 0

    return max(runs(loops, *offsets), key=length)


def gathered(offset: Size, loops: Collection[Var]) -> Var | None:
    """The table that says how far the rounds of these loops are, if one does."""
    found = (a for a in offset.atoms if isinstance(a, Load) and _told(a, loops))
    return next((a.buffer for a in found), None)


def _told(a: Atom, loops: Collection[Var]) -> bool:
    return isinstance(a, Load) and any(v in loops for k in a.at for v in used_in(k))
