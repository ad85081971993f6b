"""What each entry of an accumulation has in the result.

    add           everything
    max, min      everything, at the first best value of its target; nothing elsewhere
    mul           the product of all other values of its target
    last          everything, if no later entry goes to the same place

A share is a guard and a factor at every point of the entry, so that the tangent of the result is
the accumulation of value · factor where the guards hold, and the cotangent of a value that of its
target times the factor. Which value was the best is found by a second accumulation, of the
ordinals of those that equal the result; back from a target its cotangent goes there (`winner`).
"""

from __future__ import annotations

from naperian.ainf.syntax import Accumulate, Binding, Entry, Guard, Operand, Read
from naperian.ainf.walk import (
    Names,
    free,
    is_reduction,
    number,
    rewrite,
    rewrite_size,
    size_of,
    variables,
)
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.node import node
from naperian.passes.bindings.builder import Guards
from naperian.passes.bindings.place import Place
from naperian.passes.derivatives.rules import Rules, digits, own_value, renamed
from naperian.sizes import ONE, ZERO, Size, size

_NONE = (1 << 63) - 1  # the ordinal of no entry


@node
class Share:
    """In the indices of an entry (of the context, for the first value)."""

    guards: Guards
    factor: Operand | None = None


def shares(place: Place, b: Binding, prim: Accumulate) -> tuple[Share, list[Share]]:
    """The shares of the first value and of the entries."""
    every = Share(())
    match prim.monoid:
        case "add":
            return every, [every for _ in prim.entries]
        case "max" | "min":
            return _best(place, b, prim)
        case "mul":
            return _products(place, b, prim)
        case _:
            raise AssertionError("what is replaced has no share; see `latest`")


def simple(b: Binding, prim: Accumulate) -> bool:
    """Whether this is a plain reduction: one entry, and the context as its target."""
    return len(prim.entries) == 1 and prim.monoid != "last" and is_reduction(b.context, prim)


def domain(b: Binding, e: Entry) -> tuple[Var, ...]:
    """The indices that an entry has points for: what it reduces, and those of the context that it
    takes as they are."""
    mentioned = {*free(e.value), *(v for g in e.guards for v in free(g.operand))}
    mentioned |= {v for x in e.at for v in variables(x)}
    plain = {i for i, x in zip(b.context, e.at, strict=True) if x == size(i)}
    return (*(i for i in b.context if i in plain or i in mentioned), *e.over)


def copies(place: Place, e: Entry) -> tuple[dict[Var, Size], tuple[Var, ...]]:
    """New indices for those an entry reduces."""
    names: dict[Var, Size] = {}
    for i in e.over:
        extent = place.b.indices[i].extent
        n = None if extent is None else rewrite_size(extent, names)
        names[i] = size(place.b.index(n, place.b.indices[i].name))
    return names, tuple(v for s in names.values() for v in (s.single,) if isinstance(v, Var))


def accumulated(
    place: Place, b: Binding, prim: Accumulate, parts: list[tuple[Entry, Operand, Guards]],
    monoid: str, init: Operand, dtype: DType,
) -> Read:
    """An accumulation of other values where those of `prim` went."""
    bd = place.b
    entries = []
    found = [*b.context, *free(init)]
    for e, value, guards in parts:
        names, over = copies(place, e)
        at = tuple(rewrite_size(x, names) for x in e.at)
        entry = Entry(over, at, rewrite(value, names), renamed(e.guards + guards, names))
        inner = [*free(entry.value), *(v for g in entry.guards for v in free(g.operand))]
        inner += (v for x in at for v in variables(x))
        found += (v for v in inner if v not in over)
        found += (v for i in over for v in bd.closures[i] if v not in over)
        entries.append(entry)
    context = bd.order(bd.closed(found))
    own = dict.fromkeys(b.context)
    whole = tuple(
        Entry(
            e.over,
            tuple(dict(zip(own, e.at, strict=True)).get(i, size(i)) for i in context),
            e.value, e.guards,
        )
        for e in entries
    )  # fmt: skip
    around = place.guards + tuple(g for g in b.guards if g not in place.guards)
    return bd.add(Accumulate(monoid, init, whole), context, around, dtype, b.origin)


