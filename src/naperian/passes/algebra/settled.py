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

from dataclasses import field

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
    Names,
    map_guards,
    map_prim,
    reads,
    rewrite,
    rewrite_size,
    variables,
)
from naperian.names import Var, fresh
from naperian.node import mutable, replace
from naperian.passes.bindings.builder import Builder
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

    def result(self) -> Program:
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
        return replace(b, prim=prim, guards=map_guards(b.guards, operand, index))

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
        return any(self.is_never_zero(names[i] - there) for i, there in axes or ())

    def is_same(self, b: Binding, e: Entry, names: Names) -> bool:
        """Whether an entry, of one value, goes to this element whenever there is one."""
        axes = self.axes(b, e, names)
        if axes is None or b.guards or e.guards or e.over:
            return False
        return all(names[i] == there for i, there in axes)

    def axes(self, b: Binding, e: Entry, names: Names) -> list[tuple[Var, Size]] | None:
        """Where an entry goes, on the axes that it says; None if that hangs on what it does not."""
        some = {i: fresh(i) for i in e.over}  # any, whatever the one of that name is for a reader
        self.natural.update(some.values())
        passed = {i: names[i] for i, at in zip(b.context, e.at, strict=True) if at == size(i)}
        passed |= {i: size(v) for i, v in some.items()}
        out = []
        for i, at in zip(b.context, e.at, strict=True):
            if at != size(i):
                if any(v in names and v not in passed for v in variables(at)):
                    return None
                out.append((i, rewrite_size(at, passed)))
        return out

    def is_never_zero(self, gap: Size) -> bool:
        """Whether a difference is not zero: all its terms have the sign of its number."""
        return gap.offset != 0 and all(
            a in self.natural for a in gap.atoms
        ) and len({c > 0 for _, c in gap.terms}) == 1
