"""Recurrences: the tasks that go round and round.

A `step` makes the value that is read in the next round, so the graph has cycles. Every cycle is a
*unit*: tasks that must share the loop over its time. All of a `while` loop's cells and what its
condition needs are one unit, for the condition decides for all of them.
"""

from __future__ import annotations

from heapq import heappop, heappush

from naperian.ainf.syntax import Read
from naperian.names import Var
from naperian.passes.classes import Classes
from naperian.passes.graph import Graph, Kind, Task, operand_sizes, size_vars


def find_units(graph: Graph) -> None:
    """Mark the units, and put the tasks into an order in which producers come first (a unit's
    tasks stand together)."""
    steps = [t for t in graph.tasks if t.kind is Kind.STEP]
    if not steps and not graph.moved:
        return
    extra: dict[Task, list[Task]] = {}
    for time in graph.conditions:
        mine = [t for t in steps if t.cell is not None and t.cell.time == time]
        operand = graph.program.indices[time].condition
        if isinstance(operand, Read):
            condition = graph.source.get(operand.var)
            if condition is not None and condition not in mine:
                mine.append(condition)
        for a, b in zip(mine, mine[1:] + mine[:1], strict=True):
            extra.setdefault(a, []).append(b)
    component = _components(graph, extra) if steps else {t: k for k, t in enumerate(graph.tasks)}
    members: dict[int, list[Task]] = {}
    for t in graph.tasks:
        members.setdefault(component[t], []).append(t)
    for group in members.values():
        loops = [t for t in group if t.kind is Kind.STEP]
        if loops:
            for t in group:
                t.unit = group
            _share_outer(graph, group)
    graph.tasks = _sorted(graph, component, members)
    for n, t in enumerate(graph.tasks):
        t.order = n


def _share_outer(graph: Graph, unit: list[Task]) -> None:
    """All tasks of a unit stand in the same loops outside the one over its time: those that the
    source has there, if every read inside the unit is at the loops' own indices."""
    step = next(t for t in unit if t.kind is Kind.STEP)
    assert step.cell is not None
    time = step.cell.time
    assert time is not None
    inside = [t for t in unit if time in t.path]
    classes = Classes()
    edges = [(t, s) for t in inside for s in t.sites if s.task in inside]
    for t, s in edges:
        for i, e in zip(s.task.context, s.at, strict=True):
            v = e.single
            if isinstance(v, Var) and v in t.path and time not in (i, v):
                classes.union((s.task, i), (t, v))
    for i in _asked(graph, time):  # what the condition depends on, all depend on
        first, *others = [t for t in inside if i in t.path]
        for t in others:
            classes.union((first, i), (t, i))
    wanted: dict[tuple[Task, Var], Var] = {}
    for t in inside:
        if t.kind is not Kind.STEP:
            for i in t.path[: t.path.index(time)]:
                wanted.setdefault(classes.find((t, i)), i)
    for t, s in edges:
        for i, e in zip(s.task.context, s.at, strict=True):
            c = classes.find((s.task, i))
            v = e.single
            if c in wanted and not (isinstance(v, Var) and classes.find((t, v)) == c):
                del wanted[c]
    for t in inside:
        own = {classes.find((t, i)): i for i in t.path if i != time}
        outer = tuple(own.get(c, i) for c, i in wanted.items())
        rest = tuple(i for i in t.path if i not in outer and i != time)
        t.path = (*outer, time, *rest)
        if t.kind is Kind.STEP and t.cell is not None:
            t.cell.start.path = tuple(i for i in t.path if i in t.cell.start.context)


def _asked(graph: Graph, time: Var) -> list[Var]:
    """The indices that a loop's condition mentions, beside its time."""
    c = graph.program.indices[time].condition
    found = () if c is None else (v for e in operand_sizes(c) for v in size_vars(e))
    return [i for i in dict.fromkeys(found) if i in graph.program.indices and i != time]


def _components(graph: Graph, extra: dict[Task, list[Task]]) -> dict[Task, int]:
    """Strongly connected components (Tarjan, without recursion)."""
    low: dict[Task, int] = {}
    index: dict[Task, int] = {}
    component: dict[Task, int] = {}
    stack: list[Task] = []
    for root in graph.tasks:
        if root in index:
            continue
        walk: list[tuple[Task, list[Task]]] = []

        def enter(t: Task, walk: list[tuple[Task, list[Task]]] = walk) -> None:
            index[t] = low[t] = len(index)
            stack.append(t)
            walk.append((t, [s.task for s in t.sites] + extra.get(t, [])))

        enter(root)
        while walk:
            t, rest = walk[-1]
            if rest:
                q = rest.pop()
                if q not in index:
                    enter(q)
                elif q not in component:
                    low[t] = min(low[t], index[q])
                continue
            walk.pop()
            if walk:
                above = walk[-1][0]
                low[above] = min(low[above], low[t])
            if low[t] == index[t]:
                while True:
                    x = stack.pop()
                    component[x] = index[t]
                    if x is t:
                        break
    return component


def _sorted(
    graph: Graph, component: dict[Task, int], members: dict[int, list[Task]]
) -> list[Task]:
    waits: dict[int, int] = dict.fromkeys(members, 0)
    after: dict[int, list[int]] = {c: [] for c in members}
    for t in graph.tasks:
        mine = component[t]
        for s in t.sites:
            theirs = component[s.task]
            if theirs != mine:
                waits[mine] += 1
                after[theirs].append(mine)
    ready: list[tuple[int, int]] = []
    first = {c: group[0].order for c, group in members.items()}
    for c, n in waits.items():
        if n == 0:
            heappush(ready, (first[c], c))
    out: list[Task] = []
    while ready:
        _, c = heappop(ready)
        out += members[c]
        for d in after[c]:
            waits[d] -= 1
            if waits[d] == 0:
                heappush(ready, (first[d], d))
    return out
