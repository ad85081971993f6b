"""Gradients of what is read of a loop's history at places that data name, or that are computed."""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_cost import PROGRAMS

import naperian as nap

TEXT = """
def tables(c: Float, a: Fin(n)=>Float) -> Fin(n)=>Float = scan(lambda s, x: c * s + x * x, 0.0, a)

def looked_up(c: Float, a: Fin(n)=>Float, k: m=>Fin(n), w: m=>Float) -> Float:
    h = tables(c, a)
    sum(h[k[j]] * w[j] + h[k[j]] ** 2 for j)

def beside(c: Float, a: Fin(n)=>Float, t: m=>Float) -> Float where n >= 1:
    h = tables(c, a)
    def at(x):
        j = clamp(Int(floor(x)), n)
        h[j] + (x - j) * (h[clamp(j + 1)] - h[j])
    sum(at(t[k]) ** 2 for k) + h[0?] * h[clamp(n - 1)]

def rows(c: Float, a: Fin(n)=>d=>Float, k: m=>Fin(n)) -> Float:
    h = scan(lambda s, x: [c * s[j] + x[j] * s[j] + x[j] for j], [1.0 for _ in d], a)
    sum(h[k[i], j] ** 2 * (i + 1.0) for i, j)

def again(c: Float, a: Fin(n)=>Float, k: m=>Fin(n)) -> Float:
    loop s = 1.0 for r in Fin(3):
        h = scan(lambda s, x: c * s + x * x, s, a)
        s * 0.1 + sum(h[k[j]] for j) * 0.2
    s

def both(c: Float, a: Fin(n)=>Float, k: m=>Fin(n), l: m=>Fin(n)) -> Float:
    h = tables(c, a)
    g = scan(lambda s, x: c * s + sin(x), 0.0, h)
    sum(h[k[j]] * g[l[j]] for j)
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def arguments(name: str, n: int, k: int) -> tuple:
    r = np.random.default_rng(n + 100 * k)
    a = r.normal(size=(n, 3) if name == "rows" else n)
    if name == "beside":
        return 0.7, a, r.uniform(-1, n + 1, k)
    places = tuple(r.integers(0, n, k) for _ in range(2 if name == "both" else 1))
    return (0.7, a, *places, r.normal(size=k)) if name == "looked_up" else (0.7, a, *places)


@pytest.mark.parametrize("n", [1, 2, 9, 40])
@pytest.mark.parametrize("k", [0, 1, 5, 100])
@pytest.mark.parametrize("name", ["looked_up", "beside", "rows", "again", "both"])
def test_as_forwards(m, name: str, n: int, k: int) -> None:
    f, args = m[name], arguments(name, n, k)
    c, a = nap.grad(f, wrt=("c", "a"))(*args)
    r = np.random.default_rng(1)
    dc, da = r.normal(), r.normal(size=np.shape(args[1]))
    _, tangent = nap.jvp(f, wrt=("c", "a"))(*args, dc, da)
    np.testing.assert_allclose(c * dc + (a * da).sum(), tangent, rtol=1e-9, atol=1e-11)


def test_a_place_is_not_looked_for_in_every_round(m) -> None:
    """The loop backwards has no loop over the places in it."""
    r = np.random.default_rng(0)
    grad = nap.grad(m.looked_up, wrt="a")
    text = grad.show("loops")
    assert text.count("for j") <= 2, text
    n = 3000
    args = (0.7, r.normal(size=n), r.integers(0, n, n), r.normal(size=n))
    h = np.zeros(n)
    seed = np.zeros(n)
    s = 0.0
    for i, x in enumerate(args[1]):
        s = 0.7 * s + x * x
        h[i] = s
    np.add.at(seed, args[2], args[3] + 2 * h[args[2]])
    back, want = 0.0, np.zeros(n)
    for i in reversed(range(n)):
        back = seed[i] + 0.7 * back
        want[i] = back * 2 * args[1][i]
    np.testing.assert_allclose(grad(*args), want, rtol=1e-9)


def test_the_last_round_of_each_element_is_where_the_loop_backwards_begins() -> None:
    """Data say how many rounds an element has, and it is the element's own: no table is made."""
    f = nap.compile("""
def f(x: n=>Float, k: n=>Int) -> Float:
    y = for i:
        rounds = k[i]
        loop v = x[i] for _ in Fin(rounds): 0.5 * v + v * v
    sum(y[i] ** 2 for i)
""").f
    x, k = np.array([0.3, -0.2, 0.1, 0.4]), np.array([0, 3, 1, 2])
    v = np.array([1.0, -2.0, 0.5, 3.0])
    grad = nap.grad(f, wrt="x")
    np.testing.assert_allclose(grad(x, k) @ v, nap.jvp(f, wrt="x")(x, k, v)[1], rtol=1e-12)
    assert "add over at" not in grad.show("ainf")


