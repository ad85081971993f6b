"""Of a table of which all read a diagonal, or a column, only that is made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import naperian as nap

pytestmark = pytest.mark.usefixtures("threads")

TEXT = """
def traced(a: n=>n=>Float) -> Float = trace(tanh(a))
def squared(a: n=>n=>Float, b: n=>n=>Float) -> Float:
    p = a @ b
    sum(p[i, i] * p[i, i] for i)
def first(a: Fin(n)=>Fin(m)=>Float) -> Float where m >= 1:
    b = exp(tanh(a))
    sum(b[i, 0] for i)
def last(a: Fin(n)=>Fin(m + 1)=>Float) -> Float:
    b = tanh(a)
    sum(b[i, m] * b[i, m] for i)
def either(a: n=>n=>Float, c: n=>n=>Bool) -> Float:
    b = [sqrt(a[i, j]) if c[i, j] else tanh(a[i, j]) for i, j]
    sum(b[i, i] ** 3 for i)

def both(a: n=>n=>Float) -> Float:
    b = tanh(a)
    sum(b[i, i] for i) * sum(sum(b))
def one_each(a: Fin(n)=>Fin(n)=>Float) -> Float:
    b = tanh(a)
    sum(b[i, n - i - 1] for i)
"""


@pytest.fixture(scope="module")
def m() -> Any:
    return nap.compile(TEXT)


WANTED = {
    "traced": lambda a: np.tanh(np.diag(a)).sum(),
    "squared": lambda a, b: (np.diag(a @ b) ** 2).sum(),
    "first": lambda a: np.exp(np.tanh(a[:, 0])).sum(),
    "last": lambda a: (np.tanh(a[:, -1]) ** 2).sum(),
    "either": lambda a, c: (np.where(c, np.sqrt(a), np.tanh(a)).diagonal() ** 3).sum(),
    "both": lambda a: np.tanh(np.diag(a)).sum() * np.tanh(a).sum(),
    "one_each": lambda a: np.tanh(np.diag(a[:, ::-1])).sum(),
}


@pytest.mark.parametrize("name", WANTED)
@pytest.mark.parametrize("n", [0, 1, 2, 19])
def test_what_is_read_is_as_it_was(m: Any, name: str, n: int) -> None:
    if name in ("first", "last") and n == 0:
        return
    f, r = m[name], np.random.default_rng(n)
    a, d = r.uniform(0.5, 1.5, (n, n)), r.normal(size=(n, n))
    more = {"squared": (r.normal(size=(n, n)),), "either": (r.random((n, n)) < 0.5,)}.get(name, ())
    np.testing.assert_allclose(f(a, *more), WANTED[name](a, *more), rtol=1e-12)
    want = (f(a + 1e-6 * d, *more) - f(a - 1e-6 * d, *more)) / 2e-6
    np.testing.assert_allclose(np.sum(nap.grad(f)(a, *more) * d), want, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["traced", "squared", "first", "last", "either"])
def test_only_what_is_read_is_made(m: Any, name: str) -> None:
    """No temporary of a gradient is a matrix, and no function is in a loop inside another."""
    text = nap.grad(m[name]).show("loops").split("# notes")[0]
    assert not [line for line in text.splitlines() if "allocate" in line and ", " in line]
    inner = [line for line in text.splitlines() if line.startswith(" " * 12)]
    assert not any(f in line for line in inner for f in ("tanh", "exp", "sqrt"))
