"""Windows: sums over `x[a·i + r + c]`, forwards and backwards, of one channel and of many."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import naperian as nap
from naperian import pipeline
from naperian.loops.syntax import (
    Allocate,
    Contract,
    Loop,
    Order,
    Program,
    Stmt,
    Store,
    Update,
    When,
)
from naperian.loops.walk import statements
from naperian.signed import at
from naperian.sizes import size

ONE = """
def f(x: Fin(n)=>Float, k: Fin(W)=>Float, y: Fin(m)=>Float) -> Float:
    assert n >= STEP * m + W + FIRST, "room"
    sum(y[i] * sum(x[STEP * i + PLACE + FIRST] * k[r] for r) for i)
"""
MANY = """
def f(x: c=>Fin(n)=>Float, k: o=>c=>Fin(W)=>Float, y: o=>Fin(m)=>Float) -> Float:
    assert n >= STEP * m + W + FIRST, "room"
    sum(y[a, i] * sum(x[b, STEP * i + PLACE + FIRST] * k[a, b, r] for b, r) for a, i)
"""


def text(of: str, step: int, wide: int, first: int, back: bool) -> str:
    place = f"{wide - 1} - r" if back else "r"
    for name, value in (("STEP", step), ("W", wide), ("FIRST", first), ("PLACE", place)):
        of = of.replace(name, str(value))
    return of


@pytest.mark.parametrize(("step", "wide"), list(product((1, 2, 3), (1, 2, 3, 5))))
def test_gradients_of_windows(step: int, wide: int) -> None:
    rng = np.random.default_rng(step * 10 + wide)
    for first, back, m, many in ((0, False, 9, False), (1, True, 40, True), (2, False, 0, True),
                                 (1, False, 37, False), (3, True, 1, True)):  # fmt: skip
        n = step * m + wide + first + 2
        o, c = (9, 11) if many else (1, 1)
        x, k, y = rng.normal(size=(c, n)), rng.normal(size=(o, c, wide)), rng.normal(size=(o, m))
        dx, dk, dy = np.zeros_like(x), np.zeros_like(k), np.zeros_like(y)
        for i, r in product(range(m), range(wide)):
            p = step * i + (wide - 1 - r if back else r) + first
            dx[:, p] += k[:, :, r].T @ y[:, i]
            dk[:, :, r] += np.outer(y[:, i], x[:, p])
            dy[:, i] += k[:, :, r] @ x[:, p]
        f = nap.compile(text(MANY if many else ONE, step, wide, first, back)).f
        args = (x, k, y) if many else (x[0], k[0, 0], y[0])
        wanted = (dx, dk, dy) if many else (dx[0], dk[0, 0], dy[0])
        for found, right in zip(nap.grad(f, wrt=("x", "k", "y"))(*args), wanted, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-12)


APART = """
def f(x: Fin(n)=>Float, k: Fin(m)=>Float, y: Fin(w)=>Float) -> Float:
    assert n >= w + 2 * m, "room"
    sum(y[i] * sum(x[i + 2 * r] * k[r] for r) for i)
"""


@pytest.mark.parametrize(("program", "given"), [
    (APART, (50, 3, 40)),
    (APART.replace("Fin(m)", "Fin(3)").replace("* m", "* 3"), (50, 3, 40)),
    (ONE.replace("STEP", "step").replace("PLACE + FIRST", "r").replace("W + FIRST", "3")
     .replace("W", "3").replace("y:", "step: Fin(9), y:"), (90, 3, 20)),
])  # fmt: skip
def test_gradients_of_windows_with_gaps(program: str, given: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(0)
    x, k, y = (rng.normal(size=n) for n in given)
    between, step = (1, 4) if "step" in program else (2, 1)
    dx = np.zeros_like(x)
    for i, r in product(range(len(y)), range(len(k))):
        dx[step * i + between * r] += k[r] * y[i]
    more = {"step": 4} if "step" in program else {}
    np.testing.assert_allclose(nap.grad(nap.compile(program).f)(x, k, y=y, **more), dx, rtol=1e-12)


LAYER = """
def plain(x: b=>c=>Fin(h + 2)=>Fin(w + 2)=>Float, k: o=>c=>Fin(3)=>Fin(3)=>Float) -> Float =
    sum(sum(x[n, d, i + r, j + s] * k[a, d, r, s] for d, r, s) ** 2
        for n in b, a in o, i in Fin(h), j in Fin(w))

