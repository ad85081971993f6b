"""Sums of what a loop's rounds make, which are added to each other, are one sum. ainf → ainf

    before   for i, t:  x = …; y = …                    in the rounds of a loop over t
             for i:     a = add over t of x[i, t]
             for i:     b = add over t of y[i, t]
             for i:     c = sub(a[i], b[i])
    after    for i, t:  z = sub(x[i, t], y[i, t])
             for i:     c = add over t of z[i, t]

Such sums go on from round to round, each in a table of its own, which every round reads and writes.
What a step reads in two ways has as many: the cotangent of a coefficient, say. It regroups floating
sums, so that `strict` has none of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from naperian.ainf.syntax import Accumulate, Binding, Delay, Entry, Op, Operand, Program, Read
from naperian.ainf.walk import atoms, atoms_in, rewrite, rewrite_size
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.prims import Math
from naperian.sizes import Size, places

_Term: TypeAlias = tuple[bool, Operand]  # whether it is taken off, and what
_Signed: TypeAlias = tuple[bool, Binding]
_Operand: TypeAlias = tuple[Binding, dict[Var, Size], bool, Operand]
_SIGNED = {"add": (False, False), "sub": (False, True), "neg": (True,)}
_OVER = [Var("o") for _ in range(4)]


def one_sum(program: Program) -> Program:
    """See the module."""
    times = {b.prim.time for b in program.bindings if isinstance(b.prim, Delay)}
    if program.math is Math.STRICT or not times:
        return program
    made = {b.var: b for b in program.bindings}
    uses = Counter(a.var for b in program.bindings for a in atoms_in(b) if isinstance(a, Read))
    uses.update(a.var for r in program.results for a in atoms(r.value) if isinstance(a, Read))
    sums = _Sums(program, made, uses, times)
    return sums.together()


@dataclass
class _Sums:
    program: Program
    made: dict[Var, Binding]
    uses: Counter[Var]
    times: set[Var]

    def together(self) -> Program:
        gone: set[Var] = set()
        part: set[Var] = set()  # of sums that were looked at
        new: dict[Var, list[Binding]] = {}  # in front of, or for, an old one
        for b in reversed(self.program.bindings):
            if b.var in part or not self.is_signed(b):
                continue
            terms, within = self.terms(b)
            part |= within
            groups: dict[object, list[_Signed]] = {}
            for off, e in terms:
                if isinstance(e, Read) and (key := self.key(b, e)) is not None:
                    groups.setdefault(key, []).append((off, self.made[e.var]))
            several = [g for g in groups.values() if len(g) > 1]
            if not several:
                continue
            gone |= within
            for group in several:
                old = {s.var for _, s in group}
                last = next(x for x in reversed(self.program.bindings) if x.var in old)
                off, made = self.one(group, last)
                new[last.var] = made
                gone |= old - {last.var}
                rest = [t for t in terms if not (isinstance(t[1], Read) and t[1].var in old)]
                terms = [(off, Read(made[-1].var, places(b.context))), *rest]
            new[b.var] = [*_added(terms, b)]
        bindings = (x for b in self.program.bindings if b.var not in gone
                    for x in new.get(b.var, [b]))  # fmt: skip
        return replace(self.program, bindings=tuple(bindings)) if new else self.program

    def is_signed(self, b: Binding) -> bool:
        plain = isinstance(b.prim, Op) and b.prim.name in _SIGNED and not b.guards
        return plain and b.dtype.is_float and bool(b.context)

    def terms(self, b: Binding) -> tuple[list[_Term], set[Var]]:
        """What is added up, or taken off, at the indices of a binding; and what was made on the
        way, which nobody else reads."""
        out: list[_Term] = []
        within: set[Var] = set()
        here = dict(zip(b.context, places(b.context), strict=True))
        todo = [*self.signed(b, here, False)]
        while todo:
            x, names, off, e = todo.pop()
            inner = self.made.get(e.var) if isinstance(e, Read) else None
            if (
                inner is not None and self.uses[inner.var] == 1 and self.is_signed(inner)
                and isinstance(e, Read) and e.at == places(x.context)
            ):  # fmt: skip
                within.add(inner.var)
                if inner.context != x.context:
                    there = (names[i] for i in x.context)
                    names = dict(zip(inner.context, there, strict=True))
                todo += self.signed(inner, names, off)
            else:
                out.append((off, e if x.context == b.context else rewrite(e, names)))
        return out, within

    def signed(self, b: Binding, names: dict[Var, Size], off: bool) -> list[_Operand]:
        """The operands of an addition, with its indices, last one first."""
        assert isinstance(b.prim, Op)
        both = zip(b.prim.args, _SIGNED[b.prim.name], strict=True)
        return [(b, names, off ^ minus, e) for e, minus in both][::-1]

    def key(self, b: Binding, e: Read) -> object:
        """What sums have in common that can be one: rounds, and what of them is added up."""
        s = self.made.get(e.var)
        if s is None or self.uses[e.var] > 1 or e.at != places(b.context) or s.guards:
            return None
        match s.prim:
            case Accumulate("add", Lit(value), (Entry(over, at, Read() as value_, ()),)):
                x = self.made.get(value_.var)
                if value or at != places(s.context) or len(over) > len(_OVER) or x is None:
                    return None
            case _:
                return None
        if x.guards or self.times.isdisjoint(x.context) or x.dtype is not s.dtype:
            return None
        extents = [self.program.indices[i].extent for i in over]
        there = (*e.at, *places(_OVER[: len(over)]))
        names = dict(zip((*s.context, *over), there, strict=True))
        same = [None if n is None else rewrite_size(n, names) for n in extents]
        return x.context, *same, *(rewrite_size(i, names) for i in value_.at)

    def one(self, group: list[_Signed], last: Binding) -> tuple[bool, list[Binding]]:
        """The sum of what is added up, or taken off; whether it is to be taken off as a whole."""
        values = [(off, _summed(s).var) for off, s in group]
        whole = all(off for off, _ in values)
        x = self.made[values[0][1]]
        each = replace(x, var=fresh(x.var))
        at = places(x.context)
        steps = [*_added([(off and not whole, Read(v, at)) for off, v in values], each)]
        assert isinstance(last.prim, Accumulate)
        (entry,) = last.prim.entries
        entry = replace(entry, value=Read(each.var, _summed(last).at))
        prim = replace(last.prim, entries=(entry,))
        return whole, [*steps, replace(last, var=fresh(last.var), prim=prim)]


def _summed(s: Binding) -> Read:
    """What a sum adds up."""
    assert isinstance(s.prim, Accumulate)
    value = s.prim.entries[0].value
    assert isinstance(value, Read)
    return value


def _added(terms: list[_Term], b: Binding) -> Iterator[Binding]:
    """A binding for the sum of terms, with what it needs."""
    (off, so_far), *rest = sorted(terms, key=lambda t: t[0])
    steps = [(("sub" if minus else "add"), e) for minus, e in rest]
    if off or not steps:
        steps.insert(0, ("neg" if off else "copy", so_far))
    for k, (name, e) in enumerate(steps):
        args = (e,) if name in ("neg", "copy") else (so_far, e)
        step = replace(b, prim=Op(name, args))
        if k < len(steps) - 1:
            step = replace(step, var=fresh(b.var))
            so_far = Read(step.var, places(b.context))
        yield step
