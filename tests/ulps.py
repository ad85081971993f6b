"""How far a function of floats is off, in units in the last place, against mpmath.

`arguments` are points of the whole range of a format: every binary exponent, the neighbourhood of
the points where a function is delicate, subnormals, and huge numbers. `off` measures."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

from naperian.dtypes import DType
from naperian.node import node

mp = mpmath.mp
Array = np.ndarray[Any, Any]


@node
class Reference:
    """What mpmath says a function is, the range in which its value is a number of any format, and
    the points near which it is hard. `exact` gives None where signs of zeros decide."""

    exact: Callable[..., Any]
    low: float = -math.inf
    high: float = math.inf
    hard: tuple[float, ...] = (0.0, 1.0, -1.0)


def _lgamma(x: Any) -> Any:
    return mp.log(abs(mp.gamma(x))) if x < 20 else mp.loggamma(x)


_HALF_PI = math.pi / 2
UNARY: dict[str, Reference] = {
    "exp": Reference(mp.exp, -746, 710, (0.0, -708.4, -745.1, 709.78, -87.3, -103.9, 88.72)),
    "exp2": Reference(lambda x: mp.mpf(2) ** x, -1076, 1025,
                      (0.0, -1022.0, -1074.0, 1023.9, -126.0, -149.0, 127.9)),
    "expm1": Reference(mp.expm1, -800, 710, (0.0, -1.0, -36.7, 0.35, 709.78, 88.72)),
    "log": Reference(mp.log, 0),
    "log2": Reference(lambda x: mp.log(x) / mp.ln2, 0),
    "log10": Reference(lambda x: mp.log(x) / mp.ln10, 0),
    "log1p": Reference(mp.log1p, -1, hard=(0.0, -1.0, 1.0, -0.5, -0.2929, 0.4142)),
    "sin": Reference(mp.sin, hard=(0.0, math.pi, _HALF_PI, -math.pi, 355.0, 1e5, 1e22)),
    "cos": Reference(mp.cos, hard=(0.0, math.pi, _HALF_PI, -_HALF_PI, 344.0, 1e5, 1e22)),
    "tan": Reference(mp.tan, hard=(0.0, math.pi, _HALF_PI, -_HALF_PI, 355.0, 1e5, 1e22)),
    "asin": Reference(mp.asin, -1, 1, (0.0, 1.0, -1.0, 0.5, -0.5)),
    "acos": Reference(mp.acos, -1, 1, (0.0, 1.0, -1.0, 0.5, -0.5)),
    "atan": Reference(mp.atan, hard=(0.0, 1.0, -1.0, 0.4142, 2.4142)),
    "sinh": Reference(mp.sinh, -711, 711, (0.0, 1.0, -1.0, 710.4, 89.4)),
    "cosh": Reference(mp.cosh, -711, 711, (0.0, 1.0, -1.0, 710.4, 89.4)),
    "tanh": Reference(mp.tanh, hard=(0.0, 1.0, -1.0, 0.17, 0.35, 0.55, 9.01, 19.06)),
    "sigmoid": Reference(lambda x: 1 / (1 + mp.exp(-x)), -746, 746,
                         (0.0, 1.0, -1.0, 36.7, 40.0, -708.4, -745.1, -87.3, -103.9)),
    "asinh": Reference(mp.asinh, hard=(0.0, 1.0, -1.0, 0.3)),
    "acosh": Reference(mp.acosh, 1, hard=(1.0, 1.5, 2.0)),
    "atanh": Reference(mp.atanh, -1, 1, (0.0, 1.0, -1.0, 0.17, 0.33)),
    "erf": Reference(mp.erf, hard=(0.0, 1.0, -1.0, 5.9, 0.5)),
    "erfc": Reference(mp.erfc, -7, 29, (0.0, 0.25, -0.25, 1.0, 26.5, 10.05, 9.2, 0.47)),
    "sqrt": Reference(mp.sqrt, 0),
    "cbrt": Reference(lambda x: mp.sign(x) * mp.cbrt(abs(x))),
    "gamma": Reference(mp.gamma, -180, 172,
                       (0.0, 1.0, 2.0, 171.6, 35.04, -0.5, -1.0, -2.0, -170.5, 1.4616)),
    "lgamma": Reference(_lgamma, hard=(0.0, 1.0, 2.0, -0.5, -1.0, -2.4570, -2.7476, -3.1436,
                                       1.4616, 1e300)),
}  # fmt: skip
BINARY: dict[str, Reference] = {
    "pow": Reference(lambda x, y: x**y if x > 0 or y == mp.floor(y) else None),
    "atan2": Reference(lambda y, x: mp.atan2(y, x) if y else None),
    "hypot": Reference(mp.hypot),
    "mod": Reference(lambda x, y: x - y * mp.floor(x / y)),
    "floordiv": Reference(lambda x, y: mp.floor(x / y)),
}

SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1.5, -1.5,
           3.0, -3.0, 10.0, 100.0, 709.0, -745.0, 1e-30, -1e-30, 1e30, -1e30, 1e300, -1e300,
           2.2250738585072014e-308, 2.225073858507201e-308, 5e-324, -5e-324, 1e-320, -1e-320,
           1.1754943508222875e-38, 1.1754942106924411e-38, 1e-45, -1e-45, 1.7976931348623157e308,
           3.4028234663852886e38, -3.4028234663852886e38)  # fmt: skip


def _type(dtype: DType) -> np.dtype[Any]:
    return np.dtype(dtype.value)


def arguments(r: Reference, dtype: DType, count: int, seed: int = 1) -> Array:
    """About `count` points of the function's range: a quarter of any bits at all, a quarter of any
    size around one, a quarter near where it is hard, a quarter spread evenly."""
    rng = np.random.default_rng(seed)
    t = _type(dtype)
    n = count // 4
    top = float(np.finfo(t).max)
    low, high = max(r.low, -top), min(r.high, top)
    bits = rng.integers(0, 1 << dtype.bits, n, np.uint64).astype(f"u{t.itemsize}").view(t)
    sizes = np.ldexp(rng.uniform(-1, 1, n), rng.integers(-12, 13, n)).astype(t)
    centre = rng.choice(np.array(r.hard), n)
    with np.errstate(all="ignore"):
        near = centre.astype(t) * (1 + np.ldexp(rng.uniform(-1, 1, n), rng.integers(-50, -1, n)))
        near = (near + (centre == 0) * np.ldexp(rng.uniform(-1, 1, n), rng.integers(-60, 1, n)))
        spread = rng.uniform(max(low, -1e5), min(high, 1e5), n)
        found = np.concatenate([bits, sizes, near.astype(t), spread.astype(t)])
        found = np.concatenate([found, np.array(SPECIAL).astype(t)])
    return found[np.isnan(found) | np.isinf(found) | ((found >= low) & (found <= high))]


def couples(name: str, dtype: DType, count: int, seed: int = 2) -> tuple[Array, Array]:
    """Arguments of a function of two."""
    with np.errstate(all="ignore"):
        return _couples(name, dtype, count, seed)


def _couples(name: str, dtype: DType, count: int, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    t = _type(dtype)
    x = rng.permutation(arguments(BINARY[name], dtype, count, seed))
    y = rng.permutation(arguments(BINARY[name], dtype, count, seed + 1))
    n = min(len(x), len(y))
    x, y = x[:n], y[:n]
    if name == "pow":  # mostly exponents for which the power is a number of the format
        x[: n // 2] = np.abs(x[: n // 2])
        limit = (745 if dtype is DType.F64 else 104) / np.abs(np.log(np.abs(x, dtype=float)))
        fits = (rng.uniform(-1, 1, n) * np.minimum(limit, 1e300)).astype(t)
        y = np.where(rng.random(n) < 0.7, fits, np.where(rng.random(n) < 0.5, np.rint(y), y))
    elif name in ("mod", "floordiv"):  # a quotient that is a number, not a power of ten
        y = np.where(rng.random(n) < 0.8, x * np.ldexp(rng.uniform(-1, 1, n),
                                                       rng.integers(-30, 3, n)), y)  # fmt: skip
    else:  # of like sizes
        y = np.where(rng.random(n) < 0.5, x * rng.uniform(-4, 4, n), y)
    return x, y.astype(t)


def off(got: Array, given: tuple[Array, ...], r: Reference) -> tuple[float, tuple[float, ...]]:
    """The largest error where there is an exact value and the arguments are finite, and where."""
    f = np.finfo(got.dtype)
    bits, lowest, top = f.nmant + 1, int(f.minexp) - f.nmant, int(f.maxexp)
    overflow = mp.mpf(2) ** top * (1 - mp.mpf(2) ** (-bits - 1))
    worst, where = 0.0, tuple(float("nan") for _ in given)
    with mp.workprec(bits + 70):
        for k, y in enumerate(got):
            point = tuple(float(a[k]) for a in given)
            if not all(map(math.isfinite, point)):
                continue
            exact = _exact(r, point, bits)
            if exact is None:
                continue
            error = _distance(float(y), exact, bits, lowest, overflow)
            if error > worst:
                worst, where = error, point
    return worst, where


def _exact(r: Reference, point: tuple[float, ...], bits: int) -> Any:
    """The value, None at poles and where it is not real. Precision enough for what cancels."""
    spread = max((abs(math.frexp(x)[1]) for x in point), default=0)
    with mp.workprec(bits + 80 + (2 * spread if r.exact in _CANCELLING else 0)):
        try:
            value = r.exact(*(mp.mpf(x) for x in point))
        except (ValueError, ZeroDivisionError):
            return None
    return None if value is None or isinstance(value, mpmath.mpc) or mp.isnan(value) else value


def _distance(y: float, exact: Any, bits: int, lowest: int, overflow: Any) -> float:
    size = abs(exact)
    if size >= overflow:
        return 0.0 if math.isinf(y) and (y > 0) == (exact > 0) else math.inf
    if math.isnan(y):
        return math.inf
    if math.isinf(y):  # one unit above the largest number is where infinity stands
        y = math.copysign(2.0, y)
        near = mp.mpf(y) / 2 * overflow
        return float(abs(near - exact) / (overflow * mp.mpf(2) ** -bits)) + 0.5
    exponent = lowest if not size else max(int(mp.frexp(size)[1]) - bits, lowest)
    return float(abs(mp.mpf(y) - exact) / mp.mpf(2) ** exponent)


_CANCELLING = {UNARY[n].exact for n in ("log1p", "expm1", "lgamma", "gamma", "acosh")} | {
    r.exact for r in BINARY.values()
}
