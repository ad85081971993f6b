"""Hotspot, pathfinder, MRI-Q and the 3-D stencil against their C, and the same bits at any number
of threads. The C is the benchmarks' peer, which is compared there on large data, too."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import naperian as nap

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
Array = np.ndarray[Any, np.dtype[Any]]

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="the reference is in C")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """Calls a C peer on numbers and arrays."""
    folder = tmp_path_factory.mktemp("peers")

    def call(name: str, *args: Any) -> None:
        library = folder / f"{name}.so"
        if not library.exists():
            source = BENCHMARKS / "peers" / f"{name}.c"
            command = ["gcc", "-O1", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
            subprocess.run(command, check=True)
        kinds: dict[type, Callable[[Any], Any]] = {int: ctypes.c_long, float: ctypes.c_double}
        getattr(ctypes.CDLL(str(library)), name)(
            *(kinds[type(a)](a) if type(a) in kinds else ctypes.c_void_p(a.ctypes.data)
              for a in args)
        )  # fmt: skip

    return call


def ours(name: str, *args: Any) -> Any:
    """What the program gives, the same for all numbers of threads."""
    function = getattr(nap.load(str(BENCHMARKS / "programs" / f"{name}.nap")), name)
    before, found = nap.threads(), []
    for k in (1, 2, 3):
        nap.threads(k)
        found.append(function(*args))
    nap.threads(before)
    for other in found[1:]:
        for a, b in zip(flat(found[0]), flat(other), strict=True):
            assert a.tobytes() == b.tobytes()
    return found[0]


def flat(result: Any) -> tuple[Array, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(12)


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (9, 1), (2, 2), (33, 70), (300, 401)])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_hotspot(
    reference: Callable[..., None], random: Any, shape: tuple[int, int], steps: int
) -> None:
    temp, power = random.uniform(300.0, 330.0, shape), random.uniform(0.0, 1.0, shape)
    numbers = (steps, 0.5, 0.1, 0.11, 0.0125, 80.0)
    want = np.empty(shape)
    reference("hotspot", *shape, temp, power, *numbers, want)
    np.testing.assert_allclose(ours("hotspot", temp, power, *numbers), want, rtol=1e-13)


@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (1, 6), (4, 2), (40, 100_000)])
def test_pathfinder(
    reference: Callable[..., None], random: Any, shape: tuple[int, int]
) -> None:
    wall = random.integers(0, 10, shape)
    want = np.empty(shape[1], np.int64)
    reference("pathfinder", shape[0] - 1, shape[1], wall, want)
    np.testing.assert_array_equal(ours("pathfinder", wall), want)


@pytest.mark.parametrize(("voxels", "samples"), [(1, 1), (0, 3), (5, 0), (600, 333)])
def test_mriq(
    reference: Callable[..., None], random: Any, voxels: int, samples: int
) -> None:
    at = random.uniform(-0.5, 0.5, (3, voxels))
    k = random.uniform(-8, 8, (5, samples))
    want = np.empty(voxels), np.empty(voxels)
    reference("mriq", voxels, samples, *at, *k, *want)
    for a, b in zip(ours("mriq", *at, *k), want, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 5, 3), (3, 3, 3), (5, 9, 17), (40, 50, 60)])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_stencil3d(
    reference: Callable[..., None], random: Any, shape: tuple[int, int, int], steps: int
) -> None:
    x = random.standard_normal(shape)
    want = np.empty(shape)
    reference("stencil3d", *shape, x, steps, want)
    np.testing.assert_allclose(ours("stencil3d", x, steps), want, rtol=1e-12, atol=1e-13)
