"""Loops over a few elements are written out: the components of vectors become scalars.

    for i, j, c<3: d = x[j, c] - x[i, c]      for i, j: d0 = x[j, 0] - x[i, 0]; d1 = …; d2 = …
    for i, j: s = Σ_c d[i, j, c] * w[c]    ⇒  for i, j: s = d0[i, j] * w[0] + d1[i, j] * w[1] + …

An index with a small constant extent goes as a whole, from all tasks between which a value is
passed on along it: then the loops that are left are shared, and every component is in a register.
What a recurrence carries falls into recurrences that go round together. It stays where somebody
asks for a component that is known only at run time. What is asked for at a place that indices which
go decide, `d[wrap(c + 1)]`, is known.
What is in memory anyway ends the chain: its reader can be written out, though the table that it
reads is not. Sums over long loops are written out also where somebody needs a table of them: it
chooses among them. And elements that lie side by side, and never meet, are a row like any other.

    for i, q<9: g = f[wrap(i - c[q])]      ⇒      for i: g0 = f[i]; g1 = f[wrap(i - 1)]; …

More elements are written out where a place is made of a number that is read in a table of given
ones (`given`): which it is, is known then, and so how far away the place is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from operator import is_
from typing import TypeVar

from naperian.ainf.syntax import Guard, Number, Operand, Read, Trips
from naperian.ainf.walk import atoms, atoms_of, variables
from naperian.broken import Broken
from naperian.dtypes import DType
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.fusion.given import COMPARED, Given, constant
from naperian.passes.fusion.graph import (
    Cell,
    Graph,
    Kind,
    Site,
    Task,
    identity,
    in_order,
    link,
    rename_indices,
    rename_operand,
    rewrite_size,
    size_of,
    task_reads,
    unlink,
    with_sizes,
)
from naperian.sizes import ZERO, Size, size

T = TypeVar("T")

WRITTEN_OUT = 4  # elements
_NEIGHBOURS = 32  # elements that say how far away a place is
_MANY = 64  # rounds of a loop that one would not compute a table again in
_COPIES = 32  # of one task
_COMPONENTS = 3  # of what says how far away a place is: so many times more copies
_MOST = 2000  # tasks more than before

_Member = tuple[Task, Var]
_KINDS = (Kind.COMPUTE, Kind.START, Kind.ENTER, Kind.STEP, Kind.FINAL, Kind.DEMAND, Kind.PUT)


def unroll(graph: Graph) -> None:
    """See the module."""
    graph.tables = _tables(graph)
    given = Given(graph)
    far = given.distances(_NEIGHBOURS)
    for some in (far, frozenset[_Member]()):
        chosen = _chosen(graph, given, some)
        if sums := _long_sums(graph) - chosen.keys():
            chosen = _chosen(graph, given, some, sums) or chosen
        if chosen:
            break
    if chosen:
        _Unrolled(graph, chosen, given).run()


# ---------------------------------------------------------------- which


def _chosen(
    graph: Graph, given: Given, far: frozenset[_Member], sums: frozenset[Task] = frozenset()
) -> dict[Task, tuple[Var, ...]]:
    """For each task the indices of its own that go: those of few elements, and those that say how
    far away a place is. Of the sums, tables can be made."""
    used = {j for js in graph.mentioned.values() for j in js}
    short = {*range(1, WRITTEN_OUT + 1), *(_extent(graph, i) for _, i in far)}
    few = {i for i in graph.program.indices if i not in used and _extent(graph, i) in short}
    if not few or graph.packing.offsets or any(r.new for r in graph.program.results):
        return {}
    classes = _classes(graph, few, sums)
    each = {id(c): c for c in classes.values()}  # every class once, not once for each member
    lengths = {a.var for n in _extents(graph) for a in atoms_of(n) if isinstance(a, Read)}
    refused = {
        k for k, c in each.items()
        if not _possible(graph, c) or any(t.var in lengths for t, _ in c)
    }  # fmt: skip
    asked: list[tuple[int, set[int]]] = []  # a class, and those that must go if it goes
    picked: set[int] = set()  # of which one is read apart from the others
    for t in graph.tasks:
        for s in t.sites:
            if _of_table(graph, t, s) or s.task in sums:
                continue
            for i, e in zip(s.task.context, s.at, strict=False):
                if (s.task, i) in classes:
                    by = _decided(given, t, s, e, classes)
                    if by is None:
                        refused.add(id(classes[s.task, i]))
                    elif by:
                        asked.append((id(classes[s.task, i]), by))
                    if not isinstance(e.single, Var):
                        picked |= {id(classes[s.task, i])} | (by or set())
    apart = {k for k, c in each.items() if not far.isdisjoint(c)}
    while more := {b for k, by in asked if k in apart for b in by} - apart:
        apart |= more
    refused |= {k for k, c in each.items() if _extent(graph, c[0][1]) > WRITTEN_OUT} - apart
    steps = {k for k, c in each.items() if any(t.kind is Kind.STEP for t, _ in c)}
    rows = {k for k, c in each.items() if all(_beside(graph, t, i) for t, i in c)} - picked
    refused |= (steps | rows) - apart - _met(graph, classes)
    while more := {k for k, by in asked if k not in refused and by & refused}:
        refused |= more
    chosen: dict[Task, tuple[Var, ...]] = {}
    growth = 0
    for t in graph.tasks:
        mine = tuple(i for i in t.path if (t, i) in classes and id(classes[t, i]) not in refused)
        copies = 1
        for i in mine:
            copies *= _extent(graph, i)
        if copies > _COPIES * (_COMPONENTS if far else 1):
            return {}
        growth += copies - 1
        if mine:
            chosen[t] = mine
    return chosen if growth <= _MOST else {}


def _extents(graph: Graph) -> Iterator[Size]:
    """How far indices go, where arrays are laid out by it."""
    for x in graph.program.indices.values():
        if x.extent is not None:
            yield x.extent


def _extent(graph: Graph, i: Var) -> int:
    """How many values an index has, if that is known and few; else 0."""
    index = graph.program.indices[i]
    n = None if index.extent is None or index.condition is not None else index.extent.constant
    return n if n is not None and 1 <= n <= _NEIGHBOURS else 0


def _long_sums(graph: Graph) -> frozenset[Task]:
    """The values that loops of many rounds add up, element by element; not those of each round of a
    few, which are no elements."""
    few = {t.cell.time for t in graph.tasks if t.cell is not None}
    few = {i for i in few if i is not None and _extent(graph, i)}
    return frozenset(
        t for t in graph.tasks
        if t.kind is Kind.FINAL and not t.guards and t.cell is not None and t.cell.time is None
        and t.cell not in graph.tables and few.isdisjoint(t.context)
        and all(any(_long(graph, i) for i in w.over) for w in t.cell.writers)
    )  # fmt: skip


def _classes(
    graph: Graph, few: set[Var], sums: frozenset[Task]
) -> dict[_Member, list[_Member]]:
    """The indices of tasks that are one, because a value is passed on along them."""
    classes: dict[_Member, list[_Member]] = {
        (t, i): [(t, i)] for t in graph.tasks for i in t.path if i in few
    }
    for t in graph.tasks:
        for s in t.sites:
            if s.task in sums or _stored(graph, t, s):
                continue
            for i, e in zip(s.task.context, s.at, strict=False):
                v = e.single
                if isinstance(v, Var) and (t, v) in classes and (s.task, i) in classes:
                    b, a = sorted((classes[t, v], classes[s.task, i]), key=len)
                    if a is not b:
                        a += b
                        classes.update(dict.fromkeys(b, a))
    return classes


def _met(graph: Graph, classes: dict[_Member, list[_Member]]) -> set[int]:
    """The classes whose components meet: one is asked for by its number, all are added up, or what
    a round carries is read at another place of a table of them. Others are as good as rows."""
    found = {id(c) for (t, i), c in classes.items() if t.kind is Kind.ENTER and i in t.over}
    for t in graph.tasks:
        for s in t.sites:
            cell = s.task.cell
            if not s.carried or s.bound or cell is None:
                continue
            places = zip(s.task.context, s.at, strict=True)
            away = any(not isinstance(e.single, Var) and i != cell.time for i, e in places)
            if away:
                found |= {id(classes[s.task, i]) for i in s.task.path if (s.task, i) in classes}
    return found


def _beside(graph: Graph, t: Task, i: Var) -> bool:
    """Whether the elements along an index lie side by side in all arrays that a task reads along
    it or along the index before, with which it is one row."""
    before = t.path[t.path.index(i) - 1]
    if before == t.path[-1] or not _long(graph, before):
        return False
    along = {i, before}
    numbers = [x.value for x in t.args if isinstance(x, Number)]
    if not all(along.isdisjoint(variables(e)) for e in numbers):
        return False
    for x in task_reads(t):
        if not isinstance(x, Read):
            return False
        *others, last = (ZERO, *x.at)
        asked = along.intersection(v for e in x.at for v in variables(e))
        in_row = last.single == i and before in variables(others[-1])
        if asked and not (in_row or (x.var in graph.source and i in asked)):
            return False
    return True


def _possible(graph: Graph, c: list[_Member]) -> bool:
    """Whether every task of a class can be several."""
    asked = {*graph.conditions.values(), *graph.rounds.values()}
    return len({_extent(graph, i) for _, i in c}) == 1 and all(
        t not in asked and _apart(graph, t, i) for t, i in c
    )


def _apart(graph: Graph, t: Task, i: Var) -> bool:
    """Whether a task can be one for every value of an index: an accumulator only if it is one
    element that all its tasks are about, and not if what it adds would change its order."""
    cell = t.cell
    if t.kind not in _KINDS:
        return False
    if cell is None:
        return True
    if cell.time is not None:
        return i != cell.time and i in cell.start.context
    if i in t.over:
        return cell.best is None and not (in_order(graph, t) and len(t.over) > 1)
    if cell in graph.tables:
        return t.kind is Kind.ENTER
    return all(e.single == v for w in cell.writers for e, v in zip(w.at, cell.context, strict=True))


def _of_table(graph: Graph, t: Task, s: Site) -> bool:
    """Whether two tasks fill one table."""
    return t.cell is s.task.cell and t.cell in graph.tables


def _tables(graph: Graph) -> set[Cell]:
    """The accumulators that tasks fill at places that data name, and not in a recurrence: those are
    tables, whatever enters them."""
    times = {t.cell.time for t in graph.tasks if t.cell is not None}
    cells = {t.cell: None for t in graph.tasks if t.cell is not None and t.cell.time is None}
    return {
        c for c in cells
        if any(e.single != v for w in c.writers for e, v in zip(w.at, c.context, strict=True))
        and times.isdisjoint(i for w in c.writers for i in w.path)
    }  # fmt: skip


def _stored(graph: Graph, t: Task, s: Site) -> bool:
    """Whether what a task reads lies in memory in any case, where one component is as good as
    another: all values of a recurrence, or a table that a long loop of the reader alone goes over
    again and again, or an accumulator with places that data name. What a recurrence takes over and
    what is a result is read as a whole."""
    q = s.task
    if t.kind in (Kind.START, Kind.PUT) or (t.cell is not None and t.cell.time is not None):
        return False
    if q.kind is Kind.FINAL and q.cell is not None and q.cell.time is not None:
        return True
    if _of_table(graph, t, s) or (q.kind is Kind.FINAL and q.cell in graph.tables):
        return True
    if q.kind not in (Kind.COMPUTE, Kind.FINAL) or not q.context or s.bound:
        return False
    shared = {e.single for e in s.at}
    return any(i not in shared and _long(graph, i) for i in t.path)


def _long(graph: Graph, i: Var) -> bool:
    """Whether an index has many values, as far as that is known."""
    extent = graph.program.indices[i].extent
    return extent is None or (extent.constant or _MANY) >= _MANY


def _decided(
    given: Given, t: Task, s: Site, e: Size, classes: dict[_Member, list[_Member]]
) -> set[int] | None:
    """The classes that must go for a task to know which component it reads; None if no such do."""
    if s.bound:
        return None
    found = set(variables(e))
    if any((t, v) not in classes for v in found):
        return None
    if given.known(rename_indices(e, dict.fromkeys(found, ZERO))).constant is None:
        return None
    return {id(classes[t, v]) for v in found}


# ---------------------------------------------------------------- how


class _Unrolled:
    """The tasks, written out. `parts` are those that a value or cell fell into, by the numbers
    that stand for the indices that went; `gone` are the tasks whose values fell."""

    def __init__(self, graph: Graph, chosen: dict[Task, tuple[Var, ...]], given: Given) -> None:
        self.graph = graph
        self.given = given
        self.chosen = chosen
        self.parts: dict[tuple[Var, tuple[int, ...]], Var] = {}
        self.gone: dict[Var, Task] = {}
        self.touched = {t.cell for t in chosen if t.cell is not None} - graph.tables
        self.cells: dict[tuple[Cell, tuple[int, ...]], Cell] = {}
        self.tables: dict[Var, list[Task]] = {}  # by the last of the parts that one is made of

    def run(self) -> None:
        graph = self.graph
        tasks = [new for t in graph.tasks for new in self.written_out(t)]
        for t in tasks:
            if t.kind is Kind.ROUNDS and t.cell in self.touched:
                t.cell = next(part for (cell, _), part in self.cells.items() if cell is t.cell)
            t.args = _same_or(t.args, [self.operand(x) for x in t.args])
            t.at = _same_or(t.at, [self.size(e) for e in t.at])
            if t.guards:
                t.guards = tuple([
                    Guard(self.operand(g.operand), g.holds, g.fact) for g in t.guards
                ])  # fmt: skip
            t.sites, t.uses = [], 0
        self.indices()
        for v in self.gone:
            del graph.source[v]
        tasks = [x for t in tasks for x in (t, *self.tables.get(t.var, ()))]
        tasks = _decided_at(graph, tasks)
        for t in tasks:
            link(graph, t)
        asked = {*graph.conditions.values(), *graph.rounds.values()}
        for t in reversed(tasks):  # what only a component was made of that nobody asks for
            if t.kind is Kind.COMPUTE and t.lazy and not t.uses and not t.home and t not in asked:
                unlink(t)
        graph.tasks = [t for t in tasks if t.uses >= 0]
        for n, t in enumerate(graph.tasks):
            t.order = n

    def indices(self) -> None:
        """What loops go round for: a number or a condition that was one task may be another now."""
        program, conditions = self.graph.program, self.graph.conditions
        changed = {}
        for i, x in program.indices.items():
            extent = None if x.extent is None else self.size(x.extent)
            condition = None if x.condition is None else self.operand(x.condition)
            changed[i] = replace(x, extent=extent, condition=condition)
            if isinstance(condition, Read) and i in conditions:
                conditions[i] = self.graph.source.get(condition.var)
        self.graph.program = replace(program, indices=changed)

    def written_out(self, t: Task) -> list[Task]:
        indices = self.chosen.get(t, ())
        if not indices and (t.cell not in self.touched or t.kind is Kind.ROUNDS):
            return [t]
        out: list[Task] = []
        extents = [range(_extent(self.graph, i)) for i in indices]
        for values in product(*extents):
            out += self.one(t, dict(zip(indices, values, strict=True)))
        if t.cell is not None and t.cell not in self.touched:
            k = t.cell.writers.index(t)
            t.cell.writers[k : k + 1] = out
        return out

    def one(self, t: Task, values: dict[Var, int]) -> list[Task]:
        """A task where its indices have these values; and what puts it into a result."""
        graph, names = self.graph, {i: size(k) for i, k in values.items()}

        def left(indices: tuple[Var, ...]) -> tuple[Var, ...]:
            return tuple([i for i in indices if i not in values])

        at, context = t.at, left(t.context)
        cell = t.cell
        whole = cell is not None and cell not in self.touched
        if whole:
            context = t.context
        elif cell is not None and at:
            places = zip(at, cell.start.context, strict=True)
            at = tuple(e for e, i in places if i not in values)
        new = Task(
            t.kind, t.var if t.kind is Kind.PUT else fresh(t.var), t.dtype, context,
            left(t.path), t.name, tuple(rename_operand(x, names) for x in t.args),
            tuple(rename_indices(e, names) for e in at), left(t.over),
            tuple(_renamed(g, names) for g in t.guards), t.code,
        )  # fmt: skip
        if whole:
            new.cell = cell
        elif cell is not None:
            self.enrol(new, t, cell, values)
        if graph.source.get(t.var) is t:
            self.parts[t.var, tuple(values[i] for i in t.context if i in values)] = new.var
            self.gone[t.var] = t
            graph.source[new.var] = new
        if t.home is None:
            return [new]
        axes = tuple(t.context[k] for k in t.home[1])
        place = tuple(rename_indices(e, names) for e in graph.packing.layout(axes).at)
        value = Read(new.var, identity(new.context))
        rest = left(axes)
        put = Task(Kind.PUT, t.home[0], t.dtype, rest, rest, args=(value,), at=place)
        return [new, put]

    def enrol(self, new: Task, t: Task, cell: Cell, values: dict[Var, int]) -> None:
        """A task of a cell becomes one of the part of the cell that it is about."""
        key = cell, tuple(values[i] for i in cell.context if i in values)
        part = self.cells.get(key)
        if part is None:
            context = tuple(i for i in cell.context if i not in values)
            part = Cell(
                fresh(cell.var), cell.dtype, context, cell.monoid, cell.time, cell.index,
                best=cell.best,
            )  # fmt: skip
            self.cells[key] = part
        new.cell = part
        match t.kind:
            case Kind.START:
                part.start = new
            case Kind.ENTER | Kind.STEP:
                part.writers.append(new)
            case Kind.FINAL:
                part.final = new
            case _:
                raise Broken(f"{t.var}: a task of a cell that is {t.kind}")

    # operands: a component is another task now

    def read(self, r: Read) -> Read:
        moved = r
        if len(atoms(r)) > 1:  # mostly nothing is read in its indices
            new = with_sizes(r, self.size)
            assert isinstance(new, Read)
            moved = new
        q = self.gone.get(r.var)
        if q is None:
            return moved
        at = moved.at
        which, rest = [], []
        for i, e in zip(q.context, at, strict=True):
            if i not in self.chosen.get(q, ()):
                rest.append(e)
            elif e.constant is not None:
                # a place outside is never read: the run has been stopped before
                which.append(min(max(e.constant, 0), _extent(self.graph, i) - 1))
            else:
                return Read(self.table(q), at)
        return Read(self.parts[r.var, tuple(which)], tuple(rest))

    def table(self, q: Task) -> Var:
        """A sum's parts as one value: its indices say which."""
        gone = [i for i in q.context if i in self.chosen[q]]
        end = self.parts[q.var, tuple(_extent(self.graph, i) - 1 for i in gone)]
        if end not in self.tables:
            self.tables[end] = made = []
            rest = identity(i for i in q.context if i not in gone)

            def new(name: str, dtype: DType, *args: Operand) -> Operand:
                x = Task(Kind.COMPUTE, fresh(q.var), dtype, q.context, q.context, name, args,
                         origin=q.origin)  # fmt: skip
                self.graph.source[x.var] = x
                made.append(x)
                return Read(x.var, identity(q.context))

            def among(which: tuple[int, ...], left: list[Var]) -> Operand:
                if not left:
                    return Read(self.parts[q.var, which], rest)
                last = _extent(self.graph, left[0]) - 1
                value = among((*which, last), left[1:])
                for k in reversed(range(last)):
                    here = new("eq", DType.BOOL, Number(size(left[0])), Number(size(k)))
                    value = new("select", q.dtype, here, among((*which, k), left[1:]), value)
                return value

            new("copy", q.dtype, among((), gone))
        return self.tables[end][-1].var

    def operand(self, x: Operand) -> Operand:
        match x:
            case Read():
                known = self.given.element(x)
                return self.read(x) if known is None or known.dtype is DType.BOOL else known
            case Number(value):
                new = self.size(value)
                return x if new is value else Number(new)
            case Lit():
                return x

    def size(self, s: Size) -> Size:
        return s if s.plain else rewrite_size(s, self.atom)

    def atom(self, a: Read | Trips | Var) -> Size | None:
        if not isinstance(a, Read):
            return None
        known = self.given.element(a)
        if known is not None:
            return size(int(known.value))
        return size_of(self.read(a)) if a.var in self.gone else None


