"""Parts that are one number for every element: their sum at a point.

    y = Σ_i x[i + j] · k[j]         at q: Σ_j of what was sent from q - j and j

What the two sides of a condition send to the same places is a choice before it is summed.
"""

from __future__ import annotations

from typing import TypeAlias

from naperian.ainf.syntax import Guard, Operand, Read
from naperian.ainf.walk import rewrite, rewrite_size
from naperian.names import Var
from naperian.passes.bindings.builder import Guards
from naperian.passes.derivatives.ends import Ends
from naperian.passes.derivatives.invert import invert
from naperian.passes.derivatives.parts import At, Part, sides
from naperian.passes.derivatives.rules import Flow, Rules
from naperian.sizes import clamp, size

Term: TypeAlias = tuple[Operand, Guards]


class Dense(Ends):
    """What dense parts send to a point."""

    def total(self, var: Var, dense: list[Part], at: At) -> Flow:
        rules = Rules(self.place, self.b.dtypes[var])
        if len(dense) > 1:
            dense = sides(self.place, rules.dtype, dense, self.stays)
        terms = [t for p in dense if (t := self.term(var, p, at)) is not None]
        terms = self.joined(terms, rules)
        return rules.sum([rules.where(guards, value) for value, guards in terms])

    def term(self, var: Var, part: Part, at: At) -> Term | None:
        """What a dense part sends to a point, and where."""
        domain = self.domain(part)
        found = invert(domain, part.at, at, self.extent)
        assert found is not None
        tests = self.tests(found)
        if tests is None:
            return None
        if tests:  # not at each place, whether or not something goes there
            part = self.summed_first(part, self.b.dtypes[var])
            domain = self.domain(part)
        rest, copies = self.copied([i for i in domain if i not in found.names], found.names)
        names = rest | {i: rewrite_size(e, rest) for i, e in found.names.items()}
        guards = self.guards(part, names, tests)
        dtype = self.b.dtypes[var]
        return self.summed(rewrite(part.value, names), guards, copies, dtype)

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
