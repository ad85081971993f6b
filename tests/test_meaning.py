"""core.run = ainf.run = loops.run = compiled, on generated well-typed programs."""

from __future__ import annotations

import numpy as np
import pytest
from generate import SIZES, arguments, programs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import naperian as nap
from naperian import pipeline
from naperian.ainf import run as ainf_run
from naperian.core import run as core_run
from naperian.core.values import from_numpy, to_numpy
from naperian.leaves import rebuild
from naperian.loops import run as loops_run
from naperian.source import Source, render
from naperian.sizes import size
from naperian.types import F64, Substitution

QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


def agree(text: str, n: int, m: int, seed: int) -> None:
    """Run `f` of the program in all four ways and compare."""
    program, wrong = pipeline.front(Source("generated.nap", text))
    assert program is not None, "\n".join(render(d) for d in wrong) + "\n" + text
    d = program.definitions["f"]
    symbolic = Substitution({p.var: F64 for p in d.types}, {}, {})
    given = arguments(n, m, seed)
    args = [given[p.name] for p in d.params]
    known = {"n": n, "m": m}
    at = Substitution(symbolic.types, {}, {v: size(known[v.name]) for v in d.sizes})
    result = at.type(d.result)
    values = [from_numpy(a, at.type(p.type)) for a, p in zip(args, d.params, strict=True)]
    want = outcome(lambda: to_numpy(core_run.run(program, "f", values, at), result))
    flat = pipeline.flat(pipeline.specialise(program, "f", symbolic))
    nests = pipeline.lower(program, "f", symbolic)

    def known_sizes(variables):
        return [known[v.name] for v in variables]

    for how, made in (
        ("ainf", lambda: rebuild(result, ainf_run.run(flat, known_sizes(flat.sizes), args))),
        ("loops", lambda: rebuild(result, loops_run.run(nests, known_sizes(nests.sizes), args))),
        ("compiled", lambda: nap.compile(text).f(*args)),
    ):
        got = outcome(made)
        if isinstance(got, str) or isinstance(want, str):
            assert isinstance(got, str) and isinstance(want, str), f"{how}: {got}\nnot      {want}\n{text}"
        else:
            same(how, got, want, text)


STOPPED = "stopped"


def outcome(run):
    """What a run gives, or that it stopped itself."""
    try:
        return run()
    except (core_run.RunError, ainf_run.RunError, loops_run.RunError, nap.RunError):
        return STOPPED


def same(how: str, got, want, text: str) -> None:
    """Equal up to rounding, relative to the largest magnitude; NaN equals NaN."""
    if isinstance(want, tuple):
        for g, w in zip(got, want, strict=True):
            same(how, g, w, text)
        return
    g, w = np.asarray(got, float), np.asarray(want, float)
    assert g.shape == w.shape, f"{how}: shape {g.shape}, not {w.shape}\n{text}"
    finite = np.abs(w[np.isfinite(w)])
    scale = finite.max(initial=1.0)
    close = np.isclose(g, w, rtol=1e-9, atol=1e-9 * scale, equal_nan=True)
    assert close.all(), f"{how}: {got}\nnot      {want}\n{text}"


def _test(count: int):
    @settings(max_examples=count, **QUIET)
    @given(programs(), st.sampled_from(SIZES), st.integers(0, 3))
    def run(text: str, sizes: tuple[int, int], seed: int) -> None:
        agree(text, *sizes, seed)

    return run


def test_all_stages_agree() -> None:
    _test(2000)()


@pytest.mark.long
def test_all_stages_agree_on_many() -> None:
    _test(20_000)()


