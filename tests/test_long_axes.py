"""Compiled code beside the interpreter of core, on generated programs over long axes: vectors of
rows, strips and what is left of them begin where the sizes of other tests end."""

from __future__ import annotations

import os
import time
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from long_axes import SIZES, Program, arguments, with_gradient

import naperian as nap
from naperian import pipeline
from naperian.core import run as core_run
from naperian.core.bounds import Unended, bounded
from naperian.core.values import from_numpy, to_numpy
from naperian.sizes import size
from naperian.source import Source, render
from naperian.substitution import Substitution
from naperian.types import F64, Fin


def interpreted(text: str, name: str, known: dict[str, int], given: dict[str, object]):
    """What a definition of a program means; None if it stops or takes too long."""
    program, wrong = pipeline.front(Source("generated.nap", text))
    assert program is not None, "\n".join(render(d) for d in wrong) + "\n" + text
    d = program.definitions[name]
    numbers = {x: size(known[x.name]) for x in d.sizes}
    numbers |= {p.var: size(x) for p in d.params if isinstance(x := given[p.name], int)}
    sets = {x: Fin(size(known[x.name])) for x in d.sets}
    at = Substitution({p.var: F64 for p in d.types}, sets, numbers)
    values = [from_numpy(given[p.name], at.type(p.type)) for p in d.params]
    try:
        with bounded(1000, time.monotonic() + 3.0, 50_000), pipeline.deep():
            return to_numpy(core_run.run(program, name, values, at), at.type(d.result))
    except (Unended, core_run.RunError):
        return None


def leaves(value) -> list[np.ndarray]:
    if isinstance(value, tuple):
        return [x for v in value for x in leaves(v)]
    return [np.asarray(value, float)]


def agree(chance: Random, smooth: bool) -> None:
    """A program's values, or the value and the gradient of a smooth one, are what they mean."""
    (n, m), seed, known = chance.choice(SIZES), chance.randrange(4), chance.random() < 0.5
    text = Program(chance, smooth).text()
    text = with_gradient(text) if smooth else text
    text = text.replace("Fin(m)", f"Fin({m})") if known else text
    given = arguments(n, m, seed, smooth)
    name = "df" if smooth else "f"
    want = interpreted(text, name, {"n": n, "m": m}, given)
    if want is None:
        return
    got = nap.compile(text)[name](*given.values())
    least = 1e-7 if smooth else 1e-9
    for k, (x, y) in enumerate(zip(leaves(got), leaves(want), strict=True)):
        scale = np.abs(y[np.isfinite(y)]).max(initial=1.0)
        close = np.isclose(x, y, rtol=least, atol=least * scale, equal_nan=True)
        assert close.all(), f"result {k} is {x}\nnot {y}\nn = {n}, m = {m}, seed = {seed}\n{text}"


def _test(count: int, smooth: bool):
    @settings(
        max_examples=count, deadline=None, suppress_health_check=list(HealthCheck),
        derandomize="NAPERIAN_EXPLORE" not in os.environ,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )  # fmt: skip
    @given(st.randoms(use_true_random=False))
    def run(chance) -> None:
        agree(chance, smooth)

    return run


@pytest.mark.parametrize("smooth", [False, True])
def test_programs_over_long_axes(smooth: bool) -> None:
    _test(3, smooth)()


@pytest.mark.long
@pytest.mark.parametrize("smooth", [False, True])
def test_many_programs_over_long_axes(smooth: bool) -> None:
    _test(500, smooth)()
