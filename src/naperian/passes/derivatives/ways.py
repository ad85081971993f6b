"""The loops on every way from a value to the results.

    for t<k:  w = log(c[t])                                u: delay over t<k from x next v
    for t<k:  v = mul(u[t], w[t])                          s = add over j<m of y[j] · u[k]

    u: {m}      v, w: {k, m}, though only the next round reads v

Where one of them makes no rounds, no result hangs on the value, however far from that loop it is
made, in rounds of other loops and for their next ones. Told by sizes that are known at the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from naperian.ainf.syntax import Accumulate, Binding, Delay, Operand, Prim, Read
from naperian.ainf.walk import atoms_of, variables
from naperian.names import Var
from naperian.passes.bindings.builder import Builder
from naperian.passes.derivatives.active import flowing
from naperian.sizes import Size

Far: TypeAlias = tuple[Size, ...]


def ways(
    b: Builder, bindings: Mapping[Var, Binding], results: Iterable[Var]
) -> dict[Var, Far]:
    """How far the loops go on every way from what the bindings are and read to these results."""
    out: dict[Var, Far] = {v: () for v in results}
    backwards = [(x.var, [*_steps(b, x)]) for x in reversed([*bindings.values()])]
    before: dict[Var, Far] = {}
    while before != out:  # what a loop carries is read by what is made before it
        before = {**out}
        for v, steps in backwards:
            if v in out:
                for x, own in steps:
                    here = tuple(dict.fromkeys((*out[v], *own)))
                    out[x] = tuple(n for n in out.get(x, here) if n in here)
    return out


def _steps(b: Builder, x: Binding) -> Iterator[tuple[Var, Far]]:
    """What a binding reads, and how far the loops go that it reads that in."""
    for o, own in _read(x.prim):
        if isinstance(o, Read):
            found = map(b.extent, (*x.context, *own))
            yield o.var, tuple(n for n in found if n is not None and _is_given(b, n))


def _read(prim: Prim) -> Iterator[tuple[Operand, tuple[Var, ...]]]:
    """The operands that a derivative flows through, and the loops in a binding that read them."""
    match prim:
        case Accumulate(_, init, entries):
            yield init, ()
            yield from ((e.value, e.over) for e in entries)
        case Delay(time, _, init, next):
            yield init, ()
            yield next, (time,)
        case _:
            yield from ((o, ()) for o in flowing(prim))


def _is_given(b: Builder, n: Size) -> bool:
    """Whether a size is known at the call."""
    reads = all(isinstance(a, Read) and a.var in b.shapes for a in atoms_of(n))
    return reads and {*b.sizes}.issuperset(variables(n))
