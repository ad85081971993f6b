"""Forward mode: the tangent of every active binding, beside it. ainf → ainf

    for i<n: y = sin(x[i])          for i<n: c  = cos(x[i])
                                    for i<n: ẏ  = mul(ẋ[i], c[i])

A tangent is an operand in its binding's context and in the loops around the derivative. That of a
delay is a delay of the same loop, so a `while` loop needs nothing special.
"""

from __future__ import annotations

from collections.abc import Mapping

from naperian.ainf.syntax import Accumulate, Binding, Check, Delay, Entry, Op, Operand, Read
from naperian.ainf.walk import rewrite, stops
from naperian.names import Lit, Var
from naperian.passes.bindings.builder import Guards
from naperian.passes.bindings.place import Place
from naperian.passes.derivatives.active import active
from naperian.passes.derivatives.factors import others
from naperian.passes.derivatives.ruled import tangents
from naperian.passes.derivatives.rules import Flow, Rules, chosen, patch, renamed
from naperian.passes.derivatives.shares import accumulated, shares, simple
from naperian.sizes import size


class Tangents:
    """The tangents of the bindings from `start` on, given those of the sources in their own
    contexts."""

    def __init__(self, place: Place, start: int, sources: Mapping[Var, Operand]) -> None:
        self.place = place
        self.around = place.guards
        self.scope = place.scope
        self.made: dict[Var, Operand] = dict(sources)
        slots: list[tuple[int, Binding, Delay]] = []
        own = place.b.bindings[start:]
        begun: dict[Var, int] = {}  # where the tangents of each begin
        for b in active(own, set(sources)).values():
            begun[b.var] = len(place.b.bindings)
            if isinstance(b.prim, Delay):
                slots.append((self.delay(b, b.prim), b, b.prim))
            else:
                outer, place.b.origin = place.b.origin, b.origin.derived("tangent")
                found = self.binding(b)
                place.b.origin = outer
                if found is not None:
                    self.made[b.var] = found
        for slot, b, prim in slots:
            zero = Lit(0.0, b.dtype)
            patch(place, slot, self.of(prim.init) or zero, self.of(prim.next) or zero)
        if begun and _stops_after_a_loop(own) and self.has_rows_of_rounds(own):
            place.b.bindings[start:] = _beside(place.b.bindings, start, own, begun)

    def has_rows_of_rounds(self, own: list[Binding]) -> bool:
        """Whether the rounds of a loop say how long rows are: they are there in that loop alone."""
        times = {b.prim.time for b in own if isinstance(b.prim, Delay)}
        rows = {i for b in own for i in (*b.context, *_over(b))} - times
        return any(not times.isdisjoint(self.place.b.closures[i]) for i in rows)

    def of(self, o: Operand) -> Flow:
        """The tangent of an operand."""
        if not isinstance(o, Read) or o.var not in self.made:
            return None
        context = self.place.b.contexts[o.var]
        return rewrite(self.made[o.var], dict(zip(context, o.at, strict=True)))

    def guards(self, b: Binding) -> Guards:
        return tuple(g for g in b.guards if g not in self.around)

    def arm(self, rules: Rules, o: Operand, tangent: Operand) -> Operand:
        """The tangent of one side of a choice. One that is found where something else says, as in
        a row in order, is read only where this side is there to be read."""
        b = self.place.b
        if not isinstance(o, Read) or o.var not in b.guards:
            return tangent
        guards = renamed(b.guards[o.var], dict(zip(b.contexts[o.var], o.at, strict=True)))
        if b.safe_operand(tangent, self.around + rules.guards + guards):
            return tangent
        return rules.there(tangent, guards)

    def binding(self, b: Binding) -> Flow:
        place = self.place
        rules = Rules(place, b.dtype, self.guards(b))
        match b.prim:
            case Op("gate"):
                found = tangents(place.b.ruled[b.prim.code], self.of)
                self.made.update((y.var, v) for y, v in found)
                return None
            case Op("ruled"):
                return self.made.get(b.var)
            case Op("held", (a,)):  # of a table that is changed: so is its tangent
                v = self.of(a)
                if not isinstance(v, Read):
                    return v
                return place.b.bind(Op("held", (v,)), b.dtype, place.guards + rules.guards)
            case Op("select", (condition, yes, no)):
                arms = [self.of(yes), self.of(no)]
                if arms == [None, None]:
                    return None
                zero = Lit(0.0, b.dtype)
                read = (
                    zero if v is None else self.arm(rules, a, v)
                    for a, v in zip((yes, no), arms, strict=True)
                )  # fmt: skip
                return rules("select", condition, *read)
            case Op(_, args):
                y = Read(b.var, tuple(size(i) for i in b.context))
                parts: list[Flow] = []
                for k, a in enumerate(args):
                    v = self.of(a)
                    if v is not None:
                        parts.append(rules.scaled(b, k, v, y, args, b.dtype))
                return rules.sum(parts)
            case Accumulate():
                return self.accumulate(b, b.prim, rules)
            case Delay() | Check():
                raise AssertionError("delays are made before; a check has no value")

    def accumulate(self, b: Binding, prim: Accumulate, rules: Rules) -> Flow:
        place = self.place
        parts: list[Flow] = []
        v = self.of(prim.init)
        values = [self.of(e.value) for e in prim.entries]
        if simple(b, prim) and v is None and values[0] is not None:
            (e,) = prim.entries
            if prim.monoid in ("max", "min"):
                names, found = chosen(place, b, prim, e)
                return rules.where(found, rewrite(values[0], names))
            if prim.monoid == "mul":
                inner = Rules(place, b.dtype, rules.guards + e.guards)
                values[0] = inner("mul", values[0], others(place, b, prim, e))
            return self.total(b, prim, [(e, values[0], ())])
        if prim.monoid in ("add", "last"):
            zero = Lit(0.0, b.dtype)
            if v is None and not any(values):
                return None
            went: list[tuple[Entry, Operand, Guards]] = [
                (e, x or zero, ()) for e, x in zip(prim.entries, values, strict=True)
                if x is not None or prim.monoid == "last"
            ]  # fmt: skip
            return accumulated(place, b, prim, went, prim.monoid, v or zero, b.dtype)
        first, entries = shares(place, b, prim)
        if v is not None:
            if first.factor is not None:
                v = rules("mul", v, first.factor)
            parts.append(rules.where(first.guards, v))
        added: list[tuple[Entry, Operand, Guards]] = []
        for e, x, share in zip(prim.entries, values, entries, strict=True):
            if x is not None:
                if share.factor is not None:
                    inner = Rules(place, b.dtype, rules.guards + e.guards + share.guards)
                    x = inner("mul", x, share.factor)
                added.append((e, x, share.guards))
        if added:
            parts.append(self.total(b, prim, added))
        return rules.sum(parts)

    def total(
        self, b: Binding, prim: Accumulate, parts: list[tuple[Entry, Operand, Guards]]
    ) -> Operand:
        """The sum of the values' tangents, where their values went."""
        zero = Lit(0.0, b.dtype)
        return accumulated(self.place, b, prim, parts, "add", zero, b.dtype)

    def delay(self, b: Binding, prim: Delay) -> int:
        """The delay of the tangents; what it delays comes later."""
        bd = self.place.b
        around = bd.order(bd.closed((*b.context[:-1], *self.scope)))
        extent = bd.indices[prim.index].extent
        last = bd.index(extent, prim.index.name)
        zero = Lit(0.0, b.dtype)
        slot = len(bd.bindings)
        made = bd.add(
            Delay(prim.time, last, zero, zero), (*around, last), self.around + self.guards(b),
            b.dtype, b.origin.derived("tangent"),
        )  # fmt: skip
        self.made[b.var] = Read(made.var, (*made.at[:-1], size(prim.index)))
        return slot


def _stops_after_a_loop(own: list[Binding]) -> bool:
    """Whether something may stop the run behind a loop: what comes after that is in no loop before
    it, so that tangents at the end of all are not made in the rounds that they are of."""
    first = next((k for k, b in enumerate(own) if isinstance(b.prim, Delay)), len(own))
    return any(stops(b.prim) for b in own[first:])


def _over(b: Binding) -> tuple[Var, ...]:
    """The indices of a reduction."""
    entries = b.prim.entries if isinstance(b.prim, Accumulate) else ()
    return tuple(i for e in entries for i in e.over)


def _beside(
    bindings: list[Binding], start: int, own: list[Binding], begun: Mapping[Var, int]
) -> list[Binding]:
    """Each binding, then what was made for its tangent, which reads no others."""
    ends = [*list(begun.values())[1:], len(bindings)]
    made = {v: bindings[first:end] for (v, first), end in zip(begun.items(), ends, strict=True)}
    return [x for b in own for x in (b, *made.get(b.var, ()))]
