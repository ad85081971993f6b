"""Nodes: what they keep."""

from __future__ import annotations

import pickle
from dataclasses import field, replace

import pytest

from naperian.loops.syntax import Local, Loop, Order, Store
from naperian.loops.walk import mentions, rebuild, statements
from naperian.names import Var
from naperian.node import keeper, kept, mutable
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
