"""What windows send beyond the ends of a table is added up there and folded back: the gradient of
many clamped reads has few loops, not one for each case of each of them, and the right values in
every size, also where a window is longer than the table."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import naperian as nap
from naperian import pipeline
from naperian.ainf import run as ainf_run
from naperian.loops import run as loops_run
from naperian.source import Source
from naperian.substitution import Substitution
from naperian.types import F64

SIZES = [(0, 0), (0, 3), (1, 1), (1, 5), (2, 2), (2, 6), (3, 1), (4, 3), (5, 5), (6, 2), (19, 37)]

PATCHES = """
def loss(x: Fin(h)=>Fin(w)=>Float) -> Float =
    sum((x[clamp(i + p - 1), clamp(j + q - 1)] - x[clamp(i + a + p - 2), clamp(j + b + q - 2)]) ** 2
        for i in Fin(h), j in Fin(w), a in Fin(3), b in Fin(3), p in Fin(3), q in Fin(3))
"""

APART = """
def loss(x: Fin(h)=>Fin(w)=>Float) -> Float =
    sum(x[clamp(i + p - 3), clamp(j + q - 2)] * x[clamp(i - p + 1), clamp(j + 2)] * x[i, j]
        for i, j, p in Fin(5), q in Fin(4))
"""

WINDOWS = """
def loss(a: Fin(h)=>Fin(w)=>Float, b: Fin(h)=>Fin(w)=>Float) -> Float:
    c = [a[i, clamp(j + 1)] - b[i, clamp(j - 1)] for i, j]
    window = lambda p, q: [sum(p[clamp(i + k - 2), clamp(j + l - 2)]
                               * q[clamp(i + k - 2), clamp(j + l - 2)]
                               for k in Fin(5), l in Fin(5)) for i, j]
    (aa, ab, bb, ac, bc) = (window(a, a), window(a, b), window(b, b), window(a, c), window(b, c))
    sum((aa[i, j] * bb[i, j] - ab[i, j] ** 2) * ac[i, j] + bc[i, j] ** 2
        for i in Fin(h), j in Fin(w))
"""

CUBE = """
def loss(x: Fin(h)=>Fin(w)=>Fin(d)=>Float) -> Float =
    sum(sin(sum(x[clamp(i + a - 1), clamp(j + b - 1), clamp(k + c - 2)]
                for a in Fin(3), b in Fin(3), c in Fin(3)))
        for i in Fin(h), j in Fin(w), k in Fin(d))
"""

STEPS = """
def loss(x: Fin(h)=>Fin(w)=>Float) -> Float:
    y = loop u = x for t in Fin(2):
        [sum(u[clamp(i + p - 1), clamp(j + q - 1)] * u[clamp(i + q - 2), clamp(j + p + 1)]
             for p in Fin(3), q in Fin(3)) for i, j]
    sum(v ** 2 for r in y, v in r)
"""

ONE = """
def loss(x: Fin(h)=>Fin(w)=>Float) -> Float =
    sum(sin(sum(x[clamp(i + a - 1), clamp(j + b - 1)] for a in Fin(3), b in Fin(3)))
        for i in Fin(h), j in Fin(w))