def by_steps(x: b=>c=>Fin(2*h + 1)=>Fin(2*w + 1)=>Float, k: o=>c=>Fin(3)=>Fin(3)=>Float) -> Float =
    sum(sum(x[n, d, 2*i + r, 2*j + s] * k[a, d, r, s] for d, r, s) ** 2
        for n in b, a in o, i in Fin(h), j in Fin(w))

def with_margin(x: b=>c=>Fin(h)=>Fin(w)=>Float, k: o=>c=>Fin(3)=>Fin(3)=>Float) -> Float =
    sum(sum((x[n, d, i + r - 1, j + s - 1] if 1 <= i + r <= h and 1 <= j + s <= w else 0.0)
            * k[a, d, r, s] for d, r, s) ** 2
        for n in b, a in o, i in Fin(h), j in Fin(w))
"""


def compiled(f: nap.Function) -> Program:
    module = f._program.core()
    return pipeline.lower(module, f.__name__, at(module.definitions[f.__name__], f._usual()))


@pytest.mark.parametrize(("name", "products"), [("plain", 3), ("by_steps", 3), ("with_margin", 3)])
def test_layers_are_products_of_matrices(name: str, products: int) -> None:
    """Forwards, and with respect to the image and the weights."""
    f = getattr(nap.compile(LAYER), name)
    assert sum(isinstance(s, Contract) for s in statements(compiled(f).body)) == 1
    slope = compiled(nap.grad(f, wrt=("x", "k")))
    assert sum(isinstance(s, Contract) for s in statements(slope.body)) == products


def test_a_margin_is_made_once() -> None:
    """An image with a margin is stored, and not a copy of each window."""
    f = nap.compile(LAYER).with_margin
    shapes = [s.buffer.shape for s in statements(compiled(f).body) if isinstance(s, Allocate)]
    assert {len(shape) for shape in shapes} == {4}


@pytest.mark.parametrize("name", ["plain", "by_steps", "with_margin"])
def test_values_and_gradients_of_layers(name: str) -> None:
    f = getattr(nap.compile(LAYER), name)
    rng = np.random.default_rng(0)
    for h, w in ((0, 3), (1, 1), (2, 17), (9, 4)):
        shape = {"plain": (h + 2, w + 2), "by_steps": (2 * h + 1, 2 * w + 1)}.get(name, (h, w))
        x, k = rng.normal(size=(2, 9, *shape)), rng.normal(size=(10, 9, 3, 3))
        with_margin = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))) if name == "with_margin" else x
        step = 2 if name == "by_steps" else 1
        y, dx, dk = np.zeros((2, 10, h, w)), np.zeros_like(with_margin), np.zeros_like(k)
        cells = list(product(range(3), range(3)))

        def seen(z: np.ndarray, r: int, s: int, h: int = h, w: int = w,
                 step: int = step) -> np.ndarray:  # fmt: skip
            return z[:, :, r : r + step * h : step, s : s + step * w : step][:, :, :h, :w]

        for r, s in cells:
            y += np.einsum("bchw,oc->bohw", seen(with_margin, r, s), k[:, :, r, s])
        for r, s in cells:
            seen(dx, r, s)[:] += 2 * np.einsum("bohw,oc->bchw", y, k[:, :, r, s])
            dk[:, :, r, s] = 2 * np.einsum("bohw,bchw->oc", y, seen(with_margin, r, s))
        if name == "with_margin":
            dx = dx[:, :, 1:-1, 1:-1]
        value, (one, two) = nap.value_and_grad(f, wrt=("x", "k"))(x, k)
        np.testing.assert_allclose(value, (y**2).sum(), rtol=1e-12)
        np.testing.assert_allclose(one, dx, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(two, dk, rtol=1e-10, atol=1e-10)


BEST = """
def blocks(x: b=>Fin(2*h)=>Fin(2*w)=>Float) -> Float =
    sum(max(x[n, 2*i + r, 2*j + s] for r in Fin(2), s in Fin(2)) ** 2
        for n in b, i in Fin(h), j in Fin(w))

