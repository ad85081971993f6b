"""A run that meets an index outside its set ends there. loops → loops

    before   parallel for i in 0..n reducing add out, or outside:
                 update out[clamp(key[i], m)] += 1
                 outside := outside or key[i] != clamp(key[i], m)
             fail OUTSIDE if outside

    after    parallel for i in 0..n reducing add out:
                 fail OUTSIDE if key[i] != clamp(key[i], m)
                 update out[key[i]] += 1

Once the flag is set nobody wants the results, so nothing needs to go on; and behind the test a key
is in its set, so that it need not be clamped. A test and a branch that is never taken cost nothing
beside the access they guard, but a loop with a way out is not done in vectors. One that gains by
vectors, because it calculates, or waits for memory, keeps a flag of its own:

    before   for i in 0..n reducing or outside:
                 for e in 0..k reducing add v, or outside:
                     v := v + x[clamp(key[i, e], m)]
                     outside := outside or key[i, e] != clamp(key[i, e], m)

    after    for i in 0..n:
                 var outside_2 = False
                 for e in 0..k reducing add v, or outside_2:
                     v := v + x[clamp(key[i, e], m)]
                     outside_2 := outside_2 or key[i, e] != clamp(key[i, e], m)
                 fail OUTSIDE if outside_2

and goes in strips if it is not in a loop already. A strip's keys stay in the first cache, so they
are tested beforehand, if they are there before the loop, and what reads them need not clamp:

    before   parallel for i in 0..n reducing or outside:
                 store y[i] = x[clamp(key[i], m)]
                 outside := outside or key[i] != clamp(key[i], m)

    after    parallel for strip in 0..⌈n / 2048⌉:
                 var outside_2 = False
                 free for i in the strip reducing or outside_2:
                     outside_2 := outside_2 or key[i] != clamp(key[i], m)
                 fail OUTSIDE if outside_2
                 free for i in the strip:
                     store y[i] = x[key[i]]

A loop that does nothing but test a whole array comes first; then no reader of it has to clamp.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from naperian.ainf.syntax import OUTSIDE
from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Contract,
    Expr,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Print,
    Sort,
    Stmt,
    Update,
    Variable,
    While,
)
from naperian.loops.walk import (
    expressions,
    gathers,
    mentions,
    parts,
    rebuild,
    remade,
    statements,
    used,
    writes,
)
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.nests.strips import STRIP, in_strips
from naperian.prims import PRIMITIVES
from naperian.sizes import ZERO, Atom, Clamp, Size, size

_WORK = 4  # additions in an iteration that are worth vectors


def outside(
    body: tuple[Stmt, ...], sizes: tuple[Var, ...], inputs: Iterable[Buffer]
) -> tuple[Stmt, ...]:
    """The statements of a program with these sizes and IN buffers."""
    flags = frozenset(v for s in body if (v := _asked(s)) is not None)
    if not flags:
        return body
    shapes = {b.var: b.shape for b in inputs}
    known = flags | frozenset(sizes) | frozenset(shapes)
    tests = tuple(s for s in body if isinstance(s, Loop) and _only_tests(s, flags, known))
    whole = {x for s in tests for x in _whole(s, flags, shapes, {})}

    def undone(a: Atom) -> Size | None:
        match a:
            case Clamp(value, extent):
                key = value.single
                return value if isinstance(key, Load) and (key.buffer, extent) in whole else None
            case _:
                return None

    rest = remade([s for s in body if s not in tests], undone)
    made = _block((*tests, *rest), flags, False)
    idle = flags - {s.var for s in statements(made) if isinstance(s, Assign)}
    return tuple(
        s for s in made if _asked(s) not in idle and not (isinstance(s, Variable) and s.var in idle)
    )


def _asked(s: Stmt) -> Var | None:
    """The flag that a statement ends the run for."""
    if isinstance(s, Fail) and s.code == OUTSIDE:
        match s.condition:
            case Local(v) | Apply("not", (Apply("not", (Local(v),)),)):
                return v
            case _:
                pass
    return None


def _found(s: Stmt, flags: frozenset[Var]) -> Expr | None:
    """The condition under which a statement sets a flag."""
    match s:
        case Assign(v, Apply("or", (Local(w), condition))) if v == w and v in flags:
            return condition
        case _:
            return None


def _tested(condition: Expr) -> Clamp | None:
    """The clamp that changes nothing if a condition is false."""
    match condition:
        case Apply("ne", (Load() as key, Number(at))):
            a = at.single
            return a if isinstance(a, Clamp) and a.value.single == key else None
        case _:
            return None


# --- loops that only test -----------------------------------------------------------------------


def _only_tests(s: Stmt, flags: frozenset[Var], known: frozenset[Var]) -> bool:
    """Whether loops do nothing but set flags, by what is known before the program."""
    if isinstance(s, Loop):
        known = known | {s.var}
        return mentions(s) <= known and all(_only_tests(x, flags, known) for x in s.body)
    return _found(s, flags) is not None


def _whole(
    s: Stmt,
    flags: frozenset[Var],
    shapes: Mapping[Var, tuple[Size, ...]],
    extents: Mapping[Size, Size],
) -> Iterator[tuple[Var, Size]]:
    """The arrays that such loops test as a whole, and the sizes of their sets."""
    if isinstance(s, Loop):
        inside = {**extents, size(s.var): s.high} if s.low == ZERO else extents
        for x in s.body:
            yield from _whole(x, flags, shapes, inside)
        return
    condition = _found(s, flags)
    clamped = None if condition is None else _tested(condition)
    if clamped is not None:
        key = clamped.value.single
        assert isinstance(key, Load)
        once = len(set(key.at)) == len(key.at)
        if once and tuple(extents.get(e) for e in key.at) == shapes[key.buffer]:
            yield key.buffer, clamped.extent


# --- where the others end -----------------------------------------------------------------------


def _block(body: Iterable[Stmt], flags: frozenset[Var], inside: bool) -> tuple[Stmt, ...]:
    """A block, `inside` a loop or not: tests as early as they can be, no clamps behind them."""
    out: list[Stmt] = []
    for s in body:
        condition = _found(s, flags)
        if condition is not None and inside:
            out.insert(_earliest(out, condition), Fail(condition, OUTSIDE))
        elif isinstance(s, Loop):
            out += _loop(s, flags, inside)
        else:
            deeper = inside or isinstance(s, While)
            out.append(rebuild(s, partial(_block, flags=flags, inside=deeper)))
    sure: set[Clamp | None] = set()
    for k, s in enumerate(out):
        if sure:
            (out[k],) = _behind(sure, [s])
        if isinstance(s, Fail) and s.code == OUTSIDE:
            sure.add(_tested(s.condition))
    return tuple(out)


def _earliest(before: list[Stmt], condition: Expr) -> int:
    """Where a condition can be tested: behind what it uses, and behind other tests, which may be
    what makes its own reads safe."""
    wanted = set(used(condition))
    for k in range(len(before), 0, -1):
        for s in statements((before[k - 1],)):
            if isinstance(s, Fail | Print) or _made(s) in wanted:
                return k
    return 0


def _made(s: Stmt) -> Var | None:
    """What a statement itself binds or changes."""
    match s:
        case Let(v) | Variable(v) | Assign(v):
            return v
        case Allocate(buffer):
            return buffer.var
        case _:
            return writes(s)


def _loop(s: Loop, flags: frozenset[Var], inside: bool) -> tuple[Stmt, ...]:
    mine = [x.var for x in statements(s.body) if isinstance(x, Assign) and x.var in flags]
    if not mine:
        return (s,)
    if not _gains(s, flags):
        reductions = tuple(r for r in s.reductions if r.var not in flags)
        return (replace(s, body=_block(s.body, flags, True), reductions=reductions),)
    own = {v: fresh(v) for v in mine}

    def alone(s: Loop) -> tuple[Stmt, ...]:
        reductions = tuple(replace(r, var=own.get(r.var, r.var)) for r in s.reductions)
        return (
            *(Variable(v, DType.BOOL, Lit(False, DType.BOOL)) for v in own.values()),
            replace(s, body=_renamed(s.body, own), reductions=reductions),
            *(Fail(Local(v), OUTSIDE) for v in own.values()),
        )

    if inside:
        return alone(s)
    strip = Var("strip")
    count, low, high = in_strips(s, strip)
    sums = tuple(r for r in s.reductions if r.var not in flags)
    here = replace(s, low=low, high=high, order=Order.FREE)
    tests = tuple(x for x in s.body if isinstance(x, Assign) and x.var in flags)
    if len(tests) == len(mine) < len(s.body) and _are_there(tests, s.body):
        asked = tuple(r for r in s.reductions if r.var in flags)
        sure = {_tested(c) for x in tests if (c := _found(x, flags)) is not None}
        rest = _behind(sure, [x for x in s.body if x not in tests])
        body = (
            *alone(replace(here, body=tests, reductions=asked)),
            replace(here, body=rest, reductions=sums),
        )
    else:
        body = alone(here)
    return (Loop(strip, ZERO, count, body, s.order, sums, s.work * STRIP),)


def _are_there(tests: Sequence[Assign], body: tuple[Stmt, ...]) -> bool:
    """Whether tests read nothing that the body of their loop makes or writes."""
    made = {_made(x) for x in statements(body) if x not in tests}
    return made.isdisjoint(v for x in tests for v in used(x.value))


def _behind(sure: Collection[Clamp | None], body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Statements behind tests that were passed: these clamps change nothing."""

    def undone(a: Atom) -> Size | None:
        return a.value if isinstance(a, Clamp) and a in sure else None

    return remade(body, undone)


def _gains(s: Loop, flags: frozenset[Var]) -> bool:
    """Whether an innermost loop is better done in vectors than left at the first key outside."""
    if s.order is Order.SERIAL:
        return False
    work = 0
    for x in statements(s.body):
        if isinstance(x, Loop | While | Contract | Sort | Update):
            return False
        if _found(x, flags) is None:
            for e in (e for top in expressions(x) for e in parts(top)):
                if isinstance(e, Apply) and e.name in PRIMITIVES:
                    work += PRIMITIVES[e.name].cost
    return work >= _WORK or any(r.var not in flags for r in s.reductions) or gathers(s)


def _renamed(body: tuple[Stmt, ...], names: Mapping[Var, Var]) -> tuple[Stmt, ...]:
    """Statements that set other flags."""

    def renamed(s: Stmt) -> Stmt:
        condition = _found(s, frozenset(names))
        if condition is None or not isinstance(s, Assign):
            return rebuild(s, lambda block: _renamed(block, names))
        v = names[s.var]
        return Assign(v, Apply("or", (Local(v), condition), DType.BOOL, DType.BOOL))

    return tuple(renamed(s) for s in body)
