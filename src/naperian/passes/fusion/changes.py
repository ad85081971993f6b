"""A round changes a table in place after it was read: what does not need the change goes before it.

    for t:  new = last at [i[t]] of v[t] from s[t]          for t:  r = Σ_j s[t, j] · w[j]
    for t:  r = Σ_j s[t, j] · w[j]                     ⇒            change s

Where two recurrences share a loop, the one that the other reads stands first, with its change; what
is read of its table then would be read of a copy; and what looks for the first best of a row, for a
derivative, was made last. What is printed or may fail after a change stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from naperian.ainf.syntax import Read
from naperian.names import Var
from naperian.passes.fusion.graph import Kind, Nest, Task, in_register, stops, takes_over


def changed_last(nest: Nest) -> None:
    """Put the tasks of a loop that carries tables into another order, if one is needed."""
    if not nest.times:
        return
    around = {i for n in (*nest.members[0].nests, nest) for i in n.times}
    for change in [t for t in nest.members if _changes(t)]:
        (read,) = change.args
        tables = {s.task for s in change.sites if isinstance(read, Read) and s.task.var == read.var}
        readers = [t for t in nest.members if any(s.task in tables for s in t.sites)]
        behind = _behind(nest.members, change, around)
        first = _done(nest.members, [t for t in readers if t not in behind], behind)
        if not any(t.order > change.order for t in first):
            continue
        before = _before(nest.members, first, around)
        last = max((t.order for t in before), default=-1)
        moved = [t for t in nest.members if t in behind and t.order < last]
        if not moved or behind & before or any(map(stops, moved)):
            continue
        orders = sorted(t.order for t in nest.members)
        stay = [t for t in nest.members if t not in moved]
        at = 1 + max(k for k, t in enumerate(stay) if t in before)
        nest.members[:] = [*stay[:at], *moved, *stay[at:]]
        for t, n in zip(nest.members, orders, strict=True):
            t.order = n


def _changes(t: Task) -> bool:
    """Whether a round takes over a table here, to change it."""
    return t.kind is Kind.START and bool(t.units) and takes_over(t) and not in_register(t.cell)


def _with(t: Task, around: set[Var]) -> list[Task]:
    """The recurrences in a round that a task belongs to: what has to do with one of their tasks has
    to do with all."""
    return [q for time, tasks in t.units if time not in around for q in tasks]


def _waits(t: Task, around: set[Var]) -> list[Task]:
    """What a task waits for in a round of the loops over the times `around`."""
    return [
        s.task for s in t.sites
        if not (s.carried and s.task.cell is not None and s.task.cell.time in around)
    ]  # fmt: skip


def _behind(members: list[Task], change: Task, around: set[Var]) -> set[Task]:
    readers: dict[Task, list[Task]] = {}
    for t in members:
        for q in _waits(t, around):
            readers.setdefault(q, []).append(t)
    return _reached(members, [change], lambda t: [*readers.get(t, ()), *_with(t, around)])


def _done(members: list[Task], tasks: list[Task], behind: set[Task]) -> set[Task]:
    """Tasks, and those that read what is computed only where its readers are, but for those that
    need a change: the first best of a table's row compares its elements when it looks for it."""
    readers: dict[Task, list[Task]] = {}
    for t in members:
        for s in t.sites if t not in behind else ():
            readers.setdefault(s.task, []).append(t)
    return _reached(members, tasks, lambda t: readers.get(t, []) if t.lazy else [])


def _before(members: list[Task], tasks: set[Task], around: set[Var]) -> set[Task]:
    return _reached(members, tasks, lambda t: [*_waits(t, around), *_with(t, around)])


def _reached(
    members: list[Task], tasks: Iterable[Task], following: Callable[[Task], list[Task]]
) -> set[Task]:
    mine, found, work = set(members), set(tasks), list(tasks)
    while work:
        for q in following(work.pop()):
            if q in mine and q not in found:
                found.add(q)
                work.append(q)
    return found
