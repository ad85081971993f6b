"""Gradients over cells and their neighbours: all that the two sides of a face send goes to whole
rows, in the loop that makes it."""

from __future__ import annotations

import random

import numpy as np
import pytest

import naperian as nap
from naperian import pipeline
from naperian.loops.syntax import Allocate, Stmt, Update
from naperian.loops.walk import statements
from naperian.signed import at

pytestmark = pytest.mark.usefixtures("threads")

TEXT = """
def pressure(u: Fin(4)=>Float) -> Float = 0.4 * (u[3] - 0.5 * (u[1] ** 2 + u[2] ** 2) / u[0])
def speed(u: Fin(4)=>Float) -> Float = sqrt(pressure(u) / u[0]) + sqrt(u[1] ** 2 + u[2] ** 2) / u[0]
def flux(u: Fin(4)=>Float, nx: Float, ny: Float) -> Fin(4)=>Float:
    p = pressure(u)
    v = (u[1] * nx + u[2] * ny) / u[0]
    [u[0] * v, u[1] * v + p * nx, u[2] * v + p * ny, (u[3] + p) * v]
def step(u: n=>Fin(4)=>Float, at: n=>Fin(3)=>n, normal: n=>Fin(3)=>Fin(2)=>Float) -> n=>Fin(4)=>Float:
    def one(i: n) -> Fin(4)=>Float:
        def side(q: Fin(3)) -> Fin(4)=>Float:
            other = u[at[i, q]]
            (nx, ny) = (normal[i, q, 0], normal[i, q, 1])
            f = flux(u[i], nx, ny)
            g = flux(other, nx, ny)
            s = max(speed(u[i]), speed(other)) * sqrt(nx ** 2 + ny ** 2)
            [0.5 * (f[c] + g[c]) - 0.5 * s * (other[c] - u[i, c]) for c]
        [u[i, c] - 0.1 * sum(side(q)[c] for q) for c]
    [one(i) for i]
def loss(u: n=>Fin(4)=>Float, at: n=>Fin(3)=>n, normal: n=>Fin(3)=>Fin(2)=>Float) -> Float:
    y = step(u, at, normal)
    sum(y[i, c] ** 2 for i, c)

def columns(x: n=>Fin(3)=>Float, at: m=>n, w: m=>Float) -> Float:
    sum(w[k] * x[at[k], 0] * x[at[k], 2] ** 2 + sum(x[at[k], c] ** 3 for c) for k)
def alike(x: n=>Fin(3)=>Float, at: m=>n, w: m=>Float) -> Float =
    sum(x[at[k], 1] * sum(x[at[k], c] * w[k] for c) + x[at[k], 2] for k)
def few(x: n=>Fin(8)=>Float, at: m=>n) -> Float = sum(x[at[k], 1] * x[at[k], 6] for k)
"""  # noqa: E501


