"""AiNF as a graph of tasks, the form in which loops are fused.

Every binding becomes one or several tasks. A task stands in the loops of its `path` and, if it has
a value, gives one for every point of its `context` (indices in the order of the axes):

    compute   x[c] = op(operands)
    start     the first value of a cell          cell: the accumulator of an `Accumulate`, or
    enter     cell[at] ⊕= value                        the carried value of a `Delay`
    step      the cell's next value, in the loop over its time
    final     x[c] = cell[at], when it is complete (for a `Delay`, after `args[0]` rounds)
    rounds    how many rounds a `while` loop made (`cell` is one it carries)
    demand    a check
    put       result[at] = value
    product   x[c] = a contraction
    sort      x[c, q] = what is at place q of a row in order

A `Site` is one read: the task that makes the value, and the point at which it is read.

Tasks, sites, cells and loops mention each other, so they are shown without what they hold: the text
of one, which a debugger may ask for, would be that of the whole graph many times over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import is_
from typing import ClassVar, TypeAlias

from naperian.ainf.syntax import (
    OUTSIDE,
    Guard,
    Index,
    Number,
    Operand,
    Param,
    Program,
    Read,
    Trips,
)
from naperian.ainf.walk import atoms, atoms_of, variables
from naperian.dtypes import DType
from naperian.names import Lit, Var, fresh
from naperian.node import mutable
from naperian.passes.bindings.packed import Packing
from naperian.prims import PRIMITIVES, Math
from naperian.sizes import Clamp, Size, places, size, substitute
from naperian.source import NOWHERE, Span

NEVER = Size(())  # where a read of a recurrence's last value stands for its time: no index


class Kind:
    """What a task does. It is no `Enum`: Python 3.11 takes five times as long to find a member of
    one, and a compilation asks twenty thousand times."""

    COMPUTE: ClassVar[Kind]
    START: ClassVar[Kind]
    ENTER: ClassVar[Kind]
    STEP: ClassVar[Kind]
    FINAL: ClassVar[Kind]
    ROUNDS: ClassVar[Kind]
    DEMAND: ClassVar[Kind]
    PUT: ClassVar[Kind]
    PRODUCT: ClassVar[Kind]
    SORT: ClassVar[Kind]


for _name in Kind.__annotations__:
    setattr(Kind, _name, Kind())


WHOLE = (Kind.PRODUCT, Kind.SORT)
"""What reads arrays and makes one, as a statement."""


@dataclass(slots=True, eq=False, repr=False)
class Cell:
    """What several tasks write: an accumulator (`monoid`) or a carried value (`time`)."""

    var: Var
    dtype: DType
    context: tuple[Var, ...]
    monoid: str = ""
    time: Var | None = None
    index: Var | None = None
    start: Task = field(init=False)
    writers: list[Task] = field(default_factory=list)
    final: Task | None = None
    best: DType | None = None  # of the values compared, for argmin and argmax
    scope: int = 0
    history: bool = False  # all values of a carried one are kept
    in_place: bool = False  # a carried array needs no second copy


@dataclass(slots=True, eq=False, repr=False)
class Nest:
    """A loop of the plan. `times` are those of the cells it carries."""

    var: Var
    index: Index
    extent: Size | None
    number: int
    depth: int
    times: set[Var] = field(default_factory=set)
    members: list[Task] = field(default_factory=list)
    body: list[Item] = field(default_factory=list)
    serial: bool = False
    head: int = 0  # how many items of the body come before the condition for another round


@dataclass(slots=True, eq=False, repr=False)
class Site:
    """A read of `task` at `at` (one size per index of its context). `carried` reads the current
    value of a cell in the loop over its time; `bound` is a read in a loop's extent."""

    task: Task
    at: tuple[Size, ...]
    carried: bool = False
    bound: bool = False


Reads: TypeAlias = tuple[Read | Trips, ...]


