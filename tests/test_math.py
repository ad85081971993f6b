"""The elementary functions against mpmath, in units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from kernels import apply, call

from naperian.dtypes import DType
from naperian.prims import PRIMITIVES

mp = mpmath.mp

# name: (reference, lowest, highest of the random arguments, bound in ulp)
UNARY: dict[str, tuple[Callable[[Any], Any], float, float, float]] = {
    "exp": (mp.exp, -746, 710, 1.0),
    "exp2": (lambda x: mp.mpf(2) ** x, -1076, 1024, 1.0),
    "expm1": (mp.expm1, -40, 710, 2.0),
    "log": (mp.log, 0, 1e300, 1.0),
    "log2": (lambda x: mp.log(x) / mp.ln2, 0, 1e300, 1.0),
    "log10": (mp.log10, 0, 1e300, 1.0),
    "log1p": (mp.log1p, -1, 1e300, 2.0),
    "sin": (mp.sin, -1e5, 1e5, 1.5),
    "cos": (mp.cos, -1e5, 1e5, 1.5),
    "tan": (mp.tan, -1e5, 1e5, 3.0),
    "asin": (mp.asin, -1, 1, 2.5),
    "acos": (mp.acos, -1, 1, 2.0),
    "atan": (mp.atan, -1e3, 1e3, 2.0),
    "sinh": (mp.sinh, -711, 711, 2.0),
    "cosh": (mp.cosh, -711, 711, 2.0),
    "tanh": (mp.tanh, -25, 25, 3.0),
    "asinh": (mp.asinh, -1e300, 1e300, 3.0),
    "acosh": (mp.acosh, 1, 1e300, 3.0),
    "atanh": (mp.atanh, -1, 1, 3.0),
    "erf": (mp.erf, -7, 7, 2.0),
    "erfc": (mp.erfc, -7, 28, 4.0),
    "sqrt": (mp.sqrt, 0, 1e300, 0.5),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), -1e300, 1e300, 2.0),
    "gamma": (mp.gamma, 0.1, 170, 8.0),  # libm's
    "lgamma": (mp.loggamma, 0.1, 1e10, 8.0),
}
FLOATS = (DType.F64, DType.F32)
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, -0.5, 2.0, 1e-320, -1e-320,
           5e-324, 2.2e-308, 1.5, -1.5, 1e-30, -1e-30, 3.0, 10.0, 709.0, -745.0, 100.0]  # fmt: skip


def numbers(dtype: DType, low: float, high: float, count: int, seed: int) -> np.ndarray[Any, Any]:
    """Arguments of all sizes in a range: uniform, and with exponents down to the subnormals."""
    rng = np.random.default_rng(seed)
    type = np.dtype(dtype.value)
    top = float(np.finfo(type).max)
    low, high = max(low, -top), min(high, top)
    spread = rng.uniform(low, high, count // 3)
    near = rng.uniform(max(low, -4), min(high, 4), count // 3)
    exponents = rng.uniform(-149 if dtype is DType.F32 else -1074, math.log2(high), count // 3)
    powers = 2.0**exponents * rng.choice([-1.0, 1.0], count // 3)
    chosen = np.concatenate([spread, near, powers]).astype(type)
    return chosen[(chosen >= low) & (chosen <= high)]


def off(got: np.ndarray[Any, Any], x: list[Any], f: Callable[..., Any]) -> tuple[float, Any]:
    """The largest error in units in the last place, and where."""
    type = got.dtype
    bits, lowest, top = (53, -1074, 1024) if type == np.float64 else (24, -149, 128)
    worst, where = 0.0, None
    with mp.workprec(bits + 70):
        for k, y in enumerate(got):
            args = [mp.mpf(float(a[k])) for a in x]
            try:
                exact = f(*args)
            except (ValueError, ZeroDivisionError):
                continue
            if isinstance(exact, mpmath.mpc):
                continue
            size = abs(exact)
            if size >= mp.mpf(2) ** top * (1 - mp.mpf(2) ** (-bits - 1)):
                error = 0.0 if math.isinf(y) else math.inf
            elif not math.isfinite(y):
                error = math.inf
                if math.isinf(y) and size > mp.mpf(2) ** top * (1 - 4 * mp.mpf(2) ** -bits):
                    error = 1.0
            else:
                exponent = lowest if not size else max(int(mp.floor(mp.log(size, 2))) - bits + 1,
                                                       lowest)  # fmt: skip
                error = float(abs(mp.mpf(float(y)) - exact) / mp.mpf(2) ** exponent)
            if error > worst:
                worst, where = error, [float(a[k]) for a in x]
    return worst, where


def check(name: str, dtype: DType, count: int) -> None:
    f, low, high, bound = UNARY[name]
    x = numbers(dtype, low, high, count, seed=1)
    worst, where = off(call(apply(name, dtype), [x]), [x], f)
    assert worst <= bound, f"{name} {dtype}: {worst:.2f} ulp at {where}"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_accuracy(name: str, dtype: DType) -> None:
    check(name, dtype, 300)


@pytest.mark.long
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_accuracy_densely(name: str, dtype: DType) -> None:
    check(name, dtype, 30_000)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name: str, dtype: DType) -> None:
    """Signed zeros, infinities, NaN, poles and subnormals are NumPy's."""
    x = np.array(SPECIAL, dtype.value)
    got = call(apply(name, dtype), [x])
    for a, y in zip(x, got, strict=True):
        want = PRIMITIVES[name].meaning(a)
        message = f"{name}({a!r}) is {y!r}, not {want!r}"
        if np.isnan(want):
            assert np.isnan(y), message
        elif want == 0 or np.isinf(want):
            assert (y, np.signbit(y)) == (want, np.signbit(want)), message
        else:
            tiny = np.finfo(y.dtype).smallest_subnormal
            assert np.isclose(y, want, rtol=1e-6, atol=tiny), message


