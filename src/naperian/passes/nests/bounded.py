"""A table that is short in every round is as long as the longest of them. loops → loops

    before   for k in 0..5:                        after   for k in 0..5:
                 allocate row[4 - k]                           allocate row[4]

So it is a stack slot, where every round asked for memory: the rows of small matrices that a round
takes apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from naperian.loops.memory import SMALL, constant_bytes
from naperian.loops.syntax import Allocate, Loop, Role, Stmt
from naperian.loops.walk import allocates, rebuild
from naperian.names import Var
from naperian.node import replace
from naperian.sizes import Size, size

_Ends = Mapping[Var, tuple[int, int]]
"""The least and the greatest value of variables of loops."""


def bounded(body: tuple[Stmt, ...], ends: _Ends = MappingProxyType({})) -> tuple[Stmt, ...]:
    """See the module; in loops whose variables have these ends."""
    out: list[Stmt] = []
    for s in body:
        inside = ends
        match s:
            case Allocate() if ends:
                s = _longest(s, ends)
            case Loop():
                low, high = _end(s.low, ends, -1), _end(s.high, ends, 1)
                if low is not None and high is not None and low < high:
                    inside = {**ends, s.var: (low, high - 1)}
            case _:
                pass
        out.append(rebuild(s, partial(bounded, ends=inside)) if allocates(s) else s)
    return tuple(out)


def _longest(s: Allocate, ends: _Ends) -> Allocate:
    """The allocation with extents that are numbers, if it is small then."""
    b = s.buffer
    if b.role is not Role.TEMP or s.fill is not None or s.planes or constant_bytes(b) is not None:
        return s
    extents = [_end(n, ends, 1) for n in b.shape]
    shape = tuple([size(max(n, 0)) for n in extents if n is not None])
    longest = replace(b, shape=shape)
    fits = len(shape) == len(extents) and (constant_bytes(longest) or 0) <= SMALL
    return replace(s, buffer=longest) if fits else s


def _end(s: Size, ends: _Ends, sign: int) -> int | None:
    """What a sum of variables and a number is at most, or at least (with the other sign)."""
    total = s.offset
    for monomial, c in s.terms:
        if not monomial:
            continue
        (a, *others) = monomial
        if others or not isinstance(a, Var) or a not in ends:
            return None
        low, high = ends[a]
        total += c * (high if c * sign > 0 else low)
    return total
