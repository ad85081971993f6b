"""Tables from their cells: at all indices at once, or one after the other where cells have effects
that the next ones see.
"""

from __future__ import annotations

from naperian.ainf.syntax import Guard, Operand
from naperian.ainf.walk import number, rewrite, size_of
from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.passes.bindings.values import Items, Value, digits, element, extents, ordinal, row
from naperian.passes.flat.cells import Entering, Held
from naperian.passes.flat.running import Running
from naperian.sizes import Size, size
from naperian.types import Set


class Tables(Running):
    """Tables that comprehensions make."""

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
