"""A `while` loop once more, as a loop of as many rounds as it made.

    for u<?:           h  = delay over t while go[t] …        h[trips(t)]
    for u<trips(t)+1:  h' = delay over t'<trips(t) …          h'[k] for every k

The reverse of a loop reads the values of all rounds; those of the copy are in an array whose size
is known when it starts. The first loop keeps only its last values, as before. A `while` loop inside
it is a `while` loop in the copy, too, which counts its rounds; it is copied again when it is
reversed, and by then these counts are in an array.
"""

from __future__ import annotations

from naperian.ainf.syntax import Binding, Delay, Trips
from naperian.names import Var
from naperian.passes.bindings.builder import Builder
from naperian.passes.derivatives.copies import Copy, body
from naperian.sizes import atom, size


def counted(
    b: Builder, component: list[Binding], time: Var
) -> tuple[list[Binding], dict[Var, Var]]:
    """The copies of a loop's bindings, and what each of them copies."""
    inside = body(b, component, time)
    copy = _Counted(b, time, {x.var: Var(x.var.name) for x in inside})
    copy.indices(inside)
    copies = [copy.binding(x) for x in inside]
    copy.conditions()
    return copies, copy.moved


class _Counted(Copy):
    def __init__(self, b: Builder, time: Var, moved: dict[Var, Var]) -> None:
        super().__init__(b, time, moved)
        around = b.order(b.closures[time] - {time})
        self.rounds = atom(Trips(time, tuple((i, size(i)) for i in around)))
        self.names[time] = size(b.index(self.rounds, b.indices[time].name))

    def indices(self, bindings: list[Binding]) -> None:
        for x in bindings:
            if isinstance(x.prim, Delay) and x.prim.time == self.time:
                name = self.b.indices[x.prim.index].name
                self.names[x.prim.index] = size(self.b.index(self.rounds + 1, name))
        super().indices(bindings)
