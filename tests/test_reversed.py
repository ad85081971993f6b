"""A range whose end is before its start is empty, wherever its rounds go: by lanes, in fours, in
panels, as products of matrices, backwards. Ends of rows that rise and fall, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

import naperian as nap

TEXT = """
def bags(table: v=>d=>Float, rows: Fin(n + 1)=>Fin(e + 1), ids: Fin(e)=>v) -> Fin(n)=>d=>Float =
    [[sum(table[ids[k], j] for k in rows[i]..rows[i + 1]) for j in d] for i in Fin(n)]

def sums(x: Fin(e)=>a, rows: Fin(n + 1)=>Fin(e + 1)) -> Fin(n)=>a where a: Num =
    [sum(x[k] for k in rows[i]..rows[i + 1]) for i in Fin(n)]

def dear(x: Fin(e)=>Float, rows: Fin(n + 1)=>Fin(e + 1)) -> Fin(n)=>Float =
    [sum(exp(x[k]) for k in rows[i]..rows[i + 1]) for i in Fin(n)]

def highest(x: Fin(e)=>Float, rows: Fin(n + 1)=>Fin(e + 1)) -> Fin(n)=>Float =
    [fold(lambda a, b: max(a, b), 0.0, [x[k] for k in rows[i]..rows[i + 1]]) for i in Fin(n)]

def running(x: Fin(e)=>Float, rows: Fin(n + 1)=>Fin(e + 1)) -> Fin(n)=>Float:
    for i in Fin(n):
        loop s = 0.0 for k in rows[i]..rows[i + 1]:
            0.5 * s + x[k]
        s

def softmaxed(x: Fin(e)=>Float, rows: Fin(n + 1)=>Fin(e + 1)) -> Fin(n)=>Float:
    for i in Fin(n):
        y = [exp(x[k]) for k in rows[i]..rows[i + 1]]
        z = sum(y) + 1.0
        sum(v / z for v in y)

def doubled(x: Fin(e)=>Float, rows: Fin(n + 1)=>Fin(e + 1)) =
    [[2.0 * x[k] for k in rows[i]..rows[i + 1]] for i in Fin(n)]

def kept(x: Fin(e)=>Float, rows: Fin(n + 1)=>Fin(e + 1)) =
    [[x[k] for k in rows[i]..rows[i + 1] if x[k] > 0.0] for i in Fin(n)]

def squares(x: Fin(e)=>Fin(e)=>Float, rows: Fin(n + 1)=>Fin(e + 1)) -> Fin(n)=>Float =
    [sum(x[k, l] for k in rows[i]..rows[i + 1], l in rows[i]..rows[i + 1]) for i in Fin(n)]

def gram(x: Fin(e)=>d=>Float, a: Fin(e + 1), b: Fin(e + 1)) -> d=>d=>Float =
    [[sum(x[k, i] * x[k, j] for k in a..b) for j in d] for i in d]

def turned(x: Fin(e)=>d=>Float, a: Fin(e + 1), b: Fin(e + 1)):
    [[x[k, i] for k in a..b] for i in d]

def weighted(x: Fin(e)=>Fin(e)=>Float, a: Fin(e + 1), b: Fin(e + 1), w: Fin(e)=>Float) =
    [sum(x[i, k] * w[k] for k in a..b) for i]

def columns(x: Fin(e)=>Fin(e)=>Float, a: Fin(e + 1), b: Fin(e + 1)) -> Fin(e)=>Float =
    [sum(x[k, i] for k in a..b) for i]

def near(x: Fin(e)=>d=>Float, y: m=>d=>Float, a: Fin(e + 1), b: Fin(e + 1)) -> m=>Float =
    [sum(sqrt(sum((x[k, c] - y[i, c]) ** 2 for c)) for k in a..b) for i]

def block(x: Fin(e)=>Fin(e)=>Float, a: Fin(e + 1), b: Fin(e + 1)) -> Float:
    y = [[sin(x[k, l]) for l in a..b] for k in a..b]
    z = y @ y
    sum(z[k, l] * y[l, k] for k in a..b, l in a..b)

