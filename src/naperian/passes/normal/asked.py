"""What a loop's condition is asked with.

    loop x = x0 while c(x): f(x)   ⇒   loop x = x0, go = c(x0) while go: (y = f(x); (y, c(y)))

A condition is a value of what a round begins with, for which there is a place in front of the
round. One that has an effect, or that is made in an order, is asked at the end of the round before
it, and in front of the loop, as often and in the same order. One over a set asks only where there
is an element left.
"""

from __future__ import annotations

from naperian.core.syntax import (
    Add,
    Assign,
    Carried,
    Checked,
    Expr,
    Handle,
    If,
    Let,
    Loop,
    Number,
    Op,
    Pack,
    Part,
    Ref,
    Scan,
    Tell,
)
from naperian.core.walk import everything
from naperian.names import Var
from naperian.node import replace
from naperian.passes.normal.denote import FALSE
from naperian.passes.normal.leaving import named_in
from naperian.sizes import ZERO, Size, size
from naperian.types import BOOL, INT, Fin, cardinality


def has_an_order(condition: Expr) -> bool:
    """Whether a condition in normal form does things one after another, or something that is seen
    outside of it. Sums may go in any order."""
    found = [*everything(condition)]
    own = {c.var: c.state for x in found if isinstance(x, Handle) for c in x.cells}
    if any(own.values()):
        return True
    for x in found:
        match x:
            case Loop() | Scan() | Tell():
                return True
            case Assign(reference) | Add(reference):
                if own.keys().isdisjoint(named_in(reference)):
                    return True
            case _:
                pass
    return False


def asked_before(e: Loop, condition: Expr) -> Expr:
    """A loop that asks before each round, so that the last time is one, too."""
    starts = [Var(c.var.name) for c in e.carried]
    new, again, go, whole = Var("new"), Var("again"), Var("go"), Var("all")
    time = None if e.time is None else Var(e.time.name)
    here = ZERO if time is None else size(time)
    nexts = _items(new, len(e.carried)) if len(e.carried) > 1 else (Ref(new),)
    body: Expr = Pack((*nexts, Ref(again)))
    body = Let(again, _asked(e, condition, nexts, here + 1), body)
    body = Let(new, _at(e, here, e.body), body)
    carried = [replace(c, start=Ref(v)) for c, v in zip(e.carried, starts, strict=True)]
    first = _asked(e, condition, tuple(map(Ref, starts)), ZERO)
    made = replace(
        e, carried=(*carried, Carried(go, BOOL, first)), time=time,
        set=None if e.set is None else Fin(cardinality(e.set)), condition=Ref(go), body=body,
    )  # fmt: skip
    last = _items(whole, len(e.carried))
    out: Expr = Let(whole, made, last[0] if len(last) == 1 else Pack(last))
    for c, v in zip(reversed(e.carried), reversed(starts), strict=True):
        out = Let(v, c.start, out)
    return out


def _asked(e: Loop, condition: Expr, values: tuple[Expr, ...], place: Size) -> Expr:
    """The condition with these values carried, at a place of the loop's set if there is one."""
    for c, value in zip(reversed(e.carried), reversed(values), strict=True):
        condition = Let(c.var, value, condition)
    if e.set is None:
        return condition
    left = Op("gt", (Number(cardinality(e.set)), Number(place)), INT)
    return If(left, _at(e, place, condition), FALSE)


def _at(e: Loop, place: Size, value: Expr) -> Expr:
    """A value in the round at this place of the loop's set."""
    if e.time is None or e.set is None:
        return value
    return Let(e.time, Checked(Number(place), e.set, proved=True), value)


def _items(tuple_: Var, count: int) -> tuple[Expr, ...]:
    return tuple(Part(Ref(tuple_), k) for k in range(count))
