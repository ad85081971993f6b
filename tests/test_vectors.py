"""Loops that are written as vectors: every rest of a vector, every kind of element, and no byte
read or written beyond an array's end."""

from __future__ import annotations

import ctypes
import mmap
import re

import numpy as np
import pytest

import naperian as nap
from naperian.backends.llvm import is_finished, optimised
from naperian.backends.target import host

TEXT = """
def affine(x: n=>Float, y: n=>Float, a: Float) = [a * x[i] + y[i] if x[i] > y[i] else a for i]
def turned(x: Fin(n)=>Float) = [x[n - 1 - i] for i in Fin(n)]
def numbered(x: Fin(n)=>Float) = [x[i] + Float(i) for i in Fin(n)]
def bytes(x: n=>U8, y: n=>U8) = [min(x[i], y[i]) // 2 + 7 for i]
def same(x: n=>Int, y: n=>Float) -> n=>Bool = [x[i] == 3 and y[i] < 0.5 for i]
def waves(x: n=>Float) = [exp(sin(x[i])) + log1p(abs(x[i])) for i]
def total(x: n=>Float) = sum(x)
def spread(x: n=>Float) = (min(x), max(x), sum(x), sum([x[i] * x[i] for i]))
def rows(x: m=>n=>Float) = [(sum(x[i]), max(x[i])) for i]
def sides(x: n=>Float, y: n=>Float) -> (Float, Float):
    with accum() as gain, accum() as loss:
        for i:
            if x[i] > y[i]: gain += x[i] - y[i]
            else: loss += sqrt(y[i] - x[i])
def columns(x: m=>n=>Float) = [x[i, j] - x[i, 0] for i, j]
"""
LENGTHS = [*range(1, 19), 31, 32, 33, 63, 64, 65, 127, 130]


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def at_the_end(x: np.ndarray) -> np.ndarray:
    """The array, up to the last byte of a page, behind which nothing may be touched."""
    page = mmap.PAGESIZE
    count = -(-x.nbytes // page) or 1
    memory = mmap.mmap(-1, (count + 1) * page)
    whole = np.frombuffer(memory, np.uint8)
    libc = ctypes.CDLL(None)
    assert not libc.mprotect(ctypes.c_void_p(whole.ctypes.data + count * page), page, 0)
    view = whole[count * page - x.nbytes : count * page].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [0, *LENGTHS])
def test_elements(m, n: int, dtype: type) -> None:
    r = np.random.default_rng(n)
    x, y = (at_the_end(r.normal(size=n).astype(dtype)) for _ in range(2))
    a, close = dtype(0.5), 1e-12 if dtype is np.float64 else 1e-4
    out = at_the_end(np.zeros(n, dtype))
    m.affine(x, y, a, out=out)
    assert np.allclose(out, np.where(x > y, a * x + y, a), rtol=close)
    assert np.array_equal(m.turned(x), x[::-1])
    assert np.allclose(m.numbered(x), x + np.arange(n), rtol=close)
    assert np.allclose(m.waves(x), np.exp(np.sin(x)) + np.log1p(np.abs(x)), rtol=close)


