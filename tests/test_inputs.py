"""What a user may pass to functions like the demo's: layouts, hazards, wrong things."""

from __future__ import annotations

import array
import datetime
import decimal
import functools
from typing import Any

import numpy as np
import pytest

import naperian as nap

TEXT = """\
def blur(x: Fin(h)=>Fin(w)=>Float) -> Fin(h)=>Fin(w)=>Float =
    [(x[i, j] + x[clamp(i + 1), j] + x[i, clamp(j + 1)]) / 3.0 for i, j]

def counts(x: n=>bins) -> bins=>Int = [sum(1 if x[i] == b else 0 for i) for b]

def soft(x: n=>Float) -> n=>Float = exp(x - max(x)) / sum(exp(x - max(x)))

def total(x: n=>Int) -> Int = sum(x)

def flags(x: n=>Bool) -> Int = sum(1 if x[i] else 0 for i)

def scale(x: n=>Float, s: Float) -> n=>Float = x * s
"""


@pytest.fixture(scope="module")
def m() -> Any:
    return nap.compile(TEXT)


def blurred(x: Any) -> Any:
    down = np.minimum(np.arange(len(x)) + 1, len(x) - 1)
    right = np.minimum(np.arange(x.shape[1]) + 1, x.shape[1] - 1)
    return (x + x[down] + x[:, right]) / 3.0


def read_only(x: Any) -> Any:
    x = x.copy()
    x.flags.writeable = False
    return x


LAYOUTS = {
    "contiguous": lambda x: x,
    "Fortran": np.asfortranarray,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "strided": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
    "reversed": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": read_only,
    "byte-swapped": lambda x: x.astype(">f8"),
    "list": lambda x: x.tolist(),
    "memoryview": memoryview,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("hazard", [0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1e308])
def test_a_picture_in_every_layout(m: Any, layout: str, hazard: float) -> None:
    x = np.arange(35.0).reshape(5, 7)
    x[2, 3] = hazard
    before = x.copy()
    with np.errstate(all="ignore"):
        expected = blurred(x)
    np.testing.assert_allclose(m.blur(LAYOUTS[layout](x)), expected, rtol=1e-15)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0), (1, 1), (1, 9), (9, 1)])
def test_a_picture_of_any_shape(m: Any, shape: tuple[int, int]) -> None:
    x = np.ones(shape)
    assert m.blur(x).shape == shape
    assert (m.blur(x) == 1).all()


@pytest.mark.parametrize("kind", ["f2", "f4"])
def test_single_precision_stays(m: Any, kind: str) -> None:
    x = np.arange(12, dtype=kind).reshape(3, 4)
    assert m.blur(x).dtype == np.float32
    np.testing.assert_allclose(m.blur(x), blurred(x.astype("f4")), rtol=1e-6)


@pytest.mark.parametrize("kind", ["i1", "u2", "i4", "i8", "u8"])
def test_integers_go_where_they_fit(m: Any, kind: str) -> None:
    x = np.array([0, 2, 2, 1], kind)
    assert m.soft(x).dtype == np.float64
    if kind != "u8":
        assert m.counts(x, bins=4).tolist() == [1, 1, 2, 0]


def test_python_values(m: Any) -> None:
    for given in ([1, 2, 3], (1, 2, 3), range(1, 4), array.array("q", [1, 2, 3])):
        assert m.total(given) == 6
    assert m.total([]) == 0
    assert m.soft([]).shape == (0,)
    assert m.flags([True, False, True]) == 2
    assert m.scale([1, 2.5], 2).tolist() == [2.0, 5.0]
    assert m.scale([1.0], 10**30).tolist() == [1e30]
    assert m.scale([1.0], np.array(3.0)).tolist() == [3.0]


def test_lists_of_unsigned_integers_that_numpy_makes_floats_of() -> None:
    m: Any = nap.compile("def f(x: n=>U64) -> n=>U64 = x\ndef g(x: n=>a) -> n=>a = x\n")
    for given in ([2**64 - 1, 1], [1, 2**63], [2**63], (0, 2**53 + 1, 2**63 + 1)):
        assert m.f(given).tolist() == list(given)
        assert m.g(given).tolist() == list(given)
    for given, wrong in (([2**63, -1], "x[1] is -1"), ([1, 2**64], "x[1] is 18446744073709551616")):
        with pytest.raises(OverflowError) as raised:
            m.f(given)
        assert f"argument {wrong}, which does not fit in uint64" in str(raised.value)


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
DEEP: Any = functools.reduce(lambda inner, _: [inner], range(5000), 1.0)