def windows(x: b=>Fin(h + 2)=>Fin(w + 2)=>Float) -> Float =
    sum(max(x[n, i + r, j + s] for r in Fin(3), s in Fin(3)) ** 2
        for n in b, i in Fin(h), j in Fin(w))

def row(x: Fin(n + 9)=>Float) -> Float = sum(max(x[i + r] for r in Fin(10)) ** 2 for i in Fin(n))

def triples(x: n=>Fin(3)=>Float) -> Float = sum(max(x[i]) ** 2 for i)
"""


@pytest.mark.parametrize("name", ["blocks", "windows"])
def test_the_first_largest_of_a_window_gets_all(name: str) -> None:
    """Also of ties, of a NaN, and nothing where there is nothing but -inf."""
    rng = np.random.default_rng(0)
    wide, step = (2, 2) if name == "blocks" else (3, 1)
    for h, w in ((4, 6), (20, 34), (6, 600)):
        x = rng.integers(-3, 4, size=(2, h, w)).astype(float)
        x[0, 0, 0], x[0, 2, 3], x[0, 2, 4], x[1, :3, :3] = np.nan, np.inf, np.nan, -np.inf
        wanted = np.zeros_like(x)
        places = ((h - wide) // step + 1, (w - wide) // step + 1)
        for n, i, j in product(range(2), range(places[0]), range(places[1])):
            seen = x[n, step * i : step * i + wide, step * j : step * j + wide].ravel()
            p = int(np.argmax(seen))
            if seen[p] != -np.inf:
                wanted[n, step * i + p // wide, step * j + p % wide] += 2 * seen[p]
        np.testing.assert_array_equal(nap.grad(getattr(nap.compile(BEST), name))(x), wanted)


def test_the_first_largest_of_a_row() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, size=3000).astype(float)
    x[5], x[7], x[100:130] = np.inf, np.nan, -np.inf
    wanted = np.zeros_like(x)
    for i in range(len(x) - 9):
        p = int(np.argmax(x[i : i + 10]))
        wanted[i + p] += 2 * x[i + p] if x[i + p] != -np.inf else 0
    np.testing.assert_array_equal(nap.grad(nap.compile(BEST).row)(x), wanted)
    rows = x.reshape(1000, 3)
    wanted = np.zeros_like(rows)
    for i, p in enumerate(np.argmax(rows, 1)):
        wanted[i, p] = 2 * rows[i, p] if rows[i, p] != -np.inf else 0
    slope = nap.grad(nap.compile(BEST).triples)
    np.testing.assert_array_equal(slope(rows), wanted)
    assert not any(isinstance(s, Update) for s in statements(compiled(slope).body))


def test_the_rows_of_a_window_share_a_loop_also_in_rounds() -> None:
    """Conway's game: its sum is in a register, and only the cells are stored."""
    m = nap.compile("""
def life(g: Fin(n)=>Fin(m)=>Int, rounds: Int) -> Fin(n)=>Fin(m)=>Int:
    loop g = g for _ in 0..rounds:
        around = for i, j:
            sum(g[wrap(i + a - 1), wrap(j + b - 1)] for a in Fin(3), b in Fin(3)) - g[i, j]
        [1 if around[i, j] == 3 or (around[i, j] == 2 and g[i, j] == 1) else 0 for i, j]
""")
    rng = np.random.default_rng(2)
    for n, k in ((1, 1), (2, 5), (9, 37), (4, 3)):
        g = rng.integers(0, 2, (n, k))
        found = m.life(g, 5)
        for _ in range(5):
            shifts = [np.roll(g, at, (0, 1)) for at in product((-1, 0, 1), repeat=2) if any(at)]
            around = np.sum(shifts, axis=0)
            g = ((around == 3) | ((around == 2) & (g == 1))).astype(int)
        np.testing.assert_array_equal(found, g)
    body = statements(compiled(m.life).body)
    assert len([s for s in body if isinstance(s, Allocate)]) == 1
    assert not any(isinstance(s, Update) for s in statements(compiled(m.life).body))


