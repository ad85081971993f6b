"""Sums of products under a condition, or of rows that data name, are products of matrices."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

pytestmark = pytest.mark.usefixtures("threads")

TEXT = """
def chosen(m: n=>q=>Bool, a: n=>q=>Float, b: q=>p=>Float) -> n=>p=>Float =
    [sum(a[i, k] * b[k, j] if m[i, k] else 0.0 for k) for i, j]
def filtered(m: n=>q=>Bool, a: n=>q=>Float, b: q=>p=>Float) -> n=>p=>Float =
    [sum(a[i, k] * b[k, j] for k if m[i, k]) for i, j]
def left_out(m: n=>q=>Bool, a: n=>q=>Float, b: q=>p=>Float) -> n=>p=>Float =
    [sum(0.0 if m[i, k] else b[k, j] * a[i, k] for k) for i, j]
def neighbours(m: n=>q=>Bool, b: q=>p=>Float) -> n=>p=>Float =
    [sum(b[k, j] for k if m[i, k]) for i, j]
def near(d: n=>q=>Float, b: q=>p=>Float) -> p=>n=>Float =
    [sum(exp(-d[i, k]) * b[k, j] for k if d[i, k] < 1.0) for j, i]
def second(m: q=>p=>Bool, a: n=>q=>Float, b: q=>p=>Float) -> n=>p=>Float =
    [1.0 + sum(a[i, k] * b[k, j] if m[k, j] else 0.0 for k) for i, j]
def batches(m: t=>n=>q=>Bool, a: t=>n=>q=>Float, b: t=>q=>p=>Float) -> t=>n=>p=>Float =
    [sum(a[l, i, k] * b[l, k, j] for k if m[l, i, k]) for l, i, j]

def gathered(at: n=>m, a: m=>q=>Float, b: q=>p=>Float) -> n=>p=>Float = [a[at[i]] for i] @ b
def gathered_within(at: q=>m, a: n=>q=>Float, b: m=>p=>Float) -> n=>p=>Float =
    [sum(b[at[k], j] * a[i, k] for k) for i, j]
def both(m: n=>q=>Bool, at: n=>l, a: l=>q=>Float, to: q=>l, b: l=>p=>Float) -> n=>p=>Float =
    [sum(a[at[i], k] * b[to[k], j] for k if m[i, k]) for i, j]

def attention(q: n=>d=>Float, k: n=>d=>Float, v: n=>e=>Float) -> n=>e=>Float:
    s = [sum(q[i, c] * k[j, c] for c) if j <= i else -inf for i, j]
    softmax(s) @ v
def attended(q: n=>d=>Float, k: n=>d=>Float, v: n=>e=>Float, w: n=>e=>Float) -> Float =
    sum(attention(q, k, v)[i, c] * w[i, c] for i, c)
def padded(q: n=>d=>Float, k: m=>d=>Float, v: m=>e=>Float, keep: m=>Bool) -> Float:
    s = [sum(q[i, c] * k[j, c] for c) if keep[j] else -inf for i, j]
    sum(sum((softmax(s) @ v) ** 2))

