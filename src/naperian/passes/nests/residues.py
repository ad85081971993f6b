"""A loop whose rounds alternate does those of one turn in one round. loops → loops

    before   free for i in 2..128:                     after    free for p in 0..63:
                 even = i % 2 == 0                                  store y[2 * p + 2] = v[p + 1]
                 store y[i] = v[i // 2] if even else 0.0            store y[2 * p + 3] = 0.0

So is the cotangent of what windows read that go by steps: an even element is under other places of
a window than an odd one. What depends on the remainder alone is decided, nothing is divided for,
and elements that lie beside each other are stored by one round, in whole vectors. Only for a few:
a longer turn is a loop of its own (`digits`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Let,
    Loop,
    Number,
    Order,
    Program,
    Stmt,
    Store,
    Update,
    Variable,
    When,
)
from naperian.loops.walk import rebuild_loops, remade, statements, used_in
from naperian.names import Var, fresh
from naperian.node import node, replace
from naperian.passes.nests.digits import decided, divisions
from naperian.sizes import (
    ZERO,
    Atom,
    Clamp,
    Quotient,
    Remainder,
    Size,
    divided,
    is_natural,
    natural,
    size,
)

_FEW = 4  # rounds of one turn
_TURNS = 8  # so many turns are worth it
_MUCH = 256  # statements of one turn

_PLAIN = (Let, Variable, Assign, Store, Update, Loop, When)


def residues(program: Program) -> Program:
    """See the module."""
    named: dict[Var, Size] = {}
    for x in statements(program.body):
        if isinstance(x, Let) and isinstance(x.value, Number):
            n = x.value.value  # (copies of a loop may have names twice, and not for the same)
            named[x.var] = n if named.get(x.var, n) == n else size(x.var)
    sizes = frozenset(program.sizes)
    return replace(program, body=_Turns(named, sizes).block(program.body))


@node
class _Turns:
    """Makes loops by turns, where names are `named` numbers."""

    named: Mapping[Var, Size]
    sizes: frozenset[Var]

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(x for s in body for x in self.statement(s))

    def statement(self, s: Stmt) -> tuple[Stmt, ...]:
        """A statement, with its loops by turns, and what is left of them."""
        first = self.most(s.low) if isinstance(s, Loop) else None
        by = self.by(s, first) if isinstance(s, Loop) and first is not None else None
        if not isinstance(s, Loop) or first is None or by is None:
            return (rebuild_loops(s, self.block),)
        turn, count = fresh(s.var), (s.high - first) // by
        each = [self.block(_round(s, first + q, turn, by)) for q in range(by)]
        each = [_own(x) if q else x for q, x in enumerate(each)]
        if s.low.constant is not None and any(isinstance(x, Loop) for x in statements(s.body)):
            return (self.of_rows(s, turn, each),)
        lets: tuple[Stmt, ...] = ()
        if s.low.constant is None:  # it begins there, or before, where hardly anything is
            many = Number(natural((s.high - first) // by))
            begins = Apply("eq", (Number(s.low), Number(size(first))), DType.BOOL, DType.I64)
            turns = Var("turns")
            value = Apply("select", (begins, many, Number(ZERO)), DType.I64, DType.I64)
            lets, count = (Let(turns, DType.I64, value),), size(turns)
        else:
            count = self.natural(count)
        body = tuple(x for one in each for x in one)
        head = replace(s, var=turn, low=ZERO, high=count, body=body, work=s.work * by)
        rest = replace(s, low=s.low + count * by, order=Order.SERIAL)
        if rest.low == s.high:
            return (*lets, head)
        return (*lets, head, rebuild_loops(rest, self.block))

    def of_rows(self, s: Loop, turn: Var, each: Sequence[tuple[Stmt, ...]]) -> Loop:
        """A loop around others by turns, of which the last may not be a whole one."""
        by, trips = len(each), s.high - s.low
        whole = divided(trips, size(by))
        body = each[0]
        for q, rows in enumerate(each[1:], 1):
            here, end = Number(size(turn) * by + s.low + q), Number(s.high)
            inside = Apply("lt", (here, end), DType.BOOL, DType.I64)
            body += rows if whole is not None else (When(inside, rows),)
        high = self.natural((trips + (by - 1)) // by if whole is None else whole)
        return replace(s, var=turn, low=ZERO, high=high, body=body, work=s.work * by)

    def natural(self, count: Size) -> Size:
        """How many rounds a loop has that goes so far."""
        never = count.constant is not None or is_natural(count, self.sizes)
        return count if never else natural(count)

    def most(self, n: Size) -> int | None:
        """A number that another one is, or it is less; of loops that begin or end beside a border,
        in arrays that do not reach so far."""
        n = self.named.get(n.single, n) if isinstance(n.single, Var) else n
        return n.single.value.constant if isinstance(n.single, Clamp) else n.constant

    def by(self, s: Loop, first: int) -> int | None:
        """How many rounds are one turn, if that is a small number."""
        inside = statements(s.body)
        if s.order is Order.SERIAL and not _adds_by_turns(s):
            return None
        if not all(isinstance(x, _PLAIN) for x in inside):
            return None
        if s.order is Order.PARALLEL and s.reductions:
            return None
        found: Counter[int] = Counter()
        for a in divisions(inside):
            n = a.below.constant or 0
            if 1 < n <= _FEW and (a.above - s.var).constant is not None:
                found[n] += 1
        if not found:
            return None
        by, _ = found.most_common(1)[0]
        end = self.most(s.high)
        few = end is not None and end - first < _TURNS * by
        return None if few or len(inside) * by > _MUCH else by


def _adds_by_turns(s: Loop) -> bool:
    """Whether a loop in order adds to a few elements by turns, `update v[i % 2] += …`: then each
    turn adds to one, which a register is for."""
    return any(
        isinstance(x, Update) and any(_is_turn(e, s.var) for e in x.at) for x in s.body
    )


def _is_turn(e: Size, loop: Var) -> bool:
    a = e.single
    return isinstance(a, Remainder) and (a.below.constant or 0) > 1 and loop in used_in(a.above)


def _round(s: Loop, first: int, turn: Var, by: int) -> tuple[Stmt, ...]:
    """What a round does, by what is left of its index."""
    here = size(turn) * by + first

    def known(a: Atom) -> Size | None:
        match a:
            case Quotient(above, below) if below == size(by):
                past = (above - s.var).constant
                return None if past is None else turn + size((first + past) // by)
            case Remainder(above, below) if below == size(by):
                past = (above - s.var).constant
                return None if past is None else size((first + past) % by)
            case _:
                return here if a == s.var else None

    return decided(remade(s.body, known))


def _own(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Statements with names of their own."""
    made = [x.var for x in statements(body) if isinstance(x, (Let, Variable))]
    names = {v: fresh(v) for v in made}
    atoms: dict[Atom, Size] = {v: size(x) for v, x in names.items()}
    return remade(body, atoms.get, names)
