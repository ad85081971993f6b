"""Loops over the few places at the start or the end of longer ones.

    cut = clamp(2, n + 1)
    free for i in 0..cut: …             two rounds at the start
    free for i in cut..n - 1: …
"""

from __future__ import annotations

from collections.abc import Mapping

from naperian.loops.syntax import Let, Loop, Number, Stmt
from naperian.loops.walk import statements
from naperian.names import Var
from naperian.sizes import Clamp, Size, atom, rename

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
