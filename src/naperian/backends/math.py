"""The elementary functions, inline.

Every function is straight-line code, so that a loop around it becomes vector code, and is at most
4 units in the last place off (`tests/test_math.py` holds each to its own bound), including signed
zeros, subnormals, infinities and NaN. Both widths come from one text; the coefficients are from
`tools/fit_math.py`. Where a single-precision function would need extended precision it goes
through double.

Arguments for which a short reduction does not suffice (`sin(1e200)`) take a call to libm that
nothing else pays for: see `rare`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import inf, nan

from naperian.backends import coefficients as c
from naperian.backends import rare
from naperian.backends.arith import Bits, Flag, Format, Real
from naperian.backends.code import Code
from naperian.dtypes import DType


@dataclass(frozen=True, slots=True)
class Function:
    """A function's text, and the rare calls (with their arities) it makes."""

    symbol: str
    text: str
    rare: tuple[tuple[str, int], ...]


@cache
def function(name: str, dtype: DType) -> Function:
    """The definition of a function on floats of a dtype, to be included once in a module."""
    body, arity = _FUNCTIONS[name]
    f = Format(Code(), dtype)
    args = [Real(f, f"%x{k}") for k in range(arity)]
    result = body(*args)
    f.code.put(f"ret {f.type} {result.value}")
    text = f.code.text()
    symbol = f"@nap.{name}.{f.suffix}"
    params = ", ".join(f"{f.type} {x.value}" for x in args)
    calls = tuple((n, k) for n, k in _RARE.items() if f"@nap.rare.{n}(" in text)
    return Function(
        symbol,
        f"define internal {f.type} {symbol}({params}) "
        f"alwaysinline nounwind willreturn memory(none) {{\n{text}\n}}",
        calls,
    )


_RARE = {"sin": 1, "cos": 1, "tan": 1, "fmod": 2, "tgamma": 1, "lgamma": 1}
_FUNCTIONS: dict[str, tuple[Callable[..., Real], int]] = {}


def _function(name: str, arity: int = 1) -> Callable[[Callable[..., Real]], Callable[..., Real]]:
    def keep(body: Callable[..., Real]) -> Callable[..., Real]:
        _FUNCTIONS[name] = (body, arity)
        return body

    return keep


def _rarely(name: str, when: Flag, otherwise: Real, *args: Real) -> Real:
    """libm's function where `when` holds, else what has been computed."""
    f, code = otherwise.f, otherwise.f.code
    before, slow, done = code.block, code.label("slow"), code.label("done")
    code.branch(when.value, slow, done, ', !prof !{!"branch_weights", i32 1, i32 1000000}')
    code.begin(slow)
    called = _called(name, *args)
    code.jump(done)
    code.begin(done)
    merged = code.let(f"phi {f.type} [ {otherwise.value}, %{before} ], [ {called.value}, %{slow} ]")
    return Real(f, merged)


def _called(name: str, *args: Real) -> Real:
    """libm's function, in double."""
    f = args[0].f
    wide = args if f.wide else tuple(x.widened() for x in args)
    operands = ", ".join(f"double {x.value}" for x in wide)
    mark = rare.attribute(name, len(args))
    y = Real(wide[0].f, f.code.let(f"call double @nap.rare.{name}({operands}) {mark}"))
    return y if f.wide else y.narrowed()


def _through_double(body: Callable[..., Real]) -> Callable[..., Real]:
    """The same function of single precision, computed in double."""

    def either(*args: Real) -> Real:
        if args[0].f.wide:
            return body(*args)
        return body(*(x.widened() for x in args)).narrowed()

    return either


# --- exponentials -------------------------------------------------------------------------------
# x = n·ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r²·EXP(r). The reduction is exact but for the
# last step: x - n·(high part of ln 2) fits the significand.


def _reduced(x: Real) -> tuple[Real, Bits, Real]:
    f = x.f
    ln2 = c.LN2_64 if f.wide else c.LN2_32
    n, k = (x * f.pick(c.LOG2_E_64[0], c.LOG2_E_32[0])).nearest()
    return n, k, n.fma(-ln2[1], n.fma(-ln2[0], x))


def _expm1_reduced(r: Real) -> Real:
    return (r * r).mad(r.poly(c.EXP_64 if r.f.wide else c.EXP_32), r)


def _scaled(x: Real, k: Bits) -> Real:
    """x·2^k in two steps, so that overflow and gradual underflow come by themselves."""
    half = ((k + 4096) >> 1) - 2048
    return x * x.f.power(half) * x.f.power(k - half)


def _exponent_range(x: Real) -> Real:
    """x, or the nearest number at which e^x has long since overflowed or vanished."""
    return x.at_most(x.f.pick(711.0, 90.0)).at_least(x.f.pick(-747.0, -105.0))


