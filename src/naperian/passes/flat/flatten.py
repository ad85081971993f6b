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
from naperian.ainf.syntax import (
    Binding,
    Failure,
    Guard,
    Index,
    Op,
    Operand,
    Param,
    Program,
    Read,
    Result,
    Trips,
)
from naperian.ainf.walk import free, number, rewrite, rewrite_size, size_of, variables
from naperian.broken import Broken
from naperian.core import syntax as core
from naperian.core.resolve import resize
from naperian.core.walk import everything, of_type, size_variables
from naperian.dtypes import DType
from naperian.leaves import leaves as type_leaves
from naperian.names import Lit, Var
from naperian.node import node, replace
from naperian.passes.bindings.builder import Guards
from naperian.passes.bindings.conditions import after_checks, in_rounds, with_values
from naperian.passes.bindings.narrow import narrow, narrow_last, without_unused_indices
from naperian.passes.bindings.packed import Layout, Packing
from naperian.passes.bindings.values import (
    Items,
    Listed,
    Row,
    Truth,
    Value,
    components,
    digits,
    element,
    extents,
    leaves,
    mapped,
    number_of,
    ordinal,
    reshaped,
    row,
    substitute,
)
from naperian.passes.derivatives.derive import copied, derivative
from naperian.passes.derivatives.ruled import called, cleared
from naperian.passes.flat.cells import Cells, Entering, Held, dtype_of, free_guards
from naperian.sizes import ZERO, Size, atom, clamp, size
from naperian.source import Span
from naperian.types import Range, Set, Type

_FEW = 4  # a literal table of at most so many tables is read by choosing among these


def _new(result: Type) -> list[bool]:
    """Which leaves of a result have sizes that the caller does not know before the run."""
    if not isinstance(result, types.Exists):
        return [False for _ in type_leaves(result)]
    return [not set(result.vars).isdisjoint(of_type(t)) for t in type_leaves(result.body)]


def _has_no_value(e: core.Expr) -> bool:
    """Whether an expression is there for its effects and checks alone."""
    match e:
        case core.Check():
            return _has_no_value(e.then)
        case core.Let(_, _, body):
            return _has_no_value(body)
        case core.If(_, then, otherwise):
            return _has_no_value(then) and _has_no_value(otherwise)
        case _:
            return _gives_nothing(e)


def _gives_nothing(e: core.Expr) -> bool:
    """Whether an expression is there for its effects alone."""
    match e:
        case core.Pack(items):
            return not items
        case core.Let(_, _, body):
            return _gives_nothing(body)
        case core.If(_, then, otherwise):
            return _gives_nothing(then) and _gives_nothing(otherwise)
        case core.Assign() | core.Add():
            return True
        case _:
            return False


def _indices(value: Value) -> Iterator[Var]:
    """The indices that a value mentions."""
    match value:
        case Items(items) | Listed(_, items):
            for x in items:
                yield from _indices(x)
        case Row(_, _, cell):
            yield from _indices(cell)
        case Truth(n):
            yield from variables(n)
        case _:
            yield from free(value)


_NO = Lit(False, DType.BOOL)


@node
class Strips:
    """The loops that take a checkpointed one's place, the outermost first: how many rounds it
    makes in all, how many a round of each loop makes but for the innermost, and how many were
    `done` before them."""

    rounds: Size
    lengths: tuple[Size, ...]
    done: Size = ZERO


def flatten(definition: core.Definition) -> Program:
    """The AiNF of a normalised definition. One result per leaf of its type."""
    return _Flatten(definition).program()


