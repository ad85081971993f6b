"""Sums of what earlier rounds made, begun for eight rounds at once: the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

TEXT = """
def solved(l: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Fin(n)=>Float:
    with state(b) as x:
        for i in Fin(n):
            x[i] := (b[i] - sum(l[i, j] * x[j] for j in ..i)) / l[i, i]

def decomposed(a: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state(a) as s:
        for i in Fin(n):
            for j in ..i:
                s[i, j] := (s[i, j] - sum(s[i, k] * s[j, k] for k in ..j)) / s[j, j]
            s[i, i] := sqrt(s[i, i] - sum(s[i, k] ** 2 for k in ..i))

def by_columns(a: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state(a) as s:
        for i in Fin(n):
            for j in ..i:
                s[i, j] := (s[i, j] - sum(s[i, k] * s[k, j] for k in ..j)) / s[j, j]
            for j in i..n:
                s[i, j] := s[i, j] - sum(s[i, k] * s[k, j] for k in ..i)

def volterra(kernel: Fin(n)=>Float, b: Fin(n)=>Float) -> Fin(n)=>Float:
    with state(b) as x:
        for i in 1..n:
            x[i] := b[i] + 0.1 * sum(kernel[i - k] * x[k] for k in ..i)

def old(w: Fin(n)=>Float, b: Fin(n)=>Float) -> (Fin(n)=>Float, Float):
    with state(b) as x, state(0.0) as last:
        for i in Fin(n):
            x[i] := last + 0.5 * sum(w[j] * x[j] for j in ..i)
            last := x[i] - sum(x[j] * w[i] for j in ..i + 1)

def running(w: Fin(n)=>Float, b: Fin(n)=>Float) -> Fin(n)=>Float:
    with state(b) as x:
        for i in Fin(n): x[i] := b[i] + 0.5 * sum(w[j] * x[j] for j in ..i)

def weighed(w: Fin(n)=>Float, b: Fin(n)=>Float) -> (Fin(n)=>Float, Float):
    with state(b) as x, state(1.0) as a:
        for i in Fin(n):
            a := 0.9 * a + w[i]
            x[i] := b[i] - 0.1 * sum(a * x[j] for j in ..i)
"""
STRIPS = {"solved", "decomposed", "volterra", "old"}


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def expected(name: str, a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    n, x = len(b), b.copy()
    s = a.copy()
    match name:
        case "solved":
            return [np.linalg.solve(np.tril(a), b)]
        case "decomposed":
            return [np.where(np.tri(n) > 0, np.linalg.cholesky(np.tril(a) + np.tril(a, -1).T), a)]
        case "by_columns":
            for i in range(n):
                for j in range(n):
                    k = min(i, j)
                    s[i, j] -= s[i, :k] @ s[:k, j]
                    s[i, j] /= s[j, j] if j < i else 1.0
            return [s]
        case "volterra":
            for i in range(1, n):
                x[i] = b[i] + 0.1 * (a[0][i:0:-1] @ x[:i])
            return [x]
        case "running":
            for i in range(n):
                x[i] = b[i] + 0.5 * (a[0][:i] @ x[:i])
            return [x]
        case "old":
            last = 0.0
            for i in range(n):
                x[i] = last + 0.5 * (a[0][:i] @ x[:i])
                last = x[i] - a[0][i] * x[: i + 1].sum()
            return [x, np.asarray(last)]
        case _:
            c = 1.0
            for i in range(n):
                c = 0.9 * c + a[0][i]
                x[i] = b[i] - 0.1 * c * x[:i].sum()
            return [x, np.asarray(c)]


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("name", [*sorted(STRIPS), "by_columns", "running", "weighed"])
def test_the_same_numbers(m, name: str) -> None:
    assert ("begun" in m[name].show("loops")) == (name in STRIPS)
    for n in (1, 2, 7, 8, 9, 16, 17, 40, 101):
        r = np.random.default_rng(n)
        a = r.normal(size=(n, n)) * 0.1 + (n + 1) * np.eye(n)
        b = r.normal(size=n)
        if name in ("volterra", "old", "running", "weighed"):
            a *= 0.1 / n
        match name:
            case "solved":
                found = m.solved(a, b)
            case "decomposed" | "by_columns":
                found = m[name](a)
            case _:
                found = m[name](a[0], b)
        found = found if isinstance(found, tuple) else (found,)
        for one, other in zip(found, expected(name, a, b), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9, err_msg=f"{name} {n}")
