"""Directions of a Jacobian that change little: only that is gone through."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

TEXT = """
def unit(i: n) -> n=>Float = [1.0 if j == i else 0.0 for j]

# Links that turn by an angle each; points follow them by their weights.
def turned(t: Fin(k)=>Float, w: p=>Fin(k)=>Float, x: p=>Fin(3)=>Float) -> p=>Fin(3)=>Float:
    links = [[[cos(t[j]), -sin(t[j]), 0.0], [sin(t[j]), cos(t[j]), 0.0], [0.0, 0.0, 1.0]] for j]
    [sum(w[i, j] * (links[j] @ x[i]) for j) for i]

# Of a chain: each link turns with the ones before it, but two of three begin anew.
def chain(t: Fin(k)=>Float, w: p=>Fin(k)=>Float, x: p=>Fin(3)=>Float) -> p=>Fin(3)=>Float:
    own = [[[cos(t[j]), -sin(t[j]), 0.0], [sin(t[j]), cos(t[j]), 0.0], [0.0, 0.0, 1.0]] for j]
    links = with state(own) as s:
        for j in Fin(k):
            if j % 3 > 0: s[j] := s[clamp(j - 1)] @ s[j]
    [sum(w[i, j] * (links[j] @ x[i]) for j) for i]

def slopes(t: Fin(k)=>Float, w: p=>Fin(k)=>Float, x: p=>Fin(3)=>Float) -> Fin(k)=>p=>Fin(3)=>Float:
    for j:
        (_, s) = jvp(lambda t: turned(t, w, x), t, unit(j))
        s

def slopes_of_chain(t: Fin(k)=>Float, w: p=>Fin(k)=>Float, x: p=>Fin(3)=>Float):
    for j:
        (_, s) = jvp(lambda t: chain(t, w, x), t, unit(j))
        s
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


@pytest.mark.parametrize("name", ["slopes", "slopes_of_chain"])
def test_what_is_zero_is_left_out(m, name: str) -> None:
    loops = m[name].show("loops")
    assert "places[" in loops, loops


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("k", "p"), [(1, 1), (3, 0), (4, 9), (8, 40), (27, 33), (40, 17)])
@pytest.mark.parametrize("name", ["turned", "chain"])
def test_slopes(m, name: str, k: int, p: int, dtype: type) -> None:
    r = np.random.default_rng(k)
    args = (r.normal(size=k), r.uniform(size=(p, k)), r.normal(size=(p, 3)))
    t, w, x = (a.astype(dtype) for a in args)
    one = nap.jvp(m[name], wrt="t")
    slopes = m.slopes if name == "turned" else m.slopes_of_chain
    expected = [one(t, w, x, d)[1] for d in np.eye(k, dtype=dtype)]
    near = 1e-12 if dtype is np.float64 else 1e-4
    np.testing.assert_allclose(slopes(t, w, x), expected, rtol=near, atol=near)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("name", ["slopes", "slopes_of_chain"])
def test_zero_times_what_is_not_finite_is_no_number(m, name: str, bad: float) -> None:
    r = np.random.default_rng(7)
    t, w, x = r.normal(size=27), r.uniform(size=(33, 27)), r.normal(size=(33, 3))
    x[5, 1] = w[7, 3] = bad
    found = m[name](t, w, x)
    assert np.isnan(found[0, 5, 1])
    assert np.isnan(found[0, 7, 0])
    assert np.isfinite(found[:, [4, 6, 8]]).all()
