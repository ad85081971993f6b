"""A part of an image that windows go over, at a place that data name, is cut out once."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

TEXT = """
def energy(img: Fin(h)=>Fin(w)=>Float, a: p=>Fin(t)=>Fin(t)=>Float, r: p=>Int, c: p=>Int, s: Int) -> p=>Float where h >= 1, w >= 1, s >= 1, t >= 1:
    for k in p:
        part = [img[clamp(r[k] + i), clamp(c[k] + j)] for i in Fin(s + t), j in Fin(s + t)]
        sum(sum(part[y + i, x + j] * a[k, i, j] for i, j) ** 2 for y in Fin(s), x in Fin(s))

def near(img: Fin(h)=>Fin(w)=>Float, a: Fin(t)=>Fin(t)=>Float, s: Int, r: Int, c: Int) -> Float where h >= 1, w >= 1:
    part = [img[clamp(r + i), clamp(c + j)] for i in Fin(s + t - 1), j in Fin(s + t - 1)]
    max(sum(part[y + i, x + j] * a[i, j] for i, j) for y in Fin(s), x in Fin(s))

def best(img: Fin(h)=>Fin(w)=>Float, a: p=>Fin(t)=>Fin(t)=>Float, r: p=>Int, c: p=>Int, s: Int) -> Float where h >= 1, w >= 1, s >= 1, t >= 1:
    sum(near(img, a[k], s, r[k], c[k]) for k)

def along(x: Fin(n)=>Float, a: t=>Float, at: Int, s: Int) -> Float where n >= 1, s >= 0:
    part = [x[clamp(at + i)] for i in Fin(s)]
    sum(part[i] * a[j] for i in Fin(s), j)

def few(x: Fin(n)=>Float, at: p=>Int, s: Int) -> p=>Fin(s)=>Float where n >= 1, s >= 0:
    for k in p:
        part = [x[clamp(at[k] + i)] for i in Fin(s + 2)]
        [part[i] + part[i + 1] + part[i + 2] for i in Fin(s)]

def twice(x: Fin(n)=>Float, at: Int, s: Int) -> Float where n >= 1, s >= 1:
    part = [x[clamp(at + i)] for i in Fin(2 * s - 1)]
    sum(part[i + j] * part[i] for i in Fin(s), j in Fin(s))
"""  # noqa: E501


def part(img: np.ndarray, r: int, c: int, n: int) -> np.ndarray:
    rows, columns = (
        np.clip(np.arange(at, at + n), 0, m - 1) for at, m in zip((r, c), img.shape, strict=True)
    )
    return img[np.ix_(rows, columns)]


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("h", "w", "t", "s"), [(1, 1, 1, 1), (9, 12, 3, 5), (30, 25, 9, 8)])
def test_values(h: int, w: int, t: int, s: int) -> None:
    m = nap.compile(TEXT)
    g = np.random.default_rng(h)
    img, a = g.normal(size=(h, w)), g.normal(size=(4, t, t))
    r, c = g.integers(-5, h + 5, 4), g.integers(-5, w + 5, 4)
    windows = [
        np.lib.stride_tricks.sliding_window_view(part(img, i, j, s + t - 1), (t, t))
        for i, j in zip(r, c, strict=True)
    ]
    found = np.array([np.einsum("yxij,ij->yx", x, y) for x, y in zip(windows, a, strict=True)])
    np.testing.assert_allclose(m.energy(img, a, r, c, s), (found**2).sum((1, 2)), rtol=1e-12)
    np.testing.assert_allclose(m.best(img, a, r, c, s), found.max((1, 2)).sum(), rtol=1e-12)
    x, at = img[0], int(c[0])
    of = x[np.clip(at + np.arange(2 * s - 1), 0, w - 1)]
    pairs = sum(of[i + j] * of[i] for i in range(s) for j in range(s))
    np.testing.assert_allclose(m.twice(x, at, s), pairs, rtol=1e-12)


def test_derivatives() -> None:
    m = nap.compile(TEXT)
    g = np.random.default_rng(0)
    img, a, d = g.normal(size=(12, 14)), g.normal(size=(3, 4, 4)), g.normal(size=(12, 14))
    r, c = g.integers(-3, 12, 3), g.integers(-3, 12, 3)
    slope = (m.best(img + 1e-6 * d, a, r, c, 5) - m.best(img - 1e-6 * d, a, r, c, 5)) / 2e-6
    found = nap.grad(m.best, wrt="img")(img, a, r, c, 5)
    np.testing.assert_allclose((found * d).sum(), slope, rtol=1e-6)


@pytest.mark.parametrize("name", ["energy", "best"])
def test_each_element_is_looked_up_once(name: str) -> None:
    text = nap.compile(TEXT)[name].show("loops")
    assert text.count("img[clamp(") == 1
    assert "allocate part: f64[s + t" in text or "allocate part: f64[t + s" in text


@pytest.mark.parametrize("name", ["along", "few"])
def test_what_is_in_few_windows_is_read_there(name: str) -> None:
    assert "part:" not in nap.compile(TEXT)[name].show("loops")
