"""Loops that carry the same values.

    for t<k: h = delay over t from x next f[t]      f = sin(h[t])
    for s<k: g = delay over s from x next e[s]      e = sin(g[s])

A delay's next value is made from the delay itself, so it is not known that two are equal before it
is known of what they are made from. They are equal if they are once that is assumed: they begin
alike, and every round does the same with what is the same so far. The first of two is what stays:
it may be computed where the second is not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import field

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Check,
    Delay,
    Guard,
    Index,
    Number,
    Op,
    Operand,
    Read,
)
from naperian.ainf.walk import atoms_of, rewrite_size, variables
from naperian.names import Lit, Var
from naperian.node import mutable
from naperian.sizes import Size, size

Names = dict[Var, Var]


def colours(bindings: Iterable[Binding]) -> dict[Var, int]:
    """Delays of two colours are not the same: what they are made from differs in its operations or
    its numbers. Each round tells those apart whose next values the one before told apart, until
    none is found. Indices and guards are not looked at, nor is the order of operands."""
    known: dict[Var, int] = {b.var: 0 for b in bindings if isinstance(b.prim, Delay)}
    while True:
        found: dict[Hashable, int] = {}
        now = dict[Hashable, Hashable](known.items())

        def of(o: Operand, now: dict[Hashable, Hashable] = now) -> Hashable:
            match o:
                case Read():
                    return now.get(o.var, o.var)
                case Lit():
                    return o
                case Number():
                    return None

        later: dict[Var, Hashable] = {}
        for b in bindings:
            match b.prim:
                case Op(name, args):
                    key: Hashable = (name, b.dtype, frozenset(map(of, args)))
                case Accumulate(name, init, entries):
                    key = (name, of(init), tuple([of(e.value) for e in entries]))
                case Delay(_, _, init):
                    later[b.var] = (now[b.var], b.dtype, of(init))
                    continue
                case Check():
                    continue
            now[b.var] = found.setdefault(key, len(found))
        told: dict[Hashable, int] = {}
        new = {b.var: told.setdefault((later[b.var], of(b.prim.next)), len(told))
               for b in bindings if isinstance(b.prim, Delay)}  # fmt: skip
        if len(told) == len({*known.values()}):
            return known
        if len(told) == len(new):  # all differ
            return new
        known = new


@mutable
class Bisimilar:
    """Compares bindings, after what `read` says of reads. Indices correspond by their places."""

    bindings: Mapping[Var, Binding]
    indices: Mapping[Var, Index]
    read: Callable[[Read], Read]
    equal: dict[Var, Var] = field(default_factory=dict)  # assumed, while they are looked at

    def same(self, one: Binding, two: Binding) -> bool:
        if one.var == two.var or self.equal.get(two.var) == one.var:
            return True
        if two.var in self.equal or one.dtype is not two.dtype:
            return False
        if len(one.context) != len(two.context) or type(one.prim) is not type(two.prim):
            return False
        names: Names = {}
        if not self.loops(one.context, two.context, names):
            return False
        self.equal[two.var] = one.var
        # what is computed everywhere serves under any guards
        guarded = not one.guards or self.guards(one.guards, two.guards, names)
        return guarded and self.prims(one, two, names)

    def loops(self, one: tuple[Var, ...], two: tuple[Var, ...], names: Names) -> bool:
        """Whether indices run alike; adds which is which to `names`."""
        if len(one) != len(two):
            return False
        for i, j in zip(one, two, strict=True):
            x, y = self.indices[i], self.indices[j]
            if i != j:
                if x.condition is not None or y.condition is not None:
                    return False
                if x.extent is None or y.extent is None:
                    return False
            names[j] = i
            if i != j and x.extent is not None and y.extent is not None:
                if not self.sizes(x.extent, y.extent, names):
                    return False
        return True

    def prims(self, one: Binding, two: Binding, names: Names) -> bool:
        match one.prim, two.prim:
            case Op(f, xs), Op(g, ys):
                return f == g != "print" and len(xs) == len(ys) and all(
                    self.operands(x, y, names) for x, y in zip(xs, ys, strict=True)
                )
            case Accumulate(f, x, some), Accumulate(g, y, others):
                if f != g or len(some) != len(others) or not self.operands(x, y, names):
                    return False
                for e, d in zip(some, others, strict=True):
                    inner = dict(names)
                    if not (
                        self.loops(e.over, d.over, inner)
                        and all(self.sizes(i, j, inner) for i, j in zip(e.at, d.at, strict=True))
                        and self.operands(e.value, d.value, inner)
                        and self.guards(e.guards, d.guards, inner)
                    ):
                        return False
                return True
            case Delay(t, u, x, then), Delay(s, w, y, next_):
                inner = dict(names)
                return (
                    one.context.index(u) == two.context.index(w)
                    and self.operands(x, y, names)
                    and self.loops((t,), (s,), inner)
                    and self.operands(then, next_, inner)
                )
            case _:
                return False

    def guards(self, one: tuple[Guard, ...], two: tuple[Guard, ...], names: Names) -> bool:
        return len(one) == len(two) and all(
            x.holds == y.holds and self.operands(x.operand, y.operand, names)
            for x, y in zip(one, two, strict=True)
        )

    def operands(self, one: Operand, two: Operand, names: Names) -> bool:
        match one, two:
            case Lit(), Lit():
                return one == two
            case Number(x), Number(y):
                return self.sizes(x, y, names)
            case Read(), Read():
                return self.reads(one, two, names)
            case _:
                return False

    def reads(self, one: Read, two: Read, names: Names) -> bool:
        one, two = self.read(one), self.read(two)
        if len(one.at) != len(two.at):
            return False
        if one.var != two.var:
            x, y = self.bindings.get(one.var), self.bindings.get(two.var)
            if x is None or y is None or not self.same(x, y):
                return False
        return all(self.sizes(i, j, names) for i, j in zip(one.at, two.at, strict=True))

    def sizes(self, one: Size, two: Size, names: Names) -> bool:
        some, others = atoms_of(one), atoms_of(two)
        if len(some) != len(others):
            return False
        for x, y in zip(some, others, strict=True):
            if not isinstance(x, Read) or not isinstance(y, Read):
                return one == two
            if self.read(x) != self.read(y) and not self.reads(x, y, names):
                return False
        there = {v: size(names[v]) for v in variables(two) if v in names}
        return rewrite_size(one, {}, self.read) == rewrite_size(two, there, self.first)

    def first(self, r: Read) -> Read:
        """A read of what is equal to its binding, if something is."""
        r = self.read(r)
        return Read(self.equal.get(r.var, r.var), r.at)
