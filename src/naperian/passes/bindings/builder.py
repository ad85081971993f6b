"""Putting an AiNF program together, binding by binding.

`Builder` computes each binding's context from its operands, so that loop-invariant code is never
inside a loop to begin with, and keeps guards out of code that is safe without them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Check,
    Delay,
    Entry,
    Failure,
    Guard,
    Index,
    Number,
    Op,
    Operand,
    Param,
    Prim,
    Program,
    Read,
    Result,
)
from naperian.ainf.walk import (
    atoms_of,
    dtype_of,
    free,
    free_in,
    operands,
    rewrite_guards,
    rewrite_size,
    variables,
)
from naperian.dtypes import DType
from naperian.lines import Line
from naperian.names import Var
from naperian.prims import Math
from naperian.sizes import Quotient, Remainder, Size, places
from naperian.source import NOWHERE, Span

if TYPE_CHECKING:
    from naperian.passes.derivatives.ruled import Ruled

Guards = tuple[Guard, ...]


class Builder:
    """The bindings so far, with what is needed to add another."""

    def __init__(self, name: str, sizes: tuple[Var, ...], params: tuple[Param, ...] = ()) -> None:
        self.name = name
        self.sizes = sizes
        self.indices: dict[Var, Index] = {}
        self.rank: dict[Var, float] = {}
        self.closures: dict[Var, frozenset[Var]] = {}
        self.bindings: list[Binding] = []
        self.origin = NOWHERE  # of bindings that are added with none of their own
        self.contexts: dict[Var, tuple[Var, ...]] = {}
        self.guards: dict[Var, Guards] = {}
        self.dtypes: dict[Var, DType] = {}
        self.ruled: list[Ruled] = []  # the calls that gates stand for, while derivatives are made
        # a round of a loop over one is a loop over the other, which a derivative makes again
        self.strips: dict[Var, Var] = {}
        self.take(params)

    def take(self, params: tuple[Param, ...]) -> None:
        """The parameters."""
        self.params = params
        self.shapes = {p.var: p.shape for p in params}
        self.dtypes |= {p.var: p.dtype for p in params}

    def program(
        self, results: Iterable[Result], failures: tuple[Failure, ...], math: Math,
        lines: tuple[Line, ...],
    ) -> Program:
        return Program(
            self.name,
            self.sizes,
            self.params,
            dict(sorted(self.indices.items(), key=lambda x: self.rank[x[0]])),
            tuple(self.bindings),
            tuple(results),
            failures,
            math,
            lines,
        )

    # indices

    def index(self, extent: Size | None, name: str = "i", inside: Iterable[Var] = ()) -> Var:
        """A new index. `inside` are those a condition yet to come may depend on."""
        var = Var(name)
        self.add_index(var, Index(extent, None, name), inside)
        return var

    def add_index(self, var: Var, index: Index, inside: Iterable[Var] = ()) -> None:
        mentioned = [] if index.extent is None else list(variables(index.extent))
        self.indices[var] = index
        self.rank.setdefault(var, len(self.rank))
        self.closures[var] = self.closed([*mentioned, *inside]) | {var}

    def stands_as(self, i: Var, other: Var) -> None:
        """An index stands in contexts right behind another one, as if it had been made then, or
        behind what its own extent depends on."""
        before = max(self.rank[j] for j in (self.closures[i] | {other}) - {i})
        self.rank[i] = before // 1.0 + 1.0 - 1.0 / (1.0 + self.rank[i])

    def closed(self, found: Iterable[Var]) -> frozenset[Var]:
        """The indices among these and what their extents depend on."""
        out: frozenset[Var] = frozenset()
        known = self.closures.get
        for v in found:
            if v not in out and (more := known(v)) is not None:
                out = out | more if out else more
        return out

    def order(self, indices: Iterable[Var]) -> tuple[Var, ...]:
        """Indices as a context: in the order they were made, which is the source's nesting."""
        return tuple(sorted(indices, key=self.rank.__getitem__))

    # bindings

    def op(
        self,
        name: str,
        args: tuple[Operand, ...],
        dtype: DType,
        guards: Guards = (),
        origin: Span = NOWHERE,
    ) -> Read:
        """x = name(args)."""
        return self.bind(Op(name, args), dtype, guards, origin)

    def reduce(
        self,
        monoid: str,
        init: Operand,
        entries: tuple[tuple[tuple[Var, ...], Operand, Guards], ...],
        dtype: DType,
        guards: Guards = (),
        origin: Span = NOWHERE,
        var: Var | None = None,
    ) -> Read:
        """x = init ⊕ the values over the given indices. The target is the context."""
        bare = tuple(Entry(over, (), value, inner) for over, value, inner in entries)
        found = list(free_in(Accumulate(monoid, init, bare)))
        for over, _, _ in entries:
            found += (v for i in over for v in self.closures[i] if v not in over)
        context, kept = self.place(Accumulate(monoid, init, bare), found, guards)
        at = places(context)
        prim = Accumulate(monoid, init, tuple(Entry(e.over, at, e.value, e.guards) for e in bare))
        return self.add(prim, context, kept, dtype, origin, var)

    def bind(
        self,
        prim: Prim,
        dtype: DType,
        guards: Guards = (),
        origin: Span = NOWHERE,
        var: Var | None = None,
    ) -> Read:
        """A binding in the context of its free indices."""
        context, kept = self.place(prim, free_in(prim), guards)
        return self.add(prim, context, kept, dtype, origin, var)

    def add(
        self,
        prim: Prim,
        context: tuple[Var, ...],
        guards: Guards,
        dtype: DType,
        origin: Span = NOWHERE,
        var: Var | None = None,
    ) -> Read:
        """A binding in a context already known."""
        var = var or Var("v")
        origin = self.origin if origin is NOWHERE else origin
        self.bindings.append(Binding(var, context, guards, dtype, prim, origin))
        self.contexts[var] = context
        self.guards[var] = guards
        self.dtypes[var] = dtype
        return Read(var, places(context))

    def place(
        self, prim: Prim, found: Iterable[Var], guards: Guards
    ) -> tuple[tuple[Var, ...], Guards]:
        """The context and the guards of a primitive that stands under `guards`.

        A guard that varies where the primitive does not would drag it into a loop; such guards
        are dropped when the primitive is safe without them (computed once, perhaps in vain)."""
        needs = self.closed(found)
        mine: list[tuple[Guard, frozenset[Var]]] = []
        foreign: list[tuple[Guard, frozenset[Var]]] = []
        for g in guards:
            inner = self.closed(free(g.operand))
            (mine if inner <= needs else foreign).append((g, inner))
        if not foreign:
            return self.order(needs), guards
        kept = tuple(g for g, _ in mine)
        if self.safe(prim, needs, kept):
            return self.order(needs), kept
        for _, inner in foreign:
            needs |= inner
        return self.order(needs), guards

    def safe(self, prim: Prim, needs: frozenset[Var], guards: Guards) -> bool:
        """Whether a primitive may be computed wherever `guards` hold: it is total, and reads
        whole axes of what exists there."""
        match prim:
            case Op("checked" | "print") | Delay() | Check():
                return False
            case Op(_, args):
                loops = needs
            case Accumulate(_, _, entries):
                args = tuple(operands(prim))
                loops = needs.union(*(self.closures[i] for e in entries for i in e.over))
        for i in loops:
            extent = self.indices[i].extent
            if extent is None or self.indices[i].condition is not None or not plain(extent):
                return False
        return all(self.safe_operand(o, guards) for o in args)

    def safe_operand(self, o: Operand, guards: Guards) -> bool:
        match o:
            case Read(var, at):
                names = {}
                for k, e in enumerate(at):
                    i = e.single
                    if not isinstance(i, Var) or i not in self.indices:
                        return False
                    if var in self.shapes:
                        if self.indices[i].extent != self.shapes[var][k]:
                            return False
                    else:
                        formal = self.contexts[var][k]
                        names[formal] = e
                        if self.indices[i].extent != self.indices[formal].extent:
                            return False
                if var in self.shapes:
                    return True
                return all(g in guards for g in rewrite_guards(self.guards[var], names, None))
            case Number(value):
                return plain(value)
            case _:
                return True

    def extent(self, i: Var) -> Size | None:
        """The extent of an index, if it is one and has one."""
        return self.indices[i].extent if i in self.indices else None

    def shape(self, r: Read) -> tuple[Size | None, ...]:
        """The extents of what is read, where it is read."""
        if r.var in self.shapes:
            return self.shapes[r.var]
        context = self.contexts[r.var]
        names = dict(zip(context, r.at, strict=True))
        found = (self.extent(i) for i in context)
        return tuple(None if n is None else rewrite_size(n, names) for n in found)

    def dtype(self, o: Operand) -> DType:
        return dtype_of(o, self.dtypes)


def plain(s: Size) -> bool:
    """Whether an index expression can be evaluated anywhere: no reads, no division by a size."""
    if atoms_of(s):
        return False
    for a in s.atoms:
        match a:
            case Quotient(above, below) | Remainder(above, below):
                if below.constant is None or not plain(above):
                    return False
            case _:
                pass
    return True
