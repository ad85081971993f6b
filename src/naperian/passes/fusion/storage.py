"""Where values live, read off the loop tree.

A value that is read only in the nests it is made in is a register. Otherwise it is stored for as
long as the nests shared by maker and readers last (its `scope`); the indices opened inside are the
axes of its buffer. A value that is a result is written straight into the result's buffer.

A cell is a register if all its tasks stand in the nests of its first value. A carried array has
two copies that take turns, by the parity of its time, unless every read of it is at the very
element that is written after; it has all of them if somebody outside its loop asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from naperian.ainf.syntax import Read
from naperian.ainf.walk import variables
from naperian.names import Var, fresh
from naperian.node import node
from naperian.passes.bindings.packed import Layout
from naperian.passes.fusion.graph import (
    WHOLE,
    Cell,
    Graph,
    Item,
    Kind,
    Nest,
    Site,
    Task,
    cost,
    task_reads,
)

_DEAR = 4  # additions
_VALUES = (Kind.COMPUTE, Kind.FINAL, Kind.ROUNDS, *WHOLE)


@node
class Memory:
    """A buffer that holds a value or cell over `axes`, which are its task's indices (and, if all
    values of a carried one are kept, that of its time). `temp` is False for the buffer of a
    result."""

    buffer: Var
    axes: tuple[Var, ...]
    layout: Layout
    temp: bool = True


@node
class Storage:
    """The memory of tasks and of cells; those that are missing are registers. `homes` are the
    result buffers that tasks write. `before` are the buffers to allocate before an item."""

    tasks: dict[Task, Memory]
    cells: dict[Cell, Memory]
    homes: dict[Task, Memory]
    before: dict[Item, list[tuple[Memory, Task | Cell]]]


def tasks_in(items: list[Item]) -> list[Task]:
    """All tasks of a tree, in order."""
    out: list[Task] = []
    stack = list(reversed(items))
    while stack:
        x = stack.pop()
        if isinstance(x, Nest):
            stack.extend(reversed(x.body))
        else:
            out.append(x)
    return out


def shared(a: Task, b: Task) -> int:
    """How many nests two tasks share."""
    n = 0
    for x, y in zip(a.nests, b.nests, strict=False):
        if x is not y:
            break
        n += 1
    return n


def is_view(t: Task, storage: Storage) -> bool:
    """Whether a `final` needs no memory of its own: it reads its cell's."""
    return (
        t.kind is Kind.FINAL and t.cell is not None and not t.cell.time and t.cell in storage.cells
    )


def place(graph: Graph, items: list[Item], grown: frozenset[Var] = frozenset()) -> Storage:
    """Decide for every task and cell of the tree. The result buffers in `grown` have sizes that
    are known only during the run: they are allocated before what first writes them."""
    tasks = tasks_in(items)
    storage = Storage({}, {}, {}, {})
    layout = graph.packing.layout
    position = {t: k for k, t in enumerate(tasks)}
    for t in tasks:
        t.scope = len(t.nests)
        if t.cell is not None:
            t.cell.scope = len(t.cell.start.nests)
    cells = list(dict.fromkeys(t.cell for t in tasks if t.cell is not None))
    readers: dict[Cell, list[tuple[Task, Site]]] = {}
    for t in tasks:
        for s in t.sites:
            q = s.task
            if q.kind in _VALUES:
                q.scope = min(q.scope, shared(q, t))
            elif s.carried and q.cell is not None:
                readers.setdefault(q.cell, []).append((t, s))
        if t.cell is not None and t.kind is not Kind.ROUNDS:
            t.cell.scope = min(t.cell.scope, shared(t, t.cell.start))
    for cell, found in readers.items():
        step = cell.writers[0]
        for t, _ in found:
            cell.scope = min(cell.scope, shared(t, cell.start))
            loop = next(k for k, n in enumerate(step.nests) if step.path[k] == cell.time)
            cell.history = cell.history or shared(t, step) <= loop
    for t in tasks:  # readers of a view read the cell
        for s in t.sites:
            q = s.task
            if q.kind is Kind.FINAL and q.cell is not None and not q.cell.time:
                if q.cell.scope < len(q.cell.start.nests):
                    q.cell.scope = min(q.cell.scope, shared(t, q.cell.start))
    for cell in cells:
        start = cell.start
        if cell.scope < len(start.nests) or cell.history:
            home = cell.final.home if cell.final is not None and not cell.time else None
            if home is not None and cell.final is not None:
                axes = tuple(cell.final.context[k] for k in home[1])
                storage.cells[cell] = Memory(home[0], axes, layout(axes), temp=False)
                continue
            axes = start.path[cell.scope :]
            if cell.history and cell.index is not None:
                axes = _over_time(graph, cell, axes)
            memory = Memory(fresh(cell.var), axes, layout(axes))
            storage.cells[cell] = memory
            _allocate(storage, start, cell.scope, memory, cell)
            if cell.time is not None and not cell.history:
                cell.in_place = _in_place(cell, readers.get(cell, []), position)
    for t in tasks:  # and where in the cell to look
        for s in t.sites:
            if is_view(s.task, storage):
                for place in s.task.sites:
                    if place.task.kind in _VALUES:
                        place.task.scope = min(place.task.scope, shared(place.task, t))
    reads = _reads(tasks)
    for t in tasks:
        if t.kind not in _VALUES or is_view(t, storage):
            continue
        if t.home is not None:
            axes = tuple(t.context[k] for k in t.home[1])
            storage.homes[t] = Memory(t.home[0], axes, layout(axes), temp=False)
        elif t.scope < len(t.nests) or t.kind in WHOLE:
            opened = t.path[: t.scope]
            inner = [i for i in t.path[t.scope :] if i in t.context]
            inner += [i for i in t.context if i not in inner and i not in opened]
            if t.kind is Kind.COMPUTE:
                inner = _windows_last(graph, reads.get(t.var, ()), t, inner)
            memory = Memory(fresh(t.var), tuple(inner), layout(tuple(inner)))
            storage.tasks[t] = memory
            _allocate(storage, t, t.scope, memory, t)
    for t in tasks:
        result = _result(storage, t, layout)
        if result is not None and result.buffer in grown:
            grown -= {result.buffer}
            _allocate(storage, t, 0, result, t)
    return storage


