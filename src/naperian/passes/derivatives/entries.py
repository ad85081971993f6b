"""Parts that go to few elements, as the entries of one accumulation.

    y = x[0] · x[k[t]]              one accumulation: v at 0, w[t] at k[t]
    y[t] = x[t + 1] in a round t    v at t + 1, however few elements x has

Its first values are what the dense parts send. So what a cotangent costs is its size once and what
was sent to it, however many sent it; in a loop that carries the cotangent of a table, the
accumulation is made in place and its size costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from naperian.ainf.syntax import Accumulate, Delay, Entry, Operand, Read
from naperian.ainf.walk import atoms, atoms_of, free, operands, rewrite, rewrite_size, variables
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.passes.derivatives.dense import Dense
from naperian.passes.derivatives.invert import invert
from naperian.passes.derivatives.parts import At, Part, alike
from naperian.passes.derivatives.rules import Flow, Rules, renamed
from naperian.sizes import ZERO, Size, size
from naperian.sizes import variables as written

To: TypeAlias = dict[Var, Size]  # where an entry goes, on the axes where that is not any place

_FEW = 8  # with fewer elements, comparing an index with each constant one is faster


class Entries(Dense):
    """Sparse parts, added where they go."""

    def axes(self, at: At) -> list[int]:
        """The axes on which a point is any. Where a loop's length depends on an index, inside the
        loop there is no other."""
        out = []
        fixed = self.b.closed(self.open) | self.scope
        for k, e in enumerate(at):
            v = e.single
            if isinstance(v, Var) and v in self.b.indices and v not in fixed:
                out.append(k)
        return out

    def fixed(self, part: Part, at: At) -> Part | None:
        """The part where the axes that stand still are right; None if they never are."""
        free = self.axes(at)
        here = {v: part.at[k] for k in free for v in variables(at[k])}
        goal = {k: rewrite_size(e, here) for k, e in enumerate(at) if k not in free}
        still = [k for k, e in goal.items() if part.at[k] != e]
        domain = self.domain(part)
        if not still:
            return part
        found = invert(
            domain, tuple(part.at[k] for k in still), tuple(goal[k] for k in still), self.extent
        )
        if found is None:
            right = (self.test("eq", part.at[k] - goal[k]) for k in still)
            return Part(part.over, part.at, part.value, (*right, *part.guards))
        tests = self.tests(found)
        if tests is None:
            return None
        places = tuple(at[k] if k in still else e for k, e in enumerate(part.at))
        left = [i for i in domain if i not in found.names]
        return self.with_names(
            Part(part.over, places, part.value, part.guards), left, found.names, tests
        )

    def is_sparse(self, part: Part, at: At) -> bool:
        """Whether a part goes to few of the points that there are."""
        domain = self.domain(part)
        found = invert(domain, part.at, at, self.extent)
        if found is None:
            return True
        for e in found.equal:
            if e == ZERO or self.facts(e).proves_equal(e, ZERO):
                continue
            free = [v for v in written(e) if not self.stands(v) and v in self.b.indices]
            of_round = not self.open.isdisjoint(written(e))  # all would be asked in every round
            if any(self.is_long(v) or of_round for v in free):
                return True
        if any(self.is_strip(i, found.names) for i in found.names):
            return True
        if self.is_tried(domain, found.names):
            return True
        return bool(self.open) and any(self.is_window(i, found.names) for i in found.names)

    def is_tried(self, domain: tuple[Var, ...], names: Mapping[Var, Size]) -> bool:
        """Whether all indices that go by steps would be tried to find one of a few between."""
        for k, i in enumerate(domain):
            for m, c in names[i].terms if i in names else ():
                for v in m:
                    if v in domain and v not in names and (len(m) > 1 or abs(c) > 1):
                        before = v in domain[:k] or not self.is_long(i)
                        if before and self.is_long(v):
                            return True
        return False

    def is_long(self, v: Var) -> bool:
        n = self.b.extent(v)
        return n is not None and (n.constant is None or n.constant >= _FEW)

    def is_window(self, i: Var, names: Mapping[Var, Size]) -> bool:
        """Whether a solved index alone makes up an axis that is longer than it. Lengths that are
        read may be of another one's element."""
        around = [v for v in written(names[i]) if not self.stands(v) and v in self.b.indices]
        if len(around) != 1:
            return False
        mine, whole = self.extent(i), self.extent(around[0])
        if mine is None or whole is None:
            return False
        gap = whole - rewrite_size(mine, names)
        return gap.constant is None and not self.facts(gap).proves(-gap)

    def is_late(self, part: Part) -> bool:
        """Whether a part comes from rounds that are made again in a loop running backwards."""
        return bool(self.late_rounds(part))

    def late_rounds(self, part: Part) -> frozenset[Var]:
        """The times of such rounds that a part comes from."""
        extents = [(i, self.extent(i)) for i in part.over]
        return frozenset(i for i, n in extents if n is not None and self.waits(n))

    def waits(self, n: Size) -> bool:
        """Whether a number of rounds waits for a loop that runs backwards."""
        return any(isinstance(a, Read) and a.var in self.waiting for a in atoms_of(n))

    def is_strip(self, i: Var, names: Mapping[Var, Size]) -> bool:
        """Whether a solved index is a round that is made again, and which strip it is in is left:
        every place would be looked for in every strip."""
        n = self.extent(i)
        return n is not None and self.waits(n) and not names.keys() >= {*variables(n)} - self.open

    def accumulated(
        self, var: Var, dense: list[Part], sparse: list[Part], at: At
    ) -> Operand:
        """The dense parts with the sparse ones added where they go."""
        bd = self.b
        dtype = bd.dtypes[var]
        own: dict[int, Var] = {}  # the accumulation's own indices, and what they stand for
        formal: dict[Var, Size] = {}
        there: dict[Var, Size] = {}
        free_axes = self.axes(at)
        for k, i in enumerate(bd.contexts[var]):
            formal[i] = at[k]
            if k in free_axes:
                extent = bd.indices[i].extent
                assert extent is not None
                q = bd.index(rewrite_size(extent, formal), bd.indices[i].name)
                formal[i], there[q], own[k] = size(q), at[k], q
        named = {v: size(q) for q, e in there.items() for v in variables(e)}
        here = tuple(rewrite_size(e, named) for e in formal.values())
        zero = Lit(0.0, dtype)
        begun: list[Flow] = []
        late: dict[frozenset[Var], list[Part]] = {}
        for p in sparse:
            if self.is_late(p):
                late.setdefault(self.late_rounds(p), []).append(p)
        for ps in late.values():  # they are added while their loop runs, and start before
            there_before = [q for q in dense if len(late) == 1 and self.is_before(q, ps)]
            init = self.total(var, there_before, here) or zero
            entries = [self.entry(p, own, dtype) for p in ps]
            begun.append(self.entered("add", init, entries, own.values(), dtype))
            dense = [q for q in dense if q not in there_before]
        rules = Rules(self.place, dtype)
        sparse = [p for p in sparse if not self.is_late(p)]
        if late and not sparse:
            tables = [None if x is None else rewrite(x, there) for x in begun]
            return rules.sum([*tables, self.total(var, dense, at)]) or zero
        sparse = alike(self.place, dtype, sparse, self.stays)
        made = [self.entry(p, own, dtype) for p in sparse]
        init = rules.sum([*begun, self.total(var, dense, here)]) or zero
        return rewrite(self.entered("add", init, made, own.values(), dtype), there)

    def is_before(self, part: Part, late: Iterable[Part]) -> bool:
        """Whether a part is there before the rounds begin that others come from."""
        made = {b.var: b for b in self.b.bindings}
        times = self.b.closed(i for p in late for i in p.over)
        work = [part.value, *(g.operand for g in part.guards)]
        seen: set[Var] = set()
        while work:
            for r in atoms(work.pop()):
                b = made.get(r.var) if isinstance(r, Read) else None
                if b is None or b.var in seen:
                    continue
                seen.add(b.var)
                if isinstance(b.prim, Delay) and b.prim.time in times:
                    return False
                work += operands(b.prim)
        return True

    def entered(
        self, monoid: str, init: Operand, made: list[tuple[Entry, To]], axes: Iterable[Var],
        dtype: DType,
    ) -> Read:
        """An accumulation over `axes` and all that its operands mention."""
        bd = self.b
        mentioned = [*axes, *free(init)]
        for e, to in made:
            inner = [*free(e.value), *(v for x in to.values() for v in variables(x))]
            inner += (v for g in e.guards for v in free(g.operand))
            inner += (v for i in e.over for v in bd.closures[i])
            mentioned += (v for v in inner if v not in e.over)
        bare = tuple(Entry(e.over, tuple(to.values()), e.value, e.guards) for e, to in made)
        context, guards = bd.place(Accumulate(monoid, init, bare), mentioned, self.place.guards)
        entries = tuple(
            Entry(e.over, tuple(to.get(i, size(i)) for i in context), e.value, e.guards)
            for e, to in made
        )
        return bd.add(Accumulate(monoid, init, entries), context, guards, dtype)

    def entry(
        self, part: Part, own: Mapping[int, Var], dtype: DType
    ) -> tuple[Entry, To]:
        """A sparse part as an entry (its `at` still missing), and where it goes on the axes that
        are free. On axes that it fills, its own index is that of the axis."""
        domain = self.domain(part)
        to = {q: part.at[k] for k, q in own.items() if not set(variables(part.at[k])) & set(domain)}
        varying = {q: k for k, q in own.items() if q not in to}
        over: list[Var] = []
        point = dict(to)  # where the entry goes on all axes, each as long as that says
        for q in varying:
            n = self.b.extent(q)
            assert n is not None
            if set(variables(n)) & set(point):
                over.append(self.b.index(rewrite_size(n, point), self.b.indices[q].name))
                point[q] = to[q] = size(over[-1])
        target = tuple(point.get(q, size(q)) for q in varying)
        found = invert(domain, tuple(part.at[k] for k in varying.values()), target, self.extent)
        tests = None if found is None else self.tests(found)
        if (
            found is None or tests is None or any(name == "eq" for name, _, _ in tests)
            or any(self.is_strip(i, found.names) for i in found.names)
            or self.is_tried(domain, found.names)
            or (self.open and any(self.is_window(i, found.names) for i in found.names))
        ):  # fmt: skip
            return self.direct(part, own, dtype)
        rest, copies = self.copied([i for i in domain if i not in found.names], found.names)
        names = rest | {i: rewrite_size(e, rest) for i, e in found.names.items()}
        guards = self.guards(part, names, tests)
        value, outer = self.summed(rewrite(part.value, names), guards, copies, dtype)
        return Entry(tuple(over), (), value, outer), to

    def direct(
        self, part: Part, own: Mapping[int, Var], dtype: DType
    ) -> tuple[Entry, To]:
        """Point by point. What does not say where is summed before."""
        part = self.summed_first(part, dtype)
        domain = self.domain(part)
        names: dict[Var, Size] = {}
        for k, q in own.items():
            v = part.at[k].single
            if isinstance(v, Var) and v in domain and v not in names:
                if self.extent(v) == self.b.extent(q):
                    names[v] = size(q)
        rest, copies = self.copied([i for i in domain if i not in names], names)
        names |= rest
        to = {q: rewrite_size(part.at[k], names) for k, q in own.items()}
        return Entry(copies, (), rewrite(part.value, names), renamed(part.guards, names)), to
