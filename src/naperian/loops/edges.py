"""Loops over the few places at the start or the end of longer ones.

    cut = clamp(2, n + 1)
    free for i in 0..cut: …             two rounds at the start
    free for i in cut..n - 1: …
"""

from __future__ import annotations

from collections.abc import Mapping

from naperian.dtypes import DType
from naperian.loops.syntax import Let, Loop, Number, Stmt
from naperian.loops.walk import loads, remade, statements
from naperian.names import Var
from naperian.node import replace
from naperian.sizes import ZERO, Atom, Clamp, Size, atom, end, rename, size

_EDGE = 8  # rounds


def numbers(body: tuple[Stmt, ...]) -> dict[Var, Size]:
    """What is bound to whole numbers in statements."""
    return {
        s.var: s.value.value for s in statements(body)
        if isinstance(s, Let) and isinstance(s.value, Number)
    }  # fmt: skip


def spelled(rounds: Size, numbers: Mapping[Var, Size]) -> Size:
    """A size without the names of what is bound to whole numbers."""
    while cuts := {v for v in rounds.atoms if isinstance(v, Var) and v in numbers}:
        rounds = rename(rounds, {v: numbers[v] for v in cuts})
    return rounds


def is_edge(s: Loop, numbers: Mapping[Var, Size]) -> bool:
    """Whether a loop goes over the few places at the start or the end of a longer one, where what
    it reads is clamped."""
    rounds = spelled(s.high - s.low, numbers)
    if rounds.constant is not None:
        return False
    for a in rounds.atoms:
        if isinstance(a, Clamp):
            start, rest = a.value.constant, rounds + atom(a)
            if rounds == atom(a) and start is not None:
                return start <= _EDGE
            number = (rest - a.value).constant
            if number is not None and a.extent == rest + 1:  # of `rest`, all but the last few
                return number <= _EDGE
    return False


def ends_apart(s: Loop) -> tuple[Stmt, ...]:
    """A loop whose rounds are independent, with those at the ends, where what it reads is clamped,
    as loops of their own."""

    def shift(a: Atom) -> int | None:
        """How far from the round's own place a clamped one is."""
        if not isinstance(a, Clamp) or a.extent != s.high or s.low != ZERO:
            return None
        return (a.value - size(s.var)).constant

    def inside(a: Atom) -> Size | None:
        """What is clamped at the ends alone: what is further off is clamped in the middle, too."""
        k = shift(a)
        return a.value if isinstance(a, Clamp) and k is not None and -first <= k <= last else None

    places = (x for inner in statements(s.body) for read in loads(inner) for x in read.at)
    shifts = [k for k in (shift(a) for x in places for a in x.atoms) if k is not None]
    first, last = max(0, -min(shifts, default=0)), max(0, max(shifts, default=0))
    if not 0 < max(first, last) <= _EDGE:
        return (s,)
    out: list[Stmt] = []
    low, high = s.low, s.high
    if first:
        low = size(cut := Var("cut"))
        out.append(Let(cut, DType.I64, Number(end(size(first), s.low, s.high))))
        out.append(replace(s, high=low))
    if last:
        high = size(cut := Var("cut"))
        out.append(Let(cut, DType.I64, Number(end(s.high - last, low, s.high))))
    out.append(replace(s, low=low, high=high, body=remade(s.body, inside)))
    if last:
        out.append(replace(s, low=high))
    return tuple(out)