@pytest.mark.parametrize("n", [0, *LENGTHS])
def test_other_elements(m, n: int) -> None:
    r = np.random.default_rng(n)
    x, y = (at_the_end(r.integers(0, 256, n).astype(np.uint8)) for _ in range(2))
    assert np.array_equal(m.bytes(x, y), np.minimum(x, y) // 2 + 7)
    k, z = at_the_end(r.integers(2, 5, n)), at_the_end(r.normal(size=n))
    assert np.array_equal(m.same(k, z), (k == 3) & (z < 0.5))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", LENGTHS)
def test_sums(m, n: int, dtype: type) -> None:
    r = np.random.default_rng(n)
    x, table = r.normal(size=n).astype(dtype), r.normal(size=(3, n)).astype(dtype)
    x, table = at_the_end(x), at_the_end(table)
    close = {"rtol": 1e-10, "atol": 1e-12} if dtype is np.float64 else {"rtol": 1e-3, "atol": 1e-4}
    assert np.allclose(m.total(x), x.sum(), **close)
    assert np.allclose(m.spread(x), (x.min(), x.max(), x.sum(), (x * x).sum()), **close)
    apart = np.maximum(x - 1, 0).sum(), np.sqrt(np.maximum(1 - x, 0)).sum()
    assert np.allclose(m.sides(x, np.ones_like(x)), apart, **close)
    sums, most = m.rows(table)
    assert np.allclose(sums, table.sum(1), **close)
    assert np.array_equal(most, table.max(1))
    assert np.array_equal(m.columns(table), table - table[:, :1])


def test_extremes_keep_nan(m) -> None:
    for n in (5, 8, 40):
        for k in range(n):
            x = np.arange(n, dtype=float)
            x[k] = np.nan
            assert all(np.isnan(m.spread(x)[:2]))


@pytest.mark.skipif(host().vector_bytes < 64, reason="sums are LLVM's where there are no masks")
@pytest.mark.parametrize(
    "name", ["affine", "turned", "bytes", "same", "waves", "spread", "rows", "sides"]
)
def test_nothing_is_left_to_llvm(m, name: str) -> None:
    text = m[name].show("llvm")
    assert is_finished(text)
    assert re.search(rf"load <({64 if name == 'bytes' else '8|16'}) x", optimised(text))


def test_a_row_that_is_read_ahead() -> None:
    """v[i] of v[i + 1] may be vectors in place; v[i + 1] of v[i] may not."""
    f = nap.compile("""
def ahead(x: Fin(n)=>Float, steps: Int) -> Fin(n)=>Float:
    loop v = x for _ in Fin(steps):
        [v[i] + 0.5 * v[clamp(i + 1)] for i]
""").ahead
    for n in (*LENGTHS,):
        x = np.random.default_rng(n).normal(size=n)
        want = x.copy()
        for _ in range(3):
            want = want + 0.5 * np.append(want[1:], want[-1:])
        assert np.allclose(f(x, 3), want)


SWEPT = """
def solve(x: Fin(n)=>Float, c: Float) -> Fin(n)=>Float:
    y = scan(lambda s, a: s * c + a, 0.0, x)
    [y[n - 1 - i] for i in Fin(n)]
def swept(x: Fin(m)=>Fin(n)=>Float, w: Fin(n)=>Fin(m)=>Float, here: Fin(m)=>Fin(n)=>Bool,
          at: Fin(m)=>Fin(n)=>I32, c: Float, steps: Int) -> Fin(m)=>Fin(n)=>Float:
    loop y = x for k in Fin(steps):
        z = [solve([y[i, j] + w[j, i] if here[i, j] else Float(at[i, j]) for i], c) for j]
        [z[j, i] for i, j]
"""


FADING = """
def faded(x: t=>n=>Float, keep: Float) -> n=>n=>Float:
    loop c = [1.0 for _ in n, _ in n] for k in t:
        [keep * c[i, j] + x[k, i] * x[k, j] for i, j]
"""


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [0, *LENGTHS[:24]])
def test_rows_that_are_changed_in_place(n: int, dtype: type) -> None:
    """Their ends are written in parts, for what reads the row behind one would wait for a mask."""
    f = nap.compile(FADING).faded
    x, out = np.random.default_rng(n).normal(size=(3, n)).astype(dtype), np.ones((n, n))
    for row in x:
        out = 0.5 * out + np.outer(row, row)
    result = at_the_end(np.zeros((n, n), dtype))
    close = 1e-12 if dtype is np.float64 else 1e-5
    assert np.allclose(f(x, dtype(0.5), out=result), out, rtol=close, atol=close)
    masks = re.findall(r"masked\.store\.\w+\.p0\((.*?),", f.show("llvm"))
    assert all(" splat (" in x for x in masks)  # where it is filled with ones


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", LENGTHS)
def test_lanes_without_a_row(n: int, dtype: type) -> None:
    """Rows that go beside each other, and do not fill the last lanes: what these would read and
    write there is neither read nor written, side by side or with a stride."""
    f = nap.compile(SWEPT).swept
    assert "lanes for" in f.show("loops")
    if host().vector_bytes == 64:
        assert is_finished(f.show("llvm"))
    r, m, c = np.random.default_rng(n), 5, dtype(0.5)
    x, w = (at_the_end(r.normal(size=s).astype(dtype)) for s in ((m, n), (n, m)))
    here = at_the_end(r.integers(0, 2, (m, n)).astype(bool))
    at = at_the_end(r.integers(-9, 9, (m, n)).astype(np.int32))
    out, y = at_the_end(np.zeros((m, n), dtype)), x
    f(x, w, here, at, c, 3, out=out)
    for _ in range(3):
        each = np.where(here, y + w.T, at.astype(dtype))
        sums = [each[0]]
        for row in each[1:]:
            sums.append(sums[-1] * c + row)
        y = np.stack(sums[::-1])
    assert np.allclose(out, y, rtol=1e-12 if dtype is np.float64 else 1e-4, atol=1e-5)


