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

If the table is read in yet other rounds, all of them are kept anyway, and it is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Delay,
    Entry,
    Index,
    Op,
    Operand,
    Program,
    Read,
)
from naperian.ainf.walk import (
    atoms,
    atoms_of,
    closures,
    free,
    map_prim,
    operands,
    reads,
    rewrite,
    rewrite_guards,
    rewrite_size,
)
from naperian.names import Var, fresh
from naperian.node import mutable, replace
from naperian.passes.algebra.prune import prune
from naperian.passes.bindings.states import State, outermost, state_of
from naperian.passes.derivatives.amid import Amid, amid
from naperian.prims import PRIMITIVES
from naperian.sizes import Size, size

Names = Mapping[Var, Size]


def undo(program: Program) -> Program:
    """See the module."""
    changed = False
    for v in outermost(program):
        left = 1  # loops backwards
        while left:
            bindings = {b.var: b for b in program.bindings}
            state = state_of(bindings[v], bindings, program.indices)
            found = None if state is None else _Undo(program, state)
            made = None if found is None else found.result()
            left = 0 if found is None or made is None else found.left
            changed = changed or made is not None
            program = made or program
    return prune(program) if changed else program


@mutable
class _Undo:
    """One state of a program is undone where it is read backwards."""

    program: Program
    state: State
    bindings: dict[Var, Binding] = field(init=False)
    times: dict[Var, Size] = field(init=False)  # each time backwards
    left: int = 0  # how many other loops read the table backwards
    around: dict[Var, tuple[Var, ...]] = field(init=False)  # of each version: the times it is in
    indices: dict[Var, Index] = field(init=False)
    versions: dict[tuple[Var, str], Operand] = field(default_factory=dict)
    made: dict[Var, Binding] = field(default_factory=dict)
    before: dict[Var, list[Binding]] = field(default_factory=dict)  # what is kept, and before what
    again: dict[Var, Var] = field(default_factory=dict)
    amid: Amid = field(init=False)
    reader: tuple[Var, ...] = ()  # the context of what is rewritten
    waiting: set[Var] = field(default_factory=set)  # what is kept, since it would be there too late

    def result(self) -> Program | None:
        """The program without reads of earlier rounds; None if it stays as it is."""
        p = self.program
        self.bindings = {b.var: b for b in p.bindings}
        self.indices = dict(p.indices)
        self.around = {}
        self.collect(self.state, ())
        if not self.found():
            return None
        self.backwards(self.state)
        last = self.extent(self.state)
        names = {self.state.index: last}
        here = Read(self.state.delay.var, tuple(size(i) for i in self.state.delay.context))
        self.restored(self.state, rewrite(here, names))
        self.waiting = self.too_late()
        self.amid = amid(self.state, self.indices, frozenset(p.sizes))
        bindings = [self.rewritten(b) for b in p.bindings]
        return replace(p, bindings=self.sorted(bindings), indices=self.indices)

    def collect(self, s: State, outer: tuple[Var, ...]) -> None:
        """The times around every version."""
        self.around[s.delay.var] = (*outer, s.time)
        for x in s.links:
            if isinstance(x, State):
                self.collect(x, (*outer, s.time))
            else:
                self.around[x.var] = (*outer, s.time)

    def extent(self, s: State) -> Size:
        extent = self.indices[s.time].extent
        assert extent is not None
        return extent

    # is it read backwards, and nowhere else?

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
        return True if kinds == {"back"} else None

    def matched(self, t: Var, at: Size) -> str:
        """Whether a round is this one, or one of a loop backwards."""
        if at == size(t):
            return "here"
        extent = self.indices[t].extent
        assert extent is not None
        if t in self.times:
            return "back" if at == self.times[t] else "none"
        rounds = rewrite_size(extent, self.times)
        b = (rounds - 1 - at).single
        if not isinstance(b, Var) or b not in self.indices or b in self.times:
            return "none"
        if self.indices[b].extent != rounds:
            return "none"
        self.times[t] = at
        return "back"

    def backwards(self, s: State) -> None:
        """Loops inside that nobody reads backwards run backwards, too."""
        if s.time not in self.times:
            rounds = rewrite_size(self.extent(s), self.times)
            b = self.index(rounds, s.time)
            self.times[s.time] = rounds - 1 - size(b)
        for x in s.links:
            if isinstance(x, State):
                self.backwards(x)

    def index(self, extent: Size, like: Var) -> Var:
        i = fresh(like)
        self.indices[i] = Index(extent, None, self.indices[like].name)
        return i

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
        guards = (*x.guards, *(g for g in e.guards if g not in x.guards))
        around = closures(self.indices)
        found = {*free(old), *(v for g in guards for v in free(g.operand))}
        needed = frozenset[Var]().union(*(around[v] for v in found if v in around))
        context = tuple(i for i in self.indices if i in needed)
        v = fresh(x.var)
        kept = Binding(v, context, guards, x.dtype, Op("held", (old,)), x.origin)
        self.before.setdefault(x.var, []).append(kept)
        return Read(v, tuple(size(i) for i in context))

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
        """The same value from the loop backwards, if it is read there."""
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


def _carried(step: Read, version: Binding, value: Operand) -> Operand:
    """A value in the indices of one version in those of the version that `step` reads."""
    index = version.prim.index if isinstance(version.prim, Delay) else None
    names = {}
    for c, e in zip(version.context, step.at, strict=True):
        v = e.single
        if isinstance(v, Var) and c not in (v, index):
            names[v] = size(c)
    return rewrite(value, names)
