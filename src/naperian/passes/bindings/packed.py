"""How arrays with ragged axes are stored: row after row, without gaps.

    t[i, j] for i<n, j<i + 1      one axis of (n² + n) // 2 elements; t[i, j] is (i² + i) // 2 + j
    r[i, j] for i<n, j<k[i]       one axis of o[n] elements;          r[i, j] is o[i] + j
                                  where  o[0] = 0,  o[i + 1] = o[i] + max(0, k[i])

An axis is ragged if its extent depends on an axis before it; a run of axes that depend on each
other becomes one axis of the buffer, all others stay axes of their own. The elements stand in the
order of their indices, as in a dense array.

The place of an element is a sum with a term for each axis of the run: the number of elements that
come before, with the axes further out fixed. Where the numbers of elements are polynomials (and
not negative), so are these (`sums.below`). Otherwise they are the values over time of a `Delay`,
its prefix sums: a binding of the program like any other, made by `with_offsets` for what `Packing`
found missing. `offsets` are these bindings, by the axes they count: the key `(i, j)` is that of
"how many (i, j) come before i".
"""

from __future__ import annotations

from collections.abc import Mapping

from naperian.ainf.syntax import (
    Binding,
    Delay,
    Guard,
    Index,
    Number,
    Op,
    Operand,
    Program,
    Read,
)
from naperian.ainf.waiting import waiting
from naperian.ainf.walk import (
    atoms_of,
    reads,
    rewrite,
    rewrite_size,
    runs,
    variables,
)
from naperian.broken import Broken
from naperian.dtypes import DType
from naperian.facts import Facts
from naperian.names import Lit, Var
from naperian.node import node, replace
from naperian.sizes import ONE, ZERO, Size, atom, clamp, size
from naperian.sums import below

Axes = tuple[Var, ...]
Offsets = Mapping[Axes, Read]
"""For axes `(i, …)`: the read of how many elements over them come before `i`."""


@node
class Layout:
    """The shape of a buffer, and the place in it of the element at some axes."""

    shape: tuple[Size, ...]
    at: tuple[Size, ...]


class Packing:
    """The layouts of a program's arrays. `missing` collects the axes that need offsets which are
    not there yet; a layout that needs them is of no use."""

    def __init__(
        self, indices: Mapping[Var, Index], sizes: tuple[Var, ...], offsets: Offsets
    ) -> None:
        self.indices = indices
        self.sizes = sizes
        self.offsets = offsets
        self.missing: dict[Axes, Size] = {}
        self.early = frozenset[Var]()  # indices whose extents are said as before something

    def layout(self, axes: Axes) -> Layout:
        """Of an array over these axes, the last one fastest."""
        shape: tuple[Size, ...] = ()
        at: tuple[Size, ...] = ()
        for run in runs(self.indices, axes):
            shape += (self.extent(run[0]) if len(run) == 1 else self.count(run),)
            at += (self.place(run),)
        return Layout(shape, at)

    def extent(self, i: Var) -> Size:
        n = self.indices[i].extent
        if n is None:
            raise Broken(f"{i} would be stored for rounds of unknown number")
        return n

    def count(self, axes: Axes) -> Size:
        """The number of elements over the axes, those further out fixed."""
        if not axes:
            return ONE
        n = self.extent(axes[0])
        return self.before(axes, n if self.natural(n) else clamp(n, n + 1))

    def place(self, axes: Axes) -> Size:
        """How many elements come before the one at the axes."""
        total = ZERO
        for k in range(len(axes)):
            total = total + self.before(axes[k:], size(axes[k]))
        return total

    def before(self, axes: Axes, at: Size) -> Size:
        """How many elements over the axes come before `at` on the first of them."""
        i = axes[0]
        inner = self.count(axes[1:])
        if i not in variables(inner):
            return inner * at
        if not any(i in variables(atom(a)) for a in atoms_of(inner)):
            closed = below(inner, i, at)
            if closed is not None:
                return closed
        known = self.offsets.get(axes)
        if known is None:
            self.missing[axes] = inner
            return ZERO
        return atom(Read(known.var, (*known.at[:-1], at)))

    def natural(self, n: Size) -> bool:
        """Whether an extent is never negative, by what the indices around it range over."""
        facts = Facts(tuple(size(v) for v in self.sizes))
        known = list(dict.fromkeys(variables(n)))
        for v in known:
            if v in self.indices:
                extent = self.extent(v)
                facts = facts.and_(size(v), extent - 1 - size(v))
                known += [w for w in variables(extent) if w not in known]
        return facts.proves(n)


def _early(program: Program) -> dict[Var, Index]:
    """The indices, with numbers of rounds that wait for something as they were before."""
    numbers = waiting(program.bindings)
    if not numbers:
        return dict(program.indices)
    contexts = {b.var: b.context for b in program.bindings}

    def before(r: Read) -> Operand:
        if r.var not in numbers:
            return r
        return rewrite(numbers[r.var], dict(zip(contexts[r.var], r.at, strict=True)), before)

    return {
        i: x if n is None or (m := rewrite_size(n, {}, before)) == n else replace(x, extent=m)
        for i, x in program.indices.items() for n in (x.extent,)
    }  # fmt: skip


