"""The NumPy border, with kernels written by hand: every layout, every mistake, both ways in."""

from __future__ import annotations

import builtins
import gc
import pickle
import sys
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from by_hand import DOUBLE_PLUS_ONE, Hand, array, define, kernel, m, n, over

import naperian as nap
from naperian import border
from naperian.backends import runtime
from naperian.backends.entries import entry
from naperian.core.syntax import Const, TypeParam, Use
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.signature import Bind, Equal, Fault, Search
from naperian.signed import signature
from naperian.sizes import size
from naperian.substitution import Substitution
from naperian.types import (
    BOOL,
    F32,
    F64,
    INT,
    UNIT,
    EnumSet,
    Fin,
    Function,
    Index,
    Range,
    SetVar,
    Table,
    Tuple,
    TypeVar,
)

# y = 2 x + 1
affine = Hand(define("affine", {"x": array(F64, n)}, array(F64, n), sizes=(n,)),
              DOUBLE_PLUS_ONE, (n,))  # fmt: skip

# the sum of all elements of x: n=>m=>Float
TOTAL = kernel("""
  %count = mul i64 %n, %m""" + over("%count", """
  %x.at = getelementptr double, ptr %b0, i64 %i
  %x = load double, ptr %x.at
  %old = load double, ptr %b1
  %new = fadd double %old, %x
  store double %new, ptr %b1"""))
total = Hand(define("total", {"x": array(F64, n, m)}, F64), TOTAL.replace(
    "  br label %test\n", "  store double 0.0, ptr %b1\n  br label %test\n", 1))  # fmt: skip

# gather: x: n=>Float, p: m=>n -> m=>Float
gather = Hand(
    define("gather", {"x": array(F64, n), "p": array(Index(SetVar(n)), m)}, array(F64, m)),
    kernel(over("%m", """
  %p.at = getelementptr i64, ptr %b1, i64 %i
  %p = load i64, ptr %p.at
  %x.at = getelementptr double, ptr %b0, i64 %p
  %x = load double, ptr %x.at
  %y.at = getelementptr double, ptr %b2, i64 %i
  store double %x, ptr %y.at""")),
)  # fmt: skip

# nothing happens: for what is checked before the run
NOTHING = kernel("  ret i64 0")


def nothing(params: dict[str, Any], result: Any = UNIT, **options: Any) -> Hand:
    return Hand(define("f", params, result, **options), NOTHING)


@pytest.fixture(params=["native", "slow"])
def way(request: pytest.FixtureRequest) -> Callable[[Hand], Callable[..., Any]]:
    """A function through its native entry, and through the slow way alone."""
    return (lambda h: h) if request.param == "native" else (lambda h: h.slow)


# layouts


