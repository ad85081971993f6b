"""Sums over what a loop hands on are made in its rounds. ainf → ainf

    before   for t<c, u<n:                x = delay over k<n - 1 from …         of every t, in order
             for i<n if i >= 1:           s = add over t<c of x[t, i - 1] from 0
    after    for k<n - 1:                 a = add over t<c of x[t, k] from 0
             for i<n if i >= 1:           s = copy(a[i - 1])

The loop that makes `x` adds it up where it makes it, and nobody keeps its value of every `t`: the
coefficients of a polynomial get so what a recurrence backwards sends to each. Only where all rounds
are asked for, but for some whose number is known.
"""

from __future__ import annotations

from naperian.ainf.syntax import Accumulate, Binding, Delay, Entry, Guard, Index, Op, Program, Read
from naperian.ainf.walk import free, rewrite, step, variables
from naperian.facts import Facts
from naperian.names import Var, fresh
from naperian.node import node, replace
from naperian.passes.bindings.ranges import facts_about
from naperian.sizes import Size, places, size


def along_rounds(program: Program) -> Program:
    """See the module."""
    made = _Along(program)
    if not made.times:
        return program
    bindings = [x for b in program.bindings for x in made.binding(b)]
    if len(bindings) == len(program.bindings):
        return program
    return replace(program, bindings=tuple(bindings), indices=made.indices)


@node
class _Place:
    """Where along a loop a sum reads: `at` is said by index `i` of the sum, the loop makes `rounds`
    and is axis `axis` of what is read."""

    i: Var
    at: Size
    rounds: Index
    axis: int


class _Along:
    def __init__(self, program: Program) -> None:
        self.indices = dict(program.indices)
        self.sizes = frozenset(program.sizes)
        self.made = {b.var: b for b in program.bindings}
        delays = [b.prim for b in program.bindings if isinstance(b.prim, Delay)]
        self.times = {i: d.time for d in delays for i in (d.time, d.index)}

    def binding(self, b: Binding) -> tuple[Binding, ...]:
        """What stands for a binding."""
        match b.prim:
            case Accumulate(monoid, init, (Entry(over, at, Read() as value, guards),)) if (
                at == places(b.context)
            ):
                place = self.place(b, value)
            case _:
                return (b,)
        asked = [*free(init), *(v for g in guards for v in free(g.operand))]
        if place is None or place.i in asked:
            return (b,)
        k = fresh(place.i)
        self.indices[k] = place.rounds
        where = (*value.at[: place.axis], size(k), *value.at[place.axis + 1 :])
        context = tuple(k if j == place.i else j for j in b.context)
        entry = Entry(over, places(context), replace(value, at=where), guards)
        kept = tuple(g for g in b.guards if not self.says(g, place))
        sum_ = replace(
            b, var=fresh(b.var), context=context, guards=kept,
            prim=Accumulate(monoid, init, (entry,)),
        )  # fmt: skip
        read = rewrite(Read(sum_.var, places(context)), {k: place.at})
        return (sum_, replace(b, prim=Op("copy", (read,))))

    def place(self, b: Binding, value: Read) -> _Place | None:
        """The index that says which round a sum reads, but not as that index itself."""
        x = self.made.get(value.var)
        for axis, e in enumerate(value.at) if x is not None else ():
            time = self.times.get(x.context[axis]) if x is not None else None
            mine = [v for v in variables(e) if v in self.indices]
            if time is None or len(mine) != 1 or e == size(mine[0]) or mine[0] not in b.context:
                continue
            found = _Place(mine[0], e, self.indices[time], axis)
            apart = found.i not in self.times  # else it is a round, which does not know all others
            if apart and step(e, found.i) in (1, -1) and self.fits(b, value, found):
                return found
        return None

    def fits(self, b: Binding, value: Read, p: _Place) -> bool:
        """Whether all that is read is of a round of the loop, and hardly a round is not read."""
        extent, rounds = self.indices[p.i].extent, p.rounds.extent
        if extent is None or rounds is None or p.rounds.condition is not None:
            return False
        if (extent - rounds).constant is None or any(v in self.indices for v in variables(rounds)):
            return False
        if any(p.i in variables(e) for k, e in enumerate(value.at) if k != p.axis):
            return False
        assert isinstance(b.prim, Accumulate)
        inside = (j for entry in b.prim.entries for j in entry.over)
        others = (self.indices[j].extent for j in (*b.context, *inside))
        if any(n is not None and p.i in variables(n) for n in others):
            return False
        if any(p.i in free(g.operand) and not self.says(g, p) for g in b.guards):
            return False
        return all(
            facts_about(low, self.indices, self.sizes, b.guards, Facts()).proves(low)
            for low in (p.at, rounds - 1 - p.at)
        )

    def says(self, g: Guard, p: _Place) -> bool:
        """Whether a guard says no more than where the rounds begin or end."""
        if g.fact is None or p.rounds.extent is None:
            return False
        return any((g.fact - e).constant is not None for e in (p.at, p.rounds.extent - p.at))
