"""Strongly connected components of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Node = TypeVar("Node")


def components(
    nodes: Iterable[Node], following: Callable[[Node], Iterable[Node]]
) -> list[list[Node]]:
    """The components, each after all that it leads to, its nodes as they were met (Tarjan, 1972,
    without recursion)."""
    number: dict[Node, int] = {}
    low: dict[Node, int] = {}
    stack: list[Node] = []
    held: set[Node] = set()
    found: list[list[Node]] = []
    walk: list[tuple[Node, Iterator[Node]]] = []

    def enter(n: Node) -> None:
        number[n] = low[n] = len(number)
        stack.append(n)
        held.add(n)
        walk.append((n, iter(following(n))))

    for root in nodes:
        if root not in number:
            enter(root)
        while walk:
            n, rest = walk[-1]
            m = next(rest, None)
            if m is not None:
                if m not in number:
                    enter(m)
                elif m in held:
                    low[n] = min(low[n], number[m])
                continue
            walk.pop()
            if walk:
                above = walk[-1][0]
                low[above] = min(low[above], low[n])
            if low[n] == number[n]:
                at = len(stack) - 1
                while stack[at] != n:
                    at -= 1
                found.append(stack[at:])
                held.difference_update(stack[at:])
                del stack[at:]
    return found
