"""Rows that are summed each for itself are summed four at a time. loops → loops

    before   free for i in 0..n:
                 var v = 0.0
                 free for j in 0..m reducing add v: v := v + a[i, j] * x[j]
                 store y[i] = tanh(v)

    after    free for four in 0..(n + 3) // 4:
                 row_2 = clamp(4 four + 1, n)
                 …
                 var v = 0.0; var v_2 = 0.0; var v_3 = 0.0; var v_4 = 0.0
                 free for j in 0..m reducing add v, add v_2, add v_3, add v_4:
                     v := v + a[4 four, j] * x[j]
                     v_2 := v_2 + a[row_2, j] * x[j]
                     …
                 store four[0] = v; store four[1] = v_2; …
                 free for beside in 0..4: store made[beside] = tanh(four[beside])
                 store y[4 four] = made[0]; store y[row_2] = made[1]; …

What all rows read is then read once for four of them, and one loop is begun and ended for four.
To add up the lanes of one vector takes as many steps as to add up those of four
(`backends/totals.py`), and what is dear is done of a vector of sums. If they are only added up
again, that is done for four at once: v + ((e + e_2) + (e_3 + e_4)).

If there are no four left, the last row stands in the place of those that are missing: its element
is stored again, and added once. A loop of its own for at most three rows would take as long to
compile as this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from naperian.dtypes import DType
from naperian.loops.syntax import (
    WINDOW,
    Allocate,
    Apply,
    Assign,
    Buffer,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Program,
    Role,
    Stmt,
    Store,
    Variable,
)
from naperian.loops.walk import (
    expressions,
    index_expressions,
    loads,
    parts,
    rebuild_loops,
    remade,
    step,
    used,
    used_in,
)
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.prims import PRIMITIVES
from naperian.sizes import ZERO, Atom, Size, clamp, size

_ROWS = 4
_MOST = 2  # sums in a loop, and loads: four of each are vectors and places that registers hold
_REPEATED = ("min", "max", "and", "or")
_DEAR = 4  # an operation, in additions: what takes longer waits for nothing else


def four_rows(program: Program) -> Program:
    """See the module."""
    return replace(program, body=_block(program.body))


def _block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    found = ((s, _rows(s)) for s in body)
    return tuple(rebuild_loops(s, _block) if r is None else r.four_at_a_time() for s, r in found)


def _rows(s: Stmt) -> _Rows | None:
    """A loop whose rounds make sums along rows, and then something of these."""
    if not isinstance(s, Loop) or s.order not in (Order.FREE, Order.PARALLEL):
        return None
    if s.low != ZERO or not isinstance(next(iter(s.body), None), Let | Variable):
        return None  # from elsewhere on: what other loops have left, a few rows
    if s.high.constant is not None and s.high.constant < _ROWS:
        return None
    backwards = list(takewhile(lambda x: not isinstance(x, Loop), reversed(s.body)))
    sums = s.body[: len(s.body) - len(backwards)]
    ends = tuple(x for x in reversed(backwards) if isinstance(x, Let | Assign | Store))
    if not sums or len(ends) < len(backwards):
        return None
    own = {s.var, *(x.var for x in s.body if isinstance(x, Let | Variable))}
    for x in sums:
        if isinstance(x, Loop) and not _is_sum(x, own):
            return None
        if not isinstance(x, Let | Variable | Loop):
            return None
    found = _Rows(s, sums, ends)
    return found if found.may_repeat else None


def _is_sum(s: Loop, own: set[Var]) -> bool:
    """Whether a loop, in vectors, adds up a few things that take a few steps each, with few loads
    of what is the `own` row's."""
    rounds = (s.high - s.low).constant
    read = {e for x in s.body for e in loads(x)}
    return (
        s.order is Order.FREE
        and own.isdisjoint((*used_in(s.low), *used_in(s.high)))
        and 0 < len(s.reductions) <= _MOST
        and all(r.monoid == "add" and r.dtype.is_float and r.var in own for r in s.reductions)
        and all(isinstance(x, Let | Assign) for x in s.body)
        and (rounds is None or rounds > WINDOW)
        and not any(_is_dear(e) for x in s.body for e in expressions(x))
        and all(_is_beside(e, s.var) for e in read)
        and sum(any(not own.isdisjoint(used_in(i)) for i in e.at) for e in read) <= _MOST
        and all(used_in(i).count(s.var) <= 1 for x in s.body for i in index_expressions(x))
    )


def _is_dear(e: Expr) -> bool:
    return any(
        isinstance(x, Apply) and x.name in PRIMITIVES and PRIMITIVES[x.name].cost > _DEAR
        for x in parts(e)
    )


def _is_beside(e: Load, v: Var) -> bool:
    """Whether the next round reads the next element, or the same one."""
    *others, last = e.at or (ZERO,)
    return step(last, v) in (0, 1) and all(v not in used_in(i) for i in others)


