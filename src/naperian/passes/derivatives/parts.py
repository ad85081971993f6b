"""Parts of cotangents: what is sent where. Those that go to the same places become one.

    v[o] to k[o], w[o] to k[o]                      (v + w)[o] to k[o]
    v[o] to k[o] if c, w[o] to k[o] if not c        (v if c else w)[o] to k[o]
    v[o] to k[o], w[o] to k[o] if c                 (v + (w if c else 0))[o] to k[o]

Each place is then found, read and written once. A loop that runs backwards stands in one round:
what all of its rounds are sent from outside is joined there with what that round sends.

    v[t] to n - 1 - t, w[b] to n - 1 - b in round b         (v + w)[b] to n - 1 - b in round b
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeAlias

from naperian.ainf.syntax import Operand
from naperian.ainf.walk import free, rewrite, rewrite_size, step, variables
from naperian.dtypes import DType
from naperian.names import Var
from naperian.node import node
from naperian.passes.bindings.builder import Guards
from naperian.passes.bindings.place import Place
from naperian.passes.derivatives.rules import Rules, renamed
from naperian.sizes import Size, size

At: TypeAlias = tuple[Size, ...]
Stands: TypeAlias = Callable[[Var], bool]  # whether an index is of a loop in one of its rounds


@node
class Part:
    """`value` goes to `at`, for every point of `over` where the guards hold."""

    over: tuple[Var, ...]
    at: At
    value: Operand
    guards: Guards


def alike(place: Place, dtype: DType, parts: Iterable[Part], stands: Stands) -> list[Part]:
    """The parts, of which no two go to the same places under conditions that fit."""
    return _joined(place, parts, stands, partial(_both, place, dtype))


def sides(place: Place, dtype: DType, parts: Iterable[Part], stands: Stands) -> list[Part]:
    """The parts, of which no two are what the sides of a condition send to the same places. It is
    one that hangs on their own indices: what another guards is a sum as it stands, perhaps a
    product of matrices."""

    def both(q: Part, p: Part) -> Part | None:
        own = {i for i in q.over if not stands(i)}
        if not q.guards or place.b.closed(free(q.guards[-1].operand)).isdisjoint(own):
            return None
        found = Rules(place, dtype).either((q.value, q.guards), (p.value, p.guards))
        return None if found is None else Part(q.over, q.at, *found)

    return _joined(place, parts, stands, both)


def _joined(
    place: Place, parts: Iterable[Part], stands: Stands, join: Callable[[Part, Part], Part | None]
) -> list[Part]:
    """The parts, of which two that go to the same places are joined if they can be."""
    out: list[Part] = []
    for p in parts:
        for k, q in enumerate(out):
            same = _same(place, q, p, stands)
            both = None if same is None else join(*same)
            if both is not None:
                out[k] = both
                break
        else:
            out.append(p)
    return out


def _same(place: Place, q: Part, p: Part, stands: Stands) -> tuple[Part, Part] | None:
    """Two parts over the same indices, if they then go to the same places."""
    if len(p.over) != len(q.over) or len(p.at) != len(q.at):
        return None
    extent = place.b.extent
    names: dict[Var, Size] = {}  # of the second part
    first: dict[Var, Size] = {}
    for i, j in zip(p.over, q.over, strict=True):
        if i == j:
            continue
        n, m = extent(i), extent(j)
        if n is None or m is None or rewrite_size(n, names) != rewrite_size(m, first):
            return None
        if stands(i) and not stands(j) and j not in p.over and _tells(p, i, stands):
            first[j] = size(i)
        elif not stands(i) and i not in q.over and (not stands(j) or _tells(q, j, stands)):
            names[i] = size(j)
        else:
            return None
    q, p = _renamed(q, first), _renamed(p, names)
    return (q, p) if q.at == p.at else None


def _tells(part: Part, time: Var, stands: Stands) -> bool:
    """Whether the place that a part goes to tells in which round it does."""
    own = {i for i in part.over if not stands(i)}
    return any(step(e, time) in (1, -1) and own.isdisjoint(variables(e)) for e in part.at)


def _renamed(p: Part, names: Mapping[Var, Size]) -> Part:
    if not names:
        return p
    over = tuple(v for i in p.over if isinstance(v := names.get(i, size(i)).single, Var))
    at = tuple(rewrite_size(e, names) for e in p.at)
    return Part(over, at, rewrite(p.value, names), renamed(p.guards, names))


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
