"""Products of all values but one: what each value has in a product.

    y = Π_j x[j]        x̄[j] gets ȳ·y / x[j] where y is a normal number, and else ȳ times what came
                        before j times what comes after

Zeros do no harm, and what is made here can be differentiated again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from naperian.ainf.syntax import Accumulate, Binding, Delay, Entry, Guard, Operand, Read
from naperian.ainf.walk import free, rewrite, variables
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.passes.bindings.place import Place
from naperian.passes.derivatives.rules import Rules, own_value, patch
from naperian.sizes import Size, size

_FEW = 8  # values of a known number are multiplied in registers

_LEAST = {DType.F32: 2.0**-126, DType.F64: 2.0**-1022}  # the first numbers that have all bits

_At: TypeAlias = Callable[[Size], Size]


def others(place: Place, b: Binding, prim: Accumulate, entry: Entry) -> Operand:
    """The product of all values but the one at a point, in the context and the reduced indices."""
    value = _present(place, b, entry)
    extents = [place.b.indices[i].extent for i in entry.over]
    if all(_is_few(n) for n in extents):
        return _around(place, b, prim, entry, value)
    normal = _is_normal(place, b)
    slow = replace(b, guards=(*b.guards, Guard(normal, False)))
    around = _around(place, slow, prim, entry, value)
    rules = Rules(place, b.dtype, b.guards)
    return rules("select", normal, rules("div", own_value(b), value), around)


def _is_few(n: Size | None) -> bool:
    return n is not None and n.constant is not None and n.constant <= _FEW


def _present(place: Place, b: Binding, entry: Entry) -> Operand:
    """The value of an entry, 1 where there is none."""
    if not entry.guards:
        return entry.value
    rules = Rules(place, b.dtype, b.guards)
    guards = place.guards + b.guards + entry.guards
    value: Operand = place.b.op("copy", (entry.value,), b.dtype, guards)
    for g in reversed(entry.guards):
        one = Lit(1.0, b.dtype)
        value = rules("select", g.operand, *((value, one) if g.holds else (one, value)))
    return value


def _is_normal(place: Place, b: Binding) -> Operand:
    """Whether the whole product is one that can be divided: no factor is 0, and nothing was
    rounded to few bits or to infinity."""
    rules, y = Rules(place, b.dtype, b.guards), own_value(b)
    far = rules("abs", y)
    some = rules("gt", far, _LEAST[b.dtype])
    return rules("and", some, rules("lt", far, float("inf")))


def _around(
    place: Place, b: Binding, prim: Accumulate, entry: Entry, value: Operand
) -> Operand:
    """What came before times what comes after."""
    rules = Rules(place, b.dtype, b.guards)
    total: Operand = prim.init
    for i in reversed(entry.over):
        n = place.b.indices[i].extent
        assert n is not None
        before = _running(place, b, i, value, size)
        after = _running(place, b, i, value, partial(operator.sub, n - 1))
        both = rules("mul", before(size(i)), after(n - 1 - size(i)))
        total = rules("mul", total, both)
        if i is not entry.over[0]:
            copy = place.b.index(n, i.name)
            part = ((copy,), rewrite(value, {i: size(copy)}), ())
            around = place.guards + b.guards
            value = place.b.reduce("mul", Lit(1.0, b.dtype), (part,), b.dtype, around)
    return total


def _running(
    place: Place, b: Binding, i: Var, value: Operand, at: _At
) -> Callable[[Size], Operand]:
    """The running product of the values at `at(0)`, `at(1)`, …: how to read it after k rounds."""
    n = place.b.indices[i].extent
    assert n is not None
    asked = (v for g in b.guards for v in free(g.operand))
    inside = {v for v in (*free(value), *variables(n), *asked) if v != i}
    time = place.b.index(n, i.name)
    last = place.b.index(n + 1, i.name)
    context = place.b.order(place.b.closed(inside))
    around = place.guards + b.guards
    one = Lit(1.0, b.dtype)
    var, where = Var("product"), tuple(size(v) for v in context)
    slot = len(place.b.bindings)
    place.b.add(Delay(time, last, one, one), (*context, last), around, b.dtype, b.origin, var)
    factor = rewrite(value, {i: at(size(time))})
    step = Rules(place, b.dtype, b.guards)("mul", Read(var, (*where, size(time))), factor)
    patch(place, slot, one, step)
    return lambda k: Read(var, (*where, k))
