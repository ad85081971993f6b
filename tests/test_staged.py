"""What a round computes of a table in place waits until all of it is there, and is put back."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

pytestmark = pytest.mark.usefixtures("threads")

TEXT = """
def shifted(x: Fin(n)=>Fin(m)=>Float, r: t=>Fin(n)) -> Fin(n)=>Fin(m)=>Float:
    with state(x) as s:
        for u in t:
            s[r[u]] := [s[r[u], clamp(j + 1)] + 0.5 * s[r[u], clamp(j - 2)] for j]

def swept(x: Fin(n)=>Fin(m)=>Float, k: Int) -> Fin(n)=>Fin(m)=>Float:
    with state(x) as s:
        for _ in Fin(k):
            for i in Fin(n):
                s[i] := [s[i, wrap(j + 1)] - s[clamp(i - 1), j] for j]

def exchanged(x: Fin(n)=>Fin(m)=>Float, a: t=>Fin(n), b: t=>Fin(n)) -> Fin(n)=>Fin(m)=>Float:
    with state(x) as s:
        for u in t:
            (s[a[u]], s[b[u]]) := (s[b[u]], s[a[u]])

def crossed(x: Fin(n)=>Fin(m)=>Float, a: t=>Fin(n), b: t=>Fin(n)) -> Fin(n)=>Fin(m)=>Float:
    with state(x) as s:
        for u in t:
            (s[a[u]], s[b[u]]) := ([s[b[u], clamp(j + 1)] for j], [s[a[u], clamp(j - 1)] for j])
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


@pytest.mark.parametrize("n", [0, 1, 2, 7])
@pytest.mark.parametrize("width", [0, 1, 2, 3, 33])
def test_rows(m, n: int, width: int) -> None:
    r = np.random.default_rng(n)
    x, rounds = r.normal(size=(n, width)), 12 if n else 0
    a, b = r.integers(0, max(n, 1), (2, rounds))
    j = np.arange(width)
    after, before, far = np.clip([j + 1, j - 1, j - 2], 0, max(width - 1, 0))

    want = x.copy()
    for i in a:
        want[i] = want[i, after] + 0.5 * want[i, far]
    assert np.array_equal(m.shifted(x, a), want)

    want = x.copy()
    for i in [*range(n)] * 3:
        want[i] = np.roll(want[i], -1) - want[max(i - 1, 0)]
    assert np.allclose(m.swept(x, 3), want)

    want, beside = x.copy(), x.copy()
    for i, k in zip(a, b, strict=True):
        want[[i, k]] = want[[k, i]]
        first, second = beside[k, after], beside[i, before]
        beside[i] = first
        beside[k] = second
    assert np.array_equal(m.exchanged(x, a, b), want)
    assert np.array_equal(m.crossed(x, a, b), beside)


def test_no_table_is_copied(m) -> None:
    """Beside the result there is room for a row at most."""
    for f in (m.shifted, m.swept, m.exchanged, m.crossed):
        text = f.show("loops")
        assert "f64[n, m]" not in text[text.index("):") : text.index("# notes")], text
