"""The first place where something holds, as a loop that stops there.

    for i in 0..n reducing min first:  first := min(first, i if x[i] == top else n)

looks at all places, and compares numbers of places, which are wide. A stretch at a time is asked
only whether there is one; only the stretch that has one is looked through, and none behind it.
Nor does a chunk of the loop look for more where one before it has found a place. Threads tell each
other of it without waiting: what one does not hear of in time, it looks for in vain.
"""

from __future__ import annotations

from collections.abc import Sequence

from naperian.backends.code import Value
from naperian.backends.frame import Frame
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
from naperian.loops.walk import used
from naperian.names import Lit, Var
from naperian.prims import unit
from naperian.sizes import size

STRETCH = 2048
_FALSE = Lit(False, DType.BOOL)


def sought(s: Loop) -> Expr | None:
    """What is asked of each place, if a loop finds the first where it holds, and what it says of
    the others is the loop's end, which is behind every place."""
    match s:
        case Loop(
            i, _, high, (Assign(v, Apply("min", (Local(last), Apply("select", choice)))),),
            reductions=(Reduction(first, "min", DType.I64),),
        ) if v == last == first and first not in used(choice[0]):  # fmt: skip
            here, nowhere = Number(size(i)), Number(high)
        case _:
            return None
    if choice[1:] == (here, nowhere):
        return choice[0]
    if choice[1:] == (nowhere, here):
        return Apply("not", (choice[0],), DType.BOOL, DType.BOOL)
    return None


def seeking(s: Loop, c: Expr, low: Var, high: Var) -> Sequence[Stmt]:
    """The loop from one round to before another, as a loop of stretches."""
    start, stop, some = Var("start"), Var("stop"), Var("some")
    [merged] = s.reductions
    going = Apply("lt", (Local(start), Local(high)), DType.BOOL, DType.I64)
    ahead = Apply("add", (Local(start), Lit(STRETCH, DType.I64)), DType.I64, DType.I64)
    ends = Apply("min", (ahead, Local(high)), DType.I64, DType.I64)
    either = Apply("or", (Local(some), c), DType.BOOL, DType.BOOL)
    ask = (Assign(some, either),)
    look = Loop(s.var, size(start), size(stop), s.body, Order.FREE, s.reductions)
    reduction = Reduction(some, "or", DType.BOOL)
    least = Apply("min", (Local(merged.var), Number(s.high)), DType.I64, DType.I64)
    return (
        Variable(start, DType.I64, Local(low)),
        While((), going, (
            Let(stop, DType.I64, ends),
            Variable(some, DType.BOOL, _FALSE),
            Loop(s.var, size(start), size(stop), ask, Order.FREE, (reduction,)),
            When(
                Local(some),
                (look, Assign(start, Local(high))),
                (Assign(merged.var, least), Assign(start, Local(stop))),
            ),
        )),
    )  # fmt: skip


def unfound(frame: Frame) -> Value:
    """Where the chunks of a loop say which place they have found."""
    first = frame.code.first("alloca i64, align 8")
    frame.code.put(f"store i64 {unit('min', DType.I64)}, ptr {first}, align 8")
    return first


def from_where(chunk: Frame, first: Value) -> Value:
    """Where a chunk begins: at its end, if a place before it is known."""
    code = chunk.code
    known = code.let(f"load atomic i64, ptr {first} monotonic, align 8")
    before = code.let(f"icmp slt i64 {known}, %low")
    return code.let(f"select i1 {before}, i64 %high, i64 %low")


def found(chunk: Frame, first: Value, v: Var) -> None:
    """What a chunk has found, for those behind it."""
    code = chunk.code
    known = code.let(f"load atomic i64, ptr {first} monotonic, align 8")
    least = code.let(f"call i64 @llvm.smin.i64(i64 {known}, i64 {chunk.scalar(v)})")
    code.put(f"store atomic i64 {least}, ptr {first} monotonic, align 8")
