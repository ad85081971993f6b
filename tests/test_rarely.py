"""Loops that keep the best so far: rounds in which nothing changes are passed over as vectors."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap
from naperian.backends.llvm import optimised

TEXT = """
def nearest(d: n=>Float) -> (Float, Int):
    loop best = inf, at = -1 for j in n:
        if d[j] < best: (d[j], Int(j))
        else: (best, at)

def last_largest(d: n=>I32, taken: n=>Bool) -> (I32, Int):
    with state(I32(-100)) as best, state(-1) as at:
        for j in n:
            if not taken[j]:
                if d[j] >= best:
                    best := d[j]
                    at := Int(j)

def profit(p: n=>Float) -> (Float, Float, Int):
    loop low = inf, best = 0.0, at = -1 for j in n:
        now = min(low, p[j])
        gain = p[j] - now
        (now, gain if gain > best else best, Int(j) if gain > best else at)

def two(d: n=>Float) -> (Float, Float):
    loop first = inf, second = inf for j in n:
        if d[j] < first: (d[j], first)
        elif d[j] < second: (first, d[j])
        else: (first, second)

def largest(d: n=>Float) -> Float:
    loop top = 0.0 for j in n: max(top, d[j])

def farthest(d: n=>Int, from_: Float) -> (Float, Int):
    loop best = -1.0, at = 0 for j in n:
        if abs(d[j] - from_) > best: (abs(d[j] - from_), Int(j))
        else: (best, at)

def changes(d: n=>Float) -> Int:
    (_, count) = loop last = 0.0, count = 0 for j in n:
        (d[j], count + 1 if d[j] != last else count)
    count
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def nearest(d):
    best, at = np.inf, -1
    for j, x in enumerate(d):
        if x < best:
            best, at = x, j
    return best, at


def last_largest(d, taken):
    best, at = -100, -1
    for j, x in enumerate(d):
        if not taken[j] and x >= best:
            best, at = x, j
    return best, at


def profit(p):
    low, best, at = np.inf, 0.0, -1
    for j, x in enumerate(p):
        low = np.minimum(low, x)
        if x - low > best:
            best, at = x - low, j
    return low, best, at


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 15, 16, 17, 64, 71, 500])
def test_what_is_kept(m, n: int) -> None:
    r = np.random.default_rng(n)
    drawn = r.normal(size=n)
    for d in (drawn, np.round(drawn), -np.arange(float(n)), np.cumsum(drawn)):
        assert m.nearest(d) == nearest(d)
        assert np.allclose(m.profit(d), profit(d), rtol=0, atol=0)
        assert m.two(d) == tuple(np.sort([np.inf, np.inf, *d])[:2])
        assert m.largest(d) == max(0.0, *d, 0.0)
        far = abs(np.round(d) - 0.5)
        want = (far.max(), far.argmax()) if n else (-1, 0)
        assert m.farthest(np.int64(np.round(d)), 0.5) == want
        assert m.changes(d) == np.count_nonzero(np.diff(d, prepend=0.0))
        k, taken = np.int32(d), r.integers(0, 2, n).astype(bool)
        assert m.last_largest(k, taken) == last_largest(k, taken)


@pytest.mark.parametrize("at", [0, 3, 20, 39])
def test_what_is_no_number(m, at: int) -> None:
    d = np.random.default_rng(at).normal(size=40)
    d[at] = np.nan
    assert m.nearest(d) == nearest(d)
    assert np.isnan(m.largest(d))


@pytest.mark.parametrize("name", ["nearest", "last_largest", "profit", "two", "farthest"])
def test_nothing_changes_in_vectors(m, name: str) -> None:
    assert "for block in" in m[name].show("loops")
    text = optimised(m[name].show("llvm"))
    compared = re.findall(r"(?:icmp|fcmp) \w+ <(\d+) x (?:i32|double)>", text)
    assert compared
    assert int(compared[0]) > 1


def test_what_changes_often_is_in_order(m) -> None:
    assert "block" not in m.changes.show("loops")
