"""Recurrences: the tasks that go round and round.

A `step` makes the value that is read in the next round, so the graph has cycles. Every cycle is a
*unit*: tasks that must share the loop over its time. All of a `while` loop's cells and what its
condition needs are one unit, for the condition decides for all of them. What an accumulator of a
round starts with belongs to the round, so that the accumulator need not be kept for all rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from naperian.ainf.walk import variables
from naperian.components import components
from naperian.names import Var
from naperian.passes.fusion.classes import Classes
from naperian.passes.fusion.graph import Graph, Kind, Task, operand_sizes
from naperian.passes.fusion.readied import Waits, decided_together, readied


def find_units(graph: Graph) -> None:
    """Mark the units, and put the tasks into an order in which producers come first (a unit's
    tasks stand together)."""
    if any(t.kind is Kind.STEP for t in graph.tasks):
        graph.tasks = _arranged(graph, graph.tasks, frozenset(), readied(graph))
    elif graph.moved:
        own = {t: k for k, t in enumerate(graph.tasks)}
        graph.tasks = _sorted(graph.tasks, own, _awaited(graph.tasks, frozenset(), {}))
    for n, t in enumerate(graph.tasks):
        t.order = n


def _arranged(
    graph: Graph, tasks: list[Task], open_: frozenset[Var], waits: Waits
) -> list[Task]:
    """Tasks in the loops over the times `open_`, in order. There the values that these loops
    carry are given, so a unit falls apart into the units inside it."""
    awaited = _awaited(tasks, open_, waits)
    component = _components(tasks, decided_together(graph, tasks, open_), awaited)
    members: dict[int, list[Task]] = {}
    for t in tasks:
        members.setdefault(component[t], []).append(t)
    order = _sorted(tasks, component, awaited)
    inside: dict[int, list[Task]] = {}
    for c, group in members.items():
        steps = [
            (t.cell.time, t) for t in group
            if t.kind is Kind.STEP and t.cell is not None and t.cell.time is not None
            and t.cell.time not in open_
        ]  # fmt: skip
        if steps:
            time = _outermost(steps)
            for t in group:
                t.units.append((time, group))
            _share_outer(graph, group, time, open_)
            inside[c] = _arranged(graph, group, open_ | {time}, waits)
    if not inside:
        return order
    out: list[Task] = []
    for t in order:
        c = component[t]
        if c not in inside:
            out.append(t)
        else:
            out += inside[c]
            inside[c] = []
    return out


def _outermost(steps: list[tuple[Var, Task]]) -> Var:
    """Of the times of steps, the one in whose loop the others stand."""
    times = dict.fromkeys(time for time, _ in steps)

    def depth(time: Var) -> tuple[int, int]:
        mine = [t for i, t in steps if i == time]
        around = max(sum(i in t.path for i in times) for t in mine)
        return around, min(len(t.context) for t in mine)

    return min(times, key=depth)


_Awaited = dict[Task, list[Task]]


def _awaited(tasks: list[Task], open_: frozenset[Var], waits: Waits) -> _Awaited:
    """What each of some tasks waits for among them, in the loops over the times `open_`."""
    mine = set(tasks)
    out: _Awaited = {}
    for t in tasks:
        found = out[t] = [q for q in waits.get(t, ()) if q in mine]
        for s in t.sites:
            q = s.task
            if q in mine and not (
                s.carried and open_ and q.cell is not None and q.cell.time in open_
            ):
                found.append(q)
    return out


def _share_outer(graph: Graph, unit: list[Task], time: Var, open_: frozenset[Var]) -> None:
    """All tasks of a unit stand in the same loops outside the one over its time: those down to the
    last of the times `open_`, and those that the source has there, if every read inside the unit
    is at the loops' own indices."""
    inside = [t for t in unit if time in t.path]
    classes = Classes()
    for i in graph.mentioned[time]:  # first: whatever is read elsewhere, its length is this one's
        for t in inside:
            classes.union((inside[0], i), (t, i))
    among = set(inside)
    edges = dict.fromkeys(  # which index of what is read is which atom of the reader; each once
        (t, s.task, i, e.single)
        for t in inside for s in t.sites if s.task in among
        for i, e in zip(s.task.context, s.at, strict=True)
    )  # fmt: skip
    for t, q, i, v in edges:
        if type(v) is Var and v in t.path and time not in (i, v):
            classes.union((q, i), (t, v))
    for i in _asked(graph, time):  # what the condition depends on, all depend on
        first = next(t for t in inside if i in t.path)
        for t in inside:
            if i in t.path:
                classes.union((first, i), (t, i))
            elif all(classes.find((t, j)) != classes.find((first, i)) for j in t.path):
                t.path = (i, *t.path)
                classes.union((first, i), (t, i))
    wanted: dict[tuple[Task, Var], Var] = {}
    for t in inside:
        if t.kind is not Kind.STEP:
            for i in t.path[: t.path.index(time)]:
                wanted.setdefault(classes.find((t, i)), i)
    for t, q, i, v in edges:
        c = classes.find((q, i))
        if c in wanted and not (type(v) is Var and classes.find((t, v)) == c):
            del wanted[c]
    for t in inside:  # a recurrence inside goes on in every round of this one
        own_time = t.cell.time if t.kind is Kind.STEP and t.cell is not None else None
        if own_time is not None:
            wanted.pop(classes.find((t, own_time)), None)
    own_ = [{classes.find((t, i)): i for i in t.path if i != time} for t in inside]
    wanted = {c: i for c, i in wanted.items() if all(c in own for own in own_)}
    needed = [i for i in graph.program.indices if i in graph.mentioned[time]]  # by its length
    wanted = {classes.find((inside[0], i)): i for i in needed} | wanted
    for t, own in zip(inside, own_, strict=True):
        shared = max((k + 1 for k, i in enumerate(t.path) if i in open_), default=0)
        outer = t.path[:shared]
        outer += tuple(own[c] for c in wanted if own[c] not in outer)
        rest = tuple(i for i in t.path if i not in outer and i != time)
        t.path = (*outer, time, *rest)
        if t.kind is Kind.STEP and t.cell is not None:
            t.cell.start.path = tuple(i for i in t.path if i in t.cell.start.context)


