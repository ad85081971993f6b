"""A parallel loop that scatters goes in strips, and what of it can be done in vectors is. loops →
loops

    before   parallel for i in 0..n reducing add out, or outside:
                 update out[clamp(key[i], m)] += exp(x[i])
                 outside := outside or key[i] != clamp(key[i], m)

    after    parallel for s in 0..⌈n / 2048⌉ reducing add out, or outside:
                 allocate small value[2048]
                 free for i in strip s:
                     store value[i - 2048 s] = exp(x[i])
                 for i in strip s:
                     update out[clamp(key[i], m)] += value[i - 2048 s]
                     outside := outside or key[i] != clamp(key[i], m)

Flags stay with what scatters: there they end the run (`outside.py`), and the keys behind them are
not clamped. An inner loop that does nothing but scatter goes in strips, too, if its places take
long to compute: votes for lines through a point, whose counts vectors would gather and scatter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Expr,
    Let,
    Load,
    Loop,
    Number,
    Order,
    Role,
    Stmt,
    Store,
    Update,
    When,
)
from naperian.loops.walk import loads, mentions, parts, rebuild_loops, used, used_in
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.prims import PRIMITIVES
from naperian.sizes import ZERO, Clamp, Size, clamp, size

STRIP = 2048  # iterations; a buffer for them fits the first cache beside much else
_LEAST = 16  # iterations of an inner loop, where their number is known
_MUCH = 8  # operations that only what is added needs
_DEAR = 4  # an operation that is better done in vectors, in additions


def strips(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program, its outermost parallel loops rewritten, or what is in them."""
    out: list[Stmt] = []
    for s in body:
        cut = _strips(s) if isinstance(s, Loop) else s
        out.append(rebuild_loops(s, _within) if cut is s else cut)
    return tuple(out)


