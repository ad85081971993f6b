"""Products with windows that are copied a panel at a time, on every processor: lines of columns of
any length and step, in the order of the sum or turned."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from kernels import products
from numpy.typing import NDArray

import naperian as nap
from naperian.backends.target import host
from naperian.dtypes import DType

Array = NDArray[Any]


def product(c: Array, a: Array, b: Array, places: tuple[Array, Array], step: int, run: int,
            add: int, level: str) -> int:  # fmt: skip
    """c (+)= a·(b at[p] + to[j / run] + (j % run)·step), by the kernel."""
    dtype = DType.F64 if c.dtype == np.float64 else DType.F32
    kernel = products(dtype, host(level)).symbols[f"nap_contract_f{dtype.bits}"]
    words = [ctypes.c_int64] * 3 + [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64] * 3
    words += [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    at, to = (x.ctypes.data for x in places)
    rows = [w for x in (c, a) for w in (x.ctypes.data, x.strides[0] // x.itemsize, 1)]
    call = ctypes.CFUNCTYPE(ctypes.c_int64, *words)(kernel)
    return call(*c.shape, len(places[0]), *rows, b.ctypes.data, 0, step, at, to, run, add)


@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_panels(step: int, dtype: type, level: str) -> None:
    """What lies beside the result stays, and nothing is read beyond the array's end."""
    r = np.random.default_rng(step)
    for m in (1, 5, 13):
        for lines, run in ((1, 1), (1, 60), (7, 3), (5, 14), (3, 17), (40, 1), (2, 50), (4, 16)):
            for rounds, along, by in ((0, 1, 1), (3, 3, 1), (2, 20, 1), (3, 17, 2), (70, 9, 3)):
                at = np.add.outer(np.arange(rounds) * 90, np.arange(along) * by).ravel()
                to = np.arange(lines) * 65
                j = np.add.outer(to, np.arange(run) * step).ravel()
                places = np.add.outer(at, j)
                b = r.normal(size=places.max(initial=0) + 1).astype(dtype)
                a = r.normal(size=(m, len(at))).astype(dtype)
                for add in (0, 1):
                    whole = np.full((m, lines * run + 9), 7.0, dtype)
                    c = whole[:, : lines * run]
                    if not add:
                        c[:] = np.nan
                    assert product(c, a, b, (at, to), step, run, add, level) == 0
                    want = a.astype(float) @ b.astype(float)[places] + 7.0 * add
                    near = 60 * (len(at) + 8) ** 0.5 * np.finfo(dtype).eps
                    np.testing.assert_allclose(c, want, atol=near)
                    assert (whole[:, lines * run :] == 7.0).all()


LAYER = """
def layer(
    x: b=>c=>Fin(S * h + 2)=>Fin(S * w + 2)=>Float, k: o=>c=>Fin(3)=>Fin(3)=>Float
) -> b=>o=>Fin(h)=>Fin(w)=>Float =
    [sum(x[b, c, S * i + r, S * j + s] * k[o, c, r, s] for c, r, s)
     for b, o, i in Fin(h), j in Fin(w)]

def weights(
    x: b=>c=>Fin(S * h + 2)=>Fin(S * w + 2)=>Float, y: b=>o=>Fin(h)=>Fin(w)=>Float
) -> o=>c=>Fin(3)=>Fin(3)=>Float =
    [sum(y[b, o, i, j] * x[b, c, S * i + r, S * j + s] for b, i, j)
     for o, c, r in Fin(3), s in Fin(3)]
"""


@pytest.mark.parametrize("step", [1, 2])
def test_layers_of_all_shapes(step: int) -> None:
    """Forwards, and its weights' gradient, which is such a product, too."""
    module = nap.compile(LAYER.replace("S", str(step)))
    r = np.random.default_rng(step)
    for b, c, o, h, w in (
        (2, 9, 5, 3, 7), (1, 60, 9, 2, 500), (2, 8, 1, 40, 3), (0, 8, 3, 2, 2), (2, 3, 16, 14, 14),
        (1, 1, 4, 30, 33), (3, 8, 20, 1, 1), (2, 4, 0, 3, 3), (1, 3, 2, 0, 5), (1, 40, 33, 9, 16),
    ):  # fmt: skip
        x = r.standard_normal((b, c, step * h + 2, step * w + 2))
        k, y = r.standard_normal((o, c, 3, 3)), r.standard_normal((b, o, h, w))
        if not h:
            assert module.layer(x, k).shape == (b, o, h, w)
            assert not module.weights(x, y).any()
            continue
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        windows = windows[:, :, ::step, ::step][:, :, :h, :w]
        want = np.einsum("bcijrs,ocrs->boij", windows, k)
        np.testing.assert_allclose(module.layer(x, k), want, atol=1e-12)
        want = np.einsum("bcijrs,boij->ocrs", windows, y)
        np.testing.assert_allclose(module.weights(x, y), want, atol=1e-11)