def packing(program: Program, offsets: Offsets) -> Packing:
    """Of a program; a `while` loop with a length makes at most so many rounds."""
    indices = _early(program)
    early = frozenset(i for i, x in program.indices.items() if indices[i] is not x)
    for b in program.bindings:
        if isinstance(b.prim, Delay) and indices[b.prim.index].extent is None:
            most = indices[b.prim.time].extent
            bound = None if most is None else most + 1
            indices[b.prim.index] = Index(bound, None, b.prim.index.name)
    made = Packing(indices, program.sizes, offsets)
    made.early = early
    return made


def with_offsets(program: Program, missing: Mapping[Axes, Size]) -> tuple[Program, Offsets]:
    """The program with a binding for each missing prefix sum, behind what it depends on.

        for i<n: k = …            ⇒   for i<n: k = …
                                      for u<n + 1: o = delay over t<n from 0 next o[t] + k[t]
    """
    indices = dict(program.indices)
    bindings = list(program.bindings)
    early = _early(program)
    made: dict[Axes, Read] = {}
    for axes, count in missing.items():
        i = axes[0]
        extent = early[i].extent
        assert extent is not None
        time, u, off = Var(i.name), Var(i.name), Var("offset")
        indices[time] = Index(extent, None, i.name)
        indices[u] = Index(extent + 1, None, i.name)
        here = {i: size(time)}
        row = rewrite_size(count, here)
        outer = _closed(indices, row, extent, time)
        guards = _guards(bindings, row)
        step = _or_zero(bindings, row, guards, (*outer, time))
        context = (*outer, u)
        now = Read(off, tuple(size(v) for v in (*outer, time)))
        delay = Delay(time, u, Lit(0, DType.I64), Number(atom(now) + step))
        bindings.append(Binding(off, context, (), DType.I64, delay))
        made[axes] = Read(off, (*(size(v) for v in outer), size(i)))
    return replace(program, indices=indices, bindings=tuple(bindings)), made


def made_of_themselves(program: Program, missing: Mapping[Axes, Size]) -> frozenset[Var]:
    """The first of axes whose rows are among what their lengths depend on: a loop's state makes
    them, and they make the state. Where each row begins cannot be known before they are made."""
    of = {b.var: b for b in program.bindings}
    found: set[Var] = set()
    for axes, count in missing.items():
        work = [r.var for r in atoms_of(count) if isinstance(r, Read)]
        around = {*variables(count)} - {*axes}  # in whose round they are
        seen = {*work}
        while work:
            b = of.get(work.pop())
            if b is None:
                continue
            if {*axes} <= {*b.context}:
                found.add(axes[0])
                break
            before = isinstance(b.prim, Delay) and b.prim.time in around  # of earlier rounds
            more = set() if before else {r.var for r in reads(b)} - seen
            seen |= more
            work += more
    return frozenset(found)


def waits_for_itself(program: Program, missing: Mapping[Axes, Size]) -> bool:
    """Whether rows of all rounds of a loop are kept whose lengths are known in these rounds only:
    where a number of rounds waits for what the loop carries."""
    numbers = waiting(program.bindings)
    of = {b.var: b for b in program.bindings} if numbers else {}
    for axes, count in missing.items():
        work = [r.var for r in atoms_of(count) if isinstance(r, Read)]
        seen = {*work}
        while work:
            b = of.get(work.pop())
            if b is None:
                continue
            if b.var in numbers and axes[0] in b.context:
                return True
            lengths = (n for i in b.context if (n := program.indices[i].extent) is not None)
            told = (r for n in lengths for r in atoms_of(n) if isinstance(r, Read))
            more = {r.var for r in (*reads(b), *told)} - seen
            seen |= more
            work += more
    return False


def _closed(indices: Mapping[Var, Index], row: Size, extent: Size, time: Var) -> Axes:
    """The indices outside `time` that a row's length depends on, in the program's order."""
    found: set[Var] = set()
    work = [*variables(row), *variables(extent)]
    while work:
        v = work.pop()
        if v in indices and v != time and v not in found:
            found.add(v)
            inner = indices[v].extent
            work += [] if inner is None else list(variables(inner))
    return tuple(v for v in indices if v in found)


def _guards(bindings: list[Binding], row: Size) -> tuple[Guard, ...]:
    """The guards under which what a row's length reads is there."""
    of = {b.var: b for b in bindings}
    out: dict[Guard, None] = {}
    for r in atoms_of(row):
        if isinstance(r, Read) and r.var in of:
            b = of[r.var]
            names = dict(zip(b.context, r.at, strict=True))
            for g in b.guards:
                out[Guard(rewrite(g.operand, names), g.holds)] = None
    return tuple(out)


def _or_zero(
    bindings: list[Binding], row: Size, guards: tuple[Guard, ...], context: Axes
) -> Size:
    """The length of a row, 0 where it is not needed."""
    if not guards:
        return row
    at = tuple(size(v) for v in context)
    length = Var("length")
    bindings.append(Binding(length, context, guards, DType.I64, Op("copy", (Number(row),))))
    value: Read = Read(length, at)
    for g in guards:
        kept = Var("length")
        sides = (value, Lit(0, DType.I64))
        op = Op("select", (g.operand, *(sides if g.holds else reversed(sides))))
        bindings.append(Binding(kept, context, (), DType.I64, op))
        value = Read(kept, at)
    return atom(value)
