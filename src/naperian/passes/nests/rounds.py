"""How many rounds a loop has, where it is cut into so many at a time and a rest.

A loop whose end is before its start has none: `rows[i]..rows[i + 1]` where the ends of rows fall. A
quotient is rounded down, so of a negative number it is negative, and the rest would begin before
the loop does and end before it: 4 * (-3 // 4)..-3 is one round.
"""

from __future__ import annotations

from collections.abc import Collection

from naperian.loops.syntax import Loop
from naperian.names import Var
from naperian.sizes import Size, is_natural, natural


def whole_rounds(s: Loop, many: int, sizes: Collection[Var]) -> Size:
    """How often a loop has so many rounds, what is left being less."""
    rounds = s.high - s.low
    return rounds // many if is_natural(rounds, sizes) else natural(rounds // many)
