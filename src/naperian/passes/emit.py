"""Loops from the loop tree: every task as statements.

What is cheap, total and safe is computed whether its guards hold or not; the rest stands under
`When`, neighbours with the same guards together. A comparison of index expressions that the place
decides (see `split`) is a constant there.
"""

from __future__ import annotations

from naperian.ainf.syntax import Guard, Number, Operand, Read
from naperian.broken import Broken
from naperian.dtypes import DType
from naperian.loops import syntax as loops
from naperian.loops.syntax import Expr, Order, Stmt
from naperian.names import Lit, Var, fresh
from naperian.passes.graph import (
    Cell,
    Graph,
    Item,
    Kind,
    Nest,
    Task,
    cost,
    neutral,
    operand_sizes,
    rename_indices,
    size_reads,
)
from naperian.passes.split import Bounds, segments
from naperian.passes.storage import Memory, Storage, is_view, tasks_in
from naperian.sizes import ONE, ZERO, Clamp, Remainder, Size, clamp, size, substitute

_TOTAL = 40  # an operation dearer than this is skipped where it is not needed
_DEEP = 5  # nested expressions, for readers
_UNKNOWN = 16  # iterations of an inner loop whose extent is not known outside

_Guards = tuple[tuple[Expr, bool], ...]
TRUE = Lit(True, DType.BOOL)
FALSE = Lit(False, DType.BOOL)


def zero(dtype: DType) -> Lit:
    return Lit(False if dtype is DType.BOOL else 0.0 if dtype.is_float else 0, dtype)


