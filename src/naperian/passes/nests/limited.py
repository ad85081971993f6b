"""A loop ends where its rounds have nothing more to do. loops → loops

    before   for j in 0..n:                    after    safe = i > 0 and i < 2^30 and …
                 inside = i * j < k                     rounds = (k - 1) // max(i, 1) + 1 if safe
                 if inside: store p[i * j] = 0                   else n
                                                        for j in 0..clamp(rounds, n + 1):
                                                            …

All that a round does hangs on comparisons, and one of them holds in the first rounds only, or in
the last ones only, since an index is multiplied in it by what is positive. So a sieve whose text
asks whether a multiple is there takes as many rounds as there are multiples. The comparison is
still asked, which costs little; where numbers are so large that a product might wrap around, all
rounds are made, because there it may hold again. A loop that compares its index itself is cut
(`cut`, `independent`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Let,
    Local,
    Loop,
    Number,
    Order,
    Stmt,
    Variable,
    When,
)
from naperian.loops.walk import all_of, conjuncts, rebuild, used, used_in, whole
from naperian.names import Lit, Var
from naperian.node import node, replace
from naperian.passes.nests.once import changed, loaded
from naperian.sizes import ONE, ZERO, Atom, Size, atom, clamp, size

_SHORT = 16  # rounds, where their number is known
_BITS = 62  # of an integer that a sum of products may need without wrapping around


def limited(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    out: list[Stmt] = []
    for s in body:
        s = rebuild(s, limited)
        out += _within(s) if isinstance(s, Loop) and s.order is not Order.LANES else (s,)
    return tuple(out)


@node
class _Limit:
    """`rest` + `step` * index >= 0 is asked, where `step` is positive if `last` is False, and
    negative if it is True; no integer wraps around while the `atoms` of what is compared need no
    more than `bits`."""

    step: Size
    rest: Size
    last: bool
    atoms: tuple[Atom, ...]
    bits: int


def _within(s: Loop) -> Iterator[Stmt]:
    """The loop over the rounds that may do something, and what says which these are."""
    trips = (s.high - s.low).constant
    if trips is None or trips >= _SHORT:
        asked = _asked(s.body, {})
        moved = changed(s) if asked else set()
        limits = [x for e in asked if (x := _limit(e, s, moved)) is not None]
        for last in (True, False):  # where it ends is told first: it begins before
            found = next((x for x in limits if x.last == last), None)
            if found is not None:
                lets, s = _ended(found, s)
                yield from lets
    yield s


def _asked(body: tuple[Stmt, ...], named: Mapping[Var, Expr]) -> dict[Expr, None]:
    """The conditions without each of which the statements do nothing."""
    names = dict(named)
    found: dict[Expr, None] | None = None
    for s in body:
        match s:
            case Let(v, _, value):
                names[v] = value
                continue
            case Variable():
                continue
            case When(condition, then, ()):
                mine = dict.fromkeys(_parts(condition, names)) | _asked(then, names)
            case Assign(v, value):
                own = names.get(value.var, value) if isinstance(value, Local) else value
                some = _changes(v, own)
                mine = {} if some is None else dict.fromkeys(_parts(some, names))
            case _:
                return {}
        found = mine if found is None else {c: None for c in found if c in mine}
        if not found:
            return {}
    return found or {}


def _changes(v: Var, value: Expr) -> Expr | None:
    """Where a variable gets another value, if that is a condition."""
    match value:
        case Apply("select", (c, _, Local(same))) if same == v:
            return c
        case Apply(name, (Local(same), Apply("select", (c, _, Lit() as e))), t) if same == v:
            return c if name == "add" and not t.is_float and e == Lit(0, t) else None
        case _:
            return None


def _parts(e: Expr, names: Mapping[Var, Expr]) -> Iterator[Expr]:
    """The conditions that must all hold, by what they are."""
    for c in conjuncts(e):
        match c:
            case Local(v) if v in names:
                yield from _parts(names[v], names)
            case Apply("and", (a, b)):
                yield from _parts(a, names)
                yield from _parts(b, names)
            case Apply(_, (x, y), DType.BOOL, DType.I64):
                yield replace(c, args=(_put(x, names), _put(y, names)))
            case _:
                yield c


def _put(e: Expr, names: Mapping[Var, Expr]) -> Expr:
    """An integer as it is computed."""
    match e:
        case Local(v) if v in names:
            return _put(names[v], names)
        case Apply("add" | "sub" | "mul", (x, y), DType.I64):
            return replace(e, args=(_put(x, names), _put(y, names)))
        case _:
            return e


def _limit(e: Expr, s: Loop, moved: set[Var]) -> _Limit | None:
    """What a comparison says of the rounds of a loop in which `moved` is not steady."""
    match e:
        case Apply("lt" | "le" as name, (x, y), _, DType.I64):
            low, high = _size(x), _size(y)
        case Apply("gt" | "ge" as name, (y, x), _, DType.I64):
            low, high = _size(x), _size(y)
        case _:
            return None
    if low is None or high is None:
        return None
    if loaded(e) or not (moved - {s.var}).isdisjoint(used(e)):
        return None
    fact = high - low - (ONE if name in ("lt", "gt") else ZERO)
    step, rest = ZERO, ZERO
    for m, c in fact.terms:
        others = tuple(a for a in m if a != s.var)
        if any(s.var in used_in(atom(a)) for a in others) or len(m) - len(others) > 1:
            return None
        if len(others) < len(m):
            step += Size(((others, c),))
        else:
            rest += Size(((m, c),))
    signs = {c > 0 for _, c in step.terms}
    if len(signs) != 1 or step.constant is not None:
        return None
    terms = (*low.terms, *high.terms)
    atoms = dict.fromkeys(a for m, _ in terms for a in m if a != s.var)
    degree = max(len(m) for m, _ in terms)
    weight = sum(abs(c) for _, c in terms) + 1
    bits = (_BITS - weight.bit_length()) // degree
    return _Limit(step, rest, not signs.pop(), tuple(atoms), bits) if bits > 0 else None


def _size(e: Expr) -> Size | None:
    """An integer as a polynomial."""
    match e:
        case Number(value):
            return value
        case Local(v):
            return size(v)
        case Lit(value):
            return size(int(value))
        case Apply("add" | "sub" | "mul" as name, (e, f), DType.I64):
            x, y = _size(e), _size(f)
            if x is None or y is None:
                return None
            return x + y if name == "add" else x - y if name == "sub" else x * y
        case _:
            return None


def _ended(x: _Limit, s: Loop) -> tuple[tuple[Stmt, ...], Loop]:
    """The loop from where a comparison begins to hold, or to where it does no longer."""
    factor = -x.step if x.last else x.step
    tests = [_test("gt", factor, ZERO)]
    for n in (*map(atom, x.atoms), s.low, s.high):
        if n.constant is None:
            tests += [_test("ge", n, size(-(1 << x.bits))), _test("le", n, size(1 << x.bits))]
    safe = Let(Var("safe"), DType.BOOL, all_of(list(dict.fromkeys(tests))))
    by = whole("max", Number(factor), Lit(1, DType.I64))
    place = Let(Var("border"), DType.I64, whole("floordiv", Number(x.rest), by))
    at, rounds = size(place.var), s.high - s.low
    # (rest // factor) is the last, and -(rest // factor) the first for which it holds
    mine, all_ = (at + 1 - s.low, rounds) if x.last else (-at - s.low, ZERO)
    count = Let(Var("rounds"), DType.I64, Apply(
        "select", (Local(safe.var), Number(mine), Number(all_)), DType.I64, DType.I64
    ))  # fmt: skip
    there = s.low + clamp(size(count.var), rounds + 1)
    loop = replace(s, high=there) if x.last else replace(s, low=there)
    return (safe, place, count), loop


def _test(name: str, x: Size, y: Size) -> Expr:
    return Apply(name, (Number(x), Number(y)), DType.BOOL, DType.I64)
