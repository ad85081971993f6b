"""What was sent to a binding, put together: its cotangent at a point.

    y = x[i + 1]² for i<n           the part v[i] at i + 1 is v[q - 1] at q, if 0 <= q - 1 < n
    y = Σ_i x[i + j] · k[j]         at q: Σ_j of what was sent from q - j and j
    y = x[0] · x[k[t]]              one accumulation: v at 0, w[t] at k[t]

The index expressions of a part are solved for their indices (`invert`), so a shift becomes a shift
back and indices left over become sums: such parts are *dense*, one number for every element. Parts
that go to few elements (a constant index, a gather, a diagonal, a window) are *sparse*, and all of
them enter one `Accumulate` whose first values are the dense ones. So what a cotangent costs is its
size once and what was sent to it, however many sent it; in a loop that carries the cotangent of a
table, the accumulation is made in place and its size costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from naperian.ainf.syntax import Accumulate, Entry, Guard, Op, Operand, Read
from naperian.ainf.walk import (
    atoms_of,
    free,
    number,
    rewrite,
    rewrite_size,
    size_of,
    variables,
)
from naperian.dtypes import DType
from naperian.facts import Facts
from naperian.names import Lit, Var
from naperian.passes.bindings import ranges
from naperian.passes.bindings.builder import Guards
from naperian.passes.bindings.place import Place
from naperian.passes.derivatives.invert import Inverse, invert
from naperian.passes.derivatives.parts import At, Part, alike
from naperian.passes.derivatives.rules import Flow, Rules, renamed
from naperian.sizes import ZERO, Clamp, Size, clamp, size
from naperian.sizes import variables as written

# what must be >= 0 ("ge") or 0 ("eq"), the former so that this index is in range
Tests: TypeAlias = list[tuple[str, Size, Var | None]]
Term: TypeAlias = tuple[Operand, Guards]
To: TypeAlias = dict[Var, Size]  # where an entry goes, on the axes where that is not any place

_FEW = 8  # with fewer elements, comparing an index with each constant one is faster
_WINDOW = 64  # places that may be beyond an end
_NEAR = 4  # a shift by as many leaves so few indices at an end that each is a case of its own


class Closing:
    """Cotangents from their parts, in the loops `open` that are running backwards."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.b = place.b
        self.scope = frozenset(place.scope)
        self.open: set[Var] = set()
        self.waiting: set[Var] = set()  # the numbers of rounds that wait for a cotangent
        self.ends_of: dict[Var, Size] = {}  # what places that data name are less than
        self.backwards: set[Var] = set()  # the times of loops that run backwards

    def closed(self, var: Var, parts: list[Part], at: At) -> Flow:
        """The sum of the parts at a point of `var`'s context."""
        whole = [self.apart(p, at) for p in self.together(var, parts)]
        cases = [q for p in whole for q in ([p] if self.meets(p, at) else self.split(p, var))]
        dense: list[Part] = []
        sparse: list[Part] = []
        for p in cases:
            found = self.fixed(p, at)
            if found is None:
                continue
            if self.is_sparse(found, at):
                sparse.append(found)
            else:
                dense.append(p)
        if sparse:
            return self.accumulated(var, dense, sparse, at)
        return self.total(var, dense, at)

    def together(self, var: Var, parts: list[Part]) -> list[Part]:
        """What is sent from rounds that are made again goes in the order of the loop that runs
        backwards there, so that all is added in one."""
        turned: dict[Size, Var] = {}
        for i in (i for p in parts for i in self.domain(p)):
            n = self.extent(i)
            if n is not None and i in self.backwards and self.waits(n):
                turned[n] = i
        again = any(map(self.is_late, parts))
        out: list[Part] = []
        for p in parts:
            order: dict[Var, Var] = {}
            names: dict[Var, Size] = {}
            for i in self.domain(p):
                n = self.extent(i)
                if n is not None and turned.get(n, i) != i:
                    order[i] = turned[n]
                    back = size(turned[n])
                    names[i] = back if i in self.backwards else n - 1 - back
            if names:
                p = Part(
                    tuple(order.get(i, i) for i in p.over),
                    tuple(rewrite_size(e, names) for e in p.at),
                    rewrite(p.value, names), renamed(p.guards, names),
                )  # fmt: skip
            for k, q in enumerate(out):
                if again and (p.over, p.at, p.guards) == (q.over, q.at, q.guards):
                    dtype = self.b.dtypes[var]
                    guards = (*self.place.guards, *p.guards)
                    value = self.b.bind(Op("add", (q.value, p.value)), dtype, guards)
                    out[k] = Part(p.over, p.at, value, p.guards)
                    break
            else:
                out.append(p)
        return out

    def total(self, var: Var, dense: list[Part], at: At) -> Flow:
        rules = Rules(self.place, self.b.dtypes[var])
        terms = [t for p in dense if (t := self.term(var, p, at)) is not None]
        terms = self.joined(terms, rules)
        return rules.sum([rules.where(guards, value) for value, guards in terms])

    def joined(self, terms: list[Term], rules: Rules) -> list[Term]:
        """A shifted read, and what is kept at the end where there is none, are a clamped one, and
        what both sides of a condition send is a choice:

            (v[q - 1] if q >= 1 else 0) + (v[q] if 0 >= q else 0)       v[clamp(q - 1)]
            (v if c else 0) + (0 if c else w)                           v if c else w
        """
        out: list[Term] = []
        for t in terms:
            for k, other in enumerate(out):
                both = self.clamped(t, other) or self.clamped(other, t)
                both = both or rules.either(other, t)
                if both is not None:
                    out[k] = both
                    break
            else:
                out.append(t)
        return out

    def clamped(self, inside: Term, end: Term) -> Term | None:
        """The two as one, if they are such a pair."""
        match inside, end:
            case (Read(x, at), (Guard(_, _, f),)), (Read(y, there), (Guard(_, _, g),)):
                if x != y or f is None or g is None or f + g != size(-1):
                    return None
                differ = [k for k, (a, b) in enumerate(zip(at, there, strict=True)) if a != b]
                if len(differ) != 1:
                    return None
                k = differ[0]
                e, q, n = at[k], there[k].single, self.b.shape(Read(x, at))[k]
                if n is None or not isinstance(q, Var) or self.b.extent(q) != n:
                    return None
                by = (e - size(q)).constant
                if (by, f) not in ((-1, e), (1, n - 1 - e)):
                    return None
                return Read(x, (*at[:k], clamp(e, n), *at[k + 1 :])), ()
            case _:
                return None

    def meets(self, part: Part, at: At) -> bool:
        """Whether no clamped index is in the way: where a part goes is solved for its indices."""
        found = invert(self.domain(part), part.at, at, self.extent)
        return found is not None and not any(
            isinstance(a, Clamp) for e in found.equal for a in e.atoms()
        )

    def split(self, part: Part, var: Var) -> list[Part]:
        """Clamped indices by cases: in range, and what is kept at either end. Where data name the
        places, nothing can be solved for them, and they stay."""
        domain = self.domain(part)
        for k, e in enumerate(part.at):
            match e.single:
                case Clamp(value, n) if _plainly(value).intersection(domain):
                    out = []
                    facts = self.facts(value)
                    inside = tuple(x for x in (value, n - 1 - value) if not facts.proves(x))
                    cases = [(value, inside), *((to, (x,)) for to, x in self.ends(value, n))]
                    for to, where in cases:
                        if any(facts.proves(-x - 1) for x in where):
                            continue
                        guards = (*part.guards, *(self.test("ge", x) for x in where))
                        at = (*part.at[:k], to, *part.at[k + 1 :])
                        case = Part(part.over, at, part.value, guards)
                        if where is not inside:
                            case = self.at_the_end(case, where[0])
                        out += self.split(case, var)
                    return out
                case _:
                    pass
        return [part]

    def ends(self, value: Size, n: Size) -> list[tuple[Size, Size]]:
        """Where values below 0 and from n on are kept, and when. A shift by a few moves as many
        indices to an end, each by a distance of its own: what they send is a shift, too.

            i + 2 >= n, i < n           n - 1 = i + 1 if i + 1 >= n - 1, and i if i >= n - 1
        """
        for i in variables(value):
            by = (value - size(i)).constant
            if by is not None and i in self.b.indices and self.extent(i) == n:
                if 0 < abs(by) <= _NEAR:
                    away = range(by) if by > 0 else range(0, by, -1)
                    return [
                        (size(i) + k, size(i) + k - (n - 1) if by > 0 else -size(i) - k)
                        for k in away
                    ]
        return [(ZERO, -value - 1), (n - 1, value - n)]

    def at_the_end(self, part: Part, x: Size) -> Part:
        """The part over those few values of an index for which `x >= 0` is possible: of a window
        that is kept in a table, only the first and last places are beyond an end.

            1 - i - a >= 0, i < n, a < 5            i < min(2, n)
            i + a - 2 - n >= 0, i < n, a < 5        i = n - 1 - j, j < min(2, n)
        """
        if not x.plain or any(len(m) > 1 for m, _ in x.terms):
            return part
        for i in self.domain(part):
            n, by = self.extent(i), x.coefficient(i)
            if n is None or n.constant is not None or abs(by) != 1:
                continue
            if any(i in variables(e) for e in part.at):
                continue  # it is solved for where the part goes
            last = x + size(i) if by < 0 else x - size(i) + n - 1
            most = self.greatest(last)
            if most is None or not 0 <= most < _WINDOW:
                continue
            j = self.b.index(clamp(size(most + 1), n + 1), self.b.indices[i].name)
            names = {i: size(j) if by < 0 else n - 1 - size(j)}
            return Part(
                tuple(j if v is i else v for v in part.over),
                tuple(rewrite_size(e, names) for e in part.at),
                rewrite(part.value, names), renamed(part.guards, names),
            )  # fmt: skip
        return part

    def greatest(self, s: Size) -> int | None:
        """The most that a sum of indices with known extents can be."""
        ends: dict[Var, Size] = {}
        for v in variables(s):
            n = self.extent(v) if v in self.b.indices else None
            if n is not None and n.constant is not None:
                ends[v] = size(n.constant - 1 if s.coefficient(v) > 0 else 0)
        return rewrite_size(s, ends).constant

    def domain(self, part: Part) -> tuple[Var, ...]:
        return tuple(i for i in part.over if i not in self.open and i not in self.scope)

    def extent(self, i: Var) -> Size | None:
        return self.b.extent(i)

    def facts(self, s: Size) -> Facts:
        known = ranges.facts_about(
            s, self.b.indices, frozenset(self.b.sizes), (), self.place.facts
        )
        places = {size_of(a): self.ends_of[a.var] for a in s.atoms()
                  if isinstance(a, Read) and a.var in self.ends_of}  # fmt: skip
        return known.and_(*places, *(n - 1 - k for k, n in places.items())) if places else known

    def test(self, name: str, s: Size, under: Guards = ()) -> Guard:
        """s >= 0 or s == 0 as a guard, written without minus signs; asked under guards."""
        left = Size(tuple((m, c) for m, c in s.terms if c > 0))
        sides = number(left), number(left - s)
        if under:
            around = (*self.place.guards, *(g for g in under if g not in self.place.guards))
            holds = self.b.op(name, sides, DType.BOOL, around)
        else:
            holds = self.place.op(name, sides, DType.BOOL)
        return Guard(holds, True, s if name == "ge" else None)

    # dense parts

    def term(self, var: Var, part: Part, at: At) -> Term | None:
        """What a dense part sends to a point, and where."""
        domain = self.domain(part)
        found = invert(domain, part.at, at, self.extent)
        assert found is not None
        tests = self.tests(found)
        if tests is None:
            return None
        rest, copies = self.copied([i for i in domain if i not in found.names], found.names)
        names = rest | {i: rewrite_size(e, rest) for i, e in found.names.items()}
        guards = self.guards(part, names, tests)
        dtype = self.b.dtypes[var]
        return self.summed(rewrite(part.value, names), guards, copies, dtype)

    def guards(self, part: Part, names: Mapping[Var, Size], tests: Tests) -> Guards:
        """What must hold of a part whose indices are solved. Its own guards may be tested only
        where the indices that they mention are in range; those that always hold are none. What is
        read to say where the part goes may be there only where its own guards hold."""
        first = [self.test(n, rewrite_size(s, names)) for n, s, _ in tests if not atoms_of(s)]
        asked = [t for t in tests if atoms_of(t[1])]
        left = {i for _, _, i in asked if i is not None}
        left |= {i for i, e in names.items() if atoms_of(e)}
        own = [
            (g, left & self.b.closed(free(old.operand)))
            for g, old in zip(renamed(part.guards, names), part.guards, strict=True)
            if g.fact is None or not self.facts(g.fact).proves(g.fact)
        ]
        out = [*first, *(g for g, waits in own if not waits)]
        for i in (None, *self.b.order(left)):
            for n, s, j in asked:
                if i == j:
                    out.append(self.test(n, rewrite_size(s, names), tuple(out)))
            if i is not None:
                left.discard(i)
                out += (g for g, waits in own if i in waits and not waits & left)
        return tuple(out)

    def summed(
        self, value: Operand, guards: Guards, copies: tuple[Var, ...], dtype: DType
    ) -> tuple[Operand, Guards]:
        """The sum of a value over indices, and the guards that do not depend on them."""
        if not copies:
            return value, guards
        inner = tuple(g for g in guards if set(copies) & self.b.closed(free(g.operand)))
        outer = tuple(g for g in guards if g not in inner)
        around = self.place.guards
        return self.b.reduce(
            "add", Lit(0.0, dtype), ((copies, value, inner),), dtype,
            (*around, *(g for g in outer if g not in around)),
        ), outer  # fmt: skip

    def copied(
        self, indices: Iterable[Var], names: Mapping[Var, Size]
    ) -> tuple[dict[Var, Size], tuple[Var, ...]]:
        """New indices that run as these do, for what `names` stand for."""
        out: dict[Var, Size] = {}
        for i in self.b.order(indices):
            extent = self.extent(i)
            assert extent is not None
            n = rewrite_size(rewrite_size(extent, names), out)
            out[i] = size(self.b.index(n, self.b.indices[i].name))
        return out, tuple(v for e in out.values() for v in (e.single,) if isinstance(v, Var))

    def apart(self, part: Part, at: At) -> Part:
        """The part with indices of its own, if the point mentions some of its."""
        domain = self.domain(part)
        if not {v for e in at for v in variables(e)} & set(domain):
            return part
        return self.with_names(part, domain, {}, [])

    def with_names(
        self, part: Part, left: Iterable[Var], names: dict[Var, Size], tests: Tests
    ) -> Part:
        """The part with some of its indices replaced, where that is right, and copies of those
        that are left."""
        rest, copies = self.copied(left, names)
        names = rest | {i: rewrite_size(e, rest) for i, e in names.items()}
        guards = self.guards(part, names, tests) if tests else renamed(part.guards, names)
        return Part(
            (*(i for i in part.over if self.stands(i)), *copies),
            tuple(rewrite_size(e, names) for e in part.at),
            rewrite(part.value, names), guards,
        )  # fmt: skip

    def tests(self, found: Inverse) -> Tests | None:
        """What must be tested of solved indices; None if it never holds."""
        out: Tests = []
        for e in found.equal:
            if e == ZERO:
                continue
            facts = self.facts(e)
            if facts.proves(e - 1) or facts.proves(-e - 1):
                return None
            if not facts.proves_equal(e, ZERO):
                out.append(("eq", e, None))
        for i, value in found.names.items():
            n = self.extent(i)
            assert n is not None
            n = rewrite_size(n, found.names)
            v = value.single
            if isinstance(v, Var) and v in self.b.indices and self.extent(v) == n:
                continue
            for low in (value, n - 1 - value):
                facts = self.facts(low)
                if facts.proves(-low - 1):
                    return None
                if not facts.proves(low):
                    out.append(("ge", low, i))
        return out

    # sparse parts

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

    def stands(self, v: Var) -> bool:
        return v in self.open or v in self.scope

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
            if any(self.is_long(v) for v in variables(e) if not self.stands(v)):
                return True
        if any(self.is_strip(i, found.names) for i in found.names):
            return True
        return bool(self.open) and any(self.is_window(i, found.names) for i in found.names)

    def is_long(self, v: Var) -> bool:
        n = self.b.extent(v)
        return n is not None and (n.constant is None or n.constant >= _FEW)

    def is_window(self, i: Var, names: Mapping[Var, Size]) -> bool:
        """Whether a solved index alone makes up an axis that is longer than it."""
        around = [v for v in variables(names[i]) if not self.stands(v) and v in self.b.indices]
        if len(around) != 1:
            return False
        mine, whole = self.extent(i), self.extent(around[0])
        if mine is None or whole is None:
            return False
        gap = whole - rewrite_size(mine, names)
        return gap.constant is None and not self.facts(gap).proves(-gap)

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
        late = [p for p in sparse if self.is_late(p)]
        if late:  # each is added while its loop runs, and starts before
            entries = [self.entry(p, own, dtype) for p in late]
            begun = [self.entered("add", zero, [e], own.values(), dtype) for e in entries]
            tables: list[Flow] = [rewrite(x, there) for x in begun]
            others = [p for p in sparse if p not in late]
            if others:
                tables.append(self.accumulated(var, dense, others, at))
            else:
                tables.append(self.total(var, dense, at))
            return Rules(self.place, dtype).sum(tables) or zero
        sparse = alike(self.place, dtype, sparse, self.extent)
        made = [self.entry(p, own, dtype) for p in sparse]
        init = self.total(var, dense, here) or zero
        return rewrite(self.entered("add", init, made, own.values(), dtype), there)

    def is_late(self, part: Part) -> bool:
        """Whether a part comes from rounds that are made again in a loop running backwards."""
        extents = [self.extent(i) for i in part.over]
        return any(self.waits(n) for n in extents if n is not None)

    def waits(self, n: Size) -> bool:
        """Whether a number of rounds waits for a loop that runs backwards."""
        return any(isinstance(a, Read) and a.var in self.waiting for a in atoms_of(n))

    def is_strip(self, i: Var, names: Mapping[Var, Size]) -> bool:
        """Whether a solved index is a round that is made again, and which strip it is in is left:
        every place would be looked for in every strip."""
        n = self.extent(i)
        return n is not None and self.waits(n) and not names.keys() >= {*variables(n)} - self.open

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
        context = bd.order(bd.closed(mentioned))
        entries = tuple(
            Entry(e.over, tuple(to.get(i, size(i)) for i in context), e.value, e.guards)
            for e, to in made
        )
        return bd.add(Accumulate(monoid, init, entries), context, self.place.guards, dtype)

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
            or (self.open and any(self.is_window(i, found.names) for i in found.names))
        ):  # fmt: skip
            return self.direct(part, own, domain, dtype)
        rest, copies = self.copied([i for i in domain if i not in found.names], found.names)
        names = rest | {i: rewrite_size(e, rest) for i, e in found.names.items()}
        guards = self.guards(part, names, tests)
        value, outer = self.summed(rewrite(part.value, names), guards, copies, dtype)
        return Entry(tuple(over), (), value, outer), to

    def direct(
        self, part: Part, own: Mapping[int, Var], domain: tuple[Var, ...], dtype: DType
    ) -> tuple[Entry, To]:
        """Point by point. What does not say where is summed before."""
        names: dict[Var, Size] = {}
        for k, q in own.items():
            v = part.at[k].single
            if isinstance(v, Var) and v in domain and v not in names:
                if self.extent(v) == self.b.extent(q):
                    names[v] = size(q)
        saying = self.b.closed(v for e in part.at for v in variables(e))
        rest, copies = self.copied([i for i in domain if i not in names], names)
        names |= rest
        late = tuple(
            v for i in rest if i not in saying for v in (rest[i].single,) if isinstance(v, Var)
        )
        guards = renamed(part.guards, names)
        value, outer = self.summed(rewrite(part.value, names), guards, late, dtype)
        to = {q: rewrite_size(part.at[k], names) for k, q in own.items()}
        over = tuple(v for v in copies if v not in late)
        return Entry(over, (), value, outer), to


def _plainly(s: Size) -> set[Var]:
    """The indices of an expression that none of the data it reads depend on."""
    named = {v for a in atoms_of(s) if isinstance(a, Read) for v in variables(size_of(a))}
    return set(written(s)) - named
