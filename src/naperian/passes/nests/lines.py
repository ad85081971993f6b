"""Whether a sum of whole numbers cannot be negative, from what is known of them.

A *line* is a sum of symbols with coefficients and a number, `{i: 1, n: -1, 1: -1}` for i - n - 1
(the number stands under the key 1); a fact is a line that is not negative. A symbol may also be one
of two or more lines, each under facts of its own (`choices`): what a branch left, or a minimum.

A proof takes a symbol of the goal and a fact that bounds it on the needed side, and goes on with
what is left: a few steps for the differences that indices are made of. It gives up after `_STEPS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from naperian.node import mutable
from naperian.sizes import Size

Line: TypeAlias = "dict[object, int]"

NUMBER = 1  # the key of the number
WORD = (1 << 63) - 1  # no number is more, or less than -WORD - 1
_STEPS = 120
_DEEP = 7


def line(number: int) -> Line:
    return {NUMBER: number} if number else {}


def symbol(s: object) -> Line:
    return {s: 1}


def plus(a: Line, b: Line, times: int = 1) -> Line:
    """a + times · b"""
    out = dict(a)
    for s, c in b.items():
        new = out.get(s, 0) + times * c
        if new:
            out[s] = new
        else:
            out.pop(s, None)
    return out


def number_of(a: Line) -> int | None:
    """The number that a line is, if it is one."""
    if not a:
        return 0
    return a[NUMBER] if len(a) == 1 and NUMBER in a else None


def put(a: Line, new: Iterable[tuple[object, Line]]) -> Line:
    """A line with other lines in place of symbols, at once."""
    out = dict(a)
    more: Line = {}
    for s, b in new:
        c = out.pop(s, 0)
        if c:
            more = plus(more, b, c)
    return plus(out, more)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the lines that a symbol may be, and what holds where it is."""

    value: Line
    facts: tuple[Line, ...] = ()


@mutable
class Known:
    """Facts, which are taken back in the order in which they came."""

    facts: list[Line] = field(default_factory=list)
    above: dict[object, list[Line]] = field(default_factory=dict)  # by the symbols they bound below
    below: dict[object, list[Line]] = field(default_factory=dict)  # and above
    choices: dict[object, tuple[object, Sequence[Choice]]] = field(default_factory=dict)
    steps: int = 0
    words: bool = False
    work: int = 0  # all steps there were
    # what was proved, or was not, from the first facts, from one more, and so on
    answers: list[dict[object, bool]] = field(default_factory=lambda: [{}])

    def add(self, facts: Iterable[Line]) -> None:
        for f in facts:
            self.facts.append(f)
            self.answers.append({})
            for s, c in f.items():
                if s is not NUMBER:
                    (self.above if c > 0 else self.below).setdefault(s, []).append(f)

    def back(self, to: int) -> tuple[Line, ...]:
        """Forget all facts but the first ones; what was forgotten."""
        gone = tuple(self.facts[to:])
        for f in reversed(gone):
            for s, c in f.items():
                if s is not NUMBER:
                    (self.above if c > 0 else self.below)[s].pop()
        del self.facts[to:], self.answers[to + 1 :]
        return gone

    def proves(self, goal: Line, words: bool = False) -> bool:
        """Whether a line is known not to be negative; with `words`, also from integers' range."""
        answers, asked = self.answers[-1], (frozenset(goal.items()), words)
        known = answers.get(asked)
        if known is None:
            self.steps = _STEPS
            self.words = words
            known = answers[asked] = self._proves(goal, _DEEP)
        return known

    def _proves(self, goal: Line, deep: int) -> bool:
        known = number_of(goal)
        if known is not None:
            return known >= 0
        self.steps -= 1
        self.work += 1
        if not deep or self.steps < 0:
            return False
        best: object = None
        least: list[Line] | None = None
        for s, c in goal.items():
            if s is NUMBER:
                continue
            found = (self.above if c > 0 else self.below).get(s, [])
            if not found and s not in self.choices and not self.words:
                return False
            if least is None or len(found) < len(least):
                best, least = s, found
        assert least is not None
        mine = goal[best]
        times = -abs(mine)
        for f in reversed(least):
            theirs = abs(f[best])
            rest = plus(goal if theirs == 1 else _times(goal, theirs), f, times)
            # an integer that is more than -1 is not negative
            if self._proves(plus(rest, line(theirs - 1)) if theirs > 1 else rest, deep - 1):
                return True
        if self.words and not isinstance(best, frozenset | tuple):
            end = WORD if mine < 0 else WORD + 1
            if self._proves(plus(plus(goal, {best: 1}, -mine), line(-abs(mine) * end)), deep - 1):
                return True
        return any(self._of_each(goal, s, deep) for s in goal if s in self.choices)

    def _of_each(self, goal: Line, s: object, deep: int) -> bool:
        """Whether it holds whichever line the symbol is; symbols of one branch go together."""
        key, mine = self.choices[s]
        together = [t for t in goal if t in self.choices and self.choices[t][0] is key]
        for k, _ in enumerate(mine):
            rest = goal
            mark = len(self.facts)
            for t in together:
                choice = self.choices[t][1][k]
                c = rest.get(t, 0)
                rest = plus(plus(rest, {t: 1}, -c), choice.value, c)
                if t is s:
                    self.add(choice.facts)
            holds = self._proves(rest, deep - 1)
            self.back(mark)
            if not holds:
                return False
        return True


def _times(a: Line, k: int) -> Line:
    return {s: c * k for s, c in a.items()}


def of_size(s: Size) -> Line:
    """A polynomial: products and what is no variable are symbols."""
    out: Line = {}
    for monomial, c in s.terms:
        out[NUMBER if not monomial else monomial[0] if len(monomial) == 1 else monomial] = c
    return out
