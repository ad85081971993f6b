"""What no later round changes is read as it is in the end. ainf → ainf

    for t<n:               new = last at [t] of v[t] from s[t]     s: delay over t from x next new
    for b<n, j<n - b - 1:  y = mul(w[b], s[j, n - b - 1])          round t goes to t, and j < t
    ⇒                      y = mul(w[b], s[j, n])

A table that a loop fills element after element, as a triangular solution does, is what its loop
backwards reads, too: there is nothing to change back (`undo`), and no order in which that reads it.
If something else of it must be changed back, all is read so: the end would be kept beside it.
"""

from __future__ import annotations

from naperian.ainf.syntax import Accumulate, Binding, Delay, Index, Op, Operand, Program, Read
from naperian.ainf.walk import (
    atoms,
    context_of,
    operands,
    reads,
    rewrite,
    rewrite_guards,
    rewrite_prim,
    rewrite_size,
    variables,
)
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.passes.algebra.prune import prune
from naperian.passes.bindings.builder import Guards
from naperian.passes.bindings.states import State, outermost, state_of
from naperian.passes.derivatives.amid import amid
from naperian.prims import PRIMITIVES
from naperian.sizes import Size, size


def at_last(program: Program) -> Program:
    """See the module."""
    for v in outermost(program):
        bindings = {b.var: b for b in program.bindings}
        state = state_of(bindings[v], bindings, program.indices)
        if state is not None:
            program = _AtLast(program, bindings, state).result()
    return program


class _Changed(Exception):
    """What is read may be changed by a later round."""


