"""A table that is seen under other index sets after it was written half by half: what flows back to
a half is read where its digits say, and nothing is added one after the other."""

import numpy as np
import pytest

import naperian as nap
from naperian import Module

TEXT = """
struct C:
    re: Float
    im: Float

instance Num(C):
    def (+)(z, w) = C(z.re + w.re, z.im + w.im)
    def (-)(z, w) = C(z.re - w.re, z.im - w.im)
    def (*)(z, w) = C(z.re * w.re - z.im * w.im, z.re * w.im + z.im * w.re)
    def number(x) = C(Float(x), 0.0)

def halves(x: Fin(n)=>Float, h: Int) -> Fin(n)=>Float:
    k = n // (2 * h)
    assert k * 2 * h == n and h >= 1, "not so many"
    y = x as Fin(k)=>Fin(2)=>Fin(h)=>Float
    [[[y[i, 0, j] * y[i, 1, j] for j], [sin(y[i, 0, j]) for j]] for i] as Fin(n)=>Float

def quarters(x: Fin(n)=>Float, h: Int) -> Fin(n)=>Float:
    k = n // (4 * h)
    assert k * 4 * h == n and h >= 1, "not so many"
    y = x as Fin(k)=>Fin(4)=>Fin(h)=>Float
    rows = for i:
        (a, b, c, d) = (y[i, 0], y[i, 1], y[i, 2], y[i, 3])
        [a * b, sin(c) - d, d * a, b + c]
    rows as Fin(n)=>Float

def columns(x: Fin(l)=>Fin(m)=>Float) -> Fin(2 * l * m)=>Float:
    y = [[[x[i, j] ** 2 for j] for i], [[sin(x[i, j]) for j] for i]]
    y as Fin(2 * l * m)=>Float

def twice(x: Fin(k)=>Fin(h)=>Float) -> Fin(2 * k * h)=>Float =
    [[x[i], x[i]] for i] as Fin(2 * k * h)=>Float

def rounds(x: Fin(n)=>Float) -> Fin(n)=>Float:
    loop x = x, h = 1 while 2 * h <= n:
        k = n // (2 * h)
        assert k * 2 * h == n and h >= 1, "a power of two"
        y = x as Fin(k)=>Fin(2)=>Fin(h)=>Float
        z = [[[y[i, 0, j] + y[i, 1, j] for j], [sin(y[i, 0, j]) * y[i, 1, j] for j]] for i]
        (z as Fin(n)=>Float, 2 * h)
    x

def turned(z: Fin(n)=>C) -> Fin(n)=>C:
    loop x = z, m = 1 while 2 * m <= n:
        l = n // (2 * m)
        assert 2 * l * m == n and m >= 1, "a power of two"
        a = x as Fin(2)=>Fin(l)=>Fin(m)=>C
        w = [C(cos(pi * j / l), sin(pi * j / l)) for j in Fin(l)]
        y = [[[a[0, j, k] + a[1, j, k] for k], [w[j] * (a[0, j, k] - a[1, j, k]) for k]] for j]
        (y as Fin(n)=>C, 2 * m)
    x

def of_halves(x: Fin(n)=>Float, h: Int, w: Fin(n)=>Float) -> Float = dot(halves(x, h), w)
def of_quarters(x: Fin(n)=>Float, h: Int, w: Fin(n)=>Float) -> Float = dot(quarters(x, h), w)
def of_columns(x: Fin(l)=>Fin(m)=>Float, w: Fin(2 * l * m)=>Float) -> Float = dot(columns(x), w)
def of_twice(x: Fin(k)=>Fin(h)=>Float, w: Fin(2 * k * h)=>Float) -> Float =
    dot([v ** 2 for v in twice(x)], w)
def of_rounds(x: Fin(n)=>Float, w: Fin(n)=>Float) -> Float = dot(rounds(x), w)
def of_all(x: k=>Fin(n)=>Float, w: Fin(n)=>Float) -> Float = sum(of_rounds(x, w))
def of_turned(x: Fin(n)=>Float, w: Fin(n)=>Float) -> Float:
    z = turned([C(v, v ** 2) for v in x])
    sum(z[i].re * w[i] + z[i].im for i)
def of_each(x: k=>Fin(n)=>Float, w: Fin(n)=>Float) -> Float = sum(of_turned(x, w))
"""


