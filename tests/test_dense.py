"""Dense loop nests: what the inner loops look like, and that they are vectors.

Vectors are counted in the emitted code, never hoped for: instructions on full registers, in the
functions of the program's own loops.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import naperian as nap
from naperian.backends.llvm import assembly
from naperian.backends.target import host

Array = NDArray[Any]

STENCIL = """
def smooth(x: Fin(a)=>Fin(b)=>Float) -> Fin(a)=>Fin(b)=>Float:
    [x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]
     if i >= 1 and i < a - 1 and j >= 1 and j < b - 1 else x[i, j] for i, j]
"""


def vectors(function: nap.Function, operation: str) -> int:
    """How many instructions `operation` of the compiled function work on this machine's widest
    vectors."""
    target = host()
    register = {64: "zmm", 32: "ymm", 16: "xmm"}[target.vector_bytes]
    listing = assembly(function.show("llvm"), target)
    return len(re.findall(rf"\bv?{operation}\b.*%{register}", listing))


def loops(function: nap.Function) -> str:
    return function.show("allocate")


def test_a_condition_of_outer_loops_is_tested_before_the_inner_one() -> None:
    smooth = nap.compile(STENCIL).smooth
    text = loops(smooth)
    inner = text[text.index("free for") :]
    assert inner.count("if") == inner.count("if v") + inner.count("if 0 <") + inner.count("if cut")
    assert " else x" not in inner
    assert vectors(smooth, "addpd") >= 3
    for shape in ((0, 3), (1, 1), (2, 5), (3, 3), (5, 2), (40, 50)):
        x = np.random.default_rng(1).standard_normal(shape)
        want = x.copy()
        want[1:-1, 1:-1] = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        np.testing.assert_allclose(smooth(x), want, rtol=1e-14)


@pytest.mark.parametrize("cells", [0, 1, 2, 3, 50])
def test_an_edge_of_one_cell_is_no_loop(cells: int) -> None:
    text = "def around(x: n=>Float) -> n=>Float = [x[clamp(i - 1)] + x[clamp(i + 1)] for i]"
    f = nap.compile(text).around
    assert loops(f).count("for ") == 1
    x = np.random.default_rng(1).standard_normal(cells)
    padded = np.concatenate([x[:1], x, x[-1:]])
    np.testing.assert_array_equal(f(x), padded[:-2] + padded[2:] if cells else x)


def test_whole_arrays_are_one_loop() -> None:
    f = nap.compile("def twice(x: n=>m=>k=>Float) -> n=>m=>k=>Float = 2.0 * x").twice
    assert loops(f).count("for ") == 1
    assert not re.search("[su]div", f.show("llvm").split("@kernel")[-1].split("udiv i64 65536")[0])
    for shape in ((0, 3, 2), (3, 0, 2), (2, 3, 5)):
        x = np.random.default_rng(1).standard_normal(shape)
        np.testing.assert_array_equal(f(x), 2.0 * x)


BODIES = """
def accelerations(at: n=>Fin(3)=>Float, mass: n=>Float) -> n=>Fin(3)=>Float:
    near = [sum((at[j, c] - at[i, c]) ** 2 for c) + 1e-9 for i, j]
    pull = [mass[j] / (near[i, j] * sqrt(near[i, j])) for i, j]
    [sum(pull[i, j] * (at[j, c] - at[i, c]) for j) for i, c]
"""


def test_vectors_of_three_are_scalars() -> None:
    f = nap.compile(BODIES).accelerations
    text = loops(f)
    assert text.count("for ") == 2
    assert "allocate" not in text
    assert vectors(f, "divpd") >= 1
    assert vectors(f, "sqrtpd") >= 1
    rng = np.random.default_rng(1)
    at, mass = rng.standard_normal((50, 3)), rng.uniform(1, 2, 50)
    d = at - at[:, None]
    near = (d * d).sum(axis=2) + 1e-9
    want = (d * (mass / near**1.5)[:, :, None]).sum(axis=1)
    np.testing.assert_allclose(f(at, mass), want, rtol=1e-9)


def test_components_asked_for_at_run_time_stay_a_table() -> None:
    f = nap.compile("""
def pick(x: n=>Fin(3)=>Float, k: n=>Fin(3)) -> n=>Float:
    y = [exp(x[i, c]) for i, c]
    [y[i, k[i]] for i]
""").pick
    x = np.random.default_rng(1).standard_normal((7, 3))
    k = np.arange(7) % 3
    np.testing.assert_allclose(f(x, k), np.exp(x)[np.arange(7), k], rtol=1e-14)


TURNED = """
def cross(a: Fin(3)=>Float, b: Fin(3)=>Float) -> Fin(3)=>Float =
    [a[wrap(i + 1)] * b[wrap(i + 2)] - a[wrap(i + 2)] * b[wrap(i + 1)] for i]

def turned(q: Fin(4)=>Float, x: n=>Fin(3)=>Float) -> n=>Fin(3)=>Float:
    u = [q[1], q[2], q[3]]
    for i:
        t = 2.0 * cross(u, x[i])
        x[i] + q[0] * t + cross(u, t)

def mixed(x: n=>Fin(3)=>Float, k: Fin(2)=>Fin(3)) -> n=>Fin(2)=>Float:
    y = [exp(x[i, c]) for i, c]
    z = [y[i, wrap(c + 1)] * 2 for i, c]
    [z[i, k[c]] + z[i, c] for i, c in Fin(2)]
"""


def test_components_beside_one_another_are_known() -> None:
    m = nap.compile(TURNED)
    text = loops(m.turned)
    assert text.count("for ") == 1
    assert "allocate" not in text
    rng = np.random.default_rng(1)
    q, x = rng.standard_normal(4), rng.standard_normal((50, 3))
    t = 2.0 * np.cross(q[1:], x)
    np.testing.assert_allclose(m.turned(q, x), x + q[0] * t + np.cross(q[1:], t), rtol=1e-12)
    z = 2.0 * np.roll(np.exp(x), -1, 1)
    k = np.array([2, 0])
    np.testing.assert_allclose(m.mixed(x, k), z[:, k] + z[:, :2], rtol=1e-12)


VOTES = """
def votes(e: h=>w=>Bool, c: t=>Float, k: Int) -> t=>Fin(k)=>Int:
    with accum() as o:
        for i, j:
            if e[i, j]:
                for q: o[q, clamp(Int(floor(Float(i) * c[q])), k)] += Int(j)