def test_what_is_read_before_it_changes_is_read_where_it_is() -> None:
    """The tangents of a round go with its rounds, in front of the loop that hands `f` on: nothing
    notes what they read of `f`."""
    f = nap.compile(PROGRAMS["a few elements of a table in place"][0]).f
    r = np.random.default_rng(0)
    x, t, v = r.normal(size=6), r.normal(size=(3, 3)), r.normal(size=6)
    tangents = nap.jvp(f, wrt="x")
    np.testing.assert_allclose(nap.grad(f, wrt="x")(x, t) @ v, tangents(x, t, v)[1], rtol=1e-12)
    assert "another loop reads it" not in tangents.show("loops")


PLACES = """
def read(c: Float, a: Fin(n)=>Float, k: Int, m: Int) -> Float:
    h = scan(lambda s, x: c * s + x * x, 0.0, a)
    sum(h[{at}] ** 2 * h[clamp(i)] for i in Fin(m))
"""


@pytest.mark.parametrize("at", [
    "clamp(i - 3)", "clamp(i + k)", "clamp(2 * i)", "clamp(n - 1 - i)", "clamp(i // 2 + 1)",
    "clamp(i * k)", "wrap(2 * i)", "wrap(i - k)", "clamp(min(i % 5, 3))", "(2 * i // 3)?",
])  # fmt: skip
def test_a_place_that_is_computed_is_not_looked_for_in_every_round(at: str) -> None:
    """No loop of the gradient has a loop inside."""
    f = nap.compile(PLACES.format(at=at)).read
    grad = nap.grad(f, wrt=("c", "a"))
    text = grad.show("loops")
    inside = 99
    for line in text.partition("# notes")[0].splitlines():
        depth = len(line) - len(line.lstrip())
        loop = re.match(r" *(parallel |free )?for ", line) is not None
        assert not (loop and depth > inside), text
        inside = depth if loop else inside if depth > inside else 99
    r = np.random.default_rng(5)
    for n in (1, 2, 3, 8, 30):
        a, da, dc = r.normal(size=n), r.normal(size=n), r.normal()
        for k, m in ((0, 1), (2, n), (-3, n), (n, 0)):
            gc, ga = grad(0.7, a, k, m)
            _, tangent = nap.jvp(f, wrt=("c", "a"))(0.7, a, k, m, dc, da)
            np.testing.assert_allclose(gc * dc + ga @ da, tangent, rtol=1e-9, atol=1e-11)


def test_moving_sums_of_rows() -> None:
    """Differences of running sums, kept in range, of every row and in loops around."""
    f = nap.compile("""
def f(x: Fin(n)=>Fin(m)=>Float, k: Int) -> Float:
    h = cumsum(x)
    s = [[h[i, clamp(j + k)] - h[i, clamp(j - k)] for j in Fin(m)] for i in Fin(n)]
    loop y = 1.0 for r in Fin(3):
        g = cumsum(y * x)
        0.1 * y + sum(g[i, clamp(2 * j)] * s[i, j] for i, j)
    y
""").f
    r = np.random.default_rng(2)
    for n, m in ((1, 1), (3, 7), (0, 2)):
        x, v = r.normal(size=(2, n, m)) * 0.2
        np.testing.assert_allclose((nap.grad(f)(x, 2) * v).sum(), nap.jvp(f)(x, 2, v)[1], rtol=1e-9)


def test_one_element_of_what_a_loop_ends_with_has_no_table() -> None:
    """A point of a curve (de Casteljau): of the last row of a triangle, its first element."""
    f = nap.compile("""
def curve(p: Fin(m)=>Float, t: Fin(n)=>Float) -> Fin(n)=>Float:
    for i:
        q = loop q = p for r in Fin(m):
            [(1.0 - t[i]) * q[k] + t[i] * q[clamp(k + 1)] if k < m - 1 - r else q[k] for k]
        q[0?]
""").curve
    p, t = np.array([1.0, -2.0, 0.5, 3.0]), np.linspace(0, 1, 9)
    wanted = (
        p[0] * (1 - t) ** 3 + 3 * p[1] * t * (1 - t) ** 2 + 3 * p[2] * t**2 * (1 - t) + p[3] * t**3
    )
    np.testing.assert_allclose(f(p, t), wanted, rtol=1e-13, atol=1e-14)
    assert f.show("loops").count("allocate") == 1


