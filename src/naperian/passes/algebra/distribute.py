"""Sums distribute over products and over each other, where fewer numbers are added up. ainf → ainf

    before   for i, a, b:  y = mul(l[a, b], x[i, a])       n·d² products, n·d² additions
             for i, b:     z = add over a of y[i, a, b]
             for b:        s = add over i of z[i, b]
    after    for a:        t = add over i of x[i, a]       n·d additions
             for a, b:     y = mul(l[a, b], t[a])
             for b:        s = add over a of y[a, b]

The law: Σ_{i,a} l·x = Σ_a l·(Σ_i x) for l free of i; with it Σ(x + y) = Σx + Σy, Σ(-x) = -Σx and
Σ_i Σ_a = Σ_a Σ_i. So the adjoint of what many points share costs the points once, and a product of
three matrices that is summed as one product is two. It regroups floating sums: `strict` has none of
it. It is applied where the largest nest that the sum needs becomes smaller by a whole index, not to
save single operations: `sum(x[i] / n)` adds up what is written, and an empty one stays 0. Products
of several factors are multiplied in the order that is best (`paths`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from naperian.ainf.syntax import Accumulate, Binding, Entry, Op, Operand, Program, Read
from naperian.ainf.walk import (
    Names,
    free,
    rewrite,
    rewrite_guards,
    rewrite_size,
    variables,
)
from naperian.names import Lit, Var
from naperian.node import node
from naperian.passes.algebra.chosen import chosen
from naperian.passes.algebra.cse import cse
from naperian.passes.algebra.factored import factored
from naperian.passes.algebra.paths import MOST, Step, path
from naperian.passes.algebra.prune import prune
from naperian.passes.bindings.builder import Builder, Guards
from naperian.passes.bindings.uses import Uses, summed
from naperian.prims import Math
from naperian.sizes import Size, size

_MANY = 64  # what an extent that is not known counts as


@node
class _Applied:
    """An operation of what has been summed."""

    name: str
    args: tuple[_Plan, ...]


@node
class _Sum:
    """A sum of a plan. Of an operand, it is where numbers are added up."""

    over: tuple[Var, ...]
    value: _Plan
    guards: Guards


_Plan: TypeAlias = Operand | _Applied | _Sum
Spent: TypeAlias = list[frozenset[Var]]


def distribute(program: Program) -> Program:
    """The program with its sums where they cost least."""
    program = chosen(program)
    if program.math is Math.STRICT:
        return program
    program = factored(program)
    if not any(b.dtype.is_float and summed(b) for b in program.bindings):
        return program
    made = _Distribute(program)
    changed = made.result()
    return program if not made.changed else prune(cse(changed))


class _Distribute:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.b = Builder(program.name, program.sizes, program.params)
        for i, index in program.indices.items():
            inside = [] if index.condition is None else free(index.condition)
            self.b.add_index(i, index, (v for v in inside if v in self.b.closures))
        self.uses = Uses(program)
        self.made = self.uses.made
        self.changed = False

    def result(self) -> Program:
        for b in self.program.bindings:
            found = self.better(b)
            if found is None:
                self.b.add(b.prim, b.context, b.guards, b.dtype, b.origin, b.var)
            else:
                self.changed = True
                self.named(found, b)
        p = self.program
        return self.b.program(p.results, p.failures, p.math, p.lines)

    # deciding

    def better(self, b: Binding) -> _Plan | None:
        """The plan of a sum, if it is a better one."""
        entry = summed(b)
        if entry is None or b.guards or not b.dtype.is_float:
            return None
        if any(self.b.indices[i].condition is not None for i in entry.over):
            return None
        spent: Spent = [self.b.closed((*b.context, *entry.over))]
        plans = [self.sum(entry.over, entry.value, entry.guards, (), spent)]
        if 2 * self.largest(plans[0]) > max(map(self.points, spent)):
            plans = []
        ordered = None if entry.guards else self.ordered(b, entry)
        plans += [] if ordered is None else [ordered]
        plans = [p for p in plans if self.free(p) == {*b.context}]
        return min(plans, key=self.largest, default=None)

    def ordered(self, b: Binding, entry: Entry) -> _Plan | None:
        """A product of several factors, multiplied in the order that is best (`paths`): in smaller
        nests, or as products of matrices. Quadratic forms of many rows go several rows at a time
        as they are."""
        over, value = entry.over, entry.value
        while (inner := self.alone(value)) is not None:  # Σ_i Σ_a
            found, names = inner
            own = summed(found)
            if own is None or own.guards or not all(map(self.is_plain, own.over)):
                break
            names = names | self.copied(own.over, names)
            over += tuple(v for a in own.over for v in variables(names[a]))
            value = rewrite(own.value, names)
        factors = self.factors(value)
        if not 2 < len(factors) <= MOST or not all(map(self.is_plain, over)):
            return None
        kept = self.b.closed(b.context)
        indices = [self.b.closed(free(f)) for f in factors]
        known = kept.union(*indices)
        step, before = path(indices, kept, self.points), self.points(known)
        read = [f.var for f in factors if isinstance(f, Read)]
        parted = step.is_matrices and len(read) == len(factors) == len({*read})
        better = parted or 2 * step.largest <= before
        if not better:
            return None
        made = self.steps(step, factors, over)
        rest = tuple(i for i in over if i not in known)  # that no factor has: the same every time
        return _Sum(rest, made, ()) if rest else made

    def steps(self, step: Step, factors: list[Operand], order: tuple[Var, ...]) -> _Plan:
        parts = tuple(
            factors[f] if isinstance(f, int) else self.steps(f, factors, order)
            for f in step.factors
        )
        made = _Applied("mul", parts) if len(parts) == 2 else parts[0]
        over = tuple(i for i in order if i in step.over)
        return _Sum(over, made, ()) if over else made

    def alone(self, o: Operand) -> tuple[Binding, dict[Var, Size]] | None:
        """The same of a binding that is there for all of its indices."""
        found = self.uses.alone(o)
        return None if found is None or found[0].guards else found

    def factors(self, o: Operand) -> list[Operand]:
        """What an operand is the product of."""
        found = self.alone(o) or self.outer(o)
        if found is not None:
            b, names = found
            if isinstance(b.prim, Op) and b.prim.name == "mul":
                parts = [self.factors(rewrite(a, names)) for a in b.prim.args]
                if len(parts[0] + parts[1]) > 2 or not any(isinstance(p[0], Lit) for p in parts):
                    return [f for p in parts for f in p]  # else it is a multiple of a factor
        return [o]

    def outer(self, o: Operand) -> tuple[Binding, dict[Var, Size]] | None:
        """The binding that an operand reads, if it is a product over more indices than each of its
        factors, and what its indices are: it costs nothing to have it twice, and more to keep."""
        b = self.made.get(o.var) if isinstance(o, Read) else None
        if b is None or not isinstance(o, Read) or b.guards or not isinstance(b.prim, Op):
            return None
        over = self.b.closed(b.context)
        if b.prim.name != "mul" or any(self.b.closed(free(a)) >= over for a in b.prim.args):
            return None
        return b, dict(zip(b.context, o.at, strict=True))

    def is_plain(self, i: Var) -> bool:
        """Whether an index goes as far wherever it is."""
        index = self.b.indices[i]
        if index.condition is not None or index.extent is None:
            return False
        return not any(v in self.b.indices for v in variables(index.extent))

    def sum(
        self, over: tuple[Var, ...], value: _Plan, guards: Guards, around: Guards, spent: Spent
    ) -> _Plan:
        """Σ over … of a value, as far inside as it goes. `guards` are tested for what is added up,
        `around` hold where the sum is made; `spent` gets the nests that go."""
        whole = _Sum(over, value, guards)
        b = self.made.get(value.var) if isinstance(value, Read) else None
        if b is None or not isinstance(value, Read) or self.uses.count[b.var] != 1:
            return whole
        names = dict(zip(b.context, value.at, strict=True))
        if not {*rewrite_guards(b.guards, names)} <= {*guards, *around}:
            return whole
        mine: Spent = [self.b.closed(free(value))]
        found: _Plan | None = None
        match b.prim:
            case Op("neg" | "add" | "sub" as name, args):
                args = tuple(rewrite(a, names) for a in args)
                if all(self.depends(a, over) for a in args):
                    parts = (self.sum(over, a, guards, around, mine) for a in args)
                    found = _Applied(name, tuple(parts))
            case Op("mul", args):
                x, y = (rewrite(a, names) for a in args)
                found = self.product(over, x, y, guards, around, mine) or self.product(
                    over, y, x, guards, around, mine
                )
            case Op("div", args):
                x, y = (rewrite(a, names) for a in args)
                if not self.depends(y, over):
                    found = _Applied("div", (self.sum(over, x, guards, around, mine), y))
            case Accumulate():
                found = self.exchanged(b, names, over, guards, around, mine)
            case _:
                pass
        if found is None:
            return whole
        spent += mine
        return found

    def product(
        self, over: tuple[Var, ...], x: Operand, y: Operand, guards: Guards, around: Guards,
        spent: Spent,
    ) -> _Plan | None:
        """Σ x·y = Σ_rest x·(Σ_own y), `own` being the indices that x does not depend on."""
        inside = self.b.closed(free(x))
        rest = tuple(i for i in over if i in inside)
        own = tuple(i for i in over if i not in inside)
        late = tuple(g for g in guards if self.depends(g.operand, own))
        if not own or (rest and late) or any(self.b.closures[i] & {*own} for i in rest):
            return None
        kept = tuple(g for g in guards if g not in late)
        product = _Applied("mul", (x, self.sum(own, y, late, (*around, *kept), spent)))
        return _Sum(rest, product, kept) if rest or kept else product

    def exchanged(
        self, b: Binding, names: dict[Var, Size], over: tuple[Var, ...], guards: Guards,
        around: Guards, spent: Spent,
    ) -> _Plan | None:
        """Σ_i Σ_a y = Σ_a Σ_i y, where neither says how far the other goes."""
        entry = summed(b)
        if entry is None:
            return None
        for a in entry.over:
            index = self.b.indices[a]
            if index.extent is None or index.condition is not None:
                return None
            if {*variables(rewrite_size(index.extent, names))} & {*over}:
                return None
        names = names | self.copied(entry.over, names)
        copies = tuple(v for a in entry.over for v in variables(names[a]))
        own = rewrite_guards(entry.guards, names)
        if any(self.depends(g.operand, over) for g in own):
            return None
        if any(self.depends(g.operand, copies) for g in guards):
            return None
        value = rewrite(entry.value, names)
        spent.append(self.b.closed((*over, *copies, *free(value))))
        return _Sum(copies, self.sum(over, value, guards, (*around, *own), spent), own)

    def depends(self, o: Operand, over: Iterable[Var]) -> bool:
        return bool(self.b.closed(free(o)) & {*over})

    def free(self, plan: _Plan) -> set[Var]:
        """The indices that a plan depends on."""
        match plan:
            case _Applied(_, args):
                return {v for a in args for v in self.free(a)}
            case _Sum(over, value, guards):
                inner = self.free(value).union(*(self.b.closed(free(g.operand)) for g in guards))
                return (inner | self.b.closed(over)) - {*over}
            case _:
                return {*self.b.closed(free(plan))}

    def nests(self, plan: _Plan) -> list[frozenset[Var]]:
        """The indices of every operation of a plan."""
        match plan:
            case _Applied(_, args):
                return [frozenset(self.free(plan)), *(n for a in args for n in self.nests(a))]
            case _Sum(over, value, _):
                return [frozenset(self.free(plan)) | {*over}, *self.nests(value)]
            case _:
                return []

    def largest(self, plan: _Plan) -> int:
        """The points of the largest nest of a plan."""
        return max(map(self.points, self.nests(plan)), default=0)

    def points(self, nest: frozenset[Var]) -> int:
        """How many points a nest has, about."""
        count = 1
        for i in nest:
            extent = self.b.indices[i].extent
            n = None if extent is None else extent.constant
            count *= _MANY if n is None else max(n, 1)
        return count

    # making

    def named(self, plan: _Plan, b: Binding) -> Operand:
        """The binding once more, by its plan."""
        match plan:
            case _Applied(name, args):
                made = (self.operand(a, {}, b, ()) for a in args)
                prim: Op | Accumulate = Op(name, tuple(made))
            case _Sum(over, value, guards):
                at = tuple(size(i) for i in b.context)
                inner = self.operand(value, {}, b, guards)
                prim = Accumulate("add", Lit(0.0, b.dtype), (Entry(over, at, inner, guards),))
            case _:
                raise AssertionError("a sum stays a sum, or becomes an operation of sums")
        return self.b.add(prim, b.context, (), b.dtype, b.origin, b.var)

    def operand(self, plan: _Plan, names: Names, b: Binding, around: Guards) -> Operand:
        """What a plan makes, where these guards hold. Every sum has indices of its own."""
        match plan:
            case _Applied(name, args):
                made = tuple(self.operand(a, names, b, around) for a in args)
                return self.b.op(name, made, b.dtype, around, b.origin)
            case _Sum(over, value, guards):
                own = self.copied(over, names)
                names = {**names, **own}
                guards = rewrite_guards(guards, names)
                inner = self.operand(value, names, b, (*around, *guards))
                copies = tuple(v for e in own.values() for v in variables(e))
                parts = ((copies, inner, guards),)
                return self.b.reduce("add", Lit(0.0, b.dtype), parts, b.dtype, around, b.origin)
            case _:
                return rewrite(plan, names)

    def copied(self, over: tuple[Var, ...], names: Names) -> dict[Var, Size]:
        """New indices that run as these do, for what `names` stand for."""
        out: dict[Var, Size] = {}
        for i in over:
            extent = self.b.indices[i].extent
            n = None if extent is None else rewrite_size(extent, {**names, **out})
            out[i] = size(self.b.index(n, self.b.indices[i].name))
        return out
