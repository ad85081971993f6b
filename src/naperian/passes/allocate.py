"""Loops to loops: less memory, allocated less often.

    for i: allocate t[8]; …     ⇒   allocate small t[8]; for i: …     (a sequential loop)
    allocate a[n]; … last use of a …; allocate b[n]   ⇒   b uses a's memory

A small constant size (at most 4 KiB) is marked `small`: a stack slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Contract,
    Expr,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Program,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.loops.walk import mentions, rebuild
from naperian.names import Lit, Var
from naperian.sizes import Atom, Size, substitute

_SMALL = 4096  # bytes


def allocate(program: Program) -> Program:
    """See the module."""
    body = _hoisted(program.body)
    names: dict[Var, Var] = {}
    body = _shared(body, names)
    if names:
        body = _renamed(body, names)
    return replace(program, body=body)


def _bytes(s: Allocate) -> int | None:
    """The size of a buffer, if it is a constant."""
    total = s.buffer.dtype.bytes
    for n in s.buffer.shape:
        if n.constant is None:
            return None
        total *= max(0, n.constant)
    return total


def _hoisted(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Constant-size buffers leave sequential loops and are marked if they are small. Those of
    other loops stay: every iteration has its own."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case Allocate():
                n = _bytes(s)
                out.append(replace(s, small=True) if n is not None and n <= _SMALL else s)
            case Loop(order=Order.SERIAL):
                inner = _hoisted(s.body)
                up = [x for x in inner if isinstance(x, Allocate) and _bytes(x) is not None]
                free = [x for x in up if x.fill is None and x not in out]  # a cut loop: once
                out += free
                out.append(replace(s, body=tuple(x for x in inner if x not in out)))
            case _:
                out.append(rebuild(s, _hoisted))
    return tuple(out)


def _shared(body: tuple[Stmt, ...], names: dict[Var, Var]) -> tuple[Stmt, ...]:
    """Buffers of one block whose uses do not overlap become one."""
    mine = [s for s in body if isinstance(s, Allocate)]
    gone: set[Var] = set()
    if len(mine) > 1:
        last: dict[Var, int] = {}
        ours = {s.buffer.var for s in mine}
        for k, s in enumerate(body):
            for v in mentions(s) & ours:
                last[v] = k
        free: dict[tuple[object, ...], list[tuple[int, Var]]] = {}
        for k, s in enumerate(body):
            if not isinstance(s, Allocate) or s.fill is not None:
                continue
            b = s.buffer
            pool = free.setdefault((b.dtype, b.shape), [])
            donor = next((x for x in pool if x[0] < k), None)
            if donor is not None:
                pool.remove(donor)
                names[b.var] = donor[1]
                gone.add(b.var)
                pool.append((last.get(b.var, k), donor[1]))
            else:
                pool.append((last.get(b.var, k), b.var))
    kept = [s for s in body if not (isinstance(s, Allocate) and s.buffer.var in gone)]
    return tuple(rebuild(s, lambda block: _shared(block, names)) for s in kept)


def _renamed(body: tuple[Stmt, ...], names: Mapping[Var, Var]) -> tuple[Stmt, ...]:
    """Buffers under their new names."""

    def atom(a: Atom) -> Size | None:
        if isinstance(a, Load):
            inner = Load(names.get(a.buffer, a.buffer), tuple(of(i) for i in a.at))
            return Size((((inner,), 1),))
        return None

    def of(s: Size) -> Size:
        return s if all(type(a) is Var for a in s.atoms()) else substitute(s, atom)

    def place(x: tuple[Var, tuple[Size, ...]]) -> tuple[Var, tuple[Size, ...]]:
        return names.get(x[0], x[0]), tuple(of(i) for i in x[1])

    def expr(e: Expr) -> Expr:
        match e:
            case Lit() | Local():
                return e
            case Number(value):
                return Number(of(value))
            case Load(buffer, at):
                return Load(*place((buffer, at)))
            case Apply(name, args, dtype, operand):
                return Apply(name, tuple(expr(x) for x in args), dtype, operand)

    def stmt(s: Stmt) -> Stmt:
        match s:
            case Let(var, dtype, value):
                return Let(var, dtype, expr(value))
            case Variable(var, dtype, value):
                return Variable(var, dtype, expr(value))
            case Assign(var, value):
                return Assign(var, expr(value))
            case Store(buffer, at, value):
                return Store(*place((buffer, at)), expr(value))
            case Update(buffer, at, monoid, value):
                to, where = place((buffer, at))
                return Update(to, where, monoid, expr(value))
            case Allocate(buffer):
                shape = tuple(of(n) for n in buffer.shape)
                return replace(s, buffer=replace(buffer, shape=shape))
            case Fail(condition, code, values):
                return Fail(expr(condition), code, tuple(expr(v) for v in values))
            case Contract():
                return replace(s, out=place(s.out), left=place(s.left), right=place(s.right))
            case Loop():
                low, high = of(s.low), of(s.high)
                shared = tuple(replace(r, var=names.get(r.var, r.var)) for r in s.reductions)
                inner = tuple(stmt(x) for x in s.body)
                return replace(s, low=low, high=high, body=inner, reductions=shared)
            case While(head, condition, inner):
                first = tuple(stmt(x) for x in head)
                return While(first, expr(condition), tuple(stmt(x) for x in inner))
            case When(condition, then, otherwise):
                one = tuple(stmt(x) for x in then)
                return When(expr(condition), one, tuple(stmt(x) for x in otherwise))

    return tuple(stmt(s) for s in body)
