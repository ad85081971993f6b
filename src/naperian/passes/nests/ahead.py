"""Indices are checked eight at a time, before the rounds that go by them. loops → loops

    before   parallel for i in 0..n reducing add h:
                 fail OUTSIDE if k[i] != clamp(k[i], m)
                 update h[k[i]] += w[i]

    after    parallel for eight in 0..n // 8 reducing add h:
                 var odd = False
                 free for i in 8 eight..8 eight + 8 reducing or odd: odd := odd or k[i] != …
                 fail OUTSIDE if odd
                 update h[k[8 eight]] += w[8 eight]
                 …
                 update h[k[8 eight + 7]] += w[8 eight + 7]
             for i in 8 (n // 8)..n: as before

The check is a vector then, and the rounds wait for memory: the fewer instructions each of them is,
the more of them are under way at once. Longer ones go in strips of some hundred, behind their
checks. That failure says all by its number, so it does not matter which round it comes from.

    before   for i in 0..n: for k in 0..e[i + 1] - e[i]:
                 fail OUTSIDE if c[k + e[i]] != clamp(c[k + e[i]], m)

    after    var odd = False
             free for i in 0..n reducing or odd: odd := odd or e[i + 1] - e[i] < 0
             if not odd:
                 free for k in e[0]..e[n] reducing or odd: odd := odd or c[k] != clamp(c[k], m)
             if odd: …                                                               as before

Short rows are a loop each, of which nobody foresees the end; together they are one long row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Fail,
    Let,
    Local,
    Loop,
    Number,
    Order,
    Reduction,
    Stmt,
    Update,
    Variable,
    When,
)
from naperian.loops.walk import (
    expressions,
    loads,
    parts,
    rebuild_loops,
    remade,
    used,
    used_in,
    writes,
)
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.nests.rounds import whole_rounds
from naperian.sizes import ZERO, Atom, Size, clamp, size

ROUNDS = 8  # whose keys are a vector
_SHORT = 16  # operations and operands of a round that is written out,
_FEW = 4  # and what it updates
_STRIP = 512  # longer rounds: what they read is in the nearest cache still


def ahead(body: tuple[Stmt, ...], sizes: Collection[Var]) -> tuple[Stmt, ...]:
    """The statements of a program of these sizes; see the module."""
    out: list[Stmt] = []
    for s in body:
        checks = _checks(s) if isinstance(s, Loop) else ()
        if isinstance(s, Loop) and checks:
            short = _is_short(s.body[len(checks) :])
            out += _at_once(s, checks, sizes) if short else (_in_strips(s, checks),)
        elif isinstance(s, Loop) and _only_checks(s):
            out += _as_vectors(s)
        elif isinstance(s, Loop) and (whole := _of_rows(s)):
            out += whole
        else:
            out.append(rebuild_loops(s, lambda b: ahead(b, sizes)))
    return tuple(out)


def _only_checks(s: Loop) -> bool:
    """Whether a loop does nothing but check."""
    plain = all(isinstance(x, Fail) and x.code < 0 and not x.values for x in s.body)
    return plain and bool(s.body) and s.order is not Order.SERIAL and not s.reductions


def _as_vectors(s: Loop) -> tuple[Stmt, ...]:
    """The loop, which looks at all and then fails."""
    odd, code = Var("odd"), next(x.code for x in s.body if isinstance(x, Fail))
    flag = Reduction(odd, "or", DType.BOOL)
    return (
        Variable(odd, DType.BOOL, Lit(False, DType.BOOL)),
        replace(s, body=(_noted(s.body, odd),), reductions=(flag,)),
        Fail(Local(odd), code),
    )


def _noted(checks: tuple[Stmt, ...], odd: Var) -> Assign:
    """Whether one of the checks would fail."""
    conditions = [x.condition for x in checks if isinstance(x, Fail)]
    return _either(odd, *conditions)


def _either(odd: Var, *conditions: Expr) -> Assign:
    bad: Expr = Local(odd)
    for x in conditions:
        bad = Apply("or", (bad, x), DType.BOOL, DType.BOOL)
    return Assign(odd, bad)


def _checks(s: Loop) -> tuple[Fail, ...]:
    """The checks with which a round begins, if there is nothing else that may fail or take long and
    they hang on what the loop does not change."""
    count = 0
    while count < len(s.body) and isinstance(s.body[count], Fail):
        count += 1
    first, rest = s.body[:count], s.body[count:]
    if not first or not all(isinstance(x, Let | Update) for x in rest):
        return ()
    if not any(isinstance(x, Update) for x in rest) or (s.high - s.low).constant is not None:
        return ()
    changed = {writes(x) for x in rest}
    checks = tuple(x for x in first if isinstance(x, Fail) and x.code < 0 and not x.values)
    plain = all(changed.isdisjoint(used(x.condition)) for x in checks)
    return checks if plain and len(checks) == len(first) else ()


def _is_short(rest: Sequence[Stmt]) -> bool:
    """Whether rounds are written out: the body is there nine times."""
    updates = sum(isinstance(x, Update) for x in rest)
    size = sum(len(parts(e)) for x in rest for e in expressions(x))
    return updates <= _FEW and size <= _SHORT


def _at_once(s: Loop, checks: tuple[Fail, ...], sizes: Collection[Var]) -> tuple[Stmt, ...]:
    """The loop, eight rounds behind their checks, and what is left."""
    eight, odd, row = Var("eight"), Var("odd"), fresh(s.var)
    count = whole_rounds(s, ROUNDS, sizes)
    first, body = s.low + size(eight) * ROUNDS, s.body[len(checks) :]
    together = (
        *_looked(checks, s.var, row, (first, first + ROUNDS), odd),
        *(x for k in range(ROUNDS) for x in _round(s.var, body, first + k)),
    )
    whole = replace(s, var=eight, low=ZERO, high=count, body=together, work=s.work * ROUNDS)
    rest = replace(s, low=s.low + count * ROUNDS, order=Order.SERIAL, reductions=())
    return whole, rest


def _looked(
    checks: tuple[Fail, ...], v: Var, row: Var, ends: tuple[Size, Size], odd: Var
) -> tuple[Stmt, ...]:
    """The checks of some rounds, all of them first."""
    here: dict[Atom, Size] = {v: size(row)}
    flag = Reduction(odd, "or", DType.BOOL)
    return (
        Variable(odd, DType.BOOL, Lit(False, DType.BOOL)),
        Loop(row, *ends, remade((_noted(checks, odd),), here.get), Order.FREE, (flag,)),
        Fail(Local(odd), checks[0].code),
    )


def _in_strips(s: Loop, checks: tuple[Fail, ...]) -> Loop:
    """The loop, so many rounds at a time."""
    strip, stop, odd, row = Var("strip"), Var("end"), Var("odd"), fresh(s.var)
    low = s.low + size(strip) * _STRIP
    rounds = replace(
        s, low=low, high=size(stop), body=s.body[len(checks) :], order=Order.SERIAL, reductions=()
    )
    body: tuple[Stmt, ...] = (
        Let(stop, DType.I64, Number(low + clamp(s.high - low, size(_STRIP + 1)))),
        *_looked(checks, s.var, row, (low, size(stop)), odd),
        rounds,
    )
    count = (s.high - s.low + (_STRIP - 1)) // _STRIP
    return replace(s, var=strip, low=ZERO, high=count, body=body, work=s.work * _STRIP)


def _round(v: Var, body: tuple[Stmt, ...], at: Size) -> tuple[Stmt, ...]:
    """A round, at another place."""
    names = {x.var: fresh(x.var) for x in body if isinstance(x, Let)}

    def replaced(a: Atom) -> Size | None:
        if a == v:
            return at
        return size(names[a]) if isinstance(a, Var) and a in names else None

    return remade(body, replaced, names)


def _of_rows(s: Loop) -> tuple[Stmt, ...]:
    """A loop that checks what rows read that lie one after the other: if their ends ascend, all
    that they read as one row first."""
    match s.body:
        case (Loop(k, begin, high) as row,) if _only_checks(row) and s.low == begin == ZERO:
            pass
        case _:
            return ()
    read = [x for c in row.body for x in loads(c) if k in {v for i in x.at for v in used_in(i)}]
    starts = {i - k for x in read for i in x.at if k in used_in(i)}
    if s.order is Order.SERIAL or s.reductions or len(starts) != 1:
        return ()
    (start,) = starts
    after: dict[Atom, Size] = {s.var: size(s.var) + 1}
    if k in used_in(start) or _moved(start, after) != start + high:
        return ()
    p = fresh(k)
    here: dict[Atom, Size] = {k: size(p) - start}
    checks = remade(row.body, here.get)
    if any(s.var in used(x.condition) for x in checks if isinstance(x, Fail)):
        return ()
    odd = Var("odd")
    flag = (Reduction(odd, "or", DType.BOOL),)
    descends = Apply("lt", (Number(high), Number(ZERO)), DType.BOOL, DType.I64)
    ends = replace(s, body=(_either(odd, descends),), reductions=flag)
    first, last = (_moved(start, {s.var: i}) for i in (ZERO, s.high))
    all_ = Loop(p, first, last, (_noted(checks, odd),), s.order, flag)
    some = Apply("gt", (Number(s.high), Number(ZERO)), DType.BOOL, DType.I64)
    ascends = Apply("not", (Local(odd),), DType.BOOL, DType.BOOL)
    return (
        Variable(odd, DType.BOOL, Lit(False, DType.BOOL)),
        When(some, (ends, When(ascends, (all_,)), When(Local(odd), (s,)))),
    )


def _moved(x: Size, to: Mapping[Atom, Size]) -> Size:
    """An index expression elsewhere, also inside what it reads."""
    (made,) = remade((Let(Var("at"), DType.I64, Number(x)),), to.get)
    assert isinstance(made, Let)
    assert isinstance(made.value, Number)
    return made.value.value
