"""A loop of independent rounds, in parts that hand on nothing but arrays. loops → loops

    before   for i in 0..n:                        after    for i in 0..n:
                 best = argmax …                                best = argmax …
                 update g[i, best] += 1.0                       update g[i, best] += 1.0
                 for t in 0..d: x[i, t] = …                 for i in 0..n:
                                                                for t in 0..d: x[i, t] = …

What one part does may keep another from going side by side with other rounds (`lanes`).
"""

from __future__ import annotations

from naperian.loops.syntax import (
    Allocate,
    Fail,
    Let,
    Loop,
    Order,
    Print,
    Stmt,
    Variable,
)
from naperian.loops.walk import mentions, statements
from naperian.names import Var
from naperian.node import replace


def parted(s: Loop) -> list[Loop]:
    """The parts, as many as there may be; the loop itself if it has none."""
    if s.order is Order.SERIAL or any(isinstance(x, (Fail, Print)) for x in statements(s.body)):
        return [s]
    last = {v: k for k, x in enumerate(s.body) for v in mentions(x)}
    parts: list[list[Stmt]] = [[]]
    until = 0  # the last reader of what the part binds
    for k, x in enumerate(s.body):
        if parts[-1] and k > until:
            parts.append([])
        parts[-1].append(x)
        bound = _bound(x)
        until = max(until, k if bound is None else last.get(bound, k))
    shared = [[r for r in s.reductions if any(r.var in mentions(x) for x in p)] for p in parts]
    if len(parts) < 2 or sum(map(len, shared)) > len(s.reductions):
        return [s]
    return [
        replace(s, body=tuple(p), reductions=tuple(own))
        for p, own in zip(parts, shared, strict=True)
    ]


def joined(parts: list[Loop]) -> Loop:
    """Parts one after the other as one loop."""
    first = parts[0]
    body = tuple(x for p in parts for x in p.body)
    return replace(first, body=body, reductions=tuple(r for p in parts for r in p.reductions))


def _bound(x: Stmt) -> Var | None:
    match x:
        case Let(var) | Variable(var):
            return var
        case Allocate(buffer):
            return buffer.var
        case _:
            return None
