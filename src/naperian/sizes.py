"""Sizes and index expressions: polynomials with integer coefficients over atoms.

    size ::= Σ coefficient · atom · … · atom
    atom ::= Var                       a size, an index, an integer value
           | Quotient(size, size)      floor division
           | Remainder(size, size)     with the sign of the divisor, as `wrap` needs
           | Clamp(size, size)         clamp(e, n) = max(0, min(e, n - 1))
           | any hashable of a later language (in `ainf`, the read of an integer array)

One normal form serves three ends: two sizes are equal when their polynomials are, an index
expression is affine when its polynomial is, and what is known (`i < n - 1`) is a polynomial
that is not negative (`facts.py` proves with these).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import field
from functools import lru_cache
from math import gcd
from typing import Any, TypeAlias

from naperian.names import Var
from naperian.node import keeper, kept, node

Atom: TypeAlias = Hashable
Monomial: TypeAlias = tuple[Atom, ...]
Term: TypeAlias = tuple[Monomial, int]
_VARIABLE = frozenset((Var,))


@keeper
class Size:
    """A polynomial; `terms` is sorted and has no zero coefficient, so equality is structural.

    `constant` is the number this is, if it is one, and `single` the atom, if it is one atom with
    coefficient 1; `atoms` are all, as often as they occur, without those inside them, and if every
    one is a variable, it is `plain`. They are asked for several times as often as a size is made,
    so they are known from the start."""

    terms: tuple[Term, ...]
    constant: int | None = field(init=False, compare=False, repr=False)
    single: Atom | None = field(init=False, compare=False, repr=False)
    atoms: tuple[Atom, ...] = field(init=False, compare=False, repr=False)
    plain: bool = field(init=False, compare=False, repr=False)

    def __init__(self, terms: tuple[Term, ...]) -> None:
        made: Any = self  # a node, which nobody else sets
        made.terms = terms
        made.constant = made.single = made._kept = made._hash = None
        if len(terms) == 1:
            atoms, c = terms[0]
            if len(atoms) == 1:
                (a,) = made.atoms = atoms
                made.plain = type(a) is Var
                if c == 1:
                    made.single = a
                return
            if not atoms:
                made.constant = c
        else:
            atoms = ()
            for m, _ in terms:
                atoms += m
            if not terms:
                made.constant = 0
        made.atoms = atoms
        made.plain = _VARIABLE.issuperset(map(type, atoms))

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is Size and self.terms == other.terms)

    def __hash__(self) -> int:
        made: Any = self
        if made._hash is None:
            made._hash = hash(self.terms)
        return made._hash  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[type[Size], tuple[tuple[Term, ...]]]:
        return Size, (self.terms,)

    def __add__(self, other: Size | Var | int) -> Size:
        if type(other) is int:
            return self._plus(other)
        if type(other) is not Size:
            other = size(other)
        if not self.terms:
            return other
        number = other.constant
        if number is not None:
            return self._plus(number)
        sums = dict(self.terms)
        for m, c in other.terms:
            sums[m] = sums.get(m, 0) + c
        return _of(sums)

    __radd__ = __add__

    def __neg__(self) -> Size:
        return Size(tuple([(m, -c) for m, c in self.terms]))

    def _plus(self, number: int) -> Size:
        """The constant term, which is the last, changed by a number."""
        if not number:
            return self
        terms = self.terms
        if terms and not terms[-1][0]:
            number += terms[-1][1]
            terms = terms[:-1]
        return Size((*terms, ((), number))) if number else Size(terms)

    def __sub__(self, other: Size | Var | int) -> Size:
        if type(other) is int:
            return self._plus(-other)
        if type(other) is not Size:
            other = size(other)
        number = other.constant
        if number is not None:
            return self._plus(-number)
        sums = dict(self.terms)
        for m, c in other.terms:
            sums[m] = sums.get(m, 0) - c
        return _of(sums)

    def __rsub__(self, other: int) -> Size:
        return size(other) - self

    def __mul__(self, other: Size | Var | int) -> Size:
        if type(other) is int:
            if other == 0:
                return ZERO
            return Size(tuple([(m, c * other) for m, c in self.terms]))
        if type(other) is not Size:
            other = size(other)
        if len(self.terms) == 1 == len(other.terms):
            ((m1, c1),) = self.terms
            ((m2, c2),) = other.terms
            return Size(((_product(m1, m2), c1 * c2),))
        sums: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in other.terms:
                m = _product(m1, m2)
                sums[m] = sums.get(m, 0) + c1 * c2
        return _of(sums)

    __rmul__ = __mul__

    def __floordiv__(self, other: Size | int) -> Size:
        """Floor division; exact when every coefficient is a multiple of a constant divisor."""
        by = size(other)
        k = by.constant
        if k is not None and k != 0:
            mine = self.constant
            if mine is not None:
                return size(mine // k)
            if all(c % k == 0 for _, c in self.terms):
                return Size(tuple((m, c // k) for m, c in self.terms))
        return atom(Quotient(self, by))

    def __mod__(self, other: Size | int) -> Size:
        by = size(other)
        mine, k = self.constant, by.constant
        if mine is not None and k is not None and k != 0:
            return size(mine % k)
        return atom(Remainder(self, by))

    @property
    def offset(self) -> int:
        """The constant term."""
        return self.terms[-1][1] if self.terms and not self.terms[-1][0] else 0

    def coefficient(self, a: Atom) -> int:
        """The coefficient of the monomial that is just `a`."""
        alone = (a,)
        for m, c in self.terms:
            if m == alone:
                return c
        return 0

    def __repr__(self) -> str:
        return show(self)


@node
class Quotient:
    """⌊above / below⌋."""

    above: Size
    below: Size


@node
class Remainder:
    """above - below·⌊above / below⌋."""

    above: Size
    below: Size


@node
class Clamp:
    """The nearest of 0 … extent-1."""

    value: Size
    extent: Size


ZERO = Size(())
ONE = Size((((), 1),))


def size(x: Size | Var | int) -> Size:
    """A number, a variable or a size, as a size."""
    if type(x) is Size:
        return x
    if type(x) is Var:
        return _variable(x)
    return Size((((), int(x)),)) if x else ZERO  # type: ignore[arg-type]


@lru_cache(maxsize=4096)
def _variable(v: Var) -> Size:
    """A variable as a size: one object for all who read at an index, who ask the same of it."""
    return Size((((v,), 1),))


def places(indices: Iterable[Var]) -> tuple[Size, ...]:
    """Variables as sizes: where one is in the loops over them."""
    return tuple(map(_variable, indices))


def atom(a: Atom) -> Size:
    """The size that is one atom."""
    return Size((((a,), 1),))


def _key(a: Atom) -> tuple[int, int, str]:
    if isinstance(a, Var):
        return (0, a.id, "")
    return (1, 0, _written(a))


@lru_cache(maxsize=4096)
def _written(a: Atom) -> str:
    """An atom as text: long for one inside others, and asked for at every sum."""
    return repr(a)


@lru_cache(maxsize=4096)
def _product(m: Monomial, n: Monomial) -> Monomial:
    """The atoms of both in their order: the same few monomials meet again and again."""
    return tuple(sorted(m + n, key=_key))


@lru_cache(maxsize=4096)
def _rank(m: Monomial) -> tuple[int, list[tuple[int, int, str]]]:
    """Where a monomial stands in a sum: the longest first."""
    return (-len(m), [_key(a) for a in m])


def _of(sums: dict[Monomial, int]) -> Size:
    if len(sums) > 1:
        return Size(tuple([(m, c) for m in sorted(sums, key=_rank) if (c := sums[m])]))
    return Size(tuple([x for x in sums.items() if x[1]]))


def substitute(s: Size, replace: Callable[[Atom], Size | None]) -> Size:
    """`s` with atoms replaced; `replace` answers None to keep one. Looks inside the atoms of this
    module; atoms of later languages are `replace`'s business."""
    terms = s.terms
    if len(terms) == 1:
        m, c = terms[0]
        if not m:
            return s
        if c == 1 and len(m) == 1:
            one = m[0]
            new = replace(one)
            if new is None and type(one) is not Var:
                new = _inside(one, replace)
            return s if new is None else new
    sums: dict[Monomial, int] | None = None  # once something changed
    for k, (m, c) in enumerate(terms):
        product: Size | None = None
        kept: Monomial = ()
        for a in m:
            new = replace(a)
            if new is None and type(a) is not Var:
                new = _inside(a, replace)
            if new is None:
                kept += (a,)
            else:
                product = new if product is None else product * new
        if product is not None:
            if sums is None:
                sums = dict(terms[:k])
            for m2, c2 in product.terms:
                m2 = _product(m2, kept) if kept else m2
                sums[m2] = sums.get(m2, 0) + c * c2
        elif sums is not None:
            sums[m] = sums.get(m, 0) + c
    return s if sums is None else _of(sums)


