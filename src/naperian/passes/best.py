"""The first best of many in two reductions, which are parallel and in vectors. ainf → ainf

    before   x = argmax over i<n of v[i]
    after    top = max over i<n of v[i]
             for j<n: place = select(or(eq(v[j], top), isnan(v[j])), j, n)
             first = min over j<n of place[j]
             x = select(lt(first, n), first, 0)

The law: the first best is the first that equals the best value, or the first NaN if there is one,
for then `top` is NaN and equals nothing; 0 if there is none at all. Looking for it element by
element, as the primitive is defined, depends on the element before.

Only where no loop is around: inside one there is work enough for every thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Entry,
    Index,
    Number,
    Op,
    Operand,
    Prim,
    Program,
    Read,
)
from naperian.ainf.walk import dtype_of, rewrite
from naperian.dtypes import DType
from naperian.names import Lit, Var, fresh
from naperian.prims import unit
from naperian.sizes import size

_FEW = 64  # elements that are looked at faster one by one


def best(program: Program) -> Program:
    """See the module."""
    indices = dict(program.indices)
    dtypes = {p.var: p.dtype for p in program.params} | {
        b.var: b.dtype for b in program.bindings
    }
    bindings: list[Binding] = []
    for b in program.bindings:
        match b.prim:
            case Accumulate("argmin" | "argmax" as name, _, (Entry((i,), _, value, ()),)) if (
                not b.context and not b.guards and _many(indices[i])
            ):
                dtype = dtype_of(value, dtypes)
                if dtype is not DType.BOOL:
                    bindings += _found(b, name[3:], i, value, dtype, indices)
                    continue
            case _:
                pass
        bindings.append(b)
    return replace(program, indices=indices, bindings=tuple(bindings))


def _many(index: Index) -> bool:
    if index.extent is None or index.condition is not None:
        return False
    known = index.extent.constant
    return known is None or known > _FEW


def _found(
    b: Binding, monoid: str, i: Var, value: Operand, dtype: DType, indices: dict[Var, Index]
) -> Iterator[Binding]:
    """The bindings that take the place of one; the index of the second search is added."""
    extent = indices[i].extent
    assert extent is not None
    j = fresh(i)
    indices[j] = indices[i]
    there = rewrite(value, {i: size(j)})
    made: list[Binding] = []

    def bind(name: str, d: DType, prim: Prim, *context: Var) -> Read:
        made.append(Binding(Var(name), context, (), d, prim, b.origin))
        return Read(made[-1].var, tuple(size(v) for v in context))

    none, last = Lit(unit(monoid, dtype), dtype), Lit(unit("min", DType.I64), DType.I64)
    top = bind("top", dtype, Accumulate(monoid, none, (Entry((i,), (), value),)))
    hit = bind("hit", DType.BOOL, Op("eq", (there, top)), j)
    if dtype.is_float:
        nan = bind("nan", DType.BOOL, Op("isnan", (there,)), j)
        hit = bind("hit", DType.BOOL, Op("or", (hit, nan)), j)
    place = bind("place", DType.I64, Op("select", (hit, Number(size(j)), Number(extent))), j)
    first = bind("first", DType.I64, Accumulate("min", last, (Entry((j,), (), place),)))
    some = bind("some", DType.BOOL, Op("lt", (first, Number(extent))))
    found = Op("select", (some, first, Lit(0, DType.I64)))
    if b.dtype is not DType.I64:
        found = Op("cast", (bind("found", DType.I64, found),))
    yield from made
    yield replace(b, prim=found)