def between(a: Int, b: Int) -> Int = sum(k * k for k in a..b)
"""
SIZES = [(0, 0), (1, 1), (3, 1), (5, 3), (9, 7), (40, 5), (300, 8)]
Array = np.ndarray


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def _ends(r: np.random.Generator, e: int, n: int) -> list[Array]:
    by_chance = r.integers(0, e + 1, n + 1)
    return [by_chance, np.sort(by_chance), np.sort(by_chance)[::-1].copy(),
            np.array([0 if i % 2 else e for i in range(n + 1)])]  # fmt: skip


def _part(x: Array, a: int, b: int) -> Array:
    return x[a : max(a, b)]


def _rows(f: Callable[[Array], float], x: Array, rows: Array) -> Array:
    return np.array([f(_part(x, *ends)) for ends in pairwise(rows)])


def _running(x: Array) -> float:
    s = 0.0
    for v in x:
        s = 0.5 * s + v
    return s


_OF_ROWS: dict[str, Callable[[Array], float]] = {
    "sums": lambda v: v.sum(),
    "dear": lambda v: np.exp(v).sum(),
    "highest": lambda v: max([0.0, *v]),
    "running": _running,
    "softmaxed": lambda v: np.exp(v).sum() / (np.exp(v).sum() + 1),
}


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("e", "n"), SIZES)
def test_rows(m, e: int, n: int) -> None:
    r = np.random.default_rng(e)
    x, square = r.normal(size=e), r.normal(size=(e, e))
    table, ids = r.normal(size=(5, 3)), r.integers(0, 5, e)
    for rows in _ends(r, e, n):
        pairs = list(pairwise(rows))
        for name, f in _OF_ROWS.items():
            assert np.allclose(getattr(m, name)(x, rows), _rows(f, x, rows)), (name, rows)
        for dtype in (np.float32, np.int64, np.int32):
            y = (8 * x).astype(dtype)
            assert np.allclose(m.sums(y, rows), _rows(np.sum, y, rows), atol=1e-3)
        for name, g in (("doubled", lambda v: 2 * v), ("kept", lambda v: v[v > 0.0])):
            found = getattr(m, name)(x, rows)
            assert len(found) == n
            for row, p in zip(found, pairs, strict=True):
                assert np.array_equal(row, g(_part(x, *p)))
        blocks = [_part(_part(square, *p).T, *p) for p in pairs]
        assert np.allclose(m.squares(square, rows), [b.sum() for b in blocks])
        wanted = np.array([table[_part(ids, *p)].sum(0) for p in pairs]).reshape(n, 3)
        assert np.allclose(m.bags(table, rows, ids), wanted)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("d", [1, 3, 8, 16])
@pytest.mark.parametrize("e", [1, 6, 40])
def test_one_range(m, e: int, d: int) -> None:
    r = np.random.default_rng(e)
    x, y, square, w = (r.normal(size=s) for s in ((e, d), (9, d), (e, e), e))
    for a, b in [(e, 0), (0, e), (e, e - 1), *r.integers(0, e + 1, (4, 2)).tolist()]:
        part, sine = _part(x, a, b), np.sin(_part(_part(square, a, b).T, a, b).T)
        assert np.allclose(m.gram(x, a, b), part.T @ part)
        assert np.array_equal(m.turned(x, a, b), part.T)
        assert np.allclose(m.weighted(square, a, b, w), _part(square.T, a, b).T @ _part(w, a, b))
        assert np.allclose(m.columns(square, a, b), _part(square, a, b).sum(0))
        assert np.allclose(m.near(x, y, a, b), [np.sqrt(((part - v) ** 2).sum(1)).sum() for v in y])
        assert np.allclose(m.block(square, a, b), ((sine @ sine) * sine.T).sum())


def test_ends_that_are_no_places(m) -> None:
    for a, b in [(3, -4), (-2, 7), (5, -100), (2, 1)]:
        assert m.between(a, b) == sum(k * k for k in range(a, b))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("name", ["sums", "dear", "running", "softmaxed", "squares", "bags"])
def test_derivatives(m, name: str) -> None:
    f = getattr(m, name)
    for e, n in SIZES[1:-1]:
        r = np.random.default_rng(e)
        shape = {"squares": (e, e), "bags": (5, 3)}.get(name, (e,))
        x, dx = r.normal(size=shape), r.normal(size=shape)
        ids = (r.integers(0, 5, e),) if name == "bags" else ()
        of = "table" if name == "bags" else "x"
        for rows in _ends(r, e, n):
            y, dy = nap.jvp(f, wrt=[of])(x, rows, *ids, dx)
            step = 1e-6 * dx
            near = (f(x + step, rows, *ids) - f(x - step, rows, *ids)) / 2e-6
            assert np.allclose(dy, near, rtol=1e-4, atol=1e-5), (name, rows)
            w = r.normal(size=y.shape)
            _, g = nap.vjp(f, wrt=[of])(x, rows, *ids, w)
            assert np.allclose(np.sum(g * dx), np.sum(w * dy)), (name, rows)