def unwrapped(s: Size, by: Size, is_far: Callable[[Size], bool]) -> Size:
    """What has the same remainder, without remainders by the same number inside: wrap(i + 1, n) + 1
    is i + 2. Only of what is far from the end of the integers, as indices and sizes are."""
    if s.plain or not by.plain:
        return s
    total = ZERO
    for m, c in s.terms:
        a = m[0] if len(m) == 1 and abs(c) == 1 else None
        if isinstance(a, Remainder) and a.below == by and a.above.plain and is_far(a.above):
            total = total + a.above * c
        else:
            total = total + Size(((m, c),))
    return total


def _inside(a: Atom, replace: Callable[[Atom], Size | None]) -> Size | None:
    kind = type(a)
    if kind is Quotient or kind is Remainder:
        above, below = a.above, a.below  # type: ignore[attr-defined]
        x, y = substitute(above, replace), substitute(below, replace)
        if x is above and y is below:
            return None
        return x // y if kind is Quotient else x % y
    if kind is Clamp:
        value, extent = a.value, a.extent  # type: ignore[attr-defined]
        x, y = substitute(value, replace), substitute(extent, replace)
        return None if x is value and y is extent else clamp(x, y)
    return None


def clamp(value: Size, extent: Size) -> Size:
    """clamp(value, extent), evaluated when both are numbers."""
    v, n = value.constant, extent.constant
    if v is not None and n is not None:
        return size(max(0, min(v, n - 1)))
    return atom(Clamp(value, extent))


