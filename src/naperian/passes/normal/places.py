"""Index arithmetic under what the index sets say: where a cell stands and which cell stands there.

    (i * m + j) // m = i        wrap(i * m + j, m) = j        where 0 <= j < m

Of indices and sizes, which are far from the end of the integers. A multiple of an integer that is
data may have wrapped around, and then it is no multiple.
"""

from __future__ import annotations

from naperian.facts import Facts
from naperian.names import Var
from naperian.sizes import (
    ONE,
    ZERO,
    Atom,
    Quotient,
    Remainder,
    Size,
    size,
    substitute,
    unwrapped,
    variables,
)
from naperian.types import Set, cardinality, numbers


class Places:
    """The index variables met so far, each with its set, and the bounds of those asked about."""

    def __init__(self) -> None:
        self.sets: dict[Var, Set] = {}
        self.bounds: dict[Var, tuple[Size, Size]] = {}
        self.known: dict[Atom, Size | None] = {}  # what became of atoms that were looked at
        self.sizes: frozenset[Var] = frozenset()  # of the definition
        self.data: set[Var] = set()  # integers that may be any

    def add(self, var: Var, s: Set) -> None:
        """`var` is an index of `s` that is a number."""
        self.sets[var] = s

    def add_data(self, var: Var) -> None:
        """`var` is an integer, and may be any if it is no size and no index."""
        if var not in self.sizes and var not in self.sets:
            self.data.add(var)

    def is_far(self, s: Size, extent: Size = ZERO) -> bool:
        """Whether a number is far from the end of the integers: no data are in it, but for what is
        the extent of an axis."""
        return not self.data or self.data.isdisjoint({*variables(s)} - {*variables(extent)})

    def bounds_of(self, v: Var) -> tuple[Size, Size]:
        """The first number that an index may be, and one more than the last."""
        if v not in self.bounds:
            first, step = numbers(self.sets[v])
            end = first + step * (cardinality(self.sets[v]) - 1) + 1
            self.bounds[v] = first, end
        return self.bounds[v]

    def facts(self, *about: Size) -> Facts:
        known = Facts()
        for v in dict.fromkeys(v for s in about for v in variables(s)):
            if v in self.sets:
                low, high = self.bounds_of(v)
                known = known.and_(size(v) - low, high - 1 - v)
        return known

    def simplify(self, s: Size) -> Size:
        """Quotients and remainders that are known, done."""
        return s if s.plain else substitute(s, self._known)

    def _known(self, a: Atom) -> Size | None:
        if isinstance(a, Var):
            return None
        if a not in self.known:
            self.known[a] = self._found(a)
        return self.known[a]

    def _found(self, a: Atom) -> Size | None:
        match a:
            case Quotient(above, below):
                new = self.divide(self.simplify(above), self.simplify(below))[0]
            case Remainder(above, below):
                new = self.divide(self.simplify(above), self.simplify(below))[1]
            case _:
                return None
        return None if new.single == a else new

    def divide(self, above: Size, below: Size) -> tuple[Size, Size]:
        """⌊above / below⌋ and what is left: parted into multiples and a rest, if the rest is
        provably less."""
        if below == ONE:
            return above, ZERO
        above = unwrapped(above, below, self.is_far)
        many, rest = self._parted(above, below)
        facts = self.facts(rest, below)
        if facts.proves(rest) and facts.proves(below - 1 - rest):
            return many, rest
        return above // below, above % below

    def _parted(self, above: Size, below: Size) -> tuple[Size, Size]:
        """above = many * below + rest; `below` a single term, else all is rest."""
        if len(below.terms) != 1:
            return ZERO, above
        ((factors, scale),) = below.terms
        many, rest = ZERO, ZERO
        for monomial, c in above.terms:
            left = list(monomial)
            for a in factors:
                if a in left:
                    left.remove(a)
            term, quotient = Size(((monomial, c),)), Size(((tuple(left), c // scale),))
            is_whole = len(left) + len(factors) == len(monomial) and c % scale == 0
            if is_whole and self.is_far(quotient, below):
                many = many + quotient
            else:
                rest = rest + term
        return many, rest


def aligned(old: list[Set], new: list[Set]) -> list[tuple[list[Set], list[Set]]]:
    """Axes in the smallest groups that hold equally many elements."""
    groups: list[tuple[list[Set], list[Set]]] = []
    ends = {n: k for k, n in enumerate(_products(new), 1)}
    taken = done = 0
    for k, n in enumerate(_products(old), 1):
        end = ends.get(n, 0)
        if end > done and k < len(old) and end < len(new):
            groups.append((old[taken:k], new[done:end]))
            taken, done = k, end
    groups.append((old[taken:], new[done:]))
    return groups


def _products(sets: list[Set]) -> list[Size]:
    out, product = [], ONE
    for s in sets:
        product = product * cardinality(s)
        out.append(product)
    return out
