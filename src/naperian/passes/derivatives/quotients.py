"""Parts that several rounds send to one place, which is their number divided.

    v[i] to i // 2 for i < 2·n          v[2·t + p] to t for p < 2
    v[i] to (i + 1) // 2                v[2·t + p - 1] to t for p < 2, where 0 <= 2·t + p - 1 < n

so a place says what t is, and reads what it is sent: images made larger, a coarse grid's values on
a fine one. One after the other, they would be added up in memory.
"""

from __future__ import annotations

from naperian.ainf.syntax import Guard
from naperian.ainf.walk import rewrite, rewrite_size, variables
from naperian.names import Var
from naperian.node import node
from naperian.passes.bindings.builder import Builder
from naperian.passes.derivatives.parts import Part
from naperian.passes.derivatives.rules import renamed
from naperian.passes.derivatives.windows import Domain, Test
from naperian.sizes import Atom, Clamp, Quotient, Remainder, Size, divided, size, substitute


def by_quotients(b: Builder, part: Part, domain: Domain, test: Test) -> Part:
    """The part with those of its indices taken apart that are divided by a number."""
    for k, e in enumerate(part.at):
        others = {v for x in (*part.at[:k], *part.at[k + 1 :]) for v in variables(x)}
        for atom in _quotients(e):
            shared = _shared(b, atom, domain)
            if shared is None or shared.index in others or _left(e, atom, shared.index):
                continue
            return by_quotients(b, *_apart(b, part, domain, atom, shared, test), test)
    return part


@node
class _Shared:
    """A quotient is `first` + t where `index` is by·t + p - `before`, or its mirror, for p < by;
    t has `extent` values."""

    index: Var
    by: Size
    first: Size
    before: int
    extent: Size
    back: bool


def _quotients(e: Size) -> list[Quotient]:
    """The quotients that a place is made of, also where it is kept in a range."""
    out: list[Quotient] = []
    for a in e.atoms:
        match a:
            case Quotient():
                out.append(a)
            case Clamp(value, _) | Remainder(value, _):
                out += _quotients(value)
            case _:
                pass
    return out


def _shared(b: Builder, a: Quotient, domain: Domain) -> _Shared | None:
    """How a quotient goes along with an index, if with no other."""
    inside = [v for v in dict.fromkeys(variables(a.above)) if v in domain]
    if len(inside) != 1 or not a.above.plain or b.closed(variables(a.below)) & {*domain}:
        return None
    (r,) = inside
    n, along = b.extent(r), a.above.coefficient(r)
    if n is None or abs(along) != 1 or b.indices[r].condition is not None:
        return None
    rest = a.above - size(r) * along
    if r in variables(rest) or b.closed(variables(n)) & {*domain}:
        return None
    if any(r in b.closures[j] for j in domain if j != r):
        return None  # others go as far as it says
    if along < 0:
        rest = rest - n + 1
    by = a.below.constant
    if by is None:
        whole, number = divided(rest, a.below), divided(n, a.below)
        if whole is None or number is None or not a.below.plain:
            return None
        return _Shared(r, a.below, whole, 0, number, along < 0)
    if by < 2 or any(c % by for m, c in rest.terms if m):
        return None
    before = rest.offset % by
    return _Shared(r, a.below, (rest - before) // by, before, _up(n + before, by), along < 0)


def _up(n: Size, by: int) -> Size:
    """How many times a number of rounds begins."""
    if any(c % by for m, c in n.terms if m):
        return (n + by - 1) // by
    return (n - n.offset) // by + (n.offset + by - 1) // by


def _left(e: Size, a: Quotient, r: Var) -> bool:
    """Whether a place says more of an index than its quotient does."""
    return r in variables(_with(e, a, size(0)))


def _with(e: Size, a: Quotient, new: Size) -> Size:
    def replace(x: Atom) -> Size | None:
        return new if x == a else None

    return substitute(e, replace)


def _apart(
    b: Builder, part: Part, domain: Domain, a: Quotient, shared: _Shared, test: Test
) -> tuple[Part, Domain]:
    """The part with t and p for the index, and its indices."""
    r = shared.index
    n = b.extent(r)
    assert n is not None
    name = b.indices[r].name
    t, p = b.index(shared.extent, name), b.index(shared.by, name)
    along = size(t) * shared.by + size(p) - shared.before
    names = {r: n - 1 - along if shared.back else along}
    guards: list[Guard] = []
    if shared.before:
        guards.append(test("ge", along))
    if shared.extent * shared.by != n + shared.before:
        guards.append(test("ge", n - 1 - along))
    split = Part(
        tuple(x for v in part.over for x in ((t, p) if v == r else (v,))),
        tuple(rewrite_size(_with(e, a, shared.first + size(t)), names) for e in part.at),
        rewrite(part.value, names), (*guards, *renamed(part.guards, names)),
    )  # fmt: skip
    return split, tuple(x for v in domain for x in ((t, p) if v == r else (v,)))
