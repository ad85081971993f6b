"""Parts of cotangents: what is sent where. Those that go to the same places become one.

    v[o] to k[o], w[o] to k[o]                      (v + w)[o] to k[o]
    v[o] to k[o] if c, w[o] to k[o] if not c        (v if c else w)[o] to k[o]
    v[o] to k[o], w[o] to k[o] if c                 (v + (w if c else 0))[o] to k[o]

Each place is then found, read and written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from naperian.ainf.syntax import Operand
from naperian.ainf.walk import free, rewrite, rewrite_size
from naperian.dtypes import DType
from naperian.names import Var
from naperian.node import node
from naperian.passes.bindings.builder import Guards
from naperian.passes.bindings.place import Place
from naperian.passes.derivatives.rules import Rules, renamed
from naperian.sizes import Size, size

At: TypeAlias = tuple[Size, ...]
Extent: TypeAlias = Callable[[Var], Size | None]


@node
class Part:
    """`value` goes to `at`, for every point of `over` where the guards hold."""

    over: tuple[Var, ...]
    at: At
    value: Operand
    guards: Guards


def alike(place: Place, dtype: DType, parts: Iterable[Part], extent: Extent) -> list[Part]:
    """The parts, of which no two go to the same places under conditions that fit."""
    return _joined(parts, extent, partial(_both, place, dtype))


def sides(
    place: Place, dtype: DType, parts: Iterable[Part], extent: Extent,
    domain: Callable[[Part], tuple[Var, ...]],
) -> list[Part]:  # fmt: skip
    """The parts, of which no two are what the sides of a condition send to the same places. It is
    one that hangs on their own indices, their `domain`: what another guards is a sum as it stands,
    perhaps a product of matrices."""

    def both(q: Part, p: Part) -> Part | None:
        if not q.guards or place.b.closed(free(q.guards[-1].operand)).isdisjoint(domain(q)):
            return None
        found = Rules(place, dtype).either((q.value, q.guards), (p.value, p.guards))
        return None if found is None else Part(q.over, q.at, *found)

    return _joined(parts, extent, both)


def _joined(
    parts: Iterable[Part], extent: Extent, join: Callable[[Part, Part], Part | None]
) -> list[Part]:
    """The parts, of which two that go to the same places are joined if they can be."""
    out: list[Part] = []
    for p in parts:
        for k, q in enumerate(out):
            same = _as(q, p, extent)
            both = None if same is None else join(q, same)
            if both is not None:
                out[k] = both
                break
        else:
            out.append(p)
    return out


def _as(q: Part, p: Part, extent: Extent) -> Part | None:
    """A part over the indices of another, if it goes where that does."""
    if len(p.over) != len(q.over) or len(p.at) != len(q.at):
        return None
    names: dict[Var, Size] = {}
    for i, j in zip(p.over, q.over, strict=True):
        if i != j:
            n, m = extent(i), extent(j)
            if n is None or m is None or rewrite_size(n, names) != m or i in q.over:
                return None
            names[i] = size(j)
    if tuple(rewrite_size(e, names) for e in p.at) != q.at:
        return None
    return Part(q.over, q.at, rewrite(p.value, names), renamed(p.guards, names)) if names else p


def _both(place: Place, dtype: DType, q: Part, p: Part) -> Part | None:
    """The sum of two parts that go to the same places."""
    if len(p.guards) < len(q.guards):
        p, q = q, p
    n = len(q.guards)
    if p.guards[:n] == q.guards:
        rules = Rules(place, dtype, q.guards)
        total = rules("add", q.value, rules.where(p.guards[n:], p.value))
        return Part(q.over, q.at, total, q.guards)
    found = Rules(place, dtype).either((q.value, q.guards), (p.value, p.guards))
    return None if found is None else Part(q.over, q.at, *found)
