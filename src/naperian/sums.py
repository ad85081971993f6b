"""Sums of sizes over a range, in closed form.

    below(i + 1, i, n)  =  Σ_{i < n} (i + 1)  =  (n² + n) // 2

A sum of a polynomial is a polynomial with rational coefficients (Faulhaber), written as one
integer polynomial divided by a constant that always divides it. `exact` tells such quotients from
those that round; only they can be summed again (tetrahedral tables).
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from math import comb, lcm

from naperian.names import Var
from naperian.sizes import (
    ZERO,
    Clamp,
    Monomial,
    Quotient,
    Remainder,
    Size,
    size,
    variables,
)

_RESIDUES = 4096  # points at which divisibility is tried

Rational = dict[Monomial, Fraction]


@cache
def exact(above: Size, below: Size) -> bool:
    """Whether a constant always divides a polynomial: it does at every point modulo the
    constant. An atom that is no variable counts as one of its own."""
    k = below.constant
    atoms = list(dict.fromkeys(above.atoms))
    if k is None or k <= 0 or k ** len(atoms) > _RESIDUES:
        return False
    for point in product(range(k), repeat=len(atoms)):
        values = dict(zip(atoms, point, strict=True))
        total = 0
        for m, c in above.terms:
            for a in m:
                c *= values[a]
            total += c
        if total % k:
            return False
    return True


def below(s: Size, v: Var, n: Size) -> Size | None:
    """Σ s for v in 0 … n-1, for n >= 0; None if `s` is no polynomial in `v`. Atoms of later
    languages must not depend on `v`."""
    terms = _rational(s, v)
    if terms is None:
        return None
    sums: Rational = {}
    for monomial, c in terms.items():
        rest = tuple(a for a in monomial if a != v)
        for power, part in enumerate(_faulhaber(len(monomial) - len(rest))):
            for m, k in (_power(n, power) * Size(((rest, 1),))).terms:
                sums[m] = sums.get(m, Fraction(0)) + c * part * k
    return _size(sums)


def same(s: Size, other: Size) -> bool:
    """Whether two sizes are the same once quotients that do not round are written out:
    `((i + 1)² + i + 1) // 2` is `(i² + i) // 2 + i + 1`."""
    terms = _rational(s - other, Var("v"))
    return terms is not None and not any(terms.values())


def _rational(s: Size, v: Var) -> Rational | None:
    """A size as a polynomial with rational coefficients: quotients that do not round, written
    out. None if `v` stands inside another atom."""
    out: Rational = {}
    for monomial, c in s.terms:
        product_: Rational = {(): Fraction(c)}
        for a in monomial:
            match a:
                case Quotient(above, k) if exact(above, k) and k.constant is not None:
                    inner = _rational(above, v)
                    if inner is None:
                        return None
                    factor = {m: x / k.constant for m, x in inner.items()}
                case Var():
                    factor = {(a,): Fraction(1)}
                case _ if v in _inside(a):
                    return None
                case _:
                    factor = {(a,): Fraction(1)}
            new: Rational = {}
            for m1, x in product_.items():
                for m2, y in factor.items():
                    ((m, _),) = (Size(((m1, 1),)) * Size(((m2, 1),))).terms
                    new[m] = new.get(m, Fraction(0)) + x * y
            product_ = new
        for m, x in product_.items():
            out[m] = out.get(m, Fraction(0)) + x
    return out


def _inside(a: object) -> set[Var]:
    """The variables inside an atom."""
    match a:
        case Quotient(x, y) | Remainder(x, y) | Clamp(x, y):
            return {*variables(x), *variables(y)}
        case _:
            return set()


def _size(terms: Rational) -> Size:
    """The size with these coefficients, whose value is always whole."""
    divisor = lcm(*(c.denominator for c in terms.values())) if terms else 1
    total = ZERO
    for m, c in terms.items():
        total = total + Size(((m, 1),)) * int(c * divisor)
    return total // divisor


def _power(n: Size, k: int) -> Size:
    out = size(1)
    for _ in range(k):
        out = out * n
    return out


@cache
def _faulhaber(k: int) -> tuple[Fraction, ...]:
    """The coefficients of Σ_{v < n} v^k as a polynomial in n, constant first."""
    out = [Fraction(0)] * (k + 2)
    for j in range(k + 1):
        out[k + 1 - j] = Fraction(comb(k + 1, j), k + 1) * _bernoulli(j)
    return tuple(out)


@cache
def _bernoulli(k: int) -> Fraction:
    """B_k, with B_1 = -1/2."""
    if k == 0:
        return Fraction(1)
    return -sum(
        (comb(k + 1, j) * _bernoulli(j) for j in range(k)), Fraction(0)
    ) / (k + 1)


