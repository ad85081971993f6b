"""A product of matrices whose terms are there under a condition of the first factor.

    out[i, j] = Σ_k x[i, k] * b[k, j] if m[i, k] else 0.0           x is 0.0 where m does not hold

    odd = Σ b[k, j] * 0.0
    if odd == 0.0:
        contract out[i, j] = x[i, k] * b[k, j]
    else:
        parallel for i: for k: for j: update out[i, j] += x[i, k] * b[k, j] if m[i, k] else 0.0

Zero times what is not finite is no zero, so the other factor is looked through before, which takes
next to nothing beside the product.
"""

from __future__ import annotations

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Contract,
    Load,
    Local,
    Loop,
    Order,
    Part,
    Reduction,
    Stmt,
    Store,
    Update,
    Variable,
    When,
)
from naperian.names import Lit, Var, fresh
from naperian.sizes import ZERO, Size, rename, size

_Loops = tuple[tuple[Var, Size], ...]


def masked(s: Contract, condition: Load) -> tuple[Stmt, ...]:
    """The statements of a product with such a condition."""
    dtype, nothing, odd = s.dtype, Lit(0.0, s.dtype), Var("odd")
    names = {v: fresh(v) for v, _ in (*s.batch, *s.inner, *s.columns)}
    zero = Apply("mul", (Load(*_at(s.right, names)), nothing), dtype, dtype)
    look: Stmt = Assign(odd, Apply("add", (Local(odd), zero), dtype, dtype))
    sums = (Reduction(odd, "add", dtype),)
    fine = Apply("eq", (Local(odd), nothing), DType.BOOL, dtype)
    return (
        Variable(odd, dtype, nothing),
        *_nest((*s.batch, *s.inner, *s.columns), names, (look,), Order.PARALLEL, sums),
        When(fine, (s,), _written(s, condition, nothing)),
    )


def _written(s: Contract, condition: Load, nothing: Lit) -> tuple[Stmt, ...]:
    """The sum as the text has it."""
    names = {v: fresh(v) for v, _ in (*s.batch, *s.rows, *s.inner, *s.columns)}
    term = Apply("mul", (Load(*_at(s.left, names)), Load(*_at(s.right, names))), s.dtype, s.dtype)
    holds = Load(*_at((condition.buffer, condition.at), names))
    value = Apply("select", (holds, term, nothing), s.dtype, s.dtype)
    out = _at(s.out, names)
    again = {v: fresh(v) for v, _ in s.columns}
    there = _at(s.out, names | again)
    inside = (
        *_nest(s.columns, again, (Store(*there, nothing),), Order.FREE),
        *_nest(s.inner, names, _nest(s.columns, names, (Update(*out, "add", value),), Order.FREE),
               Order.SERIAL),
    )  # fmt: skip
    return _nest((*s.batch, *s.rows), names, inside, Order.PARALLEL)


def _at(part: Part, names: dict[Var, Var]) -> Part:
    to = {v: size(w) for v, w in names.items()}
    return part[0], tuple([rename(e, to) for e in part[1]])


def _nest(
    loops: _Loops, names: dict[Var, Var], body: tuple[Stmt, ...], order: Order,
    sums: tuple[Reduction, ...] = (),
) -> tuple[Stmt, ...]:  # fmt: skip
    """Loops under these names, of which the outermost may be parallel."""
    for k, (v, extent) in reversed([*enumerate(loops)]):
        inner = Order.FREE if k and order is Order.PARALLEL else order
        body = (Loop(names[v], ZERO, extent, body, inner, sums),)
    return body
