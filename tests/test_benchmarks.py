"""The programs of the benchmarks against their NumPy peers, on small and odd data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import naperian as nap

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import cases  # noqa: E402
import numpy_peers  # noqa: E402
import run  # noqa: E402
import worker  # noqa: E402

_RANDOM = np.random.default_rng(3)


def normal(*shape: int) -> Any:
    return _RANDOM.standard_normal(shape)


def positive(n: int) -> Any:
    a = normal(n, 4, 4)
    return a @ a.transpose(0, 2, 1) + np.eye(4)


SMALL: dict[str, list[tuple[Any, ...]]] = {
    "products": [(normal(n, 4, 4), normal(n, 4, 4)) for n in (0, 1, 19)],
    "factors": [(positive(n),) for n in (0, 1, 19)],
    "conv2d": [(normal(2, 3, 7, 12), normal(5, 3, 3, 3)), (normal(1, 1, 3, 3), normal(1, 1, 3, 3))],
    "heads": [(normal(2, 5, 3), normal(2, 21, 3), normal(2, 21, 4))],
    "layer_norm": [(normal(3, 37), normal(37), normal(37))],
    "lstm": [(normal(3, 5), normal(3, 7), normal(3, 7),
              normal(4, 5, 7), normal(4, 7, 7), normal(4, 7))],
    "tridiagonal": [(normal(k, n), 4.0 + abs(normal(k, n)), normal(k, n), normal(k, n))
                    for k, n in ((0, 3), (1, 1), (3, 2), (37, 19))],
    "locvol": [(0.001 * np.arange(3), 0.03, 5.0, 0.2, 0.6, 0.5, 8, 12, 5)],
    "american": [(80.0 + abs(normal(n)), 81.0 + abs(normal(n)), 1.0 + abs(normal(n)), 0.03, 0.3, k)
                 for n, k in ((0, 3), (1, 1), (9, 21))],
    "asian": [(normal(17, 5), 100.0, 100.0, 1.0, 0.03, 0.3)],
    "transforms": [(normal(k, n), normal(k, n)) for k, n in ((0, 4), (1, 1), (2, 2), (3, 64))],
    "sorted": [(normal(n),) for n in (0, 1, 2, 33, 500)],
    "image": [(abs(normal(h, w)), 0.5) for h, w in ((1, 1), (2, 5), (21, 40))],
    "transposed": [(normal(h, w),) for h, w in ((0, 3), (1, 1), (33, 70))],
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_a_program_gives_what_its_peer_gives(name: str) -> None:
    (case,) = {(c.program, c.function): c for c in cases.CASES if c.definition == name}.values()
    function = nap.load(str(BENCHMARKS / "programs" / f"{case.program}.nap"))[name]
    for args in SMALL[name]:
        if all(np.size(a) for a in args):
            want = getattr(numpy_peers, case.function)(*args)
            assert worker.agree(want, function(*args), 1e-10), [np.shape(a) for a in args]
        else:
            function(*args)


def test_slower_is_slower_than_every_peer() -> None:
    def row(case: str, ours: float, c: float, numpy: float) -> dict[str, Any]:
        return {"case": case, "threads": 1, "seconds": {"naperian": ours, "gcc": c, "numpy": numpy}}

    recorded = [row("a", 1.0, 1.0, 1.0), row("b", 1.0, 1.0, 1.0)]
    now = [row("a", 2.0, 1.0, 1.0), row("b", 2.0, 1.0, 2.0), row("c", 9.0, 1.0, 1.0)]
    assert run.slower(now, recorded) == ["a"]


def test_measuring_some_cases_keeps_the_other_rows() -> None:
    def row(case: str, threads: int, ours: float) -> dict[str, Any]:
        return {"case": case, "threads": threads, "seconds": {"naperian": ours}}

    old = [row("a", 1, 1.0), row("b", 1, 1.0)]
    assert run.merged(old, [row("b", 1, 2.0)]) == [row("a", 1, 1.0), row("b", 1, 2.0)]
