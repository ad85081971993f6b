"""Sums of products of several factors are made in the order that costs least."""

from __future__ import annotations

import re
from math import prod
from typing import Any

import numpy as np
import pytest

import naperian as nap
from naperian.names import Var
from naperian.passes.algebra.paths import path

TEXT = """\
def kronecker(a: i=>j=>Float, b: k=>l=>Float, x: j=>l=>Float) -> i=>k=>Float =
    [sum(a[i, j] * b[k, l] * x[j, l] for j, l) for i, k]

def low_rank(u: n=>r=>Float, v: m=>r=>Float, x: m=>Float) -> n=>Float =
    [sum(u[i, r] * v[j, r] * x[j] for j, r) for i]

def bilinear(x: n=>d=>Float, y: n=>e=>Float, w: o=>d=>e=>Float) -> n=>o=>Float =
    [sum(x[i, a] * w[o, a, b] * y[i, b] for a, b) for i, o]

def core(g: a=>b=>c=>Float, u: i=>a=>Float, v: j=>b=>Float, w: k=>c=>Float) -> i=>j=>k=>Float =
    [sum(g[a, b, c] * u[i, a] * v[j, b] * w[k, c] for a, b, c) for i, j, k]

def chain(a: i=>j=>Float, b: j=>k=>Float, c: k=>l=>Float, x: l=>Float) -> i=>Float =
    [sum(a[i, j] * sum(b[j, k] * sum(c[k, l] * x[l] for l) for k) for j) for i]

def triangle(a: Fin(n)=>Fin(n)=>Float, x: Fin(n)=>Float) -> Float =
    sum(x[i] * a[i, j] * x[j] for i, j in ..i)

@strict
def plainly(u: n=>r=>Float, v: m=>r=>Float, x: m=>Float) -> n=>Float =
    [sum(u[i, r] * v[j, r] * x[j] for j, r) for i]
"""

EINSUM = {
    "kronecker": "ij,kl,jl->ik", "low_rank": "nr,mr,m->n", "bilinear": "nd,ne,ode->no",
    "core": "abc,ia,jb,kc->ijk", "chain": "ij,jk,kl,l->i", "plainly": "nr,mr,m->n",
}  # fmt: skip
SIZES = [
    dict.fromkeys("abcdeijklmnor", 0),
    dict.fromkeys("abcdeijklmnor", 1),
    dict(zip("abcdeijklmnor", (3, 5, 2, 7, 4, 9, 12, 6, 10, 33, 17, 8, 11), strict=True)),
]


@pytest.fixture(scope="module")
def m() -> Any:
    return nap.compile(TEXT)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("sizes", SIZES, ids=["empty", "one", "some"])
@pytest.mark.parametrize("name", EINSUM)
def test_values(m: Any, name: str, sizes: dict[str, int]) -> None:
    rng = np.random.default_rng(3)
    factors, _ = EINSUM[name].split("->")
    args = [rng.standard_normal([sizes[c] for c in f]) for f in factors.split(",")]
    wanted = np.einsum(EINSUM[name], *args)
    np.testing.assert_allclose(m[name](*args), wanted, rtol=1e-12, atol=1e-12)


def test_interpreters_and_derivatives_agree(m: Any) -> None:
    for name in ("low_rank", "bilinear", "triangle"):
        nap.check(m[name])


def test_products_of_matrices_are_found(m: Any) -> None:
    found = {name: m[name].show("loops").count("    contract ") for name in EINSUM}
    assert found["kronecker"] == 2
    assert found["bilinear"] == 1
    assert found["core"] == 3


def test_the_nest_is_smaller(m: Any) -> None:
    """Two passes over matrices: no statement multiplies an element of one by one of the other."""
    both = re.compile(r"\bu\[.*\bv\[")
    found = {f: m[f].show("loops").partition("# notes")[0] for f in ("low_rank", "plainly")}
    assert not any(map(both.search, found["low_rank"].splitlines()))
    assert any(map(both.search, found["plainly"].splitlines()))


def test_the_best_path_of_a_chain() -> None:
    """The example of the textbooks (Cormen et al., 15.2): ((A (B C)) ((D E) F))."""
    extents = dict(zip("abcdefg", (30, 35, 15, 5, 10, 20, 25), strict=True))
    names = {x: Var(x) for x in extents}
    number = {names[x]: n for x, n in extents.items()}
    factors = [frozenset({names[x], names[y]}) for x, y in zip("abcdef", "bcdefg", strict=True)]
    ends = frozenset({names["a"], names["g"]})
    best = path(factors, ends, lambda nest: prod(number[i] for i in nest))
    assert (best.largest, best.total, best.outer) == (5_250, 15_125, 0)
    assert best.is_matrices
    assert best.indices == ends


@pytest.mark.parametrize(
    ("sum_", "einsum"),
    [
        ("[sum(u[i] * v[i, j] * w[j, k] for i, j, q in Fin(p)) for k]", "i,ij,jk->k"),
        ("[sum(sum(u[i] * v[i, j] * w[j, k] for i, j) for q in Fin(p)) for k]", "i,ij,jk->k"),
        ("sum(u[i] * v[i, j] * w[j, k] for i, j, k, q in Fin(p))", "i,ij,jk->"),
    ],
)
def test_an_index_that_no_factor_has_counts(sum_: str, einsum: str) -> None:
    f = nap.compile(f"def f(u: n=>Float, v: n=>m=>Float, w: m=>o=>Float, p: Int) = {sum_}").f
    rng = np.random.default_rng(0)
    u, v, w = rng.normal(size=5), rng.normal(size=(5, 6)), rng.normal(size=(6, 7))
    for p in (0, 1, 4):
        np.testing.assert_allclose(f(u, v, w, p), p * np.einsum(einsum, u, v, w), atol=1e-12)