def test_a_row_goes_forwards_and_backwards_before_the_next() -> None:
    """The table of zeros that each row's loop backwards begins with is in the loop over rows that
    went forwards: what a row keeps is kept for one row."""
    f = nap.compile("""
def stepped(x: Float, t: Float, m: Int) -> Float:
    loop v = [[max(x * i - t, 0.0) for j in Fin(m)] for i in Fin(m)] for s in Fin(m):
        [[v[i, j] + t * (v[clamp(i + 1), j] - v[i, j]) ** 2 for j] for i]
    v[(m // 2)?, (m // 3)?]

def rows(x: n=>Float, t: Float, m: Int) -> n=>Float = stepped(x, t, m)
""").rows
    slope = nap.vjp(f, wrt="t")
    text = slope.show("loops")
    kept = [line for line in text.split("\n") if "allocate" in line and "[n" in line]
    assert not kept
    x, seed = np.linspace(0.5, 1.5, 7), np.linspace(1.0, 2.0, 7)
    _, along = nap.jvp(f, wrt="t")(x, 0.01, 5, 1.0)
    np.testing.assert_allclose(slope(x, 0.01, 5, seed)[1], seed @ along, rtol=1e-12)



WAVES = """
def wave(
    u: Fin(n)=>Float, v: Fin(n)=>Float, c: Fin(n)=>Float, steps: Int
) -> (Fin(n)=>Float, Fin(n)=>Float):
    loop now = u, before = v for _ in Fin(steps):
        next = for i:
            1.6 * now[i] - (0.8 + 0.1 * c[i]) * before[i] + 0.1 * c[i] * now[clamp(i - 1)]
        (next, now)
    (now, before)

def loss(u: Fin(n)=>Float, v: Fin(n)=>Float, c: Fin(n)=>Float, steps: Int) -> Float:
    (now, before) = wave(u, v, c, steps)
    sum(now[i] ** 2 + 0.5 * before[i] ** 3 for i)

def three(u: Fin(n)=>Float, v: Fin(n)=>Float, c: Fin(n)=>Float, steps: Int) -> Float:
    loop now = u, before = v, first = c for _ in Fin(steps):
        ([0.3 * now[i] * c[i] + 0.3 * sin(first[i]) * before[i] for i], now, before)
    sum(now[i] * before[i] * first[i] for i)

def swapped(u: Fin(n)=>Float, v: Fin(n)=>Float, c: Fin(n)=>Float, steps: Int) -> Float:
    loop now = u, other = v for _ in Fin(steps):
        (other, [0.4 * now[i] * c[i] + 0.5 * sin(other[i]) for i])
    sum(now[i] * other[i] for i)
"""


@pytest.mark.parametrize("name", ["loss", "three", "swapped"])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 7, 100])
def test_states_of_the_round_before(name: str, steps: int) -> None:
    f = nap.compile(WAVES)[name]
    r = np.random.default_rng(steps)
    for n in (0, 1, 5, 9_000 if steps == 100 else 30):  # in strips, too
        u, v, c = (0.3 * r.normal(size=n) for _ in range(3))
        d = [0.3 * r.normal(size=n) for _ in range(3)]
        h = 1e-6
        there, back = (f(*(x + s * h * y for x, y in zip((u, v, c), d, strict=True)), steps)
                       for s in (1, -1))  # fmt: skip
        slopes = nap.grad(f, wrt=(0, 1, 2))(u, v, c, steps)
        got = sum(float(x @ y) for x, y in zip(slopes, d, strict=True))
        assert got == pytest.approx((there - back) / (2 * h), rel=2e-5, abs=1e-5)


def test_the_state_of_the_round_before_has_no_history() -> None:
    loops = nap.grad(nap.compile(WAVES)["loss"], wrt=(0, 1, 2)).show("loops")
    copies = re.findall(r"store before\w*\[t\w* \+ 1, i\w*\] = now\w*\[t\w*, i\w*\]", loops)
    assert copies == []
    assert re.search(r"allocate now\w*: f64\[late \+ 2, n\]", loops)
    assert "max(8 * n, 1)" in loops  # what strips take counts it once


