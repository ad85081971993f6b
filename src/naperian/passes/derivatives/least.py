"""What is kept for a loop backwards, and what is made again there, so that both cost least.

Every value is there if it is kept, or if it is made again from values that are there. A minimum
cut (Ford and Fulkerson, 1956) says which: an edge from `there` to `made again` costs what keeping
the value does, one from `made again` to the sink what computing it does, and one that costs more
than everything leads to each value that it is computed from.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias, TypeVar

K = TypeVar("K", bound=Hashable)
_Node: TypeAlias = tuple[K | None, bool]  # a value, and whether it is made again; the sink


def least(
    wanted: Iterable[K], kept: Mapping[K, int], again: Mapping[K, tuple[int, Iterable[K]]]
) -> set[K]:
    """Which values are made again. `kept` says what keeping each one costs, `again` of those that
    can be made again what that costs, and what they are computed from."""
    limit = sum(kept.values()) + 1
    sink: _Node[K] = (None, False)
    room: dict[_Node[K], dict[_Node[K], int]] = {sink: {}}

    def edge(a: _Node[K], b: _Node[K], cost: int) -> None:
        room.setdefault(a, {})[b] = cost
        room.setdefault(b, {}).setdefault(a, 0)

    for v, cost in kept.items():
        edge((v, False), (v, True) if v in again else sink, cost)
    for v, (cost, operands) in again.items():
        edge((v, True), sink, cost)
        for o in operands:
            edge((v, True), (o, False), limit)
    starts: list[_Node[K]] = [(v, False) for v in wanted]
    while True:
        came: dict[_Node[K], _Node[K] | None] = dict.fromkeys(starts)
        todo = list(starts)
        for a in todo:
            for b, left in room[a].items():
                if left and b not in came:
                    came[b] = a
                    todo.append(b)
            if sink in came:
                break
        else:
            return {v for v, made in came if made and v is not None}
        path: list[_Node[K]] = [sink]
        while (before := came[path[-1]]) is not None:
            path.append(before)
        steps = list(zip(path[1:], path, strict=False))
        flow = min(room[a][b] for a, b in steps)
        for a, b in steps:
            room[a][b] -= flow
            room[b][a] += flow
