"""What an Int that a loop carries is in every round, by induction.

    loop k = 0 while k < n and x[k] > 0.0: k + 1            0 <= k
    loop low = 0, high = n while low < high: …              0 <= low, high <= n

It is claimed to be like what it starts as: never negative, and never more than the size at which it
starts. The round is read with that for known, and then has to leave it so, without a sum that may
wrap around. A claim that some round may break is left out when the definition is read once more
(`definitions.define`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from naperian.frontend.fitting import apart, fits
from naperian.frontend.messages import errors
from naperian.frontend.typed import Claim, Typed
from naperian.frontend.walk import Walk

Claims: TypeAlias = dict[tuple[str, bool], Claim]
"""Of a name: that it is no less than 0 (False), and that it is no more than where it starts."""


def claimed(w: Walk, name: str, start: Typed) -> Claims:
    """What is claimed of an Int that a loop carries: nothing when a definition is read first."""
    found: Claims = {}
    if not w.reading.claims:
        return found
    if _holds(w, start, lambda p: p):
        found[name, False] = lambda p: p
    most = start.poly
    if most is not None and most.constant is None and not start.lets and not apart(w, most)[0]:
        found[name, True] = lambda p: most - p
    return {key: claim for key, claim in found.items() if key not in w.reading.broken}


def keep(w: Walk, claims: Mapping[int, Claims], nexts: Sequence[Typed]) -> None:
    """At the end of a round: the claims are true of the next values."""
    w.broken |= {
        key for k, own in claims.items() for key, claim in own.items()
        if k >= len(nexts) or not _holds(w, nexts[k], claim)
    }  # fmt: skip
    if w.broken:
        raise errors.Silent


def _holds(w: Walk, x: Typed, claim: Claim) -> bool:
    """Whether what is claimed of a number is true of it, whichever it is, and in it nothing wraps
    around."""
    if x.ways:
        sides = [(way.poly, w.scope.facts().and_(*way.facts)) for way in x.ways]
    elif x.poly is not None and fits(w, x.poly):
        sides = [(x.poly, w.scope.facts())]
    else:
        return False
    return all(facts.proves(w.solver.zonk_size(claim(poly))) for poly, facts in sides)
