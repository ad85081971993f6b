"""In which order a task's loops stand.

The order of the source is the incumbent. Another index becomes the innermost one only where that
makes memory be read and written side by side, for all tasks that will share loops:

    y[j] = Σ_i x[i, j]         by rows of x: for i: for j: y[j] += x[i, j]

Tasks are grouped by the reads between them at plain indices; these reads also say which index of
one task is which of the other. The deepest are ordered first; then sums in fewer loops, by a loop
that the deepest have not. Rows of unknown length that a sum goes over are one with those around
them, so the loops of what is summed stand around both:

    k[a] = Σ_ijq x[i, j, q] y[i, j+a, q]         for i: for a: for j: for q: k[a] += …

What reads the end of a loop in a round comes after it, whatever else of the round it reads. In a
recurrence, the loops down to that over its time stay; those inside are ordered for what is done in
one round, and those of what goes on beside it for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from naperian.ainf.syntax import Read
from naperian.ainf.walk import variables
from naperian.names import Var
from naperian.passes.fusion.classes import Classes
from naperian.passes.fusion.graph import (
    WHOLE,
    Graph,
    Kind,
    Site,
    Task,
    in_order,
    needed,
    takes_over,
)
from naperian.passes.fusion.price import price
from naperian.sizes import Clamp, Size, size

_CHANGED = (Kind.START, Kind.ENTER, Kind.STEP, Kind.FINAL)
_CARRIED = (Kind.STEP, Kind.FINAL)
_TRIED = 8  # loops that may be the innermost
_SHORT = 16  # rounds that are hardly more than what it takes to begin a loop


def order_loops(graph: Graph) -> None:
    """See the module."""
    beside: dict[Task, tuple[Var, ...]] = {}
    for tasks, classes in _groups(graph.tasks, lambda t: ()):
        if any(t.units for t in tasks):
            beside.update(_times_first(graph, tasks))
        else:
            _order(graph, tasks, classes, lambda t: ())
    rounds: dict[Var, list[Task]] = {}
    for t in graph.tasks:
        if t.units and t.units[-1][0] in t.path:
            rounds.setdefault(t.units[-1][0], []).append(t)
    inside: dict[Task, tuple[Var, ...]] = {}
    for time, members in rounds.items():
        inside.update(_beside_inner(graph, members))

        def outer(t: Task, time: Var = time) -> tuple[Var, ...]:
            return inside.get(t) or t.path[: t.path.index(time) + 1]

        for tasks, classes in _groups([t for t in members if not _takes_over(t)], outer):
            _order(graph, tasks, classes, outer)
    _order_beside(graph, beside)


def _order_beside(graph: Graph, beside: dict[Task, tuple[Var, ...]]) -> None:
    """Order what goes on beside recurrences, given with the loops that it shares with them. What it
    reads of them may be computed once more as it goes."""
    outer, paths = dict(beside), {}
    for q in dict.fromkeys(s.task for t in beside for s in t.sites):
        if q.kind is Kind.COMPUTE and q.units and q.units[-1][0] in q.path:
            paths[q] = q.path
            outer[q] = q.path[: q.path.index(q.units[-1][0]) + 1]
    for tasks, classes in _groups(list(outer), outer.__getitem__):
        _order(graph, tasks, classes, outer.__getitem__)
    for q, path in paths.items():
        q.path = path


_Class = tuple[Task, Var]  # loops that are the same, by one of them
_Outer = Callable[[Task], tuple[Var, ...]]  # the loops of a task that stay, its outermost ones


def _groups(all_: list[Task], outer: _Outer) -> list[tuple[list[Task], Classes]]:
    """Tasks that will share loops inside the outer ones, and which of these are the same."""
    classes = Classes()
    leader: dict[Task, Task] = {}

    def top(t: Task) -> Task:
        while leader.get(t, t) is not t:
            leader[t] = leader.get(leader[t], leader[t])
            t = leader[t]
        return t

    inner = {t: t.path[len(outer(t)) :] for t in all_ if t.kind not in WHOLE}
    if all(len(path) < 2 for path in inner.values()):
        return []
    # each once: what is read several times is read at the same place
    reads = dict.fromkeys(
        (t, s.task, s.at) for t in inner for s in t.sites if s.task in inner and not s.bound
    )
    for t, q, at in sorted(reads, key=lambda r: -_shared(inner, *r)):
        one = False
        for i, e in zip(q.context, at, strict=False):
            v = e.single
            if type(v) is Var and v in inner[t] and i in inner[q]:
                one = classes.union((q, i), (t, v)) or one
        if one:
            a, b = top(q), top(t)
            if a is not b:
                leader[a] = b
    groups: dict[Task, list[Task]] = {}
    for t, path in inner.items():
        if path:
            groups.setdefault(top(t), []).append(t)
    return [(g, classes) for g in groups.values() if any(len(inner[t]) > 1 for t in g)]


def _shared(
    inner: Mapping[Task, tuple[Var, ...]], t: Task, q: Task, at: tuple[Size, ...]
) -> int:
    """How many loops a task and one that it reads would have together."""
    pairs = zip(q.context, at, strict=False)
    return sum(e.single in inner[t] and i in inner[q] for i, e in pairs)


_Paths = dict[Task, tuple[Var, ...]]
_Order = tuple[_Class, ...]  # of all loops, outer ones first


def _order(graph: Graph, tasks: list[Task], classes: Classes, outer: _Outer) -> None:
    group = _Group(graph, tasks, classes, outer)
    order = group.deepest()
    if order is not None:
        for t, path in group.paths(group.in_rows(group.fewer(order))).items():
            t.path = path


class _Group:
    """Tasks that will share loops, and what an order of all these loops costs."""

    def __init__(
        self, graph: Graph, tasks: list[Task], classes: Classes, outer: _Outer
    ) -> None:
        self.graph = graph
        self.tasks = tasks
        self.outer = {t: outer(t) for t in tasks}
        inner = {t: t.path[len(outer(t)) :] for t in tasks}
        self.loops = {t: {i: classes.find((t, i)) for i in path} for t, path in inner.items()}
        self.line = {t: frozenset(of.values()) for t, of in self.loops.items()}
        self.sums = sorted((t for t in tasks if t.over), key=lambda t: -len(inner[t]))
        deepest = max(map(len, inner.values()))
        self.deep = [t for t in tasks if len(inner[t]) == deepest]
        # where nothing is added up, what stands still is no reason to leave what lies side by side
        self.at_least = 0 if self.sums else 1
        laid_out = graph.laid_out.intersection(tasks)
        self.first = _ranked(inner, classes, laid_out)
        self.laid_out = {t: path for t, path in self.paths(self.first).items() if t in laid_out}
        self.prices: dict[tuple[Task, Var], int] = {}
        self.chosen: list[_Class] = []  # loops that some go by, moved there

    def paths(self, order: _Order) -> _Paths:
        """The loops of all tasks in an order."""
        rank = {c: k for k, c in enumerate(order)}
        return {
            t: self.outer[t] + tuple(sorted(of, key=lambda i: rank[of[i]]))
            for t, of in self.loops.items()
        }

    def may_be(self, paths: _Paths) -> bool:
        """Whether an order is legal, and leaves what lies as its readers want it."""
        return all(paths[t] == path for t, path in self.laid_out.items()) and all(
            _legal(self.graph, t, path) for t, path in paths.items()
        )

    def price(self, tasks: Iterable[Task], paths: _Paths) -> int:
        """What the accesses of tasks cost, which their innermost loops decide."""
        total = 0
        for t in tasks:
            key = t, paths[t][-1]
            if key not in self.prices:
                self.prices[key] = price(self.graph, t, paths, self.at_least)
            total += self.prices[key]
        return total

    def deepest(self) -> _Order | None:
        """The best order for the deepest tasks, if any is legal."""
        best: _Order | None = None
        least = 0
        rest = dict.fromkeys(c for t in self.deep for c in self.loops[t].values())
        candidates = [self.first, *(_behind_all(self.first, c) for c in rest)]
        while candidates:
            before = best
            for order in candidates[:_TRIED]:
                paths = self.paths(order)
                if self.may_be(paths):
                    asked = self.price(self.deep, paths)
                    if best is None or asked < least:
                        best, least = order, asked
            if best is None or best in (before, self.first):
                break
            # those who share no loop with those that go by it, and who share one go by another
            self.chosen.append(best[-1])
            candidates = [_behind_all(best, c) for c in rest if c not in self.chosen]
        return best

    def fewer(self, order: _Order) -> _Order:
        """Sums in fewer loops than the deepest go by the best one that is in none of these."""
        settled = {c for t in self.deep for c in self.line[t]}
        least = self.price(self.tasks, self.paths(order))
        for t in self.sums:
            own = self.line[t] - settled if len(self.line[t]) > 1 else ()
            best = order
            for c in sorted(filter(self.may_follow, own), key=order.index):
                new = _behind_all(order, c)
                paths = self.paths(new)
                asked = self.price(self.tasks, paths)
                if asked < least and self.may_be(paths):
                    best, least = new, asked
            if best is not order:
                order = best
                self.chosen.append(best[-1])
                settled.update(*(line for line in self.line.values() if best[-1] in line))
        return order

    def may_follow(self, loop: _Class) -> bool:
        """Whether all that are in a loop may go by it: who is in a chosen one not if it is of
        another length each time, as rows of a triangle are, which often fill no vector."""
        if not self.graph.mentioned[loop[1]]:
            return True
        return all(line.isdisjoint(self.chosen) for line in self.line.values() if loop in line)

    def in_rows(self, order: _Order) -> _Order:
        """Where a sum goes over a loop that may be short, and over one by which its rows go on,
        what there are sums of between them stands around both: all rows are one sum then."""
        paths = self.paths(order)
        for t in self.sums:
            path, of = paths[t], self.loops[t]
            if path[-1] not in t.over or not _may_be_short(self.graph, path[-1]):
                continue
            for k in range(max(len(self.outer[t]), 1), len(path) - 2):
                if path[k] not in t.over or not {*path[k + 1 : -1]}.isdisjoint(t.over):
                    continue
                between = tuple(of[i] for i in path[k + 1 : -1])
                new = self.paths(_ahead(order, between, of[path[k]]))
                if self.has_longer_rows(new, paths, between):
                    order, paths = _ahead(order, between, of[path[k]]), new
                    break
        return order

    def has_longer_rows(self, new: _Paths, old: _Paths, moved: tuple[_Class, ...]) -> bool:
        """Whether more accesses go on where a row ends once some loops are moved, and no outermost
        loop is another one then, or innermost one."""
        mine = [t for t in self.tasks if not self.line[t].isdisjoint(moved)]
        if sum(_ends(t, new[t]) for t in mine) >= sum(_ends(t, old[t]) for t in mine):
            return False
        same = all((p[0], p[-1]) == (old[t][0], old[t][-1]) for t, p in new.items())
        return same and self.may_be(new)


def _behind_all(order: _Order, loop: _Class) -> _Order:
    """An order with one of the loops as the innermost one."""
    return (*(c for c in order if c != loop), loop)


def _ahead(order: _Order, moved: tuple[_Class, ...], loop: _Class) -> _Order:
    """An order with some of the loops right around another one."""
    rest = [c for c in order if c not in moved]
    at = rest.index(loop)
    return (*rest[:at], *moved, *rest[at:])


def _may_be_short(graph: Graph, i: Var) -> bool:
    """Whether a loop may have too few rounds for what it takes to begin it."""
    extent = graph.program.indices[i].extent
    known = extent.constant if extent is not None else None
    return known is None or known < _SHORT


def _ends(t: Task, path: tuple[Var, ...]) -> int:
    """How many accesses of a task do not go on where a row of its innermost loop ends."""
    if len(path) < 2:
        return 0
    accesses = [x.at for x in t.args if isinstance(x, Read)]
    if t.kind is Kind.ENTER:
        accesses.append(t.at)
    return sum(not _goes_on(at, *path[-2:]) for at in accesses)


def _goes_on(at: tuple[Size, ...], around: Var, inner: Var) -> bool:
    """Whether an access goes on with the next row, or goes to one row or element all the time; the
    ends of a window may be kept in range."""
    places = [k for k, e in enumerate(at) if around in variables(e)]
    row = [k for k, e in enumerate(at) if inner in variables(e)]
    if not places or (places, row) != ([len(at) - 2], [len(at) - 1]):
        return not places
    a = at[-2].single
    along = a.value if isinstance(a, Clamp) else at[-2]
    return along.coefficient(around) == at[-1].coefficient(inner) == 1


def _takes_over(t: Task) -> bool:
    """Whether a task of a round takes over a table that is changed in place: turned it would be
    another one."""
    if not takes_over(t):
        return False
    (table,) = t.args
    assert isinstance(table, Read)
    return any(s.task.var == table.var and s.task.kind in _CHANGED for s in t.sites)


def _beside_inner(graph: Graph, members: list[Task]) -> dict[Task, tuple[Var, ...]]:
    """What a round computes of the table of a loop inside, as each round of that leaves it, goes on
    in that loop, and so does a sum over its rounds: else the table would be kept for each. These
    tasks, with the loops that they share with that loop."""
    found: dict[Task, tuple[Var, ...]] = {}
    for t in sorted(members, key=lambda t: t.order):
        for s in t.sites:
            q = s.task
            loops = found.get(q, ())
            if q.kind in _CARRIED and len(q.units) > len(t.units):
                time = q.units[len(t.units)][0]
                inner = q.path[q.path.index(time) + 1 :] if time in q.path else ()
                if any(i in q.context for i in inner):
                    loops = q.path[: q.path.index(time) + 1]
            here = dict(zip(q.context, s.at, strict=False))
            own = tuple(v for i in loops if (v := here.get(i, size(0)).single) in t.path)
            if loops and len(own) == len(loops):
                path = (*own, *(i for i in t.path if i not in own))
                if _legal(graph, t, path):
                    t.path, found[t] = path, own
                break
    return found


def _times_first(graph: Graph, tasks: list[Task]) -> dict[Task, tuple[Var, ...]]:
    """What reads a recurrence at its time, and is in none itself, goes on in its loop: a sum over
    time is accumulated there, and what it adds up is never stored. These tasks, with the loops
    that they share with the recurrence, if they share others with none; and what comes after
    recurrences and shares no loop with them."""
    first: dict[Task, tuple[Var, ...]] = {}  # the loops down to that over the time
    timed: dict[Task, set[Var]] = {}  # the loops that it has in common with recurrences
    for t in sorted(tasks, key=lambda t: t.order):
        times = [t.path.index(i) for i, _ in t.units if i in t.path]
        if t.units:
            first[t] = t.path[: max(times, default=-1) + 1]
            timed[t] = set(first[t])
            continue
        timed[t] = {
            v for s in t.sites for i, e in zip(s.task.context, s.at, strict=False)
            if i in timed.get(s.task, ()) for v in _plain(e)
        }  # fmt: skip
        for s in sorted(t.sites, key=lambda s: not _is_end(s.task)):
            here = dict(zip(s.task.context, s.at, strict=False))
            rounds = first.get(s.task, ())
            own = t.cell.time if t.kind is Kind.FINAL and t.cell is not None else None
            around = [i for i, _ in s.task.units if i != own]
            counted = own is not None and graph.program.indices[own].condition is None
            if counted and rounds[-1:] == (own,) and not {*around}.isdisjoint(rounds):
                rounds = rounds[:-1]  # what a recurrence in another ends with comes after it
            wanted = [here[i].single if i in here else None for i in rounds]
            loops = tuple(dict.fromkeys(v for v in wanted if isinstance(v, Var) and v in t.path))
            if loops and len(loops) == len(wanted):
                path = (*loops, *(i for i in t.path if i not in loops))
                if _legal(graph, t, path):
                    t.path, first[t] = path, loops
                    if _is_end(s.task):
                        timed[t].intersection_update(loops)
                break
    _readers_first(graph, tasks, first)
    beside = {t: at for t, at in first.items() if not t.units and timed[t].issubset(at)}
    after: set[Task] = set()
    for t in sorted(tasks, key=lambda t: t.order):
        if not t.units and any(s.task.units or s.task in after for s in t.sites):
            after.add(t)
    shared = needed([t for t in tasks if timed[t] or t in first])
    return beside | {t: () for t in tasks if t in after and t not in shared}


def _is_end(q: Task) -> bool:
    """Whether a value is what a recurrence in a round of another ends with: who reads it comes
    after that, whatever else of the round it reads."""
    return q.kind is Kind.FINAL and bool(q.units) and q.cell is not None and q.cell.time is not None


def _plain(e: Size) -> tuple[Var, ...]:
    """The index that another one is, which two loops may then share."""
    v = e.single
    return (v,) if isinstance(v, Var) else ()


def _readers_first(graph: Graph, tasks: list[Task], first: dict[Task, tuple[Var, ...]]) -> None:
    """What only such tasks read goes on in that loop, too, though it does not read the recurrence:
    what was kept for each time, the other way round."""
    readers: dict[Task, list[tuple[Task, Site]]] = {}
    for t in tasks:
        for s in t.sites:
            readers.setdefault(s.task, []).append((t, s))
    for q in sorted(tasks, key=lambda t: -t.order):
        if q.kind is not Kind.COMPUTE or q.units or len(readers.get(q, ())) < q.uses:
            continue
        found = set()
        for t, s in readers.get(q, ()):
            mine = {e.single: i for i, e in zip(q.context, s.at, strict=False)}
            shared = first.get(t, ())
            alone = t.units and t.path == shared  # a number that waits: what does not comes before
            found.add(tuple(mine.get(i) for i in (() if alone else shared)))
        whole = len(found) == 1
        found.discard(())  # those who read what is stored read it as it lies
        loops = next(iter(found), ())
        own, now = tuple(i for i in loops if i is not None), first.get(q, ())
        if len(found) == 1 and len(own) > len(now) and own == loops and own[: len(now)] == now:
            path = (*own, *(i for i in q.path if i not in own))
            if _legal(graph, q, path):
                q.path = path
                if whole:
                    first[q] = own


def _ranked(
    paths: dict[Task, tuple[Var, ...]], classes: Classes, first: set[Task]
) -> _Order:
    """One order of all indices that keeps that of the deepest tasks, and of the others as far as
    that leaves it open: an index that is new stands before the one it stood before."""
    line: list[_Class] = []
    for t, path in sorted(paths.items(), key=lambda p: (-len(p[1]), p[0] not in first)):
        at = len(line)
        for i in reversed(path):
            c = classes.find((t, i))
            if c in line:
                at = line.index(c)
            else:
                line.insert(at, c)
    return tuple(line)


def _legal(graph: Graph, t: Task, path: tuple[Var, ...]) -> bool:
    if path == t.path:
        return True
    seen: set[Var] = set()
    for i in path:
        if not graph.mentioned[i] & set(path) <= seen:
            return False
        seen.add(i)
    if in_order(graph, t) and _within(path, t.over) != _within(t.path, t.over):
        return False
    if t.units and t.path[-1] in _tested(t) and path[-1] != t.path[-1]:
        return False  # its loop is cut to where the guards hold, which may be an edge
    if t.name in ("argmin", "argmax") and t.kind is Kind.ENTER:
        return path[-len(t.over) :] == t.over
    return True


def _tested(t: Task) -> set[Var]:
    """What a sum goes over and its guards have facts about."""
    facts = [g.fact for g in t.guards if g.fact is not None]
    return {v for f in facts for v in variables(f)} & set(t.over)


def _within(path: tuple[Var, ...], over: tuple[Var, ...]) -> list[Var]:
    return [i for i in path if i in over]
