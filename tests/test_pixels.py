"""Pixels whose channels lie side by side: away from the borders a row is one loop, however few
channels there are."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

TEXT = """
def blurred(x: h=>w=>c=>Float, q: Fin(5)=>Fin(5)=>Float) -> h=>w=>c=>Float =
    [sum(q[a, b] * x[clamp(i + a - 2), clamp(j + b - 2), k] for a, b) for i, j, k]
def around(x: h=>w=>c=>Float) -> h=>w=>c=>Float =
    [x[wrap(i - 1), j, k] + 2.0 * x[i, wrap(j - 1), k] - x[i, wrap(j + 1), k] for i, j, k]
def diffused(x: h=>w=>c=>Float, steps: Int) -> h=>w=>c=>Float:
    loop x = x for _ in Fin(steps):
        [0.5 * x[i, j, k] + 0.25 * (x[i, clamp(j - 1), k] + x[i, clamp(j + 1), k]) for i, j, k]
    x
def largest(x: h=>w=>c=>F32) -> h=>w=>c=>F32 =
    [max(x[i, clamp(j + b - 1), k] for b in Fin(3)) for i, j, k]
def steps(x: n=>d=>U8) -> n=>d=>U8 = [x[clamp(t + 1), k] - x[clamp(t - 1), k] for t, k]
def many(xs: m=>h=>w=>c=>Float) -> m=>h=>w=>c=>Float = [around(x) for x in xs]
def channels(x: h=>w=>c=>Float, g: c=>Float) -> h=>w=>c=>Float =
    [g[k] * x[i, clamp(j - 1), k] + x[i, j, clamp(k - 1)] for i, j, k]
def loss(x: h=>w=>c=>Float, q: Fin(5)=>Fin(5)=>Float) -> Float =
    sum(sum(sum(v ** 2 for v in p) for p in r) for r in blurred(around(x), q))
"""
SIZES = [(0, 3, 2), (3, 0, 2), (3, 4, 0), (1, 1, 1), (2, 1, 3), (3, 2, 3), (4, 4, 1), (5, 9, 4)]


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def _moved(x, by: int, axis: int):
    """Elements from so far away, those at the border again where there are none."""
    n = x.shape[axis]
    return np.take(x, np.clip(np.arange(n) + by, 0, max(n - 1, 0)), axis) if n else x


@pytest.mark.parametrize("shape", SIZES)
def test_filters(m, shape: tuple[int, int, int]) -> None:
    r = np.random.default_rng(sum(shape))
    x, q, g = r.normal(size=shape), r.normal(size=(5, 5)), r.normal(size=shape[2])
    want = sum(q[a, b] * _moved(_moved(x, a - 2, 0), b - 2, 1) for a in range(5) for b in range(5))
    np.testing.assert_allclose(m.blurred(x, q), want, atol=1e-12)
    want = np.roll(x, 1, 0) + 2 * np.roll(x, 1, 1) - np.roll(x, -1, 1)
    np.testing.assert_allclose(m.around(x), want, atol=1e-12)
    np.testing.assert_allclose(m.many(np.array([x, -x])), [want, -want], atol=1e-12)
    want = x
    for _ in range(3):
        want = 0.5 * want + 0.25 * (_moved(want, -1, 1) + _moved(want, 1, 1))
    np.testing.assert_allclose(m.diffused(x, 3), want, atol=1e-12)
    want = g * _moved(x, -1, 1) + _moved(x, -1, 2)
    np.testing.assert_allclose(m.channels(x, g), want, atol=1e-12)


@pytest.mark.parametrize("shape", SIZES)
def test_other_numbers(m, shape: tuple[int, int, int]) -> None:
    r = np.random.default_rng(sum(shape))
    x = np.float32(np.where(r.random(shape) < 0.1, np.nan, r.normal(size=shape)))
    want = np.maximum(np.maximum(_moved(x, -1, 1), x), _moved(x, 1, 1))
    np.testing.assert_array_equal(m.largest(x), want)
    y = r.integers(0, 256, shape[1:]).astype(np.uint8)
    want = _moved(y, 1, 0) - _moved(y, -1, 0)
    np.testing.assert_array_equal(m.steps(y), want)


def test_rows_are_one_loop(m) -> None:
    """The borders are what they were; no loop over a row's pixels has one over channels inside."""
    for f in (m.blurred, m.around, m.diffused, m.largest, m.steps):
        loops = f.show("loops").split("# notes")[0]
        middle = [x for x in loops.splitlines() if " for " in x and "cut" in x.split(" in ")[1]]
        assert any("* cut" in x for x in middle), loops


