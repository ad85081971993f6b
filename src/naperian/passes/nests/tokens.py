"""What rounds only hand on, drop, or put down once: few of them change what is kept of it.

    new = (1.0 if t == k else 0.0) + (last if c[t] else 0.0)
    last := new                             `last` is another at k, and once behind it

    kept := one if c[t] else 0.0
    got = (0.0 if c[t] else one) + last     one moves from `one` to `last`
    one := kept
    last := got

So goes the cotangent of a largest value, or of a last one, back through the loop that looked for
it: to the round it was found in. How often that happens is not asked: what is there is at most as
many numbers as are put down, each somewhere else at most as often as there are places for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

from naperian.dtypes import DType
from naperian.loops.syntax import Apply, Expr, Local
from naperian.loops.walk import as_index, used_in
from naperian.names import Lit, Var
from naperian.passes.nests.records import not_
from naperian.sizes import size

_MANY = 16  # sides of conditions

_Term: TypeAlias = tuple[Var, frozenset[Expr]]
"""A variable that a sum has, and the conditions under which it does."""


@dataclass
class Tokens:
    """The rounds of a loop over `time`, as `records.Rounds` has them; `whole` writes an expression
    without names of the round, `changed` are the names that are not the same in all rounds."""

    lets: Mapping[Var, Expr]
    changed: frozenset[Var]
    time: Var
    whole: Callable[[Expr], Expr]
    terms: dict[Var, list[_Term] | None] = field(default_factory=dict)  # of names of the round

    def moved(self, assigned: Mapping[Var, Expr]) -> frozenset[Var]:
        """Those of the variables, with what they become, that tokens are moved among."""
        found = {v: t for v, e in assigned.items() if (t := self._terms(e)) is not None}
        while True:
            gone = {v for v, t in found.items() if any(w not in found for w, _ in t)}
            for (v, (x, one)), (w, (y, two)) in combinations(
                [(v, t) for v, terms in found.items() for t in terms], 2
            ):
                if x == y and all(not_(c) not in two for c in one):
                    gone |= {v, w}  # there would be two of it
            if not gone:
                return frozenset(found)
            found = {v: t for v, t in found.items() if v not in gone}

    def _terms(self, e: Expr) -> list[_Term] | None:
        """The variables that an expression is a sum of; None if it is anything else. What a single
        round puts down is no part of it."""
        match e:
            case Lit(value):
                return [] if value == 0.0 else None
            case Local(v) if v in self.lets:
                if v not in self.terms:
                    self.terms[v] = self._terms(self.lets[v])
                return self.terms[v]
            case Local(v):
                return [(v, frozenset())]
            case Apply("add", (x, y)):
                one, two = self._terms(x), self._terms(y)
                both = None if one is None or two is None else [*one, *two]
            case Apply("select", (c, x, y)):
                both = []
                for side, holds in ((x, self.whole(c)), (y, not_(self.whole(c)))):
                    if not self._is_once(holds):
                        found = self._terms(side)
                        if found is None:
                            return None
                        both += [(v, under | {holds}) for v, under in found]
            case _:
                return None
        return None if both is None or len(both) > _MANY else both

    def _is_once(self, c: Expr) -> bool:
        """Whether a condition holds in one round at most."""
        match c:
            case Apply("eq", (x, y), _, DType.I64):
                one, two = as_index(x), as_index(y)
                if one is None or two is None:
                    return False
                gap = one - two
                along = gap.coefficient(self.time)
                rest = gap - size(self.time) * along
                return along != 0 and {self.time, *self.changed}.isdisjoint(used_in(rest))
            case _:
                return False

