"""loops → LLVM, against the interpreter of loops and NumPy; and how the machine code looks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernels import Failed, apply, array, at, call, loop, op, program, put

import naperian as nap
from naperian.backends import llvm
from naperian.backends.emit import emit
from naperian.backends.gathers import computed
from naperian.backends.kernel import functions_of
from naperian.backends.llvm import assembly, compile_ir, is_finished, optimised
from naperian.backends.masks import masks
from naperian.backends.target import Target, host
from naperian.dtypes import DType
from naperian.loops.run import RunError, run
from naperian.loops.syntax import (
    Allocate,
    Assign,
    Buffer,
    Contract,
    Fail,
    Let,
    Load,
    Local,
    Number,
    Order,
    Program,
    Reduction,
    Role,
    Update,
    Variable,
    When,
    While,
)
from naperian.names import Lit, Var
from naperian.prims import PRIMITIVES, Kind, convert
from naperian.sizes import atom, clamp, size

F64, F32, I64, BOOL = DType.F64, DType.F32, DType.I64, DType.BOOL
SIZES = (0, 1, 2, 7, 8, 33, 100)
INTEGERS = [DType.I8, DType.I32, DType.I64, DType.U8, DType.U64]
n, m, i, j, k = (Var(name) for name in "nmijk")


def agree(p: Program, *args: Any, sizes: list[int] | None = None) -> Any:
    """The compiled results, equal to the interpreter's."""
    compiled = call(p, args, sizes)
    got = compiled if isinstance(compiled, list) else [compiled]
    known: dict[Var, int] = {}
    for b, a in zip((b for b in p.buffers if b.role is Role.IN), args, strict=True):
        for extent, length in zip(b.shape, np.shape(a), strict=True):
            if isinstance(extent.single, Var):
                known[extent.single] = length
    numbers = sizes or [known[v] for v in p.sizes]
    given = [
        np.asarray(a, b.dtype.value) if b.shape else np.dtype(b.dtype.value).type(a)
        for b, a in zip(p.buffers, args, strict=False)
    ]
    for a, b in zip(got, run(p, numbers, given), strict=True):
        if np.asarray(b).dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-6 if a.dtype == np.float32 else 1e-13)
        else:
            np.testing.assert_array_equal(a, b)
    return compiled


# --- scalar operations --------------------------------------------------------------------------


def edges(d: DType) -> list[int]:
    low = -(1 << (d.bits - 1)) if d.is_signed else 0
    high = (1 << (d.bits - (1 if d.is_signed else 0))) - 1
    some = [0, 1, 2, 3, 5, 7, d.bits - 1, d.bits, 100, high, high - 1]
    return some + ([-1, -2, -3, -7, -100, low, low + 1] if d.is_signed else [])


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    "name",
    [p.name for p in PRIMITIVES.values()
     if p.kind in (Kind.ARITH, Kind.INTEGER, Kind.COMPARE, Kind.EQUAL)],
)  # fmt: skip
def test_integers(name: str, dtype: DType) -> None:
    values = np.array(edges(dtype), dtype.value)
    arity = PRIMITIVES[name].arity
    args = [g.ravel() for g in np.meshgrid(values, values)] if arity == 2 else [values]
    got = call(apply(name, dtype), args)
    for row in zip(*args, got, strict=True):
        want = PRIMITIVES[name].meaning(*row[:-1])
        assert row[-1] == want, f"{name}{row[:-1]} is {row[-1]}, not {want}"


@pytest.mark.parametrize("name", ["and", "or", "xor", "not", "eq", "ne"])
def test_booleans(name: str) -> None:
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    args = [x, y][: PRIMITIVES[name].arity]
    np.testing.assert_array_equal(call(apply(name, BOOL), args), PRIMITIVES[name].meaning(*args))


@pytest.mark.parametrize("dtype", [F64, F32])
@pytest.mark.parametrize(
    "name",
    ["add", "sub", "mul", "div", "min", "max", "neg", "abs", "sign", "floor", "ceil", "round",
     "trunc", "isnan", "isinf", "isfinite", "eq", "ne", "lt", "le", "gt", "ge"],
)  # fmt: skip
def test_floats(name: str, dtype: DType) -> None:
    values = np.array([0.0, -0.0, 1.5, -2.5, 0.5, 3.0, 1e30, np.inf, -np.inf, np.nan], dtype.value)
    args = [g.ravel() for g in np.meshgrid(values, values)][: PRIMITIVES[name].arity]
    got = call(apply(name, dtype), args)
    with np.errstate(all="ignore"):
        want = PRIMITIVES[name].meaning(*args)
    np.testing.assert_array_equal(got, want)
    if got.dtype.kind == "f" and name not in ("min", "max"):
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize("source", list(DType))
@pytest.mark.parametrize("to", list(DType))
def test_casts(source: DType, to: DType) -> None:
    if source.is_float:
        x = np.array([0, -0.0, 1.9, -1.9, 300, -300, 1e10, -1e20, 1e30, np.inf, -np.inf, np.nan],
                     source.value)  # fmt: skip
    elif source is BOOL:
        x = np.array([False, True])
    else:
        x = np.array(edges(source), source.value)
    got = call(apply("cast", source, to), [x])
    np.testing.assert_array_equal(got, np.array([convert(v, to) for v in x], to.value))


