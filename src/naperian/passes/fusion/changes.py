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
from naperian.passes.fusion.graph import Kind, Nest, Task, in_register, stops, takes_over


def changed_last(nest: Nest) -> None:
    """Put the tasks of a loop that carries tables into another order, if one is needed."""
    changes = [t for t in nest.members if _changes(t)] if nest.times else []
    if not changes:
        return
    one = _Round(nest)
    for change in changes:
        (read,) = change.args
        tables = {s.task for s in change.sites if isinstance(read, Read) and s.task.var == read.var}
        readers = [t for q in tables for t in one.readers.get(q, ()) if t is not change]
        if not any(t.order > change.order for t in one.done(readers, {change})):
            continue  # mostly: whatever waits for the change
        behind = one.behind(change)
        first = one.done([t for t in readers if t not in behind], behind)
        if not any(t.order > change.order for t in first):
            continue
        before = one.before(first)
        last = max((t.order for t in before), default=-1)
        moved = [t for t in nest.members if t in behind and t.order < last]
        if not moved or behind & before or any(map(stops, moved)):
            continue
        stay = [t for t in nest.members if t not in moved]
        at = 1 + max(k for k, t in enumerate(stay) if t in before)
        nest.members[:] = [*stay[:at], *moved, *stay[at:]]
        for n, t in enumerate(nest.members):  # their own: a value and its copy had the same
            t.order = n


def _changes(t: Task) -> bool:
    """Whether a round takes over a table here, to change it."""
    return t.kind is Kind.START and bool(t.units) and takes_over(t) and not in_register(t.cell)


class _Round:
    """The tasks of a round, and who waits for whom in it."""

    def __init__(self, nest: Nest) -> None:
        self.members = set(nest.members)
        self.around = {i for n in (*nest.members[0].nests, nest) for i in n.times}
        self.readers: dict[Task, list[Task]] = {}
        self.waiting: dict[Task, list[Task]] = {}  # those of them that do not read the round before
        for t in nest.members:
            for q in dict.fromkeys(s.task for s in t.sites):
                self.readers.setdefault(q, []).append(t)
            for q in dict.fromkeys(self.waits(t)):
                self.waiting.setdefault(q, []).append(t)

    def waits(self, t: Task) -> list[Task]:
        """What a task waits for in a round of the loops over the times around."""
        return [
            s.task for s in t.sites
            if not (s.carried and s.task.cell is not None and s.task.cell.time in self.around)
        ]  # fmt: skip

    def behind(self, change: Task) -> set[Task]:
        return self.reached([change], lambda t: self.waiting.get(t, []), together=True)

    def done(self, tasks: list[Task], behind: set[Task]) -> set[Task]:
        """Tasks, and those that read what is computed only where its readers are, but for those
        that need a change: the first best of a table's row compares its elements when it looks for
        it."""

        def following(t: Task) -> list[Task]:
            return [q for q in self.readers.get(t, ()) if q not in behind] if t.lazy else []

        return self.reached(tasks, following)

    def before(self, tasks: Iterable[Task]) -> set[Task]:
        return self.reached(tasks, self.waits, together=True)

    def reached(
        self, tasks: Iterable[Task], following: Callable[[Task], list[Task]], together: bool = False
    ) -> set[Task]:
        """Tasks, and all that follows; of a recurrence in a round, what has to do with one of its
        tasks has to do with all of them, `together`."""
        found, work = set(tasks), list(tasks)
        whole = set[int]()  # the recurrences that were met
        while work:
            t = work.pop()
            next_ = following(t)
            for time, unit in t.units if together else ():
                if time not in self.around and id(unit) not in whole:
                    whole.add(id(unit))
                    next_ = [*next_, *unit]
            for q in next_:
                if q in self.members and q not in found:
                    found.add(q)
                    work.append(q)
        return found
