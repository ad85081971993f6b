"""A gradient keeps what it asks of a table in place, if these are a few elements a round."""

from __future__ import annotations

import numpy as np
from test_cost import PROGRAMS

import naperian as nap


def test_a_gradient_of_a_few_elements_is_the_slope() -> None:
    text, given = PROGRAMS["a few elements of a table in place"]
    f = nap.compile(text).f
    x, t = given(7)
    r = np.random.default_rng(0)
    dx, dt = r.normal(size=x.shape), r.normal(size=t.shape)
    gx, gt = nap.grad(f, ["x", "t"])(x, t)
    h = 1e-6
    slope = (f(x + h * dx, t + h * dt) - f(x - h * dx, t - h * dt)) / (2 * h)
    np.testing.assert_allclose(np.sum(gx * dx) + np.sum(gt * dt), slope, rtol=1e-6)