def pairs(dtype: DType, low: float, high: float, count: int) -> list[np.ndarray[Any, Any]]:
    return [np.resize(numbers(dtype, low, high, count, seed=s), count)[:count] for s in (2, 3)]


@pytest.mark.parametrize("dtype", FLOATS)
def test_power(dtype: DType) -> None:
    x = np.abs(pairs(dtype, -1e30, 1e30, 400)[0])
    rng = np.random.default_rng(4)
    # exponents for which the result is in range
    with np.errstate(all="ignore"):
        limit = (700 if dtype is DType.F64 else 85) / np.abs(np.log(x.astype(np.float64)))
    y = (rng.uniform(-1, 1, 400) * np.minimum(limit, 1e300)).astype(dtype.value)
    worst, where = off(call(apply("pow", dtype), [x, y]), [x, y], lambda a, b: a**b)
    assert worst <= 1.5, f"{worst:.2f} ulp at {where}"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("name", "f", "bound"), [("atan2", mp.atan2, 2.0), ("hypot", mp.hypot, 1.0)]
)
def test_binary_accuracy(name: str, f: Callable[..., Any], bound: float, dtype: DType) -> None:
    x, y = pairs(dtype, -1e30, 1e30, 300)
    worst, where = off(call(apply(name, dtype), [x, y]), [x, y], f)
    assert worst <= bound, f"{worst:.2f} ulp at {where}"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["pow", "atan2", "hypot", "floordiv", "mod", "copysign"])
def test_binary_special_values(name: str, dtype: DType) -> None:
    values = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 2.5, -2.5, 7.25, 1e30, -1e30,
              1e-30, math.inf, -math.inf, math.nan, 1e17]  # fmt: skip
    x, y = (g.ravel().copy() for g in np.meshgrid(*2 * [np.array(values, dtype.value)]))
    got = call(apply(name, dtype), [x, y])
    for a, b, z in zip(x, y, got, strict=True):
        if name == "pow" and b == 0.5 and np.signbit(a):
            continue  # IEEE 754's power of -0 and -∞; some versions of NumPy take the square root
        want = PRIMITIVES[name].meaning(a, b)
        message = f"{name}({a!r}, {b!r}) is {z!r}, not {want!r}"
        if np.isnan(want):
            assert np.isnan(z), message
        elif want == 0 or np.isinf(want):
            assert (z, np.signbit(z)) == (want, np.signbit(want)), message
        else:
            assert np.isclose(z, want, rtol=1e-6, atol=0), message


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_large_arguments(name: str, dtype: DType) -> None:
    """Beyond the short reduction, also beside ordinary arguments."""
    x = np.array([1e200 if dtype is DType.F64 else 1e30, 1.0, -1e25, 2.0**45, 1e6, -2.0, 3.0, 1e10]
                 * 5, dtype.value)  # fmt: skip
    worst, where = off(call(apply(name, dtype), [x]), [x], getattr(mp, name))
    assert worst <= 3.0, f"{worst:.2f} ulp at {where}"
