"""Bindings made for the one index at which they are needed.

    before   for u<k, a<n: v = mul(y[a], z[u])          after   for u<k: v = mul(y[at[u]], z[u])
"""

from __future__ import annotations

from collections.abc import Callable

from naperian.ainf.syntax import Accumulate, Binding, Entry, Guard, Number, Op, Operand, Read
from naperian.ainf.walk import (
    atoms,
    closures,
    free,
    free_in,
    is_reduction,
    rewrite,
    rewrite_guards,
    rewrite_prim,
    rewrite_size,
    size_of,
    stops,
    variables,
)
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.passes.algebra.choices import Choice, Choices
from naperian.sizes import Size, size


class Copies:
    """Bindings as they are where indices are what a choice says: those that are `along` an index
    that the choice is made for, as the rounds of a loop; others are read at these indices. They are
    needed under `guards`; `failed` if there is none."""

    def __init__(
        self, of: Choices, context: tuple[Var, ...], along: Callable[[Binding, Read], bool],
        choice: Choice, guards: tuple[Guard, ...],
    ) -> None:  # fmt: skip
        self.of, self.choice, self.guards = of, choice, guards
        self.along, self.failed = along, False
        self.context = tuple(i for i in context if i not in choice.keys)
        self.names = {a: size_of(k) for a, k in choice.keys.items()}
        self.made: list[Binding] = []
        self.copies: dict[tuple[Var, tuple[Size, ...]], Read] = {}

    def operand(self, x: Operand) -> Operand:
        """A value where the indices are these, without what is not computed for them alone."""
        for r in atoms(x):
            if isinstance(r, Read):
                self.copy(r)
        return rewrite(x, self.names, self.read)

    def read(self, r: Read) -> Read:
        """What stands for a read, in which the indices are replaced."""
        return self.copies.get((r.var, r.at), r)

    def copy(self, r: Read) -> None:
        """A binding that is read at the indices is made for what they are, if it can."""
        b = self.of.bindings.get(r.var)
        keys = self.choice.keys.keys()
        if b is None or not self.along(b, r):
            return
        if keys.isdisjoint(v for e in r.at for v in variables(e)):
            return
        read_at = self.read_at(b, r)
        if read_at is None or stops(b.prim):
            self.failed = True
            return
        here = tuple(self.names.get(i, size(i)) for i in read_at)
        if (b.var, here) in self.copies:
            return
        b = self.named(b, read_at)
        match b.prim:
            case Op():
                pass
            case Accumulate(_, _, entries) if is_reduction(b.context, b.prim):
                self.renamed(entries)
            case _:
                self.failed = True
                return
        guards = [self.guard(g) for g in b.guards if not self.is_known(g, b.context)]
        prim = self.prim(b)
        all_ = (*self.guards, *guards)
        needed = {*free_in(prim), *(v for g in all_ for v in free(g.operand))}
        if isinstance(prim, Accumulate):  # and what says how long it goes on
            needed.update(i for e in prim.entries for i in e.over)
        closed = closures(self.of.indices)
        needed = {v for i in needed if i in closed for v in closed[i]}
        order = dict.fromkeys((*self.context, *(self.put(i) for i in b.context)))
        context = tuple(i for i in order if i in needed)
        if isinstance(prim, Accumulate):
            at = tuple(map(size, context))
            prim = replace(prim, entries=tuple(replace(e, at=at) for e in prim.entries))
        made = replace(b, var=fresh(b.var), context=context, guards=all_, prim=prim)
        self.made.append(made)
        self.copies[b.var, here] = Read(made.var, tuple(map(size, context)))

    def read_at(self, b: Binding, r: Read) -> tuple[Var, ...] | None:
        """What the indices of a binding are called where it is read, if it is read at indices
        alone."""
        context = tuple(v for e in r.at if isinstance(v := e.single, Var))
        if context == b.context:
            return context
        if len({*context}) < len(b.context) or not {*context} <= self.of.indices.keys():
            return None
        if isinstance(b.prim, Accumulate):
            if any(i in context for e in b.prim.entries for i in e.over):
                return None
        return context

    def named(self, b: Binding, context: tuple[Var, ...]) -> Binding:
        """A binding with its indices called so. A sum that goes as far as one of these says goes as
        far as the other one does."""
        if context == b.context:
            return b
        names = dict(zip(b.context, map(size, context), strict=True))
        prim = b.prim
        if isinstance(prim, Accumulate):
            entries = tuple(self.going_as_far(e, names) for e in prim.entries)
            prim = replace(prim, entries=entries)
        guards, prim = rewrite_guards(b.guards, names), rewrite_prim(prim, names)
        return replace(b, context=context, guards=guards, prim=prim)

    def going_as_far(self, e: Entry, names: dict[Var, Size]) -> Entry:
        """An entry over indices that go as far as others say under these names."""
        over, own = [], dict[Var, Size]()
        for i in e.over:
            index, copy = self.of.indices[i], i
            extent = None if index.extent is None else rewrite_size(index.extent, {**names, **own})
            if extent != index.extent:
                copy = fresh(i)
                self.of.indices[copy] = replace(index, extent=extent)
                own[i] = size(copy)
            over.append(copy)
        return Entry(tuple(over), e.at, rewrite(e.value, own), rewrite_guards(e.guards, own))

    def put(self, i: Var) -> Var:
        """What an index that is not one of these is called in the copies."""
        there = self.names.get(i, size(i)).single
        return there if isinstance(there, Var) else i

    def renamed(self, entries: tuple[Entry, ...]) -> None:
        """The indices that a sum goes over get names of their own."""
        for e in entries:
            for i in e.over:
                if i not in self.names:
                    index, copy = self.of.indices[i], fresh(i)
                    assert index.extent is not None
                    extent = size_of(self.operand(Number(index.extent)))
                    self.of.indices[copy] = replace(index, extent=extent)
                    self.names[i] = size(copy)

    def prim(self, b: Binding) -> Op | Accumulate:
        assert isinstance(b.prim, Op | Accumulate)
        if isinstance(b.prim, Op):
            return replace(b.prim, args=tuple(map(self.operand, b.prim.args)))
        entries = tuple(
            Entry(
                tuple(map(self.put, e.over)), e.at, self.operand(e.value),
                tuple(map(self.guard, e.guards)),
            )
            for e in b.prim.entries
        )  # fmt: skip
        return replace(b.prim, init=self.operand(b.prim.init), entries=entries)

    def guard(self, g: Guard) -> Guard:
        fact = None if g.fact is None else size_of(self.operand(Number(g.fact)))
        return Guard(self.operand(g.operand), g.holds, fact)

    def is_known(self, g: Guard, context: tuple[Var, ...]) -> bool:
        """Whether a guard says that the indices are what they are, what is given, or that no choice
        before is taken, whose element is put there afterwards."""
        known = (*self.choice.given, *self.choice.others)
        if g.fact is None and (g.operand, g.holds) in known:
            return True
        found: dict[Var, Operand] = {}
        said = self.of.says((g.operand, g.holds), context, found, known)
        return said and all(self.choice.keys.get(a) == k for a, k in found.items())
