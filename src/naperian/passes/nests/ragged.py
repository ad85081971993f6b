"""Rounds that a `while` loop of its row has counted, for rows that go side by side (`lanes`).

    before   repeat:                               after    var most = 0
                 while f(x) > e:                            repeat:
                     …                                          while f(x) > e:
                     t := t + 1                                     …
             allocate h[t + 1]                                      t := t + 1
             for u in 0..t:                                         most := most + 1
                 store h[u + 1] = g(h[u])                   allocate h[most + 1]
             for b in 0..t:                                 for u in 0..most:
                 s := s + h[t - b - 1]                          store h[u + 1] = g(h[u])
                                                            for b in 0..most:
                                                                has = most - b - 1 < t
                                                                new = s + h[most - b - 1]
                                                                s := new if has else s

The loops are those of a gradient, which makes the rounds again and then goes back. `most` counts
the rounds that some row of a vector makes. Rounds backwards are counted from the first one, and not
from a row's last, so that all rows have a round's values in one place. What is stored for a round
that a row has not is in a place of its own, which it does not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Expr,
    Let,
    Local,
    Loop,
    Number,
    Reduction,
    Stmt,
    Store,
    Variable,
    While,
)
from naperian.loops.walk import (
    index_expressions,
    loads,
    rebuild,
    remade,
    statements,
    used_in,
    whole,
)
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.passes.nests.alike import addend
from naperian.prims import unit
from naperian.sizes import ZERO, Size, size


def evened(row: Loop) -> tuple[Loop, frozenset[Var]]:
    """The loop with as many rounds for all rows of a vector, and what counts these, which is the
    same for all rows; the loop itself, if there is nothing to count."""
    made = _Evened(row)
    if not made.counted:
        return row, frozenset()
    return replace(row, body=made.block(row.body)), frozenset(made.most.values())


class _Evened:
    def __init__(self, row: Loop) -> None:
        inside = statements(row.body)
        self.tables = {x.buffer.var: x.buffer for x in inside if isinstance(x, Allocate)}
        self.types = {x.var: x.dtype for x in inside if isinstance(x, Variable)}
        self.sums = {r.var: r for r in row.reductions}
        self.changing = {x.var for x in inside if isinstance(x, Let | Variable)}
        ends = {x.high.single for x in inside if isinstance(x, Loop)}
        self.counted = {v for x in inside if (v := counts(x)) is not None and v in ends}
        self.most: dict[Var, Var] = {}

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            match s:
                case Variable(t) if t in self.counted:
                    most = self.most[t] = Var("most")
                    out += [s, Variable(most, DType.I64, Lit(0, DType.I64))]
                case While(_, _, (*_, Assign(t))) if t in self.most and counts(s) == t:
                    more = whole("add", Local(self.most[t]), Lit(1, DType.I64))
                    out.append(replace(s, body=(*s.body, Assign(self.most[t], more))))
                case Allocate(buffer):
                    shape = tuple(map(self.extent, buffer.shape))
                    out.append(replace(s, buffer=replace(buffer, shape=shape)))
                case Loop(_, low, high) if low == ZERO and high.single in self.most:
                    out.append(self.rounds(s, high.single) or s)
                case _:
                    out.append(rebuild(s, self.block))
        return tuple(out)

    def extent(self, n: Size) -> Size:
        """How long an axis is that has all rounds of a row, for all rows."""
        t = next((t for t in self.most if _is_long(n, t)), None)
        return n if t is None else n - t + self.most[t]

    def rounds(self, s: Loop, t: Var) -> Loop | None:
        """A loop of the rounds of a row with those that some row has, if all rows have what is of a
        round in one place."""
        most, here = size(self.most[t]), size(s.var)
        body = s.body
        if _mention(body, t):  # backwards
            body = remade(body, lambda a: size(t) - most + here if a == s.var else None)
            here = most - here - 1
        if _mention(body, t) or not all(self.is_plain(x, s.var, t) for x in body):
            return None
        made = Apply("lt", (Number(here), Local(t)), DType.BOOL, DType.I64)
        has = Let(Var("has"), DType.BOOL, made)
        own = where(Local(has.var), body, self.types, self.sums)
        return replace(s, high=most, body=(has, *own))

    def is_plain(self, x: Stmt, round: Var, t: Var) -> bool:
        """Whether a statement may be in a round that a row has not: what it reads and writes there
        is in tables of the row with room for it."""
        elements = [(y.buffer, y.at) for y in loads(x)]
        match x:
            case Let() | Variable():
                pass
            case Assign(v):
                if v in self.sums and addend(x, self.sums[v].monoid) is None:
                    return False
            case Store(buffer, at) if buffer in self.tables:
                elements.append((buffer, at))
            case _:
                return False
        return all(self.is_there(*e, round, t) for e in elements)

    def is_there(self, buffer: Var, at: tuple[Size, ...], round: Var, t: Var) -> bool:
        """Whether an element is, of a round that a row has not, too."""
        names = {v for i in at for v in used_in(i)}
        if not self.changing.isdisjoint(names) or not self.tables.keys().isdisjoint(names):
            return False
        axes = [k for k, i in enumerate(at) if round in used_in(i)]
        made = self.tables.get(buffer)
        return not axes or (made is not None and all(_is_long(made.shape[k], t) for k in axes))


def where(
    has: Expr, body: Sequence[Stmt], types: Mapping[Var, DType], sums: Mapping[Var, Reduction]
) -> Iterator[Stmt]:
    """Statements that change numbers of the row only where it has the round."""
    own = {x.var for x in body if isinstance(x, Variable)}
    for x in body:
        if isinstance(x, Assign) and x.var not in own:
            r = sums.get(x.var)
            if r is None:
                x = replace(x, value=_chosen(has, x.value, Local(x.var), types[x.var]))
            else:
                e = addend(x, r.monoid)
                assert e is not None
                more = _chosen(has, e, Lit(unit(r.monoid, r.dtype), r.dtype), r.dtype)
                x = replace(x, value=Apply(r.monoid, (Local(x.var), more), r.dtype, r.dtype))
        yield x


def _chosen(has: Expr, a: Expr, b: Expr, dtype: DType) -> Expr:
    return Apply("select", (has, a, b), dtype, dtype)


def _is_long(n: Size, t: Var) -> bool:
    """Whether there are so many elements, or a few more."""
    more = (n - t).constant
    return more is not None and more >= 0


def counts(s: Stmt) -> Var | None:
    """The integer that a `while` loop counts its rounds in."""
    match s:
        case While(_, _, (*_, Assign(t, Apply("add", (Local(v), Lit(1)))))) if t == v:
            return t
        case _:
            return None


def _mention(body: Sequence[Stmt], t: Var) -> bool:
    """Whether an index expression does."""
    return any(t in used_in(i) for x in statements(body) for i in index_expressions(x))
