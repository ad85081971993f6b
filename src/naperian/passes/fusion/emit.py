"""Loops from the loop tree: nests, their order, their parts.

Neighbours with the same guards stand under one `When`. A loop is cut where its guards and clamps
change (see `split`).
"""

from __future__ import annotations

from naperian.ainf.syntax import Number, Operand, Read
from naperian.ainf.walk import variables
from naperian.broken import Broken
from naperian.dtypes import DType
from naperian.facts import Facts
from naperian.loops import syntax as loops
from naperian.loops.syntax import Expr, Order
from naperian.loops.walk import rebuild_allocations, remade, renamed, writes
from naperian.loops.walk import statements as every
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.bindings.ranges import checked, facts_about
from naperian.passes.fusion.apart import apart
from naperian.passes.fusion.block import Block, Guards
from naperian.passes.fusion.graph import (
    WHOLE,
    Cell,
    Graph,
    Item,
    Kind,
    Nest,
    Task,
    cost,
    in_order,
    task_reads,
)
from naperian.passes.fusion.operands import Values
from naperian.passes.fusion.split import Bounds, segments
from naperian.passes.fusion.statements import FALSE, Statements, lines
from naperian.passes.fusion.storage import Memory, Storage, tasks_in
from naperian.passes.fusion.told import stored
from naperian.passes.fusion.trips import LARGE, trips
from naperian.sizes import ONE, ZERO, Clamp, Remainder, Size, atom, size, substitute

_LITTLE = 4096  # additions that are not worth a thread
_WHY = {Order.FREE: "independent iterations", Order.SERIAL: "sequential"}
_SORTED = 20  # additions for an element of a row that is put in order
_STARTS = 8  # rounds that are cut from what threads share,
_WINDOW = 32  # and from a loop inside
_UNKNOWN = size(16)  # iterations of an inner loop whose extent is not known outside
_NEARBY = size(4)  # and of one in such a loop: they go over the neighbourhood of a place


