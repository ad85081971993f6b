"""The loops language by itself: its text, its promises, its meaning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from naperian.ainf.syntax import Failure
from naperian.broken import Broken
from naperian.dtypes import DType
from naperian.loops.check import check
from naperian.loops.run import RunError, run
from naperian.loops.show import show
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Contract,
    Expr,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Program,
    Reduction,
    Role,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.loops.walk import remade, renamed, statements
from naperian.names import Lit, Var
from naperian.passes.nests.allocate import allocate
from naperian.passes.nests.beside import beside
from naperian.sizes import ZERO, Size, size
from naperian.source import NOWHERE

F, I, B = DType.F64, DType.I64, DType.BOOL
n, i, j, x, y, s, t = (Var(name) for name in "nijxyst")
IN = Buffer(x, F, (size(n),), Role.IN)
OUT = Buffer(y, F, (size(n),), Role.OUT)


def op(name: str, *args: Expr, dtype: DType = F, operand: DType = F) -> Apply:
    return Apply(name, args, dtype, operand)


def program(*body: Stmt, buffers: tuple[Buffer, ...] = (IN, OUT)) -> Program:
    failure = Failure("no", NOWHERE)
    return Program("f", (n,), buffers, body, (failure,), ("a reason",))


def each(*body: Stmt, order: Order = Order.FREE, **more: object) -> Loop:
    return Loop(i, ZERO, size(n), body, order, **more)  # type: ignore[arg-type]


def here(v: Var = x) -> Load:
    return Load(v, (size(i),))


TWICE = program(each(Store(y, (size(i),), op("mul", here(), Lit(2.0, F))), order=Order.PARALLEL))
TOTAL = program(
    Variable(s, F, Lit(0.0, F)),
    each(Assign(s, op("add", Local(s), here())), reductions=(Reduction(s, "add", F),)),
    each(
        When(
            op("lt", here(), Local(s), dtype=B),
            (Store(y, (size(i),), Local(s)),),
            (Store(y, (size(i),), here()),),
        )
    ),
)


def test_show_reads_like_python() -> None:
    assert show(TWICE) == (
        "def f(n, x: f64[n], out y: f64[n]):\n"
        "    parallel for i in 0..n:\n"
        "        store y[i] = x[i] * 2.0\n"
        "\n"
        "# notes\n"
        "# * a reason\n"
    )
    assert "    free for i in 0..n reducing add s:\n        s := s + x[i]\n" in show(TOTAL)
    assert "    if x[i] < s:\n            store y[i] = s\n        else:\n" in show(TOTAL)


def test_what_is_not_changed_stays_itself() -> None:
    """So that what is known of it is not found out again."""
    k, z = Var("k"), Var("z")
    asked = When(op("lt", here(), Lit(0.0, F), dtype=B), (Store(y, (size(i),), here()),), ())
    body = (
        *TOTAL.body,
        Allocate(Buffer(z, F, (size(n),), Role.TEMP)),
        Variable(k, F, here()),
        While((), op("lt", Local(k), Lit(0.0, F), dtype=B), (Assign(k, Lit(1.0, F)),)),
        each(asked, Update(z, (Size((((here(z),), 1),)),), "add", here())),
    )
    same = remade(body, lambda _: None)
    assert all(a is b for a, b in zip(same, body, strict=True))
    *others, last = renamed(body, {z: t})
    assert all(a is b for a, b in zip(others, body, strict=False))
    assert isinstance(last, Loop)
    assert last.body[0] is asked
    assert last.body[1] == Update(t, (Size((((here(t),), 1),)),), "add", here())


def test_run() -> None:
    a = np.array([1.0, -2.0, 4.0])
    assert run(check(TWICE), [3], [a])[0].tolist() == [2.0, -4.0, 8.0]
    assert run(check(TOTAL), [3], [a])[0].tolist() == [3.0, 3.0, 4.0]
    assert run(TWICE, [0], [np.zeros(0)])[0].shape == (0,)


def test_while_and_update_and_fail() -> None:
    k = Var("k")
    total = Buffer(Var("h"), I, (), Role.OUT)
    halve = program(
        Variable(k, I, Number(size(n))),
        Store(total.var, (), Lit(0, I)),
        While(
            (Let(t, I, op("floordiv", Local(k), Lit(2, I), dtype=I, operand=I)),),
            op("gt", Local(k), Lit(0, I), dtype=B, operand=I),
            (Assign(k, Local(t)), Update(total.var, (), "add", Lit(1, I))),
        ),
        Fail(op("gt", Load(total.var, ()), Lit(3, I), dtype=B, operand=I), 1, (Local(k),)),
        buffers=(total,),
    )
    assert run(check(halve), [7], []) == [3]
    with pytest.raises(RunError) as error:
        run(halve, [8], [])
    assert (error.value.code, error.value.values) == (1, (0,))


def test_contract() -> None:
    a, b, c = (Buffer(Var(v), F, (size(n), size(n)), Role.IN) for v in "abc")
    c = replace(c, role=Role.OUT)
    p, q, r = Var("p"), Var("q"), Var("r")
    product = program(
        Contract(
            (c.var, (size(p), size(q))), (a.var, (size(p), size(r))), (b.var, (size(q), size(r))),
            (), ((p, size(n)),), ((q, size(n)),), ((r, size(n)),), F,
        ),
        buffers=(a, b, c),
    )  # fmt: skip
    u, v = np.arange(4.0).reshape(2, 2), np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(run(check(product), [2], [u, v])[0], u @ v.T)


def shared(order: Order, *body: Stmt) -> Loop:
    """A loop that accumulates the array `y`."""
    return Loop(j, ZERO, size(n), body, order, (Reduction(y, "add", F),))


@pytest.mark.parametrize(
    "body",
    [
        (Store(x, (ZERO,), Lit(0.0, F)),),  # the caller's
        (Store(y, (ZERO,), Lit(0, I)),),  # dtype
        (Store(y, (), Lit(0.0, F)),),  # axes
        (Assign(s, Lit(0.0, F)),),  # not bound
        (Let(s, F, Lit(0.0, F)), Assign(s, Lit(0.0, F))),  # not a variable
        (Let(s, F, Lit(0.0, F)), Let(s, F, Lit(0.0, F))),  # twice
        (Let(s, F, op("add", Lit(0.0, F), Lit(0, I))),),  # operands
        (Let(s, F, op("add", Lit(0.0, F))),),  # arity
        (Let(s, F, Load(y, (size(i),))),),  # no such index
        (Let(s, F, Load(y, (size(s),))),),  # no such integer
        (Let(s, I, Number(size(Var("z")))),),
        (each(Let(s, F, here())), Let(t, F, Local(s))),  # out of its block
        (When(Lit(0.0, F), ()),),  # no Boolean
        (Fail(Lit(True, B), 2),),  # no such failure
        (each(order=Order.FREE, reductions=(Reduction(s, "add", F),)),),
        (each(Loop(j, ZERO, size(n), (), Order.PARALLEL)),),
        (Allocate(Buffer(t, F, (), Role.OUT)),),
        (Update(y, (ZERO,), "argmin", Lit(0.0, F)),),
        (shared(Order.FREE, Update(y, (ZERO,), "add", Lit(0.0, F))),),  # only in parallel
        (shared(Order.PARALLEL, Update(y, (ZERO,), "mul", Lit(0.0, F))),),  # one monoid
        (shared(Order.PARALLEL, Store(y, (ZERO,), Lit(0.0, F))),),  # updates alone
        (shared(Order.PARALLEL, Let(s, F, Load(y, (ZERO,)))),),
    ],
)
def test_check_finds_what_is_wrong(body: tuple[Stmt, ...]) -> None:
    with pytest.raises(Broken):
        check(program(*body))


@pytest.mark.parametrize(
    "body",
    [
        (Store(y, (size(n),), Lit(0.0, F)),),  # outside
        (Let(s, F, Load(y, (ZERO,))),),  # before it is written
        (),  # the result is not written
    ],
)
def test_run_finds_what_check_cannot(body: tuple[Stmt, ...]) -> None:
    with pytest.raises(Broken):
        run(check(program(*body)), [2], [np.zeros(2)])


def test_allocate_reuses_hoists_and_marks() -> None:
    backwards = (size(n) - 1 - size(i),)

    def through(temp: Var, source: Var, to: Var, shape: tuple[int, ...] = ()) -> tuple[Stmt, ...]:
        return (
            Allocate(Buffer(temp, F, (size(n),), Role.TEMP)),
            each(Store(temp, (size(i),), Apply("neg", (here(source),), F, F))),
            each(Store(to, (size(i),), Apply("neg", (Load(temp, backwards),), F, F))),
        )

    z = Buffer(Var("z"), F, (size(n),), Role.OUT)
    two = program(*through(s, x, y), *through(t, x, z.var), buffers=(IN, OUT, z))
    less = check(allocate(check(two)))
    assert sum(isinstance(q, Allocate) for q in less.body) == 1
    for p in (two, less):
        assert [r.tolist() for r in run(p, [2], [np.array([1.0, 2.0])])] == [[2.0, 1.0]] * 2

    row = Buffer(s, F, (size(4),), Role.TEMP)
    inside = program(
        each(
            Allocate(row),
            Store(s, (ZERO,), here()),
            Store(y, (size(i),), Load(s, (ZERO,))),
            order=Order.SERIAL,
        )
    )
    out = check(allocate(check(inside)))
    assert isinstance(out.body[0], Allocate)
    assert out.body[0].small
    outer = program(replace(inside.body[0], order=Order.PARALLEL))  # type: ignore[type-var]
    assert isinstance(allocate(check(outer)).body[0], Loop)


def test_a_copy_that_is_changed_and_copied_back_is_no_copy() -> None:
    def changed(after: Var) -> Program:
        """In each of three rounds, an element of a copy becomes another of `after`."""
        return program(
            each(Store(y, (size(i),), here(x))),
            Loop(
                j, ZERO, size(3),
                (
                    Allocate(Buffer(s, F, (size(n),), Role.TEMP)),
                    each(Store(s, (size(i),), here(y))),
                    Store(s, (ZERO,), Load(s, (size(1),))),
                    Store(s, (size(1),), Load(after, (ZERO,))),
                    each(Store(y, (size(i),), here(s))),
                ),
                Order.SERIAL,
            ),
        )  # fmt: skip

    for after in (s, y):  # of `y` it would be the element that is changed: it is read before that
        p = changed(after)
        less = check(allocate(check(p)))
        assert not any(isinstance(q, Allocate) for q in statements(less.body))
        one, two = (run(q, [2], [np.array([1.0, 2.0])]) for q in (p, less))
        assert [r.tolist() for r in one] == [r.tolist() for r in two]


ROW = Buffer(s, F, (size(4),), Role.TEMP)
LATER = Buffer(t, F, (size(n),), Role.TEMP)


def through_row(order: Order) -> Loop:
    """A loop whose rounds have a row of their own."""
    own = (Store(s, (ZERO,), here()), Store(y, (size(i),), Load(s, (ZERO,))))
    return each(Allocate(ROW), *own, order=order)


def through_arrays(*temps: Var) -> Loop:
    """Rounds in each of which something goes through arrays, one after another."""
    body: list[Stmt] = []
    for temp in temps:
        body += [
            Allocate(Buffer(temp, F, (size(n),), Role.TEMP)),
            each(Store(temp, (size(i),), op("neg", here()))),
            each(Store(y, (size(i),), op("add", here(y), Load(temp, (size(n) - 1 - size(i),))))),
        ]
    return Loop(j, ZERO, size(3), tuple(body), Order.SERIAL)


COPIES = {
    "a loop, and its last round by itself": (
        through_row(Order.SERIAL),
        When(
            op("lt", Load(x, (ZERO,)), Lit(5.0, F), dtype=B),
            (replace(through_row(Order.SERIAL), high=size(1)),),
            (),
        ),
    ),
    "a loop, and its iterations apart": (
        through_row(Order.SERIAL),
        through_row(Order.PARALLEL),
    ),
    "one shares the memory, the other not": (
        each(Store(y, (size(i),), here())),
        through_arrays(s, t),
        through_arrays(t),
    ),
    "what is first something else, and then a copy of what is later": (
        Allocate(Buffer(s, F, (size(n),), Role.TEMP)),
        each(Store(s, (size(i),), Lit(1.0, F))),
        each(Store(y, (size(i),), Load(s, (size(n) - 1 - size(i),)))),
        Allocate(LATER),
        each(Store(t, (size(i),), op("neg", here()))),
        each(Store(s, (size(i),), here(t))),
        each(Store(y, (size(i),), op("add", here(y), Load(s, (size(n) - 1 - size(i),))))),
    ),
}


@pytest.mark.parametrize("name", COPIES)
def test_every_array_is_in_scope_where_it_is_used(name: str) -> None:
    """Two blocks may have arrays of the same name: those of a loop that was cut in two, say."""
    p = check(program(*COPIES[name]))
    less = check(allocate(p))
    one, two = (run(q, [2], [np.array([1.0, 2.0])]) for q in (p, less))
    assert [r.tolist() for r in one] == [r.tolist() for r in two]


@pytest.mark.parametrize("by_rows", [True, False])
def test_what_lanes_store_lies_side_by_side(by_rows: bool) -> None:
    """The axis that lanes go along is moved to the end, if all readers go along it, too."""
    table = Buffer(t, F, (size(8), size(n)), Role.TEMP)
    lanes = Loop(j, ZERO, size(8), (Store(t, (size(j), size(i)), op("mul", here(), here())),),
                 Order.LANES)  # fmt: skip
    inner, outer = (j, i) if by_rows else (i, j)
    add = Assign(s, op("add", Local(s), Load(t, (size(j), size(i)))))
    sums = Loop(inner, ZERO, size(8 if by_rows else n), (add,), Order.SERIAL)
    p = program(
        Allocate(table),
        each(lanes, order=Order.SERIAL),
        Variable(s, F, Lit(0.0, F)),
        Loop(outer, ZERO, size(n if by_rows else 8), (sums,), Order.SERIAL),
        each(Store(y, (size(i),), Local(s))),
    )
    q = beside(p)
    check(q)
    (made,) = (a.buffer for a in statements(q.body) if isinstance(a, Allocate))
    assert made.shape == ((size(n), size(8)) if by_rows else table.shape)
    (want,), (got,) = (run(z, [3], [np.array([1.0, 2.0, 3.0])]) for z in (p, q))
    np.testing.assert_array_equal(got, want)
    assert want.tolist() == [112.0] * 3