def _exp(x: Real, times_two_to: int = 0, low: Real | None = None) -> Real:
    """e^(x + low)·2^times_two_to; the power of two costs nothing and delays overflow."""
    _, k, r = _reduced(_exponent_range(x))
    if low is not None:
        r = r + low
    return _scaled(1.0 + _expm1_reduced(r), k + times_two_to if times_two_to else k)


@_function("exp")
def exp(x: Real) -> Real:
    return _exp(x)


@_function("exp2")
def exp2(x: Real) -> Real:
    f = x.f
    x = x.at_most(f.pick(1026.0, 130.0)).at_least(f.pick(-1078.0, -152.0))
    n, k = x.nearest()
    r = x - n
    return _scaled(r.mad(r.poly(c.EXP2_64 if f.wide else c.EXP2_32), 1.0), k)


@_function("expm1")
def expm1(x: Real) -> Real:
    f = x.f
    _, k, r = _reduced(x.at_most(f.pick(709.9, 88.9)).at_least(f.pick(-45.0, -20.0)))
    # twice (2^(n-1)·(e^r - 1) + (2^(n-1) - 1/2)): 2^n itself may overflow
    half = f.power(k - 1)
    y = 2.0 * half.mad(_expm1_reduced(r), half - 0.5)
    return (x.abs() < 2.0 ** -(f.mantissa + 2)).choose(x, y)


# --- logarithms ---------------------------------------------------------------------------------
# x = 2^k·m with √½ <= m < √2, f = m - 1, s = f / (2 + f): ln m = f - (f²/2 - s·(f²/2 + z·LOG(z))).


def _split(x: Real) -> tuple[Real, Real]:
    """(k, m) of a positive number: x = 2^k·m."""
    f = x.f
    tiny = x < 2.0 ** (1 - f.bias)
    shift = f.mantissa + 2
    one, root = f.bias << f.mantissa, f.pick(0x3FE6A09E667F3BCD, 0x3F3504F3)
    bits = tiny.choose(x * 2.0**shift, x).as_bits() + (one - int(root))
    magic = 2.0**f.mantissa
    number = ((bits >> f.mantissa) | f.real(magic).as_bits()).as_real()
    k = number - tiny.choose(magic + f.bias + shift, magic + f.bias)
    return k, ((bits & ((1 << f.mantissa) - 1)) + int(root)).as_real()


def _log_near_one(m: Real) -> tuple[Real, Real]:
    """(f, d) with ln m = f - d."""
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    half = 0.5 * f * f
    return f, half - s * z.mad(z.poly(c.LOG_64 if m.f.wide else c.LOG_32), half)


def _log_special(x: Real, y: Real) -> Real:
    """y, except that ln 0 = -∞, ln ∞ = ∞, and NaN below zero."""
    special = x.is_(0.0).choose(-inf, (x > 0.0).choose(x, nan))
    return ((x > 0.0) & (x < inf)).choose(y, special)


@_function("log")
def log(x: Real) -> Real:
    ln2 = c.LN2_64 if x.f.wide else c.LN2_32
    k, m = _split(x)
    f, d = _log_near_one(m)
    return _log_special(x, k.fma(ln2[0], f - k.fma(-ln2[1], d)))


@_function("log2")
def log2(x: Real) -> Real:
    scale = c.LOG2_E_64 if x.f.wide else c.LOG2_E_32
    k, m = _split(x)
    f, d = _log_near_one(m)
    y = f - d
    low = (f - y) - d
    return _log_special(x, k + y.fma(scale[0], y.mad(scale[1], low * scale[0])))


@_function("log10")
def log10(x: Real) -> Real:
    scale = c.LOG10_E_64 if x.f.wide else c.LOG10_E_32
    step = c.LOG10_2_64 if x.f.wide else c.LOG10_2_32
    k, m = _split(x)
    f, d = _log_near_one(m)
    y = f - d
    low = (f - y) - d
    small = k.mad(step[1], y.mad(scale[1], low * scale[0]))
    return _log_special(x, k.fma(step[0], y.fma(scale[0], small)))


@_function("log1p")
def log1p(x: Real) -> Real:
    ln2 = c.LN2_64 if x.f.wide else c.LN2_32
    u = 1.0 + x
    lost = (x > 1.0).choose((x - u) + 1.0, x - (u - 1.0))
    k, m = _split(u)
    f, d = _log_near_one(m)
    y = k.fma(ln2[0], f - (d - k.fma(ln2[1], lost / u)))
    y = _log_special(u, y)
    return (x.abs() < 2.0 ** -(x.f.mantissa + 2)).choose(x, y)


