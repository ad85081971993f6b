"""Rows that are made in place from rows that data name, as along a tree, and their gradients."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap
from naperian.dtypes import DType
from naperian.loops.syntax import Assign, Fail, Load, Local, Loop, Order, Stmt, When
from naperian.names import Lit, Var
from naperian.passes.nests.unswitch import unswitched
from naperian.sizes import ZERO, size

TREES = """
def leaves(w: Fin(n)=>Float, to: Fin(n)=>Fin(n), leaf: Fin(n)=>Bool, x: m=>Float) -> Float where n >= 1:
    (last, _) = with state([x for _ in Fin(n)]) as p:
        for t in Fin(n):
            if leaf[t]:
                for s in m:
                    p[t, s] := 2.0
            else:
                for s in m:
                    p[t, s] := w[t] * p[to[t], s]
        sum(p[n - 1])
    last

def four(w: Fin(n)=>Float, to: Fin(n)=>Fin(n), leaf: Fin(n)=>Bool, x: m=>Float) -> Float where n >= 1:
    (last, _) = with state([[[x[s] for _ in Fin(4)] for s] for _ in Fin(n)]) as p:
        for t in Fin(n):
            for s in m, i in Fin(4):
                p[t, s, i] := sum(exp(w[t] * j) * p[to[t], s, j] for j in Fin(4))
        sum(p[n - 1, s, 0] for s)
    last
"""  # noqa: E501


@pytest.mark.parametrize("name", ["leaves", "four"])
def test_gradients_along_a_tree(name: str) -> None:
    m = nap.compile(TREES)
    f, slopes = m[name], nap.grad(m[name], ("w", "x"))
    r = np.random.default_rng(3)
    for n, k in ((1, 3), (6, 0), (7, 1), (9, 40)):
        to = np.maximum(np.arange(n) - r.integers(0, 4, n), 0)
        leaf = r.random(n) < 0.3
        w, x = r.uniform(0.1, 0.4, n), r.standard_normal(k)
        dw, dx = slopes(w, to, leaf, x)
        for at in range(n):
            e = 1e-6 * (np.arange(n) == at)
            wanted = (f(w + e, to, leaf, x) - f(w - e, to, leaf, x)) / 2e-6
            assert np.isclose(dw[at], wanted, rtol=1e-6, atol=1e-7), (n, k, at)
        wanted = f(w, to, leaf, x + 1e-3) - f(w, to, leaf, x - 1e-3)  # it is linear in x
        assert np.isclose(2e-3 * dx.sum(), wanted, rtol=1e-6, atol=1e-9)


def test_what_a_round_tests_is_tested_before_its_rows() -> None:
    """`leaf[t]` is loaded in every round over `t`, and in none over `s`; what is summed over `s` is
    summed where it is made, though the loop runs backwards."""
    text = nap.grad(nap.compile(TREES).leaves).show("loops")
    inner = re.findall(r"( *)(?:free )?for s\w* in .*\n((?:\1 .*\n)*)", text)
    assert inner
    assert not any("leaf" in body for _, body in inner), text
    assert text.count(": f64[n, m]") == 2, text  # the rows, and what they read


def test_what_rounds_add_to_a_few_places_is_added_in_registers() -> None:
    text = nap.grad(nap.compile(TREES).four).show("loops")
    assert re.search(r"free for s\w* .* reducing(,? add \w+){4}:", text), text


@pytest.mark.parametrize("nested", [False, True])
def test_nothing_is_loaded_before_what_may_fail_in_front_of_it(nested: bool) -> None:
    """The check says that `leaf` has a place 5, under another condition, too."""
    i, n, leaf, bad, go, out = map(Var, ("i", "n", "leaf", "bad", "go", "out"))
    test = When(Load(leaf, (size(5),)), (Assign(out, Lit(1.0, DType.F64)),))
    check: Stmt = Fail(Local(bad), 1)
    if nested:
        check = When(Load(go, (size(i),)), (check,))
    alone, behind = (
        Loop(i, ZERO, size(n), body, Order.FREE) for body in ((test,), (check, test))
    )
    assert unswitched((alone,)) != (alone,)
    assert unswitched((behind,)) == (behind,)
