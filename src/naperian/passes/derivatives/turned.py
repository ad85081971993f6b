"""What reads a loop backwards from its last round on goes forwards with it. ainf → ainf

    for i<n, t<k + 1:  s = delay over u<k from z[i] next …            a loop backwards
    for t<k, i<n:      y = mul(s[i, k - t - 1], x[t, i])              a value of each of its rounds
    return for t<k, i<n: y[t, i]

    for u<k, i<n:      y = mul(s[i, u], x[k - u - 1, i])
    return for t<k, i<n: y[k - t - 1, i]

The cotangent of what came in at a time is computed in the round backwards that it is of, and so are
sums of such: else the cotangent of the state would be kept for every time, and gone through once
more. What spreads over more indices than the state has is a product of matrices, for all times at
once, and stays as it is.
"""

from __future__ import annotations

from dataclasses import field

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Delay,
    Entry,
    Index,
    Op,
    Operand,
    Prim,
    Program,
    Read,
)
from naperian.ainf.walk import (
    atoms,
    atoms_of,
    closures,
    reads,
    rewrite,
    rewrite_guards,
    rewrite_prim,
    variables,
)
from naperian.names import Var, fresh
from naperian.node import mutable, node, replace
from naperian.prims import PRIMITIVES, UNORDERED, Math
from naperian.sizes import ONE, Size, places, size


def turned(program: Program) -> Program:
    """See the module."""
    return _Turned(program).result()


@node
class _Axis:
    """The axis that rounds of a loop are, how many there are, and which loop it is: later ones read
    earlier ones."""

    axis: int
    extent: Size
    loop: int


