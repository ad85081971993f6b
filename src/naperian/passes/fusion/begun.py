"""Arrays that rounds are added to begin before the rounds.

    for t in 0..n: for i: x[t, i] = …                 s[i] = 0
    s[i] = 0                                     ⇒    for t in 0..n:
    for t in 0..n: for i: s[i] += x[t, i] * y[i]          for i: s[i] += … * y[i]

If what a sum over the rounds of a recurrence starts with is there before its loop, the rounds are
added in the loop, and nothing is kept for all of them.
"""

from __future__ import annotations

from naperian.names import Var
from naperian.passes.fusion.graph import Kind, Task, needed


def begun_before(tasks: list[Task]) -> set[Task]:
    """What begins such arrays, and what that needs, where it needs no recurrence itself."""
    found: set[Task] = set()
    for t in tasks:
        adds = t.kind is Kind.ENTER and t.path[:1] and t.path[0] in t.over and not t.units
        own = bool(t.at) and all(type(e.single) is Var for e in t.at)  # to every element of a table
        if adds and own and t.cell is not None:
            start = needed([t.cell.start])
            values = needed([s.task for s in t.sites if s.task is not t.cell.start])
            if any(q.units for q in values) and not any(q.units for q in start):
                found |= start
    return found
