"""Rounds in which nothing changes are passed over some at a time, as vectors. loops → loops

    before   for j in 0..n:                    after    for b in 0..⌈n / 8⌉:
                 better = d[j] < best                       var some = 8 b + 8 > n
                 best := d[j] if better else best           if not some:
                 at := j if better else at                      free for j in 8 b..8 b + 8
                                                                        reducing or some:
                                                                    some := some or d[j] < best
                                                            if some:
                                                                for j in 8 b..min(8 b + 8, n):
                                                                    …                     as before

A loop that keeps the best so far waits for it in every round, and changes it in few: of `n` in any
order the best so far is replaced about log n times. As long as no round changes anything, what
rounds ask of it is what it was before the first of them.

The law holds for any condition, and it pays for records: a variable is compared with what it is
then replaced by. So also where there are several, or more is done when one is replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Program,
    Reduction,
    Stmt,
    Store,
    Variable,
    When,
)
from naperian.loops.walk import (
    assigned,
    expressions,
    loads,
    parts,
    rebuild_loops,
    remade,
    statements,
    used,
    used_in,
)
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.nests.handed import handed
from naperian.passes.nests.records import Rounds, not_
from naperian.passes.nests.tokens import Tokens
from naperian.passes.nests.unguarded import Shapes, Unguarded
from naperian.prims import PRIMITIVES, Math
from naperian.sizes import ZERO, Size, clamp, size

_MANY = 8  # rounds: a vector or two, since all of them are gone through where one changes something
_LEAST = 2 * _MANY
_DEAR = 12  # operations that are not worth doing once more


def rarely(program: Program) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    made = [s for s in statements(program.body) if isinstance(s, Allocate)]
    whole = (s.buffer for s in made if not s.planes)
    shapes = {b.var: b.shape for b in (*program.buffers, *whole)}
    types = {b.var: b.dtype for b in (*program.buffers, *(s.buffer for s in made))}
    exact = program.math is Math.STRICT

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, Loop):
                *before, own = handed((s,), types) if _is_long(s) else (s,)
                made = _in_blocks(own, shapes, exact) if isinstance(own, Loop) else None
                if made is not None:
                    out += (*before, made)
                    continue
            lanes = isinstance(s, Loop) and s.order is Order.LANES
            out.append(s if lanes else rebuild_loops(s, block))
        return tuple(out)

    return block(program.body)


def _is_long(s: Loop) -> bool:
    """Whether a loop in order goes round often enough."""
    trips = (s.high - s.low).constant
    return s.order is Order.SERIAL and not s.reductions and (trips is None or trips >= _LEAST)


def _in_blocks(s: Loop, shapes: Shapes, exact: bool) -> Loop | None:
    """The loop in blocks, if it keeps records or moves tokens, and else writes at most what it does
    not read."""
    if not _is_long(s):
        return None
    plain = Unguarded(s, shapes)
    if not plain.find():
        return None
    lets = {x.var: x.value for x in plain.body if isinstance(x, Let)}
    stores = [x for x in plain.body if isinstance(x, Store)]
    rounds = Rounds(lets, assigned(s) - lets.keys(), exact)
    rounds.tokens |= _tokens(s, plain.body, rounds)
    found: list[Expr] = []
    for x in plain.body:
        changed = [] if isinstance(x, Store) else rounds.changes(x)
        if changed is None:
            return None
        found += (e for e in changed if rounds.whole(e) not in map(rounds.whole, found))
    if not found or not all(map(rounds.is_rare, found)):
        return None
    found += plain.fails
    needed = _needed([*found, *(x.value for x in stores)], lets)
    if not all(_is_kept(x, s) for x in stores):
        return None
    asked: list[Stmt] = [
        x for x in plain.body
        if isinstance(x, Store) or (isinstance(x, Let) and x.var in needed)
    ]  # fmt: skip
    places = [Load(x.buffer, x.at) for x in stores]
    values = [e for x in asked for e in expressions(x)]
    if not all(_is_quick(e, s.var, lets) for e in (*found, *values, *places)):
        return None
    return _made(s, asked, found, plain.exists)


def _tokens(s: Loop, body: list[Stmt], rounds: Rounds) -> dict[Var, DType]:
    """The floats that tokens are moved among."""
    alone = [x for x in body if isinstance(x, Assign)]
    under = {v for x in body if isinstance(x, When) for v in assigned(x)}
    once = Counter(x.var for x in alone)
    tokens = Tokens(rounds.lets, rounds.carried | rounds.lets.keys(), s.var, rounds.whole)
    moved = tokens.moved({
        x.var: x.value for x in alone if once[x.var] == 1 and x.var not in under
    })  # fmt: skip
    named = {x.var: x.dtype for x in body if isinstance(x, Let)}
    out: dict[Var, DType] = {}
    for x in alone:
        match x.value:
            case Local(v) if v in named:
                dtype = named[v]
            case Apply(_, _, dtype) | Lit(_, dtype):
                pass
            case _:
                continue
        if x.var in moved and dtype.is_float:
            out[x.var] = dtype
    return out


def _needed(found: list[Expr], lets: Mapping[Var, Expr]) -> set[Var]:
    """What expressions mention, and what is named in them mentions."""
    out: set[Var] = set()
    todo = [v for e in found for v in used(e)]
    while todo:
        v = todo.pop()
        if v not in out:
            out.add(v)
            todo += used(lets[v]) if v in lets else ()
    return out


def _is_kept(s: Store, loop: Loop) -> bool:
    """Whether each round stores an element of its own that no round reads."""
    steps = [i.coefficient(loop.var) for i in s.at]
    own = bool(steps) and abs(steps[-1]) == 1
    read = any(x.buffer == s.buffer for y in statements(loop.body) for x in loads(y))
    return own and not read


def _is_quick(e: Expr, loop: Var, lets: Mapping[Var, Expr]) -> bool:
    """Whether an expression is quick operations of what lies side by side."""
    for x in parts(e):
        match x:
            case Apply(name, _, dtype):
                whole = name in ("floordiv", "mod", "pow") and not dtype.is_float
                # casts are no primitives, and quick
                if whole or (name in PRIMITIVES and PRIMITIVES[name].cost > _DEAR):
                    return False
            case Load(_, at):
                steps = [abs(i.coefficient(loop)) for i in at]
                if any(steps[:-1]) or (steps and steps[-1] > 1):
                    return False
                if not all(_is_plain(i, loop, lets) for i in at):
                    return False
            case Number(i):
                if not _is_plain(i, loop, lets):
                    return False
            case _:
                pass
    return True


def _is_plain(i: Size, loop: Var, lets: Mapping[Var, Expr]) -> bool:
    rest = i - size(loop) * i.coefficient(loop)
    return not any(v == loop or v in lets for v in used_in(rest))


def _made(s: Loop, asked: list[Stmt], found: list[Expr], exists: list[Expr]) -> Loop:
    block, some = Var("block"), Var("some")
    low = s.low + size(block) * _MANY
    high = low + _MANY
    last: Expr = Apply("gt", (Number(high), Number(s.high)), DType.BOOL, DType.I64)
    for e in exists:
        last = Apply("or", (last, not_(e)), DType.BOOL, DType.BOOL)
    any_: Expr = Local(some)
    for e in found:
        any_ = Apply("or", (any_, e), DType.BOOL, DType.BOOL)
    own = {x.var: fresh(x.var) for x in asked if isinstance(x, Let)}
    asks = remade((*asked, Assign(some, any_)), lambda _: None, own)
    look = Loop(s.var, low, high, asks, Order.FREE, (Reduction(some, "or", DType.BOOL),))
    rounds = replace(s, low=low, high=low + clamp(s.high - low, size(_MANY + 1)))
    body: tuple[Stmt, ...] = (
        Variable(some, DType.BOOL, last),
        When(not_(Local(some)), (look,)),
        When(Local(some), (rounds,)),
    )
    count = (s.high - s.low + (_MANY - 1)) // _MANY
    return replace(s, var=block, low=ZERO, high=count, body=body, work=s.work * _MANY)
