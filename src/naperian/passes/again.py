"""The rounds of a loop with checkpoints once more, inside the loop that runs backwards.

    for s<r:         h  = delay over s<r …                         h[s] is kept for every s
    for s<r, t<w:    g  = delay over t from h[s] …                 a round of it is a loop
    for b<r:         k  = after(h[r - 1 - b], w[b])
    for b<r, t<w:    g' = delay over t from k[b] …                 kept while `b` is

`w` is the cotangent that the loop over `b` carries. Nothing else would keep the copies in that
loop: without `after` they could all be made before it, and would all be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from naperian.ainf.syntax import Binding, Delay, Op, Operand, Read
from naperian.ainf.walk import map_guards
from naperian.names import Var
from naperian.node import node
from naperian.passes.builder import Builder
from naperian.passes.copies import Copy, body
from naperian.sizes import Size, size


@node
class Again:
    """The body of a loop once more, in the loop that runs backwards: `kept` read what the loop
    carries; `moved` says what copies what, `operand` puts one in the place of the other."""

    kept: list[Binding]
    copies: list[Binding]
    moved: dict[Var, Var]
    operand: Callable[[Operand], Operand]


def again(
    b: Builder, component: list[Binding], time: Var, names: Mapping[Var, Size],
    backs: Mapping[Var, Var], carried: Mapping[Var, Read],
) -> Again:
    """`names` are the rounds that the times of the loops around, and `time`, are in, as the times
    `backs` of the loops that run backwards say. What the loop itself carries stays; it is read
    after what the loop that runs backwards carries for it is there, so that all that is made of it
    is made in that loop."""
    inside = [
        x for x in body(b, component, time)
        if not (isinstance(x.prim, Delay) and x.prim.time == time)
    ]  # fmt: skip
    copy = _Backwards(b, time, {x.var: Var(x.var.name) for x in inside}, names, backs)
    kept = [copy.kept(x, carried[x.var]) for x in component if x.var in carried]
    for x in inside:
        copy.indices(x)
    copies = [copy.binding(x) for x in inside]
    copy.conditions()
    return Again(kept, copies, copy.moved, copy.operand)


class _Backwards(Copy):
    """A copy of one round, in the loops that run backwards."""

    def __init__(
        self, b: Builder, time: Var, moved: dict[Var, Var], names: Mapping[Var, Size],
        backs: Mapping[Var, Var],
    ) -> None:
        super().__init__(b, time, moved)
        self.names |= names
        self.backs = backs
        self.carried: dict[Var, Var] = {}  # what the loop carries, read in the round

    def kept(self, x: Binding, cotangent: Read) -> Binding:
        """What the loop carries into the round."""
        *around, _ = x.context
        at = (*(self.size(size(i)) for i in around), self.names[self.time])
        context = (*map(self.var, around), self.backs[self.time])
        guards = map_guards(x.guards, self.operand, self.size)
        order = Op("after", (Read(x.var, at), cotangent))
        self.carried[x.var] = self.b.add(order, context, guards, x.dtype, x.origin).var
        return self.b.bindings[-1]

    def operand(self, o: Operand) -> Operand:
        if isinstance(o, Read) and o.var in self.carried and o.at[-1] == size(self.time):
            axes = (*self.b.contexts[o.var][:-1], self.time)
            return Read(self.carried[o.var], tuple(map(self.at, axes, o.at)))
        return super().operand(o)

    def inside(self, i: Var) -> bool:
        return not self.b.closures[i].isdisjoint(self.backs)

    def var(self, i: Var) -> Var:
        return self.backs[i] if i in self.backs else super().var(i)

    def at(self, axis: Var, e: Size) -> Size:
        return size(self.backs[axis]) if axis in self.backs else self.size(e)
