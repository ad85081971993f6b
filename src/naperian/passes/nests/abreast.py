"""Sums of lanes that go to elements side by side are made four at a time. loops → loops

    before   for i in 0..a:
                 lanes for l in 0..32: store t[l] = v[l] * x[i, l]
                 var sum = -0.0
                 lanes for l in 0..8 reducing add sum: sum := sum + t[l] + … + t[l + 24]
                 update out[i] += sum

    after    for four in 0..a // 4:
                 lanes for l in 0..32: store t_1[l] = v[l] * x[4 four, l]; … t_2 … t_3 … t_4 …
                 var sum_1 = -0.0; …
                 lanes for l in 0..8 reducing add sum_1, … sum_4: …
                 store sums[0] = sum_1; …
                 free for k in 0..4: update out[4 four + k] += sums[k]
             for i in 4 (a // 4)..a: …                                            as before

To add up the lanes of one vector takes as many steps as to add up those of four, which become one
vector of four sums (`backends/totals.py`), and that is added to memory at once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from naperian.loops.syntax import (
    Allocate,
    Assign,
    Buffer,
    Let,
    Load,
    Local,
    Loop,
    Order,
    Program,
    Reduction,
    Role,
    Stmt,
    Store,
    Update,
    Variable,
)
from naperian.loops.walk import (
    blocks,
    index_expressions,
    loads,
    mentions,
    rebuild_loops,
    remade,
    statements,
    used_in,
)
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.passes.nests.rounds import whole_rounds
from naperian.sizes import ZERO, Atom, Size, size

_FOUR = 4
_MOST = 2  # sums in a round: four of each are vectors that registers hold


def abreast(program: Program) -> Program:
    """See the module."""
    made = {s.buffer.var: s.buffer for s in statements(program.body) if isinstance(s, Allocate)}
    users: Counter[Var] = Counter()
    return replace(program, body=_block(program, program.body, made, users))


def _block(
    program: Program, body: tuple[Stmt, ...], made: dict[Var, Buffer], users: Counter[Var]
) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        sums = _sums(s)
        if sums is not None and not users:
            users.update(_users(program.body))
        if sums is not None and sums.are_apart(users):
            out += sums.four_at_a_time(made, whole_rounds(sums.loop, _FOUR, program.sizes))
        else:
            out.append(rebuild_loops(s, lambda b: _block(program, b, made, users)))
    return tuple(out)


def _users(body: tuple[Stmt, ...]) -> Counter[Var]:
    """How many statements mention a name, but for what allocates it."""
    simple = (s for s in statements(body) if not (blocks(s) or isinstance(s, Allocate)))
    return Counter(v for s in simple for v in mentions(s))


def _sums(s: Stmt) -> _Sums | None:
    """A loop that does nothing but make sums of lanes and add them to elements side by side."""
    if not isinstance(s, Loop) or s.order is not Order.SERIAL or s.reductions:
        return None
    trips = (s.high - s.low).constant
    if trips is not None and trips < _FOUR:
        return None
    starts = tuple(x for x in s.body if isinstance(x, Variable))
    loops = [x for x in s.body if isinstance(x, Loop)]
    ends = tuple(x for x in s.body if isinstance(x, Update))
    if not 0 < len(ends) <= _MOST or len(starts) + len(loops) + len(ends) < len(s.body):
        return None
    *firsts, last = loops or [s]
    lanes = all(x.order is Order.LANES and not any(map(blocks, x.body)) for x in loops)
    if not lanes or not all(_is_own(x) for x in firsts):
        return None
    if {r.var for r in last.reductions} != {x.var for x in starts}:
        return None
    if not all(isinstance(x, Let | Assign) for x in last.body):
        return None
    values = [x.value for x in ends]
    if values != [Local(x.var) for x in starts] or not all(_is_beside(x, s.var) for x in ends):
        return None
    return _Sums(s, tuple(firsts), last, starts, ends)


def _is_own(s: Loop) -> bool:
    """Whether a loop of lanes only writes what is its round's own."""
    here = (size(s.var),)
    stores = all(isinstance(x, Let) or (isinstance(x, Store) and x.at == here) for x in s.body)
    return stores and not s.reductions and s.low == ZERO


