"""Values of two indices that are values of their sum.

    for i<h, r<3 if i + r >= 1:  v = copy(x[i + r - 1])
    for i<h, r<3:                y = f(v[i, r], i + r)
    ⇒  for e<h + 2 if e >= 1:    w = copy(x[e - 1])
       for e<h + 2:              z = f(w[e], e)                and y[i, r] is z[i + r]

 Nothing is read that may not be there: what is not proved to be in range for
every e is left as it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from naperian.ainf.syntax import Binding, Guard, Index, Op, Operand, Program, Read
from naperian.ainf.walk import free, rewrite, rewrite_size, variables
from naperian.facts import Facts
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.passes.bindings.ranges import facts_about
from naperian.sizes import Size, size

Pairs: TypeAlias = tuple[tuple[int, int], ...]  # places in a context whose indices are added


class _Unlike(Exception):
    """Something depends on two indices by more than their sum."""


@dataclass(slots=True)
class Slid:
    """What is made of a program's bindings so, each to stand behind the one it is made of."""

    program: Program
    made: dict[Var, Binding]
    indices: dict[Var, Index]
    behind: dict[Var, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    known: dict[tuple[Var, Pairs], Binding | None] = field(default_factory=dict)

    @property
    def sizes(self) -> frozenset[Var]:
        return frozenset(self.program.sizes)

    def binding(self, var: Var, pairs: Pairs) -> Binding | None:
        """The binding over the sums of its indices, if it depends on these alone."""
        key = (var, pairs)
        if key not in self.known:
            try:
                found = self.moved(self.made[var], pairs)
                self.known[key] = self.made[found.var] = found
                self.behind[var].append(found)
            except _Unlike:
                self.known[key] = None
        return self.known[key]

    def all_behind(self, var: Var) -> Iterator[Binding]:
        """What stands behind a binding, and behind that."""
        for b in self.behind[var]:
            yield b
            yield from self.all_behind(b.var)

    def moved(self, b: Binding, pairs: Pairs) -> Binding:
        if not isinstance(b.prim, Op) or b.prim.name in ("checked", "print", "held", "after"):
            raise _Unlike
        names: dict[Var, Size] = {}
        sums: dict[Var, Var] = {}
        for k, q in pairs:
            i, r = b.context[k], b.context[q]
            n, m = self.indices[i].extent, self.indices[r].extent
            if n is None or m is None or not m.constant or not self.sizes.issuperset(variables(n)):
                raise _Unlike
            sums[i] = e = fresh(i)
            self.indices[e] = replace(self.indices[i], extent=n + m - 1)
            names[i] = size(e) - size(r)
        gone = {b.context[q] for _, q in pairs}
        together = [(b.context[k], b.context[q]) for k, q in pairs]

        def index(s: Size) -> Size:
            s = rewrite_size(s, names)
            if not gone.isdisjoint(variables(s)):
                raise _Unlike
            return s

        def operand(o: Operand) -> Operand:
            if isinstance(o, Read) and o.var in self.made:
                where = {v: k for k, e in enumerate(o.at) if isinstance(v := e.single, Var)}
                inner = tuple(
                    (where[i], where[r]) for i, r in together if i in where and r in where
                )
                if inner:
                    there = self.binding(o.var, inner)
                    if there is None:
                        raise _Unlike
                    o = Read(there.var, summed(o.at, inner))
            o = rewrite(o, names)
            if not gone.isdisjoint(free(o)):
                raise _Unlike
            return o

        guards = tuple(
            Guard(operand(g.operand), g.holds, None if g.fact is None else index(g.fact))
            for g in b.guards
        )
        args = tuple(operand(a) for a in b.prim.args)
        if not all(self.is_there(a, guards) for a in args if isinstance(a, Read)):
            raise _Unlike
        context = tuple(sums.get(i, i) for i in b.context if i not in gone)
        prim = Op(b.prim.name, args, b.prim.code)
        return replace(b, var=fresh(b.var), context=context, prim=prim, guards=guards)

    def is_there(self, r: Read, guards: tuple[Guard, ...]) -> bool:
        """Whether what is read is in its table wherever the guards hold."""
        for e, n in zip(r.at, self.shape(r.var), strict=True):
            if n is None:
                return False
            for low in (e, n - 1 - e):
                if not facts_about(low, self.indices, self.sizes, guards, Facts()).proves(low):
                    return False
        return True

    def shape(self, var: Var) -> tuple[Size | None, ...]:
        if var in self.made:
            return tuple([self.indices[i].extent for i in self.made[var].context])
        return next(p.shape for p in self.program.params if p.var == var)


def summed(at: tuple[Size, ...], pairs: Pairs) -> tuple[Size, ...]:
    """Where the element is that was read there."""
    more = dict(pairs)
    gone = {q for _, q in pairs}
    return tuple(
        e + at[more[k]] if k in more else e for k, e in enumerate(at) if k not in gone
    )
