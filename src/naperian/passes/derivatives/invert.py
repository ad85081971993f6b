"""Index expressions solved for their indices.

    target = e     q = i + c       i = q - c
                   q = i + a       i = q - a, a is left over
                   q = i * m + j   i = q // m, j = q % m         for j < m
                   q, r = i // m, i % m            i = q * m + r
                   q, r = i // (n * m), i // n % m           i // n = q * m + r
                   q = (i + a) % n                 i = (q - a) % n        for i < n

What was written to `e` from every `i` is thereby read at `q`: shifts, slices, rotations, reshapes
and convolutions transpose to reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from naperian.ainf.syntax import Read
from naperian.ainf.walk import rewrite_size, variables
from naperian.names import Var
from naperian.node import node
from naperian.sizes import ONE, Atom, Quotient, Remainder, Size, divided, size


@node
class Inverse:
    """`names` gives the solved indices; what they are given lies in their ranges only where that
    is tested. `equal` are polynomials that must be 0, `least` those that must be >= 0: a digit is
    less than what it counts to, and a place may lie beyond all digits."""

    names: dict[Var, Size]
    equal: tuple[Size, ...]
    least: tuple[Size, ...]


def invert(
    domain: Collection[Var],
    at: tuple[Size, ...],
    target: tuple[Size, ...],
    extent: Callable[[Var], Size | None],
) -> Inverse | None:
    """Indices of `domain` with which `at` is `target`; those not solved for are free. None if the
    expressions are none of the above."""
    found = _indices(at)  # mostly that is all
    if found is not None and not any(v in domain for e in target for v in variables(e)):
        if all(i in domain for i in found):
            return Inverse(dict(zip(found, target, strict=True)), (), ())
    return _Invert(frozenset(domain), _long_first(domain, extent), extent).solve(at, target)


def _indices(at: tuple[Size, ...]) -> tuple[Var, ...] | None:
    """The indices that a place is at, if it is at an index of its own along each axis."""
    found = [e.single for e in at if type(e.single) is Var]
    return tuple(found) if len({*found}) == len(at) else None


def _long_first(domain: Iterable[Var], extent: Callable[[Var], Size | None]) -> tuple[Var, ...]:
    """The indices, those of a known number of rounds last: they are left over."""

    return tuple(sorted(domain, key=lambda i: _is_short(extent(i))))


def _is_short(n: Size | None) -> bool:
    return n is not None and n.constant is not None


def _whole(above: Size, below: Size, digit: Size) -> tuple[Size, Size] | None:
    """What `above // below` and a digit tell together, and how many values the digit has."""
    match digit.single:
        case Remainder(value, base) if value == above and base == below:
            return above, base
        case Remainder(value, base):
            match value.single:
                case Quotient(over, n) if over == above and n * base == below:
                    return value, base
                case _:
                    return None
        case _:
            return None


class _Invert:
    def __init__(
        self, unsolved: frozenset[Var], order: tuple[Var, ...], extent: Callable[[Var], Size | None]
    ) -> None:
        self.unsolved = set(unsolved)
        self.order = order
        self.extent = extent
        self.names: dict[Var, Size] = {}
        self.equal: list[Size] = []
        self.least: list[Size] = []
        self.pairs: list[tuple[Size, Size]] = []

    def solve(self, at: tuple[Size, ...], target: tuple[Size, ...]) -> Inverse | None:
        self.pairs = list(zip(at, target, strict=True))
        while self.pairs:
            if not self.step():
                return None
        return Inverse(self.names, tuple(self.equal), tuple(self.least))

    def step(self) -> bool:
        """One pair less (or a simpler one), if there is one that can be solved."""
        self.pairs = [(rewrite_size(e, self.names), m) for e, m in self.pairs]
        inside = [self.open(e) for e, _ in self.pairs]
        for few in (0, 1):
            for k, ((e, m), vs) in enumerate(zip(self.pairs, inside, strict=True)):
                if len(vs) == few and (self.constant(e, m) if not vs else self.affine(e, m, vs)):
                    del self.pairs[k]
                    return True
        return self.digits() or self.rest()

    def open(self, e: Size) -> list[Var]:
        mentioned = set(variables(e))
        return [v for v in self.order if v in self.unsolved and v in mentioned]

    def constant(self, e: Size, m: Size) -> bool:
        self.equal.append(e - m)
        return True

    def assign(self, v: Var, value: Size) -> None:
        self.unsolved.discard(v)
        self.names = {i: rewrite_size(x, {v: value}) for i, x in self.names.items()}
        self.names[v] = value

    def affine(self, e: Size, m: Size, vs: list[Var]) -> bool:
        """q = ±i + c, or that modulo the extent of i"""
        inner, modulus = e, None
        match e.single:
            case Remainder(above, below) if not self.open(below):
                inner, modulus = above, below
            case _:
                pass
        for v in vs:
            c = inner.coefficient(v)
            rest = inner - size(v) * c
            if c not in (1, -1) or any(v == u for u in variables(rest)):
                continue
            if any(u in self.unsolved for a in rest.atoms if not self.is_left(a)
                   for u in variables(Size((((a,), 1),)))):  # fmt: skip
                continue
            if v in self.open(m) or any(self.depends(u, v) for u in self.open(rest + m)):
                continue
            value = (m - rest) * c
            if modulus is not None:
                if self.extent(v) != modulus:
                    continue
                self.least.append(modulus - 1 - m)
                value = value % modulus
            self.assign(v, value)
            return True
        return False

    def is_left(self, a: Atom) -> bool:
        """Whether an unsolved index may be left over in an atom: it is one, or says which number of
        a short table is meant."""
        if isinstance(a, Read):
            singles = [e.single for e in a.at if self.open(e)]
            return all(isinstance(u, Var) and _is_short(self.extent(u)) for u in singles)
        return isinstance(a, Var)

    def depends(self, u: Var, v: Var) -> bool:
        """Whether how far `u` goes depends on `v`, which then cannot depend on `u`."""
        n = self.extent(u)
        return n is not None and any(w == v or self.depends(w, v) for w in variables(n))

    def digits(self) -> bool:
        """i // m and i % m together, or i // (n * m) and i // n % m, which are i // n"""
        for k, (e, q) in enumerate(self.pairs):
            match e.single:
                case Quotient(above, below):
                    for j, (x, r) in enumerate(self.pairs):
                        whole = _whole(above, below, x)
                        if whole is not None:
                            kept = [p for i, p in enumerate(self.pairs) if i not in (k, j)]
                            self.pairs = [*kept, (whole[0], q * whole[1] + r)]
                            self.least.append(whole[1] - 1 - r)
                            return True
                case _:
                    pass
        return False

    def rest(self) -> bool:
        """i * m + j for j < m, else several terms of which one is solved for"""
        for k, (e, m) in enumerate(self.pairs):
            vs = self.open(e)
            for v in vs:
                n = self.extent(v)
                if n is None or n == ONE or e.coefficient(v) != 1 or self.open(n):
                    continue
                above = divided(e - size(v), n)
                if above is not None and self.open(above) and v not in self.open(above):
                    self.pairs[k : k + 1] = [(above, m // n), (size(v), m % n)]
                    return True
        for k, (e, m) in enumerate(self.pairs):
            if self.affine(e, m, self.open(e)):
                del self.pairs[k]
                return True
        return False
