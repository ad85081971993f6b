"""Sums and bests of a few columns in a loop are found column by column, where only the run knows
how many there are."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

TEXT = """
def forward(a: k=>Float, x: k=>k=>Float, steps: Int) -> k=>Float:
    loop a = a for _ in Fin(steps):
        b = [sum(a[i] * x[i, j] for i) for j]
        b / sum(b)

def least(a: k=>Int, x: k=>k=>Int, steps: Int) -> k=>Int:
    loop a = a for _ in Fin(steps):
        [min(a[i] + x[i, j] for i) for j]

def added(x: t=>n=>m=>Float) -> m=>Float:
    with state([0.0 for _ in m]) as s:
        for r in t:
            s := [0.5 * s[j] + sum(x[r, i, j] for i) for j]

def ways(x: k=>k=>Float, y: t=>k=>Float) -> (t=>k=>k, k=>Float):
    with state([0.0 for _ in k]) as d:
        for s in t:
            now = d
            d := [max(now[i] + x[i, j] for i) + y[s, j] for j]
            [argmax(now[i] + x[i, j] for i) for j]

def shortest(x: k=>k=>Float, y: t=>k=>Float) -> (t=>k=>k, k=>Float):
    with state([0.0 for _ in k]) as d:
        for s in t:
            now = d
            d := [min(now[i] + x[i, j] for i) + y[s, j] for j]
            [argmin(now[i] + x[i, j] for i) for j]

def viterbi(x: k=>k=>Float, y: Fin(t)=>k=>Float) -> (Fin(t)=>k=>k, Fin(t)=>k=>Float) where t >= 1:
    none = [[clamp(0, k) for _ in k] for _ in Fin(t)]
    (score, back) = with state([y[0] for _ in Fin(t)]) as score, state(none) as back:
        for s in 1..t:
            for j in k:
                best = argmax(score[s - 1, i] + x[i, j] for i)
                score[s, j] := score[s - 1, best] + x[best, j] + y[s, j]
                back[s, j] := best
    (back, score)

def whole(x: k=>k=>Int, y: t=>k=>Int) -> (t=>k=>k, k=>Int):
    with state([0 for _ in k]) as d:
        for s in t:
            now = d
            d := [max(now[i] + x[i, j] for i) + y[s, j] for j]
            [argmax(now[i] + x[i, j] for i) for j]
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


SIZES = [1, 2, 3, 7, 8, 11, 12, 13, 17]


@pytest.mark.parametrize("k", SIZES)
def test_sums(m, k: int) -> None:
    r = np.random.default_rng(k)
    a, x = r.random(k), r.random((k, k))
    want = a
    for _ in range(5):
        want = want @ x
        want = want / want.sum()
    np.testing.assert_allclose(m.forward(a, x, 5), want, rtol=1e-12)
    b, y = r.integers(-9, 9, k), r.integers(-9, 9, (k, k))
    least = b
    for _ in range(5):
        least = (least[:, None] + y).min(0)
    np.testing.assert_array_equal(m.least(b, y, 5), least)
    z, total = r.normal(size=(6, 4, k)), np.zeros(k)
    for rows in z:
        total = 0.5 * total + rows.sum(0)
    np.testing.assert_allclose(m.added(z), total, rtol=1e-12)


def _ways(x, y, best, place):
    d, out = np.zeros(len(x), x.dtype), []
    for row in y:
        out.append(place(d[:, None] + x, axis=0))
        d = best(d[:, None] + x, axis=0) + row
    return np.array(out), d


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("odd", [None, np.nan, np.inf, -np.inf, 0.0])
def test_the_best_and_its_place(m, k: int, dtype: type, odd: float | None) -> None:
    """Ties, infinities of both signs, and what is no number: the first best, as NumPy has it."""
    r = np.random.default_rng(k)
    x, y = np.round(r.normal(size=(k, k)), 1), np.round(r.normal(size=(9, k)), 1)
    if odd is not None:
        x[r.random(x.shape) < 0.3] = odd
        x[0, 0], y[4, -1] = -odd, odd
    x, y = x.astype(dtype), y.astype(dtype)
    with np.errstate(invalid="ignore"):
        for f, best, place in [(m.ways, np.max, np.argmax), (m.shortest, np.min, np.argmin)]:
            for got, want in zip(f(x, y), _ways(x, y, best, place), strict=True):
                np.testing.assert_array_equal(got, want)
        back, score = m.viterbi(x, y)
        for s in range(1, 9):
            sums = score[s - 1][:, None] + x
            np.testing.assert_array_equal(back[s], sums.argmax(0))
            np.testing.assert_array_equal(score[s], sums.max(0) + y[s])