# --- trigonometry -------------------------------------------------------------------------------
# x = n·π/2 + r with |r| <= π/4, by three parts of π/2. With fused multiply-add every step is
# exact or rounded relative to its own result, so this serves up to 2^40; beyond that, libm.


def _quadrant(x: Real) -> tuple[Bits, Real, Flag]:
    f = x.f
    half_pi = c.HALF_PI_64 if f.wide else c.HALF_PI_32
    n, k = (x * 0.6366197723675814).nearest()
    r = n.fma(-half_pi[2], n.fma(-half_pi[1], n.fma(-half_pi[0], x)))
    return k, r, x.abs() > f.pick(2.0**40, 2.0**17)


def _sin_cos(r: Real) -> tuple[Real, Real]:
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


@_function("sin")
def sin(x: Real) -> Real:
    k, r, huge = _quadrant(x)
    s, co = _sin_cos(r)
    y = _negated(k.test(1).choose(co, s), k)
    return _rarely("sin", huge, x.is_(0.0).choose(x, y), x)


@_function("cos")
def cos(x: Real) -> Real:
    k, r, huge = _quadrant(x)
    s, co = _sin_cos(r)
    return _rarely("cos", huge, _negated(k.test(1).choose(s, co), k + 1), x)


@_function("tan")
def tan(x: Real) -> Real:
    k, r, huge = _quadrant(x)
    s, co = _sin_cos(r)
    odd = k.test(1)
    y = odd.choose(-co, s) / odd.choose(s, co)
    return _rarely("tan", huge, x.is_(0.0).choose(x, y), x)


# --- inverse trigonometry -----------------------------------------------------------------------


def _asin_parts(x: Real) -> tuple[Real, Flag, Real, Real]:
    """(|x|, whether it is above ½, s, p): arcsin |x| is s + p, or above ½ π/2 - 2·(s + p)."""
    a = x.abs()
    big = a > 0.5
    z = big.choose(0.5 * (1.0 - a), a * a)
    s = big.choose(z.sqrt(), a)
    return a, big, s, s * z * z.poly(c.ASIN_64 if x.f.wide else c.ASIN_32)


@_function("asin")
def asin(x: Real) -> Real:
    half_pi = c.HALF_PI_64 if x.f.wide else c.HALF_PI_32
    _, big, s, p = _asin_parts(x)
    beyond = half_pi[0] - (2.0 * (s + p) - half_pi[1])
    return big.choose(beyond, s + p).signed_as(x)


@_function("acos")
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


@_function("atan")
def atan(x: Real) -> Real:
    return _atan_ratio(x.abs(), x.f.real(1.0)).signed_as(x)


@_function("atan2", 2)
def atan2(y: Real, x: Real) -> Real:
    f = x.f
    half_pi = c.HALF_PI_64 if f.wide else c.HALF_PI_32
    a, b = y.abs(), x.abs()
    # neither sum nor ratio may overflow or be ∞/∞ or 0/0
    infinite = a.is_(inf) & b.is_(inf)
    large = (a > 2.0**f.bias) | (b > 2.0**f.bias)
    a = infinite.choose(1.0, large.choose(0.25 * a, a))
    b = infinite.choose(1.0, large.choose(0.25 * b, b))
    b = (a.is_(0.0) & b.is_(0.0)).choose(1.0, b)
    t = _atan_ratio(a, b)
    left = 2 * half_pi[0] - (t - 2 * half_pi[1])
    return x.negative().choose(left, t).signed_as(y)


# --- hyperbolic functions -----------------------------------------------------------------------


@_function("sinh")
def sinh(x: Real) -> Real:
    a = x.abs()
    z = a * a
    small = (a * z).mad(z.poly(c.SINH_64 if x.f.wide else c.SINH_32), a)
    half = _exp(a, -1)
    return (a < 1.0).choose(small, half - 0.25 / half).signed_as(x)


@_function("cosh")
def cosh(x: Real) -> Real:
    half = _exp(x.abs(), -1)
    return half + 0.25 / half


@_function("tanh")
def tanh(x: Real) -> Real:
    t = expm1(2.0 * x.abs().at_most(22.0))
    return (t / (t + 2.0)).signed_as(x)


@_function("asinh")
def asinh(x: Real) -> Real:
    f = x.f
    a = x.abs()
    large = a > f.pick(2.0**500, 2.0**60)
    z = a * a
    u = large.choose(a, a + z / (1.0 + (z + 1.0).sqrt()))
    more = large.choose(f.pick(c.LN2_64[0], c.LN2_32[0]), 0.0)
    return (log1p(u) + more).signed_as(x)


@_function("acosh")
def acosh(x: Real) -> Real:
    f = x.f
    large = x > f.pick(2.0**500, 2.0**60)
    t = x - 1.0
    u = large.choose(x, t + t.mad(t, 2.0 * t).sqrt())
    more = large.choose(f.pick(c.LN2_64[0], c.LN2_32[0]), 0.0)
    return (x < 1.0).choose(nan, log1p(u) + more)


