"""The number at which two sizes are equal.

    2 * n = 2 * m + 4        n = m + 2
    n * (n + 1) // 2 = 6     n = 3
    n * n = m * m            n = m
"""

from __future__ import annotations

from naperian.names import Var
from naperian.sizes import ZERO, Size, evaluate, rename, size, variables

_LARGEST = 1 << 40


def inverse(gap: Size, v: Var) -> Size | None:
    """What `v` must be for `gap` to be 0; None if that is not known to be a size. As at the NumPy
    border, a size that does not fall as `v` grows has one solution, or the smallest is meant."""
    c = gap.coefficient(v)
    rest = gap - size(v) * c
    others = dict.fromkeys(w for w in variables(rest) if w != v)
    if c and v not in set(variables(rest)):
        whole = all(k % c == 0 for _, k in rest.terms)
        return Size(tuple((m, -k // c) for m, k in rest.terms)) if whole else None
    if not others:
        return _search(gap, v)
    near = (size(w) + d for w in others for d in (0, 1, -1))
    return next((n for n in near if rename(gap, {v: n}) == ZERO), None)


def _search(gap: Size, v: Var) -> Size | None:
    rising = _at(gap, v, _LARGEST) > 0
    low, high = -1, _LARGEST
    while high - low > 1:
        middle = (low + high) // 2
        if (_at(gap, v, middle) < 0) == rising:
            low = middle
        else:
            high = middle
    return size(high) if _at(gap, v, high) == 0 else None


def _at(gap: Size, v: Var, n: int) -> int:
    return evaluate(rename(gap, {v: size(n)}), _no_atom)


def _no_atom(a: object) -> int:
    raise AssertionError(f"{a!r} has no value")
