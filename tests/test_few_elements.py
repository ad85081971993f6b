"""A gradient keeps what it asks of a table in place, if these are a few elements a round."""

from __future__ import annotations

import numpy as np
import pytest
from test_cost import PROGRAMS

import naperian as nap


@pytest.mark.parametrize("name", [
    "a few elements of a table in place", "the best of what a row in place has so far",
    "the best split of a table in place", "small matrices taken apart", "small systems solved",
])  # fmt: skip
def test_a_gradient_of_a_few_elements_is_the_slope(name: str) -> None:
    text, given = PROGRAMS[name]
    f = nap.compile(text).f
    args = given(7)
    r = np.random.default_rng(0)
    ways = [r.normal(size=x.shape) for x in args]
    slopes = nap.grad(f, ["x", "t"] if len(args) > 1 else "x")(*args)
    found = slopes if isinstance(slopes, tuple) else (slopes,)
    h = 1e-6
    there, back = ([x + s * d for x, d in zip(args, ways, strict=True)] for s in (h, -h))
    along = sum(np.sum(g * d) for g, d in zip(found, ways, strict=True))
    np.testing.assert_allclose(along, (f(*there) - f(*back)) / (2 * h), rtol=1e-6)