@pytest.mark.parametrize("kept", ["clamp", "wrap"])
def test_the_rows_of_a_window_share_a_loop(kept: str) -> None:
    """Also with channels behind them, as many as the caller has."""
    m = nap.compile(f"""
def flat(x: h=>w=>Float) -> h=>w=>Float =
    [sum(x[{kept}(i + a - 1), {kept}(j + b - 1)] for a in Fin(3), b in Fin(3)) / 9.0 for i, j]
def deep(x: h=>w=>c=>Float, k: Fin(3)=>Fin(3)=>Float) -> h=>w=>c=>Float =
    [sum(k[a, b] * x[{kept}(i + a - 1), {kept}(j + b - 1), c] for a in Fin(3), b in Fin(3))
     for i, j, c]
""")
    rng = np.random.default_rng(1)
    mode, k = {"clamp": "edge", "wrap": "wrap"}[kept], rng.random((3, 3))
    for h, w, c in ((1, 1, 1), (2, 5, 3), (9, 37, 2), (4, 3, 19)):
        x = rng.random((h, w, c))
        y = np.pad(x, ((1, 1), (1, 1), (0, 0)), mode)
        shifted = {(a, b): y[a : a + h, b : b + w] for a, b in product(range(3), range(3))}
        flat = np.sum([s[..., 0] for s in shifted.values()], axis=0) / 9
        np.testing.assert_allclose(m.flat(x[..., 0].copy()), flat, rtol=1e-12)
        deep = np.sum([k[at] * s for at, s in shifted.items()], axis=0)
        np.testing.assert_allclose(m.deep(x, k), deep, rtol=1e-12)
    for f in (m.flat, m.deep):
        body = compiled(f).body
        assert len([s for s in body if isinstance(s, Loop)]) == 1
        assert not any(isinstance(s, Update | Allocate) for s in statements(body))


def test_a_large_window_with_channels_is_added_up_in_registers() -> None:
    f = nap.compile("""
def f(x: h=>w=>c=>Float) -> h=>w=>c=>Float =
    [sum(x[clamp(i + a - 2), clamp(j + b - 2), k] for a in Fin(5), b in Fin(5)) for i, j, k]
""").f
    for h, w, c in ((1, 2, 1), (6, 7, 3), (3, 4, 21)):
        x = np.random.default_rng(2).random((h, w, c))
        y = np.pad(x, ((2, 2), (2, 2), (0, 0)), "edge")
        wanted = sum(y[a : a + h, b : b + w] for a, b in product(range(5), range(5)))
        np.testing.assert_allclose(f(x), wanted, rtol=1e-12)
    assert not any(isinstance(s, Update | Allocate) for s in statements(compiled(f).body))


@pytest.mark.parametrize("c", [1, 3, 17])
def test_a_filter_along_rows_with_channels_is_added_up_in_registers(c: int) -> None:
    f = nap.compile("""
def f(x: Fin(n + 4)=>c=>Float, k: Fin(5)=>Float) -> Fin(n)=>c=>Float =
    [sum(k[a] * x[i + a, p] for a) for i, p]
""").f
    rng = np.random.default_rng(c)
    x, k = rng.random((23, c)), rng.random(5)
    wanted = sum(k[a] * x[a : a + 19] for a in range(5))
    np.testing.assert_allclose(f(x, k), wanted, rtol=1e-12)
    assert not any(isinstance(s, Update) for s in statements(compiled(f).body))


PICTURE = """
def f(x: b=>Fin(h + W - 1)=>Fin(w + W - 1)=>Float, k: Fin(W)=>Fin(W)=>Float,
      y: b=>Fin(h)=>Fin(w)=>Float) -> Float:
    sum(y[n, i, j] * tanh(sum(x[n, i + r, j + s] * k[r, s] for r, s))
        for n, i in Fin(h), j in Fin(w))
"""


