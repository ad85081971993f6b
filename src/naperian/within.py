"""Derivatives within so much memory: which loops keep what their rounds carried, and which make it
again.

No loop has checkpoints to begin with, but those that say so. While a call would take too much, the
loop for which one level more saves the most gets it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from naperian import pipeline
from naperian.core import syntax as core
from naperian.core.walk import everything
from naperian.dtypes import DType
from naperian.loops import syntax as loops
from naperian.loops.memory import needed
from naperian.names import Var
from naperian.passes.normal.streamed import streamed
from naperian.program import Checkpoints, Derived
from naperian.source import CompileError, Diagnostic, Label, Span

_DEEPEST = 8
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {f"{u}i": 1024**k for k, u in enumerate("kmgt", 1)}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", re.IGNORECASE)

Known = Callable[[core.Definition, loops.Program], Mapping[Var, int]]
"""The sizes of a call, and its scalar arguments that are integers, in a derivative lowered."""


def amount(memory: str | int) -> int:
    """`2GB`, `64 MiB` or a number, in bytes."""
    if isinstance(memory, int) and not isinstance(memory, bool):
        found = memory
    elif isinstance(memory, str) and (text := _AMOUNT.fullmatch(memory)):
        found = int(float(text[1]) * _UNITS[(text[2] or "").lower()])
    else:
        raise ValueError(f'memory is a number of bytes or a text like "2GB", not {memory!r}')
    if found <= 0:
        raise ValueError(f"memory is more than 0 bytes, not {memory!r}")
    return found


@pipeline.deep()
def fit(
    program: Derived, name: str, dtypes: tuple[DType, ...], known: Known, limit: int, threads: int
) -> Checkpoints:
    """The checkpoints with which a call takes `limit` bytes at most, beside its arguments."""
    module = program.core()
    definition = module.definitions[name]
    at = program.options.at(definition, dtypes)

    def takes(chosen: dict[Span, int]) -> int:
        made = Derived(program.base, *program.of, _checkpoints(chosen))
        module = made.core()  # each has its own names for sizes that only a run knows
        lowered = pipeline.lower(module, name, at)
        return needed(lowered, known(module.definitions[name], lowered), threads)

    normal = pipeline.specialise(module, name, at)
    chosen = _loops(normal)
    bytes = takes(chosen)
    while bytes > limit:
        more = [chosen | {s: k + 1} for s, k in chosen.items() if k < _DEEPEST]
        found = [(takes(c), c) for c in more]
        least, best = min(found, key=lambda f: f[0], default=(bytes, chosen))
        if least >= bytes:
            whole = [s for s in _scans(normal) if s not in chosen]
            raise CompileError((too_little(name, definition.origin, limit, bytes, chosen, whole),))
        bytes, chosen = least, best
    return _checkpoints(chosen)


def _checkpoints(chosen: Mapping[Span, int]) -> Checkpoints:
    return tuple((span, k) for span, k in chosen.items() if k > 1)


def _loops(d: core.Definition) -> dict[Span, int]:
    """The loops that may get checkpoints, in the order of the text, the scans that can be such,
    and the loops that change a state, by the place of the state. Nobody knows how many rounds a
    loop makes that a condition ends: it has some to begin with."""
    reverse = [e for e in everything(d.body) if isinstance(e, core.Derivative) and not e.forward]
    found: dict[Span, int] = {}
    for e in (e for r in reverse for e in everything(r.body)):
        match e:
            case core.Loop(condition=condition, checkpoint=1):
                found[e.origin] = 1 if condition is None else 2
            case core.Handle(cells) if any(c.state for c in cells):
                found[e.origin] = 1
            case _:
                pass
    found |= dict.fromkeys(streamed(d.body)[1], 1)
    return dict(sorted(found.items(), key=lambda f: (f[0].source.name, f[0].start)))


def _scans(d: core.Definition) -> list[Span]:
    """The scans whose tables are a history that a derivative reads."""
    reverse = [e for e in everything(d.body) if isinstance(e, core.Derivative) and not e.forward]
    found = (e.origin for r in reverse for e in everything(r.body) if isinstance(e, core.Scan))
    return list(dict.fromkeys(found))


def too_little(
    name: str, origin: Span, limit: int, bytes: int, chosen: Mapping[Span, int], whole: list[Span]
) -> Diagnostic:
    """N0728"""
    said = [
        *(Label(s, _with_checkpoints(k)) for s, k in chosen.items()),
        *(Label(s, "its table is read otherwise than in order") for s in whole),
    ]
    said = [s for s in said if s.span.source == origin.source]
    return Diagnostic(
        "N0728",
        f"`{name}` takes {_shown(bytes)} for these arguments, and may take {_shown(limit)}",
        tuple(said) or (Label(origin, "here"),),
        ("results count, and all that is in between; arguments do not",),
        (f'`memory="{_shown(bytes)}"` is enough',),
    )


def _with_checkpoints(k: int) -> str:
    return f"with checkpoint({k})" if k > 1 else "checkpoints take more"


def _shown(bytes: int) -> str:
    """A number of bytes with three digits, rounded up."""
    for unit, of in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if bytes >= of:
            return f"{-(-bytes * 100 // of) / 100:g}{unit}"
    return f"{bytes}B"