def before(e: Fin(n)=>Bool, m: Int) -> Fin(n)=>Fin(m)=>Int:
    with accum() as o:
        for i in Fin(n), j in Fin(m):
            if j < i:
                if e[i - 1]: o[i, j] += 1

def above(x: n=>m=>Float, least: n=>Float) -> n=>m=>Float:
    with state([[0.0 for _ in m] for _ in n]) as y:
        for i:
            for j:
                if least[i] > 0.0: y[i, j] := x[i, j] / least[i]
"""


def test_a_condition_that_a_loop_does_not_change_is_asked_once() -> None:
    m = nap.compile(VOTES)
    assert re.search(r"if e\[.*\n( *allocate .*\n)? *(free )?for", loops(m.votes))
    rng = np.random.default_rng(1)
    for h, w, t in ((5, 6, 7), (0, 3, 2), (3, 0, 2), (3, 4, 0), (4, 40, 33)):
        e, c = rng.random((h, w)) < 0.3, rng.random(t)
        want = np.zeros((t, 4), np.int64)
        for i, j in np.argwhere(e):
            for q in range(t):
                want[q, min(int(i * c[q]), 3)] += j
        np.testing.assert_array_equal(m.votes(e, c, 4), want)
    e = np.array([True, False, True, True])
    want = np.array([[j < i and e[i - 1] for j in range(3)] for i in range(4)])
    np.testing.assert_array_equal(m.before(e, 3), want)
    assert (m.votes(np.zeros((2, 2), bool), np.zeros(3), 0)).shape == (3, 0)
    with pytest.raises(nap.Error):
        m.votes(np.ones((2, 2), bool), np.zeros(3), 0)
    x, least = rng.random((6, 9)), np.array([1.0, -1.0, 0.0, np.nan, 2.0, 3.0])
    want = np.where(least[:, None] > 0, x / np.where(least > 0, least, 1)[:, None], 0.0)
    np.testing.assert_array_equal(m.above(x, least), want)


RUNS = """
def runs(x: Fin(n)=>Int) -> (Fin(n)=>Int, Fin(n)=>Int, Int):
    z = [0 for _ in Fin(n)]
    (v, c, k) = with state(z) as v, state(z) as c, state(-1) as k:
        for i:
            if i == 0 or x[i] != x[clamp(i - 1)]:
                k += 1
                v[k?] := x[i]
                c[k?] := 1
            else: c[k?] += 1
    (v, c, k + 1)

def turns(x: n=>Bool) -> (n=>Int, Int):
    (y, _, seen) = with state([0 for _ in n]) as y, state(True) as open, state(0) as seen:
        for i:
            if x[i] or not open:
                open := not open
                y[i] := 1
            if not x[i]:
                if open: y[i] := 2
            if x[i]: seen += 1
            if x[i]: y[i] += 10
            if not x[i]: seen += 100
    (y, seen)
"""


def test_what_one_condition_decides_is_asked_once() -> None:
    m = nap.compile(RUNS)
    assert len(re.findall(r"\n *if ", loops(m.runs))) == 1
    rng = np.random.default_rng(1)
    for n in (0, 1, 2, 50):
        x = rng.integers(0, 2, n)
        starts = [i for i in range(n) if i == 0 or x[i] != x[i - 1]]
        v, c, k = m.runs(x)
        assert k == len(starts)
        np.testing.assert_array_equal(v[:k], x[starts])
        np.testing.assert_array_equal(c[:k], np.diff([*starts, n]))
        y, opened, seen = np.zeros(n, int), True, 0
        for i in range(n):
            if x[i] or not opened:
                opened = not opened
                y[i] = 1
            if not x[i] and opened:
                y[i] = 2
            seen += 1 if x[i] else 100
            y[i] += 10 * x[i]
        found = m.turns(x.astype(bool))
        np.testing.assert_array_equal(found[0], y)
        assert found[1] == seen


NEAREST = """
def nearest(x: n=>d=>Float, centre: k=>d=>Float) -> n=>Int where k >= 1:
    [argmin(sum((x[i, c] - centre[j, c]) ** 2 for c) for j) for i]
"""


def test_an_inner_loop_along_an_array_is_not_cut_for_polls() -> None:
    f = nap.compile(NEAREST).nearest
    assert f.show("llvm").count("strip") == 0
    assert vectors(f, r"fmadd\d+pd") >= 2 or vectors(f, "mulpd") >= 2
    x = np.random.default_rng(1).standard_normal((30, 19))
    centre = x[::4] + 0.01
    want = ((x[:, None] - centre) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(f(x, centre), want)


@pytest.mark.parametrize("text", ["argmin(x)", "argmax(x)", "argmin(y)", "argmax(y)"])
def test_the_first_best_of_hazards(text: str) -> None:
    """Infinities that nothing is better than, NaNs, ties, equal zeros; also inside another loop."""
    f = nap.compile(f"""
def one(x: k=>Float) -> Int:
    y = [-x[i] for i]
    {text}
def all(xs: n=>k=>Float) -> n=>Int = one(xs)
""")
    inf, nan = np.inf, np.nan
    rows = np.array([
        [inf, inf, inf], [-inf, -inf, -inf], [inf, 1.0, 1.0], [nan, 1.0, nan], [1.0, nan, 0.0],
        [0.0, -0.0, 0.0], [inf, nan, -inf], [3.0, 2.0, 2.0], [-inf, inf, -inf],
    ])  # fmt: skip
    y = -rows if "y" in text else rows
    want = y.argmin(axis=1) if "min" in text else y.argmax(axis=1)
    np.testing.assert_array_equal(f.all(rows), want)
    assert [f.one(r) for r in rows] == want.tolist()


def test_long_rows_are_summed_four_vectors_at_a_time() -> None:
    """What is summed waits for the sum before, so long rows have four sums; what reads two arrays
    waits for memory and has two. The rows of any length have the same sums but for rounding."""
    text = """
