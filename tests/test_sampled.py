"""What is added at places that a round computes: an image sampled between its pixels, and back."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap

WARP = """
def sample(img: Fin(h)=>Fin(w)=>Float, u: Float, v: Float) -> Float where h >= 1, w >= 1:
    (i, j) = (Int(floor(u)), Int(floor(v)))
    (a, b) = (u - floor(u), v - floor(v))
    ((1.0 - a) * (1.0 - b) * img[clamp(i), clamp(j)] + a * (1.0 - b) * img[clamp(i + 1), clamp(j)]
        + (1.0 - a) * b * img[clamp(i), clamp(j + 1)] + a * b * img[clamp(i + 1), clamp(j + 1)])
def warp(img: Fin(h)=>Fin(w)=>Float, flow: Fin(h)=>Fin(w)=>Fin(2)=>Float,
         target: Fin(h)=>Fin(w)=>Float) -> Float where h >= 1, w >= 1 =
    sum((sample(img, i + flow[i, j, 0], j + flow[i, j, 1]) - target[i, j]) ** 2 for i, j)
def along(x: Fin(n)=>Float, at: Fin(k)=>Fin(m)=>Float) -> Float where n >= 1:
    def near(u):
        (i, a) = (Int(floor(u)), u - floor(u))
        ((1.0 - a) * x[clamp(i)] + a * x[clamp(i + 1)]) * exp(-a * a) + sin(a * x[clamp(i)])
    sum(near(at[r, j] * (r + 1)) if at[r, j] > 0.0 else 0.0 for r, j)
"""


def warped(img: np.ndarray, flow: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradients, pixel by pixel."""
    back, bent = np.zeros_like(img), np.zeros_like(flow)
    h, w = img.shape
    for i, j in np.ndindex(h, w):
        u, v = i + flow[i, j, 0], j + flow[i, j, 1]
        a, b = u - np.floor(u), v - np.floor(v)
        rows = np.clip([int(np.floor(u)), int(np.floor(u)) + 1], 0, h - 1)
        columns = np.clip([int(np.floor(v)), int(np.floor(v)) + 1], 0, w - 1)
        x, y = np.array([1 - a, a]), np.array([1 - b, b])
        part = img[np.ix_(rows, columns)]
        d = 2 * (x @ part @ y - target[i, j])
        np.add.at(back, np.ix_(rows, columns), d * np.outer(x, y))
        bent[i, j] = d * np.array([(part[1] - part[0]) @ y, x @ (part[:, 1] - part[:, 0])])
    return back, bent


@pytest.mark.usefixtures("threads")
def test_gradients_of_a_warped_image() -> None:
    m = nap.compile(WARP)
    both = nap.value_and_grad(m.warp, wrt=("img", "flow"))
    rng = np.random.default_rng(0)
    for h, w in [(1, 1), (1, 9), (7, 1), (5, 16), (3, 257), (40, 300)]:
        img, target = rng.normal(size=(2, h, w))
        flow = 3 * rng.normal(size=(h, w, 2))
        back, bent = warped(img, flow, target)
        value, found = both(img, flow, target)
        assert value == pytest.approx(m.warp(img, flow, target), rel=1e-12)
        np.testing.assert_allclose(found[0], back, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found[1], bent, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(nap.grad(m.warp)(img, flow, target), back, 1e-9, 1e-12)


def test_what_is_added_to_pixels_is_computed_in_vectors_before() -> None:
    m = nap.compile(WARP)
    text = nap.grad(m.warp).show("loops")
    assert len(re.findall(r"update out\[", text)) == 4
    tables = [x for x in re.findall(r"allocate small (\w+): i64", text)]
    assert len(tables) == 4, "of two rows and two columns, each once"


@pytest.mark.usefixtures("threads")
def test_some_of_the_places_are_asked_for() -> None:
    m = nap.compile(WARP)
    rng = np.random.default_rng(1)
    for n, r, j in [(1, 0, 5), (1, 2, 1), (50, 3, 17), (300, 4, 600)]:
        x, at = rng.normal(size=n), rng.uniform(-0.2 * n, 0.5 * n, (r, j))
        found = nap.grad(m.along, wrt=("x", "at"))(x, at)
        d, e = rng.normal(size=n), rng.normal(size=(r, j))
        for k, along in enumerate((d, e)):
            slope = nap.jvp(m.along, wrt=k)(x, at, along)[1]
            assert np.vdot(found[k], along) == pytest.approx(slope, rel=1e-9, abs=1e-12)
