"""Rows whose length is a size that nobody knows: two elements or twenty, each its own way."""

import numpy as np
import pytest

import naperian as nap
from naperian.backends import target

ROWS = """
def totals(x: n=>d=>Float) -> n=>Float = [sum(r) for r in x]
def norms(x: n=>d=>F32) -> n=>F32 = [sqrt(sum(v * v for v in r)) for r in x]
def least(x: n=>d=>Float) -> n=>Float = [min(r) for r in x]
def spread(x: n=>d=>Float) -> n=>Float = [max(v - r[0?] for v in r) for r in x]
"""


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 7, 8, 9, 16, 21, 40])
def test_sums_and_ends_of_short_rows(d: int) -> None:
    m, x = nap.compile(ROWS), np.random.default_rng(d).standard_normal((37, d))
    y = x.copy()
    y[3, d // 2], y[5, -1], y[7, 0], y[9] = np.nan, -np.inf, np.inf, np.inf
    np.testing.assert_allclose(m.totals(x), x.sum(1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(m.totals(y), y.sum(1), rtol=1e-12, atol=1e-12)
    single = x.astype(np.float32)
    np.testing.assert_allclose(m.norms(single), np.linalg.norm(single, axis=1), rtol=1e-5)
    np.testing.assert_array_equal(m.least(y), y.min(1))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(m.spread(y), (y - y[:, :1]).max(1))


@pytest.mark.skipif(target.host().vector_bytes != 64, reason="vectors with masks")
def test_only_rows_of_one_length_may_be_short() -> None:
    """Of a triangle each row is another length, which a processor cannot foretell."""
    ragged = "def f(x: (i: Fin(n))=>(..=i)=>Float) -> Fin(n)=>Float = [sum(r) for r in x]"
    asked = [any(line.endswith(", 5") for line in f.show("llvm").splitlines())
             for f in (nap.compile(ROWS).totals, nap.compile(ragged).f)]  # fmt: skip
    assert asked == [True, False]


BACK = """
def filtered(y: Fin(n)=>Float, a: Fin(p)=>Float) -> Fin(n)=>Float:
    with state(y) as e:
        for t in Fin(n):
            e[t] := y[t] - sum(a[j] * e[t - 1 - j] for j in Fin(p) if t - 1 - j >= 0)
"""


@pytest.mark.parametrize("p", [1, 2, 3, 5, 7, 8, 9, 20])
def test_terms_back(p: int) -> None:
    r = np.random.default_rng(p)
    y, a = r.normal(size=40), 0.5 * r.normal(size=p) / p
    e = y.copy()
    for t in range(40):
        e[t] = y[t] - sum(a[j] * e[t - 1 - j] for j in range(min(p, t)))
    np.testing.assert_allclose(nap.compile(BACK).filtered(y, a), e, rtol=1e-12)


@pytest.mark.skipif(target.host().vector_bytes != 64, reason="vectors with masks")
def test_what_has_just_been_stored_is_read_one_by_one() -> None:
    """A vector of which an element was stored a moment ago waits until it is in memory: less than a
    whole vector of terms back are no vector. As many as there are but at the start, so that the
    processor soon knows how many."""
    text = nap.compile(BACK).filtered.show("llvm")
    assert any("icmp slt" in line and line.endswith(", 8") for line in text.splitlines())


SWEEPS = """
def swept(
    rows: Fin(n + 1)=>Fin(e + 1), cols: Fin(e)=>Fin(n), vals: Fin(e)=>Float, b: Fin(n)=>Float
) -> Fin(n)=>Float:
    with state(b) as x:
        for i in Fin(n):
            x[i] := b[i] - sum(vals[k] * x[cols[k]] for k in rows[i]..rows[i + 1] if cols[k] != i)
"""


def test_rows_of_which_some_is_left_out_may_be_short() -> None:
    f = nap.compile(SWEEPS).swept
    assert "< (6 * n)" in f.show("loops")
    for each in (3, 30):
        r = np.random.default_rng(each)
        rows, cols = np.arange(0, 41 * each, each), r.integers(0, 40, 40 * each)
        vals, b = r.normal(size=40 * each) / each, r.normal(size=40)
        x = b.copy()
        for i in range(40):
            mine = [k for k in range(rows[i], rows[i + 1]) if cols[k] != i]
            x[i] = b[i] - sum(vals[k] * x[cols[k]] for k in mine)
        np.testing.assert_allclose(f(rows, cols, vals, b), x, rtol=1e-12)
