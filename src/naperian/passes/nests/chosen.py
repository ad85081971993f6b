"""Which element of a few is meant is chosen among all of them. loops → loops

    before   for i in 0..n:
                 allocate small m[2]
                 …
                 if swap:
                     v := m[p]
                     store m[p] = t

    after    for i in 0..n:
                 allocate small m[2]
                 …
                 if swap:
                     v := m[0] if p == 0 else m[1]
                     store m[0] = t if p == 0 else m[0]
                     store m[1] = t if p == 1 else m[1]

An array of which all places are known is kept in registers, and a loop around it becomes vectors:
systems of a few equations are solved side by side, though each looks for its own pivots. Only
arrays that one round of a loop has for itself, and whose other places are numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Program,
    Stmt,
    Store,
    Variable,
    When,
)
from naperian.loops.walk import (
    all_of,
    atoms,
    index_expressions,
    loads,
    mentions,
    rebuild,
    rebuild_loops,
    statements,
    used_in,
)
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.sizes import Size, size

_FEW = 4  # elements along an axis
_SIMPLE = Let | Variable | Assign | Store | When | Allocate

_Arrays = dict[Var, tuple[tuple[int, ...], DType]]  # how many elements, and of what


def chosen(program: Program) -> Program:
    """See the module."""
    return replace(program, body=tuple(rebuild_loops(s, _block) for s in program.body))


def _block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A block inside of a loop."""
    mine, rounds = _arrays(body)
    if mine:
        body = tuple(x for s in body for x in _Choices(mine, rounds).statement(s))
    return tuple(rebuild_loops(s, _block) for s in body)


def _arrays(body: tuple[Stmt, ...]) -> tuple[_Arrays, set[Var]]:
    """The arrays of a block of which all places are known but for those that are chosen, of which
    there are some; and the indices that are known, of loops that become straight code."""
    found: _Arrays = {}
    for s in body:
        if isinstance(s, Allocate) and s.fill is None and not s.planes:
            shape = tuple(n.constant or 0 for n in s.buffer.shape)
            if 1 <= len(shape) <= 2 and min(shape) > 0 and max(shape) <= _FEW:
                found[s.buffer.var] = shape, s.buffer.dtype
    asked: set[Var] = set()
    rounds: set[Var] = set()
    if not found:
        return {}, rounds
    for s in statements(body):
        refused: set[Var] = {x.buffer for e in index_expressions(s) for x in atoms(e)
                             if isinstance(x, Load)}  # fmt: skip
        n = (s.high - s.low).constant if isinstance(s, Loop) and s.order is Order.FREE else None
        if isinstance(s, Loop) and n is not None and n <= _FEW**2:
            rounds.add(s.var)
        elif not isinstance(s, _SIMPLE):
            refused |= mentions(s)
        for v, at in _places(s):
            unknown = {w for e in at for w in used_in(e)} - rounds
            if unknown and any(not rounds.isdisjoint(used_in(e)) for e in at):
                refused.add(v)
            elif unknown:
                asked.add(v)
        for v in refused & found.keys():
            del found[v]
    return {v: found[v] for v in found if v in asked}, rounds


def _places(s: Stmt) -> Iterator[tuple[Var, tuple[Size, ...]]]:
    """The elements that a statement reads and writes itself."""
    for x in loads(s):
        yield x.buffer, x.at
    if isinstance(s, Store):
        yield s.buffer, s.at


class _Choices:
    """Statements in which some arrays are asked for at known places only."""

    def __init__(self, arrays: _Arrays, rounds: set[Var]) -> None:
        self.arrays = arrays
        self.rounds = rounds

    def statement(self, s: Stmt) -> list[Stmt]:
        match s:
            case Let(v, dtype, value):
                return [Let(v, dtype, self.value(value))]
            case Variable(v, dtype, value):
                return [Variable(v, dtype, self.value(value))]
            case Assign(v, value):
                return [Assign(v, self.value(value))]
            case Store(v, at, value):
                return self.store(v, at, self.value(value))
            case When(condition, then, otherwise):
                return [When(self.value(condition), self.block(then), self.block(otherwise))]
            case _:
                return [rebuild(s, self.block)]

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(x for s in body for x in self.statement(s))

    def value(self, e: Expr) -> Expr:
        match e:
            case Apply(name, args, dtype, operand):
                return Apply(name, tuple(self.value(x) for x in args), dtype, operand)
            case Load(v, at) if self.unknown(v, at):
                dtype = self.arrays[v][1]
                (*others, (_, last)) = self.elements(v, at)
                made: Expr = Load(v, last)
                for asked, place in reversed(others):
                    made = Apply("select", (asked, Load(v, place), made), dtype, dtype)
                return made
            case _:
                return e

    def store(self, v: Var, at: tuple[Size, ...], value: Expr) -> list[Stmt]:
        if not self.unknown(v, at):
            return [Store(v, at, value)]
        dtype, x = self.arrays[v][1], fresh(v)
        out: list[Stmt] = [Let(x, dtype, value)]
        for asked, place in self.elements(v, at):
            args = asked, Local(x), Load(v, place)
            out.append(Store(v, place, Apply("select", args, dtype, dtype)))
        return out

    def unknown(self, v: Var, at: tuple[Size, ...]) -> list[int]:
        """The axes along which a place is chosen."""
        if v not in self.arrays:
            return []
        return [k for k, e in enumerate(at) if not self.rounds.issuperset(used_in(e))]

    def elements(
        self, v: Var, at: tuple[Size, ...]
    ) -> Iterator[tuple[Expr, tuple[Size, ...]]]:
        """The elements that may be meant, each with what is asked."""
        axes, shape = self.unknown(v, at), self.arrays[v][0]
        for ks in product(*(range(shape[a]) for a in axes)):
            place = list(at)
            asked: list[Expr] = []
            for a, k in zip(axes, ks, strict=True):
                place[a] = size(k)
                pair = Number(at[a]), Lit(k, DType.I64)
                asked.append(Apply("eq", pair, DType.BOOL, DType.I64))
            yield all_of(asked), tuple(place)
