"""The rounds of a loop with checkpoints once more, inside the loop that runs backwards.

    for s<r:         h  = delay over s<r …                         h[s] is kept for every s
    for s<r, t<m:    g  = delay over t from h[s] …                 a round of it is a loop
    for b<r:         m' = after(m, w[b])
    for b<r, t<m':   g' = delay over t from h[r - 1 - b] …         kept while `b` is

`w` is the cotangent that the loop over `b` carries. Nothing else would keep the copies in that
loop: if their number of rounds did not wait for it they could all be made before it, and would
all be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from naperian.ainf.syntax import Binding, Delay, Operand
from naperian.names import Var
from naperian.node import node
from naperian.passes.bindings.builder import Builder
from naperian.passes.derivatives.copies import Copy, body
from naperian.sizes import Size, size


@node
class Again:
    """The body of a loop once more, in the loop that runs backwards: `moved` says what copies what,
    `operand` puts one in the place of the other."""

    copies: list[Binding]
    moved: dict[Var, Var]
    operand: Callable[[Operand], Operand]


def again(
    b: Builder, component: list[Binding], time: Var, names: Mapping[Var, Size],
    backs: Mapping[Var, Var], late: Callable[[Size], Size],
) -> Again:
    """`names` are the rounds that the times of the loops around, and `time`, are in, as the times
    `backs` of the loops that run backwards say. What the loop itself carries stays. `late` is a
    number once what the loop backwards carries is there."""
    inside = [
        x for x in body(b, component, time)
        if not (isinstance(x.prim, Delay) and x.prim.time == time)
    ]  # fmt: skip
    copy = _Backwards(b, time, {x.var: Var(x.var.name) for x in inside}, names, backs)
    rounds = b.extent(b.strips[time])
    assert rounds is not None
    copy.wait(rounds, late(copy.size(rounds)))
    copy.indices(inside)
    copies = [copy.binding(x) for x in inside]
    copy.conditions()
    return Again(copies, copy.moved, copy.operand)


class _Backwards(Copy):
    """A copy of one round, in the loops that run backwards."""

    def __init__(
        self, b: Builder, time: Var, moved: dict[Var, Var], names: Mapping[Var, Size],
        backs: Mapping[Var, Var],
    ) -> None:
        super().__init__(b, time, moved)
        self.names |= names
        self.outside = frozenset(names)
        self.backs = backs
        self.waiting: tuple[Size, Size] | None = None

    def wait(self, rounds: Size, late: Size) -> None:
        """From now on the number of rounds is the late one."""
        self.waiting = rounds, late

    def size(self, s: Size) -> Size:
        if self.waiting is not None:
            rounds, late = self.waiting
            rest = (s - rounds).constant
            if rest is not None:
                return late + rest
        return super().size(s)

    def inside(self, i: Var) -> bool:
        """The axes of tables, too, stand inside the loops that they stand in in the program: else
        a table of rows would go row by row, and what rows share would be kept for all strips."""
        inner = self.b.rank[i] > self.b.rank[self.time]
        return inner or not self.b.closures[i].isdisjoint(self.backs)

    def var(self, i: Var) -> Var:
        return self.backs[i] if i in self.backs else super().var(i)

    def at(self, axis: Var, e: Size) -> Size:
        return size(self.backs[axis]) if axis in self.backs else self.size(e)
