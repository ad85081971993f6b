"""How many rounds a loop makes whose ends are data.

The extent of `for j in a..b` is `b - a`, and integers wrap around: with `b` at their lower end the
difference is positive, and a loop that has no rounds would have very many. So the extent counts
only where it has not wrapped from below, which is asked without wrapping.
"""

from __future__ import annotations

from collections.abc import Collection

from naperian.dtypes import DType
from naperian.loops.syntax import Apply, Expr, Number
from naperian.names import Lit, Var
from naperian.sizes import ZERO, Clamp, Quotient, Remainder, Size, Term, atom

LARGE = 1 << 62  # a sum that is more than its opposite has not wrapped, also if it was rounded


def trips(extent: Size, counts: Collection[Var]) -> Expr | None:
    """The rounds of such a loop, none where it is empty; nothing if its extent cannot wrap from
    below. `counts` are far from the ends of integers: sizes, and the variables of loops around."""
    data = [t for t in extent.terms if not all(_is_count(a, counts) for a in t[0])]
    match data:
        case []:
            return None
        case [((a,), 1)] if all(k >= 0 for _, k in (extent - atom(a)).terms):
            return None
        case _:
            return Apply("select", (_whole(extent, data), Number(extent), _ZERO), *_INTS)


_INTS = (DType.I64, DType.I64)
_ZERO = Lit(0, DType.I64)


def _whole(extent: Size, data: list[Term]) -> Expr:
    """Whether an extent that is positive is what it says."""
    rest = extent - Size(tuple(data))
    match data:
        case [((a,), c)]:  # c a + rest > 0
            sides = (atom(a), -rest // c) if c > 0 else (-(-rest // -c), atom(a))
        case [((a,), c), ((b,), d)] if {c, d} == {1, -1} and rest == ZERO:
            sides = (atom(a), atom(b)) if c > 0 else (atom(b), atom(a))
        case _:
            total = _rounded(extent)
            least = Lit(-float(LARGE), DType.F64)
            return Apply("gt", (total, least), DType.BOOL, DType.F64)
    return Apply("gt", (Number(sides[0]), Number(sides[1])), DType.BOOL, DType.I64)


def _rounded(s: Size) -> Expr:
    """A sum of products as a Float, which does not wrap."""
    total: Expr = Lit(0.0, DType.F64)
    for m, c in s.terms:
        term: Expr = Lit(float(c), DType.F64)
        for a in m:
            factor = Apply("cast", (Number(atom(a)),), DType.F64, DType.I64)
            term = Apply("mul", (term, factor), DType.F64, DType.F64)
        total = Apply("add", (total, term), DType.F64, DType.F64)
    return total


def _is_count(a: object, counts: Collection[Var]) -> bool:
    match a:
        case Var():
            return a in counts
        case Clamp(_, n) | Remainder(_, n):
            return _counted(n, counts)
        case Quotient(n, m):
            return _counted(n, counts) and _counted(m, counts)
        case _:
            return False


def _counted(s: Size, counts: Collection[Var]) -> bool:
    return all(_is_count(a, counts) for a in s.atoms)