def tops(x: n=>d=>Float) -> n=>Float = [max(x[i, j] for j) for i]
def dots(x: n=>d=>Float, y: n=>d=>Float) -> n=>Float = [sum(x[i, j] * y[i, j] for j) for i]
"""
    m = nap.compile(text)
    assert m.tops.show("llvm").count(".w3 = phi") == 1
    assert ".w3 = phi" not in m.dots.show("llvm")
    assert vectors(m.tops, "maxpd") >= 4
    lanes = host().lanes(8)
    for d in (1, 5, 4 * lanes, 32 * lanes - 1, 32 * lanes, 36 * lanes + 3):
        x = np.random.default_rng(d).standard_normal((7, d))
        np.testing.assert_array_equal(m.tops(x), x.max(axis=1))


CONVOLUTION = """
def conv(
    x: b=>c=>Fin(h + 2)=>Fin(w + 2)=>Float, k: o=>c=>Fin(3)=>Fin(3)=>Float
) -> b=>o=>Fin(h)=>Fin(w)=>Float =
    [sum(x[b, c, i + r, j + s] * k[o, c, r, s] for c, r, s) for b, o, i in Fin(h), j in Fin(w)]
"""


def test_windows_are_read_where_they_are() -> None:
    """Products whose sum is over channels and window at once, for a row of the result or some of
    them, and the result is written once. Any shape gives what NumPy gives."""
    conv = nap.compile(CONVOLUTION).conv
    text = conv.show("llvm")
    calls = [x for x in text.splitlines() if "call i64 @nap_contract_f64" in x]
    assert len(calls) == 1
    assert "ptr null" not in calls[0]
    assert calls[0].rstrip(")").endswith("i64 0")
    r = np.random.default_rng(0)
    for b, c, o, h, w in ((2, 9, 5, 3, 7), (1, 60, 9, 2, 500), (2, 8, 1, 40, 3), (0, 8, 3, 2, 2)):
        x, k = r.standard_normal((b, c, h + 2, w + 2)), r.standard_normal((o, c, 3, 3))
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        want = np.einsum("bcijrs,ocrs->boij", windows, k)
        got = conv(x, k)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
        before = nap.threads()
        try:
            nap.threads(1)
            np.testing.assert_array_equal(conv(x, k), got)
        finally:
            nap.threads(before)


WALKS = """
def prices(z: k=>n=>Float) -> k=>Float:
    walk = [cumsum(z[i]) for i]
    [sum(exp(0.01 * walk[i, j]) for j) for i]

def paths(z: k=>n=>Float) -> (k=>n=>Float):
    walk = [cumsum(z[i]) for i]
    [exp(0.01 * walk[i, j]) for i, j]

def grown(z: k=>n=>Float) -> k=>Float = [fold(lambda x, e: exp(-x) + e, 1.0, z[i]) for i]
"""


def test_what_a_recurrence_does_not_wait_for_is_done_in_vectors() -> None:
    """Exponentials of a walk come after it, a strip at a time; what a step itself takes, stays."""
    m = nap.compile(WALKS)
    text = loops(m.prices)
    assert text.count("exp(") == 1
    assert "free for" in text
    assert text.index("exp(") > text.index("free for")
    assert vectors(m.prices, "mulpd") >= 3
    assert "strip" not in loops(m.grown)
    for n in (0, 1, 7, 511, 512, 513, 1100):
        z = np.random.default_rng(n).standard_normal((3, n))
        walk = np.cumsum(z, axis=1)
        np.testing.assert_allclose(m.prices(z), np.exp(0.01 * walk).sum(axis=1), rtol=1e-12)
        np.testing.assert_allclose(m.paths(z), np.exp(0.01 * walk), rtol=1e-12)
        x = np.ones(3)
        for e in z.T:
            x = np.exp(-x) + e
        np.testing.assert_allclose(m.grown(z), x, rtol=1e-9)


NEAR = """
def apart(x: n=>d=>Float, y: m=>d=>Float) -> n=>m=>Float =
    [sqrt(sum((x[i, c] - y[j, c]) ** 2 for c)) for i, j]

def nearest(x: n=>d=>Float, y: m=>d=>Float) -> n=>m:
    [argmin(sum((x[i, c] - y[j, c]) ** 2 for c) for j) for i]

def farthest(x: n=>d=>Float, y: m=>d=>Float, w: m=>Float) -> n=>m:
    [argmax(w[j] + max(abs(x[i, c] - y[j, c]) for c) for j) for i]

def density(x: n=>d=>Float, y: m=>d=>Float) -> n=>Float:
    [sum(exp(-sum((x[i, c] - y[j, c]) ** 2 for c)) for j) for i]
"""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [0, 1, 9])
@pytest.mark.parametrize("m", [1, 16, 32, 37, 100])
@pytest.mark.parametrize("d", [1, 3, 16, 70])
def test_short_rows_are_summed_side_by_side(n: int, m: int, d: int, dtype: str) -> None:
    near = nap.compile(NEAR)
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((m, d)).astype(dtype)
    y[m // 2] = y[m // 3]  # the first of equal ones
    between = x[:, None] - y[None]
    squares = (between**2).sum(-1)
    close = {"rtol": 1e-4 if dtype == "float32" else 1e-12}
    np.testing.assert_allclose(near.apart(x, y), np.sqrt(squares), **close)
    np.testing.assert_allclose(near.density(x, y), np.exp(-squares).sum(-1), **close)
    np.testing.assert_array_equal(near.nearest(x, y), squares.argmin(-1))
    w = np.zeros(m, dtype)
    np.testing.assert_array_equal(near.farthest(x, y, w), abs(between).max(-1).argmax(-1))
    if n:
        y[m // 2, d - 1] = np.nan
        assert set(near.nearest(x, y)) == {m // 2}
        assert set(near.farthest(x, y, w)) == {m // 2}


def test_sums_side_by_side_are_vectors() -> None:
    near = nap.compile(NEAR)
    assert "panel" in loops(near.apart)
    assert vectors(near.apart, "subpd") >= 2
    assert vectors(near.apart, "sqrtpd") >= 2
    assert vectors(near.nearest, "minpd") >= 1
    long = nap.compile(NEAR.replace("d=>", "Fin(99)=>")).apart
    assert "panel" not in loops(long)


BITS = """
def ones(a: U64) -> Int:
    x = a - ((a >> 1) & 0x5555555555555555)
    y = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
    z = (y + (y >> 4)) & 0x0f0f0f0f0f0f0f0f
    Int((z * 0x0101010101010101) >> 56)

