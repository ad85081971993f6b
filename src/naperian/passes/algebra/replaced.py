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
of no element, none does, which is asked if it is not known. Of several choices (`choices`), as two
rows that are exchanged, the first is put there last; what is chosen is read before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from math import prod

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
    Result,
    Trips,
)
from naperian.ainf.walk import (
    atoms,
    free,
    reads,
    size_of,
)
from naperian.dtypes import DType
from naperian.facts import Facts
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.algebra.choices import Choice, Choices
from naperian.passes.algebra.copied import Copies
from naperian.passes.bindings.builder import Builder
from naperian.passes.bindings.ranges import facts_about
from naperian.prims import Math
from naperian.sizes import ONE, Clamp, Size, size

_FEW = 16  # elements: a choice of each in vectors is faster


def replace_last(b: Builder, start: int, shown: Iterable[Operand]) -> None:
    """The same for the bindings from `start` on, of which `shown` are read elsewhere: a derivative
    of what is put in a place is a number, of a choice for each place a table."""
    if not any(isinstance(x.prim, Delay) for x in b.bindings[start:]):
        return
    results = [Result((), o, b.dtype(o), False) for o in shown]
    program = b.program(results, (), Math.DEFAULT, ())
    made = replaced(program)
    if made is program or made.bindings[:start] != program.bindings[:start]:
        return
    for i, index in made.indices.items():
        if i not in b.indices:
            b.add_index(i, index)
    b.bindings[start:] = made.bindings[start:]
    for x in b.bindings[start:]:
        b.contexts[x.var], b.guards[x.var], b.dtypes[x.var] = x.context, x.guards, x.dtype


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
        dtypes = {p.var: p.dtype for p in program.params}
        dtypes |= {b.var: b.dtype for b in program.bindings}
        self.choices = Choices(self.bindings, self.indices, dtypes)
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
        time = self.time(old)
        axes = tuple(i for e in old.at if isinstance(i := e.single, Var) and i != time)
        choices = self.choices.of(Read(new.var, tuple(map(size, new.context))), old, axes)
        if not choices or not all(map(self.is_worth, choices)):
            return None
        indices = dict(self.indices)
        tests: list[Binding] = []
        made: list[Binding] = []
        entries: list[Entry] = []
        for c in choices:
            guards = tuple(Guard(x, holds) for x, holds in c.given)
            for a, key in c.keys.items():
                guards += tuple(self.within(a, key, tests, new, guards))
            copies = Copies(
                self.choices, new.context, lambda b, _: time in b.context, c, guards
            )
            there = copies.operand(c.value)
            if copies.failed:
                self.indices.clear()
                self.indices.update(indices)
                return None
            made += copies.made
            at = tuple(copies.names.get(i, size(i)) for i in new.context)
            entries.append(Entry((), at, there, guards))
        put = Accumulate("last", old, tuple(reversed(entries)))
        return [*tests, *made, replace(new, prim=put)]

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

    def is_worth(self, choice: Choice) -> bool:
        """Whether the indices are known for all places, and so many elements go through the choice
        that vectors of them take longer."""
        for key in choice.keys.values():
            if not choice.keys.keys().isdisjoint(free(key)):
                return False
            if not all(map(choice.given.__contains__, self.choices.needed_for(key))):
                return False
        extents = [self.indices[a].extent for a in choice.keys]
        known = [n.constant for n in extents if n is not None and n.constant is not None]
        return len(known) < len(extents) or prod(known) >= _FEW

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

    def time(self, old: Read) -> Var:
        """The rounds of a table."""
        delay = self.bindings[old.var].prim
        assert isinstance(delay, Delay)
        return delay.time

    def within(
        self, a: Var, key: Operand, tests: list[Binding], new: Binding, given: tuple[Guard, ...]
    ) -> Iterator[Guard]:
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
            own = {v for e in (x, y, *(g.operand for g in given)) for v in free(e)}
            context = tuple(i for i in new.context if i in own)
            test = Binding(fresh(new.var), context, given, DType.BOOL, Op(name, (x, y)), new.origin)
            tests.append(test)
            yield Guard(Read(test.var, tuple(map(size, context))), True, fact)
