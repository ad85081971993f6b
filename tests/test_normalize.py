"""Normalisation keeps the meaning, shares all work and leaves first-order code."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from core_by_chance import definitions
from core_by_hand import (
    NOTHING,
    Expr,
    add,
    agree,
    at,
    count,
    define,
    each,
    each_number,
    fun,
    let,
    loop,
    module,
    mul,
    normal,
    op,
    real,
    reduce,
    run_normal,
    scan,
    truth,
    whole,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import naperian as nap
from naperian.broken import Broken
from naperian.core import syntax as core
from naperian.core.places import RunError
from naperian.core.run import run
from naperian.core.show import show
from naperian.core.values import count as count_of
from naperian.core.walk import everything
from naperian.leaves import leaves, rebuild, spread
from naperian.names import Var
from naperian.passes.normal.normalize import normalize
from naperian.sizes import size
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
    SetVar,
    Table,
    Tuple,
    TupleSet,
    TypeVar,
)

A, N, M, K = Var("a"), Var("n"), Var("m"), Var("k")
n, m = SetVar(N), SetVar(M)
COLOR = EnumSet(Var("Color"), ("R", "G", "B"))
rng = np.random.default_rng(0)
SIZES = [0, 1, 3]


def body(d: core.Definition) -> str:
    """The body as text, without the header."""
    return "\n".join(line[4:] for line in show(d).splitlines()[1:])


# ---------------------------------------------------------------- functions


def test_functions_are_applied() -> None:
    z = TypeVar(A)
    square = fun((F64,), lambda x: mul(x, x))
    twice = define(
        "twice", {"f": Function((z,), z), "x": z}, z,
        lambda f, x: core.Call(f, (core.Call(f, (x,)),)), types=(A,),
    )  # fmt: skip
    at_float = Substitution({A: F64}, {}, {})
    g = define(
        "g", {"x": F64}, F64, lambda x: core.Call(core.Use("twice", at_float), (square, x))
    )
    both = module(twice, g)
    assert agree(both, "g", (3.0,)) == 81.0
    assert body(normal(both, "g")) == "t = x * x\nt * t"


def test_functions_reenter_themselves_but_never_recur() -> None:
    f = Function((F64,), F64)
    apply = define("apply", {"f": f, "x": F64}, F64, lambda f, x: core.Call(f, (x,)))
    use = core.Use("apply", NOTHING)
    inner = fun((F64,), lambda y: core.Call(use, (fun((F64,), lambda z: add(z, y)), y)))
    g = define("g", {"x": F64}, F64, lambda x: core.Call(use, (inner, x)))
    assert agree(module(apply, g), "g", (2.0,)) == 4.0
    f_ = define("f", {"x": F64}, F64, lambda x: core.Call(core.Use("f", NOTHING), (x,)))
    with pytest.raises(Broken, match="before it"):
        normalize(module(f_), "f", NOTHING)


def test_polymorphic_literals_get_their_type() -> None:
    z = TypeVar(A)
    f = define("f", {"x": z}, z, lambda x: op("add", x, core.ConstOf(1, z), type=z), types=(A,))
    assert agree(module(f), "f", (np.float32(0.5),), types={A: F32}) == np.float32(1.5)
    assert agree(module(f), "f", (2,), types={A: INT}) == 3


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_table_of_functions_is_a_choice_by_index(index: int) -> None:
    three = Fin(size(3))
    fs = core.Literal(
        three,
        (
            fun((F64,), lambda x: mul(x, x)),
            fun((F64,), lambda x: add(x, real(1))),
            fun((F64,), lambda x: x),
        ),
    )
    f = define(
        "f", {"k": Index(three), "x": F64}, F64,
        lambda k, x: core.Call(core.At(fs, k, three), (x,)),
    )  # fmt: skip
    assert agree(module(f), "f", (index, 5.0)) == [25.0, 6.0, 5.0][index]


def test_a_function_chosen_by_a_condition() -> None:
    def of(c: Expr, x: Expr) -> Expr:
        slow = let("s", op("exp", x), lambda s: fun((F64,), lambda y: add(y, s)))
        g = core.If(c, slow, fun((F64,), lambda y: mul(y, x)))
        return let("g", g, lambda g: add(core.Call(g, (x,)), core.Call(g, (real(2),))))

    f = define("f", {"c": BOOL, "x": F64}, F64, of)
    assert agree(module(f), "f", (False, 3.0)) == 15.0
    agree(module(f), "f", (True, 3.0))
    assert count(normal(module(f), "f"), "exp") == 1


@pytest.mark.parametrize("k", SIZES)
def test_a_table_of_functions_keeps_what_they_share(k: int) -> None:
    """What a function closes over is computed once per function, not once per call."""
    def of(x: Expr) -> Expr:
        def plus(s: Expr) -> Expr:
            return fun((F64,), lambda y: add(y, s))

        fs = each(n, lambda i: let("s", op("exp", at(x, (i, n))), plus))
        return let("fs", fs, lambda fs: each(
            n, lambda i: each(n, lambda j: core.Call(at(fs, (i, n)), (at(x, (j, n)),)))
        ))  # fmt: skip

    f = define("f", {"x": Table(n, F64)}, Table(n, Table(n, F64)), of, sets=(N,))
    agree(module(f), "f", (rng.normal(size=k),), {N: k})
    d = normal(module(f), "f")
    assert body(d).startswith("s = for i: Fin(n). exp(x[i])\n")


# ---------------------------------------------------------------- sharing


def egypt(length: int) -> core.Definition:
    def of(x: Expr) -> Expr:
        def rest(k: int, x: Expr) -> Expr:
            return x if k == 0 else let("x", mul(x, x), lambda y: rest(k - 1, y))

        return rest(length, x)

    return define("egypt", {"x": F64}, F64, of)


def test_repeated_squaring_stays_linear() -> None:
    assert count(normal(module(egypt(50)), "egypt"), "mul") == 50
    assert agree(module(egypt(5)), "egypt", (1.1,)) == pytest.approx(1.1**32)


def test_a_table_read_twice_is_made_once() -> None:
    def of(x: Expr) -> Expr:
        e = each(n, lambda i: op("exp", at(x, (i, n))))
        return let(
            "e", e, lambda e: each(
                n, lambda i: op("div", at(e, (i, n)), reduce("add", n, lambda j: at(e, (j, n))))
            )
        )  # fmt: skip

    f = define("f", {"x": Table(n, F64)}, Table(n, F64), of, sets=(N,))
    for k in SIZES:
        agree(module(f), "f", (rng.normal(size=k),), {N: k})
    assert count(normal(module(f), "f"), "exp") == 1


def test_work_is_not_moved_into_a_loop() -> None:
    f = define(
        "f", {"x": Table(n, F64), "a": F64}, Table(n, F64),
        lambda x, a: let("e", op("exp", a), lambda e: each(n, lambda i: mul(at(x, (i, n)), e))),
        sets=(N,),
    )  # fmt: skip
    assert body(normal(module(f), "f")) == "e = exp(a)\nfor i: Fin(n). x[i] * e"


def test_what_is_used_once_is_written_in_place() -> None:
    f = define(
        "f", {"x": F64}, F64,
        lambda x: let("y", mul(x, x), lambda y: let("z", add(y, x), lambda z: op("exp", z))),
    )  # fmt: skip
    assert body(normal(module(f), "f")) == "exp(x * x + x)"


def test_unused_work_goes() -> None:
    f = define("f", {"x": F64}, F64, lambda x: let("y", op("exp", x), lambda y: x))
    assert body(normal(module(f), "f")) == "x"


def test_a_constant_of_the_module_is_computed_once() -> None:
    c = define("c", {}, F64, lambda: op("exp", op("sqrt", real(0.3))), constant=True)
    use = core.Use("c", NOTHING)
    f = define(
        "f", {"x": Table(n, F64)}, Table(n, F64),
        lambda x: each(n, lambda i: mul(at(x, (i, n)), add(use, use))), sets=(N,),
    )  # fmt: skip
    agree(module(c, f), "f", (rng.normal(size=3),), {N: 3})


def test_nested_conditionals_stay_linear() -> None:
    def of(x: Expr) -> Expr:
        def rest(k: int, y: Expr) -> Expr:
            if k == 0:
                return y
            test = op("lt", y, real(k))
            return let("y", core.If(test, add(y, x), mul(y, x)), lambda z: rest(k - 1, z))

        return rest(30, x)

    f = define("f", {"x": F64}, F64, of)
    assert agree(module(f), "f", (0.5,)) >= 0
    assert sum(isinstance(e, core.If) for e in everything(normal(module(f), "f").body)) == 30


# ---------------------------------------------------------------- views


def test_re_indexing_costs_nothing() -> None:
    def of(x: Expr) -> Expr:
        turned = each(m, lambda j: each(n, lambda i: at(x, (i, n), (j, m)), "i"), "j")
        return let("y", turned, lambda y: each(
            m, lambda j: reduce("add", n, lambda i: at(y, (j, m), (i, n)))
        ))  # fmt: skip

    f = define("f", {"x": Table(n, Table(m, F64))}, Table(m, F64), of, sets=(N, M))
    for k in SIZES:
        agree(module(f), "f", (rng.normal(size=(k, 2)),), {N: k, M: 2})
    assert body(normal(module(f), "f")) == "for i: Fin(m). sum i2: Fin(n). x[i2, i]"


def test_slices_of_slices_are_one_index() -> None:
    k = size(K)

    def of(x: Expr) -> Expr:
        def tail(y: Expr, length: Any) -> Expr:
            return each_number(Fin(length - 1), lambda i: at(y, (core.Number(i + 1), Fin(length))))

        first = tail(x, k + 2)
        return let("y", first, lambda y: let("z", tail(y, k + 1), lambda z: each(
            Fin(k), lambda i: mul(at(z, (i, Fin(k))), real(2))
        )))  # fmt: skip

    f = define("f", {"x": Table(Fin(k + 2), F64)}, Table(Fin(k), F64), of, sizes=(K,))
    for length in SIZES:
        agree(module(f), "f", (rng.normal(size=length + 2),), {K: length})
    assert body(normal(module(f), "f")) == "for i: Fin(k). x[i + 2] * 2.0"


def test_a_gather_names_the_index_that_arithmetic_mentions() -> None:
    three, five = Fin(size(3)), Fin(size(5))

    def of(x: Expr, p: Expr) -> Expr:
        shifted = each_number(three, lambda i: at(x, (core.Number(i + 2), five)))
        return let("y", shifted, lambda y: each(three, lambda i: at(y, (at(p, (i, three)), three))))

    f = define(
        "f", {"x": Table(five, F64), "p": Table(three, Index(three))}, Table(three, F64), of
    )
    got = agree(module(f), "f", (np.arange(5.0), np.array([2, 0, 0])))
    assert got.tolist() == [4.0, 2.0, 2.0]


def test_a_whole_table_under_another_name_is_that_table() -> None:
    f = define(
        "f", {"x": Table(n, F64)}, Table(n, F64), lambda x: each(n, lambda i: at(x, (i, n))),
        sets=(N,),
    )  # fmt: skip
    assert body(normal(module(f), "f")) == "x"


# ---------------------------------------------------------------- tuples


def test_leaves_come_in_the_order_of_components() -> None:
    t = Tuple((F64, Table(n, Tuple((INT, Table(m, Tuple((BOOL, F32))))))))
    assert leaves(t) == (
        F64, Table(n, INT), Table(n, Table(m, BOOL)), Table(n, Table(m, F32)),
    )  # fmt: skip
    assert rebuild(t, "abcd") == ("a", ("b", ("c", "d")))
    assert spread(t, ("a", ("b", ("c", "d")))) == tuple("abcd")
    assert leaves(Tuple(())) == ()
    assert rebuild(Tuple(()), []) == ()


@pytest.mark.parametrize("k", SIZES)
def test_tables_of_tuples_become_tuples_of_tables(k: int) -> None:
    pair = Tuple((F64, INT))

    def of(x: Expr) -> Expr:
        def cell(i: Expr) -> Expr:
            p = at(x, (i, n))
            return let("e", op("exp", core.Part(p, 0)), lambda e: core.Pack(
                (core.Pack((core.Part(p, 1), e)), mul(e, e))
            ))  # fmt: skip

        return each(n, cell)

    result = Table(n, Tuple((Tuple((INT, F64)), F64)))
    f = define("f", {"x": Table(n, pair)}, result, of, sets=(N,))
    agree(module(f), "f", ((rng.normal(size=k), np.arange(k)),), {N: k})
    d = normal(module(f), "f")
    assert [p.name for p in d.params] == ["x.0", "x.1"]
    assert d.result == Tuple(leaves(Table(d.params[0].type.set, result.cell)))  # type: ignore[union-attr]
    assert count(d, "exp") == 1


def test_conditionals_of_tuples_test_once() -> None:
    def of(c: Expr, x: Expr) -> Expr:
        p = core.If(
            c, let("y", op("exp", x), lambda y: core.Pack((y, mul(y, x)))), core.Pack((x, x))
        )
        return let("p", p, lambda p: add(core.Part(p, 0), core.Part(p, 1)))

    f = define("f", {"c": BOOL, "x": F64}, F64, of)
    for c in (True, False):
        agree(module(f), "f", (c, 0.5))
    d = normal(module(f), "f")
    assert sum(isinstance(e, core.If) for e in everything(d.body)) == 1


@pytest.mark.parametrize("k", SIZES)
def test_loops_carry_leaves(k: int) -> None:
    pair = Tuple((F64, Table(n, F64)))

    def of(x: Expr) -> Expr:
        start = core.Pack((real(1), each(n, lambda i: at(x, (i, n)))))

        def step(p: Expr, q: Expr, t: Expr) -> Expr:
            s, v = core.Part(p, 0), core.Part(p, 1)
            new = core.Pack((add(s, at(v, (t, n))), each(n, lambda i: mul(at(v, (i, n)), s))))
            return core.Pack((new, op("add", q, whole(1), type=INT)))

        return loop({"p": (pair, start), "q": (INT, whole(0))}, n, step)

    f = define("f", {"x": Table(n, F64)}, Tuple((pair, INT)), of, sets=(N,))
    agree(module(f), "f", (rng.normal(size=k),), {N: k})


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("k", SIZES)
def test_scans_carry_leaves(k: int, exclusive: bool) -> None:
    def of(x: Expr) -> Expr:
        start = core.Pack((real(0), whole(0)))

        def step(p: Expr, t: Expr) -> Expr:
            more = add(core.Part(p, 0), at(x, (t, n)))
            return core.Pack((more, op("add", core.Part(p, 1), whole(1), type=INT)))

        return scan({"p": (Tuple((F64, INT)), start)}, n, step, exclusive)

    f = define("f", {"x": Table(n, F64)}, Table(n, Tuple((F64, INT))), of, sets=(N,))
    agree(module(f), "f", (rng.normal(size=k),), {N: k})


@pytest.mark.parametrize("k", SIZES)
def test_loops_with_several_results_inside_loops(k: int) -> None:
    def of(x: Expr) -> Expr:
        def row(i: Expr) -> Expr:
            def step(a: Expr, b: Expr) -> Expr:
                return core.Pack((mul(a, real(2)), op("add", b, whole(1), type=INT)))

            start = {"a": (F64, op("abs", at(x, (i, n)))), "b": (INT, whole(0))}
            def more(a: Expr, b: Expr) -> Expr:
                return core.If(
                    op("lt", a, real(10)), op("lt", b, whole(40), type=INT), truth(False)
                )

            return loop(start, None, step, more)

        return each(n, row)

    f = define("f", {"x": Table(n, F64)}, Table(n, Tuple((F64, INT))), of, sets=(N,))
    agree(module(f), "f", (rng.normal(size=k),), {N: k})


def test_empty_tables_of_tuples() -> None:
    nothing = Fin(size(0))
    f = define(
        "f", {"x": F64}, Table(nothing, Tuple((F64, INT))),
        lambda x: core.Literal(nothing, ()),
    )  # fmt: skip
    a, b = agree(module(f), "f", (1.0,))
    assert a.shape == b.shape == (0,)


# ---------------------------------------------------------------- known results


def test_floats_are_folded_only_where_exact() -> None:
    x = core.Ref(Var("x"))
    kept = [
        add(x, real(0.0)), mul(x, real(0.0)), op("sub", real(0.0), x), op("sub", x, real(-0.0)),
        op("min", x, x), op("div", real(1.0), x),
    ]  # fmt: skip
    gone = [
        add(x, real(-0.0)), mul(x, real(1.0)), mul(real(1.0), x), op("sub", x, real(0.0)),
        op("div", x, real(1.0)), op("pow", x, real(1.0)),
    ]  # fmt: skip
    for e in kept + gone:
        f = define("f", {"x": F64}, F64, lambda p, e=e: core.Let(x.var, p, e))  # type: ignore[misc]
        d = normal(module(f), "f")
        assert (body(d) == "x") is (e in gone), show(e)
        for value in (0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -1e308):
            agree(module(f), "f", (value,))


def test_integer_units_and_constants() -> None:
    def f(of: Any, t: Any = INT) -> str:
        return body(normal(module(define("f", {"x": INT}, t, of)), "f"))

    def i(name: str, *args: Expr) -> Expr:
        return op(name, *args, type=INT)

    assert f(lambda x: i("add", x, whole(0))) == "x"
    assert f(lambda x: i("mul", x, whole(0))) == "0"
    assert f(lambda x: i("floordiv", x, whole(1))) == "x"
    assert f(lambda x: i("mul", whole(1 << 62), whole(4))) == "0"
    assert f(lambda x: i("floordiv", whole(-7), whole(2))) == "-4"
    assert f(lambda x: i("mod", whole(7), whole(0))) == "0"
    assert f(lambda x: i("lt", x, x), BOOL) == "False"
    assert f(lambda x: core.If(truth(True), x, i("add", x, x))) == "x"
    assert f(lambda x: op("cast", real(np.nan), type=INT)) == "0"


def test_data_does_not_become_index_arithmetic() -> None:
    """Int wraps around, index arithmetic does not: an `Op` stays one."""
    f = define(
        "f", {"x": INT}, INT,
        lambda x: op("add", op("mul", x, x, type=INT), whole(1), type=INT),
    )  # fmt: skip
    assert body(normal(module(f), "f")) == "x * x + 1"
    assert agree(module(f), "f", (1 << 40,)) == 1


def test_index_arithmetic_goes_through_names() -> None:
    k = Var("k")
    three, eleven = Fin(size(3)), Fin(size(11))

    def of(x: Expr) -> Expr:
        return each_number(
            three,
            lambda i: core.Let(
                k, core.Number(i * 2), at(x, (core.Number(size(k) * 2 + i), eleven))
            ),
        )

    f = define("f", {"x": Table(eleven, F64)}, Table(three, F64), of)
    assert agree(module(f), "f", (np.arange(11.0),)).tolist() == [0.0, 5.0, 10.0]
    assert body(normal(module(f), "f")) == "for i: Fin(3). x[5 * i]"


def test_small_literal_tables_are_unrolled() -> None:
    three = Fin(size(3))

    def of(x: Expr, y: Expr) -> Expr:
        v = core.Literal(three, (x, y, real(2)))
        return let("v", v, lambda v: reduce(
            "add", three, lambda i: mul(at(v, (i, three)), at(v, (i, three)))
        ))  # fmt: skip

    f = define("f", {"x": F64, "y": F64}, F64, of)
    assert agree(module(f), "f", (0.5, -1.5)) == 6.5
    assert not any(
        isinstance(e, core.Reduce | core.Literal) for e in everything(normal(module(f), "f").body)
    )


def test_a_literal_table_read_at_a_variable_is_made_once() -> None:
    three = Fin(size(3))

    def of(k: Expr, x: Expr) -> Expr:
        v = core.Literal(three, (x, op("exp", x), real(2)))
        return let("v", v, lambda v: add(at(v, (k, three)), at(v, (k, three))))

    f = define("f", {"k": Index(three), "x": F64}, F64, of)
    for k in range(3):
        agree(module(f), "f", (k, 0.5))
    d = normal(module(f), "f")
    assert sum(isinstance(e, core.Literal) for e in everything(d.body)) == 1


# ---------------------------------------------------------------- other axes


def test_recasts_are_views() -> None:
    rows, flat = (Fin(size(K)), Fin(size(M))), Fin(size(K) * M)

    def of(x: Expr) -> Expr:
        y = core.Recast(x, rows, (flat,), F64)
        return let("y", y, lambda y: core.Recast(y, (flat,), rows, F64))

    t = Table(rows[0], Table(rows[1], F64))
    f = define("f", {"x": t}, t, of, sizes=(K, M))
    for a in SIZES:
        agree(module(f), "f", (rng.normal(size=(a, 2)),), {K: a, M: 2})
    assert body(normal(module(f), "f")) == "x"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((Fin(size(3)), Fin(size(2))), (Fin(size(2)), Fin(size(3)))),
        ((COLOR, BoolSet()), (Fin(size(6)),)),
        ((Fin(size(6)),), (BoolSet(), COLOR)),
        ((TupleSet((COLOR, Fin(size(2)))),), (Range(size(4), size(10)),)),
        ((Reverse(Fin(size(4))), Fin(size(1))), (Fin(size(2)), TupleSet((BoolSet(),)))),
        ((Fin(size(6)),), (TupleSet((BoolSet(), COLOR)),)),
        ((Fin(size(2)), Fin(size(0))), (Fin(size(0)),)),
    ],
)
def test_recasts_keep_the_order(old: Any, new: Any) -> None:
    def nested(sets: Any) -> Any:
        t = F64
        for s in reversed(sets):
            t = Table(s, t)
        return t

    f = define("f", {"x": nested(old)}, nested(new), lambda x: core.Recast(x, old, new, F64))
    shape = [count_of(s) for s in old]
    data = np.arange(float(np.prod(shape))).reshape(shape)
    got = agree(module(f), "f", (data,))
    assert got.ravel().tolist() == data.ravel().tolist()


# ---------------------------------------------------------------- what may stop


def test_checks_stay_and_stay_where_they_are() -> None:
    three = Fin(size(3))

    def of(x: Expr, k: Expr) -> Expr:
        unused = let("y", at(x, (core.Checked(k, three), three)), lambda y: real(1))
        positive = op("ge", k, whole(-5), type=INT)
        return core.Check(positive, "too small", unused)

    f = define("f", {"x": Table(three, F64), "k": INT}, F64, of)
    d = normal(module(f), "f")
    agree(module(f), "f", (np.zeros(3), 1))
    for k, message in ((3, "index 3 is out of range for an axis of size 3"), (-6, "too small")):
        for which in (module(f), module(d)):
            with pytest.raises(RunError) as e:
                run(which, "f", [[0.0] * 3, np.int64(k)], NOTHING)
            assert e.value.message == message


def test_a_check_in_a_branch_is_made_only_there() -> None:
    three = Fin(size(3))
    f = define(
        "f", {"x": Table(three, F64), "k": INT}, F64,
        lambda x, k: core.If(
            op("lt", k, whole(3), type=INT), at(x, (core.Checked(k, three), three)), real(7)
        ),
    )  # fmt: skip
    for k in (1, 5):
        agree(module(f), "f", (np.arange(3.0), k))


@pytest.mark.parametrize("k", SIZES)
def test_checks_in_the_cells_of_tuples(k: int) -> None:
    three = Fin(size(3))

    def of(x: Expr, p: Expr) -> Expr:
        def cell(i: Expr) -> Expr:
            k = at(p, (i, n))
            return let(
                "j", core.Checked(k, three), lambda j: core.Pack((at(x, (j, three)), k))
            )

        return each(n, cell)

    f = define(
        "f", {"x": Table(three, F64), "p": Table(n, INT)}, Table(n, Tuple((F64, INT))), of,
        sets=(N,),
    )  # fmt: skip
    agree(module(f), "f", (np.arange(3.0), np.arange(k)), {N: k})
    d = normal(module(f), "f")
    sizes = Substitution({}, {}, {d.sizes[0]: size(1)})
    with pytest.raises(RunError, match="index 9"):
        run(module(d), "f", [[0.0] * 3, [np.int64(9)]], sizes)


# ---------------------------------------------------------------- long programs


def lines(count: int) -> core.Definition:
    def of(x: Expr, a: Expr) -> Expr:
        vars = [Var(f"y{k}") for k in range(count)]
        out: Expr = add(core.Ref(vars[-1]), core.Ref(vars[0]))
        for k in reversed(range(count)):
            before = core.Ref(vars[k - 1]) if k else a
            value = add(mul(before, real(0.5)), reduce("add", n, lambda i: at(x, (i, n))))
            out = core.Let(vars[k], value, out)
        return out

    return define("lines", {"x": Table(n, F64), "a": F64}, F64, of, sets=(N,))


def test_two_thousand_lines() -> None:
    m_ = module(lines(2000))
    agree(m_, "lines", (np.ones(2), 1.0), {N: 2})


def test_time_grows_with_the_program() -> None:
    def seconds(count: int) -> float:
        m_ = module(lines(count))
        best = np.inf
        for _ in range(3):
            start = time.process_time()
            normalize(m_, "lines", Substitution({}, {N: Fin(size(K))}, {}))
            best = min(best, time.process_time() - start)
        return best

    assert seconds(2000) < 40 * seconds(200)  # a square would be 100


# ---------------------------------------------------------------- by chance


@settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck))
@given(definitions(), st.sampled_from(SIZES), st.integers(-2, 2))
def test_the_normal_form_means_the_same(d: core.Definition, k: int, number: int) -> None:
    data = (rng.normal(size=k), number, (rng.normal(size=k), np.arange(k)[::-1]))
    try:
        agree(module(d), "f", data, {d.sets[0]: k})
    except RunError:
        with pytest.raises(RunError):
            run_normal(module(d), "f", data, {d.sets[0]: k})


def test_rounds_of_a_tuple_of_one() -> None:
    """What chance found once: a scan's cells are what its state is, `(Float,)` and not `Float`."""
    m_ = nap.compile("""
def sums(x: Fin(n)=>Float, k: Int) -> Fin(2)=>(Float,) where n >= 1:
    s = scan(add, (0.0,), x)
    [(x[0],), s[clamp(k)]]

def add(h: (Float,), v: Float) -> (Float,):
    (a,) = h
    (a + v,)
""")
    assert m_.sums(np.arange(1.0, 4.0), 1)[0].tolist() == [1.0, 3.0]
