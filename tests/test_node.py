"""Nodes: what they keep."""

from __future__ import annotations

import pickle
from dataclasses import field, replace

import pytest

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Buffer,
    Local,
    Loop,
    Order,
    Program,
    Role,
    Stmt,
    Store,
    When,
)
from naperian.loops.walk import (
    mentions,
    rebuild,
    rebuild_allocations,
    rebuild_loops,
    renamed,
    statements,
)
from naperian.names import Var
from naperian.node import keeper, kept, mutable
from naperian.passes.nests.searched import searched
from naperian.sizes import ONE, ZERO, size


@keeper
class Pair:
    left: int
    right: int


def test_an_answer_is_computed_once_for_each_node() -> None:
    asked: list[Pair] = []

    @kept
    def total(p: Pair) -> int:
        asked.append(p)
        return p.left + p.right

    @kept
    def none(p: Pair) -> None:
        asked.append(p)

    one, other = Pair(1, 2), Pair(1, 2)
    assert [total(one), total(one), none(one), none(one), total(other)] == [3, 3, None, None, 3]
    assert [id(p) for p in asked] == [id(one), id(one), id(other)]


def test_what_a_node_keeps_is_no_part_of_it() -> None:
    @kept
    def left(p: Pair) -> int:
        return p.left

    asked = Pair(1, 2)
    left(asked)
    assert asked == Pair(1, 2)
    assert hash(asked) == hash(Pair(1, 2))
    assert repr(asked) == repr(Pair(1, 2))
    assert left(replace(asked, left=5)) == 5


def test_a_pickle_holds_no_answers() -> None:
    n = size(Var("n")) * 2
    plain = pickle.dumps(n)
    loop = Loop(Var("i"), ZERO, n, (), Order.SERIAL)
    mentions(loop)
    assert pickle.dumps(n) == plain


@mutable
class Basket:
    owner: str
    things: list[str] = field(default_factory=list)
    count: int = 0
    label: str = field(init=False)
    kinds: set[str] = field(default_factory=set)


def test_a_mutable_one_is_what_a_slotted_dataclass_is() -> None:
    one, other = Basket("a"), Basket("a", kinds=set())
    one.label = other.label = "b"
    assert one == other
    one.things.append("c")
    assert (one.things, other.things, one.count) == (["c"], [], 0)
    assert one != other
    assert repr(other) == "Basket(owner='a', things=[], count=0, label='b', kinds=set())"
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    with pytest.raises(AttributeError):
        one.other = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'owner'"):
        Basket()  # type: ignore[call-arg]


def test_a_statement_whose_blocks_stay_stays() -> None:
    i, x = Var("i"), Var("x")
    store = Store(x, (size(i),), Local(Var("y")))
    loop = Loop(i, ZERO, ONE, (store,), Order.SERIAL)
    assert rebuild(loop, lambda block: tuple(list(block))) is loop
    assert rebuild(loop, lambda block: ()) == replace(loop, body=())
    assert [*statements((loop,))] == [loop, store]
    assert x in mentions(loop)


def test_a_pass_looks_only_where_there_is_something_for_it() -> None:
    i, j, x = Var("i"), Var("j"), Var("x")
    store = Store(x, (size(i), size(j)), Local(Var("y")))
    inner = Loop(j, ZERO, ONE, (When(Local(Var("c")), (store,), ()),), Order.SERIAL)
    made = Allocate(Buffer(Var("t"), DType.F64, (ONE,), Role.TEMP))
    asked: list[tuple[Stmt, ...]] = []

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        asked.append(body)
        return tuple(rebuild_loops(s, block) for s in body)

    def memory(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        asked.append(body)
        return tuple(rebuild_allocations(s, memory) for s in body)

    one, two = (Loop(i, ZERO, ONE, body, Order.SERIAL) for body in ((inner, store), (made, inner)))
    assert block((one,)) == (one,)
    assert asked == [(one,), one.body]  # not the body of the innermost loop
    asked.clear()
    assert memory((one, two)) == (one, two)
    assert asked == [(one, two), two.body]
    body = (one, two)
    assert renamed(body, {}) is body


def test_a_statement_that_a_branch_has_too_stays() -> None:
    store = Store(Var("x"), (ZERO,), Local(Var("y")))
    body = (When(Local(Var("c")), (), (store,)), store)
    assert searched(Program("f", (), (), body, ())).body == body


def test_a_size_knows_the_number_or_the_name_that_it_is() -> None:
    n = Var("n")
    sizes = [ZERO, ONE, size(n), size(n) * 2, size(n) + 1, size(n) - n, size(n) * n]
    assert [s.constant for s in sizes] == [0, 1, None, None, None, 0, None]
    assert [s.single for s in sizes] == [None, None, n, None, None, None, None]
    for s in sizes:
        again = pickle.loads(pickle.dumps(s))
        assert (again.constant, type(again.single)) == (s.constant, type(s.single))


def test_a_size_knows_its_atoms() -> None:
    n = Var("n")
    m, half = size(Var("m")), size(n) // 2
    sizes = [ZERO, ONE, size(n), size(n) * 2, m * n + n + 1, half, half * 3 + m, half * m]
    assert [s.plain for s in sizes] == [True] * 5 + [False] * 3
    for s in sizes:
        assert list(s.atoms) == [a for factors, _ in s.terms for a in factors]
        again = pickle.loads(pickle.dumps(s))
        assert (again, hash(again), again.plain) == (s, hash(s), s.plain)
    assert len({*sizes}) == len(sizes)
