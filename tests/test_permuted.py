"""Gradients of what is read at places that a written list of numbers gives."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

TEXT = """
def turned(x: n=>Fin(5)=>Float) -> Float:
    next: Fin(5)=>Fin(5) = [3, 0, 4, 2, 1]
    sum(sin(x[i, next[q]] * x[i, q]) * (1.0 + Float(q)) for i, q)

def twice(x: n=>Fin(5)=>Float) -> Float:
    next: Fin(5)=>Fin(5) = [3, 0, 4, 2, 1]
    sum(x[i, next[next[q]]] * x[i, q] ** 2 for i, q)

def both(x: Fin(5)=>Fin(3)=>Float) -> Float:
    next: Fin(5)=>Fin(5) = [3, 0, 4, 2, 1]
    other: Fin(3)=>Fin(3) = [0, 2, 1]
    sum(x[next[q], other[r]] * exp(x[q, r]) for q, r)

def long(x: n=>Fin(19)=>Float) -> Float:
    next: Fin(19)=>Fin(19) = [3, 0, 4, 2, 1, 6, 7, 5, 18, 17, 16, 15, 8, 9, 10, 11, 12, 13, 14]
    sum(sum(x[i, next[q]] * x[i, q] ** 2 for q) ** 2 for i)

def moved(x: Fin(n)=>Fin(7)=>Float) -> Float where n >= 1:
    opposite: Fin(7)=>Fin(7) = [0, 2, 1, 4, 3, 6, 5]
    by = [0, 1, -1, 2, -2, 3, -3]
    sum(x[wrap(i - by[opposite[q]]), opposite[q]] * x[i, q] ** 2 for i, q)

def walls(x: n=>Fin(4)=>Float, solid: n=>Bool, steps: Int) -> Float:
    opposite: Fin(4)=>Fin(4) = [1, 0, 3, 2]
    last = loop x = x for _ in Fin(steps):
        [[x[i, opposite[q]] if solid[i] else 0.5 * x[i, q] + 0.1 * sum(x[i]) for q] for i]
    sum(last[i, q] ** 2 for i, q)

def again(x: n=>Fin(3)=>Float) -> Float:
    some: Fin(3)=>Fin(3) = [1, 0, 1]
    sum(x[i, some[q]] * x[i, q] ** 2 for i, q)

def few(x: n=>Fin(5)=>Float) -> Float:
    some: Fin(3)=>Fin(5) = [4, 0, 2]
    sum(x[i, some[q]] ** 3 for i, q)

def picked(x: n=>Fin(3)=>Float, at: n=>Fin(3)) -> Float:
    other: Fin(3)=>Fin(3) = [2, 0, 1]
    sum(x[i, other[at[i]]] ** 3 for i)

def rows(x: Fin(4)=>Fin(4)=>Float) -> Float:
    other: Fin(4)=>Fin(4) = [2, 0, 3, 1]
    sum(x[other[q], r] ** 2 * x[r, q] for q, r in ..=q)
"""


@pytest.fixture(scope="module")
def m() -> nap.Module:
    return nap.compile(TEXT)


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(0.5, 1.5, shape)


ARGUMENTS = {
    "turned": (drawn(6, 5),), "twice": (drawn(6, 5),), "both": (drawn(5, 3),),
    "long": (drawn(6, 19),), "moved": (drawn(9, 7),), "walls": (drawn(9, 4), drawn(9) < 0.9, 4),
    "again": (drawn(6, 3),), "few": (drawn(6, 5),), "rows": (drawn(4, 4),),
    "picked": (drawn(6, 3), np.array([0, 2, 1, 1, 0, 2])),
}  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_gradients_go_along(m: nap.Module, name: str) -> None:
    """The gradient along any way is the tangent of that way."""
    f, args = getattr(m, name), ARGUMENTS[name]
    way = np.random.default_rng(1).standard_normal(args[0].shape)
    _, along = nap.jvp(f, "x")(*args, way)
    assert np.isclose(np.sum(nap.grad(f, "x")(*args) * way), along, rtol=1e-12)


@pytest.mark.parametrize("name", ["long", "walls"])
def test_what_a_permutation_sends_is_read(m: nap.Module, name: str) -> None:
    text = nap.grad(getattr(m, name), "x").show("loops")
    assert "update " not in text, text
