"""What no round of a loop changes is read as it was before. ainf → ainf

    for k, j<m:  s = delay over t from x[k, i] next last at [k + 1, j] of v from s
    for k, t:    y = mul(s[k, k, t + 1, t], …)        row k is no row that the loop writes to
    ⇒  for k, t: y = mul(x[k, k, t + 1], …)

So an element of a table that is changed in place is read once, not in every round of a loop that
leaves it alone: the row and the column of a pivot. What was just assigned is what is read. Two
elements are different ones if the difference of their indices on some axis is never zero, whatever
the natural numbers that it is made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

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
)
from naperian.ainf.walk import (
    Names,
    free,
    map_guards,
    map_prim,
    reads,
    rewrite,
    rewrite_guards,
    rewrite_size,
    variables,
)
from naperian.facts import Facts
from naperian.names import Var, fresh
from naperian.node import mutable, replace
from naperian.passes.bindings.builder import Builder
from naperian.passes.bindings.ranges import facts_about
from naperian.passes.bindings.states import state_of
from naperian.prims import Math
from naperian.sizes import Size, size

_MOST = 64  # changes that are looked through for one read


def settled(program: Program) -> Program:
    """See the module."""
    made = {b.var: b for b in program.bindings}
    tables = frozenset(
        b.var for b in program.bindings
        if isinstance(b.prim, Delay) and state_of(b, made, program.indices) is not None
    )  # fmt: skip
    if not tables:
        return program
    return _Settled(program, made, tables).result()


def settle_last(b: Builder, start: int) -> None:
    """The same for the bindings from `start` on, which keep their contexts: what is differentiated
    adds up what is read once, and not in a table that is changed in every round."""
    program = b.program((), (), Math.DEFAULT, ())
    if any(isinstance(x.prim, Delay) for x in b.bindings[start:]):
        b.bindings[start:] = settled(program).bindings[start:]


@mutable
class _Settled:
    program: Program
    made: dict[Var, Binding]
    tables: frozenset[Var]
    natural: set[Var] = field(default_factory=set)
    known: dict[Read, Operand] = field(default_factory=dict)
    sizes: frozenset[Var] = frozenset()

    def result(self) -> Program:
        self.sizes = frozenset(self.program.sizes)
        self.natural = {*self.program.sizes, *self.program.indices}
        bindings = tuple(map(self.binding, self.program.bindings))
        return replace(self.program, bindings=bindings)

    def binding(self, b: Binding) -> Binding:
        if isinstance(b.prim, Delay) or not any(self.is_table(r.var) for r in reads(b)):
            return b

        def operand(o: Operand) -> Operand:
            return rewrite(o, {}, self.first)

        def index(s: Size) -> Size:
            return rewrite_size(s, {}, self.first)

        prim = map_prim(b.prim, operand, index)
        if isinstance(prim, Op) and prim.name == "held" and prim != b.prim:
            (o,) = prim.args
            if not isinstance(o, Read) or not self.is_table(o.var):
                prim = Op("copy", (o,))
        guards = map_guards(b.guards, operand, index)
        if isinstance(prim, Op) and prim.name in ("held", "copy") and guards:
            guards = self.needed(guards, prim.args[0])
        return replace(b, prim=prim, guards=guards)

    def needed(self, guards: tuple[Guard, ...], o: Operand) -> tuple[Guard, ...]:
        """The conditions of a read, without those that are about other indices than it has: where
        they are not what brings it into range, it is the same for all places."""
        x = self.made.get(o.var) if isinstance(o, Read) else None
        if not isinstance(o, Read) or x is None or x.guards:
            return guards
        own = set(free(o))
        names = dict(zip(x.context, o.at, strict=True))
        for i, at in names.items():
            extent = self.program.indices[i].extent
            if extent is None:
                return guards
            if not all(
                facts_about(e, self.program.indices, self.sizes, (), Facts()).proves(e)
                for e in (at, rewrite_size(extent, names) - 1 - at)
            ):
                return guards
        return tuple(g for g in guards if own.issuperset(free(g.operand)))

    def is_table(self, v: Var) -> bool:
        """Whether this is a table while it is changed."""
        b = self.made.get(v)
        if b is None:
            return False
        if isinstance(b.prim, Delay):
            return v in self.tables
        return isinstance(b.prim, Accumulate) and isinstance(b.prim.init, Read)

    def first(self, r: Read) -> Operand:
        """The element before all changes that it is not one of."""
        if r not in self.known:
            o: Operand = r
            for _ in range(_MOST):
                before = self.before(o, True) if isinstance(o, Read) else None
                if before is None:
                    break
                o = before
            self.known[r] = o
        return self.known[r]

    def before(self, r: Read, value: bool) -> Operand | None:
        """The element before the last change of its table, if it is not one of those changed; with
        `value` also what it was changed to, if it is certainly the one."""
        b = self.made.get(r.var)
        if b is None or not self.is_table(r.var):
            return None
        names: Names = dict(zip(b.context, r.at, strict=True))
        match b.prim:
            case Accumulate(monoid, init, entries):
                if all(self.is_apart(b, e, names) for e in entries):
                    return rewrite(init, names)
                one = value and monoid == "last" and len(entries) == 1
                if one and self.is_same(b, entries[0], names):
                    return rewrite(entries[0].value, names)
            case Delay(time, index, init, step):
                some = fresh(time)
                self.natural.add(some)
                round_ = {**names, index: size(some), time: size(some)}
                here = Read(b.var, tuple(round_[i] for i in b.context))
                o: Operand | None = rewrite(step, round_)
                for _ in range(_MOST):
                    if o == here:
                        return rewrite(init, names)
                    o = self.before(o, False) if isinstance(o, Read) else None
                    if o is None:
                        return None
            case _:
                pass
        return None

    def is_apart(self, b: Binding, e: Entry, names: Names) -> bool:
        """Whether an entry goes to other elements than this one."""
        axes = self.axes(b, e, names)
        if not axes:
            return False
        gaps = [names[i] - there for i, there in axes]
        if any(map(self.is_never_zero, gaps)):
            return True
        return any(self.tells(g, gap) for g in self.guards(b, e, names) for gap in gaps)

    def guards(self, b: Binding, e: Entry, names: Names) -> Iterator[Guard]:
        """The conditions of an entry that hang on nothing but where it goes."""
        passed = self.passed(b, e, names)
        for g in dict.fromkeys((*b.guards, *e.guards)):
            if not e.over and all(v in passed or v not in names for v in free(g.operand)):
                yield from rewrite_guards((g,), passed)

    def tells(self, g: Guard, gap: Size) -> bool:
        """Whether a difference is not zero where a guard holds."""
        asked = self.made.get(g.operand.var) if isinstance(g.operand, Read) else None
        match asked and asked.prim:
            case Op("ne" | "eq" as name, (Number(one), Number(other))):
                assert asked is not None
                assert isinstance(g.operand, Read)
                here = dict(zip(asked.context, g.operand.at, strict=True))
                apart = rewrite_size(one - other, here)
                return g.holds == (name == "ne") and apart in (gap, -gap)
            case _:
                return False

    def is_same(self, b: Binding, e: Entry, names: Names) -> bool:
        """Whether an entry, of one value, goes to this element whenever there is one."""
        axes = self.axes(b, e, names)
        if axes is None or b.guards or e.guards or e.over:
            return False
        return all(names[i] == there for i, there in axes)

    def axes(self, b: Binding, e: Entry, names: Names) -> list[tuple[Var, Size]] | None:
        """Where an entry goes, on the axes that it says; None if that hangs on what it does not."""
        passed = self.passed(b, e, names)
        some = {i: fresh(i) for i in e.over}  # any, whatever the one of that name is for a reader
        self.natural.update(some.values())
        passed |= {i: size(v) for i, v in some.items()}
        out = []
        for i, at in zip(b.context, e.at, strict=True):
            if at != size(i):
                if any(v in names and v not in passed for v in variables(at)):
                    return None
                out.append((i, rewrite_size(at, passed)))
        return out

    def passed(self, b: Binding, e: Entry, names: Names) -> dict[Var, Size]:
        """What the indices are that an entry leaves as they are."""
        return {i: names[i] for i, at in zip(b.context, e.at, strict=True) if at == size(i)}

    def is_never_zero(self, gap: Size) -> bool:
        """Whether a difference is not zero: all its terms have the sign of its number."""
        return gap.offset != 0 and all(
            a in self.natural for a in gap.atoms
        ) and len({c > 0 for _, c in gap.terms}) == 1
