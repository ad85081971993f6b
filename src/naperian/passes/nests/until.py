"""A `while` loop of every row, for rows that go side by side: it goes on until the last is done.

    before   repeat:                    after    repeat:
                 while f(x) > e:                     var going = False
                     y = x - f(x)                    lanes for l in 0..8 reducing or going:
                     x := y                              going := going or f(x[l]) > e
                                                     while going:
                                                         lanes for l in 0..8:
                                                             goes = f(x[l]) > e
                                                             y = x[l] - f(x[l])
                                                             store x[l] = y if goes else x[l]

A row that is done keeps what it has, so its condition stays what it was. There are as many rounds
as the longest row of a vector has, and a round of a vector takes about as long as that of a row:
what the others do for nothing costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Let,
    Local,
    Loop,
    Number,
    Order,
    Reduction,
    Stmt,
    Variable,
    When,
    While,
)
from naperian.loops.walk import expressions, loads, parts, remade, statements, used_in
from naperian.names import Lit, Var, fresh
from naperian.sizes import ZERO, Quotient, Remainder, Size, size


def is_open(s: Loop) -> bool:
    """Whether a row has a loop that goes on as long as it takes, and no rows in it."""
    return any(
        isinstance(x, While) or (isinstance(x, Loop) and x.order is Order.SERIAL and is_open(x))
        for x in s.body
    )


def goes_alone(s: While, written: Collection[Var]) -> bool:
    """Whether a `while` loop only computes numbers of its own, floats among them, of elements that
    do not change from round to round, by operations that vectors have. (Older processors have few
    vectors of 64-bit integers, and those are slow.)"""
    inside = statements((s,))
    own = {x.var for x in inside if isinstance(x, Let | Assign)}
    return (
        all(isinstance(x, Let | Assign | When) for x in inside[1:])
        and all(isinstance(x, Let) for x in s.head)
        and any(isinstance(x, Let) and x.dtype.is_float for x in s.body)
        and not any(
            e.buffer in written or any(not own.isdisjoint(used_in(i)) for i in e.at)
            for x in inside for e in loads(x)
        )
        and all(_has_vectors(p) for x in inside for e in expressions(x) for p in parts(e))
    )  # fmt: skip


def _has_vectors(e: Expr) -> bool:
    """Whether there are vectors of an operation: of integers that are divided, by a power of 2."""
    match e:
        case Apply("floordiv" | "mod", (_, divisor), _, operand):
            return operand.is_float or (isinstance(divisor, Lit) and _is_power(divisor.value))
        case Number(value):
            return all(
                _is_power(a.below.constant or 0) for a in value.atoms
                if isinstance(a, Quotient | Remainder)
            )  # fmt: skip
        case _:
            return True


def _is_power(n: int | float) -> bool:
    return isinstance(n, int) and n > 0 and n & (n - 1) == 0


def until(
    s: While, lane: Var, many: Size, order: Order, inside: Expr | None,
    stmts: Callable[[Sequence[Stmt]], Iterable[Stmt]], types: Mapping[Var, DType],
) -> While:  # fmt: skip
    """The loop for all lanes: `stmts` are what statements are in one, and `inside` says whether it
    has a row, if some have none."""
    holds = s.condition if inside is None else _and(inside, s.condition)
    goes = Let(Var("goes"), DType.BOOL, holds)
    mine = {x.var: fresh(x.var) for x in (*s.head, goes) if isinstance(x, Let)}
    asked = remade(
        (*s.head, goes), lambda a: size(mine[a]) if isinstance(a, Var) and a in mine else None, mine
    )
    going = Reduction(Var("going"), "or", DType.BOOL)
    some = Apply("or", (Local(going.var), Local(mine[goes.var])), DType.BOOL, DType.BOOL)
    test = (*stmts(asked), Assign(going.var, some))
    body = stmts((*s.head, goes, *_chosen(s.body, Local(goes.var), types)))
    return While(
        (Variable(going.var, DType.BOOL, Lit(False, DType.BOOL)),
         Loop(lane, ZERO, many, test, order, (going,))),
        Local(going.var),
        (Loop(lane, ZERO, many, tuple(body), order),),
    )  # fmt: skip


def _chosen(body: Sequence[Stmt], goes: Expr, types: Mapping[Var, DType]) -> Iterator[Stmt]:
    """Statements of a row that goes on, for one of which nobody knows whether it does."""
    for x in body:
        match x:
            case Assign(v, value):
                yield Assign(v, Apply("select", (goes, value, Local(v)), types[v], types[v]))
            case When(condition, then, otherwise):
                asked = Let(Var("asked"), DType.BOOL, condition)
                yield asked
                c = Local(asked.var)
                yield from _chosen(then, _and(goes, c), types)
                yield from _chosen(otherwise, _and(goes, _not(c)), types)
            case _:
                yield x


def _and(a: Expr, b: Expr) -> Expr:
    return Apply("select", (a, b, Lit(False, DType.BOOL)), DType.BOOL, DType.BOOL)


def _not(a: Expr) -> Expr:
    return Apply("not", (a,), DType.BOOL, DType.BOOL)
