"""Whether rounds in order might as well be done several at a time.

    for i in 0..n: v[i] = f(v[i], v[i + 1])          each reads what only a later one writes
    for i in 0..n: v[i + 1] = f(v[i])                each waits for the one before
"""

from __future__ import annotations

from naperian.backends.frame import Frame
from naperian.backends.indexing import offset
from naperian.loops.syntax import Assign, Let, Load, Loop, Store, Variable
from naperian.loops.walk import loads, step
from naperian.names import Var
from naperian.sizes import Size


def apart(frame: Frame, s: Loop) -> bool | None:
    """Whether they might, where that is known. What rounds add up is not asked here."""
    if not all(isinstance(x, (Let, Variable, Assign, Store)) for x in s.body):
        return None
    own = {x.var for x in s.body if isinstance(x, Variable)} | {r.var for r in s.reductions}
    if any(isinstance(x, Assign) and x.var not in own for x in s.body):
        return False
    stores: dict[Var, tuple[int, Size]] = {}
    for k, x in enumerate(s.body):
        if isinstance(x, Store):
            v, at = _place(frame, x)
            if v in stores or at is None or step(at, s.var) != 1:
                return None
            stores[v] = k, at
    found: list[bool | None] = [True]
    for k, x in enumerate(s.body):
        for e in loads(x):
            v, at = _place(frame, e)
            if v in stores:
                found.append(_is_ahead(k, at, *stores[v]))
    return None if None in found else all(found)


_ASKED = 8  # pairs of places for which LLVM asks, before a loop, whether they meet


def meets(frame: Frame, s: Loop) -> bool:
    """Whether a loop touches what it changes at so many places that LLVM makes no vectors of it,
    where it is not told that rounds do not meet."""
    if not all(isinstance(x, (Let, Variable, Assign, Store)) for x in s.body):
        return False
    written = {_moving(frame, x) for x in s.body if isinstance(x, Store)}
    read = {_moving(frame, e) for x in s.body for e in loads(x)}
    changed = [v for v, _ in written]
    return sum(changed.count(v) for v, _ in read) >= _ASKED


def _moving(frame: Frame, x: Load | Store) -> tuple[Var, Size | None]:
    """A place without the constant in it: what is a few elements away is one place."""
    v, at = _place(frame, x)
    return v, None if at is None else at - at.offset


def _is_ahead(k: int, read: Size | None, last: int, written: Size) -> bool | None:
    """Whether a statement reads what is written in a later round, and before this one writes."""
    distance = None if read is None else (read - written).constant
    if distance is None or distance < -1:
        return None
    return distance == 0 or (distance > 0 and k <= last)


def _place(frame: Frame, x: Load | Store) -> tuple[Var, Size | None]:
    """The memory and the distance from its start of what is touched."""
    if frame.by_value(x.buffer):
        return x.buffer, None
    place = frame.place(x.buffer)
    return frame.memory(place), None if place.planes else offset(frame, place, x.at)
