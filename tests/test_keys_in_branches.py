"""What is picked by a key goes where it belongs in one pass, and not one a key: in a branch, where
it asks for the key, and where the condition asks more."""

from __future__ import annotations

import numpy as np
import pytest
from test_cost import FACTOR, SMALL, cost

import naperian as nap

pytestmark = pytest.mark.usefixtures("keeping")

# name: a program of a square table, and the order of its growth
PROGRAMS = {
    "the closest pair": ("""
def f(d: Fin(n)=>Fin(n)=>Float) -> Float where n >= 2:
    (heights, _) = with state(d) as d, state([True for _ in Fin(n)]) as alive:
        for step in Fin(n):
            if step < n - 1:
                (i, j) = argmin(d[p, q] for p in Fin(n), q in Fin(n)
                                if p < q and alive[p] and alive[q])
                h = d[i, j]
                for k in Fin(n):
                    m = 0.5 * d[i, k] + 0.5 * d[j, k]
                    d[i, k] := m
                    d[k, i] := m
                alive[j] := False
                h
            else: 0.0
    sum(heights)
""", 3),
    "what is kept": ("""
def f(d: Fin(n)=>Fin(n)=>Float) -> Float:
    loop s = 1.0 for i in Fin(n):
        if d[i, 0] > 0.2:
            kept = [v for v in d[i] if v > 0.3]
            if size(kept) > 1: sum(kept[0?] * v + s for v in kept) / Float(size(kept))
            else: s
        else: 0.5 * s
""", 2),
    "sums by key": ("""
def f(d: Fin(n)=>Fin(n)=>Float) -> Float:
    loop s = 1.0 for i in Fin(n):
        if d[i, 0] > 0.2:
            keys = [Int(d[i, j] * n + s) % n for j]
            sums = [sum(d[i, j] if keys[j] == b else 0.0 for j) for b in Fin(n)]
            max(sums)
        else: 0.5 * s
""", 2),
    "sums by rows and keys": ("""
def f(d: Fin(n)=>Fin(n)=>Float) -> Float:
    loop s = 1.0 for i in Fin(n):
        if s > 0.2:
            keys = [[Int(d[j, l] * n + s) % n for l] for j]
            w = [[d[i, j] * d[l, j] for l] for j]
            sums = [sum(sum(w[j, l] if keys[j, l] == b else 0.0 for l) for j) for b in Fin(n)]
            max(sums) / sum(sums)
        else: 0.5 + s
""", 3),
    "a matrix given by its elements": ("""
def f(d: Fin(n)=>Fin(n)=>Float) -> Float where n >= 1:
    row = [Int(7.0 * v) % n for v in d[0]]
    column = [Int(5.0 * v) % n for v in d[0]]
    sum([sum(d[0, e] * d[0, clamp(column[e])] for e if row[e] == i) ** 2 for i in Fin(n)])
""", 1),
    "two keys and a condition": ("""
def f(d: Fin(n)=>Fin(n)=>Float) -> Float where n >= 1:
    row = [Int(7.0 * v) % n for v in d[0]]
    column = [Int(5.0 * v) % n for v in d[0]]
    picked = [sum(d[0, e] for e if d[0, e] > 0.3 and row[e] == i and column[e] == j)
              for i in Fin(n), j in Fin(n)]
    sum(sum(picked ** 2))
""", 2),
    "a spread, of means that are sums": ("""
def f(d: Fin(n)=>Fin(n)=>Float) -> Float where n >= 1:
    group = [Int(7.0 * v) % n for v in d[0]]
    size = [max(1, sum(1 for e if group[e] == i)) for i in Fin(n)]
    means = [sum(d[0, e] for e if group[e] == i) / size[i] for i in Fin(n)]
    sum([sum((d[0, e] - means[i]) ** 2 for e if group[e] == i) for i in Fin(n)])
""", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_pass_for_all_keys(name: str) -> None:
    text, order = PROGRAMS[name]
    f = nap.compile(text).f
    assert nap.check(f)
    table = np.random.default_rng(0).random
    less, more = (cost(f, [table((n, n))]).total for n in (SMALL, FACTOR * SMALL))
    print(name, less, more)
    assert more <= 1.2 * FACTOR**order * less
