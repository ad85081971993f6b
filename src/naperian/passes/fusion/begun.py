"""Arrays that rounds are added to begin before the rounds.

    for t in 0..n: for i: x[t, i] = …                 s[i] = 0
    s[i] = 0                                     ⇒    for t in 0..n:
    for t in 0..n: for i: s[i] += x[t, i] * y[i]          for i: s[i] += … * y[i]

If what a sum over the rounds of a recurrence starts with is there before its loop, the rounds are
added in the loop, and nothing is kept for all of them; so it is behind another recurrence, whose
rounds are in the table.
"""

from __future__ import annotations

from naperian.names import Var
from naperian.passes.fusion.graph import Graph, Kind, Task, needed, stops


def begun_before(graph: Graph) -> set[Task]:
    """What begins such arrays, and what that needs: none of the rounds that are added."""
    found: set[Task] = set()
    for t in graph.tasks:
        adds = t.kind is Kind.ENTER and t.path[:1] and t.path[0] in t.over and not t.units
        if adds and t.cell is not None:
            own = bool(t.at) and all(type(e.single) is Var for e in t.at)  # to all of a table
            start = needed([t.cell.start])
            values = needed([s.task for s in t.sites if s.task is not t.cell.start])
            late = any(q.units for q in start)  # after another recurrence
            wanted = _may_go_ahead(start, graph) if late else own
            if wanted and any(q.units for q in values - start):
                found |= start
    return found


def _may_go_ahead(start: set[Task], graph: Graph) -> bool:
    """Whether these tasks pass nothing that may stop, and no round of them waits for a question."""
    last = max(t.order for t in start)
    asked = any(time in graph.conditions for t in start for time, _ in t.units)
    return not asked and not any(
        stops(t) and t.order < last for t in graph.tasks if t not in start
    )
