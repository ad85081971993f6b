"""What reads a recurrence from behind is made in its order: the same values, one loop for both."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap
from naperian import pipeline
from naperian.ainf.check import check
from naperian.ainf.run import run
from naperian.ainf.syntax import Program
from naperian.passes.algebra.alongside import alongside
from naperian.signed import at

# Each has a loop over layers in a loop over time.
LAYERS = """
def up(w: l=>b=>Float, v: l=>b=>Float, s: l=>b=>Float, x: b=>Float) -> l=>b=>Float:
    def layer(below: b=>Float, i: l) -> b=>Float =
        [tanh(below[u] * w[i, u] + s[i, u] * v[i, u]) for u]
    scan(layer, x, [i for i in l])

def network(w: Fin(l)=>b=>Float, v: Fin(l)=>b=>Float, x: c=>b=>Float) -> Float:
    (s, total) = loop s = [[0.1 for _ in b] for _ in Fin(l)], total = 0.0 for t in c:
        new = up(w, v, s, x[t])
        (new, total + sum(new[i, u] * s[i, u] for i, u))
    total + sum(s[i, u] ** 2 for i, u)

def gradient(w: Fin(l)=>b=>Float, v: Fin(l)=>b=>Float, x: c=>b=>Float):
    grad(network, wrt=("w", "v", "x"))(w, v, x)

def implicit(a: Fin(n)=>Float, x: Fin(n)=>Float, c: Int) -> Float:
    last = loop y = x for _ in Fin(c):
        h = scan(lambda s, e: 0.5 * s + e, 0.0, y)
        k = scan(lambda s, i: 0.25 * s + h[i], 0.0, [i for i in reverse(Fin(n))])
        [k[i] * a[i] + h[i] for i]
    sum(v ** 2 for v in last)

def by_x(a: Fin(n)=>Float, x: Fin(n)=>Float, c: Int) = grad(implicit, wrt="x")(a, x, c)
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(LAYERS)


def flat(f: nap.Function) -> Program:
    """The program as `alongside` gets it."""
    module = f._program.core()
    value = pipeline.specialise(module, f.__name__, at(module.definitions[f.__name__], f._usual()))
    for step in pipeline.PASSES:
        if step.name == "forwards":
            return value
        value = step.function(value)
    raise AssertionError


@pytest.mark.parametrize(("n", "c"), [(0, 2), (1, 1), (1, 3), (4, 3), (5, 0)])
def test_the_same_bits(m, n: int, c: int) -> None:
    before = flat(m.gradient)
    after = alongside(before)
    check(after)
    r = np.random.default_rng(n)
    args = [r.standard_normal(shape) for shape in ((n, 3), (n, 3), (c, 3))]
    for one, other in zip(run(before, [3, c, n], args), run(after, [3, c, n], args), strict=True):
        np.testing.assert_array_equal(one, other)
    along = [r.standard_normal(x.shape) for x in args]
    h = 1e-5
    one, other = (
        m.network(*(x + t * d for x, d in zip(args, along, strict=True))) for t in (h, -h)
    )
    slope = (one - other) / (2 * h)
    found = sum(np.sum(g * d) for g, d in zip(m.gradient(*args), along, strict=True))
    assert np.isclose(found, slope, rtol=1e-6, atol=1e-7)


def test_what_is_added_by_a_layer_is_added_where_its_cotangent_is_made(m) -> None:
    """One loop over the layers, whose last round is cut off, and none reads from behind."""
    text = m.gradient.show("loops")
    back = text[text.index("allocate s_:") :].partition("# notes")[0]
    rounds = back[back.index("for t_") :]
    over_layers = re.findall(r"for \w+ in 0\.\.(?:l|cut):", rounds.partition("for d_")[0])
    assert len(over_layers) == 1, text
    assert not re.search(r"\bs_\[[^]]*l - ", back), text


def test_what_has_an_order_of_its_own_stays(m) -> None:
    before = flat(m.by_x)
    assert alongside(before) is before
    x, a = np.cos(np.arange(6.0)), np.sin(np.arange(6.0))
    for k, unit in enumerate(np.eye(6)):
        h = 1e-5 * unit
        slope = (m.implicit(a, x + h, 3) - m.implicit(a, x - h, 3)) / 2e-5
        assert np.isclose(m.by_x(a, x, 3)[k], slope, rtol=1e-6, atol=1e-8)
