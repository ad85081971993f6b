"""Sums of products under a condition of one factor, or of rows that data name, become sums of
products of arrays, which `contract` sees. ainf → ainf

    before   for i, j, k if m[i, k]: v = mul(a[i, k], b[k, j])
             for i, j, k:            w = select(m[i, k], v[i, j, k], 0.0)
             for i, j:               s = add over k of w[i, j, k]

    after    for i, k:               x = select(m[i, k], a[i, k], 0.0)
             for i, j, k:            v = mul(x[i, k], b[k, j])
             for i, j, k:            w = select(m[i, k], v[i, j, k], 0.0)
             for i, j:               s = add over k of w[i, j, k]

So do sums that ask for each of their terms, and those over half of a square: what comes before. The
condition stays, since zero times what is not finite is no zero. Without a first factor that is
1.0. A factor that is read at places which data name, `a[at[i], k]`, is copied.
"""

from __future__ import annotations

from math import prod
from typing import TypeAlias

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Delay,
    Entry,
    Guard,
    Op,
    Operand,
    Program,
    Read,
)
from naperian.ainf.walk import atoms, atoms_of, free, rewrite
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.node import node, replace
from naperian.prims import Math
from naperian.sizes import Size, places, size

_Known: TypeAlias = set[tuple[Operand, bool]]

_PANEL = 8  # elements of each side, at least: else a plain nest is as fast


def factors(program: Program) -> Program:
    """See the module."""
    if program.math is Math.STRICT:
        return program
    made = _Factors(program)
    out = [x for b in program.bindings for x in made.binding(b)]
    if len(out) == len(program.bindings):
        return program
    return replace(program, bindings=tuple(out))


@node
class _Product:
    """Two factors, the first of them there where a condition is what it is."""

    x: Operand
    y: Read
    condition: tuple[Operand, bool] | None


