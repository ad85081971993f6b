"""The gamma function and its logarithm.

Γ(z) = e^((z - ½)·ln z - z + ½·ln 2π + S(z)) for z >= 8, the exponent kept as a sum of two numbers;
below, Γ(a) = Γ(a + 8) / (a·(a + 1)·…·(a + 7)); on the left, Γ(-a) = -π / (a·sin πa·Γ(a)).
"""

from __future__ import annotations

from math import inf, nan, pi

from naperian.backends.functions import coefficients as c
from naperian.backends.functions.arith import Real
from naperian.backends.functions.circular import sin_cos
from naperian.backends.functions.elementary import called, elementary, through_double
from naperian.backends.functions.exponential import expm1_reduced, log_extended, reduced, scaled

# (a + 1)·(a + 2)·…·(a + 7)
_RISING = (5040.0, 13068.0, 13132.0, 6769.0, 1960.0, 322.0, 28.0, 1.0)
_PI_LOW = 1.2246467991473532e-16
_LN_PI, _LN_PI_LOW = 1.1447298858494002, 1.0265951162707826e-17


def _log_gamma_extended(a: Real, z: Real) -> tuple[Real, Real]:
    """ln Γ(z) as an unevaluated sum, for z >= 8; where z = a + 8 was rounded, of the sum itself."""
    lost = (z > a).choose(a - (z - 8.0), 0.0)
    log, log_low = log_extended(z)
    u = z - 0.5
    product = u * log
    rest = u.fma(log, -product) + u * log_low
    inverse = 1.0 / z
    tail = inverse * (inverse * inverse).poly(c.STIRLING_64)
    slope = lost * (log - 0.5 * inverse)
    above = product - z
    rest = rest + ((product - above) - z)
    high = above + c.LOG_ROOT_2PI_64[0]
    rest = rest + ((above - high) + c.LOG_ROOT_2PI_64[0]) + c.LOG_ROOT_2PI_64[1]
    return high, rest + (tail + slope)


def _sin_pi(a: Real) -> Real:
    """|sin πa|, to a unit of its own size also near the zeros."""
    whole = (a + 0.5).floor()
    r = (a - whole).abs()
    middle = r > 0.25
    u = middle.choose(0.5 - r, r)
    s, co = sin_cos(u.fma(pi, u * _PI_LOW))
    return middle.choose(co, s)


@elementary("gamma")
@through_double
def gamma(x: Real) -> Real:
    a = x.abs().within(0.0, 170.0 if x.f.usual else 250.0)  # from 172 on the result is ∞, or 0
    few = a < 8.0
    z = few.choose(a + 8.0, a)
    h, low = _log_gamma_extended(a, z)
    left = x.negative()
    # on the left e is π / Γ
    sum = _LN_PI - h
    h, low = left.rarely(sum, h), left.rarely(_LN_PI - (sum + h) - low + _LN_PI_LOW, low)
    n, k, r = reduced(h, 2 * h.f.bias)
    e = 1.0 + expm1_reduced(r + low)
    rising = a.poly(_RISING)
    s = _sin_pi(a)
    right = few.choose(e / (a * rising), e)
    below = few.choose(e * rising, e / a) / s
    y = scaled(left.rarely(below, right), n, k)
    floor = x.floor()
    odd = (0.5 * floor).floor().is_not(0.5 * floor)
    y = (left & odd).rarely(-y, y)
    y = (left & floor.is_(x)).rarely(nan, y)
    y = x.is_(inf).rarely(inf, y)
    return (a < 2.0**-60).rarely(1.0 / x, y)


@elementary("lgamma")
def lgamma(x: Real) -> Real:
    return called("lgamma", x)
