"""A product of matrices of which a condition on one index says what is there.

    out[t, j] = Σ_i x[t, i] * s[i, j]      where c[t]

    allocate places: i64[t]
    for t: if c[t]: places[some] = t; some += 1
    if some == t:
        contract out[t, j] = x[t, i] * s[i, j]
    else:
        for t: if not c[t]: for j: out[t, j] = 0.0
        for p < some, i: part[p, i] = x[places[p], i]
        contract made[p, j] = part[p, i] * s[i, j]
        for p < some, j: out[places[p], j] = made[p, j]

So it is for a condition on a column. One on what is summed, `Σ_t x[t, i] * y[t, j] if c[t]`, takes
what is there of both factors, and the sum is written where it belongs. Nothing else is read, so it
may be what it will; a copy takes next to nothing beside the product.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Contract,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Part,
    Role,
    Stmt,
    Store,
    Variable,
    When,
)
from naperian.names import Lit, Var, fresh, zero
from naperian.node import replace
from naperian.sizes import ONE, ZERO, Size, atom, places, rename, size, variables

_Body = tuple[Stmt, ...]


def selected(s: Contract, v: Var, asked: Load, holds: bool, order: Order) -> _Body:
    """The statements of a product that is there where `asked`, which reads an array at the index
    `v`, is `holds`; what is copied is so in loops of this order."""
    return _Selected(s, v, asked, holds, order).statements()


class _Selected:
    def __init__(self, s: Contract, v: Var, asked: Load, holds: bool, order: Order) -> None:
        self.s, self.v, self.asked, self.holds, self.order = s, v, asked, holds, order
        self.extents = dict((*s.batch, *s.rows, *s.columns, *s.inner))
        self.places, self.some = Var("places"), Var("some")

    def statements(self) -> _Body:
        s, n = self.s, self.extents[self.v]
        some = self.extents | {self.v: size(self.some)}
        before: list[Stmt] = []
        after: list[Stmt] = []
        for side in ("left", "right", "out"):
            whole: Part = getattr(s, side)
            axes = [v for e in whole[1] for v in variables(e) if v in self.extents]
            if self.v not in axes:
                continue
            part = (Var("part"), places(axes))
            shape = tuple([some[v] for v in axes])
            before.append(Allocate(Buffer(part[0], s.dtype, shape, Role.TEMP)))
            names = {v: fresh(v) for v in axes}
            here = {v: size(w) for v, w in names.items()}
            there = here | {self.v: atom(Load(self.places, (here[self.v],)))}
            if side == "out":
                before.append(self.nothing(axes, whole))
                to, of = _at(whole, there), _at(part, here)
            else:
                to, of = _at(part, here), _at(whole, there)
            copy = self.nest(axes, names, some, (Store(*to, Load(*of)),), self.order)
            (after if side == "out" else before).extend(copy)
            s = replace(s, **{side: part})
        groups = {g: tuple([(v, some[v]) for v, _ in getattr(s, g)])
                  for g in ("rows", "columns", "inner")}  # fmt: skip
        every = Apply("eq", (Local(self.some), Number(n)), DType.BOOL, DType.I64)
        return (*self.found(n), When(every, (self.s,), (*before, replace(s, **groups), *after)))

    def found(self, n: Size) -> _Body:
        """Where the condition holds, in order, and how often."""
        v, number, here = fresh(self.v), Var("number"), Var("here")
        more = Apply("add", (Local(number), Lit(1, DType.I64)), DType.I64, DType.I64)
        take = (Store(self.places, (size(here),), Number(size(v))), Assign(number, more))
        body = (Let(here, DType.I64, Local(number)), self.where(size(v), take, ()))
        return (
            Allocate(Buffer(self.places, DType.I64, (n,), Role.TEMP)),
            Variable(number, DType.I64, zero(DType.I64)),
            Loop(v, ZERO, n, body, Order.SERIAL),
            Let(self.some, DType.I64, Local(number)),
        )

    def where(self, v: Size, there: _Body, elsewhere: _Body) -> When:
        c = Load(*_at((self.asked.buffer, self.asked.at), {self.v: v}))
        return When(c, there, elsewhere) if self.holds else When(c, elsewhere, there)

    def nothing(self, axes: list[Var], out: Part) -> Stmt:
        """Zeros where the result is not there."""
        rest = [v for v in axes if v != self.v]
        names = {v: fresh(v) for v in axes}
        none = Store(*_at(out, {v: size(w) for v, w in names.items()}), zero(self.s.dtype))
        row = self.nest(rest, names, self.extents, (none,), Order.FREE)
        here = self.where(size(names[self.v]), (), row)
        (loop,) = self.nest([self.v], names, self.extents, (here,), self.order)
        return loop

    def nest(
        self, axes: list[Var], names: Mapping[Var, Var], extents: Mapping[Var, Size], body: _Body,
        order: Order,
    ) -> _Body:  # fmt: skip
        """Loops along axes, the outermost of this order."""
        for k, v in reversed([*enumerate(axes)]):
            work = prod((extents[w] for w in axes[k + 1 :]), start=ONE)
            body = (Loop(names[v], ZERO, extents[v], body, Order.FREE if k else order, (), work),)
        return body


def _at(part: Part, names: Mapping[Var, Size]) -> Part:
    return part[0], tuple([rename(e, names) for e in part[1]])
