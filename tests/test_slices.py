"""Of states that a loop backwards reads in slices, the slices are kept."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

STEPS = """
def lu(a: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    loop m = a for k in Fin(n):
        for i, j:
            if i > k:
                m[i, j] - m[i, k] / m[k, k] * m[k, j] if j > k else (m[i, k] / m[k, k] if j == k else m[i, j])
            else:
                m[i, j]

def logdet(a: Fin(n)=>Fin(n)=>Float) -> Float:
    f = lu(a)
    sum(log(abs(f[i, i])) for i)

def inverse(a: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    loop m = a for k in Fin(n):
        d = 1.0 / m[k, k]
        for i, j:
            if i == k:
                d if j == k else m[k, j] * d
            elif j == k:
                -m[i, k] * d
            else:
                m[i, j] - m[i, k] * m[k, j] * d

def filled(a: Fin(n)=>Fin(n)=>Float, w: Fin(n)=>Float) -> Float:
    m = inverse(a)
    sum(w[i] * m[i, j] * w[j] for i, j)

def named(a: Fin(m)=>Fin(n)=>Float, at: Fin(k)=>Fin(m)) -> Float:
    loop x = a for t in Fin(k):
        row = [0.5 * x[at[t], j] for j]
        for i, j:
            x[i, j] + 0.1 * row[j] * row[j]
    sum(x[i, j] * x[i, j] for i, j)

def ahead(a: Fin(n)=>Fin(n)=>Float, steps: Int) -> Float:
    loop x = a for t in Fin(steps):
        for i, j:
            x[i, j] * 0.9 + 0.1 * x[clamp(t + 1), j] * (x[i, clamp(t)] if t % 3 > 0 else 1.0)
    sum(x[i, j] ** 3 for i, j)

def whole(a: Fin(n)=>Fin(n)=>Float) -> Float:
    loop x = a for t in Fin(n):
        for i, j:
            x[i, j] - 0.1 * x[i, t] * x[t, j] + 0.01 * x[j, i] * x[i, j]
    sum(x[i, j] for i, j)

def many(a: Fin(b)=>Fin(n)=>Fin(n)=>Float) -> Float = sum(logdet(a[k]) for k)

def strips(a: Fin(n)=>Fin(n)=>Float) -> Float:
    loop m = a for k in Fin(n) checkpoint(2):
        for i, j:
            m[i, j] - m[i, k] / m[k, k] * m[k, j] if i > k else m[i, j]
    sum(log(abs(m[i, i])) for i)
"""  # noqa: E501


@pytest.fixture(scope="module")
def steps() -> nap.Module:
    return nap.compile(STEPS)


def matrix(*shape: int) -> np.ndarray:
    drawn = np.random.default_rng(3).standard_normal(shape)
    return drawn + 3 * shape[-1] * np.eye(*shape[-2:])


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("logdet", False), ("filled", False), ("many", False), ("named", False), ("ahead", False),
        ("whole", True), ("strips", True),
    ],
)  # fmt: skip
def test_states_are_kept_where_more_than_slices_are_read(
    steps: nap.Module, name: str, whole: bool
) -> None:
    assert ("all its values over time are read" in nap.grad(steps[name]).show("loops")) == whole


@pytest.mark.parametrize("name", ["logdet", "strips"])
def test_gradient_of_a_factorisation(steps: nap.Module, name: str) -> None:
    a = matrix(13, 13)
    assert np.allclose(nap.grad(steps[name])(a), np.linalg.inv(a).T, rtol=1e-12)


def test_gradient_of_an_inverse(steps: nap.Module) -> None:
    a, w = matrix(9, 9), np.arange(9.0)
    b = np.linalg.inv(a)
    assert np.allclose(steps.inverse(a), b, rtol=1e-12)
    assert np.allclose(
        nap.grad(steps.filled)(a, w), -np.outer(b.T @ w, b @ w), rtol=1e-10, atol=1e-14
    )


def test_of_each_of_a_batch(steps: nap.Module) -> None:
    a = matrix(4, 6, 6)
    expected = np.linalg.inv(a).transpose(0, 2, 1)
    assert np.allclose(nap.grad(steps.many)(a), expected, rtol=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["logdet", "filled", "named", "ahead", "whole", "many", "strips"])
def test_slopes_are_those_of_differences(steps: nap.Module, name: str) -> None:
    assert nap.check(steps[name], seed=5, cases=20)