class Emitter:
    """The state of code generation: values known as expressions, and what is known of loops."""

    def __init__(self, graph: Graph, storage: Storage) -> None:
        self.graph = graph
        self.storage = storage
        self.values: dict[Task, Expr] = {}
        self.depths: dict[Task, int] = {}
        self.cells: dict[Cell, Var] = {}
        self.bests: dict[Cell, Var] = {}
        self.rounds: dict[Var, Var] = {}
        self.bounds = Bounds()
        self.asserted: dict[Expr, bool] = {}
        self.latch: list[Stmt] = []
        self.inside = 0  # how many PARALLEL and FREE loops are open
        self.notes: list[str] = []
        self.named = self._named()

    def _named(self) -> set[Task]:
        """Values that must have a name: read in index expressions, several times, or elsewhere."""
        out: set[Task] = set()
        reader: dict[Task, Task] = {}
        for t in self.graph.tasks:
            for s in t.sites:
                q = s.task
                if s.bound or q in reader or q.nests != t.nests:
                    out.add(q)
                reader[q] = t
            for x in (*t.args, *(g.operand for g in t.guards)):
                for e in operand_sizes(x):
                    out |= self._in_size(e)
            for e in t.at:
                out |= self._in_size(e)
            for g in t.guards:
                if isinstance(g.operand, Read) and g.operand.var in self.graph.source:
                    out.add(self.graph.source[g.operand.var])
        for index in self.graph.program.indices.values():
            c = index.condition
            if isinstance(c, Read) and c.var in self.graph.source:
                out.add(self.graph.source[c.var])
        return out

    def _in_size(self, s: Size) -> set[Task]:
        if all(type(a) is Var for m, _ in s.terms for a in m):
            return set()
        source = self.graph.source
        return {source[r.var] for r in size_reads(s) if isinstance(r, Read) and r.var in source}

    # index expressions and operands

    def size(self, t: Task, s: Size) -> Size:
        one = s.single
        if type(one) is Var:
            return t.loops.get(one, s)

        def replace(a: object) -> Size | None:
            match a:
                case Var():
                    return t.loops.get(a)
                case Read():
                    return self.atom(t, a)
                case Clamp(value, extent):
                    x = clamp(self.size(t, value), self.size(t, extent))
                    return self.known(x)
                case Remainder(above, below):
                    return self.known(self.size(t, above) % self.size(t, below))
                case _:
                    return None

        return substitute(s, replace)

    def known(self, s: Size) -> Size:
        a = s.single
        return (self.bounds.atom(a) if a is not None else None) or s

    def atom(self, t: Task, r: Read) -> Size:
        """A read of an integer, in an index expression."""
        match self.operand(t, r):
            case loops.Local(var):
                return size(var)
            case loops.Number(value):
                return value
            case Lit(value):
                return size(int(value))
            case loops.Load() as load:
                return Size((((load,), 1),))
            case x:
                raise Broken(f"an index expression reads {x!r}")

    def operand(self, t: Task, x: Operand) -> Expr:
        match x:
            case Lit():
                return x
            case Number(value):
                return loops.Number(self.size(t, value))
            case Read(var, at):
                param = self.graph.params.get(var)
                if param is not None:
                    if not param.shape:
                        return loops.Local(var)
                    return loops.Load(var, tuple(self.size(t, e) for e in at))
                q = self.graph.source[var]
                if q.kind is Kind.STEP:
                    return self.carried(t, q, at)
                if q.nests == t.nests[: len(q.nests)] and q in self.values:
                    return self.values[q]
                return self.stored(t, q, at)

    def stored(self, t: Task, q: Task, at: tuple[Size, ...]) -> Expr:
        """The value of another nest, from memory."""
        if is_view(q, self.storage):
            assert q.cell is not None
            point = dict(zip(q.context, at, strict=True))
            inner = tuple(rename_indices(e, point) for e in q.at)
            where = dict(zip(q.cell.start.context, inner, strict=True))
            memory = self.storage.cells[q.cell]
        else:
            found = self.storage.homes.get(q) or self.storage.tasks.get(q)
            if found is None:
                raise Broken(f"{q.var} is read in another nest but not stored")
            memory = found
            where = dict(zip(q.context, at, strict=True))
        return loops.Load(memory.buffer, tuple(self.size(t, where[i]) for i in memory.axes))

    def carried(self, t: Task, step: Task, at: tuple[Size, ...]) -> Expr:
        """The current value of a carried cell, or one of its history."""
        cell = step.cell
        assert cell is not None
        memory = self.storage.cells.get(cell)
        if memory is None:
            return loops.Local(self.cells[cell])
        where = dict(zip(step.context, at, strict=True))
        assert cell.time is not None
        when = self.size(t, where[cell.time])
        rest = tuple(self.size(t, where[i]) for i in memory.axes)
        return loops.Load(memory.buffer, (*self.turn(cell, when), *rest))

    def turn(self, cell: Cell, when: Size) -> tuple[Size, ...]:
        """The leading axis of a carried array: the time, its parity, or none."""
        if cell.history:
            return (when,)
        return () if cell.in_place else (when % 2,)

    def dtype(self, x: Operand) -> DType:
        match x:
            case Lit(_, dtype):
                return dtype
            case Number():
                return DType.I64
            case Read(var):
                param = self.graph.params.get(var)
                return param.dtype if param is not None else self.graph.source[var].dtype

    # guards

    def needed(self, t: Task) -> _Guards | None:
        """The guards that are not decided here; None where the task is not needed."""
        out: list[tuple[Expr, bool]] = []
        for g in t.guards:
            c = self.guard(t, g)
            if c is None:
                continue
            if isinstance(c, bool):
                return None
            if c not in out:
                out.append(c)
        return tuple(out)

    def guard(self, t: Task, g: Guard) -> tuple[Expr, bool] | bool | None:
        if g.fact is not None:
            sure = self.bounds.decide(self.size(t, g.fact))
            if sure is not None:
                return None if sure else False
        c = self.operand(t, g.operand)
        if isinstance(c, Lit):
            return None if bool(c.value) == g.holds else False
        known = self.asserted.get(c)
        if known is not None:
            return None if known == g.holds else False
        return c, g.holds

    def safe(self, t: Task) -> bool:
        """Whether a value can be computed where it is not needed."""
        if t.kind is Kind.COMPUTE and (t.name == "checked" or cost(t) > _TOTAL):
            return False
        reads = [x for x in t.args if isinstance(x, Read)]
        reads += [r for e in t.at for r in size_reads(e) if isinstance(r, Read)]
        return all(self.in_range(t, r) for r in reads)

    def in_range(self, t: Task, r: Read) -> bool:
        """Whether a read is certainly inside its array."""
        if not r.at:
            return True
        param = self.graph.params.get(r.var)
        if param is not None:
            shape: tuple[Size | None, ...] = param.shape
        else:
            q = self.graph.source[r.var]
            if q.kind is not Kind.STEP and q.nests == t.nests[: len(q.nests)] and q in self.values:
                return True
            indices = self.graph.program.indices
            shape = tuple(indices[i].extent for i in q.context)
        for e, n in zip(r.at, shape, strict=True):
            if n is None:
                return False
            here, m = self.size(t, e), self.size(t, n)
            a = here.single
            if isinstance(a, Clamp | Remainder):
                divisor = a.extent if isinstance(a, Clamp) else a.below
                if divisor == m and self.bounds.not_empty(m):
                    continue
            if not (self.bounds.holds(here) and self.bounds.holds(m - 1 - here)):
                return False
        return True

    # blocks

    def block(self, items: list[Item], out: Block) -> None:
        for item in items:
            for memory, what in self.storage.before.get(item, ()):
                self.allocate(item, memory, what, out)
            if isinstance(item, Nest):
                self.nest(item, out)
            else:
                self.task(item, out)

    def allocate(self, item: Item, memory: Memory, what: Task | Cell, out: Block) -> None:
        t = what.start if isinstance(what, Cell) else what
        indices = self.graph.program.indices
        shape = []
        for i in memory.axes:
            extent = indices[i].extent
            if extent is None:
                raise Broken(f"{t.var} would be stored for rounds of unknown number")
            shape.append(self.size(t, extent))
        if isinstance(what, Cell) and what.time is not None:
            if what.history:
                extent = indices[what.time].extent
                if extent is None:
                    raise Broken(f"{t.var} would be stored for rounds of unknown number")
                shape.insert(0, self.size(t, extent) + 1)
            elif not what.in_place:
                shape.insert(0, size(2))
        buffer = loops.Buffer(memory.buffer, t.dtype, tuple(shape), loops.Role.TEMP)
        out.put(loops.Allocate(buffer))
        name = f"`{t.var.name}` is stored"
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
        else:
            why = "another loop reads it"
        self.notes.append(f"{name}: {why}")

    def nest(self, n: Nest, out: Block) -> None:
        guards = self.common_guards(n)
        if guards is None:
            return
        before = self.asserted
        self.asserted = before | dict(guards)
        inner = out.under(guards)
        if n.index.condition is not None:
            self.while_loop(n, inner)
        else:
            self.for_loop(n, inner)
        self.asserted = before

    def common_guards(self, n: Nest) -> _Guards | None:
        """The guards of everything a nest is there for, if they can be tested before it."""
        mains = [
            t for t in n.members
            if t.kind in (Kind.ENTER, Kind.STEP, Kind.PUT, Kind.DEMAND, Kind.PRODUCT)
            or t in self.storage.tasks or t in self.storage.homes
        ]  # fmt: skip
        common: list[tuple[Expr, bool]] | None = None
        for t in mains:
            mine: list[tuple[Expr, bool]] = []
            for g in t.guards:
                if not self.before(t, g.operand, n):
                    continue
                c = self.guard(t, g)
                if c is False:
                    mine = [(FALSE, True)]
                    break
                if isinstance(c, tuple):
                    mine.append(c)
            if mine == [(FALSE, True)]:
                continue
            common = mine if common is None else [c for c in common if c in mine]
        if common is None and mains:
            return None
        return tuple(common or ())

    def before(self, t: Task, x: Operand, n: Nest) -> bool:
        """Whether an operand of a task is available before the nest it is in."""
        if isinstance(x, Lit):
            return True
        if isinstance(x, Number):
            return not any(True for _ in x.value.atoms())
        q = self.graph.source.get(x.var)
        if q is None:
            return not x.at
        return len(q.nests) <= n.depth and q in self.values

    def for_loop(self, n: Nest, out: Block) -> None:
        first = n.members[0]
        assert n.index.extent is not None
        extent = self.size(first, n.index.extent)
        order, why = self.order(n)
        reductions = tuple(
            loops.Reduction(self.cells[t.cell], t.name, t.dtype)
            for t in n.members
            if t.kind is Kind.ENTER and t.cell in self.cells and t.path[n.depth] in t.over
            and t.cell not in self.bests
        )  # fmt: skip
        self.notes.append(f"loop over `{n.var.name}`: {why}")
        above = self.bounds
        work = self.work(n.body)
        self.inside += order is not Order.SERIAL
        parts = segments(extent, self.conditions(n, extent), n.var, self.inner_bounds(n, above))
        if len(parts) > 1:
            self.notes.append(f"loop over `{n.var.name}` is cut where its guards and clamps change")
        for part in parts:
            self.bounds = above.opened(n.var, part.at_least, part.at_most)
            body = Block()
            self.loop_body(n, n.body, body)
            statements = body.statements()
            if statements:
                here = order
                if order is Order.PARALLEL and not part.main:
                    here = Order.FREE
                out.put(
                    loops.Loop(n.var, part.low, part.high, statements, here, reductions, work)
                )
        self.bounds = above
        self.inside -= order is not Order.SERIAL

    def inner_bounds(self, n: Nest, above: Bounds) -> Bounds:
        """With the loops inside that have constant extents."""
        for x in n.body:
            if isinstance(x, Nest) and x.extent is not None and x.extent.constant is not None:
                above = above.opened(x.var, (ZERO,), (x.extent - 1,))
                above = self.inner_bounds(x, above)
        return above

    def conditions(self, n: Nest, extent: Size) -> list[Size]:
        """What the body tests of the loop's variable: polynomials that should be >= 0."""
        if any(isinstance(x, Nest) and not _constant(x) for x in n.body):
            return []
        out: list[Size] = []

        def look(t: Task, s: Size) -> None:
            for a in s.atoms():
                match a:
                    case Clamp(value, m) | Remainder(value, m):
                        v, divisor = self.size(t, value), self.size(t, m)
                        if isinstance(a, Clamp) or divisor == extent:  # not a flattened index
                            out.extend((v, divisor - 1 - v))
                    case _:
                        pass

        for t in tasks_in(n.body):
            for g in t.guards:
                if g.fact is not None:
                    out.append(self.size(t, g.fact))
            for f in self.compared(t):
                out.append(f)
            for x in t.args:
                for e in x.at if isinstance(x, Read) else ():
                    look(t, e)
        return [f for f in dict.fromkeys(out) if n.var in f.atoms()]

    def compared(self, t: Task) -> tuple[Size, ...]:
        """For a comparison of index expressions: the polynomials it depends on."""
        if t.kind is not Kind.COMPUTE or len(t.args) != 2:
            return ()
        a, b = t.args
        x, y = _number(a), _number(b)
        if x is None or y is None:
            return ()
        d = self.size(t, y) - self.size(t, x)  # b - a
        match t.name:
            case "lt":
                return (d - 1,)
            case "le":
                return (d,)
            case "gt":
                return (-d - 1,)
            case "ge":
                return (-d,)
            case "eq" | "ne":
                return (d, -d)
            case _:
                return ()

    def decided(self, t: Task) -> bool | None:
        """The value of a comparison that the place decides."""
        fs = [self.bounds.decide(f) for f in self.compared(t)]
        match fs:
            case [sure]:
                return sure
            case [True, True]:
                return t.name == "eq"
            case [x, y] if x is False or y is False:
                return t.name == "ne"
            case _:
                return None

    def loop_body(self, n: Nest, items: list[Item], out: Block) -> None:
        latch = self.latch
        self.latch = []
        self.block(items, out)
        for s in self.latch:
            out.put(s)
        self.latch = latch

    def while_loop(self, n: Nest, out: Block) -> None:
        condition = n.index.condition
        if not n.times or condition is None:
            raise Broken(f"a loop over {n.var} carries nothing")
        (time,) = n.times
        t = next(x for x in n.members if x.kind is Kind.STEP)
        self.rounds[time] = n.var
        out.put(loops.Variable(n.var, DType.I64, Lit(0, DType.I64)))
        above = self.bounds
        first, rest = self.for_condition(n, condition)
        head, body = Block(), Block()
        self.block(first, head)
        more = self.operand(t, condition)
        start = head.statements()
        if n.index.extent is not None:
            go = Var("go")
            counted = loops.Apply(
                "lt",
                (loops.Local(n.var), loops.Number(self.size(t, n.index.extent))),
                DType.BOOL,
                DType.I64,
            )
            inside = (*start, loops.Assign(go, more))
            start = (loops.Variable(go, DType.BOOL, FALSE), loops.When(counted, inside))
            more = loops.Local(go)
        self.loop_body(n, rest, body)
        step = loops.Apply(
            "add", (loops.Local(n.var), Lit(1, DType.I64)), DType.I64, DType.I64
        )
        body.put(loops.Assign(n.var, step))
        out.put(loops.While(start, more, body.statements()))
        self.bounds = above
        self.notes.append(f"loop over `{time.name}`: sequential until its condition fails")

    def for_condition(self, n: Nest, condition: Operand) -> tuple[list[Item], list[Item]]:
        """The items that the condition needs, and the others."""
        q = self.graph.source.get(condition.var) if isinstance(condition, Read) else None
        item_of: dict[Task, int] = {}
        for k, item in enumerate(n.body):
            for t in tasks_in([item]):
                item_of[t] = k
        wanted: set[int] = set()
        work = [item_of[q]] if q in item_of and q.kind is not Kind.STEP else []
        while work:
            k = work.pop()
            if k in wanted:
                continue
            wanted.add(k)
            for t in tasks_in([n.body[k]]):
                for s in t.sites:
                    if s.task in item_of and s.task.kind is not Kind.STEP:
                        work.append(item_of[s.task])
        first = [x for k, x in enumerate(n.body) if k in wanted]
        return first, [x for k, x in enumerate(n.body) if k not in wanted]

    def order(self, n: Nest) -> tuple[Order, str]:
        for t in n.members:
            if t.kind is Kind.STEP and t.cell is not None and t.cell.time == t.path[n.depth]:
                return Order.SERIAL, f"sequential, it carries `{t.var.name}`"
            if t.kind is Kind.ENTER and t.path[n.depth] in t.over:
                if t.cell in self.storage.cells:
                    return Order.SERIAL, f"sequential, it updates the array `{t.var.name}`"
                if t.name.startswith("arg"):
                    return Order.SERIAL, f"sequential, it looks for the first best `{t.var.name}`"
        if not self.inside:
            return Order.PARALLEL, "parallel, its iterations are independent"
        return Order.FREE, "independent iterations inside another loop"

    def work(self, items: list[Item]) -> Size:
        total = ZERO
        for x in items:
            if isinstance(x, Task):
                total = total + cost(x) + sum(isinstance(a, Read) for a in x.args)
            else:
                extent = x.extent
                if extent is None or not all(
                    type(a) is Var and a not in self.bounds.low and a in self.sizes
                    for a in extent.atoms()
                ):
                    extent = size(_UNKNOWN)
                total = total + extent * self.work(x.body)
        return total if total.terms else ONE

    @property
    def sizes(self) -> tuple[Var, ...]:
        return self.graph.program.sizes

    # tasks

    def task(self, t: Task, out: Block) -> None:
        guards = self.needed(t)
        if guards is None:
            self.values[t] = zero(t.dtype)
            if t.kind is Kind.START and t.cell not in self.storage.cells:
                self.start(t, (), out)
            return
        match t.kind:
            case Kind.COMPUTE:
                if guards and self.safe(t):
                    guards = ()
                self.compute(t, guards, out)
            case Kind.START:
                if guards and (isinstance(t.args[0], Lit) or self.safe(t)):
                    guards = ()
                self.start(t, guards, out)
            case Kind.ENTER:
                self.enter(t, guards, out)
            case Kind.STEP:
                self.step(t, guards, out)
            case Kind.FINAL:
                self.value(t, self.final(t), (), out)
            case Kind.ROUNDS:
                assert t.cell is not None
                assert t.cell.time is not None
                self.value(t, loops.Local(self.rounds[t.cell.time]), (), out)
            case Kind.DEMAND:
                c = self.operand(t, t.args[0])
                if c != TRUE:
                    no = loops.Apply("not", (c,), DType.BOOL, DType.BOOL)
                    out.put(loops.Fail(no, t.code), guards)
            case Kind.PUT:
                at = tuple(self.size(t, e) for e in t.at)
                out.put(loops.Store(t.var, at, self.operand(t, t.args[0])), guards)
            case Kind.PRODUCT:
                self.product(t, guards, out)

    def value(self, t: Task, e: Expr, guards: _Guards, out: Block) -> None:
        """Keep a value: as an expression, in a local, in memory."""
        memories = [m for m in (self.storage.homes.get(t), self.storage.tasks.get(t)) if m]
        depth = 1 + max(
            (self.depths.get(s.task, 0) for s in t.sites if s.task not in self.named), default=0
        )
        simple = isinstance(e, Lit | loops.Local) or (
            isinstance(e, loops.Number) and t not in self.named
        )
        if not simple and (
            t in self.named or guards or depth > _DEEP or len(memories) > 1
            or (memories and t.uses > 0)
        ):  # fmt: skip
            if t.uses > 0 or len(memories) > 1:
                v = fresh(t.var)
                out.put(loops.Let(v, t.dtype, e), guards)
                e, depth = loops.Local(v), 0
        self.values[t] = e
        self.depths[t] = depth
        for m in memories:
            at = tuple(self.size(t, size(i)) for i in m.axes)
            out.put(loops.Store(m.buffer, at, e), guards)

    def compute(self, t: Task, guards: _Guards, out: Block) -> None:
        sure = self.decided(t)
        if sure is not None:
            self.value(t, Lit(sure, DType.BOOL), (), out)
            return
        args = tuple(self.operand(t, x) for x in t.args)
        if t.name == "checked":
            k, n = args
            low = loops.Apply("lt", (k, Lit(0, DType.I64)), DType.BOOL, DType.I64)
            high = loops.Apply("ge", (k, n), DType.BOOL, DType.I64)
            bad = loops.Apply("or", (low, high), DType.BOOL, DType.BOOL)
            out.put(loops.Fail(bad, t.code, (k, n)), guards)
            self.value(t, k, guards, out)
            return
        self.value(t, self.apply(t, args), guards, out)

    def apply(self, t: Task, args: tuple[Expr, ...]) -> Expr:
        match t.name, args:
            case "copy", (x,):
                return x
            case "cast", (x,):
                operand = self.dtype(t.args[0])
                return x if operand is t.dtype else loops.Apply("cast", args, t.dtype, operand)
            case "and", (Lit(c), x) | (x, Lit(c)):
                return x if c else FALSE
            case "or", (Lit(c), x) | (x, Lit(c)):
                return TRUE if c else x
            case "not", (Lit(c),):
                return Lit(not c, DType.BOOL)
            case "select", (Lit(c), x, y):
                return x if c else y
            case "select", (c, x, y):
                known = self.asserted.get(c)
                if known is not None:
                    return x if known else y
                return loops.Apply("select", args, t.dtype, t.dtype)
            case name, _:
                return loops.Apply(name, args, t.dtype, self.dtype(t.args[0]))

    def start(self, t: Task, guards: _Guards, out: Block) -> None:
        cell = t.cell
        assert cell is not None
        memory = self.storage.cells.get(cell)
        first = self.operand(t, t.args[0])
        if memory is not None:
            at = tuple(self.size(t, size(i)) for i in memory.axes)
            turn = self.turn(cell, ZERO) if cell.time is not None else ()
            out.put(loops.Store(memory.buffer, (*turn, *at), first), guards)
            return
        v = fresh(cell.var)
        self.cells[cell] = v
        if cell.best is not None:
            best = Var("best")
            self.bests[cell] = best
            out.put(loops.Variable(best, cell.best, zero(cell.best)))
            first = Lit(-1, DType.I64)
            out.put(loops.Variable(v, DType.I64, first))
        elif guards:
            out.put(loops.Variable(v, t.dtype, zero(t.dtype)))
            out.put(loops.Assign(v, first), guards)
        else:
            out.put(loops.Variable(v, t.dtype, first))

    def enter(self, t: Task, guards: _Guards, out: Block) -> None:
        cell = t.cell
        assert cell is not None
        value = self.operand(t, t.args[0])
        memory = self.storage.cells.get(cell)
        if memory is not None:
            if cell.best is not None:
                raise Broken(f"{t.var}: an array of first best places")
            where = dict(zip(cell.context, t.at, strict=True))
            at = tuple(self.size(t, where[i]) for i in memory.axes)
            out.put(loops.Update(memory.buffer, at, t.name, value), guards)
            return
        v = self.cells[cell]
        if cell.best is not None:
            self.best(t, value, v, self.bests[cell], cell.best, guards, out)
            return
        if guards and self.safe(t) and isinstance(value, Lit | loops.Local | loops.Load):
            for c, holds in guards:
                none = neutral(t.name, t.dtype)
                one, other = (value, none) if holds else (none, value)
                value = loops.Apply("select", (c, one, other), t.dtype, t.dtype)
            guards = ()
        total = loops.Apply(t.name, (loops.Local(v), value), t.dtype, t.dtype)
        out.put(loops.Assign(v, total), guards)

    def best(
        self, t: Task, value: Expr, place: Var, best: Var, dtype: DType, guards: _Guards, out: Block
    ) -> None:
        """The first best so far is replaced by a better one: by the first of all (place -1), by a
        smaller or larger one, by a NaN unless it is one."""
        x = value
        if not isinstance(x, Lit | loops.Local):
            new = Var("value")
            out.put(loops.Let(new, dtype, x), guards)
            x = loops.Local(new)
        b, p = loops.Local(best), loops.Local(place)

        def op(name: str, *args: Expr, operand: DType = DType.BOOL) -> Expr:
            return loops.Apply(name, args, DType.BOOL, operand)

        better = op("lt" if t.name == "argmin" else "gt", x, b, operand=dtype)
        if dtype.is_float:
            nan, had = op("isnan", x, operand=dtype), op("isnan", b, operand=dtype)
            better = op("or", better, op("and", nan, op("not", had)))
        better = op("or", op("lt", p, Lit(0, DType.I64), operand=DType.I64), better)
        take = Var("better")
        out.put(loops.Let(take, DType.BOOL, better), guards)
        now = loops.Local(take)
        here = loops.Number(self.size(t, size(t.over[0])))
        out.put(loops.Assign(best, loops.Apply("select", (now, x, b), dtype, dtype)), guards)
        out.put(
            loops.Assign(place, loops.Apply("select", (now, here, p), DType.I64, DType.I64)), guards
        )

    def final(self, t: Task) -> Expr:
        cell = t.cell
        assert cell is not None
        memory = self.storage.cells.get(cell)
        where = dict(zip(cell.start.context, t.at, strict=True))
        if memory is not None:
            turn: tuple[Size, ...] = ()
            if cell.time is not None:
                made = self.operand(t, t.args[0])
                number = _as_size(made)
                turn = self.turn(cell, number)
            rest = tuple(self.size(t, where[i]) for i in memory.axes)
            return loops.Load(memory.buffer, (*turn, *rest))
        v: Expr = loops.Local(self.cells[cell])
        if cell.best is not None:
            none = loops.Apply("lt", (v, Lit(0, DType.I64)), DType.BOOL, DType.I64)
            v = loops.Apply("select", (none, Lit(0, DType.I64), v), DType.I64, DType.I64)
            if t.dtype is not DType.I64:
                v = loops.Apply("cast", (v,), t.dtype, DType.I64)
        return v

    def step(self, t: Task, guards: _Guards, out: Block) -> None:
        cell = t.cell
        assert cell is not None
        assert cell.time is not None
        value = self.operand(t, t.args[0])
        memory = self.storage.cells.get(cell)
        if memory is not None:
            when = self.size(t, size(cell.time)) + 1
            at = tuple(self.size(t, size(i)) for i in memory.axes)
            out.put(loops.Store(memory.buffer, (*self.turn(cell, when), *at), value), guards)
            return
        if not isinstance(value, Lit):
            new = fresh(cell.var)
            out.put(loops.Let(new, t.dtype, value), guards)
            value = loops.Local(new)
        self.latch.append(loops.Assign(self.cells[cell], value))

    def product(self, t: Task, guards: _Guards, out: Block) -> None:
        memory = self.storage.homes.get(t) or self.storage.tasks[t]
        opened = set(t.path)
        names: dict[Var, Var] = {}
        for i in (*t.context, *t.over):
            if i not in opened:
                names[i] = fresh(i)
                t.loops[i] = size(names[i])
        a, b = (self.operand(t, x) for x in t.args)
        assert isinstance(a, loops.Load)
        assert isinstance(b, loops.Load)
        in_a, in_b = ({v for e in x.at for v in e.atoms()} for x in (a, b))
        groups: dict[str, list[tuple[Var, Size]]] = {"b": [], "m": [], "n": [], "k": []}
        for i, v in names.items():
            extent = self.graph.program.indices[i].extent
            assert extent is not None
            where = "k" if i in t.over else "m" if v not in in_b else "n" if v not in in_a else "b"
            groups[where].append((v, self.size(t, extent)))
        place = tuple(self.size(t, size(i)) for i in memory.axes)
        out.put(
            loops.Contract(
                (memory.buffer, place), (a.buffer, a.at), (b.buffer, b.at), tuple(groups["b"]),
                tuple(groups["m"]), tuple(groups["n"]), tuple(groups["k"]), t.dtype,
            ),
            guards,
        )  # fmt: skip
        self.notes.append(f"`{t.var.name}` is a contraction")


