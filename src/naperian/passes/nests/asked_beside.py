"""Whether indices are in range is asked where they are used, one by one. loops → loops

    before   free for j in 0..m:
                 update h[j, clamp(x[i, j], 32)] += w
             var odd = False
             free for j in 0..m reducing or odd:
                 odd := odd or x[i, j] != clamp(x[i, j], 32)

    after    var odd = False
             free for j in 0..m reducing or odd:
                 update h[j, clamp(x[i, j], 32)] += w
                 odd := odd or x[i, j] != clamp(x[i, j], 32)

A loop that adds at places that are data goes through them one by one, and has them in a register.
To ask in vectors behind it takes fewer instructions an element, but is begun and ended in every
round around it: for a row of 16 features as long as the row itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Let,
    Load,
    Local,
    Loop,
    Order,
    Stmt,
    Update,
    Variable,
)
from naperian.loops.walk import atoms, loads, mentions, rebuild, remade, used_in
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.sizes import Atom, Size, size


def asked_beside(body: tuple[Stmt, ...], inside: bool = False) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    out: list[Stmt] = []
    rest = list(body)
    while rest:
        s = rest.pop(0)
        found = _question(s, rest) if inside and isinstance(s, Loop) else None
        if found is not None:
            start, both = found
            del rest[: rest.index(start) + 2]
            out += (start, both)
            continue
        within = inside or isinstance(s, Loop)
        out.append(rebuild(s, lambda b, w=within: asked_beside(b, w)))  # type: ignore[misc]
    return tuple(out)


def _question(s: Loop, rest: Sequence[Stmt]) -> tuple[Variable, Loop] | None:
    """The variable and the loop of both, where the next loop asks of what this one adds at."""
    if s.order is not Order.FREE or s.reductions or not _goes_about(s):
        return None
    if not all(isinstance(x, Let | Update) for x in s.body):
        return None
    match rest[:2]:
        case [
            Variable(odd, DType.BOOL, Lit(False)) as start,
            Loop(j, low, high, (Assign(v, Apply("or", (Local(w), _))) as ask,), Order.FREE, sums),
        ] if odd == v == w and (low, high) == (s.low, s.high) and [r.var for r in sums] == [odd]:
            pass
        case _:
            return None
    here: dict[Atom, Size] = {j: size(s.var)}
    (step,) = remade((ask,), here.get)
    there = {e for x in s.body for e in _read(x)}
    if not set(_read(step)) <= there or odd in {v for x in s.body for v in mentions(x)}:
        return None
    return start, replace(s, body=(*s.body, step), reductions=sums)


def _goes_about(s: Loop) -> bool:
    """Whether a loop adds at places that it reads in every round."""
    inner = {x.var for x in s.body if isinstance(x, Let)}
    places = (i for x in s.body if isinstance(x, Update) for i in x.at)
    return any(
        a in inner or (isinstance(a, Load) and any(s.var in used_in(k) for k in a.at))
        for i in places for a in atoms(i)
    )  # fmt: skip


def _read(s: Stmt) -> Sequence[tuple[Var, tuple[Size, ...]]]:
    return [(e.buffer, e.at) for e in loads(s)]
