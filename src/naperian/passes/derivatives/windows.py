"""Parts that windows send, so that solving for their indices costs no more than they did.

    v[i, r] to 2·i + r for r < 3        v[i, 2·t + p] to 2·(i + t) + p for p < 2, t < 2

so q says what p is, and i but for t: the window's own index is never found by trying all `i`.

    Σ_o v[o, i]·w[o, r] to i + r        u[i, r] to i + r where u[i, r] = Σ_o v[o, i]·w[o, r]

of which u is a product of matrices, and only the sums of its elements ask for the edges; or v says
nothing of `o`, and w is summed once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from naperian.ainf.syntax import Guard, Op, Read
from naperian.ainf.walk import free, rewrite, rewrite_size, variables
from naperian.names import Var
from naperian.node import node
from naperian.passes.bindings.builder import Builder
from naperian.passes.derivatives.parts import Part
from naperian.passes.derivatives.rules import renamed
from naperian.sizes import Size, size

_FEW = 8  # so short a sum is made where its windows meet

Domain: TypeAlias = tuple[Var, ...]
Test: TypeAlias = Callable[[str, Size], Guard]


def by_phases(b: Builder, part: Part, domain: Domain, test: Test) -> Part:
    """The part with the indices of windows that go by steps taken apart."""
    for e in part.at:
        for r in variables(e):
            step = _step(b, e, r, domain)
            if step is not None:
                return by_phases(b, *_apart(b, part, domain, r, step, test), test)
    return part


@node
class _Step:
    """A place is a multiple of `by`, plus `by`·t + p - `before`, which `r` is, or its mirror."""

    by: int
    before: int
    back: bool


def _step(b: Builder, e: Size, r: Var, domain: Domain) -> _Step | None:
    """How a place goes along with `r`, if with one other index by steps."""
    others = [v for v in dict.fromkeys(variables(e)) if v in domain and v != r]
    along = e.coefficient(r)
    if r not in domain or len(others) != 1 or abs(along) != 1 or not e.plain:
        return None
    rest = e - size(r) * along
    by = abs(rest.coefficient(others[0]))
    if by < 2 or any(c % by for m, c in rest.terms if m) or r in variables(rest):
        return None
    n = b.extent(r)
    if n is None or (along < 0 and n.constant is None) or b.closed(variables(n)) & {*domain}:
        return None
    if not _is_shorter(b, r, others[0], domain):
        return None
    before = (e.offset if n.constant is None or along > 0 else e.offset - n.constant + 1) % by
    return None if n == size(by) and not before else _Step(by, before, along < 0)


def _is_shorter(b: Builder, r: Var, other: Var, domain: Domain) -> bool:
    """Whether a window's index is this one: by its rounds, else it is the inner one."""
    (n, m) = (k.constant if (k := b.extent(i)) is not None else None for i in (r, other))
    if n is None and m is None:
        return domain.index(r) > domain.index(other)
    return n is not None and (m is None or n < m)


def _apart(
    b: Builder, part: Part, domain: Domain, r: Var, step: _Step, test: Test
) -> tuple[Part, Domain]:
    """The part with t and p for `r`, and its indices."""
    n, by = b.extent(r), step.by
    assert n is not None
    t, p = b.index((n + (step.before + by - 1)) // by, r.name), b.index(size(by), r.name)
    along = size(t) * by + p - step.before
    names = {r: n - 1 - along if step.back else along}
    guards = [test("ge", along)] if step.before else []
    if n.constant is None or (n.constant + step.before) % by:
        guards.append(test("ge", n - 1 - along))
    split = Part(
        tuple(x for v in part.over for x in ((t, p) if v == r else (v,))),
        tuple(rewrite_size(x, names) for x in part.at),
        rewrite(part.value, names), (*guards, *renamed(part.guards, names)),
    )  # fmt: skip
    return split, tuple(x for v in domain for x in ((t, p) if v == r else (v,)))


def away(b: Builder, part: Part, domain: Domain, left: set[Var]) -> list[Var]:
    """What of those indices is summed before, if windows meet where that is sent: what does not say
    where that is, if it makes a product of matrices, or can be taken out of one factor."""
    saying = b.closed(v for e in part.at for v in variables(e))
    rest = [i for i in domain if i in left - saying]
    if not saying & left or not isinstance(part.value, Read):
        return []
    few = 1
    for i in rest:
        n = b.extent(i)
        few *= _FEW if n is None or n.constant is None else n.constant
    made = next((x for x in reversed(b.bindings) if x.var == part.value.var), None)
    if few < _FEW or made is None or not isinstance(made.prim, Op) or made.prim.name != "mul":
        return []
    names = dict(zip(made.context, part.value.at, strict=True))
    one, two = ({*free(rewrite(x, names))} & {*domain} for x in made.prim.args)
    both = one & two
    many = {*rest} <= both and both < one and both < two
    return rest if many or both.isdisjoint(rest) else []
