"""What is computed from slices of a state, and read backwards, is kept. ainf → ainf

    for t<k, i<n:  a = mul(2.0, s[t, i, t])               s: a state of n × n, replaced in a round
    for u<k, i<n:  y = mul(w[u, i], a[k - u - 1, i])

    for t<k, i<n:  h = held(a[t, i])                      y reads h[k - u - 1, i]

Made again where it is read, it would want all of the state, in every round (`sliced`). `held`, so
that it is not (`passes/fusion/inline.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import field
from math import prod

from naperian.ainf.syntax import Binding, Delay, Op, Operand, Program, Read
from naperian.ainf.walk import reads, rewrite_guards, rewrite_prim
from naperian.names import Var, fresh
from naperian.node import mutable, replace
from naperian.passes.bindings.states import state_of
from naperian.sizes import size


def held(program: Program) -> Program:
    """See the module."""
    if not any(isinstance(b.prim, Delay) for b in program.bindings):
        return program
    return _Held(program).result()


@mutable
class _Held:
    """What is computed from slices of states."""

    program: Program
    bindings: dict[Var, Binding] = field(init=False)
    times: set[Var] = field(init=False)
    spared: set[Var] = field(init=False)  # states that are not kept, and not changed in place
    notes: dict[Var, Binding] = field(default_factory=dict)

    def result(self) -> Program:
        """The program in which that is held for loops backwards."""
        p = self.program
        self.bindings = {b.var: b for b in p.bindings}
        self.times = {b.prim.time for b in p.bindings if isinstance(b.prim, Delay)}
        far = {r.var for b in p.bindings for r in reads(b) if not self.is_now(r)}
        self.spared = {
            b.var for b in p.bindings if isinstance(b.prim, Delay) and b.var not in far
            and state_of(b, self.bindings, p.indices) is None
        }  # fmt: skip
        for v in far if self.spared else ():
            b = self.bindings[v]
            if isinstance(b.prim, Op) and b.prim.name != "held" and self.is_of_slices(b):
                here = Read(v, tuple(map(size, b.context)))
                self.notes[v] = replace(b, var=fresh(v), prim=Op("held", (here,)))
        if not self.notes:
            return p
        out: list[Binding] = []
        for b in p.bindings:
            out.append(
                replace(
                    b, prim=rewrite_prim(b.prim, {}, self.read),
                    guards=rewrite_guards(b.guards, {}, self.read),
                )
            )  # fmt: skip
            out += (self.notes[b.var],) if b.var in self.notes else ()
        return replace(p, bindings=tuple(out))

    def read(self, r: Read) -> Operand:
        if self.is_now(r) or r.var not in self.notes:
            return r
        return replace(r, var=self.notes[r.var].var)

    def is_now(self, r: Read) -> bool:
        """Whether a read is of the round that it is in, or of a state at the end."""
        if r.var not in self.bindings:
            return True
        x = self.bindings[r.var]
        for i, e in zip(x.context, r.at, strict=True):
            if isinstance(x.prim, Delay) and i == x.prim.index:
                if e not in (size(x.prim.time), self.program.indices[x.prim.time].extent):
                    return False
            elif i in self.times and e != size(i):
                return False
        return True

    def is_of_slices(self, b: Binding) -> bool:
        """Whether a value is computed from a state that is not kept and has more axes."""
        axes, _ = much(self.program, b.context, self.times)
        todo, seen = [b], {b.var}
        for x in todo:
            for r in reads(x):
                y = self.bindings.get(r.var)
                if y is None or y.var in seen or not self.is_now(r):
                    continue
                seen.add(y.var)
                if isinstance(y.prim, Op):
                    todo.append(y)
                elif isinstance(y.prim, Delay) and y.var in self.spared:
                    own = (i for i in y.context if i != y.prim.index)
                    if much(self.program, own, self.times)[0] > axes:
                        return True
        return False


def much(program: Program, context: Iterable[Var], times: Collection[Var]) -> tuple[int, int]:
    """How many axes of unknown length there are beside the rounds, and how much the others make of
    it."""
    extents = [program.indices[i].extent for i in context if i not in times]
    known = [n.constant for n in extents if n is not None and n.constant is not None]
    return len(extents) - len(known), prod(known)
