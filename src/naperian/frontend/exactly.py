"""Comparisons that proofs need, made so that they say what is believed of them.

Proofs are about polynomials, and the run computes with integers that wrap around at the ends of 64
bits. Of an index that is proved to be in range this says nothing wrong, for what is in range has
not wrapped. But a test is believed; so one that a proof needs is made of the polynomials: what may
be any integer (an `Int`, which is data) stands alone on one side, and indices and sizes, which are
far from the ends of the integers, on the other. Every other test compares integers.

    k + 1 < n          is tested as     k <= n - 2
    3 * k + 2 < n                       k <= (n - 3) // 3
    abs(k) < n                          k <= n - 1 if k >= 0 else k >= 1 - n

A test of more data is made as it is written if nothing in it can wrap by what is known where it
stands; else it looks how large it is: sums and products of Floats do not wrap.
"""

from __future__ import annotations

from functools import reduce

from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.facts import Apart, Doubt, Doubted
from naperian.frontend.fitting import FAR, apart, fits, stops
from naperian.frontend.naming import stands_for
from naperian.frontend.typed import Build, Condition, Once, Typed, Value, wrap
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.node import node
from naperian.sizes import (
    ZERO,
    Atom,
    Clamp,
    Monomial,
    Size,
    Term,
    atom,
    natural,
    substitute,
)
from naperian.types import INT, Scalar

_MOST = 1 << 60  # beside it a sum of data that is 2⁶² or more has its own sign


@node
class Test:
    """A comparison that is right where it holds and, if it is `whole`, where it does not."""

    build: Build
    whole: bool = True


def believed(
    w: Walk, name: str, args: list[Typed], result: Typed, said: Condition
) -> Condition | None:
    """What a comparison says. One that may wrap says it in doubt: if a proof needs it, it is made
    so that nothing wraps."""
    x, y = args[0].poly, args[1].poly
    if x is None or y is None or (fits(w, x) and fits(w, y)):
        return said
    plain, doubt = result.build, Doubt()
    made = _test(w, name, w.solver.zonk_size(x - y), plain)
    if made is None or not made.whole:
        w.doubted.append((x - y, result.span))
    if made is None:
        return None
    exact = wrap(args[0].lets + args[1].lets, made.build)
    result.build = lambda: exact() if doubt.needed else plain()

    def doubted(facts: tuple[Size | Apart | Doubted, ...]) -> tuple[Doubted, ...]:
        return tuple([Doubted(f, doubt) for f in facts if isinstance(f, Size)])

    return Condition(doubted(said.then), doubted(said.otherwise) if made.whole else ())


def exactly_equal(w: Walk, s: Size) -> bool:
    """Whether the integer that a run computes equals a number just where the polynomial does."""
    if fits(w, s):
        return True
    match apart(w, s):
        case [((_,), 1 | -1)], rest:
            return -_MOST < rest.offset < _MOST
        case _:
            return False


def extremum(w: Walk, name: str, args: list[Typed], result: Typed) -> None:
    """The larger or the smaller of two numbers as a polynomial, in which nothing wraps: where their
    difference may, it is a name, of which is known what is true of it."""
    a, b = (x.poly for x in args)
    if a is None or b is None:
        return
    if apart(w, b)[0] and (not apart(w, a)[0] or not fits(w, b)):
        a, b = b, a  # data from which another number is taken stops at its end, which is right
    s = b + natural(a - b) if name == "max" else a - natural(a - b)
    lets = args[0].lets + args[1].lets
    if stops(w, a - b):
        result.poly, result.lets = s, lets
        return
    v, build = w.extrema.setdefault(s, stands_for(w, name, result.span)), result.build
    result.build = once = Once(build, lambda: core.Ref(v))
    if fits(w, b):  # so is the integer: it is no less, or no more
        sign = 1 if name == "max" else -1
        w.scope.assume((atom(v) - b) * sign)
        if fits(w, a):
            w.scope.assume(s - atom(v), atom(v) - s)
        elif not apart(w, b)[0] and (exact := _nearer(w, a, b, sign)) is not None:
            w.scope.assume((s - atom(v)) * sign)
            build = wrap(lets, exact)
    result.poly, result.lets = atom(v), ((v, Value(build, once)),)


