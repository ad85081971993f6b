"""Which integers that a run computes are the polynomials they are written as: nothing in them can
wrap around, by what is known where they stand.

Indices and sizes are far from the ends of 64 bits; data, an `Int`, may be any number.
"""

from __future__ import annotations

from math import log2

from naperian.facts import Facts
from naperian.frontend.scope import Scope, SetName, SizeName
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.sizes import Atom, Clamp, Quotient, Remainder, Size, Term, atom
from naperian.types import Set, SetVar, numbers

_END = 1 << 63
_BITS = (4, 8, 12, 16, 20, 24, 31, 48)
FAR = 1 << 48  # more than any index and any size that memory has room for


def fits(w: Walk, s: Size) -> bool:
    """Whether the integer that a run computes is the polynomial, by what is known here."""
    if s.constant is not None or type(s.single) is Var:
        return True
    s = w.solver.zonk_size(s)
    counts = _Counts(w)
    free = [a for m, _ in s.terms for a in m if not counts.has(a)]
    if not free:
        return True
    if not all(_is_exact(w, a) for a in free):
        return False
    if s.single is not None:
        return True
    ends = [x for a in free for x in (_END - 1 - atom(a), _END + atom(a))]
    ends += [FAR - atom(a) for f in w.scope.facts().known for a in f.atoms if counts.has(a)]
    known = w.scope.facts().and_(*ends)
    if any(len(m) > 1 for m, _ in s.terms):
        return _least_bits(s, known) < 63
    return known.proves(_END - 1 - s) and known.proves(_END + s)


def _least_bits(s: Size, known: Facts) -> float:
    """In how many bits a sum of products certainly fits, by what is known of each factor."""

    def bits(a: Atom) -> int:
        fit = (k for k in _BITS if known.proves((1 << k) - atom(a)))
        return next((k for k in fit if known.proves((1 << k) + atom(a))), 63)

    known_bits = {a: bits(a) for a in set(s.atoms)}
    return log2(sum(abs(c) * 2.0 ** sum(known_bits[a] for a in m) for m, c in s.terms))


def _is_exact(w: Walk, a: Atom) -> bool:
    """Whether nothing wraps in an atom."""
    match a:
        case Clamp(x, y):
            return stops(w, x) and (y == x + 1 or fits(w, y))
        case Quotient(x, y) | Remainder(x, y):
            return fits(w, x) and fits(w, y)
        case _:
            return True


def stops(w: Walk, s: Size) -> bool:
    """Whether a clamp of a sum is right: one of a single number stops where it would wrap."""
    match apart(w, s)[0]:
        case [] | [((_,), 1 | -1)]:
            return True
        case _:
            return fits(w, s)


def apart(w: Walk, d: Size) -> tuple[list[Term], Size]:
    """The terms with data, and the rest."""
    counts = _Counts(w)
    data = [t for t in d.terms if not all(map(counts.has, t[0]))]
    return data, d - Size(tuple(data))


class _Counts:
    """The sizes and indices of a place: no more than memory has room for."""

    def __init__(self, w: Walk) -> None:
        solver = w.solver
        self.sizes: set[Var] = {*w.opened, *solver.unknown_sizes, *solver.unknown_sets}
        self.sets: dict[Var, Set] = {}
        scope: Scope | None = w.scope
        while scope is not None:
            for entry in scope.names.values():
                match entry:
                    case SizeName(v) | SetName(SetVar(v)):
                        self.sizes.add(v)
                    case _:
                        pass
            for v, own in scope.ranges():
                self.sets.setdefault(v, own)
            scope = scope.parent

    def has(self, a: Atom) -> bool:
        match a:
            case Var():
                own = self.sets.get(a)
                return a in self.sizes or (own is not None and self._bounded(own))
            case Clamp(value, extent):
                return self._all(value if extent == value + 1 else extent)
            case Remainder(_, below):
                return self._all(below)
            case Quotient(above, below):
                return self._all(above) and self._all(below)
            case _:
                return False

    def _all(self, s: Size) -> bool:
        return all(map(self.has, s.atoms))

    def _bounded(self, own: Set) -> bool:
        """Whether a range begins at no data: nobody goes along it to the ends of the integers."""
        return self._all(numbers(own)[0])
