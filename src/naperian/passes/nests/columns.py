"""Recurrences along the columns of an array go side by side, by its rows. loops → loops

    before   parallel for j in 0..m:
                 var a = x[0, j]
                 for t in 0..n:
                     a := 0.9 * a + 0.1 * x[t, j]
                     store y[t, j] = a

    after    parallel for c in 0..⌈m / 512⌉:
                 allocate small a[512]
                 free for j in panel c: store a[j - 512 c] = x[0, j]
                 for t in 0..n:
                     free for j in panel c:
                         store a[j - 512 c] = 0.9 * a[j - 512 c] + 0.1 * x[t, j]
                         store y[t, j] = a[j - 512 c]

One column after the other waits for every step, and reads a line of memory for each element. The
rounds of a loop that is not sequential do not wait for each other, so they may take turns in any
way. It pays where all that the steps touch lies beside what those of the next column do. What is
stored as it is carried needs no `a` (see `previous`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from naperian.dtypes import DType
from naperian.loops.syntax import (
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
    When,
)
from naperian.loops.walk import (
    index_expressions,
    loads,
    mentions,
    reads,
    rebuild_loops,
    statements,
    used_in,
)
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.nests.previous import previous
from naperian.sizes import ZERO, Size, clamp, size

_FEW = 16  # columns, which fill two vectors or less
PANEL = 512  # columns; what one variable of theirs takes is a page


def columns(program: Program) -> Program:
    """See the module."""
    return replace(program, body=_block(program.body))


def _block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return tuple(
        _wide(s) if isinstance(s, Loop) and _pays(s) else rebuild_loops(s, _block) for s in body
    )


def _wide(s: Loop) -> Stmt:
    """The loop side by side where there are enough columns: a few fill no vector, and to keep what
    they carry in memory takes longer than what a round does."""
    count = s.high.constant
    if count is not None:
        return s if count < _FEW else _side_by_side(s)
    many = Apply("ge", (Number(s.high), Lit(_FEW, DType.I64)), DType.BOOL, DType.I64)
    return When(many, (_side_by_side(s),), (s,))


def _pays(s: Loop) -> bool:
    """Whether a loop's rounds are recurrences that go along columns, and nothing else."""
    inside = list(statements(s.body))
    inner = [x for x in inside if isinstance(x, Loop)]
    if s.order is Order.SERIAL or s.reductions or s.low != ZERO or not inner:
        return False
    if not all(isinstance(x, (Let, Variable, Assign, Store, When, Loop)) for x in inside):
        return False
    if any(x.order is not Order.SERIAL or x.reductions for x in inner):
        return False
    if any(isinstance(y, Loop) for x in inside if isinstance(x, When) for y in statements((x,))):
        return False
    made = {x.var for x in inside if isinstance(x, Let | Variable)}
    if not made.isdisjoint(v for x in inside for e in index_expressions(x) for v in used_in(e)):
        return False
    if any(s.var in used_in(e) for x in inner for e in (x.low, x.high)):
        return False
    steps = [at for x in inner for y in statements(x.body) for at in _places(y)]
    times = {x.var for x in inner}
    return all(_is_beside(s.var, at) for x in inside for at in _places(x)) and any(
        s.var in used_in(at[-1]) and not times.isdisjoint(v for e in at[:-1] for v in used_in(e))
        for at in steps if at
    )  # fmt: skip


def _places(s: Stmt) -> Iterator[tuple[Size, ...]]:
    """The indices of the elements that a statement itself reads or writes."""
    if isinstance(s, Store):
        yield s.at
    for x in loads(s):
        yield x.at


def _is_beside(column: Var, at: tuple[Size, ...]) -> bool:
    """Whether the next column's element is the same, or the next one in memory."""
    if any(column in used_in(e) for e in at[:-1]):
        return False
    step = at[-1].coefficient(column) if at else 0
    return step in (0, 1) and (not at or column not in used_in(at[-1] - size(column) * step))


def _side_by_side(s: Loop) -> Loop:
    panel = Var("panel")
    low = size(panel) * PANEL
    columns = _Columns(s.var, low, low + clamp(s.high - low, size(PANEL + 1)))
    parted = previous(s).body
    columns.find(parted)
    body = columns.block(parted)
    count = (s.high + PANEL - 1) // PANEL
    return replace(s, var=panel, high=count, body=(*columns.made, *body), work=s.work * PANEL)


@dataclass
class _Columns:
    """The columns of a panel. What they keep from one loop over them to the next has an array."""

    var: Var
    low: Size
    high: Size
    own: set[Var] = field(default_factory=set)
    same: set[Var] = field(default_factory=set)  # bindings that are alike in all columns
    made: list[Allocate] = field(default_factory=list)
    arrays: dict[Var, Var] = field(default_factory=dict)  # the loop elsewhere keeps its variables

    def find(self, body: tuple[Stmt, ...]) -> None:
        """Variables, and bindings that are read outside of their run of statements."""
        last: dict[Var, int] = {}
        for k, x in enumerate(body):
            last |= dict.fromkeys(mentions(x), k)
        run: list[Var] = []
        for k, x in enumerate(body):
            match x:
                case Variable(var):
                    self.own.add(var)
                case Let(var):
                    varying = {self.var, *self.own, *run}
                    if not any(loads(x)) and reads(x).isdisjoint(varying):
                        self.same.add(var)
                    else:
                        run.append(var)
                case Loop():
                    self.own |= {v for v in run if last.get(v, -1) >= k}
                    run = []
                    self.find(x.body)
                case _:
                    pass

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        run: list[Stmt] = []

        def close() -> None:
            if run:
                out.append(Loop(self.var, self.low, self.high, tuple(run), Order.FREE))
                run.clear()

        for x in body:
            if isinstance(x, Loop):
                close()
                out.append(replace(x, body=self.block(x.body)))
            elif isinstance(x, Let) and x.var in self.same:
                close()
                out.append(x)
            else:
                run.append(self.stmt(x))
        close()
        return tuple(out)

    def stmt(self, x: Stmt) -> Stmt:
        here = (size(self.var) - self.low,)
        match x:
            case Let(var, dtype, value) | Variable(var, dtype, value) if var in self.own:
                buffer = Buffer(self.array(var), dtype, (size(PANEL),), Role.TEMP)
                self.made.append(Allocate(buffer, small=True))
                return Store(buffer.var, here, self.expr(value))
            case Let(var, dtype, value):
                return Let(var, dtype, self.expr(value))
            case Assign(var, value):
                return Store(self.array(var), here, self.expr(value))
            case Store(buffer, at, value):
                return Store(buffer, at, self.expr(value))
            case When(condition, then, otherwise):
                sides = (tuple(map(self.stmt, b)) for b in (then, otherwise))
                return When(self.expr(condition), *sides)
            case _:
                raise AssertionError(x)

    def array(self, v: Var) -> Var:
        return self.arrays.setdefault(v, fresh(v))

    def expr(self, e: Expr) -> Expr:
        match e:
            case Local(var) if var in self.own:
                return Load(self.array(var), (size(self.var) - self.low,))
            case Apply(_, args):
                return replace(e, args=tuple(map(self.expr, args)))
            case _:
                return e