def _reads(tasks: list[Task]) -> dict[Var, list[Read]]:
    """Where each table is read, in order."""
    found: dict[Var, list[Read]] = {}
    for t in tasks:
        for r in task_reads(t):
            if isinstance(r, Read):
                found.setdefault(r.var, []).append(r)
    return found


def _windows_last(graph: Graph, reads: Iterable[Read], t: Task, axes: list[Var]) -> list[Var]:
    """The axes of a table of windows, which is gone through by places, `v[i - a, j - b, a, b]`:
    what is next to each other there is to lie so."""
    if any(graph.mentioned[i] for i in axes) or len(axes) < 2:
        return axes
    for r in reads:
        at = dict(zip(t.context, r.at, strict=True))
        moved = [i for i in axes if len({*variables(at[i])}) > 1]
        inside = {v for i in moved for v in variables(at[i])}
        windows = [i for i in axes if at[i].single in inside]
        last = moved[-1] if moved else axes[-1]
        if axes[axes.index(last) + 1 :] and {*axes[axes.index(last) + 1 :]} <= {*windows}:
            return [*(i for i in axes if i is not last), last]
    return axes


def _over_time(graph: Graph, cell: Cell, axes: tuple[Var, ...]) -> tuple[Var, ...]:
    """The axes of all values of a carried one: its time first, behind those of loops around it that
    are recurrences too, so that what one of their rounds makes lies together. If its loop is inside
    of others and goes along rows, it comes behind all of them: it is written as what it reads
    lies."""
    assert cell.index is not None
    if graph.mentioned[cell.index] & set(axes):
        return (*axes, cell.index)
    step = cell.writers[0]
    around = step.nests[: step.path.index(cell.time)] if cell.time in step.path else []
    opened = {i: n for i, n in zip(step.path, around, strict=False)}
    outer = tuple(i for i in axes if i in opened)
    if not _goes_along_rows(graph, cell):
        along = {*axes}
        outer = tuple(i for i in outer if opened[i].times and not graph.mentioned[i] & along)
    return (*outer, cell.index, *(i for i in axes if i not in outer))


def _goes_along_rows(graph: Graph, cell: Cell) -> bool:
    """Whether the rounds read arrays beside each other, and none across. Where they compute much,
    rows go side by side (`nests/lanes.py`), and what those have at one time is to lie together."""
    step, found = cell.writers[0], False
    for t in step.nests[-1].members:
        if cost(t) >= _DEAR:
            return False
        for r in task_reads(t):
            q = graph.source.get(r.var) if isinstance(r, Read) else None
            if q is not None and q.cell not in (None, cell) and q.cell.time is not None:
                return False  # of another history, which lies by times
            if isinstance(r, Read) and (q is None or shared(q, step) != len(step.nests)):
                times = [cell.time in variables(e) for e in r.at]
                if any(times[:-1]):
                    return False
                found = found or any(times)
    return found


def _result(
    storage: Storage, t: Task, layout: Callable[[tuple[Var, ...]], Layout]
) -> Memory | None:
    """The result buffer that a task writes."""
    if t.kind is Kind.PUT:
        return Memory(t.var, t.context, layout(t.context), temp=False)
    memory = storage.homes.get(t) or (storage.cells.get(t.cell) if t.cell is not None else None)
    return memory if memory is not None and not memory.temp else None


def _allocate(
    storage: Storage, t: Task, scope: int, memory: Memory, what: Task | Cell
) -> None:
    item: Item = t.nests[scope] if len(t.nests) > scope else t
    storage.before.setdefault(item, []).append((memory, what))


def _in_place(
    cell: Cell, readers: list[tuple[Task, Site]], position: dict[Task, int]
) -> bool:
    """Whether nobody reads an element after its next value is stored: a reader is done before the
    nest of the step begins, or stands in that nest and reads the very element written after."""
    step = cell.writers[0]
    time = next(k for k, i in enumerate(step.path) if i == cell.time)
    for t, s in readers:
        if position[t] > position[step]:
            return False
        if shared(t, step) == time + 1 < len(step.nests):
            continue
        if t.nests != step.nests:
            return False
        for i, e in zip(step.context, s.at, strict=True):
            v = e.single
            if not isinstance(v, Var) or t.loops.get(v) != step.loops.get(i):
                return False
    return True
