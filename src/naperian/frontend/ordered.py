"""Ranges of elements that are no numbers: pairs, Booleans, values of one's own index sets.

    for j in i<..:  …          for k in ordinal(i)+1..n*m:      (i an element of (n, m))
                        →          j = (k // m, k % m) …

They range over places, numbers; a name bound over them is the element at the place.
"""

from __future__ import annotations

from naperian.frontend.coded import numbering
from naperian.frontend.typed import Build, Typed
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.node import node
from naperian.sizes import Size, size
from naperian.source import Span
from naperian.types import Index, Type


@node
class Places:
    """The elements of a set, by their places in it: how many they are, and their type."""

    count: Size
    element: Type

    def place(self, w: Walk, value: Typed) -> Build:
        """The number of an element."""
        return lambda: numbering(w).number(w.solver.zonk(self.element), value.build(), value.span)

    def at(self, w: Walk, k: Var, span: Span) -> Typed:
        """The element with this number."""
        return Typed(
            self.element, lambda: numbering(w).value(w.solver.zonk(self.element), size(k)), span
        )


def places(w: Walk, kind: Type) -> Places | None:
    """Of the set that a value of this type is an element of; None if its elements are numbers, or
    if it is none."""
    kind = w.solver.zonk(kind)
    count = None if isinstance(kind, Index) else numbering(w).count(kind)
    return None if count is None else Places(count, kind)
