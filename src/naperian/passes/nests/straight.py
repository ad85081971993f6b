"""A short nest of a known number of rounds in order becomes straight code. loops → loops

    before   for i in 0..n:
                 allocate l[2]
                 for j in 0..2:
                     var v = 0.0
                     for k in 0..j: v := v + l[k] * x[i, k]
                     store l[j] = x[i, j] - v

    after    for i in 0..n:
                 allocate l[2]
                 var v = 0.0
                 store l[0] = x[i, 0] - v
                 var v2 = 0.0
                 v2 := v2 + l[0] * x[i, 0]
                 store l[1] = x[i, 1] - v2

The array that the rounds carry is then read at known places only, so it is kept in registers, and
the loop around is one that becomes vectors: many small matrices are factored side by side, and
words are taken apart bit by bit.
"""

from __future__ import annotations

from naperian.loops.memory import SMALL, constant_bytes
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Contract,
    Let,
    Loop,
    Order,
    Print,
    Program,
    Sort,
    Stmt,
    Variable,
    While,
)
from naperian.loops.walk import (
    expressions,
    loads,
    parts,
    rebuild,
    rebuild_loops,
    remade,
    statements,
    used_in,
)
from naperian.names import fresh
from naperian.node import replace
from naperian.sizes import Atom, Size, size

_ROUNDS = 8  # of a loop that is written out,
_BITS = 64  # or that goes along the bits of a word
_MOST = 400  # statements that become of a nest


class _TooMany(Exception):
    """More statements than it is worth, or a loop whose rounds are not known."""


def straight(program: Program) -> Program:
    """See the module."""
    return replace(program, body=_block(program.body, False))


def _block(body: tuple[Stmt, ...], inside: bool) -> tuple[Stmt, ...]:
    """`inside` a loop: what happens once is not worth it."""
    out: list[Stmt] = []
    for s in body:
        if inside and isinstance(s, Loop) and _goes(s) and _plain(s):
            try:
                out += _rounds(s, [0])
                continue
            except _TooMany:
                pass
        out.append(_inner(s, inside or isinstance(s, Loop | While)))
    return tuple(out)


def _inner(s: Stmt, inside: bool) -> Stmt:
    return rebuild_loops(s, lambda b: _block(b, inside))


def _goes(s: Loop) -> bool:
    """Whether a loop is in order, or adds up what it makes of the bits of a word."""
    return s.order is Order.SERIAL or (bool(s.reductions) and _only_whole(s))


def _plain(s: Loop) -> bool:
    return not any(
        isinstance(x, While | Contract | Sort | Print)
        or (isinstance(x, Allocate) and (x.fill is not None or bool(x.planes)))
        for x in statements(s.body)
    )


def _rounds(s: Loop, made: list[int]) -> tuple[Stmt, ...]:
    """The rounds of a loop, one after the other; `made` counts statements."""
    low, count = s.low.constant, (s.high - s.low).constant
    if low is None or count is None or count > (_BITS if _only_whole(s) else _ROUNDS):
        raise _TooMany
    out: list[Stmt] = []
    for k in range(low, low + count):
        mine = [x.var for x in statements(s.body) if isinstance(x, Let | Variable)]
        mine += [x.buffer.var for x in s.body if isinstance(x, Allocate)]
        names = {v: fresh(v) for v in mine}
        atoms: dict[Atom, Size] = {v: size(new) for v, new in names.items()}
        atoms[s.var] = size(k)
        for x in remade(s.body, atoms.get, names):
            made[0] += 1
            if made[0] > _MOST:
                raise _TooMany
            match x:
                case Loop():
                    out += _rounds(x, made)
                case Allocate(buffer):
                    if (constant_bytes(buffer) or 0) > SMALL:
                        raise _TooMany
                    out.append(replace(x, buffer=replace(buffer, var=names[buffer.var])))
                case _:
                    out.append(rebuild(x, lambda b: _side(b, made)))
    return tuple(out)


def _only_whole(s: Loop) -> bool:
    """Whether a loop does no more than compute integers, of the same elements in every round."""
    made = {s.var, *(x.var for x in s.body if isinstance(x, Let))}
    read = {v for x in s.body for e in loads(x) for i in e.at for v in used_in(i)}
    plain = all(isinstance(x, Let | Assign) for x in s.body)
    return plain and made.isdisjoint(read) and not any(
        isinstance(e, Apply) and (e.dtype.is_float or e.operand.is_float)
        for x in s.body for top in expressions(x) for e in parts(top)
    )  # fmt: skip


def _side(body: tuple[Stmt, ...], made: list[int]) -> tuple[Stmt, ...]:
    """One side of a condition, without loops."""
    out: list[Stmt] = []
    for x in body:
        made[0] += 1
        if isinstance(x, Allocate):
            raise _TooMany
        if isinstance(x, Loop):
            out += _rounds(x, made)
        else:
            out.append(rebuild(x, lambda b: _side(b, made)))
    return tuple(out)
