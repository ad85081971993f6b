"""What every round of a loop computes of all elements again is computed before it. loops → loops

    before   free for i in 0..n:                        after   free for i in 0..n:
                 for a in 0..d:                                     for e in 0..d:
                     for b in 0..a:                                     store t[e] = x[i, e] - m[e]
                         v := v + q[a, b] * (x[i, b] - m[b])        for a in 0..d:
                                                                        for b in 0..a:
                                                                            v := v + q[a, b] * t[b]

An element of the table is a vector when rows go side by side (`lanes`), and is one operation and
one element of another array less in each of the inner rounds. Along a row that is itself a vector
that would save nothing: it is for such rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

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
    Role,
    Stmt,
    Store,
    Update,
    Variable,
)
from naperian.loops.walk import (
    assigned,
    blocks,
    expressions,
    parts,
    rebuild,
    rebuild_loops,
    statements,
    used_in,
    writes,
)
from naperian.names import Lit, Var
from naperian.sizes import ZERO, Size, rename, size

_FEW = 4  # rounds that are not worth a table

Buffers = Mapping[Var, Buffer]


def tabled(row: Loop, buffers: Buffers) -> Loop:
    """A loop whose rounds go side by side; see the module."""
    return replace(row, body=_Tables(row, buffers).block(row.body))


class _Tables:
    def __init__(self, row: Loop, buffers: Buffers) -> None:
        self.row = row.var
        self.buffers = dict(buffers)
        self.own = {row.var, *_bound(row.body)}
        self.changed = {v for s in statements(row.body) if (v := writes(s)) is not None}
        self.changed |= assigned(row)  # what a loop carries, too, that is declared around it

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, Loop) and (s.high - s.low).constant not in range(_FEW + 1):
                s = self.freed(s, out)
            out.append(rebuild_loops(s, self.block))
        return tuple(out)

    def freed(self, s: Loop, out: list[Stmt]) -> Loop:
        """The loop with tables, which are made in `out`."""
        inside = {s.var, *_bound(s.body)}
        e = Var("e")
        tables: dict[Expr, Var] = {}
        for v, top in _inner(s.body):
            for part in self.largest(top, v, inside):
                key = _at(part, v, e)
                n = self.length(part, v, inside)
                if n is None or key in tables:
                    continue
                made = Buffer(Var("table"), part.dtype, (n,), Role.TEMP)
                tables[key] = made.var
                self.buffers[made.var] = made  # a loop inside may look for more
                store = Store(made.var, (size(e),), key)
                out += [Allocate(made), Loop(e, ZERO, n, (store,), Order.FREE)]
        if not tables:
            return s
        return replace(s, body=_looked_up(s.body, around=(s.var,), tables=tables, e=e))

    def largest(self, x: Expr, v: Var, inside: set[Var]) -> Iterator[Apply]:
        """The largest parts of an expression that a table along `v` has."""
        if isinstance(x, Apply):
            if self.length(x, v, inside) is not None:
                yield x
            else:
                for y in x.args:
                    yield from self.largest(y, v, inside)

    def length(self, x: Expr, v: Var, inside: set[Var]) -> Size | None:
        """How long a table of an expression along an index is, if there can be one: its elements
        are the row's, what else the loop binds has no part in it, and nothing in it changes."""
        lengths: set[Size] = set()
        mine = False
        for p in parts(x):
            match p:
                case Apply():
                    if not (p.dtype.is_float and p.operand.is_float):
                        return None
                case Lit():
                    pass
                case Local(var):
                    if var in inside or var in self.changed:
                        return None
                case Load(buffer, at):
                    if buffer in self.changed or buffer in inside:
                        return None
                    mine = mine or any(self.row in used_in(i) for i in at)
                    for i, extent in zip(at, self.buffers[buffer].shape, strict=True):
                        if i == size(v):
                            lengths.add(extent)
                        elif not (self.changed | inside).isdisjoint(used_in(i)):
                            return None
                case Number():
                    return None
        n = lengths.pop() if mine and len(lengths) == 1 else None
        return n if n is not None and self.own.isdisjoint(used_in(n)) else None


def _bound(body: tuple[Stmt, ...]) -> Iterator[Var]:
    for s in statements(body):
        match s:
            case Loop(var) | Let(var) | Variable(var):
                yield var
            case Allocate(buffer):
                yield buffer.var
            case _:
                pass


def _inner(body: tuple[Stmt, ...]) -> Iterator[tuple[Var, Expr]]:
    """What the loops in a body evaluate, each with the index of the loop it is in."""
    for s in body:
        if isinstance(s, Loop) and (s.high - s.low).constant not in range(_FEW + 1):
            for x in s.body:
                yield from ((s.var, e) for e in expressions(x) if not isinstance(x, Loop))
        for b in blocks(s):
            yield from _inner(b)


def _at(x: Expr, v: Var, e: Var) -> Expr:
    """An expression at another index."""
    match x:
        case Load(buffer, at):
            return Load(buffer, tuple(rename(i, {v: size(e)}) for i in at))
        case Apply():
            return replace(x, args=tuple(_at(y, v, e) for y in x.args))
        case _:
            return x


def _looked_up(
    body: tuple[Stmt, ...], *, around: tuple[Var, ...], tables: Mapping[Expr, Var], e: Var
) -> tuple[Stmt, ...]:
    """The statements with elements of tables for what those hold."""
    def look(x: Expr) -> Expr:
        if not isinstance(x, Apply):
            return x
        for v in around:
            table = tables.get(_at(x, v, e))
            if table is not None:
                return Load(table, (size(v),))
        return replace(x, args=tuple(map(look, x.args)))

    out: list[Stmt] = []
    for s in body:
        match s:
            case Let(_, _, value) | Variable(_, _, value) | Assign(_, value):
                out.append(replace(s, value=look(value)))
            case Store(_, _, value) | Update(_, _, _, value):
                out.append(replace(s, value=look(value)))
            case _:
                inside = (*around, s.var) if isinstance(s, Loop) else around
                out.append(rebuild(s, partial(_looked_up, around=inside, tables=tables, e=e)))
    return tuple(out)
