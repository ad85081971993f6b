"""Ranges of elements that are no numbers: pairs, Booleans, values of one's own index sets.

    for j in i<..:  …          for k in ordinal(i)+1..n*m:      (i an element of (n, m))
                        →          j = (k // m, k % m) …

They range over places, numbers; a name bound over them is the element at the place.
"""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.frontend.coded import coded
from naperian.frontend.coded import places as numbered
from naperian.frontend.derived_sets import item_at, place_in
from naperian.frontend.typed import Build, Typed
from naperian.frontend.walk import Coded, Walk
from naperian.names import Var
from naperian.node import node
from naperian.sizes import Size, size
from naperian.source import Span
from naperian.types import Fin, Index, Set, Substitution, Type, cardinality, element, elements

_NOTHING = Substitution({}, {}, {})


@node
class Places:
    """The elements of a set, by their places in it: of `set`, or of data that is numbered."""

    set: Set
    coded: Coded | None

    @property
    def count(self) -> Size:
        return cardinality(self.set)

    def place(self, w: Walk, value: Typed) -> Build:
        """The number of an element."""
        c = self.coded
        if c is None:
            return lambda: place_in(w.solver.zonk_set(self.set), value.build())

        def build() -> core.Expr:
            number = core.Call(core.Use(c.ordinal, _NOTHING), (value.build(),))
            return core.Checked(number, self.set, origin=value.span)

        return build

    def at(self, w: Walk, k: Var, span: Span) -> Typed:
        """The element with this number."""
        c = self.coded
        if c is not None:
            return Typed(
                c.whole, lambda: core.Call(core.Use(c.at, _NOTHING), (core.Ref(k),)), span
            )
        return Typed(
            self.element, lambda: item_at(w.solver.zonk_set(self.set), size(k)), span
        )

    @property
    def element(self) -> Type:
        return element(self.set) if self.coded is None else self.coded.whole


def places(w: Walk, kind: Type) -> Places | None:
    """Of the set that a value of this type is an element of; None if its elements are numbers, or
    if it is none."""
    kind = w.solver.head(kind)
    c = coded(w, kind)
    if c is not None and kind == c.whole:
        return Places(Fin(cardinality(numbered(c))), c)
    own = elements(w.solver.zonk(kind))
    return None if own is None or isinstance(kind, Index) else Places(own, None)

