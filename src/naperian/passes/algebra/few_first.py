"""What a few components add to one place is added up before. ainf → ainf

    before   for i, t, k<3, j:  x = …                 in the rounds of a loop over t
             for j:             a = add over i, k<3, t of x[i, t, k, j]
    after    for i, t, j:       s = add(x[i, t, 0, j], x[i, t, 1, j])
             for i, t, j:       r = add(s[i, t, j], x[i, t, 2, j])
             for j:             a = add over i, t of r[i, t, j]

A sum that goes on from round to round is in a table, which each component would read and write; and
what components add one after the other is stored for each of them but the first. It regroups
floating sums, so that `strict` has none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from naperian.ainf.syntax import Accumulate, Binding, Delay, Entry, Index, Op, Program, Read
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.prims import Math
from naperian.sizes import places, size, variables

_FEW = 4  # components, of which loops are written out (`fusion/unroll`)


def few_first(program: Program) -> Program:
    """See the module."""
    times = {b.prim.time for b in program.bindings if isinstance(b.prim, Delay)}
    if program.math is Math.STRICT or not times:
        return program
    indices = dict(program.indices)
    contexts = {b.var: b.context for b in program.bindings}
    bindings = [x for b in program.bindings for x in _apart(b, times, indices, contexts)]
    if len(bindings) == len(program.bindings):
        return program
    return replace(program, indices=indices, bindings=tuple(bindings))


def _apart(
    b: Binding, times: set[Var], indices: dict[Var, Index], contexts: dict[Var, tuple[Var, ...]]
) -> Iterator[Binding]:
    """A sum behind those over its components, or as it is."""
    match b.prim:
        case Accumulate("add", _, (Entry(over, at, Read(v, there), ()),)) if (
            b.context and b.dtype.is_float and not b.guards and v in contexts
        ):
            few = tuple(i for i in over if _is_few(indices[i]))
            rest = tuple(i for i in over if i not in few)
            axes = [(i, e) for i, e in zip(contexts[v], there, strict=True) if e.single not in few]
            named = {i for e in (*at, *(e for _, e in axes)) for i in variables(e)}
            in_rounds = any(i in times and e.single in rest for i, e in axes)
            if in_rounds and few and len(rest) > 1 and named.isdisjoint(few):
                here = dict(axes)
                extents = [range(n.constant or 0) for i in few if (n := indices[i].extent)]
                so_far: Read | None = None
                for element in product(*extents):
                    known = dict(zip(few, map(size, element), strict=True))
                    own = [size(i) if i in here else known[e.single]  # type: ignore[index]
                           for i, e in zip(contexts[v], there, strict=True)]  # fmt: skip
                    term = Read(v, tuple(own))
                    if so_far is not None:
                        op = Op("add", (so_far, term))
                        yield (x := replace(b, var=fresh(v), context=tuple(here), prim=op))
                        term = Read(x.var, places(here))
                    so_far = term
                assert so_far is not None
                entry = Entry(rest, at, Read(so_far.var, tuple(here.values())))
                b = replace(b, prim=replace(b.prim, entries=(entry,)))
        case _:
            pass
    yield b


def _is_few(i: Index) -> bool:
    n = None if i.extent is None or i.condition is not None else i.extent.constant
    return n is not None and 1 < n <= _FEW
