"""AiNF as a text in the language: one binding a line, under its name. It parses, type checks and
computes the same values, and so can be read, kept, changed and differentiated again.

    for j<m, i<n: v0 = mul(w[i], x[j, i])      v0 = [w[i] * x[j, i] for j in Fin(m), i in Fin(n)]
    for j<m: v1 = add over i<n of v0[j, i]     v1 = [sum(v0[j, i] for i in Fin(n)) for j in Fin(m)]
    for u<k + 1: h = delay over t<k            with state(…) as h:
                 from 1.0 next v2[t]               h[0] := 1.0
                                                   for t in Fin(k): …

A loop's bindings become cells, with all that was ever in them; of a `while` loop only the carried
variables are kept. Where an index is not a plain one, `checked` writes `x[e?]`, for what no type
checker would prove.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Check,
    Delay,
    Entry,
    Number,
    Op,
    Operand,
    Param,
    Program,
    Read,
    Trips,
)
from naperian.ainf.waiting import at_once
from naperian.ainf.walk import (
    atoms,
    atoms_of,
    free,
    is_reduction,
    operands,
    rewrite_size,
    variables,
)
from naperian.ainf.words import NotWrittenError, Words, joined, zero
from naperian.components import components
from naperian.names import Var
from naperian.sizes import Size, size

STEP = "    "


def write(program: Program, name: str, checked: bool = False) -> str:
    """A definition of this name."""
    return "\n".join(_Writer(at_once(program), checked).definition(name)) + "\n"


class _Writer(Words):
    """The lines: the definition, its bindings in order, their loops."""

    def __init__(self, program: Program, checked: bool) -> None:
        super().__init__(program, checked)
        self.delays: dict[Var, set[Var]] = {}
        for b in program.bindings:
            if isinstance(b.prim, Delay):
                self.delays.setdefault(b.prim.time, set()).add(b.var)

    # the definition

    def definition(self, name: str) -> Iterator[str]:
        p = self.program
        if any(isinstance(b.prim, Op) and b.prim.name == "checked" for b in p.bindings):
            yield "def checked(k: Int, n: Int) -> Int:"
            yield f'{STEP}assert k >= 0 and k < n, "index out of range"'
            yield f"{STEP}k"
            yield ""
        params = ", ".join(f"{self.name(x.var)}: {self.param(x)}" for x in p.params)
        yield f"def {name}({params}):"
        for line in self.block(list(p.bindings), ()):
            yield STEP + line
        results = [self.result(r.indices, r.value) for r in p.results]
        for line in self.counted():
            yield STEP + line
        yield STEP + (results[0] if len(results) == 1 else f"({', '.join(results)})")

    def counted(self, local: bool = False) -> Iterator[str]:
        """The sizes that were mentioned since, which are 0 where they would be negative; those that
        a round itself finds, if `local`."""
        here = [n for n in self.fresh_sizes if not local or self.is_found(n)]
        for n in here:
            yield f"{self.sizes[n]} = max({self.fresh_sizes.pop(n)}, 0)"
            yield f"assert {self.sizes[n]} >= 0"

    def is_found(self, n: Size) -> bool:
        """Whether a size is known only in the round where we are."""
        read = {a.var for a in atoms_of(n) if isinstance(a, Read)}
        return not read.isdisjoint(self.cells | self.local.keys())

    def param(self, p: Param) -> str:
        cell = self.kind(p.dtype)
        if p.bound is not None:
            cell = f"Fin({self.size(p.bound)})"
        return "".join(f"Fin({self.size(n)})=>" for n in p.shape) + cell

    def result(self, indices: tuple[Var, ...], value: Operand) -> str:
        plain = tuple(size(i) for i in indices)
        if isinstance(value, Read) and value.at == plain:
            return self.name(value.var)
        return self.table(self.operand(value), indices)

    # blocks

    def block(self, members: list[Binding], fixed: tuple[Var, ...]) -> Iterator[str]:
        """Bindings in an order in which they can be computed. `fixed` are the times of the `while`
        loops around, whose rounds each have their own."""
        for group in self.groups(members, fixed):
            times = self.times(group, fixed)
            if not times:
                if len(group) > 1:
                    raise NotWrittenError("values that need each other")
                lines = self.line(group[0])
            elif self.is_ended(times[0]):
                lines = self.loops_while(group, times[0], fixed)
            else:
                lines = self.loop(group, fixed)
            if fixed:
                yield from lines
            else:
                made = [*lines]
                yield from self.counted()
                yield from made

    def times(self, group: list[Binding], fixed: tuple[Var, ...]) -> list[Var]:
        """The times of a group's loops, outermost first."""
        delays = [b for b in group if isinstance(b.prim, Delay)]
        own = dict.fromkeys(b.prim.time for b in delays if isinstance(b.prim, Delay))

        def depth(t: Var) -> int:
            inside = {
                i for b in delays if isinstance(b.prim, Delay) and b.prim.time == t
                for i in b.context
            }  # fmt: skip
            return len(inside & own.keys())

        return sorted((t for t in own if t not in fixed), key=depth)

    def reads(self, b: Binding, fixed: tuple[Var, ...]) -> set[Var]:
        """The bindings that must be there before a binding (and those of a delay's next round)."""
        found: set[Var] = set()
        for o in self.operands(b, fixed):
            for a in atoms(o):
                if isinstance(a, Read):
                    found.add(a.var)
                elif isinstance(a, Trips):
                    found |= self.delays.get(a.time, set())
        return found & self.bindings.keys()

    def every_read(self, b: Binding) -> Iterator[Read]:
        for o in self.operands(b):
            yield from (a for a in atoms(o) if isinstance(a, Read))

    def operands(self, b: Binding, fixed: tuple[Var, ...] = ()) -> Iterator[Operand]:
        """All that a binding mentions, also in its indices; in a round, whose times are `fixed`,
        nobody waits for the condition that there is one."""
        yield from operands(b.prim)
        yield from self.asked_by(b.guards)
        indices = [*b.context]
        if isinstance(b.prim, Accumulate):
            for e in b.prim.entries:
                yield from self.asked_by(e.guards)
                indices += e.over
        if isinstance(b.prim, Delay):
            indices.append(b.prim.time)
        for i in indices:
            index = self.program.indices[i]
            if index.extent is not None:
                yield Number(index.extent)
            if index.condition is not None and i not in fixed:
                yield index.condition

    def groups(self, members: list[Binding], fixed: tuple[Var, ...]) -> list[list[Binding]]:
        """What reads each other, around delays; everything else is alone. All delays of one time
        stay together, and so does what stands between them, and what is there for its check in the
        rounds of a `while` loop, which nobody reads."""
        inside = {b.var: b for b in members}
        edges = {b.var: {v for v in self.reads(b, fixed) if v in inside} for b in members}
        for time, delays in self.delays.items():
            own = [v for v in delays if v in inside]
            if own and self.is_ended(time) and time not in fixed:
                own += [b.var for b in members if time in b.context and b.var not in delays]
            for v, w in pairwise(own):
                edges[v].add(w)
                edges[w].add(v)
        parts = components(edges, lambda v: sorted(edges[v], key=lambda w: w.id))
        return [[inside[v] for v in inside if v in part] for part in parts]

    # lines

    def line(self, b: Binding) -> Iterator[str]:
        context = self.axes(b)
        match b.prim:
            case Check(condition, code):
                message = self.program.failures[code - 1].message
                text = message.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
                holds = self.guarded(self.operand(condition), b.guards, "True")
                if context:
                    holds = f"all({holds} for {self.binders(context)})"
                yield f'assert {holds}, "{text}"'
            case Accumulate() as prim if not is_reduction(b.context, prim):
                yield from self.scattered(b, prim, context)
            case _:
                yield f"{self.name(b.var)} = {self.table(self.value(b), context)}"

    def scattered(
        self, b: Binding, prim: Accumulate, context: tuple[Var, ...]
    ) -> Iterator[str]:
        name = self.name(b.var)
        if any(map(self.is_ragged, context)):
            self.even.add(b.var)
        start = self.blank(context, (), self.held(prim.init, b.dtype))
        yield f"{name} ="
        yield f"{STEP}with state({start}) as cell:"
        for e in prim.entries:
            for line in self.added("cell", prim.monoid, e, b, self.local.get(b.var, frozenset())):
                yield STEP + STEP + line

    def added(
        self, name: str, monoid: str, e: Entry, b: Binding, local: frozenset[Var],
        times: tuple[Var, ...] = (),
    ) -> Iterator[str]:
        """An entry as a loop that changes a cell, which has no axes for the times in `local`."""
        found = {
            v for o in (e.value, *map(Number, e.at), *(g.operand for g in e.guards))
            for v in free(o)
        }  # fmt: skip
        around = {*times, *local, *self.dropped}
        over = [i for i in self.program.indices if i in found and i not in around] + [
            i for i in e.over if i not in found
        ]
        at = self.indices(e.at, b.context, local, b.var in self.even)
        target = f"{name}[{at}]" if at else name
        value = self.operand(e.value)
        change = f"{target} := {joined(monoid, target, value)}"
        if not e.guards:
            yield f"for {self.binders(over)}: {change}" if over else change
            return
        if over:  # there may be no such cell where the guards do not hold
            yield f"for {self.binders(over)}:"
        change = f"if {self.guards(e.guards)}: {change}"
        yield STEP + change if over else change

    # loops

    def loop(self, group: list[Binding], fixed: tuple[Var, ...]) -> Iterator[str]:
        """A loop for a number of rounds: what somebody reads in another round, or after the loop,
        is a cell."""
        rounds = dict(self.rounds_around(group, fixed))
        around = {b.var: rounds[b.var][: -1 if isinstance(b.prim, Delay) else None] for b in group}
        mine = {
            b.var: frozenset(i for t in around[b.var] for i in (t, *self.around(t))) & {*b.context}
            for b in group
        }
        read = self.read_elsewhere(mine, rounds, around)
        inner = {b.var for b in group if any(self.is_ended(t) for t in mine[b.var])}
        if inner & read:
            raise NotWrittenError("the history of a while loop")
        shown = [
            b for b in group if b.var in read or (isinstance(b.prim, Delay) and b.var not in inner)
        ]
        for b in group:
            if b not in shown:
                self.make_local(b, mine[b.var])
        self.dropped |= self.without_history(group, rounds)
        ended = self.ended(group, fixed, mine)
        for b in shown:
            rest = [i for i in self.own(b.context) if not mine[b.var].isdisjoint(self.around(i))]
            if b.var not in read and not rest:
                self.make_local(b, mine[b.var])
        names = [self.name(b.var) for b in shown]
        self.even |= {b.var for b in shown}
        zeros = [self.blank(self.axes(b), fixed, zero(b.dtype)) for b in shown]
        for t in ended:
            names.append(self.fresh("rounds"))
            zeros.append(self.blank(self.each[t], fixed, "0"))
            self.rounds[t] = f"{names[-1]}_"
        cells = [f"state({z}) as {n}_" for z, n in zip(zeros, names, strict=True)]
        yield f"{names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'} ="
        yield f"{STEP}with {', '.join(cells)}:"
        outer = self.cells
        self.cells = outer | {b.var for b in shown}
        for line in self.rounds_of(group, fixed):
            yield STEP + STEP + line
        self.cells = outer
        for t in ended:
            self.rounds[t] = self.rounds[t].removesuffix("_")

    def ended(
        self, group: list[Binding], fixed: tuple[Var, ...], mine: dict[Var, frozenset[Var]]
    ) -> list[Var]:
        """The times of the `while` loops in the rounds of a loop, each of which keeps what they
        end with and how many rounds they make: their indices are `each`."""
        out: list[Var] = []
        for b in group:
            if isinstance(b.prim, Delay) and b.prim.time not in (*out, *fixed):
                time = b.prim.time
                if not self.is_ended(time) or any(map(self.is_ended, mine[b.var])):
                    continue
                out.append(time)
                own = {i for t in mine[b.var] for i in (*self.around(t), t)}
                own |= {*self.asked(time, group, (*fixed, *own))}
                self.each[time] = tuple(i for i in self.program.indices if i in own)
        for b in group:
            if isinstance(b.prim, Delay) and b.prim.time in out:
                self.dropped |= {b.prim.time, b.prim.index}
        return out

    def is_ended(self, time: Var) -> bool:
        return self.program.indices[time].condition is not None

    def asked(
        self, time: Var, group: list[Binding], fixed: tuple[Var, ...]
    ) -> tuple[Var, ...]:
        """The indices that the condition of a loop differs along."""
        condition = self.program.indices[time].condition
        assert condition is not None
        asked = {*free(condition)} - {*fixed, time}
        inside = {i for b in group if time in b.context for i in self.own(b.context)}
        return tuple(i for i in self.program.indices if i in asked & inside)

    def in_round(
        self, group: list[Binding], time: Var, fixed: tuple[Var, ...]
    ) -> Iterator[str]:
        """A `while` loop in a round of another loop, which keeps what it ends with."""
        carried = [b for b in group if isinstance(b.prim, Delay) and b.prim.time == time]
        kept, each = self.rounds[time], self.each[time]
        cells, local = self.cells, self.local
        self.cells = cells - {b.var for b in group}
        self.local = local | {
            b.var: local.get(b.var, frozenset()) | ({*fixed} & {*b.context}) for b in group
        }
        yield from self.loops_while(group, time, fixed)
        ends = [(self.rounds[time], self.each[time])]
        ends += ((self.name(b.var), self.axes(b)) for b in carried)
        self.cells, self.local = cells, local
        self.rounds[time], self.each[time] = kept, each
        places = [(kept, each)]
        places += ((f"{self.name(b.var)}_", self.axes(b)) for b in carried)
        for (name, own), (cell, axes) in zip(ends, places, strict=True):
            change = f"{self.element(cell, axes)} := {self.element(name, own)}"
            yield f"for {self.binders(own)}: {change}" if own else change

    def element(self, name: str, axes: tuple[Var, ...]) -> str:
        where = self.indices(tuple(map(size, axes)), axes, even=True)
        return f"{name}[{where}]" if where else name

    def blank(self, axes: tuple[Var, ...], fixed: tuple[Var, ...], value: str) -> str:
        """The table that a cell starts with: only rows of one length can be changed."""
        sets = []
        for i in axes:
            if self.is_ragged(i):
                if fixed:
                    raise NotWrittenError("rows of unequal length in a while loop")
                sets.append(f"{self.name(i)} in {self.longest(i)}")
            else:
                sets.append(self.binders((i,)))
        return f"[{value} for {', '.join(sets)}]" if sets else value

    def longest(self, i: Var) -> str:
        """The set of an index that goes as far as the longest row does."""
        extent = self.program.indices[i].extent
        assert extent is not None
        text = f"max({self.size(extent)} for {self.binders(self.around(i))})"
        return f"Fin({self.named(extent, 'longest', text)})"

    def make_local(self, b: Binding, times: frozenset[Var]) -> None:
        """Each of these rounds, too, has a value of its own."""
        self.local[b.var] = self.local.get(b.var, frozenset()) | times

    def axes(self, b: Binding) -> tuple[Var, ...]:
        """Those of a binding as it is written, in the loops that each have their own."""
        return tuple(i for i in self.own(b.context) if i not in self.local.get(b.var, ()))

    def without_history(
        self, group: list[Binding], rounds: dict[Var, tuple[Var, ...]]
    ) -> set[Var]:
        """The axes over the rounds of what is read in its round, before the next value is there,
        and as its last value: one value is kept."""
        delays = {b.var: b for b in group if isinstance(b.prim, Delay)}
        kept: set[Var] = set()  # axes that stay

        def seen(r: Read, b: Binding | None) -> None:
            h = delays.get(r.var)
            if h is None or not isinstance(h.prim, Delay):
                return
            at = dict(zip(h.context, r.at, strict=True))
            e, extent = at[h.prim.index], self.program.indices[h.prim.time].extent
            loops = rounds[r.var]
            now = b is not None and rounds.get(b.var, ())[: len(loops)] == loops
            last = extent is not None and e == rewrite_size(extent, at)
            if not (e == size(h.prim.time) if now else last):
                kept.add(h.prim.index)
            if b is not None and isinstance(b.prim, Delay) and b.prim.time == h.prim.time:
                kept.add(h.prim.index)

        for b in self.program.bindings:
            for r in self.every_read(b):
                seen(r, b)
            if b.var not in delays:
                kept.update(b.context)
        for result in self.program.results:
            for a in atoms(result.value):
                if isinstance(a, Read):
                    seen(a, None)
        return {h.prim.index for h in delays.values() if isinstance(h.prim, Delay)} - kept

    def around(self, time: Var) -> tuple[Var, ...]:
        """The indices that say how far another goes: a loop over it is inside loops over them."""
        extent = self.program.indices[time].extent
        found = {*variables(extent)} if extent is not None else {*()}
        inside = [i for i in self.program.indices if i in found and i != time]
        return tuple(dict.fromkeys(i for x in inside for i in (*self.around(x), x)))

    def rounds_around(
        self, group: list[Binding], fixed: tuple[Var, ...], loops: tuple[Var, ...] = ()
    ) -> Iterator[tuple[Var, tuple[Var, ...]]]:
        """Of the values of a loop, the loops in whose rounds they are made, by their times."""
        time, *_ = self.times(group, fixed)
        inner = [b for b in group if not isinstance(b.prim, Delay) or b.prim.time != time]
        loops = (*loops, time)
        yield from ((b.var, loops) for b in group if b not in inner)
        here = (*fixed, *(i for i in self.around(time) if i not in fixed), time)
        for some in self.groups(inner, here):
            if self.times(some, here):
                yield from self.rounds_around(some, here, loops)
            else:
                yield some[0].var, loops

    def read_elsewhere(
        self, own: dict[Var, frozenset[Var]], rounds: dict[Var, tuple[Var, ...]],
        around: dict[Var, tuple[Var, ...]],
    ) -> set[Var]:
        """What is read outside of the loops in whose rounds it is made, or in another round. `own`
        are their times; what a loop carries is there after it, too."""
        found: set[Var] = set()
        for b in self.program.bindings:
            for r in self.every_read(b):
                if r.var not in own:
                    continue
                at = zip(self.bindings[r.var].context, r.at, strict=True)
                here = {*b.context, *((b.prim.time,) if isinstance(b.prim, Delay) else ())}
                loops = around[r.var]
                if rounds.get(b.var, ())[: len(loops)] != loops or not own[r.var] <= here or any(
                    i in own[r.var] and e != size(i) for i, e in at
                ):
                    found.add(r.var)
        for result in self.program.results:
            found |= {a.var for a in atoms(result.value) if isinstance(a, Read)}
        return found

    def rounds_of(self, group: list[Binding], fixed: tuple[Var, ...]) -> Iterator[str]:
        time, *_ = self.times(group, fixed)
        delays = [b for b in group if isinstance(b.prim, Delay) and b.prim.time == time]
        inner = [b for b in group if b not in delays]
        for h in delays:
            assert isinstance(h.prim, Delay)
            yield self.put(h, fixed, size(0), h.prim.init)
        around = tuple(i for i in self.around(time) if i not in fixed)
        yield f"for {self.binders((*around, time))}:"
        here = (*fixed, *around, time)
        outside = {*self.sizes}
        for some in self.groups(inner, here):
            if times := self.times(some, here):
                lines: Iterable[str] = self.rounds_of(some, here)
                if self.is_ended(times[0]):
                    lines = self.in_round(some, times[0], here)
            elif some[0].var in self.cells:
                lines = self.cell(some[0], here)
            else:
                lines = self.line(some[0])
            made = [*lines]
            for line in (*self.counted(local=True), *made):
                yield STEP + line
        for n in [n for n in self.sizes if n not in outside and n not in self.fresh_sizes]:
            del self.sizes[n]  # whose name means nothing behind the round
        for h in delays:
            assert isinstance(h.prim, Delay)
            yield STEP + self.put(h, here, size(time) + 1, h.prim.next)

    def cell(self, b: Binding, fixed: tuple[Var, ...]) -> Iterator[str]:
        name = f"{self.name(b.var)}_"
        over = tuple(i for i in self.own(b.context) if i not in fixed)
        local = self.local.get(b.var, frozenset())
        where = self.indices(tuple(size(i) for i in b.context), b.context, local, even=True)
        target = f"{name}[{where}]" if where else name
        match b.prim:
            case Accumulate() as prim if not is_reduction(b.context, prim):
                start = f"{target} := {self.held(prim.init, b.dtype)}"
                yield f"for {self.binders(over)}: {start}" if over else start
                for e in prim.entries:
                    yield from self.added(name, prim.monoid, e, b, local, fixed)
            case Check():
                yield from self.line(b)
            case _:
                change = f"{target} := {self.value(b)}"
                yield f"for {self.binders(over)}: {change}" if over else change

    def put(self, h: Binding, fixed: tuple[Var, ...], at: Size, value: Operand) -> str:
        assert isinstance(h.prim, Delay)
        over = tuple(i for i in self.own(h.context) if i not in fixed and i != h.prim.index)
        place = tuple(at if i == h.prim.index else size(i) for i in h.context)
        where = self.indices(place, h.context, self.local.get(h.var, frozenset()), even=True)
        new = self.guarded(self.held(value, h.dtype), h.guards, zero(h.dtype))
        target = f"{self.name(h.var)}_[{where}]" if where else f"{self.name(h.var)}_"
        change = f"{target} := {new}"
        return f"for {self.binders(over)}: {change}" if over else change

    def loops_while(
        self, group: list[Binding], time: Var, fixed: tuple[Var, ...]
    ) -> Iterator[str]:
        """A loop with a condition; if the condition differs from element to element, one for each:
        what they carry, and their rounds, are collected in cells."""
        each = self.asked(time, group, fixed)
        if not each:
            yield from self.loop_while(group, time, fixed)
            return
        outer = self.local
        self.local = outer | {
            b.var: outer.get(b.var, frozenset()) | ({*each} & {*b.context}) for b in group
        }
        lines = list(self.loop_while(group, time, (*fixed, *each)))
        self.local = outer
        carried = [b for b in group if isinstance(b.prim, Delay) and b.prim.time == time]
        names = [self.name(b.var) for b in carried]
        own = [tuple(i for i in self.own(b.context) if i in each) for b in carried]
        self.even |= {b.var for b in carried}
        rounds = self.rounds[time]
        zeros = [self.blank(self.axes(b), fixed, zero(b.dtype)) for b in carried]
        zeros.append(self.blank(each, fixed, "0"))
        cells = [f"state({z}) as {n}_" for z, n in zip(zeros, (*names, rounds), strict=True)]
        yield f"({', '.join([*names, rounds])}) ="
        yield f"{STEP}with {', '.join(cells)}:"
        yield f"{STEP * 2}for {self.binders(each)}:"
        for line in lines:
            yield STEP * 3 + line
        for name, axes in ((rounds, each), *zip(names, own, strict=True)):
            yield f"{STEP * 3}{self.element(f'{name}_', axes)} := {name}"
        self.each[time] = each

    def loop_while(
        self, group: list[Binding], time: Var, fixed: tuple[Var, ...]
    ) -> Iterator[str]:
        """What a loop carries, and its rounds, counted."""
        index = self.program.indices[time]
        assert index.condition is not None
        delays = [b for b in group if isinstance(b.prim, Delay) and b.prim.time == time]
        inner = [b for b in group if b not in delays]
        last = {b.prim.index for b in delays if isinstance(b.prim, Delay)}
        if any(
            isinstance(b.prim, Delay) and self.program.indices[b.prim.index].condition is not None
            for b in group
        ):
            raise NotWrittenError("a while loop that goes on in another")
        self.dropped |= {time, *last}
        rounds = self.rounds[time] = self.fresh("rounds")
        self.each[time] = ()
        starts = []
        for h in delays:
            assert isinstance(h.prim, Delay)
            start = self.table(self.held(h.prim.init, h.dtype), self.axes(h))
            starts.append(f"{self.name(h.var)} = {start}")
        starts.append(f"{rounds} = 0")
        self.inlined |= {b.var for b in inner}
        again = self.operand(index.condition)
        guards = [g for g in delays[0].guards if all(g in h.guards for h in delays)]
        if guards:
            again = f"{self.guards(tuple(guards))} and {again}"
        self.inlined -= {b.var for b in inner}
        counted = f" for {self.binders((time,))}" if index.extent is not None else ""
        yield f"loop {', '.join(starts)}{counted} while {again}:"
        for line in self.block(inner, (*fixed, time)):
            yield STEP + line
        nexts = [
            self.table(self.operand(h.prim.next), self.axes(h))
            for h in delays if isinstance(h.prim, Delay)
        ]  # fmt: skip
        yield f"{STEP}({', '.join([*nexts, f'{rounds} + 1'])})"
        yield f"assert {rounds} >= 0"
