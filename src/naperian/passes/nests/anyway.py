"""What a vector loop writes only under a condition it writes in any case. loops → loops

    before   free for j in 0..n:                    after   free for j in 0..n:
                 v = d[i, j]                                    v = d[i, j]
                 w = one + d[k, j]                              w = one + d[k, j]
                 if w < v:                                      better = w < v
                     store d[i, j] = w                          store d[i, j] = w if better
                                                                              else d[i, j]
                     update s[j] += 1                           update s[j] += 1 if better else 0
                 if a[j]:                                       both = a[j] and b[j]
                     if b[j]: u := x[j] * w                     u := x[j] * w if both else u

A round may write an element that is there, since rounds are independent, so that no other one reads
or writes it: of an array that the round goes along, or one that it has read. So the loop becomes
vectors here. LLVM would write some lanes by a mask, which processors without registers for masks do
slowly or not at all, and reckons that what is read behind several conditions is worth no vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

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
    Order,
    Program,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.loops.walk import (
    expressions,
    loads,
    parts,
    rebuild,
    statements,
    used,
    used_in,
)
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.prims import PRIMITIVES, unit
from naperian.sizes import Remainder, Size, size

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
            some = any(isinstance(x, When) for x in s.body)
            out.append(rebuild(s, _Round(buffers, inside).block) if some else s)
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
        self.var, inside = around[-1].var, [*statements(around[-1].body)]
        self.own = {x.var for x in inside if isinstance(x, Let)}
        self.variables = {x.var: x.dtype for x in inside if isinstance(x, Variable)}
        self.written = {(x.buffer, x.at) for x in inside if isinstance(x, Store | Update)}
        self.read: set[Load] = set()
        self.varying = {self.var, *self.variables, *(b for b, _ in self.written)}
        for x in inside:
            if isinstance(x, Let) and self.varies(x.value):
                self.varying.add(x.var)

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            if not any(isinstance(p, Apply) and p.name in _LAZY for e in expressions(s)
                       for p in parts(e)):  # fmt: skip
                self.read.update(loads(s))
            if isinstance(s, When) and self.may(s):
                out += self.done(s, None)
            else:
                out.append(s)
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
            case Assign(var):
                return var in self.variables
            case When(condition, then, ()):
                return self.varies(condition) and all(map(self.may, then))
            case Store(buffer, at) | Update(buffer, at):
                alone = all(b != buffer or e == at for b, e in self.written)
                return alone and self.goes_along(at) and self.is_there(Load(buffer, at))
            case _:
                return False

    def varies(self, e: Expr) -> bool:
        """Whether a value may be another one in the next round. LLVM asks once what is not."""
        return not self.varying.isdisjoint(used(e))

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
        match index.single:
            case Remainder(_, below) if below == extent and below.constant:
                return True
            case _:
                pass
        for v in used_in(index):
            if v in self.around and (c := index.coefficient(v)):
                s, rest = self.around[v], index - size(v) * c
                ends = rest + s.low * c, rest + (s.high - 1) * c
                least, most = ends if c > 0 else reversed(ends)
                low, room = least.constant, (extent - 1 - most).constant
                if low is not None and low >= 0 and room is not None and room >= 0:
                    return True
        return any(
            at == index and n == extent
            for y in self.read if y.buffer in self.buffers
            for at, n in zip(y.at, self.buffers[y.buffer].shape, strict=True)
        )  # fmt: skip

    def done(self, s: Stmt, holds: Expr | None) -> Iterator[Stmt]:
        """What changes nothing where a condition does not hold."""
        old: Expr
        match s:
            case When(condition, then):
                mine = Var("holds")
                if holds is not None:
                    condition = Apply("and", (holds, condition), DType.BOOL, DType.BOOL)
                yield Let(mine, DType.BOOL, condition)
                for x in then:
                    yield from self.done(x, Local(mine))
                return
            case Assign(var):
                dtype, old = self.variables[var], Local(var)
            case Store(buffer, at):
                dtype, old = self.buffers[buffer].dtype, Load(buffer, at)
            case Update(buffer, _, monoid):
                dtype = self.buffers[buffer].dtype
                zero = -0.0 if monoid == "add" and dtype.is_float else unit(monoid, dtype)
                old = Lit(zero, dtype)
            case _:
                yield s
                return
        assert holds is not None
        yield replace(s, value=Apply("select", (holds, s.value, old), dtype, dtype))


def _is_cheap(e: Expr) -> bool:
    if not isinstance(e, Apply):
        return True
    slow = e.name in ("floordiv", "mod") and not e.operand.is_float
    return not slow and (e.name not in PRIMITIVES or PRIMITIVES[e.name].cost <= _CHEAP)
