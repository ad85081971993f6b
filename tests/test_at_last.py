"""What a loop backwards reads of a table that was filled element after element is read as it is in
the end: nothing is changed back, and the values are those of the rounds."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap

TEXT = """
def solved(a: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Fin(n)=>Float:
    loop x = b for i in Fin(n):
        s = (x[i] - sum(a[i, j] * x[j] for j in 0..i)) / a[i, i]
        [s if k == i else x[k] for k]
def forwards(a: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Float = sum(v * v for v in solved(a, b))

def of_functions(a: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Float:
    y = with state(b) as x:
        for i in Fin(n):
            x[i] := x[i] / a[i, i] - sum(a[i, j] * sin(x[j]) for j in Fin(n) if j < i)
    sum(v * v for v in y)

def from_the_end(a: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Float:
    y = with state(b) as x:
        for p in Fin(n):
            i = n - 1 - p
            for j in i + 1..n: x[i] -= a[i, j] * x[j] ** 2
            x[i] := x[i] / a[i, i]
    sum(v * v for v in y)

def and_back(a: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Float:
    y = with state(b) as x:
        for i in Fin(n): x[i] := x[i] + sum(a[i, j] * x[j] ** 2 for j in 0..i)
        for i in Fin(n): x[i] := x[i] * 0.5 + sum(a[j, i] * x[j] ** 2 for j in 0..i)
    sum(v * v for v in y)

def of_two(a: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Float:
    y = with state(a) as m:
        for i in Fin(n):
            for j in 0..i:
                m[i, j] := (m[i, j] - sum(m[i, k] * m[k, j] for k in 0..j)) / m[j, j]
            for j in i..n:
                m[i, j] -= sum(m[i, k] * m[k, j] for k in 0..i)
    sum(y[i, j] * b[i] * b[j] for i, j)

def of_neighbours(a: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Float:
    y = with state(zeros(n, n)) as c:
        for i in 1..n:
            for j in 1..n:
                low = min(c[i - 1, j - 1], b[j])
                c[i, j] := c[i - 1, j] * a[i, j] + sin(c[i, j - 1] + b[i]) - low
    sum(y[i, j] * b[i] * b[j] for i, j)

# All elements are read, and some are changed later.
def of_all(a: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Float:
    y = with state(b) as x:
        for i in Fin(n): x[i] := sum(a[i, j] * sin(x[j]) for j in Fin(n)) / a[i, i]
    sum(v * v for v in y)

# The element of the round is what it was before and what it becomes.
def of_its_own(a: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Float:
    loop x = b for k in Fin(n):
        r = sum(a[k, j] * x[j] for j in 0..k)
        [x[i] + r * x[k] if i == k else x[i] for i]
    sum(v * v for v in x)

def in_sweeps(a: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Float:
    y = with state(b) as x:
        for t in Fin(3):
            for i in Fin(n): x[i] := 0.3 * x[i] + sum(a[i, j] * sin(x[j]) for j in 0..i)
    sum(v * v for v in y)

def many(a: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Float =
    sum(from_the_end([[a[i, j] + a[p, p] if i == j else a[i, j] for j] for i], b) for p)

# A loop around it changes what it is made of by its derivative.
def descended(a: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Float:
    loop c = b for t in Fin(3): c - 0.1 * grad(lambda v: forwards(a, v))(c)
    sum(v * v for v in c)
"""

NAMES = [
    "forwards", "of_functions", "from_the_end", "and_back", "of_two", "of_neighbours", "of_all",
    "of_its_own", "in_sweeps", "many", "descended",
]  # fmt: skip


@pytest.fixture(scope="module")
def module() -> nap.Module:
    return nap.compile(TEXT)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_the_slopes(module: nap.Module, name: str) -> None:
    f = module[name]
    slope, second = nap.grad(f, ("a", "b")), nap.hessian(f, "b")
    for n in (0, 1, 2, 5):
        r = np.random.default_rng(n)
        a, b = r.normal(size=(n, n)) / 3 + 2 * np.eye(n), r.normal(size=n)
        da, db = r.normal(size=(n, n)), r.normal(size=n)
        ga, gb = slope(a, b)
        up, down = (f(a + s * da, b + s * db) for s in (1e-6, -1e-6))
        along = np.sum(ga * da) + np.sum(gb * db)
        np.testing.assert_allclose(along, (up - down) / 2e-6, rtol=1e-6, atol=1e-6)
        up, down = (slope(a, b + s * db)[1] for s in (1e-6, -1e-6))
        np.testing.assert_allclose(second(a, b) @ db, (up - down) / 2e-6, rtol=1e-5, atol=1e-5)


def test_nothing_is_changed_back(module: nap.Module) -> None:
    """No table of all rounds is kept, and the slope by the matrix is a loop of vectors."""
    for name in ("forwards", "descended"):
        text = nap.grad(module[name], "b").show("loops").split("# notes")[0]
        assert "n * n" not in text, text
    text = nap.grad(module.forwards, "a").show("loops").split("# notes")[0]
    assert "(n * n - n) // 2" not in text, text
    product = r"free for (\w+) in 0\.\.cut:\n +store out\[\w+, \1\] = .+ \* x\[\1\]"
    assert re.search(product, text), text