def test_bitcast() -> None:
    x = np.array([0.0, -1.5, np.inf])
    np.testing.assert_array_equal(call(apply("bitcast", F64, I64), [x]), x.view(np.int64))


# --- statements ---------------------------------------------------------------------------------


@pytest.mark.parametrize("length", SIZES)
@pytest.mark.parametrize("order", list(Order))
def test_map(length: int, order: Order) -> None:
    x, s, y = array("x", n), array("s"), array("y", n, out=True)
    value = op("add", op("mul", Local(s.var), at(x.var, i)), Number(size(i)))
    value = op("mul", Local(s.var), at(x.var, i))
    p = program([x, s, y], loop(i, n, put(y.var, [i], value), order=order))
    agree(p, np.arange(length) / 3, 2.5)


@pytest.mark.parametrize("length", SIZES)
@pytest.mark.parametrize("dtype", [F64, F32, DType.I32])
@pytest.mark.parametrize("monoid", ["add", "mul", "min", "max"])
def test_reduction(monoid: str, dtype: DType, length: int) -> None:
    p = reduction(monoid, dtype, Order.PARALLEL)
    rng = np.random.default_rng(0)
    agree(p, (rng.integers(1, 4, length) / (2 if dtype.is_float else 1)).astype(dtype.value))


def reduction(monoid: str, dtype: DType, order: Order) -> Program:
    x, y, total = array("x", n, dtype=dtype), array("y", dtype=dtype, out=True), Var("total")
    return program(
        [x, y],
        Variable(total, dtype, Lit(3, dtype)),
        loop(
            i,
            n,
            Assign(total, op(monoid, Local(total), at(x.var, i), dtype=dtype)),
            order=order,
            reductions=(Reduction(total, monoid, dtype),),
        ),
        put(y.var, [], Local(total)),
    )


def test_reduction_over_many_chunks() -> None:
    p = reduction("add", F64, Order.PARALLEL)
    x = np.random.default_rng(0).normal(size=1_000_000)
    first = call(p, [x])
    np.testing.assert_allclose(first, x.sum() + 3, rtol=1e-12)
    assert all(call(p, [x]) == first for _ in range(5))


def test_reduction_of_booleans() -> None:
    x, y, seen = array("x", n, dtype=BOOL), array("y", dtype=BOOL, out=True), Var("seen")
    p = program(
        [x, y],
        Variable(seen, BOOL, Lit(False, BOOL)),
        loop(
            i,
            n,
            Assign(seen, op("or", Local(seen), at(x.var, i), dtype=BOOL)),
            order=Order.PARALLEL,
            reductions=(Reduction(seen, "or", BOOL),),
        ),
        put(y.var, [], Local(seen)),
    )
    for length in (0, 5, 200_000):
        assert not call(p, [np.zeros(length, bool)])
    assert call(p, [np.arange(200_000) == 199_999])


def test_extrema_keep_nan() -> None:
    for name in ("min", "max"):
        p = reduction(name, F64, Order.FREE)
        x = np.arange(100.0)
        x[57] = np.nan
        assert np.isnan(call(p, [x]))


