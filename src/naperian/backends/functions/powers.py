"""Powers to a number that is known: products, with a quotient and a root.

    x ** 7.0      x⁴·x³, with x³ = x²·x + what rounding that lost, …
    x ** -2.5     r²·√r, with r = 1/x + what rounding that lost

All that is multiplied is a sum of two numbers, and only the last product is rounded: the power is
as exact as one to any number, and takes a tenth of the time. A part of it overflows only where the
power does; where a part is so small that what its rounding lost is not all there, |x| is less than
one, and the power is smaller still.
"""

from __future__ import annotations

from functools import partial
from math import inf

from naperian.backends.functions.arith import Real
from naperian.backends.functions.elementary import POWERS
from naperian.node import node


@node
class _Sum:
    """A number, and what its rounding lost, if it was rounded."""

    high: Real
    low: Real | None = None


_MOST = 16  # larger exponents are seldom written


def _power(exponent: float, x: Real) -> Real:
    n, is_whole = int(abs(exponent)), exponent % 1.0 == 0.0
    powers = {1: _Sum(x) if exponent > 0.0 else _inverse(x)}
    if is_whole:
        return _product(*(_whole(powers, k) for k in _parts(n)))
    y = _product(_whole(powers, n), _root(powers[1], x if exponent < 0.0 else None)).abs()
    # the root of a zero has its sign, and -∞ has none
    return x.is_(-inf if exponent > 0.0 else 0.0).choose(inf, y)


def _inverse(x: Real) -> _Sum:
    r = 1.0 / x
    return _Sum(r, x.fma(-r, 1.0) * r)


def _root(x: _Sum, inverse: Real | None) -> _Sum:
    """The square root, where 1/x may be known."""
    root = x.high.sqrt()
    lost = root.fma(-root, x.high)
    if x.low is not None:
        lost = lost + x.low
    return _Sum(root, lost * (0.5 / root if inverse is None else 0.5 * root * inverse))


def _parts(n: int) -> tuple[int, ...]:
    """What adds up to n: a power of two, and the rest."""
    two = 1 << (n - 1).bit_length() - 1
    return two, n - two


def _whole(powers: dict[int, _Sum], n: int) -> _Sum:
    """A whole power, by those that are known, of which it is one then."""
    if n not in powers:
        x, y = (_whole(powers, k) for k in _parts(n))
        high = x.high * y.high
        lost, more = x.high.fma(y.high, -high), _crosswise(x, y)
        powers[n] = _Sum(high, lost if more is None else lost + more)
    return powers[n]


def _product(x: _Sum, y: _Sum) -> Real:
    """The product, rounded once. What is lost of an infinite part is infinite, or no number, and
    that of -0 is 0."""
    more = _crosswise(x, y)
    plain = x.high * y.high
    if more is None:
        return plain
    return (more.abs() < inf).choose(x.high.fma(y.high, more), plain).signed_as(plain)


def _crosswise(x: _Sum, y: _Sum) -> Real | None:
    """The products of what one lost and the other has."""
    one = None if x.low is None else x.low * y.high
    if y.low is None:
        return one
    return x.high * y.low if one is None else x.high.mad(y.low, one)


NAMES: dict[float, str] = {}
"""The functions that are powers, by their exponents."""

for _n in range(3, 2 * _MOST + 1):
    for _exponent in (_n / 2, -_n / 2):
        _name = f"pow{'m' if _exponent < 0 else ''}{_n // 2}{'h' if _n % 2 else ''}"
        NAMES[_exponent] = _name
        POWERS[_name] = partial(_power, _exponent), 1