def _same_or(old: tuple[T, ...], new: list[T]) -> tuple[T, ...]:
    """What is to stand in the place of some; these themselves, with what is known of them, if that
    is the same."""
    return old if all(map(is_, old, new)) else tuple(new)


def _decided_at(graph: Graph, tasks: list[Task]) -> list[Task]:
    """The tasks where comparisons of indices that went are known: without the guards that hold,
    and without what is behind those that do not."""
    truths: dict[Operand, bool] = {}
    for t in tasks:
        if t.kind is Kind.COMPUTE and t.name in COMPARED and not t.context and not t.guards:
            one, two = map(constant, t.args)
            if one is not None and two is not None:
                truths[Read(t.var, ())] = COMPARED[t.name](one, two)
    if not truths:
        return tasks
    gone: set[Task] = set()
    for t in tasks:
        known = [truths[g.operand] == g.holds for g in t.guards if g.operand in truths]
        if not all(known):
            gone.add(t)
        elif known:
            t.guards = tuple(g for g in t.guards if g.operand not in truths)
        elif t.kind is Kind.COMPUTE and t.name == "select" and t.args[0] in truths:
            t.name, t.args = "copy", (t.args[1 if truths[t.args[0]] else 2],)
    gone |= {t for t in tasks if t.kind is Kind.FINAL and t.cell and t.cell.start in gone}
    read = {r.var for t in tasks if t not in gone for r in task_reads(t) if isinstance(r, Read)}
    gone = {t for t in gone if t.var not in read}
    kept = {t.cell for t in tasks if t not in gone and t.kind is not Kind.ENTER and t.cell}
    gone = {t for t in gone if t.cell not in kept or not gone.issuperset(t.cell.writers)}
    for t in gone:
        graph.source.pop(t.var, None)
        if t.cell is not None and t in t.cell.writers:
            t.cell.writers.remove(t)
    return [t for t in tasks if t not in gone]


def _renamed(g: Guard, names: dict[Var, Size]) -> Guard:
    fact = None if g.fact is None else rename_indices(g.fact, names)
    return Guard(rename_operand(g.operand, names), g.holds, fact)
