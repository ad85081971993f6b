"""The value of `it` in a program, computed four ways that must agree: by the interpreters of core,
AiNF and loops, and by the compiled code.

Pages, docstring examples and the doctor ask here, so that every example anybody writes tests every
stage of the compiler.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import naperian as nap
from naperian import pipeline
from naperian.ainf import run as ainf_run
from naperian.class_defaults import class_defaults
from naperian.core import places as core_places
from naperian.core import run as core_run
from naperian.core.values import to_numpy
from naperian.forms import dressed
from naperian.leaves import leaves, rebuild
from naperian.lines import Write
from naperian.loops import run as loops_run
from naperian.passes.bindings.values import extents
from naperian.session import RESULT
from naperian.signed import signature
from naperian.source import Source
from naperian.substitution import Substitution
from naperian.types import F64, INT, Exists, Table, Tuple, Type, axes
from naperian.values import same, show

_STOPPED = (core_places.RunError, ainf_run.RunError, loops_run.RunError)


class Disagreement(Exception):
    """Two stages give different values: a mistake of ours."""


def agreed(source: Source, said: list[str] | None = None) -> str:
    """The value of `it` as text. Raises CompileError, the RunError of a run that stops in every
    stage, or Disagreement. The lines that the run printed come to `said`."""
    with pipeline.keeping():
        return _agreed(source, said)


def _agreed(source: Source, said: list[str] | None) -> str:
    function = nap.compile(source.text, source.name)[RESULT]
    program = function._program.core()
    definition = program.definitions[RESULT]
    # nothing is given that could choose a type, so literals are what they are elsewhere
    types = {p.var: F64 if p.precision or p.interface == "Floating" else INT
             for p in definition.types}  # fmt: skip
    at = Substitution(types, {}, {})
    result = at.type(definition.result)
    flat = pipeline.flat(pipeline.specialise(program, RESULT, at))
    nests = pipeline.lower(program, RESULT, at)
    ways: dict[str, Callable[[Write], Any]] = {
        "core": lambda write: to_numpy(core_run.run(program, RESULT, [], at, write), result),
        "ainf": lambda write: _rebuilt(result, ainf_run.run(flat, [], [], write=write)),
        "loops": lambda write: _rebuilt(result, loops_run.run(nests, [], [], write)),
    }
    lines: list[str] = []
    text = io.StringIO()
    try:
        with contextlib.redirect_stdout(text):
            value = function()
    except nap.RunError:
        for name, way in ways.items():
            if not _stops(way, lines):
                raise Disagreement(f"compiled code stops, but {name} gives a value") from None
            _same_lines(text, lines, name, said)
        raise
    form = signature(definition, program.instances, class_defaults(program)).result
    for name, way in ways.items():
        other = dressed(form, way(lines.append))
        if not same(value, other):
            raise Disagreement(f"compiled code gives\n{show(value)}\nbut {name}\n{show(other)}")
        _same_lines(text, lines, name, said)
    return show(value)


def _same_lines(
    text: io.StringIO, lines: list[str], stage: str, said: list[str] | None
) -> None:
    """What a stage printed is what the compiled code did; takes its lines."""
    printed, other = text.getvalue(), "".join(f"{line}\n" for line in lines)
    lines.clear()
    if printed != other:
        raise Disagreement(f"compiled code prints\n{printed}but {stage}\n{other}")
    if said is not None:
        said[:] = printed.splitlines()


def _rebuilt(t: Type, values: Sequence[Any]) -> Any:
    """A result from its leaves. An axis over tuples is one axis, as it is at the border, and rows
    stand one after the other, whatever axes are around them."""
    joined = [_joined(x, v) for x, v in zip(leaves(t), values, strict=True)]
    return rebuild(t, [_in_a_row(n, v) for n, v in zip(_in_rows(t), joined, strict=True)])


def _in_rows(t: Type, around: bool = False, inner: int | None = None) -> Iterator[int | None]:
    """For every leaf that rows hold, how many axes it has inside them."""
    match t:
        case Tuple(items):
            for x in items:
                yield from _in_rows(x, around, inner)
        case Table(_, cell):
            yield from _in_rows(cell, True, None if inner is None else inner + 1)
        case Exists(vars, body):
            yield from (None for _ in vars)
            yield from _in_rows(body, around, -1 if around else None)
        case _:
            yield from (inner for _ in leaves(t))


def _in_a_row(inner: int | None, value: Any) -> Any:
    if inner is None or inner < 0:
        return value
    return np.reshape(value, (-1, *np.shape(value)[np.ndim(value) - inner :]))


def _joined(leaf: Type, value: Any) -> Any:
    sets, _ = axes(leaf)
    parts = [len(extents(s)) for s in sets]
    if all(k == 1 for k in parts):
        return value
    shape = iter(np.shape(value))
    joined = [math.prod(next(shape) for _ in range(k)) for k in parts]
    return np.reshape(value, (*joined, *shape))


def _stops(way: Callable[[Write], Any], lines: list[str]) -> bool:
    try:
        way(lines.append)
    except _STOPPED:
        return True
    return False
