"""Equal bindings become one. ainf → ainf

    for i<n: v0 = exp(x[i])
    for j<n, k<m: v1 = mul(a[k, j], x[j])       bindings are equal if a renaming of indices makes
    for k<m, j<n: v2 = mul(a[k, j], x[j])       them so: v2[k, j] is v1[j, k], whatever the loops

The key of a binding is its operation and operands with indices numbered by first occurrence, and
what is known of the numbered indices: there are no scopes, so one table serves all loops and
branches. Delays are compared by `bisimilar`. Guards are not in the key. Of two bindings with equal
keys

    if c, d and if c:      the one with fewer guards serves for both
    if c and if not c:     one binding without either guard does
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TypeAlias

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
    Program,
    Read,
    Trips,
)
from naperian.ainf.walk import (
    closures,
    free,
    free_in,
    is_reduction,
    map_guards,
    map_prim,
    reads,
    rewrite,
    rewrite_size,
    stops,
    variables,
)
from naperian.broken import Broken
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.passes.algebra.bisimilar import Bisimilar, colours
from naperian.passes.bindings.narrow import without_unused_indices
from naperian.sizes import Atom, Clamp, Quotient, Remainder, Size

COMMUTATIVE = frozenset({"add", "mul", "eq", "ne", "and", "or", "xor", "bitand", "bitor", "bitxor"})
_ALIKE = 4  # of the delays that begin alike and are made alike, how many are compared in full
_NEAREST = 16  # of the earlier bindings with a key, how many are tried for merging guards

Signature: TypeAlias = Hashable


def cse(program: Program) -> Program:
    """The program with equal bindings merged."""
    return Merge(program).result()


@dataclass(slots=True, eq=False)
class _Kept:
    """A binding that stays: where it stands, its indices by number, and its guards by what they
    say in numbered indices."""

    place: int
    indices: list[Var]
    guards: dict[Signature, tuple[Guard, ...]]


class Merge:
    """The bindings of a program, of which equal ones become one: of loops, and of what is not
    `alike`, both stay."""

    def __init__(
        self, program: Program, alike: Callable[[Merge, Binding, Binding], bool] | None = None
    ) -> None:
        self.program = program
        self.alike = alike
        self.closures = closures(program.indices)
        self.kept: list[Binding | None] = []
        self.table: dict[Signature, list[_Kept]] = {}
        self.merged: dict[Var, tuple[Var, tuple[int, ...]]] = {}
        self.given = {b.var: b for b in program.bindings}  # with the guards they have by now
        self.delays: dict[Signature, list[Binding]] = {}
        self.said: dict[Hashable, Signature] = {}  # of extents, by the numbers of what they mention
        self.extents: dict[Size, tuple[int, Size]] = {}  # what they are after so many were merged

    def result(self) -> Program:
        for b in self.program.bindings:
            self.binding(self.renamed(b))
        # once more: `next`, and reads of what was merged late
        bindings = tuple(self.renamed(b) for b in self.kept if b is not None)
        indices = {
            i: Index(
                None if x.extent is None else self.renamed_extent(x.extent),
                None if x.condition is None else self.operand(x.condition),
                x.name,
            )
            for i, x in self.program.indices.items()
        }
        results = tuple(
            replace(r, value=self.operand(r.value)) for r in self.program.results
        )
        return without_unused_indices(
            replace(self.program, bindings=bindings, indices=indices, results=results)
        )

    # renaming

    def renamed(self, b: Binding) -> Binding:
        if not self.merged or self.untouched(b):
            return b
        return replace(
            b,
            guards=map_guards(b.guards, self.operand, self.size),
            prim=map_prim(b.prim, self.operand, self.size),
        )

    def untouched(self, b: Binding) -> bool:
        """Whether a binding reads nothing that was merged. Those of facts are few."""
        merged = self.merged
        for r in reads(b):
            if r.var in merged:
                return False
        guards = list(b.guards)
        if isinstance(b.prim, Accumulate):
            guards += (g for e in b.prim.entries for g in e.guards)
        return all([g.fact is None or g.fact.plain for g in guards])

    def operand(self, o: Operand) -> Operand:
        return rewrite(o, {}, self.read)

    def size(self, s: Size) -> Size:
        return rewrite_size(s, {}, self.read)

    def extent(self, i: Var) -> Size | None:
        """The extent of an index that is no loop's own, by what was merged so far."""
        x = self.program.indices[i]
        if x.extent is None or x.condition is not None:
            return None
        return self.renamed_extent(x.extent)

    def renamed_extent(self, n: Size) -> Size:
        """An extent, which many indices have, by what was merged so far."""
        if n.plain:
            return n
        known = self.extents.get(n)
        if known is None or known[0] != len(self.merged):
            known = self.extents[n] = len(self.merged), self.size(n)
        return known[1]

    def read(self, r: Read) -> Read:
        while r.var in self.merged:
            var, places = self.merged[r.var]
            r = Read(var, tuple(r.at[p] for p in places))
        return r

    # merging

    def binding(self, b: Binding) -> None:
        if isinstance(b.prim, Delay):
            if self.alike is None:
                self.delay(b, b.prim)
            else:
                self.kept.append(b)
            return
        key = _Key(self)
        signature = key.binding(b)
        guards: dict[Signature, tuple[Guard, ...]] = {}
        for g in b.guards:
            said = (key.operand(g.operand), g.holds)
            guards[said] = (*guards.get(said, ()), g)
        new = _Kept(len(self.kept), list(key.numbers), guards)
        self.kept.append(b)
        entries = self.table.setdefault(signature, [])
        while (merged := self.absorb(new, entries)) is not None:
            new = merged  # with fewer guards than it had: perhaps another one merges with it now
        entries.append(new)

    def delay(self, b: Binding, prim: Delay) -> None:
        """A delay is one that begins as it does and goes on as it does."""
        begin = (_Key(self).operand(prim.init), b.dtype, len(b.context))
        entries = self.delays.setdefault(begin, [])
        alike = (old for old in entries if self.colours[old.var] == self.colours[b.var])
        for old in islice(alike, _ALIKE):
            if Bisimilar(self.given, self.program.indices, self.read).same(old, b):
                self.merged[b.var] = (old.var, tuple(range(len(b.context))))
                self.kept.append(None)
                return
        entries.append(b)
        self.kept.append(b)

    @cached_property
    def colours(self) -> dict[Var, int]:
        return colours(self.program.bindings)

    def absorb(self, new: _Kept, entries: list[_Kept]) -> _Kept | None:
        """Merge a binding with an earlier equal one (which leaves the table) if guards allow."""
        for old in entries[-_NEAREST:]:
            common = _common(old.guards, new.guards)
            if common is None:
                continue
            first, second = sorted((old, new), key=lambda e: e.place)
            one, two = self.kept[first.place], self.kept[second.place]
            if one is None or two is None:
                raise Broken("a merged binding is still in the table")
            fewer = {said: g for said, g in first.guards.items() if said in common}
            if not self.stands(one, fewer):
                continue
            if self.alike is not None and not self.alike(self, one, two):
                continue
            if len(fewer) < len(first.guards) and _code(one) != _code(two):
                continue  # the failure to report would depend on the branch
            number = {i: k for k, i in enumerate(second.indices)}
            at = {number[i]: k for k, i in enumerate(two.context)}
            mine = {i: k for k, i in enumerate(first.indices)}
            self.merged[two.var] = (one.var, tuple(at[mine[i]] for i in one.context))
            self.kept[second.place] = None
            guards = tuple(g for some in fewer.values() for g in some)
            self.kept[first.place] = self.given[one.var] = replace(one, guards=guards)
            first.guards = fewer
            entries.remove(old)
            return first
        return None

    def stands(self, b: Binding, guards: dict[Signature, tuple[Guard, ...]]) -> bool:
        """Whether a binding keeps its context with these guards only."""
        if len(guards) == len({g.operand for g in b.guards}) or stops(b.prim):
            return True
        needs = list(free_in(b.prim))
        for some in guards.values():
            needs += free(some[0].operand)
        found = frozenset[Var]().union(*(self.closures[v] for v in needs if v in self.closures))
        if isinstance(b.prim, Accumulate):
            for e in b.prim.entries:
                for i in e.over:
                    found |= self.closures[i] - set(e.over)
        return found >= set(b.context)


