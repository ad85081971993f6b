"""The largest and smallest by keys: what goes back goes to where they were, once a target."""

from __future__ import annotations

import numpy as np
import pytest
from test_cost import cost

import naperian as nap

TEXT = """
def top(x: e=>Float, k: e=>Fin(m)) -> Fin(m)=>Float:
    with accum(max) as best:
        for i: best[k[i]] += x[i] * x[i]
def f(x: e=>Float, w: Fin(m)=>Float, k: e=>Fin(m)) -> Float =
    sum(w[j] * sin(top(x, k)[j]) for j if top(x, k)[j] > -inf)

def low(x: e=>d=>Float, k: e=>Fin(m)) -> Fin(m)=>d=>Float:
    with accum(min) as best:
        for i, a: best[k[i], a] += 2.0 * x[i, a]
def g(x: e=>d=>Float, w: Fin(m)=>d=>Float, k: e=>Fin(m)) -> Float:
    y = low(x, k)
    sum(w[j, a] * y[j, a] for j, a if y[j, a] < inf)

def near(w: e=>Float, s: e=>Fin(v), d: e=>Fin(v), start: Fin(v)=>Float, rounds: Int) -> Float:
    loop far = start for _ in Fin(rounds):
        new = with accum(min) as best:
            for i: best[d[i]] += far[s[i]] + w[i]
        [min(far[j], new[j]) for j]
    sum(far)
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


@pytest.mark.parametrize(("e", "keys"), [(0, 3), (1, 1), (7, 20), (40, 5)])
def test_the_first_best_gets_all(m, e: int, keys: int) -> None:
    r = np.random.default_rng(e)
    x, k, w = r.integers(-3, 4, e) / 2.0, r.integers(0, keys, e), r.normal(size=keys)
    dx, dw = np.zeros(e), np.zeros(keys)
    for j in range(keys):
        mine = np.flatnonzero(k == j)
        if len(mine):
            i = mine[np.argmax(x[mine] ** 2)]
            dx[i] = w[j] * np.cos(x[i] ** 2) * 2 * x[i]
            dw[j] = np.sin(x[i] ** 2)
    found = nap.grad(m.f, ("x", "w"))(x, w, k)
    np.testing.assert_allclose(found[0], dx, atol=1e-14)
    np.testing.assert_allclose(found[1], dw, atol=1e-14)
    if e:
        v = r.normal(size=e)
        h = [nap.grad(m.f, "x")(x + s * 1e-6 * v, w, k) for s in (1, -1)]
        if len(np.unique(np.abs(x))) == e:  # no ties, which a step would break
            twice = nap.hvp(m.f, "x")(x, w, k, v)
            np.testing.assert_allclose(twice, (h[0] - h[1]) / 2e-6, atol=1e-5)


@pytest.mark.parametrize(("e", "d", "keys"), [(0, 2, 3), (5, 1, 2), (30, 4, 7)])
def test_of_rows_each_component_has_its_own(m, e: int, d: int, keys: int) -> None:
    r = np.random.default_rng(e)
    x, k, w = r.normal(size=(e, d)), r.integers(0, keys, e), r.normal(size=(keys, d))
    if e:
        x[0, 0] = np.nan  # which is the result, and equals nothing
    want = np.zeros((e, d))
    for j in range(keys):
        for a in range(d):
            mine = np.flatnonzero(k == j)
            if len(mine) and not np.isnan(x[mine, a]).any():
                want[mine[np.argmin(x[mine, a])], a] = 2 * w[j, a]
    np.testing.assert_allclose(nap.grad(m.g)(x, w, k), want, atol=1e-14)


def test_shortest_paths(m) -> None:
    """A round backwards goes over the places, not over all ways between them."""
    r = np.random.default_rng(3)
    slope = nap.value_and_grad(m.near, ("w", "start"))
    for e, v in ((40, 8), (320, 20)):
        w, s, d = r.random(e), r.integers(0, v, e), r.integers(0, v, e)
        start = np.where(np.arange(v) == 0, 0.0, 9.0)
        args = [w, s, d, start, 4]
        found = slope(*args)[1]
        for k, of in enumerate(found):
            dx, ends = r.normal(size=of.shape), []
            for h in (1e-7, -1e-7):
                one = [*args]
                one[3 * k] = args[3 * k] + h * dx
                ends.append(m.near(*one))
            assert np.isclose(np.sum(of * dx), (ends[0] - ends[1]) / 2e-7, rtol=1e-5, atol=1e-6)
        assert cost(slope, args).total <= 4.5 * cost(m.near, args).total
