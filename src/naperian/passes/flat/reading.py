"""Elements of values: reads at an index, rows, literal tables, and choices between two values.

    [f(i) for i][k]     f(k)
    [a, b][i][j]        a[j] if i == 0 else b[j]
"""

from __future__ import annotations

from naperian.ainf.syntax import Operand, Read
from naperian.ainf.walk import number, rewrite_size
from naperian.broken import Broken
from naperian.core import syntax as core
from naperian.core.resolve import resize
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.passes.bindings.builder import Guards
from naperian.passes.bindings.place import Place
from naperian.passes.bindings.values import (
    Items,
    Listed,
    Row,
    Value,
    components,
    extents,
    ordinal,
    reshaped,
    row,
    substitute,
)
from naperian.sizes import Size, size
from naperian.types import Set

_FEW = 4  # a literal table of at most so many tables is read by choosing among these


class Reading(Place):
    """What reads values, and chooses between them."""

    def expr(self, e: core.Expr) -> Value:
        raise NotImplementedError

    def scalar(self, e: core.Expr) -> Operand:
        return self.operand(self.expr(e))

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
        choice = self.op("select", (condition, chosen, other), self.b.dtype(chosen))
        self.note_numbers(choice, chosen, other)
        return choice

    def note_numbers(self, made: Read, *sides: Operand) -> None:
        """Between what numbers a choice lies, if it is one of a short table's."""
        ends = [self.numbers_of(o) for o in sides]
        known = [e for e in ends if e is not None]
        extents = (self.b.extent(i) for i in self.b.contexts[made.var])
        if len(known) == len(ends) and all(n is not None and n.constant for n in extents):
            self.numbers[made.var] = min(low for low, _ in known), max(high for _, high in known)

    def numbers_of(self, o: Operand) -> tuple[int, int] | None:
        match o:
            case Lit(value, DType.I64):
                return int(value), int(value)
            case Read(var):
                return self.numbers.get(var)
            case _:
                return None
