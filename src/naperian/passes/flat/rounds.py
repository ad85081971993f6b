"""Loops, scans and reductions: delays along an index that is the time.

A loop with checkpoints is loops over its strips. One that a condition ends has a number of rounds
that only the run knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from naperian import prims, types
from naperian.ainf.syntax import Binding, Index, Op, Operand, Trips
from naperian.ainf.walk import free, number, size_of, variables
from naperian.core import syntax as core
from naperian.core.linear import called_once
from naperian.core.walk import everything, size_variables
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.node import node, replace
from naperian.passes.bindings.conditions import after_checks, in_rounds, with_values
from naperian.passes.bindings.values import (
    Items,
    Listed,
    Row,
    Truth,
    Value,
    digits,
    element,
    extents,
    mapped,
    ordinal,
    row,
    substitute,
)
from naperian.passes.flat.cells import Cells, dtype_of, free_guards
from naperian.passes.flat.light import FEWEST, ROOM, STRIP, is_light, is_long, new_states
from naperian.sizes import ZERO, Size, atom, clamp, size
from naperian.source import Span

E = TypeVar("E", bound=core.Expr)
_NO = Lit(False, DType.BOOL)


@node
class Strips:
    """The loops that take a checkpointed one's place, the outermost first: how many rounds it
    makes in all, how many a round of each loop makes but for the innermost, and how many were
    `done` before them."""

    rounds: Size
    lengths: tuple[Size, ...]
    done: Size = ZERO


class Rounds(Cells):
    """What goes in rounds."""

    checkpoints: dict[Span, int]
    reversed: int  # how many derivatives in reverse are around
    in_reverse: list[set[Var]]  # what hangs on the variables of each, unless no strips are wanted

    def handle(self, e: core.Handle) -> Value:
        return self.apart(e, super().handle)

    def apart(self, e: E, made: Callable[[E], Value]) -> Value:
        """What changes states or goes in rounds is in the loops around that it depends on: its
        derivative would go through the others, too, once for each round."""
        scope, cells = self.scope, self.cells
        needed = self.needed(e) if scope else scope
        if len(needed) < len(scope):
            self.scope, self.cells = needed, {}
        value = made(e)
        self.scope, self.cells = scope, cells
        return value

    def needed(self, e: core.Expr) -> tuple[Var, ...]:
        """The indices around that an expression depends on; all of them if it may stop the run, or
        uses what is changed outside, or has a rule that one call for all would not do for."""
        inside = [*everything(e)]
        mentioned = {x.var for x in inside if isinstance(x, core.Ref)}
        mentioned |= {v for x in inside for v in size_variables(x)}
        partial = any(
            isinstance(x, core.Check | core.Checked | core.Tell)
            or (isinstance(x, core.Custom) and not all(map(called_once, x.rules)))
            for x in inside
        )
        if partial or not mentioned.isdisjoint(self.cells):
            return self.scope
        found = [*free_guards(self.guards)]
        found += (i for v in mentioned if v in self.env for i in _indices(self.env[v]))
        here = self.b.closed(found)
        return tuple(i for i in self.scope if i in here)

    def reduce(self, e: core.Reduce) -> Value:
        if self.effects(e.value)[1]:  # first the values, in order
            rows, i = Var("rows"), Var(e.var.name)
            self.env[rows] = self.expr(core.For(e.var, e.set, e.value))
            e = replace(e, var=i, value=core.At(core.Ref(rows), core.Ref(i), e.set))
        s = self.set(e.set)
        best, ordered = e.monoid in prims.PLACES, e.monoid in prims.ORDERED
        shape = extents(s)
        if (best or ordered) and len(shape) != 1:
            over: tuple[Var, ...] = (self.b.index(self.count(s), e.var.name),)
            at = digits(shape, size(over[0]))
        else:
            over = self.indices(s, e.var.name)
            at = tuple(size(i) for i in over)
        init = Lit(0, DType.I64) if best and not ordered else self.scalar(e.init)
        self.env[e.var] = element(s, at)
        outer = self.scope
        self.scope = outer + over
        value = self.scalar(e.value)
        self.scope = outer
        dtype = DType.I64 if best else dtype_of(e.type)
        made = self.b.reduce(e.monoid, init, ((over, value, ()),), dtype, self.guards, e.origin)
        return element(s, digits(shape, atom(made))) if best else made

    def loop(self, e: core.Loop) -> Value:
        return self.apart(e, self.looped)

    def looped(self, e: core.Loop) -> Value:
        """A loop; for one with checkpoints, loops over its strips. One that a condition ends goes
        once for the number of its rounds, and is a loop of so many rounds then."""
        total = None if e.set is None else self.count(self.set(e.set))
        starts = self.starts(e)
        strips = None
        depth = e.checkpoint if e.checkpoint > 1 else self.checkpoints.get(e.origin, 1)
        if depth > 1 and e.condition is not None and self.reversed:
            if not self.effects(e.body, e.condition)[0]:
                _, time = self.rounds(e, starts, total, e.condition)
                total = self.last(time, total, e.condition)
                e = replace(e, condition=None)
        if total is not None and depth > 1 and e.condition is None:
            strips = self.strips(total, depth)
            length = strips.lengths[0]
            total = self.measured("strips", "floordiv", number(total + length - 1), number(length))
        elif total is not None and self.in_reverse and not self.scope and not self.guards:
            if is_long(total) and is_light(e, self.in_reverse[-1]):
                return self.in_parts(e, starts, total)
        values, time = self.rounds(e, starts, total, e.condition, strips)
        return self.end(values, {time: self.last(time, total, e.condition)})

    def end(self, values: list[Value], last: dict[Var, Size]) -> Value:
        """The value of a loop after its last round."""
        values = [substitute(v, last) for v in values]
        return values[0] if len(values) == 1 else Items(tuple(values))

    def in_parts(self, e: core.Loop, starts: list[Value], total: Size) -> Value:
        """A loop whose last rounds go as they are, and the ones before in strips (see `light`)."""
        state = ZERO  # its bytes
        for c in new_states(e):
            count, cell = size(1), c.type
            while isinstance(cell, types.Table):
                for n in extents(self.set(cell.set)):
                    count *= n
                cell = cell.cell
            state += count * dtype_of(cell).bytes

        def rounds(space: int) -> Operand:
            return self.op("floordiv", (Lit(space, DType.I64), some), DType.I64)

        some = self.op("max", (number(state), Lit(1, DType.I64)), DType.I64)
        few, all_, room = Lit(FEWEST, DType.I64), number(total), rounds(ROOM)
        most = self.op("min", (all_, room), DType.I64)
        late = self.op("select", (self.op("ge", (room, few), DType.BOOL), most, all_), DType.I64)
        early = self.measured("early", "sub", all_, late)
        strip = self.measured("strip", "max", rounds(STRIP), few)
        strips = self.measured("strips", "floordiv", number(early + strip - 1), number(strip))
        values, time = self.rounds(e, starts, strips, None, Strips(early, (strip,)))
        starts = [mapped(substitute(v, {time: strips}), self.operand) for v in values]
        rest = self.measured("late", "sub", all_, number(early))
        values, time = self.rounds(e, starts, rest, None, None, early)
        return self.end(values, {time: rest})

    def measured(self, name: str, op: str, a: Operand, b: Operand) -> Size:
        """A number that extents can be made of."""
        return size_of(self.b.bind(Op(op, (a, b)), DType.I64, self.guards, var=Var(name)))

    def scan(self, e: core.Scan) -> Value:
        return self.apart(e, self.scanned)

    def scanned(self, e: core.Scan) -> Value:
        s = self.set(e.set)
        starts = self.starts(e)
        values, time = self.rounds(e, starts, self.count(s), None)
        indices = self.indices(s, e.time.name)
        at = ordinal(extents(s), tuple(size(i) for i in indices))
        names = {time: at if e.exclusive else at + 1}
        rows = [row(s, indices, substitute(v, names)) for v in values]
        return rows[0] if len(rows) == 1 else Items(tuple(rows))

    def below(self, fewest: int, again: Operand) -> Operand:
        """Whether a loop goes on, where only the first of the guards hold: not if others do not."""
        guards = self.guards
        for k in reversed(range(fewest, len(guards))):
            g, self.guards = guards[k], guards[:k]
            sides = (again, _NO) if g.holds else (_NO, again)
            again = self.op("select", (g.operand, *sides), DType.BOOL)
        self.guards = guards
        return again

    def starts(self, e: core.Loop | core.Scan) -> list[Value]:
        """The first values, as operands: what they need is bound before the delays that read it."""
        return [mapped(self.tabulated(self.expr(c.start)), self.operand) for c in e.carried]

    def strips(self, rounds: Size, depth: int) -> Strips:
        """Strips as long as each other, for a loop of so many rounds: powers of its root."""
        n = self.op("cast", (number(rounds),), DType.F64)
        root = self.op("pow", (n, Lit(1.0 / depth, DType.F64)), DType.F64)
        below = self.op("cast", (root,), DType.I64)
        more = Op("add", (below, Lit(1, DType.I64)))
        width = size_of(self.b.bind(more, DType.I64, self.guards, var=Var("strip")))
        lengths = [width]
        while len(lengths) < depth - 1:
            lengths.insert(0, lengths[0] * width)
        return Strips(rounds, tuple(lengths))

    def strip(self, s: Strips, time: Var) -> tuple[Size, Strips | None, Size]:
        """How many rounds the loop inside round `time` of a strip's loop makes, its strips, and
        what is done before. The last strips may be short, or empty."""
        length, *inner = s.lengths
        done = s.done + size(time) * length
        if inner:
            return inner[-1], Strips(s.rounds, tuple(inner), done), done
        return clamp(s.rounds - done, length + 1), None, done

    def rounds(
        self, e: core.Loop | core.Scan, starts: list[Value], total: Size | None,
        condition: core.Expr | None, strips: Strips | None = None, done: Size = ZERO,
    ) -> tuple[list[Value], Var]:
        """The delays of a loop: the carried values as they are at its time index, and that. Cells
        of handlers that the loop changes are carried, too. `done` rounds of `e` were made before;
        a round of `strips` is a loop."""
        first, calls = len(self.b.bindings), len(self.b.ruled)
        name = e.time.name if e.time is not None else "t"
        around = self.b.closed((*self.scope, *free_guards(self.guards)))
        time = self.b.index(total, name, around if condition is not None else ())
        changed, _ = self.effects(e.body, condition)
        cells, fewest = self.carry(changed, time, total)
        made = [
            self.delays(c.type, c.var.name, time, total, self.guards, e.origin) for c in e.carried
        ]
        self.env.update((c.var, v) for c, (v, _) in zip(e.carried, made, strict=True))
        if e.time is not None and e.set is not None:
            s = self.set(e.set)
            self.env[e.time] = element(s, digits(extents(s), done + size(time)))
        outer = self.scope
        self.scope = (*outer, time)
        if condition is not None:
            asked = len(self.b.bindings)
            again = self.scalar(condition)
            with_values(self.b, asked)
            again = after_checks(self.b, again, self.checks(asked), time, self.guards)
            again = self.below(fewest, again)
            self.b.indices[time] = Index(total, in_rounds(self.b, again, time), name)
        nexts: tuple[Value, ...]
        if strips is not None:
            left, inner, before = self.strip(strips, time)
            now = [v for v, _ in made]
            ends, t = self.rounds(e, now, left, None, inner, before)
            self.b.strips[time] = t
            nexts = tuple(substitute(v, {t: left}) for v in ends)
        else:
            body = self.tabulated(self.expr(e.body))
            nexts = (body,) if len(made) == 1 else body.items if isinstance(body, Items) else ()
        self.settle(cells, time, self.last(time, total, condition))
        self.scope = outer
        for (value, slots), start, following in zip(made, starts, nexts, strict=True):
            self.close(value, slots, start, following)
        values = [v for v, _ in made]
        if around and condition is None and not changed and len(self.b.ruled) == calls:
            least = self.narrowed(first)
            if least is not None:
                values = [mapped(v, lambda x: least(self.operand(x))) for v in values]
        return values, time

    def checks(self, first: int) -> list[Binding]:
        """Those among the bindings from `first` on."""
        return [
            b for b in self.b.bindings[first:]
            if isinstance(b.prim, Op) and b.prim.name == "checked"
        ]  # fmt: skip

    def last(self, time: Var, total: Size | None, condition: core.Expr | None) -> Size:
        """The time after the last round."""
        if condition is None and total is not None:
            return total
        inside = self.b.order(self.b.closures[time] - {time})
        return atom(Trips(time, tuple((i, size(i)) for i in inside)))


def _indices(value: Value) -> Iterator[Var]:
    """The indices that a value mentions."""
    match value:
        case Items(items) | Listed(_, items):
            for x in items:
                yield from _indices(x)
        case Row(_, _, cell):
            yield from _indices(cell)
        case Truth(n):
            yield from variables(n)
        case _:
            yield from free(value)
