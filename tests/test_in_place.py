"""Gradients of factorizations and solvers in place, as one writes them, have the right values: what
a round reads of a table is what was there, whichever version of it the derivative reads."""

from __future__ import annotations

import numpy as np
import pytest
from test_cost import PROGRAMS

import naperian as nap

NAMES = [
    "reflections in place", "reflections of whole matrices", "orthogonal columns in place",
    "orthogonal rows in place", "triangle and diagonal", "two triangles", "an inverse triangle",
    "elimination above and below", "shortest ways", "LU", "LU by what is added", "Cholesky",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [1, 2, 3, 9, 17])
def test_a_gradient_is_the_slope(name: str, n: int) -> None:
    text, given = PROGRAMS[name]
    f = nap.compile(text).f
    r = np.random.default_rng(n)
    args = [a + 1e-3 * r.normal(size=a.shape) for a in given(n)]  # no two sums are the same
    way = [r.normal(size=a.shape) for a in args]
    step = 1e-7
    ends = [f(*(a + s * d for a, d in zip(args, way, strict=True))) for s in (step, -step)]
    slope = nap.grad(f, list(range(len(args))))(*args)
    slopes = slope if len(args) > 1 else [slope[0] if isinstance(slope, tuple) else slope]
    along = sum(np.sum(g * d) for g, d in zip(slopes, way, strict=True))
    np.testing.assert_allclose(along, (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-6)