class _Flatten(Cells):
    def __init__(self, definition: core.Definition) -> None:
        facts = tuple(f for f, _ in definition.facts)
        sizes = definition.sets + definition.sizes
        super().__init__(definition.name, definition.origin, sizes, facts, definition.math)
        self.definition = definition
        self.checkpoints = dict(definition.checkpoints)
        self.reversed = 0  # how many derivatives in reverse are around
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

    def scalar(self, e: core.Expr) -> Operand:
        return self.operand(self.expr(e))

    def expr(self, e: core.Expr) -> Value:
        while True:  # a block's lines are nested to the right: a loop, not recursion
            match e:
                case core.Let(var, value, body):
                    self.env[var] = self.expr(value)
                    e = body
                case core.Check(condition, message, then, origin):
                    self.demand(self.scalar(condition), message, origin)
                    e = then
                case _:
                    return self.other(e)

    def other(self, e: core.Expr) -> Value:
        match e:
            case core.Ref(var) if var in self.env:
                return self.env[var]
            case core.Ref(var):
                return number(size(var))  # a size parameter as a number
            case core.Const(lit):
                return lit
            case core.Number(s):
                return number(self.size(s))
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
            case core.At():
                indices = []
                while isinstance(e, core.At):
                    indices.append((e.set, e.index))
                    e = e.table
                places = [components(self.set(s), self.expr(i)) for s, i in reversed(indices)]
                return self.read_all(self.expr(e), places)
            case core.Box(_, _, value):
                return self.expr(value)
            case core.Recast(value, old, new, _):
                return self.recast(self.expr(value), old, new)
            case core.Op(name, args, type_, origin):
                return self.primitive(name, tuple(self.scalar(a) for a in args), type_, origin)
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
                self.reversed += not e.forward
                both = derivative(self, e, self.expr, self.tabulated)
                self.reversed -= not e.forward
                return both
            case core.Custom():
                self.copied = True
                return called(self, e, copied)
            case core.Checked(value, s, _, origin):
                return self.checked(self.scalar(value), self.set(s), origin)
            case _:
                raise Broken(f"{type(e).__name__} is left after normalisation")

    def primitive(self, name: str, args: tuple[Operand, ...], type_: Type, origin: Span) -> Operand:
        dtype = dtype_of(type_)
        if name not in ("cast", "bitcast"):
            dtype = prims.PRIMITIVES[name].result(dtype)
        return self.op(name, args, dtype, origin)

    # tables

    def table(self, var: Var, s: Set, body: core.Expr) -> Value:
        changed, ordered = self.effects(body)
        if self.may_throw(changed, ordered, body):
            sums = [h for h in changed if h not in ordered]
            return self.table_of_throws(var, s, body, ordered, sums)
        if ordered:
            return self.table_in_order(var, s, body, changed)
        indices = self.indices(s, var.name)
        self.env[var] = element(s, tuple(size(i) for i in indices))
        outer = self.scope
        self.scope = outer + indices
        cell = self.expr(body)
        self.scope = outer
        if cell == Items(()):
            self.spare.update(indices)
        return row(s, indices, cell)

    def table_in_order(self, var: Var, s: Set, body: core.Expr, changed: list[Held]) -> Value:
        """A table whose cells depend on what those before them did: a loop carries that. One that
        only changes states may have checkpoints."""
        depth = max((self.checkpoints.get(h.origin, 1) for h in changed), default=1)
        if depth > 1 and _gives_nothing(body):
            chosen = self.checkpoints
            done = {h.origin for h in changed}
            self.checkpoints = {o: k for o, k in chosen.items() if o not in done}
            self.loop(core.Loop((), var, s, None, body, checkpoint=depth))
            self.checkpoints = chosen
            return row(s, self.indices(s, var.name), Items(()))
        total = self.count(s)
        if _has_no_value(body):
            total = self.where_meant(total, changed)
        time = self.b.index(total, var.name)
        cells, _ = self.carry(changed, time, total)
        self.env[var] = element(s, digits(extents(s), size(time)))
        outer = self.scope
        self.scope = (*outer, time)
        cell = self.tabulated(self.expr(body))
        self.settle(cells, time, total)
        self.scope = outer
        indices = self.indices(s, var.name)
        at = ordinal(extents(s), tuple(size(i) for i in indices))
        return row(s, indices, self.row_at(cell, {time: at}))

    def where_meant(self, total: Size, changed: list[Held]) -> Size:
        """How many rounds a loop makes that changes tables from outside the conditions around it:
        none where these do not hold. So the tables go through it and are not chosen after it."""
        guards = self.guards
        fewest = min((len(h.guards) for h in changed if h.table), default=len(guards))
        if fewest == len(guards) or self.anywhere(total):
            return total
        rounds = number(total)
        for k in reversed(range(fewest, len(guards))):
            g, self.guards = guards[k], guards[:k]
            none = Lit(0, DType.I64)
            sides = (rounds, none) if g.holds else (none, rounds)
            rounds = self.op("select", (g.operand, *sides), DType.I64)
        self.guards = guards
        self.meant.add(size_of(rounds))
        return size_of(rounds)

    def table_of_throws(
        self, var: Var, s: Set, body: core.Expr, flags: list[Held], sums: list[Held]
    ) -> Value:
        """A table whose cells may throw and add, and have no other effect: each has flags of its
        own, which are put together in the end. What a handler outside of an `except` is left with
        comes from the rounds up to the first that throws."""
        around = [(f, self.contents(f), f.depth, f.guards) for f in flags]
        before = [len(h.waiting) for h in sums]
        indices = self.indices(s, var.name)
        at = tuple(size(i) for i in indices)
        self.env[var] = element(s, at)
        outer = self.scope
        self.scope = outer + indices
        for f in flags:
            f.depth, f.guards = len(self.scope), self.guards
        cell = self.tabulated(self.expr(body))
        own = [self.operand(self.contents(f)) for f in flags]
        level = max(f.level for f in flags)
        seen = [(h, n) for h, n in zip(sums, before, strict=True) if h.level <= level]
        if seen:
            here = ordinal(extents(s), at)
            last = self.last_round(own, here, indices, s)
            heard = Guard(self.op("le", (number(here), last), DType.BOOL), True)
            for h, n in seen:
                h.waiting[n:] = [replace(w, guards=(*w.guards, heard)) for w in h.waiting[n:]]
        self.scope = outer
        if cell == Items(()):
            self.spare.update(indices)
        for (f, current, depth, guards), still in zip(around, own, strict=True):
            f.current, f.depth, f.guards = current, depth, guards
            inside = self.guards[len(guards) :]
            f.waiting.append(Entering("and", indices, (), (), still, inside))
        return row(s, indices, cell)

    def last_round(
        self, own: list[Operand], at: Size, indices: tuple[Var, ...], s: Set
    ) -> Operand:
        """The number of the first round that throws, or of rounds: the last one that anybody hears
        of. `own` are the flags of the round `at`."""
        fine, *others = own
        for x in others:
            fine = self.op("and", (fine, x), DType.BOOL)
        total = number(self.count(s))
        place = self.op("select", (fine, total, number(at)), DType.I64)
        over = self.indices(s, indices[0].name if indices else "i")
        names = {i: size(k) for i, k in zip(indices, over, strict=True)}
        rounds = ((over, rewrite(place, names), ()),)
        return self.b.reduce("min", total, rounds, DType.I64, self.guards)

    def components_of(self, s: Set, index: core.Expr) -> tuple[Size, ...]:
        return components(s, self.expr(index))

    def read(self, table: Value, at: tuple[Size, ...]) -> Value:
        """The element of a table at the components of an index."""
        match table:
            case Row(_, indices, cell):
                return self.row_at(cell, dict(zip(indices, at, strict=True)))
            case Items(items):
                return Items(tuple(self.read(x, at) for x in items))
            case Listed(s, items):
                k = ordinal(extents(s), at).constant
                if k is not None and 0 <= k < len(items):
                    return items[k]
                return self.read(self.tabulated(table), at)
            case _:
                raise Broken("an index into something that is no table")

    def read_all(self, table: Value, places: list[tuple[Size, ...]]) -> Value:
        """The element at one index after the other. Of a few tables side by side the item is chosen
        last, when it is an element:

            [a, b][i][j]        ==>         if i == 0 then a[j] else b[j]
        """
        for done, at in enumerate(places, 1):
            rest = places[done:]
            match table:
                case Listed(s, items) if rest and 1 < len(items) <= _FEW:
                    k = ordinal(extents(s), at)
                    if k.constant is None:
                        chosen = self.read_all(items[-1], rest)
                        for n in reversed(range(len(items) - 1)):
                            is_it = self.op("eq", (number(k), Lit(n, DType.I64)), DType.BOOL)
                            item, here = self.read_all(items[n], rest), self.guards
                            chosen = self.select(is_it, item, chosen, here, here)
                        return chosen
            table = self.read(table, at)
        return table

    def row_at(self, value: Value, names: dict[Var, Size]) -> Value:
        """A value with indices replaced; axes whose extents mention them are axes of their own."""
        match value:
            case Items(items):
                return Items(tuple(self.row_at(x, names) for x in items))
            case Row(s, indices, cell):
                own = {i: self.b.extent(i) for i in indices}
                new = {i: rewrite_size(n, names) for i, n in own.items() if n is not None}
                if new == own:
                    return Row(s, indices, self.row_at(cell, names))
                made = tuple(self.b.index(new[i], i.name) for i in indices)
                inner = {**names, **{i: size(k) for i, k in zip(indices, made, strict=True)}}
                there = resize(lambda n: rewrite_size(n, names)).set(s)
                return Row(there, made, self.row_at(cell, inner))
            case _:
                return substitute(value, names)

    def tabulated(self, value: Value) -> Value:
        """A value without literal tables: they become a choice by index."""
        match value:
            case Listed(s, items):
                if value.row is None:
                    outer, self.guards = self.guards, value.guards
                    indices = self.indices(s, "k")
                    k = ordinal(extents(s), tuple(size(i) for i in indices))
                    chosen = self.tabulated(items[-1]) if items else Lit(0, DType.I64)
                    for at in reversed(range(len(items) - 1)):
                        args = (number(k), Lit(at, DType.I64))
                        is_it = self.op("eq", args, DType.BOOL)
                        it, here = self.tabulated(items[at]), self.guards
                        chosen = self.select(is_it, it, chosen, here, here)
                    value.row = row(s, indices, chosen)
                    self.guards = outer
                return value.row
            case Items(items):
                return Items(tuple(self.tabulated(x) for x in items))
            case Row(s, indices, cell):
                return row(s, indices, self.tabulated(cell))
            case _:
                return value

    def recast(self, value: Value, old: tuple[Set, ...], new: tuple[Set, ...]) -> Value:
        before = [self.set(s) for s in old]
        after = [(s, self.indices(s, "i")) for s in (self.set(s) for s in new)]
        at = reshaped(
            tuple(n for s in before for n in extents(s)),
            tuple(n for s, _ in after for n in extents(s)),
            tuple(size(i) for _, indices in after for i in indices),
        )
        places = []
        for s in before:
            k = len(extents(s))
            places.append(at[:k])
            at = at[k:]
        value = self.read_all(value, places)
        for s, indices in reversed(after):
            value = row(s, indices, value)
        return value

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

    # choice

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

    def select(
        self, condition: Operand, yes: Value, no: Value, where: Guards, elsewhere: Guards
    ) -> Value:
        """One of two values of the same type, the first made under the guards `where`."""
        if isinstance(yes, Items) and isinstance(no, Items):
            pairs = zip(yes.items, no.items, strict=True)
            return Items(tuple(self.select(condition, y, n, where, elsewhere) for y, n in pairs))
        if isinstance(yes, Listed) and isinstance(no, Listed):
            pairs = zip(yes.items, no.items, strict=True)
            made = tuple(self.select(condition, y, n, where, elsewhere) for y, n in pairs)
            return Listed(yes.set, made, self.guards)
        if isinstance(yes, Row | Listed):
            indices = self.indices(yes.set, "i")
            at = tuple(size(i) for i in indices)
            y, n = self.read(yes, at), self.read(no, at)
            return row(yes.set, indices, self.select(condition, y, n, where, elsewhere))
        chosen = self.arm(yes, where)
        other = self.arm(no, elsewhere)
        if chosen == other:
            return chosen
        return self.op("select", (condition, chosen, other), self.b.dtype(chosen))

    # reductions and loops

    def handle(self, e: core.Handle) -> Value:
        """What changes states is in the loops around that it depends on: its derivative would go
        through the others, too, once for each round."""
        outer = self.scope
        self.scope = self.needed(e)
        made = super().handle(e)
        self.scope = outer
        return made

    def needed(self, e: core.Handle) -> tuple[Var, ...]:
        """The indices around that an expression depends on; all of them if it may stop the run, or
        not end, or uses what is changed outside."""
        inside = [*everything(e)]
        mentioned = {x.var for x in inside if isinstance(x, core.Ref)}
        mentioned |= {v for x in inside for v in size_variables(x)}
        partial = any(
            isinstance(x, core.Check | core.Checked | core.Tell)
            or (isinstance(x, core.Loop) and x.condition is not None)
            for x in inside
        )
        if partial or not mentioned.isdisjoint(self.cells):
            return self.scope
        found = [*free_guards(self.guards)]
        found += (i for v in mentioned if v in self.env for i in _indices(self.env[v]))
        here = self.b.closed(found)
        return tuple(i for i in self.scope if i in here)

    def reduce(self, e: core.Reduce) -> Value:
        if self.effects(e.value)[1]:  # first the values, in order
            rows, i = Var("rows"), Var(e.var.name)
            self.env[rows] = self.expr(core.For(e.var, e.set, e.value))
            e = replace(e, var=i, value=core.At(core.Ref(rows), core.Ref(i), e.set))
        s = self.set(e.set)
        best, ordered = e.monoid in prims.PLACES, e.monoid in prims.ORDERED
        shape = extents(s)
        if (best or ordered) and len(shape) != 1:
            over: tuple[Var, ...] = (self.b.index(self.count(s), e.var.name),)
            at = digits(shape, size(over[0]))
        else:
            over = self.indices(s, e.var.name)
            at = tuple(size(i) for i in over)
        init = Lit(0, DType.I64) if best and not ordered else self.scalar(e.init)
        self.env[e.var] = element(s, at)
        outer = self.scope
        self.scope = outer + over
        value = self.scalar(e.value)
        self.scope = outer
        dtype = DType.I64 if best else dtype_of(e.type)
        made = self.b.reduce(e.monoid, init, ((over, value, ()),), dtype, self.guards, e.origin)
        return element(s, digits(shape, atom(made))) if best else made

    def loop(self, e: core.Loop) -> Value:
        """A loop; for one with checkpoints, loops over its strips. One that a condition ends goes
        once for the number of its rounds, and is a loop of so many rounds then."""
        total = None if e.set is None else self.count(self.set(e.set))
        starts = self.starts(e)
        strips = None
        depth = e.checkpoint if e.checkpoint > 1 else self.checkpoints.get(e.origin, 1)
        if depth > 1 and e.condition is not None and self.reversed:
            if not self.effects(e.body, e.condition)[0]:
                _, time = self.rounds(e, starts, total, e.condition)
                total = self.last(time, total, e.condition)
                e = replace(e, condition=None)
        if total is not None and depth > 1 and e.condition is None:
            strips = self.strips(total, depth)
            length = strips.lengths[0]
            up = Op("floordiv", (number(total + length - 1), number(length)))
            total = size_of(self.b.bind(up, DType.I64, self.guards, var=Var("strips")))
        values, time = self.rounds(e, starts, total, e.condition, strips)
        last = self.last(time, total, e.condition)
        values = [substitute(v, {time: last}) for v in values]
        return values[0] if len(values) == 1 else Items(tuple(values))

    def scan(self, e: core.Scan) -> Value:
        s = self.set(e.set)
        starts = self.starts(e)
        values, time = self.rounds(e, starts, self.count(s), None)
        indices = self.indices(s, e.time.name)
        at = ordinal(extents(s), tuple(size(i) for i in indices))
        names = {time: at if e.exclusive else at + 1}
        rows = [row(s, indices, substitute(v, names)) for v in values]
        return rows[0] if len(rows) == 1 else Items(tuple(rows))

    def below(self, fewest: int, again: Operand) -> Operand:
        """Whether a loop goes on, where only the first of the guards hold: not if others do not."""
        guards = self.guards
        for k in reversed(range(fewest, len(guards))):
            g, self.guards = guards[k], guards[:k]
            sides = (again, _NO) if g.holds else (_NO, again)
            again = self.op("select", (g.operand, *sides), DType.BOOL)
        self.guards = guards
        return again

    def starts(self, e: core.Loop | core.Scan) -> list[Value]:
        """The first values, as operands: what they need is bound before the delays that read it."""
        return [mapped(self.tabulated(self.expr(c.start)), self.operand) for c in e.carried]

    def strips(self, rounds: Size, depth: int) -> Strips:
        """Strips as long as each other, for a loop of so many rounds: powers of its root."""
        n = self.op("cast", (number(rounds),), DType.F64)
        root = self.op("pow", (n, Lit(1.0 / depth, DType.F64)), DType.F64)
        below = self.op("cast", (root,), DType.I64)
        more = Op("add", (below, Lit(1, DType.I64)))
        width = size_of(self.b.bind(more, DType.I64, self.guards, var=Var("strip")))
        lengths = [width]
        while len(lengths) < depth - 1:
            lengths.insert(0, lengths[0] * width)
        return Strips(rounds, tuple(lengths))

    def strip(self, s: Strips, time: Var) -> tuple[Size, Strips | None, Size]:
        """How many rounds the loop inside round `time` of a strip's loop makes, its strips, and
        what is done before. The last strips may be short, or empty."""
        length, *inner = s.lengths
        done = s.done + size(time) * length
        if inner:
            return inner[-1], Strips(s.rounds, tuple(inner), done), done
        return clamp(s.rounds - done, length + 1), None, done

    def rounds(
        self, e: core.Loop | core.Scan, starts: list[Value], total: Size | None,
        condition: core.Expr | None, strips: Strips | None = None, done: Size = ZERO,
    ) -> tuple[list[Value], Var]:
        """The delays of a loop: the carried values as they are at its time index, and that. Cells
        of handlers that the loop changes are carried, too. `done` rounds of `e` were made before;
        a round of `strips` is a loop."""
        first, calls = len(self.b.bindings), len(self.b.ruled)
        name = e.time.name if e.time is not None else "t"
        around = self.b.closed((*self.scope, *free_guards(self.guards)))
        time = self.b.index(total, name, around if condition is not None else ())
        changed, _ = self.effects(e.body, condition)
        cells, fewest = self.carry(changed, time, total)
        made = [
            self.delays(c.type, c.var.name, time, total, self.guards, e.origin) for c in e.carried
        ]
        self.env.update((c.var, v) for c, (v, _) in zip(e.carried, made, strict=True))
        if e.time is not None and e.set is not None:
            s = self.set(e.set)
            self.env[e.time] = element(s, digits(extents(s), done + size(time)))
        outer = self.scope
        self.scope = (*outer, time)
        if condition is not None:
            asked = len(self.b.bindings)
            again = self.scalar(condition)
            with_values(self.b, asked)
            again = after_checks(self.b, again, self.checks(asked), time, self.guards)
            again = self.below(fewest, again)
            self.b.indices[time] = Index(total, in_rounds(self.b, again, time), name)
        nexts: tuple[Value, ...]
        if strips is not None:
            left, inner, before = self.strip(strips, time)
            now = [v for v, _ in made]
            ends, t = self.rounds(e, now, left, None, inner, before)
            self.b.strips[time] = t
            nexts = tuple(substitute(v, {t: left}) for v in ends)
        else:
            body = self.tabulated(self.expr(e.body))
            nexts = (body,) if len(made) == 1 else body.items if isinstance(body, Items) else ()
        self.settle(cells, time, self.last(time, total, condition))
        self.scope = outer
        for (value, slots), start, following in zip(made, starts, nexts, strict=True):
            self.close(value, slots, start, following)
        values = [v for v, _ in made]
        if around and condition is None and not changed and len(self.b.ruled) == calls:
            least = narrow_last(self.b, first, self.definition.math)
            if least is not None:
                values = [mapped(v, lambda x: least(self.operand(x))) for v in values]
        return values, time

    def checks(self, first: int) -> list[Binding]:
        """Those among the bindings from `first` on."""
        return [
            b for b in self.b.bindings[first:]
            if isinstance(b.prim, Op) and b.prim.name == "checked"
        ]  # fmt: skip

    def last(self, time: Var, total: Size | None, condition: core.Expr | None) -> Size:
        """The time after the last round."""
        if condition is None and total is not None:
            return total
        inside = self.b.order(self.b.closures[time] - {time})
        return atom(Trips(time, tuple((i, size(i)) for i in inside)))
