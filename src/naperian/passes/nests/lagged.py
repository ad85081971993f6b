"""What a round hands on to the next one alone is made again there. loops → loops

    before   for i in 0..n:                        after   if 0 < n: s := s + f(x[0], last)
                 new = s + f(x[i], last)                   for i in 1..n:
                 s := new                                      late = x[i - 1]
                 last := x[i]                                  s := s + f(x[i], late)
                                                           if 0 < n: last := x[n - 1]

The last element, or whether it was a blank, hangs on no other round, so it does not put the loop in
order. It is a few operations of what the loop only reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Let,
    Loop,
    Number,
    Stmt,
    Store,
    Update,
    Variable,
    When,
)
from naperian.loops.walk import assigned, loads, mentions, parts, remade, statements, used
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.sizes import ONE, Atom, Size, size

_MOST = 8  # operations

Parts = tuple[tuple[Stmt, ...], Loop, tuple[Stmt, ...]]


def lagged(s: Loop, types: Mapping[Var, DType]) -> Parts | None:
    """The first round, the loop of the others, and what it leaves behind, if the rounds of a loop
    hand on such values in variables of these types."""
    lets = {x.var: x for x in s.body if isinstance(x, Let)}
    late = [x for k, x in enumerate(s.body)
            if isinstance(x, Assign) and x.var in types and _is_late(x, s, lets, s.body[k + 1 :])]
    if not late:
        return None
    needed = {v for x in late for v in _names(x, lets) if v in lets}
    chain = tuple(x for x in s.body if isinstance(x, Let) and x.var in needed)
    rest = tuple(x for x in s.body if x not in late)
    own = [x.var for x in statements(s.body) if isinstance(x, Let | Variable)]

    def at(where: Size, body: Sequence[Stmt], own: Sequence[Var]) -> tuple[Stmt, ...]:
        names = {v: fresh(v) for v in own}

        def index(a: Atom) -> Size | None:
            if a == s.var:
                return where
            return size(names[a]) if isinstance(a, Var) and a in names else None

        return remade(body, index, names)

    before = {x.var: fresh(x.var) for x in late}
    made = tuple(Let(before[x.var], types[x.var], x.value) for x in late)
    again = at(size(s.var) - 1, (*chain, *made), [*needed])

    def index(a: Atom) -> Size | None:
        return size(before[a]) if isinstance(a, Var) and a in before else None

    some = Apply("lt", (Number(s.low), Number(s.high)), DType.BOOL, DType.I64)
    others = replace(s, low=s.low + ONE, body=(*again, *remade(rest, index, before)))
    first = When(some, at(s.low, rest, own))
    last = When(some, at(s.high - ONE, (*chain, *late), [*needed]))
    return (first,), others, (last,)


def _is_late(x: Assign, s: Loop, lets: Mapping[Var, Let], after: Sequence[Stmt]) -> bool:
    """Whether a variable is set once in a round, to a few operations of what no round changes."""
    names = [*_names(x, lets)]
    changed = {y.buffer for y in statements(s.body) if isinstance(y, Store | Update)}
    chain: tuple[Let | Assign, ...] = (x, *(lets[v] for v in names if v in lets))
    return (
        not assigned(s).intersection(names)
        and sum(isinstance(y, Assign) and y.var == x.var for y in statements(s.body)) == 1
        and not any(x.var in mentions(y) for y in after)
        and sum(isinstance(e, Apply) for y in chain for e in parts(y.value)) <= _MOST
        and changed.isdisjoint(y.buffer for z in chain for y in loads(z))
    )


def _names(x: Assign, lets: Mapping[Var, Let]) -> Iterator[Var]:
    """The names that a value hangs on, also through others."""
    found: dict[Var, None] = {}
    todo = [*used(x.value)]
    while todo:
        v = todo.pop()
        if v not in found:
            found[v] = None
            todo += used(lets[v].value) if v in lets else ()
    return iter(found)
