"""Gradients of polynomials at many points, by their coefficients and by the points: what a loop has
in all its rounds is kept for the points that go side by side, and what goes to a coefficient is
added up in the round that it comes from."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

POLYNOMIALS = nap.compile("""
def horner(c: Fin(n)=>Float, x: m=>Float) -> Float = sum(at(c, x[i]) for i)

def at(c: Fin(n)=>Float, x: Float) -> Float:
    loop d = 0.0 for k in Fin(n): x * d + c[n - 1 - k]
    d

def ascending(c: Fin(n)=>Float, x: m=>Float) -> Float = sum(from_front(c, x[i]) for i)

def from_front(c: Fin(n)=>Float, x: Float) -> Float:
    loop d = 0.0 for k in Fin(n): x * d + c[k]
    d

def chebyshev(c: Fin(n)=>Float, x: m=>Float) -> Float where n >= 1 =
    sum(clenshaw(c, x[i]) for i)

def clenshaw(c: Fin(n)=>Float, x: Float) -> Float where n >= 1:
    loop d = 0.0, dd = 0.0 for k in Fin(n - 1): (2.0 * x * d - dd + c[n - 1 - k], d)
    x * d - dd + 0.5 * c[0]

def without_the_last(c: Fin(n)=>Float, x: m=>Float) -> Float where n >= 1 =
    sum(but_one(c, x[i]) * c[n - 1] for i)

def but_one(c: Fin(n)=>Float, x: Float) -> Float where n >= 1:
    loop d = 0.0 for k in Fin(n - 1): x * sin(d) + c[k]
    d
""")
NAMES = ["horner", "ascending", "chebyshev", "without_the_last"]


def value(name: str, c: np.ndarray, x: np.ndarray) -> np.ndarray:
    """What a function is, in complex numbers."""
    n, d, dd = len(c), 0 * x, 0 * x
    for k in range(n if name in ("horner", "ascending") else n - 1):
        match name:
            case "horner":
                d = x * d + c[n - 1 - k]
            case "ascending":
                d = x * d + c[k]
            case "chebyshev":
                d, dd = 2.0 * x * d - dd + c[n - 1 - k], d
            case _:
                d = x * np.sin(d) + c[k]
    if name == "chebyshev":
        d = x * d - dd + 0.5 * c[0]
    return (d * c[n - 1] if name == "without_the_last" else d).sum()


def slope(name: str, given: list[np.ndarray], k: int) -> np.ndarray:
    """The derivative by argument `k`, by complex steps."""
    out = np.zeros(len(given[k]))
    for i in range(len(out)):
        args = [a.astype(complex) for a in given]
        args[k][i] += 1e-30j
        out[i] = value(name, *args).imag / 1e-30
    return out


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 0), (2, 15), (7, 40), (33, 131)])
@pytest.mark.parametrize("name", NAMES)
def test_as_by_complex_steps(name: str, n: int, m: int) -> None:
    r = np.random.default_rng(n + m)
    given = [r.normal(size=n), r.uniform(-1, 1, m)]
    both = nap.grad(POLYNOMIALS[name], ("c", "x"))(*given)
    for k, p in enumerate("cx"):
        meant = slope(name, given, k)
        np.testing.assert_allclose(both[k], meant, rtol=1e-9, atol=1e-9)
        alone = nap.grad(POLYNOMIALS[name], p)(*given)
        np.testing.assert_allclose(alone, meant, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("by", ["c", "x", "both"])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_kept_of_all_points(name: str, by: str) -> None:
    text = nap.grad(POLYNOMIALS[name], ("c", "x") if by == "both" else by).show("loops")
    tables = [line for line in text.splitlines() if "allocate" in line]
    assert tables
    assert not any("[m" in line or ", m" in line for line in tables)
    assert "lanes for lane" in text


def test_what_a_round_reads_of_the_one_before_it_is_not_loaded() -> None:
    text = nap.grad(POLYNOMIALS.horner, "x").show("loops")
    assert "store last[lane] = new" in text