class Emitter:
    """Emits nests, and what they hold."""

    def __init__(self, graph: Graph, storage: Storage, items: list[Item]) -> None:
        self.v = Values(graph, storage, tasks_in(items))
        self.s = Statements(self.v)
        self.arrays: set[Var] = set()  # accumulated by parallel loops
        self.inside = 0  # how many loops are open that are not over the time of a recurrence

    def block(self, items: list[Item], out: Block) -> None:
        for item in items:
            for memory, what in self.v.storage.before.get(item, ()):
                self.allocate(item, memory, what, out)
            if isinstance(item, Nest):
                self.nest(item, out)
            else:
                self.s.task(item, out)

    def allocate(self, item: Item, memory: Memory, what: Task | Cell, out: Block) -> None:
        t = what.start if isinstance(what, Cell) else what
        depth = item.depth if isinstance(item, Nest) else len(item.nests)
        shape = [self.length(t, n, depth, out) for n in memory.layout.shape]
        if shape != [self.v.size(t, n) for n in memory.layout.shape]:
            self.s.partial.add(memory.buffer)
        if isinstance(what, Cell) and what.time is not None:
            if not what.history and not what.in_place:
                shape.insert(0, size(2))
        role = loops.Role.TEMP if memory.temp else loops.Role.OUT
        buffer = loops.Buffer(memory.buffer, t.dtype, tuple(shape), role)
        out.put(loops.Allocate(buffer))
        if not memory.temp:
            self.s.notes.append(f"`{memory.buffer.name}` is made here: its size is known now")
            return
        if isinstance(what, Cell):
            if what.time is None:
                why = "its sums go on over a loop outside it"
            elif what.history:
                why = "all its values over time are read"
            elif what.in_place:
                why = "it is carried, in place"
            else:
                why = "it is carried, in two copies that take turns"
        elif t.kind is Kind.PRODUCT:
            why = "it is a contraction"
        elif t.kind is Kind.SORT:
            why = "it is sorted"
        else:
            why = "another loop reads it"
        self.s.notes.append(stored(t, shape, why))

    def length(self, t: Task, n: Size, depth: int, out: Block) -> Size:
        """How long an array is in so many loops. What says so may be there only where the array is
        needed; elsewhere it has no elements."""
        found = self.v.size(t, n)
        if not self.v.reads_memory(n):
            return found
        known = [g for g in t.guards if self.v.before(t, g.operand, depth)]
        guards = tuple(c for g in known for c in (self.v.guard(t, g),) if isinstance(c, tuple))
        if not guards:
            return found
        length = Var("length")
        out.put(loops.Variable(length, DType.I64, Lit(0, DType.I64)))
        out.under(guards).put(loops.Assign(length, loops.Number(found)))
        return size(length)

    def nest(self, n: Nest, out: Block) -> None:
        guards = self.common_guards(n)
        row = self.v.of_extent(n)
        if guards is None or row is None:
            return
        guards = tuple(dict.fromkeys((*guards, *row)))
        before = self.v.asserted
        self.v.asserted = before | dict(guards)
        if n.index.condition is not None:  # how many rounds it made is asked for after it
            out.put(loops.Variable(n.var, DType.I64, Lit(0, DType.I64)))
        inner = out.under(guards)
        if n.index.condition is not None:
            self.while_loop(n, inner)
        else:
            self.for_loop(n, inner)
        self.v.asserted = before

    def common_guards(self, n: Nest) -> Guards | None:
        """The guards of everything a nest is there for, if they can be tested before it."""
        asked = self.asked(n)
        if asked is None:
            return None
        first, *others = asked or [()]
        return tuple(c for c in first if all(c in guards for guards in others))

    def asked(self, n: Nest) -> list[Guards] | None:
        """The guards of each task that a nest is there for, as far as they can be tested before it;
        None if there are such tasks, and none of them is ever needed."""
        mains = [
            t for t in n.members
            if t.kind in (Kind.ENTER, Kind.STEP, Kind.PUT, Kind.DEMAND, *WHOLE)
            or t in self.v.storage.tasks or t in self.v.storage.homes
            or (t.kind is Kind.START and t.cell in self.v.storage.cells)
        ]  # fmt: skip
        out: list[Guards] = []
        for t in mains:
            known = [g for g in t.guards if self.known_before(n, t, g.operand)]
            mine = [self.v.guard(t, g) for g in known]
            if False not in mine:
                out.append(tuple(c for c in mine if isinstance(c, tuple)))
        return out if out or not mains else None

    def known_before(self, n: Nest, t: Task, x: Operand) -> bool:
        """Whether an operand of a task is available before a nest. An element of an argument is
        loaded for that only in front of a loop that ends by a condition: others are vectors, which
        ask for it themselves, or are taken out of the question later (`nests/unswitch`)."""
        if self.v.before(t, x, n.depth):
            return True
        return n.index.condition is not None and self.v.loaded(t, x, n.depth)

    def extent(self, n: Nest, out: Block) -> Size:
        """How many rounds a loop has. What says so may be there only where one of its tasks is
        needed; where none is, it has none."""
        assert n.extent is not None
        found = self.v.size(n.members[0], n.extent)
        asked = self.asked(n) if self.v.reads_memory(n.extent) else None
        if not asked or not all(asked):
            return found
        length = Var("length")
        out.put(loops.Variable(length, DType.I64, Lit(0, DType.I64)))
        for guards in dict.fromkeys(asked):
            out.under(guards).put(loops.Assign(length, loops.Number(found)))
        return size(length)

    def for_loop(self, n: Nest, out: Block) -> None:
        extent = self.extent(n, out)
        order, why = self.order(n)
        reductions = self.reductions(n, order)
        alone = Order.SERIAL if any(r.var in self.arrays for r in reductions) else Order.FREE
        above = self.v.bounds
        work = self.work(n.body, {n.var: extent})
        total = (extent * work).constant
        known = self.trips(n, extent)
        if known is not None:
            extent = size(named := Var("rounds"))
            out.put(loops.Let(named, DType.I64, known))
        if order is Order.PARALLEL and total is not None and total <= _LITTLE:
            order, why = alone, f"{_WHY[alone]}, too few for threads"
        self.s.notes.append(f"loop over `{n.var.name}`{lines(n.members)}: {why}")
        self.inside += not n.times
        inside = self.inner_bounds(n, above)
        conditions = self.conditions(n, extent)
        most = _STARTS if self.inside == 1 else _WINDOW
        parts = segments(extent, conditions, n.var, inside, above, most)
        if len(parts) > 1:
            why = "is cut where its guards and clamps change"
            self.s.notes.append(f"loop over `{n.var.name}` {why}")
        low = ZERO
        for part in parts:
            high = part.high(low, extent)
            if part.cuts and high.constant is None:
                cut = Var("cut")
                out.put(loops.Let(cut, DType.I64, loops.Number(high)))
                high = size(cut)
            self.v.bounds = above.opened(n.var, part.at_least, part.at_most)
            body = Block()
            self.loop_body(n, n.body, body)
            statements = body.statements()
            if statements:
                if low != ZERO:  # what is made in a round that is all alone ends with all of them
                    statements = _with_own_arrays(statements)
                edge = order is Order.PARALLEL and not part.main
                here = alone if edge else order
                # what its guards leave out is not added to, and no array is shared for it
                shares = reductions and here is Order.PARALLEL
                added = {writes(x) for x in every(statements)} if shares else set()
                shared = tuple(r for r in reductions if r.var in added or r.var not in self.arrays)
                whole = loops.Loop(n.var, low, high, statements, here, shared, work)
                for x in _at_most_once(whole) if part.single else (whole,):
                    out.put(x)
            low = high
        self.v.bounds = above
        self.inside -= not n.times

    def trips(self, n: Nest, extent: Size) -> Expr | None:
        """The rounds of a loop whose extent may wrap, by what is known of it."""
        first, program = n.members[0], self.v.graph.program
        around = {x.var: x.index for x in first.nests[: first.nests.index(n)]}
        rounds = trips(extent, {*program.sizes, *around})
        if rounds is None or n.extent is None:
            return None
        known = Facts().and_(*checked(program))
        sizes = frozenset(program.sizes)
        known = facts_about(n.extent, around, sizes, (), known)
        return None if known.proves(n.extent + LARGE) else rounds

    def inner_bounds(self, n: Nest, above: Bounds) -> Bounds:
        """With the loops inside whose extents are known outside."""
        for x in n.body:
            if isinstance(x, Nest) and x.extent is not None and self.seen(n, x):
                above = above.opened(x.var, (ZERO,), (x.extent - 1,))
                above = self.inner_bounds(x, above)
        return above

    def conditions(self, n: Nest, extent: Size) -> list[Size]:
        """What the body tests of the loop's variable: polynomials that should be >= 0."""
        if not all(self.seen(n, x) for x in n.body if isinstance(x, Nest)):
            return []
        out: list[Size] = []

        def look(t: Task, s: Size) -> None:
            for a in s.atoms:
                match a:
                    case Clamp(value, m) | Remainder(value, m):
                        if self.v.reads_memory(atom(a)):
                            continue
                        v, divisor = self.v.size(t, value), self.v.size(t, m)
                        if isinstance(a, Clamp) or divisor == extent:  # not a flattened index
                            out.extend((v, divisor - 1 - v))
                    case _:
                        pass

        for t in tasks_in(n.body):
            for g in t.guards:
                if g.fact is not None:
                    out.append(self.v.size(t, g.fact))
            for f in self.v.compared(t):
                out.append(f)
            for x in t.args:
                for e in x.at if isinstance(x, Read) else ():
                    look(t, e)
        return [f for f in dict.fromkeys(out) if n.var in f.atoms]

    def known_inside(self, n: Nest) -> bool:
        """Whether the extents of a loop and of all in it are known outside: constants, or sizes, of
        a sum for each element of a row."""
        if n.extent is None:
            return False
        if n.extent.constant is None:
            sizes = self.v.graph.program.sizes
            added = any(t.kind is Kind.ENTER and t.path[n.depth] in t.over for t in n.members)
            if self.inside < 2 or not added or any(a not in sizes for a in n.extent.atoms):
                return False
        return all(self.known_inside(x) for x in n.body if isinstance(x, Nest))

    def seen(self, n: Nest, x: Nest) -> bool:
        """Whether what is asked in a loop is looked for where to cut the one around it."""
        return self.known_inside(x) or self.beside(n, x)

    def beside(self, n: Nest, x: Nest) -> bool:
        """Whether a loop is all that the one around it does, and goes along what lies side by side
        in all that both go through: the channels of pixels. What is left of the two between the
        borders is one loop (`nests/collapse.py`)."""
        sizes = self.v.graph.program.sizes
        if len(n.body) > 1 or x.extent is None or any(a not in sizes for a in x.extent.atoms):
            return False
        if not all(self.known_inside(y) for y in x.body if isinstance(y, Nest)):
            return False
        return all(self.is_along(t, t.path[n.depth], t.path[x.depth]) for t in tasks_in(x.body))

    def is_along(self, t: Task, pixel: Var, channel: Var) -> bool:
        """Whether a task asks for its channel only where elements of arrays are."""
        if any(g.fact is not None and channel in variables(g.fact) for g in t.guards):
            return False
        asked = [x for x in t.args if isinstance(x, Read | Number)]
        places = (self.place(x) if isinstance(x, Read) else (x.value,) for x in asked)
        to = () if t.cell is not None and t.cell not in self.v.storage.cells else t.at
        return all(_ends_with(at, pixel, channel) for at in (to, *places))

    def place(self, x: Read) -> tuple[Size, ...]:
        """Where in an array an element is that a task reads; nowhere, if it is in a register."""
        made = self.v.graph.source.get(x.var)
        cell = made.cell if made is not None else None
        if cell is not None and cell in self.v.storage.cells:  # at any time
            return tuple(e for i, e in zip(cell.context, x.at, strict=False) if i != cell.index)
        return x.at if made is None or made in self.v.storage.tasks else ()

    def loop_body(self, n: Nest, items: list[Item], out: Block) -> None:
        latch = self.s.latch
        self.s.latch = []
        self.block(items, out)
        for s in self.s.latch:
            out.put(s)
        self.s.latch = latch

    def while_loop(self, n: Nest, out: Block) -> None:
        condition = n.index.condition
        if not n.times or condition is None:
            raise Broken(f"a loop over {n.var} carries nothing")
        (time,) = n.times
        t = next(x for x in n.members if x.kind is Kind.STEP)
        self.v.rounds[time] = n.var
        above = self.v.bounds
        head, body = Block(), Block()
        self.block(n.body[: n.head], head)
        more = self.v.operand(t, condition)
        start = head.statements()
        if n.index.extent is not None:
            go = Var("go")
            counted = loops.Apply(
                "lt",
                (loops.Local(n.var), loops.Number(self.v.size(t, n.index.extent))),
                DType.BOOL,
                DType.I64,
            )
            inside = (*start, loops.Assign(go, more))
            start = (loops.Variable(go, DType.BOOL, FALSE), loops.When(counted, inside))
            more = loops.Local(go)
        self.loop_body(n, n.body[n.head :], body)
        step = loops.Apply(
            "add", (loops.Local(n.var), Lit(1, DType.I64)), DType.I64, DType.I64
        )
        body.put(loops.Assign(n.var, step))
        out.put(loops.While(start, more, body.statements()))
        self.v.bounds = above
        why = "sequential until its condition fails"
        self.s.notes.append(f"loop over `{time.name}`{lines(n.members)}: {why}")

    def reductions(self, n: Nest, order: Order) -> tuple[loops.Reduction, ...]:
        """What the iterations of a nest accumulate together; arrays only if it is parallel."""
        found: list[loops.Reduction] = []
        for t in n.members:
            if t.kind is not Kind.ENTER or t.path[n.depth] not in t.over or t.cell is None:
                continue
            if in_order(self.v.graph, t):
                continue
            memory = self.v.storage.cells.get(t.cell)
            if memory is None and t.cell not in self.v.bests:
                found.append(loops.Reduction(self.v.cells[t.cell], t.name, t.dtype))
            elif memory is not None and order is Order.PARALLEL and not apart(n, t.cell):
                self.arrays.add(memory.buffer)
                found.append(loops.Reduction(memory.buffer, t.name, t.dtype))
        return tuple(dict.fromkeys(found))

    def order(self, n: Nest) -> tuple[Order, str]:
        parallel = not self.inside
        why = "its iterations are independent"
        for t in n.members:
            if t.kind is Kind.STEP and t.cell is not None and t.cell.time == t.path[n.depth]:
                prints = any(m.name == "print" for m in n.members)
                throws = t.var.name == "thrown" and t.dtype is DType.BOOL
                carries = f"it carries `{t.var.name}`"
                why = "it prints" if prints else "a `throw()` ends it" if throws else carries
                return Order.SERIAL, f"sequential, {why}"
            if t.kind is Kind.ENTER and t.path[n.depth] in t.over:
                if t.cell in self.v.storage.cells and t.cell is not None:
                    if apart(n, t.cell):
                        continue
                    if not parallel or t.name == "last":
                        return Order.SERIAL, f"sequential, it updates the array `{t.var.name}`"
                    why = f"its chunks update copies of the array `{t.var.name}`"
                if in_order(self.v.graph, t):
                    return Order.SERIAL, f"sequential, it adds up `{t.var.name}` in order"
                if t.name.startswith("arg"):
                    return Order.SERIAL, f"sequential, it looks for the first best `{t.var.name}`"
        if parallel:
            return Order.PARALLEL, f"parallel, {why}"
        return Order.FREE, "independent iterations inside another loop"

    def work(self, items: list[Item], inside: dict[Var, Size], found: bool = False) -> Size:
        """Additions and loads of one iteration of the loops inside, roughly, given how often each
        goes round, and whether it is found in the run how often one does."""
        here = 0
        inner = ZERO
        for x in items:
            if isinstance(x, Task):
                here += cost(x) + sum(1 for _ in task_reads(x))
                if x.kind is Kind.SORT:
                    inner = inner + self.row(x) * _SORTED
                continue
            rounds = self.rounds(x, inside)
            mine = rounds is _UNKNOWN
            if mine and found:
                rounds = _NEARBY
            within = inside | {x.var: rounds}
            inner = inner + rounds * self.work(x.body, within, found or mine)
        return inner + max(here, 1)

    def row(self, t: Task) -> Size:
        """How many elements are sorted."""
        program = self.v.graph.program
        extent = program.indices[t.over[0]].extent
        plain = extent is not None and all(a in program.sizes for a in extent.atoms)
        return extent if plain and extent is not None else _UNKNOWN

    def rounds(self, n: Nest, inside: dict[Var, Size]) -> Size:
        """How often a loop inside others goes round, on average: half as often as it may if that
        depends on another loop, and if it goes along an array, its share of that."""
        extent = n.extent
        if extent is None:
            return _UNKNOWN
        if extent.plain:
            halves: dict[object, Size] = {v: (m + 1) // 2 for v, m in inside.items()}
            return substitute(extent, halves.get)
        among = ONE
        for v in dict.fromkeys(variables(extent)):
            among = among * inside.get(v, ONE)
        sizes = self.v.graph.program.sizes
        for t in tasks_in(n.body):
            for r in task_reads(t):
                if not isinstance(r, Read) or r.var not in self.v.graph.params:
                    continue
                for e, m in zip(r.at, self.v.graph.params[r.var].shape, strict=True):
                    if e.coefficient(t.path[n.depth]) and all(a in sizes for a in m.atoms):
                        return m // among
        return _UNKNOWN


def _ends_with(at: tuple[Size, ...], pixel: Var, channel: Var) -> bool:
    """Whether a channel's index is the last of a place, and its pixel's before it, if it is there
    at all."""
    if not any(channel in variables(e) for e in at):
        return True
    *before, last = at
    if last != size(channel) or any(channel in variables(e) for e in before):
        return False
    return bool(before) and pixel in variables(before[-1])


def _with_own_arrays(body: tuple[loops.Stmt, ...]) -> tuple[loops.Stmt, ...]:
    """Statements that make their arrays under names of their own."""
    made = [x.buffer.var for x in every(body) if isinstance(x, loops.Allocate)]
    names = {v: fresh(v) for v in made}

    def own(s: loops.Stmt) -> loops.Stmt:
        if isinstance(s, loops.Allocate):
            return replace(s, buffer=replace(s.buffer, var=names[s.buffer.var]))
        return rebuild_allocations(s, lambda block: tuple([own(x) for x in block]))

    return tuple([own(s) for s in renamed(body, names)]) if names else body


def _at_most_once(s: loops.Loop) -> tuple[loops.Stmt, ...]:
    """A loop that goes round once or never, as a condition: it is no vector, and code for one
    takes time to make."""
    once = remade(s.body, lambda a: s.low if a == s.var else None)
    if s.high - s.low == ONE and not any(isinstance(x, loops.Allocate) for x in once):
        return once  # but what is made there ends there
    some = loops.Apply("lt", (loops.Number(s.low), loops.Number(s.high)), DType.BOOL, DType.I64)
    return (loops.When(some, once),)
