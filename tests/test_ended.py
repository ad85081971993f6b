"""A loop may go as far as another one's end says: of that nothing but its end is kept."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

TEXT = """
def blocks(y: Fin(n)=>Int) -> Int:
    count = counts(y)
    sum(1 for b in Fin(n), _ in 0..count[b])

def counts(y: Fin(n)=>Int) -> Fin(n)=>Int:
    with state([1 for _ in Fin(n)]) as count:
        for i in Fin(n):
            count[i] := count[(i - y[i])?] + y[i]

def far(y: Fin(n)=>Int) -> Int:
    count = counts(y)
    k = count[0?]
    loop s = 0 for _ in Fin(k): s + 1

def doubled(y: Fin(n)=>Int) -> Fin(n)=>Int:
    (count, m) = with state([0 for _ in Fin(n)]) as count, state(0) as m:
        for i in Fin(n):
            count[m?] += 1
            m += y[i]
    with state(y) as out:
        for b in 0..m:
            out[b?] := count[b?]

def lengths(y: Fin(n)=>Int) -> Fin(n)=>Float:
    count = counts(y)
    rows = [[0.5 * k for k in 0..count[b]] for b in Fin(n)]
    [sum(row) for row in rows]
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def test_values(m) -> None:
    y = np.array([0, 1, 0, 1, 1, 0])
    count = np.array([1, 2, 1, 2, 3, 1])
    assert m.counts(y).tolist() == count.tolist()
    assert m.blocks(y) == count.sum()
    assert m.far(y) == 1
    np.testing.assert_allclose(m.lengths(y), [0.25 * c * (c - 1) for c in count])
    assert m.doubled(y).tolist() == [2, 2, 1, 1, 1, 0]
    for f in (m.blocks, m.lengths):
        assert nap.check(f)


@pytest.mark.parametrize("name", ["blocks", "far", "doubled", "lengths"])
def test_no_table_for_each_round(m, name: str) -> None:
    text = m[name].show("loops")
    assert "allocate count: i64[n]\n" in text  # and not i64[n + 1, n]
    assert "n + 1, n" not in text
