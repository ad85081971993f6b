"""Sums over windows, whose rows are read where a table says.

    before   contract out[b, o, i, j] = x[b, c, i + r, j + s] * k[o, c, r, s]

    after    at[(c·3 + r)·3 + s] = how far x[b, c, i + r, j + s] is from x[b, 0, i, j]
             to[i] = how far x[b, 0, i, j] is from x[b, 0, 0, j]
             parallel for b, and for strips of lines i:
                 contract out[b, o, i, j] = k[o, p] * (element at[p] + to[i] after x[b, 0, 0, j])

The sums over c, r and s are one sum, in registers; those that are no one loop of the other factor
add up. Lines that are one row of the result are columns of one product (`windows`). Where there is
one line, nothing is copied.
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
from naperian.names import Lit, Var
from naperian.node import node, replace
from naperian.prims import unit
from naperian.sizes import ONE, ZERO, Size, atom, clamp, rename, size

STRIP = 480  # columns of one product: whole panels of every width
LINES = 240  # and of lines, which may be few: a layer's weights
_CHEAP = 16  # multiplications of a product take as long as an addition elsewhere


def tabled(
    s: Contract, offset: Offset, sizes: Collection[Var]
) -> tuple[Stmt, ...] | None:
    """The statements, if the contraction is of this kind."""
    sides = ((s.left, s.rows, s.right, s.columns), (s.right, s.columns, s.left, s.rows))
    out = offset(*s.out)
    for windowed, along, plain, across in sides:
        w, p = offset(*windowed), offset(*plain)
        beside = next((r for r in runs(along, out) if stride(out, r[-1][0]) == ONE), None)
        if beside is None:
            continue
        columns, rows = runs(beside, w)[-1], longest_run(across, out, p)
        lines, inner = without(beside, columns), longest_run(s.inner, p)
        around = s.batch + without(along, beside) + without(across, rows)
        made = _Windows(s, windowed, plain, w, rows, inner, columns, lines, around, sizes)
        return made.statements()
    return None


@node
class _Windows:
    """A contraction: the factor that is read in windows, with its places, and the other one; the
    loops that are rows, sum and columns of a product, those whose columns are beside each other in
    the result, but not in that factor, and the ones around."""

    contract: Contract
    windowed: Part
    plain: Part
    places: Size
    rows: Loops
    inner: Loops
    columns: Loops
    lines: Loops
    around: Loops
    sizes: Collection[Var]

    def statements(self) -> tuple[Stmt, ...]:
        near = stride(self.places, self.columns[-1][0]) == ONE
        return self.in_place() if near and not self.lines else self.in_lines()

    def in_place(self) -> tuple[Stmt, ...]:
        """A product for every strip of the line."""
        at, filled = self.table("at", self.inner)
        strips, first, each = self.strips(self.columns)
        column = Var("column")
        here = _flat(self.columns, first + column)
        body = self.product(at, here, here, None, ((column, each),))
        return (*filled, self.shared((*self.around, strips), body))

    def in_lines(self) -> tuple[Stmt, ...]:
        """A product for some lines together, or for a part of one."""
        at, filled = self.table("at", self.inner)
        to, starts = self.table("to", self.lines)
        strips, first, each = self.strips(self.lines or self.columns)
        row, column = Var("row"), Var("column")
        if self.lines:
            there = _flat(self.columns, size(column))
            here = there | _flat(self.lines, first + row)
            loops, line = ((row, each), (column, rounds(self.columns, self.sizes))), first + row
            there |= {v: ZERO for v, _ in self.lines}
        else:
            here = there = _flat(self.columns, first + column)
            loops, line = ((row, ONE), (column, each)), size(row)
        body = self.product(at, here, there, Load(to, (line,)), loops)
        return (*filled, *starts, self.shared((*self.around, strips), body))

    def table(self, name: str, loops: Loops) -> tuple[Var, tuple[Stmt, ...]]:
        """How far from the first one what these loops read is."""
        position, away = ZERO, ZERO
        for v, extent in loops:
            position = position * extent + v
            away = away + stride(self.places, v) * v
        table = Buffer(Var(name), DType.I64, (rounds(loops, self.sizes),), Role.TEMP)
        fill: Stmt = Store(table.var, (position,), Number(away))
        return table.var, (Allocate(table), _nest(loops, fill))

    def strips(self, loops: Loops) -> tuple[tuple[Var, Size], Size, Size]:
        """A loop over parts of these ones, as one, that have about as many columns as a strip; the
        first of a part, and how many it has."""
        strip = Var("strip")
        long = rounds(loops, self.sizes)
        parts = rounds(self.lines + self.columns if loops == self.lines else loops, self.sizes)
        parts = parts // (LINES if self.lines else STRIP) + 1
        each = (long + parts - 1) // parts
        first = size(strip) * each
        return (strip, parts), first, clamp(long - first, each + 1)

    def product(
        self, at: Var, here: dict[Var, Size], there: dict[Var, Size], line: Load | None,
        columns: Loops,
    ) -> tuple[Stmt, ...]:  # fmt: skip
        """The product, of which the result is here and what is read in windows there."""
        s, k = self.contract, Var("k")
        over = without(s.inner, self.inner)
        begin = {v: ZERO for v, _ in self.inner}
        x, where = _moved(self.windowed, there | begin)
        last = where[-1] + atom(Load(at, (size(k),)))
        read = (x, (*where[:-1], last + atom(line) if line is not None else last))
        factor = _moved(self.plain, _flat(self.inner, size(k)))
        made: Stmt = replace(
            s, out=_moved(s.out, here), left=factor, right=read, batch=(), rows=self.rows,
            columns=columns, inner=((k, rounds(self.inner, self.sizes)),),
            accumulate=s.accumulate or bool(over),
        )  # fmt: skip
        if not over:
            return (made,)
        zero = Store(*_moved(s.out, here), Lit(unit("add", s.dtype), s.dtype))
        clear = () if s.accumulate else (_nest(self.rows + columns, zero),)
        return (*clear, _nest(over, made))

    def shared(self, loops: Loops, body: tuple[Stmt, ...]) -> Stmt:
        """Independent loops as one, whose rounds are shared out."""
        long = rounds(self.lines + self.columns, self.sizes).constant or STRIP
        work = count(self.rows + self.contract.inner) * min(STRIP, long) // _CHEAP
        round = Var("round")
        rest, lets = size(round), []
        for v, extent in reversed(loops[1:]):
            lets.append(Let(v, DType.I64, Number(rest % extent)))
            rest = rest // extent
        lets.append(Let(loops[0][0], DType.I64, Number(rest)))
        total = rounds(loops, self.sizes)
        return Loop(round, ZERO, total, (*lets, *body), Order.PARALLEL, (), work)


def _nest(loops: Loops, body: Stmt) -> Stmt:
    for v, extent in reversed(loops):
        body = Loop(v, ZERO, extent, (body,), Order.SERIAL)
    return body


def _flat(loops: Loops, at: Size) -> dict[Var, Size]:
    """Loops that are one, at a place of that one."""
    return {v: ZERO for v, _ in loops} | {loops[-1][0]: at}


def _moved(m: Part, names: dict[Var, Size]) -> Part:
    return m[0], tuple(rename(e, names) for e in m[1])
