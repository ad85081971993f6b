"""One task as statements.

What is cheap, total and safe is computed whether its guards hold or not; the rest stands under
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from naperian.ainf.walk import free
from naperian.broken import Broken
from naperian.dtypes import DType
from naperian.loops import syntax as loops
from naperian.loops.syntax import Expr, Order, Stmt
from naperian.names import Lit, Var, fresh, zero
from naperian.passes.fusion.block import Block, Guards
from naperian.passes.fusion.graph import Kind, Task
from naperian.passes.fusion.masked import masked
from naperian.passes.fusion.operands import Values
from naperian.passes.fusion.selected import selected
from naperian.passes.nests.unswitch import chosen
from naperian.prims import neutral, unit
from naperian.sizes import ZERO, Size, size, variables
from naperian.source import NOWHERE

_DEEP = 5  # nested expressions, for readers
TRUE = Lit(True, DType.BOOL)
FALSE = Lit(False, DType.BOOL)


class Statements:
    """Emits tasks. `latch` is what the end of the innermost loop's body must assign."""

    def __init__(self, values: Values) -> None:
        self.v = values
        self.depths: dict[Task, int] = {}
        self.latch: list[Stmt] = []
        self.partial: set[Var] = set()  # arrays without elements where their guards do not hold
        self.notes: list[str] = []

    def task(self, t: Task, out: Block) -> None:
        guards = self.v.needed(t)
        if guards is None:
            self.v.values[t] = zero(t.dtype)
            if t.kind is Kind.START and t.cell not in self.v.storage.cells:
                self.start(t, (), out)
            return
        match t.kind:
            case Kind.COMPUTE:
                if guards and self.v.safe(t):
                    guards = ()
                self.compute(t, guards, out)
            case Kind.START:
                memory = self.v.storage.cells.get(t.cell) if t.cell is not None else None
                always = memory is None or memory.buffer not in self.partial
                if guards and always and (isinstance(t.args[0], Lit) or self.v.safe(t)):
                    guards = ()
                self.start(t, guards, out)
            case Kind.ENTER:
                self.enter(t, guards, out)
            case Kind.STEP:
                self.step(t, guards, out)
            case Kind.FINAL:
                in_memory = t.cell in self.v.storage.cells  # which is there only where it is needed
                self.value(t, self.final(t), guards if in_memory else (), out)
            case Kind.ROUNDS:
                assert t.cell is not None
                assert t.cell.time is not None
                rounds = self.v.rounds.get(t.cell.time)
                if rounds is None:  # the loop is not needed here
                    self.v.values[t] = zero(t.dtype)
                else:
                    self.value(t, loops.Local(rounds), (), out)
            case Kind.DEMAND:
                c = self.v.operand(t, t.args[0])
                if c != TRUE:
                    no = TRUE if c == FALSE else loops.Apply("not", (c,), DType.BOOL, DType.BOOL)
                    out.put(loops.Fail(no, t.code), guards)
            case Kind.PUT:
                at = tuple(self.v.size(t, e) for e in t.at)
                out.put(loops.Store(t.var, at, self.v.operand(t, t.args[0])), guards)
            case Kind.PRODUCT:
                self.product(t, guards, out)
            case Kind.SORT:
                self.sort(t, guards, out)
            case _:
                raise Broken(f"{t.var} is a task of no kind")

    def value(self, t: Task, e: Expr, guards: Guards, out: Block) -> None:
        """Keep a value: as an expression, in a local, in memory."""
        memories = [m for m in (self.v.storage.homes.get(t), self.v.storage.tasks.get(t)) if m]
        depth = 1 + max(
            (self.depths.get(s.task, 0) for s in t.sites if s.task not in self.v.named), default=0
        )
        simple = isinstance(e, (Lit, loops.Local)) or (
            isinstance(e, loops.Number) and t not in self.v.named
        )
        if not simple and (
            t in self.v.named or guards or depth > _DEEP or len(memories) > 1
            or (memories and t.uses > 0)
        ):  # fmt: skip
            if t.uses > 0 or len(memories) > 1:
                v = fresh(t.var)
                out.put(loops.Let(v, t.dtype, e), guards)
                e, depth = loops.Local(v), 0
        self.v.values[t] = e
        self.depths[t] = depth
        for m in memories:
            needed = self.v.needed(t) if m.buffer in self.partial else guards
            out.put(loops.Store(m.buffer, self.v.here(t, m), e), needed or ())

    def compute(self, t: Task, guards: Guards, out: Block) -> None:
        sure = self.v.decided(t)
        if sure is not None:
            self.value(t, Lit(sure, DType.BOOL), (), out)
            return
        args = tuple(self.v.operand(t, x) for x in t.args)
        if t.name == "print":
            kinds = tuple(self.v.dtype(x) for x in t.args[1:])
            out.put(loops.Print(t.code, args[1:], kinds), guards)
            self.value(t, zero(t.dtype), (), out)
            return
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
            case ("copy" | "held" | "after"), (x, *_):
                return x
            case "cast", (x,):
                operand = self.v.dtype(t.args[0])
                return x if operand is t.dtype else loops.Apply("cast", args, t.dtype, operand)
            case "select", (c, x, y):
                known = self.v.asserted.get(c)
                if known is not None:
                    return x if known else y
                return chosen(loops.Apply("select", args, t.dtype, t.dtype))
            case name, _:
                return chosen(loops.Apply(name, args, t.dtype, self.v.dtype(t.args[0])))

    def start(self, t: Task, guards: Guards, out: Block) -> None:
        cell = t.cell
        assert cell is not None
        memory = self.v.storage.cells.get(cell)
        first = self.v.operand(t, t.args[0])
        if memory is not None:
            at = (
                self.v.here(t, memory)
                if cell.time is None
                else self.v.moment(t, cell, memory, {}, ZERO)
            )
            out.put(loops.Store(memory.buffer, at, first), guards)
            return
        v = fresh(cell.var)
        self.v.cells[cell] = v
        if cell.best is not None:
            best = Var("best")
            self.v.bests[cell] = best
            (search,) = cell.writers
            worst = Lit(unit(_extreme(search.name, cell.best), cell.best), cell.best)
            out.put(loops.Variable(best, cell.best, worst))
            # unless some are left out, the first is the first best even if none is better than this
            first = Lit(-1 if _leaves_out(search) else 0, DType.I64)
            out.put(loops.Variable(v, DType.I64, first))
        elif guards:
            out.put(loops.Variable(v, t.dtype, zero(t.dtype)))
            out.put(loops.Assign(v, first), guards)
        else:
            out.put(loops.Variable(v, t.dtype, first))

    def enter(self, t: Task, guards: Guards, out: Block) -> None:
        cell = t.cell
        assert cell is not None
        value = self.v.operand(t, t.args[0])
        memory = self.v.storage.cells.get(cell)
        if memory is not None:
            if cell.best is not None:
                raise Broken(f"{t.var}: an array of first best places")
            where = dict(zip(cell.context, t.at, strict=True))
            at = self.v.place(t, memory, where)
            if t.name == "last":
                out.put(loops.Store(memory.buffer, at, value), guards)
            else:
                out.put(loops.Update(memory.buffer, at, t.name, value), guards)
            return
        v = self.v.cells[cell]
        if t.name == "last":
            out.put(loops.Assign(v, value), guards)
            return
        if cell.best is not None:
            self.best(t, value, v, self.v.bests[cell], cell.best, guards, out)
            return
        if guards and self.v.safe(t) and (len(guards) == 1 or self.v.asked(t)):
            for c, holds in guards:
                none = neutral(t.name, t.dtype)
                one, other = (value, none) if holds else (none, value)
                value = loops.Apply("select", (c, one, other), t.dtype, t.dtype)
            guards = ()
        total = loops.Apply(t.name, (loops.Local(v), value), t.dtype, t.dtype)
        out.put(loops.Assign(v, total), guards)

    def best(
        self, t: Task, value: Expr, place: Var, best: Var, dtype: DType, guards: Guards, out: Block
    ) -> None:
        """The first best so far is replaced by a smaller or larger one, or by a NaN, unless it is
        one; and by the first of all (place -1)."""
        x = value
        if not isinstance(x, Lit | loops.Local):
            new = Var("value")
            out.put(loops.Let(new, dtype, x), guards)
            x = loops.Local(new)
        b, p = loops.Local(best), loops.Local(place)

        def op(name: str, *args: Expr, operand: DType = DType.BOOL) -> Expr:
            return loops.Apply(name, args, DType.BOOL, operand)

        if dtype.is_float:
            worse = op("ge" if t.name == "argmin" else "le", x, b, operand=dtype)
            better = op("and", op("not", worse), op("eq", b, b, operand=dtype))
        else:
            better = op("lt" if t.name == "argmin" else "gt", x, b, operand=dtype)
        if _leaves_out(t):
            better = op("or", op("lt", p, Lit(0, DType.I64), operand=DType.I64), better)
        take = Var("better")
        out.put(loops.Let(take, DType.BOOL, better), guards)
        here = loops.Number(self.v.size(t, size(t.over[0])))
        there = loops.Apply("select", (loops.Local(take), here, p), DType.I64, DType.I64)
        out.put(loops.Assign(place, there), guards)
        # not a choice, which would have to wait for the comparison
        monoid = _extreme(t.name, dtype)
        out.put(loops.Assign(best, loops.Apply(monoid, (b, x), dtype, dtype)), guards)

    def final(self, t: Task) -> Expr:
        cell = t.cell
        assert cell is not None
        memory = self.v.storage.cells.get(cell)
        where = dict(zip(cell.start.context, t.at, strict=True))
        if memory is not None:
            if cell.time is None:
                return loops.Load(memory.buffer, self.v.place(t, memory, where))
            made = _as_size(self.v.operand(t, t.args[0]))
            return loops.Load(memory.buffer, self.v.moment(t, cell, memory, where, made))
        v: Expr = loops.Local(self.v.cells[cell])
        if cell.best is not None:
            if _leaves_out(cell.writers[0]):
                none = loops.Apply("lt", (v, Lit(0, DType.I64)), DType.BOOL, DType.I64)
                v = loops.Apply("select", (none, Lit(0, DType.I64), v), DType.I64, DType.I64)
            if t.dtype is not DType.I64:
                v = loops.Apply("cast", (v,), t.dtype, DType.I64)
        return v

    def step(self, t: Task, guards: Guards, out: Block) -> None:
        cell = t.cell
        assert cell is not None
        assert cell.time is not None
        value = self.v.operand(t, t.args[0])
        memory = self.v.storage.cells.get(cell)
        if memory is not None:
            when = self.v.size(t, size(cell.time)) + 1
            at = self.v.moment(t, cell, memory, {}, when)
            out.put(loops.Store(memory.buffer, at, value), guards)
            return
        if not isinstance(value, Lit):
            new = fresh(cell.var)
            out.put(loops.Let(new, t.dtype, value), guards)
            value = loops.Local(new)
        self.latch.append(loops.Assign(self.v.cells[cell], value))

    def product(self, t: Task, guards: Guards, out: Block) -> None:
        memory = self.v.storage.homes.get(t) or self.v.storage.tasks[t]
        opened = set(t.path)
        names: dict[Var, Var] = {}
        for i in (*t.context, *t.over):
            if i not in opened:
                names[i] = fresh(i)
                t.loops[i] = size(names[i])
        read = [x for x in map(partial(self.v.operand, t), t.args) if isinstance(x, loops.Load)]
        assert len(read) == len(t.args)
        a, b, *condition = read
        in_a, in_b = ({v for e in x.at for v in e.atoms} for x in (a, b))
        groups: dict[str, list[tuple[Var, Size]]] = {"b": [], "m": [], "n": [], "k": []}
        for i, v in names.items():
            extent = self.v.graph.program.indices[i].extent
            assert extent is not None
            where = "k" if i in t.over else "m" if v not in in_b else "n" if v not in in_a else "b"
            groups[where].append((v, self.v.size(t, extent)))
        place = self.v.here(t, memory)
        made = loops.Contract(
            (memory.buffer, place), (a.buffer, a.at), (b.buffer, b.at), tuple(groups["b"]),
            tuple(groups["m"]), tuple(groups["n"]), tuple(groups["k"]), t.dtype,
        )  # fmt: skip
        for s in self.asked(t, made, *condition) if condition else (made,):
            out.put(s, guards)
        self.notes.append(f"`{t.var.name}`{lines((t,))} is a contraction")

    def asked(self, t: Task, made: loops.Contract, condition: loops.Load) -> tuple[Stmt, ...]:
        """A product that is there, or whose terms are, under a condition."""
        own = {v for v, _ in (*made.batch, *made.rows, *made.columns, *made.inner)}
        asked = [v for e in condition.at for v in variables(e) if v in own]
        if len(asked) > 1 or asked[0] in dict(made.batch):
            return masked(made, condition)
        order = Order.FREE if t.path else Order.PARALLEL
        return selected(made, asked[0], condition, t.name != "unless", order)

    def sort(self, t: Task, guards: Guards, out: Block) -> None:
        memory = self.v.storage.homes.get(t) or self.v.storage.tasks[t]
        (i,) = t.over
        extent = self.v.graph.program.indices[i].extent
        assert extent is not None
        axis = (Var("q"), self.v.size(t, extent))
        q = t.at[0].single
        assert isinstance(q, Var)
        t.loops[i] = t.loops[q] = size(axis[0])
        value = self.v.operand(t, t.args[0])
        assert isinstance(value, loops.Load)
        to, of = (memory.buffer, self.v.here(t, memory)), (value.buffer, value.at)
        dtype, places = self.v.dtype(t.args[0]), t.name == "argnth"
        out.put(loops.Sort(to, of, axis, dtype, places), guards)
        self.notes.append(f"`{t.var.name}`{lines((t,))} is sorted")


def _leaves_out(search: Task) -> bool:
    """Whether some of what is searched is left out, and not all of it or nothing."""
    return any(v in search.over for g in search.guards for v in free(g.operand))


def _extreme(name: str, dtype: DType) -> str:
    """The monoid of the best values themselves."""
    if dtype is DType.BOOL:
        return "and" if name == "argmin" else "or"
    return name.removeprefix("arg")


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


def lines(tasks: Iterable[Task]) -> str:
    """Where in the text some work comes from, if it is there: ` (lines 2 and 5)`."""
    spans = (t.origin for t in tasks if t.origin.source.name != NOWHERE.source.name)
    found = sorted({s.source.position(s.start)[0] for s in spans})
    if len(found) < 2:
        return "".join(f" (line {line})" for line in found)
    return f" (lines {found[0]} {'and' if len(found) == 2 else 'to'} {found[-1]})"
