"""Handlers' cells while they are flattened: effects become accumulations and delays.

    with accum(add, 0) as h: for i: h[k[i]] += v[i]     x[c] = add over i of v[i] at k[i] from 0
    with state(0) as s: for t: s := f(s, x[t])          s[0] = 0, s[t + 1] = f(s[t], x[t])

A cell has a *current version*, a value like any other. What is added or assigned to elements waits
as entries, and becomes the next version (one `Accumulate`) when somebody asks for it. A loop that
only adds leaves its entries to the version after it, so its rounds are independent; a loop that
does more carries the version as a `Delay`. One in a loop that only adds carries what it adds to
nothing, and leaves that as an entry; but a table goes through the loops around, too. Entries keep
the conditions they stand under, so a version holds everywhere its predecessor does: after
`if c: s[i] := e` there is one table, not a choice of two. Only scalars, and tables that are
assigned as a whole, are chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from naperian import substitution, type_show, types
from naperian.ainf.syntax import Accumulate, Delay, Entry, Op, Operand, Read
from naperian.ainf.walk import free, rewrite, rewrite_guards, rewrite_size, variables
from naperian.broken import Broken
from naperian.core import syntax as core
from naperian.core.walk import everything
from naperian.dtypes import DType
from naperian.lines import Line
from naperian.names import Lit, Var
from naperian.node import node, replace
from naperian.passes.bindings.builder import Guards, plain
from naperian.passes.bindings.values import (
    Items,
    Row,
    Value,
    element,
    leaves,
    mapped,
    number_of,
    row,
    substitute,
)
from naperian.passes.flat.reading import Reading
from naperian.passes.flat.through import going_through, is_flag, root
from naperian.prims import Math, unit
from naperian.sizes import ONE, Atom, Size, size
from naperian.sizes import substitute as substitute_size
from naperian.source import Span
from naperian.types import Set, Type


@node
class Entering:
    """An element waiting to enter: made in the loops `over`, it goes to `at` and, on the axes that
    are left, to `inner`."""

    monoid: str
    over: tuple[Var, ...]
    at: tuple[Size, ...]
    inner: tuple[Var, ...]
    value: Operand
    guards: Guards


@dataclass(slots=True, eq=False)
class Held:
    """A cell. Its versions exist in the loops and under the guards where it was opened, or those
    of the innermost loop that carries it. A `flag` is an `except`'s. `level` tells how many cells
    were open before its handler. `line` changes when a version does not continue the one before."""

    name: str
    type: Type
    table: bool
    dtype: DType
    monoid: str
    origin: Span
    current: Value
    depth: int
    guards: Guards
    flag: bool = False
    level: int = 0
    waiting: list[Entering] = field(default_factory=list)
    line: int = 0


@node
class Outside:
    """What a cell holds, and what waits to enter it, in a loop whose rounds only add to it."""

    current: Value
    waiting: list[Entering]
    line: int


@node
class Carrying:
    """A cell that a loop carries: its value at the loop's time, and what it was outside. One that
    stands in rounds that only add to it starts from nothing, and is added to what is `outside`."""

    held: Held
    value: Value
    start: Value
    slots: tuple[int, ...]
    depth: int
    guards: Guards
    outside: Outside | None


class Cells(Reading):
    """What is held at the place that is being flattened."""

    cells: dict[Var, Held]
    lines: dict[Line, int]  # what is printed, numbered from 1
    spare: set[Var]  # indices of loops without a value: a reduction may have them
    meant: set[Size]  # rounds that are none where the conditions around a loop do not hold

    # handlers and effects

    def handle(self, e: core.Handle) -> Value:
        level = len(self.cells)
        for c in e.cells:
            self.cells[c.var] = Held(
                c.var.name, c.type, isinstance(c.type, types.Table), dtype_of(innermost(c.type)),
                c.monoid, e.origin, self.tabulated(self.expr(c.start)), len(self.scope),
                self.guards, is_flag(c), level,
            )  # fmt: skip
        body = self.expr(e.body)
        contents = [self.contents(self.cells.pop(c.var)) for c in e.cells]
        return Items((body, *contents))

    def get(self, e: core.Get) -> Value:
        held, at = self.target(e.reference)
        value = self.contents(held)
        while at and isinstance(value, Row):
            n = len(value.indices)
            value, at = self.read(value, at[:n]), at[n:]
        if held.table and isinstance(value, Read) and held.depth == len(self.scope):
            return self.op("held", (value,), held.dtype, held.origin)
        return value

    def assign(self, e: core.Assign) -> None:
        new = self.tabulated(self.expr(e.value))
        held, at = self.target(e.reference)
        if at:
            self.enter(held, "last", at, new)
            return
        held.waiting.clear()
        held.current = new if held.table else self.operand(new)
        held.line += 1

    def add(self, e: core.Add) -> None:
        new = self.tabulated(self.expr(e.value))
        held, at = self.target(e.reference)
        if held.table or len(self.scope) > held.depth:
            self.enter(held, held.monoid, at, new)
            return
        before = self.operand(self.contents(held))
        held.current = self.op(held.monoid, (before, self.operand(new)), held.dtype, held.origin)

    def tell(self, e: core.Tell) -> None:
        """The world after something was told: all that is told later depends on it."""
        told = tuple(self.operand(self.expr(x)) for x in e.values)
        held, _ = self.target(e.world)
        code = self.lines.setdefault(e.line, len(self.lines) + 1) if e.line else 0
        before = self.operand(self.contents(held))
        context = self.b.order(self.b.closed(self.scope))
        op = Op("print", (before, *told), code)
        held.current = self.b.add(op, context, self.guards, held.dtype, held.origin, Var("told"))
        held.line += 1

    @property
    def world(self) -> Held | None:
        """Where what is printed goes, if anything is."""
        return next((h for h in self.cells.values() if h.monoid == "last"), None)

    def after(self, value: Operand, before: Operand) -> Operand:
        """A value, once another is there."""
        if isinstance(before, Lit):
            return value
        return self.op("after", (value, before), self.b.dtype(value))

    def demand(self, holds: Operand, message: str, origin: Span) -> None:
        """A check. Whoever prints hears of it in its turn: after what was told before, and before
        what is told later, unless it stands in a loop that tells nothing."""
        world = self.world
        if world is None:
            self.check(holds, message, origin)
            return
        told = self.operand(self.contents(world))
        if world.depth < len(self.scope):
            self.check(self.after(holds, told), message, origin)
            return
        fine = self.op("cast", (holds,), DType.I64)
        op = Op("checked", (told, fine), self.failure(message, origin))  # the world is 0
        context = self.b.order(self.b.closed(self.scope))
        world.current = self.b.add(op, context, self.guards, DType.I64, origin)
        world.line += 1

    def target(self, reference: core.Expr) -> tuple[Held, tuple[Size, ...]]:
        """The cell, and the components of the indices."""
        at: tuple[Size, ...] = ()
        while isinstance(reference, core.At):
            at = self.components_of(self.set(reference.set), reference.index) + at
            reference = reference.table
        if not isinstance(reference, core.Ref):
            raise Broken("an effect on something that is no reference")
        return self.cells[reference.var], at

    def enter(self, held: Held, monoid: str, at: tuple[Size, ...], new: Value) -> None:
        over = self.scope[held.depth :]
        guards = self.guards[len(held.guards) :]
        ((inner, leaf),) = leaves(new)
        value = self.operand(leaf)
        if held.waiting and held.waiting[-1].monoid != monoid:
            self.contents(held)
        held.waiting.append(Entering(monoid, over, at, inner, value, guards))

    # versions

    def contents(self, held: Held) -> Value:
        """The version that has everything that waits."""
        if not held.waiting:
            return held.current
        waiting, held.waiting = held.waiting, []
        axes = self.axes(held.type)
        at = tuple(i for _, indices in axes for i in indices)
        init = self.operand(self.at_indices(held.current, axes))
        entries = [self.entry(w, at) for w in waiting]
        made: Value
        if all(x.at == tuple(size(i) for i in at) for x in entries):
            parts = tuple((x.over, x.value, x.guards) for x in entries)
            made = self.b.reduce(
                waiting[0].monoid, init, parts, held.dtype, held.guards, held.origin
            )
        else:
            made = self.scattered(held, waiting[0].monoid, init, entries, at)
        for s, indices in reversed(axes):
            made = row(s, indices, made)
        held.current = made
        return made

    def axes(self, t: Type) -> list[tuple[Set, tuple[Var, ...]]]:
        """The axes of a table with indices of their own, which the sets of later axes mention."""
        found = []
        while isinstance(t, types.Table):
            s = self.set(t.set)
            indices = self.indices(s, "i")
            found.append((s, indices))
            t = self.cell_of(t, s, indices)
        return found

    def cell_of(self, t: types.Table, s: Set, indices: tuple[Var, ...]) -> Type:
        """The type of a table's cell at indices of its set `s`."""
        if t.index is None:
            return t.cell
        return substitution.cell_at(t, number_of(element(s, tuple(map(size, indices)))))

    def scattered(
        self, held: Held, monoid: str, init: Operand, entries: list[Entry], at: tuple[Var, ...]
    ) -> Read:
        """The accumulation of entries with targets of their own; `at` are its axes."""
        found = [*at, *free(init)]
        for x in entries:
            inner = [*free(x.value), *(v for e in x.at for v in variables(e))]
            inner += (v for g in x.guards for v in free(g.operand))
            inner += (v for i in x.over for v in self.b.closures[i])
            found += (v for v in inner if v not in x.over)
        prim = Accumulate(monoid, init, tuple(entries))
        context, guards = self.b.place(prim, found, held.guards)
        outer = tuple(size(i) for i in context if i not in at)
        whole = tuple(replace(x, at=outer + x.at) for x in entries)
        order = tuple(i for i in context if i not in at) + at
        return self.b.add(
            Accumulate(monoid, init, whole), order, guards, held.dtype, held.origin
        )

    def at_indices(self, value: Value, axes: list[tuple[Set, tuple[Var, ...]]]) -> Value:
        for _, indices in axes:
            value = self.read(value, tuple(size(i) for i in indices))
        return value

    def entry(self, w: Entering, axes: tuple[Var, ...]) -> Entry:
        """The entry, in indices of its own. A loop whose index alone says where something goes is
        no loop: its index is the axis. So is one of the axes that are left, but where its length
        depends on an axis that the entry has one place of."""
        names: dict[Var, Size] = {}
        mentioned = [v for e in w.at for v in variables(e)]
        bounds = {v for i in w.over for v in self.b.closures[i] - {i}}
        for e, c in zip(w.at, axes, strict=False):
            i = e.single
            if (
                isinstance(i, Var) and i in w.over and i not in bounds
                and mentioned.count(i) == 1 and self.b.extent(i) == self.b.extent(c)
            ):  # fmt: skip
                names[i] = size(c)
        given = zip(w.at, axes, strict=False)
        placed = {c for e, c in given if rewrite_size(e, names) != size(c)}
        for i, c in zip(w.inner, axes[len(w.at) :], strict=True):
            if placed.isdisjoint(self.b.closures[c]):
                names[i] = size(c)
            else:
                placed.add(c)
        over = []
        for i in (*w.over, *w.inner):
            if i in names:
                continue
            extent = self.b.extent(i)
            assert extent is not None
            here = rewrite_size(extent, names)
            if here == extent and i in self.spare:
                self.spare.discard(i)
                over.append(i)
            else:
                over.append(self.b.index(here, i.name))
                names[i] = size(over[-1])
        at = tuple(rewrite_size(e, names) for e in (*w.at, *map(size, w.inner)))
        guards = rewrite_guards(w.guards, names)
        return Entry(tuple(over), at, rewrite(w.value, names), guards)

    # loops

    def effects(self, *bodies: core.Expr | None) -> tuple[list[Held], list[Held]]:
        """The cells of outside that expressions change, and those of them for which the order
        matters: that they do more with than add."""
        changed: dict[Var, Held] = {}
        more: set[Var] = set()
        for body in bodies if self.cells else ():
            for e in everything(body) if body is not None else ():
                match e:
                    case (
                        core.Add(reference) | core.Assign(reference) | core.Get(reference)
                        | core.Tell(reference)
                    ):
                        v = root(reference)
                        if v not in self.cells:
                            continue
                        if not isinstance(e, core.Get):
                            changed[v] = self.cells[v]
                        if not isinstance(e, core.Add):
                            more.add(v)
                    case _:
                        pass
        added = {v for v, h in changed.items() if v not in more and self.goes_on(h)}
        if added:
            flags = (v for v, h in self.cells.items() if h.flag)
            more |= added & going_through(flags, *bodies)
        return list(changed.values()), [h for v, h in changed.items() if v in more]

    def goes_on(self, held: Held) -> bool:
        """Whether a cell that only an inner loop carries goes through those around it, which add to
        it: a table would be one for each of their rounds, and strictly a sum is one sum."""
        rounded = held.dtype.is_float and held.monoid in ("add", "mul")
        return held.table or (rounded and self.math is Math.STRICT)

    def may_throw(self, changed: list[Held], ordered: list[Held], body: core.Expr) -> bool:
        """Whether the rounds of a loop only throw and add, so that each may go by itself: nobody
        sees what those after one that throws compute, unless they stop the run or never end."""
        return (
            bool(ordered)
            and all(h.flag for h in ordered)
            and not any(
                isinstance(e, core.Check | core.Checked)
                or (isinstance(e, core.Loop) and e.condition is not None)
                or (isinstance(e, core.Loop | core.Scan) and len(ordered) < len(changed)
                    and bool(self.effects(e.body)[0]))
                for e in everything(body)
            )
        )

    def carry(
        self, changed: list[Held], time: Var, total: Size | None
    ) -> tuple[list[Carrying], int]:
        """Open the cells that a loop over `time` carries. Tables are carried whether the conditions
        around it hold or not, if the number of rounds, unless a condition says when they end, has a
        value anyway. Also how many of those conditions hold wherever something is carried."""
        out = []
        fewest = len(self.guards)
        anyway = total is None or self.anywhere(total)
        for held in changed:
            outside = None
            if held.depth < len(self.scope):
                outside = Outside(held.current, held.waiting, held.line)
                held.current, held.waiting = self.nothing(held), []
            start = mapped(self.contents(held), self.operand)  # bound before the delays
            guards = held.guards if held.table and anyway else self.guards
            if guards != held.guards:
                held.line += 1
            fewest = min(fewest, len(guards))
            value, slots = self.delays(held.type, held.name, time, total, guards, held.origin)
            out.append(Carrying(held, value, start, slots, held.depth, held.guards, outside))
            held.current, held.depth, held.guards = value, len(self.scope) + 1, guards
        return out, fewest

    def anywhere(self, s: Size) -> bool:
        """Whether an index expression has a value whatever the conditions around it are."""
        if s in self.meant:
            return True

        def argument(a: Atom) -> Size | None:
            given = isinstance(a, Read) and a.var in self.b.shapes and not a.at
            return ONE if given else None

        return plain(substitute_size(s, argument))

    def settle(self, carrying: list[Carrying], time: Var, last: Size) -> None:
        """Close them: their next values are what they hold now."""
        inside = self.scope
        for c in carrying:
            held = c.held
            self.close(c.value, c.slots, c.start, self.contents(held))
            held.current = substitute(c.value, {time: last})
            held.depth, held.guards = c.depth, c.guards
            if c.outside is not None:
                added = held.current
                held.current, held.waiting = c.outside.current, c.outside.waiting
                held.line = c.outside.line
                self.scope = inside[:-1]  # after the loop
                self.enter(held, held.monoid, (), added)
                self.scope = inside

    def nothing(self, held: Held) -> Value:
        """What changes nothing that it is added to."""
        floats = held.dtype.is_float and held.monoid == "add"
        value: Value = Lit(-0.0 if floats else unit(held.monoid, held.dtype), held.dtype)
        for s, indices in reversed(self.axes(held.type)):
            value = row(s, indices, value)
        return value

    def delays(
        self, t: Type, name: str, time: Var, total: Size | None, guards: Guards, origin: Span
    ) -> tuple[Value, tuple[int, ...]]:
        """What a carried variable is at the time index, and where its delays stand, whose first
        and next values are still missing."""
        around = self.b.order(self.b.closed((*self.scope, *free_guards(self.guards))))
        value = self.carried(t, name, around, (), time)
        slots = []
        for axes, leaf in leaves(value):
            assert isinstance(leaf, Read)
            last = self.b.index(None if total is None else total + 1, time.name)
            context = self.b.order(self.b.closed((*around, *axes)))
            slots.append(len(self.b.bindings))
            nothing = Lit(0, DType.I64)
            self.b.add(
                Delay(time, last, nothing, nothing), (*context, last), guards,
                self.b.dtypes[leaf.var], origin, leaf.var,
            )  # fmt: skip
        return value, tuple(slots)

    def close(self, value: Value, slots: tuple[int, ...], start: Value, following: Value) -> None:
        """Fill in the first and next values of delays."""
        firsts, afters = self.along(value, start), self.along(value, following)
        for k, first, after in zip(slots, firsts, afters, strict=True):
            old = self.b.bindings[k]
            assert isinstance(old.prim, Delay)
            self.b.bindings[k] = replace(old, prim=replace(old.prim, init=first, next=after))

    def carried(
        self, t: Type, name: str, around: tuple[Var, ...], axes: tuple[Var, ...], time: Var
    ) -> Value:
        """What a carried variable is at the time index: reads of delays, one for each leaf."""
        match t:
            case types.Tuple(items):
                parts = tuple(self.carried(x, name, around, axes, time) for x in items)
                return Items(parts)
            case types.Table(s):
                inner = self.set(s)
                indices = self.indices(inner, "i")
                cell = self.cell_of(t, inner, indices)
                value = self.carried(cell, name, around, axes + indices, time)
                return row(inner, indices, value)
            case _:
                var = Var(name)
                self.b.dtypes[var] = dtype_of(t)
                context = self.b.order(self.b.closed((*around, *axes)))
                return Read(var, tuple(size(i) for i in (*context, time)))

    def along(self, like: Value, value: Value) -> Iterator[Operand]:
        """The scalars of `value` at the indices of the leaves of `like`, in the same order."""
        match like:
            case Items(items):
                for k, x in enumerate(items):
                    if not isinstance(value, Items):
                        raise Broken("a loop changes the type of what it carries")
                    yield from self.along(x, value.items[k])
            case Row(_, indices, cell):
                yield from self.along(cell, self.read(value, tuple(size(i) for i in indices)))
            case _:
                yield self.operand(value)

    # choices

    def before(self) -> dict[Var, tuple[Value, int]]:
        """The versions of the cells that a choice at this place may change, and their lines."""
        here = {v: h for v, h in self.cells.items() if h.depth == len(self.scope)}
        return {v: (self.contents(h), h.line) for v, h in here.items()}

    def other_side(self, old: dict[Var, tuple[Value, int]]) -> dict[Var, tuple[Value, int]]:
        """After one side of a choice: the versions it made. Tables that it continued are continued
        by the other side, too; for everything else that starts from the old version."""
        made = self.before()
        for v, (value, line) in old.items():
            held = self.cells[v]
            if not held.table or held.line != line:
                held.current = value
        return made

    def merge(
        self, condition: Operand, old: dict[Var, tuple[Value, int]],
        one: dict[Var, tuple[Value, int]], two: dict[Var, tuple[Value, int]], where: Guards,
        elsewhere: Guards,
    ) -> None:
        """After both sides, which made the versions `one` and `two`."""
        for v, (value, line) in old.items():
            held, (a, first), (b, second) = self.cells[v], one[v], two[v]
            same = first == second == line if held.table else a == b == value
            if not same:
                held.current = self.select(condition, a, b, where, elsewhere)
                held.line += 1


def innermost(t: Type) -> Type:
    """The type of a table's elements."""
    while isinstance(t, types.Table):
        t = t.cell
    return t


def dtype_of(t: Type) -> DType:
    match t:
        case types.Scalar(dtype):
            return dtype
        case types.Index():
            return DType.I64
        case _:
            raise Broken(f"{type_show.show_type(t)} is no scalar type")


def free_guards(guards: Guards) -> Iterator[Var]:
    """The indices that guards mention."""
    for g in guards:
        yield from free(g.operand)
