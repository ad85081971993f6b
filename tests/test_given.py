"""How far away a place is may be read in a table of given numbers: each is written out."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import naperian as nap

TEXT = """\
def line(x: Fin(n)=>Float) -> Fin(n)=>Float:
    c = [-1, 0, 2, 1, -2]
    for i:
        here = [x[wrap(i - c[q])] for q]
        sum(here) * sum(h * h for h in here)

def ends(x: Fin(n)=>Float) -> Fin(n)=>Float:
    c = [-1, 0, 2, 1, -2]
    for i:
        here = [x[clamp(i - c[q])] for q]
        sum(here) * sum(h * h for h in here)

def speeds() -> Fin(9)=>Fin(2)=>Int =
    [[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]]

def around(x: Fin(h)=>Fin(w)=>Float) -> Fin(h)=>Fin(w)=>Float:
    c = speeds()
    [sum(x[wrap(i - c[q, 0]), wrap(j - c[q, 1])] * (1.0 if q < 4 else 2.0) for q) for i, j]

def streamed(g: Fin(h)=>Fin(w)=>Fin(9)=>Float, steps: Int) -> Fin(h)=>Fin(w)=>Fin(9)=>Float:
    c = speeds()
    loop g = g for _ in Fin(steps):
        for i, j:
            here = [g[wrap(i - c[q, 0]), wrap(j - c[q, 1]), q] for q]
            rho = sum(here)
            u = [sum(here[q] * c[q, a] for q) for a]
            [here[q] + 0.1 * (rho * rho + sum(u[a] * c[q, a] for a) - here[q]) for q]

def back(q: Fin(5)) -> Fin(5) = clamp(q if q == 0 else q + 1 if q % 2 == 1 else q - 1)

def thrown(g: Fin(n)=>Fin(5)=>Float, wall: Fin(n)=>Bool) -> Fin(n)=>Fin(5)=>Float:
    c = [0, 1, -1, 2, -2]
    [g[i, back(q)] if wall[wrap(i - c[q])] else g[wrap(i - c[q]), q] for i, q]

def chosen(x: Fin(n)=>Float, y: Fin(n)=>Float) -> Fin(n)=>Float:
    [x[clamp(i + (1 if y[i] > 0.0 else -1))] for i]

def many(x: Fin(n)=>Float) -> Fin(n)=>Float:
    c = [k * k - 7 * k for k in Fin(40)]
    [sum(x[wrap(i - c[q])] for q) for i]

def of(x: Fin(n)=>Float) -> Float = sum(v ** 2 for v in line(x))
def of_ends(x: Fin(n)=>Float) -> Float = sum(v ** 2 for v in ends(x))
def of_around(x: Fin(h)=>Fin(w)=>Float) -> Float = sum(v ** 2 for r in around(x), v in r)
def of_streamed(g: Fin(h)=>Fin(w)=>Fin(9)=>Float, steps: Int) -> Float =
    sum(v ** 2 for a in streamed(g, steps), b in a, v in b)
