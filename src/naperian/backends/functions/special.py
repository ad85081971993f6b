"""The error functions, roots, and division with a remainder."""

from __future__ import annotations

from math import inf

from naperian.backends.functions import coefficients as c
from naperian.backends.functions.arith import Real
from naperian.backends.functions.elementary import elementary, rarely, through_double
from naperian.backends.functions.exponential import expm1_reduced, reduced, scaled_exp
from naperian.backends.functions.tables import pair_at

# --- error functions ----------------------------------------------------------------------------


def _erfc_positive(a: Real) -> Real:
    """erfc a = e^(-a²)·g(a) / (1 + 2a), g a polynomial in (a - 4) / (a + 4)."""
    f = a.f
    a = a.within(0.0, f.pick(28.0, 11.0))
    t = (a - 4.0) / (a + 4.0)
    g = t.poly(c.ERFCX_64 if f.wide else c.ERFCX_32) / (1.0 + 2.0 * a)
    square = a * a
    lost = a.fma(a, -square)
    y = scaled_exp(-square) * g
    return y.fma(-lost, y)


@elementary("erfc")
@through_double  # the tail loses what the exponent has, and 4 ulp of single precision are soon lost
def erfc(x: Real) -> Real:
    y = _erfc_positive(x.abs())
    near = 1.0 - _erf_small(x)
    return (x.abs() < 0.25).choose(near, x.negative().choose(2.0 - y, y))


def _erf_small(x: Real) -> Real:
    """erf x for |x| < ¼."""
    scale = c.TWO_OVER_ROOT_PI_64 if x.f.wide else c.TWO_OVER_ROOT_PI_32
    z = x * x
    return x.mad(scale[0], x * z.mad(z.poly(c.ERF_64 if x.f.wide else c.ERF_32), scale[1]))


@elementary("erf")
def erf(x: Real) -> Real:
    f = x.f
    if not f.wide:
        return _erf_narrow(x)
    # erf (p + d) = erf p + erf' p·d·s of a point p of the table, of which there are 64 a unit;
    # s = ∫₀¹ e^(-2pd·t - d²·t²) dt is nearly 1
    a = x.abs().at_most(6.0)
    magic = 1.5 * 2.0 ** (f.mantissa - 6)
    moved = a + magic
    p = moved - magic
    d = a - p
    u, z = p * d, d * d
    first, *others = c.ERF_STEP
    s = z.poly([u.long_poly(first), *map(u.poly, others)])
    value, slope = pair_at("erf.points", moved.as_bits(), c.ERF_POINTS)
    return (slope * d).mad(s, value).signed_as(x)


def _erf_narrow(x: Real) -> Real:
    """erf a = 1 - e^y, y = a·LOG_ERFC(a); with e^y = 2^k·(1 + d) that is (1 - 2^k) - 2^k·d, which
    cancels nowhere."""
    a = x.abs().at_most(4.0)
    first, *rest = c.LOG_ERFC_32
    _, k, r = reduced(a.mad(first, a * a * a.long_poly(rest)))
    power = x.f.power(k)
    return expm1_reduced(r).mad(-power, 1.0 - power).signed_as(x)


# --- roots ------------------------------------------------------------------------------------


@elementary("hypot", 2)
def hypot(x: Real, y: Real) -> Real:
    f = x.f
    a, b = x.abs(), y.abs()
    high, low = (a > b).choose(a, b), (a > b).choose(b, a)
    edge = f.pick(2.0**500, 2.0**60)
    large, small = high > edge, high < 1.0 / edge
    factor = large.rarely(1.0 / edge / edge, small.rarely(edge * edge, 1.0))
    back = large.rarely(edge * edge, small.rarely(1.0 / edge / edge, 1.0))
    u, v = high * factor, low * factor
    y = u.fma(u, v * v).sqrt() * back
    return (a.is_(inf) | b.is_(inf)).rarely(inf, y)


@elementary("cbrt")
def cbrt(x: Real) -> Real:
    """2^(3q + r)·m ↦ 2^q·∛(2^r)·∛m, ∛m by a polynomial and one step of Halley's."""
    f = x.f
    a = x.abs()
    tiny = a < 2.0 ** (1 - f.bias)
    shift = 3 * (f.mantissa // 3 + 1)
    bits = tiny.rarely(a * 2.0**shift, a).as_bits()
    magic = f.real(2.0**f.mantissa).as_bits()
    e = ((bits >> f.mantissa) | magic).as_real() - tiny.rarely(
        2.0**f.mantissa + f.bias + shift, 2.0**f.mantissa + f.bias
    )
    m = ((bits & ((1 << f.mantissa) - 1)) | (f.bias << f.mantissa)).as_real()
    q, k = (e * (1.0 / 3.0)).nearest()
    r = e - 3.0 * q
    t = m.poly(c.CBRT_64 if f.wide else c.CBRT_32)
    cube = t * t * t
    t = t - t * ((cube - m) / (2.0 * cube + m))
    two, four = (c.CBRT_2_64, c.CBRT_4_64) if f.wide else (c.CBRT_2_32, c.CBRT_4_32)
    root = (r > 0.5).choose(two[0], (r < -0.5).choose(0.5 * four[0], 1.0))
    rest = (r > 0.5).choose(two[1], (r < -0.5).choose(0.5 * four[1], 0.0))
    y = t.mad(root, t * rest) * f.power(k)
    plain = (a > 0.0) & (a < inf)
    return plain.mostly(y, x).signed_as(x)


# --- division with a remainder ------------------------------------------------------------------


def _fmod(x: Real, y: Real) -> Real:
    """C's fmod. With |x/y| < 2^mantissa the quotient is right to one unit and the remainder of a
    fused multiply-add is exact."""
    f = x.f
    a, b = x.abs(), y.abs()
    q = a / b
    r = q.trunc().fma(-b, a)
    r = (r < 0.0).choose(r + b, (r >= b).choose(r - b, r))
    r = (a < b).choose(a, r).signed_as(x)
    ordinary = (q < 2.0 ** (f.mantissa - 2)) & (b > 0.0)
    return rarely("fmod", ~ordinary, r, x, y)


def _divmod(x: Real, y: Real) -> tuple[Real, Real]:
    """(quotient, remainder) rounded down, as NumPy has them."""
    r = _fmod(x, y)
    q = (x - r) / y
    other = ((y < 0.0) ^ (r < 0.0)) & r.is_not(0.0)
    r2 = r.is_(0.0).choose(x.f.real(0.0).signed_as(y), other.choose(r + y, r))
    q = other.choose(q - 1.0, q)
    low = q.floor()
    low = (q - low > 0.5).choose(low + 1.0, low)
    zero = x.f.real(0.0).signed_as(x / y)
    return y.is_(0.0).rarely(x / y, q.is_(0.0).choose(zero, low)), r2


@elementary("floordiv", 2)
def floordiv(x: Real, y: Real) -> Real:
    return _divmod(x, y)[0]


@elementary("mod", 2)
def mod(x: Real, y: Real) -> Real:
    return _divmod(x, y)[1]
