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
from naperian.passes.fusion.graph import Kind, Task, needed, stops


def begun_before(tasks: list[Task]) -> set[Task]:
    """What begins such arrays, and what that needs: none of the rounds that are added."""
    found: set[Task] = set()
    for t in tasks:
        adds = t.kind is Kind.ENTER and t.path[:1] and t.path[0] in t.over and not t.units
        if adds and t.cell is not None:
            own = bool(t.at) and all(type(e.single) is Var for e in t.at)  # to all of a table
            start = needed([t.cell.start])
            values = needed([s.task for s in t.sites if s.task is not t.cell.start])
            late = any(q.units for q in start)  # after another recurrence
            wanted = _may_go_ahead(start, tasks) if late else own
            if wanted and any(q.units for q in values - start):
                found |= start
    return found


def _may_go_ahead(start: set[Task], tasks: list[Task]) -> bool:
    """Whether these tasks pass nothing that may stop."""
    last = max(t.order for t in start)
    return not any(stops(t) and t.order < last for t in tasks if t not in start)
