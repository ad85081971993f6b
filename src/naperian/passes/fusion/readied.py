"""What a loop waits for though nothing in its recurrence needs it.

A loop that runs backwards over a strip of checkpoints carries cotangents, which need not depend on
the states that are made again: those of a linear loop do not. What is sent from its rounds depends
on both:

    for b<r, t<m': g' = delay over t from h[r - 1 - b] …    the states again
    for b<r, s<m': w  = delay over s …                      the cotangents
    for b<r, s<m': … g'[b, m' - 1 - s] … w[b, s] …          what is sent

The last line shares the loop of `w` only if all of `g'` is there before that begins. Else all that
it reads of `w` is kept for the whole strip, and of the loops inside for all strips in it.

So where the number of rounds waits for a loop around (`m'`, see `derivatives.again`), a recurrence
waits for all that is read from outside by what stands in its loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from naperian.ainf.syntax import Read
from naperian.dtypes import DType
from naperian.names import Var
from naperian.passes.fusion.graph import Graph, Kind, Site, Task, rounds

Waits: TypeAlias = Mapping[Task, list[Task]]


def readied(graph: Graph) -> Waits:
    """What steps wait for, beside what they need."""
    steps: dict[Var, list[Task]] = {}
    for t in graph.tasks:
        if t.kind is Kind.STEP and t.cell is not None and t.cell.time is not None:
            if _is_late(graph, t.cell.time):
                steps.setdefault(t.cell.time, []).append(t)
    waits: dict[Task, list[Task]] = {}
    for time, own in steps.items():
        read = {
            s.task: None for t in graph.tasks if time in t.path
            for s in t.sites if time not in s.task.path
        }  # fmt: skip
        later = _after(graph, own, frozenset(own[0].path) - {time}, waits)
        for t in own:
            waits[t] = [q for q in read if q not in later]
    return waits


def _is_late(graph: Graph, time: Var) -> bool:
    """Whether the number of a loop's rounds waits for a loop around it."""
    extent = rounds(graph.program.indices[time].extent)
    first = extent.single if extent is not None else None
    work: list[Task] = []
    if isinstance(first, Read) and first.var in graph.source:
        work.append(graph.source[first.var])
    while work:
        t = work.pop()
        if t.kind is Kind.COMPUTE and t.name == "after" and t.dtype is DType.I64:
            return True
        if t.kind is Kind.FINAL or t.name == "max":
            work += (s.task for s in t.sites if not s.bound and not s.carried)
    return False


def _after(
    graph: Graph, steps: list[Task], around: frozenset[Var], waits: Waits
) -> set[Task]:
    """All that depends on steps, in the same round of the loops over the times `around`, or behind
    them: there also what only later rounds have from the steps is read."""
    readers: dict[Task, list[tuple[Task, bool]]] = {}  # and whether the next round's is read
    for t, more in (*decided_together(graph, graph.tasks, around).items(), *waits.items()):
        for q in more:
            readers.setdefault(q, []).append((t, False))
    for t in graph.tasks:
        for s in t.sites:
            readers.setdefault(s.task, []).append((t, _is_given(t, s, around)))
    steppers = (t.cell for t in graph.tasks if t.kind is Kind.STEP)
    around = around.intersection(c.time for c in steppers if c is not None and c.time is not None)
    found: dict[Task, bool] = {}  # whether it is in a later round only
    work = [(t, False) for t in steps]
    while work:
        q, later = work.pop()
        if q in found and found[q] <= later:
            continue
        found[q] = later
        inside = around.intersection(q.path)
        for t, given in readers.get(q, ()):
            work.append((t, (later or given) and inside.issubset(t.path)))
    return {t for t, later in found.items() if not later}


def _is_given(t: Task, s: Site, around: frozenset[Var]) -> bool:
    """Whether a site reads what a loop around carries, in its round."""
    cell = s.task.cell
    if not s.carried or cell is None or cell.time not in around or cell.time not in t.path:
        return False
    return s.at[s.task.context.index(cell.time)].single == cell.time


def decided_together(
    graph: Graph, tasks: list[Task], open_: frozenset[Var]
) -> dict[Task, list[Task]]:
    """Edges from the first values of accumulators to the last task that goes into them, and a cycle
    of edges through everything in the loop of each `while` time, and its condition, and of each
    time whose rows stay in their round."""
    extra: dict[Task, list[Task]] = {}
    for t in tasks:
        if t.kind is Kind.START and t.cell is not None and t.cell.time is None:
            extra[t] = [t.cell.writers[-1]]
    times = (graph.conditions.keys() | graph.together) - open_
    if not times:
        return extra
    inside: dict[Var, dict[Task, None]] = {}
    for t in tasks:
        for i in t.path:
            if i in times:
                inside.setdefault(i, {})[t] = None
    for time, found in inside.items():
        condition = graph.conditions.get(time)
        if condition is not None:
            found[condition] = None
        mine = list(found)
        for a, b in zip(mine, mine[1:] + mine[:1], strict=True):
            extra.setdefault(a, []).append(b)
    return extra