@dataclass(slots=True, eq=False, repr=False)
class Task:
    """See the module. `name` is the operation, the monoid, …; `code` the failure's."""

    kind: Kind
    var: Var
    dtype: DType
    context: tuple[Var, ...]
    path: tuple[Var, ...]
    name: str = ""
    args: tuple[Operand, ...] = ()
    at: tuple[Size, ...] = ()
    over: tuple[Var, ...] = ()
    guards: tuple[Guard, ...] = ()
    code: int = 0
    origin: Span = NOWHERE
    cell: Cell | None = None
    home: tuple[Var, tuple[int, ...]] | None = None  # an OUT buffer, and our axis for each of its
    order: int = 0
    of: Task | None = None  # what this is a copy of
    sites: list[Site] = field(default_factory=list)
    uses: int = 0
    # the recurrences it is in, outer ones first: their tasks share the loop over a time
    units: list[tuple[Var, list[Task]]] = field(default_factory=list)
    # where the plan puts it
    nests: list[Nest] = field(default_factory=list)
    loops: dict[Var, Size] = field(default_factory=dict)
    parent: Nest | None = None
    effort: int = 0  # additions and loads to compute it again in another nest
    scope: int = 0  # how many of its nests everybody who reads it shares
    level: int = -1  # in its block: the number of its nest, or of the nest it comes after
    root: bool = False
    # what it was made of when its reads were last asked for, and these
    known: tuple[tuple[Operand, ...], tuple[Size, ...], tuple[Guard, ...], Reads] | None = None

    @property
    def is_value(self) -> bool:
        """Whether it makes nothing but a value, wherever and as often as it is done."""
        return self.kind is Kind.COMPUTE and self.name not in ("checked", "held", "after", "print")

    @property
    def lazy(self) -> bool:
        """Whether it is computed only where its reader is."""
        match self.kind:
            case Kind.COMPUTE:
                return self.name not in ("held", "after", "print") and (
                    self.name != "checked" or self.uses > 0
                )
            case Kind.START:
                return True
            case Kind.FINAL:
                return not in_register(self.cell)
            case _:
                return False


Item: TypeAlias = Task | Nest


def forget(graph: Graph) -> None:
    """A plan that is written out: its tasks and loops mention each other, and no count of who does
    would find them unused."""
    for t in (*graph.tasks, *graph.source.values()):
        t.sites.clear()
        t.units.clear()
        t.parent = t.of = t.cell = None
        for n in t.nests:
            n.members.clear()
            n.body.clear()


def in_register(cell: Cell | None) -> bool:
    """Whether the cell is one scalar at a time: its indices are opened outside everything that
    it goes on over."""
    if cell is None:
        return False
    if cell.time is not None:
        step = cell.writers[0]
        return step.path[-1] == cell.time
    for w in cell.writers:
        n = len(cell.context)
        if set(w.path[:n]) != set(cell.context):
            return False
        if any(e.single != i for e, i in zip(w.at, cell.context, strict=True)):
            return False
    return True


@mutable
class Graph:
    """The tasks of a program, in an order in which they could be done (except that a step comes
    last, though readers of its cell come before)."""

    program: Program
    tasks: list[Task]
    source: dict[Var, Task]  # the task that makes a binding's value; a delay's step
    params: dict[Var, Param]
    conditions: dict[Var, Task | None]  # of the `while` times: the task of the condition
    mentioned: dict[Var, frozenset[Var]]  # indices that an index's extent mentions
    packing: Packing  # how ragged arrays are stored
    rounds: dict[Var, Task]  # the tasks that know how many rounds the `while` times made
    uneven: bool  # whether the extents of some indices read anything
    together: frozenset[Var] = frozenset()  # times whose loops hold all that is over them
    moved: bool = False  # new tasks stand at the end
    tables: set[Cell] = field(default_factory=set)  # what is filled at places that data name
    laid_out: set[Task] = field(default_factory=set)  # in the order that their readers want


def rounds(extent: Size | None) -> Size | None:
    """What tells how often a loop goes round: max(n, 0) times is n times."""
    a = extent.single if extent is not None else None
    return a.value if isinstance(a, Clamp) and a.extent == a.value + 1 else extent


def rewrite_size(s: Size, atom: Callable[[Read | Trips | Var], Size | None]) -> Size:
    """Atoms of AiNF replaced; reads and trip counts are rewritten inside, too."""

    def replace(a: object) -> Size | None:
        match a:
            case Var():
                return atom(a)
            case Read():
                inner = Read(a.var, tuple([rewrite_size(e, atom) for e in a.at]))
                new = atom(inner)
                if new is None and inner != a:
                    return Size((((inner,), 1),))
                return new
            case Trips(time, at_pairs):
                pairs = tuple((i, rewrite_size(e, atom)) for i, e in at_pairs)
                inner_trips = Trips(time, pairs)
                new = atom(inner_trips)
                if new is None and inner_trips != a:
                    return Size((((inner_trips,), 1),))
                return new
            case _:
                return None

    return substitute(s, replace)