@dataclass(frozen=True)
class _Rows:
    """`loop` with its body: the sums with what they need, and what is made of them."""

    loop: Loop
    sums: tuple[Stmt, ...]
    ends: tuple[Let | Assign | Store, ...]

    @property
    def may_repeat(self) -> bool:
        """Whether what is reduced can leave a row out, or is the same if that is there twice."""
        added = {r.var for r in self.loop.reductions if r.monoid == "add"}
        return (
            all(r.var in added or r.monoid in _REPEATED for r in self.loop.reductions)
            and all(_adds(x) for x in self.ends if isinstance(x, Assign) and x.var in added)
            and not any(isinstance(x.value, Load) and self.is_over(x) for x in self.ends)
            and self.stored.isdisjoint(
                v for x in self.ends for i in index_expressions(x) for v in used_in(i)
            )
        )

    @cached_property
    def stored(self) -> frozenset[Var]:
        return frozenset(x.buffer for x in self.ends if isinstance(x, Store))

    def is_over(self, x: Stmt) -> bool:
        """Whether a row replaces what it reads: all rows read it before."""
        return isinstance(x, Store) and not self.stored.isdisjoint(used(x.value))

    def four_at_a_time(self) -> Loop:
        s, four = self.loop, Var("four")
        first = size(four) * _ROWS
        others = [Let(Var("row"), DType.I64, Number(clamp(first + k, s.high))) for k in (1, 2, 3)]
        sums = [y for x in self.sums for y in (_apart(x) if isinstance(x, Let) else (x,))]
        ends = [x for end in self.ends for x in _apart(end, self.is_over(end))]
        inner = (y for x in sums if isinstance(x, Loop) for y in x.body)
        made = [x.var for x in (*sums, *inner, *ends) if isinstance(x, Let | Variable)]
        rows = [_Row(s.var, at, made) for at in (first, *(size(x.var) for x in others))]
        body: list[Stmt] = [*others]
        for x in (*sums, *ends):
            body += _of_four([row.of((x,))[0] for row in rows], s.high - first)
        count = (s.high + _ROWS - 1) // _ROWS
        return Loop(four, ZERO, count, tuple(body), s.order, s.reductions, s.work * _ROWS)


class _Row:
    """One of the rows, with names of its own."""

    def __init__(self, var: Var, at: Size, made: Iterable[Var]) -> None:
        self._var, self._at, self._names = var, at, {v: fresh(v) for v in made}

    def of(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Statements of it."""
        return remade(body, self._place, self._names)

    def _place(self, a: Atom) -> Size | None:
        if a == self._var:
            return self._at
        return size(self._names[a]) if isinstance(a, Var) and a in self._names else None


def _apart(x: Let | Assign | Store, whole: bool = False) -> Iterator[Stmt]:
    """A statement behind names for what is dear in it, and for its `whole` value where that has to
    be known before the other rows store theirs."""
    lets: list[Let] = []

    def named(e: Expr, top: bool = False) -> Expr:
        if not isinstance(e, Apply):
            return e
        e = replace(e, args=tuple(map(named, e.args)))
        if not (top or _is_dear(e)):
            return e
        lets.append(Let(Var("made"), e.dtype, e))
        return Local(lets[-1].var)

    x = replace(x, value=named(x.value, whole))
    yield from lets
    yield x


def _of_four(copies: Sequence[Stmt], left: Size) -> Iterator[Stmt]:
    """A step of four rows: one loop, what is dear as a vector, what all add to one sum at once, and
    anything else of one after the other."""
    loops = [x for x in copies if isinstance(x, Loop)]
    lets = [x for x in copies if isinstance(x, Let) and _is_dear(x.value)]
    adds = [x for x in copies if isinstance(x, Assign) and _adds(x)]
    if loops:
        in_turn = tuple(x for steps in zip(*(x.body for x in loops), strict=True) for x in steps)
        sums = tuple(r for x in loops for r in x.reductions)
        yield replace(loops[0], body=in_turn, reductions=sums)
    elif lets:
        yield from _vector(lets)
    elif len({x.var for x in adds}) == 1:  # a variable of a row's own has four names
        yield _sum(adds, left)
    else:
        yield from copies


def _vector(lets: Sequence[Let]) -> Iterator[Stmt]:
    """The same operation, side by side: from a table for each operand into one."""
    beside = Var("beside")
    values = [x.value for x in lets if isinstance(x.value, Apply)]
    args: list[Expr] = []

    def table(dtype: DType) -> Allocate:
        return Allocate(Buffer(Var("four"), dtype, (size(_ROWS),), Role.TEMP))

    for operands in zip(*(e.args for e in values), strict=True):
        if len({*operands}) == 1:
            args.append(operands[0])
            continue
        own = table(values[0].operand)
        yield own
        yield from (Store(own.buffer.var, (size(k),), e) for k, e in enumerate(operands))
        args.append(Load(own.buffer.var, (size(beside),)))
    made = table(values[0].dtype)
    yield made
    store = Store(made.buffer.var, (size(beside),), replace(values[0], args=tuple(args)))
    yield Loop(beside, ZERO, size(_ROWS), (store,), Order.FREE)
    yield from (replace(x, value=Load(made.buffer.var, (size(k),))) for k, x in enumerate(lets))


def _sum(adds: Sequence[Assign], left: Size) -> Assign:
    """v := v + ((e + e_2) + (e_3 + e_4)), of as many as are left."""
    plus, *_ = sums = [x.value for x in adds if isinstance(x.value, Apply)]
    e, *others = [x.args[1] for x in sums]
    e_2, e_3, e_4 = (_if_any(k, left, x, plus.dtype) for k, x in enumerate(others, 1))
    one, two = replace(plus, args=(e, e_2)), replace(plus, args=(e_3, e_4))
    both = replace(plus, args=(one, two))
    return replace(adds[0], value=replace(plus, args=(plus.args[0], both)))


def _if_any(k: int, left: Size, e: Expr, dtype: DType) -> Expr:
    """What is added up of row `k`, if so many are left."""
    there = Apply("lt", (Number(size(k)), Number(left)), DType.BOOL, DType.I64)
    nothing = Lit(-0.0 if dtype.is_float else 0, dtype)
    return Apply("select", (there, e, nothing), dtype, dtype)


def _adds(x: Assign) -> bool:
    e = x.value
    return isinstance(e, Apply) and e.name == "add" and e.args[0] == Local(x.var)
