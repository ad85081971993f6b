"""What is inside a piece of surface syntax."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from naperian.source import Span


def nodes(tree: object) -> Iterator[object]:
    """Every node, in no particular order."""
    todo = [tree]
    while todo:
        x = todo.pop()
        if isinstance(x, tuple):
            todo.extend(x)
        elif (names := _parts[type(x)]) is not None:
            yield x
            todo.extend([getattr(x, name) for name in names])


class _Parts(dict[type, tuple[str, ...] | None]):
    """The fields of a class of nodes that may hold nodes; None for other classes."""

    def __missing__(self, kind: type) -> tuple[str, ...] | None:
        is_node = is_dataclass(kind) and kind is not Span
        names = tuple(f.name for f in fields(kind) if f.name != "span") if is_node else None
        self[kind] = names
        return names


_parts = _Parts()
