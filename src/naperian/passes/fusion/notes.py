"""What a later loop asks of a table that is changed in place is noted in the loop that changes it.

    [for t: v = s[k[t]]; change s]  [for t: y = s as it was in round t, at k[t]]

Where the second loop cannot be the first, it would have `s` kept for every round, when it wants one
element of it in each. The first loop leaves that element:

    [for t: note[t] = s[k[t]]; …; change s]  [for t: y = note[t]]

It is asked when a loop is chosen for a group of tasks; a table that others want whole is kept
anyway, and is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from naperian.ainf.syntax import Guard, Read
from naperian.ainf.walk import free, variables
from naperian.names import Var, fresh
from naperian.passes.fusion.graph import (
    Graph,
    Kind,
    Nest,
    Site,
    Task,
    identity,
    link,
    map_reads,
    unlink,
)
from naperian.sizes import Size


def left_notes(
    graph: Graph, depth: int, group: list[Task], nest: Nest, barrier: int
) -> list[tuple[Task, Nest]]:
    """What tasks of a group, which goes into `nest`, ask of earlier loops: notes that these leave,
    each with its nest, and what is read there for one. The group reads the notes. Loops before
    number `barrier` leave none: a check behind them may be what says that a place is one. Nor do
    those behind `nest`: there the table is as the round has it."""
    made: list[tuple[Task, Nest]] = []
    for t in list(group):
        for s in list(t.sites):
            nests = s.task.nests
            if len(nests) <= depth or not barrier <= nests[depth].number < nest.number:
                continue
            home = _home(s.task, t, s.at, depth)
            if home is None:
                continue
            if t not in graph.tasks:  # but made again
                continue
            readers = _readers(graph, s, home, depth)
            if not all(_is_few(graph, x.task, q, x.at, depth) for q, x in readers):
                continue
            note = _note(graph, t, s, home, depth)
            if note is not None:
                made.append((note, home))
        end = _end(t, depth)
        if end is None or not barrier <= end.number < nest.number:
            continue
        if _is_alone(graph, t, end, depth):
            note = _held(graph, t, Read(t.var, identity(t.context)), t.path, t.order)
            note.nests, note.loops, note.parent = t.nests[:depth], dict(t.loops), t.parent
            for x in dict.fromkeys((*graph.tasks, *group)):
                if any(s.task is t for s in x.sites):
                    _reread(graph, x, t.var, note.var)
            link(graph, note)
            group.remove(t)
            made += ((t, end), (note, end))
    return made


def _home(q: Task, t: Task, at: tuple[Size, ...], depth: int) -> Nest | None:
    """The loop, beside that of a task, of a carried table that it reads as its own round has it."""
    if q.kind is not Kind.STEP or q.cell is None or q.cell.time is None:
        return None
    if not _is_round(q, [q.cell.time], t, at, depth):
        return None
    return q.nests[depth] if len(q.nests) > depth and q.nests[:depth] == t.nests[:depth] else None


def _end(t: Task, depth: int) -> Nest | None:
    """The same for what a round has made of such a table."""
    if t.kind is not Kind.FINAL or t.cell is None:
        return None
    start, last = t.cell.start, t.cell.writers[-1]
    times = [i for i, _ in start.units if i in start.path]
    if not times or not _is_round(start, times, t, t.at, depth) or len(last.nests) <= depth:
        return None
    return last.nests[depth] if last.nests[:depth] == t.nests[:depth] else None


def _is_round(q: Task, times: list[Var], t: Task, at: tuple[Size, ...], depth: int) -> bool:
    """Whether a task reads another one, which goes round with `times`, as the round has it that
    its own loops are at, and at the index of its loop there."""
    here = dict(zip(q.context, at, strict=True))
    rounds = q.path[: max(depth, *map(q.path.index, times)) + 1]
    mine = t.path[: len(rounds)]
    return len(mine) == len(rounds) and all(
        i in here and here[i].single == j for i, j in zip(rounds, mine, strict=True)
    )


def _readers(graph: Graph, s: Site, home: Nest, depth: int) -> Iterator[tuple[Task, Site]]:
    """Who reads a table elsewhere than in its loop, or is not placed yet."""
    table = s.task
    for t in graph.tasks:
        for x in t.sites:
            if x.task is table and t.kind is not Kind.FINAL:
                if t.nests[depth : depth + 1] != [home]:
                    yield t, x


def _is_few(graph: Graph, q: Task, t: Task, at: tuple[Size, ...], depth: int) -> bool:
    """Whether a read asks for a few elements of a carried table in a round: in fewer loops than it
    has axes."""
    assert q.cell is not None
    assert q.cell.time is not None
    return _is_round(q, [q.cell.time], t, at, depth) and len(_asked(graph, t, at)) < len(at)


def _is_alone(graph: Graph, t: Task, home: Nest, depth: int) -> bool:
    """Whether all that is read elsewhere of what a round has made is a few elements, and what says
    where this is one is there in time."""
    if not all(s.task.cell is t.cell or _is_there(t, s, home, depth) for s in t.sites):
        return False
    for x in graph.tasks:
        if x.cell is t.cell and x.kind is Kind.FINAL and x.nests[depth : depth + 1] != [home]:
            if _end(x, depth) is not home or len(x.path) >= len(x.at):
                return False
    return True


def _asked(graph: Graph, t: Task, at: tuple[Size, ...]) -> tuple[Var, ...]:
    """The loops of a task that its read depends on."""
    found = {v for e in at for v in variables(e)}
    found |= {v for g in t.guards for v in free(g.operand)}
    found |= {v for i in t.path if i in found for v in graph.mentioned[i]}
    return tuple(i for i in t.path if i in found)


def _note(graph: Graph, t: Task, s: Site, home: Nest, depth: int) -> Task | None:
    """A note of a read, if all that says where it reads is there in time."""
    path = _asked(graph, t, s.at)
    if path[: depth + 1] != t.path[: depth + 1]:
        return None
    read = Read(s.task.var, s.at)
    note = _held(graph, s.task, read, path, t.order, t.guards)
    link(graph, note)
    note.nests, note.loops, note.parent = t.nests[:depth], dict(t.loops), t.parent
    if not all(x.task is s.task or _is_there(note, x, home, depth) for x in note.sites):
        unlink(note)
        return None
    new = Read(note.var, identity(path))
    map_reads(graph, t, lambda r: new if r == read else None)
    return note


def _held(
    graph: Graph, of: Task, read: Read, path: tuple[Var, ...], order: int,
    guards: tuple[Guard, ...] = (),
) -> Task:  # fmt: skip
    note = Task(
        Kind.COMPUTE, fresh(of.var), of.dtype, path, path, "held", (read,),
        guards=guards, origin=of.origin, order=order,
    )  # fmt: skip
    graph.source[note.var] = note
    return note


def _reread(graph: Graph, t: Task, old: Var, new: Var) -> None:
    map_reads(graph, t, lambda r: Read(new, r.at) if r.var == old else None)


def _is_there(note: Task, s: Site, home: Nest, depth: int) -> bool:
    """Whether what a note reads is made before its loop, or at its round."""
    q = s.task
    if s.bound or q.level < 0:
        return False
    nests = q.nests[depth : depth + 1]
    if nests == [home]:
        return (q.kind is Kind.COMPUTE and not q.lazy) or _home(q, note, s.at, depth) is home
    return (nests[0].number if nests else q.level + 1) < home.number
