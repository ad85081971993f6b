"""Exponentials, logarithms, powers and the hyperbolic functions."""

from __future__ import annotations

from math import inf, nan

from naperian.backends.functions import coefficients as c
from naperian.backends.functions.arith import Bits, Real
from naperian.backends.functions.elementary import elementary

# --- exponentials -------------------------------------------------------------------------------
# x = n·ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r²·EXP(r). The reduction is exact but for the
# last step: x - n·(high part of ln 2) fits the significand.


def reduced(x: Real, more: int = 0) -> tuple[Real, Bits, Real]:
    """n, also in the low bits of an integer, where `more` is added to it; r."""
    f = x.f
    ln2 = c.LN2_64 if f.wide else c.LN2_32
    n, k = x.nearest(f.pick(c.LOG2_E_64[0], c.LOG2_E_32[0]), more)
    return n, k, n.fma(-ln2[1], n.fma(-ln2[0], x))


def expm1_reduced(r: Real) -> Real:
    return (r * r).mad(r.long_poly(c.EXP_64 if r.f.wide else c.EXP_32), r)


def scaled(x: Real, n: Real, k: Bits) -> Real:
    """x·2^n, where k has n + 2·bias in its low bits. Usually 2^n is a number."""
    f = x.f
    if f.usual:
        return x * f.power(k - 2 * f.bias)
    if f.scales_at_once:
        return x.times_power(n)
    root, rest = _halves(k)
    return x * root * rest


def _halves(k: Bits) -> tuple[Real, Real]:
    """2^n as a product, so that overflow and gradual underflow come by themselves."""
    f = k.f
    root = (k << (f.mantissa - 1)) & -(1 << f.mantissa)
    return root.as_real(), ((k << f.mantissa) - root).as_real()


def _exponent_range(x: Real) -> Real:
    """x, or the nearest number at which e^x has long since overflowed or vanished."""
    f = x.f
    if f.usual:
        return x.within(f.pick(-670.0, -69.0), f.pick(708.0, 87.0))  # p·2^k, too, is exact
    return x.within(f.pick(-747.0, -105.0), f.pick(711.0, 90.0))


def scaled_exp(x: Real, times_two_to: int = 0, low: Real | None = None) -> Real:
    """e^(x + low)·2^times_two_to; the power of two costs nothing and delays overflow."""
    f = x.f
    n, k, r = reduced(_exponent_range(x), 2 * f.bias)
    if low is not None:
        r = r + low
    if times_two_to:
        n, k = n + float(times_two_to), k + times_two_to
    e = expm1_reduced(r)
    if f.scales_at_once:
        return (1.0 + e).times_power(n)
    # the same number, a multiplication earlier
    if f.usual:
        power = f.power(k - 2 * f.bias)
        return e.mad(power, power)
    root, rest = _halves(k)
    return e.mad(root, root) * rest


@elementary("exp")
def exp(x: Real) -> Real:
    return scaled_exp(x)


@elementary("exp2")
def exp2(x: Real) -> Real:
    f = x.f
    if f.usual:
        x = x.within(f.pick(-1022.0, -126.0), f.pick(1022.0, 126.0))
    else:
        x = x.within(f.pick(-1078.0, -152.0), f.pick(1026.0, 130.0))
    n, k = x.nearest(more=2 * f.bias)
    r = x - n
    return scaled(r.mad(r.poly(c.EXP2_64 if f.wide else c.EXP2_32), 1.0), n, k)


@elementary("expm1")
def expm1(x: Real) -> Real:
    f = x.f
    _, k, r = reduced(x.within(f.pick(-45.0, -20.0), f.pick(709.9, 88.9)))
    # twice (2^(n-1)·(e^r - 1) + (2^(n-1) - 1/2)): 2^n itself may overflow
    half = f.power(k - 1)
    y = 2.0 * half.mad(expm1_reduced(r), half - 0.5)
    return (x.abs() < 2.0 ** -(f.mantissa + 2)).rarely(x, y)


# --- logarithms ---------------------------------------------------------------------------------
# x = 2^k·m with √½ <= m < √2, f = m - 1, s = f / (2 + f): ln m = f - (f²/2 - s·(f²/2 + z·LOG(z))).


