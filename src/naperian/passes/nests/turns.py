"""The two copies of a carried array take turns in the result's memory. loops → loops

    allocate t[2, n]                            allocate t[3, n] = out, new, x
    for i: store t[0, i] = x[i]                 for k in 0..m:
    for k in 0..m:                                  source = 2 if k = 0 else (m - k) % 2
        for i: store t[(k + 1) % 2, i] =   ⇒       target = (m - k - 1) % 2
            f(t[k % 2, …])                          for i: store t[target, i] = f(t[source, …])
    for i: store out[i] = t[m % 2, i]           if m < 1: for i: store out[i] = x[i]

The last round writes the result, and the first one reads the argument where it is. If the first
copy is not one of an argument but is computed, it is stored where the first round reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Contract,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Part,
    Program,
    Role,
    Sort,
    Stmt,
    Store,
    Update,
    When,
)
from naperian.loops.walk import mentions, remade, statements, used_in
from naperian.names import Lit, Var
from naperian.node import node, replace
from naperian.sizes import ONE, ZERO, Size, size

_LARGE = 4096  # bytes; smaller ones are on the stack


@node
class _Turns:
    """The statements of a block, by their positions: where the array is allocated, its first copy
    stored, its loop, and where it is copied to the result."""

    allocate: int
    first: int
    second: int | None  # where the other copy is stored that the first round may read (`older.py`)
    loop: int
    last: int
    result: Var
    source: Part | None  # what the first copy is a copy of


def turns(program: Program) -> Program:
    """See the module."""
    body = program.body
    for s in program.body:
        if isinstance(s, Allocate) and _may_turn(s):
            found = _found(program, body, body.index(s))
            if found is not None:
                body = _turned(body, found)
    return replace(program, body=body)


def _may_turn(s: Allocate) -> bool:
    """Whether an array has two planes, and is not small."""
    t = s.buffer
    constant = [n.constant for n in t.shape]
    if t.role is not Role.TEMP or s.fill or s.planes or len(constant) < 2 or constant[0] != 2:
        return False
    return None in constant or _product(constant) * t.dtype.bytes > _LARGE


def _found(program: Program, body: tuple[Stmt, ...], at: int) -> _Turns | None:
    """How the array allocated there takes turns, if it does."""
    s = body[at]
    assert isinstance(s, Allocate)
    t = s.buffer
    users = [k for k, x in enumerate(body) if t.var in mentions(x)]
    if len(users) not in (3, 4):
        return None
    first, *seconds, middle, last = users
    loop = body[middle]
    if not isinstance(loop, Loop) or loop.order is not Order.SERIAL or loop.low != ZERO:
        return None
    given = {b.var for b in program.buffers if b.role is Role.IN}
    bound = {*program.sizes, *given, *(x.var for x in body[:first] if isinstance(x, Let))}
    if not bound.issuperset(used_in(loop.high)) or not _keeps(loop, t.var):
        return None
    start, end = whole(body[first], t.shape[1:]), whole(body[last], t.shape[1:])
    if start is None or end is None or start.buffer != t.var or not isinstance(end.value, Load):
        return None
    n = len(t.shape) - 1
    made = {x.buffer.var for x in statements(body) if isinstance(x, Allocate)}
    result = next((b for b in program.buffers if b.var == end.buffer), None)
    if result is None or result.role is not Role.OUT or result.var in made:
        return None
    if sum(result.var in mentions(x) for x in body) != 1:
        return None
    copied = end.value.buffer == t.var and end.value.at == (loop.high % 2, *end.at)
    if not copied or start.at[0] != ZERO or t.var in mentions(body[first]) - {start.buffer}:
        return None
    for k in seconds:
        other = whole(body[k], t.shape[1:])
        if other is None or (other.buffer, other.at[0]) != (t.var, ONE):
            return None
        if t.var in mentions(body[k]) - {other.buffer}:
            return None
    source: Part | None = None
    x = start.value
    # (what the second round may read as the older copy must be where that one is)
    if not seconds and isinstance(x, Load) and x.buffer in given and x.at[-n:] == start.at[1:]:
        prefix = x.at[:-n]
        shape = next(b.shape for b in program.buffers if b.var == x.buffer)
        plain = bound.issuperset(v for e in prefix for v in used_in(e))
        if plain and shape[len(prefix) :] == t.shape[1:]:
            source = x.buffer, prefix
    second = seconds[0] if seconds else None
    return _Turns(at, first, second, middle, last, result.var, source)


def _product(numbers: Sequence[int | None]) -> int:
    total = 1
    for n in numbers:
        total *= max(0, n or 0)
    return total


def whole(s: Stmt, extents: tuple[Size, ...]) -> Store | None:
    """The store of a nest that goes through all indices, whose last ones are those of the loops,
    and does nothing else."""
    names: list[Size] = []
    for extent in extents:
        if not isinstance(s, Loop) or s.low != ZERO or s.high != extent or len(s.body) > 2:
            return None
        names.append(size(s.var))
        *lets, last = s.body
        if lets and isinstance(lets[0], Let) and isinstance(last, Store):
            if last.value != Local(lets[0].var):
                return None
            last = replace(last, value=lets[0].value)
        elif lets:
            return None
        s = last
    return s if isinstance(s, Store) and s.at[-len(names) :] == tuple(names) else None


def _keeps(loop: Loop, t: Var) -> bool:
    """Whether every round reads the copy of its turn (or the other one) and writes the other."""
    now, then = size(loop.var) % 2, (size(loop.var) + 1) % 2
    for s in statements(loop.body):
        if isinstance(s, Contract | Sort) and t in mentions(s):
            return False
        if isinstance(s, Update) and s.buffer == t:
            return False
        if isinstance(s, Store) and s.buffer == t and s.at[0] != then:
            return False
    strange: list[Size] = []

    def look(v: Var, at: tuple[Size, ...]) -> tuple[Size, ...]:
        if v == t and at[0] not in (now, then):
            strange.append(at[0])
        return at

    remade(loop.body, lambda _: None, place=look)
    return not strange


def _turned(body: tuple[Stmt, ...], f: _Turns) -> tuple[Stmt, ...]:
    allocate, first, loop, last = (body[k] for k in (f.allocate, f.first, f.loop, f.last))
    assert isinstance(allocate, Allocate)
    assert isinstance(loop, Loop)
    t, rounds = allocate.buffer, loop.high
    source, target = Var("source"), Var("target")
    now, then = size(loop.var) % 2, (size(loop.var) + 1) % 2
    where = {now: size(source), then: size(target)}

    def place(v: Var, at: tuple[Size, ...]) -> tuple[Size, ...]:
        return (where[at[0]], *at[1:]) if v == t.var else at

    def start(v: Var, at: tuple[Size, ...]) -> tuple[Size, ...]:
        return (rounds % 2, *at[1:]) if v == t.var else at

    def begin(v: Var, at: tuple[Size, ...]) -> tuple[Size, ...]:
        return ((rounds - 1) % 2, *at[1:]) if v == t.var else at

    here = Number((rounds - size(loop.var)) % 2)
    if f.source is not None:
        begins = Apply("eq", (Number(size(loop.var)), Lit(0, DType.I64)), DType.BOOL, DType.I64)
        choice = (begins, Lit(2, DType.I64), here)
        which = Let(source, DType.I64, Apply("select", choice, DType.I64, DType.I64))
    else:
        which = Let(source, DType.I64, here)
    other = Let(target, DType.I64, Number((rounds - size(loop.var) - 1) % 2))
    inner = remade(loop.body, lambda _: None, place=place)
    planes: tuple[Part | None, ...] = ((f.result, ()), None)
    before: tuple[Stmt, ...] = remade((first,), lambda _: None, place=start)
    after: tuple[Stmt, ...] = ()
    if f.source is not None:
        planes, before = (*planes, f.source), ()
        none = Apply("lt", (Number(rounds), Lit(1, DType.I64)), DType.BOOL, DType.I64)
        after = (When(none, (_copied(last, f.source),)),)
    shape = (size(len(planes)), *t.shape[1:])
    made = replace(allocate, buffer=replace(t, shape=shape), planes=planes)
    out: list[Stmt] = []
    for k, s in enumerate(body):
        if k == f.first:
            out += (made, *before)
        elif k == f.second:
            out += remade((s,), lambda _: None, place=begin)
        elif k == f.loop:
            out += (replace(loop, body=(which, other, *inner)), *after)
        elif k not in (f.allocate, f.last):
            out.append(s)
    return tuple(out)


def _copied(s: Stmt, source: Part) -> Stmt:
    """The nest that copies the last values, from where the first are instead."""
    match s:
        case Loop():
            body = tuple(x for x in s.body if not isinstance(x, Let))
            return replace(s, body=tuple(_copied(x, source) for x in body))
        case Store(_, at):
            return replace(s, value=Load(source[0], (*source[1], *at)))
        case _:
            return s
