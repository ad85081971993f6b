"""Rows divided by one number have the bits of IEEE division, however that is done."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap
from naperian.backends.target import host

TEXT = """
def scaled(x: n=>Float, d: Float) -> n=>Float = [x[i] / d for i]
def bytes(x: n=>Float) -> n=>Float = [x[i] / 255 for i]
def halves(x: n=>Float) -> n=>Float = [x[i] / 4 for i]
def shares(x: n=>m=>Float) -> n=>m=>Float = [x[i, j] / sum(x[i]) for i, j]
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def elements(r: np.random.Generator, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Usual ones, those of every size, any bits, and what is none."""
    info, bits = np.finfo(dtype), np.dtype(f"u{np.dtype(dtype).itemsize}")
    any_ = r.integers(0, np.iinfo(bits).max, 5003, dtype=bits).view(dtype)
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, info.max, info.tiny, info.tiny / 8]
    sized = r.normal(size=3000) * 2.0 ** r.integers(-120, 120, 3000)
    return np.concatenate([r.normal(size=1000), sized, odd, np.ones(1)]).astype(dtype), any_


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_bit(m, dtype: type) -> None:
    r, info = np.random.default_rng(0), np.finfo(dtype)
    odd = [0.0, -0.0, np.inf, np.nan, info.max, info.tiny, info.tiny / 4, 1e30, 1e-30]
    edge = [2.0**100, 2.0**-100, 2.0**20, 2.0**-20, 2.0 - info.eps, 1.0, 3.0, -7.0, 0.1]
    with np.errstate(all="ignore"):
        for d in np.array([*odd, *edge, *r.normal(size=20)], dtype):
            for x in elements(r, dtype):
                same(m.scaled(x, d), x / d)
        for x in elements(r, dtype):
            same(m.bytes(x), x / dtype(255))
            same(m.halves(x), x / dtype(4))


@pytest.mark.parametrize("k", [1, 2, 7, 8, 9, 33, 100])
def test_rows(m, k: int) -> None:
    x = np.random.default_rng(k).random((5, k))
    np.testing.assert_allclose(m.shares(x), x / x.sum(1, keepdims=True), rtol=1e-14)


def divides_otherwise() -> bool:
    """Whether this processor divides doubles faster without its divider."""
    target = host()
    return target.fuses and (not target.cpu.startswith("znver") or target.vector_bytes == 64)


def test_the_divider_is_left_alone() -> None:
    """By what is the same for all rows of a nest; on Intel's processors also by what each has."""
    if not divides_otherwise():
        pytest.skip("its divider is as fast")
    amd = host().cpu.startswith("znver")
    m = nap.compile(TEXT)
    m.scaled(np.ones(2), 3.0)
    m.halves(np.ones(2))
    m.shares(np.ones((2, 2)))
    called = re.compile(r"= call <\d x double> @nap\.quotient\.f64\.\d\(")
    assert called.search(m.scaled.show("llvm"))
    assert bool(called.search(m.shares.show("llvm"))) is not amd
    assert not called.search(m.halves.show("llvm"))


def test_what_all_rows_are_divided_by_is_inverted_once() -> None:
    f = nap.compile("""
def f(x: n=>m=>Float, d: Float) -> n=>m=>Float =
    [sum(x[i, k] for k) + x[i, j] / (d + 1.0) for i, j]
""").f
    x = np.random.default_rng(0).random((5, 70))
    np.testing.assert_allclose(f(x, 2.0), x.sum(1)[:, None] + x / 3.0, rtol=1e-14)
    lines = f.show("llvm").splitlines()
    inverses = [k for k, line in enumerate(lines) if "call" in line and "@nap.inverse." in line]
    assert bool(inverses) is divides_otherwise()
    labels = [k for k, line in enumerate(lines) if line.endswith(":") or line.startswith("define")]
    for k in inverses:  # in a block that no loop comes back to
        label = lines[max(x for x in labels if x < k)].split(":")[0]
        assert not any(f"label %{label}" in line for line in lines[k:])


def same(got: np.ndarray, wanted: np.ndarray) -> None:
    bits = f"u{got.dtype.itemsize}"
    none = np.isnan(wanted)
    assert (np.isnan(got) == none).all()
    assert (got.view(bits) == wanted.view(bits))[~none].all()