def _nearer(w: Walk, a: Size, b: Size, sign: int) -> Build | None:
    """`a` if it is beyond `b`, but no further than indices are, and else `b`."""
    beyond, far = holds(w, (a - b) * sign), holds(w, a * sign - FAR)
    if beyond is None or far is None or not (beyond.whole and far.whole):
        return None
    first, second = beyond.build, far.build
    end = Size((((), FAR * sign),))
    return lambda: core.If(
        first(), core.If(second(), core.Number(end), _number(w, a)), _number(w, b)
    )


def _test(w: Walk, name: str, d: Size, plain: Build) -> Test | None:
    """A comparison of `d` with 0 in which nothing wraps. Of numbers that are not large the `plain`
    one tells whether they are equal."""
    match name:
        case "ge":
            return holds(w, d)
        case "gt":
            return holds(w, d - 1)
        case "le":
            return holds(w, -d)
        case "lt":
            return holds(w, -d - 1)
        case _:
            return _equal(w, name, d, plain)


def holds(w: Walk, d: Size) -> Test | None:
    """A test whether `d` is at least 0, in which nothing wraps, if there is one."""
    data, rest = apart(w, d)
    if not -_MOST < rest.offset < _MOST:
        return None
    clamps = [a for m, _ in data for a in m if isinstance(a, Clamp) and a.extent == a.value + 1]
    for larger in clamps:  # max(value, 0)
        value = larger.value
        if len(data) > 1 or not stops(w, value):
            return _either(holds(w, value), *(holds(w, _at(d, larger, v)) for v in (value, ZERO)))
    match data:
        case []:
            return _op(w, "ge", rest, ZERO)
        case [((a,), c)] if c > 0:
            return _op(w, "ge", atom(a), -(rest // c))
        case [((a,), c)]:
            return _op(w, "le", atom(a), rest // -c)
        case _:
            return _small(w, "ge", data, _op(w, "ge", d, ZERO).build)


def _equal(w: Walk, name: str, d: Size, plain: Build) -> Test | None:
    """Whether `d` is 0, or is not."""
    data, rest = apart(w, d)
    if not -_MOST < rest.offset < _MOST:
        return None
    match data:
        case []:
            return _op(w, name, rest, ZERO)
        case [((a,), 1 | -1 as c)]:
            return _op(w, name, atom(a), rest * -c)
        case _:
            return _small(w, name, data, plain)


def _small(w: Walk, name: str, data: list[Term], near: Build) -> Test:
    """The comparison where no sum of the data wraps. Elsewhere the sum is rounded: of a single
    product, or of sums alone, that leaves the sign."""
    signed = len(data) == 1 or all(len(m) == 1 for m, _ in data)

    def rounded(m: Monomial, c: int) -> core.Expr:
        term: core.Expr = core.Const(Lit(float(c), DType.F64))
        for a in m:
            term = core.Op("mul", (term, core.Op("cast", (_number(w, atom(a)),), _F64)), _F64)
        return term if signed else core.Op("abs", (term,), _F64)

    def build() -> core.Expr:
        value = reduce(lambda x, y: core.Op("add", (x, y), _F64), [rounded(*t) for t in data])
        if not signed or name == "eq":
            return core.If(_is_small(value), near(), _FALSE)
        total = Var("rounded")
        above = core.Op("gt", (core.Ref(total), _NONE), _F64)
        far = above if name == "ge" else _TRUE
        return core.Let(total, value, core.If(_is_small(core.Ref(total)), near(), far))

    return Test(build, signed)


def _is_small(x: core.Expr) -> core.Expr:
    return core.Op("lt", (core.Op("abs", (x,), _F64), _LARGE), _F64)


def _either(which: Test | None, then: Test | None, other: Test | None) -> Test | None:
    if which is None or then is None or other is None or not which.whole:
        return None
    a, b, c = which.build, then.build, other.build
    return Test(lambda: core.If(a(), b(), c()), then.whole and other.whole)


def _op(w: Walk, name: str, x: Size, y: Size) -> Test:
    return Test(lambda: core.Op(name, (_number(w, x), _number(w, y)), INT))


def _number(w: Walk, s: Size) -> core.Expr:
    return core.Number(w.solver.zonk_size(s))


def _at(d: Size, a: Atom, value: Size) -> Size:
    return substitute(d, lambda b: value if b == a else None)


_F64 = Scalar(DType.F64)
_LARGE = core.Const(Lit(float(1 << 62), DType.F64))
_NONE = core.Const(Lit(0.0, DType.F64))
_ZERO = core.Const(Lit(0, DType.I64))
_TRUE = core.Const(Lit(True, DType.BOOL))
_FALSE = core.Const(Lit(False, DType.BOOL))