def _within(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a block, its loops that do nothing but scatter in strips."""
    out: list[Stmt] = []
    for s in body:
        inner, when = _under(s) if isinstance(s, Loop) else (s, None)
        if isinstance(inner, Loop) and _only_scatters(inner):
            cut = _scattering(inner)
            out.append(s if cut is inner else cut if when is None else When(when, (cut,), ()))
        else:
            out.append(rebuild_loops(s, _within))
    return tuple(out)


def _under(s: Loop) -> tuple[Loop, Expr | None]:
    """A loop whose rounds do nothing unless a condition holds that is none of theirs: without it,
    and the condition."""
    lets = [x for x in s.body if isinstance(x, Let)]
    own = {s.var, *(x.var for x in lets)}
    match [x for x in s.body if not isinstance(x, Let)]:
        case [When(condition, then, ())] if own.isdisjoint(used(condition)):
            return replace(s, body=(*lets, *then)), condition
        case _:
            return s, None


def _only_scatters(s: Loop) -> bool:
    """Whether a loop does nothing else but store along arrays, and reads nothing that it
    changes."""
    few = (s.high - s.low).constant
    if s.order is Order.PARALLEL or s.reductions or (few is not None and few < _LEAST):
        return False
    updates = [x for x in s.body if isinstance(x, Update)]
    stores = [x for x in s.body if isinstance(x, Store)]
    changed = {x.buffer for x in updates} | {x.buffer for x in stores}
    return (
        bool(updates)
        and len(changed) == len(stores) + len({x.buffer for x in updates})
        and all(isinstance(x, Let) or x in stores or _scatters(x) for x in s.body)
        and all(_goes_along(s, x) for x in stores)
        and all(changed.isdisjoint(y.buffer for y in loads(x)) for x in s.body)
        and not any(_dear(x.value) for x in updates)
        and _only_for_values(s, updates) < _MUCH
    )


def _only_for_values(s: Loop, updates: list[Update]) -> int:
    """What a round computes for what it adds, beside what says where: of much of that vectors are
    made elsewhere (`deferred`)."""
    places = [v for x in updates for e in x.at for v in used_in(e)]
    values = [v for x in updates for v in used(x.value)]
    there, wanted = _with_needed(s, places), _with_needed(s, values)
    made = [x.value for x in s.body if isinstance(x, Let) and x.var in wanted - there]
    found = (y for e in (*made, *(x.value for x in updates)) for y in parts(e))
    return sum(isinstance(y, Apply) for y in found)


def _with_needed(s: Loop, names: Iterable[Var]) -> set[Var]:
    """Names of a round, and those that they are made of."""
    needed = set(names)
    for x in reversed(s.body):
        if isinstance(x, Let) and x.var in needed:
            needed |= mentions(x)
    return needed


def _goes_along(s: Loop, x: Store) -> bool:
    """Whether every round stores somewhere else."""
    own = {s.var, *(y.var for y in s.body if isinstance(y, Let))}
    return any(
        e.coefficient(s.var) and own.isdisjoint(used_in(e - size(s.var) * e.coefficient(s.var)))
        for e in x.at
    )


def _scattering(s: Loop) -> Loop:
    strip = Var("strip")
    count, low, high = in_strips(s, strip)
    scattered = [x for x in s.body if isinstance(x, Update)]
    rest: list[Stmt] = [x for x in s.body if isinstance(x, Store)]
    buffers, stores, made = _second(s, list(scattered), size(s.var) - low)
    if not rest and not stores:
        return s
    first = _with_lets(s, [*rest, *stores], rest)
    vectors = Loop(s.var, low, high, (*first, *stores), Order.FREE, (), s.work)
    scatter = Loop(s.var, low, high, tuple(made), Order.SERIAL, (), s.work)
    body: tuple[Stmt, ...] = (*buffers, vectors, scatter)
    return Loop(strip, ZERO, count, body, Order.SERIAL, (), s.work * STRIP)


def _strips(s: Loop) -> Loop:
    flags = {r.var for r in s.reductions if r.monoid == "or"}
    hard = hard_to_find(s.body)
    scattered = [x for x in s.body if _scatters(x, hard)]
    second = [x for x in s.body if _is_flag(x, flags) or x in scattered]
    rest: list[Stmt] = [x for x in s.body if not isinstance(x, Let) and x not in second]
    simple = all(isinstance(x, Assign | Store) for x in rest)
    if s.order is not Order.PARALLEL or not scattered or not simple:
        return s
    strip = Var("strip")
    count, low, high = in_strips(s, strip)
    buffers, stores, made = _second(s, second, size(s.var) - low)
    if not rest and not stores:
        return s
    first = _with_lets(s, [*rest, *stores], rest)
    apart = {r.var for r in s.reductions if any(r.var in mentions(x) for x in second)}
    sums = tuple(r for r in s.reductions if r.var not in apart)
    vectors = Loop(s.var, low, high, (*first, *stores), Order.FREE, sums, s.work)
    scatter = Loop(s.var, low, high, tuple(made), Order.SERIAL, (), s.work)
    body: tuple[Stmt, ...] = (*buffers, vectors, scatter)
    return Loop(strip, ZERO, count, body, Order.PARALLEL, s.reductions, s.work * STRIP)


def in_strips(s: Loop, strip: Var, rounds: int = STRIP) -> tuple[Size, Size, Size]:
    """How many strips of so many rounds a loop has, and where one of them begins and ends."""
    few = (s.high - s.low).constant
    if few is not None and 0 < few <= rounds:
        return size(1), s.low, s.high
    low = s.low + size(strip) * rounds
    high = low + clamp(s.high - low, size(rounds + 1))
    return (s.high - s.low + rounds - 1) // rounds, low, high


def _is_flag(s: Stmt, flags: set[Var]) -> bool:
    return isinstance(s, Assign) and s.var in flags


def _scatters(s: Stmt, hard: Collection[Var] = ()) -> bool:
    """Whether a statement only updates places that are read from memory, or take long to find."""
    match s:
        case Update(_, at):
            return any(isinstance(a, Load | Clamp) or a in hard for e in at for a in e.atoms)
        case When(_, then, otherwise):
            return all(_scatters(x, hard) for x in (*then, *otherwise))
        case _:
            return False


def _second(
    s: Loop, scattered: list[Stmt], at: Size
) -> tuple[list[Allocate], list[Store], list[Stmt]]:
    """What scatters, with what it needs: cheap values are computed again; dear ones, and places
    that hang on such, come from buffers, which the stores fill."""
    buffers: list[Allocate] = []
    stores: list[Store] = []

    def kept(name: Var, dtype: DType, value: Expr) -> Expr:
        b = Buffer(fresh(name), dtype, (size(STRIP),), Role.TEMP)
        buffers.append(Allocate(b, small=True))
        stores.append(Store(b.var, (at,), value))
        return Load(b.var, (at,))

    hard = hard_to_find(s.body)

    def placed(e: Size) -> Size:
        if hard.isdisjoint(used_in(e)):
            return e
        place = Var("place")
        made.append(Let(place, DType.I64, kept(place, DType.I64, Number(e))))
        return size(place)

    made: list[Stmt] = []
    for x in scattered:
        if isinstance(x, Update):
            x = replace(x, at=tuple(map(placed, x.at)))
        if isinstance(x, Update) and _dear(x.value):
            assert isinstance(x.value, Apply)  # of what is dear
            x = replace(x, value=kept(Var("value"), x.value.dtype, x.value))
        made.append(x)
    needed = {v for x in made for v in mentions(x)}
    for x in reversed(s.body):
        if isinstance(x, Let) and x.var in needed:
            if _dear(x.value):
                x = replace(x, value=kept(x.var, x.dtype, x.value))
            needed |= mentions(x)
            made.insert(0, x)
    return buffers, stores, made


def _with_lets(s: Loop, wanted: list[Stmt], rest: list[Stmt]) -> list[Stmt]:
    """The rest of a loop's body in its order, with the bindings that the wanted need."""
    needed = {v for x in wanted for v in mentions(x)}
    made: list[Stmt] = []
    for x in reversed(s.body):
        if x in rest:
            made.insert(0, x)
        elif isinstance(x, Let) and x.var in needed:
            needed |= mentions(x)
            made.insert(0, x)
    return made


def hard_to_find(body: tuple[Stmt, ...]) -> set[Var]:
    """The names of what takes long, and of what is made of that."""
    found: set[Var] = set()
    for x in body:
        if isinstance(x, Let) and (_dear(x.value) or not found.isdisjoint(mentions(x))):
            found.add(x.var)
    return found


def _dear(e: Expr) -> bool:
    """Whether something in an expression takes long. So does a float made an integer, which asks
    whether there is one."""
    return any(
        isinstance(x, Apply)
        and (
            (x.name in PRIMITIVES and PRIMITIVES[x.name].cost >= _DEAR)
            or (x.name == "cast" and x.operand.is_float and x.dtype.is_integer)
        )
        for x in parts(e)
    )