@pytest.fixture(scope="module")
def m() -> nap.Module:
    return nap.compile(TEXT)


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 200])
def test_cells(m: nap.Module, n: int) -> None:
    rng = np.random.default_rng(n)
    u, way = rng.uniform(1, 2, (n, 4)), rng.standard_normal((n, 4))
    u[:, 3] += 5
    to, normal = rng.integers(0, n, (n, 3)), rng.standard_normal((n, 3, 2))
    slope = nap.grad(m.loss)
    there, back = (m.loss(u + h * way, to, normal) for h in (1e-6, -1e-6))
    found = float((slope(u, to, normal) * way).sum())
    assert found == pytest.approx((there - back) / 2e-6, rel=1e-6, abs=1e-7)
    if n:
        to[n // 2, 1] = n
        with pytest.raises(Exception, match="at"):
            slope(u, to, normal)


def made(f: nap.Function) -> list[Stmt]:
    module = f._program.core()
    program = pipeline.lower(module, f.__name__, at(module.definitions[f.__name__], f._usual()))
    return list(statements(program.body))


def test_what_cells_and_faces_share_is_not_stored_for_all(m: nap.Module) -> None:
    found = made(nap.grad(m.loss))
    tables = [s for s in found if isinstance(s, Allocate)]
    assert not [s for s in tables if s.buffer.shape and s.buffer.shape[0].constant is None]
    # a cell and its three neighbours, each with four columns
    assert len([s for s in found if isinstance(s, Update)]) == 16


def test_every_derivative_of_a_step(m: nap.Module) -> None:
    rng = np.random.default_rng(5)
    u, way = rng.uniform(1, 2, (3, 4)), rng.standard_normal((3, 4))
    u[:, 3] += 5
    to, normal = rng.integers(0, 3, (3, 3)), rng.standard_normal((3, 3, 2))
    whole = nap.jacobian(m.step)(u, to, normal)
    _, along = nap.jvp(m.step)(u, to, normal, way)
    np.testing.assert_allclose(np.einsum("icjd,jd->ic", whole, way), along, rtol=1e-9, atol=1e-9)


def test_columns_that_nothing_is_sent_to(m: nap.Module) -> None:
    assert len([s for s in made(nap.grad(m.columns)) if isinstance(s, Update)]) == 3
    assert len([s for s in made(nap.grad(m.few)) if isinstance(s, Update)]) == 2 * 9


@pytest.mark.parametrize(("n", "k"), [(1, 5), (4, 0), (7, 30)])
def test_columns(m: nap.Module, n: int, k: int) -> None:
    rng = np.random.default_rng(k)
    x, to, w = rng.standard_normal((n, 3)), rng.integers(0, n, k), rng.standard_normal(k)
    dx = np.zeros_like(x)
    for t, j in enumerate(to):
        dx[j] += 3 * x[j] ** 2
        dx[j, 0] += w[t] * x[j, 2] ** 2
        dx[j, 2] += 2 * w[t] * x[j, 0] * x[j, 2]
    np.testing.assert_allclose(nap.grad(m.columns)(x, to, w), dx, rtol=1e-12, atol=1e-12)
    dx[:] = 0.0
    for t, j in enumerate(to):  # what all columns get is the same, and one gets a number
        dx[j] += x[j, 1] * w[t]
        dx[j, 2] += 1.0
        dx[j, 1] += x[j].sum() * w[t]
    np.testing.assert_allclose(nap.grad(m.alike)(x, to, w), dx, rtol=1e-12, atol=1e-12)
    y = rng.standard_normal((n, 8))
    dy = np.zeros_like(y)
    np.add.at(dy, (to, 1), y[to, 6])
    np.add.at(dy, (to, 6), y[to, 1])
    np.testing.assert_allclose(nap.grad(m.few)(y, to), dy, rtol=1e-12, atol=1e-12)


def sent(seed: int) -> tuple[str, int]:
    """A program that reads rows at places that data name, whole and by columns; their width."""
    r = random.Random(seed)
    k = r.choice([1, 2, 3, 4, 8])

    def value(deep: int, q: object) -> str:
        if deep == 0:
            c = r.randrange(k)
            other = r.choice(["x[i, c]", "w[i]", "x[at[i], c]"])
            return r.choice([
                f"x[i, {c}]", f"x[at[i], {c}]", f"x[to[i, {q}], {c}]", "w[i]",
                f"sum(x[at[i], c] * {other} for c)",
            ])  # fmt: skip
        a, b = value(deep - 1, q), value(r.randrange(deep), q)
        return r.choice([
            f"({a} + {b})", f"({a} * {b})", f"sin({a})", f"max({a}, {b})",
            f"({a} if {b} > 0.1 else {value(0, q)})",
        ])  # fmt: skip

    head = f"def f(x: n=>Fin({k})=>Float, at: n=>n, to: n=>Fin(2)=>n, w: n=>Float) -> Float"
    match seed % 3:
        case 0:
            return f"{head} = sum({value(3, 0)} for i{r.choice(['', ' if w[i] > 0.0'])})", k
        case 1:
            a, b = value(2, "q"), value(2, "q")
            return f"{head} = sum(sum({a} * {b} for q in Fin(2)) for i)", k
        case _:
            a, b = value(3, 0), value(2, 1)
            y = f"[{a} * x[i, k] + {b} * x[at[i], k] for i, k in Fin({k})]"
            return f"{head}:\n    y = {y}\n    sum(y[i, k] ** 2 for i, k)", k


def one_way_and_the_other(seed: int) -> None:
    text, k = sent(seed)
    f = nap.compile(text).f
    for n in (1, 3, 9):
        rng = np.random.default_rng(seed + n)
        (x, way), w = rng.standard_normal((2, n, k)), rng.standard_normal(n)
        given = x, rng.integers(0, n, n), rng.integers(0, n, (n, 2)), w
        _, along = nap.jvp(f)(*given, way)
        np.testing.assert_allclose((nap.grad(f)(*given) * way).sum(), along, 1e-9, 1e-9, text)


@pytest.mark.parametrize("seed", range(6))
def test_forward_and_reverse(seed: int) -> None:
    one_way_and_the_other(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6, 120))
def test_forward_and_reverse_for_more(seed: int) -> None:
    one_way_and_the_other(seed)
