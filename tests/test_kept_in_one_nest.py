"""What gradients read of their functions stays in one nest, or is made again: no long tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import naperian as nap

RATES = """def f(r: s=>Float, w: n=>Float, y: g=>Float) -> Float =
    sum(max(sum(exp(w[i] * r[a]) / r[a] for i) - y[c], 0.0) for a, c)
"""

NETTED = """def f(r: s=>t=>Float, w: n=>Float, at: n=>g, h: g=>Float, y: g=>Float) -> Float:
    e = for a in s, k in t:
        with accum() as b:
            for i in n: b[at[i]] += exp(w[i] * r[a, k]) / r[a, k] if w[i] > k else 0.0
    sum(exp(h[c] * k) * mean(max(e[a, k, c] - y[c], 0.0) for a) for k, c)
"""

SPREAD = """def f(z: n=>p=>Float, s: p=>p=>Float) -> Float =
    sqrt(sum(sum((z[i, a] * z[i, b] - s[a, b]) ** 2 for a, b) for i))
"""


def tables(loops: str) -> list[str]:
    """The shapes of arrays that are named by sizes."""
    return re.findall(r"allocate \w+: \w+\[((?:\w+, )*\w+)\]$", loops, re.MULTILINE)


@pytest.mark.parametrize("derive", [nap.grad, nap.value_and_grad])
def test_sums_under_a_size_begin_before_the_loop(derive: Callable[..., Any]) -> None:
    """Of no thresholds the rates are sent nothing, as 1 / 0 might be: so what is added up begins
    under `g > 0`, which no loop has to wait for."""
    g = derive(nap.compile(RATES).f, wrt=("r", "w", "y"))
    assert "s, n" not in tables(g.show("loops"))


@pytest.mark.parametrize("derive", [nap.grad, nap.value_and_grad])
def test_weights_do_not_wait_for_what_they_weigh(derive: Callable[..., Any]) -> None:
    """The value needs `exp(h[c] * k)` behind the loop over scenarios, the gradient inside."""
    g = derive(nap.compile(NETTED).f, wrt=("r", "w", "h", "y"))
    assert not [t for t in tables(g.show("loops")) if t.startswith("s, ")]


@pytest.mark.parametrize("derive", [nap.grad, nap.value_and_grad])
def test_what_has_more_indices_than_its_parts_is_made_again(derive: Callable[..., Any]) -> None:
    g = derive(nap.compile(SPREAD).f, wrt=("z", "s"))
    assert "n, p, p" not in tables(g.show("loops"))


@pytest.mark.parametrize("text", [RATES, NETTED, SPREAD], ids=["rates", "netted", "spread"])
def test_gradients_of_any_size(text: str) -> None:
    tried = nap.check(nap.compile(text).f)
    assert tried, tried


def test_no_thresholds() -> None:
    """Of none of them the rates are sent nothing, also where a rate is 0."""
    g = nap.grad(nap.compile(RATES).f, wrt=("r", "w", "y"))
    r, w, y = g(np.zeros(3), np.ones(2), np.ones(0))
    assert not r.any()
    assert not w.any()
    assert y.shape == (0,)
