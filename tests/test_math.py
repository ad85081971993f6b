"""The elementary functions where they are not ordinary: signed zeros, infinities, NaN, poles and
subnormals are NumPy's. How exact they are elsewhere is `test_ulp.py`'s."""

from __future__ import annotations

import math

import numpy as np
import pytest
from kernels import apply, array, at, call, loop, op, program, put
from ulps import UNARY

import naperian as nap
from naperian.backends import emit as emit_
from naperian.backends import traits
from naperian.backends.emit import emit
from naperian.backends.functions.elementary import FUNCTIONS
from naperian.backends.target import host
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.prims import PRIMITIVES

FLOATS = (DType.F64, DType.F32)
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, -0.5, 2.0, 1e-320, -1e-320,
           5e-324, 2.2e-308, 1.5, -1.5, 1e-30, -1e-30, 3.0, 10.0, 709.0, -745.0, 100.0]  # fmt: skip


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


# --- inlined, and called --------------------------------------------------------------------------


def same(name: str, dtype: DType, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function gives the same bits inlined and called, as scalar and at every width."""
    made, target = apply(name, dtype), host(level)
    arguments = [np.array(SPECIAL * 3, dtype.value)]
    if FUNCTIONS[name][1] == 2:
        arguments.append(np.array((SPECIAL[5:] + SPECIAL[:5]) * 3, dtype.value))
    monkeypatch.setattr(traits, "_MOST_IN_A_LOOP", 10**6)
    inlined = call(made, arguments, target=target)
    monkeypatch.setattr(traits, "_MOST_IN_A_LOOP", 0)
    assert f"@nap_{name}_f{dtype.bits}(" in emit(made, target)
    assert call(made, arguments, target=target).tobytes() == inlined.tobytes()


@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["exp", "sin", "atan2"])
def test_calls_change_nothing(
    name: str, dtype: DType, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    same(name, dtype, level, monkeypatch)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["exp", "exp2", "sinh", "pow", "gamma"])
def test_powers_of_two_are_the_same_on_every_processor(name: str, dtype: DType) -> None:
    """One instruction of AVX-512, or a product of two: also of results that are subnormal."""
    r, most = np.random.default_rng(0), 1100.0 if dtype is DType.F64 else 160.0
    x = np.concatenate([np.array(SPECIAL), r.uniform(-most, most, 6000)]).astype(dtype.value)
    arguments = [x, r.uniform(-30, 30, len(x)).astype(dtype.value)][: FUNCTIONS[name][1]]
    made = apply(name, dtype)
    wide, narrow = (call(made, arguments, target=host(level)) for level in ("native", "avx2"))
    assert (np.isnan(wide) == np.isnan(narrow)).all()
    assert (wide == narrow)[~np.isnan(wide)].all()


@pytest.mark.long
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_calls_change_nothing_of_any_function(
    name: str, dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    same(name, dtype, "native", monkeypatch)


@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
def test_sine_and_cosine_of_one_argument_are_one_call(
    level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, i = Var("n"), Var("i")
    x, *ys = (array(name, n, out=name != "x") for name in ("x", "y", "z"))
    body = [put(y.var, (i,), op(f, at(x.var, i)))
            for y, f in zip(ys, ("sin", "cos"), strict=True)]  # fmt: skip
    both, target = program([x, *ys], loop(i, n, *body)), host(level)
    argument = np.array([*SPECIAL, 1e15, 1e30, -1e20] * 3, np.float64)
    called = [y.tobytes() for y in call(both, [argument], target=target)]
    assert " @nap_sincos_f64_" in emit(both, target)
    monkeypatch.setattr(traits, "_MOST_IN_A_LOOP", 10**6)
    assert "_sincos_" not in emit(both, target)
    assert [y.tobytes() for y in call(both, [argument], target=target)] == called


# --- rare arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_rare_arguments_may_be_asked_for_last(
    name: str, dtype: DType, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written for the usual arguments has the bits that the function has, everywhere."""
    r = np.random.default_rng(0)
    scale = 1e3 if dtype is DType.F64 else 1e2
    drawn = [r.bytes(8 * 4000), r.uniform(-2, 2, 2000), r.uniform(-scale, scale, 2000)]
    values = np.concatenate([np.array(SPECIAL, dtype.value),
                             *(np.frombuffer(d, dtype.value) if isinstance(d, bytes)
                               else d.astype(dtype.value) for d in drawn)])  # fmt: skip
    arguments = [values, r.permutation(values)][: FUNCTIONS[name][1]]
    made, target = apply(name, dtype), host(level)
    want = call(made, arguments, target=target)
    monkeypatch.setattr(emit_, "stays", lambda *_: True)
    monkeypatch.setattr(traits, "_MOST_IN_A_LOOP", 10**6)
    got = call(made, arguments, target=target)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    known = ~np.isnan(want)
    assert got[known].tobytes() == want[known].tobytes()


def test_a_recurrence_asks_for_rare_arguments_last() -> None:
    m = nap.compile("""\
def f(x: Float, n: Int) -> Float =
    loop x = x for _ in Fin(n): exp(-x)

def g(x: n=>Float) -> n=>Float = exp(x)
""")
    assert ".usual(" in m.f.show("llvm")
    assert ".usual(" not in m.g.show("llvm")


# Exponents that are products, quotients and roots in the default mode, and how exact these are.
ROOTS = {-3.0: 3.5, -2.5: 4.0, -2.0: 2.5, -1.5: 2.5, -1.0: 0.5, -0.5: 1.5, 0.5: 0.5, 1.5: 1.5,
         2.5: 2.5, 3.0: 1.5}  # fmt: skip
PRODUCTS = (-16.0, -15.5, -4.0, -3.5, 3.5, 7.0, 8.0, 13.0, 15.5)
"""Exponents whose powers are products, and as exact as any."""


@pytest.mark.parametrize("power", [*ROOTS, *PRODUCTS])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_powers_that_are_roots(power: float, dtype: str) -> None:
    """Everywhere, also where a part of them would overflow or vanish; special values are those of
    the power itself."""
    text = f"def f(x: n=>Float) -> n=>Float = x ** ({power})\n"
    m, strict = nap.compile(text), nap.compile(text, math="strict")
    r, info = np.random.default_rng(0), np.finfo(dtype)
    x = np.exp2(r.uniform(info.minexp - 20, info.maxexp, 20_000)).astype(dtype)
    x = np.concatenate([x, r.uniform(0.25, 4, 20_000).astype(dtype)])
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.longdouble), np.longdouble(power))
        nearest = want.astype(dtype)
        off = np.abs(m.f(x) - want) / np.spacing(nearest)
    finite = np.isfinite(nearest)
    assert off[finite].max() <= ROOTS.get(power, 1.5)
    assert np.array_equal(m.f(x)[~finite], nearest[~finite])
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, -2.5, 1.0, 4.0, -info.max, info.tiny]
    got, power_ = (f(np.array(edges, dtype)) for f in (m.f, strict.f))
    np.testing.assert_allclose(got, power_, rtol=4 * info.eps)
    assert np.array_equal(np.signbit(got[:4]), np.signbit(power_[:4]))