class Block:
    """Statements, each with the guards it stands under."""

    def __init__(self, guards: _Guards = (), entries: list[tuple[_Guards, Stmt]] | None = None):
        self.guards = guards
        self.entries: list[tuple[_Guards, Stmt]] = [] if entries is None else entries

    def put(self, s: Stmt, guards: _Guards = ()) -> None:
        self.entries.append((self.guards + guards, s))

    def under(self, guards: _Guards) -> Block:
        """The same block, under more guards."""
        return Block(self.guards + guards, self.entries) if guards else self

    def statements(self) -> tuple[Stmt, ...]:
        return _fold(self.entries, 0)


def _fold(entries: list[tuple[_Guards, Stmt]], depth: int) -> tuple[Stmt, ...]:
    """Neighbours under the same guard share a `When`, opposite ones its two sides."""
    out: list[Stmt] = []
    k = 0

    def run(condition: Expr, holds: bool) -> tuple[Stmt, ...]:
        nonlocal k
        start = k
        while k < len(entries) and entries[k][0][depth : depth + 1] == ((condition, holds),):
            k += 1
        return _fold(entries[start:k], depth + 1)

    while k < len(entries):
        guards, s = entries[k]
        if len(guards) <= depth:
            out.append(s)
            k += 1
            continue
        condition, holds = guards[depth]
        one = run(condition, holds)
        other = run(condition, not holds)
        if holds:
            out.append(loops.When(condition, one, other))
        elif other:
            out.append(loops.When(condition, other, one))
        else:
            no = loops.Apply("not", (condition,), DType.BOOL, DType.BOOL)
            out.append(loops.When(no, one))
    return tuple(out)


def _constant(n: Nest) -> bool:
    return n.extent is not None and n.extent.constant is not None


def _number(x: Operand) -> Size | None:
    match x:
        case Number(value):
            return value
        case Lit(value, dtype) if dtype is DType.I64:
            return size(int(value))
        case _:
            return None


def _as_size(e: Expr) -> Size:
    match e:
        case loops.Number(value):
            return value
        case Lit(value):
            return size(int(value))
        case loops.Local(var):
            return size(var)
        case loops.Load():
            return Size((((e,), 1),))
        case loops.Apply():
            raise Broken(f"an index expression reads {e!r}")


