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


def test_the_divider_is_left_alone(m) -> None:
    target = host()
    if not target.fuses or target.cpu.startswith("znver"):
        pytest.skip("its divider is as fast")
    m.shares(np.ones((2, 2)))
    called = re.compile(r"= call <\d x double> @nap\.quotient\.f64\.\d\(")
    assert called.search(m.shares.show("llvm"))
    assert not called.search(m.halves.show("llvm"))


def same(got: np.ndarray, wanted: np.ndarray) -> None:
    bits = f"u{got.dtype.itemsize}"
    none = np.isnan(wanted)
    assert (np.isnan(got) == none).all()
    assert (got.view(bits) == wanted.view(bits))[~none].all()
