"""Loops that only go through whole arrays in their order become one. loops → loops

    before   parallel for i in 0..a: free for j in 0..b: store y[i, j] = 2.0 * x[i, j]
    after    parallel for p in 0..a * b: store y[p // b, p % b] = 2.0 * x[p // b, p % b]

Such an element's place in memory is `p`, since `b * (p // b) + p % b = p`: so short rows cost
nothing, and there is one loop to compile. So are loops in order that only add all of it to elements
which are the same in all rounds: they go on in the same order.

    before   for i in l..h: for j in 0..b: update s[k] += x[i + k, j]
    after    for p in b * l..b * h: update s[k] += x[p // b + k, p % b]
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from naperian.loops.syntax import (
    Allocate,
    Let,
    Load,
    Loop,
    Number,
    Order,
    Program,
    Stmt,
    Store,
    Update,
)
from naperian.loops.walk import (
    expressions,
    indices,
    loads,
    parts,
    rebuild_loops,
    remade,
    statements,
    used_in,
)
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.sizes import ONE, ZERO, Atom, Clamp, Quotient, Remainder, Size, is_natural, size

_Place = tuple[Var, tuple[Size, ...]]
_Shapes = dict[Var, tuple[Size, ...]]


def collapse(program: Program) -> Program:
    """See the module."""
    shapes = {b.var: b.shape for b in program.buffers}
    made = (s.buffer for s in statements(program.body) if isinstance(s, Allocate))
    shapes |= {b.var: b.shape for b in made}
    return replace(program, body=_block(program.body, shapes, frozenset(program.sizes)))


def _block(
    body: tuple[Stmt, ...], shapes: _Shapes, naturals: frozenset[Var]
) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Loop):
            s = _collapsed(s, shapes, naturals)
        out.append(rebuild_loops(s, lambda b: _block(b, shapes, naturals)))
    return tuple(out)


def _collapsed(s: Loop, shapes: _Shapes, naturals: frozenset[Var]) -> Loop:
    """One loop for as many nested ones as possible."""
    nest = _nest(s, naturals)
    serial = s.order is Order.SERIAL
    while len(nest) > 1 and not (_in_order(nest, shapes) and (not serial or _adds(nest))):
        nest.pop()
    if len(nest) < 2:
        return s
    p, extents = fresh(nest[-1].var), tuple(x.high for x in nest)
    rows = math.prod(extents[1:], start=ONE)
    values: dict[Atom, Size] = {
        x.var: at for x, at in zip(nest, digits_of(size(p), extents), strict=True)
    }
    body = remade(nest[-1].body, values.get)
    low, high = s.low * rows, s.high * rows
    return replace(s, var=p, low=low, high=high, body=body, work=nest[-1].work)


def digits_of(place: Size, extents: tuple[Size, ...]) -> tuple[Size, ...]:
    """The indices of the element that is at a place in memory, in an array of this shape."""
    out: list[Size] = []
    for extent in reversed(extents[1:]):
        out.append(place % extent)
        place = place // extent
    return (place, *reversed(out))


def _nest(s: Loop, naturals: frozenset[Var]) -> list[Loop]:
    """Loops that hold nothing but each other, from 0 to extents that are never negative: two that
    are would have a positive product. All are of independent iterations, or all in order, of which
    the outermost may begin and end anywhere."""
    nest: list[Loop] = []
    first = s
    while (s.order is Order.SERIAL) is (first.order is Order.SERIAL):
        if s.reductions != first.reductions:
            break
        whole = s.low == ZERO and is_natural(s.high, naturals)
        if not whole and (nest or s.order is not Order.SERIAL):
            break
        nest.append(s)
        if len(s.body) != 1 or not isinstance(s.body[0], Loop):
            break
        s = s.body[0]
    return nest


def _adds(nest: list[Loop]) -> bool:
    """Whether loops only add to elements that are the same in all their rounds."""
    body = nest[-1].body
    own = {*(x.var for x in nest), *(x.var for x in body if isinstance(x, Let))}
    changed = {x.buffer for x in body if isinstance(x, Update)}
    return not nest[0].reductions and all(
        changed.isdisjoint(y.buffer for y in loads(x))
        and (isinstance(x, Let) or (
            isinstance(x, Update) and all(own.isdisjoint(used_in(e)) for e in x.at)
        ))
        for x in body
    )  # fmt: skip


def _in_order(nest: list[Loop], shapes: _Shapes) -> bool:
    """Whether the innermost body mentions the loops' variables only as the indices, in their order,
    of arrays that have their extents there; the first may go along from any row on."""
    order = tuple(size(x.var) for x in nest)
    extents = tuple(x.high for x in nest)
    names = {x.var for x in nest}
    places, others = _mentioned(nest[-1].body)
    for buffer, at in places:
        k = next((k for k, e in enumerate(at) if e.coefficient(nest[0].var) == 1), None)
        if k is not None:
            end = k + len(order)
            if at[k + 1 : end] != order[1:] or shapes[buffer][k + 1 : end] != extents[1:]:
                return False
            at = (*at[:k], at[k] - order[0], *at[end:])
        others += at
    return all(names.isdisjoint(_plain(e)) for e in (*others, nest[-1].work))


def _mentioned(body: tuple[Stmt, ...]) -> tuple[list[_Place], list[Size]]:
    """The elements of arrays that statements mention, and the other index expressions."""
    places: list[_Place] = []
    others: list[Size] = []
    for s in statements(body):
        if isinstance(s, Store | Update):
            places.append((s.buffer, s.at))
        else:
            others += indices(s)
        for e in expressions(s):
            for x in parts(e):
                if isinstance(x, Load):
                    places.append((x.buffer, x.at))
                elif isinstance(x, Number):
                    others.append(x.value)
    work = [e for _, at in places for e in at] + others
    while work:
        for a in _loads(work.pop()):
            places.append((a.buffer, a.at))
            work += a.at
    return places, others


def _plain(s: Size) -> set[Var]:
    """The variables of an index expression, but for those that say which element is read in it."""
    out: set[Var] = set()
    for a in s.atoms:
        match a:
            case Var():
                out.add(a)
            case Clamp(x, y) | Quotient(x, y) | Remainder(x, y):
                out |= _plain(x) | _plain(y)
            case _:
                pass
    return out


def _loads(s: Size) -> Iterator[Load]:
    """The elements that an index expression reads; not those that their own places read."""
    for a in s.atoms:
        match a:
            case Load():
                yield a
            case Clamp(x, y) | Quotient(x, y) | Remainder(x, y):
                yield from _loads(x)
                yield from _loads(y)
            case _:
                pass