WAITING = """
def waited(x: k=>n=>Float) -> k=>Float:
    def row(a: n=>Float):
        loop s = 0.0 for u in a:
            1.0 / (2.5 + u - s)
        s
    [row(x[i]) for i]
"""


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", LENGTHS)
def test_rows_that_wait(k: int, dtype: type) -> None:
    """Two vectors of rows go at a time, then one that is left, and what is left of that."""
    f = nap.compile(WAITING).waited
    assert re.findall("free for lane\\S* in 0..(\\d+)", f.show("loops")) == ["16"] * 3 + ["8"] * 3
    x = at_the_end(np.random.default_rng(k).uniform(size=(k, 7)).astype(dtype))
    s = np.zeros(k, dtype)
    for column in x.T:
        s = 1 / (dtype(2.5) + column - s)
    assert np.allclose(f(x), s, rtol=1e-12 if dtype is np.float64 else 1e-5)


PATHS = """
def value(z: k=>n=>Fin(2)=>Float, rate: Float, strike: Float) -> Float:
    def end(z: n=>Fin(2)=>Float) -> Float:
        loop s = 1.0, v = 0.5 for u in z:
            w = sqrt(abs(v) + 0.25)
            (s + w * u[0] / n, v + rate * (1.0 - v) / n + w * u[1] / n)
        max(s - strike, 0.0)
    mean(end(z[i]) for i)
def slope(z: k=>n=>Fin(2)=>Float, rate: Float, strike: Float):
    value_and_grad(value, wrt=("z", "rate"))(z, rate, strike)
"""


@pytest.mark.parametrize("k", [*LENGTHS, 130])
def test_paths_of_steps_that_take_long(k: int) -> None:
    """Many rows go beside each other where a step waits for a root, far apart as their elements
    are; their value, its gradient, and what is left of them."""
    m = nap.compile(PATHS)
    for name in ("value", "slope"):
        assert "lanes for" in m[name].show("loops")
    z = at_the_end(np.random.default_rng(k).normal(size=(k, 7, 2)))
    rows = [m.slope(z[i : i + 1], 0.5, 1.0) for i in range(k)]
    value, (dz, rate) = m.slope(z, 0.5, 1.0)
    if k:
        assert np.allclose(value, np.mean([v for v, _ in rows]), rtol=1e-12)
        assert np.allclose(rate, np.mean([r for _, (_, r) in rows]), rtol=1e-12)
        assert np.allclose(dz, np.concatenate([d for _, (d, _) in rows]) / k, rtol=1e-12)
        assert np.allclose(value, m.value(z, 0.5, 1.0), rtol=1e-12)


VOLATILE = """
def value(p: Fin(5)=>Float, z: n=>Fin(t)=>Fin(2)=>Float, strike: Float) -> Float:
    (v0, kappa, theta, xi, rho) = (p[0], p[1], p[2], p[3], p[4])
    dt = 1.0 / t
    each = for i:
        loop s = 0.0, v = v0 for k in Fin(t):
            a = max(v, 0.0)
            w = rho * z[i, k, 0] + sqrt(1.0 - rho * rho) * z[i, k, 1]
            more = kappa * (theta - a) * dt + xi * sqrt(a * dt + 0.0001) * w
            (s - 0.5 * a * dt + sqrt(a * dt + 0.0001) * z[i, k, 0], v + more)
        max(100.0 * exp(s) - strike, 0.0)
    mean(each)
def slope(p: Fin(5)=>Float, z: n=>Fin(t)=>Fin(2)=>Float, strike: Float):
    grad(value, wrt=("p", "z"))(p, z, strike)
"""