def winner(place: Place, b: Binding, prim: Accumulate) -> tuple[Names, Guards] | None:
    """Where the value of one entry is that is the largest or smallest of its target, at a point of
    the context, and the guards that there is one."""
    if prim.monoid not in ("max", "min") or len(prim.entries) != 1 or not prim.entries[0].over:
        return None
    (e,) = prim.entries
    if any(not place.b.closures[i].isdisjoint({*e.over} - {i}) for i in e.over):
        return None
    rules = Rules(place, b.dtype, b.guards)
    who = _first_best(place, b, prim, e)
    none = _is_none(rules, who)
    at = place.b.op("select", (none, Lit(0, DType.I64), who), DType.I64, place.guards + b.guards)
    found = (Guard(rules("eq", own_value(b), prim.init), False), Guard(none, False))
    return digits(place, e.over, size_of(at)), found


def _first_best(place: Place, b: Binding, prim: Accumulate, e: Entry) -> Read:
    """The ordinal of the first value of an entry that is its target's."""
    there = dict(zip(b.context, e.at, strict=True))
    rules = Rules(place, b.dtype, b.guards + e.guards)
    same = Guard(rules("eq", e.value, rewrite(own_value(b), there)), True)
    own = number(ordinal(place, e))
    return accumulated(
        place, b, prim, [(e, own, (same,))], "min", Lit(_NONE, DType.I64), DType.I64
    )


def _best(place: Place, b: Binding, prim: Accumulate) -> tuple[Share, list[Share]]:
    rules = Rules(place, b.dtype, b.guards)
    y = own_value(b)
    first = rules("eq", y, prim.init)
    out: list[Share] = []
    before: list[Read] = []
    for e in prim.entries:
        inner = Rules(place, b.dtype, b.guards + e.guards)
        there = dict(zip(b.context, e.at, strict=True))
        won = (
            Guard(inner("eq", e.value, rewrite(y, there)), True),
            Guard(rewrite(first, there), False),
            *(Guard(_is_none(inner, rewrite(w, there)), True) for w in before),
        )
        own = number(ordinal(place, e))
        who = _first_best(place, b, prim, e)
        if e.over:
            is_it = place.b.op(
                "eq", (own, rewrite(who, there)), DType.BOOL, place.guards + b.guards + e.guards
            )
            won = (Guard(is_it, True), *won[1:])  # which is one of the best
        before.append(who)
        out.append(Share(won))
    return Share((Guard(first, True),)), out


def _is_none(rules: Rules, who: Operand) -> Operand:
    guards = rules.place.guards + rules.guards
    return rules.place.b.op("eq", (who, Lit(_NONE, DType.I64)), DType.BOOL, guards)


