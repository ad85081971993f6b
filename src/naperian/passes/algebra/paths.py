"""In which order the factors of a summed product are multiplied.

    Σ_{j,l} a[i, j] · b[k, l] · x[j, l]     ⟶     Σ_j a[i, j] · (Σ_l b[k, l] · x[j, l])

Factors are multiplied by twos, and an index is summed as soon as no other factor has it. Every
order is tried, subset by subset of the factors (Lam, Sadayappan and Wenger, 1997), so there may
be few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from naperian.names import Var
from naperian.node import node

MOST = 6  # factors


@node
class Step:
    """A product, or a factor by itself, summed over what nobody else needs."""

    factors: tuple[Step | int, ...]
    indices: frozenset[Var]  # that it depends on
    over: frozenset[Var]
    largest: int  # nest in it, in points
    total: int  # points of all nests in it
    outer: int  # products in it that sum nothing

    @property
    def cost(self) -> tuple[int, int, int]:
        return self.largest, self.total, self.outer

    @property
    def is_matrices(self) -> bool:
        """Whether its largest nests are products of matrices."""
        parts = [p for p in self.factors if isinstance(p, Step)]
        largest = [p for p in parts if p.largest == self.largest]
        if largest or not parts:
            return bool(largest) and all(p.is_matrices for p in largest)
        one, two = (p.indices - self.over for p in parts)
        return bool(self.over) and not one <= two and not two <= one


Points: TypeAlias = Callable[[frozenset[Var]], int]


def path(factors: Sequence[frozenset[Var]], kept: frozenset[Var], points: Points) -> Step:
    """The order whose largest nest is the smallest, then the one with fewest points and the fewest
    outer products: of factors by their indices, of which those of the result are kept."""
    whole = (1 << len(factors)) - 1

    def needed(some: int) -> frozenset[Var]:
        """What the product of some factors depends on once it is summed."""
        mine, rest = _union(factors, some), _union(factors, whole & ~some)
        return mine & (kept | rest)

    best: dict[int, Step] = {}
    for some in range(1, whole + 1):
        own = [k for k in range(len(factors)) if some >> k & 1]
        if len(own) == 1:
            mine = needed(some)
            over = factors[own[0]] - mine
            count = points(factors[own[0]]) if over else 0
            best[some] = Step((own[0],), mine, over, count, count, 0)
            continue
        first = 1 << own[0]
        part = (some - 1) & some
        while part:
            if part & first:  # each pair once
                one, two = best[part], best[some & ~part]
                nest = one.indices | two.indices
                count = points(nest)
                mine = needed(some)
                new = Step(
                    (one, two), mine, nest - mine, max(one.largest, two.largest, count),
                    one.total + two.total + count, one.outer + two.outer + (nest == mine),
                )  # fmt: skip
                if some not in best or new.cost < best[some].cost:
                    best[some] = new
            part = (part - 1) & some
    return best[whole]


def _union(factors: Sequence[frozenset[Var]], some: int) -> frozenset[Var]:
    return frozenset().union(*(f for k, f in enumerate(factors) if some >> k & 1))
