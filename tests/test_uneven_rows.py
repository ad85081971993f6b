"""Sums of rows as long as memory tells, on every processor: by vectors, of which the last one is of
those elements alone that a row has."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from kernels import call

from naperian import pipeline
from naperian.backends.emit import emit
from naperian.backends.llvm import assembly
from naperian.backends.target import host
from naperian.loops.syntax import Program
from naperian.source import Source
from naperian.substitution import Substitution
from naperian.types import F32, F64, Scalar

TEXT = """
def total(ends: Fin(n + 1)=>Fin(m + 1), x: Fin(m)=>Float) -> Fin(n)=>Float =
    [sum(x[e] for e in ends[i]..ends[i + 1]) for i in Fin(n)]
def length(ends: Fin(n + 1)=>Fin(m + 1), x: Fin(m)=>Float, y: Fin(m)=>Float) -> Fin(n)=>Float =
    [sqrt(sum((x[e] - y[e]) ** 2 for e in ends[i]..ends[i + 1])) for i in Fin(n)]
def times(ends: Fin(n + 1)=>Fin(m + 1), x: Fin(m)=>Float) -> Fin(n)=>Float =
    [prod(x[e] for e in ends[i]..ends[i + 1]) for i in Fin(n)]
def count(ends: Fin(n + 1)=>Fin(m + 1), k: Fin(m)=>Int) -> Fin(n)=>Int =
    [sum(k[e] * k[e] for e in ends[i]..ends[i + 1]) for i in Fin(n)]
def some(ends: Fin(n + 1)=>Fin(m + 1), k: Fin(m)=>Bool) -> Fin(n)=>Bool =
    [any(k[e] for e in ends[i]..ends[i + 1]) for i in Fin(n)]
"""

LENGTHS = [*range(36), 0, 63, 0, 0, 64, 65, 200, 1]
ENDS = np.cumsum([0, *LENGTHS])
ROWS = list(pairwise(ENDS))


def lowered(name: str, float: Scalar = F64) -> Program:
    module, wrong = pipeline.front(Source("<text>", TEXT))
    assert module is not None, wrong
    [d] = [d for d in module.definitions.values() if d.name == name]
    return pipeline.lower(
        module, name, Substitution(dict.fromkeys((p.var for p in d.types), float), {}, {})
    )


@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
@pytest.mark.parametrize("float", [F64, F32])
def test_rows_of_every_length(float: Scalar, level: str) -> None:
    r, target, m = np.random.default_rng(0), host(level), ENDS[-1]
    dtype = np.float64 if float is F64 else np.float32
    close = {"rtol": 1e-12 if float is F64 else 1e-4}
    x, y = r.uniform(0.9, 1.1, (2, m)).astype(dtype)
    sizes = [len(LENGTHS), m]

    def run(name: str, *args: object) -> np.ndarray:
        return call(lowered(name, float), [ENDS, *args], sizes, target)

    np.testing.assert_allclose(run("total", x), [x[a:b].sum() for a, b in ROWS], **close)
    want = [np.linalg.norm(x[a:b] - y[a:b]) for a, b in ROWS]
    np.testing.assert_allclose(run("length", x, y), want, **close)
    np.testing.assert_allclose(run("times", x), [x[a:b].prod() for a, b in ROWS], **close)
    k = r.integers(-1 << 40, 1 << 40, m)
    np.testing.assert_array_equal(run("count", k), [(k[a:b] ** 2).sum() for a, b in ROWS])
    k = r.random(m) < 0.03
    np.testing.assert_array_equal(run("some", k), [k[a:b].any() for a, b in ROWS])


@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_row_knows_nothing_of_the_next(odd: float, level: str) -> None:
    ends = np.array([0, 0, 3, 9, 10, 25])
    x = np.ones(25)
    x[[0, 1, 2, 9]] = odd  # the first and the third row that have elements
    for name, plain in (("total", (6.0, 15.0)), ("times", (1.0, 1.0))):
        got = call(lowered(name), [ends, x], [5, 25], host(level))
        np.testing.assert_array_equal(got[[2, 4]], plain)
        np.testing.assert_array_equal(got[[1, 3]], [odd, odd])


def test_what_is_left_of_a_row_is_read_at_once() -> None:
    target = host("avx2")
    assert "vmaskmovpd" in assembly(emit(lowered("total"), target), target)
    # no such instruction reads bytes, and none here gathers
    assert "maskmov" not in assembly(emit(lowered("some"), target), target)
