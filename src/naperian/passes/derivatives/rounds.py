"""Who reads which rounds of a table that is changed in place.

A table is read in its own loop, at its end, by loops backwards, which read round k - 1 - b in their
round b, and by loops in step, which read round t in theirs. `Rounds` finds these for one table: the
first of the loops is what its derived classes rewrite, with what they make and keep for it.
"""

from __future__ import annotations

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Delay,
    Guard,
    Index,
    Op,
    Operand,
    Program,
    Read,
)
from naperian.ainf.walk import atoms, atoms_of, context_of, operands, reads, rewrite_size
from naperian.names import Var, fresh
from naperian.passes.bindings.states import State
from naperian.sizes import Size, size


class Rounds:
    """One table of a program, and the first loop that reads earlier rounds of it."""

    def __init__(self, program: Program, state: State) -> None:
        self.program = program
        self.state = state
        self.bindings = {b.var: b for b in program.bindings}
        self.indices = dict(program.indices)
        self.times: dict[Var, Size] = {}  # of each time, the round that the loop reads
        self.left = 0  # how many other loops read the table so
        self.around: dict[Var, tuple[Var, ...]] = {}  # of each version: the times it is in
        self.made: dict[Var, Binding] = {}
        self.before: dict[Var, list[Binding]] = {}  # what is kept, and before what
        self.collect(state, ())
        times = (b.prim.time for b in program.bindings if isinstance(b.prim, Delay))
        few = all(map(self.is_few, self.around))
        self.steps = frozenset(times if few else ())  # of loops that may go in step

    def collect(self, s: State, outer: tuple[Var, ...]) -> None:
        """The times around every version."""
        self.around[s.delay.var] = (*outer, s.time)
        for x in s.links:
            if isinstance(x, State):
                self.collect(x, (*outer, s.time))
            else:
                self.around[x.var] = (*outer, s.time)

    def is_few(self, v: Var) -> bool:
        """Whether a version takes less to be made again than to be kept: fewer elements change in
        a round than there are."""
        made = self.bindings[v].prim
        axes, inner = len(self.state.delay.context) - 1, len(self.around[v]) - 1
        entries = made.entries if isinstance(made, Accumulate) else ()
        return all(inner + len(e.over) < axes for e in entries)

    def extent(self, s: State) -> Size:
        extent = self.indices[s.time].extent
        assert extent is not None
        return extent

    def found(self) -> bool:
        """Find the loops backwards, of which the first is undone now. Whether there are some, and
        all reads of earlier rounds are theirs."""
        loops: list[dict[Var, Size]] = []
        for b in self.program.bindings:
            for r in reads(b):
                if r.var in self.around and not self.is_of(loops, b, r):
                    return False
        for result in self.program.results:
            for a in atoms(result.value):
                if isinstance(a, Read) and a.var in self.around and not self.last(a):
                    return False
        self.times = loops[0] if loops else {}
        self.left = len(loops) - 1
        return bool(loops)

    def is_of(self, loops: list[dict[Var, Size]], b: Binding, r: Read) -> bool:
        """Whether a read is of this round, or of one of the loops backwards, or of one more."""
        for k, times in enumerate([*loops, {}]):
            self.times = dict(times)
            known = self.reversed(b, r)
            if known:
                loops[k : k + 1] = [self.times]
            if known is not None:
                return True
        return False

    def last(self, r: Read) -> bool:
        """Whether a read is of the outermost loop's last value."""
        return r.var == self.state.delay.var and self.position(r) == self.extent(self.state)

    def position(self, r: Read) -> Size | None:
        """The round of a read of a delay."""
        b = self.bindings[r.var]
        return r.at[b.context.index(b.prim.index)] if isinstance(b.prim, Delay) else None

    def reversed(self, b: Binding, r: Read) -> bool | None:
        """Whether a read is backwards, or in the loop itself; None if it is neither."""
        x = self.bindings[r.var]
        rounds = dict(zip(x.context, r.at, strict=True))
        outer = list(self.around[r.var])
        index = x.prim.index if isinstance(x.prim, Delay) else None
        inner = outer.pop() if index is not None else None
        kinds = set()
        for t in outer:
            kinds.add(self.matched(t, rounds[t]))
        if index is not None and inner is not None:
            at = rounds[index]
            end = self.indices[inner].extent
            assert end is not None
            ends = {size(0), end, rewrite_size(end, self.times)}
            if at not in ends:
                now = self.matched(inner, at)
                kinds.add(now if now != "none" else self.matched(inner, at - 1))
        if kinds <= {"here"}:
            return False
        return True if kinds in ({"back"}, {"forth"}) else None

    def matched(self, t: Var, at: Size) -> str:
        """Whether a round is this one, or one of a loop backwards."""
        if at == size(t):
            return "here"
        extent = self.indices[t].extent
        assert extent is not None
        if t in self.times:
            way = "forth" if self.is_forth(t) else "back"
            return way if at == self.times[t] else "none"
        rounds = rewrite_size(extent, self.times)
        other = at.single
        if isinstance(other, Var) and other in self.steps and self.indices[other].extent == rounds:
            self.times[t] = at
            return "forth"
        b = (rounds - 1 - at).single
        if not isinstance(b, Var) or b not in self.indices or b in self.times:
            return "none"
        if self.indices[b].extent != rounds:
            return "none"
        self.times[t] = at
        return "back"

    def is_forth(self, t: Var) -> bool:
        """Whether another loop reads the rounds in their own order, each in its own."""
        return t in self.times and isinstance(self.times[t].single, Var)

    def index(self, extent: Size, like: Var) -> Var:
        i = fresh(like)
        self.indices[i] = Index(extent, None, self.indices[like].name)
        return i

    def held(self, x: Binding, value: Operand, guards: tuple[Guard, ...]) -> Read:
        """A value, kept before the table is changed by `x`."""
        context = context_of(self.indices, (value, *(g.operand for g in guards)))
        v = fresh(x.var)
        kept = Binding(v, context, guards, x.dtype, Op("held", (value,)), x.origin)
        self.before.setdefault(x.var, []).append(kept)
        return Read(v, tuple(size(i) for i in context))

    # order

    def sorted(self, bindings: list[Binding]) -> tuple[Binding, ...]:
        """Producers first, else as they stood: what is kept before what replaces it, what is new
        before its first reader."""
        out: list[Binding] = []
        done: set[Var] = set()
        given = {b.var: b for b in bindings} | self.made
        given |= {b.var: b for kept in self.before.values() for b in kept}

        def put(b: Binding) -> None:
            if b.var in done:
                return
            done.add(b.var)
            stack = [(b, iter(self.needed(b)))]
            while stack:
                x, rest = stack[-1]
                for v in rest:
                    if v in given and v not in done:
                        done.add(v)
                        stack.append((given[v], iter(self.needed(given[v]))))
                        break
                else:
                    stack.pop()
                    out.append(x)

        for b in (*bindings, *self.made.values()):
            put(b)
        return tuple(out)

    def needed(self, b: Binding) -> list[Var]:
        """What must stand before a binding."""
        out = [x.var for x in self.before.get(b.var, ())]
        every = [*([b.prim.init] if isinstance(b.prim, Delay) else operands(b.prim)),
                 *(g.operand for g in b.guards)]  # fmt: skip
        out += (a.var for o in every for a in atoms(o) if isinstance(a, Read))
        for i in b.context:
            extent = self.indices[i].extent
            if extent is not None:
                out += (a.var for a in atoms_of(extent) if isinstance(a, Read))
        return out
