"""What a condition keeps goes where it belongs in one sequential pass. ainf → ainf

    before   for i<n:      one  = cast(c[i])
             for u<n + 1:  p    = delay over t<n from 0 next add(p[t], one[t])
                           k    = add over i<n of one[i]
             for i<n:      at   = select(c[i], p[i], -1)
             for j<k:      x    = add over i<n at [at[i]] of value[i] if at[i] >= 0, at[i] < k
    after    for q<n, u<n + 1:  table = delay over t<n from 0 next row[t, q]
             for t<n, q<n:      row   = last at [t, p[t]] of value[t] from table[q, t]
             for j<k:           x     = copy(table[j, n])

The law: before round t, the first p[t] places hold what was kept of the first t elements. Round t
stores its element at place p[t], which is at most t; if it is not kept, p[t + 1] = p[t], and the
next round stores over it. So after the last round the first k places hold all that is kept, and
nobody asks for others. There is no branch to predict, where half of the elements are kept, and no
element is added to another. Inside a loop over rows the table would be one for every row. Of a
table of two axes, element t is that of row t // m and column t % m.
"""

from __future__ import annotations

from collections.abc import Iterator

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Delay,
    Entry,
    Guard,
    Index,
    Number,
    Op,
    Operand,
    Program,
    Read,
)
from naperian.ainf.walk import rewrite
from naperian.dtypes import DType
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.sizes import Size, atom, natural, size

_NONE, _NOWHERE = Lit(0, DType.I64), Lit(-1, DType.I64)


def compact(program: Program) -> Program:
    """See the module."""
    made = {b.var: b for b in program.bindings}
    indices = dict(program.indices)
    bindings: list[Binding] = []
    for b in program.bindings:
        match b:
            case Binding(
                _, (j,), (), _, Accumulate("add", Lit(0), (Entry(over, (at,), value, tests),))
            ) if 1 <= len(over) <= 2:
                found = _Kept(made, indices, over, j)
                place = found.place(at, tests)
                if place is not None:
                    bindings += found.filled(b, place, value)
                    continue
            case _:
                pass
        bindings.append(b)
    return replace(program, indices=indices, bindings=tuple(bindings))


class _Kept:
    """The elements `over` of which some are kept, and the numbers `j` of these."""

    def __init__(
        self, made: dict[Var, Binding], indices: dict[Var, Index], over: tuple[Var, ...], j: Var
    ) -> None:
        self.made, self.indices = made, indices
        self.over, self.j = over, j

    def at(self, t: Var) -> dict[Var, Size] | None:
        """Which element is number `t`, row after row."""
        extents = [self.indices[i].extent for i in self.over]
        if any(n is None for n in extents):
            return None
        if len(self.over) == 1:
            return {self.over[0]: size(t)}
        columns = extents[1]
        assert columns is not None
        return {self.over[0]: size(t) // columns, self.over[1]: size(t) % columns}

    def number(self) -> Size | None:
        """The number of an element."""
        first, *rest = self.over
        if not rest:
            return size(first)
        columns = self.indices[rest[0]].extent
        return None if columns is None else size(first) * columns + size(rest[0])

    def are_numbered(self, t: Var) -> bool:
        """Whether `t` goes over the numbers of all elements."""
        if any(self.indices[i].condition is not None for i in (t, *self.over)):
            return False
        count = size(1)
        for i in self.over:
            extent = self.indices[i].extent
            if extent is None:
                return False
            count *= extent
        return self.indices[t].extent in (count, natural(count))

    def op(self, x: Operand, name: str, over: tuple[Var, ...]) -> tuple[Operand, ...] | None:
        """The operands of an operation on elements `over`, if that is what is read there."""
        match x:
            case Read(v, at) if at == tuple(map(size, over)) and v in self.made:
                b = self.made[v]
                if isinstance(b.prim, Op) and b.prim.name == name and not b.guards:
                    names = dict(zip(b.context, at, strict=True))
                    return tuple(rewrite(a, names) for a in b.prim.args)
            case _:
                pass
        return None

    def place(self, at: Size, tests: tuple[Guard, ...]) -> Binding | None:
        """How many are kept before an element, if it goes there."""
        key = at.single
        if not isinstance(key, Read):
            return None
        chosen = self.op(key, "select", self.over)
        if chosen is None:
            return None
        c, before, nowhere = chosen
        if nowhere != _NOWHERE or not isinstance(before, Read):
            return None
        place = self.made.get(before.var)
        if place is None or before.at != (self.number(),) or not isinstance(place.prim, Delay):
            return None
        t, prim = place.prim.time, place.prim
        here = self.at(t)
        if here is None or not self.are_numbered(t) or len(place.context) != 1:
            return None
        sums = self.op(prim.next, "add", (t,)) if prim.init == _NONE else None
        if sums is None or sums[0] != Read(place.var, (size(t),)):
            return None
        counts = self.op(sums[1], "cast", (t,)) == (rewrite(c, here),)
        return place if counts and self.are_all(c, key, tests) else None

    def are_all(self, c: Operand, key: Read, tests: tuple[Guard, ...]) -> bool:
        """Whether there are as many places as elements are kept, and no others are left out."""
        extent = self.indices[self.j].extent
        k = extent.single if extent is not None else None
        if not isinstance(k, Read) or k.at or k.var not in self.made:
            return False
        match self.made[k.var].prim:
            case Accumulate("add", Lit(0), (Entry(all_, (), value, ()),)) if (
                [self.indices[v] for v in all_] == [self.indices[i] for i in self.over]
                and self.op(value, "cast", all_)
                == (rewrite(c, dict(zip(self.over, map(size, all_), strict=True))),)
            ):
                pass
            case _:
                return False
        low, high = (key, _NONE), (key, Number(atom(k)))
        return all(
            t.holds and (self.op(t.operand, "ge", self.over) == low
                         or self.op(t.operand, "lt", self.over) == high)
            for t in tests
        )  # fmt: skip

    def filled(self, b: Binding, place: Binding, value: Operand) -> Iterator[Binding]:
        """The table, round by round, and what takes the place of the binding."""
        assert isinstance(place.prim, Delay)
        t = place.prim.time
        n, element = self.indices[t].extent, self.at(t)
        assert n is not None
        assert element is not None
        table, row = Var("which"), Var("row")
        q, r, u = Var("q"), Var("q"), fresh(t)
        self.indices |= {q: Index(n), r: Index(n), u: Index(n + 1)}
        here, own = size(t), rewrite(value, element)
        carried = Delay(t, u, Lit(0, b.dtype), Read(row, (here, size(q))))
        yield Binding(table, (q, u), (), b.dtype, carried, b.origin)
        there = (here, atom(Read(place.var, (here,))))
        put = Accumulate("last", Read(table, (size(r), here)), (Entry((), there, own),))
        yield Binding(row, (t, r), (), b.dtype, put, b.origin)
        yield replace(b, prim=Op("copy", (Read(table, (size(self.j), n)),)))
