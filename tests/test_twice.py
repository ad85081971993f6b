"""What is stored in two arrays is read from the one that stays."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap
from naperian.dtypes import DType
from naperian.loops.syntax import Apply, Assign, Load, Local, Store
from naperian.names import Lit, Var
from naperian.passes.nests.twice import _pairs
from naperian.sizes import size

TEXT = """
def light(ez: Fin(n)=>Fin(m)=>Float, t: Int) -> Fin(n)=>Fin(m)=>Float:
    none = [[0.0 for _ in Fin(m)] for _ in Fin(n)]
    loop ez = ez, hx = none, hy = none for _ in Fin(t):
        x = [[hx[i, j] - 0.5 * (ez[i, j + 1] - ez[i, j]) if j < m - 1 else hx[i, j] for j] for i in Fin(n)]
        y = [[hy[i, j] + 0.5 * (ez[i + 1, j] - ez[i, j]) if i < n - 1 else hy[i, j] for j] for i in Fin(n)]
        z = [[ez[i, j] + 0.5 * (y[i, j] - y[i - 1, j] - x[i, j] + x[i, j - 1]) if i > 0 and j > 0 else ez[i, j]
              for j in Fin(m)] for i in Fin(n)]
        (z, x, y)
    ez

def chain(q: n=>Float, t: Int) -> (n=>Float, n=>Float):
    loop q = q, p = [0.0 for _ in n] for _ in Fin(t):
        new = [p[i] - 0.1 * (q[i] - q[wrap(i + 1)]) for i]
        ([q[i] + 0.1 * (new[i] - new[wrap(i - 1)]) for i], new)

def kept(e: Fin(n)=>Fin(m)=>Float, h: Fin(n)=>Fin(m)=>Float, t: Int):
    loop e = e, h = h for _ in Fin(t):
        x = [e[i, j] - 0.5 * (h[i, j] - h[i, clamp(j - 1)]) if j > 0 else e[i, j] for i, j]
        (x, [h[i, j] - 0.7 * (x[clamp(i + 1), j] - x[i, j]) if i < n - 1 else h[i, j] for i, j])

def energy(q: n=>Float) -> Float:
    (a, b) = chain(q, 5)
    sum(a * a) + sum(b * b)

def slope(q: n=>Float) -> n=>Float = grad(energy)(q)
"""  # noqa: E501


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("n", [0, 1, 2, 7, 40])
@pytest.mark.parametrize("k", [0, 1, 3, 33])
def test_fields(m, n: int, k: int) -> None:
    ez = np.random.default_rng(n).normal(size=(n, k))
    want, hx, hy = ez.copy(), np.zeros((n, k)), np.zeros((n, k))
    for _ in range(4):
        hx[:, :-1] -= 0.5 * (want[:, 1:] - want[:, :-1])
        hy[:-1] += 0.5 * (want[1:] - want[:-1])
        want[1:, 1:] += 0.5 * (hy[1:, 1:] - hy[:-1, 1:] - hx[1:, 1:] + hx[1:, :-1])
    assert np.allclose(m.light(ez, 4), want, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("n", [0, 1, 7])
@pytest.mark.parametrize("k", [0, 1, 2, 33])
def test_a_border_that_stays_is_there_already(m, n: int, k: int) -> None:
    e, h = np.random.default_rng(n).normal(size=(2, n, k))
    x, y = e.copy(), h.copy()
    for _ in range(3):
        x[:, 1:] -= 0.5 * (y[:, 1:] - y[:, :-1])
        y[:-1] -= 0.7 * (x[1:] - x[:-1])
    for got, want in zip(m.kept(e, h, 3), (x, y), strict=True):
        assert np.allclose(got, want, rtol=1e-12, atol=1e-12)
    assert "allocate" not in m.kept.show("loops")


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("n", [1, 2, 100, 5000])
def test_chain(m, n: int) -> None:
    q = np.random.default_rng(n).normal(size=n)
    a, b = q.copy(), np.zeros(n)
    for _ in range(5):
        b = b - 0.1 * (a - np.roll(a, -1))
        a = a + 0.1 * (b - np.roll(b, 1))
    one, two = m.chain(q, 5)
    assert np.allclose(one, a, rtol=1e-12)
    assert np.allclose(two, b, rtol=1e-12)
    direction = np.cos(np.arange(n))
    h = 1e-6
    want = (m.energy(q + h * direction) - m.energy(q - h * direction)) / (2 * h)
    assert np.isclose(m.slope(q) @ direction, want, rtol=1e-6)


def test_the_same_text_is_another_number_once_it_is_stored() -> None:
    """What is read, or a variable, may have changed between two stores that are written alike."""
    i, v, h, t = Var("i"), Var("v"), Var("h"), Var("t")
    at = (size(i),)
    more = Apply("add", (Load(h, at), Lit(1.0, DType.F64)), DType.F64, DType.F64)
    first, second = Store(h, at, more), Store(v, at, more)
    assert not [*_pairs((first, second), v, 1)]
    assert [*_pairs((second, first), v, 1)] == [(second, (h, ()), True)]
    first, second = (Store(x, at, Local(t)) for x in (h, v))
    changed = Assign(t, Lit(2.0, DType.F64))
    assert not [*_pairs((first, changed, second), v, 1)]
    assert [*_pairs((first, second, changed), v, 1)] == [(second, (h, ()), True)]


def test_no_second_array(m) -> None:
    shown = m.light.show("loops")
    assert shown.count("allocate") == 3
    assert shown.count("store hx[i") == 3