@pytest.mark.parametrize("wide", [3, 4, 5])
def test_rows_away_from_the_borders_ask_for_none(wide: int) -> None:
    """What goes back to a pixel comes from all places of the window, in all rows but the first and
    last few: there the long loop over a row has no tests in it."""
    f = nap.compile(PICTURE.replace("W", str(wide))).f
    slope = nap.grad(f)
    loops = [s for s in statements(compiled(slope).body) if isinstance(s, Loop)]
    inside = [[x for x in statements(s.body) if not isinstance(x, Loop)] for s in loops]
    rows = [k for k, s in enumerate(loops) if s.high.constant is None
            and any(isinstance(x, Store) and x.buffer.name == "out" for x in inside[k])
            and not any(isinstance(x, Loop) and x.high.constant is None
                        for x in statements(s.body))]  # fmt: skip
    assert rows
    assert any(not any(isinstance(x, When) for x in inside[k]) for k in rows)
    rng = np.random.default_rng(wide)
    for h, w in ((0, 5), (1, 1), (2, 40), (7, 19), (40, 3)):
        x = rng.normal(size=(2, h + wide - 1, w + wide - 1))
        k, y = rng.normal(size=(wide, wide)), rng.normal(size=(2, h, w))
        cells = list(product(range(wide), repeat=2))
        z = sum((x[:, r : r + h, s : s + w] * k[r, s] for r, s in cells), np.zeros((2, h, w)))
        back, dx = y * (1 - np.tanh(z) ** 2), np.zeros_like(x)
        for r, s in cells:
            dx[:, r : r + h, s : s + w] += back * k[r, s]
        np.testing.assert_allclose(slope(x, k, y), dx, rtol=1e-12, atol=1e-12)


LIMITED = """
def limited(f: Fin(h + 4)=>Fin(w + 4)=>k=>Float) -> Float:
    lap = [4.0 * f[i + 1, j + 1, z] - f[i + 2, j + 1, z] - f[i, j + 1, z] - f[i + 1, j + 2, z]
           - f[i + 1, j, z] for i in Fin(h + 2), j in Fin(w + 2), z]
    down = for i in Fin(h + 1), j in Fin(w), z:
        d = lap[i + 1, j + 1, z] - lap[i, j + 1, z]
        0.0 if d * (f[i + 2, j + 2, z] - f[i + 1, j + 2, z]) > 0.0 else d
    across = for i in Fin(h), j in Fin(w + 1), z:
        d = lap[i + 1, j + 1, z] - lap[i + 1, j, z]
        0.0 if d * (f[i + 2, j + 2, z] - f[i + 2, j + 1, z]) > 0.0 else d
    sum((f[i + 2, j + 2, z] - down[i + 1, j, z] + down[i, j, z] - across[i, j + 1, z]
         + across[i, j, z]) ** 2 for i in Fin(h), j in Fin(w), z)
"""


def test_away_from_the_borders_only_data_are_asked() -> None:
    """Of a flux that is left out where data say so, as limiters do: what they decide is chosen, in
    vectors, and no round asks for a border."""
    f = nap.compile(LIMITED).limited
    slope = nap.grad(f)
    whens = [s for s in statements(compiled(slope).body) if isinstance(s, When)]
    apart = [s for s in whens if loops_in(s.then)]
    assert apart
    for s in apart:
        assert not any(isinstance(x, When) for y in loops_in(s.then) for x in statements(y.body))
    rng = np.random.default_rng(3)
    for h, w, k in ((0, 3, 2), (1, 1, 1), (5, 2, 9), (6, 20, 8)):
        x, way = rng.standard_normal((2, h + 4, w + 4, k))
        there, back = (f(x + t * way) for t in (1e-7, -1e-7))
        assert (slope(x) * way).sum() == pytest.approx((there - back) / 2e-7, rel=1e-6, abs=1e-7)


def loops_in(body: tuple[Stmt, ...]) -> list[Loop]:
    return [s for s in statements(body) if isinstance(s, Loop)]


