"""Where a part goes, solved for the part's indices, and what must hold of them there.

    y = x[i + 1]² for i<n           the part v[i] at i + 1 is v[q - 1] at q, if 0 <= q - 1 < n

An index that the place does not tell is left over and becomes one of a sum's. What is solved for is
tested to be in range, where facts do not prove it; what else the part asks is asked behind those
tests that what it reads needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from naperian.ainf.syntax import Guard, Operand, Read
from naperian.ainf.walk import atoms_of, free, number, rewrite, rewrite_size, size_of, variables
from naperian.dtypes import DType
from naperian.facts import Facts
from naperian.names import Lit, Var
from naperian.passes.bindings import ranges
from naperian.passes.bindings.builder import Guards
from naperian.passes.bindings.place import Place
from naperian.passes.derivatives.invert import Inverse
from naperian.passes.derivatives.parts import At, Part
from naperian.passes.derivatives.rules import renamed
from naperian.sizes import ZERO, Clamp, Quotient, Size, atom, size

# what must be >= 0 ("ge") or 0 ("eq"), the former so that this index is in range
Tests: TypeAlias = list[tuple[str, Size, Var | None]]


class Solving:
    """The indices of parts, in the loops `open` that are running backwards."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.b = place.b
        self.scope = frozenset(place.scope)
        self.open: set[Var] = set()
        self.waiting: set[Var] = set()  # the numbers of rounds that wait for a cotangent
        self.ends_of: dict[Var, Size] = {}  # what places that data name are less than
        self.backwards: set[Var] = set()  # the times of loops that run backwards

    def domain(self, part: Part) -> tuple[Var, ...]:
        """The indices that a part runs over. One of a round stands at those that its loop is inside
        of, too; from outside it may come from all of them."""
        still = self.b.closed(i for i in part.over if i in self.open or i in self.scope)
        return tuple(i for i in part.over if i not in still)

    def extent(self, i: Var) -> Size | None:
        return self.b.extent(i)

    def stands(self, v: Var) -> bool:
        return v in self.open or v in self.scope

    def stays(self, v: Var) -> bool:
        """Whether an index stands, or a loop that is running backwards is inside of it."""
        return v in self.scope or v in self.b.closed(self.open)

    def facts(self, s: Size) -> Facts:
        known = ranges.facts_about(
            s, self.b.indices, frozenset(self.b.sizes), (), self.place.facts
        )
        places = {size_of(a): self.ends_of[a.var] for a in s.atoms
                  if isinstance(a, Read) and a.var in self.ends_of}  # fmt: skip
        return known.and_(*places, *(n - 1 - k for k, n in places.items())) if places else known

    def inside(self, e: Size) -> Size:
        """A place without being kept in a range, if it always is there."""
        match e.single:
            case Clamp(value, n) if all(self.facts(x).proves(x) for x in (value, n - 1 - value)):
                return value
            case _:
                return e

    def test(self, name: str, s: Size, under: Guards = ()) -> Guard:
        """s >= 0 or s == 0 as a guard, written without minus signs; asked under guards."""
        left = Size(tuple((m, c) for m, c in s.terms if c > 0))
        sides = number(left), number(left - s)
        if under:
            around = (*self.place.guards, *(g for g in under if g not in self.place.guards))
            holds = self.b.op(name, sides, DType.BOOL, around)
        else:
            holds = self.place.op(name, sides, DType.BOOL)
        return Guard(holds, True, self.undivided(s) if name == "ge" else None)

    def undivided(self, s: Size) -> Size:
        """What is not negative where `s` is, if an index in it is divided by a number: loops are
        cut at what grows with their index by a step.

            n - 1 - q // 2 >= 0       2·n - 1 - q >= 0
        """
        for m, c in s.terms:
            match m:
                case (Quotient(above, below),) if abs(c) == 1 and (by := below.constant):
                    if by > 0 and any(v in self.b.indices for v in variables(above)):
                        rest = (s - atom(m[0]) * c) * by
                        return rest + above if c > 0 else rest + by - 1 - above
                case _:
                    pass
        return s

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
        for low in found.least:
            facts = self.facts(low)
            if facts.proves(-low - 1):
                return None
            if not facts.proves(low):
                out.append(("ge", low, None))
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

    def with_names(
        self, part: Part, left: Iterable[Var], names: dict[Var, Size], tests: Tests
    ) -> Part:
        """The part with some of its indices replaced, where that is right, and copies of those
        that are left."""
        rest, copies = self.copied(left, names)
        names = rest | {i: rewrite_size(e, rest) for i, e in names.items()}
        guards = self.guards(part, names, tests) if tests else renamed(part.guards, names)
        domain = self.domain(part)
        return Part(
            (*(i for i in part.over if i not in domain), *copies),
            tuple(rewrite_size(e, names) for e in part.at),
            rewrite(part.value, names), guards,
        )  # fmt: skip

    def apart(self, part: Part, at: At) -> Part:
        """The part with indices of its own, if the point mentions some of its."""
        domain = self.domain(part)
        if not {v for e in at for v in variables(e)} & set(domain):
            return part
        return self.with_names(part, domain, {}, [])

    def summed_first(self, part: Part, dtype: DType) -> Part:
        """A part, summed where it comes from over what does not say where it goes: in the rounds of
        a loop, if it is made there."""
        said = self.b.closed(v for e in part.at for v in variables(e))
        late = [i for i in self.domain(part) if i not in said]
        own, copies = self.copied(late, {})
        value, guards = self.summed(
            rewrite(part.value, own), renamed(part.guards, own), copies, dtype
        )
        return Part(tuple(i for i in part.over if i not in own), part.at, value, guards)

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
