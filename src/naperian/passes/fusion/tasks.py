"""From bindings to tasks.

A read of a cell's last value becomes a read of its `final`, a read one step on the value that it
steps to: a scan needs no history.
"""

from __future__ import annotations

from collections.abc import Mapping

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Check,
    Delay,
    Entry,
    Guard,
    Index,
    Number,
    Op,
    Operand,
    Program,
    Read,
    Trips,
)
from naperian.ainf.walk import atoms, atoms_of, free, variables
from naperian.broken import Broken
from naperian.dtypes import DType
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.bindings.packed import Packing
from naperian.passes.fusion.graph import (
    Cell,
    Graph,
    Kind,
    Task,
    identity,
    link,
    rename_indices,
    rename_operand,
    rewrite_size,
    size_of,
    with_sizes,
)
from naperian.sizes import Size, size


def build(program: Program, outs: list[Var], packing: Packing) -> Graph:
    """The graph of a program. `outs` are the buffers of its results."""
    return _Builder(program, packing).run(outs)


class _Builder:
    """The tasks so far; those of `late` come last."""

    def __init__(self, program: Program, packing: Packing) -> None:
        self.program = program
        self.packing = packing
        self.source: dict[Var, Task] = {}
        self.cells: dict[Var, Cell] = {}
        self.delays: dict[Var, Binding] = {}
        self.rounds: dict[Var, Task] = {}
        self.sizes: dict[Size, Size] = {}  # index expressions of bindings, as tasks have them
        self.tasks: list[Task] = []
        self.late: list[Task] = []
        self.params = {p.var: p for p in program.params}
        self.mentioned: dict[Var, frozenset[Var]] = {}
        for i, index in program.indices.items():
            seen: set[Var] = set()
            if index.extent is not None:
                for v in variables(index.extent):
                    if v in program.indices:
                        seen |= {v} | self.mentioned[v]
            self.mentioned[i] = frozenset(seen)
        for b in program.bindings:
            if isinstance(b.prim, Delay):
                self.delays[b.var] = b

    def run(self, outs: list[Var]) -> Graph:
        p = self.program
        for b in p.bindings:
            self.binding(b)
        for i, index in p.indices.items():
            if index.condition is not None:
                self.while_time(i)
        p = self.program
        p = self.program = replace(p, indices={i: self.index(x) for i, x in p.indices.items()})
        self.sizes.clear()  # which were read with the lengths of loops as they were
        for k, out in enumerate(outs):
            self.put(k, out)
        for tasks in (self.tasks, self.late):  # reads of last values add to `late`
            for t in tasks:
                t.args = tuple(self.operand(x) for x in t.args)
                t.at = tuple(self.size(e) for e in t.at)
                t.guards = tuple(self.guard(g) for g in t.guards)
        self.tasks += self.late
        conditions: dict[Var, Task | None] = {}
        for i, index in p.indices.items():
            if index.condition is not None:
                c = index.condition
                conditions[i] = self.source.get(c.var) if isinstance(c, Read) else None
        extents = [x.extent for x in p.indices.values() if x.extent is not None]
        graph = Graph(
            p, self.tasks, self.source, self.params, conditions, self.mentioned, self.packing,
            self.rounds, not all([n.plain for n in extents]),
        )
        graph.tasks = [x for t in self.tasks for x in (*self.numbers(graph, t), t)]
        for n, t in enumerate(graph.tasks):
            t.order = n
            link(graph, t)
        return graph

    def index(self, index: Index) -> Index:
        """A loop of as many rounds as another one made reads their number."""
        if index.extent is None or not any(isinstance(a, Trips) for a in atoms_of(index.extent)):
            return index
        return replace(index, extent=self.size(index.extent))

    def numbers(self, graph: Graph, t: Task) -> list[Task]:
        """Booleans in the index expressions of a task, as integers."""
        made: dict[Read, Task] = {}

        def atom(a: Read | Trips | Var) -> Size | None:
            if not isinstance(a, Read) or self.dtype(a) is not DType.BOOL:
                return None
            c = made.get(a)
            if c is None:
                c = Task(
                    Kind.COMPUTE, Var("k"), DType.I64, t.path, t.path, name="cast", args=(a,),
                    guards=t.guards,
                )  # fmt: skip
                graph.source[c.var] = made[a] = c
            return size_of(Read(c.var, identity(t.path)))

        def of(s: Size) -> Size:
            if s.plain:
                return s
            asked = (a for a in atoms_of(s) if isinstance(a, Read))
            return rewrite_size(s, atom) if any(self.dtype(a) is DType.BOOL for a in asked) else s

        t.args = tuple([with_sizes(x, of) for x in t.args])
        t.at = tuple([of(e) for e in t.at])
        return list(made.values())

    def task(self, kind: Kind, b: Binding, path: tuple[Var, ...], **more: object) -> Task:
        t = Task(kind, b.var, b.dtype, b.context, path, guards=b.guards, origin=b.origin, **more)  # type: ignore[arg-type]
        self.tasks.append(t)
        return t

    def binding(self, b: Binding) -> None:
        match b.prim:
            case Op(name, args, code):
                self.source[b.var] = self.task(
                    Kind.COMPUTE, b, b.context, name=name, args=args, code=code
                )
            case Check(condition, code):
                self.task(Kind.DEMAND, b, b.context, args=(condition,), code=code)
            case Accumulate("nth" | "argnth" as name, init, (Entry((i,), _, value, ()),)):
                self.row(b, name, init, i, value)
            case Accumulate(monoid, init, entries):
                cell = Cell(fresh(b.var), b.dtype, b.context, monoid=monoid)
                if monoid.startswith("arg"):
                    cell.best = self.dtype(entries[0].value)
                    init = Lit(0, b.dtype)
                cell.start = self.task(Kind.START, b, b.context, args=(init,), cell=cell)
                for e in entries:
                    outer = tuple(i for k, i in enumerate(b.context) if e.at[k].single == i)
                    w = self.task(
                        Kind.ENTER, b, outer + e.over, name=monoid, args=(e.value,), at=e.at,
                        over=e.over, cell=cell,
                    )  # fmt: skip
                    w.guards += e.guards
                    cell.writers.append(w)
                cell.final = self.task(
                    Kind.FINAL, b, b.context, cell=cell, at=identity(b.context)
                )
                self.source[b.var] = cell.final
            case Delay(time, index, init, next_):
                cell = Cell(b.var, b.dtype, b.context, time=time, index=index)
                self.cells[b.var] = cell
                rest = tuple(i for i in b.context if i != index)
                cell.start = self.task(Kind.START, b, rest, args=(init,), cell=cell)
                cell.start.context = rest
                here = tuple(time if i == index else i for i in b.context)
                step = Task(
                    Kind.STEP, b.var, b.dtype, here, here, args=(next_,), guards=b.guards,
                    origin=b.origin, cell=cell,
                )
                cell.writers.append(step)
                self.late.append(step)
                self.source[b.var] = step

    def row(self, b: Binding, name: str, place: Operand, i: Var, value: Operand) -> None:
        """What is in order is an array by itself, made of an array."""
        q = place.value.single if isinstance(place, Number) else None
        if not isinstance(place, Number) or q not in b.context or q in {*free(value)}:
            raise Broken(f"{b.var}: not all of a row in order")
        outer = tuple(v for v in b.context if v != q)
        if not self.is_row(value, i):
            copy = Var(b.var.name)
            here = replace(b, var=copy, context=(*outer, i), dtype=self.dtype(value))
            t = self.task(Kind.COMPUTE, here, here.context, name="copy", args=(value,))
            self.source[copy] = t
            value = Read(copy, identity(here.context))
        self.source[b.var] = self.task(
            Kind.SORT, b, outer, name=name, args=(value,), at=(place.value,), over=(i,)
        )

    def is_row(self, x: Operand, i: Var) -> bool:
        """Whether an operand is an element of an array, at `i` along one of its axes."""
        if not isinstance(x, Read):
            return False
        made = self.source.get(x.var)
        stored = x.var in self.params or (made is not None and made.kind is Kind.COMPUTE)
        own = [e for e in x.at if i in variables(e)]
        return stored and [e.single for e in own] == [i]

    def dtype(self, x: Operand) -> DType:
        match x:
            case Lit(_, dtype):
                return dtype
            case Number():
                return DType.I64
            case Read(var):
                if var in self.params:
                    return self.params[var].dtype
                return self.source[var].dtype

    def while_time(self, time: Var) -> None:
        condition = self.program.indices[time].condition
        outer: set[Var] = set()
        if isinstance(condition, Read):
            for e in condition.at:
                outer |= set(variables(e))
        elif isinstance(condition, Number):
            outer |= set(variables(condition.value))
        context = tuple(i for i in self.program.indices if i in outer and i != time)
        if isinstance(condition, Read):
            once = condition.var in self.source and time not in outer
            left = condition.var in self.cells and self.cells[condition.var].time != time
            if once or left or len(atoms(condition)) > 1:
                self.in_loop(time, condition, context)
        t = Task(Kind.ROUNDS, Var(f"rounds_{time.name}"), DType.I64, context, context)
        t.cell = next((c for c in self.cells.values() if c.time == time), None)
        if t.cell is None:
            raise Broken(f"a loop over {time} until a condition changes, without carried values")
        self.rounds[time] = t
        self.source[t.var] = t
        self.late.append(t)

    def in_loop(self, time: Var, condition: Read, context: tuple[Var, ...]) -> None:
        """A condition that no round changes is asked in every round like any other, and so are what
        another loop left, and what stands at a place that is computed."""
        path = (*context, time)
        t = Task(
            Kind.COMPUTE, fresh(condition.var), DType.BOOL, path, path, name="copy",
            args=(condition,),
        )  # fmt: skip
        self.source[t.var] = t
        self.late.append(t)
        p = self.program
        asked = replace(p.indices[time], condition=Read(t.var, identity(path)))
        self.program = replace(p, indices={**p.indices, time: asked})

    def put(self, k: int, out: Var) -> None:
        r = self.program.results[k]
        value = self.operand(r.value)
        if isinstance(value, Read):
            t = self.source.get(value.var)
            if t is not None and not t.guards and t.home is None:
                final = t.kind is Kind.FINAL and t.cell is not None and t.cell.time is None
                names = [e.single for e in value.at]
                whole = set(names) == set(r.indices) and len(names) == len(r.indices)
                point = dict(zip(t.context, value.at, strict=True))
                same = whole and all(
                    self.extent(i, point) == self.extent(j, {})
                    for i, j in zip(t.context, names, strict=True)
                    if isinstance(j, Var)
                )
                if same and r.indices and (final or t.kind in (Kind.COMPUTE, Kind.SORT)):
                    t.home = (out, tuple(names.index(i) for i in r.indices))
                    return
        at = self.packing.layout(r.indices).at
        back = self.from_the_end(value, r.indices)
        if back:
            value = rename_operand(value, back)
            at = tuple(rename_indices(e, back) for e in at)
        self.late.append(
            Task(Kind.PUT, out, r.dtype, r.indices, r.indices, args=(value,), at=at)
        )

    def from_the_end(self, value: Operand, indices: tuple[Var, ...]) -> dict[Var, Size]:
        """The indices of a result along which a computed array is read from its end on: it is
        stored so, in the loop that computes it."""
        t = self.source.get(value.var) if isinstance(value, Read) else None
        if not isinstance(value, Read) or t is None or t.kind is not Kind.COMPUTE:
            return {}
        fixed = {j for i in indices for j in self.mentioned[i]}
        lengths = {i: self.extent(i, {}) for i in indices if i not in fixed}
        ends = {i: n - size(i) - 1 for i, n in lengths.items() if n is not None}
        return {i: e for i, e in ends.items() if e in value.at}

    def extent(self, i: Var, point: Mapping[Var, Size]) -> Size | None:
        extent = self.program.indices[i].extent
        return None if extent is None else rename_indices(extent, point)

    def operand(self, x: Operand) -> Operand:
        new = with_sizes(x, self.size)
        if isinstance(new, Read) and new.var in self.cells:
            return self.cell_read(new.var, new.at)
        return new

    def guard(self, g: Guard) -> Guard:
        """A fact about computed numbers cannot cut a loop: it is dropped."""
        plain = g.fact is not None and not atoms_of(g.fact)
        return Guard(self.operand(g.operand), g.holds, g.fact if plain else None)

    def size(self, s: Size) -> Size:
        if s.plain:
            return s
        made = self.sizes.get(s)
        if made is None:
            made = self.sizes[s] = rewrite_size(s, self.atom)
        return made

    def atom(self, a: Read | Trips | Var) -> Size | None:
        """What an atom of an index expression is that the graph knows by another name."""
        match a:
            case Trips(time, pairs):
                t = self.rounds[time]
                given = dict(pairs)
                return size_of(Read(t.var, tuple(given[i] for i in t.context)))
            case Read(var, at) if var in self.cells:
                match self.cell_read(var, at):
                    case Number(value):
                        return value
                    case Lit(value):
                        return size(int(value))
                    case Read() as read:
                        return size_of(read)
            case _:
                return None
        return None

    def cell_read(self, var: Var, at: tuple[Size, ...]) -> Operand:
        cell = self.cells[var]
        b = self.delays[var]
        assert isinstance(b.prim, Delay)
        assert cell.time is not None
        assert cell.index is not None
        k = b.context.index(cell.index)
        when = at[k]
        index = self.program.indices[cell.time]
        a = when.single
        point = {i: e for i, e in zip(b.context, at, strict=True) if i != cell.index}
        last = None if index.extent is None else rename_indices(index.extent, point)
        if when == last and index.condition is None:
            return self.final_read(cell, at, ())
        if index.condition is not None and isinstance(a, Read):
            if any(t.var == a.var for t in self.rounds.values()):
                return self.final_read(cell, at, a.at)
        before = when - 1
        if isinstance(before.single, Var) and before.single in self.program.indices:
            inner = {cell.time if i == cell.index else i: e
                     for i, e in zip(b.context, at, strict=True)}  # fmt: skip
            inner[cell.time] = before
            return self.operand(rename_operand(b.prim.next, inner))
        return Read(var, at)

    def final_read(self, cell: Cell, at: tuple[Size, ...], trips: tuple[Size, ...]) -> Operand:
        """The last value; the indices that the number of rounds depends on belong to it."""
        b = self.delays[cell.var]
        rest = tuple(i for i in b.context if i != cell.index)
        point = [e for i, e in zip(b.context, at, strict=True) if i != cell.index]
        assert cell.time is not None
        more = self.rounds[cell.time].context if trips else ()
        for i, e in zip(more, trips, strict=True):
            if i not in rest:
                rest += (i,)
                point.append(e)
        if cell.final is None:
            index = self.program.indices[cell.time]
            if index.condition is None and index.extent is not None:
                made: Operand = Number(index.extent)
            else:
                made = Read(self.rounds[cell.time].var, identity(more))
            t = Task(
                Kind.FINAL, fresh(b.var), b.dtype, rest, rest, args=(made,), guards=b.guards,
                cell=cell, at=identity(cell.start.context),
            )  # fmt: skip
            cell.final = t
            self.source[t.var] = t
            self.late.append(t)
        return Read(cell.final.var, tuple(point))