@_function("atanh")
def atanh(x: Real) -> Real:
    a = x.abs()
    return (0.5 * log1p(2.0 * a / (1.0 - a))).signed_as(x)


# --- error functions ----------------------------------------------------------------------------


def _erfc_positive(a: Real) -> Real:
    """erfc a = e^(-a²)·g(a) / (1 + 2a), g a polynomial in (a - 4) / (a + 4)."""
    f = a.f
    a = a.at_most(f.pick(28.0, 11.0))
    t = (a - 4.0) / (a + 4.0)
    g = t.poly(c.ERFCX_64 if f.wide else c.ERFCX_32) / (1.0 + 2.0 * a)
    square = a * a
    lost = a.fma(a, -square)
    y = _exp(-square) * g
    return y.fma(-lost, y)


@_function("erfc")
def erfc(x: Real) -> Real:
    y = _erfc_positive(x.abs())
    return x.is_(0.0).choose(1.0, x.negative().choose(2.0 - y, y))


def _erf_small(x: Real) -> Real:
    scale = c.TWO_OVER_ROOT_PI_64 if x.f.wide else c.TWO_OVER_ROOT_PI_32
    z = x * x
    return x.mad(scale[0], x * z.mad(z.poly(c.ERF_64 if x.f.wide else c.ERF_32), scale[1]))


@_function("erf")
def erf(x: Real) -> Real:
    a = x.abs()
    return (a < 1.0).choose(_erf_small(a), 1.0 - _erfc_positive(a)).signed_as(x)


@_function("gamma")
def gamma(x: Real) -> Real:
    return _called("tgamma", x)


@_function("lgamma")
def lgamma(x: Real) -> Real:
    return _called("lgamma", x)


# --- powers and roots ---------------------------------------------------------------------------


@_function("hypot", 2)
def hypot(x: Real, y: Real) -> Real:
    f = x.f
    a, b = x.abs(), y.abs()
    high, low = (a > b).choose(a, b), (a > b).choose(b, a)
    edge = f.pick(2.0**500, 2.0**60)
    large, small = high > edge, high < 1.0 / edge
    factor = large.choose(1.0 / edge / edge, small.choose(edge * edge, 1.0))
    back = large.choose(edge * edge, small.choose(1.0 / edge / edge, 1.0))
    u, v = high * factor, low * factor
    y = u.fma(u, v * v).sqrt() * back
    return (a.is_(inf) | b.is_(inf)).choose(inf, y)


@_function("cbrt")
def cbrt(x: Real) -> Real:
    """2^(3q + r)·m ↦ 2^q·∛(2^r)·∛m, ∛m by a polynomial and one step of Halley's."""
    f = x.f
    a = x.abs()
    tiny = a < 2.0 ** (1 - f.bias)
    shift = 3 * (f.mantissa // 3 + 1)
    bits = tiny.choose(a * 2.0**shift, a).as_bits()
    magic = f.real(2.0**f.mantissa).as_bits()
    e = ((bits >> f.mantissa) | magic).as_real() - tiny.choose(
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
    return plain.choose(y, x).signed_as(x)


def _log_extended(x: Real) -> tuple[Real, Real]:
    """ln x as an unevaluated sum, to about 2^-66, for a positive number."""
    k, m = _split(x)
    f = m - 1.0
    two = 2.0 + f
    s = f / two
    # what the sum and the division lost
    s_low = (s.fma(-two, f) - s * (f - (two - 2.0))) / two
    z = s * s
    z_low = s.fma(s, -z) + 2.0 * s * s_low
    # ln m = 2s·(1 + z·t), t = 1/3 + z·TAIL(z)
    third, third_low = 0.3333333333333333, 1.850371707708594e-17
    q = z * z.poly(c.LOG_TAIL_64)
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


@_function("pow", 2)
@_through_double
def pow(x: Real, y: Real) -> Real:
    a = x.abs()
    high, low = _log_extended(a)
    exponent = y.at_most(2.0**66).at_least(-(2.0**66))
    h = exponent * high
    rest = exponent.fma(high, -h) + exponent * low
    r = _exp(h, low=(h.abs() < 750.0).choose(rest, 0.0))
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
    return _rarely("fmod", ~ordinary, r, x, y)


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
    return y.is_(0.0).choose(x / y, q.is_(0.0).choose(zero, low)), r2


@_function("floordiv", 2)
def floordiv(x: Real, y: Real) -> Real:
    return _divmod(x, y)[0]


@_function("mod", 2)
def mod(x: Real, y: Real) -> Real:
    return _divmod(x, y)[1]
