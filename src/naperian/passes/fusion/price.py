"""What the accesses of a task cost with one of its loops as the innermost.

    y[i] = Σ_j a[i, j]      by j: 1 and nothing, for y[i] is in a register; by i: 8, and 2 for y
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from naperian.ainf.syntax import Read
from naperian.ainf.walk import atoms_of, free, variables
from naperian.loops.syntax import WINDOW
from naperian.names import Var
from naperian.passes.fusion.graph import Graph, Kind, Task
from naperian.sizes import Clamp, Quotient, Remainder, Size, size

_STRIDED = 8  # an access with a stride, in accesses side by side
_STORED = 2  # an accumulator in memory instead of a register
_WAY = 16  # tasks on the way to what a sum reads
_NARROW = 8  # so few of them side by side do not fill a vector


def price(graph: Graph, t: Task, paths: Mapping[Task, tuple[Var, ...]], least: int) -> int:
    """What a task's accesses cost with these loops of all, each of them at `least` so much."""
    inner = paths[t][-1]
    total = 0
    for x in dict.fromkeys(t.args):
        if isinstance(x, Read) and x.at:
            q = graph.source.get(x.var)
            apart = q is None or q not in paths  # in memory, whatever the loops are
            if apart or any(not isinstance(e.single, Var) for e in x.at):
                total += max(least, _stride(graph, x if q is None else _as_it_lies(q, x), inner))
    if t.home is not None:
        order = tuple(t.context[k] for k in t.home[1])
        total += 1 if order[-1:] == (inner,) else _STRIDED if inner in order else 0
    if t.kind is Kind.PUT or (t.kind is Kind.ENTER and any(map(atoms_of, t.at))):
        total += _stride(graph, Read(t.var, t.at), inner)
    if t.kind is Kind.ENTER and inner not in t.over and t.over:
        extent = graph.program.indices[inner].extent
        narrow = extent is not None and (extent.constant or _NARROW) < _NARROW
        total += 2 * _STRIDED if narrow or _is_window(graph, t) else _STORED
        total += _across_its_result(graph, t, inner)
    return total


def _across_its_result(graph: Graph, t: Task, inner: Var) -> int:
    """What a sum costs that is added up in a result of the program, if that lies along another
    index. What is no result lies as its loops stand."""
    final = t.cell.final if t.cell is not None else None
    if final is None or final.home is None:
        return 0
    along = [t.at[k].single for k in final.home[1]]
    if inner not in along[:-1]:
        return 0
    apart = 1
    for v in along[along.index(inner) + 1 :]:
        extent = graph.program.indices[v].extent if isinstance(v, Var) else None
        apart *= (extent.constant if extent is not None else None) or _STRIDED
    return min(_STRIDED, apart)


def _is_window(graph: Graph, t: Task) -> bool:
    """Whether a task adds up a window of few elements: in a register, and its neighbours beside it
    are a vector."""
    extents = [graph.program.indices[i].extent for i in t.over]
    if not all(n is not None and n.constant is not None for n in extents):
        return False
    for q, here in _reading(t):
        for x in q.args:
            along = [variables(e) for e in x.at] if isinstance(x, Read) else []
            for found in along:
                inside = {here.get(v, v) for v in found}
                if not inside.isdisjoint(t.over) and not inside.isdisjoint(t.context):
                    return prod(_least(graph, vs) for vs in along) <= WINDOW
    return False


def _least(graph: Graph, along: tuple[Var, ...]) -> int:
    """How far a window goes along an axis: as far as the shortest of the loops that do."""
    loops = [graph.program.indices[v].extent for v in along if v in graph.program.indices]
    sizes = [n.constant for n in loops if n is not None and n.constant is not None]
    return min(sizes) if len(loops) > 1 and sizes else 1


def _reading(t: Task) -> Iterator[tuple[Task, dict[Var, Var]]]:
    """A task, those that compute what it reads, and so on; the names of its indices there."""
    work: list[tuple[Task, dict[Var, Var]]] = [(t, {i: i for i in t.path})]
    for q, here in work:
        yield q, here
        for s in q.sites:
            if s.task.kind is Kind.COMPUTE and s.task.home is None and len(work) < _WAY:
                names = zip(s.task.context, s.at, strict=False)
                there = {i: here[v] for i, e in names if (v := e.single) in here}
                work.append((s.task, there))


def _as_it_lies(q: Task, x: Read) -> Read:
    """A read of what a task stores as its loops stand; all values of a carried array by times."""
    if q.kind is Kind.STEP and q.cell is not None and q.cell.index in q.cell.context:
        at = dict(zip(q.cell.context, x.at, strict=True))
        around = [i for i in q.path[: q.path.index(q.cell.time)] if i in at]
        first = dict.fromkeys((*around, q.cell.index))
        return Read(x.var, tuple(at[i] for i in (*first, *(i for i in at if i not in first))))
    if q.kind is not Kind.COMPUTE or set(q.path) != set(q.context):
        return x
    at = dict(zip(q.context, x.at, strict=True))
    return Read(x.var, tuple(at[i] for i in q.path))


def _stride(graph: Graph, x: Read, inner: Var) -> int:
    where = [k for k, e in enumerate(x.at) if inner in variables(e) and _moves(graph, e, inner)]
    if not where:
        return 0
    last = x.at[where[-1]]
    a = last.single
    if isinstance(a, Clamp):
        last = a.value
    elif isinstance(a, Remainder) or (isinstance(a, Quotient) and a.below.constant):
        last = a.above
    apart = abs(last.coefficient(inner))
    if len(where) > 1 or not apart:
        return _STRIDED
    return min(_STRIDED, apart * _behind(graph, x, where[0]))


def _moves(graph: Graph, e: Size, inner: Var) -> bool:
    """Whether an index expression depends on an index, which a checked one stands in the loop of
    whether or not it does."""
    a = e.single
    q = graph.source.get(a.var) if isinstance(a, Read) else None
    if not isinstance(a, Read) or q is None or q.name != "checked":
        return True
    here = dict(zip(q.context, a.at, strict=True))
    return any(inner in variables(here.get(v, size(v))) for o in q.args for v in free(o))


def _behind(graph: Graph, x: Read, k: int) -> int:
    """How many elements lie behind one index, of those of an array of the program's: components
    of a vector, which share its lines of memory."""
    if k == len(x.at) - 1:
        return 1
    if x.var not in graph.params:
        return _STRIDED
    count = 1
    for n in graph.params[x.var].shape[k + 1 :]:
        count *= n.constant or _STRIDED
    return count
