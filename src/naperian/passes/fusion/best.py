"""The first best of many in two reductions, which are parallel and in vectors. ainf → ainf

    before   x = argmax over i<n of v[i]
    after    top = max over i<n of v[i]
             for j<n: place = select(or(eq(v[j], top), isnan(v[j])), j, n)
             first = min over j<n of place[j]
             x = select(lt(first, n), first, 0)

The law: the first best is the first that equals the best value, or the first NaN if there is one,
for then `top` is NaN and equals nothing; 0 if there is none at all. Looking for it element by
element, as the primitive is defined, depends on the element before.

Where the best value is there already, as that of a maximum whose derivative looks for its place,
one comparison finds what equals it and what is NaN: that which is not at most `worse`, the number
before `top`, or infinity if `top` is NaN.

    for j<n: place = select(le(v[j], worse), n, j)

Columns that lie side by side, and whose best is not known, are looked through in order, each with
its best so far, and go side by side (`nests/columns.py`): they are read once.

Inside a loop there is work enough for every thread, and `v` is computed twice or stored for each of
its rounds; so there only where it is little, element by element of what is stored anyway, or where
the best is there already, and who looks for its place reads all values once more in any case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from math import prod

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Delay,
    Entry,
    Index,
    Op,
    Operand,
    Prim,
    Program,
    Read,
)
from naperian.ainf.walk import dtype_of, number, rewrite, rewrite_size
from naperian.dtypes import DType
from naperian.names import Lit, Var, fresh
from naperian.node import node, replace
from naperian.passes.fusion.unroll import WRITTEN_OUT
from naperian.prims import unit
from naperian.sizes import ONE, ZERO, Size, size, variables

_FEW = 64  # elements that are looked at faster one by one
_LITTLE = 3  # operations that may follow each other where a value is computed twice
_QUICK = frozenset((
    "add", "sub", "mul", "neg", "abs", "min", "max", "select", "cast", "copy", "held", "not",
    "and", "or", "eq", "ne", "lt", "le", "gt", "ge",
))  # fmt: skip


@node
class _Window:
    """The indices of a few elements that a maximum is written out over, and what it is taken of."""

    over: tuple[Var, ...]
    value: Operand


def best(program: Program) -> Program:
    """See the module."""
    indices = dict(program.indices)
    dtypes = {p.var: p.dtype for p in program.params} | {
        b.var: b.dtype for b in program.bindings
    }
    made = {b.var: b for b in program.bindings}
    times = {b.prim.time for b in program.bindings if isinstance(b.prim, Delay)}
    bindings: list[Binding] = []
    there: set[Var] = set()
    for b in program.bindings:
        if b.var in there:
            continue
        match b.prim:
            case Accumulate("argmin" | "argmax" as name, _, (Entry((i,), at, value, ()),)) if (
                indices[i].condition is None
            ):
                dtype = dtype_of(value, dtypes)
                many = _many(indices[i])
                there_already = _known(program.bindings, b, name[3:], i, value, indices, made)
                known, window = there_already or (None, None)
                inside = b.context and not _little(value, i, made, _LITTLE)
                marked = _mark(value, made) if many and not inside else None
                if marked is not None and name == "argmax":
                    bindings += _first(b, (i,), at, *marked, indices)
                    continue
                beside = times.isdisjoint(b.context[-1:]) and _is_column(value, i, b.context, made)
                if known is None and (inside or not many):
                    pass
                elif dtype is not DType.BOOL and (known or not beside):
                    top = None
                    if known is not None:
                        if known.var not in there:  # it is made of the same value
                            bindings.append(known)
                            there.add(known.var)
                        top = Read(known.var, tuple(size(c) for c in b.context))
                    bindings += _found(b, name[3:], i, at, value, dtype, indices, top, window)
                    continue
            case _:
                pass
        bindings.append(b)
        there.add(b.var)
    return replace(program, indices=indices, bindings=tuple(bindings))


def _many(index: Index) -> bool:
    if index.extent is None or index.condition is not None:
        return False
    known = index.extent.constant
    return known is None or known > _FEW


def _known(
    bindings: tuple[Binding, ...], b: Binding, monoid: str, i: Var, value: Operand,
    indices: dict[Var, Index], made: Mapping[Var, Binding],
) -> tuple[Binding, _Window | None] | None:  # fmt: skip
    """The best value, if it is made anyway: that of a maximum whose derivative looks for it; and
    over which window, if that is written out."""
    for x in bindings:
        if len(x.context) != len(b.context):
            continue
        here = {c: size(d) for c, d in zip(x.context, b.context, strict=True)}
        if not all(_same(indices[y], indices[z], here)
                   for y, z in zip(x.context, b.context, strict=True)):  # fmt: skip
            continue
        for over, whole in _wholes(x, monoid, made):
            names, which = dict(here), size(i)
            for k in reversed(over[1:]):
                n = indices[k].extent
                if n is None or n.constant is None:
                    break
                names[k], which = which % n, which // n
            names[over[0]] = which
            count = prod(n.constant or 0 for k in over if (n := indices[k].extent) is not None)
            alone = len(over) == 1 and _same(indices[over[0]], indices[i], here)
            if (alone or indices[i].extent == size(count)) and rewrite(whole, names) == value:
                extents = [n.constant for k in over if (n := indices[k].extent) is not None]
                few = len(over) > 1 and all(n is not None and n <= WRITTEN_OUT for n in extents)
                return x, _Window(over, rewrite(whole, here)) if few else None
    return None


def _wholes(
    b: Binding, monoid: str, made: Mapping[Var, Binding]
) -> Iterator[tuple[tuple[Var, ...], Operand]]:
    """What a maximum is the best of, and over which indices; and with that of the maxima in it."""
    over: tuple[Var, ...] = ()
    value: Operand = Read(b.var, tuple(map(size, b.context)))
    while isinstance(value, Read) and (q := made.get(value.var)) is not None and not q.guards:
        match q.prim:
            case Accumulate(name, Lit(start), (Entry((k,), _, inner, ()),)) if (
                name == monoid and start == unit(monoid, q.dtype)
            ):
                over = (*over, k)
                value = rewrite(inner, dict(zip(q.context, value.at, strict=True)))
                yield over, value
            case _:
                return


def _same(x: Index, y: Index, here: Mapping[Var, Size]) -> bool:
    """Whether two indices run alike, with the names of one for those of the other."""
    if x.condition is not None or x.extent is None or y.extent is None:
        return False
    return rewrite_size(x.extent, here) == y.extent


def _little(value: Operand, i: Var, made: dict[Var, Binding], most: int) -> bool:
    """Whether a value is a few quick operations away from tables that are stored anyway."""
    if not isinstance(value, Read):
        return True
    b = made.get(value.var)
    if b is None or not any(i in variables(e) for e in value.at):
        return True
    match b.prim:
        case Op(name, args) if name in _QUICK and most > 0 and not b.guards:
            here = {e.single: c for e, c in zip(value.at, b.context, strict=True) if e.single}
            return i in here and all(_little(a, here[i], made, most - 1) for a in args)
        case Delay(_, index):
            return i not in variables(value.at[b.context.index(index)])
        case _:
            return False


def _is_column(value: Operand, i: Var, context: tuple[Var, ...], made: dict[Var, Binding]) -> bool:
    """Whether the element of the next row lies beside this one's: rows go side by side, each with
    the best so far."""
    if not isinstance(value, Read) or not context:
        return False
    b = made.get(value.var)
    if b is None or not isinstance(b.prim, Op):
        steep = any(i in variables(e) for e in value.at[:-1]) and i not in variables(value.at[-1])
        return steep and value.at[-1].coefficient(context[-1]) == 1
    here = dict(zip(b.context, value.at, strict=True))
    args = [rewrite(x, here) for x in b.prim.args]
    read = [(x, {v for e in x.at for v in variables(e)}) for x in args if isinstance(x, Read)]
    found = [x for x, own in read if {i, context[-1]} <= own]  # others are the same for all columns
    return bool(found) and all(_is_column(x, i, context, made) for x in found)


def _mark(value: Operand, made: dict[Var, Binding]) -> tuple[Operand, bool] | None:
    """The condition of which a value is 1 where it holds, else 0, or the other way round."""
    if not isinstance(value, Read) or value.var not in made:
        return None
    b = made[value.var]
    match b:
        case Binding(guards=(), prim=Op("select", (Read() as c, Lit(int(x)), Lit(int(y))))) if (
            {x, y} == {0, 1}
        ):
            return rewrite(c, dict(zip(b.context, value.at, strict=True))), x == 1
        case _:
            return None


def _found(
    b: Binding, monoid: str, i: Var, at: tuple[Size, ...], value: Operand, dtype: DType,
    indices: dict[Var, Index], known: Read | None, window: _Window | None = None,
) -> Iterator[Binding]:
    """The bindings that take the place of one; the indices of the second search are added."""
    search = window or _Window((i,), value)
    again = {k: fresh(k) for k in search.over}
    for k, j in again.items():
        indices[j] = indices[k]
    there = rewrite(search.value, {k: size(j) for k, j in again.items()})
    over = tuple(again.values())
    if known is not None and dtype.is_float:
        everywhere = replace(b, guards=())  # what is known was read everywhere
        bind = _Bind(everywhere)
        worse = _worse(bind, monoid, known, dtype)
        name = "le" if monoid == "max" else "ge"
        other = bind("other", DType.BOOL, Op(name, (there, worse)), *over)
        *steps, found = _first(everywhere, over, at, other, False, indices)
        yield from (*bind.made, *steps, replace(b, prim=found.prim))
        return
    bind = _Bind(b)
    none = Lit(unit(monoid, dtype), dtype)
    top = known or bind("top", dtype, Accumulate(monoid, none, (Entry((i,), at, value),)))
    hit = bind("hit", DType.BOOL, Op("eq", (there, top)), *over)
    if dtype.is_float:
        nan = bind("nan", DType.BOOL, Op("isnan", (there,)), *over)
        hit = bind("hit", DType.BOOL, Op("or", (hit, nan)), *over)
    yield from bind.made
    yield from _first(b, over, at, hit, True, indices)


def _worse(bind: _Bind, monoid: str, top: Read, dtype: DType) -> Read:
    """The best of the numbers that are worse than one; of NaN, the best number."""
    zero, bits = Lit(0.0, dtype), DType.I64 if dtype is DType.F64 else DType.I32
    if monoid == "max":  # the bits of a number count up away from zero; this makes zero -0.0
        signed = bind("signed", dtype, Op("sub", (zero, top)))
        signed = bind("signed", dtype, Op("neg", (signed,)))
    else:
        signed = bind("signed", dtype, Op("add", (zero, top)))
    above = bind("above", DType.BOOL, Op("gt" if monoid == "max" else "lt", (top, zero)))
    step = bind("step", bits, Op("select", (above, Lit(-1, bits), Lit(1, bits))))
    here = bind("bits", bits, Op("bitcast", (signed,)))
    next_to = bind("bits", bits, Op("add", (here, step)))
    worse = bind("worse", dtype, Op("bitcast", (next_to,)))
    odd = bind("odd", DType.BOOL, Op("isnan", (top,)))
    best = Lit(math.inf if monoid == "max" else -math.inf, dtype)
    return bind("worse", dtype, Op("select", (odd, best, worse)))


def _first(
    b: Binding, over: tuple[Var, ...], at: tuple[Size, ...], condition: Operand, holds: bool,
    indices: dict[Var, Index],
) -> Iterator[Binding]:
    """The first place where a condition holds, or where it does not; 0 if there is none."""
    place, extent = ZERO, ONE  # as if they were one index
    for j in over:
        n = indices[j].extent
        assert n is not None
        place, extent = place * n + size(j), extent * n
    bind = _Bind(b)
    last = Lit(unit("min", DType.I64), DType.I64)
    sides = (number(place), number(extent)) if holds else (number(extent), number(place))
    where = bind("place", DType.I64, Op("select", (condition, *sides)), *over)
    first = bind("first", DType.I64, Accumulate("min", last, (Entry(over, at, where),)))
    some = bind("some", DType.BOOL, Op("lt", (first, number(extent))))
    found = Op("select", (some, first, Lit(0, DType.I64)))
    if b.dtype is not DType.I64:
        found = Op("cast", (bind("found", DType.I64, found),))
    yield from bind.made
    yield replace(b, prim=found)


class _Bind:
    """Bindings in the context of another."""

    def __init__(self, b: Binding) -> None:
        self.b = b
        self.made: list[Binding] = []

    def __call__(self, name: str, dtype: DType, prim: Prim, *over: Var) -> Read:
        context = (*self.b.context, *over)
        self.made.append(replace(self.b, var=Var(name), context=context, dtype=dtype, prim=prim))
        return Read(self.made[-1].var, tuple(size(v) for v in context))
