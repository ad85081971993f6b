"""A loop's condition depends on all that it must be asked after, and on where it is asked.

    for t while c[t]:  v = checked(i[t], n)            c reads nothing that depends on v
    for t while d[t]:  d = after(c[t], v[t])           now the condition does

What it checks is checked each time that it is asked, also the last time: a check that it does not
depend on would belong to the rounds alone, of which there is none where the condition fails. One
that no round changes is still one of the loop, and of the loops around it.
"""

from __future__ import annotations

from collections.abc import Iterable

from naperian.ainf.syntax import Binding, Check, Number, Op, Operand, Read
from naperian.ainf.walk import (
    atoms,
    free,
    reads,
    rewrite,
    rewrite_guards,
    rewrite_size,
    variables,
)
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.passes.bindings.builder import Builder, Guards
from naperian.sizes import ZERO, Size, size


def with_values(b: Builder, first: int) -> None:
    """Assertions among the bindings from `first` on have a value, so that something can wait for
    them."""
    made, b.bindings[first:] = b.bindings[first:], []
    for c in made:
        if isinstance(c.prim, Check):
            fine = b.bind(Op("cast", (c.prim.condition,)), DType.I64, c.guards, c.origin)
            op = Op("checked", (Lit(0, DType.I64), fine), c.prim.code)
            b.add(op, c.context, c.guards, DType.I64, c.origin, c.var)
        else:
            b.bindings.append(c)


def checks_of(bindings: Iterable[Binding], again: Operand, time: Var) -> list[Binding]:
    """The checks in a round that a condition depends on."""
    made = {b.var: b for b in bindings if time in b.context}
    found: dict[Var, Binding] = {}
    work = [r.var for r in atoms(again) if isinstance(r, Read)]
    while work:
        v = work.pop()
        if v in made and v not in found:
            found[v] = made[v]
            work += (r.var for r in reads(made[v]))
    return [b for b in found.values() if isinstance(b.prim, Op) and b.prim.name == "checked"]


def after_checks(
    b: Builder, again: Operand, checks: Iterable[Binding], time: Var, around: Guards
) -> Operand:
    """A condition under the guards `around`, once the checks are there, each where its guards hold.
    Those in loops of their own are all there once the largest of their values is."""
    waits_for = {c.var for c in checks_of(b.bindings, again, time)}
    for c in checks:
        over = tuple(i for i in c.context if i not in b.closures[time])
        if c.var in waits_for or time not in c.context or any(b.extent(i) is None for i in over):
            continue
        value = Read(c.var, tuple(size(i) for i in c.context))
        own = tuple(g for g in c.guards if g not in around)
        inner = tuple(g for g in own if not set(over).isdisjoint(b.closed(free(g.operand))))
        outer = tuple(g for g in own if g not in inner)
        if over:
            names: dict[Var, Size] = {}
            for i in over:
                extent = b.extent(i)
                assert extent is not None
                names[i] = size(b.index(rewrite_size(extent, names), i.name))
            again_over = tuple(v for n in names.values() for v in variables(n))
            at = rewrite(value, names), rewrite_guards(inner, names, None)
            rounds = ((again_over, *at),)
            value = b.reduce("max", Lit(0, DType.I64), rounds, DType.I64, around + outer)
        seen: Operand = b.bind(Op("after", (again, value)), DType.BOOL, around + outer)
        for k in reversed(range(len(outer))):
            g, here = outer[k], around + outer[:k]
            sides = (seen, again) if g.holds else (again, seen)
            seen = b.bind(Op("select", (g.operand, *sides)), DType.BOOL, here)
        again = seen
    return again


def in_rounds(b: Builder, again: Operand, time: Var) -> Operand:
    """A condition in its loop and in those around that it is said to be in, though its value
    depends on none of them."""
    found = b.closed(free(again))
    lost = b.order(i for i in b.closures[time] if i not in found)
    if not lost or len(b.closures[time]) == 1:
        return again
    here = Number(sum(map(size, lost), start=ZERO))
    return b.op("after", (again, here), DType.BOOL, guards_of(b, again))


def guards_of(b: Builder, o: Operand) -> Guards:
    """The guards under which there is what an operand reads; an argument is always there."""
    if not isinstance(o, Read) or o.var not in b.guards:
        return ()
    names = dict(zip(b.contexts[o.var], o.at, strict=True))
    return rewrite_guards(b.guards[o.var], names)
