"""Elements in memory, codes and perhaps their places in arrays of their own, and masks."""

from __future__ import annotations

from naperian.backends.code import Code, Value
from naperian.backends.orders.network import Element, Shape


def pointers(s: Shape, name: str) -> Element:
    """To the codes and, if there are some, to their places."""
    return tuple(f"{name}{'.place' * k}" for k in range(s.parts))


def parts(s: Shape, *names: str) -> str:
    """Parameters or arguments: pointers to codes and, if there are some, to their places."""
    return ", ".join(f"ptr {p}" for x in names for p in pointers(s, x))


def passed(*groups: Element) -> str:
    """Arguments."""
    return ", ".join(f"ptr {p}" for group in groups for p in group)


def pivots(s: Shape, x: Element = ()) -> str:
    """A parameter or an argument that is an element."""
    return ", ".join(f"{s.scalar} {y}" for y in x or pointers(s, "%pivot"))


def moved(code: Code, s: Shape, base: Element, at: Value) -> Element:
    """Pointers further on."""
    return tuple(code.let(f"getelementptr {s.scalar}, ptr {p}, i64 {at}") for p in base)


def read(code: Code, type: str, base: Element, at: Value) -> Element:
    """An element, or a vector of them."""
    step, size = type.split()[-1].rstrip(">"), _bytes(type)
    there = [code.let(f"getelementptr {step}, ptr {p}, i64 {at}") for p in base]
    return tuple(code.let(f"load {type}, ptr {p}, align {size}") for p in there)


def write(code: Code, type: str, x: Element, base: Element, at: Value) -> None:
    step, size = type.split()[-1].rstrip(">"), _bytes(type)
    for y, p in zip(x, base, strict=True):
        there = code.let(f"getelementptr {step}, ptr {p}, i64 {at}")
        code.put(f"store {type} {y}, ptr {there}, align {size}")


def splat(code: Code, s: Shape, x: Value) -> Value:
    """A vector of one number."""
    one = code.let(f"insertelement {s.vector} poison, {s.scalar} {x}, i64 0")
    zeros = f"<{s.lanes} x i32> zeroinitializer"
    return code.let(f"shufflevector {s.vector} {one}, {s.vector} poison, {zeros}")


def _bytes(type: str) -> int:
    return int(type.split()[-1].strip("i>")) // 8


def first_lanes(code: Code, s: Shape, count: Value, start: int = 0) -> Value:
    """The mask of the lanes, numbered from `start`, that are below a 32-bit number."""
    wide = Shape(32, s.lanes)
    lanes = wide.constant(*range(start, start + s.lanes))
    return code.let(f"icmp slt {wide.vector} {lanes}, {splat(code, wide, count)}")


def store_masked(code: Code, s: Shape, x: Element, to: Element, mask: Value) -> None:
    for y, p in zip(x, to, strict=True):
        store = f"call void @llvm.masked.store.{s.suffix}.p0({s.vector} {y}, "
        code.put(f"{store}ptr align {s.bits // 8} {p}, {s.mask} {mask})")
