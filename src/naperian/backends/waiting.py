"""What a round of a loop in order waits for comes last in its expressions.

A round waits for what the one before it hands over (`traits.late`), and meanwhile the processor
does what does not wait: so each operation less between the two is time. Where a table is filled row
by row (alignments, distances of words, knapsacks) nothing else takes any.
"""

from __future__ import annotations

from functools import reduce

from naperian.backends.frame import Frame
from naperian.dtypes import DType
from naperian.loops.syntax import Apply, Expr
from naperian.loops.walk import used
from naperian.names import Lit
from naperian.node import replace
from naperian.prims import Math, unit

_OTHER = {"min": "max", "max": "min"}


def waiting(frame: Frame, e: Apply) -> Expr:
    """The same value with fewer operations on what is late:

        max(a, max(b, late))            max(max(a, b), late)
        a if c else max(b, late)        (a if c else b) if (inf if c else b) >= late else late
        max(a, late + a)                a if a > late + a else late + a
        (late * a + b) / c              late * (a / c) + b / c

    (where `inf` is the largest integer). The second for integers: a NaN is on no side of another
    number. In the third a NaN in `a` is one in the sum as well, and need not be asked for. The
    fourth is for who may regroup."""
    if not frame.late:
        return e
    match e:
        case Apply("mul" | "div") if e.operand.is_float:
            return _scaled(frame, e) if frame.module.program.math is Math.FAST else e
        case Apply("min" | "max"):
            strict = frame.module.program.math is Math.STRICT
            return e if strict and e.operand.is_float else _sure(_grouped(frame, e))
        case Apply("select", (c, a, Apply("min" | "max") as best)) if not _is_late(frame, c, a):
            return _decided(frame, e, c, a, best) or e
        case Apply("select", (c, Apply("min" | "max") as best, a)) if not _is_late(frame, c, a):
            turned = Apply("not", (c,), DType.BOOL, DType.BOOL)
            return _decided(frame, e, turned, a, best) or e
        case _:
            return e


def _is_late(frame: Frame, *args: Expr) -> bool:
    return any(not frame.late.isdisjoint(used(a)) for a in args)


def _scaled(frame: Frame, e: Apply) -> Expr:
    """A multiple of a sum of what is late and what is not, as a sum of multiples."""
    total, factor = e.args
    if e.name == "mul" and _is_late(frame, factor):
        total, factor = factor, total
    match total:
        case Apply("add" | "sub", (a, b)) if not _is_late(frame, factor):
            late = [_is_late(frame, x) for x in (a, b)]
            if sum(late) == 1:
                return replace(total, args=tuple(_times(frame, x, e, factor) for x in (a, b)))
    return e


def _times(frame: Frame, x: Expr, e: Apply, factor: Expr) -> Expr:
    """What is multiplied or divided by a factor as `e` is, late."""
    match x:
        case Apply("mul", (a, b)) if _is_late(frame, a) != _is_late(frame, b):
            early, late = (b, a) if _is_late(frame, a) else (a, b)
            return replace(x, args=(late, replace(e, args=(early, factor))))
        case _:
            return replace(e, args=(x, factor))


def _grouped(frame: Frame, e: Apply) -> Apply:
    """An extreme of several, those first that do not wait."""

    def operands(x: Expr) -> list[Expr]:
        if isinstance(x, Apply) and (x.name, x.operand) == (e.name, e.operand):
            return [y for a in x.args for y in operands(a)]
        return [x]

    found = operands(e)
    early = [x for x in found if not _is_late(frame, x)]
    late = [x for x in found if _is_late(frame, x)]
    if len(early) < 2 or not late:
        return e

    def both(x: Expr, y: Expr) -> Apply:
        return replace(e, args=(x, y))

    return reduce(both, late[1:], both(reduce(both, early), late[0]))


def _sure(e: Apply) -> Expr:
    """An extreme of two floats, of which one is NaN if the other is."""
    if e.operand.is_float:
        for a, b in (e.args, e.args[::-1]):
            if _hands_on(b, a):
                more = "gt" if e.name == "max" else "lt"
                better = Apply(more, (a, b), DType.BOOL, e.operand)
                return Apply("select", (better, a, b), e.dtype, e.dtype)
    return e


def _hands_on(e: Expr, a: Expr) -> bool:
    """Whether an expression is NaN if `a` is."""
    match e:
        case Apply("add" | "sub" | "mul" | "div" | "neg", args):
            return any(x == a or _hands_on(x, a) for x in args)
        case _:
            return False


def _decided(frame: Frame, e: Apply, c: Expr, a: Expr, best: Apply) -> Apply | None:
    """What was a choice and then an extreme, as one comparison with what is late."""
    best = _grouped(frame, best)
    known = [x for x in best.args if not _is_late(frame, x)]
    late = [x for x in best.args if _is_late(frame, x)]
    t = e.dtype
    if not t.is_integer or len(known) != 1 or len(late) != 1:
        return None
    (b,), (other,) = known, late
    beyond = Lit(unit(_OTHER[best.name], t), t)
    first = Apply("select", (c, a, b), t, t)
    bound = Apply("select", (c, beyond, b), t, t)
    holds = Apply("ge" if best.name == "max" else "le", (bound, other), DType.BOOL, t)
    return Apply("select", (holds, first, other), t, t)
