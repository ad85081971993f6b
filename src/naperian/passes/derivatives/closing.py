"""What was sent to a binding, put together: its cotangent at a point.

Each part that goes to a place through index expressions is solved for its indices (`solving`), by
cases where an index is clamped (`ends`), or with margins where those would be many (`beyond`): a
shift becomes a shift back, and indices left over become sums. Such parts are *dense*, one number
for every element (`dense`). Those that go to few elements (a constant index, a gather, a diagonal,
a window) are *sparse* and become the entries of one `Accumulate` whose first values are the dense
ones (`entries`).
"""

from __future__ import annotations

from naperian.ainf.syntax import Op
from naperian.ainf.walk import rewrite, rewrite_size, variables
from naperian.names import Var
from naperian.passes.derivatives.beyond import Beyond
from naperian.passes.derivatives.digits import by_digits
from naperian.passes.derivatives.invert import invert
from naperian.passes.derivatives.parts import At, Part, alike
from naperian.passes.derivatives.permuted import permuted
from naperian.passes.derivatives.quotients import by_quotients
from naperian.passes.derivatives.rules import Flow, renamed
from naperian.passes.derivatives.windows import away, by_phases
from naperian.sizes import Size, size


class Closing(Beyond):
    """Cotangents from their parts."""

    def closed(self, var: Var, parts: list[Part], at: At) -> Flow:
        """The sum of the parts at a point of `var`'s context."""
        parts = [permuted(self.b, p, self.domain(p)) for p in parts]
        parts = self.folded(var, self.at_once(var, self.together(var, parts)), at)
        whole = [self.windowed(var, self.apart(p, at), at) for p in parts]
        cases = self.cases(var, whole, at)
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

    def at_once(self, var: Var, parts: list[Part]) -> list[Part]:
        """The parts, of which those that are moved by as much are one before that: one table is
        moved, and one thing is asked at an end.

            v[i] to clamp(i + 1), w[i] to clamp(i + 1)          (v + w)[i] to clamp(i + 1)
        """
        some = [p for p in parts if self.is_moved(p)]
        made = alike(self.place, self.b.dtypes[var], some, self.stays)
        return parts if len(made) == len(some) else [*(p for p in parts if p not in some), *made]

    def is_moved(self, part: Part) -> bool:
        """Whether a part goes to places other than its indices, each to one of its own."""
        domain = {*self.domain(part)}
        told = [own for e in part.at if (own := domain.intersection(variables(e)))]
        plain = all(e.single in domain for e in part.at if domain.intersection(variables(e)))
        apart = sum(map(len, told)) == len(told) == len(domain)
        return not plain and apart and domain == set[Var]().union(*told)

    def windowed(self, var: Var, part: Part, at: At) -> Part:
        """The part so that windows that meet are added up, and nothing is looked for in vain."""
        domain = self.domain(part)
        found = invert(domain, part.at, at, self.extent)
        if found is not None and self.tests(found):
            left = away(self.b, part, domain, {*domain} - found.names.keys())
            rest, copies = self.copied(left, {})
            value, guards = self.summed(
                rewrite(part.value, rest), renamed(part.guards, rest), copies, self.b.dtypes[var]
            )
            part = Part(tuple(i for i in part.over if i not in rest), part.at, value, guards)
        return by_phases(self.b, part, self.domain(part), self.test)

    def cases(self, var: Var, parts: list[Part], at: At) -> list[Part]:
        """The parts by cases that are solved for their indices. What is divided is taken apart if
        then each says where it goes, and nothing is added one after the other."""
        parts = [q for p in parts for q in self.digits(p, at)]
        apart = [by_quotients(self.b, p, self.domain(p), self.test) for p in parts]
        for whole in (apart, parts):
            cases = [q for p in whole for q in ([p] if self.meets(p, at) else self.split(p, var))]
            if apart == parts or all(self.meets(q, at) for q in cases):
                break
        return cases

    def digits(self, part: Part, at: At) -> list[Part]:
        """The part by the digits of its indices, if then each says where it goes."""
        if self.meets(part, at):
            return [part]
        made = by_digits(self.b, part, self.domain(part), at)
        return made if all(self.meets(q, at) for q in made) else [part]
