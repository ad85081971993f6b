"""Tables of given numbers, and the places that are made of them.

    c = [0, 1, -1]                     for q<3: v = select(eq(q, 1), 1, -1)
                                       for q<3: c = select(eq(q, 0), 0, v)       c[2] is -1
    f[wrap(i - c[q]), q]               q says how far away from i the place is
"""

from __future__ import annotations

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne

from naperian.ainf.syntax import Number, Operand, Read, Trips
from naperian.ainf.walk import atoms_of, variables
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.passes.fusion.graph import Graph, Kind, Task, rename_operand, rewrite_size, task_reads
from naperian.prims import convert, scalar
from naperian.sizes import Size, size

COMPARED: dict[str, Callable[[float, float], bool]] = {
    "eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge
}  # fmt: skip


def constant(x: Operand) -> int | None:
    """The whole number that an operand is, if it is one."""
    match x:
        case Number(value):
            return value.constant
        case Lit(int() as value):
            return value
        case _:
            return None


def is_of(e: Size, context: tuple[Var, ...]) -> bool:
    """Whether an index expression is made of these indices and numbers alone."""
    return not atoms_of(e) and all(v in context for v in variables(e))


class Given:
    """The tables of a graph that choose among numbers by their indices."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.asked: dict[Var, bool] = {}
        self.elements: dict[Read, Lit] = {}

    def distances(self, most: int) -> frozenset[tuple[Task, Var]]:
        """The indices of tasks, of at most so many elements, that say how far away from others a
        place is."""
        short = {i for i in self.graph.program.indices if self.is_short(i, most)}
        out = set()
        for t in self.graph.tasks if short else ():
            for e in (*t.at, *[e for r in task_reads(t) if isinstance(r, Read) for e in r.at]):
                if not e.plain:
                    out |= {(t, v) for v in self.in_place(e) & short if v in t.path}
        return frozenset(out)

    def in_place(self, e: Size) -> set[Var]:
        """The indices that say which given number stands in a place with others."""
        tables = [a for a in atoms_of(e) if isinstance(a, Read) and self.is_given(a.var)]
        inside = {v for a in tables for x in a.at for v in variables(x)}
        indices = self.graph.program.indices
        return inside if any(v in indices and v not in inside for v in variables(e)) else set()

    def is_short(self, i: Var, most: int) -> bool:
        index = self.graph.program.indices[i]
        n = None if index.extent is None else index.extent.constant
        return n is not None and n <= most

    def is_given(self, v: Var) -> bool:
        """Whether all elements of a value are numbers that its indices alone choose."""
        if v not in self.asked:
            t = self.graph.source.get(v)
            self.asked[v] = t is not None and t.kind is Kind.COMPUTE and (
                t.name in COMPARED or t.name in ("select", "cast", "copy")
            ) and all(self.is_of_indices(t, x) for x in t.args)
        return self.asked[v]

    def is_of_indices(self, t: Task, x: Operand) -> bool:
        """Whether an operand is a number, an index of the task, or a choice by these."""
        match x:
            case Number(s):
                return is_of(s, t.context)
            case Read(var, at):
                return all(is_of(e, t.context) for e in at) and self.is_given(var)
            case Lit():
                return True

    def element(self, x: Operand) -> Lit | None:
        """What is read of a table of given numbers at a place that is known."""
        if not isinstance(x, Read) or any(e.constant is None for e in x.at):
            return None
        if x not in self.elements and self.is_given(x.var):
            self.elements[x] = self.chosen(x)
        return self.elements.get(x)

    def chosen(self, x: Read) -> Lit:
        t = self.graph.source[x.var]
        names = dict(zip(t.context, x.at, strict=True))
        args = [rename_operand(a, names) for a in t.args]
        if t.name == "select":
            return self.value(args[1 if self.value(args[0]).value else 2])
        first, *rest = map(self.value, args)
        if t.name in COMPARED:
            (second,) = rest
            return Lit(COMPARED[t.name](first.value, second.value), DType.BOOL)
        return Lit(convert(scalar(first.value, first.dtype), t.dtype).item(), t.dtype)

    def known(self, e: Size) -> Size:
        """An index expression with the numbers that are known."""
        return e if e.plain else rewrite_size(e, self.atom)

    def atom(self, a: Read | Trips | Var) -> Size | None:
        found = self.element(a) if isinstance(a, Read) else None
        return None if found is None else size(int(found.value))

    def value(self, x: Operand) -> Lit:
        """A given number."""
        known = constant(x)
        found = x if isinstance(x, Lit) else self.element(x) if known is None else (
            Lit(known, DType.I64)
        )
        assert found is not None
        return found