@mutable
class _Turned:
    """Makes values that go the other way."""

    program: Program
    axes: dict[Var, _Axis] = field(default_factory=dict)  # of what has a value in every round
    turned: dict[Var, _Axis] = field(default_factory=dict)
    contexts: dict[Var, tuple[Var, ...]] = field(default_factory=dict)
    times: set[Var] = field(default_factory=set)
    indices: dict[Var, Index] = field(default_factory=dict)
    fixed: set[Var] = field(default_factory=set)  # what other indices go by, and these
    loops: set[Var] = field(default_factory=set)  # what they and the lengths of others go by

    def result(self) -> Program:
        p = self.program
        times: dict[Var, _Axis] = {}
        for rank, b in enumerate(p.bindings):
            if isinstance(b.prim, Delay):
                time = p.indices[b.prim.time]
                if time.condition is None and time.extent is not None:
                    axis = b.context.index(b.prim.index)
                    self.axes[b.var] = _Axis(axis, time.extent, rank)
                    times[b.prim.time] = _Axis(axis, time.extent, rank)
        for b in p.bindings:
            for k, i in enumerate(b.context):
                if i in times and b.var not in self.axes:
                    self.axes[b.var] = replace(times[i], axis=k)
        if not self.axes or p.math is Math.STRICT:
            return p
        self.contexts = {b.var: b.context for b in p.bindings}
        self.times = {*times}
        self.indices = dict(p.indices)
        self.loops = _loops(p.bindings)
        for n in p.indices.values():  # of these no read is rewritten
            said = () if n.extent is None else atoms_of(n.extent)
            asked = () if n.condition is None else atoms(n.condition)
            self.loops |= {r.var for r in (*said, *asked) if isinstance(r, Read)}
        for of in closures(p.indices).values():
            if len(of) > 1:
                self.fixed |= of
        bindings = [self.binding(b) for b in p.bindings]
        if not self.turned:
            return p
        results = tuple(replace(r, value=rewrite(r.value, {}, self.read)) for r in p.results)
        return replace(p, bindings=tuple(bindings), results=results, indices=self.indices)

    def binding(self, b: Binding) -> Binding:
        found = self.found(b)
        prim, guards = b.prim, b.guards
        if self.turned:
            prim, guards = rewrite_prim(prim, {}, self.read), rewrite_guards(guards, {}, self.read)
        if found is not None:
            i = b.context[found.axis]
            self.turned[b.var] = found
            new, names = self.other_way(i, found.extent)
            context = tuple(new if v == i else v for v in b.context)
            prim = rewrite_prim(prim, names)
            if isinstance(prim, Accumulate):
                (entry,) = prim.entries
                prim = replace(prim, entries=(replace(entry, at=places(context)),))
            return replace(b, context=context, prim=prim)
        if isinstance(prim, Accumulate) and prim.monoid in UNORDERED:
            prim = replace(prim, entries=tuple(map(self.entry, prim.entries)))
        return b if prim is b.prim else replace(b, prim=prim, guards=guards)

    def read(self, r: Read) -> Operand:
        """A read of what goes the other way now."""
        if r.var not in self.turned:
            return r
        t = self.turned[r.var]
        at = tuple(t.extent - e - ONE if k == t.axis else e for k, e in enumerate(r.at))
        return Read(r.var, at)

    def other_way(self, i: Var, extent: Size) -> tuple[Var, dict[Var, Size]]:
        new = fresh(i)
        self.indices[new] = self.indices[i]
        return new, {i: extent - size(new) - ONE}

    def found(self, b: Binding) -> _Axis | None:
        """The index of a value along which it reads a loop from its end on, and no later one
        forwards."""
        match b.prim:
            case Op(name):
                known, line = name in PRIMITIVES, set(b.context)
            case Accumulate(entries=(Entry(over, at, _, ()),)):
                known, line = at == places(b.context), {*b.context, *over}
            case _:
                return None
        if not known or b.guards or b.var in self.loops:
            return None
        found: dict[int, _Axis] = {}
        seen: set[Var] = set()
        forwards = -1
        for r in reads(b):
            t = self.turned.get(r.var) or self.axes.get(r.var)
            if t is None:
                continue
            e = r.at[t.axis]
            if r.var in self.turned and self.is_of_rows(b.prim, r):
                e = t.extent - e - ONE
            k = next((k for k, i in enumerate(b.context) if e == t.extent - size(i) - ONE), None)
            if isinstance(e.single, Var):
                forwards = max(forwards, t.loop)
            elif k is not None and self.indices[b.context[k]].extent == t.extent:
                found[t.loop] = replace(t, axis=k)
                seen.update(v for x in r.at for v in variables(x))
        axis = found[max(found)] if found else None
        if axis is None or axis.loop <= forwards or not seen.issuperset(line):
            return None
        return None if b.context[axis.axis] in self.fixed else axis

    def is_of_rows(self, prim: Prim, r: Read) -> bool:
        """Whether what is read is summed in each round of all loops: a sum over rounds of one of
        them stays in memory."""
        if not isinstance(prim, Accumulate):
            return False
        over = {i for e in prim.entries for i in e.over}
        axes = zip(self.contexts[r.var], r.at, strict=True)
        return all(i not in self.times or over.isdisjoint(variables(e)) for i, e in axes)

    def entry(self, e: Entry) -> Entry:
        """A sum of what goes the other way goes so, too."""
        if e.guards or not isinstance(e.value, Read) or e.value.var not in self.turned:
            return e
        k, extent = self.turned[e.value.var].axis, self.turned[e.value.var].extent
        at = {v for x in e.at for v in variables(x)}
        for i in e.over:
            if self.indices[i].extent != extent or i in self.fixed or i in at:
                continue
            if e.value.at[k] == extent - size(i) - ONE:
                new, names = self.other_way(i, extent)
                over = tuple(new if v == i else v for v in e.over)
                return replace(e, over=over, value=rewrite(e.value, names))
        return e


def _loops(bindings: tuple[Binding, ...]) -> set[Var]:
    """What loops need: what they hand on is defined behind them, and is in their rounds."""
    of = {b.var: b for b in bindings}
    work = [b for b in bindings if isinstance(b.prim, Delay)]
    found: set[Var] = set()
    while work:
        for r in reads(work.pop()):
            if r.var in of and r.var not in found:
                found.add(r.var)
                work.append(of[r.var])
    return found
