"""Windows of a few elements: each element asks whether it is the best.

    y[i] = max over a<2 of x[2·i + a]       x̄[q] = ȳ[q // 2] if first[q // 2] == q % 2 else 0
    y[i] = max over a<2 of x[i + a]         x̄[q] = Σ_a ȳ[q - a] if first[q - a] == a

What goes to the place where a maximum was found is an addition at a place that data name, one after
the other. Where an index of the array says which windows it is in, and where there, each element
reads what its windows have found: in vectors, and it is stored once.
"""

from __future__ import annotations

from math import prod

from naperian.ainf.syntax import Accumulate, Binding, Entry, Guard
from naperian.ainf.walk import Names, number, rewrite, rewrite_size, variables
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.passes.bindings.builder import Builder, Guards
from naperian.passes.bindings.place import Place
from naperian.passes.derivatives.invert import invert
from naperian.passes.derivatives.parts import At
from naperian.passes.derivatives.rules import first_of_few, is_found
from naperian.passes.derivatives.shares import ordinal
from naperian.sizes import Clamp, Size, size

_MANY = 10  # places of windows that meet: to ask each takes longer than to add where one was found


def are_tiles(b: Builder, entry: Entry, at: At, over: tuple[Var, ...], names: Names) -> bool:
    """Whether what the places `at` that the windows over `over` read are in can be told from them,
    and there are some along an axis."""
    at = tuple(rewrite_size(e, names) for e in at)
    domain = {*over, *entry.over}
    inside = [domain.intersection(variables(e)) for e in at]
    if not any(len(vs) > 1 and not vs.isdisjoint(entry.over) for vs in inside):
        return False
    found = invert((*over, *entry.over), at, tuple(size(Var("q")) for _ in at), b.extent)
    if found is not None and domain <= found.names.keys() and not (found.equal or found.least):
        return True
    extents = (b.extent(r) for r in entry.over)
    places = prod(n.constant or _MANY if n is not None else _MANY for n in extents)
    return places < _MANY and all(_is_window(e, {*over}, {*entry.over}) for e in at)


def _is_window(e: Size, over: set[Var], places: set[Var]) -> bool:
    """Whether what an axis is read at is that of a window, and a place in it, or as near to it as
    the axis has one (see `ends`)."""
    if isinstance(e.single, Clamp):
        e = e.single.value
    inside = {*variables(e)}
    windows, own = inside & over, inside & places
    plain = all(len(m) < 2 for m, _ in e.terms) and e.plain
    return plain and len(windows) < 2 and len(own) < 2 and all(e.coefficient(r) == 1 for r in own)


def in_tiles(
    place: Place, b: Binding, prim: Accumulate, entry: Entry, names: Names, guards: Guards
) -> Guard | None:
    """What holds, in `names`, at the place where the best value of a window was found, if it is one
    of a few: it is not the first value, and is found there. It is asked under `guards`."""
    first = first_of_few(place, b, prim, entry)
    if first is None:
        return None
    around = place.guards + b.guards
    found = is_found(place, b, prim).operand
    first = place.b.op("select", (found, first, Lit(-1, DType.I64)), DType.I64, around)
    which = number(rewrite_size(ordinal(place, entry), names)), rewrite(first, names)
    return Guard(place.b.op("eq", which, DType.BOOL, place.guards + guards), True)
