"""Sums over windows, whose rows are read where a table says.

    before   contract out[b, o, i, j] = x[b, c, i + r, j + s] * k[o, c, r, s]

    after    at[(c·3 + r)·3 + s] = how far x[b, c, i + r, j + s] is from x[b, 0, i, j]
             parallel for (b, i), and for strips of j:
                 contract out[b, o, i, j] = (element at[p] after x[b, 0, i, j]) * k[o, p]

The sums over c, r and s are one sum, in registers, and nothing is copied. It takes one factor in
which they are one loop, and in the other one a loop along its rows and the result's.
"""

from __future__ import annotations

from collections.abc import Collection

from naperian.backends.products.strides import (
    Loops,
    Offset,
    count,
    longest_run,
    rounds,
    runs,
    stride,
    without,
)
from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Buffer,
    Contract,
    Let,
    Load,
    Loop,
    Number,
    Order,
    Part,
    Role,
    Stmt,
    Store,
)
from naperian.names import Var
from naperian.node import replace
from naperian.sizes import ONE, ZERO, Size, atom, clamp, rename, size

STRIP = 480  # columns of one product: whole panels of every width
_WIDE = 8  # so many columns are worth it
_CHEAP = 16  # multiplications of a product take as long as an addition elsewhere


def tabled(
    s: Contract, offset: Offset, sizes: Collection[Var]
) -> tuple[Stmt, ...] | None:
    """The statements, if the contraction is of this kind."""
    sides = ((s.left, s.rows, s.right, s.columns), (s.right, s.columns, s.left, s.rows))
    out = offset(*s.out)
    for windowed, along, plain, across in sides:
        w, p = offset(*windowed), offset(*plain)
        columns = next(
            (r for r in runs(along, out, w)
             if stride(out, r[-1][0]) == ONE == stride(w, r[-1][0])), None
        )  # fmt: skip
        narrow = columns is None or (count(columns).constant or _WIDE) < _WIDE
        if columns is None or narrow or len(runs(s.inner, p)) > 1:
            continue
        rows = longest_run(across, out, p)
        around = s.batch + without(along, columns) + without(across, rows)
        return _statements(s, windowed, plain, w, rows, columns, around, sizes)
    return None


def _statements(
    s: Contract, windowed: Part, plain: Part, w: Size, rows: Loops, columns: Loops, around: Loops,
    sizes: Collection[Var],
) -> tuple[Stmt, ...]:
    total, position, away = rounds(s.inner, sizes), ZERO, ZERO
    for v, extent in s.inner:
        position = position * extent + v
        away = away + stride(w, v) * v
    table = Buffer(Var("at"), DType.I64, (total,), Role.TEMP)
    fill: tuple[Stmt, ...] = (Store(table.var, (position,), Number(away)),)
    for v, extent in reversed(s.inner):
        fill = (Loop(v, ZERO, extent, fill, Order.SERIAL),)

    k, strip, column = Var("k"), Var("strip"), Var("column")
    long = rounds(columns, sizes)
    first = size(strip) * STRIP
    here = {v: ZERO for v, _ in columns} | {columns[-1][0]: first + column}
    start = {v: ZERO for v, _ in s.inner}

    def there(m: Part, names: dict[Var, Size]) -> Part:
        return m[0], tuple(rename(e, names) for e in m[1])

    x, at = there(windowed, here | start)
    read = (x, (*at[:-1], at[-1] + atom(Load(table.var, (size(k),)))))
    factor = there(plain, start | {s.inner[-1][0]: size(k)})
    sides = (read, factor) if windowed is s.left else (factor, read)
    here_columns = ((column, clamp(long - first, size(STRIP + 1))),)
    groups = (here_columns, rows) if windowed is s.left else (rows, here_columns)
    product = replace(
        s, out=there(s.out, here), left=sides[0], right=sides[1], batch=(), rows=groups[0],
        columns=groups[1], inner=((k, total),),
    )  # fmt: skip
    strips = (long + STRIP - 1) // STRIP
    work = count(rows) * total * min(STRIP, long.constant or STRIP) // _CHEAP
    body = _shared((*around, (strip, strips)), (product,), work, sizes)
    return (Allocate(table), *fill, body)


def _shared(
    loops: Loops, body: tuple[Stmt, ...], work: Size, sizes: Collection[Var]
) -> Stmt:
    """Independent loops as one, whose rounds are shared out."""
    round = Var("round")
    rest, lets = size(round), []
    for v, extent in reversed(loops[1:]):
        lets.append(Let(v, DType.I64, Number(rest % extent)))
        rest = rest // extent
    lets.append(Let(loops[0][0], DType.I64, Number(rest)))
    return Loop(round, ZERO, rounds(loops, sizes), (*lets, *body), Order.PARALLEL, (), work)
