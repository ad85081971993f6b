"""The best of pairs, without those that are not asked for: values, and what NaN and infinity do."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap

PAIRS = """
def nearest(d: Fin(n)=>Fin(n)=>Float, on: Fin(n)=>Bool, rounds: Int) -> Fin(n)=>Int:
    (_, pairs) = with state(on) as on, state([-1 for _ in Fin(n)]) as pairs:
        for t in Fin(n):
            if t < rounds:
                (i, j) = argmin(d[i, j] for i, j if CONDITION)
                pairs[t] := i * n + j
                on[j] := not on[j]
    pairs

def largest(d: Fin(n)=>Fin(n)=>Float, on: Fin(n)=>Bool, rounds: Int) -> Fin(n)=>Int:
    (_, pairs) = with state(on) as on, state([-1 for _ in Fin(n)]) as pairs:
        for t in Fin(n):
            if t < rounds:
                (i, j) = argmax(d[i, j] for i, j if CONDITION)
                pairs[t] := i * n + j
                on[j] := not on[j]
    pairs
"""

CONDITIONS = {
    "i < j and on[i] and on[j]": lambda i, j, on: i < j and on[i] and on[j],
    "on[i] and on[j] and i < j": lambda i, j, on: on[i] and on[j] and i < j,
    "j < i and on[i]": lambda i, j, on: j < i and on[i],
    "on[j] and j <= i": lambda i, j, on: on[j] and j <= i,
    "i <= j and not on[j]": lambda i, j, on: i <= j and not on[j],
    "on[i]": lambda i, j, on: on[i],
    "j > i and i != 2": lambda i, j, on: j > i and i != 2,
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_best_of_some_pairs(condition: str) -> None:
    holds = CONDITIONS[condition]
    m = nap.compile(PAIRS.replace("CONDITION", condition))
    g = np.random.default_rng(0)
    for n in (1, 2, 3, 9, 17, 40):
        for special in (None, np.nan, np.inf, -np.inf):
            d = np.round(g.normal(size=(n, n)), 1)
            if special is not None:
                d[g.random((n, n)) < 0.1] = special
            on = g.random(n) < 0.6
            for name, best in (("nearest", np.argmin), ("largest", np.argmax)):
                call, now, wanted = getattr(m, name), on.copy(), []
                for _ in range(min(n, 4)):
                    pairs = [(i, j) for i in range(n) for j in range(n) if holds(i, j, now)]
                    if not pairs:
                        with pytest.raises(nap.RunError):
                            call(d, on, len(wanted) + 1)
                        break
                    i, j = pairs[int(best([d[p] for p in pairs]))]
                    wanted.append(i * n + j)
                    now[j] = not now[j]
                found = call(d, on, len(wanted))[: len(wanted)]
                assert found.tolist() == wanted, (n, special, name)


def test_a_row_that_is_not_asked_for_is_not_read() -> None:
    m = nap.compile(PAIRS.replace("CONDITION", "on[i] and on[j] and i < j"))
    m.nearest(np.ones((2, 2)), np.ones(2, bool), 1)
    text = m.nearest.show("loops")
    assert re.search(r"if on\S*\[p\S*\] if \(\(n - p\S* - 1\) > 0\)", text)