def variants(x: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The same numbers in every layout NumPy has."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]))
    wide[..., ::2] = x
    odd = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(x.shape)
    odd[...] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    return {
        "contiguous": x,
        "strided": wide[..., ::2],
        "transposed": np.ascontiguousarray(x.T).T,
        "fortran": np.asfortranarray(x),
        "reversed": np.ascontiguousarray(x[::-1])[::-1],
        "read-only": frozen,
        "byte-swapped": x.astype(x.dtype.newbyteorder()),
        "misaligned": odd,
        "float32": x.astype(np.float32),
        "float16": x.astype(np.float16),
        "int8": x.astype(np.int8),
        "int64": x.astype(np.int64),
        "list": x.tolist(),
        "broadcast": np.broadcast_to(x[:1], x.shape),
    }


@pytest.mark.parametrize("name", list(variants(np.zeros((2, 2)))))
def test_layouts(way: Any, name: str) -> None:
    x = np.arange(12.0).reshape(3, 4)
    given = variants(x)[name]
    before = np.array(given)
    assert way(total)(given) == np.asarray(given, float).sum()
    assert (np.array(given) == before).all()
    row = variants(np.arange(5.0))[name]
    assert way(affine)(row).tolist() == (2 * np.asarray(row, float) + 1).tolist()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty_arrays(way: Any, shape: tuple[int, int]) -> None:
    assert way(total)(np.zeros(shape)) == 0.0
    assert way(affine)(np.zeros(0)).shape == (0,)
    assert way(affine)([]).shape == (0,)


def test_contiguous_arrays_are_not_copied() -> None:
    address = nothing({"x": array(F64, n)}, INT, sizes=(n,))
    tell = Hand(address.definition, kernel("""
  %number = ptrtoint ptr %b0 to i64
  store i64 %number, ptr %b1
  ret i64 0"""), (n,))  # fmt: skip
    x = np.arange(3.0)
    assert tell(x) == tell.slow(x) == x.ctypes.data
    assert tell(x[::2]) != x.ctypes.data


def test_subclasses_are_arrays() -> None:
    class Mine(np.ndarray[Any, Any]):
        """An array of another type."""

    assert total(np.ones((1, 2)).view(Mine)) == 2.0
    with pytest.raises(TypeError, match="masked"):
        total(np.ma.masked_array([[1.0]], [[True]]))


# scalars and results


def scalars(t: Any, llvm: str, **options: Any) -> Hand:
    """The identity of a scalar type."""
    return Hand(define("same", {"x": t}, t, sizes=(), **options), kernel(f"""
  %x = load {llvm}, ptr %scalars
  store {llvm} %x, ptr %b1
  ret i64 0"""), ())  # fmt: skip


def test_scalars(way: Any) -> None:
    f64, f32, i64 = scalars(F64, "double"), scalars(F32, "float"), scalars(INT, "i64")
    flag = scalars(BOOL, "i8")
    numbers = (2.5, 3, 10**30, -1, -1.0)
    for x in (*numbers, np.float64(2.5), np.float32(0.5), np.int32(-4), np.array(7.0)):
        assert way(f64)(x) == float(x)
        assert type(way(f64)(x)) is float
    for x in (0.1, np.float32(0.1)):
        assert way(f32)(x) == np.float32(0.1)
    assert type(way(f32)(0.1)) is np.float32
    for k in (0, -1, 2**63 - 1, -(2**63), np.int8(5), np.uint32(7), np.int64(-1), np.int64(3)):
        assert way(i64)(k) == k
        assert type(way(i64)(k)) is int
    for b in (True, False, np.True_, np.False_):
        assert way(flag)(b) == b
        assert type(way(flag)(b)) is bool


@pytest.mark.parametrize(
    ("t", "llvm", "given", "error", "message"),
    [
        (INT, "i64", 1.0, TypeError, "argument x is made of floats, but it must be whole"),
        (INT, "i64", np.float32(1), TypeError, "float32, which would lose information as int64"),
        (INT, "i64", 2**63, OverflowError, "does not fit in int64"),
        (INT, "i64", 10**30, OverflowError, "does not fit in int64"),
        (INT, "i64", True, TypeError, "is bool, but it must be int64"),
        (INT, "i64", np.uint64(1), TypeError, "uint64, which would lose information as int64"),
        (F64, "double", 10**400, OverflowError, "argument x is too large for any Float"),
        (F64, "double", 1j, TypeError, "complex numbers are not supported"),
        (F64, "double", "1", TypeError, "is str: no number and no array"),
        (F64, "double", None, TypeError, "is None: no number and no array"),
        (F64, "double", True, TypeError, "is bool, but it must be float64"),
        (F64, "double", [1.0], builtins.ValueError, "must be a single value, not an array"),
        (F32, "float", np.float64(1), TypeError, "float64, which would lose information as fl"),
        (BOOL, "i8", 1, TypeError, "is int64, but it must be bool"),
    ],
)
def test_scalar_mistakes(
    way: Any, t: Any, llvm: str, given: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        way(scalars(t, llvm))(given)
    assert border.at_border(caught.value)


def test_tuples(way: Any) -> None:
    pair = Hand(define("pair", {"x": F64}, Tuple((F64, INT)), sizes=()), kernel("""
  %x = load double, ptr %scalars
  store double %x, ptr %b1
  store i64 3, ptr %b2
  ret i64 0"""), ())  # fmt: skip
    assert way(pair)(2.5) == (2.5, 3)
    assert way(nothing({}, UNIT, sizes=()))() == ()
    nested = nothing({"p": Tuple((F64, array(F64, n)))}, Tuple((UNIT, Tuple((BOOL,)))),
                     sizes=(n,))  # fmt: skip
    result = nested((1.0, [1.0, 2.0]))
    assert result[0] == ()
    assert len(result[1]) == 1
    with pytest.raises(TypeError, match="argument p must be a tuple of 2, not float"):
        nested(1.0)
    with pytest.raises(ValueError, match=r"argument p\[1\] must have 1 axis"):
        nested((1.0, 2.0))


def test_out() -> None:
    x = np.arange(3.0)
    out = np.zeros(3)
    assert affine(x, out=out) is out
    assert out.tolist() == [1, 3, 5]
    strided = np.zeros(6)[::2]
    assert affine(x, out=strided) is strided
    assert strided.tolist() == [1, 3, 5]
    assert affine(x, out=x) is x
    assert x.tolist() == [1, 3, 5]
    overlapping = np.arange(4.0)
    affine(overlapping[:3], out=overlapping[1:])
    assert overlapping.tolist() == [0, 1, 3, 5]
    with pytest.raises(border.ShapeError, match=r"out has shape \(2,\), but the result has \(3,"):
        affine(x, out=np.zeros(2))
    with pytest.raises(TypeError, match="out is float32, but the result is float64"):
        affine(x, out=np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="read-only"):
        affine(x, out=np.broadcast_to(0.0, 3))
    with pytest.raises(TypeError, match="out must be an array, not a list"):
        affine(x, out=[0.0] * 3)


@pytest.mark.skipif(not entry.layout_holds(), reason="calls go the slow way")
def test_out_goes_the_fast_way() -> None:
    memory = np.arange(12.0)
    x, before = memory[:3], affine.slow_calls
    out = memory[3:6]  # next to the argument
    count = sys.getrefcount(out)
    for _ in range(10):
        assert affine(x, out=out) is out
    assert sys.getrefcount(out) == count
    assert memory[:7].tolist() == [0, 1, 2, 1, 3, 5, 6]
    assert affine.slow_calls == before
    affine(x, out=memory[2:5])
    assert memory[:5].tolist() == [0, 1, 1, 3, 5]
    affine(x, **{"".join(["o", "ut"]): out})  # a name that is not interned
    assert affine.slow_calls == before + 2
    with pytest.raises(TypeError):
        affine(x, oout=out)
    with pytest.raises(TypeError):
        affine(x, x, out=out)
    with pytest.raises(TypeError, match="out must be an array"):
        affine(x, out=(out,))
    assert total(np.ones((2, 3))) == 6.0
    with pytest.raises(TypeError, match="a single value"):
        total(np.ones((2, 3)), out=np.zeros(()))


@pytest.mark.skipif(not entry.layout_holds(), reason="calls go the slow way")
def test_out_beside_an_argument_of_small_elements_goes_the_fast_way() -> None:
    same = Hand(define("same", {"x": array(F32, n)}, array(F32, n), sizes=(n,)),
                kernel("  ret i64 0"), (n,))  # fmt: skip
    memory = np.zeros(9, np.float32)
    for x, out in ((memory[:3], memory[3:6]), (memory[3:6], memory[:3])):
        assert same(x, out=out) is out
    assert same.slow_calls == 0
    same(memory[:3], out=memory[2:5])
    assert same.slow_calls == 1


# sizes


def test_shape_clash_names_both_axes(way: Any) -> None:
    mul = nothing({"x": array(F64, n, m), "y": array(F64, m)})
    with pytest.raises(border.ShapeError) as caught:
        way(mul)(np.zeros((2, 3)), np.zeros(4))
    assert str(caught.value) == "argument y: axis 0 is 4, but m is 3 from axis 1 of x"
    with pytest.raises(border.ShapeError, match=r"argument x must have 2 axes \(n, m\), not an "
                       r"array with 1 axis, shape \(3,\)"):  # fmt: skip
        way(mul)(np.zeros(3), np.zeros(3))


def test_linear_sizes_are_solved(way: Any) -> None:
    rows = Hand(
        define("rows", {"p": array(INT, size(n) + 1), "x": array(F64, n)}, INT, sizes=(n,)),
        kernel("  store i64 %n, ptr %b2\n  ret i64 0"),
        (n,),
    )
    assert way(rows)(np.zeros(4, int), np.zeros(3)) == 3
    with pytest.raises(border.ShapeError) as caught:
        way(rows)(np.zeros(6, int), np.zeros(3))
    assert str(caught.value) == "argument p: axis 0 is 6, but n + 1 is 4 (n is 3 from axis 0 of x)"
    alone = Hand(
        define("alone", {"p": array(INT, 2 * size(n) + 3)}, INT, sizes=(n,)),
        kernel("  store i64 %n, ptr %b1\n  ret i64 0"),
        (n,),
    )
    assert way(alone)(np.zeros(11, int)) == 4
    for wrong in (2, 4, 0):
        with pytest.raises(border.ShapeError, match=r"it must be 2 \* n \+ 3 for some n >= 0"):
            way(alone)(np.zeros(wrong, int))


def test_products_and_quotients_are_solved() -> None:
    grid = nothing({"x": array(F64, size(n) * m), "y": array(F64, n)})
    assert isinstance(grid.signature.plan[1], Bind)
    grid(np.zeros(12), np.zeros(4))
    with pytest.raises(border.ShapeError, match=r"n \* m for some m >= 0 \(n is 5 from axis 0 of"):
        grid(np.zeros(12), np.zeros(5))
    half = Hand(
        define("half", {"x": array(F64, size(n) // 2)}, INT, sizes=(n,)),
        kernel("  store i64 %n, ptr %b1\n  ret i64 0"),
        (n,),
    )
    assert isinstance(half.signature.plan[0], Search)
    assert half(np.zeros(3)) == 6
    square = nothing({"x": array(F64, size(n) * n)}, sizes=(n,))
    square(np.zeros(49))
    with pytest.raises(border.ShapeError, match=r"axis 0 is 48, but it must be n \* n"):
        square(np.zeros(48))


def test_plain_axes_bind_before_others() -> None:
    sig = signature(define("f", {"x": array(F64, size(n) + m, m), "y": array(F64, n)}, UNIT))
    assert [type(s) for s in sig.plan] == [Bind, Bind, Equal]


def test_constant_and_named_axes(way: Any) -> None:
    channel = EnumSet(Var("Channel"), ("R", "G", "B"))
    f = nothing({"x": Table(channel, array(F64, 2))}, sizes=())
    way(f)(np.zeros((3, 2)))
    with pytest.raises(border.ShapeError, match="axis 0 is 4, but Channel has 3 elements"):
        way(f)(np.zeros((4, 2)))
    with pytest.raises(border.ShapeError, match="axis 1 is 3, but it must be 2"):
        way(f)(np.zeros((3, 3)))


def test_facts(way: Any) -> None:
    f = nothing({"x": array(F64, n)}, sizes=(n,), facts=((size(n) - 1, "n >= 1"),))
    way(f)(np.zeros(1))
    with pytest.raises(border.ShapeError) as caught:
        way(f)(np.zeros(0))
    assert str(caught.value) == "f() needs n >= 1, but n is 0 from axis 0 of x"


def test_results_that_cannot_exist(way: Any) -> None:
    f = nothing({"k": INT}, array(F64, n, n, n, n, n), sizes=(n,), implicit=(n,))
    with pytest.raises(MemoryError, match=r"the result of f\(\) needs 8e\+07 EB"):
        f(1, n=10**5)
    outer = nothing({"x": array(F64, n)}, array(F64, *[n] * 6), sizes=(n,))
    with pytest.raises(MemoryError, match=r"the result of f\(\) needs .*: shape \(40000, "):
        way(outer)(np.zeros(40_000))
    empty = nothing({"k": INT}, array(F64, n, n, n, n, size(0)), sizes=(n,), implicit=(n,))
    with pytest.raises(MemoryError, match=r"the result of f\(\) needs 800 EB: shape"):
        empty(1, n=10**5)


# indices


def test_indices_are_checked_once(way: Any) -> None:
    x = np.arange(5.0) * 10
    p = np.array([4, 0, 2])
    assert way(gather)(x, p).tolist() == [40, 0, 20]
    assert way(gather)(x, p.astype(np.int16)).tolist() == [40, 0, 20]
    assert way(gather)(x, np.zeros(0, int)).shape == (0,)
    bad = np.zeros(20, int)
    bad[17] = 9
    with pytest.raises(border.IndexError) as caught:
        way(gather)(x, bad)
    assert str(caught.value) == (
        "argument p: element 17 is 9, but it must be below 5 (the size of axis 0 of x)"
    )
    with pytest.raises(builtins.IndexError, match="element 0 is -1, but it must be at least 0"):
        way(gather)(x, [-1])
    with pytest.raises(border.IndexError, match="element 0 is 0, but it must be below 0"):
        way(gather)(np.zeros(0), [0])
    with pytest.raises(TypeError, match="float64, which would lose information as int64"):
        way(gather)(x, np.zeros(3))


def test_scalar_indices_and_ranges(way: Any) -> None:
    f = nothing({"x": array(F64, n), "k": Index(SetVar(n))}, sizes=(n,))
    way(f)(np.zeros(3), 2)
    with pytest.raises(border.IndexError, match=r"argument k is 3, but it must be below 3 \(the"):
        way(f)(np.zeros(3), 3)
    g = nothing({"x": array(F64, n), "k": Index(Range(size(1), size(n) - 1))}, sizes=(n,))
    way(g)(np.zeros(4), 2)
    with pytest.raises(border.IndexError, match="is 0, but it must be at least 1"):
        way(g)(np.zeros(4), 0)
    with pytest.raises(border.IndexError, match=r"below 3 \(n - 1; n is 4 from axis 0 of x\)"):
        way(g)(np.zeros(4), 3)


def test_enums_by_name_or_number() -> None:
    channel = EnumSet(Var("Channel"), ("Red", "Green", "Blue"))
    one = Hand(define("one", {"c": Index(channel)}, Index(channel), sizes=()), kernel("""
  %x = load i64, ptr %scalars
  store i64 %x, ptr %b1
  ret i64 0"""), ())  # fmt: skip
    assert one("Blue") == one(2) == 2
    with pytest.raises(ValueError, match=r"Channel has no member 'Gren'; did you mean Green\?"):
        one("Gren")
    with pytest.raises(border.IndexError, match=r"below 3 \(Channel has 3 members\)"):
        one(3)
    many = nothing({"c": Table(Fin(size(n)), Index(channel))}, sizes=(n,))
    many(["Red", "Blue"])
    many(np.array([0, 1, 2]))
    with pytest.raises(ValueError, match="no member 'X': Red, Green, Blue"):
        many(["Red", "X"])


# arguments


def test_arguments_are_matched_as_python_does() -> None:
    f = nothing(
        {"x": F64, "rate": F64, "steps": INT},
        sizes=(),
        defaults={
            "rate": Use("e", Substitution({}, {}, {})),
            "steps": Const(Lit(3, DType.I64)),
        },
    )
    f(1.0)
    f(1.0, steps=2)
    f(x=1.0, rate=2)
    for args, keywords, message in [
        ((), {}, r"f\(\) is missing 1 argument: 'x'"),
        ((1, 2, 3, 4), {}, r"takes 3 positional arguments but 4 were given"),
        ((1,), {"x": 2}, "multiple values for argument 'x'"),
        ((1,), {"step": 2}, "unexpected keyword argument 'step'; did you mean 'steps'"),
        ((1,), {"zzz": 2}, "unexpected keyword argument 'zzz'$"),
    ]:
        with pytest.raises(TypeError, match=message):
            f(*args, **keywords)


def test_implicit_sizes_are_keywords() -> None:
    bins = Var("bins")
    f = Hand(
        define("f", {"x": array(Index(SetVar(bins)), n)}, INT, sizes=(n, bins), implicit=(bins,)),
        kernel("  store i64 %m, ptr %b1\n  ret i64 0"),
        (n, bins),
    )
    assert f([0, 1], bins=7) == 7
    with pytest.raises(TypeError, match="needs the size bins by keyword, as in bins=10"):
        f([0, 1])
    with pytest.raises(border.IndexError, match=r"element 1 is 9, but it must be below 5 \(bins=5"):
        f([0, 9], bins=5)
    for wrong in (2.0, "x", True):
        with pytest.raises(TypeError, match="bins is a size: a whole number or an enum class"):
            f([0], bins=wrong)
    with pytest.raises(border.ShapeError, match="bins is -1, which is no size"):
        f([0], bins=-1)


def test_functions_cannot_be_passed() -> None:
    f = nothing({"g": Function((F64,), F64), "x": F64}, sizes=())
    with pytest.raises(TypeError, match=r"cannot be called from Python: parameter g is a function"):
        f(abs, 1.0)


# precision


@pytest.mark.parametrize(
    ("args", "chosen"),
    [
        ((np.zeros(2), 1.0), DType.F64),
        ((np.zeros(2, np.float32), 1.0), DType.F32),
        ((np.zeros(2, np.float32), 1), DType.F32),
        ((np.zeros(2, np.float32), np.float64(1)), DType.F64),
        ((np.zeros(2, np.float32), np.int8(1)), DType.F32),
        ((np.zeros(2, np.float32), np.int64(1)), DType.F64),
        ((np.zeros(2, np.float16), 1.0), DType.F32),
        ((np.zeros(2, np.int64), 1.0), DType.F64),
        (([1.0, 2.0], 1.0), DType.F64),
        (([1.0, 2.0], np.float32(1)), DType.F32),
    ],
)
def test_float_is_the_precision_of_the_call(args: tuple[Any, ...], chosen: DType) -> None:
    a = Var("Float")
    definition = define("f", {"x": array(TypeVar(a), n), "y": TypeVar(a)}, UNIT,
                        types=(TypeParam(a, "Floating", True),), sizes=(n,))  # fmt: skip
    sig = signature(definition)
    assert border.choose(sig, border.gather(sig, args, {}, float)[0]) == (chosen,)
    assert sig.type == "(n=>Float, Float) -> ()"


@pytest.mark.parametrize(
    ("args", "chosen"),
    [
        ((1, 2), DType.I64),
        ((1, 2.0), DType.F64),
        ((np.uint8(1), 2), DType.U8),
        ((np.uint8(1), np.int8(2)), DType.I16),
        ((np.uint8(1), 2.0), DType.F64),
        ((np.float32(1), 2.0), DType.F32),
        ((np.float32(1), np.int64(2)), DType.F64),
    ],
)
def test_a_type_variable_is_the_common_type(args: tuple[Any, ...], chosen: DType) -> None:
    a = Var("a")
    definition = define("f", {"x": TypeVar(a), "y": TypeVar(a)}, TypeVar(a),
                        types=(TypeParam(a, "Num"),), sizes=())  # fmt: skip
    sig = signature(definition)
    assert border.choose(sig, border.gather(sig, args, {}, float)[0]) == (chosen,)
    assert sig.type == "(a, a) -> a where a: Num"


def test_type_variables_without_a_common_type() -> None:
    a = Var("a")
    sig = signature(define("f", {"x": TypeVar(a), "y": TypeVar(a)}, TypeVar(a),
                           types=(TypeParam(a, "Num"),), sizes=()))  # fmt: skip
    for args in [(np.uint64(1), np.int8(1)), (np.True_, np.int8(1)), (True, True)]:
        with pytest.raises(TypeError, match=r"no common type|must be a number"):
            border.choose(sig, border.gather(sig, args, {}, float)[0])


def test_the_native_entry_keeps_to_its_precision() -> None:
    """A Python number fits every precision, so a function of scalars alone must ask the slow way
    which instance is meant."""
    a = Var("Float")
    precise = (TypeParam(a, "Floating", True),)
    lone = define("lone", {"x": TypeVar(a)}, TypeVar(a), types=precise, sizes=())
    single = Hand(lone, kernel("""
  %x = load float, ptr %scalars
  store float %x, ptr %b1
  ret i64 0"""), (), (DType.F32,))  # fmt: skip
    assert single(np.float32(0.5)) == 0.5
    assert single.slow_calls == 1
    with pytest.raises(builtins.AssertionError):  # the instance that was not chosen
        single(0.5)
    b = Var("b")
    pair = define("pair", {"x": TypeVar(b), "y": TypeVar(b)}, TypeVar(b),
                  types=(TypeParam(b, "Num"),), sizes=())  # fmt: skip
    double = Hand(pair, kernel("  ret i64 0"), (), (DType.F64,))
    double(1.0, 2.0)
    assert double.slow_calls == 0
    with pytest.raises(builtins.AssertionError):
        double(1, 2)


# failures


def failing(code: str) -> Hand:
    return Hand(
        define("f", {"x": array(F64, n)}, Tuple((array(F64, n), array(F64, n))), sizes=(n,)),
        kernel(f"""
  store i64 9, ptr %error
  %second = getelementptr i64, ptr %error, i64 1
  store i64 5, ptr %second
  ret i64 {code}"""),
        (n,),
        faults=(
            Fault("rates must be positive", "f.nap:3:5"),
            Fault("index {value} is out of range for size {size}", "f.nap:4:9"),
        ),
    )


def test_failures_say_what_and_where(way: Any) -> None:
    with pytest.raises(border.AssertionError) as caught:
        way(failing("1"))(np.zeros(3))
    assert str(caught.value) == "f.nap:3:5: rates must be positive"
    assert caught.value.place == "f.nap:3:5"
    assert isinstance(caught.value, builtins.AssertionError)
    with pytest.raises(border.IndexError, match=r"f\.nap:4:9: index 9 is out of range for size 5"):
        way(failing("2"))(np.zeros(3))
    with pytest.raises(MemoryError, match="intermediate array"):
        way(failing("-2"))(np.zeros(3))
    for kind in (border.AssertionError, border.IndexError, border.ShapeError):
        assert issubclass(kind, border.Error)


def test_failures_leak_nothing() -> None:
    f, x = failing("1"), np.zeros(3)

    def fail() -> None:
        with pytest.raises(border.AssertionError):
            f(x)

    fail()
    references = sys.getrefcount(x)
    gc.collect()
    blocks = sys.getallocatedblocks()
    for _ in range(200):
        fail()
    gc.collect()
    assert sys.getrefcount(x) == references
    assert sys.getallocatedblocks() - blocks < 200


def test_calls_leak_nothing(way: Any) -> None:
    x = np.zeros((3, 4))
    p = np.zeros(2, int)
    call_total, call_gather = way(total), way(gather)

    def blocks_after(rounds: int) -> int:
        for _ in range(rounds):
            call_total(x)
            call_gather(x[0], p)
        gc.collect()
        return sys.getallocatedblocks()

    before = blocks_after(2000)  # what Python keeps for itself is there by then
    assert blocks_after(2000) - before < 200


# the two ways


def test_the_native_entry_takes_ordinary_calls() -> None:
    assert entry.layout_holds()
    assert runtime.runtime().entries is not None
    for f, args in [
        (affine, (np.zeros(3),)),
        (total, (np.zeros((2, 2)),)),
        (gather, (np.zeros(3), np.zeros(2, int))),
        (scalars(F64, "double"), (np.float64(1),)),
        (scalars(F32, "float"), (np.float32(1),)),
        (scalars(INT, "i64"), (np.int64(1),)),
        (scalars(INT, "i64"), (np.int32(-1),)),
        (scalars(INT, "i64"), (np.uint8(255),)),
        (scalars(BOOL, "i8"), (np.True_,)),
    ]:
        before = f.slow_calls
        f(*args)
        assert f.slow_calls == before, f.definition.name


def test_an_instance_can_be_kept_on_disk() -> None:
    again = pickle.loads(pickle.dumps(gather.instance))
    assert again == gather.instance


def test_a_small_call_is_cheaper_than_numpy() -> None:
    """Measured: a tenth of NumPy's own `2 * x + 1`."""
    x = np.zeros(3)
    ours = min(timeit.repeat(lambda: affine.call(x), number=2000, repeat=20))
    numpy = min(timeit.repeat(lambda: 2 * x + 1, number=2000, repeat=20))
    assert ours < 0.5 * numpy


@pytest.mark.skipif(not entry.layout_holds(), reason="calls go the slow way")
def test_numbers_of_numpy_go_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside an array that has chosen the precision; alone a number has a say in it."""
    m = nap.compile("""
def scaled(x: n=>Float, a: Float) = [v * a for v in x]
def product(a: Float, b: Float) = a * b
def exact(a: F64) = a + 0.5
""")
    x = np.array([1.5, -2.0])
    kinds = (np.float64, np.float32, np.int64, np.int32, np.int8, np.uint16, np.uint32)
    assert (m.scaled(x, 1.0) == x).all()
    assert m.product(2.0, 3.0) == 6.0
    assert m.exact(2.0) == 2.5
    for kind in kinds:  # as they are converted there
        single = m.scaled.convert(x.astype(np.float32), kind(3)).dtype
        assert m.scaled(x.astype(np.float32), kind(3)).dtype == single
    assert m.product(2.0, np.float32(0.1)) == m.product.convert(2.0, np.float32(0.1))
    assert m.product(np.float32(0.1), np.int64(3)) == 3 * float(np.float32(0.1))
    monkeypatch.setattr(border, "gather", None)
    for kind in kinds:
        made = m.scaled(x, kind(3))
        assert made.dtype == np.float64
        assert made.tolist() == [4.5, -6.0]
        assert m.exact(kind(3)) == 3.5
    for odd in (np.float32(0.1), np.int64(-(2**53) - 1), np.int8(-128), np.uint32(2**32 - 1)):
        assert m.scaled(x, odd).tolist() == (x * float(odd)).tolist()
    assert m.product(2.0, np.int64(3)) == 6.0


def test_the_fast_way_tells_no_sizes_of_tables_that_are_given_packed() -> None:
    """A table of triangles is an array; of two results, the second call gave a third: a size."""
    m = nap.compile("""
def products(x: n=>Float) -> (i: n)=>(..=i)=>Float = [[x[i] * x[j] for j] for i]
def all(x: rows=>n=>Float) = [products(x[r]) for r in rows]
""")
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    for _ in range(3):
        value, tangent = nap.jvp(m.all)(x, x)
        np.testing.assert_array_equal(value, [[1.0, 2.0, 4.0], [9.0, 12.0, 16.0]])
        np.testing.assert_array_equal(tangent, 2.0 * value)


def test_numbers_in_lists_that_single_precision_does_not_have() -> None:
    m = nap.compile("""
def same(x: n=>F32) = x
def both(x: n=>Float, y: m=>Float) = sum(x) + sum(y)
def double(x: n=>F64) = x
struct P:
    a: F32
def field(ps: n=>P) = [p.a for p in ps]
""")
    one = np.ones(1, np.float32)
    most = float(np.finfo(np.float32).max)
    for held in ([2**24, -(2**60)], [most, 0.1, 1e-60], [np.inf, -np.inf, np.nan], [-(2**63)], []):
        for _ in range(2):
            np.testing.assert_array_equal(m.same(held), np.array(held, np.float32))
    wrong = (
        ([0.1, 1e300], r"x\[1\] is 1e\+300, which does not fit in float32$"),
        ([most * (1 + 2**-24)], r"x\[0\] is 3.402823\d+e\+38, which does not fit"),
        ([10**39], r"x\[0\] is 1e\+39, which does not fit in float32$"),
        ([1, 2**24 + 1], r"x\[1\] is 16777217, which does not fit in float32; float\(…\)"),
        ([2**60 + 1], r"x\[0\] is 1152921504606846977, which"),
        ([2**64 - 1], r"x\[0\] is 18446744073709551615, which"),
    )
    for given, message in wrong:
        with pytest.raises(OverflowError, match=message):
            m.same(given)
        with pytest.raises(OverflowError, match=message.replace("x", "y", 1)):
            m.both(one, given)
        assert m.double(given).tolist() == [float(k) for k in given]
    assert m.same([float(2**24 + 1)]).tolist() == [2.0**24]
    with pytest.raises(OverflowError, match=r"argument ps\[1\]\.a is 1e\+300, which does not fit"):
        m.field([{"a": 1.0}, {"a": 1e300}])


class Elsewhere:
    """An array of another library that is on a device, and says so in its own way."""

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise RuntimeError("it is on a device; use x.cpu() first\nand more of it")


class Sparse:
    def __iter__(self):
        return iter(())

    def toarray(self) -> np.ndarray:
        return np.eye(2)


class Column:
    """A column of a table of another library, of whatever."""

    def __init__(self, *values: object) -> None:
        self.values = values

    def __iter__(self):
        return iter(self.values)

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        return np.array(self.values, object)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Column(1.0, None), "argument x[1] is None: no number and no array"),
        (Column("a", 1.0), "argument x[0] is 'a': text is no number"),
        (Column(1.0, 2), "argument x is object: it holds Python objects; .astype(float) makes "
                         "numbers of them"),
        (Elsewhere(), "argument x is Elsewhere, which NumPy makes no array of: it is on a device; "
                      "use x.cpu() first"),
        (Sparse(), "argument x is Sparse: no number and no array; .toarray() makes an array of it"),
    ],
)  # fmt: skip
def test_what_other_libraries_call_an_array_is_refused_in_their_words(given, message) -> None:
    f = nap.compile("def f(x: n=>Float) = sum(x)").f
    with pytest.raises(TypeError) as error:
        f(given)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "first", "second", "expected"),
    [
        ("def f(x: a) where a: Integral = ~x", (np.uint64(7),), (5,), -6),
        ("def f(x: a, y: a) where a: Real = x - y", (np.uint64(7),) * 2, (3, 5), -2),
        ("def f(x: a, y: a) where a: Real = x * y", (3, 3), (np.int32(10**5),) * 2, 1410065408),
        ("def f(x: a, y: a) where a: Real = x * y", (3, 3), (np.int64(10**5),) * 2, 10**10),
    ],
)  # fmt: skip
def test_a_call_does_not_depend_on_calls_before(
    text: str, first: tuple[Any, ...], second: tuple[Any, ...], expected: int
) -> None:
    f = nap.compile(text).f
    assert f(*second) == expected
    f = nap.compile(text).f
    f(*first)
    assert f(*second) == expected


def test_integers_of_any_type_are_asked_for() -> None:
    m = nap.compile("def bits(x: n=>a, k: a) where a: Integral = [v & k for v in x]")
    assert m.bits(np.array([5, 6], np.uint8), 3).dtype == np.uint8
    assert m.bits([], 3).shape == (0,)
    with pytest.raises(TypeError, match=r"argument x is float64; a must be an integer"):
        m.bits([5.0], 3)
    with pytest.raises(TypeError, match=r"argument k is float64; a must be an integer"):
        m.bits(np.array([5]), 3.5)
    with pytest.raises(TypeError, match=r"its parameter `x` is made of an integer"):
        nap.grad(nap.compile("def last(x: n=>a) -> a where a: Integral = x[0?] | 1").last)
    best = nap.compile("def best(x: n=>a) -> a = max(x)").best
    with pytest.raises(TypeError, match=r"argument x is bool; a must be a number"):
        best(np.array([True]))
