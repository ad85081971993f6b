"""What is added to every element of zeros once, by steps, is stored in one loop."""

import numpy as np
import pytest

import naperian as nap
from naperian import pipeline
from naperian.loops.syntax import Update
from naperian.loops.walk import statements
from naperian.signed import at

TEXT = """
def pairs(x: Fin(2 * n)=>Float) -> Float = sum(sqrt(x[2 * i] ** 2 + x[2 * i + 1]) for i in Fin(n))
def triples(x: Fin(3 * n)=>Float) -> Float:
    sum(x[3 * i] * x[3 * i + 1] * sin(x[3 * i + 2]) for i in Fin(n))
def pooled(x: Fin(2 * h)=>Fin(2 * w)=>Float, y: Fin(h)=>Fin(w)=>Float) -> Float:
    z = [[max(max(x[2 * i, 2 * j], x[2 * i, 2 * j + 1]),
              max(x[2 * i + 1, 2 * j], x[2 * i + 1, 2 * j + 1])) for j in Fin(w)] for i in Fin(h)]
    sum(z[i, j] ** 2 * y[i, j] for i, j)
def rows(x: c=>Fin(2 * n)=>Float) -> Float:
    sum(exp(x[a, 2 * i]) * x[a, 2 * i + 1] for a, i in Fin(n))
def halves(x: Fin(2 * n)=>Float) -> Float = sum(sin(x[2 * i + 1]) for i in Fin(n))
def twice(x: Fin(2 * n)=>Float) -> Float:
    sum(sqrt(x[2 * i]) * x[2 * i + 1] for i in Fin(n)) + sum(cos(x[2 * i]) for i in Fin(n))
def longer(x: Fin(2 * n + 1)=>Float) -> Float = sum(sqrt(x[2 * i]) * x[2 * i + 1] for i in Fin(n))
def beyond(x: Fin(2 * n + 2)=>Float) -> Float = sum(sqrt(x[2 * i]) * x[2 * i + 3] for i in Fin(n))
def turned(x: Fin(2 * n)=>Float) -> Float:
    sum(sqrt(x[2 * i]) * x[2 * n - 1 - 2 * i] for i in Fin(n))
"""
STORED = ("pairs", "triples", "pooled", "rows")
ALL = (*STORED, "halves", "twice", "longer", "beyond", "turned")


@pytest.fixture(scope="module")
def m() -> nap.Module:
    return nap.compile(TEXT)


def given(name: str, n: int) -> list[np.ndarray]:
    r = np.random.default_rng(n)
    shapes = {
        "triples": [(3 * n,)], "pooled": [(2 * n, 2 * n + 4), (n, n + 2)], "rows": [(3, 2 * n)],
        "longer": [(2 * n + 1,)], "beyond": [(2 * n + 2,)],
    }  # fmt: skip
    return [0.5 + r.random(s) for s in shapes.get(name, [(2 * n,)])]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("n", [1, 2, 7, 33])
def test_the_gradient_is_that_of_differences(m: nap.Module, name: str, n: int) -> None:
    f, args = getattr(m, name), given(name, n)
    slope = np.asarray(nap.grad(f, "x")(*args))
    r = np.random.default_rng(0)
    for _ in range(4):
        d = r.normal(size=args[0].shape)
        up, down = (f(args[0] + e * d, *args[1:]) for e in (1e-6, -1e-6))
        np.testing.assert_allclose((slope * d).sum(), (up - down) / 2e-6, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("name", STORED)
def test_nothing_is_added(m: nap.Module, name: str) -> None:
    slope = nap.grad(getattr(m, name), "x")
    module = slope._program.core()
    chosen = at(module.definitions[slope.__name__], slope._usual())
    program = pipeline.lower(module, slope.__name__, chosen)
    assert not any(isinstance(s, Update) for s in statements(program.body))
