"""What a loop backwards reads of a round is kept, or made again from what is. ainf → ainf

    for t<k, i<n:  a = sub(h[t, i + 1], h[t, i])      h: the delay of a loop forwards
    for t<k, i<n:  b = mul(c, a[t, i])
    for u<k, i<n:  y = mul(w[u, i], b[k - u - 1, i])

    for u<k, i<n:  a' = sub(h[k - u - 1, i + 1], h[k - u - 1, i])
    for u<k, i<n:  b' = mul(c, a'[u, i])
    for u<k, i<n:  y = mul(w[u, i], b'[u, i])

Whatever is read of other rounds has a table of all rounds, which goes through memory twice: that
takes longer than some ten operations on vectors. Which tables there are and what is made again is
decided for all values of a program at once (`least`). Functions, sums and what has no rows are not
made again; a table that is changed in place is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import TypeAlias

from naperian.ainf.syntax import Binding, Delay, Op, Program, Read, Trips
from naperian.ainf.walk import (
    atoms,
    closures,
    operands,
    reads,
    rewrite_guards,
    rewrite_prim,
    variables,
)
from naperian.names import Var, fresh
from naperian.node import mutable, replace
from naperian.passes.algebra.prune import prune
from naperian.passes.bindings.states import state_of
from naperian.passes.derivatives.least import least
from naperian.prims import FUNCTION, PRIMITIVES
from naperian.sizes import ONE, Size, size

_BYTE = 3  # additions in the time in which a byte is written and read again
_STATE = 2  # of what is written anyway, as the next round reads it
_MANY = 64  # elements along an axis of unknown length
_NEVER = 1 << 40

_Turns: TypeAlias = tuple[tuple[Var, Var], ...]  # times, and those of the loops backwards
_Value: TypeAlias = tuple[Var, _Turns]  # a binding in the rounds in which a loop backwards asks


def remade(program: Program) -> Program:
    """See the module."""
    if not any(isinstance(b.prim, Delay) for b in program.bindings):
        return program
    return _Remade(program).result()


@mutable
class _Remade:
    program: Program
    bindings: dict[Var, Binding] = field(init=False)
    times: dict[Var, Size] = field(init=False)  # of loops of so many rounds
    closures: dict[Var, frozenset[Var]] = field(init=False)
    kept: dict[_Value, int] = field(default_factory=dict)
    again: dict[_Value, tuple[int, list[_Value]]] = field(default_factory=dict)
    copies: dict[_Value, Var] = field(default_factory=dict)

    def result(self) -> Program:
        """The program with copies of what is made again, each behind what it copies."""
        p = self.program
        self.bindings = {b.var: b for b in p.bindings}
        self.closures = closures(p.indices)
        delays = (b.prim.time for b in p.bindings if isinstance(b.prim, Delay))
        self.times = {
            t: x.extent for t in delays
            if (x := p.indices[t]).extent is not None and x.condition is None
        }  # fmt: skip
        wanted = {v: None for b in p.bindings for r in reads(b) if (v := self.asked(r))}
        todo = list(wanted)
        while todo:
            v = todo.pop()
            if v not in self.kept:
                self.kept[v] = self.keeping(v)
                own = self.making(v)
                if own is not None:
                    self.again[v] = own
                    todo += own[1]
        if self.again.keys().isdisjoint(wanted):
            return p
        chosen = least(wanted, self.kept, self.again)
        if not chosen:
            return p
        self.copies = {v: fresh(v[0]) for v in self.kept if v in chosen}
        behind: dict[Var, list[_Turns]] = {}
        for var, turns in self.copies:
            behind.setdefault(var, []).append(turns)
        out: list[Binding] = []
        for b in p.bindings:
            out.append(self.rewritten(b, {}))
            out += (self.copied(b, turns) for turns in behind.get(b.var, ()))
        return prune(replace(p, bindings=tuple(out)))

    def asked(self, r: Read) -> _Value | None:
        """What is read in a round that is counted from the last one."""
        if r.var not in self.bindings:
            return None
        x = self.bindings[r.var]
        turns: list[tuple[Var, Var]] = []
        for i, e in zip(x.context, r.at, strict=True):
            t = _time(x, i)
            if t not in self.times or e == size(t):
                continue
            back = (self.times[t] - ONE - e).single
            if not isinstance(back, Var) or self.times.get(back) != self.times[t]:
                return None
            turns.append((t, back))
        return (r.var, tuple(turns)) if turns else None

    # what it costs

    def keeping(self, v: _Value) -> int:
        """What a table of all rounds costs."""
        x = self.bindings[v[0]]
        if isinstance(x.prim, Delay):
            if state_of(x, self.bindings, self.program.indices) is not None:
                return _NEVER
            return _STATE * x.dtype.bytes * self.elements(x)
        return _BYTE * x.dtype.bytes * self.elements(x)

    def elements(self, x: Binding) -> int:
        total = 1
        for i in x.context:
            extent = self.program.indices[i].extent
            n = None if extent is None else extent.constant
            total *= _MANY if n is None else n
        return total

    def making(self, v: _Value) -> tuple[int, list[_Value]] | None:
        """What making it again costs, and what it is made of; None if that is not done."""
        x, turns = self.bindings[v[0]], dict(v[1])
        if not isinstance(x.prim, Op) or not self.is_row(x):
            return None
        cost = self.cost(x.prim)
        if cost is None or cost >= FUNCTION:
            return None
        if any(not self.closures[i].isdisjoint(turns.keys() - {i}) for i in x.context):
            return None
        made_of: list[_Value] = []
        for o in (*operands(x.prim), *(g.operand for g in x.guards)):
            for a in atoms(o):
                if isinstance(a, Trips):
                    return None
                if a.var in self.bindings:
                    made_of += self.needed(a, turns)
        return cost * self.elements(x), made_of

    def cost(self, prim: Op) -> int | None:
        match prim.name, prim.args:
            case "cast" | "copy", _:
                return 1
            case "held", (Read(var),) if isinstance(self.bindings[var].prim, Op):
                return 1  # an answer that is there; see `answered`
            case name, _:
                return PRIMITIVES[name].cost if name in PRIMITIVES else None

    def is_row(self, x: Binding) -> bool:
        """Whether a value has elements in each round."""
        indices = self.program.indices
        extents = (indices[i].extent for i in x.context if _time(x, i) not in self.times)
        return any(n is not None and n.constant is None for n in extents)

    def needed(self, r: Read, turns: dict[Var, Var]) -> Iterator[_Value]:
        """What is read by what is made again, if that depends on the round."""
        x = self.bindings[r.var]
        own: list[tuple[Var, Var]] = []
        for i, e in zip(x.context, r.at, strict=True):
            t = _time(x, i)
            if t in turns and e == size(t):
                own.append((t, turns[t]))
            elif not turns.keys().isdisjoint(variables(e)):
                yield r.var, ()  # in another round: of all
                return
        if own:
            yield r.var, tuple(own)

    # the program again

    def rewritten(self, b: Binding, names: dict[Var, Size]) -> Binding:
        """A binding with its indices replaced, that reads what is made again."""
        return replace(
            b, prim=rewrite_prim(b.prim, names, self.read),
            guards=rewrite_guards(b.guards, names, self.read),
        )  # fmt: skip

    def read(self, r: Read) -> Read:
        v = self.asked(r)
        if v is None or v not in self.copies:
            return r
        turns = dict(v[1])
        context = self.bindings[r.var].context
        at = (size(turns[i]) if i in turns else e for i, e in zip(context, r.at, strict=True))
        return Read(self.copies[v], tuple(at))

    def copied(self, b: Binding, turns: _Turns) -> Binding:
        """A value in the rounds of a loop backwards. An answer that was kept there is what it is
        made of here."""
        names = {t: self.times[t] - ONE - size(u) for t, u in turns}
        here = dict(turns)
        made = replace(
            self.rewritten(b, names), var=self.copies[b.var, turns],
            context=tuple(here.get(i, i) for i in b.context),
            origin=replace(b.origin, again=True),
        )  # fmt: skip
        match made.prim:
            case Op("held", args):
                return replace(made, prim=Op("copy", args))
            case _:
                return made


def _time(x: Binding, i: Var) -> Var:
    """The time that an axis of a binding counts."""
    return x.prim.time if isinstance(x.prim, Delay) and i == x.prim.index else i
