"""Tables that a loop changes in place.

    for t<k, c<n:  new = last at [i[t]] of v[t] from s[c, t]       s: delay over t from x next new

The next value of such a delay leads back to the present one through accumulations that go to few
elements, and through loops inside that do the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from naperian.ainf.syntax import Accumulate, Binding, Delay, Entry, Index, Operand, Program, Read
from naperian.names import Var
from naperian.node import node
from naperian.sizes import Size, size


@node
class State:
    """A delayed table whose rounds change a few elements: the accumulations and the loops inside
    that lead from its next value back to the present one."""

    delay: Binding
    links: tuple[Binding | State, ...]

    @property
    def time(self) -> Var:
        assert isinstance(self.delay.prim, Delay)
        return self.delay.prim.time

    @property
    def index(self) -> Var:
        assert isinstance(self.delay.prim, Delay)
        return self.delay.prim.index

    def inside(self) -> Iterable[State]:
        """The loops in the loop, outer ones first."""
        for x in self.links:
            if isinstance(x, State):
                yield x
                yield from x.inside()


def outermost(program: Program) -> list[Var]:
    """The tables that are changed in place, without those that stand for them in loops inside."""
    bindings = {b.var: b for b in program.bindings}
    delays = [b for b in program.bindings if isinstance(b.prim, Delay)]
    found = [s for b in delays if (s := state_of(b, bindings, program.indices)) is not None]
    inner = {x.delay.var for s in found for x in s.inside()}
    return [s.delay.var for s in found if s.delay.var not in inner]


def state_of(
    b: Binding, bindings: Mapping[Var, Binding], indices: Mapping[Var, Index]
) -> State | None:
    """A delay as a state, if it is one."""
    assert isinstance(b.prim, Delay)
    if indices[b.prim.time].condition is not None or indices[b.prim.time].extent is None:
        return None
    links: list[Binding | State] = []
    at: Operand = b.prim.next
    while True:
        x = bindings.get(at.var) if isinstance(at, Read) else None
        if x is None or not isinstance(at, Read):
            return None
        if x is b:
            now = at.at[x.context.index(b.prim.index)] == size(b.prim.time)
            return State(b, tuple(links)) if links and now and _is_each(at.at, indices) else None
        match x.prim:
            case Accumulate(monoid, init, entries) if not monoid.startswith("arg"):
                if not _is_each(at.at, indices) or any(_everywhere(x, e) for e in entries):
                    return None
                links.append(x)
                at = init
            case Delay(time, index, init):
                axes = dict(zip(x.context, at.at, strict=True))
                if axes.pop(index) != indices[time].extent or not _is_each(axes.values(), indices):
                    return None
                inner = state_of(x, bindings, indices)
                if inner is None:
                    return None
                links.append(inner)
                at = init
            case _:
                return None


def _is_each(at: Collection[Size], indices: Mapping[Var, Index]) -> bool:
    """Whether a table is read element for element, if need be with its axes in another order."""
    axes = {e.single for e in at}
    return len(axes) == len(at) and axes <= indices.keys()


def _everywhere(x: Binding, e: Entry) -> bool:
    """Whether an entry goes to every element of a table: it changes more than a few."""
    return all(i.single == c for i, c in zip(e.at, x.context, strict=True))