def _asked(graph: Graph, time: Var) -> list[Var]:
    """The indices that a loop's condition mentions, beside its time."""
    c = graph.program.indices[time].condition
    found = () if c is None else (v for e in operand_sizes(c) for v in variables(e))
    return [i for i in dict.fromkeys(found) if i in graph.program.indices and i != time]


def _components(
    tasks: list[Task], extra: dict[Task, list[Task]], awaited: _Awaited
) -> dict[Task, int]:
    """The numbers of the strongly connected components."""

    def following(t: Task) -> Iterator[Task]:
        return reversed(awaited[t] + extra.get(t, []))

    found = enumerate(components(tasks, following))
    return {t: number for number, members in found for t in members}


def _turn(t: Task) -> int:
    """Where a task stands in the source. What a recurrence ends with is there as soon as it has
    been through, though its step, which names what is bound later, was made last."""
    if t.kind is Kind.FINAL and t.cell is not None and t.cell.time is not None:
        return t.cell.start.order
    return t.order


def _sorted(
    tasks: list[Task], component: dict[Task, int], awaited: _Awaited
) -> list[Task]:
    """Producers first; the tasks of a component together."""
    members: dict[int, list[Task]] = {}
    for t in tasks:
        members.setdefault(component[t], []).append(t)
    waits: dict[int, int] = dict.fromkeys(members, 0)
    after: dict[int, list[int]] = {c: [] for c in members}
    for t in tasks:
        mine = component[t]
        for q in awaited[t]:
            theirs = component[q]
            if theirs != mine:
                waits[mine] += 1
                after[theirs].append(mine)
    ready: list[tuple[int, int]] = []
    first = {c: _turn(group[0]) for c, group in members.items()}
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