"""

SHAPES = [(0, 3), (1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (2, 40), (5, 17)]
FAR = [-1, 0, 2, 1, -2]


@pytest.fixture(scope="module")
def m() -> Any:
    return nap.compile(TEXT)


def speeds() -> np.ndarray:
    diagonal = [(1, 1), (-1, 1), (-1, -1), (1, -1)]
    return np.array([(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), *diagonal])


def gathered(x: np.ndarray, *, wraps: bool) -> np.ndarray:
    i = np.arange(len(x))[:, None] - FAR
    at = i % len(x) if wraps else np.clip(i, 0, len(x) - 1)
    return x[at].sum(axis=1) * (x[at] ** 2).sum(axis=1)



@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 40])
def test_a_line(m: Any, n: int) -> None:
    x = np.random.default_rng(0).standard_normal(n)
    if n:
        np.testing.assert_allclose(m.line(x), gathered(x, wraps=True), rtol=1e-12)
        np.testing.assert_allclose(m.ends(x), gathered(x, wraps=False), rtol=1e-12)
    else:
        assert m.line(x).shape == m.ends(x).shape == (0,)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("shape", SHAPES)
def test_neighbours_all_around(m: Any, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(1).standard_normal(shape)
    weight = [1.0 if q < 4 else 2.0 for q in range(9)]
    parts = (np.roll(x, c, (0, 1)) for c in speeds())
    wanted = sum((w * p for w, p in zip(weight, parts, strict=True)), np.zeros(shape))
    np.testing.assert_allclose(m.around(x), wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_populations_that_stream(m: Any, shape: tuple[int, int], steps: int) -> None:
    first = 0.1 * np.random.default_rng(2).standard_normal((*shape, 9))
    c, g = speeds(), first
    for _ in range(steps):
        here = np.stack([np.roll(g[..., q], c[q], (0, 1)) for q in range(9)], axis=-1)
        rho, u = here.sum(axis=-1, keepdims=True), here @ c
        g = here + 0.1 * (rho * rho + u @ c.T - here)
    np.testing.assert_allclose(m.streamed(first, steps), g, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_a_component_that_a_table_names(m: Any, n: int) -> None:
    rng = np.random.default_rng(3)
    g, wall = rng.standard_normal((n, 5)), rng.integers(0, 2, n).astype(bool)
    from_ = (np.arange(n)[:, None] - [0, 1, -1, 2, -2]) % n
    wanted = np.where(wall[from_], g[:, [0, 2, 1, 4, 3]], g[from_, range(5)])
    np.testing.assert_array_equal(m.thrown(g, wall), wanted)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_what_data_choose_is_found_as_it_was(m: Any, n: int) -> None:
    x, y = np.random.default_rng(4).standard_normal((2, n))
    at = np.clip(np.arange(n) + np.where(y > 0, 1, -1), 0, n - 1)
    np.testing.assert_array_equal(m.chosen(x, y), x[at])
    k = np.arange(40)
    wanted = x[(np.arange(n)[:, None] - (k * k - 7 * k)) % n].sum(axis=1)
    np.testing.assert_allclose(m.many(x), wanted, rtol=1e-12)


def test_between_the_borders_nothing_is_divided(m: Any) -> None:
    for f in (m.line, m.ends):
        text = f.show("loops")
        assert "select" not in text
        assert "x[i - 2]" in text
    for f in (m.around, m.streamed, nap.grad(m.of_around)):
        text = f.show("loops")
        assert ", j + 1]" in text or re.search(r", i_\d+ \+ 1\]", text), text
        assert "==" not in text


@pytest.mark.parametrize("n", [1, 2, 3, 12])
def test_derivatives_of_a_line(m: Any, n: int) -> None:
    x, d = np.random.default_rng(5).standard_normal((2, n))
    for f in (m.of, m.of_ends):
        slope, h = np.vdot(nap.grad(f)(x), d), 1e-6
        assert np.isclose(slope, (f(x + h * d) - f(x - h * d)) / (2 * h), rtol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (2, 2), (3, 11)])
def test_derivatives_all_around(m: Any, shape: tuple[int, int]) -> None:
    x, d = np.random.default_rng(6).standard_normal((2, *shape))
    slope = np.vdot(nap.grad(m.of_around)(x), d)
    assert np.isclose(slope, 2 * np.vdot(m.around(x), m.around(d)), rtol=1e-10)
    g, d = 0.1 * np.random.default_rng(7).standard_normal((2, *shape, 9))
    slope, h = np.vdot(nap.grad(m.of_streamed, "g")(g, 3), d), 1e-6
    wanted = (m.of_streamed(g + h * d, 3) - m.of_streamed(g - h * d, 3)) / (2 * h)
    assert np.isclose(slope, wanted, rtol=1e-6)
