"""A pass leaves itself what it does not change: what is known of a statement is kept with it, and
the passes that follow would find it out again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from naperian import pipeline
from naperian.loops.syntax import Loop, Program, Stmt, When, While
from naperian.loops.walk import statements
from naperian.passes.fusion.schedule import schedule
from naperian.passes.nests import allocate as passes
from naperian.signed import F64
from naperian.source import Source
from naperian.substitution import Substitution

PROGRAMS = Path(__file__).parent.parent / "benchmarks" / "programs"


def scheduled(name: str, definition: str) -> Program:
    """The loops of a benchmark as `allocate` gets them."""

    def read(dotted: str) -> Source | None:
        path = PROGRAMS / f"{dotted}.nap"
        return Source(str(path), path.read_text()) if path.is_file() else None

    module, wrong = pipeline.front(Source(name, (PROGRAMS / f"{name}.nap").read_text()), read)
    assert module is not None, wrong
    types = {p.var: F64 for p in module.definitions[definition].types if p.precision}
    value: Any = pipeline.specialise(module, definition, Substitution(types, {}, {}))
    with pipeline.deep():
        for step in pipeline.PASSES:
            if step.function is schedule:
                return schedule(value)
            value = step.function(value)
    raise AssertionError


def copies(before: tuple[Stmt, ...], after: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Loops and branches that are like one that there was, but another object."""
    old = [s for s in statements(before) if isinstance(s, Loop | When | While)]
    same, equal = {id(s) for s in old}, set(old)
    for s in statements(after):
        if isinstance(s, Loop | When | While) and id(s) not in same and s in equal:
            yield s


@pytest.mark.parametrize(
    ("name", "definition"),
    [("locvol", "locvol"), ("fft", "transforms"), ("image", "image"), ("options", "american")],
)
def test_what_a_pass_does_not_change_stays_itself(
    name: str, definition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def watched(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def watch(x: Any) -> Any:
            made = step(x)
            before, after = (getattr(y, "body", y) for y in (x, made))
            found.extend(f"{step.__name__}: {type(s).__name__}" for s in copies(before, after))
            return made

        return watch

    for group in ("_OF_PROGRAMS", "_OF_STATEMENTS", "_OF_PROVED"):
        monkeypatch.setattr(passes, group, tuple(map(watched, getattr(passes, group))))
    with pipeline.deep():
        passes.allocate(scheduled(name, definition))
    assert not found
