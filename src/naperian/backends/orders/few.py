"""Codes that are few enough to be sorted in registers.

    void @few(codes, to, n)     to[q], q < n: what they stand for, or their places
"""

from __future__ import annotations

from naperian.backends.code import Code, Value
from naperian.backends.orders.codes import decoded, flipped
from naperian.backends.orders.memory import (
    first_lanes,
    moved,
    parts,
    pointers,
    read,
    store_masked,
    write,
)
from naperian.backends.orders.network import Element, Shape, joined, ordered
from naperian.backends.products.microkernel import function, returning_if
from naperian.dtypes import DType


def most(s: Shape) -> int:
    """How many registers a network sorts: more would compile in twice the time."""
    return 8 if s.parts > 1 else 16


def limit(s: Shape) -> int:
    """How many codes are few."""
    return most(s) * s.lanes * (1 if s.parts > 1 else 2)


def few(s: Shape, dtype: DType) -> str:
    """The functions: one for 2, 4 … registers, one for twice as many, and one that chooses."""
    leaves = [2 << k for k in range(most(s).bit_length() - 1)]
    sorts = {f"leaf{rows}": rows * s.lanes for rows in leaves}
    texts = [_leaf(s, dtype, rows) for rows in leaves]
    if s.parts == 1:
        sorts["halves"] = limit(s)
        texts.append(_halves(s, dtype, most(s)))
    return "\n\n".join([*texts, _few(s, sorts)])


def _last(s: Shape) -> int:
    return (1 << (s.bits - 1)) - 1


def _leaf(s: Shape, dtype: DType, rows: int) -> str:
    """`to`[q], q < n, of the codes: what they stand for, or their places. More than half of the
    registers are full."""
    code = Code()
    held, masks = _loaded(code, s, pointers(s, "%from"), rows, rows // 2 if rows > 2 else 0)
    _stored(code, s, dtype, ordered(code, s, held), masks)
    head = f"void @leaf{rows}({parts(s, '%from')}, ptr %to, i64 %n)"
    return function(head, code, more="noinline")


def _halves(s: Shape, dtype: DType, rows: int) -> str:
    """The same for more than `rows` registers of codes, by halves."""
    code, half = Code(), rows * s.lanes
    code.put(f"call void @leaf{rows}(ptr %from, ptr %to, i64 {half})")
    (of,), (to,) = (moved(code, s, (p,), str(half)) for p in ("%from", "%to"))
    rest = code.let(f"sub i64 %n, {half}")
    code.put(f"call void @few(ptr {of}, ptr {to}, i64 {rest})")
    held, masks = _loaded(code, s, ("%to",), 2 * rows, rows)
    if dtype.is_float:
        held = [(flipped(code, s, x, s.vector),) for (x,) in held]
    _stored(code, s, dtype, joined(code, s, held[:rows], held[rows:]), masks)
    return function("void @halves(ptr %from, ptr %to, i64 %n)", code, more="noinline")


def _loaded(
    code: Code, s: Shape, base: Element, rows: int, full: int
) -> tuple[list[Element], list[Value]]:
    """Registers of n elements, of which so many are full; and the masks of the others."""
    count = code.let("trunc i64 %n to i32")
    held = [read(code, s.vector, base, str(r * s.lanes)) for r in range(full)]
    masks = [""] * full
    load = f"call {s.vector} @llvm.masked.load.{s.suffix}.p0(ptr align {s.bits // 8}"
    for r in range(full, rows):
        masks.append(first_lanes(code, s, count, r * s.lanes))
        rest = f"{s.mask} {masks[-1]}, {s.vector} {s.constant(_last(s))}"
        there = moved(code, s, base, str(r * s.lanes))
        held.append(tuple(code.let(f"{load} {p}, {rest})") for p in there))
    return held, masks


def _stored(code: Code, s: Shape, dtype: DType, rows: list[Element], masks: list[Value]) -> None:
    for r, (element, mask) in enumerate(zip(rows, masks, strict=True)):
        last = element[-1]
        made = (decoded(code, s, dtype, last, s.vector) if s.parts == 1 else last,)
        if mask:
            store_masked(code, s, made, moved(code, s, ("%to",), str(r * s.lanes)), mask)
        else:
            write(code, s.vector, made, ("%to",), str(r * s.lanes))
    code.put("ret void")


def _few(s: Shape, sorts: dict[str, int]) -> str:
    """By how many there are at most."""
    code = Code()
    given = f"{parts(s, '%from')}, ptr %to, i64 %n"
    *smaller, last = sorts
    for name in smaller:
        with returning_if(code, code.let(f"icmp sle i64 %n, {sorts[name]}")):
            code.put(f"call void @{name}({given})")
            code.put("ret void")
    code.put(f"call void @{last}({given})")
    code.put("ret void")
    return function(f"void @few({given})", code)
