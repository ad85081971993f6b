"""Operands and index expressions where code is emitted, and what is known there.

A value that the task's own nests have made is a local or an expression; another is a load. A
comparison of index expressions that the place decides (see `split`) is a constant.
"""

from __future__ import annotations

from collections.abc import Mapping

from naperian.ainf.syntax import Guard, Number, Operand, Read, Trips
from naperian.ainf.walk import atoms, atoms_of, rewrite
from naperian.broken import Broken
from naperian.dtypes import DType
from naperian.loops import syntax as loops
from naperian.loops.syntax import Expr
from naperian.names import Lit, Var
from naperian.passes.fusion.block import Guards
from naperian.passes.fusion.given import COMPARED
from naperian.passes.fusion.graph import (
    Cell,
    Graph,
    Kind,
    Nest,
    Task,
    cost,
    operand_sizes,
    rename_indices,
)
from naperian.passes.fusion.split import Bounds
from naperian.passes.fusion.storage import Memory, Storage, is_view
from naperian.sizes import (
    Clamp,
    Remainder,
    Size,
    clamp,
    rename,
    size,
    substitute,
    unwrapped,
    variables,
)

_TOTAL = 40  # an operation dearer than this is skipped where it is not needed


class Values:
    """The values known as expressions, and what is known of loops and conditions."""

    def __init__(self, graph: Graph, storage: Storage, tasks: list[Task]) -> None:
        self.graph = graph
        self.storage = storage
        self.values: dict[Task, Expr] = {}
        self.cells: dict[Cell, Var] = {}
        self.bests: dict[Cell, Var] = {}
        self.rounds: dict[Var, Var] = {}
        self.bounds = Bounds(frozenset(graph.program.sizes))
        self.asserted: dict[Expr, bool] = {}
        self.named = self._named(tasks)

    def _named(self, tasks: list[Task]) -> set[Task]:
        """Values that must have a name: read in index expressions, several times, elsewhere, or
        made of what is overwritten soon."""
        out: set[Task] = set()
        reader: dict[Task, Task] = {}
        for t in tasks:
            if t.kind is Kind.COMPUTE and t.name == "held":
                out.add(t)
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
        self._name_before_overwritten(tasks, reader, out)
        return out

    @staticmethod
    def _name_before_overwritten(
        tasks: list[Task], reader: dict[Task, Task], named: set[Task]
    ) -> None:
        """A value without a name is computed where its reader is: not after the elements that it
        is made of are overwritten by their next values."""
        here = {t: k for k, t in enumerate(tasks)}
        place: dict[Task, int] = {}
        for t in reversed(tasks):
            place[t] = here[t] if t in named or t not in reader else place.get(reader[t], here[t])
            for s in t.sites:
                if s.carried and s.task.cell is not None and s.task.cell.in_place:
                    if place[t] > here[s.task]:
                        named.add(t)
                        place[t] = here[t]

    def _in_size(self, s: Size) -> set[Task]:
        if s.plain:
            return set()
        source = self.graph.source
        return {source[r.var] for r in atoms_of(s) if isinstance(r, Read) and r.var in source}

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
                case Trips(time, pairs):
                    task, given = self.graph.rounds[time], dict(pairs)
                    return self.atom(t, Read(task.var, tuple(given[i] for i in task.context)))
                case Clamp(value, extent):
                    x = clamp(self.size(t, value), self.size(t, extent))
                    return self.known(x)
                case Remainder(above, below):
                    x, y = self.size(t, above), self.size(t, below)
                    return self.known(unwrapped(x, y, lambda e: self.is_far(t, e)) % y)
                case _:
                    return None

        return substitute(s, replace)

    def is_far(self, t: Task, s: Size) -> bool:
        """Whether a number is far from the end of the integers: it is of sizes and loops."""
        loops = {v for e in t.loops.values() for v in variables(e)}
        return all(v in loops or v in self.graph.program.sizes for v in variables(s))

    def known(self, s: Size) -> Size:
        a = s.single
        return (self.bounds.atom(a) if a is not None else None) or s

    def atom(self, t: Task, r: Read) -> Size:
        """A read of an integer, in an index expression."""
        match self.operand(t, r):
            case loops.Local() as local:
                return size(local.var)
            case loops.Number() as number:
                return number.value
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
            case Number():
                return loops.Number(self.size(t, x.value))
            case Read():
                var, at = x.var, x.at
                param = self.graph.params.get(var)
                if param is not None:
                    if not param.shape:
                        return loops.Local(var)
                    return loops.Load(var, tuple([self.size(t, e) for e in at]))
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
        return loops.Load(memory.buffer, self.place(t, memory, where))

    def carried(self, t: Task, step: Task, at: tuple[Size, ...]) -> Expr:
        """The current value of a carried cell, or one of its history."""
        cell = step.cell
        assert cell is not None
        memory = self.storage.cells.get(cell)
        if memory is None:
            return loops.Local(self.cells[cell])
        where = dict(zip(step.context, at, strict=True))
        assert cell.time is not None
        return loops.Load(
            memory.buffer, self.moment(t, cell, memory, where, self.size(t, where[cell.time]))
        )

    def place(self, t: Task, memory: Memory, where: Mapping[Var, Size]) -> tuple[Size, ...]:
        """Where in memory the element at a point (index expressions of `t`) is."""
        return tuple([self.size(t, rename_indices(e, where)) for e in memory.layout.at])

    def here(self, t: Task, memory: Memory) -> tuple[Size, ...]:
        """Where in memory the element that `t` is about is."""
        return tuple(self.size(t, e) for e in memory.layout.at)

    def moment(
        self, t: Task, cell: Cell, memory: Memory, where: Mapping[Var, Size], when: Size
    ) -> tuple[Size, ...]:
        """Where in memory a carried cell's element is after `when` rounds: with its time as an
        axis, or in the one of two copies whose turn it is, or in place."""
        if cell.history:
            assert cell.index is not None
            at = {cell.index: when}
            return tuple(rename(e, at) for e in self.place(t, memory, where))
        return (*(() if cell.in_place else (when % 2,)), *self.place(t, memory, where))

    def dtype(self, x: Operand) -> DType:
        match x:
            case Lit(_, dtype):
                return dtype
            case Number():
                return DType.I64
            case Read(var):
                param = self.graph.params.get(var)
                return param.dtype if param is not None else self.graph.source[var].dtype

    def needed(self, t: Task) -> Guards | None:
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

    def of_extent(self, n: Nest) -> Guards | None:
        """The guards under which what a loop's extent reads is there, if they can be tested before
        it; None where one of them fails: the loop has no rounds."""
        if n.extent is None or not self.reads_memory(n.extent):
            return ()
        t = n.members[0]
        out: dict[tuple[Expr, bool], None] = {}
        for r in atoms_of(n.extent):
            if not isinstance(r, Read) or r.var not in self.graph.source:
                continue
            q = self.graph.source[r.var]
            names = dict(zip(q.context, r.at, strict=True))
            for g in q.guards:
                asked = Guard(rewrite(g.operand, names), g.holds)
                c = self.guard(t, asked) if self.readable(t, asked.operand, n.depth) else None
                if isinstance(c, bool):
                    return None
                if c is not None:
                    out[c] = None
        return tuple(out)

    def readable(self, t: Task, x: Operand, depth: int) -> bool:
        """Whether an operand is available in so many loops of a task, or in memory."""
        q = self.graph.source.get(x.var) if isinstance(x, Read) else None
        return self.before(t, x, depth) or q in self.storage.tasks or q in self.storage.homes

    def safe(self, t: Task) -> bool:
        """Whether a value can be computed where it is not needed."""
        if t.kind is Kind.COMPUTE and (
            t.name in ("checked", "print") or cost(t) > _TOTAL
        ):
            return False
        read = [*[r for x in t.args for r in atoms(x)], *[r for e in t.at for r in atoms_of(e)]]
        return all(self.in_range(t, r) for r in read if isinstance(r, Read))

    def asked(self, t: Task) -> bool:
        """Whether what a task is guarded by may be read whatever the guards before say."""
        read = (r for g in t.guards for r in atoms(g.operand))
        return all(self.in_range(t, r, False) for r in read if isinstance(r, Read))

    def in_range(self, t: Task, r: Read, written: bool = True) -> bool:
        """Whether a read is certainly inside its array, where that is written."""
        if not r.at:
            return True
        param = self.graph.params.get(r.var)
        if param is not None:
            shape: tuple[Size | None, ...] = param.shape
        else:
            q = self.graph.source[r.var]
            if q.kind is Kind.STEP and q.cell in self.cells:
                return True
            if q.kind is not Kind.STEP and q.nests == t.nests[: len(q.nests)] and q in self.values:
                return True
            if written and q.guards:  # its memory is written only where they hold
                return False
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

    def reads_memory(self, s: Size) -> bool:
        """Whether an index expression depends on more than loops, sizes, and numbers that the
        caller gives."""
        made = self.graph.source.keys()
        return any(isinstance(r, Trips) or r.at or r.var in made for r in atoms_of(s))

    def compared(self, t: Task) -> tuple[Size, ...]:
        """For a comparison of index expressions: the polynomials it depends on."""
        if t.kind is not Kind.COMPUTE or t.name not in COMPARED:
            return ()
        a, b = t.args
        x, y = _number(a), _number(b)
        if x is None or y is None or self.reads_memory(x) or self.reads_memory(y):
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
            case _:
                return (d, -d)

    def decided(self, t: Task) -> bool | None:
        """The value of a comparison that the place decides."""
        asked = self.compared(t)
        if not asked:
            return None
        fs = [self.bounds.decide(f) for f in asked]
        match fs:
            case [sure]:
                return sure
            case [True, True]:
                return t.name == "eq"
            case [x, y] if x is False or y is False:
                return t.name == "ne"
            case _:
                return None

    def before(self, t: Task, x: Operand, depth: int) -> bool:
        """Whether an operand of a task is available in so many of its loops, before the next."""
        if isinstance(x, Lit):
            return True
        if isinstance(x, Number):
            return not any(True for _ in x.value.atoms)
        q = self.graph.source.get(x.var)
        if q is None:
            return not x.at
        return q.nests == t.nests[: min(len(q.nests), depth)] and q in self.values

    def loaded(self, t: Task, x: Operand, depth: int) -> bool:
        """Whether an operand is an element of an argument that can be loaded in so many loops of a
        task, whatever its guards say."""
        if not isinstance(x, Read) or x.var not in self.graph.params:
            return False
        there = {*t.path[:depth], *self.graph.program.sizes}
        here = all(there.issuperset(variables(e)) and not self.reads_memory(e) for e in x.at)
        return here and self.in_range(t, x)


def _number(x: Operand) -> Size | None:
    match x:
        case Number(value):
            return value
        case Lit(value, dtype) if dtype is DType.I64:
            return size(int(value))
        case _:
            return None
