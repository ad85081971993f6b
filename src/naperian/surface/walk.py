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
        elif is_dataclass(x) and not isinstance(x, Span):
            yield x
            todo.extend(getattr(x, f.name) for f in fields(x) if f.name != "span")