def apart(a: n=>k=>U64, b: m=>k=>U64) -> n=>m=>Int =
    [sum(ones(a[i, q] ^ b[j, q]) for q) for i, j]

def unlike(a: n=>k=>U8, b: m=>k=>U8) -> n=>m=>I32 =
    [sum(I32(1) for q if a[i, q] != b[j, q]) for i, j]
"""


@pytest.mark.parametrize(("n", "m", "k"), [(9, 20, 4), (8, 6, 64), (30, 33, 1), (9, 50, 70),
                                         (2, 9, 3)])  # fmt: skip
def test_integers_of_short_rows_are_summed_side_by_side(n: int, m: int, k: int) -> None:
    module = nap.compile(BITS)
    assert all("panel" in loops(f) for f in (module.apart, module.unlike))
    rng = np.random.default_rng(n * m)
    a, b = (rng.integers(0, 1 << 64, (s, k), dtype="u8") for s in (n, m))
    bits = np.unpackbits((a[:, None] ^ b[None]).view("u1"), axis=-1).sum(-1)
    np.testing.assert_array_equal(module.apart(a, b), bits)
    a, b = (rng.integers(0, 3, (s, k), dtype="u1") for s in (n, m))
    np.testing.assert_array_equal(module.unlike(a, b), (a[:, None] != b[None]).sum(-1))


KEPT = """
def large(x: n=>Float) = [v for v in x if v > 0.5]

def where_larger(x: n=>Float, y: n=>Float) = [(i, x[i] - y[i]) for i if x[i] > y[i]]

def between(x: n=>Float) = [v for v in large(x) if v < 0.8]

def slope(x: n=>Float) = grad(lambda y: sum([exp(v) for v in y if v > 0.5]))(x)
"""


@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_what_is_kept_goes_to_its_place_without_a_branch(n: int) -> None:
    module = nap.compile(KEPT)
    text = loops(module.large).split("# notes")[0]
    assert " if " not in text
    assert "update" not in text
    x, y = np.random.default_rng(n).random((2, n))
    np.testing.assert_array_equal(module.large(x), x[x > 0.5])
    np.testing.assert_array_equal(module.between(x), x[(x > 0.5) & (x < 0.8)])
    places, differences = module.where_larger(x, y)
    np.testing.assert_array_equal(differences, (x - y)[x > y])
    np.testing.assert_array_equal(places, np.nonzero(x > y)[0])
    np.testing.assert_allclose(module.slope(x), np.where(x > 0.5, np.exp(x), 0.0), rtol=1e-15)


ROWS = """
def neighbours(ends: Fin(n + 1)=>Fin(m + 1), to: Fin(m)=>Fin(n), x: Fin(n)=>Float) -> Fin(n)=>Float:
    [0.1 + sum(x[to[e]] for e in ends[i]..ends[i + 1]) for i in Fin(n)]
"""


@pytest.mark.parametrize("most", [0, 1, 4, 5, 40])
@pytest.mark.parametrize("n", [0, 1, 7, 300])
def test_short_rows_are_summed_one_by_one(n: int, most: int) -> None:
    f = nap.compile(ROWS).neighbours
    text = loops(f)
    assert "if (-ends[0] + ends[n]) < (6 * n):" in text
    assert text.count("free for") == 1
    rng = np.random.default_rng(n)
    lengths = rng.integers(0, 2 * most + 1, n)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    to, x = rng.integers(0, max(n, 1), ends[-1]), rng.standard_normal(n)
    want = [0.1 + x[to[a:b]].sum() for a, b in pairwise(ends)]
    np.testing.assert_allclose(f(ends, to, x), want, rtol=1e-12, atol=1e-12)


BEST = """
def best(x: n=>m=>Float) -> n=>m = argmax(x)
def least(x: n=>m=>Int) -> n=>m = argmin(x)
"""


def test_the_first_best_of_a_short_row_is_looked_for_in_one_go() -> None:
    module = nap.compile(BEST)
    for f in (module.best, module.least):
        assert loops(f).count("if (m > 0) and (m < 16):") == 1
    assert loops(module.best).count("if isnan(all):") == 1
    assert "isnan" not in loops(module.least)  # no integer is one
    other = "def f(x: n=>m=>Float, y: n=>m=>Float) -> n=>Int =\n"
    other += "    [min(j if y[i, j] == max(x[i]) else m for j) for i]"
    assert "m < 16" not in loops(nap.compile(other).f)


@pytest.mark.parametrize("m", [1, 2, 3, 31, 32, 100])
def test_the_first_best_is_a_nan_if_there_is_one(m: int) -> None:
    module = nap.compile(BEST)
    rng = np.random.default_rng(m)
    values = [1.0, 2.0, 0.0, -0.0, np.inf, -np.inf, np.nan]
    x = rng.choice(values, (200, m), p=[0.19] * 5 + [0.025] * 2)
    x[::5] = -np.inf
    np.testing.assert_array_equal(module.best(x), x.argmax(1))
    k = rng.integers(-2, 2, (200, m))
    np.testing.assert_array_equal(module.least(k), k.argmin(1))


WINDOWS = """
def highest(k: Int, x: Fin(n + k)=>Float) -> Fin(n)=>Float =
    [max(x[i + j] for j in Fin(k + 1)) for i in Fin(n)]
def pooled(a: Int, b: Int, x: Fin(h + a)=>Fin(w + b)=>Float) -> Fin(h)=>Fin(w)=>Float =
    [max(x[i + p, j + q] for p in Fin(a + 1), q in Fin(b + 1)) for i in Fin(h), j in Fin(w)]
def apart(x: Fin(n + m)=>Float, y: Fin(m + 1)=>Float) -> Fin(n)=>Float =
    [sum(abs(x[i + j] - y[j]) for j) for i in Fin(n)]
