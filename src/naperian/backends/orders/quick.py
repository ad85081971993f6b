"""Quicksort, in place.

    i64 @sort(codes, to, n, depth)    a status

The middle of a sample parts the codes; where that goes on for too long the rest is merged.
"""

from __future__ import annotations

from naperian.backends.code import Code, Value
from naperian.backends.orders.codes import decoded, flipped
from naperian.backends.orders.memory import (
    moved,
    parts,
    passed,
    pivots,
    pointers,
    read,
    splat,
    write,
)
from naperian.backends.orders.network import Element, Shape
from naperian.backends.products.microkernel import counted, function, only_if, returning_if
from naperian.dtypes import DType

SAMPLE = 2  # registers of a sample; of a large one four times as many
LONG = 1 << 16  # elements worth asking whether to stop


def quicksort(s: Shape, dtype: DType, few: int) -> str:
    """The functions; so many codes are few."""
    return "\n\n".join([_pivot(s, dtype), _equal(s, dtype), _sort(s, few)])


def _pivot(s: Shape, dtype: DType) -> str:
    """The middle of a sample, taken at random places, which are the same in every run."""
    code = Code()
    most = 4 * SAMPLE * s.lanes
    taken = tuple(code.first(f"alloca [{most} x {s.scalar}], align 64") for _ in range(s.parts))
    many = code.let(f"icmp sge i64 %n, {64 * most}")
    count = code.let(f"select i1 {many}, i64 {most}, i64 {SAMPLE * s.lanes}")
    state = code.first("alloca i64")
    code.put(f"store i64 %n, ptr {state}")
    with counted(code, "0", count) as k:
        old = code.let(f"load i64, ptr {state}")
        new = code.let(f"mul i64 {old}, 6364136223846793005")
        new = code.let(f"add i64 {new}, 1442695040888963407")
        code.put(f"store i64 {new}, ptr {state}")
        wide = code.let(f"zext i64 {new} to i128")
        wide = code.let(f"mul i128 {wide}, {code.let('zext i64 %n to i128')}")
        at = code.let(f"trunc i128 {code.let(f'lshr i128 {wide}, 64')} to i64")
        (x,) = read(code, s.scalar, ("%from",), at)
        write(code, s.scalar, (x, at)[: s.parts], taken, k)
    code.put(f"call void @few({passed(taken)}, ptr {taken[0]}, i64 {count})")
    (x,) = read(code, s.scalar, taken[:1], code.let(f"lshr i64 {count}, 1"))
    if s.parts == 1:
        x = flipped(code, s, x, s.scalar) if dtype.is_float else x
        code.put(f"ret {s.scalar} {x}")
        return function(f"{s.scalar} @pivot(ptr %from, i64 %n)", code)
    for at, y in zip("01", read(code, s.scalar, pointers(s, "%from"), x), strict=True):
        write(code, s.scalar, (y,), ("%pivot",), at)
    code.put("ret void")
    return function(f"void @pivot({parts(s, '%from')}, i64 %n, ptr %pivot)", code)


def middle(code: Code, s: Shape, base: Element, n: Value) -> Element:
    """A pivot for n codes."""
    if s.parts == 1:
        return (code.let(f"call {s.scalar} @pivot(ptr {base[0]}, i64 {n})"),)
    out = code.first(f"alloca [2 x {s.scalar}]")
    code.put(f"call void @pivot({passed(base)}, i64 {n}, ptr {out})")
    return tuple(read(code, s.scalar, (out,), str(k))[0] for k in range(2))


def _equal(s: Shape, dtype: DType) -> str:
    """n times the same element."""
    code = Code()
    x = "%pivot.place" if s.parts > 1 else decoded(code, s, dtype, "%pivot", s.scalar)
    wide = splat(code, s, x)
    whole = code.let(f"and i64 %n, {-s.lanes}")
    with counted(code, "0", whole, s.lanes) as k:
        write(code, s.vector, (wide,), ("%to",), k)
    with counted(code, whole, "%n") as k:
        write(code, s.scalar, (x,), ("%to",), k)
    code.put("ret void")
    return function(f"void @equal(ptr %to, i64 %n, {pivots(s)})", code)


def _sort(s: Shape, few: int) -> str:
    """The n codes of `from` to `to`, which is `from` or an array of its own."""
    code = Code()
    groups = [pointers(s, "%from"), ("%to",)]
    names = [tuple(code.name() for _ in group) for group in groups]
    of, (to,) = names
    n, depth = code.name(), code.name()
    outside = "outside"
    code.jump(outside)
    code.begin(outside)
    code.jump("again")
    code.begin("again")
    at = len(code.lines)
    with returning_if(code, code.let(f"icmp sle i64 {n}, {few}")):
        code.put(f"call void @few({passed(of, (to,))}, i64 {n})")
        code.put("ret i64 0")
    with returning_if(code, code.let(f"icmp eq i64 {depth}, 0")):
        code.put(f"ret i64 {code.let(f'call i64 @merged({passed(of, (to,))}, i64 {n})')}")
    with only_if(code, code.let(f"icmp sge i64 {n}, {LONG}")):
        status = code.let("call i64 @nap_poll()")
        with returning_if(code, code.let(f"icmp ne i64 {status}, 0")):
            code.put(f"ret i64 {status}")
    pivot = middle(code, s, of, n)
    given = f"{passed(of)}, i64 {n}, {pivots(s, pivot)}"
    low = code.let(f"call i64 @less({given})")
    less = code.let(f"sub nsw i64 {depth}, 1")
    some, none, rest = (code.label(x) for x in ("some", "none", "rest"))
    code.branch(code.let(f"icmp eq i64 {low}, 0"), none, some)
    code.begin(some)
    status = code.let(f"call i64 @sort({passed(of, (to,))}, i64 {low}, i64 {less})")
    with returning_if(code, code.let(f"icmp ne i64 {status}, 0")):
        code.put(f"ret i64 {status}")
    first = code.block
    code.jump(rest)
    code.begin(none)  # the pivot is the least
    same = code.let(f"call i64 @most({given})")
    code.put(f"call void @equal(ptr {to}, i64 {same}, {pivots(s, pivot)})")
    second = code.block
    code.jump(rest)
    code.begin(rest)
    done = code.let(f"phi i64 [ {low}, %{first} ], [ {same}, %{second} ]")
    later = [moved(code, s, group, done) for group in names]
    left = code.let(f"sub nsw i64 {n}, {done}")
    last = code.block
    for group, new, old in zip(names, later, groups, strict=True):
        for x, y, z in zip(group, new, old, strict=True):
            code.lines.insert(at, f"  {x} = phi ptr [ {z}, %{outside} ], [ {y}, %{last} ]")
    code.lines.insert(at, f"  {n} = phi i64 [ %n, %{outside} ], [ {left}, %{last} ]")
    code.lines.insert(at, f"  {depth} = phi i64 [ %depth, %{outside} ], [ {less}, %{last} ]")
    code.jump("again")
    return function(f"i64 @sort({parts(s, '%from')}, ptr %to, i64 %n, i64 %depth)", code)