def natural(value: Size) -> Size:
    """max(value, 0), which is clamp(value, value + 1)."""
    return clamp(value, value + 1)


def is_natural(n: Size, sizes: Collection[Var]) -> bool:
    """Whether a number is a sum of products of sizes, so that it is never negative."""
    return all(c >= 0 and all(a in sizes for a in m) for m, c in n.terms)


def elements(shape: Iterable[Size], sizes: Collection[Var]) -> Size:
    """How many elements an array has: none where extents are negative, though two that are would
    have a positive product."""
    total = ONE
    for n in shape:
        total = total * (n if is_natural(n, sizes) else natural(n))
    return total


def end(cut: Size, low: Size, extent: Size) -> Size:
    """Where a part from `low` that should end at `cut` does: in low … extent."""
    return low + clamp(cut - low, extent - low + 1)


def rename(s: Size, names: Mapping[Var, Size]) -> Size:
    """Variables replaced by sizes."""
    if not names or names.keys().isdisjoint(variables(s)):
        return s
    return substitute(s, lambda a: names.get(a) if type(a) is Var else None)


def variables(s: Size) -> tuple[Var, ...]:
    """Every variable, also inside the atoms of this module."""
    return s.atoms if s.plain else _variables(s)  # type: ignore[return-value]


@kept
def _variables(s: Size) -> tuple[Var, ...]:
    out: list[Var] = []
    for a in s.atoms:
        match a:
            case Var():
                out.append(a)
            case Quotient(x, y) | Remainder(x, y) | Clamp(x, y):
                out += variables(x)
                out += variables(y)
            case _:
                pass
    return tuple(out)


HEAVY = 24
"""More atoms than this are not written in place of a name: names that are used twice, again and
again, would be texts that double with every line."""


@kept
def weight(s: Size) -> int:
    """How many atoms there are in it, inside one another too."""
    if s.plain:
        return len(s.atoms)
    return sum(1 + _within(a) for a in s.atoms)


def _within(a: Atom) -> int:
    match a:
        case Quotient(x, y) | Remainder(x, y) | Clamp(x, y):
            return weight(x) + weight(y)
        case _:
            return 0


