"""Core to AiNF: one binding per operation, in the loops it depends on. core → ainf

    [sum(x[i, j] * y[j, k] for j) for i, k]

    for i<n, k<p, j<m: v0 = mul(x[i, j], y[j, k])
    for i<n, k<p:      v1 = add over j<m of v0[i, k, j] from 0.0
    return for i<n, k<p: v1[i, k]

Tables disappear (`values`), reads of them are reads at other indices. A conditional becomes
guards on the bindings of both sides and a `select`; a loop becomes delays.
"""

from __future__ import annotations

from collections.abc import Iterator

from naperian import prims, substitution, types
from naperian.ainf.syntax import Failure, Number, Op, Operand, Param, Program, Read, Result
from naperian.ainf.walk import atoms, number
from naperian.broken import Broken
from naperian.core import syntax as core
from naperian.core.linear import hanging
from naperian.core.walk import of_type
from naperian.dtypes import DType
from naperian.leaves import leaves as type_leaves
from naperian.names import Lit, Var
from naperian.passes.bindings.exact import exact
from naperian.passes.bindings.narrow import narrow, without_unused_indices
from naperian.passes.bindings.packed import Layout, Packing
from naperian.passes.bindings.values import (
    Items,
    Listed,
    Row,
    Value,
    components,
    digits,
    element,
    extents,
    leaves,
    number_of,
)
from naperian.passes.derivatives.derive import copied, derivative
from naperian.passes.derivatives.ruled import called, cleared
from naperian.passes.flat.cells import dtype_of
from naperian.passes.flat.tables import Tables
from naperian.sizes import HEAVY, ZERO, Size, atom, size, weight
from naperian.source import Span
from naperian.types import Fin, Range, Set, Type


def _new(result: Type) -> list[bool]:
    """Which leaves of a result have sizes that the caller does not know before the run."""
    if not isinstance(result, types.Exists):
        return [False for _ in type_leaves(result)]
    return [not set(result.vars).isdisjoint(_of_axes(t)) for t in type_leaves(result.body)]


def _of_axes(t: Type) -> Iterator[Var]:
    """What the shape of an array mentions: its axes, not what its elements are indices of."""
    while isinstance(t, types.Table):
        yield from types.set_variables(t.set)
        t = t.cell
    if not isinstance(t, types.Index):
        yield from of_type(t)


def flatten(definition: core.Definition, again: bool = True) -> Program:
    """The AiNF of a normalised definition. One result per leaf of its type. Without
    `again` derivatives make no states of loops again whose text does not say so."""
    return _Flatten(definition, again).program()