class _AtLast:
    """One state of a program, of whose earlier rounds nothing is read in the end."""

    def __init__(self, program: Program, bindings: dict[Var, Binding], state: State) -> None:
        self.program = program
        self.bindings = bindings
        self.state = state
        self.versions = amid(state, program.indices, frozenset(program.sizes))
        self.times = {s.time: s for s in (state, *state.inside())}
        self.around: dict[Var, State] = {}  # of each version but the first: the loop it is in
        self.own: set[Var] = set()  # what the loop is made of
        self.before: list[Binding] = []  # what is made again for a reader,
        self.under: Guards | None = None  # and under which guards that may be
        self.made: dict[tuple[Read, Guards], Read] = {}
        self.inside_of(state)
        self.one = {*self.times, *self.tables()}  # what has these has one element in a round

    def result(self) -> Program:
        """The program where the loops after this one read its last round; as it is if some read
        what is changed later."""
        self.own = self.made_of(self.state.delay.var)
        shown = (a for r in self.program.results for a in atoms(r.value) if isinstance(a, Read))
        if any(map(self.is_earlier, shown)):
            return self.program
        try:
            bindings = [x for b in self.program.bindings for x in self.rewritten(b)]
        except _Changed:
            return self.program
        return prune(replace(self.program, bindings=tuple(bindings)))  # of what was made again

    def inside_of(self, s: State) -> None:
        for x in s.links:
            self.around[x.delay.var if isinstance(x, State) else x.var] = s
            if isinstance(x, State):
                self.inside_of(x)

    def tables(self) -> set[Var]:
        """The indices that say which of several tables is meant: all versions go along them."""
        found = {*self.state.delay.context}
        for v in self.versions.after:
            x = self.bindings[v]
            found &= {*x.context}
            for e in x.prim.entries if isinstance(x.prim, Accumulate) else ():
                found &= {i for i, at in zip(x.context, e.at, strict=True) if at == size(i)}
        return found

    def made_of(self, v: Var) -> set[Var]:
        """All that a binding is computed from, in the same round of the loops around this one."""
        found = {v}
        todo = [v]
        while todo:
            b = self.bindings[todo.pop()]
            read = {r.var for r in reads(b)}
            if isinstance(b.prim, Delay) and b.prim.time in self.state.delay.context:
                read = {a.var for a in atoms(b.prim.init) if isinstance(a, Read)}
            for w in read & self.bindings.keys() - found:
                found.add(w)
                todo.append(w)
        return found

    def rewritten(self, b: Binding) -> list[Binding]:
        """A binding that reads the end, if it reads rounds before, behind what is made again."""
        if b.var in self.own or not any(map(self.is_earlier, reads(b))):
            return [b]
        self.before, self.versions.reader = [], b.guards
        apart = isinstance(b.prim, Accumulate) and any(e.guards for e in b.prim.entries)
        self.under = None if apart else b.guards
        prim = rewrite_prim(b.prim, {}, self.read)
        self.under = None
        new = replace(b, prim=prim, guards=rewrite_guards(b.guards, {}, self.read))
        return [*self.before, new]

    def is_earlier(self, r: Read) -> bool:
        """Whether another round is read than the one that the reader is in, and not the end; or
        what is computed from the table in such a round, for many elements."""
        x = self.bindings.get(r.var)
        if x is None:
            return False
        rounds = self.rounds(x, r)
        if r.var in self.versions.after:
            return any(e not in (size(s.time), self.versions.extent(s)) for s, e in rounds)
        noted = isinstance(x.prim, Op) and x.prim.name == "held"
        if not isinstance(x.prim, Op) or (self.one.issuperset(x.context) and not noted):
            return False
        return any(e != size(s.time) for s, e in rounds) and self.is_of_table(x)

    def rounds(self, x: Binding, r: Read) -> list[tuple[State, Size]]:
        """The loops that a read says the rounds of, with these."""
        state = self.versions.states.get(x.var)
        return [
            (self.times[t], e) for i, e in zip(x.context, r.at, strict=True)
            if (t := state.time if state is not None and i == state.index else i) in self.times
        ]  # fmt: skip

    def is_of_table(self, x: Binding) -> bool:
        """Whether an operation reads the table of its round, or what does."""
        todo, seen = [x], {x.var}
        while todo:
            for r in reads(todo.pop()):
                y = self.bindings.get(r.var)
                if y is None or any(e != size(s.time) for s, e in self.rounds(y, r)):
                    continue
                if r.var in self.versions.after:
                    return True
                if isinstance(y.prim, Op) and r.var not in seen:
                    seen.add(r.var)
                    todo.append(y)
        return False

    # the same element at another time

    def read(self, r: Read) -> Operand:
        """What is read, of the last round. Single elements may be read as they are: they are noted
        (`sliced.elements`)."""
        if not self.is_earlier(r):
            return r
        if r.var not in self.versions.after:
            return self.again(r)
        try:
            return self.in_the_end(r)
        except _Changed:
            pass
        x = self.bindings[r.var]
        said = {v for _, e in self.rounds(x, r) for v in variables(e)}
        own = (e for i, e in zip(x.context, r.at, strict=True) if i not in self.one)
        if said.issuperset(v for e in own for v in variables(e)):
            return r
        raise _Changed

    def again(self, r: Read) -> Operand:
        """What was computed from the table, once more where it is read, under the same guards."""
        x = self.bindings[r.var]
        names = dict(zip(x.context, r.at, strict=True))
        guards = rewrite_guards(x.guards, names)
        match x.prim:
            case Op("held", (value,)):
                here = rewrite(value, names)
                assert isinstance(here, Read)
                found = self.read(here) if {*guards} <= {*self.versions.reader} else here
                return r if found == here else found
            case Op(name) if name in PRIMITIVES and self.under is not None and not guards:
                if (r, self.under) in self.made:
                    return self.made[r, self.under]
                prim = rewrite_prim(rewrite_prim(x.prim, names), {}, self.read)
                every = (*operands(prim), *(g.operand for g in self.under))
                context = context_of(self.program.indices, every)
                new = Binding(fresh(x.var), context, self.under, x.dtype, prim, x.origin)
                self.before.append(new)
                made = self.made[r, self.under] = Read(new.var, tuple(map(size, context)))
                return made
            case _:
                raise _Changed

    def in_the_end(self, r: Read) -> Read:
        if r.var in self.versions.states:
            return self.last(self.versions.states[r.var], r)
        s = self.around[r.var]
        return self.last(s, self.next_round(s, self.behind(r, self.versions.after[r.var])))

    def behind(self, r: Read, links: tuple[Binding | State, ...]) -> Read:
        """What is read before changes, after them."""
        for x in links:
            past = self.versions.past(x, r)
            if past is None:
                raise _Changed
            r = past
        return r

    def last(self, s: State, r: Read) -> Read:
        """What is read at the begin of a round, when the outermost loop is over."""
        names = dict(zip(s.delay.context, r.at, strict=True))
        rounds = rewrite_size(self.versions.extent(s), names)
        more = fresh(s.time)
        self.versions.indices[more] = Index(rounds - names[s.index], None, more.name)
        at = [names[s.index] + size(more) if i == s.index else e for i, e in names.items()]
        self.behind(Read(r.var, tuple(at)), s.links[::-1])
        end = Read(r.var, tuple(rounds if i == s.index else e for i, e in names.items()))
        outer = self.around.get(r.var)
        if outer is None:
            return end
        end = self.behind(end, self.versions.after[r.var])
        return self.last(outer, self.next_round(outer, end))

    def next_round(self, s: State, r: Read) -> Read:
        """What is read at the end of a round, at the begin of the next one."""
        assert isinstance(s.delay.prim, Delay)
        step = s.delay.prim.next
        assert isinstance(step, Read)
        assert step.var == r.var
        names = {e.single: there for e, there in zip(step.at, r.at, strict=True)}
        at: list[Size] = []
        for i in s.delay.context:
            there = names.get(s.time if i == s.index else i)
            if there is None:
                raise _Changed
            at.append(there + 1 if i == s.index else there)
        return Read(s.delay.var, tuple(at))
