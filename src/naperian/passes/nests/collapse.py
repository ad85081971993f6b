"""Loops that only go through whole arrays in their order become one. loops → loops

    before   parallel for i in 0..a: free for j in 0..b: store y[i, j] = 2.0 * x[i, j]
    after    parallel for p in 0..a * b: store y[p // b, p % b] = 2.0 * x[p // b, p % b]

Such an element's place in memory is `p`, since `b * (p // b) + p % b = p`: so short rows cost
nothing, and there is one loop to compile. What is some rows away is as far from `p` wherever that
is, as a pixel's neighbour is between the borders of an image:

    before   free for j in 1..b - 1: free for k in 0..c: store y[j, k] = x[j - 1, k] + x[j + 1, k]
    after    free for p in 0..(b - 2) * c: store y[p // c + 1, p % c] = x[p // c, p % c] + …

Loops in order that only add all of it to elements which are the same in all rounds are one, too:
they go on in the same order.

    before   for i in 0..a: for j in 0..b: update s[k] += x[i + k, j]
    after    for p in 0..a * b: update s[k] += x[p // b + k, p % b]
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
    p, extents = fresh(nest[-1].var), tuple(x.high - x.low for x in nest)
    values: dict[Atom, Size] = {
        x.var: at + x.low for x, at in zip(nest, digits_of(size(p), extents), strict=True)
    }
    body = remade(nest[-1].body, values.get)
    high = math.prod(extents, start=ONE)
    return replace(s, var=p, low=ZERO, high=high, body=body, work=nest[-1].work)


def digits_of(place: Size, extents: tuple[Size, ...]) -> tuple[Size, ...]:
    """The indices of the element that is at a place in memory, in an array of this shape."""
    out: list[Size] = []
    for extent in reversed(extents[1:]):
        out.append(place % extent)
        place = place // extent
    return (place, *reversed(out))


def _nest(s: Loop, naturals: frozenset[Var]) -> list[Loop]:
    """Loops that hold nothing but each other, all of independent iterations or all in order, those
    inside from 0 to extents that are never negative: two that are would have a positive product."""
    nest: list[Loop] = []
    serial = s.order is Order.SERIAL
    while (s.order is Order.SERIAL) is serial:
        if nest and s.reductions != nest[0].reductions:
            break
        if nest and not (s.low == ZERO and is_natural(s.high, naturals)):
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
    of arrays that have their extents there; the first at any distance."""
    order = tuple(size(x.var) for x in nest)
    extents = tuple(x.high for x in nest)
    names = {x.var for x in nest}
    places, others = _mentioned(nest[-1].body)
    for buffer, at in places:
        for k, e in enumerate(at):
            end = k + len(order)
            if at[k + 1 : end] == order[1:] and shapes[buffer][k + 1 : end] == extents[1:]:
                if names.isdisjoint(_plain(e - order[0])):
                    at = (*at[:k], e - order[0], *at[end:])
                    break
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
