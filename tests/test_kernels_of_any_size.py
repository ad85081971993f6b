"""Windows as large as the call says, or large by type: rows of them go in vectors, forwards and
backwards, whatever happens at the borders."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import naperian as nap
from naperian import pipeline
from naperian.loops.syntax import Allocate, Contract, Loop, Order, Program
from naperian.loops.walk import loads, statements
from naperian.signed import at

HEAD = "def f(x: Fin(h)=>Fin(w)=>Float, k: Fin(p)=>Fin(q)=>Float) -> Float =\n"
FORMS = {
    "inside": "def f(x: Fin(h + p)=>Fin(w + q)=>Float, k: Fin(p + 1)=>Fin(q + 1)=>Float) -> Float"
    " =\n    sum(sum(x[i + a, j + b] * k[a, b] for a, b) ** 2 for i in Fin(h), j in Fin(w))",
    "zeros": HEAD
    + "    sum(sum(x[i + a - p // 2, j + b - q // 2] * k[a, b] for a, b"
    + " if 0 <= i + a - p // 2 < h and 0 <= j + b - q // 2 < w) ** 2"
    + " for i in Fin(h), j in Fin(w))",
    "edge": HEAD
    + "    sum(sum(x[clamp(i + a - p // 2), clamp(j + b - q // 2)] * k[a, b] for a, b) ** 2"
    + " for i in Fin(h), j in Fin(w))",
    "wrap": HEAD
    + "    sum(sum(x[wrap(i + a - p // 2), wrap(j + b - q // 2)] * k[a, b] for a, b) ** 2"
    + " for i in Fin(h), j in Fin(w))",
}
SIZES = ((5, 70, 3, 3), (9, 40, 4, 7), (3, 33, 5, 40), (1, 1, 3, 3), (0, 50, 2, 2), (40, 36, 9, 11))


def by_numpy(form: str, x: np.ndarray, k: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The value, and the slopes of both: a window of all places for each element of the kernel."""
    (h, w), (p, q) = x.shape, k.shape
    if form == "inside":
        n, m = h - p + 1, w - q + 1
        rows, columns = [np.arange(n) + a for a in range(p)], [np.arange(m) + b for b in range(q)]
    else:
        n, m = h, w
        rows = [np.arange(n) + a - p // 2 for a in range(p)]
        columns = [np.arange(m) + b - q // 2 for b in range(q)]
    seen = {"edge": lambda e, n: e.clip(0, n - 1), "wrap": lambda e, n: e % n}

    def window(a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
        there = ((rows[a] >= 0) & (rows[a] < h))[:, None] & (columns[b] >= 0) & (columns[b] < w)
        i, j = np.broadcast_arrays(rows[a][:, None], columns[b])
        if form in seen:
            return (seen[form](i, h), seen[form](j, w)), np.ones_like(there)  # type: ignore[return-value]
        return (i.clip(0, h - 1), j.clip(0, w - 1)), there  # type: ignore[return-value]

    places = {ab: window(*ab) for ab in product(range(p), range(q))}
    y, dx, dk = np.zeros((n, m)), np.zeros_like(x), np.zeros_like(k)
    if y.size:
        for ab, (where, there) in places.items():
            y += x[where] * there * k[ab]
        for ab, (where, there) in places.items():
            np.add.at(dx, where, 2 * y * there * k[ab])
            dk[ab] = (2 * y * there * x[where]).sum()
    return float((y**2).sum()), dx, dk


@pytest.mark.sampled(4)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("known", [False, True])
def test_values_and_gradients(form: str, known: bool) -> None:
    rng = np.random.default_rng(len(form) + known)
    for h, w, p, q in SIZES[: 2 if known else None]:
        text = FORMS[form]
        names = (("p + 1", p), ("q + 1", q), ("+ p)", p - 1), ("+ q)", q - 1), ("(p)", p),
                 ("(q)", q), ("p // 2", p // 2), ("q // 2", q // 2))  # fmt: skip
        for name, value in names if known else ():
            number = f"({value})" if name[0] == "(" else f"+ {value})" if name[-1] == ")" else value
            text = text.replace(name, str(number))
        f = nap.compile(text).f
        around = (p - 1, q - 1) if form == "inside" else (0, 0)
        x, k = rng.normal(size=(h + around[0], w + around[1])), rng.normal(size=(p, q))
        value, dx, dk = by_numpy(form, x, k)
        found, slopes = nap.value_and_grad(f, wrt=("x", "k"))(x, k)
        alone = nap.grad(f, wrt="x")(x, k), nap.grad(f, wrt="k")(x, k)
        np.testing.assert_allclose(found, value, rtol=1e-12)
        for mine, one, right in zip(slopes, alone, (dx, dk), strict=True):
            np.testing.assert_allclose(mine, right, rtol=1e-11, atol=1e-11)
            np.testing.assert_allclose(one, right, rtol=1e-11, atol=1e-11)


def compiled(f: nap.Function) -> Program:
    module = f._program.core()
    return pipeline.lower(module, f.__name__, at(module.definitions[f.__name__], f._usual()))


@pytest.mark.parametrize("form", FORMS)
def test_rows_go_in_vectors(form: str) -> None:
    """Where the whole window is there nobody asks, and elements side by side are computed so."""
    f = nap.compile(FORMS[form]).f
    for g in (f, nap.grad(f, wrt="x")):
        lanes = [
            s for s in statements(compiled(g).body)
            if isinstance(s, Loop) and s.order is Order.LANES
        ]  # fmt: skip
        assert lanes, form
        assert any(e.buffer.name == "k" for s in lanes for y in s.body for e in loads(y)), form


CHANNELS = """
def layer(x: b=>c=>Fin(h + p)=>Fin(w + q)=>Float, k: o=>c=>Fin(p + 1)=>Fin(q + 1)=>Float) -> Float =
    sum(sum(x[n, d, i + r, j + s] * k[a, d, r, s] for d, r, s) ** 2
        for n in b, a in o, i in Fin(h), j in Fin(w))

def alone(x: c=>Fin(h + p)=>Fin(w + q)=>Float, k: o=>c=>Fin(p + 1)=>Fin(q + 1)=>Float) -> Float =
    sum(sum(x[d, i + r, j + s] * k[a, d, r, s] for d, r, s) ** 2
        for a in o, i in Fin(h), j in Fin(w))
"""
BY_TYPE = CHANNELS.replace("+ p)", "+ 4)").replace("p + 1", "5").replace("+ q)", "+ 2)").replace(
    "q + 1", "3"
)


@pytest.mark.parametrize("text", [CHANNELS, BY_TYPE], ids=["by size", "by type"])
@pytest.mark.parametrize("name", ["layer", "alone"])
def test_channels_are_products_of_matrices(text: str, name: str) -> None:
    """Forwards, and back to the image, which has a margin of zeros for it, and to the weights."""
    f = getattr(nap.compile(text), name)
    made = [f, *(nap.grad(f, wrt=w) for w in ("x", "k", ("x", "k")))]
    products = [sum(isinstance(s, Contract) for s in statements(compiled(g).body)) for g in made]
    assert products == [1, 2, 2, 3]
    rng = np.random.default_rng(0)
    for b, c, o, h, w in ((2, 9, 10, 6, 7), (1, 1, 1, 1, 1), (1, 3, 2, 0, 4), (3, 2, 17, 1, 20)):
        x, k = rng.normal(size=(b, c, h + 4, w + 2)), rng.normal(size=(o, c, 5, 3))
        y, dx, dk = np.zeros((b, o, h, w)), np.zeros_like(x), np.zeros_like(k)
        cells = list(product(range(5), range(3)))
        if name == "alone":
            x = x[:1]
            y, dx = y[:1], dx[:1]
        for r, s in cells:
            seen = x[:, :, r : r + h, s : s + w]
            y += np.einsum("bchw,oc->bohw", seen, k[:, :, r, s])
        for r, s in cells:
            dx[:, :, r : r + h, s : s + w] += 2 * np.einsum("bohw,oc->bchw", y, k[:, :, r, s])
            dk[:, :, r, s] = 2 * np.einsum("bohw,bchw->oc", y, x[:, :, r : r + h, s : s + w])
        given = x[0] if name == "alone" else x
        slopes = nap.grad(f, wrt=("x", "k"))(given, k)
        one, two = nap.grad(f, wrt="x")(given, k), nap.grad(f, wrt="k")(given, k)
        for found in (slopes[0], one):
            np.testing.assert_allclose(found, dx[0] if name == "alone" else dx, atol=1e-9)
        for found in (slopes[1], two):
            np.testing.assert_allclose(found, dk, atol=1e-9)


def test_a_window_of_one_is_no_sum() -> None:
    f = nap.compile(CHANNELS.replace("p + 1", "1").replace("+ p)", "+ 0)").replace("q + 1", "1")
                    .replace("+ q)", "+ 0)")).alone  # fmt: skip
    assert sum("a contraction" in line for line in f.account) == 1
    x, k = np.arange(24.0).reshape(2, 3, 4), np.ones((5, 2, 1, 1))
    assert f(x, k) == 5 * (x.sum(0) ** 2).sum()


FUNCTIONS = """
def by_size(x: Fin(h)=>Fin(w)=>Float, t: Fin(p)=>Fin(q)=>Float) -> Float =
    sum(sum(tanh(x[clamp(i + a - 1), clamp(j + b - 1)] - x[i, j]) * t[a, b] for a, b) ** 2
        for i in Fin(h), j in Fin(w))
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (3, 40), (7, 33), (2, 100)])
def test_a_table_of_windows_lies_as_it_is_gone_through(known: bool, shape: tuple[int, int]) -> None:
    """What goes back through windows of functions is kept, for pixels beside each other."""
    text = FUNCTIONS.replace("Fin(p)=>Fin(q)", "Fin(5)=>Fin(5)") if known else FUNCTIONS
    f = nap.compile(text).by_size
    slope = nap.grad(f)
    tables = [s.buffer.shape for s in statements(compiled(slope).body) if isinstance(s, Allocate)]
    whole = [n for n in tables if len(n) == 4]
    assert whole
    assert all(n[-1] == whole[0][-1] and n[-1].constant is None for n in whole)
    assert "lanes for" in slope.show("loops")
    rng = np.random.default_rng(0)
    (h, w), t = shape, rng.normal(size=(5, 5))
    x = rng.normal(size=shape)
    i, j = np.arange(h)[:, None], np.arange(w)[None]
    places = {
        (a, b): ((i + a - 1).clip(0, h - 1) + 0 * j, (j + b - 1).clip(0, w - 1) + 0 * i)
        for a, b in product(range(5), range(5))
    }
    y = sum(np.tanh(x[to] - x) * t[ab] for ab, to in places.items())
    dx = np.zeros_like(x)
    for ab, to in places.items():
        sent = 2 * y * t[ab] * (1 - np.tanh(x[to] - x) ** 2)
        np.add.at(dx, to, sent)
        dx -= sent
    np.testing.assert_allclose(slope(x, t), dx, rtol=1e-9, atol=1e-9)
