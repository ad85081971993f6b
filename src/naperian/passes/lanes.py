"""Recurrences of independent rows go side by side, a vector of them at a time. loops → loops

    before   parallel for i in 0..k:
                 var a = 0.0
                 for t in 0..n:
                     a := 1.0 / (b[i, t] - a)
                     store c[i, t] = a

    after    parallel for v in 0..k // 8:
                 allocate a[8]
                 free for l in 0..8: store a[l] = 0.0
                 for t in 0..n:
                     free for l in 0..8:
                         store a[l] = 1.0 / (b[8 * v + l, t] - a[l])
                         store c[8 * v + l, t] = a[l]
             for i in 8 * (k // 8)..k: …                                            as before

A step of a recurrence waits for the one before it, and rows do not wait for each other. That pays
for a step that takes long, as a division does; a running sum is better read row by row. LLVM makes
vectors of the few lanes, with the rows' elements loaded one by one: on most processors that is
faster than a gather.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace

from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Order,
    Program,
    Role,
    Stmt,
    Store,
    Variable,
)
from naperian.loops.walk import expressions, indices, parts, rebuild, remade, statements, used_in
from naperian.names import Var, fresh
from naperian.prims import PRIMITIVES
from naperian.sizes import ZERO, Atom, Size, atom, size

_VECTOR = 64  # bytes
_LONG = 4  # what an operation costs that a recurrence waits for long


def lanes(program: Program) -> Program:
    """See the module."""
    return replace(program, body=_block(program.body))


def _block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Loop) and _worth(s):
            out += _side_by_side(s)
        else:
            out.append(rebuild(s, _block))
    return tuple(out)


def _worth(s: Loop) -> bool:
    """Whether the rounds are independent, are nothing but recurrences and what goes with them, of
    as many steps in all rounds, and whether one of them has long steps."""
    if s.order is Order.SERIAL or s.low != ZERO or s.reductions:
        return False
    slow = False
    bound = {s.var}
    for x in statements(s.body):
        match x:
            case Loop():
                if x.reductions or x.order is Order.PARALLEL:
                    return False
                slow = slow or (x.order is Order.SERIAL and _long(x))
                bound.add(x.var)
            case Let():
                bound.add(x.var)
            case Store() | Variable() | Assign():
                pass
            case Allocate(buffer, fill):
                if buffer.role is not Role.TEMP or fill is not None or x.planes:
                    return False
            case _:
                return False
    if not slow or any(_mixed(b) for b in _blocks(s.body)):
        return False
    if not any(isinstance(x, Variable | Allocate) for x in statements(s.body)):
        return False  # what it carries is stored outside
    sizes = [n for x in statements(s.body) if isinstance(x, Loop | Allocate) for n in indices(x)]
    return not any(v in bound for n in sizes for v in used_in(n))


def _long(s: Loop) -> bool:
    """Whether a step of a recurrence takes long."""
    if any(isinstance(x, Loop) for x in s.body):
        return False
    tops = (e for x in s.body for e in expressions(x))
    return any(
        isinstance(e, Apply) and e.operand.is_float and e.name in PRIMITIVES
        and PRIMITIVES[e.name].cost >= _LONG
        for top in tops for e in parts(top)
    )  # fmt: skip


def _blocks(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    yield body
    for x in statements(body):
        if isinstance(x, Loop):
            yield x.body


def _mixed(body: tuple[Stmt, ...]) -> bool:
    """Whether names are bound beside loops, which may read them."""
    return any(isinstance(x, Loop) for x in body) and any(isinstance(x, Let) for x in body)


def _side_by_side(s: Loop) -> list[Stmt]:
    made = {x.buffer.var: x.buffer.dtype for x in statements(s.body) if isinstance(x, Allocate)}
    carried = {x.var: x.dtype for x in statements(s.body) if isinstance(x, Variable)}
    width = _VECTOR // max(t.bytes for t in (*made.values(), *carried.values()))
    row, lane = fresh(s.var), Var("lane")
    many = s.high // width
    own = made.keys() | carried.keys()
    atoms: dict[Atom, Size] = {s.var: size(row) * width + lane}

    def there(a: Atom) -> Size | None:
        if isinstance(a, Load) and a.buffer in own:
            return atom(Load(a.buffer, (*a.at, size(lane))))
        if isinstance(a, Var) and a in carried:
            return atom(Load(a, (size(lane),)))
        return atoms.get(a)

    body = _in_lanes(_with_lane(remade(s.body, there), own, lane, width), lane, width)
    tail = replace(s, low=many * width, order=Order.SERIAL)
    return [replace(s, var=row, high=many, body=body, work=s.work * width), tail]


def _with_lane(
    body: tuple[Stmt, ...], own: Set[Var], lane: Var, width: int
) -> tuple[Stmt, ...]:
    """Arrays of a round's own with an axis for the lane, and variables as arrays of lanes."""

    def expr(e: Expr) -> Expr:
        match e:
            case Load(buffer, at) if buffer in own:
                return Load(buffer, (*at, size(lane)))
            case Local(var) if var in own:
                return Load(var, (size(lane),))
            case Apply(_, args):
                return replace(e, args=tuple(map(expr, args)))
            case _:
                return e

    out: list[Stmt] = []
    for x in body:
        match x:
            case Allocate(buffer):
                shape = (*buffer.shape, size(width))
                x = replace(x, buffer=replace(buffer, shape=shape))
            case Store(buffer, at, value):
                there = (*at, size(lane)) if buffer in own else at
                x = Store(buffer, there, expr(value))
            case Variable(var, dtype, value):
                out.append(Allocate(Buffer(var, dtype, (size(width),), Role.TEMP)))
                x = Store(var, (size(lane),), expr(value))
            case Assign(var, value):
                x = Store(var, (size(lane),), expr(value))
            case Let(var, dtype, value):
                x = Let(var, dtype, expr(value))
            case _:
                x = rebuild(x, lambda b: _with_lane(b, own, lane, width))
        out.append(x)
    return tuple(out)


def _in_lanes(body: tuple[Stmt, ...], lane: Var, width: int) -> tuple[Stmt, ...]:
    """What is not a loop or an array goes through all lanes."""
    out: list[Stmt] = []
    together: list[Stmt] = []

    def close() -> None:
        if together:
            out.append(Loop(lane, ZERO, size(width), tuple(together), Order.FREE))
            together.clear()

    for x in body:
        match x:
            case Allocate():
                out.append(x)
            case Loop():
                close()
                inner = _in_lanes(x.body, lane, width)
                out.append(replace(x, body=inner, order=Order.SERIAL))
            case _:
                together.append(x)
    close()
    return tuple(out)
