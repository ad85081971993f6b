"""Elements before a pivot to the front of what is free of an array, the others to its end.

A vector's elements before the pivot are moved to the front of a register and the others to its end,
and the register is stored at both ends: what does not belong there is written over later. No branch
depends on an element. Where there is no instruction that moves them, elements go one by one, in the
same way.
"""

from __future__ import annotations

from naperian.backends.code import Code, Value
from naperian.backends.orders.memory import pointers, write
from naperian.backends.orders.network import Element, Shape, before
from naperian.backends.target import Target
from naperian.node import node


@node
class Way:
    """How elements are moved in a register: `lanes` of them by a `table` of permutations, or
    compressed; one at a time if there is 1 lane."""

    lanes: int
    table: bool


def way(s: Shape, target: Target) -> Way:
    wide = target.vector_bytes == 64
    avx2 = target.vector_bytes == 32 and (
        target.cpu == "x86-64-v3" or "+avx2" in target.features.split(",")
    )
    if not target.triple.startswith("x86_64") or not (wide or avx2):
        return Way(1, False)
    return Way(s.lanes, s.lanes <= 8)


def table(w: Way) -> str:
    """For every mask, which lanes come to the front and, after them, which are left."""
    rows = []
    for mask in range(1 << w.lanes):
        front = [k for k in range(w.lanes) if mask >> k & 1]
        lanes = [*front, *(k for k in range(w.lanes) if k not in front)]
        if w.lanes == 4:  # as halves, which is what can be permuted
            lanes = [h for k in lanes for h in (2 * k, 2 * k + 1)]
        rows.append("[8 x i8] [" + ", ".join(f"i8 {k}" for k in lanes) + "]")
    count = f"[{len(rows)} x [8 x i8]]"
    return (
        f"@moved = internal constant {count} [{', '.join(rows)}], align 64\n"
        "declare <8 x i32> @llvm.x86.avx2.permd(<8 x i32>, <8 x i32>)\n"
        "declare <8 x i64> @llvm.x86.avx512.permvar.di.512(<8 x i64>, <8 x i64>)"
    )


def put(
    code: Code, s: Shape, w: Way, how: str, pivot: Element, x: Element, low: Value, high: Value
) -> tuple[Value, Value]:
    """A vector of elements, or one; what is free then."""
    to = pointers(s, "%from")
    end = code.let(f"sub nsw i64 {high}, {w.lanes}")
    if w.lanes == 1:
        count = code.let(f"zext i1 {before(code, s, x, pivot, s.scalar, how)} to i64")
        for place in (low, end):
            write(code, s.scalar, x, to, place)
        return code.let(f"add nsw i64 {low}, {count}"), code.let(f"add nsw i64 {end}, {count}")
    first = before(code, s, x, pivot, s.vector, how)
    bits = code.let(f"bitcast {s.mask} {first} to i{s.lanes}")
    count = code.let(f"call i{s.lanes} @llvm.ctpop.i{s.lanes}(i{s.lanes} {bits})")
    count = code.let(f"zext i{s.lanes} {count} to i64")
    after = code.let(f"add nsw i64 {end}, {count}")
    if w.table:
        both = _permuted(code, s, bits, x)
        write(code, s.vector, both, to, low)
        write(code, s.vector, both, to, end)
    else:
        every = ", ".join(["i1 true"] * s.lanes)
        others = code.let(f"xor {s.mask} {first}, <{every}>")
        write(code, s.vector, _compressed(code, s, x, first), to, low)
        short = code.let(f"trunc i64 {count} to i32")
        rest = code.let(f"lshr i32 {(1 << s.lanes) - 1}, {short}")
        rest = code.let(f"trunc i32 {rest} to i{s.lanes}")
        rest = code.let(f"bitcast i{s.lanes} {rest} to {s.mask}")
        for y, p in zip(_compressed(code, s, x, others), to, strict=True):
            there = code.let(f"getelementptr {s.scalar}, ptr {p}, i64 {after}")
            store = f"call void @llvm.masked.store.{s.suffix}.p0({s.vector} {y}, "
            code.put(f"{store}ptr align {s.bits // 8} {there}, {s.mask} {rest})")
    return code.let(f"add nsw i64 {low}, {count}"), after


def _compressed(code: Code, s: Shape, x: Element, mask: Value) -> Element:
    call = f"call {s.vector} @llvm.experimental.vector.compress.{s.suffix}"
    return tuple(
        code.let(f"{call}({s.vector} {y}, {s.mask} {mask}, {s.vector} poison)") for y in x
    )


def _permuted(code: Code, s: Shape, mask: Value, x: Element) -> Element:
    """What the mask has to the front, the rest after it."""
    row = code.let(f"zext i{s.lanes} {mask} to i64")
    row = code.let(f"getelementptr [8 x i8], ptr @moved, i64 {row}")
    lanes = code.let(f"load <8 x i8>, ptr {row}, align 8")
    wide = s.lanes * s.bits == 512
    type = "<8 x i64>" if wide else "<8 x i32>"
    name = "avx512.permvar.di.512" if wide else "avx2.permd"
    lanes = code.let(f"zext <8 x i8> {lanes} to {type}")
    out = []
    for y in x:
        cast = y if type == s.vector else code.let(f"bitcast {s.vector} {y} to {type}")
        moved = code.let(f"call {type} @llvm.x86.{name}({type} {cast}, {type} {lanes})")
        back = f"bitcast {type} {moved} to {s.vector}"
        out.append(moved if type == s.vector else code.let(back))
    return tuple(out)