def _split(x: Real) -> tuple[Real, Real]:
    """(k, m) of a positive number: x = 2^k·m."""
    f = x.f
    tiny = x < 2.0 ** (1 - f.bias)
    shift = f.mantissa + 2
    one, root = f.bias << f.mantissa, f.pick(0x3FE6A09E667F3BCD, 0x3F3504F3)
    bits = tiny.rarely(x * 2.0**shift, x).as_bits() + (one - int(root))
    magic = 2.0**f.mantissa
    number = ((bits >> f.mantissa) | f.real(magic).as_bits()).as_real()
    k = number - tiny.rarely(magic + f.bias + shift, magic + f.bias)
    return k, ((bits & ((1 << f.mantissa) - 1)) + int(root)).as_real()


def _log_near_one(m: Real, low: tuple[Real, float] | None = None) -> tuple[Real, Real]:
    """(f, d) with ln m = f - d, or with the product `low` added: what does not wait for the
    polynomial is computed beside it."""
    f = m - 1.0
    s = f / (m + 1.0)
    z = s * s
    half = 0.5 * f * f
    first = half if low is None else low[0].fma(-low[1], half)
    tail = z.long_poly(c.LOG_64 if m.f.wide else c.LOG_32)
    return f, (-s * z).mad(tail, (-s).mad(half, first))


def _log_special(x: Real, y: Real) -> Real:
    """y, except that ln 0 = -∞, ln ∞ = ∞, and NaN below zero."""
    special = x.is_(0.0).choose(-inf, (x > 0.0).choose(x, nan))
    return ((x > 0.0) & (x < inf)).mostly(y, special)


@elementary("log")
def log(x: Real) -> Real:
    ln2 = c.LN2_64 if x.f.wide else c.LN2_32
    k, m = _split(x)
    f, d = _log_near_one(m, (k, ln2[1]))
    return _log_special(x, k.fma(ln2[0], f - d))


@elementary("log2")
def log2(x: Real) -> Real:
    scale = c.LOG2_E_64 if x.f.wide else c.LOG2_E_32
    k, m = _split(x)
    f, d = _log_near_one(m)
    y = f - d
    low = (f - y) - d
    return _log_special(x, k + y.fma(scale[0], y.mad(scale[1], low * scale[0])))


@elementary("log10")
def log10(x: Real) -> Real:
    scale = c.LOG10_E_64 if x.f.wide else c.LOG10_E_32
    step = c.LOG10_2_64 if x.f.wide else c.LOG10_2_32
    k, m = _split(x)
    f, d = _log_near_one(m)
    y = f - d
    low = (f - y) - d
    small = k.mad(step[1], y.mad(scale[1], low * scale[0]))
    return _log_special(x, k.fma(step[0], y.fma(scale[0], small)))


@elementary("log1p")
def log1p(x: Real) -> Real:
    ln2 = c.LN2_64 if x.f.wide else c.LN2_32
    u = 1.0 + x
    lost = (x > 1.0).choose((x - u) + 1.0, x - (u - 1.0))
    k, m = _split(u)
    f, d = _log_near_one(m)
    y = k.fma(ln2[0], f - (d - k.fma(ln2[1], lost / u)))
    y = _log_special(u, y)
    return (x.abs() < 2.0 ** -(x.f.mantissa + 2)).rarely(x, y)


# --- hyperbolic functions -----------------------------------------------------------------------


@elementary("sinh")
def sinh(x: Real) -> Real:
    a = x.abs()
    z = a * a
    small = (a * z).mad(z.poly(c.SINH_64 if x.f.wide else c.SINH_32), a)
    half = scaled_exp(a, -1)
    return (a < 1.0).choose(small, half - 0.25 / half).signed_as(x)


@elementary("cosh")
def cosh(x: Real) -> Real:
    half = scaled_exp(x.abs(), -1)
    return half + 0.25 / half


@elementary("tanh")
def tanh(x: Real) -> Real:
    t = expm1(2.0 * x.abs().within(0.0, 22.0))
    return (t / (t + 2.0)).signed_as(x)


@elementary("sigmoid")
def sigmoid(x: Real) -> Real:
    """1 / (1 + e^-x), and for a negative x the same times e^x, which does not overflow."""
    e = scaled_exp(-x.abs())
    return (x < 0.0).choose(e, 1.0) / (1.0 + e)