@pytest.mark.parametrize("k", SIZES)
def test_whole_numbers(m, k: int) -> None:
    r = np.random.default_rng(k)
    x, y = r.integers(-3, 3, (k, k)), r.integers(-3, 3, (9, k))
    for got, want in zip(m.whole(x, y), _ways(x, y, np.max, np.argmax), strict=True):
        np.testing.assert_array_equal(got, want)


def test_each_has_two_ways(m) -> None:
    for f in (m.forward, m.least, m.ways, m.shortest, m.viterbi, m.whole):
        assert " < 12:" in f.show("loops"), f
    for f in (m.ways, m.shortest, m.viterbi, m.whole):
        assert "place := " in f.show("loops"), f
    assert " < 12:" not in m.added.show("loops")  # each row's are vectors, beside those of others


SEARCHES = """
# Who is free first serves next.
def served(arrive: n=>Float, takes: n=>Float, k: Int) -> n=>(Float, Int):
    (out, _) = with state([0.0 for _ in Fin(k)]) as free:
        for i:
            s = argmin(get(free))
            start = max(arrive[i], free[s])
            free[s] := start + takes[i]
            (start - arrive[i], Int(s))
    out

def largest(x: n=>k=>Float, y: n=>k=>Int, b: k=>Float) -> n=>(Int, Int):
    (out, _) = with state(b) as d:
        for i:
            p = argmax(x[i, j] + d[j] for j)
            q = argmax(y[i])
            d[p] := x[i, p]
            (Int(p), Int(q))
    out
"""


@pytest.mark.parametrize("k", [1, 2, 7, 15, 16, 17, 40])
def test_the_best_of_a_few(k: int) -> None:
    m, r = nap.compile(SEARCHES), np.random.default_rng(k)
    arrive, takes = np.cumsum(r.random(50)), np.round(k * r.random(50), 1)
    free, waits, servers = np.zeros(k), [], []
    for a, t in zip(arrive, takes, strict=True):
        s = int(free.argmin())
        start = max(a, free[s])
        free[s] = start + t
        waits.append(start - a)
        servers.append(s)
    got, who = m.served(arrive, takes, k)
    np.testing.assert_array_equal(got, waits)
    np.testing.assert_array_equal(who, servers)
    assert " < 16:" in m.served.show("loops")
    for odd in (None, np.nan, np.inf, -np.inf):
        x, y, d = np.round(r.normal(size=(30, k)), 1), r.integers(0, 3, (30, k)), np.zeros(k)
        if odd is not None:
            x[r.random(x.shape) < 0.2] = odd
            d[0] = -odd
        p, q = m.largest(x, y, d)
        np.testing.assert_array_equal(q, y.argmax(1))
        with np.errstate(invalid="ignore"):
            for row, place in zip(x, p, strict=True):
                assert place == (row + d).argmax()
                d[place] = row[place]


BIAS = """
def shifted(x: h=>w=>Fin(o)=>Float, b: Fin(o)=>Float) -> h=>w=>Fin(o)=>Float =
    [b[q] + x[i, j, q] for i, j, q]

def scaled(x: h=>w=>Fin(o)=>Float, b: Fin(o)=>Float) -> h=>w=>Fin(o)=>Float =
    [b[q] * x[i, j, q] for i, j, q]
"""


@pytest.mark.parametrize("k", [1, 5, 11, 12, 40])
def test_what_threads_add_up(k: int) -> None:
    """Columns that a loop over rows of rows adds up are not read before it is over."""
    m = nap.compile(BIAS)
    x = np.random.default_rng(k).random((70, 50, k))
    b = np.ones(k)
    for f, slope in ((m.shifted, x), (m.scaled, x * x)):
        found = nap.vjp(f, wrt="b")(x, b, x)[1]
        np.testing.assert_allclose(found, slope.sum((0, 1)), rtol=1e-12)
    text = nap.vjp(m.shifted, wrt="b").show("loops")
    assert "reducing add out_1" in text
    assert "if o < 12" in text