def _is_beside(x: Update, v: Var) -> bool:
    """Whether the next round updates the next element."""
    *others, last = x.at or (ZERO,)
    before = last - size(v)
    return x.monoid == "add" and all(v not in used_in(e) for e in (*others, before))


@dataclass(frozen=True)
class _Sums:
    """`loop` with the parts of its body, in their order."""

    loop: Loop
    firsts: tuple[Loop, ...]
    last: Loop
    starts: tuple[Variable, ...]
    ends: tuple[Update, ...]

    def are_apart(self, users: Counter[Var]) -> bool:
        """Whether no round reads what another writes, and nothing else does what is its own."""
        targets = {x.buffer for x in self.ends}
        own = [x.buffer for f in self.firsts for x in f.body if isinstance(x, Store)]
        mine = _users(self.loop.body)
        written: set[Var] = set()
        for f in (*self.firsts, self.last):
            read = {y.buffer for x in f.body for y in loads(x)}
            if read & targets or read & (set(own) - written):
                return False
            written |= {x.buffer for x in f.body if isinstance(x, Store)}
        places = (e for x in self.ends for e in index_expressions(x))
        return (
            len(own) == len(set(own)) and len(targets) == len(self.ends)
            and all(users[v] == mine[v] for v in own)
            and not any(isinstance(a, Load) for e in places for a in e.atoms)
        )  # fmt: skip

    def four_at_a_time(self, made: dict[Var, Buffer], count: Size) -> list[Stmt]:
        s = self.loop
        four = Var("four")
        own = [x.buffer for f in self.firsts for x in f.body if isinstance(x, Store)]
        lets = [x.var for f in (*self.firsts, self.last) for x in f.body if isinstance(x, Let)]
        changing = (*own, *lets, *(x.var for x in self.starts))
        body: list[Stmt] = []
        starts: list[Stmt] = []
        inner: list[tuple[Stmt, ...]] = []
        sums: list[Reduction] = []
        ends: list[Stmt] = []
        fours = [fresh(x.var) for x in self.starts]
        for k in range(_FOUR):
            names = {v: fresh(v) for v in changing}

            def replaced(a: Atom, k: int = k, names: dict[Var, Var] = names) -> Size | None:
                if isinstance(a, Var) and a in names:
                    return size(names[a])
                return s.low + size(four) * _FOUR + k if a == s.var else None

            body += (Allocate(replace(made[v], var=names[v])) for v in own)
            body += remade(self.firsts, replaced, names)
            starts += remade(self.starts, replaced, names)
            inner.append(remade(self.last.body, replaced, names))
            sums += (replace(r, var=names[r.var]) for r in self.last.reductions)
            for v, x in zip(fours, self.starts, strict=True):
                ends.append(Store(v, (size(k),), Local(names[x.var])))
        body += starts
        in_turn = tuple(x for steps in zip(*inner, strict=True) for x in steps)
        body.append(replace(self.last, body=in_turn, reductions=tuple(sums)))
        body += (Allocate(Buffer(v, x.dtype, (size(_FOUR),), Role.TEMP))
                 for v, x in zip(fours, self.starts, strict=True))  # fmt: skip
        body += ends
        beside = Var("beside")
        here = s.low + size(four) * _FOUR + size(beside)
        added = tuple(
            Update(x.buffer, (*x.at[:-1], x.at[-1] - size(s.var) + here), x.monoid,
                   Load(v, (size(beside),)))
            for x, v in zip(self.ends, fours, strict=True)
        )  # fmt: skip
        body.append(Loop(beside, ZERO, size(_FOUR), added, Order.FREE))
        many = Loop(four, ZERO, count, tuple(body), Order.SERIAL, (), s.work * _FOUR)
        rest = replace(s, low=s.low + count * _FOUR)
        return [many] if rest.low == s.high else [many, rest]