"""


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("k", [1, 2, 5, 20])
@pytest.mark.parametrize("n", [1, 7, 64, 100])
def test_windows_side_by_side_are_reduced_side_by_side(n: int, k: int, dtype: str) -> None:
    module = nap.compile(WINDOWS)
    for f in (module.highest, module.pooled, module.apart):
        assert loops(f).count("lanes for") >= 3, loops(f)
        assert "reducing" not in loops(f).partition("else:")[0]  # of few windows they are
    view = np.lib.stride_tricks.sliding_window_view
    rng = np.random.default_rng(n)
    x = rng.standard_normal(n + k - 1).astype(dtype)
    x[-1] = np.nan
    np.testing.assert_array_equal(module.highest(k - 1, x), view(x, k).max(1))
    a = rng.standard_normal((k + 1, n + k - 1)).astype(dtype)
    np.testing.assert_array_equal(module.pooled(1, k - 1, a), view(a, (2, k)).max((2, 3)))
    y = rng.standard_normal(k).astype(dtype)
    want = np.abs(view(x, k) - y).sum(1)
    np.testing.assert_allclose(module.apart(x, y), want, rtol=1e-5 if dtype == "f4" else 1e-12)


HANDED = """
def filtered(x: n=>Float, a: Float, b: Float) -> n=>Float:
    (y, _) = with state(0.0) as s:
        for i:
            y = a * x[i] + s
            s := b * x[i] - a * y
            y
    y
def rows(a: Fin(n)=>Int, b: Fin(m)=>Int) -> Fin(n + 1)=>Fin(m + 1)=>Int:
    with state([i + j for i in Fin(n + 1), j in Fin(m + 1)]) as d:
        for i in Fin(n), j in Fin(m):
            change = d[i, j] if a[i] == b[j] else d[i, j] + 1
            d[i + 1, j + 1] := min(d[i, j + 1] + 1, d[i + 1, j] + 1, change)
def jumps(x: Fin(n)=>Float, k: Fin(n)=>Fin(n)) -> Fin(n + 1)=>Float:
    with state([0.0 for _ in Fin(n + 1)]) as y:
        for i in Fin(n):
            y[k[i]] := 3.0
            y[i + 1] := x[i] + y[i]
def integral(x: Fin(h)=>Fin(w)=>Float) -> Fin(h)=>Fin(w)=>Float:
    with state([0.0 for i, j]) as s:
        for i in Fin(h), j in Fin(w):
            up = s[i - 1, j] if i > 0 else 0.0
            left = s[i, j - 1] if j > 0 else 0.0
            both = s[i - 1, j - 1] if i > 0 and j > 0 else 0.0
            s[i, j] := x[i, j] + up + left - both
def scored(a: Fin(n)=>Int, b: Fin(m)=>Int, s: Fin(p)=>Int) -> Fin(n + 1)=>Fin(m + 1)=>Int:
    with state([0 for i in Fin(n + 1), j in Fin(m + 1)]) as d:
        for i in Fin(n), j in Fin(m):
            d[i + 1, j + 1] := s[(a[i] - b[j])?] + max(d[i, j + 1], d[i + 1, j])
"""


def test_what_a_round_stored_is_handed_to_the_next() -> None:
    module = nap.compile(HANDED)
    text = loops(module.rows)
    assert "last := out[i_3 + 1, 0]" in text
    assert "out[i_3 + 1, j]" not in text  # what is left of an element is not read again
    assert "last" not in loops(module.jumps)  # it may have been changed since
    text = loops(module.scored)  # if the first round does not end the run
    assert "if not(((a[i_2] - b[0]) < 0)" in text
    assert "last := new" in text
    text = loops(module.integral)
    assert "last := new" in text
    assert "out[i_2, j - 1]" not in text  # not even in front of the loop: there is no such element

    def distance(a: Sequence[int], b: Sequence[int]) -> np.ndarray:
        d = np.add.outer(np.arange(len(a) + 1), np.arange(len(b) + 1))
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                d[i + 1, j + 1] = min(d[i, j + 1] + 1, d[i + 1, j] + 1, d[i, j] + (x != y))
        return d

    rng = np.random.default_rng(0)
    for n, m in ((0, 0), (0, 3), (3, 0), (1, 1), (17, 9)):
        a, b = rng.integers(0, 3, n), rng.integers(0, 3, m)
        np.testing.assert_array_equal(module.rows(a, b), distance(a, b))
        c, d = rng.integers(0, 9, 3), np.zeros((n + 1, m + 1), int)
        a, b = rng.integers(1, 3, n), rng.integers(0, 2, m)
        for i, j in np.ndindex(n, m):
            d[i + 1, j + 1] = c[a[i] - b[j]] + max(d[i, j + 1], d[i + 1, j])
        np.testing.assert_array_equal(module.scored(a, b, c), d)
    x, k, want = rng.standard_normal(9), rng.integers(0, 9, 9), np.zeros(10)
    for i in range(9):
        want[k[i]] = 3.0
        want[i + 1] = x[i] + want[i]
    np.testing.assert_array_equal(module.jumps(x, k), want)
    for shape in ((0, 0), (0, 3), (3, 0), (1, 1), (17, 9)):
        x = rng.standard_normal(shape)
        np.testing.assert_allclose(module.integral(x), x.cumsum(0).cumsum(1), atol=1e-12)


def test_a_history_lies_as_its_loops_stand() -> None:
    """Sums so far of rows are written by rows, and those of columns read them so."""
    f = nap.compile("""
def integral(x: h=>w=>Float) =
    transpose([cumsum(c) for c in transpose([scan_exclusive((+), 0.0, r) for r in x])])
""").integral
    assert "allocate acc: f64[h, w + 1]" in loops(f)
    for shape in ((1, 1), (3, 700), (70, 30)):
        x = np.random.default_rng(0).standard_normal(shape)
        before = x.cumsum(1) - x
        np.testing.assert_allclose(f(x), before.cumsum(0), rtol=1e-9, atol=1e-11)


def test_only_what_a_recurrence_waits_for_is_multiplied_and_added_at_once() -> None:
    """A sum takes less time than a product with a sum, and `a * x[i]` does not wait."""
    text = nap.compile(HANDED).filtered.show("llvm")
    (wait,) = re.findall(r"%\w+ = fmul contract double (.*)", text)
    assert len(re.findall(r"= fmul +double", text)) == 2
    late = re.search(r"(%\w+) = fadd", text)
    assert late is not None
    assert late[1] in wait


INNER = """
def drift(x: n=>Float, k: Int) -> Float:
    loop s = 1.0 for _ in Fin(k): 0.5 * s + sum(cos(s) * x[i] * x[i] + s for i)
