"""Core's three verbs: what a program means, how it reads, and that it is well typed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from core_by_hand import (
    NOTHING,
    Expr,
    add,
    at,
    define,
    each,
    fun,
    let,
    loop,
    module,
    mul,
    op,
    real,
    reduce,
    same,
    scan,
    truth,
    whole,
)

from naperian import pipeline
from naperian.broken import REPORT, Broken
from naperian.core import check as core_check
from naperian.core import syntax as core
from naperian.core.check import check, check_normal
from naperian.core.places import RunError
from naperian.core.run import run
from naperian.core.show import show
from naperian.core.values import count, element_at, from_numpy, ordinal, to_numpy
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.sizes import ZERO, size
from naperian.source import Source, Span
from naperian.substitution import Substitution
from naperian.types import (
    BOOL,
    F32,
    F64,
    INT,
    BoolSet,
    EnumSet,
    Fin,
    Function,
    Index,
    Range,
    Reverse,
    Set,
    SetVar,
    Table,
    Tuple,
    TupleSet,
    Type,
    TypeVar,
    UnitSet,
)

A, N, M = Var("a"), Var("n"), Var("m")
n, m = SetVar(N), SetVar(M)
COLOR = EnumSet(Var("Color"), ("R", "G", "B"))
THREE = Fin(size(3))
SETS: list[Set] = [
    Fin(size(0)),
    THREE,
    COLOR,
    BoolSet(),
    UnitSet(),
    Range(size(2), size(5)),
    Range(size(5), size(2)),
    Reverse(THREE),
    Reverse(Range(size(1), size(4))),
    TupleSet((COLOR, BoolSet())),
    TupleSet((THREE, TupleSet((UnitSet(), Reverse(COLOR))))),
    TupleSet(()),
]


def value(e: Expr, t: Type) -> Any:
    """The value of a closed expression, as NumPy has it."""
    d = define("f", {}, t, lambda: e)
    check(module(d))
    return to_numpy(run(module(d), "f", [], NOTHING), t)


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("s", SETS)
def test_ordinals_number_the_elements(s: Set) -> None:
    elements = [element_at(s, k) for k in range(count(s))]
    assert [ordinal(s, x) for x in elements] == list(range(count(s)))
    assert len({repr(x) for x in elements}) == count(s)


def test_the_last_component_runs_fastest() -> None:
    s = TupleSet((Fin(size(2)), THREE))
    assert [element_at(s, k) for k in range(4)] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert [element_at(Reverse(THREE), k) for k in range(3)] == [2, 1, 0]
    assert [element_at(Range(size(2), size(4)), k) for k in range(2)] == [2, 3]


@pytest.mark.parametrize(
    ("array", "t"),
    [
        (np.float32(1.5), F32),
        (np.bool_(True), BOOL),
        (np.int64(2), Index(THREE)),
        (np.arange(6, dtype=np.float32).reshape(2, 3), Table(Fin(size(2)), Table(THREE, F32))),
        (np.zeros((0, 3)), Table(Fin(ZERO), Table(THREE, F64))),
        (np.zeros((3, 0), bool), Table(THREE, Table(Fin(ZERO), BOOL))),
        ((np.arange(3), np.zeros((3, 2))), Table(THREE, Tuple((INT, Table(Fin(size(2)), F64))))),
        ((np.zeros(0), (np.zeros(0, int),)), Table(Fin(ZERO), Tuple((F64, Tuple((INT,)))))),
        ((), Tuple(())),
    ],
)
def test_numpy_there_and_back(array: Any, t: Type) -> None:
    same(to_numpy(from_numpy(array, t), t), array)


# ---------------------------------------------------------------- run


def test_a_number_is_exact_where_its_type_is_known() -> None:
    got = value(core.Number(size(3)), INT)
    assert type(got) is np.int64
    assert got == 3
    assert type(value(op("cast", core.Number(size(3)), type=F32), F32)) is np.float32


def test_integers_wrap_and_floats_overflow_quietly() -> None:
    big = whole((1 << 63) - 1)
    assert value(op("add", big, whole(1), type=INT), INT) == -(1 << 63)
    assert value(mul(real(1e308), real(10)), F64) == np.inf
    assert np.isnan(value(op("div", real(0), real(0)), F64))
    assert value(op("floordiv", whole(1), whole(0), type=INT), INT) == 0
    assert value(op("bitcast", real(1.0), type=INT), INT) == 0x3FF0000000000000
    assert value(op("select", truth(False), real(1), real(2)), F64) == 2.0


@pytest.mark.parametrize(
    ("monoid", "values", "wanted"),
    [
        ("add", [], 0.0),
        ("add", [1e16, 1.0, -1e16], 0.0),  # in order, from the left
        ("mul", [2.0, 3.0], 6.0),
        ("min", [], np.inf),
        ("min", [1.0, np.nan, 0.0], np.nan),
    ],
)
def test_reductions(monoid: str, values: list[float], wanted: float) -> None:
    s = Fin(size(len(values)))
    xs = core.Literal(s, tuple(real(v) for v in values))
    same(value(reduce(monoid, s, lambda i: at(xs, (i, s))), F64), np.float64(wanted))


@pytest.mark.parametrize(
    ("monoid", "values", "wanted"),
    [
        ("argmin", [3.0, 1.0, 1.0], 1),
        ("argmax", [3.0, 3.0, 1.0], 0),
        ("argmax", [1.0, np.nan, np.nan], 1),
        ("argmin", [], 0),
    ],
)
def test_the_first_best_is_found(monoid: str, values: list[float], wanted: int) -> None:
    s = Range(size(4), size(4 + len(values)))
    xs = core.Literal(s, tuple(real(v) for v in values))
    got = value(reduce(monoid, s, lambda i: at(xs, (i, s)), init=real(0)), Index(s))
    assert got == 4 + wanted


def test_booleans_reduce() -> None:
    two = BoolSet()
    assert value(reduce("and", two, lambda b: b, BOOL), BOOL) == np.False_
    assert value(reduce("or", two, lambda b: b, BOOL), BOOL) == np.True_


def test_closures_keep_what_they_saw() -> None:
    fs = each(THREE, lambda i: fun((INT,), lambda x: op("add", x, i, type=INT)))
    e = let("fs", fs, lambda fs: each(THREE, lambda i: core.Call(at(fs, (i, THREE)), (whole(10),))))
    assert value(e, Table(THREE, INT)).tolist() == [10, 11, 12]


def test_all_carried_variables_change_at_once() -> None:
    start = {"a": (F64, real(1)), "b": (F64, real(2))}
    e = loop(start, THREE, lambda a, b, t: core.Pack((b, a)))
    assert value(e, Tuple((F64, F64))) == (2.0, 1.0)


def test_loops_stop_at_the_condition_or_the_end() -> None:
    def steps(limit: int, s: Set | None) -> Any:
        return value(
            loop(
                {"k": (INT, whole(0))}, s,
                lambda k, *t: op("add", k, whole(1), type=INT),
                lambda k, *t: op("lt", k, whole(limit), type=INT),
            ),
            INT,
        )  # fmt: skip

    assert (steps(2, THREE), steps(9, THREE), steps(5, None), steps(0, None)) == (2, 3, 5, 0)


def test_scans_give_every_round() -> None:
    start = {"a": (INT, whole(0))}
    for exclusive, wanted in ((False, [0, 1, 3]), (True, [0, 0, 1])):
        e = scan(start, THREE, lambda a, t: op("add", a, t, type=INT), exclusive)
        assert value(e, Table(THREE, INT)).tolist() == wanted


def test_recast_keeps_the_order_of_cells() -> None:
    two = Fin(size(2))
    i, j = Var("i"), Var("j")
    x = core.For(i, two, core.For(j, THREE, core.Number(3 * size(i) + j)))
    e = core.Recast(x, (two, THREE), (TupleSet((BoolSet(), COLOR)),), INT)
    assert value(e, Table(TupleSet((BoolSet(), COLOR)), INT)).tolist() == list(range(6))
    back = core.Recast(each(THREE, lambda i: i), (THREE,), (THREE, Fin(size(1))), Index(THREE))
    assert value(back, Table(THREE, Table(Fin(size(1)), INT))).shape == (3, 1)


def test_failures_name_what_and_where() -> None:
    span = Span(Source("a.nap", "x[k?]"), 2, 4)
    e = core.Checked(whole(7), Fin(size(5)), origin=span)
    with pytest.raises(RunError) as failed:
        value(e, Index(Fin(size(5))))
    assert failed.value.message == "index 7 is out of range for an axis of size 5"
    assert failed.value.origin == span
    with pytest.raises(RunError, match="why"):
        value(core.Check(truth(False), "why", real(0)), F64)
    assert value(core.If(truth(True), real(1), core.Check(truth(False), "", real(0))), F64) == 1


def test_definitions_at_instances() -> None:
    z = TypeVar(A)
    total = define(
        "total", {"x": Table(n, z)}, z,
        lambda x: core.Reduce(
            "add", (i := Var("i")), n, core.ConstOf(0, z), at(x, (core.Ref(i), n)), z
        ),
        types=(A,), sets=(N,),
    )  # fmt: skip
    inner = Substitution({A: F64}, {N: m}, {})
    how_many = op("cast", core.Number(size(M)))
    mean = define(
        "mean", {"x": Table(m, F64)}, F64,
        lambda x: op("div", core.Call(core.Use("total", inner), (x,)), how_many), sets=(M,),
    )  # fmt: skip
    both = module(total, mean)
    check(both)
    at_four = Substitution({}, {M: Fin(size(4))}, {})
    xs = from_numpy(np.arange(4.0), Table(Fin(size(4)), F64))
    assert run(both, "mean", [xs], at_four) == 1.5
    at_small = Substitution({A: F32}, {N: COLOR}, {})
    got = run(both, "total", [from_numpy(np.ones(3, np.float32), Table(COLOR, F32))], at_small)
    assert type(got) is np.float32


def test_long_blocks_need_no_stack() -> None:
    e: Expr = core.Ref(Var("never"))
    vars = [Var(f"x{k}") for k in range(5000)]
    e = core.Ref(vars[-1])
    for k in reversed(range(1, 5000)):
        before = core.Ref(vars[k - 1])
        e = core.Check(op("ge", before, real(0)), "", core.Let(vars[k], add(before, real(1)), e))
    e = core.Let(vars[0], real(0), e)
    assert value(e, F64) == 4999
    assert show(e).count("\n") == 5000 + 4999


# ---------------------------------------------------------------- show


def text(e: Expr) -> str:
    return show(e)


def test_expressions_read_like_the_surface() -> None:
    x, y, k = (core.Ref(Var(s)) for s in "xyk")
    t = Table(n, F64)
    three = Fin(size(3))
    assert text(each(n, lambda i: add(at(x, (i, n)), at(y, (i, n))))) == "for i: n. x[i] + y[i]"
    assert text(mul(add(x, y), op("neg", x))) == "(x + y) * -x"
    assert text(op("sub", x, op("sub", y, x))) == "x - (y - x)"
    assert text(op("pow", op("neg", x), op("pow", x, y))) == "(-x) ** x ** y"
    assert text(op("cast", at(x, (core.Number(size(N) - 1), n)), type=F32)) == "F32(x[n - 1])"
    assert text(reduce("add", n, lambda i: at(x, (i, n)))) == "sum i: n. x[i]"
    assert text(reduce("max", n, lambda i: i, init=k)) == "max i: n from k. i"
    assert text(core.If(op("lt", x, y), x, y)) == "x if x < y else y"
    assert text(core.Literal(COLOR, (x, y, x))) == "[x, y, x] as Color"
    assert text(core.Literal(three, (x, y, x))) == "[x, y, x]"
    assert text(core.Recast(x, (n, m), (Fin(size(N) * M),), F64)) == "x as Fin(n * m)=>Float"
    assert text(core.Part(core.Pack((x, y)), 1)) == "(x, y).1"
    assert text(core.Checked(k, three)) == "at(k, Fin(3))"
    assert text(core.Const(Lit(0.5, DType.F32))) == "F32(0.5)"
    assert text(real(-0.0)) == "-0.0"
    assert text(fun((t,), lambda a: a)) == "lambda x0: n=>Float. x0"
    assert text(core.Use("f", Substitution({A: F64}, {N: m}, {}))) == "f{a = Float, n = m}"
    assert text(mul(let("z", x, lambda z: z), y)) == "(let z = x in z) * y"


def test_loops_read_like_the_surface() -> None:
    e = loop(
        {"a": (F64, real(0))}, n,
        lambda a, t: let("b", add(a, real(1)), lambda b: mul(b, b)),
        lambda a, t: op("lt", a, real(9)),
    )  # fmt: skip
    assert text(e) == "loop a = 0.0 for t: n while a < 9.0.\n    b = a + 1.0\n    b * b"
    e = scan({"a": (F64, real(0))}, n, lambda a, t: add(a, a), exclusive=True)
    assert text(e) == "scan_exclusive a = 0.0 for t: n. a + a"


def test_variables_spelled_alike_get_numbers() -> None:
    e = let("x", real(1), lambda a: let("x", real(2), lambda b: add(a, b)))
    assert text(e) == "x = 1.0\nx2 = 2.0\nx + x2"


def test_definitions_show_their_types() -> None:
    f = define(
        "f", {"x": Table(n, F64)}, F64, lambda x: let("y", real(1), lambda y: y), sets=(N,)
    )
    assert show(module(f)) == "def f{n}(x: n=>Float) -> Float:\n    y = 1.0\n    y"


# ---------------------------------------------------------------- check


def wrong(e: Expr, t: Type = F64, **params: Type) -> str:
    d = define("f", params, t, lambda *xs: core.Call(fun(tuple(params.values()), lambda *_: e), xs))
    with pytest.raises(Broken) as failed:
        check(module(d))
    assert str(failed.value).endswith(f"\n{REPORT}")
    return str(failed.value).removesuffix(f"\n{REPORT}")


def test_ill_typed_core_is_found() -> None:
    four = Fin(size(4))
    xs = core.Literal(THREE, (real(1), real(2), real(3)))
    assert "not in scope" in wrong(core.Ref(Var("x")))
    assert "Float is expected" in wrong(whole(1))
    assert "Float is expected" in wrong(add(real(1), whole(1)))
    assert "`add` on Bool" in wrong(op("add", truth(True), truth(True), type=BOOL), BOOL)
    assert "`exp` on Int" in wrong(op("exp", whole(1), type=INT), INT)
    assert "no primitive" in wrong(op("add", real(1)))
    assert "indexed by Fin(4)" in wrong(at(xs, (whole(0), four)))
    assert "indexed by Color" in wrong(at(xs, (whole(0), COLOR)))
    assert "has no component 2" in wrong(core.Part(core.Pack((real(1), real(2))), 2))
    assert "called with 2" in wrong(core.Call(fun((F64,), lambda x: x), (real(1), real(2))))
    assert "2 items for 3" in wrong(core.Literal(THREE, (real(1), real(2))), Table(THREE, F64))
    assert "3 cells recast to 4" in wrong(core.Recast(xs, (THREE,), (four,), F64), Table(four, F64))
    assert "is expected" in wrong(core.If(truth(True), real(1), whole(1)))
    assert "is expected" in wrong(loop({"a": (F64, real(0))}, THREE, lambda a, t: t))
    assert "without an end" in wrong(loop({"a": (F64, real(0))}, None, lambda a: a))
    assert "mentions `i`" in wrong(core.Number(size(Var("i"))), INT)
    assert "not defined" in wrong(core.Use("g", NOTHING))


def test_what_comes_with_the_language_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import linalg\n\ndef f(a: Fin(3)=>Fin(3)=>Float) = linalg.inv(a)\n"
    asked: list[str] = []
    definition = core_check._Check.definition

    def noted(self: Any) -> None:
        asked.append(self.d.name)
        definition(self)

    monkeypatch.setattr(core_check._Check, "definition", noted)
    monkeypatch.setattr(pipeline, "_sound", {})
    program, _ = pipeline.front(Source("page.nap", text))
    assert program is not None
    assert asked == list(program.definitions)
    asked.clear()
    pipeline.front(Source("page.nap", text))
    assert asked == ["f"]


def test_a_variable_is_not_in_scope_outside_its_binder() -> None:
    i = Var("i")
    inside = core.For(i, THREE, core.Ref(i))
    e = let("x", inside, lambda x: core.At(x, core.Ref(i), THREE))
    assert "not in scope" in wrong(e, INT)


def test_sizes_are_equal_by_what_is_known() -> None:
    h = Var("h")
    halves = Table(Fin(size(N)), F64)

    def of(x: Expr) -> Expr:
        test = op("eq", core.Number(size(N)), core.Number(2 * size(h)), type=INT)
        return core.Check(test, "even", core.Recast(
            x, (Fin(size(N)),), (Fin(size(2)), Fin(size(h))), F64
        ))  # fmt: skip

    result = Table(Fin(size(2)), Table(Fin(size(h)), F64))
    check(module(define("f", {"x": halves}, result, of, sizes=(N, h))))
    with pytest.raises(Broken, match="recast"):
        check(module(define("f", {"x": halves}, result, lambda x: of(x).then, sizes=(N, h))))


def test_let_bound_sizes_are_their_polynomials() -> None:
    k = Var("k")
    e = core.Let(k, core.Number(size(N) + 1), each(Fin(size(k)), lambda i: real(1)))
    check(module(define("f", {}, Table(Fin(size(N) + 1), F64), lambda: e, sizes=(N,))))


def test_the_normal_form_is_checked() -> None:
    apply = define("f", {"g": Function((F64,), F64)}, F64, lambda g: core.Call(g, (real(1),)))
    with pytest.raises(Broken, match="Call in the normal form"):
        check_normal(apply)
    pairs = define("f", {"x": Tuple((F64, F64))}, F64, lambda x: core.Part(x, 0))
    with pytest.raises(Broken, match="no leaf"):
        check_normal(pairs)
    i = Var("i")
    twice = core.Pack((core.For(i, THREE, real(1)), core.For(i, THREE, real(1))))
    with pytest.raises(Broken, match="bound twice"):
        check_normal(define("f", {}, Tuple((Table(THREE, F64),) * 2), lambda: twice))