def total(m: n=>q=>Bool, a: n=>q=>Float, b: q=>p=>Float) -> Float = sum(sum(chosen(m, a, b) ** 2))
"""

SIZES = [(0, 3, 2), (3, 0, 2), (1, 1, 1), (5, 9, 3), (40, 33, 65)]


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def sums(mask, a, b):
    """By the definition: what a mask leaves out is not multiplied."""
    out = np.zeros((len(a), b.shape[1]))
    for i, k in zip(*np.nonzero(mask), strict=True):
        out[i] += a[i, k] * b[k]
    return out


@pytest.mark.parametrize("odd", [0.0, np.nan, np.inf])
@pytest.mark.parametrize(("n", "q", "p"), SIZES)
def test_masks(m, n: int, q: int, p: int, odd: float) -> None:
    r = np.random.default_rng(n)
    mask, a, b = r.random((n, q)) < 0.5, r.normal(size=(n, q)), r.normal(size=(q, p))
    if odd and q and p:  # a row that some leave out, and an element in vain
        b[r.integers(q), r.integers(p)] = odd
        a[~mask] = odd
    want = sums(mask, a, b)
    assert np.allclose(m.chosen(mask, a, b), want, equal_nan=True)
    assert np.allclose(m.filtered(mask, a, b), want, equal_nan=True)
    assert np.allclose(m.left_out(~mask, a, b), want, equal_nan=True)
    assert np.allclose(m.neighbours(mask, b), sums(mask, np.ones((n, q)), b), equal_nan=True)
    d = np.where(mask, 0.5, 1.5)
    assert np.allclose(m.near(d, b), sums(mask, np.exp(-d), b).T, equal_nan=True)
    again = m.second(mask.T, b.T.copy(), a.T.copy())
    assert np.allclose(again, 1.0 + want.T, equal_nan=True)
    three = [np.stack([x, x, x]) for x in (mask, a, b)]
    assert np.allclose(m.batches(*three), np.stack([want] * 3), equal_nan=True)
    f32 = m.chosen(mask, a.astype("f4"), b.astype("f4"))
    assert np.allclose(f32, want, rtol=1e-3, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize(("n", "q", "p"), SIZES)
def test_gathers(m, n: int, q: int, p: int) -> None:
    r = np.random.default_rng(n)
    a, b = r.normal(size=(7, q)), r.normal(size=(q, p))
    at = r.integers(0, 7, n)
    assert np.allclose(m.gathered(at, a, b), a[at] @ b)
    x, y, to = r.normal(size=(n, q)), r.normal(size=(7, p)), r.integers(0, 7, q)
    assert np.allclose(m.gathered_within(to, x, y), x @ y[to])
    mask = r.random((n, q)) < 0.5
    assert np.allclose(m.both(mask, at, a, to, y), sums(mask, a[at], y[to]))
    if n and q:
        with pytest.raises(Exception, match="at"):
            m.gathered(at + 7, a, b)


def test_gradient(m) -> None:
    r = np.random.default_rng(0)
    mask, a, b = r.random((4, 5)) < 0.5, r.normal(size=(4, 5)), r.normal(size=(5, 3))
    out = 2 * sums(mask, a, b)
    x, y = nap.grad(m.total, wrt=(1, 2))(mask, a, b)
    assert np.allclose(x, np.where(mask, out @ b.T, 0.0))
    assert np.allclose(y, np.where(mask, a, 0.0).T @ out)


def test_what_is_a_product(m) -> None:
    for f in (m.chosen, m.filtered, m.left_out, m.neighbours, m.near, m.second, m.batches,
              m.gathered, m.gathered_within, m.both):  # fmt: skip
        assert "contract" in f.show("loops"), f


@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_what_comes_before(m, n: int) -> None:
    """The gradients of causal attention are products, and ask nothing of what comes after."""
    r = np.random.default_rng(n)
    q, k = r.normal(size=(2, n, 5))
    v, w = r.normal(size=(2, n, 3))
    s = np.where(np.tri(n, dtype=bool), q @ k.T, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    dp = w @ v.T
    ds = p * (dp - (dp * p).sum(1, keepdims=True))
    slope = nap.grad(m.attended, wrt=("q", "k", "v"))
    for found, want in zip(slope(q, k, v, w), (ds @ k, ds.T @ q, p.T @ w), strict=True):
        np.testing.assert_allclose(found, want, atol=1e-12)
    late = k.copy()
    late[-1] = np.inf
    np.testing.assert_allclose(slope(q, late, v, w)[0][:-1], (ds @ k)[:-1], atol=1e-12)
    assert slope.show("loops").count("contract ") == 5


def test_what_is_kept(m) -> None:
    r = np.random.default_rng(3)
    q, k, v = r.normal(size=(9, 5)), r.normal(size=(12, 5)), r.normal(size=(12, 3))
    keep = np.arange(12) % 3 > 0
    slope = nap.grad(m.padded, wrt=("q", "k", "v"))
    less = slope(q, k[keep], v[keep], np.ones(8, bool))
    for found, want, rows in zip(slope(q, k, v, keep), less, (9, keep, keep), strict=True):
        if rows is keep:
            assert not found[~keep].any()
            found = found[keep]
        np.testing.assert_allclose(found, want, atol=1e-12)


TRIANGLE = """
def filled(c: n=>n=>Float, a: n=>m=>Float, b: n=>m=>Float) -> n=>n=>Float =
    [sum(a[j, k] * b[i, k] for k) if j <= i else c[i, j] for i, j]
def total(c: n=>n=>Float, a: n=>m=>Float, b: n=>m=>Float) -> Float =
    sum(sum(v ** 2 for v in r) for r in filled(c, a, b))
"""


@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_a_triangle_whose_other_side_is_there(n: int) -> None:
    """What goes back through one side is a product, as if the other were zero."""
    f = nap.compile(TRIANGLE).total
    slope = nap.grad(f, wrt=("c", "a", "b"))
    r = np.random.default_rng(n)
    c, (a, b) = r.normal(size=(n, n)), r.normal(size=(2, n, 7))
    low = np.tri(n, dtype=bool)
    back = 2 * np.where(low, b @ a.T, c)
    one = np.where(low, back, 0.0)
    for found, want in zip(slope(c, a, b), (back - one, one.T @ b, one @ a), strict=True):
        np.testing.assert_allclose(found, want, atol=1e-12)
    assert slope.show("loops").count("contract ") == 3


FITTED = """
import linalg

def left(x: n=>k=>Float, y: m=>n=>Float) -> Float:
    def one(p: m) -> Float:
        a = [sum(x[t, i] * x[t, j] for t if not isnan(y[p, t])) for i, j]
        b = linalg.solve(a, [sum(x[t, i] * y[p, t] for t if not isnan(y[p, t])) for i])
        sum((y[p, t] - sum(x[t, i] * b[i] for i)) ** 2 for t if not isnan(y[p, t]))
    sum(one(p) for p)
