"""A round that replaces one element of a table, or one row, changes it in place. ainf → ainf

    before   for i<n, t<k + 1:  s = delay over u<k from x[i] next new[u, i]
             for u<k, a<n:      c = eq(a, at[u])
             for u<k, a<n if c: v = mul(y[a], z[u])
             for u<k, a<n:      new = select(c[u, a], v[u, a], s[a, u])

    after    for u<k:           v = mul(y[at[u]], z[u])
             for u<k, a<n:      new = last at [u, at[u]] of v[u] from s[a, u]

That is how one says it without a state: `[v if a == i else s[a] for a]`, and in full it is a pass
over the table in every round. What is chosen is computed for the one index alone, since no other
reads it. The law: of all elements only those whose index is `at[u]` change; where that is the index
of no element, none does, which is asked if it is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Delay,
    Entry,
    Guard,
    Number,
    Op,
    Operand,
    Program,
    Read,
    Trips,
)
from naperian.ainf.walk import (
    atoms,
    closures,
    free,
    free_in,
    is_reduction,
    reads,
    rewrite,
    size_of,
    stops,
    variables,
)
from naperian.dtypes import DType
from naperian.facts import Facts
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.bindings.ranges import facts_about
from naperian.sizes import ONE, Clamp, Size, size

_FEW = 16  # elements: a choice of each in vectors is faster


def replaced(program: Program) -> Program:
    """See the module."""
    nexts = {
        b.prim.next.var for b in program.bindings
        if isinstance(b.prim, Delay) and isinstance(b.prim.next, Read)
    }  # fmt: skip
    chosen = [
        b for b in program.bindings
        if b.var in nexts and len(b.context) > 1 and not b.guards
        and isinstance(b.prim, Op) and b.prim.name == "select"
    ]  # fmt: skip
    if not chosen:
        return program
    made = _Replaced(program)
    found = {b.var: new for b in chosen if (new := made.result(b)) is not None}
    if not found:
        return program
    bindings = [x for b in program.bindings for x in found.get(b.var, (b,))]
    return replace(program, bindings=tuple(bindings), indices=made.indices)


class _Replaced:
    """The tables of a program of which a round replaces little."""

    def __init__(self, program: Program) -> None:
        self.sizes = frozenset(program.sizes)
        self.indices = dict(program.indices)
        self.bindings = {b.var: b for b in program.bindings}
        self.bounds = {p.var: p.bound for p in program.params}
        self.dtypes = {p.var: p.dtype for p in program.params}
        self.dtypes |= {b.var: b.dtype for b in program.bindings}
        shown = [a for r in program.results for a in atoms(r.value) if isinstance(a, Read)]
        self.reads = [*shown, *(r for b in program.bindings for r in reads(b))]
        self.readers = Counter(r.var for r in self.reads)
        self.delays = {
            b.prim.next.var: b for b in program.bindings
            if isinstance(b.prim, Delay) and isinstance(b.prim.next, Read)
        }  # fmt: skip

    def result(self, new: Binding) -> list[Binding] | None:
        """What takes the place of a choice between what is new and what was there."""
        old = self.old(new)
        if old is None or self.readers[new.var] != 1 or self.is_kept(old):
            return None
        assert isinstance(new.prim, Op)
        condition, value, otherwise = new.prim.args
        keys: dict[Var, Operand] = {}
        axes = tuple(i for e in old.at if isinstance(i := e.single, Var) and i != self.time(old))
        if self.seen(otherwise) != old or not self.keys(condition, axes, keys):
            return None
        if self.is_short(keys) or any(a in free(k) for a in keys for k in keys.values()):
            return None
        tests: list[Binding] = []
        guards: list[Guard] = []
        for a, key in keys.items():
            guards += self.within(a, key, tests, new)
        indices = dict(self.indices)
        copies = _Copies(self, new, old, keys, tuple(guards))
        there = copies.operand(value)
        names = copies.names
        if copies.failed or not self.is_in_place(there, old, copies):
            self.indices = indices
            return None
        at = tuple(names.get(i, size(i)) for i in new.context)
        put = Accumulate("last", old, (Entry((), at, there, tuple(guards)),))
        return [*tests, *copies.made, replace(new, prim=put)]

    def old(self, new: Binding) -> Read | None:
        """The element that a round began with, where it makes a new one."""
        delay = self.delays[new.var]
        assert isinstance(delay.prim, Delay)
        assert isinstance(delay.prim.next, Read)
        time = delay.prim.time
        mine: dict[Var, Var] = {}  # of the indices of the table, those of the choice
        for i, e in zip(new.context, delay.prim.next.at, strict=True):
            there = e.single
            if not isinstance(there, Var) or there in mine:
                return None
            mine[there] = i
        if mine.get(time) != time or not {*delay.context} - {delay.prim.index} <= {*mine}:
            return None
        at = (time if i == delay.prim.index else mine[i] for i in delay.context)
        return Read(delay.var, tuple(map(size, at)))

    def is_short(self, keys: Iterable[Var]) -> bool:
        """Whether so few elements go through a choice that vectors are faster."""
        many = 1
        for a in keys:
            extent = self.indices[a].extent
            if extent is None or extent.constant is None:
                return False
            many *= extent.constant
        return many < _FEW

    def is_kept(self, old: Read) -> bool:
        """Whether a table is read as it was in earlier rounds, so that all of it is kept anyway."""
        delay = self.bindings[old.var]
        assert isinstance(delay.prim, Delay)
        time, at = delay.prim.time, delay.context.index(delay.prim.index)
        ends = (size(time), self.indices[time].extent)
        return any(
            r.at[at] not in ends and not isinstance(r.at[at].single, Trips)
            for r in self.reads if r.var == old.var
        )  # fmt: skip

    def is_in_place(self, value: Operand, old: Read, copies: _Copies) -> bool:
        """Whether what a row is replaced by can be put there element by element: of the table, an
        element needs what is in its own place of other rows, and what all elements need."""
        made = self.bindings | {b.var: b for b in copies.made}
        axes = {i: k for k, e in enumerate(old.at) if isinstance(i := e.single, Var)}
        row = {i: axes[i] for i in copies.context if i in axes and i != copies.time}
        seen: set[Var] = set()
        todo = [(r, copies.context) for r in atoms(value) if isinstance(r, Read)]
        while todo:
            r, context = todo.pop()
            b = made.get(r.var)
            if r.var == old.var and any(r.at[k] != size(i) for i, k in row.items() if i in context):
                return False
            if b is None or r.var in seen or copies.time not in b.context:
                continue
            seen.add(r.var)
            todo += [(x, b.context) for x in reads(b)]
        return True

    def time(self, old: Read) -> Var:
        """The rounds of a table."""
        delay = self.bindings[old.var].prim
        assert isinstance(delay, Delay)
        return delay.time

    def seen(self, x: Operand) -> Operand:
        """What is copied, where that is a copy."""
        while isinstance(x, Read) and x.var in self.bindings:
            b = self.bindings[x.var]
            if not isinstance(b.prim, Op) or b.prim.name != "copy":
                break
            x = rewrite(b.prim.args[0], dict(zip(b.context, x.at, strict=True)))
        return x

    def op(self, x: Operand) -> tuple[str, tuple[Operand, ...]] | None:
        """The operation that gives a value, and its operands there."""
        if not isinstance(x, Read) or x.var not in self.bindings:
            return None
        b = self.bindings[x.var]
        if not isinstance(b.prim, Op) or b.guards:
            return None
        names = dict(zip(b.context, x.at, strict=True))
        return b.prim.name, tuple(rewrite(a, names) for a in b.prim.args)

    def keys(self, c: Operand, context: tuple[Var, ...], found: dict[Var, Operand]) -> bool:
        """Whether a condition says of indices what they are, and nothing else; what that is."""
        match self.op(c):
            case ("and", (x, y)) | ("select", (x, y, Lit(False))):
                return self.keys(x, context, found) and self.keys(y, context, found)
            case ("eq", (x, y)):
                for index, key in ((x, y), (y, x)):
                    a = index.value.single if isinstance(index, Number) else None
                    if isinstance(a, Var) and a in context and a not in {*found, *free(key)}:
                        if self.indices[a].condition is None and self.is_whole(key):
                            found[a] = key
                            return True
            case _:
                pass
        return False

    def is_whole(self, key: Operand) -> bool:
        match key:
            case Number():
                return True
            case Lit():
                return key.dtype is DType.I64
            case Read(v):
                return self.dtypes.get(v) is DType.I64
        return False

    def within(self, a: Var, key: Operand, tests: list[Binding], new: Binding) -> Iterator[Guard]:
        """The conditions under which a key is an index of the table, if that is not known."""
        extent = self.indices[a].extent
        assert extent is not None
        at, none = size_of(key), Lit(0, DType.I64)
        single = at.single
        asked: list[tuple[Operand, str, Operand, Size]] = []
        if isinstance(single, Clamp) and single.extent == extent:
            asked = [(none, "lt", Number(extent), extent - ONE)]
        elif not isinstance(single, Read) or self.bounds.get(single.var) != extent:
            asked = [(key, "ge", none, at), (key, "lt", Number(extent), extent - ONE - at)]
        asked = [
            x for x in asked
            if not facts_about(x[3], self.indices, self.sizes, (), Facts()).proves(x[3])
        ]  # fmt: skip
        for x, name, y, fact in asked:
            own = {*free(x), *free(y)}
            context = tuple(i for i in new.context if i in own)
            test = Binding(fresh(new.var), context, (), DType.BOOL, Op(name, (x, y)), new.origin)
            tests.append(test)
            yield Guard(Read(test.var, tuple(map(size, context))), True, fact)


class _Copies:
    """Bindings as they are where indices are what is put for them."""

    def __init__(
        self, of: _Replaced, new: Binding, old: Read, keys: dict[Var, Operand],
        guards: tuple[Guard, ...],
    ) -> None:  # fmt: skip
        self.of, self.keys, self.guards = of, keys, guards
        self.time, self.failed = of.time(old), False
        self.context = tuple(i for i in new.context if i not in keys)
        self.names = {a: size_of(k) for a, k in keys.items()}
        self.made: list[Binding] = []
        self.copies: dict[Var, Read] = {}

    def operand(self, x: Operand) -> Operand:
        """A value where the indices are these, without what is not computed for them alone."""
        for r in atoms(x):
            if isinstance(r, Read):
                self.copy(r)
        return rewrite(x, self.names, self.read)

    def read(self, r: Read) -> Read:
        """What stands for a read, in which the indices are replaced."""
        made = self.copies.get(r.var)
        if made is None:
            return r
        b = self.of.bindings[r.var]
        here = tuple(self.names.get(i, size(i)) for i in b.context)
        return made if r.at == here else r

    def copy(self, r: Read) -> None:
        """A binding in a round that is read at the indices is made for what they are, if it can."""
        b = self.of.bindings.get(r.var)
        if b is None or self.time not in b.context or self.keys.keys().isdisjoint(b.context):
            return
        if self.keys.keys().isdisjoint(v for e in r.at for v in variables(e)):
            return
        if r.at != tuple(map(size, b.context)) or stops(b.prim):
            self.failed = True
            return
        if b.var in self.copies:
            return
        match b.prim:
            case Op():
                pass
            case Accumulate(_, _, entries) if is_reduction(b.context, b.prim):
                self.renamed(entries)
            case _:
                self.failed = True
                return
        guards = [self.guard(g) for g in b.guards if not self.is_known(g, b.context)]
        prim = self.prim(b)
        all_ = (*self.guards, *guards)
        needed = {*free_in(prim), *(v for g in all_ for v in free(g.operand))}
        closed = closures(self.of.indices)
        needed = {v for i in needed if i in closed for v in closed[i]}
        order = dict.fromkeys((*self.context, *(self.put(i) for i in b.context)))
        context = tuple(i for i in order if i in needed)
        if isinstance(prim, Accumulate):
            at = tuple(map(size, context))
            prim = replace(prim, entries=tuple(replace(e, at=at) for e in prim.entries))
        made = replace(b, var=fresh(b.var), context=context, guards=all_, prim=prim)
        self.made.append(made)
        self.copies[b.var] = Read(made.var, tuple(map(size, context)))

    def put(self, i: Var) -> Var:
        """What an index that is not one of these is called in the copies."""
        there = self.names.get(i, size(i)).single
        return there if isinstance(there, Var) else i

    def renamed(self, entries: tuple[Entry, ...]) -> None:
        """The indices that a sum goes over get names of their own."""
        for e in entries:
            for i in e.over:
                if i not in self.names:
                    index, copy = self.of.indices[i], fresh(i)
                    assert index.extent is not None
                    extent = size_of(self.operand(Number(index.extent)))
                    self.of.indices[copy] = replace(index, extent=extent)
                    self.names[i] = size(copy)

    def prim(self, b: Binding) -> Op | Accumulate:
        assert isinstance(b.prim, Op | Accumulate)
        if isinstance(b.prim, Op):
            return replace(b.prim, args=tuple(map(self.operand, b.prim.args)))
        entries = tuple(
            Entry(
                tuple(map(self.put, e.over)), e.at, self.operand(e.value),
                tuple(map(self.guard, e.guards)),
            )
            for e in b.prim.entries
        )  # fmt: skip
        return replace(b.prim, init=self.operand(b.prim.init), entries=entries)

    def guard(self, g: Guard) -> Guard:
        fact = None if g.fact is None else size_of(self.operand(Number(g.fact)))
        return Guard(self.operand(g.operand), g.holds, fact)

    def is_known(self, g: Guard, context: tuple[Var, ...]) -> bool:
        """Whether a guard says that the indices are what they are."""
        found: dict[Var, Operand] = {}
        said = g.holds and self.of.keys(g.operand, context, found)
        return said and all(self.keys.get(a) == k for a, k in found.items())
