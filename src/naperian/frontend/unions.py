"""Indices of a sum of sets: made by `left(i)` and `right(j)`, taken apart by `match`.

    match k:                              if k < n: let i = k in x[i]
        case left(i): x[i]            →   else:     let j = k - n in y[j]
        case right(j): y[j]

An index of `n | m` is its number in the sum: those of `n` come first.
"""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.frontend.messages import set_errors
from naperian.frontend.typed import Build, Typed
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.sizes import ZERO, size
from naperian.source import Span
from naperian.type_show import show_set
from naperian.types import (
    INT,
    Index,
    Set,
    Sum,
    cardinality,
    element,
    numbers,
)

SIDES = ("left", "right")


def side(w: Walk, own: Sum, name: str, span: Span) -> Set:
    """One of the two sets of a sum, whose elements must be numbers."""
    chosen = w.solver.head_set(own.left if name == "left" else own.right)
    if not isinstance(w.solver.head(element(chosen)), Index):
        raise set_errors.no_side(name, show_set(w.solver.zonk_set(chosen)), span)
    return chosen


def inject(w: Walk, own: Sum, name: str, build: Build, span: Span) -> Typed:
    """`left(i)`: an index of one set, which `build` makes, as an index of the sum."""
    part = side(w, own, name, span)
    i = Var("i")
    w.scope.assume_index(i, part)
    first, step = numbers(part)
    before = cardinality(own.left) if name == "right" else ZERO
    poly = before + (size(i) - first) // step
    return Typed(
        Index(own), lambda: core.Number(w.solver.zonk_size(poly)), span, poly, ((i, build),)
    )


def is_side(w: Walk, own: Sum, number: int, value: core.Expr) -> core.Expr:
    """Whether an index of a sum is of its first (0) or second (1) set."""
    before = core.Number(w.solver.zonk_size(cardinality(own.left)))
    return core.Op("lt" if number == 0 else "ge", (value, before), INT)


def project(w: Walk, own: Sum, number: int, value: Build) -> Build:
    """The index of one of its sets that an index of a sum is."""

    def build() -> core.Expr:
        zonked = w.solver.zonk_set(own)
        if not isinstance(zonked, Sum):  # of two `Fin`s
            zonked = own
        k = Var("k")
        first, step = numbers(zonked.left if number == 0 else zonked.right)
        before = ZERO if number == 0 else cardinality(zonked.left)
        place = w.solver.zonk_size(first + step * (size(k) - before))
        return core.Let(k, value(), core.Number(place))

    return build
