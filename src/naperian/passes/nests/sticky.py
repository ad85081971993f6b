"""A running maximum remembers beside it that it has met a NaN. loops → loops

    before   for t in 0..n:                 after   var odd = top if isnan(top) else -0.0
                 new = max(top, x[t])               for t in 0..n:
                 store y[t] = new                       value = x[t]
                 top := new                             odd := value if isnan(value) else odd
                                                        top := value if value > top else top
                                                        store y[t] = top + odd
                                                    top := top + odd

A NaN makes every later maximum one. If the comparison says so, the next one waits for two or three
operations; here it waits for one, and whether there was a NaN is known beside it. So also where a
loop in order is left with nothing but the largest.
"""

from __future__ import annotations

from collections.abc import Sequence

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Let,
    Local,
    Loop,
    Order,
    Program,
    Stmt,
    Store,
    Variable,
)
from naperian.loops.walk import mentions, rebuild_loops, used
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.prims import Math

_BETTER = {"max": "gt", "min": "lt"}


def sticky(program: Program) -> Program:
    """See the module. A strict program says which of two zeros is the larger."""
    return program if program.math is Math.STRICT else replace(program, body=_block(program.body))


def _block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        s = rebuild_loops(s, _block)
        out += _remembering(s) if isinstance(s, Loop) and s.order is Order.SERIAL else (s,)
    return tuple(out)


def _remembering(s: Loop) -> list[Stmt]:
    """The loop, with what is before and after it."""
    if not all(isinstance(x, Let | Assign | Store) for x in s.body):
        return [s]
    before: list[Stmt] = []
    after: list[Stmt] = []
    body = s.body
    for v in [x.var for x in s.body if isinstance(x, Assign)]:
        odd = Var("odd")
        made = _kept(body, v, odd)
        if made is not None:
            body, dtype = made
            none = Lit(-0.0, dtype)  # which changes no number, also not the sign of a zero
            before.append(Variable(odd, dtype, _if_odd(Local(v), none, dtype)))
            after.append(Assign(v, _both(v, odd, dtype)))
    if not after:
        return [s]
    kept = {x.var for x in after if isinstance(x, Assign)}
    reductions = tuple(r for r in s.reductions if r.var not in kept)
    return [*before, replace(s, body=body, reductions=reductions), *after]


def _kept(body: tuple[Stmt, ...], v: Var, odd: Var) -> tuple[tuple[Stmt, ...], DType] | None:
    """A round that keeps the extreme of numbers in `v`, and in `odd` whether one was none."""
    users = [k for k, x in enumerate(body) if v in mentions(x) or _sets(x, v)]
    match [body[k] for k in users]:
        case [Assign(_, Apply() as best)]:
            new = None
        case [Let(new, _, Apply() as best), Assign(_, Local(last))] if _is(body, last, new):
            pass
        case _:
            return None
    e = _other(best, v)
    t = best.dtype
    if e is None or not t.is_float or not _depending(body, v).isdisjoint(used(e)):
        return None
    value, better, top = Var("value"), Var("better"), Var("top")
    step: tuple[Stmt, ...] = (
        Let(value, t, e),
        Assign(odd, _if_odd(Local(value), Local(odd), t)),
        Let(better, DType.BOOL, _op(_BETTER[best.name], Local(value), Local(v), operand=t)),
        Let(top, t, Apply("select", (Local(better), Local(value), Local(v)), t, t)),
        Assign(v, Local(top)),
    )
    if new is not None:
        step += (Let(new, t, _both(top, odd, t)),)
    first, *rest = users
    return (
        *body[:first], *step, *(x for k, x in enumerate(body) if k > first and k not in rest)
    ), t  # fmt: skip


def _sets(x: Stmt, v: Var) -> bool:
    return isinstance(x, Assign) and x.var == v


def _is(body: Sequence[Stmt], v: Var, new: Var) -> bool:
    """Whether a name is another one's value."""
    names = {x.var: x.value.var for x in body if isinstance(x, Let) and isinstance(x.value, Local)}
    while v != new and v in names:
        v = names[v]
    return v == new


def _other(best: Apply, v: Var) -> Expr | None:
    """What is compared with a variable."""
    match best:
        case Apply("min" | "max", (Local(w), e)) if w == v:
            return e
        case Apply("min" | "max", (e, Local(w))) if w == v:
            return e
        case _:
            return None


def _depending(body: Sequence[Stmt], v: Var) -> set[Var]:
    """What is computed of a variable in a round."""
    found = {v}
    for x in body:
        if isinstance(x, Let | Assign) and not found.isdisjoint(used(x.value)):
            found.add(x.var)
    return found


def _if_odd(e: Expr, other: Expr, dtype: DType) -> Expr:
    """A number if it is none, else another one."""
    return Apply("select", (_op("isnan", e, operand=dtype), e, other), dtype, dtype)


def _both(top: Var, odd: Var, dtype: DType) -> Expr:
    return Apply("add", (Local(top), Local(odd)), dtype, dtype)


def _op(name: str, *args: Expr, operand: DType = DType.BOOL) -> Expr:
    return Apply(name, args, DType.BOOL, operand)
