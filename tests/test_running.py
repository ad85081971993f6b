"""Reductions up to an index, or from it on, for every index are made in one go."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap
from naperian import trial

UP_TO = {
    "up to and with": ("Float", "[sum(x[k] * x[k] for k in 0..=j) for j]"),
    "before": ("Float", "[max(x[k] for k in 0..j) for j]"),
    "products": ("F32", "[prod(x[k] for k in 1..=j) for j in Fin(n)]"),
    "from on": ("Float", "[sum(x[k] for k in j..n) for j]"),
    "after": ("Int", "[sum(x[k] for k in j + 1..n) for j]"),
    "further than the index": ("Float", "[sum(x[k] for k in 0..j) / (1 + j) for j]"),
    "in a sum": ("Float", "[sum(x[j] * sum(x[k] for k in 0..j) for j in Fin(n)) + v for v in x]"),
}


def _text(item: str, body: str) -> str:
    return f"def f(x: Fin(n)=>{item}) -> Fin(n)=>{item} = {body}"


@pytest.mark.parametrize("name", UP_TO)
@pytest.mark.parametrize("mark", ["", "@strict\n"])
def test_it_means_what_the_interpreter_says(name: str, mark: str) -> None:
    f = nap.compile(mark + _text(*UP_TO[name])).f
    tried = trial._Trial(f, float("inf"))
    for n in (0, 1, 2, 9, 40):
        assert tried.failure((n,), n, "plain") is None


@pytest.mark.parametrize("name", UP_TO)
def test_there_is_no_sum_for_each(name: str) -> None:
    text = nap.compile(_text(*UP_TO[name])).f.show("ainf")
    assert text.count(" over ") - text.count("delay over ") == (name == "in a sum")


def test_strictly_sums_from_an_index_begin_there() -> None:
    text = _text(*UP_TO["from on"])
    x = np.array([1e16, 1.0, -1e16, 1.0, 1.0])
    (first, *_) = nap.compile("@strict\n" + text).f(x)
    assert first == sum(x.tolist())


def test_where_there_is_no_index_nothing_is_read() -> None:
    text = "def f(x: Fin(3 * n)=>Float) -> Fin(n)=>Float = [sum(x[k] for k in 0..j + 3) for j]"
    f = nap.compile(text).f
    assert len(f(np.zeros(0))) == 0
    np.testing.assert_array_equal(f(np.arange(6.0)), [3.0, 6.0])


def test_what_depends_on_the_index_is_a_sum_for_each() -> None:
    f = nap.compile(_text("Float", "[sum(x[k] * x[j - k] for k in 0..=j) for j]")).f
    np.testing.assert_allclose(f([1.0, 2.0, 3.0]), [1.0, 4.0, 10.0])


def test_gradients_are_made_in_one_go() -> None:
    loss = "sum(sum(x[k] for k in 0..=j) ** 2 for j in Fin(n))"
    g = nap.grad(nap.compile(f"def f(x: Fin(n)=>Float) -> Float = {loss}").f)
    x = np.arange(4.0)
    np.testing.assert_allclose(g(x), 2 * np.cumsum(np.cumsum(x)[::-1])[::-1])
    lines = g.show("loops").splitlines()
    assert not any(x.startswith("        ") and "for " in x for x in lines)


@pytest.mark.parametrize("best", ["max", "min"])
def test_the_best_so_far_sends_to_the_first(best: str) -> None:
    text = f"def f(x: Fin(n)=>Float) -> Float = sum({best}(x[k] for k in 0..=j) for j in Fin(n))"
    x = np.array([2.0, 2.0, 1.0, 3.0, 0.0])
    firsts = {"max": [3.0, 0.0, 0.0, 2.0, 0.0], "min": [2.0, 0.0, 2.0, 0.0, 1.0]}
    np.testing.assert_array_equal(nap.grad(nap.compile(text).f)(x), firsts[best])
