"""Which loop is innermost, and what stands around it: derivatives go through memory as what they
are derived from does."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap

WINDOWS = """
def columns(x: Fin(h)=>Fin(w)=>c=>Float, k: Fin(5)=>Float) -> Float =
    sum(sum(k[a] * x[clamp(i + a - 2), j, q] for a) ** 2 for i in Fin(h), j in Fin(w), q)
def rows(x: Fin(h)=>Fin(w)=>c=>Float, k: Fin(5)=>Float) -> Float =
    sum(sum(k[a] * x[i, clamp(j + a - 2), q] for a) ** 2 for i in Fin(h), j in Fin(w), q)
@strict
def in_order(x: Fin(h)=>Fin(w)=>c=>Float, k: Fin(5)=>Float) -> Float =
    sum(sum(k[a] * x[i, clamp(j + a - 2), q] for a) ** 2 for i in Fin(h), j in Fin(w), q)
def single(x: Fin(h)=>Fin(w)=>c=>F32, k: Fin(5)=>F32) -> F32 =
    sum(sum(k[a] * x[i, clamp(j + a - 2), q] for a) ** 2 for i in Fin(h), j in Fin(w), q)
"""


SHAPES = [(0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1), (4, 7, 3), (9, 40, 1)]


def shifted(x: np.ndarray, a: int, axis: int) -> np.ndarray:
    n = x.shape[axis]
    return x.take(np.clip(np.arange(n) + a - 2, 0, max(n - 1, 0)), axis)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["columns", "rows", "in_order", "single"])
def test_the_taps_of_a_window_over_colours(name: str, shape: tuple[int, ...]) -> None:
    r = np.random.default_rng(len(name))
    x, k = r.normal(size=shape), r.normal(size=5)
    seen = [shifted(x, a, 0 if name == "columns" else 1) for a in range(5)]
    y = sum(k[a] * seen[a] for a in range(5))
    taps = np.array([(2 * y * seen[a]).sum() for a in range(5)])
    f = nap.compile(WINDOWS)[name]
    if name == "single":
        x, k = x.astype(np.float32), k.astype(np.float32)
    made = nap.grad(f, "k")(x, k)
    near = 1e-4 if name == "single" else 1e-12
    np.testing.assert_allclose(made, taps, rtol=near, atol=near * (np.abs(taps).max() + 1))
    both = nap.grad(f, ("x", "k"))(x, k)
    np.testing.assert_allclose(both[1], made, rtol=near, atol=near * (np.abs(taps).max() + 1))


@pytest.mark.parametrize("name", ["columns", "rows"])
def test_rows_of_a_few_colours_are_one(name: str) -> None:
    """How many colours there are is not known; a sum over them alone would hardly begin."""
    made = nap.grad(nap.compile(WINDOWS)[name], "k").show("loops")
    assert re.search(r"free for q\w* in .*c \* .* reducing add sum", made)


NETWORK = """
def conv(x: b=>Fin(h + 4)=>Fin(w + 4)=>ci=>Float,
         k: Fin(5)=>Fin(5)=>ci=>co=>Float) -> b=>Fin(h)=>Fin(w)=>co=>Float =
    [sum(x[n, i + r, j + s, c] * k[r, s, c, o] for r, s, c) for n, i in Fin(h), j in Fin(w), o]
def pool(x: b=>Fin(2 * h)=>Fin(2 * w)=>c=>Float) -> b=>Fin(h)=>Fin(w)=>c=>Float =
    [max(x[n, 2 * i + r, 2 * j + s, k] for r in Fin(2), s in Fin(2))
     for n, i in Fin(h), j in Fin(w), k]
def loss(x: b=>Fin(28)=>Fin(28)=>Fin(1)=>Float, c1: Fin(5)=>Fin(5)=>Fin(1)=>Fin(6)=>Float,
         c2: Fin(5)=>Fin(5)=>Fin(6)=>Fin(16)=>Float, f: Fin(256)=>Fin(60)=>Float) -> Float:
    y: b=>Fin(12)=>Fin(12)=>Fin(6)=>Float = pool(relu(conv(x, c1)))
    z: b=>Fin(4)=>Fin(4)=>Fin(16)=>Float = pool(relu(conv(y, c2)))
    flat = [z[n] as Fin(256)=>Float for n]
    sum(sum(v * v for v in r) for r in relu(flat @ f))