@elementary("asinh")
def asinh(x: Real) -> Real:
    f = x.f
    a = x.abs()
    large = a > f.pick(2.0**500, 2.0**60)
    z = a * a
    u = large.rarely(a, a + z / (1.0 + (z + 1.0).sqrt()))
    more = large.rarely(f.pick(c.LN2_64[0], c.LN2_32[0]), 0.0)
    return (log1p(u) + more).signed_as(x)


@elementary("acosh")
def acosh(x: Real) -> Real:
    f = x.f
    large = x > f.pick(2.0**500, 2.0**60)
    t = x - 1.0
    u = large.rarely(x, t + t.mad(t, 2.0 * t).sqrt())
    more = large.rarely(f.pick(c.LN2_64[0], c.LN2_32[0]), 0.0)
    return (x < 1.0).rarely(nan, log1p(u) + more)


@elementary("atanh")
def atanh(x: Real) -> Real:
    a = x.abs()
    return (0.5 * log1p(2.0 * a / (1.0 - a))).signed_as(x)


# --- powers ---------------------------------------------------------------------------------------


def log_extended(x: Real) -> tuple[Real, Real]:
    """ln x as an unevaluated sum, to about 2^-66, for a positive number."""
    k, m = _split(x)
    f = m - 1.0
    two = 2.0 + f
    inverse = 1.0 / two
    s = f / two
    # what the sum and the division lost
    s_low = (s.fma(-two, f) - s * (f - (two - 2.0))) * inverse
    z = s * s
    z_low = s.fma(s, -z) + 2.0 * s * s_low
    # ln m = 2s·(1 + z·t), t = 1/3 + z·TAIL(z)
    third, third_low = 0.3333333333333333, 1.850371707708594e-17
    q = z * z.long_poly(c.LOG_TAIL_64)
    t = third + q
    t_low = (third - t) + q + third_low
    w = z * t
    w_low = z.fma(t, -w) + z * t_low + z_low * t
    g = 1.0 + w
    g_low = (1.0 - g) + w + w_low
    s, s_low = 2.0 * s, 2.0 * s_low
    y = s * g
    y_low = s.fma(g, -y) + s * g_low + s_low * g
    # + k·ln 2
    base = k * c.LN2_64[0]
    base_low = k.fma(c.LN2_64[0], -base) + k * c.LN2_64[1]
    total = base + y
    back = total - base
    lost = (base - (total - back)) + (y - back)
    low = lost + (base_low + y_low)
    high = total + low
    return high, (total - high) + low


@elementary("pow", 2)
def pow(x: Real, y: Real) -> Real:
    if x.f.wide:
        return _power(x, y, log_extended(x.abs()))
    # whose exponents are below 2^7, so that of a logarithm 2^-50 is 2^-43 of the power
    x, y = x.widened(), y.widened()
    k, m = _split(x.abs())
    f, d = _log_near_one(m, (k, c.LN2_64[1]))
    return _power(x, y, (k.fma(c.LN2_64[0], f - d), None)).narrowed()


def _power(x: Real, y: Real, logarithm: tuple[Real, Real | None]) -> Real:
    """x^y, from ln |x| as a sum, or a number alone."""
    a = x.abs()
    high, low = logarithm
    exponent = y.within(-(2.0**66), 2.0**66)
    h = exponent * high
    rest = None if low is None else exponent.fma(high, -h) + exponent * low
    if x.f.usual:
        # log_extended asks for small numbers, scaled_exp for large exponents
        (~((x > 0.0) & (x < inf))).is_rare()
        return scaled_exp(h, low=rest)
    if rest is not None:
        rest = (h.abs() < 750.0).choose(rest, 0.0)
    r = scaled_exp(h, low=rest)
    # |x|^y at the edges
    edge = a.is_(0.0) | a.is_(inf) | y.abs().is_(inf)
    grows = ~((a > 1.0) ^ (y > 0.0))
    r = edge.choose(grows.choose(inf, 0.0), r)
    whole = y.floor().is_(y)
    odd = whole & (0.5 * y).floor().is_not(0.5 * y)
    r = (x.negative() & odd).choose(-r, r)
    r = ((x < 0.0) & (a < inf) & ~whole).choose(nan, r)
    r = (a.is_(1.0) & y.abs().is_(inf)).choose(1.0, r)
    r = (x.is_nan() | y.is_nan()).choose(nan, r)
    return (x.is_(1.0) | y.is_(0.0)).choose(1.0, r)
