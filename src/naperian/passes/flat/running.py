"""Reductions over as many elements as an index says, made in one go.

    [sum(x[k] for k in 0..=j) for j]        scan(+, 0.0, x)

What is reduced does not depend on the index, so that each reduction goes on where the one before
ended: n elements are added, not n * n / 2, in the same order. What begins at the index and ends
where all do is made from the end, but strictly no sum of floats is.
"""

from __future__ import annotations

from collections.abc import Collection

from naperian import prims, types
from naperian.ainf.walk import variables
from naperian.core import syntax as core
from naperian.names import Var
from naperian.passes.bindings.values import Value, extents, substitute
from naperian.passes.flat.rounds import Rounds
from naperian.prims import Math
from naperian.sizes import ZERO, Size, natural, size
from naperian.types import Fin, Range


class Running(Rounds):
    """Reductions, some of which are states of a loop."""

    differentiated: int  # how many derivatives are around

    def reduce(self, e: core.Reduce) -> Value:
        running = self.running(e)
        return super().reduce(e) if running is None else running

    def running(self, e: core.Reduce) -> Value | None:
        """A reduction over as many elements as an index around says, which do not depend on that:
        what a loop over all of them has come to by then."""
        s = self.set(e.set)
        if e.monoid not in prims.UNORDERED or not isinstance(s, Fin | Range):
            return None
        rounded = isinstance(e.type, types.Scalar) and e.type.dtype.is_float
        if rounded and self.differentiated and e.monoid in ("min", "max"):
            return None  # of what is no better than the start the derivative is another
        low, high = (s.low, s.high) if isinstance(s, Range) else (ZERO, s.size)
        for i in self.scope:
            first, last = (i in variables(n) for n in (low, high))
            if first == last or (first and rounded and self.math is Math.STRICT):
                continue  # sums from an index on are made from the end
            all_ = self.most(i, high - low)
            if all_ is None:
                continue
            needed = self.needed(core.Pack((e.init, e.value)))
            start = variables(high if first else low)
            here = self.b.closed((*needed, *start, *variables(all_)))
            if i not in here:
                return self.so_far(e, here, all_, backwards=first)
        return None

    def most(self, i: Var, number: Size) -> Size | None:
        """How large a number gets that grows or shrinks with an index by one, if it is never
        negative and nothing where there is no index."""
        index, steps = self.b.indices[i], number.coefficient(i)
        extent = index.extent
        if extent is None or index.condition is not None or steps not in (1, -1):
            return None
        first = number - steps * size(i)
        last = first + steps * (extent - 1)
        least, all_ = (first, last) if steps == 1 else (last, first)
        nothing = self.natural(extent - all_) or self.natural(extent - 1)
        if i in variables(first) or not self.natural(least) or not nothing:
            return None
        return all_ if self.natural(all_) else natural(all_)

    def so_far(
        self, e: core.Reduce, around: Collection[Var], all_: Size, backwards: bool
    ) -> Value:
        """What a loop over the elements of a reduction has come to after as many as it has."""
        so_far = Var("so_far")
        step = core.Op(e.monoid, (core.Ref(so_far), e.value), e.type, e.origin)
        start = core.Carried(so_far, e.type, e.init)
        elements = types.Reverse(e.set) if backwards else e.set
        loop = core.Scan((start,), e.var, elements, step, origin=e.origin)
        (count,) = extents(self.set(e.set))
        scope, cells = self.scope, self.cells
        self.scope, self.cells = tuple(i for i in scope if i in around), {}
        (value,), time = self.rounds(loop, self.starts(loop), all_, None)
        self.scope, self.cells = scope, cells
        return substitute(value, {time: count})