"""


def test_a_network_goes_along_its_channels_in_its_gradient_too() -> None:
    """A factor that is laid out for its product binds no other loops than its own; and what shares
    a loop with the deepest sums goes by another one, where that is better."""
    loss = nap.compile(NETWORK).loss
    r = np.random.default_rng(0)
    args = tuple(r.normal(size=s) for s in ((2, 28, 28, 1), (5, 5, 1, 6), (5, 5, 6, 16), (256, 60)))
    made = nap.grad(loss, ("c1", "c2", "f"))
    back, steps = made(*args), [r.normal(size=a.shape) for a in args[1:]]
    there, here = (loss(args[0], *(a + e * d for a, d in zip(args[1:], steps, strict=True)))
                   for e in (1e-6, -1e-6))  # fmt: skip
    slope = sum((g * d).sum() for g, d in zip(back, steps, strict=True))
    np.testing.assert_allclose((there - here) / 2e-6, slope, rtol=1e-6)
    text = made.show("loops")
    for name in ("c2", "f"):
        lines = [x for x in text.splitlines() if re.search(rf"\b{name}\[", x) and "update" in x]
        assert lines, name
        for line in lines:
            last = re.search(rf"\b{name}\[(.*?)\]", line).group(1).split(", ")[-1]
            assert re.search(rf"free for {last} in", text), line


TRIANGLE = """
def changed(a: Fin(m)=>Fin(m)=>Float, b0: Fin(m)=>n=>Float) -> Fin(m)=>n=>Float:
    with state(b0) as b:
        for i in Fin(m), j in n:
            b[i, j] := 1.5 * (b[i, j] + sum(a[k, i] * b[k, j] for k in i + 1..m))
def loss(a: Fin(m)=>Fin(m)=>Float, b: Fin(m)=>n=>Float) -> Float =
    sum(sum(v * v for v in r) for r in changed(a, b))
"""


@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (1, 1), (5, 3), (9, 20)])
def test_what_reads_the_end_of_a_loop_inside_comes_after_it(shape: tuple[int, int]) -> None:
    """The products by which a triangle is derived go along its rows: they do not share the loop
    that changes a row, which ends before they are made."""
    m, n = shape
    r = np.random.default_rng(m)
    a, b = r.normal(size=(m, m)), r.normal(size=(m, n))
    full = 1.5 * (np.eye(m) + np.tril(a, -1).T)
    made, of_b = nap.grad(nap.compile(TRIANGLE).loss, ("a", "b"))(a, b)
    back = 2 * full @ b
    np.testing.assert_allclose(of_b, full.T @ back, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(made, np.tril(1.5 * (back @ b.T).T, -1), rtol=1e-11, atol=1e-11)


def test_a_triangle_is_derived_in_registers() -> None:
    made = nap.grad(nap.compile(TRIANGLE).loss, "a").show("loops")
    assert re.search(r"free for j\w* in 0\.\.n reducing add", made)


DIFFERENCES = """
def steps(x: Fin(h + 1)=>w=>Float) -> Fin(h)=>w=>Float =
    [x[i + 1, j] - x[i, j] for i in Fin(h), j]
"""


@pytest.mark.parametrize("shape", [(1, 3), (3, 0), (2, 1), (6, 3), (5, 40)])
def test_rows_from_any_row_on_are_one(shape: tuple[int, int]) -> None:
    f, x = nap.compile(DIFFERENCES).steps, np.random.default_rng(0).normal(size=shape)
    np.testing.assert_array_equal(f(x), np.diff(x, axis=0))
    assert re.search(r"for j\w* in 0\.\.\(w \* h\)", f.show("loops"))
