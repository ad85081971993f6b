"""What comes before a pivot to the front of another array, the rest to its end.

A vector is read, its elements before the pivot are moved to the front of a register and the others
to its end, and the register is stored at both ends of what is still free: what does not belong
there is written over later. No branch depends on an element. Where there is no instruction that
moves them, elements go one by one, in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from naperian.backends.code import Code, Value
from naperian.backends.orders.memory import parts, pivots, pointers, read, splat, write
from naperian.backends.orders.network import Element, Shape, before
from naperian.backends.products.microkernel import function
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


def partition(s: Shape, w: Way, name: str, how: str) -> str:
    """`i64 @name(from, to, n, pivot)`: how many come before the pivot (`sle`: or are equal)."""
    code = Code()
    pivot = pointers(s, "%pivot")
    now: State = ("0", "0", "%n")
    if w.lanes > 1:
        wide = tuple(splat(code, s, x) for x in pivot)
        now = _loop(code, now, w.lanes, 2 * w.lanes, lambda x: _vector(code, s, w, how, wide, x))
    _, low, _ = _loop(code, now, 1, 1, lambda x: _single(code, s, how, pivot, x))
    code.put(f"ret i64 {low}")
    head = f"i64 @{name}({parts(s, '%from', '%to')}, i64 %n, {pivots(s)})"
    return function(head, code, more="noinline")


State: TypeAlias = tuple[Value, Value, Value]
"""How many elements are read; from where to where the other array is still free."""


def _loop(
    code: Code, start: State, step: int, least: int, body: Callable[[State], tuple[Value, Value]]
) -> State:
    """As long as at least so many elements are left."""
    head, more, done, outside = (code.label(x) for x in ("head", "more", "done", "outside"))
    now: State = (code.name(), code.name(), code.name())
    code.jump(outside)
    code.begin(outside)
    code.jump(head)
    code.begin(head)
    at = len(code.lines)
    left = code.let(f"sub nsw i64 %n, {now[0]}")
    code.branch(code.let(f"icmp sge i64 {left}, {least}"), more, done)
    code.begin(more)
    low, high = body(now)
    after = (code.let(f"add nsw i64 {now[0]}, {step}"), low, high)
    for x, first, later in zip(now, start, after, strict=True):
        code.lines.insert(
            at, f"  {x} = phi i64 [ {first}, %{outside} ], [ {later}, %{code.block} ]"
        )
    code.jump(head)
    code.begin(done)
    return now


def _single(
    code: Code, s: Shape, how: str, pivot: Element, now: State
) -> tuple[Value, Value]:
    i, low, high = now
    x = read(code, s.scalar, pointers(s, "%from"), i)
    first = code.let(f"zext i1 {before(code, s, x, pivot, s.scalar, how)} to i64")
    last = code.let(f"sub nsw i64 {high}, 1")
    for place in (low, last):
        write(code, s.scalar, x, pointers(s, "%to"), place)
    return (
        code.let(f"add nsw i64 {low}, {first}"),
        code.let(f"add nsw i64 {last}, {first}"),
    )


def _vector(
    code: Code, s: Shape, w: Way, how: str, pivot: Element, now: State
) -> tuple[Value, Value]:
    i, low, high = now
    x = read(code, s.vector, pointers(s, "%from"), i)
    first = before(code, s, x, pivot, s.vector, how)
    bits = code.let(f"bitcast {s.mask} {first} to i{s.lanes}")
    count = code.let(f"call i{s.lanes} @llvm.ctpop.i{s.lanes}(i{s.lanes} {bits})")
    count = code.let(f"zext i{s.lanes} {count} to i64")
    end = code.let(f"sub nsw i64 {high}, {s.lanes}")
    after = code.let(f"add nsw i64 {end}, {count}")
    if w.table:
        moved = _permuted(code, s, bits, x)
        write(code, s.vector, moved, pointers(s, "%to"), low)
        write(code, s.vector, moved, pointers(s, "%to"), end)
    else:
        every = ", ".join(["i1 true"] * s.lanes)
        others = code.let(f"xor {s.mask} {first}, <{every}>")
        write(code, s.vector, _compressed(code, s, x, first), pointers(s, "%to"), low)
        short = code.let(f"trunc i64 {count} to i32")
        rest = code.let(f"lshr i32 {(1 << s.lanes) - 1}, {short}")
        rest = code.let(f"trunc i32 {rest} to i{s.lanes}")
        rest = code.let(f"bitcast i{s.lanes} {rest} to {s.mask}")
        for y, to in zip(_compressed(code, s, x, others), pointers(s, "%to"), strict=True):
            there = code.let(f"getelementptr {s.scalar}, ptr {to}, i64 {after}")
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