WRONG: list[tuple[str, Any, type, str]] = [
    ("soft", np.zeros(3, complex), TypeError, "complex numbers are not supported"),
    ("soft", [1j], TypeError, "complex numbers are not supported"),
    ("soft", np.zeros(3, object), TypeError, "argument x is object: it holds Python objects"),
    ("soft", [decimal.Decimal(1)], TypeError, "no number and no array; float(…) makes a number of"),
    ("soft", ["a"], TypeError, "x[0] is 'a': text is no number"),
    ("soft", "abc", TypeError, "argument x is str: no number and no array"),
    ("soft", b"abc", TypeError, "no number and no array; np.frombuffer(…, np.uint8) has its bytes"),
    ("soft", [1.0, CIRCLE], TypeError, "argument x[1][0] is a list that it is in itself"),
    ("soft", DEEP, nap.ShapeError, "argument x is no array: its lists are nested too deep"),
    ("soft", None, TypeError, "argument x is None: no number and no array"),
    ("soft", {1.0}, TypeError, "is set: no number and no array; list(…) makes a list of it"),
    ("soft", (v for v in [1.0]), TypeError, "is generator: no number and no array; list(…) makes"),
    ("soft", ["1.5"], TypeError, "x[0] is '1.5': text is no number; float(…) reads it"),
    ("soft", np.array(["1.5"]), TypeError, "it holds text; .astype(float) reads numbers in it"),
    ("soft", np.array(["2026-01-01"], "M8[D]"), TypeError, "dates are not numbers"),
    ("soft", [datetime.timedelta(1)], TypeError, "x[0] is timedelta: no number"),
    ("soft", np.zeros(3, "m8[s]"), TypeError, "durations are not numbers"),
    ("soft", np.zeros(3, [("a", "f8")]), TypeError, "it holds records"),
    ("soft", np.zeros(3, bool), TypeError, "is bool, but it must be float64"),
    ("soft", 3.0, nap.ShapeError, "must have 1 axis (n), not a single value"),
    ("soft", np.array(3.0), nap.ShapeError, "must have 1 axis (n), not a single value"),
    ("soft", np.zeros((2, 2)), nap.ShapeError, "not an array with 2 axes, shape (2, 2)"),
    ("soft", [[1.0], [2.0, 3.0]], nap.ShapeError, "its parts are of different lengths"),
    ("soft", np.ma.masked_array([1.0], [True]), TypeError, "is a masked array; fill it first"),
    ("soft", [10**400], OverflowError, "argument x is too large for any Float"),
    ("total", [1, 1.5], TypeError, "argument x[1] is 1.5, but it must be whole (int64); round(…)"),
    ("total", [1.0], TypeError, "x is made of floats, but it must be whole (int64): write 1 for"),
    ("total", [np.nan], TypeError, "argument x[0] is nan, but it must be whole (int64)"),
    ("total", np.ones(2, "u8"), TypeError, "convert it with .astype(np.int64) if that is meant"),
    ("total", [2**63], OverflowError, "argument x[0] is 9223372036854775808, which does not fit"),
    ("total", [2**64], OverflowError, "argument x[0] is 18446744073709551616, which does not fit"),
    ("total", [2**63, -1], OverflowError, "x[0] is 9223372036854775808, which does not fit in i"),
    ("total", [2**64, -1], OverflowError, "argument x[0] is 18446744073709551616, which does not"),
    ("total", [2.0**63, 1], TypeError, "x is made of floats, but it must be whole (int64)"),
    ("total", [10**5000], OverflowError, "an integer of 16610 bits, which does not fit in int64"),
    ("total", [True], TypeError, "is bool, but it must be int64; int(…) makes it one"),
    ("total", np.ones(2, bool), TypeError, "it must be int64; .astype(np.int64) makes it one"),
    ("flags", [1, 0], TypeError, "argument x is int64, but it must be bool; bool(…) makes it one"),
    ("flags", [2**70], TypeError, "argument x is int, but it must be bool"),
]


def test_an_array_without_elements_may_hold_anything(m: Any) -> None:
    for empty in (np.array([]), np.zeros(0)):
        assert m.total(empty) == 0
        assert m.flags(empty) == 0
        assert m.counts(empty, bins=2).tolist() == [0, 0]
        assert m.soft(empty).shape == (0,)


def test_rows_in_an_array_of_objects() -> None:
    rows = nap.compile("def sums(r: n=>(exists k. Fin(k)=>Float)) = [sum(v) for v in r]")
    triangle = nap.compile("def sums(t: (i: n)=>(..=i)=>Float) = [sum(t[i]) for i]")
    given = np.empty(2, object)
    given[:] = [np.array([1.0]), [2.0, 3.0]]

    class Column:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return given

    for m in (rows, triangle):
        assert m.sums(given).tolist() == [1.0, 5.0]
        assert m.sums(Column()).tolist() == [1.0, 5.0]
    with pytest.raises(nap.ShapeError, match=r"m\[np.tril_indices\(len\(m\)\)\]"):
        triangle.sums(np.eye(3))


def test_a_size_that_shapes_say_is_not_given(m: Any) -> None:
    with pytest.raises(TypeError, match="the size n is known from the shapes of arguments"):
        m.total(np.ones(2, int), n=2)


@pytest.mark.parametrize(("name", "given", "kind", "message"), WRONG)
def test_what_is_wrong_is_said_in_one_sentence(
    m: Any, name: str, given: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as raised:
        m[name](given)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.skipif(np.finfo(np.longdouble).bits == 64, reason="long double is double here")
def test_long_doubles_would_lose_precision(m: Any) -> None:
    with pytest.raises(TypeError, match="would lose precision"):
        m.soft(np.zeros(3, np.longdouble))


def test_what_no_memory_holds(m: Any) -> None:
    with pytest.raises(MemoryError, match="the result of counts"):
        m.counts([0], bins=1 << 46)
    endless = np.lib.stride_tricks.as_strided(np.zeros(1, "i4"), (1 << 55,), (0,))
    with pytest.raises(MemoryError, match="Unable to allocate"):
        m.total(endless)


def test_a_result_of_hidden_size_has_no_gradient() -> None:
    m = nap.compile("def kept(x: n=>Float) = [2.0 * v for v in x if v < 1.0]")
    for derivative in (nap.grad, nap.value_and_grad, nap.hessian):
        with pytest.raises(TypeError, match="needs a function with a scalar result, and `kept`"):
            derivative(m.kept)
    assert nap.jacobian(m.kept)([0.5, 2.0]).tolist() == [[2.0, 0.0]]
