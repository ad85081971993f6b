"""Whether an operation that is computed once was asked for at all.

    sum(d / n * x[i] for i)     v = d / n stands in front of the loop: d̄ gets v̄ / n if n > 0

An operation stands outside of the loops and conditions that it does not depend on, computed perhaps
in vain. A tangent of it is then read by nobody; but its cotangent, a sum of nothing, would be
multiplied by a derivative, and 0 · ∞ is no 0. So what the program would not have computed sends
nothing: where a loop around its place makes no rounds, or a condition there never held. That is
said only of what may have such a derivative: operations with poles, products with what one of them
gave (a * sqrt(t)), and under `strict` all that multiply; else those of a number that is made of how
far the loop goes, as 1 / n.

    v = d / n; sum(v * x[i] for i)     the same, where the program itself stands in front

Nor does what was computed, but read by nobody: where every loop that reads it made no rounds, and
where every reader is a side of a condition that was not taken: of one condition for all of a loop,
or in each of its rounds; those that did read are counted then. Nor what is read, if all that comes
of it goes through a loop that made no rounds before it comes to a result (`ways`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial, reduce
from itertools import takewhile

from naperian.ainf.syntax import Accumulate, Binding, Guard, Number, Op, Operand, Read
from naperian.ainf.walk import atoms_of, free, number, operands, rewrite, rewrite_guards, variables
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.partials import POLES, RULES, STRAIGHT
from naperian.passes.bindings.builder import Guards
from naperian.passes.derivatives.closing import Closing
from naperian.passes.derivatives.parts import Part
from naperian.passes.derivatives.rules import renamed
from naperian.passes.derivatives.ways import Far
from naperian.prims import Math
from naperian.sizes import Size, size

_TRUE = Lit(True, DType.BOOL)


class Asked(Closing):
    """What holds where an operation was asked for, beside its own guards."""

    around: Guards
    sources: dict[Var, frozenset[Var]]  # once they are asked for
    ops: dict[Var, Op] | None  # the operations, once they are asked for
    leading: dict[Var, bool]  # of those that were asked: whether one leads to a pole
    some: dict[Size, Operand]  # whether such sizes are more than 0, once they are asked for
    ways: dict[Var, Far]  # how far the loops go on every way to a result

    def asked(self, b: Binding) -> Guards:
        """See the module. In the names of the binding's context."""
        where = self.place.inside.get(b.var)
        if where is None or not isinstance(b.prim, Op) or _is_linear(b.prim):
            return ()
        scope, guards = where
        known = self.scope | self.b.closed(b.context)
        loops = [i for i in scope if i not in known]
        foreign = tuple(g for g in guards if g not in (*b.guards, *self.around))
        extents = {i: n for i in loops if (n := self.b.extent(i)) is not None}
        if len(extents) < len(loops) or any(self.b.indices[i].condition for i in loops):
            return ()  # a `while` loop: nobody knows before it ran
        if not self.may_be_infinite(b.prim, extents.values()):
            return ()
        mine = [v for g in foreign for v in free(g.operand)]
        mine += [v for n in extents.values() for v in variables(n)]
        over = [i for i in loops if i in self.b.closed(mine)]
        holds: Operand = _TRUE
        for i in loops:
            n = extents[i]
            if i not in over and not self.is_some(n, b.context):
                some = self.positive(n)
                holds = some if holds == _TRUE else self.made("and", holds, some)
        if over:
            names, copies = self.copied(over, {})
            entry = (copies, rewrite(holds, names), rewrite_guards(foreign, names))
            no = Lit(False, DType.BOOL)
            holds = self.b.reduce("or", no, (entry,), DType.BOOL, self.place.guards)
        return () if holds == _TRUE else (Guard(holds, True),)

    def read(self, b: Binding, parts: list[Part], names: Mapping[Var, Size]) -> Guards:
        """What holds where anybody reads a binding to which these parts are sent, if that is not
        sure: what all of them ask, or that one of them does. A part asks for rounds of the loops
        that it is summed over, and for the side of a condition. At the points that `names` give."""
        if not isinstance(b.prim, Op):
            return ()
        if _is_linear(b.prim):
            return self.handed_on(b, b.prim, parts)
        summed = [self.summed_over(p, b.context) for p in parts]
        if not self.may_be_infinite(b.prim, [n for ns in summed for n in ns]):
            return ()
        at = [names[i] for i in b.context]
        sides = [self.asks(p, at) for p in parts]
        if all(ns or p.guards for ns, p in zip(summed, parts, strict=True)) and any(
            len(gs) < len(dict.fromkeys((g.operand, g.holds) for g in p.guards))
            for gs, p in zip(sides, parts, strict=True)
        ):
            return self.counted(b, parts, at)
        if not all(ns or gs for ns, gs in zip(summed, sides, strict=True)):
            return ()
        each = _merged([
            (*(g for n in ns if (g := Guard(self.positive(n), True)) not in gs), *gs)
            for ns, gs in zip(summed, sides, strict=True)
        ])  # fmt: skip
        together = zip(*each, strict=False)
        common = tuple(gs[0] for gs in takewhile(lambda gs: len({*gs}) == 1, together))
        if common or not all(each):
            return common
        return (Guard(reduce(partial(self.made, "or"), map(self.holding, each)), True),)

    def leads(self, b: Binding) -> Guards:
        """What holds where any result hangs on an operation: that each loop on every way to the
        results makes rounds, where those around it, and those that derive, do."""
        assert isinstance(b.prim, Op)
        if _is_linear(b.prim):
            return ()
        around = (*b.context, *self.scope, *self.open)
        here = {self.b.extent(i) for i in around}
        ways = (n for n in self.ways[b.var] if n not in here)
        far = [n for n in ways if not self.is_some(n, around)]
        if not far or not self.may_be_infinite(b.prim, far):
            return ()
        return tuple(Guard(self.positive(n), True) for n in far)

    def handed_on(self, b: Binding, op: Op, parts: list[Part]) -> Guards:
        """The same of a sum: where all loops that read it make no rounds, it sends nothing to what
        has a pole."""
        if not any(self.leads_to_a_pole(o) for o in op.args):
            return ()
        summed = [self.summed_over(p, b.context) for p in parts]
        if len(parts) != 1 or not summed[0]:
            return ()
        return tuple(Guard(self.positive(n), True) for n in summed[0])

    def leads_to_a_pole(self, o: Operand) -> bool:
        """Whether what is sent to an operand comes to an operation with a pole, or is multiplied by
        what one gave."""
        made = self.operation(o)
        if made is None or not isinstance(o, Read):
            return False
        if o.var not in self.leading:
            if made.name in POLES:
                found = True
            elif _is_linear(made):
                found = any(map(self.leads_to_a_pole, made.args))
            else:
                found = made.name == "mul" and any(map(self.has_pole, made.args))
            self.leading[o.var] = found
        return self.leading[o.var]

    def counted(self, b: Binding, parts: list[Part], at: list[Size]) -> Guards:
        """Whether any part comes to a point, where conditions of its own loops say which do: the
        sum of as many ones."""
        dtype = self.b.dtypes[b.var]
        ones = [replace(p, value=Lit(1.0, dtype)) for p in parts]
        some = self.closed(b.var, ones, tuple(at))
        if some is None:
            return ()
        return (Guard(self.made("gt", some, Lit(0.0, dtype)), True),)

    def asks(self, part: Part, at: list[Size]) -> Guards:
        """The first guards of a part that say the same of all that it sends to a point."""
        there: dict[Var, Size] = {}
        for e, x in zip(part.at, at, strict=True):
            if e == x:
                there |= {v: size(v) for v in variables(e)}
            elif isinstance(e.single, Var) and self.is_as_long(e.single, x):
                there[e.single] = x
        own = {*self.domain(part)} - there.keys()
        found = takewhile(lambda g: own.isdisjoint(self.b.closed(free(g.operand))), part.guards)
        plain = dict.fromkeys(Guard(g.operand, g.holds) for g in found)  # an equality has two facts
        return renamed(tuple(plain), {v: x for v, x in there.items() if x != size(v)})

    def is_as_long(self, i: Var, at: Size) -> bool:
        """Whether an index goes as far as the one that it is put in the place of."""
        return isinstance(at.single, Var) and self.extent(i) == self.extent(at.single)

    def holding(self, guards: Guards) -> Operand:
        """Whether guards hold, each of which is asked where those before it do."""
        holds: Operand = _TRUE
        no = Lit(False, DType.BOOL)
        for k, g in reversed(list(enumerate(guards))):
            arms = (holds, no) if g.holds else (no, holds)
            around = self.place.guards + guards[:k]
            holds = self.b.op("select", (g.operand, *arms), DType.BOOL, around)
        return holds

    def summed_over(self, part: Part, context: Iterable[Var]) -> list[Size]:
        """How far the loops go that a part is summed over, which may make no rounds where it is
        sent to, for each of a context: those that stand still there."""
        domain = self.domain(part)
        there = {v for e in part.at for v in variables(e)}
        out = dict.fromkeys(self.extent(i) for i in domain if i not in there)
        return [
            n for n in out
            if n is not None and not self.is_some(n, context)
            and all(map(self.stands, self.b.closed(variables(n))))
        ]  # fmt: skip

    def is_some(self, n: Size, context: Iterable[Var]) -> bool:
        """Whether a loop makes rounds in these loops, as one that goes as far as they do."""
        return self.facts(sum(map(size, context), n)).proves(n - 1)

    def positive(self, n: Size) -> Operand:
        if n not in self.some:
            some = self.made("gt", number(n), Lit(0, DType.I64))
            if not all(v in self.b.sizes for v in variables(n)):
                return some
            self.some[n] = some
        return self.some[n]

    def made(self, name: str, *args: Operand) -> Operand:
        return self.b.op(name, args, DType.BOOL, self.place.guards)

    def may_be_infinite(self, op: Op, extents: Iterable[Size]) -> bool:
        """Whether the operation's derivative may be, if it was not asked for."""
        if op.name in POLES or self.place.math is Math.STRICT:
            return True
        if op.name == "mul" and any(map(self.has_pole, op.args)):
            return True
        self.sources = self.sources or self.all_sources()
        far = set[Var]().union(*map(self.of_size, extents))
        return any(not far.isdisjoint(self.of_operand(o)) for o in op.args)

    def has_pole(self, o: Operand) -> bool:
        """Whether a factor, the derivative by the other one, is what an operation with a pole
        gives: it may be no number where nobody asked for it."""
        made = self.operation(o)
        return made is not None and made.name in POLES

    def operation(self, o: Operand) -> Op | None:
        """The operation that gives an operand."""
        if self.ops is None:
            self.ops = {b.var: b.prim for b in self.b.bindings if isinstance(b.prim, Op)}
        return self.ops.get(o.var) if isinstance(o, Read) else None

    def all_sources(self) -> dict[Var, frozenset[Var]]:
        """The sizes, indices and parameters that every binding is made of."""
        self.sources = {v: frozenset((v,)) for v in self.b.shapes}
        nothing = frozenset[Var]()
        for b in self.b.bindings:
            made_of = [
                self.sources.get(o.var, nothing) if type(o) is Read else self.of_operand(o)
                for o in operands(b.prim)
            ]
            found = nothing.union(*made_of)
            if isinstance(b.prim, Accumulate):
                inside = (self.b.extent(i) for e in b.prim.entries for i in e.over)
                found = found.union(*(self.of_size(n) for n in inside if n is not None))
            self.sources[b.var] = found
        return self.sources

    def of_operand(self, o: Operand) -> frozenset[Var]:
        match o:
            case Number(n):
                return self.of_size(n)
            case Read(var):
                return self.sources.get(var, frozenset())
            case _:
                return frozenset()

    def of_size(self, n: Size) -> frozenset[Var]:
        reads = (a for a in atoms_of(n) if isinstance(a, Read))
        return frozenset(variables(n)).union(*map(self.of_operand, reads))


def _merged(each: list[Guards]) -> list[Guards]:
    """Ways to be asked for, without those that begin as another one does, and both sides of a
    condition as one."""
    out: list[Guards] = []
    for way in sorted(dict.fromkeys(each), key=len, reverse=True):
        other = next((x for x in out if _opposite(x, way)), None)
        if other is not None:
            return _merged([x for x in each if x not in (other, way)] + [way[:-1]])
        out.append(way)
    return [x for x in out if not any(x != y and x[: len(y)] == y for y in out)]


def _opposite(a: Guards, b: Guards) -> bool:
    if not a or not b or a[:-1] != b[:-1]:
        return False
    return a[-1].operand == b[-1].operand and a[-1].holds != b[-1].holds


def _is_linear(op: Op) -> bool:
    """Whether its derivative is a number that is known and finite."""
    if op.name in STRAIGHT or op.name not in RULES:
        return True
    if op.name == "div":
        return isinstance(op.args[1], Lit) and op.args[1].value != 0
    return op.name == "mul" and any(isinstance(a, Lit) for a in op.args)
