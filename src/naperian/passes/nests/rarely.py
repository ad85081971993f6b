"""Rounds in which nothing changes are passed over some at a time, as vectors. loops → loops

    before   for j in 0..n:                    after    for b in 0..⌈n / 8⌉:
                 better = d[j] < best                       var some = 8 b + 8 > n
                 best := d[j] if better else best           if not some:
                 at := j if better else at                      free for j in 8 b..8 b + 8
                                                                        reducing or some:
                                                                    some := some or d[j] < best
                                                            if some:
                                                                for j in 8 b..min(8 b + 8, n):
                                                                    …                     as before

A loop that keeps the best so far waits for it in every round, and changes it in few: of `n` in any
order the best so far is replaced about log n times. As long as no round changes anything, what
rounds ask of it is what it was before the first of them.

The law holds for any condition, and it pays for records: a variable is compared with what it is
then replaced by. So also where there are several, or more is done when one is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Reduction,
    Stmt,
    Variable,
    When,
)
from naperian.loops.walk import all_of, assigned, parts, rebuild, used, used_in
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.prims import PRIMITIVES
from naperian.sizes import ZERO, Size, clamp, size

_MANY = 8  # rounds: a vector or two, since all of them are gone through where one changes something
_LEAST = 2 * _MANY
_DEAR = 12  # operations that are not worth doing once more
_COMPARED = {"lt", "le", "gt", "ge"}


def rarely(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    out: list[Stmt] = []
    for s in body:
        made = _in_blocks(s) if isinstance(s, Loop) else None
        lanes = isinstance(s, Loop) and s.order is Order.LANES
        out.append(made or (s if lanes else rebuild(s, rarely)))
    return tuple(out)


def _in_blocks(s: Loop) -> Loop | None:
    """The loop in blocks, if it keeps records and nothing else."""
    trips = (s.high - s.low).constant
    if s.order is not Order.SERIAL or s.reductions or (trips is not None and trips < _LEAST):
        return None
    if not all(isinstance(x, Let | Assign | When) for x in s.body):
        return None
    lets = {x.var: x.value for x in s.body if isinstance(x, Let)}
    rounds = _Rounds(lets, assigned(s))
    found: list[Expr] = []
    for x in s.body:
        changed = rounds.changes(x)
        if changed is None:
            return None
        found += (e for e in changed if e not in found)
    if not found or not all(map(rounds.is_rare, found)):
        return None
    asked = [x for x in s.body if isinstance(x, Let) and x.var in _needed(found, lets)]
    if not all(_is_quick(e, s.var, lets) for e in (*found, *(x.value for x in asked))):
        return None
    return _made(s, asked, found)


@dataclass
class _Rounds:
    """The rounds of a loop: what they name, the variables that outlive them, and what these are
    replaced by."""

    lets: Mapping[Var, Expr]
    carried: frozenset[Var]
    records: dict[Var, set[Expr]] = field(default_factory=dict)

    def changes(self, s: Stmt) -> list[Expr] | None:
        """The conditions under which a statement changes anything; None if that is always so."""
        match s:
            case Assign(var, value):
                return self._other(value, var)
            case When(condition, then, otherwise):
                out: list[Expr] = []
                for side, c in ((then, condition), (otherwise, _not(condition))):
                    found = [self.changes(x) for x in side]
                    out += [c] * any(x is None or x for x in found)
                return out
            case _:
                return [] if isinstance(s, Let) else None

    def _other(self, e: Expr, v: Var) -> list[Expr] | None:
        """When an expression is not what the variable was."""
        match e:
            case Local(w) if w == v:
                return []
            case Local(w) if w in self.lets:
                return self._other(self.lets[w], v)
            case Apply("select", (c, x, y)):
                one, two = self._other(x, v), self._other(y, v)
                if one is None and two is None:
                    return None
                out = []
                for side, holds in ((one, c), (two, _not(c))):
                    out += [holds] if side is None else [_both(holds, z) for z in side]
                return out
            case _:
                self.records.setdefault(v, set()).add(self._whole(e))
                return None

    def is_rare(self, e: Expr) -> bool:
        """Whether a condition asks for a record, or for a NaN."""
        return self._is_record(self._whole(e))

    def _is_record(self, c: Expr) -> bool:
        match c:
            case Apply("isnan"):
                return True
            case Apply("not", (x,)):
                return self._is_record(x)
            case Apply("select", (_, x, Lit(False)) | (_, Lit(False), x)) if self._is_record(x):
                return True
            case Apply("and", (x, y)) | Apply("select", (x, y, Lit(False))):
                return self._is_record(x) or self._is_record(y)
            case Apply("or", (x, y)):
                return self._is_record(x) and self._is_record(y)
            case Apply(name, (x, y)) if name in _COMPARED:
                return self._replaces(x, y) or self._replaces(y, x)
            case _:
                return False

    def _replaces(self, v: Expr, e: Expr) -> bool:
        return isinstance(v, Local) and v.var in self.carried and e in self.records.get(v.var, ())

    def _whole(self, e: Expr) -> Expr:
        """An expression without names of the round."""
        match e:
            case Local(v) if v in self.lets:
                return self._whole(self.lets[v])
            case Apply(_, args):
                return replace(e, args=tuple(map(self._whole, args)))
            case _:
                return e


def _needed(found: list[Expr], lets: Mapping[Var, Expr]) -> set[Var]:
    out: set[Var] = set()
    todo = [v for e in found for v in used(e)]
    while todo:
        v = todo.pop()
        if v in lets and v not in out:
            out.add(v)
            todo += used(lets[v])
    return out


def _is_quick(e: Expr, loop: Var, lets: Mapping[Var, Expr]) -> bool:
    """Whether an expression is quick operations of what lies side by side."""
    for x in parts(e):
        match x:
            case Apply(name, _, dtype):
                whole = name in ("floordiv", "mod", "pow") and not dtype.is_float
                # casts are no primitives, and quick
                if whole or (name in PRIMITIVES and PRIMITIVES[name].cost > _DEAR):
                    return False
            case Load(_, at):
                steps = [abs(i.coefficient(loop)) for i in at]
                if any(steps[:-1]) or (steps and steps[-1] > 1):
                    return False
                if not all(_is_plain(i, loop, lets) for i in at):
                    return False
            case Number(i):
                if not _is_plain(i, loop, lets):
                    return False
            case _:
                pass
    return True


def _is_plain(i: Size, loop: Var, lets: Mapping[Var, Expr]) -> bool:
    rest = i - size(loop) * i.coefficient(loop)
    return not any(v == loop or v in lets for v in used_in(rest))


def _made(s: Loop, asked: list[Let], found: list[Expr]) -> Loop:
    block, some = Var("block"), Var("some")
    low = s.low + size(block) * _MANY
    high = low + _MANY
    last = Apply("gt", (Number(high), Number(s.high)), DType.BOOL, DType.I64)
    any_: Expr = Local(some)
    for e in found:
        any_ = Apply("or", (any_, e), DType.BOOL, DType.BOOL)
    look = Loop(
        s.var, low, high, (*asked, Assign(some, any_)), Order.FREE,
        (Reduction(some, "or", DType.BOOL),),
    )  # fmt: skip
    rounds = replace(s, low=low, high=low + clamp(s.high - low, size(_MANY + 1)))
    body: tuple[Stmt, ...] = (
        Variable(some, DType.BOOL, last),
        When(_not(Local(some)), (look,)),
        When(Local(some), (rounds,)),
    )
    count = (s.high - s.low + (_MANY - 1)) // _MANY
    return replace(s, var=block, low=ZERO, high=count, body=body, work=s.work * _MANY)


def _not(e: Expr) -> Expr:
    match e:
        case Apply("not", (x,)):
            return x
        case _:
            return Apply("not", (e,), DType.BOOL, DType.BOOL)


def _both(x: Expr, y: Expr) -> Expr:
    return all_of((x, y))