@pytest.mark.parametrize("n", LENGTHS)
def test_lanes_that_store_several_elements_of_a_row(n: int) -> None:
    """Some are made of what all lanes read, and are stored behind the others; none is lost."""
    m = nap.compile(VOLATILE)
    r = np.random.default_rng(n)
    p, z = np.array([0.04, 1.5, 0.04, 0.3, -0.6]), at_the_end(r.normal(size=(n, 6, 2)))
    dp, dz = m.slope(p, z, 90.0)
    rows = [m.slope(p, z[i : i + 1], 90.0) for i in range(n)]
    if n:
        assert np.allclose(dp, np.mean([row for row, _ in rows], axis=0), rtol=1e-12)
        assert np.allclose(dz, np.concatenate([row for _, row in rows]) / n, rtol=1e-12)


def test_small_arrays_of_lanes_stay_in_registers() -> None:
    """Lanes without a row are left out where they touch memory, not where they touch their sums."""
    text = """
def f(x: Fin(n + k)=>Float, w: Fin(k)=>Int) = [sum(x[i + j] for j in Fin(k)) for i in Fin(n + 1)]
"""
    f = nap.compile(text).f
    for n in (0, 5, 31, 40, 63, 64, 70):
        for k in (1, 3, 15):
            x = at_the_end(np.random.default_rng(n).integers(0, 99, n + k).astype(float))
            want = [x[i : i + k].sum() for i in range(n + 1)]
            assert f(x, np.zeros(k, int)).tolist() == want
    arrays = re.findall(r"(%[\w.]+) = alloca \[32 x double\]", optimised(f.show("llvm")))
    assert not arrays or host().vector_bytes != 64


MIXED = """
def mixed(low: k=>(a: Fin(d))=>(..a)=>Float, x: n=>Fin(d)=>Float) -> Float:
    sum(sum((x[i, a] + sum(low[j, a, b] * x[i, b] for b)) ** 2 for j, a) for i)
def slopes(low: k=>(a: Fin(d))=>(..a)=>Float, x: n=>Fin(d)=>Float):
    grad(mixed, wrt="low")(low, x)
"""


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 2, 4, 5, 6, 7, 8, 9, 13])
def test_sums_of_lanes_four_at_a_time(d: int, dtype: type) -> None:
    """Of triangles, whose rows have all lengths; whole numbers, so that every order is exact."""
    f = nap.compile(MIXED).slopes
    text = f.show("loops")
    assert "for four in" in text
    assert "for beside in 0..4" in text
    for n in (1, 31, 32, 33, 400):
        r = np.random.default_rng(n)
        x = r.integers(-3, 4, (n, d)).astype(dtype)
        full = np.tril(r.integers(-2, 3, (3, d, d)), -1).astype(dtype)
        packed = [[m[a, :a] for a in range(d)] for m in full]
        found = f(np.stack([np.concatenate(m) for m in packed]), at_the_end(x))
        want = [2 * (x + x @ m.T).T @ x for m in full]
        expected = np.stack([np.concatenate([w[a, :a] for a in range(d)]) for w in want])
        assert np.array_equal(np.asarray(getattr(found, "values", found)), expected)


def test_few_terms_that_lie_apart_are_no_vector() -> None:
    """The columns of a small product: to gather four takes longer than to add them up."""
    f = nap.compile("""
def products(a: n=>Fin(4)=>Fin(4)=>Float, b: n=>Fin(4)=>Fin(4)=>Float) = [a[i] @ b[i] for i]
""").products
    assert "insertelement" not in f.show("llvm")
    a, b = np.random.default_rng(0).normal(size=(2, 9, 4, 4))
    assert np.allclose(f(a, b), a @ b, rtol=1e-14, atol=1e-14)