def stencil() -> Program:
    x, y = array("x", n, m), array("y", n, m, out=True)
    up, down = clamp(size(i) - 1, size(n)), clamp(size(i) + 1, size(n))
    total = op("add", at(x.var, up, j), at(x.var, down, j))
    inner = loop(j, m, put(y.var, [i, j], op("sub", total, at(x.var, i, j))))
    return program([x, y], loop(i, n, inner, order=Order.PARALLEL, work=size(m) * 4))


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (3, 0), (5, 17), (300, 400)])
def test_stencil(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    if x.size < 1000:
        agree(stencil(), x)
    else:
        rows = np.arange(shape[0])
        up, down = np.maximum(rows - 1, 0), np.minimum(rows + 1, shape[0] - 1)
        np.testing.assert_allclose(call(stencil(), [x]), x[up] + x[down] - x, rtol=1e-15)


def gather() -> Program:
    x, at_, y = array("x", m), array("p", n, dtype=I64), array("y", n, out=True)
    value = Load(x.var, (atom(at(at_.var, i)),))
    return program([x, at_, y], loop(i, n, put(y.var, [i], value)))


def test_gather_and_index_atoms() -> None:
    agree(gather(), np.arange(5) / 2, np.array([4, 0, 0, 3, 2, 1, 4, 4]))
    y = array("y", n, dtype=I64, out=True)
    e = (size(i) - 5) // 3 + ((size(i) - 5) % 4) * 100 + ((size(i) - 5) % size(m)) * 10_000
    p = Program("atoms", (n, m), (y,), (loop(i, n, put(y.var, [i], Number(e))),))
    agree(p, sizes=[20, 3])
    agree(p, sizes=[20, 0])


def test_histogram_and_temporaries() -> None:
    """A filled heap temporary, updated, then copied; a small one on the stack."""
    x, y = array("x", n, dtype=I64), array("y", m, out=True)
    heap = Buffer(Var("heap"), F64, (size(m),), Role.TEMP)
    small = Buffer(Var("small"), F64, (size(3),), Role.TEMP)
    p = Program(
        "histogram",
        (n, m),
        (x, y),
        (
            Allocate(heap, Lit(0.5, F64)),
            Allocate(small, Lit(1.0, F64), small=True),
            loop(
                i,
                n,
                Update(heap.var, (atom(at(x.var, i)),), "add", at(small.var, 2)),
                order=Order.SERIAL,
            ),
            loop(i, m, put(y.var, [i], at(heap.var, i))),
        ),
    )
    got = agree(p, np.array([0, 3, 3, 1, 3]), sizes=[5, 4])
    np.testing.assert_array_equal(got, [1.5, 1.5, 0.5, 3.5])


@pytest.mark.parametrize("length", SIZES)
@pytest.mark.parametrize("dtype", [F64, F32, I64, BOOL, DType.U8])
def test_what_lies_side_by_side_is_copied_by_a_call(dtype: DType, length: int) -> None:
    """x to a table that is allocated for each row, part of that to y; zeros before and after."""
    x, y = array("x", n, dtype=dtype), array("y", m, size(n) + 2, dtype=dtype, out=True)
    z = array("z", n, dtype=dtype, out=True)
    row = Buffer(Var("row"), dtype, (size(n) + 1,), Role.TEMP)
    zero = Lit(np.dtype(dtype.value).type(0).item(), dtype)
    ends = (size(n), size(n) + 1)
    p = Program(
        "rows",
        (n, m),
        (x, y, z),
        (
            loop(
                j,
                m,
                Allocate(row),
                loop(i, size(n) + 1, put(row.var, [i], zero)),
                loop(i, n, put(row.var, [size(i) + 1], at(x.var, i))),
                loop(i, n, put(y.var, [j, i], at(row.var, size(i) + 1))),
                *(put(y.var, [j, e], at(row.var, 0)) for e in ends),
                order=Order.PARALLEL,
            ),
            loop(i, n, put(z.var, [i], at(x.var, i))),
        ),
    )
    text = emit(p)
    assert text.count("@llvm.memcpy") == 2  # x and z may be one memory
    assert text.count("@llvm.memset") == 1
    values = (np.arange(length) % 5).astype(dtype.value)
    got = agree(p, values, sizes=[length, 3])
    np.testing.assert_array_equal(got[0][:, :length], [values] * 3)
    np.testing.assert_array_equal(got[1], values)


def test_what_is_copied_element_by_element() -> None:
    """A short row of many, -0.0, elements that lie apart or backwards, another type, one memory."""
    x, y = array("x", m, n), array("y", m, n, out=True)
    w = array("w", m, n, dtype=F32, out=True)
    bodies = [
        put(y.var, [j, i], at(x.var, j, i)),
        put(y.var, [j, i], Lit(-0.0, F64)),
        put(y.var, [i, j], at(x.var, i, j)),
        put(y.var, [j, size(n) - 1 - i], at(x.var, j, i)),
        put(w.var, [j, i], op("cast", at(x.var, j, i), dtype=F32, operand=F64)),
    ]
    for body in bodies:
        p = Program("rows", (m, n), (x, y, w), (loop(j, m, loop(i, n, body)),))
        assert "@llvm.mem" not in emit(p)


def test_a_variable_is_read_again_when_it_has_changed() -> None:
    """In a loop, after one, under a condition, and when the next round asks again; x // v is
    computed once for each value."""
    y, v, k = array("y", size(8), dtype=I64, out=True), Var("v"), Var("k")

    def whole(name: str, *args: Any, dtype: DType = I64) -> Any:
        return op(name, *args, dtype=dtype, operand=I64)

    def seen(place: int) -> Any:
        return put(y.var, [place], Number((size(n) // size(v)) + size(v)))

    one = Lit(1, I64)
    more = Assign(v, whole("add", Local(v), one))
    even = whole("eq", whole("mod", Local(v), Lit(2, I64)), Lit(0, I64), dtype=BOOL)
    body = (
        Variable(v, I64, Lit(3, I64)),
        seen(0),
        seen(1),
        more,
        seen(2),
        loop(k, size(m), put(y.var, [3], Number(size(n) // size(v))), more, seen(4),
             order=Order.SERIAL),
        seen(5),
        When(even, (more, seen(6)), (seen(6), more)),
        seen(7),
    )  # fmt: skip
    p = Program("seen", (n, m), (y,), body)
    for rounds in (1, 2, 3):
        agree(p, sizes=[100, rounds])
    assert emit(p).count("sdiv") == 8  # 0 and 1 see the same


@pytest.mark.parametrize("length", [5, 5000, 70_000])
@pytest.mark.parametrize("dtype", [F64, F32, I64, DType.I32])
def test_copies_of_an_array_are_added(dtype: DType, length: int) -> None:
    """Chunks of a loop add to copies of 21 elements, vectors and a rest."""
    x, y = array("x", n, dtype=I64), array("y", size(21), dtype=dtype, out=True)
    one = Lit(np.dtype(dtype.value).type(1).item(), dtype)
    p = program(
        [x, y],
        loop(j, size(21), put(y.var, [j], Lit(np.dtype(dtype.value).type(0).item(), dtype))),
        loop(i, n, Update(y.var, (atom(at(x.var, i)),), "add", one), order=Order.PARALLEL,
             reductions=(Reduction(y.var, "add", dtype),), work=size(40)),
    )  # fmt: skip
    assert ("@nap_merge_add_" in emit(p)) == (dtype is not DType.I32)
    places = np.random.default_rng(0).integers(0, 21, length)
    np.testing.assert_array_equal(call(p, (places,)), np.bincount(places, minlength=21))


def test_what_was_lanes_is_added_row_by_row() -> None:
    """Vectors of such rounds would be turned, which takes LLVM longer than it saves."""
    x, y = array("x", n, size(8)), array("y", n, out=True)

    def added(lanes: int) -> Program:
        total: Any = at(x.var, i, 0)
        for k in range(1, lanes):
            total = op("add", total, at(x.var, i, k))
        clear = loop(i, n, put(y.var, [i], Lit(0.0, F64)))
        return program([x, y], clear, loop(i, n, Update(y.var, (size(i),), "add", total)))

    values = np.arange(40.0).reshape(5, 8) / 3
    for lanes in (4, 8):
        agree(added(lanes), values)
        assert ("vectorize.enable" in emit(added(lanes))) == (lanes == 8)


@pytest.mark.skipif(not masks(host(), "i8"), reason="lanes are LLVM's where there are no masks")
def test_lanes_that_store_less_than_they_compare_with() -> None:
    """Nobody else can make more of them than a vector: they are rows of the loop around."""
    x = array("x", n, dtype=DType.I64)
    small = Buffer(Var("small"), BOOL, (size(8),), Role.TEMP)
    y = array("y", n, 8, dtype=BOOL, out=True)
    same = op("eq", at(x.var, i), Number(size(j)), dtype=BOOL, operand=I64)
    p = program(
        [x, y],
        loop(i, n, Allocate(small, small=True),
             loop(j, 8, put(small.var, [j], same), order=Order.LANES),
             loop(k, 8, put(y.var, [i, k], at(small.var, 7 - size(k))), order=Order.SERIAL),
             order=Order.SERIAL),
    )  # fmt: skip
    agree(p, np.array([3, 0, 9, 7]))
    assert "store <8 x i8>" in emit(p)


@pytest.mark.parametrize("times", [400, 600])
def test_what_is_written_out_is_not_read_twice(times: int) -> None:
    """Functions that read much are simplified, though their loops are finished."""
    blocks = "".join(
        f"b{k}:\n  %v{k} = load i64, ptr %from\n  %c{k} = icmp eq i64 %v{k}, {k * k}\n"
        f"  br i1 %c{k}, label %s{k}, label %b{k + 1}\n"
        f"s{k}:\n  store i64 {k}, ptr %to\n  br label %b{k + 1}\n"
        for k in range(times)
    )
    loops = '; distinct !{!"llvm.loop.mustprogress", !{!"llvm.loop.vectorize.enable", i1 false}}\n'
    text = (
        "define void @f(ptr noalias %from, ptr noalias %to) {\n  br label %b0\n"
        f"{blocks}b{times}:\n  ret void\n}}\n{loops}"
    )
    assert is_finished(text)
    assert (optimised(text).count(" load ") < times) == (times == 600)


def test_while_and_when() -> None:
    """Collatz steps of every number."""
    y, value, steps, odd = array("y", n, dtype=I64, out=True), Var("v"), Var("s"), Var("odd")
    one = Lit(1, I64)

    def whole(name: str, *args: Any, dtype: DType = I64) -> Any:
        return op(name, *args, dtype=dtype, operand=I64)

    turn = While(
        (Let(odd, I64, whole("mod", Local(value), Lit(2, I64))),),
        whole("gt", Local(value), one, dtype=BOOL),
        (
            When(
                whole("eq", Local(odd), one, dtype=BOOL),
                (Assign(value, whole("add", whole("mul", Local(value), Lit(3, I64)), one)),),
                (Assign(value, whole("floordiv", Local(value), Lit(2, I64))),),
            ),
            Assign(steps, whole("add", Local(steps), one)),
        ),
    )
    body = (
        Variable(value, I64, Number(size(i) + 1)),
        Variable(steps, I64, Lit(0, I64)),
        turn,
        put(y.var, [i], Local(steps)),
    )
    p = Program("collatz", (n,), (y,), (loop(i, n, *body, order=Order.PARALLEL, work=size(100)),))
    agree(p, sizes=[30])
    assert call(p, [], [10_000]).max() == 261


@pytest.mark.parametrize("order", [Order.SERIAL, Order.PARALLEL])
def test_failures(order: Order) -> None:
    x, y = array("x", n, dtype=I64), array("y", n, out=True)
    bad = op("ge", at(x.var, i), Number(size(n)), dtype=BOOL, operand=I64)
    heap = Buffer(Var("heap"), F64, (size(n),), Role.TEMP)
    p = program(
        [x, y],
        Allocate(heap),
        loop(
            i,
            n,
            Fail(bad, 7, (at(x.var, i), Number(size(n)), Lit(1.5, F64))),
            put(y.var, [i], Lit(1.0, F64)),
            order=order,
        ),
    )
    agree(p, np.array([1, 0, 2]))
    with pytest.raises(RunError):
        run(p, [2], [np.array([0, 5])])
    x_long = np.zeros(1_000_000, np.int64)
    x_long[[700_000, 999_999]] = 10**7, 10**8
    with pytest.raises(Failed) as caught:
        call(p, [x_long])
    bits = np.array(1.5).view(np.int64)
    assert caught.value.args == (7, [10**7, 10**6, bits, 0])


def test_no_memory() -> None:
    y = array("y", out=True)
    p = Program(
        "huge", (n,), (y,), (Allocate(Buffer(Var("t"), F64, (size(n),), Role.TEMP)),
                             put(y.var, [], Lit(1.0, F64))),
    )  # fmt: skip
    assert call(p, [], [10]) == 1
    with pytest.raises(Failed, match="-2"):
        call(p, [], [1 << 55])


def test_scalars_of_every_type() -> None:
    for d in DType:
        x, y = array("x", dtype=d), array("y", dtype=d, out=True)
        for value in (0, 1) if d is BOOL else (0, 1, 100):
            agree(program([x, y], put(y.var, [], Local(x.var))), value)


# --- contractions -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [F64, F32, I64])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("add", [False, True])
def test_matrix_product(dtype: DType, turned: tuple[bool, bool], add: bool) -> None:
    rng = np.random.default_rng(0)
    p = product(dtype, turned, add)
    for rows, columns, inner in ((1, 1, 1), (9, 25, 3), (8, 1, 300), (1, 30, 7), (130, 140, 150),
                                 (3, 4, 0), (0, 3, 2)):  # fmt: skip
        a = rng.integers(-4, 5, (rows, inner)).astype(dtype.value)
        b = rng.integers(-4, 5, (inner, columns)).astype(dtype.value)
        got = call(p, [a.T if turned[0] else a, b.T if turned[1] else b], [rows, columns, inner])
        np.testing.assert_array_equal(got, a @ b + (2 if add else 0))


def product(dtype: DType, turned: tuple[bool, bool], add: bool) -> Program:
    rows, columns, inner = Var("rows"), Var("columns"), Var("inner")
    left, right = ((i, k), (rows, inner)), ((k, j), (inner, columns))
    left = tuple(x[::-1] for x in left) if turned[0] else left
    right = tuple(x[::-1] for x in right) if turned[1] else right
    a, b = array("a", *left[1], dtype=dtype), array("b", *right[1], dtype=dtype)
    c = array("c", rows, columns, dtype=dtype, out=True)
    first = loop(i, rows, loop(j, columns, put(c.var, [i, j], Lit(2, dtype))))
    total = Contract(
        (c.var, (size(i), size(j))),
        (a.var, tuple(size(v) for v in left[0])),
        (b.var, tuple(size(v) for v in right[0])),
        (),
        ((i, size(rows)),),
        ((j, size(columns)),),
        ((k, size(inner)),),
        dtype,
        add,
    )
    body = (first, total) if add else (total,)
    return Program("product", (rows, columns, inner), (a, b, c), body)


@pytest.mark.parametrize("add", [False, True])
def test_batched_contraction_over_two_indices(add: bool) -> None:
    """c[z, i, j, y] = Σ a[z, k, i, l]·b[k, y, l, j]: a batch, no two loops of a group are one."""
    z, y, l, q = (Var(name) for name in "zylq")
    a = array("a", n, 5, m, 3)
    b = array("b", 5, 2, 3, q)
    c = array("c", n, m, q, 2, out=True)
    clear = loop(z, n, loop(i, m, loop(j, q, loop(y, 2, put(c.var, [z, i, j, y], Lit(1.0, F64))))))
    total = Contract(
        (c.var, (size(z), size(i), size(j), size(y))),
        (a.var, (size(z), size(k), size(i), size(l))),
        (b.var, (size(k), size(y), size(l), size(j))),
        ((z, size(n)),),
        ((i, size(m)),),
        ((j, size(q)), (y, size(2))),
        ((k, size(5)), (l, size(3))),
        F64,
        add,
    )
    p = Program("batched", (n, m, q), (a, b, c), (clear, total) if add else (total,))
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(4, 5, 6, 3)), rng.normal(size=(5, 2, 3, 7))
    want = np.einsum("zkil,kylj->zijy", x, w) + (1 if add else 0)
    np.testing.assert_allclose(call(p, [x, w], [4, 6, 7]), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
@pytest.mark.parametrize("dtype", [F64, F32])
def test_product_at_every_width(dtype: DType, level: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 10, (70, 300)) / 8  # all sums are exact
    b = rng.integers(-9, 10, (300, 131)) / 8
    for turned in ((False, False), (False, True), (True, False)):
        p = product(dtype, turned, False)
        for deep in (1, 13, 40, 300):
            x, y = a[:, :deep], b[:deep]
            given = [x.T if turned[0] else x, y.T if turned[1] else y]
            got = call(p, given, [70, 131, deep], host(level))
            np.testing.assert_array_equal(got, x @ y)


def test_rows_are_copied_for_wide_products_alone() -> None:
    """Of few columns, the rows of the left factor are read where they are: by rows or by columns,
    deeper than a block, more of them than a block has."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(600, 700))
    for columns in (5, 24, 70, 96, 97, 200):
        b = rng.normal(size=(700, columns))
        for turned in (False, True):
            p = product(F64, (turned, False), False)
            left = np.ascontiguousarray(a.T) if turned else a
            got = call(p, [left, b], [600, columns, 700])
            np.testing.assert_allclose(got, a @ b, rtol=1e-11, atol=1e-11)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", [F64, F32])
def test_large_products(dtype: DType) -> None:
    """Blocks of two to eight tiles of rows, the last one shorter; few rows; panels beside each
    other, one that is alone and one that is not whole; columns that are not contiguous."""
    rng = np.random.default_rng(0)
    for rows, columns, inner in (
        (129, 130, 131), (300, 513, 25), (1025, 49, 600), (20000, 9, 13),
        (1, 1500, 1500), (4, 1000, 600), (20, 601, 300), (100, 97, 530), (3, 2, 400000),
        (260, 300, 600),
    ):  # fmt: skip
        a = rng.integers(-9, 10, (rows, inner)) / 8  # all sums are exact
        b = rng.integers(-9, 10, (inner, columns)) / 8
        for turned in ((False, False), (False, True), (True, False)):
            given = [a.T if turned[0] else a, b.T if turned[1] else b]
            got = call(product(dtype, turned, False), given, [rows, columns, inner])
            np.testing.assert_array_equal(got, a @ b)


# --- what the machine code looks like -----------------------------------------------------------

_REGISTER = {64: "zmm", 32: "ymm", 16: "xmm"}


def packed(p: Program, target: Target) -> int:
    """How many instructions work on full vectors, also of the functions it calls."""
    text = emit(p, target)
    modules = (text, *functions_of(compile_ir(text, target), target))
    listing = "".join(assembly(m, target) for m in modules)
    pattern = rf"\bv?\w+p[sd]\b.*%{_REGISTER[target.vector_bytes]}"
    return len(re.findall(pattern, listing))


@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "erf", "pow"])
def test_elementary_functions_become_vectors(name: str, level: str) -> None:
    least = 6 if level == "baseline" else 15
    assert packed(apply(name, F64), host(level)) >= least


@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
def test_loops_become_vectors(level: str) -> None:
    target = host(level)
    assert packed(stencil(), target) >= 3
    for name in ("add", "max"):
        assert packed(reduction(name, F64, Order.PARALLEL), target) >= 2
    if level != "baseline":
        assert "vgather" in assembly(emit(gather(), target), target) or target.vector_bytes == 32


def test_the_best_of_some_becomes_vectors() -> None:
    texts = (
        "def f(x: n=>Float, use: n=>Bool) -> Float = min(x[i] for i if use[i])",
        "def f(x: m=>n=>Float) -> m=>n = argmax(x)",
        "def f(x: m=>n=>Float, use: n=>Bool) -> m=>n = [argmin(x[j, i] for i if use[i]) for j]",
    )
    for text in texts:
        listing = assembly(nap.compile(text).f.show("llvm"), host("native"))
        register = _REGISTER[host("native").vector_bytes]
        assert re.search(rf"v?(min|max)pd.*%{register}", listing)


def test_a_long_loop_that_may_fail_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """LLVM told of each loop that was to be vectors of some length and could not."""
    steps = "".join(f"        v = exp(-abs(v)) * (v + {k}.5)\n" for k in range(80))
    text = "def f(x: n=>Float, y: m=>Float, k: n=>Int) -> n=>Float:\n    for i:\n"
    text += f"        v = y[wrap(k[i])] if x[i] > 0.5 else x[i]\n{steps}        v\n"
    assembly(nap.compile(text).f.show("llvm"), host("native"))
    assert capfd.readouterr() == ("", "")


def test_what_a_round_waits_for_comes_last() -> None:
    """The laws of `waiting`, on the text and at the ends of the numbers."""
    text = (
        "def f(x: n=>Int, y: n=>Int, c: n=>Bool) -> n=>Int =\n"
        "    scan(lambda s, i: {}, 0, [i for i in n])\n"
    )
    bodies: dict[str, Callable[..., int]] = {
        "max(x[i], max(y[i], s))": lambda x, y, c, s: max(x, y, s),
        "min(min(s, x[i]), min(y[i], 3))": lambda x, y, c, s: min(s, x, y, 3),
        "x[i] if c[i] else max(y[i], s)": lambda x, y, c, s: x if c else max(y, s),
        "min(y[i], s) if c[i] else x[i]": lambda x, y, c, s: min(y, s) if c else x,
        "x[i] if c[i] else max(y[i], max(2, s))": lambda x, y, c, s: x if c else max(y, 2, s),
    }
    ends = [-(1 << 63), (1 << 63) - 1, 0, 1, -1, 5]
    rng = np.random.default_rng(0)
    x, y = rng.choice(ends, (2, 300))
    c = rng.random(300) < 0.5
    for body, of in bodies.items():
        program = nap.compile(text.format(body))
        now, want = 0, []
        for one in zip(x.tolist(), y.tolist(), c.tolist(), strict=True):
            now = of(*one, now)
            want.append(now)
        assert program.f(x, y, c).tolist() == want
    listing = nap.compile(text.format("max(x[i], max(y[i], s))")).f.show("llvm")
    (first, second) = re.findall(r"(%v\d+) = call i64 @llvm.smax.i64\((.*)\)", listing)[:2]
    assert first[0] in second[1]
    loaded = re.findall(r"(%v\d+) = load i64, ptr %v\d+\n", listing)
    assert not any(re.search(rf"{v}\b", first[1]) for v in loaded)


def test_a_round_does_not_wait_for_the_row_before() -> None:
    """What a table has in the row before is known: the least of it comes before what is late."""
    m = nap.compile("""
def warped(x: Fin(n)=>Float, y: Fin(m)=>Float) -> Fin(n + 1)=>Fin(m + 1)=>Float:
    with state([[0.0 if i == 0 and j == 0 else inf for j in Fin(m + 1)] for i in Fin(n + 1)]) as d:
        for i in Fin(n), j in Fin(m):
            d[i + 1, j + 1] := abs(x[i] - y[j]) + min(d[i, j + 1], min(d[i + 1, j], d[i, j]))

def below(x: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state(x) as d:
        for i in 1..n, j in 1..n:
            d[i, j] := d[i, j] + min(d[i - 1, j], min(d[i, j - 1], d[i, j - 1] + d[i - 1, j - 1]))
""")
    assert m.warped.show("llvm").count("llvm.minimum") == 1
    rng = np.random.default_rng(0)
    for n, k in ((0, 3), (1, 1), (5, 9)):
        for odd in (0.0, np.nan, np.inf):
            x, y = rng.standard_normal(n), rng.standard_normal(k)
            y[k // 2 :: 4] += odd
            want = np.full((n + 1, k + 1), np.inf)
            want[0, 0] = 0.0
            for i, j in np.ndindex(n, k):
                best = np.minimum(want[i, j + 1], np.minimum(want[i + 1, j], want[i, j]))
                want[i + 1, j + 1] = abs(x[i] - y[j]) + best
            np.testing.assert_allclose(m.warped(x, y), want)
    square = rng.standard_normal((7, 7))
    want = square.copy()
    for i, j in np.ndindex(6, 6):
        left = want[i + 1, j]
        want[i + 1, j + 1] += min(want[i, j + 1], min(left, left + want[i, j]))
    np.testing.assert_allclose(m.below(square), want)


def test_a_nan_that_is_handed_on_is_not_asked_for() -> None:
    text = "def f(x: n=>Float) -> n=>Float = scan(lambda s, v: {}, 0.0, x)\n"
    rng = np.random.default_rng(0)
    for body, best in (("max(v, s + v)", max), ("min(2.0 * v - s, v)", min)):
        f = nap.compile(text.format(body)).f
        assert "imum" not in f.show("llvm")
        assert "imum" in nap.compile(text.format(body), math="strict").f.show("llvm")
        for odd in (0.0, np.inf, -np.inf, np.nan):
            x = rng.standard_normal(50)
            x[20] = odd
            now, want = 0.0, []
            for v in x.tolist():
                other = now + v if best is max else 2.0 * v - now
                now = np.nan if np.isnan(v) or np.isnan(other) else best(v, other)
                want.append(now)
            np.testing.assert_allclose(f(x), want, rtol=1e-13)


def test_what_may_fail_becomes_vectors() -> None:
    texts = (
        "def f(x: n=>F32) -> n=>U8 = [U8(v * 255.0) for v in x]",
        "def f(x: n=>F32) -> n=>Int = [Int(v * 3.0) for v in x]",
        "def f(x: n=>F32, k: Int) -> Fin(k)=>Int:\n"
        "    with accum() as h:\n"
        "        for i: h[clamp(Int(x[i] * 9.0), k)] += 1",
    )
    for text in texts:
        listing = assembly(nap.compile(text).f.show("llvm"), host("native"))
        assert re.search(r"\bv?mulps\b", listing)


def test_a_count_of_bits_is_an_instruction() -> None:
    text = """
def f(a: n=>U64) -> n=>U64:
    for i:
        x = a[i] - ((a[i] >> 1) & 0x5555555555555555)
        y = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
        (((y + (y >> 4)) & 0x0f0f0f0f0f0f0f0f) * 0x0101010101010101) >> 56
"""
    assert "llvm.ctpop" in optimised(nap.compile(text).f.show("llvm"))


@pytest.mark.parametrize("level", ["avx2", "baseline"])
def test_other_targets_agree(level: str) -> None:
    x = np.linspace(-3, 3, 50)
    for name in ("exp", "sin", "erf"):
        np.testing.assert_allclose(
            call(apply(name, F64), [x], target=host(level)), call(apply(name, F64), [x]),
            rtol=1e-15, atol=1e-16,
        )  # fmt: skip


ROWS = """
def far(x: n=>d=>Float, m: d=>Float, p: d=>d=>Float) -> n=>Float =
    [sum((x[i, a] - m[a]) * p[a, b] * (x[i, b] - m[b]) for a, b) for i]
def kept(x: n=>Float, k: m=>Fin(n)) -> m=>Float = [sum(sort([x[j] for j in ..k[i]])) for i]
"""


def test_what_every_round_allocates_is_allocated_once() -> None:
    """A part of a loop has the memory, if it is as much in all rounds; not rows of their own
    lengths."""
    m = nap.compile(ROWS)
    part = m.far.show("llvm").split("define internal i64 @part0")[1]
    assert part.index("call ptr @nap_alloc") < part.index("\nbody")
    rng = np.random.default_rng(0)
    for n, d in ((0, 3), (5, 0), (5, 1), (300, 4), (7, 40)):
        x, mean, p = rng.normal(size=(n, d)), rng.normal(size=d), rng.normal(size=(d, d))
        far = x - mean
        np.testing.assert_allclose(m.far(x, mean, p), ((far @ p) * far).sum(1), atol=1e-10)
    x, k = rng.normal(size=9), rng.integers(0, 9, 5)
    np.testing.assert_allclose(m.kept(x, k), [x[:e].sum() for e in k], atol=1e-12)


def gathers(places: str, mask: str = "splat (i1 true)") -> str:
    return f"""; a module

define void @f(ptr %x, <8 x i64> %i, <8 x i1> %m) {{
  %v1 = load <8 x i64>, ptr %x, align 8
  %v2 = {places}
  %v3 = getelementptr double, ptr %x, <8 x i64> %v2
  %v4 = call <8 x double> @llvm.masked.gather.v8f64.v8p0(<8 x ptr> align 8 %v3, \
<8 x i1> {mask}, <8 x double> poison)
  ret void
}}
"""


def test_what_gathers_from_computed_places() -> None:
    nine, data = "mul <8 x i64> %i, splat (i64 9)", "add <8 x i64> %v1, splat (i64 1)"
    assert computed(gathers(nine))
    assert not computed(gathers(nine, "%m"))
    assert not computed(gathers(data))
    assert not computed(gathers(nine) + gathers(data).replace("@f", "@g"))
    assert not computed("define void @f() {\n  ret void\n}\n")


def test_elements_of_computed_places_are_loaded_one_by_one_on_amd() -> None:
    amd = Target("x86_64-unknown-linux-gnu", "znver4", "+avx512f", 64, 32)
    other = amd.one_by_one
    assert other is not None
    assert other.features.startswith("+avx512f,")
    assert Target(amd.triple, "skylake-avx512", "+avx512f", 64, 32).one_by_one is None
    m = nap.compile("def f(x: n=>Fin(5)=>Float) -> n=>Float = [x[i, 0] * x[i, 2] for i]")
    x = np.random.default_rng(0).normal(size=(37, 5))
    np.testing.assert_array_equal(m.f(x), x[:, 0] * x[:, 2])
    assert "gather" not in assembly(m.f.show("llvm"), amd)


@pytest.mark.parametrize(("place", "times"), [("i * i // 2", 1), ("p[i]", 2)])
def test_what_reads_no_places_is_optimised_once(
    place: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it gathers from computed places, if at all, is known beforehand."""
    head = "def f(x: Fin(k)=>Float, p: Fin(n)=>Int) -> Fin(n)=>Float = "
    text = f"{head}[x[clamp({place}, k)] for i]"
    ir = nap.compile(text).f.show("llvm")
    assert not is_finished(ir)
    amd = Target("x86_64-unknown-linux-gnu", "znver4", "+avx512f", 64, 32)
    made: list[str] = []
    monkeypatch.setattr("naperian.backends.llvm._computes_places", lambda _: True)
    optimise = llvm._optimised
    monkeypatch.setattr(llvm, "_optimised", lambda t, *a: made.append(t) or optimise(t, *a))
    compile_ir(ir, amd)
    assert len(made) == times


def test_an_index_of_data_is_asked_for_its_range_by_one_comparison() -> None:
    """Sizes, and numbers that are checked to be sizes, are known not to be negative."""
    f = nap.compile("""
def f(x: n=>Float, y: n=>Float, k: Int, m: Int) -> Fin(k)=>Fin(m)=>Int where k >= 1, m >= 1:
    with accum() as h:
        for i:
            a = Int(x[i])
            b = Int(y[i])
            if 0 <= a < k and 0 <= b < m: h[a, b] += 1
""").f
    made = optimised(f.show("llvm"))
    assert len(re.findall(r"icmp u[lg]t i64 %", made)) >= 2
    x, y = np.array([-1.0, 0.0, 1.5, 3.0, 2.9, np.inf]), np.array([0.0, 0.5, -1.5, 1.0, 1.9, 0.0])
    assert f(x, y, 3, 2).tolist() == [[1, 0], [0, 0], [0, 1]]
    assert f(x, y, 4, 2).tolist() == [[1, 0], [0, 0], [0, 1], [0, 1]]
    with pytest.raises(nap.ShapeError):
        f(x, y, 0, 2)
    with pytest.raises(nap.ShapeError):
        f(x, y, -1, 2)


@pytest.mark.parametrize("dtype", ["F32", "F64", "Float", "I32", "U8", "Int", "U64"])
def test_a_number_of_any_type_is_asserted_not_to_be_negative(dtype: str) -> None:
    """Only what has 64 bits and a sign is told to LLVM as such."""
    m = nap.compile(f"""
def f(x: n=>Float, c: {dtype}) -> n=>{dtype}:
    assert c >= 0, "negative"
    [c for i in n]
def g(x: n=>Float, c: {dtype}) -> n=>{dtype}:
    assert c >= 1 - 1, "negative"
    [c for i in n]
""")
    x = np.ones(3000)
    for f in (m.f, m.g):
        assert f(x, 2).tolist() == [2] * 3000
        if dtype[0] != "U":
            with pytest.raises(nap.RunError, match="negative"):
                f(x, -1)
