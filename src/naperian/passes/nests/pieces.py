"""Windows put together from pieces whose lengths are powers of two. loops → loops

    for w in 1, 2, 4, … while 2 * w ≤ k:
        if k // w % 2 == 1:
            free for i in 0..count: store sums[i] = sums[i] + t[0, i + k % w]
        free for p in 0..count + k - 2 * w: store t[1, p] = t[0, p] + t[0, p + w]
        t[0], t[1] = t[1], t[0]

where `t[0, p]` is what is reduced at `p` to begin with. What a window has in the end is `sums[i]`
and the longest piece, `t[0, i + k % w]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from naperian.dtypes import DType
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
    Number,
    Order,
    Part,
    Reduction,
    Role,
    Stmt,
    Store,
    Variable,
    When,
    While,
)
from naperian.names import Lit, Var
from naperian.prims import unit
from naperian.sizes import ONE, ZERO, Size, size

_Place = Callable[[tuple[Size, ...], Size], Part]
"""Where something is, of a reduction and a window or piece."""

_PAGE = 4096  # bytes: a load waits for a store to its place in another page
_APART = 64  # elements


@dataclass
class Pieces:
    """What is reduced by one operation: tables of pieces, of which every other length has its own,
    and what windows have of them so far; of several reductions one after the other."""

    reductions: Sequence[Reduction]
    wide: Size
    count: Size
    table: Var = field(default_factory=lambda: Var("pieces"))
    so_far: Var = field(default_factory=lambda: Var("so_far"))

    def __post_init__(self) -> None:
        """The longest pieces that fit, and their table: what windows have besides is the rest."""
        self.longest, self.last = Var("longest"), Var("last")
        self.rest = self.wide % size(self.longest)
        self.dtype = self.reductions[0].dtype

    def row(self, k: Size) -> tuple[Size, ...]:
        """The index of a reduction, where there are several."""
        return (k,) if len(self.reductions) > 1 else ()

    def begun(self, v: Var, p: Var, value: Expr) -> Iterator[Store]:
        """What `v` reduces at a place is a piece by itself; a window there has nothing so far."""
        k = [r.var for r in self.reductions].index(v)
        at = (*self.row(size(k)), size(p))
        yield Store(self.table, (ZERO, *at), value)
        yield Store(self.so_far, at, Lit(unit(self.reductions[k].monoid, self.dtype), self.dtype))

    def tables(self, rows: Size) -> Iterator[Allocate]:
        """The memory of it, for so many windows at most."""
        page = _PAGE // self.dtype.bytes
        # what is stored is not at the same place in its page as what is read next
        length = (rows + self.wide + (_APART + page - 1)) // page * page - _APART
        several = self.row(size(len(self.reductions)))
        for v, shape in (
            (self.table, (size(2), *several, length)),
            (self.so_far, (*several, length)),
        ):
            yield Allocate(Buffer(v, self.dtype, shape, Role.TEMP))

    def taken(self, i: Var) -> Iterator[Assign]:
        """What the loop over one window was."""
        for k, r in enumerate(self.reductions):
            row = self.row(size(k))
            last = Load(self.table, (size(self.last), *row, size(i) + self.rest))
            both = self.both(Load(self.so_far, (*row, size(i))), last)
            yield Assign(r.var, self.both(Local(r.var), both))

    def both(self, one: Expr, other: Expr) -> Expr:
        return Apply(self.reductions[0].monoid, (one, other), self.dtype, self.dtype)

    def joined(self, to: Part, left: Part, right: Part) -> tuple[Stmt, ...]:
        """What two pieces beside each other have, put together."""
        return (Store(*to, self.both(Load(*left), Load(*right))),)

    def over(self, count: Size, to: _Place, left: _Place, right: _Place) -> tuple[Stmt, ...]:
        """Two pieces put together for each of a count, of each reduction."""
        i, k = Var("i"), Var("k")
        row, at = self.row(size(k)), size(i)
        body = self.joined(to(row, at), left(row, at), right(row, at))
        body = (Loop(i, ZERO, count, body, Order.FREE),)
        if row:
            body = (Loop(k, ZERO, size(len(self.reductions)), body, Order.SERIAL),)
        return body

    def steps(self) -> Iterator[Stmt]:
        """Pieces twice as long, time and again; windows take one where their length has its bit,
        the longest where they are read."""
        length, which = Var("length"), Var("which")
        now, here = Var("piece"), Var("here")
        w, wide, table = size(now), self.wide, size(here)

        def sums(row: tuple[Size, ...], i: Size) -> Part:
            return self.so_far, (*row, i)

        def longer(row: tuple[Size, ...], p: Size) -> Part:
            return self.table, (ONE - table, *row, p)

        def piece(row: tuple[Size, ...], p: Size) -> Part:
            return self.table, (table, *row, p)

        def rest(row: tuple[Size, ...], i: Size) -> Part:
            return piece(row, i + wide % w)

        def next_to(row: tuple[Size, ...], p: Size) -> Part:
            return piece(row, p + w)

        yield Variable(length, DType.I64, Lit(1, DType.I64))
        yield Variable(which, DType.I64, Lit(0, DType.I64))
        yield While(
            (Let(now, DType.I64, Local(length)),),
            compare("le", w * 2, wide),
            (
                Let(here, DType.I64, Local(which)),
                When(compare("eq", wide // w % 2, ONE), self.over(self.count, sums, sums, rest)),
                *self.over(self.count + wide - w * 2, longer, piece, next_to),
                Assign(which, Number(ONE - table)),
                Assign(length, Number(w * 2)),
            ),
        )
        yield Let(self.longest, DType.I64, Local(length))
        yield Let(self.last, DType.I64, Local(which))


def compare(name: str, a: Size, b: Size) -> Expr:
    """A comparison of numbers."""
    return Apply(name, (Number(a), Number(b)), DType.BOOL, DType.I64)