"""


@pytest.mark.parametrize("n", [0, 3, 100, 100_000])
def test_a_short_sum_inside_a_loop_is_done_where_it_is_needed(n: int) -> None:
    f = nap.compile(INNER).drift
    kernel = f.show("llvm").partition("define i64 @kernel")[2]
    assert "@nap_run" in kernel  # a long one is shared
    assert kernel.index("fadd reassoc") < kernel.index("@nap_run")
    x, s, c = np.linspace(-1, 1, n), 1.0, np.linspace(-1, 1, n) @ np.linspace(-1, 1, n)
    for _ in range(3):
        s = 0.5 * s + np.cos(s) * c + n * s
    np.testing.assert_allclose(f(x, 3), s, rtol=1e-9)


def test_a_running_extreme_waits_for_one_comparison() -> None:
    """A NaN is looked for in the new element; what was before is on the right of the maximum."""
    f = nap.compile("def f(x: n=>Float) -> n=>Float = scan(max, -inf, x)").f
    text = f.show("llvm")
    assert "llvm.maximum" not in text
    *_, new = re.findall(r"= fcmp uno double (\S+),", text)  # what is not passed over as a vector
    assert f"fcmp ogt double {new}, " in text
    rng = np.random.default_rng(3)
    for k in (None, 0, 5, 99):
        x = rng.choice([-np.inf, -1.0, 0.0, -0.0, 2.0, np.inf], 100)
        if k is not None:
            x[k] = np.nan
        np.testing.assert_array_equal(f(x), np.maximum.accumulate(x))


LARGEST = """
def largest(x: n=>Float, start: Fin(k)=>Float) -> Fin(k)=>Float:
    with state(start) as o:
        for i:
            v = x[i]
            if v > o[(k - 1)?]:
                j = loop j = k - 1 while j > 0 and o[(j - 1)?] < v:
                    o[j?] := o[(j - 1)?]
                    j - 1
                o[j?] := v
"""


def test_what_is_seldom_done_stands_under_one_condition() -> None:
    f = nap.compile(LARGEST).largest
    text = loops(f)
    (guard,) = re.findall(r"(\w+): bool = x\[i_2\] >", text)
    assert text.count(guard) == 2  # once bound, once asked
    assert text.index(f"if {guard}:") < text.index("repeat:")
    x = np.random.default_rng(0).standard_normal(1000)
    for k in (1, 2, 10):
        np.testing.assert_array_equal(f(x, np.full(k, -np.inf)), np.sort(x)[::-1][:k])


def test_a_product_is_not_written_over_its_factors() -> None:
    square = nap.compile("""
def square(a: Fin(n)=>Fin(n)=>Float, k: Int) -> Fin(n)=>Fin(n)=>Float:
    loop e = a for _ in Fin(k):
        e @ e
""").square
    a = np.eye(24) + 0.01 * np.random.default_rng(0).standard_normal((24, 24))
    np.testing.assert_allclose(square(a, 5), np.linalg.matrix_power(a, 32))


def test_a_product_with_what_a_loop_leaves_stands_in_the_loop_around() -> None:
    filtered = nap.compile("""