def rename_indices(s: Size, names: Mapping[Var, Size]) -> Size:
    """Index variables replaced by sizes, everywhere inside."""
    if not names or not s.terms:
        return s
    one = s.single
    if type(one) is Var:
        return names.get(one, s)
    if names.keys().isdisjoint(variables(s)):
        return s
    return rewrite_size(s, lambda a: names.get(a) if type(a) is Var else None)


def rename_operand(x: Operand, names: Mapping[Var, Size]) -> Operand:
    return with_sizes(x, lambda s: rename_indices(s, names)) if names else x


def with_sizes(x: Operand, f: Callable[[Size], Size]) -> Operand:
    """An operand with other index expressions; itself, if they are the same."""
    match x:
        case Read():
            new = tuple([f(e) for e in x.at])
            return x if all(map(is_, new, x.at)) else Read(x.var, new)
        case Number():
            changed = f(x.value)
            return x if changed is x.value else Number(changed)
        case Lit():
            return x


def operand_sizes(x: Operand) -> tuple[Size, ...]:
    match x:
        case Read():
            return x.at
        case Number():
            return (x.value,)
        case Lit():
            return ()


def task_reads(t: Task) -> Reads:
    """Every read of a task itself; those of its loops' extents are not among them."""
    if t.known is not None:
        args, at, guards, found = t.known
        if args is t.args and at is t.at and guards is t.guards:
            return found
    out: list[Read | Trips] = []
    for x in t.args:
        out += atoms(x)
    for s in t.at:
        out += atoms_of(s)
    for g in t.guards:
        out += atoms(g.operand)
    t.known = t.args, t.at, t.guards, tuple(out)
    return t.known[3]


def identity(indices: Iterable[Var]) -> tuple[Size, ...]:
    return places(indices)


def size_of(r: Read) -> Size:
    return Size((((r,), 1),))


def link(graph: Graph, t: Task) -> None:
    """Find the sites of a task; count them as uses."""
    sites: list[Site] = []
    source, ragged, early = graph.source, graph.packing.offsets, graph.packing.early
    for r in task_reads(t):
        assert isinstance(r, Read)
        q = source.get(r.var)
        if q is not None:
            sites.append(Site(q, r.at, carried=q.kind is Kind.STEP))
            if ragged:
                sites += _offsets(graph, q, r.at)
            if early:
                sites += _early(graph, q, r.at)
    if ragged:
        sites += _offsets(graph, t, identity(t.context))
    if early:
        sites += _early(graph, t, identity(t.context))
    rounds: tuple[Var, ...] = ()  # a cell may keep the values of all rounds
    if t.kind is Kind.START and t.cell is not None and t.cell.index is not None:
        rounds = (t.cell.index,)
    for i in (*t.path, *rounds) if graph.uneven else ():
        extent = graph.program.indices[i].extent
        if extent is None or extent.plain:
            continue
        for r in atoms_of(extent):
            assert isinstance(r, Read)
            q = source.get(r.var)
            if q is not None:
                sites.append(Site(q, r.at, carried=q.kind is Kind.STEP, bound=True))
    cell = t.cell
    if cell is not None:
        ids = identity(cell.start.context)
        match t.kind:
            case Kind.ENTER:
                before = cell.start
                for w in cell.writers:
                    if w is t:
                        break
                    before = w
                sites.append(Site(before, t.at))
            case Kind.STEP:
                sites.append(Site(cell.start, ids))
            case Kind.ROUNDS:
                step = cell.writers[0]
                at = tuple(size(i) if i in t.path else NEVER for i in step.context)
                sites.append(Site(step, at))
            case Kind.FINAL if cell.time is None:
                sites.append(Site(cell.writers[-1], t.at))
                if any(map(_crosses, cell.writers)):
                    sites.append(Site(cell.start, t.at))
            case Kind.FINAL:
                step = cell.writers[0]
                point = dict(zip(cell.start.context, t.at, strict=True))
                sites.append(Site(step, tuple(point.get(i, NEVER) for i in step.context)))
            case _:
                pass
    t.sites = sites
    for s in sites:
        s.task.uses += 1


def _crosses(w: Task) -> bool:
    """Whether an index of the cell stands on another axis too, as on a diagonal: a loop over it
    that makes what the cell starts with along one axis does not make it along the other."""
    axes = zip(w.context, w.at, strict=True)
    return any(e.single in w.context and e.single != i for i, e in axes)


def _offsets(graph: Graph, q: Task, at: tuple[Size, ...]) -> Iterator[Site]:
    """The offsets that the place of a task's value depends on, as a whole: should it be stored,
    they are there before it is."""
    axes = q.context if q.cell is None or q.cell.index is None else (*q.context, q.cell.index)
    for run, read in graph.packing.offsets.items():
        if run[-1] in axes:
            point = dict(zip(q.context, at, strict=True))
            rest = (rename_indices(e, point) for e in read.at[:-1])
            yield Site(graph.source[read.var], (*rest, NEVER), carried=True)


