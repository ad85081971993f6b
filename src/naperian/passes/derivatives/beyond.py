"""Parts that are sent beyond the ends of axes: added up there, and folded back at once.

    v[i, a] to clamp(i + a - 1) for a<3     m[u] = Σ_a v[u - a - 1, a] + Σ_b w[u - b, b], u < n + 3
    w[i, b] to clamp(i + b - 2) for b<4     at q: m[q + 2]; at 0: m[0], m[1]; at n - 1: m[n + 2]

By cases (`ends`) each part is one in range and one at either end, nine for two axes, each with sums
over all its window. With a margin each is one, and only what lies in the margin is added to the
ends, one axis after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from naperian.ainf.walk import rewrite_size, variables
from naperian.names import Var
from naperian.node import node
from naperian.passes.derivatives.ends import clamped_by
from naperian.passes.derivatives.entries import Entries
from naperian.passes.derivatives.parts import At, Part
from naperian.passes.derivatives.rules import Flow
from naperian.sizes import ZERO, Clamp, Size, clamp, size

_LOOPS = 32  # at the ends: those of two windows of two axes, for which a table is not worth it
_WIDE = 64  # places of a margin


@node
class _Margin:
    """How many places there are before an axis of a length, and behind it."""

    length: Size
    before: int
    behind: int

    @property
    def whole(self) -> Size:
        return self.length + self.before + self.behind


Margins: TypeAlias = dict[int, _Margin]  # of axes


class Beyond(Entries):
    """Parts that are sent beyond the ends."""

    def closed(self, var: Var, parts: list[Part], at: At) -> Flow:
        """The sum of the parts at a point of `var`'s context."""
        raise NotImplementedError

    def folded(self, var: Var, parts: list[Part], at: At) -> list[Part]:
        """The parts, of which those with many cases at the ends are one with few."""
        found = [self.margins(p, at) for p in parts]
        some = [(p, m) for p, m in zip(parts, found, strict=True) if m]
        if sum(self.loops(p) for p, _ in some) <= _LOOPS:
            return parts
        margins = _widest(found)
        inner = list(at)
        for k, m in margins.items():
            inner[k] = size(self.b.index(m.whole))
        sent = [_beyond(p, m, margins) for p, m in some]
        for k, m in reversed(margins.items()):
            value = self.closed(self.like(var, inner), sent, tuple(inner))
            over = tuple(v for e in inner for v in variables(e) if v in self.b.indices)
            to = (*inner[:k], clamp(inner[k] - m.before, m.length), *inner[k + 1 :])
            sent = [] if value is None else [Part(over, to, value, ())]
            inner[k] = at[k]
        return [*(p for p, m in zip(parts, found, strict=True) if not m), *sent]

    def loops(self, part: Part) -> int:
        """How many loops over a window the cases at the ends would have."""
        return (self.number(part) - 1) * (len(self.domain(part)) - len(part.at))

    def like(self, var: Var, at: Iterable[Size]) -> Var:
        """A name for what has the dtype of `var`, and axes as a point of it has indices."""
        new = Var(var.name)
        own = zip(self.b.contexts[var], at, strict=True)
        self.b.contexts[new] = tuple(
            v if isinstance(v := e.single, Var) and v in self.b.indices else i for i, e in own
        )
        self.b.dtypes[new] = self.b.dtypes[var]
        return new

    def margins(self, part: Part, at: At) -> Margins:
        """How far beyond the ends a part is sent; none if that is not known on some axis."""
        domain = self.domain(part)
        free = self.axes(at)
        out: dict[int, _Margin] = {}
        for k, e in enumerate(part.at):
            found = clamped_by(e, domain)
            if found is None:
                continue
            value, n = found
            before, behind = self.most(-value), self.most(value - n + 1)
            i = at[k].single
            if k not in free or not isinstance(i, Var) or self.extent(i) != n:
                return {}
            if before is None or behind is None or self.mentions_indices(n):
                return {}
            out[k] = _Margin(n, max(before, 0), max(behind, 0))
        return out

    def most(self, s: Size) -> int | None:
        """The most that a sum of indices can be, if that is a number, and not too large."""
        ends: dict[Var, Size] = {}
        for v in variables(s):
            if v in self.b.indices:
                n = self.extent(v)
                if n is None or self.mentions_indices(n):
                    return None
                ends[v] = n - 1 if s.coefficient(v) > 0 else ZERO
        if not s.plain or any(len(m) > 1 and not ends.keys().isdisjoint(m) for m, _ in s.terms):
            return None
        most = rewrite_size(s, ends).constant
        return most if most is not None and most <= _WIDE else None

    def mentions_indices(self, n: Size) -> bool:
        return any(v in self.b.indices for v in variables(n))


def _widest(found: Iterable[Margins]) -> Margins:
    """Margins in which all have room."""
    out: dict[int, _Margin] = {}
    for margins in found:
        for k, m in margins.items():
            other = out.get(k, m)
            before, behind = max(m.before, other.before), max(m.behind, other.behind)
            out[k] = _Margin(m.length, before, behind)
    return {k: m for k, m in sorted(out.items()) if m.before or m.behind}


def _beyond(part: Part, own: Margins, margins: Margins) -> Part:
    """The part, sent to where it would be if nothing were kept in range on its own axes."""
    at = list(part.at)
    for k, m in margins.items():
        e = at[k]
        at[k] = (e.single.value if k in own and isinstance(e.single, Clamp) else e) + m.before
    return Part(part.over, tuple(at), part.value, part.guards)
