"""What is inside a piece of surface syntax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import Any

from naperian.source import Span


def nodes(tree: object) -> list[object]:
    """Every node, in no particular order."""
    found: list[object] = []
    todo = [tree]
    while todo:
        x = todo.pop()
        kind = type(x)
        if kind is tuple:
            todo.extend(x)  # type: ignore[arg-type]
        elif (parts := _parts[kind]) is not None:
            found.append(x)
            todo.extend(parts(x))
    return found


class _Parts(dict[type, Callable[[object], tuple[Any, ...]] | None]):
    """What gives the fields of a class of nodes that may hold nodes; None for other classes."""

    def __missing__(self, kind: type) -> Callable[[object], tuple[Any, ...]] | None:
        made: Callable[[object], tuple[Any, ...]] | None = None
        if is_dataclass(kind) and kind is not Span:
            names = [f.name for f in fields(kind) if f.name != "span"]
            get = attrgetter(*names) if names else lambda x: ()
            made = get if len(names) != 1 else lambda x: (get(x),)
        self[kind] = made
        return made


_parts = _Parts()
