"""What is known of loop variables where code is emitted, and where to cut loops so that more is.

    for i in 0..n: y[i] = x[clamp(i - 1, n)] + x[clamp(i + 1, n)]
    ⇒  0..1 and n-1..n with the clamps, and 1..n-1 with x[i - 1] + x[i + 1]
"""

from __future__ import annotations

from dataclasses import field

from naperian.ainf.walk import step
from naperian.names import Var
from naperian.node import mutable, node
from naperian.sizes import (
    ONE,
    ZERO,
    Atom,
    Clamp,
    Remainder,
    Size,
    end,
    lowest,
    rename,
    size,
    variables,
)

_NEAR = 8  # rounds from an end


@mutable
class Bounds:
    """For each open loop: sizes that its variable is at least, and at most."""

    sizes: frozenset[Var] = frozenset()  # not negative; a number that is computed may be
    low: dict[Var, tuple[Size, ...]] = field(default_factory=dict)
    high: dict[Var, tuple[Size, ...]] = field(default_factory=dict)
    known: dict[Size, bool] = field(default_factory=dict)  # what was asked before
    atoms: dict[Atom, Size | None] = field(default_factory=dict)

    def holds(self, f: Size) -> bool:
        """Whether `f >= 0` is certain."""
        found = self.known.get(f)
        if found is None:
            found = self.known[f] = self._holds(f, 4)
        return found

    def _holds(self, f: Size, depth: int) -> bool:
        number = f.constant
        if number is not None:
            return number >= 0
        atoms = set(f.atoms)
        loop = next((v for v in reversed(self.low) if v in atoms), None)  # outer ones bound it
        if loop is None:  # what is left are sizes, which are not negative
            return all(
                c >= 0 and all(isinstance(a, Var) and a in self.sizes for a in m)
                for m, c in f.terms
            )
        if depth == 0:
            return False
        c = step(f, loop)
        if not c:  # it rises and falls, perhaps
            return False
        for bound in self.low[loop] if c > 0 else self.high[loop]:
            if loop not in bound.atoms and self._holds(rename(f, {loop: bound}), depth - 1):
                return True
        return False

    def decide(self, f: Size) -> bool | None:
        """Whether `f >= 0`, if that is known."""
        if self.holds(f):
            return True
        return False if self.holds(-f - 1) else None

    def opened(self, loop: Var, low: tuple[Size, ...], high: tuple[Size, ...]) -> Bounds:
        return Bounds(self.sizes, self.low | {loop: low}, self.high | {loop: high})

    def not_empty(self, n: Size) -> bool:
        """Whether `n >= 1`: it is a positive constant, or the extent of an open loop."""
        if n.constant is not None:
            return n.constant >= 1
        return any(n - 1 == h for bounds in self.high.values() for h in bounds)

    def atom(self, a: Atom) -> Size | None:
        """A clamp or wrap that is decided here, as what it comes to."""
        if type(a) is Var:
            return None
        if a not in self.atoms:
            self.atoms[a] = self._atom(a)
        return self.atoms[a]

    def _atom(self, a: Atom) -> Size | None:
        match a:
            case Clamp(value, extent):
                if self.holds(-value):
                    return ZERO
                above = self.decide(value - extent + 1)
                if above and self.not_empty(extent):
                    return extent - 1
                if self.holds(extent - 1 - value) and self.holds(value):
                    return value
            case Remainder(above_, below):
                if self.holds(above_) and self.holds(below - 1 - above_):
                    return above_
            case _:
                pass
        return None


@node
class Segment:
    """A part of a loop, from where the one before ends to the nearest of `cuts`, or the `farthest`
    (none: to the end), with what is known of the variable in it. `main` is the part where most
    iterations are, a `single` one has at most one."""

    cuts: tuple[Size, ...]
    at_least: tuple[Size, ...]
    at_most: tuple[Size, ...]
    main: bool
    single: bool = False
    farthest: bool = False

    def high(self, low: Size, extent: Size) -> Size:
        """Where it ends."""
        for cut in self.cuts:
            if self.farthest:
                low = end(cut, low, extent)
            else:
                extent = end(cut, low, extent)
        return low if self.farthest else extent


