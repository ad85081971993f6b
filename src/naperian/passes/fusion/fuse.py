"""Which tasks share a loop: a tree of nests.

One block at a time, outer ones first. The tasks of a block are taken in order; one that must be
somewhere (a reduction, a recurrence, a result, a value that is read at other indices than its
own) is a *root* and is placed with all producers that only it needs. A root joins the nest of
producers that it reads at the nest's own index; else a nest over the same extent that reads the
same arrays; else it opens a new one. This is typed fusion (Kennedy and McKinley, 1993): one sweep,
linear. Legal is: a reader shares the nest of its producer only if it reads at the index of the
loop, and the producer is complete there (no reduction over that index).

    [nest 1: s = Σ exp(x - m)]  [nest 2: y = exp(x - m) / s]

What takes long and only reads what a recurrence stores anyway stays out of its loop:

    [in order: h = f(h, x); store h]  [parallel: y = Σ exp(h)]

A cheap value that two nests need is computed in both, a dear one is stored; one that has more
indices than all that it is made of may take somewhat more, as its table would be the longest:

    [nest 1: s += (a[i] * b[j] - c[i]) ** 2]  [nest 2: c̄[i] = Σ (a[i] * b[j] - c[i]) / s]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from heapq import heappop, heappush

from naperian.ainf.syntax import Read, Trips
from naperian.ainf.walk import atoms_of, variables
from naperian.broken import Broken
from naperian.names import Var, fresh
from naperian.node import kept
from naperian.passes.fusion.begun import begun_before
from naperian.passes.fusion.changes import changed_last
from naperian.passes.fusion.graph import (
    Cell,
    Graph,
    Item,
    Kind,
    Nest,
    Site,
    Task,
    copy,
    cost,
    in_order,
    in_register,
    link,
    map_reads,
    rename_indices,
    rounds,
    stops,
    takes_over,
    task_reads,
)
from naperian.passes.fusion.inline import FREE, keeps, loads
from naperian.passes.fusion.notes import left_notes
from naperian.prims import EXTREMES, FUNCTION, UNORDERED
from naperian.sizes import Atom, Clamp, Remainder, Size, size

_CHEAP = 3  # a value worth computing twice rather than storing, in additions and loads
_NEVER = FREE + 1  # and one that stands where it is made
_SPREAD = 8  # the same of what has more indices than all that it is made of
_LONG = 16  # elements of a row that are more than those of a window
_NEAR = 4  # how many nests back one is looked for to share its arrays


def fuse(graph: Graph) -> list[Item]:
    """The loop tree of a program."""
    first = begun_before(graph)
    if first:
        graph.tasks.sort(key=lambda t: t not in first)
        for n, t in enumerate(graph.tasks):
            t.order = n
    return _block(graph, graph.tasks, 0, None)


def _block(graph: Graph, tasks: list[Task], depth: int, inside: Nest | None) -> list[Item]:
    b = _Block(graph, tasks, depth, inside)
    b.mark()
    if inside is not None and inside.index.condition is not None:
        head = _head(graph, tasks, inside)
        b.fill(head)
        inside.head = len(b.nests) + len(b.statements)
        b.barrier, b.after = len(b.nests) + 1, len(b.nests)
    b.fill(tasks)
    items: list[tuple[int, int, int, Item]] = [(n.number, 0, 0, n) for n in b.nests]
    items += [(t.level, 1, k, t) for k, t in enumerate(b.statements)]
    items.sort(key=lambda x: x[:3])
    for nest in b.nests:
        nest.members.sort(key=lambda t: t.order)
        changed_last(nest)
        for t in nest.members:
            t.level = -1
            t.root = False
        nest.body = _block(graph, nest.members, depth + 1, nest)
    return [x for *_, x in items]


def _head(graph: Graph, tasks: list[Task], nest: Nest) -> list[Task]:
    """Those of the tasks in a `while` loop that its condition needs."""
    (time,) = nest.times
    condition = graph.conditions[time]
    inside = set(tasks)
    wanted: set[Task] = set()
    work = [] if condition is None else [condition]
    while work:
        t = work.pop()
        if t in inside and t not in wanted and t.kind is not Kind.STEP:
            wanted.add(t)
            work += [s.task for s in t.sites]
    return [t for t in tasks if t in wanted]


class _Block:
    """The nests and statements of a block while it is filled."""

    def __init__(
        self, graph: Graph, tasks: list[Task], depth: int, inside: Nest | None
    ) -> None:
        self.graph = graph
        self.tasks = tasks
        self.carried = [t for t in tasks if t.units]
        self.depth = depth
        self.inside = inside
        self.nests: list[Nest] = []
        self.statements: list[Task] = []
        self.by_key: dict[object, list[Nest]] = {}
        self.barrier = 0  # checks come before what follows them: the first nest that may,
        self.after = 0  # and the first nest that a statement may come after
        self.filling = set[Task]()
        self.opening = set[Var]()  # times of recurrences that others come before
        self.readers: dict[Task, list[Task]] = {}  # in each round of one loop
        self.known: dict[Task, tuple[list[Site], list[Site], list[Site]]] = {}

    # what a task opens next

    def head(self, t: Task) -> Var | None:
        return t.path[self.depth] if self.depth < len(t.path) else None

    def key(self, t: Task, head: Var) -> object:
        """Loops that may be one: as many rounds, or the same `while` time."""
        index = self.graph.program.indices[head]
        if index.condition is not None:
            return head
        return rounds(self.extent(t, head) if self.graph.mentioned[head] else index.extent)

    def extent(self, t: Task, head: Var) -> Size | None:
        extent = self.graph.program.indices[head].extent
        return None if extent is None else rename_indices(extent, t.loops)

    def aligned(self, reader: Task, site: Site) -> bool:
        """Whether one loop over both heads gives the reader what it reads, in time."""
        q, depth = site.task, self.depth
        if depth >= len(reader.path) or depth >= len(q.path):
            return False
        mine, theirs = reader.path[depth], q.path[depth]
        try:
            k = q.context.index(theirs)
        except ValueError:
            return theirs == mine and q.kind is not Kind.ENTER and not site.bound
        if k >= len(site.at) or site.at[k].single != mine:
            return False
        if q.kind is Kind.ENTER and theirs in q.over:
            return False
        return mine == theirs or self.key(reader, mine) == self.key(q, theirs)

    def here(self, t: Task) -> bool:
        return t.parent is self.inside and len(t.nests) == self.depth

    def current(self, site: Site) -> bool:
        """Whether the site reads a carried value in its loop, which is there before all tasks."""
        q = site.task
        if not site.carried or q.cell is None or not self.local(q):
            return False
        time = q.cell.time
        return any([time in n.times for n in q.nests[: self.depth]])

    def local(self, q: Task) -> bool:
        """Whether a task is in this block or in a nest of it."""
        depth = self.depth
        return not depth or (len(q.nests) >= depth and q.nests[depth - 1] is self.inside)

    def inner(self, t: Task) -> list[Site]:
        """What a task reads of this block and the nests of it."""
        return self.sites(t)[1] if self.depth else t.sites

    def waited(self, t: Task) -> list[Site]:
        """The same without carried values of its loops, which are there before all tasks."""
        return self.sites(t)[2] if self.depth else t.sites

    def sites(self, t: Task) -> tuple[list[Site], list[Site], list[Site]]:
        """What a task reads, and of it what is in here. Who is in which loop around is known."""
        known = self.known.get(t)
        if known is None or known[0] is not t.sites:
            inner = [s for s in t.sites if self.local(s.task)]
            waited = [s for s in inner if not (s.carried and self.current(s))]
            known = self.known[t] = t.sites, inner, waited
        return known

    # placing

    def mark(self) -> None:
        """Find the roots."""
        if all([len(t.path) <= self.depth for t in self.tasks]):  # mostly: no loops are in here
            for t in self.tasks:
                t.root = True
            return
        self.find_readers()
        for t in self.tasks:
            t.root = (
                t.home is not None or self.head(t) is None
                or len(self.readers.get(t, ())) < t.uses
                or (self.time(t) is None and _is_begun(t))
            )

    def find_readers(self) -> None:
        """Who reads which task of this block in each round of one loop: once for every site."""
        self.readers = {}
        for t in self.tasks:
            for s in self.inner(t):
                if self.aligned(t, s):
                    self.readers.setdefault(s.task, []).append(t)

    def fill(self, tasks: list[Task]) -> None:
        """Place the tasks. First what accumulators start with, and small tables, if nothing here
        goes into them: they are to keep nobody from the loops before."""
        self.filling = {*tasks}
        starts = (t for t in tasks if t.kind is Kind.START and self.time(t) is None)
        early: list[Task] = []
        for t in (*starts, *(t for t in tasks if self.small(t))):
            early += self.all_early(t)
        for t in (*early, *tasks):
            if t.level < 0 and (t.root or not t.lazy):
                self.place(t)

    def all_early(self, t: Task) -> list[Task]:
        """A task behind the numbers that it is made under, such as whether a loop makes rounds at
        all, if it needs no more of what is here than these; else none."""
        found = set[Task]()
        work = [t]
        while work:
            for s in self.waited(work.pop()):
                q = s.task
                if q in found:
                    continue
                if not self.is_of_sizes(q):
                    return []
                found.add(q)
                work.append(q)
        return [*sorted(found, key=lambda q: q.order), t]

    def is_of_sizes(self, t: Task) -> bool:
        """Whether a task makes a number of sizes, and may go ahead."""
        if not t.is_value or self.head(t) is not None or t not in self.filling:
            return False
        return all(isinstance(x, Read) and x.var in self.graph.source for x in task_reads(t))

    def small(self, t: Task) -> bool:
        """Whether a task makes a table of a few elements, as many in every run. What a recurrence
        goes by comes with the whole of it, which waits for what it starts with."""
        if t.kind is not Kind.COMPUTE or t.home is not None or len(t.path) == self.depth:
            return False
        if self.time(t) is not None:
            return False
        extents = (self.graph.program.indices[i].extent for i in t.path[self.depth :])
        return all(n is not None and n.constant is not None for n in extents)

    def place(self, root: Task) -> None:
        head = self.head(root)
        if head is not None and head == self.time(root) and head not in self.opening:
            self.opening.add(head)
            for t in self.ahead(root, head):
                if t.level < 0 and (t.root or not t.lazy):
                    self.place(t)
            self.opening.remove(head)
            if root.level >= 0:  # it went ahead of one of those
                return
        if head is None and not self.nests:  # there is nothing that it may have to follow
            root.level = self.after
            self.statements.append(root)
            if stops(root):
                self.barrier = max(self.barrier, root.level + 1)
            return
        group = self.group(root)
        if self.let_ahead(root, group):
            group = self.group(root)
        if head is None:
            root.level = self.lowest(group, statement=True)[0]
            self.statements.append(root)
            if stops(root):
                self.barrier = max(self.barrier, root.level + 1)
                self.after = max(self.after, root.level)
            return
        low, near = self.lowest(group, statement=False)
        if near is not None and near.number == low and self.leaves(root, group, near):
            low, near = low + 1, None
        nest = self.choose(root, head, group, low, near)
        self.recompute(group, nest)
        notes = left_notes(self.graph, self.depth, group, nest, self.barrier)
        for note, home in notes:
            self.join(note, home)
            note.effort = _NEVER
        if notes:
            self.find_readers()
        if not group and not nest.members:  # all of it is left where it is asked for
            self.nests.remove(nest)
            for same in self.by_key.values():
                same[:] = [n for n in same if n is not nest]
            return
        group.sort(key=lambda t: (t.order, t.name == "held"))  # a note of a task follows it
        for t in group:
            self.join(t, nest)
            t.effort = self.effort(t, nest)
        if head == self.time(root):
            nest.times.add(head)
        nest.serial = nest.serial or self.serial(root)
        if stops(root):
            self.barrier = max(self.barrier, nest.number)
            self.after = max(self.after, nest.number)

    def time(self, t: Task) -> Var | None:
        """Of the outermost recurrence that is not opened yet."""
        if not t.units:
            return None
        return next((i for i, _ in t.units if i not in t.path[: self.depth]), None)

    def group(self, root: Task) -> list[Task]:
        """The root and the producers that are placed with it."""
        group: list[Task] = []
        seen: set[Task] = set()
        heap: list[tuple[int, int, Task]] = []

        def add(t: Task) -> None:
            if t not in seen:
                seen.add(t)
                heappush(heap, (-t.order, len(seen), t))

        for t in self.together(root):
            add(t)
        while heap:
            t = heappop(heap)[2]
            group.append(t)
            rounds = self.rounds(t, root)
            if rounds is not None:
                add(rounds)
            for s in self.waited(t):
                q = s.task
                if q.level >= 0 or q in seen or not self.here(q):
                    continue
                if not (q.lazy and not q.root):
                    raise Broken(f"{q.var} is needed by {t.var} before it is placed")
                add(q)
        return group

    def rounds(self, t: Task, root: Task) -> Task | None:
        """How many rounds the loop made whose step this is: known only where the loop is, so it
        goes with it into the nest of the root."""
        time = t.cell.time if t.kind is Kind.STEP and t.cell is not None else None
        rounds = self.graph.rounds.get(time) if time is not None else None
        if rounds is None or rounds.uses <= 0 or rounds.level >= 0 or not self.here(rounds):
            return None
        return rounds if self.head(rounds) == self.head(root) else None

    def together(self, root: Task) -> list[Task]:
        """A recurrence that is not opened yet is placed as a whole."""
        time = self.time(root)
        unit = next((tasks for i, tasks in root.units if i == time), [root])
        return [t for t in unit if self.here(t)]

    def lowest(self, group: list[Task], statement: bool) -> tuple[int, Nest | None]:
        """The first nest that the group may join (or the nest it must follow), and the nest that
        holds aligned producers."""
        low, depth = self.after if statement else self.barrier, self.depth
        if statement and all(map(_is_number, group)):
            low = 0
        near: Nest | None = None
        for t in group:
            for s in self.waited(t):
                q = s.task
                nests = q.nests
                if len(nests) == depth:
                    if q.level >= 0:
                        low = max(low, q.level if statement else q.level + 1)
                    continue
                nest = nests[depth]
                if statement or self.beside_writer(t, q):
                    low = max(low, nest.number)
                elif self.time(q) is None and _in_place(group, q):
                    low = max(low, nest.number + 1)
                elif all(self.aligned(t, x) for x in self.writers(t, s, nest)):
                    low = max(low, nest.number)
                    if near is None or nest.number > near.number:
                        near = nest
                else:
                    low = max(low, nest.number + 1)
        return low, near

    def writers(self, t: Task, site: Site, nest: Nest) -> list[Site]:
        """What a reader waits for in a nest: of an array that is added up there, all who add."""
        q = site.task
        if q.kind is not Kind.ENTER or (t.kind is Kind.ENTER and t.cell is q.cell):
            return [site]
        others = (w for w in nest.members if w.kind is Kind.ENTER and w.cell is q.cell)
        return [site, *(Site(w, site.at, site.carried, site.bound) for w in others if w is not q)]

    def beside_writer(self, t: Task, q: Task) -> bool:
        """Whether two tasks write one accumulator in an order that is free, after it has started,
        at places that data name, in a recurrence, or in each round to the same elements: not in the
        loop that fills it row by row. What is one flag, or one extreme, is so in any loops."""
        both = t.kind is Kind.ENTER and q.kind is Kind.ENTER and t.cell is q.cell
        if both and t.name in EXTREMES and in_register(t.cell):
            return True
        if not both or t.cell is None or t.name not in UNORDERED or in_order(self.graph, t):
            return False
        if t.cell.start.nests[: self.depth + 1] == q.nests[: self.depth + 1]:
            return False
        if q.nests[self.depth].times:
            return True
        if all(_sums_over(w, self.head(w)) for w in (t, q)):
            return True
        return all(_is_named(w) or _is_mixed(t.cell) for w in (t, q))

    def choose(
        self, root: Task, head: Var, group: list[Task], low: int, near: Nest | None
    ) -> Nest:
        key = self.key(root, head)
        serial = self.serial(root)
        if near is not None and near.number == low:
            apart = serial and not near.serial and self.depth == 0 and not near.times
            if not apart or (self.time(root) is not None and not self.is_deep(near)):
                return near
        beside = self.beside(root, head, group, low)
        if beside is not None:
            return beside
        same = self.by_key.setdefault(key, [])
        is_while = self.graph.program.indices[head].condition is not None
        if is_while and same:
            return same[-1]
        waiting = self.waiting_beside(root, head, group, low, same)
        if waiting is not None:
            return waiting
        copies = all(takes_over(t) for t in group)
        nests = [n for n in same[-_NEAR:] if n.number >= low and n.serial == serial and not n.times]
        if nests and not stops(root) and not copies:
            mine = self.arrays(group, _along)
            windows = self.arrays(group, _in_window) if root.units else set()
            for nest in reversed(nests):
                if self.time(root) is not None:
                    if self.recurs(nest) and self.is_one(group, nest):
                        return nest
                    continue
                if self.streamed(nest, _along, mine) or (
                    windows and self.streamed(nest, _in_window, windows)
                    and self.is_one(group, nest)
                ):
                    return nest
                if self.begins(group) and self.is_deep(nest) and self.is_one(group, nest):
                    return nest
        index = self.graph.program.indices[head]
        nest = Nest(
            fresh(index.name if index.name else head.name), index, self.extent(root, head),
            len(self.nests) + 1, self.depth,
        )  # fmt: skip
        self.nests.append(nest)
        if not copies:
            same.append(nest)
        return nest

    def leaves(self, root: Task, group: list[Task], near: Nest) -> bool:
        """Whether tasks that take long leave the recurrence whose values they read, as all of these
        are stored anyway: they wait for nothing, so they are parallel and in vectors."""
        if self.depth or not near.times or near.index.condition is not None:
            return False
        if self.time(root) is not None or stops(root) or max(map(cost, group)) < FUNCTION:
            return False
        read = {s.task for t in group for s in t.sites if s.task.nests[:1] == [near]}
        return all(q.root and q.kind in (Kind.COMPUTE, Kind.FINAL) for q in read)

    def is_deep(self, nest: Nest) -> bool:
        """Whether a nest has long loops inside. What they find is little beside what they read, so
        it is stored for a recurrence, which would keep them from being parallel."""
        inner = {i for t in nest.members for i in t.path[self.depth + 1 :]}
        extents = (self.graph.program.indices[i].extent for i in inner)
        return any(n is None or (n.constant or _LONG) >= _LONG for n in extents)

    def beside(self, root: Task, head: Var, group: list[Task], low: int) -> Nest | None:
        """The nest of what else the loop in the text carries, where these carry nothing from each
        other: numbers wait side by side, not one after the other, and of what a third recurrence of
        that loop reads nothing is kept for it."""
        if head != self.time(root):
            return None
        found = [n for n in reversed(self.nests) if head in n.times and n.number >= low]
        numbers = _are_numbers(group, head)
        alike = (n for n in found if numbers and _are_numbers(n.members, head))
        return next(alike, None) or next((n for n in found if self.meet(group, n, head)), None)

    def waiting_beside(
        self, root: Task, head: Var, group: list[Task], low: int, same: list[Nest]
    ) -> Nest | None:
        """The nest of other numbers that are carried over as many rounds, if something needs a
        round of both: two running sums, which wait for no more than one does."""
        if head != self.time(root) or stops(root) or not _are_numbers(group, head):
            return None
        found = (n for n in reversed(same[-_NEAR:]) if n.times and n.number >= low)
        numbers = (n for n in found if all(_are_numbers(n.members, i) for i in n.times))
        mine = {*group}
        return next((n for n in numbers if any(
            t.root or not t.lazy for t in self.going_on(mine, {*n.members})
        )), None)  # fmt: skip

    def meet(self, group: list[Task], nest: Nest, time: Var) -> bool:
        """Whether what is still to be placed needs both, in a round."""
        return self.is_joint(group, nest.members, time)

    def is_joint(self, group: Iterable[Task], others: Iterable[Task], time: Var) -> bool:
        """Whether a recurrence over a time that is still to be placed needs some of a group and
        some of others, or what is added up over its rounds."""
        mine, theirs = set(group), set(others)
        later = [t for t in self.tasks if t.level < 0 and t not in mine and t not in theirs]
        units = {id(unit): unit for t in later for i, unit in t.units if i == time}
        sums = {t for t in later if t.kind is Kind.ENTER and self.head(t) in t.over}
        return any(
            self.needs(unit, mine, theirs) for unit in units.values()
            if theirs.isdisjoint(unit) and unit[0] not in mine
        ) or bool(self.going_on(mine, theirs) & sums)

    def needs(self, unit: list[Task], group: set[Task], others: set[Task]) -> bool:
        """Whether tasks need some of a group that is placed next, and some of others."""
        work, seen = list(unit), set(unit)
        found = set[bool]()
        while work:
            t = work.pop()
            for q in (s.task for s in t.sites):
                if q in group or q in others:
                    found.add(q in group)
                elif q.level < 0 and q not in seen and self.here(q):
                    seen.add(q)
                    work.append(q)
        return len(found) == 2

    def is_one(self, group: Iterable[Task], nest: Nest) -> bool:
        """Whether a round of something still to be placed needs both."""
        return any(not t.lazy for t in self.going_on(set(group), set(nest.members)))

    def going_on(self, group: set[Task], others: set[Task]) -> set[Task]:
        """What is still to be placed and needs some of a group that is placed next and some of
        others, in each round of one loop."""
        one = self.behind(group, group | others)
        return one and one & self.behind(others, group | others)

    def behind(self, tasks: set[Task], but: set[Task]) -> set[Task]:
        """What is still to be placed, `but` for some, and reads tasks in each round of one loop, or
        reads what does."""
        found = set[Task]()
        work = list(tasks)
        while work:
            for t in self.readers.get(work.pop(), ()):
                if t.level < 0 <= t.uses and t not in found and t not in but:
                    found.add(t)
                    work.append(t)
        return found

    def pending(self, tasks: Iterable[Task], late: Set[Task] = frozenset()) -> set[Task]:
        """Tasks, and what is to be placed before them: of recurrences all. Up to the first that is
        `late`, if nobody asks for more then."""
        seen = set(tasks)
        work = list(seen)
        whole = set[Task]()  # of recurrences that were met
        while work:
            t = work.pop()
            found = [s.task for s in self.waited(t)]
            if t.units and t not in whole:
                unit = self.together(t)
                whole.update(unit)
                found += unit
            for q in found:
                if q.level < 0 and q not in seen and self.here(q):
                    seen.add(q)
                    if q in late:
                        return seen
                    work.append(q)
        return seen

    def ahead(self, root: Task, head: Var) -> Iterator[Task]:
        """What another recurrence over the time of one that is placed next needs to begin, if both
        are to be one loop."""
        units = {id(unit): unit for t in self.carried if t.level < 0
                 for i, unit in t.units if i == head}  # fmt: skip
        others = [unit for unit in units.values() if root not in unit]
        mine = self.together(root) if others else []
        for unit in others:
            theirs = {t for t in unit if self.here(t)}
            if any(self.head(t) != head for t in theirs):
                continue
            every = self.pending(theirs) - {*mine}
            after = {*mine}  # and what reads it
            for t in sorted(every, key=lambda t: t.order):
                read = [s for s in t.sites if s.task in after]
                if read and not all(self.aligned(t, s) for s in read):
                    break
                if read and t not in theirs:
                    after.update(self.together(t) if t.units else (t,))
            else:
                first = sorted(every - theirs - after, key=lambda t: t.order)
                reads = any(s.task in after for t in theirs for s in t.sites)
                if reads or self.is_joint(mine, theirs, head):
                    if first and self.may_go_ahead(first):
                        yield from first

    def let_ahead(self, root: Task, group: list[Task]) -> bool:
        """Place first what shares producers with a root that waits for a nest, but waits for
        nothing of it: placed behind the root, it would keep that nest from going on with what reads
        both. Whether there was any."""
        read = {t: {*self.read_in(t)} for t in group}
        last = max((n for numbers in read.values() for n in numbers), default=0)
        late = _late(read, last) if last and self.head(root) is not None else {*group}
        shared = {t for t in group if t not in late and t.uses > 1}
        mine = {*group}
        may = {t for t in self.behind(shared, mine) if t.root and self.is_free(t, late, last)}
        if not may:
            return False
        going_on = self.behind({*self.nests[last - 1].members}, mine)
        readers = [t for t in going_on if any(s.task in may for s in t.sites)]
        early = [t for t in readers if not late & self.pending((t,), late)]
        wanted = {s.task for t in early for s in t.sites} & may
        first = sorted(self.pending(wanted), key=lambda t: t.order)
        if not first or root in first or not self.may_go_ahead(first):
            return False
        for t in first:
            if t.level < 0 and (t.root or not t.lazy):
                self.place(t)
        return True

    def read_in(self, t: Task) -> Iterator[int]:
        """The numbers of the nests whose values a task reads."""
        for s in self.waited(t):
            q = s.task
            if len(q.nests) > self.depth:
                yield q.nests[self.depth].number

    def is_free(self, t: Task, late: set[Task], last: int) -> bool:
        """Whether a task waits for nothing of a nest, nor for what does."""
        every = self.pending((t,), late)
        return not every & late and all(n < last for q in every for n in self.read_in(q))

    def may_go_ahead(self, tasks: list[Task]) -> bool:
        """Whether tasks are among those that are placed now, and pass nothing that may stop."""
        last = tasks[-1].order
        return self.filling.issuperset(tasks) and not any(
            stops(t) for t in self.filling if t.level < 0 and t.order <= last
        )

    def serial(self, t: Task) -> bool:
        """Whether a task makes the loop over its head sequential. An array is accumulated in
        parallel, by an outermost loop."""
        head = self.head(t)
        match t.kind:
            case Kind.ENTER:
                return self.depth > 0 and head in t.over and not in_register(t.cell)
            case Kind.STEP:
                return t.cell is not None and t.cell.time == head
            case _:
                return head is not None and head == self.time(t)

    def recurs(self, nest: Nest) -> bool:
        """Whether there is a recurrence in each round of a nest: what another one keeps for what
        needs both is kept for one round of it, where the two are in one nest."""
        return any(self.time(t) is not None for t in nest.members)

    def begins(self, group: list[Task]) -> bool:
        """Whether tasks need nothing of any loop, and others go on with them: the table of zeros
        that a loop backwards begins with."""
        tables = any(t.kind is Kind.START and len(t.path) > self.depth + 1 for t in group)
        return tables and not any(s.task.nests[self.depth :] for t in group for s in t.sites)

    def arrays(self, group: list[Task], along: Callable[[Task, Read, Var], bool]) -> set[Var]:
        """The arrays a group streams along its heads."""
        out = set()
        for t in group:
            head = self.head(t)
            if head is None:
                continue
            for x in task_reads(t):
                if isinstance(x, Read) and x.at and x.var not in out:
                    q = self.graph.source.get(x.var)
                    if q is None or q.root or q.level >= 0 or not self.here(q):
                        if along(t, x, head):
                            out.add(x.var)
        return out

    def streamed(
        self, nest: Nest, along: Callable[[Task, Read, Var], bool], some: set[Var]
    ) -> bool:
        """Whether a nest streams some of these arrays along its loop; recurrences alone, where
        places are kept in range."""
        return bool(some) and any(
            isinstance(x, Read) and x.var in some and along(t, x, t.path[self.depth])
            for t in nest.members if along is _along or t.units for x in task_reads(t)
        )

    def recompute(self, group: list[Task], nest: Nest) -> None:
        """Cheap values of earlier nests are computed again in this one."""
        made: dict[Task, Task] = {}
        work = list(group)
        while work:
            t = work.pop()
            replace: dict[Var, Var] = {}
            for s in self.inner(t):
                q = s.task
                if len(q.nests) == self.depth or q.nests[self.depth] is nest:
                    continue
                if q.root or not self.is_cheap(q) or not self.aligned(t, s):
                    continue
                if keeps(self.graph, t, q):
                    continue
                new = made.get(q)
                if new is None:
                    new = copy(self.graph, q, {}, q.path)
                    new.context = q.context  # as it is read: loops may stand in another order
                    new.nests = q.nests[: self.depth]
                    new.loops = dict(q.loops)
                    new.parent = self.inside
                    link(self.graph, new)
                    made[q] = new
                    group.append(new)
                    work.append(new)
                replace[q.var] = new.var
            if replace:
                _replace(self.graph, t, replace)

    def is_cheap(self, q: Task) -> bool:
        """Whether a value of another nest is computed again rather than stored. What all that it is
        made of has fewer indices than would be a table longer than all of these, which stay near.
        One of several indices and nothing else is read more slowly than it is computed, and is
        often known where a loop is cut."""
        if q.effort <= _CHEAP or (not q.units and self.spread(q, _SPREAD) <= _SPREAD):
            return True
        of_indices = len(q.context) > self.depth + 1 and not q.dtype.is_float
        return of_indices and q.effort <= FREE and not loads(self.graph, q)

    def spread(self, q: Task, most: int) -> int:
        """Additions and loads to compute a value of what has fewer indices, of those in here; more
        than `most` if it takes more, or something has as many."""
        if not q.is_value:
            return most + 1
        own = {*q.path[self.depth :]}
        read = [x for x in task_reads(q) if isinstance(x, Read) and x.var in self.graph.params]
        if any(_along_all(x.at, own) for x in read):
            return most + 1
        total = cost(q) + sum(bool(x.at) for x in read)
        for s in q.sites:
            p = s.task
            if total > most:
                break
            if not _along_all(s.at, own):
                total += bool(s.at)
            elif p.parent is q.parent and not p.root:
                total += self.spread(p, most - total)
            else:
                total = most + 1
        return total

    def effort(self, t: Task, nest: Nest) -> int:
        if not t.is_value:
            return _NEVER
        total = cost(t)
        for s in t.sites:
            q = s.task
            if q.parent is nest and q.kind is Kind.COMPUTE and not q.root:
                total += q.effort
            elif q.context:
                total += 1
        return total + sum(
            isinstance(x, Read) and bool(x.at) and x.var in self.graph.params for x in t.args
        )

    def join(self, t: Task, nest: Nest) -> None:
        head = self.head(t)
        if head is None:
            raise Broken(f"{t.var} has no loop to join")
        t.level = nest.number
        t.parent = nest
        t.nests = [*t.nests, nest]
        t.loops[head] = size(nest.var)
        nest.members.append(t)


def _late(read: Mapping[Task, set[int]], last: int) -> set[Task]:
    """Those of some tasks that read values of a nest, or read what does."""
    late = set[Task]()
    for t in sorted(read, key=lambda t: t.order):
        if last in read[t] or (late and any(s.task in late for s in t.sites)):
            late.add(t)
    return late


def _along_all(at: tuple[Size, ...], indices: set[Var]) -> bool:
    """Whether a place has as many axes along these indices as there are."""
    return sum(not indices.isdisjoint(variables(e)) for e in at) >= len(indices)


def _in_place(group: list[Task], q: Task) -> bool:
    """Whether tasks take over a table that `q` has changed a few elements of, or the other way
    round: row by row the copy would not stand by itself."""
    if q.kind is Kind.START:
        return _is_begun(q)
    if q.kind is not Kind.ENTER or not q.units:
        return False
    rest = [t for t in group if t.kind is not Kind.FINAL]
    return bool(rest) and all(map(takes_over, rest)) and _changes_few(q)


def _is_begun(t: Task) -> bool:
    """Whether a table starts here that a loop behind this one changes: a round takes it over, and a
    few elements are then changed; or it is added to row by row and at rows that data name."""
    if t.kind is not Kind.START or t.cell is None:
        return False
    return (bool(t.units) and takes_over(t) and _changes_few(t)) or _is_mixed(t.cell)


def _is_mixed(cell: Cell) -> bool:
    """Whether some that is added to a table goes to rows that data name, and some does not."""
    if cell.time is not None or not cell.context:
        return False
    return len({bool(atoms_of(w.at[0])) for w in cell.writers}) == 2


def _is_number(t: Task) -> bool:
    """Whether a task makes a number of numbers, which it may do ahead of any check."""
    tables = (x for x in task_reads(t) if isinstance(x, Trips) or x.at)
    return t.is_value and not t.path and not any(tables)


def _sums_over(w: Task, head: Var | None) -> bool:
    """Whether what a task adds goes to the same elements in each round of a loop."""
    return head in w.over and not any(head in variables(e) for e in w.at)


def _is_named(w: Task) -> bool:
    """Whether data name the place that a task adds to."""
    return any(atoms_of(e) for e in w.at)


def _changes_few(t: Task) -> bool:
    """Whether what is written to an accumulator goes to a few of its elements."""
    if t.cell is None or not t.cell.monoid:
        return False
    own = t.cell.context
    return any(tuple(e.single for e in w.at) != own for w in t.cell.writers)


def _are_numbers(tasks: list[Task], time: Var) -> bool:
    """Whether all that is carried is numbers of one loop."""
    steps = [t for t in tasks if t.kind is Kind.STEP]
    return all(t.path[-1] == time for t in steps)


def _along(t: Task, r: Read, i: Var) -> bool:
    """Whether a task reads an array along an index, in steps of whatever length (`x[i * m]`); in no
    recurrence also if the ends are kept in range, as those of a window are."""
    return i in _places(r) or (not t.units and i in _windows(r))


def _in_window(_: Task, r: Read, i: Var) -> bool:
    """Whether a task reads an array along an index in places that are kept in range."""
    return i in _windows(r)


@kept
def _places(r: Read) -> frozenset[Atom]:
    """What the places that are read are sums of."""
    return frozenset([a for e in r.at for a in e.atoms if type(a) is Var])


@kept
def _windows(r: Read) -> frozenset[Atom]:
    """The same of those that are kept in range, if that is all there is."""
    found: list[Atom] = []
    for e in r.at:
        match e.single:
            case Clamp(value) | Remainder(value):
                found += value.atoms
            case _:
                pass
    return frozenset(found)


def _replace(graph: Graph, t: Task, names: dict[Var, Var]) -> None:
    map_reads(graph, t, lambda r: Read(names[r.var], r.at) if r.var in names else None)
