"""What ends a loop is a jump.

    while go:                              while go:
        c = d < 1e-3                           c = d < 1e-3
        t := t if c else t + d                 if c:   go := False          seldom
        go := not c                            else:   t := t + d, go := True

The choice on the left waits for the comparison in every round. The processor guesses the jump on
the right, and is wrong once, when it would guess wrong at the loop's end anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from naperian.dtypes import DType
from naperian.loops.syntax import Allocate, Apply, Assign, Expr, Let, Local, Stmt, While
from naperian.loops.walk import expressions, parts
from naperian.names import Lit, Var
from naperian.node import replace

BOOL = DType.BOOL
_MOST = 24  # statements that are written twice


@dataclass(frozen=True, slots=True)
class End:
    """A round: what is done first, the condition under which it is the last one, and what is left
    to do then and else."""

    first: tuple[Stmt, ...]
    condition: Expr
    stopped: tuple[Stmt, ...]
    going: tuple[Stmt, ...]


def ended(s: While) -> End | None:
    """A loop's round, if a condition that ends the loop chooses something in it."""
    if s.head or any(isinstance(x, Allocate) for x in s.body):
        return None
    assigned = {x.var: x.value for x in s.body if isinstance(x, Assign)}
    bound = {x.var: (k, x.value) for k, x in enumerate(s.body) if isinstance(x, Let)}
    for v, goes_on in _needed(s.condition, True):
        value = assigned.get(v)
        while value is not None:
            if isinstance(value, Apply) and value.name == "not":
                value, goes_on = value.args[0], not goes_on
            if not isinstance(value, Local) or value.var not in bound:
                break
            at, said = bound[value.var]
            if isinstance(said, Local) or (isinstance(said, Apply) and said.name == "not"):
                value = said
                continue
            c, rest = value.var, s.body[at + 1 :]
            if _decides(c, rest):
                going, stopped = (
                    tuple(_known(x, c, holds) for x in rest) for holds in (goes_on, not goes_on)
                )
                condition = value if not goes_on else Apply("not", (value,), BOOL, BOOL)
                return End(s.body[: at + 1], condition, stopped, going)
            break
    return None


def _needed(e: Expr, holds: bool) -> Iterator[tuple[Var, bool]]:
    """The variables that must be true, or false, for a condition to hold."""
    match e:
        case Local(v):
            yield v, holds
        case Apply("not", (a,)):
            yield from _needed(a, not holds)
        case (Apply("and", (a, b)) | Apply("select", (a, b, Lit(False)))) if holds:
            yield from _needed(a, True)
            yield from _needed(b, True)
        case _:
            pass


def _decides(c: Var, rest: Sequence[Stmt]) -> bool:
    """Whether a condition chooses something in what is left of a round, which is little."""
    return (
        len(rest) <= _MOST
        and all(isinstance(x, Let | Assign) for x in rest)
        and any(_chooses(e, c) for x in rest for e in expressions(x))
    )


def _chooses(e: Expr, c: Var) -> bool:
    """Whether a condition chooses between two values, one of which is computed."""
    return any(
        isinstance(x, Apply) and x.name == "select" and x.args[0] == Local(c)
        and any(isinstance(a, Apply) for a in x.args[1:])
        for x in parts(e)
    )  # fmt: skip


def _known(s: Stmt, c: Var, holds: bool) -> Stmt:
    """A statement where a condition is known."""
    assert isinstance(s, Let | Assign)
    return replace(s, value=_chosen(s.value, c, holds))


def _chosen(e: Expr, c: Var, holds: bool) -> Expr:
    match e:
        case Local(v) if v == c:
            return Lit(holds, BOOL)
        case Apply("select", (Local(v), a, b)) if v == c:
            return _chosen(a if holds else b, c, holds)
        case Apply(args=args):
            return replace(e, args=tuple(_chosen(a, c, holds) for a in args))
        case _:
            return e
