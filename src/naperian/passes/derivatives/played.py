"""A loop in step with one that changes a table in place changes it once more.

    for t<k:  new = last at [i[t]] of v[t] from s[t]            s: delay over t from x next new
    for u<k:  y = f(s[j[u], u], …)                              reads s as it was in every round

    for t<k:  note = held(v[t])                                 what the round puts there
    for u<k:  once = last at [i[u]] of note[u] from r[u]
    for u<k:  y = f(r[j[u], u], …)                              r: delay over u from x next once

Backwards over backwards goes through the function forwards again, after the loop backwards, of
which it needs something. If a round changes as many elements as there are, all rounds are kept.
"""

from __future__ import annotations

from naperian.ainf.syntax import Accumulate, Binding, Delay, Entry, Operand, Program, Read
from naperian.ainf.walk import rewrite, rewrite_guards, rewrite_size, variables
from naperian.names import Var, fresh
from naperian.passes.bindings.states import State
from naperian.passes.derivatives.rounds import Rounds
from naperian.sizes import Size, size


class Played(Rounds):
    """A table that is changed once more."""

    def __init__(self, program: Program, state: State) -> None:
        super().__init__(program, state)
        self.copies: dict[Var, Var] = {}  # its versions there, and their rounds

    def played(self, s: State) -> None:
        """The loop that changes the table, once more: in step with what reads it, from what was
        put there at first."""
        for x in (s, *s.inside()):
            if x.time not in self.times:
                t = self.index(rewrite_size(self.extent(x), self.times), x.time)
                self.times[x.time] = size(t)
            rounds = rewrite_size(self.extent(x) + 1, self.times)
            self.copies[x.index] = self.index(rounds, x.index)
        self.copies |= {v: fresh(v) for v in self.around}
        for v in self.around:
            self.made[self.copies[v]] = self.played_binding(self.bindings[v])

    def played_binding(self, x: Binding) -> Binding:
        names: dict[Var, Size] = dict(self.times)
        if isinstance(x.prim, Delay):
            names[x.prim.index] = size(self.copies[x.prim.index])
        context = tuple(v for i in x.context for v in variables(names.get(i, size(i))))

        def operand(o: Operand) -> Operand:
            return rewrite(rewrite(o, names), {}, self.copied_read)

        prim: Delay | Accumulate
        match x.prim:
            case Delay(time, index, init, next):
                (t,) = variables(names[time])
                prim = Delay(t, self.copies[index], operand(init), operand(next))
            case Accumulate(monoid, init, entries):
                made = tuple(self.played_entry(x, e, names) for e in entries)
                prim = Accumulate(monoid, operand(init), made)
            case _:
                raise AssertionError("a version of a table is a delay or an accumulation")
        guards = rewrite_guards(x.guards, names)
        return Binding(self.copies[x.var], context, guards, x.dtype, prim, x.origin)

    def played_entry(self, x: Binding, e: Entry, names: dict[Var, Size]) -> Entry:
        value, names, over = self.put_there(x, e), dict(names), []
        for i in e.over:
            extent = self.indices[i].extent
            assert extent is not None
            over.append(self.index(rewrite_size(extent, names), i))
            names[i] = size(over[-1])
        at = tuple(rewrite_size(i, names) for i in e.at)
        return Entry(tuple(over), at, rewrite(value, names), rewrite_guards(e.guards, names))

    def copied_read(self, r: Read) -> Operand:
        return Read(self.copies[r.var], r.at) if r.var in self.copies else r

    def put_there(self, x: Binding, e: Entry) -> Operand:
        """What an entry puts there, as it was computed at first."""
        if not isinstance(e.value, Read) or e.value.var not in self.bindings:
            return e.value
        return self.held(x, e.value, (*x.guards, *(g for g in e.guards if g not in x.guards)))

    def is_in_step(self, r: Read) -> bool:
        """Whether a read is one of those that asked for the loop in step."""
        if r.var not in self.around:
            return False
        x = self.bindings[r.var]
        rounds = dict(zip(x.context, r.at, strict=True))
        outer = list(self.around[r.var])
        if isinstance(x.prim, Delay) and len(outer) == 1:
            return rounds[x.prim.index] in (t := self.times[outer[0]], t + 1)
        inner = isinstance(x.prim, Delay)
        return all(rounds[t] == self.times[t] for t in (outer[:-1] if inner else outer))