"""


def test_fits_to_what_is_there() -> None:
    """Least squares for each row of what was measured: what is missing sends nothing back, and all
    that goes back to the curves are products of matrices."""
    f = nap.compile(FITTED).left
    slope = nap.grad(f, wrt=("x", "y"))
    r = np.random.default_rng(6)
    for n, k, rows in ((9, 3, 4), (30, 2, 11), (3, 1, 0)):
        x, y = r.normal(size=(n, k)), r.normal(size=(rows, n))
        y[r.random((rows, n)) < 0.2] = np.nan
        dx, dy = np.zeros_like(x), np.zeros_like(y)
        for p, row in enumerate(y):  # at the least, the coefficients themselves change nothing
            there = ~np.isnan(row)
            b = np.linalg.lstsq(x[there], row[there], rcond=None)[0]
            far = row[there] - x[there] @ b
            dx[there] -= 2 * np.outer(far, b)
            dy[p, there] = 2 * far
        found = slope(x, y)
        np.testing.assert_allclose(found[0], dx, atol=1e-9)
        np.testing.assert_allclose(found[1], dy, atol=1e-9)
    text = nap.grad(f).show("loops")
    assert text.count("contract ") >= 5
    assert "isnan" not in text.split("contract ")[-1].split("# notes")[0]  # asked where it is made


ROWS = """
def gram(x: t=>n=>Float, y: t=>Float) -> n=>n=>Float =
    [[sum(x[t, i] * x[t, j] for t if not isnan(y[t])) for j] for i]
def total(x: t=>n=>Float, y: t=>Float) -> Float = sum(sum(v ** 3 for v in r) for r in gram(x, y))
def rows(x: t=>n=>Float, y: t=>Float, z: n=>m=>Float) -> t=>m=>Float =
    [sum(x[t, i] * z[i, j] for i) if y[t] > 0.0 else -1.0 for t, j]
def columns(z: m=>n=>Float, x: n=>t=>Float, y: t=>Float) -> m=>t=>Float =
    [1.0 if isnan(y[t]) else sum(z[j, i] * x[i, t] for i) for j, t]
def batches(x: b=>t=>n=>Float, y: b=>t=>Float, z: b=>n=>m=>Float) -> b=>t=>m=>Float =
    [sum(x[b, t, i] * z[b, i, j] for i) if y[b, t] > 0.0 else 0.0 for b, t, j]
def rounds(x: t=>n=>Float, c: q=>t=>Bool, w: n=>n=>Float) -> t=>n=>Float:
    loop h = x for s in q:
        [[(sum(h[i, a] * w[a, j] for a) if c[s, i] else h[i, j]) for j] for i]
def weighted(x: t=>n=>Float, w: t=>Float, y: t=>m=>Float) -> n=>m=>Float =
    [[sum(w[t] * x[t, i] * y[t, j] for t if w[t] > 0.0) for j] for i]
"""


@pytest.mark.parametrize("some", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(("t", "n", "m"), [(0, 3, 2), (7, 0, 9), (1, 1, 1), (90, 40, 33)])
def test_rows_that_a_condition_selects(t: int, n: int, m: int, some: float) -> None:
    """They are put together, multiplied, and put where they belong; nothing else is read."""
    f = nap.compile(ROWS)
    r = np.random.default_rng(t)
    x, z, there = r.normal(size=(t, n)), r.normal(size=(n, m)), r.random(t) < some
    x[~there] = np.inf
    y, kept = np.where(there, 1.0, np.nan), x[there]
    np.testing.assert_allclose(f.gram(x, y), kept.T @ kept, atol=1e-12)
    slope = np.zeros((t, n))
    slope[there] = 6 * kept @ (kept.T @ kept) ** 2
    np.testing.assert_allclose(nap.grad(f.total)(x, y), slope, rtol=1e-9, atol=1e-9)
    want = np.full((t, m), -1.0)
    want[there] = kept @ z
    np.testing.assert_allclose(f.rows(x, y, z), want, atol=1e-12)
    want[~there] = 1.0
    turned = f.columns(z.T.copy(), x.T.copy(), y)
    np.testing.assert_allclose(turned, want.T, atol=1e-12)
    want[~there] = 0.0
    three = f.batches(*(np.stack([a] * 3) for a in (x, y, z)))
    np.testing.assert_allclose(three, np.stack([want] * 3), atol=1e-12)
    turn, c = r.normal(size=(n, n)) / max(n, 1), r.random((3, t)) < some
    want = r.normal(size=(t, n))
    found = f.rounds(want, c, turn)
    for row in c:
        want = np.where(row[:, None], want @ turn, want)
    np.testing.assert_allclose(found, want, atol=1e-12)
    w, q = np.where(there, r.random(t) + 0.5, -1.0), r.normal(size=(t, m))
    summed = f.weighted(x, w, q)
    np.testing.assert_allclose(summed, (w[there, None] * kept).T @ q[there], atol=1e-12)


def test_such_rows_are_products() -> None:
    f = nap.compile(ROWS)
    assert nap.grad(f.total).show("loops").count("contract ") == 6
    for g in (f.gram, f.rows, f.columns, f.batches, f.rounds, f.weighted):
        assert g.show("loops").count("contract ") == 2, g
