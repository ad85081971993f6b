"""Boxes that leave a block of effects, or a round of them.

The sizes of a box and what it holds are made by statements that end with the block. What has no
effect among them is made outside: before the block where effects have no part in it, after it where
it is made of their results, which the block gives instead of the box.

    with state(0.0) as s:                      n = …: how many are kept
        for i: s := s + x[i]              ⇒    t = with state(0.0) as s: …: get(s)
        [x[i] for i if x[i] > 0], get(s)       (box(n, …), t)
"""

from __future__ import annotations

from collections.abc import Iterator

from naperian.broken import Broken
from naperian.core.syntax import Expr, Ref
from naperian.core.walk import children, of_type, size_variables
from naperian.names import Var
from naperian.node import kept, node
from naperian.passes.normal.denote import (
    Bound,
    Boxed,
    Chosen,
    Fun,
    Items,
    Leaf,
    Meaning,
    Parts,
    Place,
    Scope,
    View,
)
from naperian.sizes import variables
from naperian.types import Index, Type


@node
class Leaving:
    """What a value needs of a block outside of it: statements from `before` and `after` it, and
    those whose values it `gives`. The block itself is what `stays`."""

    before: list[Bound]
    stays: Scope
    gives: list[Bound]
    after: list[Bound]

    @property
    def given(self) -> list[Meaning]:
        return [Leaf(Ref(b.var), b.type) for b in self.gives]

    @property
    def type(self) -> tuple[Type, ...]:
        return tuple(b.type for b in self.gives)

    def outside(self, given: list[Expr]) -> list[Bound]:
        """The statements after the block, which gave these."""
        pairs = zip(self.gives, given, strict=True)
        return [*(Bound(b.var, e, b.type, work=False) for b, e in pairs), *self.after]


def leaving(scope: Scope, m: Meaning) -> Leaving:
    """How a value leaves the block whose statements these are."""
    made = {b.var: b for b in scope.statements if isinstance(b, Bound)}
    wanted: set[Var] = set()
    rest = [*mentioned(m)]
    while rest:
        v = rest.pop()
        if v in wanted or v not in made:
            continue
        wanted.add(v)
        rest += of_type(made[v].type)
        if not _stays(made[v]):
            rest += mentions(made[v])
    gives = {v for v in wanted if _stays(made[v])}
    late = {v for v, b in made.items() if b.cells or b.fails}
    for v, b in made.items():
        if not late.isdisjoint((*mentions(b), *of_type(b.type))):
            late.add(v)
    before = {v for v in wanted if v not in late}
    stays = [b for b in scope.statements if not isinstance(b, Bound) or b.var not in before]
    return Leaving(
        [b for v, b in made.items() if v in before],
        Scope(stays),
        [b for v, b in made.items() if v in gives],
        [b for v, b in made.items() if v in wanted - before - gives],
    )


def _stays(b: Bound) -> bool:
    """Whether a statement has its place in the block."""
    return bool(b.cells) or (b.fails and not any(of_type(b.type)))


def named_in(e: Expr) -> list[Var]:
    """The variables of an expression, bound ones too."""
    found: list[Var] = []
    rest = [e]
    while rest:
        x = rest.pop()
        if isinstance(x, Ref):
            found.append(x.var)
        else:
            found += size_variables(x)
            rest += children(x)
    return found


@kept
def mentions(b: Bound) -> tuple[Var, ...]:
    """The variables of what a name stands for."""
    return tuple(named_in(b.value))


def mentioned(m: Meaning) -> Iterator[Var]:
    """The variables of data."""
    match m:
        case Leaf(e, t):
            yield from named_in(e)
            yield from of_type(t)
        case Parts(items) | Items(_, items):
            for x in items:
                yield from mentioned(x)
        case View(s, _, names, cell):
            yield from of_type(Index(s))
            for b in names:
                yield from mentions(b)
            yield from mentioned(cell)
        case Boxed(t, sizes, value):
            yield from of_type(t)
            for n in sizes:
                yield from variables(n)
            yield from mentioned(value)
        case Fun() | Chosen() | Place():
            raise Broken("a function or reference is used as data")