def test_what_asks_for_its_channel_stays(m) -> None:
    """Another array along the channels, or a neighbouring channel: rows are loops of pixels."""
    assert "* cut" not in m.channels.show("loops")


def test_derivatives(m) -> None:
    assert nap.check(m.loss)
    r = np.random.default_rng(0)
    x, q = r.normal(size=(3, 4, 2)), r.normal(size=(5, 5))
    g = nap.grad(m.loss, wrt="x")(x, q)
    d, h = r.normal(size=x.shape), 1e-6
    slope = (m.loss(x + h * d, q) - m.loss(x - h * d, q)) / (2 * h)
    np.testing.assert_allclose((g * d).sum(), slope, rtol=1e-7)


def test_as_many_channels_as_are_known_are_a_row_as_well(m) -> None:
    """Nothing adds them up or asks for one of them, so none is written out."""
    known = nap.compile(TEXT.replace("=>c=>", "=>Fin(3)=>").replace("g: c=>", "g: Fin(3)=>"))
    r = np.random.default_rng(0)
    x, q = r.normal(size=(6, 9, 3)), r.normal(size=(5, 5))
    np.testing.assert_array_equal(known.blurred(x, q), m.blurred(x, q))
    np.testing.assert_array_equal(known.diffused(x, 3), m.diffused(x, 3))
    found, want = nap.grad(known.loss)(x, q), nap.grad(m.loss)(x, q)
    np.testing.assert_allclose(found[0], want[0], atol=1e-12)
    np.testing.assert_allclose(found[1], want[1], atol=1e-12)
    f = nap.compile("def f(x: h=>w=>Fin(3)=>Float) = [x[i, j, k] ** 2.2 for i, j, k]").f
    assert f.show("loops").count("store") == 1
    weighed = "def f(x: h=>w=>Fin(3)=>Float, g: Fin(3)=>Float) = [g[k] * x[i, j, k] for i, j, k]"
    assert nap.compile(weighed).f.show("loops").count("store") == 3


def test_arrays_of_a_round_that_is_made_apart_end_with_it() -> None:
    """The first round reads where others do not, and makes a row of its own, as all others do."""
    m = nap.compile("""
def flow(x: Fin(n)=>Fin(5)=>Float, k: Int) -> Fin(n)=>Fin(5)=>Float where n >= 1:
    loop x = x for _ in Fin(k):
        for i, j:
            a = x[wrap(i + 1), j] / x[i, wrap(j - 1)] + x[wrap(i - 1), j] / x[i, wrap(j + 1)]
            x[i, j] + 0.1 * a * a
    x
def loss(x: Fin(n)=>Fin(5)=>Float, y: Fin(n)=>Fin(5)=>Float) where n >= 1:
    loop (a, b) = (x, y) for _ in Fin(3):
        up = [a[wrap(i + 1), j] * b[i, j] / a[i, j] for i, j]
        by = [a[i, wrap(j + 1)] * b[i, j] / b[i, wrap(j - 1)] for i, j]
        c = [0.5 * (up[wrap(i - 1), j] + by[i, wrap(j + 1)]) for i, j]
        (c, [up[i, j] - by[wrap(i + 1), wrap(j - 1)] for i, j])
    sum(sum(v ** 2 for v in r) for r in a) + sum(sum(v ** 2 for v in r) for r in b)
""")
    assert nap.check(m.flow, 4)
    assert nap.check(m.loss, 4)