class _Flatten(Tables):
    def __init__(self, definition: core.Definition, again: bool) -> None:
        facts = tuple(f for f, _ in definition.facts)
        sizes = definition.sets + definition.sizes
        super().__init__(definition.name, definition.origin, sizes, facts, definition.math)
        self.definition = definition
        self.checkpoints = dict(definition.checkpoints)
        self.reversed = 0
        self.differentiated = 0
        self.again = again
        self.in_reverse = []
        self.cells = {}
        self.spare = set()
        self.meant = set()
        self.lines = {}
        self.copied = False  # whether there are copies with contexts that are too wide
        # the shapes of parameters may mention scalar parameters: reads of those
        for p in definition.params:
            if not isinstance(p.type, types.Table):
                self.env[p.var] = Read(p.var, ())
        opened = [(p, self.opened(p.type)) for p in definition.params]
        self.b.take(tuple(self.param(p, axes, cell) for p, (axes, cell) in opened))
        for p, (axes, cell) in opened:
            self.env[p.var] = self.param_value(p, axes, cell)

    def program(self) -> Program:
        for fact, message in self.definition.facts:
            holds = self.op("ge", (number(self.size(fact)), Lit(0, DType.I64)), DType.BOOL)
            self.check(holds, message, self.origin)
        value = self.tabulated(self.expr(self.definition.body))
        self.b.bindings = cleared(self.b.bindings)
        results = []
        for (indices, leaf), new in zip(leaves(value), _new(self.definition.result), strict=True):
            operand = self.operand(leaf)
            results.append(Result(indices, operand, self.b.dtype(operand), new))
        failures = tuple(Failure(message, origin) for message, origin in self.failures)
        math = self.definition.math
        made = self.b.program(results, failures, math, tuple(self.lines))
        return without_unused_indices(narrow(made, self.copied))

    # parameters

    def opened(self, t: Type) -> tuple[list[tuple[Set, tuple[Var, ...]]], Type]:
        """The axes of a table, each with indices of its own, and its cells' type at them."""
        out = []
        while isinstance(t, types.Table):
            s = self.set(t.set)
            indices = self.indices(s, "i")
            out.append((s, indices))
            if t.index is None:
                t = t.cell
            else:
                t = substitution.cell_at(t, number_of(element(s, tuple(size(i) for i in indices))))
        return out, t

    def layout(self, axes: list[tuple[Set, tuple[Var, ...]]]) -> Layout:
        """How a parameter with these axes is stored."""
        packing = Packing(self.b.indices, self.b.sizes, {})
        layout = packing.layout(tuple(i for _, indices in axes for i in indices))
        if packing.missing:
            raise Broken("a parameter's rows have no closed form")
        return layout

    def param(
        self, p: core.Param, axes: list[tuple[Set, tuple[Var, ...]]], cell: Type
    ) -> Param:
        bound = None
        if isinstance(cell, types.Index):
            s = self.set(cell.set)
            bound = s.high if isinstance(s, Range) else extents(s)[0]
        return Param(p.var, dtype_of(cell), self.layout(axes).shape, bound)

    def param_value(
        self, p: core.Param, opened: list[tuple[Set, tuple[Var, ...]]], cell: Type
    ) -> Value:
        at = tuple(i for _, indices in opened for i in indices)
        read = Read(p.var, self.layout(opened).at)
        if isinstance(cell, types.Index) and isinstance(cell.set, Range):
            low = self.size(cell.set.low)
            if low != ZERO:
                self.scope = at
                holds = self.op("ge", (read, number(low)), DType.BOOL)
                self.check(holds, f"an index in `{p.name}` is too small", self.origin)
                self.scope = ()
        value: Value = read
        for s, indices in reversed(opened):
            value = Row(s, indices, value)
        return value

    # expressions

    def expr(self, e: core.Expr) -> Value:
        while True:  # a block's lines are nested to the right: a loop, not recursion
            match e:
                case core.Ref():
                    known = self.env.get(e.var)  # else a size parameter as a number
                    return number(size(e.var)) if known is None else known
                case core.Let():
                    self.env[e.var] = self.named(self.expr(e.value))
                    e = e.body
                case core.Check(condition, message, then, origin):
                    self.demand(self.scalar(condition), message, origin)
                    e = then
                case _:
                    return self.other(e)

    def other(self, e: core.Expr) -> Value:
        match e:
            case core.At():
                indices = []
                while isinstance(e, core.At):
                    indices.append((e.set, e.index))
                    e = e.table
                places = [self.place_in(s, self.expr(i)) for s, i in reversed(indices)]
                return self.read_all(self.expr(e), places)
            case core.Op():
                args = tuple([self.scalar(a) for a in e.args])
                return self.primitive(e.name, args, e.type, e.origin)
            case core.Number():
                return number(self.size(e.value))
            case core.Const():
                return e.lit
            case core.Pack(items):
                return Items(tuple(self.expr(x) for x in items))
            case core.Part(inner, k):
                whole = self.expr(inner)
                if not isinstance(whole, Items):
                    raise Broken("a part of something that is no tuple")
                return whole.items[k]
            case core.If(condition, then, otherwise):
                return self.choice(self.scalar(condition), then, otherwise)
            case core.For(var, s, body):
                return self.table(var, self.set(s), body)
            case core.Literal(s, items):
                made = tuple(self.expr(x) for x in items)
                return Listed(self.set(s), made, self.guards)
            case core.Box(_, _, value):
                return self.expr(value)
            case core.Recast(value, old, new, _):
                return self.recast(self.expr(value), old, new)
            case core.Reduce():
                return self.reduce(e)
            case core.Loop():
                return self.loop(e)
            case core.Scan():
                return self.scan(e)
            case core.Handle():
                return self.handle(e)
            case core.Get():
                return self.get(e)
            case core.Assign():
                self.assign(e)
                return Items(())
            case core.Add():
                self.add(e)
                return Items(())
            case core.Tell():
                self.tell(e)
                return Items(())
            case core.Derivative():
                self.copied = True
                return self.derivative(e)
            case core.Custom():
                self.copied = True
                return called(self, e, copied)
            case core.Checked(value, s, _, origin):
                return self.checked(self.scalar(value), self.set(s), origin)
            case _:
                raise Broken(f"{type(e).__name__} is left after normalisation")

    def place_in(self, s: Set, index: Value) -> tuple[Size, ...]:
        """The components of an index; those of a `Fin`, whatever its size is."""
        return (number_of(index),) if isinstance(s, Fin) else components(self.set(s), index)

    def named(self, value: Value) -> Value:
        """What a name stands for: a long index expression is a binding, not written wherever the
        name is."""
        if isinstance(value, Number) and weight(value.value) > HEAVY:
            return self.op("copy", (value,), DType.I64)
        return value

    def derivative(self, e: core.Derivative) -> Value:
        outer = self.in_reverse
        if self.again:
            here = [] if e.forward else [hanging(e.body, (p.var for p in e.params))]
            self.in_reverse = [*outer, *here]
        self.reversed += not e.forward
        self.differentiated += 1
        both = derivative(self, e, self.expr, self.tabulated)
        self.reversed -= not e.forward
        self.differentiated -= 1
        self.in_reverse = outer
        return both

    def primitive(self, name: str, args: tuple[Operand, ...], type_: Type, origin: Span) -> Operand:
        dtype = dtype_of(type_)
        if name not in ("cast", "bitcast"):
            dtype = prims.PRIMITIVES[name].result(dtype)
        if any(isinstance(a, Read) and a.var in self.numbers for o in args for a in atoms(o)):
            place = exact(Op(name, args), self.b.indices, self.b.sizes, self.numbers)
            if place is not None:
                return number(place)
        return self.op(name, args, dtype, origin)

    def checked(self, value: Operand, s: Set, origin: Span) -> Value:
        n = self.count(s)
        world = self.world
        if world is not None:
            value = self.after(value, self.operand(self.contents(world)))
        message = "index {value} is out of range for an axis of size {size}"
        op = Op("checked", (value, number(n)), self.failure(message, origin))
        context = self.b.order(self.b.closed(self.scope))
        made = self.b.add(op, context, self.guards, DType.I64, origin)
        if world is not None and world.depth == len(self.scope):
            world.current = self.after(self.operand(world.current), made)
            world.line += 1
        return element(s, digits(extents(s), atom(made)))

    def choice(self, condition: Operand, then: core.Expr, otherwise: core.Expr) -> Value:
        known = next((g.holds for g in self.guards if g.operand == condition), None)
        if isinstance(condition, Lit):
            known = bool(condition.value)
        if known is not None:
            return self.expr(then if known else otherwise)
        outer = self.guards
        where = outer + tuple(self.guard(condition, True))
        elsewhere = outer + tuple(self.guard(condition, False))
        old = self.before()
        self.guards = where
        yes = self.expr(then)
        one = self.other_side(old)
        self.guards = elsewhere
        no = self.expr(otherwise)
        two = self.before()
        self.guards = outer
        self.merge(condition, old, one, two, where, elsewhere)
        return self.select(condition, yes, no, where, elsewhere)
