"""A loop along a row in place is a vector loop where what it reads lies in other rows."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap

M = nap.compile("""
def seam(e: Fin(h)=>Fin(w)=>Float) -> Fin(h)=>Fin(w)=>Float where h >= 1, w >= 1:
    with state(e) as c:
        for i in 1..h:
            for j in Fin(w):
                least = min(c[i - 1, clamp(j - 1)], c[i - 1, clamp(j + 2)])
                c[i, j] := e[i, j] + min(c[i - 1, j], least)

def upwards(e: Fin(h)=>Fin(w)=>Float) -> Fin(h)=>Fin(w)=>Float where w >= 1:
    with state(e) as c:
        for k in Fin(h - 1):
            for j in Fin(w):
                c[h - 2 - k, j] += 0.5 * c[h - 1 - k, clamp(j - 3)]

def along(e: Fin(h)=>Fin(w)=>Float) -> Fin(h)=>Fin(w)=>Float where h >= 1, w >= 1:
    with state(e) as c:
        for i in 1..h:
            for j in Fin(w):
                c[i, j] := e[i, j] + min(c[i - 1, j], c[i, clamp(j - 1)])

def numbered(e: Fin(h)=>Fin(w)=>Float) -> Fin(h)=>Fin(w)=>Float where h >= 1, w >= 1:
    with state(e) as c:
        for i in 1..h:
            for j in Fin(w):
                k = clamp(j - 5, Fin(w))
                c[i, j] := c[i - 1, clamp(j - 1)] + 0.5 * k

def by_data(e: Fin(h)=>Fin(w)=>Float, k: Fin(h)=>Fin(h)) -> Fin(h)=>Fin(w)=>Float
        where h >= 1, w >= 1:
    with state(e) as c:
        for i in 1..h:
            for j in Fin(w):
                c[i, j] := e[i, j] + c[k[i], clamp(j - 1)]
""")


def seam(e: np.ndarray) -> np.ndarray:
    c = e.copy()
    w = e.shape[1]
    for i in range(1, len(c)):
        for j in range(w):
            least = min(c[i - 1, max(j - 1, 0)], c[i - 1, min(j + 2, w - 1)])
            c[i, j] = e[i, j] + min(c[i - 1, j], least)
    return c


def upwards(e: np.ndarray) -> np.ndarray:
    c = e.copy()
    for i in reversed(range(len(c) - 1)):
        for j in range(e.shape[1]):
            c[i, j] += 0.5 * c[i + 1, max(j - 3, 0)]
    return c


def numbered(e: np.ndarray) -> np.ndarray:
    """What is clamped further in than what is read is clamped in the middle, too."""
    c = e.copy()
    w = e.shape[1]
    for i in range(1, len(c)):
        for j in range(w):
            k = min(max(j - 5, 0), w - 1)
            c[i, j] = c[i - 1, max(j - 1, 0)] + 0.5 * k
    return c


def along(e: np.ndarray) -> np.ndarray:
    c = e.copy()
    for i in range(1, len(c)):
        for j in range(e.shape[1]):
            c[i, j] = e[i, j] + min(c[i - 1, j], c[i, max(j - 1, 0)])
    return c


def by_data(e: np.ndarray, k: np.ndarray) -> np.ndarray:
    c = e.copy()
    for i in range(1, len(c)):
        for j in range(e.shape[1]):
            c[i, j] = e[i, j] + c[k[i], max(j - 1, 0)]
    return c


@pytest.mark.parametrize("f", [seam, upwards, numbered, along])
def test_values(f) -> None:
    for h in (1, 2, 7):
        for w in (1, 2, 3, 8, 37):
            e = np.random.default_rng(w).random((h, w))
            np.testing.assert_array_equal(getattr(M, f.__name__)(e), f(e))


def test_values_of_rows_that_data_name() -> None:
    for w in (1, 2, 37):
        e = np.random.default_rng(w).random((7, w))
        k = np.array([0, 1, 1, 2, 4, 6, 0])
        np.testing.assert_array_equal(M.by_data(e, k), by_data(e, k))


@pytest.mark.parametrize(("name", "free"), [
    ("seam", True), ("upwards", True), ("along", False), ("by_data", False),
])  # fmt: skip
def test_what_becomes_vectors(name: str, free: bool) -> None:
    text = M[name].show("loops").split("# notes")[0]
    *_, order = (m[1] for m in re.finditer(r"(free )?for j(?:_\d+)? in [^\n]*\n", text))
    assert (order is not None) == free, text
    assert ("cut" in text) == free  # the rounds at the ends are loops of their own
