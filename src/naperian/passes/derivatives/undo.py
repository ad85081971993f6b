"""A loop backwards over a table that was changed in place changes it back. ainf → ainf

    for t<k:  new = last at [i[t]] of v[t] from s[t]            s: delay over t from x next new
    for b<k:  y = f(s[j[k - 1 - b], k - 1 - b])                 reads s as it was in every round

    for t<k:  old = held(s[i[t], t])                            what the round replaces
    for b<k:  back = last at [i[k - 1 - b]] of old[k - 1 - b] from r[b]
    for b<k:  y = f(back[j[k - 1 - b]])                         r: delay over b from s[k] next back

Reads of the table as it was in earlier rounds would keep it k times over: a Cholesky decomposition
in place would store n² tables of n² numbers for its derivative. What is kept instead is one number
for each one replaced (an undo log), and every round of the loop backwards puts them back. The loop
backwards is any that reads round k - 1 - b in its own round b. A loop inside is undone in a loop
inside. What has many elements in each round and is computed from the table is computed again.

Several loops backwards are taken one after the other; a loop that reads the table in step with its
own changes it once more (`played`). If the table is read in yet other rounds, all of them are kept
anyway, and it is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Delay,
    Entry,
    Op,
    Operand,
    Program,
    Read,
)
from naperian.ainf.walk import (
    map_prim,
    reads,
    rewrite,
    rewrite_guards,
    rewrite_size,
)
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.passes.algebra.prune import prune
from naperian.passes.bindings.states import State, outermost, state_of
from naperian.passes.derivatives.amid import Amid, amid
from naperian.passes.derivatives.played import Played
from naperian.prims import PRIMITIVES
from naperian.sizes import Size, size

Names = Mapping[Var, Size]


def undo(program: Program) -> Program:
    """See the module."""
    changed = False
    for v in outermost(program):
        left = len(program.bindings)  # more than loops read the table
        while left:
            bindings = {b.var: b for b in program.bindings}
            state = state_of(bindings[v], bindings, program.indices)
            undone = None if state is None else _Undo(program, state)
            made = None if undone is None else undone.result()
            if undone is None or made is None or undone.left >= left:
                break
            program, left, changed = made, undone.left, True
    return prune(program) if changed else program


class _Undo(Played):
    """One state of a program is undone where it is read backwards."""

    def __init__(self, program: Program, state: State) -> None:
        super().__init__(program, state)
        self.versions: dict[tuple[Var, str], Operand] = {}
        self.again: dict[Var, Var] = {}
        self.amid: Amid
        self.reader: tuple[Var, ...] = ()  # the context of what is rewritten
        self.waiting: set[Var] = set()  # what is kept, since it would be there too late

    def result(self) -> Program | None:
        """The program in which the first loop that reads earlier rounds does not; None if there is
        none, or if others read them."""
        if not self.found():
            return None
        p = self.program
        if self.is_forth(self.state.time):
            self.played(self.state)
        else:
            self.undone()
        bindings = [self.rewritten(b) for b in p.bindings]
        return replace(p, bindings=self.sorted(bindings), indices=self.indices)

    def undone(self) -> None:
        """Make the loops that change the table back."""
        self.backwards(self.state)
        names = {self.state.index: self.extent(self.state)}
        here = Read(self.state.delay.var, tuple(size(i) for i in self.state.delay.context))
        self.restored(self.state, rewrite(here, names))
        self.waiting = self.too_late()
        self.amid = amid(self.state, self.indices, frozenset(self.program.sizes))

    def backwards(self, s: State) -> None:
        """Loops inside that nobody reads backwards run backwards, too."""
        if s.time not in self.times:
            rounds = rewrite_size(self.extent(s), self.times)
            b = self.index(rounds, s.time)
            self.times[s.time] = rounds - 1 - size(b)
        for x in s.links:
            if isinstance(x, State):
                self.backwards(x)

    # changing it back

    def back(self, t: Var) -> Var:
        """The time of the loop backwards."""
        extent = self.indices[t].extent
        assert extent is not None
        b = (rewrite_size(extent, self.times) - 1 - self.times[t]).single
        assert isinstance(b, Var)
        return b

    def context(self, x: Binding, without: Var | None = None) -> tuple[Var, ...]:
        """The context of a version in the loop backwards."""
        return tuple(self.back(i) if i in self.times else i for i in x.context if i != without)

    def restored(self, s: State, init: Operand) -> Operand:
        """The loop that changes the table back from `init`; the table as it was before the loop."""
        d = s.delay
        b = self.back(s.time)
        rounds = rewrite_size(self.extent(s), self.times)
        u = self.index(rounds + 1, s.index)
        w = fresh(d.var)
        context = tuple(u if i == s.index else self.back(i) if i in self.times else i
                        for i in d.context)  # fmt: skip

        def at(e: Size) -> Read:
            return Read(w, tuple(e if i == u else size(i) for i in context))

        assert isinstance(d.prim, Delay)
        after: Operand = at(size(b))
        self.versions[d.var, "after"] = after
        step: Operand = d.prim.next
        for x in s.links:
            assert isinstance(step, Read)
            version = x.delay if isinstance(x, State) else x
            after = _carried(step, version, after)
            if isinstance(x, State):
                self.versions[x.delay.var, "last"] = after
                after = self.restored(x, after)
                assert isinstance(x.delay.prim, Delay)
                step = x.delay.prim.init
            else:
                self.versions[x.var, ""] = after
                after = self.replaced(x, after)
                assert isinstance(x.prim, Accumulate)
                step = x.prim.init
        assert isinstance(step, Read)
        after = _carried(step, d, after)
        self.versions[d.var, "before"] = after
        guards = rewrite_guards(d.guards, self.times)
        self.made[w] = Binding(w, context, guards, d.dtype, Delay(b, u, init, after), d.origin)
        first = at(rounds)
        self.versions[d.var, "first"] = first
        return first

    def replaced(self, x: Binding, after: Operand) -> Operand:
        """The table before an accumulation, from the one after it."""
        assert isinstance(x.prim, Accumulate)
        context = self.context(x)
        own = dict(zip(x.context, context, strict=True))
        entries = []
        for e in x.prim.entries:
            kept = self.kept(x, x.prim.init, e)
            names: dict[Var, Size] = dict(self.times)
            over = []
            for i in e.over:
                extent = self.indices[i].extent
                assert extent is not None
                over.append(self.index(rewrite_size(extent, names), i))
                names[i] = size(over[-1])
            at = tuple(
                size(own[c]) if i == size(c) else rewrite_size(i, names)
                for c, i in zip(x.context, e.at, strict=True)
            )
            guards = rewrite_guards(e.guards, names)
            entries.append(Entry(tuple(over), at, rewrite(kept, names), guards))
        v = fresh(x.var)
        prim = Accumulate("last", after, tuple(entries))
        guards = rewrite_guards(x.guards, self.times)
        self.made[v] = Binding(v, context, guards, x.dtype, prim, x.origin)
        return Read(v, tuple(size(i) for i in context))

    def kept(self, x: Binding, init: Operand, e: Entry) -> Read:
        """What an entry replaces, before it does."""
        old = rewrite(init, dict(zip(x.context, e.at, strict=True)))
        return self.held(x, old, (*x.guards, *(g for g in e.guards if g not in x.guards)))

    # reading it

    def rewritten(self, b: Binding) -> Binding:
        """A binding whose reads of earlier rounds are of what was changed back."""
        self.reader = b.context

        def operand(o: Operand) -> Operand:
            return rewrite(o, {}, self.read)

        def index(s: Size) -> Size:
            return rewrite_size(s, {}, self.read)

        prim = map_prim(b.prim, operand, index)
        guards = rewrite_guards(b.guards, {}, self.read)
        if prim == b.prim and guards == b.guards:
            return b
        return replace(b, prim=prim, guards=guards)

    def read(self, r: Read) -> Operand:
        """The same value from the loop backwards, or from that in step, if it is read there."""
        if self.copies:
            return self.copied_read(r) if self.is_in_step(r) else r
        version = self.version(r)
        if version is not None:
            around = [t for t in self.times if self.back(t) in self.reader]
            inside = self.amid.inside(r, around, self.times)
            if inside is not None:
                r, version = inside, self.versions[inside.var, "before"]
            x = self.bindings[r.var]
            there = rewrite(version, {i: e for i, e in zip(x.context, r.at, strict=True)
                                      if i not in self.times})  # fmt: skip
            return self.put_back(there)
        made = self.bindings.get(r.var)
        if made is None or not self.is_again(made, r):
            return r
        names = dict(zip(made.context, r.at, strict=True))
        return rewrite(self.copied(made), {i: e for i, e in names.items() if i not in self.times})

    def put_back(self, x: Operand) -> Operand:
        """What has just been put back at the place that is read is read from where it was kept."""
        back = self.made.get(x.var) if isinstance(x, Read) else None
        if back is None or not isinstance(x, Read) or not isinstance(back.prim, Accumulate):
            return x
        at = dict(zip(back.context, x.at, strict=True))
        entry = back.prim.entries[-1]
        if entry.over or entry.guards or back.guards:
            return x
        own = {c: e for c, i, e in zip(back.context, entry.at, x.at, strict=True) if i == size(c)}
        there = dict(zip(back.context, entry.at, strict=True))
        same = all(rewrite_size(i, own) == at[c] for c, i in there.items())
        return rewrite(entry.value, own) if same else x

    def version(self, r: Read) -> Operand | None:
        """The version that is read, in the indices of its binding."""
        if r.var not in self.around:
            return None
        x = self.bindings[r.var]
        rounds = dict(zip(x.context, r.at, strict=True))
        outer = list(self.around[r.var])
        if not isinstance(x.prim, Delay):
            back = all(rounds[t] == self.times[t] for t in outer)
            return self.versions[r.var, ""] if back else None
        time = outer.pop()
        at = rounds[x.prim.index]
        if any(rounds[t] != self.times[t] for t in outer):
            return None
        if at == self.times[time]:
            return self.versions[r.var, "before"]
        if at == self.times[time] + 1:
            return self.versions[r.var, "after"]
        extent = self.indices[time].extent
        assert extent is not None
        if outer and at == rewrite_size(extent, self.times):
            return self.versions[r.var, "last"]
        return self.versions[r.var, "first"] if outer and at == size(0) else None

    # computing again

    def is_again(self, x: Binding, r: Read) -> bool:
        """Whether a read is of what a round computes for many elements, from the table."""
        if not self.is_many(x) or x.var in self.waiting:
            return False
        rounds = dict(zip(x.context, r.at, strict=True))
        return all(rounds[t] == self.times[t] for t in x.context if t in self.times)

    def too_late(self) -> set[Var]:
        """What a round computes before a loop inside, which reads it. All rounds of the loop
        backwards would be over before the table is as it was then, and be gone through a second
        time; so it is kept, if that is no more than what the loop replaces."""
        replaced: dict[Var, int] = {}
        for v, around in self.around.items():
            x = self.bindings[v]
            if isinstance(x.prim, Accumulate):
                most = max(len(around) + len(e.over) for e in x.prim.entries)
                for t in around:
                    replaced[t] = max(replaced.get(t, 0), most)
        found = set()
        for b in self.program.bindings:
            many = self.is_many(b)
            inside = [t for t in self.times
                      if self.back(t) in b.context or (many and t in b.context)]  # fmt: skip
            for r in reads(b):
                x = self.bindings.get(r.var, b)
                later = [t for t in inside if t not in x.context]
                if any(len(x.context) <= replaced.get(t, 0) for t in later) and self.is_many(x):
                    found.add(x.var)
        return found

    def is_many(self, x: Binding) -> bool:
        """Whether a round computes this from the table, for many elements."""
        return self.from_table(x) and not all(i in self.times for i in x.context)

    def from_table(self, x: Binding) -> bool:
        """Whether an operation reads the table in the loop, or what does."""
        if not isinstance(x.prim, Op) or x.prim.name not in PRIMITIVES:
            return False
        if not any(t in x.context for t in self.times):
            return False
        read = [r.var for r in reads(x)]
        if any(v in self.around for v in read):
            return True
        return any(self.from_table(self.bindings[v]) for v in read if v in self.bindings)

    def copied(self, x: Binding) -> Operand:
        """An operation again, in the loop backwards; read at the indices of the first."""
        if x.var not in self.again:
            v = self.again[x.var] = fresh(x.var)
            names = dict(self.times)
            context = []
            for i in x.context:
                extent = self.indices[i].extent
                if i in self.times:
                    context.append(self.back(i))
                elif extent is None or rewrite_size(extent, names) == extent:
                    context.append(i)
                else:
                    context.append(self.index(rewrite_size(extent, names), i))
                    names[i] = size(context[-1])

            def there(o: Operand) -> Operand:
                return rewrite(rewrite(o, names), {}, self.read)

            outer, self.reader = self.reader, tuple(context)
            guards = rewrite_guards(rewrite_guards(x.guards, names), {}, self.read)
            prim = map_prim(x.prim, there, lambda s: s)
            self.reader = outer
            self.made[v] = Binding(v, tuple(context), guards, x.dtype, prim, x.origin)
        return Read(self.again[x.var], tuple(size(i) for i in self.context(x)))

def _carried(step: Read, version: Binding, value: Operand) -> Operand:
    """A value in the indices of one version in those of the version that `step` reads."""
    index = version.prim.index if isinstance(version.prim, Delay) else None
    names = {}
    for c, e in zip(version.context, step.at, strict=True):
        v = e.single
        if isinstance(v, Var) and c not in (v, index):
            names[v] = size(c)
    return rewrite(value, names)
