"""Accumulations whose iterations go to different elements.

    for i<n: x[2·i] += a[i]; x[2·i + 1] += b[i]        each pair of elements belongs to one i

They are independent: nothing has to be put together after the loop, however many threads run it.
"""

from __future__ import annotations

from naperian.ainf.walk import variables
from naperian.names import Var
from naperian.passes.fusion.graph import Cell, Kind, Nest, Task
from naperian.sizes import Size


def apart(n: Nest, cell: Cell) -> bool:
    """Whether no two iterations of a nest go to the same element of an accumulator: on some axis,
    all its tasks there go to `c·i + d` with one `c`, and their `d` are less than `c` apart."""
    tasks = [t for t in n.members if t.kind is Kind.ENTER and t.cell is cell]
    return any(_on_axis(n, tasks, k) for k in range(len(cell.context)))


def _on_axis(n: Nest, tasks: list[Task], axis: int) -> bool:
    factors, rests = set(), set()
    for t in tasks:
        i = t.path[n.depth]
        e = t.at[axis]
        factor = e.coefficient(i)
        rest = e - Size((((i,), factor),)) if factor else e
        inner: set[Var] = set(t.path[n.depth :])
        if not factor or inner & set(variables(rest)):
            return False
        factors.add(factor)
        rests.add(rest)
    if len(factors) != 1:
        return False
    (factor,) = factors
    first = next(iter(rests))
    distances = [(r - first).constant for r in rests]
    known = [d for d in distances if d is not None]
    return len(known) == len(distances) and max(known) - min(known) < abs(factor)
