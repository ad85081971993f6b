"""What windows reduce is reduced once for many of them. loops → loops

    before   parallel for i in 0..n:
                 var a = 0.0
                 free for j in 0..k reducing add a: a := a + x[i + j]
                 store y[i] = a / k

    after    for every 1024 rows, `count` of them from `first` on:
                 free for p in 0..count + k - 1: store t[0, p] = x[first + p]
                 …                                                      (see `pieces`)
                 free for i in 0..count: store y[first + i] = (sums[i] + t[0, i + k % w]) / k

A window is put together from pieces that are pieces of other windows as well: log k steps in place
of k. The law: what is reduced depends on `i + j` alone, or on `i - j`, but for a few places from
which on it is something else, as at an edge (`fusion.split`); and the operation is associative and
commutative. For sums of floats it is another order, which is the window's own: it depends neither
on threads nor on where the window lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Let,
    Loop,
    Number,
    Order,
    Program,
    Reduction,
    Stmt,
    Update,
    When,
)
from naperian.loops.walk import rebuild_loops, remade, statements
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.nests.pieces import Pieces, compare
from naperian.passes.nests.sliding import Window, runs
from naperian.prims import Math
from naperian.sizes import ZERO, Atom, Size, clamp, size

MANY = 64  # windows from which on it pays, if they are wide
_ROWS = 1024  # windows at a time: what belongs to them stays in the nearest cache
_WORK = 16  # additions for each of them


def windows(program: Program) -> Program:
    """See the module."""
    exact = program.math is Math.STRICT

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            made = _in_pieces(s, exact) if isinstance(s, Loop) else None
            out += (rebuild_loops(s, block),) if made is None else made
        return tuple(out)

    return replace(program, body=block(program.body))


def _in_pieces(s: Loop, exact: bool) -> tuple[Stmt, ...] | None:
    """A loop whose windows are put together from pieces where they are wide and many, if it has
    any."""
    if s.order is Order.SERIAL or s.low != ZERO:
        return None
    if any(isinstance(x, Update) for x in statements(s.body)):
        return None
    found = [w for w in runs(s) if w.moves(s) and not (exact and w.is_float)]
    if not found or any(w.wide != found[0].wide for w in found):
        return None
    wide = found[0].wide
    return if_wide(s, wide, max(w.least for w in found), tuple(_strips(s, found, wide)))


def _strips(s: Loop, found: Sequence[Window], wide: Size) -> Iterator[Stmt]:
    """The loop, so many rounds at a time."""
    kinds: dict[tuple[str, DType], list[Reduction]] = {}
    for r in (r for w in found for r in w.loops[0].reductions):
        kinds.setdefault((r.monoid, r.dtype), []).append(r)

    def made(first: Size, count: Size) -> tuple[list[Pieces], list[Stmt]]:
        row = fresh(s.var)
        pieces = [Pieces(of, wide, count) for of in kinds.values()]
        of = {r.var: p for p in pieces for r in p.reductions}
        body: list[Stmt] = []
        sums: dict[Stmt, list[Stmt]] = {}
        for w in found:
            body += w.filled(s, of, first, count + wide - 1)
            sums.update((x, []) for x in w.loops)
        for p in pieces:
            body += p.steps()
        taken = {x.var: x for p in pieces for x in p.taken(row)}
        for w in found:
            sums[w.loops[0]] = [taken[r.var] for r in w.loops[0].reductions]
        here: dict[Atom, Size] = {s.var: first + row}
        rest = [y for x in s.body for y in sums.get(x, [x])]
        inner = remade(rest, here.get)
        body.append(replace(s, var=row, high=count, body=inner, order=Order.FREE))
        return pieces, body

    return in_strips(s, wide, s.reductions, made)


def in_strips(
    s: Loop, wide: Size, reductions: tuple[Reduction, ...],
    made: Callable[[Size, Size], tuple[Sequence[Pieces], list[Stmt]]],
) -> Iterator[Stmt]:  # fmt: skip
    """The rounds of a loop, at least as many at a time as a window is wide: the pieces for those
    from a first one on, and what is done with them."""
    strip, many = Var("strip"), Var("count")
    if wide.constant is None:
        most, least = Var("rows"), Lit(_ROWS, DType.I64)
        yield Let(most, DType.I64, Apply("max", (Number(wide), least), DType.I64, DType.I64))
        rows = size(most)
    else:
        rows = size(max(wide.constant, _ROWS))
    first = size(strip) * rows
    pieces, body = made(first, size(many))
    body = [Let(many, DType.I64, Number(clamp(s.high - first, rows + 1))), *body]
    tables = [t for p in pieces for t in p.tables(rows)]
    strips = (s.high + rows - 1) // rows
    threads = s.order is Order.PARALLEL
    if not threads:
        yield from tables
    order = Order.PARALLEL if threads else Order.SERIAL
    whole = (*tables, *body) if threads else tuple(body)
    yield Loop(strip, ZERO, strips, whole, order, reductions, rows * _WORK)


def if_wide(
    s: Loop, wide: Size, least: int, made: tuple[Stmt, ...]
) -> tuple[Stmt, ...] | None:
    """What takes the place of a loop where its windows are wide and many."""
    if _is_less(s.high, MANY):
        return None
    if wide.constant is not None:
        return made if wide.constant >= least else None
    long, many = compare("ge", wide, size(least)), compare("ge", s.high, size(MANY))
    return (When(Apply("and", (long, many), DType.BOOL, DType.BOOL), made, (s,)),)


def _is_less(n: Size, least: int) -> bool:
    return n.constant is not None and n.constant < least