ELIMINATED = """
def size(a: Fin(n)=>Fin(n)=>Float) -> Float:
    (out, _) = with state(a) as m:
        for k in Fin(n):
            for i in Fin(n):
                if i > k:
                    f = m[i, k] / m[k, k]
                    for j in Fin(n): m[i, j] -= f * m[k, j]
        sum(log(abs(m[i, i])) for i)
    out
def slopes(a: Fin(n)=>Fin(n)=>Float) = grad(size)(a)
"""


def test_rows_that_are_undone_and_summed() -> None:
    """Backwards, a row of an elimination goes the other way round, and is summed besides."""
    f = nap.compile(ELIMINATED).slopes
    assert re.search(r"free for j\w* in 0\.\.n reducing add", f.show("loops"))
    strict = nap.compile(ELIMINATED.replace("def", "@strict\ndef")).slopes
    assert not re.search(r"free for j\w* in 0\.\.n reducing add", strict.show("loops"))
    for n in (0, 1, 2, 7, 8, 9, 33):
        a = np.random.default_rng(n).normal(size=(n, n)) + 2 * n * np.eye(n)
        assert np.allclose(f(a), np.linalg.inv(a).T, rtol=1e-9, atol=1e-12)
        assert np.allclose(strict(a), f(a), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("g", [1, 5, 6, 17, 40])
def test_rows_in_panels_that_know_which_they_are(g: int) -> None:
    """What a sum adds may depend on the row itself, not only on what is in it."""
    m = nap.compile("""
def far(t: Fin(a)=>Fin(b)=>Float, x: n=>Int, y: n=>Int) -> n=>Float =
    [sum(t[p, q] for p, q if t[p, q] > 0.0 and max(abs(p - x[i]), abs(q - y[i])) > 1) for i]

def whole(t: Fin(a)=>Fin(b)=>Int, x: n=>Int) -> n=>Fin(a)=>Int =
    [[sum(t[p, q] * (p - x[i]) + q for q) for p] for i]

def shared(t: Fin(a)=>Fin(b)=>Float, x: n=>Int) -> n=>Fin(a)=>Float =
    [[sum(t[p, q] * (p - x[i]) / (a - p) for q) for p] for i]
""")
    r = np.random.default_rng(g)
    t, w, k = r.normal(size=(g, g)), r.integers(-9, 9, (g, g)), np.arange(g)[:, None]
    for n in (0, 7, 30):
        x, y = r.integers(-1, g + 1, (2, n))
        apart = [np.maximum(abs(k - a), abs(k.T - b)) > 1 for a, b in zip(x, y, strict=True)]
        assert np.allclose(m.far(t, x, y), [t[(t > 0) & f].sum() for f in apart])
        rows = [(w * (k - a) + k.T).sum(1) for a in x]
        assert np.array_equal(m.whole(w, x), np.array(rows).reshape(n, g))
        rows = [(t * (k - a) / (g - k)).sum(1) for a in x]
        assert np.allclose(m.shared(t, x), np.array(rows).reshape(n, g))


FORMS = """
def forms(x: n=>d=>Float, m: d=>Float, p: d=>d=>Float) -> n=>Float =
    [sum((x[i, a] - m[a]) * p[a, b] * (x[i, b] - m[b]) for a, b) for i]
"""


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [0, 1, 2, 5, 64, 65])
def test_rows_of_a_few_components_fill_vectors(d: int, dtype: type) -> None:
    """How few is asked in the run: a quadratic form is summed for many rows at once."""
    f = nap.compile(FORMS).forms
    fast, _, slow = f.show("loops").partition("else:")
    assert "lanes for" in fast
    assert "lanes for" not in slow
    for n in (1, 31, 32, 33, 64, 131):
        r = np.random.default_rng(n)
        x, m, p = (at_the_end(r.normal(size=s).astype(dtype)) for s in ((n, d), d, (d, d)))
        want = np.einsum("ia,ab,ib->i", x - m, p, x - m)
        close = 1e-10 if dtype is np.float64 else 2e-3
        assert np.allclose(f(x, m, p), want, rtol=close, atol=close)
