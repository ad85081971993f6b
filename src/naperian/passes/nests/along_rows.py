"""What a loop asks of each of a row's few elements, it asks along the rows. loops → loops

    before   free for t in a..b reducing or odd:
                 odd := odd or key[t, 0] > n
                 odd := odd or key[t, 1] > n
    after    free for e in 2 * a..2 * b reducing or odd:
                 odd := odd or key[e // 2, e % 2] > n

So are the corners of triangles tested (`outside`): as they lie, not every third by itself. Whether
any of them is outside does not depend on their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Expr,
    Local,
    Loop,
    Order,
    Program,
    Stmt,
)
from naperian.loops.walk import loads, mentions, rebuild_loops, remade, statements
from naperian.names import Var, fresh
from naperian.sizes import Size, size


def along_rows(body: tuple[Stmt, ...], program: Program) -> tuple[Stmt, ...]:
    """The statements of a program. See the module."""
    made = (s.buffer for s in statements(body) if isinstance(s, Allocate))
    return _block(body, {b.var: b for b in (*program.buffers, *made)})


def _block(body: tuple[Stmt, ...], buffers: Mapping[Var, Buffer]) -> tuple[Stmt, ...]:
    return tuple(
        (_asked(s, buffers) if isinstance(s, Loop) else None)
        or rebuild_loops(s, partial(_block, buffers=buffers))
        for s in body
    )


def _asked(s: Loop, buffers: Mapping[Var, Buffer]) -> Loop | None:
    """The loop along the rows, if it only asks the same of all elements of one array's rows."""
    if s.order is Order.SERIAL or [r.monoid for r in s.reductions] != ["or"]:
        return None
    flag = s.reductions[0].var
    asked = [_questions(x, flag) for x in s.body]
    if not all(asked):
        return None
    each = [Assign(flag, e) for questions in asked for e in questions]
    read = [{(x.buffer, x.at) for x in loads(e)} for e in each]
    if len(each) < 2 or not read[0]:
        return None
    (key, at), *_ = read[0]
    shape = buffers[key].shape
    if len(at) != 2 or shape[-1].constant != len(each):
        return None
    if any(r != {(key, (size(s.var), size(k)))} for k, r in enumerate(read)):
        return None
    e = fresh(s.var)
    here = size(e) // len(each), size(e) % len(each)

    def place(_: Var, at: tuple[Size, ...]) -> tuple[Size, ...]:
        return here

    first, *others = (remade((x,), lambda _: None, place=place) for x in each)
    if any(x != first for x in others) or s.var in mentions(first[0]):
        return None
    [question] = first
    assert isinstance(question, Assign)
    value = Apply("or", (Local(flag), question.value), DType.BOOL, DType.BOOL)
    ends = s.low * len(each), s.high * len(each)
    return Loop(e, *ends, (Assign(flag, value),), s.order, s.reductions)


def _questions(s: Stmt, flag: Var) -> tuple[Expr, ...]:
    """What a statement asks that sets a flag and does nothing else, in its order; else nothing."""
    return tuple(_chain(s.value, flag)) if isinstance(s, Assign) and s.var == flag else ()


def _chain(e: Expr, flag: Var) -> Iterator[Expr]:
    match e:
        case Local(v) if v == flag:
            pass
        case Apply("or", (first, condition)):
            yield from _chain(first, flag)
            yield condition
        case _:
            yield e
