"""What is dear is computed where it is needed. loops → loops

    before   divides = j % i == 0             after    if j > i:
             if j > i:                                     divides = j % i == 0
                 if divides: …                             if divides: …

A name that only one branch reads is bound in that branch, unless what it loads is changed before.
In a vector loop only division of integers moves, which no vector does: other operations are done in
all lanes anyway.
"""

from __future__ import annotations

from collections.abc import Callable

from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Let,
    Loop,
    Number,
    Order,
    Stmt,
    When,
    While,
)
from naperian.loops.walk import (
    blocks,
    mentions,
    parts,
    reads,
    rebuild,
    statements,
    used,
    with_blocks,
    writes,
)
from naperian.names import Var
from naperian.prims import PRIMITIVES
from naperian.sizes import Quotient, Remainder, Size

_DEAR = 4  # additions


def sink(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    return _block(body, False)


def _block(body: tuple[Stmt, ...], lanes: bool) -> tuple[Stmt, ...]:
    return tuple(_deeper(s, lanes) for s in sunk(body, lambda s: _is_dear(s.value, lanes)))


def sunk(body: tuple[Stmt, ...], moves: Callable[[Let], bool]) -> tuple[Stmt, ...]:
    """The statements of a block, where those names that should move stand in the branch that alone
    reads them."""
    left: list[Stmt | None] = list(body)
    if any(isinstance(s, When) for s in body):
        readers: dict[Var, set[int]] = {}
        for k, s in enumerate(body):
            for v in mentions(s):
                readers.setdefault(v, set()).add(k)
        for k, s in reversed(list(enumerate(body))):
            if isinstance(s, Let) and moves(s):
                _moved(left, k, s, readers)
    return tuple(s for s in left if s is not None)


def _deeper(s: Stmt, lanes: bool) -> Stmt:
    if isinstance(s, While):  # what its head names is read after the head, too
        later = {*used(s.condition), *(v for x in s.body for v in mentions(x))}
        head = sunk(s.head, lambda x: x.var not in later and _is_dear(x.value, lanes))
        return with_blocks(s, tuple(_deeper(x, lanes) for x in head), _block(s.body, lanes))
    here = s.order is Order.FREE if isinstance(s, Loop) else lanes
    return rebuild(s, lambda b: _block(b, here))


def _moved(body: list[Stmt | None], k: int, s: Let, readers: dict[Var, set[int]]) -> None:
    """Move the binding at `k` into the branch that alone reads it, if there is one."""
    if len(readers.get(s.var, ())) != 1:
        return
    (at,) = readers[s.var]
    reader = body[at]
    if not isinstance(reader, When) or s.var in reads(reader):
        return
    loaded = set(used(s.value))
    between = statements(tuple(x for x in body[k + 1 : at] if x is not None))
    if any(writes(x) in loaded or (isinstance(x, Assign) and x.var in loaded) for x in between):
        return
    sides = [any(s.var in mentions(x) for x in side) for side in blocks(reader)]
    if all(sides):
        return
    then, otherwise = blocks(reader)
    body[at] = When(
        reader.condition,
        (s, *then) if sides[0] else then,
        (s, *otherwise) if sides[1] else otherwise,
    )
    body[k] = None
    for v in loaded:
        readers[v] = readers[v] - {k} | {at}


def _is_dear(e: Expr, lanes: bool) -> bool:
    return any(
        _divides(x.value) if isinstance(x, Number)
        else isinstance(x, Apply) and _costs(x, lanes)
        for x in parts(e)
    )  # fmt: skip


def _costs(x: Apply, lanes: bool) -> bool:
    if lanes:
        return x.name in ("floordiv", "mod") and not x.operand.is_float
    p = PRIMITIVES.get(x.name)
    return p is not None and p.cost >= _DEAR


def _divides(n: Size) -> bool:
    """Whether an index is divided by something that is no number."""
    return any(
        isinstance(a, Quotient | Remainder) and a.below.constant is None for a in n.atoms
    )
