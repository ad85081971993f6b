"""What is picked by a key goes where it belongs in a branch, too: one pass, and not one a key."""

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