@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_to_known_numbers_are_products(dtype: DType, level: str) -> None:
    """No logarithm is taken, and special values, overflow and what vanishes are a power's."""
    r, info, n, i = np.random.default_rng(1), np.finfo(dtype.value), Var("n"), Var("i")
    x, y = array("x", n, dtype=dtype), array("y", n, dtype=dtype, out=True)
    edges = np.array([*SPECIAL, -2.5, info.max, -info.max, info.tiny, -info.tiny])
    for exponent in (*PRODUCTS, -7.0, -3.0, -2.5, -1.5, 1.5, 9.0):
        value = op("pow", at(x.var, i), Lit(exponent, dtype), dtype=dtype, operand=dtype)
        made = program([x, y], loop(i, n, put(y.var, [i], value)))
        assert "@nap.pow." not in emit(made, host(level))
        most = (info.maxexp + 1) / abs(exponent)
        given = np.exp2(r.uniform(-1.1 * most, most, 300)) * r.choice([-1, 1], 300)
        given = np.concatenate([edges, given]).astype(dtype.value)
        any_ = call(apply("pow", dtype), [given, np.full_like(given, exponent)])
        got = call(made, [given], target=host(level))
        least = 3 * info.smallest_subnormal
        np.testing.assert_allclose(got, any_, rtol=2 * info.eps, atol=least)
        known = ~np.isnan(any_)
        assert np.array_equal(np.signbit(got[known]), np.signbit(any_[known])), exponent


@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
def test_erf_of_any_nan_is_one(level: str) -> None:
    """The bits of a NaN are a place of the table, too."""
    bits = np.arange(1, 1024, dtype=np.int64) | 0x7FF << 52
    x = np.concatenate([bits, bits ^ (1 << 51), bits | np.int64(-1) << 63]).view(np.float64)
    assert np.isnan(call(apply("erf", DType.F64), (x,), target=host(level))).all()