"""

Pairs = Callable[[int, int], list[list[tuple[int, int]]]]


def patches(h: int, w: int) -> list[list[tuple[int, int]]]:
    points = np.ndindex(h, w, 3, 3, 3, 3)
    return [[(i + p - 1, j + q - 1), (i + a + p - 2, j + b + q - 2)] for i, j, a, b, p, q in points]


def far(h: int, w: int) -> list[list[tuple[int, int]]]:
    points = np.ndindex(h, w, 5, 4)
    return [[(i + p - 3, j + q - 2), (i - p + 1, j + 2), (i, j)] for i, j, p, q in points]


@pytest.mark.parametrize(("h", "w"), SIZES)
@pytest.mark.parametrize(("text", "places"), [(PATCHES, patches), (APART, far)])
def test_what_goes_beyond_the_ends_is_added_there(
    text: str, places: Pairs, h: int, w: int
) -> None:
    x = np.random.default_rng(h + w).standard_normal((h, w))
    want = np.zeros((h, w))
    for read in places(h, w):
        at = [(min(max(i, 0), h - 1), min(max(j, 0), w - 1)) for i, j in read]
        if text is PATCHES:
            d = 2 * (x[at[0]] - x[at[1]])
            want[at[0]] += d
            want[at[1]] -= d
        else:
            for k, one in enumerate(at):
                want[one] += np.prod([x[p] for n, p in enumerate(at) if n != k])
    np.testing.assert_allclose(nap.grad(nap.compile(text).loss)(x), want, atol=1e-11)


@pytest.mark.parametrize("text", [WINDOWS, CUBE, STEPS])
def test_slopes_in_every_size(text: str) -> None:
    """Along a line, as differences say."""
    f = nap.compile(text).loss
    many, axes = (2, 2) if text is WINDOWS else (1, 3 if text is CUBE else 2)
    slope = nap.grad(f, ("a", "b") if many == 2 else "x")
    for shape in product((0, 1, 2, 3, 6), repeat=2):
        whole = (*shape, 4)[:axes]
        rng = np.random.default_rng(sum(shape))
        x, d = rng.standard_normal((2, many, *whole)) * 0.5
        found = slope(*x)
        have = np.sum(np.array(found if many == 2 else [found]) * d)
        e = 1e-5
        want = (f(*(x + e * d)) - f(*(x - e * d))) / (2 * e)
        np.testing.assert_allclose(have, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("text", "most"), [(PATCHES, 60), (WINDOWS, 160), (CUBE, 24)]
)
def test_few_loops(text: str, most: int) -> None:
    """By cases there would be 92, 199 and 214."""
    shown = nap.grad(nap.compile(text).loss).show("loops").partition("# notes")[0]
    lines = [x.strip() for x in shown.splitlines()]
    assert sum(x.startswith(("for ", "free for ", "parallel for ")) for x in lines) < most


def test_places_that_data_name_stay_in_range() -> None:
    """Beside others on the same axis that have a margin."""
    f = nap.compile("""
def loss(x: Fin(h)=>Fin(w)=>Float, s: Fin(h)=>Int) -> Float =
    sum(x[clamp(i + p - 1), clamp(s[i])] * x[clamp(i + q - 1), clamp(j + p - 1)]
        * x[clamp(i - p), clamp(j - q + 1)] for i in Fin(h), j in Fin(w), p in Fin(3), q in Fin(3))
""").loss
    rng = np.random.default_rng(0)
    x, d, s = rng.random((4, 5)), rng.random((4, 5)), np.array([-70, 90, 2, 4])
    want = (f(x + 1e-5 * d, s) - f(x - 1e-5 * d, s)) / 2e-5
    np.testing.assert_allclose((nap.grad(f, "x")(x, s) * d).sum(), want, rtol=1e-7)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 2)])
def test_where_there_are_no_ends_nothing_is_sent_to_them(shape: tuple[int, int]) -> None:
    """The interpreters find every place that is out of range; a row of none lies anywhere."""
    text = f"{ONE}\ndef slope(x: Fin(h)=>Fin(w)=>Float) = grad(loss)(x)\n"
    program, wrong = pipeline.front(Source("ends.nap", text))
    assert program is not None, wrong
    at = Substitution({p.var: F64 for p in program.definitions["slope"].types}, {}, {})
    flat = pipeline.flat(pipeline.specialise(program, "slope", at))
    nests = pipeline.lower(program, "slope", at)
    x = np.random.default_rng(0).standard_normal(shape)
    want = nap.compile(text).slope(x)
    for found in (ainf_run.run(flat, shape, [x]), loops_run.run(nests, shape, [x])):
        np.testing.assert_allclose(found[0], want, atol=1e-12)
    nap.compile(text).slope(np.zeros((0, 1_000_000)))


def test_one_window_is_sent_by_cases() -> None:
    """Which has no table with a margin."""
    assert "<h + 2" not in nap.grad(nap.compile(ONE).loss).show("ainf")
    assert "<h + 4" in nap.grad(nap.compile(PATCHES).loss).show("ainf")