COEFFICIENTS = """
def loss(u: n=>Float, c: n=>Float, k: Float, steps: Int) -> Float:
    loop u = u for t in Fin(steps):
        [c[i] * sin(u[i]) + u[i] / (1.0 + c[i] * c[i]) + (1.0 - c[i]) * u[i] - k * c[i] for i]
    sum(v ** 2 for v in u)

def less(u: n=>Float, c: n=>Float, steps: Int) -> Float:
    loop u = u for t in Fin(steps): [sin(u[i]) - c[i] - (c[i] * u[i] - 1.0) for i]
    sum(v ** 2 for v in u)
"""


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_what_a_step_reads_in_several_ways(steps: int) -> None:
    m, r = nap.compile(COEFFICIENTS), np.random.default_rng(steps)
    for n in (0, 1, 3, 40):
        u, c, d = 0.5 * r.normal(size=(3, n))
        for f, more in ((m.loss, (0.7, steps)), (m.less, (steps,))):
            slope = nap.grad(f, wrt=1)(u, c, *more) @ d
            h = 1e-6
            there, back = (f(u, c + s * h * d, *more) for s in (1, -1))
            assert slope == pytest.approx((there - back) / (2 * h), rel=1e-6, abs=1e-7)


def test_what_a_step_reads_in_several_ways_has_one_sum() -> None:
    """Of what is as large as the state: c · sin u and (1 - c) · u."""
    found = []
    for math in ("default", "strict"):
        f = nap.grad(nap.compile(COEFFICIENTS, math=math).loss, wrt=1)
        found.append(len(re.findall(r"for i\w*<n: v\d+ = add over t", f.show("added"))))
    assert found == [3, 4]


STEPS = """
def stepped(c: Fin(n)=>Fin(m)=>Float, steps: Int) -> Float:
    (hs, _) = with state(c) as h:
        for t in Fin(steps):
            for i in Fin(n), j in Fin(m): h[i, j] := 0.5 * sin(h[wrap(i - 1), j]) + 0.4 * c[i, j]
            get(h)
    sum(hs[t, i, j] ** 2 for t, i, j)

def again(c: Fin(n)=>Fin(m)=>Float, steps: Int) -> Float:
    (_, s) = with state(c) as h, state(0.0) as s:
        for t in Fin(steps):
            old = get(h)
            for i in Fin(n), j in Fin(m): h[i, j] += 0.1 * old[wrap(i + 1), j] * h[i, wrap(j - 1)]
            s += sum(h[i, j] * old[i, j] ** 2 for i, j)
    s

def rows(c: Fin(n)=>Fin(m)=>Float, steps: Int) -> Float = sum(along(row, steps) for row in c)

def along(c: Fin(m)=>Float, steps: Int) -> Float:
    (_, s) = with state([c, c]) as h, state(0.0) as s:
        for t in Fin(steps):
            for i in Fin(2), j in Fin(m): h[i, j] := 0.5 * h[1 - i, j] * c[j] + h[i, wrap(j - 1)]
            s += sum(h[i, j] ** 2 for i, j)
    s
"""


@pytest.mark.parametrize("name", ["stepped", "again", "rows"])
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_tables_that_each_step_changes_in_place(name: str, steps: int) -> None:
    f, r = nap.compile(STEPS)[name], np.random.default_rng(steps)
    for n, m in ((1, 1), (2, 3), (5, 4), (30, 40)):
        c, d = 0.3 * r.normal(size=(2, n, m))
        h = 1e-6
        there, back = (f(c + s * h * d, steps) for s in (1, -1))
        slope = float(np.sum(nap.grad(f, wrt="c")(c, steps) * d))
        assert slope == pytest.approx((there - back) / (2 * h), rel=1e-6, abs=1e-7)


def test_a_table_that_each_step_changes_has_no_copy_beside_its_history() -> None:
    """It is changed where the history has it, and not copied for each row."""
    loops = nap.grad(nap.compile(STEPS).stepped, wrt="c").show("loops")
    forwards = re.search(r"\n    for t in .*\n(?:     .*\n)*", loops)
    assert forwards is not None
    assert "allocate" not in forwards[0]
    assert re.search(r"store h\w*\[t, i\w*, j\w*\] = \(0.5 \* sin\(", forwards[0])


def test_a_sum_that_goes_backwards_through_two_axes_is_made_in_its_loop() -> None:
    loops = nap.grad(nap.compile(STEPS).stepped, wrt="c").show("loops")
    kept = re.findall(r"allocate (\w+): f64\[steps, n, m\]", loops)
    assert len(kept) == 2  # the states, and what `sin` is of, but not what comes back for `c`
