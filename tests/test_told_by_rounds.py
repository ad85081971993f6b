"""Derivatives of what is computed for each of some rows, of which a round of the loop around tells
how many they are or how long: recurrences, orders, rules of one's own, tables that are changed."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

ROWS = {
    "as many as rounds": "..=t",
    "as data say": "x[t]..",
    "as are kept": "[i for i in Fin(n) if y[i] > s]",
}
CELLS = {
    "fold": "fold(lambda p, e: sin(p) * e, s, y[i..])",
    "scan": "sum(scan(lambda p, e: 0.5 * p + sin(e * s), 0.1, y[i..]))",
    "sums": "sum(sin(cumsum(y[i..] * s)))",
    "order": "sum(sort(y[i..] * s) * y[i..])",
    "rule": "sum(soft([v * s for v in y[i..]]))",
    "best": "max(y[i..])",
    "kept": "sum(cumsum([v * s for v in y[i..] if v > s]))",
    "loops": "sum(fold(lambda p, e: sin(p) * e, s, y[j..]) for j in i..)",
    "table": """
            loop z = y[i..] for j in Fin(2): [z[l] * s + sin(z[clamp(l + 1)]) for l]
            sum(z)""",
    "while": """
            loop z = s, k = 0 while k < 2 + i and z < 3.0: (z * 1.2 + y[i], k + 1)
            z""",
    "elements": """
            z = with state(y[i..]) as q:
                for j in Fin(2), _ in i..: q[clamp(j, Fin(n - i))] *= s
            sum(z)""",
}
TEXT = """
@custom_vjp(rule)
def soft(x: q=>Float) -> q=>Float = [sin(v) for v in x]
def rule(x: q=>Float, dy: q=>Float) -> q=>Float = [cos(x[i]) * dy[i] for i]

def f(y: Fin(n)=>Float, x: Fin(n)=>Fin(n)) -> Float:
    loop s = 0.1 for t in Fin(n):
        w = for i in {}: {}
        0.5 * tanh(sum(w)) + 0.2 * s
    s
"""


@pytest.mark.sampled(11)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("rows", ROWS)
def test_derivatives(rows: str, cell: str) -> None:
    f = nap.compile(TEXT.format(ROWS[rows], CELLS[cell])).f
    checked = nap.check(f, cases=5)
    assert checked, repr(checked)
    assert checked.differences
    y, x = np.linspace(0.1, 1.0, 6), np.array([0, 3, 2, 5, 1, 4])
    less = nap.grad(f, memory=2000)(y, x)
    np.testing.assert_allclose(less, nap.grad(f)(y, x), rtol=1e-12, atol=1e-14)