def test_rows_ask_once_whether_another_is_there() -> None:
    f = nap.compile("""
def f(y: Fin(h)=>Fin(w)=>Float, k: Fin(t)=>Float) -> Fin(h)=>Fin(w)=>Float =
    [sum(k[a] * y[i - a + 3, j] for a if i + 3 >= a and i - a + 3 < h) for i, j]
""").f
    loops = [s for s in statements(compiled(f).body) if isinstance(s, Loop)]
    rows = [s for s in loops if s.order is Order.FREE and s.high == size(compiled(f).sizes[1])]
    assert len(rows) >= 3
    assert not any(isinstance(x, When) for s in rows for x in statements(s.body))
    rng = np.random.default_rng(4)
    for h, w in ((0, 3), (2, 1), (5, 40), (20, 9)):
        y, k = rng.normal(size=(h, w)), rng.normal(size=7)
        wide = np.pad(y, ((3, 3), (0, 0)))
        wanted = sum(k[a] * wide[6 - a : 6 - a + h] for a in range(7))
        np.testing.assert_allclose(f(y, k), wanted, rtol=1e-12, atol=1e-12)


COLUMNS = """
def f(x: Fin(h)=>Fin(w)=>c=>Float, k: Fin(7)=>Float) -> Float:
    y: Fin(h)=>Fin(w)=>c=>Float = [sum(k[a] * READ for a) for i, j, q]
    sum(y[i, j, q] * y[i, j, q] for i, j, q)
"""


@pytest.mark.parametrize("read", ["x[clamp(i + a - 3), j, q]", "x.get((i + a - 3, j, q), 0.0)"])
def test_what_goes_back_through_columns_is_added_up_in_registers(read: str) -> None:
    """What goes back is squared on its way, and read at the places of a window nevertheless; what
    the rows at the borders get does not say how the others lie."""
    f = nap.compile(COLUMNS.replace("READ", read)).f
    slope = nap.grad(f)
    body = compiled(slope).body
    made = [s for s in statements(body) if isinstance(s, Loop)
            and any(isinstance(x, Store) and x.buffer.name == "out" for x in s.body)]  # fmt: skip
    c, _, w = map(size, compiled(slope).sizes)
    assert made
    assert all(s.high == c * w for s in made), "pixels and colours are one row"
    rng = np.random.default_rng(5)
    for shape in ((0, 2, 3), (1, 4, 1), (5, 3, 3), (9, 2, 4)):
        x, k = rng.normal(size=shape), rng.normal(size=7)
        way = rng.normal(size=shape)
        there, back = (f(x + e * way, k) for e in (1e-3, -1e-3))  # it is a square
        np.testing.assert_allclose((slope(x, k) * way).sum(), (there - back) / 2e-3, rtol=1e-8)


FILTERS = """
def edges(x: Fin(h)=>Fin(w)=>Float) -> Float:
    def along(t: Int) -> Float = Float(t - 1)
    def beside(t: Int) -> Float = 2.0 - abs(Float(t - 1))
    def at(i: Fin(h), j: Fin(w), a: Fin(3), b: Fin(3)) -> Float = x[clamp(i + a - 1), clamp(j + b - 1)]
    g = for i, j:
        p = sum(sum(along(b) * beside(a) * at(i, j, a, b) for b) for a)
        q = sum(sum(along(a) * beside(b) * at(i, j, a, b) for b) for a)
        sqrt(p * p + q * q + 1.0)
    sum(g[i, j] for i, j)

def corners(x: Fin(h)=>Fin(w)=>Float) -> Float:
    p = [x[i, clamp(j + 1)] - x[i, clamp(j - 1)] for i, j]
    q = [x[clamp(i + 1), j] - x[clamp(i - 1), j] for i, j]
    def around(i: Fin(h), j: Fin(w), f: (Fin(h), Fin(w)) -> Float) -> Float =
        sum(f(clamp(i + a - 1), clamp(j + b - 1)) for a in Fin(3), b in Fin(3))
    c = for i, j:
        pp = around(i, j, lambda k, l: p[k, l] * p[k, l])
        qq = around(i, j, lambda k, l: q[k, l] * q[k, l])
        pq = around(i, j, lambda k, l: p[k, l] * q[k, l])
        pp * qq - pq * pq - 0.05 * (pp + qq) ** 2
    sum(c[i, j] for i, j)
"""  # noqa: E501