def solved(l: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Fin(n)=>Float:
    with state(b) as x:
        for i in Fin(n):
            x[i] := (b[i] - sum(l[i, k] * x[k] for k in ..i)) / l[i, i]

def filtered(
    p: Fin(n)=>Fin(n)=>Float, c: Fin(m)=>Fin(n)=>Float, l: Fin(m)=>Fin(m)=>Float, k: Int
) -> Fin(n)=>Fin(n)=>Float:
    loop p = p for _ in Fin(k):
        [solved(l, [c[i, j] * p[j, j] for i]) for j] @ c
""").filtered
    rng = np.random.default_rng(0)
    p, c = rng.random((12, 12)), rng.random((9, 12))
    lower = np.tril(rng.random((9, 9))) + np.eye(9)
    expected = p
    for _ in range(3):
        expected = np.linalg.solve(lower, c * np.diag(expected)).T @ c
    np.testing.assert_allclose(filtered(p, c, lower, 3), expected)


def test_what_takes_turns_is_cleared_where_it_is() -> None:
    module = nap.compile("""
def f(a: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    loop x = a, y = b for t in Fin(2):
        (x @ x, 0.1 * transpose(x))
    y
""")
    a = np.eye(3)
    _, (along, forgotten) = nap.vjp(module.f, ("a", "b"))(a, a, a)
    np.testing.assert_allclose(along, 0.2 * a)
    np.testing.assert_array_equal(forgotten, 0.0 * a)


PIECES = """
def mean(x: Fin(n + k)=>Float, w: Fin(k)=>Float) -> Fin(n + 1)=>Float where k >= 1 =
    [sum(x[i + j] for j in Fin(k)) / k for i in Fin(n + 1)]

def smooth(x: Fin(n)=>Float, r: Int) -> Fin(n)=>Float where r >= 1 =
    [sum(x[clamp(i + j - r)] for j in Fin(2 * r + 1)) / Float(2 * r + 1) for i]

def counted(x: Fin(n)=>Int, w: Int) -> Fin(n)=>Int where w >= 1 =
    [sum(x[clamp(i - j)] for j in Fin(w) if i >= j) for i]

def span(x: Fin(n + 40)=>Float) -> Float =
    max(max(x[i + j] for j in Fin(41)) - min(x[i + j] for j in Fin(41)) for i in Fin(n))

def rows(x: m=>Fin(n)=>U8) -> m=>Fin(n)=>U8 =
    [max(x[q, wrap(i + j - 9)] for j in Fin(19)) for q, i]
"""


def test_windows_are_put_together_from_pieces() -> None:
    module = nap.compile(PIECES)
    for name in ("mean", "smooth", "counted", "span", "rows"):
        assert "while (2 * piece) <=" in loops(getattr(module, name)), name
    strict = nap.compile(PIECES, math="strict")
    for name, pieces in (("mean", False), ("counted", True), ("rows", True)):
        assert ("piece" in loops(getattr(strict, name))) == pieces
    others = """
def weighted(x: Fin(n + k)=>Float, w: Fin(k)=>Float) -> Fin(n + 1)=>Float =
    [sum(x[i + j] * w[j] for j in Fin(k)) for i in Fin(n + 1)]
def apart(x: Fin(n + 40)=>Float) -> Fin(n)=>Float:
    for i:
        m = sum(x[i + j] for j in Fin(9))
        sum(abs(x[i + j] - m) for j in Fin(40))
"""
    module = nap.compile(others)
    assert not any("piece" in loops(f) for f in (module.weighted, module.apart))


@pytest.mark.parametrize(("n", "k"), [(0, 1), (1, 1), (63, 40), (64, 16), (1100, 3), (2500, 17),
                                      (130, 200), (5000, 1500), (3000, 64)])  # fmt: skip
def test_windows_of_all_widths(n: int, k: int) -> None:
    rng = np.random.default_rng(n + k)
    module = nap.compile(PIECES)
    view = np.lib.stride_tricks.sliding_window_view
    x = rng.standard_normal(n + k)
    wide = view(np.pad(x, k, mode="edge"), 2 * k + 1)
    for got, want in ((module.mean(x, np.zeros(k)), view(x, k)), (module.smooth(x, k), wide)):
        np.testing.assert_allclose(got, want.mean(1), rtol=1e-12, atol=1e-13)
    x = rng.integers(-9, 9, n + k)
    padded = np.concatenate([np.zeros(k - 1, int), x])
    np.testing.assert_array_equal(module.counted(x, k), view(padded, k).sum(1))
    x = rng.integers(0, 255, (3, n)).astype("u1")
    if n:
        around = np.take(x, np.arange(-9, n + 9), axis=1, mode="wrap")
        np.testing.assert_array_equal(module.rows(x), view(around, 19, axis=1).max(2))
    y = rng.standard_normal(n + 40)
    if n:
        y[rng.integers(0, n + 40)] = np.inf
        both = view(y, 41)
        assert module.span(y) == (both.max(1) - both.min(1)).max()


def test_indices_are_checked_before_the_rounds_that_go_by_them() -> None:
    text = """
def sums(m: Int, k: n=>Fin(m), w: n=>Float) -> Fin(m)=>Float:
    with accum() as h:
        for i: h[k[i]] += w[i]
"""
    f = nap.compile(text).sums
    assert "odd := odd or (k[i_2] != (clamp(k[i_2], m)))" in loops(f)
    rng = np.random.default_rng(0)
    for n in (0, 1, 511, 512, 513, 5000):
        k, w = rng.integers(0, 9, n), rng.standard_normal(n)
        np.testing.assert_allclose(f(9, k, w), np.bincount(k, w, 9), rtol=1e-12, atol=1e-12)
        for at in {0, n // 2, n - 1} if n else ():
            for wrong in (-1, 9):
                other = k.copy()
                other[at] = wrong
                with pytest.raises(IndexError, match=f"{wrong}"):
                    f(9, other, w)


def test_indices_in_rows_are_checked_as_one_row() -> None:
    text = """
def solved(e: Fin(n + 1)=>Fin(m + 1), cols: Fin(m)=>Fin(n), vals: Fin(m)=>Float) -> Fin(n)=>Float:
    with state([1.0 for _ in Fin(n)]) as x:
        for i in Fin(n):
            x[i] := x[i] - sum(vals[k] * x[cols[k]] for k in e[i]..e[i + 1])
"""
    f = nap.compile(text).solved
    assert "in e[0]..e[n] reducing or odd" in loops(f)

    def want(*rows: Array) -> Array:
        ends, cols, vals = rows
        x = np.ones(len(ends) - 1)
        for i, (a, b) in enumerate(pairwise(ends)):
            x[i] -= (vals[a:b] * x[cols[a:b]]).sum() if a < b else 0.0
        return x

    rng = np.random.default_rng(0)
    for n in (0, 1, 40):
        ends = np.sort(rng.integers(0, 100, n + 1))
        cols, vals = rng.integers(0, max(n, 1), 100), rng.standard_normal(100)
        if not n:
            cols, vals = cols[:0], vals[:0]
            ends = ends[:1] * 0
        np.testing.assert_allclose(f(ends, cols, vals), want(ends, cols, vals))
        for k in (ends[0] - 1, ends[-1]):  # what no row reads
            if n and 0 <= k < 100:
                cols[k] = n
                np.testing.assert_allclose(f(ends, cols, vals), want(ends, cols, vals))
    cols[ends[20]] = 40
    with pytest.raises(IndexError, match="40"):
        f(ends, cols, vals)
    ends[[20, 21]] = 90, 3  # no row any more
    before, after = f(ends, np.minimum(cols, 39), vals), want(ends, np.minimum(cols, 39), vals)
    np.testing.assert_allclose(before, after)


def test_a_loop_that_adds_nothing_goes() -> None:
    text = """
def below(l: Fin(n)=>Fin(n)=>Float, x: Fin(n)=>Float) -> Fin(n)=>Float =
    [sum(l[i, j] * x[j] for j if j <= i) for i]
def before(x: Fin(n)=>Int) -> Fin(n)=>Int = [max(x[j] for j if j <= i) for i]
def other(x: Fin(n)=>Float) -> Fin(n)=>Float = [sum((x[j] if j <= i else 1.0) for j) for i]
"""
    for math in ("default", "strict"):
        module = nap.compile(text, math=math)
        for name, ends in (("below", 1), ("before", 1), ("other", 2)):
            assert loops(getattr(module, name)).count("for j in") == ends, name
        rng = np.random.default_rng(0)
        for n in (0, 1, 9, 50):
            l, x = rng.standard_normal((n, n)), rng.standard_normal(n)
            np.testing.assert_allclose(module.below(l, x), np.tril(l) @ x, atol=1e-12)
            k = rng.integers(-9, 9, n)
            np.testing.assert_array_equal(module.before(k), np.maximum.accumulate(k))
        zeros = module.below(np.full((3, 3), -0.0), np.ones(3))
        assert not np.signbit(zeros).any()


MARCHED = """
def reached(c: s=>Float, x: n=>Float, steps: Int) -> n=>Float =
    for i:
        loop t = x[i] for _ in Fin(steps): t - 0.1 * logsumexp([-(t - c[k]) ** 2 for k])
def missed(c: s=>Float, x: n=>Float, steps: Int) -> Float = sum(reached(c, x, steps) ** 2)
"""


@pytest.mark.parametrize("s", [1, 3, 64, 65])
@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 200])
def test_rounds_of_many_rows_go_side_by_side_if_they_are_short(n: int, s: int) -> None:
    """However many rows there are, and however short their inner loops: the run knows."""
    module = nap.compile(MARCHED)
    text = loops(module.reached)
    assert "lanes for" in text.partition("else:")[0], text
    assert "free for" in text.partition("else:")[2], text
    rng = np.random.default_rng(n)
    c, x = rng.standard_normal(s), rng.standard_normal(n)

    def reached(c: Array, x: Array) -> Array:
        for _ in range(5):
            x = x - 0.1 * np.log(np.exp(-((x[:, None] - c) ** 2)).sum(1))
        return x

    np.testing.assert_allclose(module.reached(c, x, 5), reached(c, x), rtol=1e-11, atol=1e-12)
    dc, dx = (rng.standard_normal(v.shape) for v in (c, x))
    h = 1e-6
    up, down = ((reached(c + e * dc, x + e * dx) ** 2).sum() for e in (h, -h))
    gc, gx = nap.grad(module.missed, wrt=("c", "x"))(c, x, 5)
    assert gc @ dc + gx @ dx == pytest.approx((up - down) / (2 * h), rel=1e-3, abs=1e-3)


KERNELS = """
def blurred(x: n=>m=>Float, k: Fin(5)=>Fin(5)=>Float) -> Float =
    sum(sum(k[a, b] * x[wrap(i + a - 2), wrap(j + b - 2)] for a, b) ** 3 for i in n, j in m)
def slopes(x: n=>m=>Float, k: Fin(5)=>Fin(5)=>Float) = grad(blurred, wrt=("x", "k"))(x, k)
"""


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 3), (1, 40), (33, 64)])
def test_the_sums_of_a_kernel_stay_in_registers(shape: tuple[int, int]) -> None:
    """And are where they belong, if there is anything to sum; in strict code they are in order."""
    module, strict = nap.compile(KERNELS), nap.compile(KERNELS, math="strict")
    assert "reducing add sum" in loops(module.slopes)
    assert "reducing add sum" not in loops(strict.slopes)
    rng = np.random.default_rng(1)
    x, k = rng.standard_normal(shape), rng.standard_normal((5, 5))
    seen = [[np.roll(x, (2 - a, 2 - b), (0, 1)) for b in range(5)] for a in range(5)]
    y = 3 * sum(k[a, b] * seen[a][b] for a in range(5) for b in range(5)) ** 2
    gx = sum(k[a, b] * np.roll(y, (a - 2, b - 2), (0, 1)) for a in range(5) for b in range(5))
    gk = np.array([[(y * seen[a][b]).sum() for b in range(5)] for a in range(5)])
    for made in (module, strict):
        dx, dk = made.slopes(x, k)
        np.testing.assert_allclose(dx, gx, rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(dk, gk, rtol=1e-10, atol=1e-10)


TRIANGLES = """
def causal(q: h=>Fin(t)=>e=>Float, k: h=>Fin(t)=>e=>Float) -> h=>Fin(t)=>Fin(t)=>Float =
    [softmax([dot(q[a, i], k[a, j]) if j <= i else -inf for j]) for a, i]
def above(x: Fin(n)=>d=>Float, y: Fin(n)=>d=>Float) -> Fin(n)=>Fin(n)=>Float =
    [dot(x[i], y[j]) if i < j else -1.0 for i, j]
def others(x: Fin(n)=>d=>Float, y: Fin(n)=>d=>Float) -> Fin(n)=>Fin(n)=>Float =
    [1.0 if i == j else dot(x[i], y[j]) for i, j]
def differ(x: n=>d=>Float, y: n=>d=>Float) -> n=>n=>Float =
    [dot(x[i], y[j]) if j != i else 0.0 for i, j]
def same(x: n=>d=>Float, y: n=>d=>Float) -> n=>n=>Float =
    [dot(x[i], y[j]) if i == j else 0.0 for i, j]
def band(x: Fin(n)=>d=>Float, y: Fin(n)=>d=>Float) -> Fin(n)=>Fin(n)=>Float =
    [dot(x[i], y[j]) if i <= j + 2 and j <= i + 2 else 0.0 for i, j]
def there(x: Fin(m)=>d=>Float, y: Fin(m)=>d=>Float) -> Fin(n)=>Fin(m)=>Float =
    [dot(x[i], y[j]) if i <= j else 0.0 for i in Fin(n), j]
"""


@pytest.mark.parametrize("n", [0, 1, 5, 40])
def test_most_of_a_square_is_a_product(n: int) -> None:
    """What comes before is half of all there is, and what is not the diagonal more; that itself and
    a band are less, and some is not there."""
    m = nap.compile(TRIANGLES)
    most = ("causal", "above", "others", "differ")
    for name in (*most, "same", "band", "there"):
        assert ("contract" in m[name].show("loops")) == (name in most), name
    r = np.random.default_rng(n)
    x, y, q, k = (r.normal(size=s) for s in [(n, 7)] * 2 + [(2, n, 9)] * 2)
    i, j = np.indices((n, n))
    assert np.allclose(m.above(x, y), np.where(i < j, x @ y.T, -1.0))
    assert np.allclose(m.others(x, y), np.where(i == j, 1.0, x @ y.T))
    assert np.allclose(m.differ(x, y), np.where(i == j, 0.0, x @ y.T))
    assert np.allclose(m.same(x, y), np.where(i == j, x @ y.T, 0.0))
    assert np.allclose(m.band(x, y), np.where(abs(i - j) <= 2, x @ y.T, 0.0))
    assert np.allclose(m.there(x, y, n=n), np.where(i <= j, x @ y.T, 0.0))
    score = np.exp(np.where(j <= i, q @ k.transpose(0, 2, 1), -np.inf))
    assert np.allclose(m.causal(q, k), score / score.sum(2, keepdims=True))
