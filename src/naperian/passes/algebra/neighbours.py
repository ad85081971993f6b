"""The neighbour of an element that data name is found without a division. ainf → ainf

    a: t=>Fin(n)       x[wrap(a[k] - 1, n)]   ⇒   x[a[k] - 1 + n·clamp(1 - a[k], 2)]
                       x[wrap(a[k] + 1, n)]   ⇒   x[a[k] + 1 - n·clamp(a[k] + 2 - n, 2)]

The law: wrap(e, n) = e + n·[e < 0] - n·[e ≥ n] for -n ≤ e < 2·n, and [e > 0] = clamp(e, 2). What a
caller's indices are is known (`distrust`): from 0 to n - 1. A loop's own index needs no division in
any case (`digits`, `cut`).
"""

from __future__ import annotations

from naperian.ainf.syntax import Operand, Program, Read
from naperian.ainf.walk import map_prim, reads, rewrite, rewrite_size
from naperian.node import replace
from naperian.sizes import Atom, Remainder, Size, clamp, size, substitute


def neighbours(program: Program) -> Program:
    """See the module."""
    bounds = {p.var: p.bound for p in program.params if p.bound is not None}
    if not bounds:
        return program

    def turned(a: Atom) -> Size | None:
        if not isinstance(a, Remainder):
            return None
        e, n = a.above, a.below
        here = e - e.offset
        it = here.single
        if not isinstance(it, Read) or bounds.get(it.var) != n:
            return None
        if e.offset == -1:
            return e + n * clamp(-e, size(2))
        return e - n * clamp(e - n + 1, size(2)) if e.offset == 1 else None

    def index(s: Size) -> Size:
        return substitute(rewrite_size(s, {}, read), turned)

    def read(r: Read) -> Operand:
        at = tuple(substitute(e, turned) for e in r.at)
        return r if at == r.at else Read(r.var, at)

    bindings = tuple(
        replace(b, prim=map_prim(b.prim, lambda o: rewrite(o, {}, read), index))
        if any(r.var in bounds for r in reads(b)) else b
        for b in program.bindings
    )  # fmt: skip
    return replace(program, bindings=bindings)

