"""Columns that become rows go eight at a time. loops → loops

    before   parallel for j in 0..m:
                 free for i in 0..n: store out[j, i] = x[i, j]

    after    parallel for eight in 0..m // 8:
                 free for i in 0..n:
                     store out[8 eight, i] = x[i, 8 eight]
                     …
                     store out[8 eight + 7, i] = x[i, 8 eight + 7]
             for j in 8 (m // 8)..m:
                 free for i in 0..n: store out[j, i] = x[i, j]

What is side by side in memory, here the elements x[i, 8 eight] to x[i, 8 eight + 7], is then read
in one go, while it is in the cache, and not once in each of eight rounds (`products/turned.py`).
"""

from __future__ import annotations

from naperian.loops.syntax import Load, Loop, Order, Stmt, Store
from naperian.loops.walk import rebuild_loops, remade, step, used_in
from naperian.names import Var
from naperian.node import replace
from naperian.passes.nests.rounds import whole_rounds
from naperian.sizes import ZERO, Atom, Size, size

_COLUMNS = 8  # numbers of 64 bits that share a line of the cache


def across(body: tuple[Stmt, ...], sizes: tuple[Var, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Loop) and _turns(s):
            out += _together(s, whole_rounds(s, _COLUMNS, sizes))
        else:
            out.append(rebuild_loops(s, lambda b: across(b, sizes)))
    return tuple(out)


def _turns(s: Loop) -> bool:
    """Whether every round reads a column, and writes a row, of which it could be part of eight."""
    if s.order is Order.SERIAL or s.reductions or len(s.body) != 1:
        return False
    (inner,) = s.body
    if not isinstance(inner, Loop) or inner.order is not Order.FREE or inner.reductions:
        return False
    trips = (s.high - s.low).constant
    if trips is not None and trips < 2 * _COLUMNS:
        return False
    if s.var in used_in(inner.low) or s.var in used_in(inner.high):
        return False
    match inner.body:
        case (Store(buffer, at, Load(of, read)),):
            turned = _along(at, inner.var) and _along(read, s.var) and _crosses(read, inner.var)
            return turned and buffer != of
        case _:
            return False


def _along(at: tuple[Size, ...], v: Var) -> bool:
    """Whether elements of consecutive `v` stand side by side."""
    return bool(at) and step(at[-1], v) == 1 and not any(v in used_in(e) for e in at[:-1])


def _crosses(at: tuple[Size, ...], v: Var) -> bool:
    """Whether elements of consecutive `v` stand in different rows."""
    return any(v in used_in(e) for e in at[:-1]) and v not in used_in(at[-1])


def _together(s: Loop, count: Size) -> list[Stmt]:
    (inner,) = s.body
    assert isinstance(inner, Loop)
    eight = Var("eight")
    first = s.low + size(eight) * _COLUMNS
    written: list[Stmt] = []
    for k in range(_COLUMNS):
        atom: dict[Atom, Size] = {s.var: first + k}
        written += remade(inner.body, atom.get)
    many = replace(inner, body=tuple(written), work=inner.work * _COLUMNS)
    rest = replace(s, low=s.low + count * _COLUMNS, order=Order.SERIAL)
    head = Loop(eight, ZERO, count, (many,), s.order, (), s.work * _COLUMNS)
    return [head] if rest.low == s.high else [head, rest]
