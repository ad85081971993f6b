"""The same for rounds that are made again in strips, `checkpoint(2)`: see `ragged`. loops → loops

    before   repeat: … t := t + 1                 after    … most := most + 1
             k = sqrt(t) + 1                               k = sqrt(most) + 1
             n = (t + k - 1) // k                          n = (most + k - 1) // k
             allocate h[n + 1]                             allocate h[n + 1]
             for a in 0..n:                                for a in 0..n:
                 var s = h[a]                                  var s = h[a]
                 for b in 0..min(t - a k, k):                  for b in 0..min(most - a k, k):
                     s := f(s)                                     s := f(s) if a k + b < t else s
                 store h[a + 1] = s                            store h[a + 1] = s

How long strips are says only which states are kept, so rows that go side by side have strips that
are as long as the one with most rounds needs. What a row has of its own changes in its rounds only:
in the strips forwards, and in those backwards from the last one, whose rounds are made and kept
before it goes through them from behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Stmt,
    Store,
    Variable,
    While,
)
from naperian.loops.walk import (
    expressions,
    index_expressions,
    loads,
    mentions,
    parts,
    reads,
    remade,
    statements,
    used,
    used_in,
    whole,
)
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.passes.nests.alike import addend
from naperian.passes.nests.ragged import counts, where
from naperian.sizes import ZERO, Atom, Size, clamp, rename, size


def evened_strips(row: Loop) -> tuple[Loop, frozenset[Var]]:
    """The loop with as many strips for all rows of a vector, and what counts the rounds of these,
    which is the same for all rows; the loop itself, if it has no such strips."""
    counted = [t for x in row.body if (t := counts(x)) is not None]
    if len(counted) != 1:
        return row, frozenset()
    try:
        made = _Strips(row, counted[0])
        return replace(row, body=tuple(made.block())), frozenset((made.most,))
    except _Stays:
        return row, frozenset()


class _Stays(Exception):
    """Rows are something else than strips of rounds."""


class _Strips:
    def __init__(self, row: Loop, t: Var) -> None:
        self.row, self.t = row, t
        self.most = Var("most")
        inside = statements(row.body)
        shared = statements(self.shared(row.body))
        self.tables = {x.buffer.var: x.buffer for x in shared if isinstance(x, Allocate)}
        self.types = {x.var: x.dtype for x in inside if isinstance(x, Variable)}
        self.sums = {r.var: r for r in row.reductions}
        self.ended: set[Var] = set()  # tables of states, each what its strip ended with
        self.numbers: list[Var] = []  # that are made of how many rounds there are
        for x in row.body:
            if isinstance(x, Let) and x.dtype is DType.I64:
                read = {*reads(x)}
                if read and read <= {t, *self.numbers}:
                    self.numbers.append(x.var)
        own = {x.var for x in inside if isinstance(x, Let | Variable | Loop)}
        self.own = own - {*self.numbers}

    def shared(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Statements that ask for the most rounds instead of a row's."""
        most: dict[Atom, Size] = {self.t: size(self.most)}
        return remade(body, most.get, {self.t: self.most})

    def block(self) -> Iterator[Stmt]:
        made, found = {self.t, *self.numbers}, False
        for s in self.row.body:
            (asked,) = self.shared((s,))
            match s:
                case Variable(t) if t == self.t:
                    yield s
                    yield Variable(self.most, DType.I64, Lit(0, DType.I64))
                case While() if counts(s) == self.t:
                    more = whole("add", Local(self.most), Lit(1, DType.I64))
                    yield replace(s, body=(*s.body, Assign(self.most, more)))
                case Let(v) if v in self.numbers:
                    yield asked
                case Allocate():
                    yield asked
                case Loop(_, low, high) if low == ZERO and high.single in self.numbers:
                    assert isinstance(asked, Loop)
                    yield self.strips(asked)
                    found = True
                case _ if made.isdisjoint(mentions(s)) or self.asks_for_the_end(s, made):
                    yield s
                case _:
                    raise _Stays
        if not found:
            raise _Stays

    def asks_for_the_end(self, s: Stmt, made: set[Var]) -> bool:
        """Whether a statement mentions rounds only where it reads what the last strip ended with,
        which is what the row's last round did."""
        if not isinstance(s, Let | Variable | Assign | Store):
            return False
        ends = [Load(v, (size(n),)) for v in self.ended for n in self.numbers]
        indices = (used_in(i) for i in (s.at if isinstance(s, Store) else ()))
        found = [used(e) for top in expressions(s) for e in parts(top)
                 if not isinstance(e, Apply) and e not in ends]  # fmt: skip
        return all(made.isdisjoint(names) for names in (*indices, *found))

    def strips(self, s: Loop) -> Loop:
        """A loop over strips: what is the row's own changes where the row has one."""
        ends = {x.var: x.value.value for x in s.body
                  if isinstance(x, Let) and isinstance(x.value, Number)}  # fmt: skip
        a, known = size(s.var), frozenset(ends)
        first: Size | None = None
        body: list[Stmt] = []
        for x in s.body:
            if isinstance(x, Loop):
                rounds = rename(x.high, ends)
                which, begin = self.begin(rounds, a, s.high)
                if x.low != ZERO or first not in (None, begin):
                    raise _Stays
                first = begin
                strip = _Along(s.var, s.high, s.high, which != a)
                body.append(self.rounds(x, begin, strip, _Along(x.var, x.high, rounds), known))
            else:
                body.append(x)
        if first is None:
            raise _Stays
        if not strip.back:
            mine = {x.var for x in body if isinstance(x, Variable)}
            self.ended |= {
                x.buffer for x in body
                if isinstance(x, Store) and x.at == (a + 1,) and mine & {*used(x.value)}
                and isinstance(x.value, Local)
            }  # fmt: skip
        for x in body:
            if not isinstance(x, Loop | Allocate) and not (isinstance(x, Let) and x.var in known):
                self.check(x, (strip,), ends)
        return replace(s, body=tuple(self.under(first, body)))

    def begin(self, rounds: Size, a: Size, strips: Size) -> tuple[Size, Size]:
        """Which strip has so many rounds, in strips forwards or backwards, and its first one."""
        for k in map(size, self.numbers):
            for which in (a, strips - 1 - a):
                if rounds == clamp(size(self.most) - which * k, k + 1):
                    return which, which * k
        raise _Stays

    def rounds(
        self, x: Loop, begin: Size, strip: _Along, own: _Along, known: frozenset[Var]
    ) -> Loop:
        """The rounds of a strip, from behind if they are counted from there."""
        ends = {*used_in(own.high)} & known
        indices = [i for y in statements(x.body) for i in index_expressions(y)]
        own.back = any(not ends.isdisjoint(used_in(i)) for i in indices)
        for y in x.body:
            self.check(y, (strip, own), {v: own.rounds for v in ends})
        b = size(x.var)
        here = begin + x.high - 1 - b if own.back else begin + b
        return replace(x, body=tuple(self.under(here, list(x.body))))

    def under(self, round: Size, body: list[Stmt]) -> Iterator[Stmt]:
        """Statements that change what is the row's only where it has a round."""
        made = Apply("lt", (Number(round), Local(self.t)), DType.BOOL, DType.I64)
        has = Let(Var("has"), DType.BOOL, made)
        yield has
        yield from where(Local(has.var), body, self.types, self.sums)

    def check(self, x: Stmt, along: tuple[_Along, ...], ends: Mapping[Var, Size]) -> None:
        """A statement may be in a round that a row has not: what it reads and writes there is in
        tables of the row with room for it, at a round that is the same for all rows."""
        if not isinstance(x, Let | Variable | Assign | Store):
            raise _Stays
        if isinstance(x, Assign) and (r := self.sums.get(x.var)) and addend(x, r.monoid) is None:
            raise _Stays
        rounds = {self.t, self.most, *self.numbers, *ends, *(i.var for i in along)}
        for e in (y for top in expressions(x) for y in parts(top)):
            if isinstance(e, Local | Number) and not rounds.isdisjoint(used(e)):
                raise _Stays
        elements = [(y.buffer, y.at) for y in loads(x)]
        if isinstance(x, Store):
            if x.buffer not in self.tables:
                raise _Stays
            elements.append((x.buffer, x.at))
        for buffer, at in elements:
            for k, i in enumerate(at):
                names = {*used_in(i)}
                if names & (self.own | self.tables.keys() | {self.t}) - rounds:
                    raise _Stays
                if not names.isdisjoint(rounds):
                    self.is_there(buffer, k, i, along, ends)

    def is_there(
        self, buffer: Var, axis: int, e: Size, along: tuple[_Along, ...], ends: Mapping[Var, Size]
    ) -> None:
        """An index goes along one of the loops, counted as its rounds are, in a table with an axis
        for all of these."""
        made = self.tables.get(buffer)
        for i in along:
            rest = e - (i.high - size(i.var) if i.back else size(i.var))
            if rest.constant is not None and made is not None:
                more = (rename(made.shape[axis], ends) - i.rounds).constant
                if more is not None and more >= 0:
                    return
        raise _Stays


@dataclass
class _Along:
    """A loop over strips, or over the rounds of one; `back` if it counts from their end."""

    var: Var
    high: Size
    rounds: Size  # `high`, written out
    back: bool = False