class _Factors:
    """The bindings of a program, and the indices of loops in order."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.made = {b.var: b for b in program.bindings}
        self.params = {p.var: p for p in program.params}
        self.times = {b.prim.time for b in program.bindings if isinstance(b.prim, Delay)}

    def binding(self, b: Binding) -> tuple[Binding, ...]:
        """A binding, after what it is made of if it is such a sum."""
        found = self.product(b)
        if found is None:
            return (b,)
        assert isinstance(b.prim, Accumulate)
        (entry,) = b.prim.entries
        new = _Made(b, (*b.context, *entry.over))
        x, y = (new.op("row", "copy", r) if self.gathers(r) else r for r in (found.x, found.y))
        nothing = Lit(0.0, b.dtype)
        if found.condition is not None:
            c, holds = found.condition
            c = c if holds else new.op("c", "not", c)
            x = new.op("x", "select", c, x, nothing)
        value = new.op("v", "mul", x, y, context=new.line)
        if found.condition is not None:
            value = new.op("w", "select", c, value, nothing, context=new.line)
        here = replace(b.prim, entries=(replace(entry, value=value, guards=()),))
        return (*new.bindings, replace(b, prim=here))

    def product(self, b: Binding) -> _Product | None:
        """What a binding sums, if it is a product that is not seen to be one."""
        match b.prim:
            case Accumulate("add", Lit(0.0), (Entry(over, _, Read() as value, guards),)):
                pass
            case _:
                return None
        if not b.context or not over or any(free(g.operand) for g in b.guards):
            return None
        if any(e != size(i) for i, e in zip(b.context, b.prim.entries[0].at, strict=True)):
            return None
        condition: tuple[Operand, bool] | None = None
        for g in guards:
            if len(guards) > 1 or not self.is_asked_of_all(g, {*b.context}, {*over}):
                return None
            condition = (g.operand, g.holds)
        known = {(g.operand, g.holds) for g in (*b.guards, *guards)}
        found = self.op(value, known)
        match found:
            case ("select", (Read() as c, Read() as one, Lit(0.0))) if condition is None:
                condition, value = (c, True), one
            case ("select", (Read() as c, Lit(0.0), Read() as one)) if condition is None:
                condition, value = (c, False), one
            case ("mul", _):
                pass
            case _:
                return None
        if condition is not None:
            known.add(condition)
        match self.op(value, known):
            case ("mul", (Read() as one, Read() as two)):
                sides: tuple[tuple[Operand, Read], ...] = ((one, two), (two, one))
            case _ if condition is not None:
                sides = ((Lit(1.0, b.dtype), value),)
            case _:
                return None
        if condition is None and not any(map(self.gathers, (one, two))):
            return None
        for x, y in sides:
            if self.is_product({*over}, {*b.context, *over}, _Product(x, y, condition), known):
                return _Product(x, y, condition)
        return None

    def is_asked_of_all(self, g: Guard, context: set[Var], over: set[Var]) -> bool:
        """Whether a sum asks for each of its terms if it is there, or goes over half of a square:
        what comes before, in the gradients of causal attention."""
        if not isinstance(g.operand, Read) or over.isdisjoint(free(g.operand)):
            return False
        if g.fact is None:
            return True
        for j in over:
            for i in context:
                far = (g.fact - size(i) + size(j)).constant, (g.fact + size(i) - size(j)).constant
                if not {0, -1}.isdisjoint(far):
                    return self.program.indices[i].extent == self.program.indices[j].extent
        return False

    def is_product(self, over: set[Var], line: set[Var], p: _Product, known: _Known) -> bool:
        """Whether it is the product of two matrices, of which the other one is there everywhere."""
        one, two = {*free(p.x)}, {*free(p.y)}
        if p.condition is not None:
            one.update(free(p.condition[0]))
        one, two = one & line, two & line
        rows, columns = one - two, two - one
        if not rows or not columns or not over <= one & two or not one | two >= line:
            return False
        for i in line:
            index = self.program.indices[i]
            if i in self.times or index.condition is not None or index.extent is None:
                return False
            if not set(index.extent.atoms) <= set(self.program.sizes):
                return False
        if any(self.many(side) < _PANEL for side in (rows, columns, over)):
            return False
        if not self.is_there(p.x, known):
            return False
        if p.condition is None:
            return self.is_there(p.y, known)
        return self.is_there(p.y, known - {p.condition}, everywhere=True)

    def is_there(self, x: Operand, known: _Known, everywhere: bool = False) -> bool:
        """Whether a factor is there where conditions are what they are; and if that is asked,
        everywhere: read along whole axes, or where indices of the caller say."""
        for r in atoms(x):
            b = self.made.get(r.var) if isinstance(r, Read) else None
            if isinstance(r, Read) and b is not None and self.guarded(b, r, known):
                return False
        if not everywhere or not isinstance(x, Read):
            return True
        return all(map(self.is_whole, x.at, self.shape(x)))

    def is_whole(self, e: Size, extent: Size | None) -> bool:
        """Whether an axis has an element at every place that an index expression takes."""
        match e.single:
            case Var() as i if i in self.program.indices:
                return self.program.indices[i].extent == extent
            case Read(v):
                return v in self.params and self.params[v].bound == extent
            case Var() as n if n in self.program.sizes and extent is not None:  # a loop's last one
                return extent - 1 == e
            case _:
                return False

    def shape(self, x: Read) -> tuple[Size | None, ...]:
        if x.var in self.params:
            return self.params[x.var].shape
        return tuple(self.program.indices[i].extent for i in self.made[x.var].context)

    def guarded(self, b: Binding, r: Read, known: _Known) -> bool:
        """Whether a binding is needed where it is read only if something else holds."""
        names = dict(zip(b.context, r.at, strict=True))
        return any((rewrite(g.operand, names), g.holds) not in known for g in b.guards)

    def op(self, x: Operand, known: _Known) -> tuple[str, tuple[Operand, ...]] | None:
        """The operation that gives a value, and its operands there."""
        b = self.made.get(x.var) if isinstance(x, Read) else None
        if not isinstance(x, Read) or b is None or not isinstance(b.prim, Op):
            return None
        if self.guarded(b, x, known):
            return None
        names = dict(zip(b.context, x.at, strict=True))
        return b.prim.name, tuple(rewrite(a, names) for a in b.prim.args)

    @staticmethod
    def gathers(x: Operand) -> bool:
        """Whether data say where a factor is read."""
        return isinstance(x, Read) and any(atoms_of(e) for e in x.at)

    def many(self, side: set[Var]) -> float:
        extents = [self.program.indices[i].extent for i in side]
        known = [n.constant for n in extents if n is not None and n.constant is not None]
        return float("inf") if len(known) < len(extents) else prod(known)


class _Made:
    """The bindings that are made for one, along the indices of its sum."""

    def __init__(self, of: Binding, line: tuple[Var, ...]) -> None:
        self.of, self.line = of, line
        self.bindings: list[Binding] = []

    def op(self, like: str, name: str, *args: Operand, context: tuple[Var, ...] = ()) -> Read:
        """An operation, over what its operands mention, in the order in which the first has it."""
        own = dict.fromkeys(v for a in args for v in free(a) if v in self.line)
        context = context or tuple(own)
        of = self.of
        dtype = DType.BOOL if name == "not" else of.dtype
        made = Binding(Var(like), context, of.guards, dtype, Op(name, args), of.origin)
        self.bindings.append(made)
        return Read(made.var, places(context))
