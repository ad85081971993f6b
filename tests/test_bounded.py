"""A table that is short in every round needs no memory of its own in each."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

pytestmark = pytest.mark.usefixtures("threads")

TEXT = """
import linalg

def solved(a: k=>Fin(5)=>Fin(5)=>Float, b: k=>Fin(5)=>Float) -> k=>Fin(5)=>Float =
    [linalg.solve(a[i], b[i]) for i]
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


@pytest.mark.parametrize("k", [0, 1, 7, 300])
def test_small_systems(m, k: int) -> None:
    r = np.random.default_rng(k)
    a, b = r.normal(size=(k, 5, 5)), r.normal(size=(k, 5))
    want = np.linalg.solve(a, b[..., None])[..., 0]
    assert np.allclose(m.solved(a, b), want, rtol=1e-6)


def test_what_is_on_the_stack(m) -> None:
    made = [x for x in m.solved.show("loops").splitlines() if "allocate" in x]
    assert made
    assert all("small" in x for x in made), made