def evaluate(s: Size, value: Callable[[Atom], int], wraps: bool = False) -> int:
    """The number a size is, given its outer atoms; the atoms of this module are computed. What
    `wraps` is a value of a program, an integer of 64 bits; inside clamps nothing wraps."""
    total = 0
    for m, c in s.terms:
        for a in m:
            c *= _value(a, value, wraps)
        total += c
    return (total + (1 << 63)) % (1 << 64) - (1 << 63) if wraps else total


def _value(a: Atom, value: Callable[[Atom], int], wraps: bool) -> int:
    match a:
        case Quotient(x, y):
            below = evaluate(y, value, wraps)
            return evaluate(x, value) // below if below else 0
        case Remainder(x, y):
            below = evaluate(y, value, wraps)
            return evaluate(x, value, wraps) % below if below else 0
        case Clamp(x, y):
            return max(0, min(evaluate(x, value), evaluate(y, value) - 1))
        case _:
            return value(a)


def divided(s: Size, n: Size) -> Size | None:
    """s / n for a product n, if it comes out even."""
    if len(n.terms) != 1:
        return None
    ((factors, by),) = n.terms
    total = ZERO
    for m, c in s.terms:
        left = list(m)
        for a in factors:
            if a not in left:
                return None
            left.remove(a)
        if c % by:
            return None
        total = total + Size(((tuple(left), c // by),))
    return total


def lowest(s: Size) -> Size:
    """What is not negative where `s` is, and only there, by as small numbers as may be.

        2·i - 1 >= 0        i - 1 >= 0
    """
    by = gcd(*(c for m, c in s.terms if m))
    return s if by < 2 else Size(tuple((m, c // by) for m, c in s.terms if m)) + s.offset // by


def show(s: Size, name: Callable[[Atom], str] | None = None) -> str:
    """As the user would write it: `n + m - 1`, `2 * n`, `clamp(i + 1, n)`."""

    def of(a: Atom) -> str:
        match a:
            case Quotient(x, y):
                return f"{_grouped(show(x, name))} // {_grouped(show(y, name))}"
            case Remainder(x, y):
                return f"wrap({show(x, name)}, {show(y, name)})"
            case Clamp(x, y) if name is None and y == x + 1:
                return f"max({show(x)}, 0)"
            case Clamp(x, y):
                return f"clamp({show(x, name)}, {show(y, name)})"
            case Var() if name is None:
                return a.said
            case _:
                return name(a) if name else repr(a)

    def factor(a: Atom, alone: bool) -> str:
        loose = type(a) is Quotient and not alone
        if type(a) is Var and name is None and s.single is not a:
            loose = is_loose(a.said)
        return f"({of(a)})" if loose else of(a)

    terms: Iterable[Term] = s.terms
    if name is None and any(isinstance(a, Var) and a.said != a.name for a in s.atoms):
        terms = sorted(terms, key=lambda t: t[1] < 0)  # as one would write it
    return polynomial(terms, factor)


def is_loose(text: str) -> bool:
    """Whether there is a space in a text that stands in no brackets."""
    while text != (text := re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", text)):
        pass
    return " " in text


def polynomial(terms: Iterable[Term], factor: Callable[[Atom, bool], str]) -> str:
    """A sum of products as text: `2 * n - 1`. `factor` writes an atom, which may be `alone` in
    its term."""
    out = ""
    for m, c in terms:
        factors = [factor(a, len(m) == 1 and abs(c) == 1) for a in m]
        if abs(c) != 1 or not m:
            factors.insert(0, str(abs(c)))
        body = " * ".join(factors)
        if out:
            out += f" - {body}" if c < 0 else f" + {body}"
        else:
            out = f"-{body}" if c < 0 else body
    return out or "0"


def show_fact(s: Size) -> str:
    """That a size is not negative, as the user would write it: `n - m - 1` gives `n >= m + 1`."""
    left = Size(tuple((m, c) for m, c in s.terms if c > 0))
    right = Size(tuple((m, -c) for m, c in s.terms if c < 0))
    return f"{show(left)} >= {show(right)}"


def _grouped(text: str) -> str:
    return f"({text})" if " " in text else text
