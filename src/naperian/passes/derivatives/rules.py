"""Derivative rules as bindings: what tangents and cotangents share.

`Rules` makes the operations of a rule at a place. `None` is a tangent or cotangent that is 0
everywhere: zeros stay unmade.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from naperian.ainf.syntax import Accumulate, Binding, Delay, Entry, Guard, Op, Operand, Read
from naperian.ainf.walk import Names, map_guards, rewrite, rewrite_size, size_of
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.partials import RULES
from naperian.passes.bindings.builder import Guards
from naperian.passes.bindings.place import Place
from naperian.prims import PRIMITIVES, scalar
from naperian.sizes import Size, size

Flow: TypeAlias = Operand | None

_FEW = 32  # values that are looked through at once


class Rules:
    """Operations on floats of one dtype, under guards beside those of the place."""

    def __init__(self, place: Place, dtype: DType, guards: Guards = ()) -> None:
        self.place = place
        self.dtype = dtype
        self.guards = guards

    def __call__(self, name: str, *args: Any) -> Operand:
        made = tuple(self.operand(a) for a in args)
        known = _known(name, made)
        if known is not None:
            return known
        dtype = PRIMITIVES[name].result(self.place.b.dtype(made[-1]))
        around = self.place.guards
        guards = around + tuple(g for g in self.guards if g not in around)
        return self.place.b.op(name, made, dtype, guards)

    def operand(self, a: Any) -> Operand:
        """A Python number as a constant."""
        if isinstance(a, float):
            return Lit(a, self.dtype)
        assert isinstance(a, Operand)
        return a

    def where(self, guards: Guards, value: Operand) -> Operand:
        """The value where the guards hold, 0 elsewhere. It is read only where they do, and a guard
        only where those before it do."""
        b = self.place.b
        around = self.place.guards + self.guards
        guards = tuple(g for g in guards if g not in around)
        if not guards:
            return value
        value = self.there(value, guards)
        zero = Lit(0.0, self.dtype)
        partial = not all(b.safe_operand(g.operand, around) for g in guards)
        for k, g in reversed(list(enumerate(guards))):
            arms = (value, zero) if g.holds else (zero, value)
            inner = Rules(self.place, self.dtype, self.guards + guards[:k]) if partial else self
            value = inner("select", g.operand, *arms)
        return value

    def either(
        self, a: tuple[Operand, Guards], b: tuple[Operand, Guards]
    ) -> tuple[Operand, Guards] | None:
        """The sum of two values of which one is there if a condition holds, and else the other."""
        (_, some), (_, others) = a, b
        if not some or not others or some[:-1] != others[:-1]:
            return None
        here, g, h = some[:-1], some[-1], others[-1]
        if g.operand != h.operand or g.holds == h.holds:
            return None
        if a[0] == b[0]:
            return a[0], here
        arms = [self.there(v, guards) for v, guards in (a, b)]
        rules = Rules(self.place, self.dtype, self.guards + here)
        return rules("select", g.operand, *(arms if g.holds else reversed(arms))), here

    def there(self, value: Operand, guards: Guards) -> Operand:
        """A value that is read only where the guards hold."""
        around = self.place.guards + self.guards
        if isinstance(value, Lit) or self.place.b.safe_operand(value, around):
            return value
        more = tuple(g for g in guards if g not in around)
        return self.place.b.op("copy", (value,), self.dtype, around + more)

    def sum(self, parts: list[Flow]) -> Flow:
        """The sum of what there is."""
        total: Flow = None
        for p in parts:
            if p is not None:
                total = p if total is None else self("add", total, p)
        return total

    def scaled(
        self, b: Binding, k: int, v: Operand, y: Operand, args: tuple[Operand, ...], to: DType
    ) -> Operand:
        """The derivative of an operation in its argument `k`, applied to `v`; of dtype `to`."""
        assert isinstance(b.prim, Op)
        match b.prim.name:
            case "copy" | "held":
                return v
            case "cast":
                if self.place.b.dtype(v) is to:
                    return v
                return self.place.b.bind(Op("cast", (v,)), to, self.place.guards + self.guards)
            case name:
                return self.operand(RULES[name][k](self, v, y, args))


def _known(name: str, args: tuple[Operand, ...]) -> Operand | None:
    """What needs no computing: of constants, products with 1, decided choices."""
    if name == "select":
        c, a, b = args
        if isinstance(c, Lit):
            return a if c.value else b
        return a if a == b else None
    if name == "mul":
        for x, y in (args, args[::-1]):
            if isinstance(x, Lit) and x.value == 1.0:
                return y
    lits = [a for a in args if isinstance(a, Lit)]
    if len(lits) < len(args):
        return None
    value = PRIMITIVES[name].meaning(*(scalar(a.value, a.dtype) for a in lits))
    return Lit(value.item(), PRIMITIVES[name].result(lits[-1].dtype))


def renamed(guards: Guards, names: Names) -> Guards:
    return map_guards(guards, lambda o: rewrite(o, names), lambda s: rewrite_size(s, names))


def own_value(b: Binding) -> Read:
    """What a binding gives, in its own context."""
    return Read(b.var, tuple(size(i) for i in b.context))


# ---------------------------------------------------------------- maxima, minima


def chosen(place: Place, b: Binding, prim: Accumulate, entry: Entry) -> tuple[Names, Guards]:
    """Where a maximum or minimum was found: its reduced indices as reads of an `argmax`, and the
    guard that it was found there at all, and is not the first value.

    Of several reduced indices, the outer ones are found in the maxima over the inner ones."""
    best = _search(prim)
    around = place.guards + b.guards
    found = (is_found(place, b, prim),)
    at = first_of_few(place, b, prim, entry, found)
    if at is not None:
        return digits(place, entry.over, size_of(at)), found
    levels: list[tuple[Var, Operand, Guards]] = []
    value, guards = entry.value, entry.guards
    for i in reversed(entry.over):
        levels.insert(0, (i, value, guards))
        if i is not entry.over[0]:
            copy = place.b.index(place.b.indices[i].extent, i.name)
            here = {i: size(copy)}
            part = ((copy,), rewrite(value, here), renamed(guards, here))
            value = place.b.reduce(prim.monoid, prim.init, (part,), b.dtype, around)
            guards = ()
    names: dict[Var, Size] = {}
    for i, value, guards in levels:
        copy = place.b.index(_extent(place, i, names), i.name)
        here = {**names, i: size(copy)}
        part = ((copy,), rewrite(value, here), renamed(guards, here))
        zero = Lit(0, DType.I64)
        at = place.b.reduce(best, zero, (part,), DType.I64, around + found)
        names[i] = size_of(at)
    return names, found


def is_found(place: Place, b: Binding, prim: Accumulate) -> Guard:
    """Whether a maximum or minimum is not the first value."""
    return Guard(Rules(place, b.dtype, b.guards)("ne", own_value(b), prim.init), True)


def first_of_few(
    place: Place, b: Binding, prim: Accumulate, entry: Entry, found: Guards = ()
) -> Operand | None:
    """Which of a few points a maximum or minimum was found at, by their number in order; where it
    was found."""
    count = _count(place, entry.over)
    if not entry.over or entry.guards or count is None or count > _FEW:
        return None  # of one point there is nothing to find
    all_ = place.b.index(size(count), entry.over[0].name)
    value = rewrite(entry.value, digits(place, entry.over, size(all_)))
    part = ((all_,), value, ())
    around = place.guards + b.guards + found
    return place.b.reduce(_search(prim), Lit(0, DType.I64), (part,), DType.I64, around)


def _search(prim: Accumulate) -> str:
    return "argmax" if prim.monoid == "max" else "argmin"


def together(place: Place, b: Binding, prim: Accumulate, entry: Entry) -> Entry:
    """The entry of a maximum of a few maxima of a few each, as one of all of them."""
    value, over = entry.value, entry.over
    while isinstance(value, Read) and not entry.guards:
        var = value.var
        inner = next((x for x in reversed(place.b.bindings) if x.var == var), None)
        if inner is None or not {*inner.guards} <= {*b.guards, *place.guards}:
            break
        match inner.prim:
            case Accumulate(prim.monoid, prim.init, (Entry(more, at, best, ()),)) if (
                at == tuple(map(size, inner.context))
                and (count := _count(place, (*over, *more))) is not None and count <= _FEW
            ):
                copies = {i: place.b.index(place.b.indices[i].extent, i.name) for i in more}
                names = dict(zip(inner.context, value.at, strict=True))
                value = rewrite(best, names | {i: size(j) for i, j in copies.items()})
                over = (*over, *copies.values())
            case _:
                break
    return replace(entry, over=over, value=value)


def _count(place: Place, over: tuple[Var, ...]) -> int | None:
    """How many points some indices have together, if that is known."""
    count = 1
    for i in over:
        n = place.b.extent(i)
        if n is None or n.constant is None:
            return None
        count *= n.constant
    return count


def digits(place: Place, over: tuple[Var, ...], which: Size) -> dict[Var, Size]:
    """The indices of a point, by its number."""
    names: dict[Var, Size] = {}
    for i in reversed(over[1:]):
        n = place.b.extent(i)
        assert n is not None
        names[i], which = which % n, which // n
    return {over[0]: which, **names}


def _extent(place: Place, i: Var, names: Names) -> Size | None:
    extent = place.b.indices[i].extent
    return None if extent is None else rewrite_size(extent, names)


def patch(place: Place, slot: int, init: Operand, next: Operand) -> None:
    """The operands of a delay, once its loop's body exists."""
    old = place.b.bindings[slot]
    assert isinstance(old.prim, Delay)
    prim = Delay(old.prim.time, old.prim.index, init, next)
    place.b.bindings[slot] = Binding(
        old.var, old.context, old.guards, old.dtype, prim, old.origin
    )
