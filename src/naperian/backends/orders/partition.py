"""What comes before a pivot to the front of an array, the rest to its end.

Blocks at both ends are put aside, which makes room. The next block is read where less room is left,
so that there is enough on either side. That is one branch a block, and mostly foreseen: with a good
pivot the sides take turns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from naperian.backends.code import Code, Value
from naperian.backends.orders.memory import moved, parts, pivots, pointers, read, splat, write
from naperian.backends.orders.network import Element, Shape
from naperian.backends.orders.sides import Way, put
from naperian.backends.products.microkernel import counted, function
from naperian.node import replace

BLOCK = 8  # vectors that are read at a time
SCALARS = 16  # or elements, where they go one by one

State: TypeAlias = tuple[Value, ...]


def partition(s: Shape, w: Way, name: str, how: str) -> str:
    """`i64 @name(from, n, pivot)`: how many come before the pivot (`sle`: or are equal)."""
    code, many = Code(), BLOCK if w.lanes > 1 else SCALARS
    block = many * w.lanes
    room = f"alloca [{3 * block} x {s.scalar}], align 64"
    aside = tuple(code.first(room) for _ in range(s.parts))
    of, one = pointers(s, "%from"), pointers(s, "%pivot")
    wide = tuple(splat(code, s, x) for x in one) if w.lanes > 1 else one

    def put_aside(at: Value, to: int) -> None:
        type = s.vector if w.lanes > 1 else s.scalar
        for k in range(0, block, w.lanes):
            there = code.let(f"add i64 {at}, {k}")
            write(code, type, read(code, type, of, there), aside, str(to + k))

    enough, few, rest = code.label("enough"), code.label("few"), code.label("rest")
    code.branch(code.let(f"icmp sge i64 %n, {2 * block}"), enough, few)
    code.begin(few)
    with counted(code, "0", "%n") as k:
        write(code, s.scalar, read(code, s.scalar, of, k), aside, k)
    every = ("0", "%n", "%n"), code.block
    code.jump(rest)
    code.begin(enough)
    put_aside("0", 0)
    put_aside(code.let(f"sub i64 %n, {block}"), block)
    low, high, first, last = _blocks(code, s, w, how, wide, many)
    put_aside(first, 2 * block)
    left = code.let(f"sub nsw i64 {last}, {first}")
    left = code.let(f"add nsw i64 {left}, {2 * block}")
    some = (low, high, left), code.block
    code.jump(rest)
    code.begin(rest)
    low, high, left = (
        code.let(f"phi i64 [ {x}, %{every[1]} ], [ {y}, %{some[1]} ]")
        for x, y in zip(every[0], some[0], strict=True)
    )
    whole = code.let(f"and i64 {left}, {-w.lanes}") if w.lanes > 1 else "0"
    # single ones first, so that vectors fill what is free, where both places of one are the same
    low, high = _all(code, s, replace(w, lanes=1), how, one, aside, (whole, left), (low, high))
    if w.lanes > 1:
        low, high = _all(code, s, w, how, wide, aside, ("0", whole), (low, high))
    code.put(f"ret i64 {low}")
    return function(f"i64 @{name}({parts(s, '%from')}, i64 %n, {pivots(s)})", code, more="noinline")


def _blocks(
    code: Code, s: Shape, w: Way, how: str, pivot: Element, many: int
) -> tuple[Value, Value, Value, Value]:
    """Blocks in the middle, as long as there are any; from where to where the array is free, but
    for what is not read, and from where to where that is."""
    block, of = many * w.lanes, pointers(s, "%from")
    start = ("0", "%n", str(block), code.let(f"sub i64 %n, {block}"))

    def more(now: State) -> Value:
        return code.let(f"icmp sge i64 {code.let(f'sub nsw i64 {now[3]}, {now[2]}')}, {block}")

    def body(now: State) -> State:
        low, high, first, last = now
        room = [code.let(f"sub nsw i64 {x}, {y}") for x, y in ((first, low), (high, last))]
        front, back, chosen = (code.label(x) for x in ("front", "back", "chosen"))
        code.branch(code.let(f"icmp sle i64 {room[0]}, {room[1]}"), front, back)
        code.begin(front)
        after = code.let(f"add nsw i64 {first}, {block}")
        code.jump(chosen)
        code.begin(back)
        end = code.let(f"sub nsw i64 {last}, {block}")
        code.jump(chosen)
        code.begin(chosen)
        place, first, last = (
            code.let(f"phi i64 [ {x}, %{front} ], [ {y}, %{back} ]")
            for x, y in ((first, end), (after, first), (last, end))
        )
        type, base = s.vector if w.lanes > 1 else s.scalar, moved(code, s, of, place)
        for x in [read(code, type, base, str(k * w.lanes)) for k in range(many)]:
            low, high = put(code, s, w, how, pivot, x, low, high)
        return low, high, first, last

    low, high, first, last = _while(code, start, more, body)
    return low, high, first, last


def _all(
    code: Code,
    s: Shape,
    w: Way,
    how: str,
    pivot: Element,
    base: Element,
    span: tuple[Value, Value],
    free: tuple[Value, Value],
) -> tuple[Value, Value]:
    """The elements of a span of what was put aside, and what is free then."""

    def body(now: State) -> State:
        x = read(code, s.vector if w.lanes > 1 else s.scalar, base, now[0])
        low, high = put(code, s, w, how, pivot, x, *now[1:])
        return code.let(f"add nsw i64 {now[0]}, {w.lanes}"), low, high

    start, end = span
    now = (start, *free)
    _, low, high = _while(code, now, lambda x: code.let(f"icmp slt i64 {x[0]}, {end}"), body)
    return low, high


def _while(
    code: Code, start: State, more: Callable[[State], Value], body: Callable[[State], State]
) -> State:
    head, on, done, outside = (code.label(x) for x in ("head", "on", "done", "outside"))
    now = tuple(code.name() for _ in start)
    code.jump(outside)
    code.begin(outside)
    code.jump(head)
    code.begin(head)
    at = len(code.lines)
    code.branch(more(now), on, done)
    code.begin(on)
    for x, first, later in zip(now, start, body(now), strict=True):
        code.lines.insert(
            at, f"  {x} = phi i64 [ {first}, %{outside} ], [ {later}, %{code.block} ]"
        )
    code.jump(head)
    code.begin(done)
    return now