def ordinal(place: Place, e: Entry) -> Size:
    """Which of its reduced points an entry is at, in their order: a number of its own. Where rows
    are of different lengths, there is room for longer ones than memory has."""
    total, even = ZERO, size(1 << 62 // max(1, len(e.over)))
    for i in e.over:
        n = place.b.indices[i].extent
        assert n is not None
        n = n if place.b.closures[i].isdisjoint(v for v in e.over if v != i) else even
        total = total * n + size(i)
    return total


def _products(place: Place, b: Binding, prim: Accumulate) -> tuple[Share, list[Share]]:
    """By division: the product of the values that are not 0, how many are, and their sum, which is
    the last factor where all others are known. (With one target for all, `rules.others` needs no
    division.)"""
    one, zero = Lit(1.0, b.dtype), Lit(0.0, b.dtype)
    rules = Rules(place, b.dtype, b.guards)
    is_zero = [
        Rules(place, b.dtype, b.guards + e.guards)("eq", e.value, zero) for e in prim.entries
    ]
    first_zero = rules("eq", prim.init, zero)
    whole: list[tuple[Entry, Operand, Guards]] = [
        (e, Rules(place, b.dtype, b.guards + e.guards)("select", z, one, e.value), ())
        for e, z in zip(prim.entries, is_zero, strict=True)
    ]
    counted: list[tuple[Entry, Operand, Guards]] = [
        (e, one, (Guard(z, True),)) for e, z in zip(prim.entries, is_zero, strict=True)
    ]
    start = rules("select", first_zero, one, prim.init)
    product = accumulated(place, b, prim, whole, "mul", start, b.dtype)
    zeros = accumulated(
        place, b, prim, counted, "add", rules("select", first_zero, one, zero), b.dtype
    )

    missing: list[tuple[Entry, Operand, Guards]] = [
        (e, e.value, (Guard(z, True),)) for e, z in zip(prim.entries, is_zero, strict=True)
    ]  # 0, but not to second derivatives
    start = rules("select", first_zero, prim.init, zero)
    last = accumulated(place, b, prim, missing, "add", start, b.dtype)

    def rest(rules: Rules, value: Operand, is_zero: Operand, there: dict[Var, Size]) -> Operand:
        p, n, z = (rewrite(x, there) for x in (product, zeros, last))
        one_zero, two = rules("eq", n, one), rules("eq", n, 2.0)
        others = rules("div", p, rules("select", is_zero, one, value))
        without = rules("select", one_zero, rules("mul", others, z), zero)
        without = rules("select", rules("eq", n, zero), others, without)
        beside = rules("select", two, rules("mul", p, rules("sub", z, value)), zero)
        alone = rules("select", one_zero, p, beside)
        return rules("select", is_zero, alone, without)

    here = {i: size(i) for i in b.context}
    init = Share((), rest(rules, prim.init, first_zero, here))
    return init, [
        Share(
            (),
            rest(
                Rules(place, b.dtype, b.guards + e.guards), e.value, z,
                dict(zip(b.context, e.at, strict=True)),
            ),
        )
        for e, z in zip(prim.entries, is_zero, strict=True)
    ]  # fmt: skip


def latest(place: Place, b: Binding, prim: Accumulate) -> list[Share]:
    """Of `last`: which entries no later one replaces. Single ones compare their targets; of many,
    the number of the last one is found by a second accumulation."""
    out: list[Share] = []
    for k, e in enumerate(prim.entries):
        guards = tuple(_elsewhere(place, b, prim, e, x) for x in prim.entries[k + 1 :])
        if e.over:
            numbers = number(ordinal(place, e) + ONE)
            who = accumulated(
                place, b, prim, [(e, numbers, ())], "last", Lit(0, DType.I64), DType.I64
            )
            there = dict(zip(b.context, e.at, strict=True))
            mine = _equal(place, b, e, rewrite(who, there), size_of(numbers))
            guards += (Guard(mine, True),)
        out.append(Share(guards))
    return out


def _elsewhere(place: Place, b: Binding, prim: Accumulate, e: Entry, later: Entry) -> Guard:
    """That a later entry goes somewhere else than this one."""
    there = dict(zip(b.context, e.at, strict=True))
    if later.over:
        one = Lit(1, DType.I64)
        zero = Lit(0, DType.I64)
        who = accumulated(place, b, prim, [(later, one, ())], "last", zero, DType.I64)
        return Guard(_equal(place, b, e, rewrite(who, there), ZERO), True)
    plain = {i for i, x in zip(b.context, later.at, strict=True) if x == size(i)}
    there = {i: x for i, x in there.items() if i in plain}
    guards = renamed(later.guards, there)
    around = place.guards + b.guards + e.guards
    same: Operand = Lit(True, DType.BOOL)
    for i, x, mine in zip(b.context, later.at, e.at, strict=True):
        if i not in plain:
            equal = (number(rewrite_size(x, there)), number(mine))
            here = place.b.op("eq", equal, DType.BOOL, around + guards)
            same = place.b.op("and", (here, same), DType.BOOL, around + guards)
    no = Lit(False, DType.BOOL)
    for g in reversed(guards):
        arms = (g.operand, same, no) if g.holds else (g.operand, no, same)
        same = place.b.op("select", arms, DType.BOOL, around)
    return Guard(same, False)


def _equal(place: Place, b: Binding, e: Entry, who: Operand, what: Size) -> Operand:
    guards = place.guards + b.guards + e.guards
    return place.b.op("eq", (who, number(what)), DType.BOOL, guards)