def segments(
    extent: Size, conditions: list[Size], loop: Var, bounds: Bounds, around: Bounds, most: int
) -> list[Segment]:
    """Cut 0 … extent-1 where the conditions (polynomials >= 0) on the loop's variable change. In
    the middle part all of them are decided, whatever the loops inside do; constants cut near the
    start (after `most` rounds), others near the end. The loops in `around` are outside, those that
    only `bounds` knows inside this one."""
    whole = Segment((), (ZERO,), (extent - 1,), True)
    if extent.constant is not None and extent.constant <= 16:
        return [whole]
    start = 0
    points: dict[Size, bool] = {}  # and whether they come before the middle
    inside = bounds.opened(loop, (ZERO,), (extent - 1,))
    for f in map(lowest, conditions):
        c = f.coefficient(loop)
        if abs(c) != 1 or sum(loop in m for m, _ in f.terms) != 1:
            continue
        if inside.decide(f) is not None:
            continue
        inner = {a for a in f.atoms if isinstance(a, Var) and a != loop and a in bounds.low}
        inner -= around.low.keys()
        # where `always` is not negative it holds whatever the loops inside do; where `never` is
        # negative, in none of their rounds
        always, never = f, f
        for i in inner:
            ends = (bounds.low[i][0], bounds.high[i][0])
            first, last = ends if f.coefficient(i) > 0 else ends[::-1]
            always, never = rename(always, {i: first}), rename(never, {i: last})
        rest = always - size(loop) * c
        if loop in variables(rest):  # clamped, too
            continue
        if any(i in bounds.low and i not in around.low for i in variables(rest)):  # i + k // 2
            continue
        point = -rest if c > 0 else rest + 1  # from here on it holds, or no longer
        before = c > 0
        if before != (begins := _begins(point, extent, before, around)):
            rest = never - size(loop) * c
            point, before = -rest if c > 0 else rest + 1, begins
        number = point.constant
        if number is not None and number <= most:
            start = max(start, number)
        elif number is not None and not _is_near_end(number, extent):
            continue
        else:
            points.setdefault(point, before)
    if not start and not points:
        return [whole]
    near = [e for e in points if (e - extent).constant is not None]
    cuts: list[tuple[tuple[Size, ...], bool]] = [((size(start),), True)] if start else []
    if near:
        cuts.append(((min(near, key=lambda e: (e - extent).constant or 0),), False))
    far = [e for e in points if e not in near]
    if not cuts and len(far) > 2 and not any(v in bounds.low for e in far for v in variables(e)):
        both = ((tuple(e for e in far if points[e] is before), before) for before in (True, False))
        cuts = [x for x in both if x[0]]
    else:
        far = far[: 2 - len(cuts)]
        if len(far) == 2:  # j == i: from i on, and no longer from i + 1 on
            apart = (far[0] - far[1]).constant
            if apart > 0 if apart is not None else points[far[1]] > points[far[0]]:
                far.reverse()
        cuts += [((e,), points[e]) for e in far]
    return _parts(extent, cuts)


def _parts(extent: Size, cuts: list[tuple[tuple[Size, ...], bool]]) -> list[Segment]:
    """The parts between cuts, with whether these come before the middle."""
    out: list[Segment] = []
    passed: tuple[Size, ...] = (ZERO,)
    last = ZERO
    middle = sum(before for _, before in cuts)
    for k, (cut, before) in enumerate(cuts):
        one, single = len(cut) == 1, len(cut) == 1 and cut[0] - last == ONE
        until = () if before and not one else tuple(e - 1 for e in cut)
        out.append(Segment(cut, passed, (extent - 1, *until), k == middle, single, before))
        passed += cut if before or one else ()
        last = cut[0]
    single = extent - last == ONE and all(len(cut) == 1 for cut, _ in cuts)
    out.append(Segment((), passed, (extent - 1,), len(cuts) == middle, single))
    return out


def _begins(point: Size, extent: Size, likely: bool, around: Bounds) -> bool:
    """Whether a point is nearer to the start of a loop than to its end, as far as the sizes say."""
    (far, *others) = extent.atoms or (None,)
    if far is None or others:
        return likely
    ends = [point]
    for loop in reversed(around.low):  # wherever the loops outside are
        both = (around.low[loop][0], around.high[loop][0])
        ends = [rename(e, {loop: x}) for e in ends for x in both[: 1 + (loop in variables(e))]]
    if not any(far in variables(e) for e in ends):
        return True
    return likely and any(far in variables(e - extent) for e in ends)


def _is_near_end(number: int, extent: Size) -> bool:
    """Whether a loop that goes through many rounds ends soon after so many."""
    last = extent.constant
    return last is not None and last - number <= _NEAR <= number // 4
