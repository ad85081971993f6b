"""Where the best of windows is, found in pieces: of equals the first; a NaN before others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import naperian as nap

SOURCE = """
def inside(x: Fin(n)=>Float, w: Int) -> Float where w >= 1, n >= w =
    sum(v * v for v in [max(x[i + j] for j in Fin(w)) for i in Fin(n - w + 1)])

def least(x: Fin(n)=>Float, w: Int) -> Float where w >= 1, n >= w =
    sum(v * v for v in [min(x[i + j] for j in Fin(w)) for i in Fin(n - w + 1)])

def clamped(x: Fin(n)=>Float, w: Int) -> Float where w >= 1 =
    sum(v * v for v in [max(x[clamp(i + j - w // 2)] for j in Fin(w)) for i in Fin(n)])

def before(x: Fin(n)=>Float, w: Int) -> Float where w >= 1 =
    sum(v * v for v in [max(x[clamp(i - j)] for j in Fin(w)) for i in Fin(n)])

def known(x: Fin(n)=>Float, w: Int) -> Float where n >= 40 =
    sum(v * v for v in [max(x[i + j] for j in Fin(100)) for i in Fin(n - 99)])

def places(x: Fin(n)=>Float, w: Int) -> Fin(n - w + 1)=>Int where w >= 1, n >= w =
    [Int(argmax(x[i + j] for j in Fin(w))) for i]

def lowest(x: Fin(n)=>Int, w: Int) -> Fin(n - w + 1)=>Int where w >= 1, n >= w =
    [Int(argmin(x[i + j] for j in Fin(w))) for i]

def rows(x: m=>Fin(n)=>Float, w: Int) -> Float where w >= 1, n >= w =
    sum(v * v for r in [[max(x[k, i + j] for j in Fin(w)) for i in Fin(n - w + 1)] for k], v in r)

def span(x: Fin(n)=>Float, w: Int) -> Float where w >= 1, n >= w =
    sum((max(x[i + j] for j in Fin(w)) - min(x[i + j] for j in Fin(w))) ** 2
        for i in Fin(n - w + 1))
"""
READ: dict[str, Callable[[int, int], np.ndarray]] = {  # the elements of each window
    "inside": lambda n, w: np.arange(n - w + 1)[:, None] + np.arange(w),
    "least": lambda n, w: np.arange(n - w + 1)[:, None] + np.arange(w),
    "known": lambda n, w: np.arange(n - 99)[:, None] + np.arange(100),
    "clamped": lambda n, w: np.clip(np.arange(n)[:, None] + np.arange(w) - w // 2, 0, n - 1),
    "before": lambda n, w: np.clip(np.arange(n)[:, None] - np.arange(w), 0, n - 1),
}


@pytest.fixture(scope="module")
def module() -> nap.Module:
    return nap.compile(SOURCE)


def numbers(kind: str, n: int) -> np.ndarray:
    r = np.random.default_rng(n)
    x = r.normal(size=n)
    if kind == "equal":
        x = r.integers(-2, 3, n) * r.choice([-1.0, 1.0], n)  # zeros of both signs
    elif kind == "infinite":
        x = np.where(r.random(n) < 0.5, r.choice([-np.inf, np.inf], n, p=[0.9, 0.1]), x)
        x[n // 3 : n // 2] = -np.inf
    elif kind == "odd":
        x[r.random(n) < 0.03] = np.nan
    return x


def first(rows: np.ndarray, best: str = "argmax") -> np.ndarray:
    """The first best of each row, or the first NaN."""
    odd = np.isnan(rows)
    return np.where(odd.any(1), odd.argmax(1), getattr(rows, best)(1))


@pytest.mark.parametrize("kind", ["all different", "equal", "infinite", "odd"])
@pytest.mark.parametrize("name", READ)
def test_a_cotangent_goes_to_the_first_best(module: nap.Module, name: str, kind: str) -> None:
    slope = nap.grad(getattr(module, name))
    for n, w in [(200, 3), (200, 16), (1200, 31), (2500, 64), (3000, 1100)]:
        x = numbers(kind, n)
        at = READ[name](n, w)
        place = at[np.arange(len(at)), first(x[at], "argmin" if name == "least" else "argmax")]
        empty = np.inf if name == "least" else -np.inf  # what a maximum begins with has no place
        sent = np.where(x[place] == empty, 0.0, 2 * x[place])
        expected = np.zeros(n)
        np.add.at(expected, place, sent)
        assert np.allclose(slope(x, w), expected, equal_nan=True)


@pytest.mark.parametrize("kind", ["all different", "equal", "infinite", "odd"])
def test_the_place_of_the_first_best(module: nap.Module, kind: str) -> None:
    x = numbers(kind, 3000)
    for w in (5, 16, 100, 999):
        at = READ["inside"](len(x), w)
        assert (module.places(x, w) == first(x[at])).all()
    k = np.random.default_rng(1).integers(0, 50, 3000)
    assert (module.lowest(k, 100) == k[READ["inside"](3000, 100)].argmin(1)).all()


def test_rows_and_both_ends(module: nap.Module) -> None:
    r = np.random.default_rng(2)
    x, h = r.normal(size=(3, 300)), 1e-6
    for row, found in zip(x, nap.grad(module.rows)(x, 40), strict=True):
        assert np.allclose(found, nap.grad(module.inside)(row, 40))
    d = r.normal(size=300)
    slope = (module.span(x[0] + h * d, 40) - module.span(x[0] - h * d, 40)) / (2 * h)
    assert np.isclose(nap.grad(module.span)(x[0], 40) @ d, slope, rtol=1e-5)


@pytest.mark.parametrize("name", ["inside", "least", "clamped", "before", "rows", "span"])
def test_all_of_these_are_found_in_pieces(module: nap.Module, name: str) -> None:
    assert "place_so_far" in nap.grad(getattr(module, name)).show("loops")
