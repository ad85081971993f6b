"""The bounds that `docs/accuracy.md` publishes hold: every function of floats, both formats, the
whole range, against mpmath. `pytest -m long --accept` publishes what it measures."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from kernels import apply, call
from ulps import BINARY, UNARY, Array, Reference, arguments, couples, off

from naperian.backends.target import host
from naperian.dtypes import DType
from naperian.prims import FLOAT_FUNCTIONS, PRIMITIVES, Kind

FLOATS = (DType.F64, DType.F32)
TARGETS = ("native", "avx2", "baseline")
PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"
ROW = re.compile(r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+) \|$", re.MULTILINE)
MARGIN = 0.2  # what other arguments may be off more
EXACT = {
    "copysign", "floor", "ceil", "round", "trunc", "abs", "sign", "min", "max", "stop_gradient"
}  # fmt: skip


def published() -> dict[tuple[str, DType], float]:
    rows = ROW.findall(PAGE.read_text())
    return {
        (name, dtype): float(bound)
        for name, *bounds in rows
        for dtype, bound in zip(FLOATS, bounds, strict=True)
    }


def measured(name: str, dtype: DType, count: int, level: str = "native") -> tuple[float, object]:
    r: Reference = (UNARY | BINARY)[name]
    given: tuple[Array, ...]
    given = (arguments(r, dtype, count),) if name in UNARY else couples(name, dtype, count)
    return off(call(apply(name, dtype), given, target=host(level)), given, r)


NAMES = (*UNARY, *BINARY)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", NAMES)
def test_bound(name: str, dtype: DType) -> None:
    worst, where = measured(name, dtype, 2000)
    assert worst <= published()[name, dtype], f"{name} {dtype}: {worst:.2f} ulp at {where}"


@pytest.mark.parametrize("level", TARGETS[1:])
def test_bounds_on_old_processors(level: str) -> None:
    """Without fused multiply-add and wide vectors the bounds are the same."""
    for name in NAMES:
        for dtype in FLOATS:
            worst, where = measured(name, dtype, 120, level)
            assert worst <= published()[name, dtype], f"{name} {dtype}: {worst:.2f} at {where}"


def test_every_function_has_a_published_bound_of_at_most_4() -> None:
    functions = {n for n in FLOAT_FUNCTIONS if PRIMITIVES[n].kind is Kind.FLOAT} - EXACT
    bounds = published()
    assert {(n, d) for n in functions | {"pow", "mod", "floordiv"} for d in FLOATS} == set(bounds)
    assert max(bounds.values()) <= 4.0


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_bound_densely(name: str, accepting: bool) -> None:
    bounds = []
    for dtype in FLOATS:
        worst, where = max(measured(name, dtype, 12_000, level) for level in TARGETS)
        bounds.append(0.5 if worst <= 0.5 else math.ceil(2.0 * (worst + MARGIN)) / 2)
        if not accepting:
            assert worst <= published()[name, dtype], f"{name} {dtype}: {worst:.2f} at {where}"
    if accepting:
        text = PAGE.read_text()
        row = f"| `{name}` | {bounds[0]} | {bounds[1]} |"
        old = re.compile(rf"^\| `{name}` \|.*$", re.MULTILINE)
        PAGE.write_text(old.sub(row, text) if old.search(text) else f"{text}{row}\n")
