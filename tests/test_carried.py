"""Scans whose values the next round has: they have one history."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap

LAYERS = """
def up(w: Float, v: Float, below: b=>Float, old: b=>Float) -> b=>Float =
    [tanh(w * below[u] + v * old[u]) for u]

def layers(w: l=>Float, v: l=>Float, old: l=>b=>Float, x: b=>Float) -> l=>b=>Float =
    scan(lambda below, i: up(w[i], v[i], below, old[i]), x, [i for i in l])

def run(w: Fin(l)=>Float, v: Fin(l)=>Float, start: Fin(l)=>Fin(b)=>Float, x: Fin(c)=>Fin(b)=>Float) -> Float
        where l >= 1:
    loop s = start, total = 0.0 for t in Fin(c):
        new = layers(w, v, s, x[t] * x[t])
        (new, total + sum(sin(last(new)[u]) for u))
    total

def every(w: Fin(l)=>Float, v: Fin(l)=>Float, start: Fin(l)=>Fin(b)=>Float, x: Fin(c)=>Fin(b)=>Float) -> Float:
    loop s = start, total = 0.0 for t in Fin(c):
        new = layers(w, v, s, x[t] * x[t])
        (new, total + sum(sin(new[i, u]) for i, u))
    total
"""  # noqa: E501


@pytest.fixture(scope="module")
def m() -> nap.Module:
    return nap.compile(LAYERS)


@pytest.mark.parametrize("name", ["run", "every"])
@pytest.mark.parametrize(("l", "c", "b"), [(1, 3, 2), (3, 1, 17), (2, 5, 3), (4, 2, 1), (2, 0, 3)])
def test_derivatives_are_differences(m: nap.Module, name: str, l: int, c: int, b: int) -> None:
    r = np.random.default_rng(7)
    args = [r.normal(size=s) for s in (l, l, (l, b), (c, b))]
    along = [r.normal(size=a.shape) for a in args]
    f = m[name]
    slopes = nap.grad(f, ("w", "v", "start", "x"))(*args)
    found = sum(np.vdot(np.asarray(s), d) for s, d in zip(slopes, along, strict=True))
    near, far = (f(*(a + h * d for a, d in zip(args, along, strict=True))) for h in (1e-5, -1e-5))
    assert found == pytest.approx((near - far) / 2e-5, rel=1e-6, abs=1e-8)


def test_there_is_one_history(m: nap.Module) -> None:
    text = nap.grad(m.run, ("w", "v", "start", "x")).show("loops")
    tables = re.findall(r"allocate (\w+): f64\[[lc][^\]]*, [^\]]*, b\]", text)
    assert tables == ["s"]
    assert re.search(r"\bs\[c - \w+, l - \w+ - 2", text)  # of the layer below


def test_what_a_round_makes_is_the_next_state() -> None:
    text = """
def run(w: Fin(b)=>Float, start: Fin(b)=>Float, x: Fin(c)=>Fin(b)=>Float) -> Float:
    loop s = start for t in Fin(c): [tanh(w[u] * s[u] + x[t, u]) for u]
    sum(s)
"""
    run = nap.compile(text).run
    shown = nap.grad(run, ("w", "start")).show("loops")
    assert re.findall(r"allocate (\w+): f64\[c", shown) == ["s"]
    r = np.random.default_rng(7)
    w, start, x = r.normal(size=3), r.normal(size=3), r.normal(size=(6, 3))
    slope = np.asarray(nap.grad(run, "w")(w, start, x))
    h = 1e-6
    for k, e in enumerate(np.eye(3)):
        near, far = (run(w + s * e, start, x) for s in (h, -h))
        assert slope[k] == pytest.approx((near - far) / (2 * h), rel=1e-7)


DIRECTIONS = {
    "rows that begin with an element": """
def line(d: Fin(n)=>Float) -> Fin(n)=>Float where n >= 1:
    with state(d) as x:
        x[0] := d[0] / 2.0
        for i in 1..n:
            x[i] := x[i] - x[i - 1]

def half(u: Fin(n)=>Fin(m)=>Float) -> Fin(n)=>Fin(m)=>Float where n >= 1, m >= 1 =
    [line(u[i]) for i]
""",
    "the first element of every row": """
def line(d: Fin(n)=>Float) -> Fin(n)=>Float where n >= 1:
    with state(d) as x:
        for i in Fin(n):
            x[i] := x[i] + d[0]

def half(u: Fin(n)=>Fin(m)=>Float) -> Fin(m)=>Fin(n)=>Float where n >= 1, m >= 1 =
    [line([u[i, j] for i]) for j]
""",
}


@pytest.mark.parametrize("name", DIRECTIONS)
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (5, 2), (17, 20)])
def test_lines_that_are_changed_in_place_one_way_and_then_the_other(
    name: str, shape: tuple[int, int]
) -> None:
    m = nap.compile(DIRECTIONS[name] + """
def f(u: Fin(n)=>Fin(m)=>Float, steps: Int) -> Fin(n)=>Fin(m)=>Float where n >= 1, m >= 1:
    loop u = u for _ in Fin(steps): half(half(u))
""")
    wanted = u = np.random.default_rng(3).integers(-9, 9, shape).astype(float)
    for steps in range(3):
        np.testing.assert_array_equal(m.f(u, steps), wanted)
        wanted = m.half(m.half(wanted))
