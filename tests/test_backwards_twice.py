"""Backwards over backwards finds what forwards over backwards does, where tables are changed in
place, also where a round begins with rows in another order than the last left them; and what goes
backwards asks each line once."""

from __future__ import annotations

import numpy as np
import pytest
from test_cost import PROGRAMS, SMALL, TWICE

import naperian as nap
from naperian.ainf.syntax import Operand
from naperian.passes.derivatives.asked import Asked


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", TWICE)
def test_two_ways_to_a_second_derivative(name: str) -> None:
    text, given = PROGRAMS[name]
    f = nap.compile(text).f
    k = next(k for k, a in enumerate(given(SMALL)) if np.asarray(a).dtype.kind == "f")
    wrt = f._text.params[k].name
    for n in (1, 2, 5, 9):
        args = list(given(n))
        along = np.random.default_rng(n).standard_normal(args[k].shape)
        if args[k].shape == (n, n):
            args[k] = args[k] + n * np.eye(n)
        _, found = nap.vjp(nap.grad(f, wrt), wrt)(*args, along)
        np.testing.assert_allclose(found, nap.hvp(f, wrt)(*args, along), rtol=1e-9, atol=1e-12)


CHANGED = """
import linalg

def changed(x: n=>Float, a: n=>n=>Float) -> n=>Float:
    y = with state(x) as y:
        for i in n: y[i] := y[i] * y[i] / 4.0 + sum(a[i, k] * y[k] for k in 0..i)
    y

def f(a: n=>n=>Float, c: n=>Float, p: n=>n) -> Float:
    loop x = c for _ in Fin(3):
        {}
    sum(x[i] ** 2 * c[i] for i)
"""
ROUNDS = {
    "solutions": "linalg.solve(a, x)",
    "solutions of what changes": "linalg.solve([[a[i, j] + sin(x[j]) for j] for i], x)",
    "solutions added": "linalg.solve(a, x) + x",
    "solutions of both parts": "linalg.solve_upper(a, linalg.solve_lower(a, x))",
    "before": "changed([x[p[i]] for i], a)",
    "between": "changed([changed(x, a)[p[i]] for i], a)",
    "after": "[changed(x, a)[p[i]] for i]",
    "around a loop": """loop z = [x[p[i]] for i] for _ in Fin(2): changed(z, a)
        z""",
    "in a loop inside": """loop z = x for _ in Fin(2): changed([z[p[i]] for i], a)
        z""",
    "one row for all": "changed([x[p[p[i]]] for i], a)",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_that_begin_with_rows_in_another_order(name: str) -> None:
    f = nap.compile(CHANGED.format(ROUNDS[name])).f
    wrt = ("a", "c")
    for n in (1, 4, 9):
        r = np.random.default_rng(n)
        a, c = np.eye(n) + r.random((n, n)) / (4 * n), r.random(n) + 0.5
        p = r.integers(0, n, n) if "one row" in name else r.permutation(n)
        along = [r.standard_normal(x.shape) for x in (a, c)]
        found = nap.grad(f, wrt)(a, c, p)
        slope = sum((g * d).sum() for g, d in zip(found, along, strict=True))
        _, forwards = nap.jvp(f, wrt)(a, c, p, *along)
        np.testing.assert_allclose(slope, forwards, rtol=1e-11)
        up, down = (f(a + h * along[0], c + h * along[1], p) for h in (1e-5, -1e-5))
        np.testing.assert_allclose(slope, (up - down) / 2e-5, rtol=1e-6)


def test_each_sum_is_asked_once_for_a_pole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a chain in which each line reads the one before twice, there are 2^n ways to its end."""
    asked = []
    once = Asked.leads_to_a_pole

    def counted(self: Asked, o: Operand) -> bool:
        asked.append(o)
        if len(asked) > 1000:
            raise AssertionError("each line is asked again for every way to it")
        return once(self, o)

    monkeypatch.setattr(Asked, "leads_to_a_pole", counted)
    lines = "".join(f"    v{k + 1} = v{k} + (0.5 * v{k} - t)\n" for k in range(40))
    head = "def f(x: n=>Float, t: Float) -> Float:\n    v0 = sin(t)\n"
    end = "    sum(v40 * x[i] for i)\n"
    slope = nap.grad(nap.compile(head + lines + end).f, "t")
    v, d = np.sin(0.3), np.cos(0.3)
    for _ in range(40):
        v, d = 1.5 * v - 0.3, 1.5 * d - 1.0
    np.testing.assert_allclose(slope(np.ones(3), 0.3), 3 * d, rtol=1e-12)
    assert asked


TRACES = """
def f(x: n=>Float) -> Float:
    loop y = x, s = 0.0 for _ in Fin({rounds}): ({row}, s + prod(y))
    s + sum(y)
def traced(x: n=>Float) -> Float = trace(hessian(f)(x))
def summed(x: n=>Float) -> Float = sum(sum(hessian(f)(x)))
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize(
    "row", ["[sin(y[wrap(i + 1)]) for i]", "[sin(y[wrap(2 * i + 1)]) + 0.3 * y[i] for i]"]
)
def test_gradients_of_hessians_of_loops_whose_rounds_read_in_another_order(
    row: str, rounds: int
) -> None:
    """What a loop backwards is sent from outside and by its rounds is joined in the round."""
    m = nap.compile(TRACES.format(row=row, rounds=rounds))
    x, h = np.array([0.3, 0.5, 0.9]), 1e-5
    for f in (m.traced, m.summed):
        expected = [(f(x + d) - f(x - d)) / (2 * h) for d in h * np.eye(3)]
        np.testing.assert_allclose(nap.grad(f)(x), expected, rtol=1e-6, atol=1e-8)
