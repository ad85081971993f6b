"""A sum of what is there or zero is there or zero. ainf → ainf

    for i, a, b if below[a, b]:  y = mul(u[i, a], w[i, b])
    for i, a, b:                 z = select(below[a, b], y[i, a, b], 0.0)
    for a, b:                    s = add over i of z[i, a, b]

    for i, a, b:                 y = mul(u[i, a], w[i, b])
    for a, b:                    t = add over i of y[i, a, b]
    for a, b:                    s = select(below[a, b], t[a, b], 0.0)

Zeros add up to zero, to the bit. What comes of it is a sum of products, which may be a contraction:
the adjoint of a triangle that many points share. Only half of a square, told by an order of two
indices, is computed in vain: of a diagonal nothing is.
"""

from __future__ import annotations

from math import copysign
from typing import TypeAlias

from naperian.ainf.syntax import Accumulate, Binding, Op, Operand, Program, Read
from naperian.ainf.walk import (
    free,
    rewrite,
    rewrite_guards,
    rewrite_size,
)
from naperian.names import Lit, Var
from naperian.node import node
from naperian.passes.algebra.cse import cse
from naperian.passes.algebra.prune import prune
from naperian.passes.bindings.builder import Builder
from naperian.passes.bindings.uses import Uses, summed

_ORDERS = ("lt", "le", "gt", "ge")
_TOTAL = ("mul", "neg", "add", "sub")


@node
class _Applied:
    """An operation without a guard."""

    of: Binding
    args: tuple[_Plan, ...]


_Plan: TypeAlias = Operand | _Applied


def chosen(program: Program) -> Program:
    """See the module."""
    found = _Choices(program)
    plans = {b.var: p for b in program.bindings if (p := found.choice(b)) is not None}
    if not plans:
        return program
    out = Builder(program.name, program.sizes, program.params)
    for i, index in program.indices.items():
        inside = [] if index.condition is None else free(index.condition)
        out.add_index(i, index, (v for v in inside if v in out.closures))
    for b in program.bindings:
        if b.var in plans:
            _swapped(out, b, *plans[b.var])
        else:
            out.add(b.prim, b.context, b.guards, b.dtype, b.origin, b.var)
    return prune(cse(out.program(program.results, program.failures, program.math, program.lines)))


class _Choices:
    """What is summed, and read by nothing else."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.uses = Uses(program)
        self.made = self.uses.made

    def choice(self, b: Binding) -> tuple[Operand, _Applied, Lit] | None:
        """The condition and the product of a sum of products or zeros."""
        entry = summed(b)
        found = None if entry is None else self.uses.alone(entry.value)
        if entry is None or b.guards or entry.guards or not b.dtype.is_float or found is None:
            return None
        z, names = found
        match z.prim:
            case Op("select", (Read() as below, y, Lit(0) as zero)) if (
                copysign(1, zero.value) > 0 and not z.guards
            ):
                condition = rewrite(below, names)
                order = self.made.get(below.var)
            case _:
                return None
        if order is None or not isinstance(order.prim, Op) or order.prim.name not in _ORDERS:
            return None
        if not set(free(condition)).isdisjoint(entry.over):
            return None
        product = self.uses.alone(y)
        if product is None or not isinstance(product[0].prim, Op) or product[0].prim.name != "mul":
            return None
        plan = self.everywhere(rewrite(y, names), condition)
        return (condition, plan, zero) if isinstance(plan, _Applied) else None

    def everywhere(self, o: Operand, condition: Operand) -> _Plan | None:
        """How an operand is made also where the condition does not hold."""
        b = self.made.get(o.var) if isinstance(o, Read) else None
        if not isinstance(o, Read) or b is None or not b.guards:
            return o if not isinstance(o, Read) or self.in_range(o) else None
        names = dict(zip(b.context, o.at, strict=True))
        if any(g.operand != condition for g in rewrite_guards(b.guards, names)):
            return None
        if not isinstance(b.prim, Op) or b.prim.name not in _TOTAL:
            return None
        args = tuple(self.everywhere(rewrite(a, names), condition) for a in b.prim.args)
        known = tuple(a for a in args if a is not None)
        return _Applied(b, known) if len(known) == len(args) else None

    def in_range(self, r: Read) -> bool:
        """Whether a read is of a whole axis wherever its indices are, or of its last element."""
        b = self.made.get(r.var)
        if b is not None:
            own = dict(zip(b.context, r.at, strict=True))
            shape = [self.program.indices[i].extent for i in b.context]
            extents = [None if n is None else rewrite_size(n, own) for n in shape]
        else:
            extents = [*next(p.shape for p in self.program.params if p.var == r.var)]
        sizes = {*self.program.sizes}
        for e, n in zip(r.at, extents, strict=True):
            i = e.single
            last = n is not None and n == e + 1 and sizes.issuperset(e.atoms)
            index = self.program.indices.get(i) if isinstance(i, Var) else None
            if n is None or not (last or (index is not None and index.extent == n)):
                return False
        return True


def _swapped(out: Builder, b: Binding, condition: Operand, product: _Applied, zero: Lit) -> None:
    """The choice of a sum, where the sum of a choice was."""
    assert isinstance(b.prim, Accumulate)
    (entry,) = b.prim.entries
    inner = ((entry.over, _made(out, product), ()),)
    total = out.reduce("add", b.prim.init, inner, b.dtype, (), b.origin)
    out.add(Op("select", (condition, total, zero)), b.context, (), b.dtype, b.origin, b.var)


def _made(out: Builder, plan: _Plan) -> Operand:
    if not isinstance(plan, _Applied):
        return plan
    assert isinstance(plan.of.prim, Op)
    args = tuple(_made(out, a) for a in plan.args)
    return out.op(plan.of.prim.name, args, plan.of.dtype, (), plan.of.origin)