def _common(
    old: dict[Signature, tuple[Guard, ...]], new: dict[Signature, tuple[Guard, ...]]
) -> set[Signature] | None:
    """The guards of one binding that serves for both, if it is needed nowhere else."""
    more, less = old.keys() - new.keys(), new.keys() - old.keys()
    if not more or not less:
        return old.keys() & new.keys()
    if len(more) == len(less) == 1:
        (x,), (y,) = more, less
        if _opposite(x, y):
            return old.keys() & new.keys()
    return None


def _code(b: Binding) -> int:
    return b.prim.code if isinstance(b.prim, Op | Check) else 0


def _opposite(x: Signature, y: Signature) -> bool:
    return isinstance(x, tuple) and isinstance(y, tuple) and x[0] == y[0] and x[1] != y[1]


class _Key:
    """The signature of a binding: indices are numbered as they are met."""

    def __init__(self, merge: Merge) -> None:
        self.indices = merge.program.indices
        self.merge = merge
        self.numbers: dict[Var, int] = {}

    def binding(self, b: Binding) -> Signature:
        body = self.prim(b)
        for i in b.context:
            self.number(i)
        extents: list[Signature] = []
        met = [*self.numbers]
        while len(extents) < len(met):
            extents += [self.extent(i) for i in met[len(extents) :]]
            if len(self.numbers) > len(met):  # an extent may mention indices not yet met
                met = [*self.numbers]
        context = frozenset(self.numbers[i] for i in b.context)
        return (body, b.dtype, context, tuple(extents))

    def prim(self, b: Binding) -> Signature:
        match b.prim:
            case Op():
                name, args = b.prim.name, b.prim.args
                if name in COMMUTATIVE:
                    args = tuple(sorted(args, key=_rank))
                return (name, tuple([self.operand(a) for a in args]))
            case Accumulate(monoid, init, entries):
                plain = is_reduction(b.context, b.prim)
                out: list[Signature] = [monoid, self.operand(init), plain]
                for e in entries:
                    out.append(self.operand(e.value))
                    out += [(self.operand(g.operand), g.holds) for g in e.guards]
                    out.append(tuple(self.number(i) for i in e.over))
                    if not plain:
                        out.append(tuple(self.number(i) for i in b.context))
                        out.append(tuple(self.size(s) for s in e.at))
                return tuple(out)
            case Check(condition):
                return ("check", self.operand(condition))
            case Delay():
                raise AssertionError("delays have no key")

    def number(self, i: Var) -> int:
        return self.numbers.setdefault(i, len(self.numbers))

    def extent(self, i: Var) -> Signature:
        n = self.merge.extent(i)
        if n is None:
            return i  # a loop's own index is itself only
        inside = [self.numbers.get(v) for v in variables(n) if v in self.indices]
        if None in inside:
            return self.size(n)
        said, key = self.merge.said, (n, *inside)
        if key not in said:
            said[key] = self.size(n)
        return said[key]

    def operand(self, o: Operand) -> Signature:
        match o:
            case Read():
                return (o.var, tuple([self.size(e) for e in o.at]))
            case Number():
                return ("number", self.size(o.value))
            case Lit():
                return o

    def size(self, s: Size) -> Signature:
        """Terms in an order that does not depend on the indices' names."""
        if len(s.terms) == 1:
            ((m, c),) = s.terms
            if len(m) == 1:
                return (c, self.atom(m[0]))
            return (c, *(self.atom(a) for a in self.ordered(m)))
        terms = sorted(s.terms, key=lambda t: (len(t[0]), t[1], [self.rank(a) for a in t[0]]))
        return tuple((c, *(self.atom(a) for a in self.ordered(m))) for m, c in terms)

    def ordered(self, m: tuple[Atom, ...]) -> list[Atom]:
        return sorted(m, key=self.rank) if len(m) > 1 else list(m)

    def rank(self, a: Atom) -> tuple[int, int]:
        match a:
            case Var():
                if a in self.numbers:
                    return (0, self.numbers[a])
                return (2, 0) if a in self.indices else (1, a.id)
            case Read(var):
                return (3, var.id)
            case _:
                return (4, 0)

    def atom(self, a: Atom) -> Signature:
        if type(a) is Var:
            return ("index", self.number(a)) if a in self.indices else a
        match a:
            case Read():
                return self.operand(a)
            case Trips(time, at):
                return ("trips", time, tuple((i, self.size(e)) for i, e in at))
            case Quotient(x, y):
                return ("quotient", self.size(x), self.size(y))
            case Remainder(x, y):
                return ("remainder", self.size(x), self.size(y))
            case Clamp(x, y):
                return ("clamp", self.size(x), self.size(y))
            case _:
                raise AssertionError(f"{a!r} is no atom of AiNF")


def _rank(o: Operand) -> tuple[int, int, str]:
    """An order of operands for commutative operations."""
    match o:
        case Read(var):
            return (0, var.id, "")
        case Number(value):
            return (1, len(value.terms), "")
        case Lit(value, dtype):
            return (2, 0, f"{value!r} {dtype}")
