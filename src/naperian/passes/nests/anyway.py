"""What a vector loop writes only under a condition it writes in any case. loops → loops

    before   free for j in 0..n:                    after   free for j in 0..n:
                 v = d[i, j]                                    v = d[i, j]
                 w = one + d[k, j]                              w = one + d[k, j]
                 if w < v:                                      better = w < v
                     store d[i, j] = w                          store d[i, j] = w if better
                                                                              else d[i, j]
                     update s[j] += 1                           update s[j] += 1 if better else 0

A round may write an element that is there, since rounds are independent, so that no other one reads
or writes it: of an array that the round goes along, or one that it has read. So the loop becomes
vectors here. LLVM would write some lanes by a mask, which processors without registers for masks do
slowly or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Buffer,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Order,
    Program,
    Stmt,
    Store,
    Update,
    When,
    While,
)
from naperian.loops.walk import (
    expressions,
    loads,
    parts,
    rebuild,
    statements,
    used_in,
)
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.prims import PRIMITIVES, unit
from naperian.sizes import Size, size

_CHEAP = 4  # the cost of an operation that lanes may do in vain
_LAZY = {"select", "and", "or"}  # which need not evaluate all of their operands

Buffers = Mapping[Var, Buffer]
Around = tuple[Loop, ...]
"""The loops that a statement is in."""


def anyway(program: Program) -> Program:
    """See the module."""
    made = [s for s in statements(program.body) if isinstance(s, Allocate)]
    buffers = {b.var: b for b in (*program.buffers, *(s.buffer for s in made))}
    for s in made:
        # parts may be the caller's; copies of a loop may have memory of other sizes
        if s.planes or buffers.get(s.buffer.var) != s.buffer:
            buffers.pop(s.buffer.var, None)
    return replace(program, body=_block(program.body, buffers, ()))


def _block(body: tuple[Stmt, ...], buffers: Buffers, around: Around) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        inside = (*around, s) if isinstance(s, Loop) else around
        if isinstance(s, Loop) and _is_innermost(s):
            out.append(replace(s, body=_Round(buffers, inside).block(s.body)))
        else:
            out.append(rebuild(s, partial(_block, buffers=buffers, around=inside)))
    return tuple(out)


def _is_innermost(s: Loop) -> bool:
    return s.order is not Order.SERIAL and not any(
        isinstance(x, Loop | While) for x in statements(s.body)
    )


class _Round:
    """A round of the last of these loops."""

    def __init__(self, buffers: Buffers, around: Around) -> None:
        self.buffers, self.around = buffers, {s.var: s for s in around}
        self.var, inside = around[-1].var, statements(around[-1].body)
        self.own = {x.var for x in inside if isinstance(x, Let)}
        self.written = {(x.buffer, x.at) for x in inside if isinstance(x, Store | Update)}
        self.read: set[Load] = set()

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, When) and not s.otherwise and all(map(self.may, s.then)):
                holds = Var("holds")
                out.append(Let(holds, DType.BOOL, s.condition))
                out += (self.done(x, Local(holds)) for x in s.then)
            else:
                out.append(s)
            if not any(isinstance(p, Apply) and p.name in _LAZY for e in expressions(s)
                       for p in parts(e)):  # fmt: skip
                self.read.update(loads(s))
        return tuple(out)

    def may(self, s: Stmt) -> bool:
        """Whether all rounds may do what only some have to."""
        if not all(_is_cheap(p) for e in expressions(s) for p in parts(e)):
            return False
        if not all(self.is_there(x) for x in loads(s)):
            return False
        match s:
            case Let():
                return True
            case Store(buffer, at) | Update(buffer, at):
                alone = all(b != buffer or e == at for b, e in self.written)
                return alone and self.goes_along(at) and self.is_there(Load(buffer, at))
            case _:
                return False

    def goes_along(self, at: tuple[Size, ...]) -> bool:
        """Whether each round has an element of its own, beside that of the next."""
        *others, last = at
        known = {self.var, *self.own}
        rest = last - size(self.var) * last.coefficient(self.var)
        return abs(last.coefficient(self.var)) == 1 and all(
            known.isdisjoint(used_in(e)) and all(isinstance(a, Var) for a in e.atoms)
            for e in (*others, rest)
        )

    def is_there(self, x: Load) -> bool:
        """Whether a buffer has an element there, also where the condition does not hold."""
        if x in self.read:
            return True
        if x.buffer not in self.buffers:
            return False
        shape = self.buffers[x.buffer].shape
        return all(self.is_within(e, n) for e, n in zip(x.at, shape, strict=True))

    def is_within(self, index: Size, extent: Size) -> bool:
        v = index.single
        if isinstance(v, Var) and v in self.around:
            s = self.around[v]
            low, rest = s.low.constant, (extent - s.high).constant
            if low is not None and low >= 0 and rest is not None and rest >= 0:
                return True
        return any(
            at == index and n == extent
            for y in self.read if y.buffer in self.buffers
            for at, n in zip(y.at, self.buffers[y.buffer].shape, strict=True)
        )  # fmt: skip

    def done(self, s: Stmt, holds: Expr) -> Stmt:
        """What changes nothing where the condition does not hold."""
        match s:
            case Store(buffer, at, value):
                dtype = self.buffers[buffer].dtype
                old: Expr = Load(buffer, at)
            case Update(buffer, _, monoid, value):
                dtype = self.buffers[buffer].dtype
                zero = -0.0 if monoid == "add" and dtype.is_float else unit(monoid, dtype)
                old = Lit(zero, dtype)
            case _:
                return s
        return replace(s, value=Apply("select", (holds, value, old), dtype, dtype))


def _is_cheap(e: Expr) -> bool:
    if not isinstance(e, Apply):
        return True
    slow = e.name in ("floordiv", "mod") and not e.operand.is_float
    return not slow and (e.name not in PRIMITIVES or PRIMITIVES[e.name].cost <= _CHEAP)
