"""Second derivatives of programs that change tables in place: backwards over backwards finds what
forwards over backwards does."""

from __future__ import annotations

import numpy as np
import pytest
from test_cost import PROGRAMS, SMALL, TWICE

import naperian as nap


@pytest.mark.parametrize("name", TWICE)
def test_two_ways_to_a_second_derivative(name: str) -> None:
    text, given = PROGRAMS[name]
    f = nap.compile(text).f
    k = next(k for k, a in enumerate(given(SMALL)) if np.asarray(a).dtype.kind == "f")
    wrt = f._text.params[k].name
    for n in (1, 2, 5, 9):
        args = list(given(n))
        along = np.random.default_rng(n).standard_normal(args[k].shape)
        if args[k].shape == (n, n):
            args[k] = args[k] + n * np.eye(n)
        _, found = nap.vjp(nap.grad(f, wrt), wrt)(*args, along)
        np.testing.assert_allclose(found, nap.hvp(f, wrt)(*args, along), rtol=1e-9, atol=1e-12)