@pytest.fixture(scope="module")
def m() -> Module:
    return nap.compile(TEXT)


def slope(f: nap.Function, x: np.ndarray, *rest: object) -> np.ndarray:
    """The gradient, element by element."""
    out = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[at] = 1e-6
        out[at] = (f(x + step, *rest) - f(x - step, *rest)) / 2e-6
    return out


@pytest.mark.parametrize(("name", "parts"), [("of_halves", 2), ("of_quarters", 4)])
def test_a_half_is_read_at_its_places(m: Module, name: str, parts: int) -> None:
    f = getattr(m, name)
    by = nap.grad(f, wrt="x")
    rng = np.random.default_rng(1)
    for k, h in ((0, 1), (1, 1), (1, 5), (3, 1), (5, 3), (2, 16)):
        x, w = rng.standard_normal((2, parts * k * h))
        np.testing.assert_allclose(by(x, h, w), slope(f, x, h, w), atol=1e-7)
    assert not scattered(by)


def test_what_has_no_other_digits(m: Module) -> None:
    rng = np.random.default_rng(2)
    for name in ("of_columns", "of_twice"):
        f = getattr(m, name)
        by = nap.grad(f, wrt="x")
        for k, h in ((0, 3), (1, 1), (3, 1), (4, 5)):
            x, w = rng.standard_normal((k, h)), rng.standard_normal(2 * k * h)
            np.testing.assert_allclose(by(x, w), slope(f, x, w), atol=1e-7)
        assert " at [" not in by.show("prune")


@pytest.mark.parametrize("name", ["of_rounds", "of_turned", "of_all", "of_each"])
def test_in_the_rounds_of_a_loop_that_finds_how_many(m: Module, name: str) -> None:
    f = getattr(m, name)
    by = nap.grad(f, wrt="x")
    rng, rows = np.random.default_rng(3), name in ("of_all", "of_each")
    for n in (1, 2, 4, 16):
        x, w = rng.standard_normal((3, n) if rows else n), rng.standard_normal(n)
        np.testing.assert_allclose(by(x, w), slope(f, x, w), rtol=1e-5, atol=1e-5)
    assert not scattered(by)
    assert "ge(((" not in by.show("prune")  # nor is each place asked whose it is


def test_one_way_and_the_other(m: Module) -> None:
    rng = np.random.default_rng(4)
    for n in (2, 8):
        x, v, w = rng.standard_normal((3, n))
        by = nap.grad(m.of_rounds, wrt="x")
        _, along = nap.jvp(m.of_rounds, wrt="x")(x, w, v)
        assert np.isclose(along, by(x, w) @ v)
        curved = nap.hessian(m.of_rounds, wrt="x")(x, w)
        near = (by(x + 1e-6 * v, w) - by(x - 1e-6 * v, w)) / 2e-6
        np.testing.assert_allclose(curved @ v, near, rtol=1e-4, atol=1e-4)


def test_a_digit_of_many_values_is_added_where_it_goes() -> None:
    m = nap.compile("""
def f(x: Fin(3)=>F32, w: Fin(300)=>F32) -> F32 = sum(x[i % 3] * w[i] for i)
def few(x: Fin(h)=>F32, w: Fin(2 * h)=>F32) -> F32 where h >= 1 = sum(x[i % h] * w[i] for i)
""")
    w = np.arange(300, dtype=np.float32)
    many, few = nap.grad(m.f, wrt="x"), nap.grad(m.few, wrt="x")
    np.testing.assert_allclose(many(np.ones(3, np.float32), w), w.reshape(100, 3).sum(0))
    np.testing.assert_allclose(few(np.ones(150, np.float32), w), w[:150] + w[150:])
    assert scattered(many)
    assert not scattered(few)


def scattered(f: nap.Function) -> bool:
    """Whether anything is added where a digit says."""
    entries = [e.split(" of ")[0] for e in f.show("prune").split(" at [")[1:]]
    return any("wrap(" in e for e in entries)
