"""Parts sent through a clamped index, by cases: in range, and what is kept at either end.

    y[i] = x[clamp(i - 1)]          v[q + 1] at q, and at 0 what i = 0 sends there, too
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from naperian.ainf.syntax import Read
from naperian.ainf.walk import atoms_of, rewrite, rewrite_size, size_of, variables
from naperian.names import Var
from naperian.passes.derivatives.invert import invert
from naperian.passes.derivatives.parts import At, Part
from naperian.passes.derivatives.rules import renamed
from naperian.passes.derivatives.solving import Solving
from naperian.sizes import ZERO, Clamp, Size, clamp, size
from naperian.sizes import variables as written

_WINDOW = 64  # places that may be beyond an end
_NEAR = 4  # a shift by as many leaves so few indices at an end that each is a case of its own


class Ends(Solving):
    """Clamped indices by cases."""

    def meets(self, part: Part, at: At) -> bool:
        """Whether no clamped index is in the way: where a part goes is solved for its indices."""
        found = invert(self.domain(part), part.at, at, self.extent)
        return found is not None and not any(
            isinstance(a, Clamp) for e in found.equal for a in e.atoms
        )

    def split(self, part: Part, var: Var) -> list[Part]:
        """Clamped indices by cases: in range, and what is kept at either end. Where data name the
        places, nothing can be solved for them, and they stay."""
        domain = self.domain(part)
        for k, e in enumerate(part.at):
            found = clamped_by(e, domain)
            if found is None:
                continue
            out = []
            for to, where in self.places(*found):
                guards = (*part.guards, *(self.test("ge", x) for x in where))
                at = (*part.at[:k], to, *part.at[k + 1 :])
                case = Part(part.over, at, part.value, guards)
                if to != found[0]:
                    case = self.at_the_end(case, where[0])
                out += self.split(case, var)
            return out
        return [part]

    def number(self, part: Part) -> int:
        """How many cases a part has."""
        domain = self.domain(part)
        clamped = (found for e in part.at if (found := clamped_by(e, domain)) is not None)
        return prod(len(self.places(*found)) for found in clamped)

    def places(self, value: Size, n: Size) -> list[tuple[Size, tuple[Size, ...]]]:
        """Where a value that is kept in range is, and when: first in range, then at the ends."""
        facts = self.facts(value)
        inside = tuple(x for x in (value, n - 1 - value) if not facts.proves(x))
        cases = ((value, inside), *self.ends(value, n))
        return [case for case in cases if not any(facts.proves(-x - 1) for x in case[1])]

    def ends(self, value: Size, n: Size) -> list[tuple[Size, tuple[Size, ...]]]:
        """Where values below 0 and from n on are kept, and when. A shift by a few moves as many
        indices to an end, each by a distance of its own: what they send is a shift, too.

            i + 2 >= n, i < n           n - 1 = i + 1 if i + 1 == n - 1, and i if i == n - 1
        """
        for i in variables(value):
            by = (value - size(i)).constant
            if by is not None and i in self.b.indices and self.extent(i) == n:
                if 0 < abs(by) <= _NEAR:
                    away = range(by) if by > 0 else range(0, by, -1)
                    shifts = [(size(i) + k, n - 1 - size(i) - k) for k in away]
                    # of which what is solved for proves the second: it is where the part goes
                    return [(to, (-x, x) if by > 0 else (-to, to)) for to, x in shifts]
        some = () if self.facts(n).proves(n - 1) else (n - 1,)  # else there are no ends
        return [(ZERO, (-value - 1, *some)), (n - 1, (value - n, *some))]

    def at_the_end(self, part: Part, x: Size) -> Part:
        """The part over those few values of an index for which `x >= 0` is possible: of a window
        that is kept in a table, only the first and last places are beyond an end.

            1 - i - a >= 0, i < n, a < 5            i < min(2, n)
            i + a - 2 - n >= 0, i < n, a < 5        i = n - 1 - j, j < min(2, n)
        """
        if not x.plain or any(len(m) > 1 for m, _ in x.terms):
            return part
        for i in self.domain(part):
            n, by = self.extent(i), x.coefficient(i)
            if n is None or n.constant is not None or abs(by) != 1:
                continue
            if any(i in variables(e) for e in part.at):
                continue  # it is solved for where the part goes
            if any(i in self.b.closures[j] for j in self.domain(part) if j is not i):
                continue  # others go as far as it says
            last = x + size(i) if by < 0 else x - size(i) + n - 1
            most = self.greatest(last)
            if most is None or not 0 <= most < _WINDOW:
                continue
            j = self.b.index(clamp(size(most + 1), n + 1), self.b.indices[i].name)
            names = {i: size(j) if by < 0 else n - 1 - size(j)}
            return Part(
                tuple(j if v is i else v for v in part.over),
                tuple(rewrite_size(e, names) for e in part.at),
                rewrite(part.value, names), renamed(part.guards, names),
            )  # fmt: skip
        return part

    def greatest(self, s: Size) -> int | None:
        """The most that a sum of indices with known extents can be."""
        ends: dict[Var, Size] = {}
        for v in variables(s):
            n = self.extent(v) if v in self.b.indices else None
            if n is not None and n.constant is not None:
                ends[v] = size(n.constant - 1 if s.coefficient(v) > 0 else 0)
        return rewrite_size(s, ends).constant


def clamped_by(e: Size, domain: Iterable[Var]) -> tuple[Size, Size] | None:
    """What is kept in range, and in which, where that is a number of these indices, and no data."""
    match e.single:
        case Clamp(value, n) if _plainly(value).intersection(domain):
            return value, n
        case _:
            return None


def _plainly(s: Size) -> set[Var]:
    """The indices of an expression that none of the data it reads depend on."""
    named = {v for a in atoms_of(s) if isinstance(a, Read) for v in variables(size_of(a))}
    return set(written(s)) - named
