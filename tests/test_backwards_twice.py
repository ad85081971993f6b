"""Backwards over backwards finds what forwards over backwards does, where tables are changed in
place; and what goes backwards asks each line once."""

from __future__ import annotations

import numpy as np
import pytest
from test_cost import PROGRAMS, SMALL, TWICE

import naperian as nap
from naperian.ainf.syntax import Operand
from naperian.passes.derivatives.asked import Asked


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


def test_each_sum_is_asked_once_for_a_pole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a chain in which each line reads the one before twice, there are 2^n ways to its end."""
    asked = []
    once = Asked.leads_to_a_pole

    def counted(self: Asked, o: Operand) -> bool:
        asked.append(o)
        if len(asked) > 1000:
            raise AssertionError("each line is asked again for every way to it")
        return once(self, o)

    monkeypatch.setattr(Asked, "leads_to_a_pole", counted)
    lines = "".join(f"    v{k + 1} = v{k} + (0.5 * v{k} - t)\n" for k in range(40))
    head = "def f(x: n=>Float, t: Float) -> Float:\n    v0 = sin(t)\n"
    end = "    sum(v40 * x[i] for i)\n"
    slope = nap.grad(nap.compile(head + lines + end).f, "t")
    v, d = np.sin(0.3), np.cos(0.3)
    for _ in range(40):
        v, d = 1.5 * v - 0.3, 1.5 * d - 1.0
    np.testing.assert_allclose(slope(np.ones(3), 0.3), 3 * d, rtol=1e-12)
    assert asked
