"""Codes that are few enough to be sorted in registers.

    void @few(codes, to, n)     to[q], q < n: what they stand for, or their places
"""

from __future__ import annotations

from naperian.backends.code import Code, Value
from naperian.backends.orders.codes import decoded
from naperian.backends.orders.memory import (
    first_lanes,
    moved,
    parts,
    pointers,
    read,
    store_masked,
    write,
)
from naperian.backends.orders.network import Element, Shape, ordered
from naperian.backends.products.microkernel import function, returning_if
from naperian.dtypes import DType


def most(s: Shape) -> int:
    """How many registers. With twice as many, vectors of 16 take a sixth less time, and twice as
    long to compile."""
    return 8 if s.parts > 1 else 16


def few(s: Shape, dtype: DType) -> str:
    """The functions: one for 2, 4 … registers, and one that chooses."""
    leaves = [2 << k for k in range(most(s).bit_length() - 1)]
    return "\n\n".join([*(_leaf(s, dtype, rows) for rows in leaves), _few(s, leaves)])


def _last(s: Shape) -> int:
    return (1 << (s.bits - 1)) - 1


def _leaf(s: Shape, dtype: DType, rows: int) -> str:
    """`to`[q], q < n, of the codes: what they stand for, or their places. More than half of the
    registers are full."""
    code = Code()
    count = code.let("trunc i64 %n to i32")
    held: list[Element] = []
    masks: list[Value] = []
    for r in range(rows):
        at = str(r * s.lanes)
        if r < rows // 2 and rows > 2:
            masks.append("")
            held.append(read(code, s.vector, pointers(s, "%from"), at))
            continue
        masks.append(first_lanes(code, s, count, r * s.lanes))
        load = f"call {s.vector} @llvm.masked.load.{s.suffix}.p0(ptr align {s.bits // 8}"
        rest = f"{s.mask} {masks[-1]}, {s.vector} {s.constant(_last(s))}"
        there = moved(code, s, pointers(s, "%from"), at)
        held.append(tuple(code.let(f"{load} {p}, {rest})") for p in there))
    for r, element in enumerate(ordered(code, s, held)):
        given = element[-1]
        if s.parts == 1:
            given = decoded(code, s, dtype, given, s.vector)
        at = str(r * s.lanes)
        if not masks[r]:
            write(code, s.vector, (given,), ("%to",), at)
            continue
        store_masked(code, s, (given,), moved(code, s, ("%to",), at), masks[r])
    code.put("ret void")
    head = f"void @leaf{rows}({parts(s, '%from')}, ptr %to, i64 %n)"
    return function(head, code, more="noinline")


def _few(s: Shape, leaves: list[int]) -> str:
    """By how many registers they fill."""
    code = Code()
    given = f"{parts(s, '%from')}, ptr %to, i64 %n"
    for rows in leaves[:-1]:
        with returning_if(code, code.let(f"icmp sle i64 %n, {rows * s.lanes}")):
            code.put(f"call void @leaf{rows}({given})")
            code.put("ret void")
    code.put(f"call void @leaf{leaves[-1]}({given})")
    code.put("ret void")
    return function(f"void @few({given})", code)
