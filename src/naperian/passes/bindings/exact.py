"""Whole numbers that are computed of indices and cannot wrap are index expressions.

    for i<n: v = add(i, -1)
    for i<n: y = copy(x[clamp(v[i], n)])      ⟶      for i<n: y = copy(x[clamp(i - 1, n)])

An expression in brackets is one from the start; what a helper is handed, `lambda a: x[clamp(i +
a)]` or a function of `Int`s, is an operation of integers, which wrap where polynomials do not. As
polynomials, they are what loops are cut by, and what lies side by side. So is what is computed of
the numbers of a literal table, `i - c[q]`: between which of them an element lies is known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from naperian.ainf.syntax import Index, Number, Op, Operand, Read
from naperian.ainf.walk import size_of
from naperian.names import Lit, Var
from naperian.sizes import Clamp, Remainder, Size

_MOST = (1 << 62) - 1  # a size, which is less than half of what an integer can be
_FITS = range(-(1 << 63), 1 << 63)

Numbers: TypeAlias = Mapping[Var, tuple[int, int]]  # between what numbers a choice of some lies
NONE: Numbers = {}

_POLYNOMIALS: dict[str, Callable[..., Size]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "neg": lambda x: -x,
}


def exact(
    op: Op, indices: Mapping[Var, Index], sizes: Collection[Var], numbers: Numbers = NONE
) -> Size | None:
    """The index expression that an operation of `Int`s computes, if it cannot wrap."""
    made = _POLYNOMIALS.get(op.name)
    if made is None or all(isinstance(a, Lit) for a in op.args):
        return None
    if not all(isinstance(a, Number | Lit) or is_number(a, numbers) for a in op.args):
        return None
    s = made(*map(size_of, op.args))
    ends = _ends(s, indices, sizes, numbers)
    return s if ends is not None and ends[0] in _FITS and ends[1] in _FITS else None


def is_number(o: Operand, numbers: Numbers) -> bool:
    """Whether an operand is one of numbers that the program says."""
    return isinstance(o, Read) and o.var in numbers


def _ends(
    s: Size, indices: Mapping[Var, Index], sizes: Collection[Var], numbers: Numbers
) -> tuple[int, int] | None:  # fmt: skip
    """Between what numbers an expression lies, by the extents of its indices."""
    low = high = 0
    for m, c in s.terms:
        if len(m) > 1:
            return None
        ends = _ends_of(m[0], indices, sizes, numbers) if m else (1, 1)
        if ends is None:
            return None
        at = sorted(c * e for e in ends)
        low, high = low + at[0], high + at[1]
    return low, high


def _ends_of(
    a: object, indices: Mapping[Var, Index], sizes: Collection[Var], numbers: Numbers
) -> tuple[int, int] | None:  # fmt: skip
    """The smallest and the largest value of an atom."""
    match a:
        case Var() if a in sizes:
            return 0, _MOST
        case Var() if a in indices:
            extent = indices[a].extent
        case Clamp(_, extent) | Remainder(_, extent):
            pass
        case Read(var) if var in numbers:
            return numbers[var]
        case _:
            return None
    ends = None if extent is None else _ends(extent, indices, sizes, numbers)
    return None if ends is None else (0, max(0, ends[1] - 1))
