"""Windows of a few elements: a gradient asks each of them whether it is the best."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap

POOLS = """
def even(x: Fin(2 * h)=>Fin(2 * w)=>Float) -> Float =
    sum((i + 1) * max(x[2 * i + a, 2 * j + b] for a in Fin(2), b in Fin(2)) ** 2
        for i in Fin(h), j in Fin(w))
def odd(x: Fin(h)=>Fin(w)=>Float) -> Float =
    sum((i + 1) * max(x[2 * i + a, 2 * j + b] for a in Fin(2), b in Fin(2)) ** 2
        for i in Fin(h // 2), j in Fin(w // 2))
def kept(x: Fin(h)=>Fin(w)=>Float) -> Float =
    sum((i + 1) * max(x[clamp(2 * i + a), clamp(2 * j + b)] for a in Fin(2), b in Fin(2)) ** 2
        for i in Fin(h // 2), j in Fin(w // 2))
def rows(x: c=>Fin(3 * n)=>Float) -> Float =
    sum((i + 1) * min(x[k, 3 * i + a] for a in Fin(3)) ** 2 for k, i in Fin(n))
def meet(x: Fin(n)=>Float) -> Float =
    sum((i + 1) * max(x[clamp(2 * i + a)] for a in Fin(3)) ** 2 for i in Fin(n // 2))
def wide(x: Fin(h)=>Fin(w)=>Float) -> Float =
    sum((i + 1) * max(x[2 * i + a, 2 * j + b] for a in Fin(3), b in Fin(3)) ** 2
        for i in Fin((h - 1) // 2), j in Fin((w - 1) // 2))
def dense(x: Fin(h)=>Fin(w)=>Float) -> Float =
    sum((i + 1) * min(x[i + a, j + b] for a in Fin(2), b in Fin(4)) ** 2
        for i in Fin(h - 1), j in Fin(w - 3))
def around(x: Fin(h)=>Fin(w)=>Float) -> Float =
    sum((i + 1) * max(x[clamp(i + a - 1), clamp(j + b - 1)] for a in Fin(3), b in Fin(3)) ** 2
        for i in Fin(h), j in Fin(w))
def both(x: Fin(h)=>Fin(w)=>Float) = value_and_grad(odd)(x)
def layer(x: Fin(2 * h)=>Fin(2 * w)=>Float, c: Float) -> Float =
    sum(max(max(c * x[2 * i + a, 2 * j + b], 0.0) for a in Fin(2), b in Fin(2)) ** 3
        for i in Fin(h), j in Fin(w))
"""


def first_best(x: np.ndarray, high: int, wide: int, seek: np.ufunc) -> np.ndarray:
    """The gradient of Σ (i + 1) · best², window by window: all of it goes to the first best, which
    is the first NaN if there is one; nothing goes anywhere if that is the unit."""
    out = np.zeros_like(x)
    worst = -np.inf if seek is np.argmax else np.inf
    for i in range(x.shape[0] // high):
        for j in range(x.shape[1] // wide):
            part = np.s_[high * i : high * (i + 1), wide * j : wide * (j + 1)]
            k = seek(x[part])  # of NumPy: the first NaN, too
            best = x[part].flat[k]
            if best != worst:
                by = (i if high > 1 else j) + 1
                out[part].flat[k] = 2 * by * best
    return out


def windows(x: np.ndarray, high: int, wide: int, by: int, seek: np.ufunc) -> np.ndarray:
    """The same for windows that meet."""
    out = np.zeros_like(x)
    for i in range((x.shape[0] - high) // by + 1):
        for j in range((x.shape[1] - wide) // by + 1):
            part = np.s_[by * i : by * i + high, by * j : by * j + wide]
            at = np.unravel_index(seek(x[part]), (high, wide))
            best = x[part][at]
            if best != (-np.inf if seek is np.argmax else np.inf):
                out[part][at] += 2 * (i + 1) * best
    return out


SHAPES = [(0, 0), (0, 4), (1, 1), (1, 5), (2, 2), (2, 3), (3, 7), (4, 4), (9, 16), (33, 70),
          (300, 257)]  # fmt: skip


def test_every_element_asks_whether_it_is_the_best_of_its_window() -> None:
    m = nap.compile(POOLS)
    rng = np.random.default_rng(0)
    for h, w in SHAPES:
        x = rng.integers(-3, 4, (h, w)).astype(float)  # with many that are equal
        x[rng.random((h, w)) < 0.03] = np.nan
        x[rng.random((h, w)) < 0.3] = -np.inf
        want = first_best(x, 2, 2, np.argmax)
        for f in (m.odd, m.kept):
            np.testing.assert_array_equal(nap.grad(f)(x), want)
        np.testing.assert_array_equal(m.both(x)[1], want)
        y = np.tile(x, (2, 2))
        np.testing.assert_array_equal(nap.grad(m.even)(y), first_best(y, 2, 2, np.argmax))
        z = np.tile(x, (1, 3))
        np.testing.assert_array_equal(nap.grad(m.rows)(z), first_best(z, 1, 3, np.argmin))


def test_every_element_asks_every_window_that_it_is_in() -> None:
    m = nap.compile(POOLS)
    rng = np.random.default_rng(0)
    for h, w in ((3, 5), (4, 6), (7, 9), (16, 33), (41, 70)):
        x = rng.integers(-3, 4, (h, w)).astype(float)
        x[rng.random((h, w)) < 0.03] = np.nan
        x[rng.random((h, w)) < 0.3] = -np.inf
        np.testing.assert_allclose(nap.grad(m.wide)(x), windows(x, 3, 3, 2, np.argmax))
        np.testing.assert_allclose(nap.grad(m.dense)(x), windows(x, 2, 4, 1, np.argmin))


def test_windows_that_are_kept_inside() -> None:
    """An element at an end is in a window more than once, and is asked for the first time."""
    slope = nap.grad(nap.compile(POOLS).around)
    rng = np.random.default_rng(2)
    for h, w in SHAPES:
        x = rng.integers(-3, 4, (h, w)).astype(float)
        x[rng.random((h, w)) < 0.03] = np.nan
        x[rng.random((h, w)) < 0.3] = -np.inf
        out = np.zeros_like(x)
        for i, j in np.ndindex(h, w):
            rows = np.clip([i - 1, i, i + 1], 0, h - 1)
            columns = np.clip([j - 1, j, j + 1], 0, w - 1)
            a, b = np.unravel_index(np.argmax(x[np.ix_(rows, columns)]), (3, 3))
            best = x[rows[a], columns[b]]
            out[rows[a], columns[b]] += 2 * (i + 1) * best if best != -np.inf else 0.0
        np.testing.assert_allclose(slope(x), out)


def test_pooling_scatters_nothing() -> None:
    m = nap.compile(POOLS)
    for f in (m.even, m.odd, m.kept, m.rows, m.wide, m.dense, m.both):
        text = (f if f is m.both else nap.grad(f)).show("loops")
        assert not re.search("update out", text)
    assert re.search("update out", nap.grad(m.meet).show("loops"))  # windows that go on at an end
    # in rows that are in a window, the loop over the columns asks for no border
    text = nap.grad(m.odd).show("loops")
    loop = r"if v\w*:\n +free for \w+ in 0\.\.\(clamp\(cut // 2.*\n(?:.*\n){8}"
    (inner,) = re.findall(loop, text)
    assert len(re.findall(r"if v\w*:", inner)) == 1, "that around: the element's own is a choice"


ROLLED = """
def rolled(x: Fin(n + w)=>Float, of: Fin(w + 1)=>Bool) -> Float =
    sum((i + 1) * max(x[i + j] for j in Fin(w + 1)) ** 2 for i in Fin(n))
"""


def test_long_windows_are_looked_through_side_by_side() -> None:
    """What the largest elements are sent waits, so that the windows of a strip are lanes."""
    slope = nap.grad(nap.compile(ROLLED).rolled)
    rng = np.random.default_rng(3)
    for n in (0, 1, 5, 31, 32, 64, 255, 256, 300, 700):
        for w in (0, 1, 3, 20, 300):
            x = rng.integers(-3, 4, n + w).astype(float)
            x[rng.random(n + w) < 0.02] = np.nan
            x[rng.random(n + w) < 0.3] = -np.inf
            with np.errstate(invalid="ignore"):
                want = windows(x[:, None], w + 1, 1, 1, np.argmax)[:, 0]
            np.testing.assert_allclose(slope(x, np.ones(w + 1, bool)), want)
    loops = slope.show("loops").split("update out")
    assert len(loops) == 3  # wide windows are put together from pieces
    assert loops[1].count("lanes for") == 5, loops[1]


def test_gradients_of_pooling_are_differentiable() -> None:
    m = nap.compile(POOLS)
    rng = np.random.default_rng(1)
    x, d, e = rng.normal(size=(3, 6, 10))
    h = 1e-5
    for f in (m.even, m.odd, m.kept):
        slope = nap.grad(f)
        assert np.vdot(slope(x), d) == pytest.approx(nap.jvp(f)(x, d)[1], rel=1e-12)
        bent = nap.jvp(slope)(x, d)[1]
        near = (slope(x + h * d) - slope(x - h * d)) / (2 * h)
        np.testing.assert_allclose(bent, near, rtol=1e-6, atol=1e-6)
        assert np.vdot(bent, e) == pytest.approx(np.vdot(nap.jvp(slope)(x, e)[1], d), rel=1e-9)
    found = nap.grad(m.layer, ("x", "c"))(x, 0.7)
    for p, q in zip(found, (d, 1.0), strict=True):
        more = [m.layer(x + s * h * d, 0.7) if p is found[0] else m.layer(x, 0.7 + s * h)
                for s in (1, -1)]  # fmt: skip
        assert np.vdot(p, q) == pytest.approx((more[0] - more[1]) / (2 * h), rel=1e-6)