def _early(graph: Graph, q: Task, at: tuple[Size, ...]) -> Iterator[Site]:
    """What the place of a task's value depends on where a number of rounds waits for something: how
    many there are is said there by what was known before."""
    point = dict(zip(q.context, at, strict=True))
    for i in q.context:
        n = graph.packing.indices[i].extent if i in graph.packing.early else None
        for r in () if n is None else atoms_of(n):
            p = graph.source.get(r.var) if isinstance(r, Read) else None
            if isinstance(r, Read) and p is not None:
                there = tuple(rename_indices(e, point) for e in r.at)
                yield Site(p, there, carried=p.kind is Kind.STEP)


def unlink(t: Task) -> None:
    """A task is gone: its sites are no uses, and lazy producers without uses go, too."""
    stack = [t]
    while stack:
        x = stack.pop()
        for s in x.sites:
            s.task.uses -= 1
            if s.task.uses == 0 and s.task.kind is Kind.COMPUTE and s.task.home is None:
                stack.append(s.task)
        x.sites = []
        x.uses = -1


def relink(graph: Graph, t: Task) -> None:
    """After a task's operands changed."""
    old = t.sites
    link(graph, t)
    for s in old:
        s.task.uses -= 1
        if s.task.uses == 0 and s.task.kind is Kind.COMPUTE and s.task.home is None:
            unlink(s.task)


def map_reads(graph: Graph, t: Task, f: Callable[[Read], Read | None]) -> None:
    """Replace reads of a task; `f` answers None to keep one."""

    def atom(a: Read | Trips | Var) -> Size | None:
        new = f(a) if isinstance(a, Read) else None
        return None if new is None else size_of(new)

    def in_size(s: Size) -> Size:
        for r in atoms_of(s):
            if isinstance(r, Read) and f(r) is not None:
                return rewrite_size(s, atom)
        return s

    def in_operand(x: Operand) -> Operand:
        new = with_sizes(x, in_size)
        return (f(new) or new) if isinstance(new, Read) else new

    t.args = tuple(in_operand(x) for x in t.args)
    t.at = tuple(in_size(e) for e in t.at)
    t.guards = tuple(Guard(in_operand(g.operand), g.holds, g.fact) for g in t.guards)
    relink(graph, t)


def copy(graph: Graph, t: Task, names: Mapping[Var, Size], path: tuple[Var, ...]) -> Task:
    """The task again under another name, its indices replaced, in the loops of `path`."""
    new = Task(
        t.kind, fresh(t.var), t.dtype, path, path, t.name,
        tuple([rename_operand(x, names) for x in t.args]),
        tuple([rename_indices(e, names) for e in t.at]),
        guards=t.guards, code=t.code, origin=t.origin, cell=t.cell, order=t.order,
        of=t.of or t,
    )  # fmt: skip
    graph.source[new.var] = new
    return new


def cost(t: Task) -> int:
    """Of one value, in additions."""
    if t.kind is not Kind.COMPUTE:
        return 1
    p = PRIMITIVES.get(t.name)
    return p.cost if p is not None else 1


def needed(tasks: list[Task]) -> set[Task]:
    """Tasks, and all that they need."""
    seen = set(tasks)
    work = list(tasks)
    while work:
        for s in work.pop().sites:
            if s.task not in seen:
                seen.add(s.task)
                work.append(s.task)
    return seen


def in_order(graph: Graph, t: Task) -> bool:
    """Whether a task's reduction must go in the order of its indices: its result depends on it, and
    the program is strict."""
    return (
        graph.program.math is Math.STRICT
        and t.kind is Kind.ENTER
        and t.name in ("add", "mul")
        and t.dtype.is_float
    )


def takes_over(t: Task) -> bool:
    """Whether a task takes over another array as it is. Such a copy stays by itself: it goes where
    the two become one array (`coalesce`)."""
    match t.kind, t.args:
        case (Kind.START | Kind.STEP), (Read(_, at),):
            return bool(at) and {e.single for e in at} == set(t.context)
        case _:
            return False


def stops(t: Task) -> bool:
    """Whether what follows must come after: what is printed, or a check, but not that of the
    caller's indices, every use of which is safe."""
    return (t.kind is Kind.DEMAND and t.code != OUTSIDE) or t.name == "print"