@pytest.mark.parametrize(("name", "most"), [("edges", 2), ("corners", 8)])
def test_what_goes_back_through_a_window_is_not_stored_for_each_place(name: str, most: int) -> None:
    f = nap.compile(FILTERS)[name]
    made = [s for s in statements(compiled(nap.grad(f)).body) if isinstance(s, Allocate)]
    assert len([s for s in made if len(s.buffer.shape) == 2]) <= most
    rng = np.random.default_rng(7)
    for shape in ((1, 1), (2, 5), (7, 20), (12, 33)):
        x, way = rng.standard_normal((2, *shape))
        there, back = (f(x + h * way) for h in (1e-5, -1e-5))
        slope = float((nap.grad(f)(x) * way).sum())
        assert slope == pytest.approx((there - back) / 2e-5, rel=1e-6, abs=1e-7)


def test_what_goes_back_through_windows_of_rows_is_made_of_these() -> None:
    """A rolling regression: of each window what is apart from its mean, and what goes back to it,
    are computed from rows wherever they are read."""
    f = nap.compile("""
def rolling(x: Fin(n)=>Float, y: Fin(n)=>Float) -> Float:
    b = for i in Fin(n):
        mx = sum(x[clamp(i - a)] for a in Fin(20)) / 20.0
        my = sum(y[clamp(i - a)] for a in Fin(20)) / 20.0
        both = sum((x[clamp(i - a)] - mx) * (y[clamp(i - a)] - my) for a in Fin(20))
        both / (sum((x[clamp(i - a)] - mx) ** 2 for a in Fin(20)) + 1.0)
    sum(b[i] * b[i] for i)
""").rolling
    slope = nap.grad(f, wrt=("x", "y"))
    made = [s for s in statements(compiled(slope).body) if isinstance(s, Allocate)]
    assert not [s for s in made if 20 in [n.constant for n in s.buffer.shape]]
    rng = np.random.default_rng(4)
    for n in (1, 7, 19, 20, 64):
        x, y, u, v = rng.standard_normal((4, n))
        there, back = (f(x + h * u, y + h * v) for h in (1e-6, -1e-6))
        dx, dy = slope(x, y)
        assert dx @ u + dy @ v == pytest.approx((there - back) / 2e-6, rel=1e-6, abs=1e-8)


def test_what_goes_back_through_windows_of_an_image_is_made_of_these() -> None:
    """Normalised correlation with a pattern: no element of a window is stored for each place."""
    f = nap.compile("""
def correlated(x: h=>w=>Float, t: a=>b=>Float) -> Float where h + 1 >= a, w + 1 >= b:
    m = mean(t[p, q] for p, q)
    e = [t[p, q] - m for p, q]
    def one(i: Fin(h - a + 1), j: Fin(w - b + 1)) -> Float:
        mu = mean(x[i + p, j + q] for p in a, q in b)
        d = [x[i + p, j + q] - mu for p in a, q in b]
        sum(d[p, q] * e[p, q] for p, q) / sqrt(sum(d[p, q] ** 2 for p, q) + 1.0)
    sum(one(i, j) ** 2 for i in Fin(h - a + 1), j in Fin(w - b + 1))
""").correlated
    slope = nap.grad(f)
    made = [s for s in statements(compiled(slope).body) if isinstance(s, Allocate)]
    assert max(len(s.buffer.shape) for s in made) == 2
    rng = np.random.default_rng(11)
    for shape, window in (((3, 4), (3, 4)), ((9, 40), (2, 3)), ((12, 7), (5, 1))):
        x, way = rng.standard_normal((2, *shape))
        t = rng.standard_normal(window)
        there, back = (f(x + h * way, t) for h in (1e-6, -1e-6))
        found = float((slope(x, t) * way).sum())
        assert found == pytest.approx((there - back) / 2e-6, rel=1e-6, abs=1e-8)
