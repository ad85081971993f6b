"""A number that is chosen: an index where each side of the choice is one, under its condition.

    j = i - 1 if i > 0 else m - 1       ways of j: i - 1, where i >= 1; m - 1, where i <= 0
    y[j]                                is in range, since both are
    (j, w) = (i - 1, a) if i > 0 else (m - 1, b)        the same of an item of a tuple
    0 if i == 2 else y[i]               where a `Fin(7)` is wanted and y holds some, 0 is one
"""

from __future__ import annotations

from naperian.facts import Apart, Facts
from naperian.frontend.fitting import fits
from naperian.frontend.typed import Condition, Typed, Way
from naperian.frontend.walk import Walk
from naperian.sizes import Size, rename, variables
from naperian.types import Index, Type, TypeVar


def literals(w: Walk, sides: list[Typed], expected: Type | None) -> None:
    """Whole numbers that are written beside an index are indices, where one is wanted."""
    wanted = None if expected is None else w.solver.head(expected)
    kinds = [w.solver.head(x.type) for x in sides]
    if isinstance(wanted, Index) and any(isinstance(t, Index) for t in kinds):
        for x, t in zip(sides, kinds, strict=True):
            if x.exact and isinstance(t, TypeVar):
                w.solver.unify(t, wanted)


def ways(w: Walk, condition: Condition | None, then: Typed, other: Typed) -> tuple[Way, ...]:
    """What a choice of two numbers may be; nothing where a side is no index arithmetic."""
    said = condition or Condition((), ())
    one, two = _under(w, said.then, then), _under(w, said.otherwise, other)
    return one + two if one and two else ()


def items(
    w: Walk, condition: Condition | None, then: Typed, other: Typed
) -> tuple[Typed, ...]:
    """The items of a choice of two tuples that are written as such, with their ways."""
    if len(then.items) != len(other.items):
        return ()
    return tuple(
        Typed(
            x.type, x.build, x.span, ways=ways(w, condition, x, y), items=items(w, condition, x, y)
        )
        for x, y in zip(then.items, other.items, strict=True)
    )


def _under(w: Walk, facts: tuple[object, ...], side: Typed) -> tuple[Way, ...]:
    sizes = tuple(f for f in facts if isinstance(f, Size))
    apart = tuple(f for f in facts if isinstance(f, Apart))
    own = side.ways
    if not own and side.poly is not None and not side.lets and fits(w, side.poly):
        own = (Way((), (), side.poly),)
    return tuple(Way(sizes + x.facts, apart + x.apart, x.poly) for x in own)


def in_every_way(w: Walk, facts: Facts, poly: Size, goals: tuple[Size, ...]) -> bool:
    """Whether these are at least 0 whichever way a number is chosen that `poly` mentions."""
    for v in dict.fromkeys(variables(poly)):
        if v in w.choices:
            return all(
                _in_one(w, facts, rename(poly, {v: way.poly}), way,
                        tuple(rename(g, {v: way.poly}) for g in goals))
                for way in w.choices[v]
            )  # fmt: skip
    return False


def _in_one(w: Walk, facts: Facts, poly: Size, way: Way, goals: tuple[Size, ...]) -> bool:
    solver = w.solver
    here = facts.and_(*map(solver.zonk_size, way.facts)).with_apart(
        [Apart(solver.zonk_size(a.poly)) for a in way.apart]
    )
    goals = tuple(map(solver.zonk_size, goals))
    return here.absurd or all(map(here.proves, goals)) or in_every_way(w, here, poly, goals)
