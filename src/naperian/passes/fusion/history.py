"""What a round hands on to the next is kept once.

    for t: s[t + 1, i] = y[t, i];  … s[k - t - 1, i] … y[k - t - 2, i] …       two tables
    ⇒                              … s[k - t - 1, i] … s[k - t - 1, i] …       one

Where all values of what a loop carries are kept, because they are read in other rounds than their
own, what they are made of need not be kept beside them.
"""

from __future__ import annotations

from naperian.ainf.syntax import Read
from naperian.names import Var
from naperian.passes.fusion.graph import Graph, Kind, Task, map_reads, task_reads
from naperian.sizes import ONE, Size, size


def one_history(graph: Graph) -> None:
    """See the module."""
    made = {t: v for t in graph.tasks if (v := _handed_on(graph, t)) is not None}
    if not made:
        return
    readers: dict[Var, list[tuple[Task, Read]]] = {}
    for t in graph.tasks:
        for r in task_reads(t):
            if isinstance(r, Read):
                readers.setdefault(r.var, []).append((t, r))
    for step, value in made.items():
        (one,) = step.args
        assert isinstance(one, Read)
        cell = step.cell
        assert cell is not None
        assert cell.time is not None
        axes = [e.single for e in one.at]  # of the value, in the names of the step
        along, of_step = axes.index(cell.time), step.context.index(cell.time)
        if not any(_is_afar(r.at[of_step]) for _, r in readers.get(step.var, ())):
            continue

        def read(
            r: Read, v: Var = value.var, step: Task = step, axes: list[object] = axes,
            along: int = along,
        ) -> Read | None:  # fmt: skip
            if r.var != v or not _is_afar(r.at[along]):
                return None
            here = dict(zip(axes, r.at, strict=True))
            at = tuple(here[i] + (ONE if i == axes[along] else 0) for i in step.context)
            return Read(step.var, at)

        for t in dict.fromkeys(t for t, _ in readers.get(value.var, ())):
            if t is not step:
                map_reads(graph, t, read)


def _handed_on(graph: Graph, t: Task) -> Task | None:
    """The value that a step hands on as it is, for all of the same indices."""
    if t.kind is not Kind.STEP or t.cell is None or t.cell.time is None or t.guards:
        return None
    index = graph.program.indices[t.cell.time]
    if index.extent is None or index.condition is not None:
        return None
    match t.args:
        case (Read(v, at),):
            q = graph.source.get(v)
            if q is None or q.kind is not Kind.COMPUTE or q.home is not None or q.guards:
                return None
            whole = len(at) == len(t.context) and {*at} == {size(i) for i in t.context}
            return q if whole and t.cell.time in t.context else None
        case _:
            return None


def _is_afar(e: Size) -> bool:
    """Whether a round is another one than that of the reader."""
    return not isinstance(e.single, Var)
