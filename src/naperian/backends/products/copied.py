"""Sums of products with windows, for every place in a window: windows are copied side by side.

    before   contract out[o, c, r, s] = y[n, o, i, j] * x[n, c, i + r, j + s]       inner n, i, j

    after    parallel for n reducing add out:
                 for i, j, c, r, s: store t[i·w + j, (c·3 + r)·3 + s] = x[n, c, i + r, j + s]
                 contract out[o, q] += y[n, o, p] * t[p, q]

That is the derivative of a convolution by its kernel: what it sums over is long, and what lies side
by side in the result is a few elements of `x`. A copy of an element is multiplied as often as there
are rows.
"""

from __future__ import annotations

from math import prod

from naperian.backends.products.strides import (
    Loops,
    Offset,
    count,
    longest_run,
    runs,
    stride,
    without,
)
from naperian.loops.syntax import (
    Allocate,
    Buffer,
    Contract,
    Load,
    Loop,
    Order,
    Part,
    Reduction,
    Role,
    Stmt,
    Store,
)
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.prims import unit
from naperian.sizes import ONE, ZERO, Size, rename, size

_DEEP = 512  # products that are summed at a time, where it is known how many
_LEAST = 4  # rows and columns that are worth a copy


def copied(s: Contract, offset: Offset) -> tuple[Stmt, ...] | None:
    """The statements, if the contraction is of this kind."""
    out = offset(*s.out)
    sides = ((s.left, s.rows, s.right, s.columns), (s.right, s.columns, s.left, s.rows))
    for windowed, own, plain, across in sides:
        p = offset(*plain)
        columns, rows = runs(own, out)[-1], longest_run(across, out, p)
        few = any((count(r).constant or _LEAST) < _LEAST for r in (columns, rows))
        if few or stride(out, columns[-1][0]) != ONE:
            continue
        inner = _deepest(runs(s.inner, p)[-1])
        if stride(p, inner[-1][0]) == ONE and without(s.inner, inner):
            around = s.batch + without(own, columns) + without(across, rows)
            return _statements(s, windowed, plain, rows, columns, inner, around)
    return None


def _deepest(run: Loops) -> Loops:
    """The last loops of a run that are not too many rounds together."""
    for k in range(len(run) - 1):
        extents = [n.constant for _, n in run[k:]]
        if None not in extents and prod(n or 0 for n in extents) <= _DEEP:
            return run[k:]
    return run[-1:]


def _statements(
    s: Contract, windowed: Part, plain: Part, rows: Loops, columns: Loops, inner: Loops,
    around: Loops,
) -> tuple[Stmt, ...]:
    p, q = Var("p"), Var("q")
    deep, wide = count(inner), count(columns)
    table = Buffer(Var("windows"), s.dtype, (deep, wide), Role.TEMP)
    place = (_position(inner), _position(columns))
    fill: tuple[Stmt, ...] = (Store(table.var, place, Load(*windowed)),)
    for v, extent in reversed(inner + columns):
        fill = (Loop(v, ZERO, extent, fill, Order.FREE),)
    factor = _there(plain, {v: ZERO for v, _ in inner} | {inner[-1][0]: size(p)})
    copy = (table.var, (size(p), size(q)))
    first = windowed is s.left
    product = replace(
        s, out=_there(s.out, {v: ZERO for v, _ in columns} | {columns[-1][0]: size(q)}),
        left=copy if first else factor, right=factor if first else copy, batch=(),
        rows=((q, wide),) if first else rows, columns=rows if first else ((q, wide),),
        inner=((p, deep),), accumulate=True,
    )  # fmt: skip
    work = count(rows) * deep * wide
    body: tuple[Stmt, ...] = (Allocate(table), *fill, product)
    over = without(s.inner, inner)
    for k, (v, extent) in reversed(list(enumerate(over))):
        shared = not k and not around
        sums = (Reduction(s.out[0], "add", s.dtype),) if shared else ()
        order = Order.PARALLEL if shared else Order.SERIAL
        body = (Loop(v, ZERO, extent, body, order, sums, work),)
        work = work * extent
    if not s.accumulate:
        clear: tuple[Stmt, ...] = (Store(*s.out, Lit(unit("add", s.dtype), s.dtype)),)
        for v, extent in reversed(rows + columns):
            clear = (Loop(v, ZERO, extent, clear, Order.FREE),)
        body = (*clear, *body)
    for k, (v, extent) in reversed(list(enumerate(around))):
        body = (Loop(v, ZERO, extent, body, Order.FREE if k else Order.PARALLEL, (), work),)
        work = work * extent
    return body


def _position(loops: Loops) -> Size:
    """Which of all rounds together it is."""
    at = ZERO
    for v, extent in loops:
        at = at * extent + v
    return at


def _there(m: Part, names: dict[Var, Size]) -> Part:
    return m[0], tuple(rename(e, names) for e in m[1])
