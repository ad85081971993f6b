"""The trigonometric functions and their inverses."""

from __future__ import annotations

from math import inf

from naperian.backends.functions import coefficients as c
from naperian.backends.functions.arith import Bits, Flag, Real
from naperian.backends.functions.elementary import elementary, rarely

# --- trigonometry -------------------------------------------------------------------------------
# x = n·π/2 + r with |r| <= π/4, by three parts of π/2. With fused multiply-add every step is
# exact or rounded relative to its own result, so this serves up to 2^40; beyond that, libm.


def _quadrant(x: Real) -> tuple[Bits, Real, Flag]:
    f = x.f
    half_pi = c.HALF_PI_64 if f.wide else c.HALF_PI_32
    n, k = (x * 0.6366197723675814).nearest()
    r = n.fma(-half_pi[2], n.fma(-half_pi[1], n.fma(-half_pi[0], x)))
    return k, r, x.abs() > f.pick(2.0**40, 2.0**17)


def sin_cos(r: Real) -> tuple[Real, Real]:
    """Both, up to π/4."""
    wide = r.f.wide
    z = r * r
    sine = (r * z).mad(z.poly(c.SIN_SHORT_64 if wide else c.SIN_SHORT_32), r)
    half = 0.5 * z
    w = 1.0 - half
    tail = (z * z).mad(z.poly(c.COS_SHORT_64 if wide else c.COS_SHORT_32), (1.0 - w) - half)
    return sine, w + tail


def _negated(x: Real, k: Bits) -> Real:
    """-x where the second bit of k is set."""
    return (x.as_bits() ^ ((k & 2) << (x.f.dtype.bits - 2))).as_real()


@elementary("sin")
def sin(x: Real) -> Real:
    k, r, huge = _quadrant(x)
    s, co = sin_cos(r)
    y = _negated(k.test(1).choose(co, s), k)
    return rarely("sin", huge, x.is_(0.0).rarely(x, y), x)


@elementary("cos")
def cos(x: Real) -> Real:
    k, r, huge = _quadrant(x)
    s, co = sin_cos(r)
    return rarely("cos", huge, _negated(k.test(1).choose(s, co), k + 1), x)


@elementary("tan")
def tan(x: Real) -> Real:
    k, r, huge = _quadrant(x)
    s, co = sin_cos(r)
    odd = k.test(1)
    y = odd.choose(-co, s) / odd.choose(s, co)
    return rarely("tan", huge, x.is_(0.0).rarely(x, y), x)


# --- inverse trigonometry -----------------------------------------------------------------------


def _asin_parts(x: Real) -> tuple[Real, Flag, Real, Real]:
    """(|x|, whether it is above ½, s, p): arcsin |x| is s + p, or above ½ π/2 - 2·(s + p)."""
    a = x.abs()
    big = a > 0.5
    z = big.choose(0.5 * (1.0 - a), a * a)
    s = big.choose(z.sqrt(), a)
    return a, big, s, s * z * z.poly(c.ASIN_64 if x.f.wide else c.ASIN_32)


@elementary("asin")
def asin(x: Real) -> Real:
    half_pi = c.HALF_PI_64 if x.f.wide else c.HALF_PI_32
    _, big, s, p = _asin_parts(x)
    beyond = half_pi[0] - (2.0 * (s + p) - half_pi[1])
    return big.choose(beyond, s + p).signed_as(x)


@elementary("acos")
def acos(x: Real) -> Real:
    half_pi = c.HALF_PI_64 if x.f.wide else c.HALF_PI_32
    _, big, s, p = _asin_parts(x)
    negative = x.negative()
    twice = 2.0 * (s + p)
    beyond = negative.choose(2 * half_pi[0] - (twice - 2 * half_pi[1]), twice)
    within = half_pi[0] - (s.signed_as(x) - (half_pi[1] - p.signed_as(x)))
    return big.choose(beyond, within)


def _atan_ratio(y: Real, x: Real) -> Real:
    """arctan(y / x) for y, x >= 0: below tan π/8 of y/x itself, then of (y - x) / (y + x) and π/4,
    above cot π/8 of -x/y and π/2."""
    f = x.f
    half_pi = c.HALF_PI_64 if f.wide else c.HALF_PI_32
    low, high = y < 0.4142135623730951 * x, y > 2.414213562373095 * x
    above = low.choose(y, high.choose(-x, y - x))
    below = low.choose(x, high.choose(y, y + x))
    t = above / below
    z = t * t
    p = (t * z).mad(z.poly(c.ATAN_64 if f.wide else c.ATAN_32), t)
    base = low.choose(0.0, high.choose(half_pi[0], 0.5 * half_pi[0]))
    rest = low.choose(0.0, high.choose(half_pi[1], 0.5 * half_pi[1]))
    return base + (p + rest)


@elementary("atan")
def atan(x: Real) -> Real:
    return _atan_ratio(x.abs(), x.f.real(1.0)).signed_as(x)


@elementary("atan2", 2)
def atan2(y: Real, x: Real) -> Real:
    f = x.f
    half_pi = c.HALF_PI_64 if f.wide else c.HALF_PI_32
    a, b = y.abs(), x.abs()
    # neither sum nor ratio may overflow or be ∞/∞ or 0/0
    infinite = a.is_(inf) & b.is_(inf)
    large = (a > 2.0**f.bias) | (b > 2.0**f.bias)
    a = large.rarely(infinite.choose(1.0, 0.25 * a), a)
    b = large.rarely(infinite.choose(1.0, 0.25 * b), b)
    # of subnormal numbers the ratio could not be compared with tan π/8
    small = (a < 2.0 ** (64 - f.bias)) & (b < 2.0 ** (64 - f.bias))
    nothing = a.is_(0.0) & b.is_(0.0)
    a, b = small.rarely(2.0**64 * a, a), small.rarely(nothing.choose(1.0, 2.0**64 * b), b)
    t = _atan_ratio(a, b)
    left = 2 * half_pi[0] - (t - 2 * half_pi[1])
    return x.negative().choose(left, t).signed_as(y)
