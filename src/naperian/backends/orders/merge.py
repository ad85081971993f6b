"""What needs no pivot: rows that are in order already, and runs that are merged.

    i1 @settled(codes, n)                  whether they are in order
    void @copied(codes or places, to, n)   what they stand for
    i64 @merged(codes, to, n)              as `sort`, by merging runs of 1, 2, 4 … elements
"""

from __future__ import annotations

from naperian.backends.code import Code
from naperian.backends.orders.codes import decoded
from naperian.backends.orders.memory import moved, parts, passed, pointers, read, write
from naperian.backends.orders.network import Shape, before
from naperian.backends.products.microkernel import counted, function, only_if, returning_if
from naperian.dtypes import DType


def merging(s: Shape, dtype: DType) -> str:
    """The functions."""
    return "\n\n".join([_settled(s), _copied(s, dtype), _merge(s), _merged(s)])


def _settled(s: Shape) -> str:
    """Whether all codes, of one at least, are in order already; places of equal ones always are."""
    code = Code()
    alone = Shape(s.bits, s.lanes)
    last = code.let("sub nsw i64 %n, 1")
    whole = code.let(f"and i64 {last}, {-s.lanes}")
    for low, high, step, type in (
        ("0", whole, s.lanes, s.vector), (whole, last, 1, s.scalar)
    ):  # fmt: skip
        with counted(code, low, high, step) as k:
            x, y = (read(code, type, ("%from",), at) for at in (k, code.let(f"add i64 {k}, 1")))
            wrong = before(code, alone, y, x, type)
            if step > 1:
                bits = code.let(f"bitcast {s.mask} {wrong} to i{s.lanes}")
                wrong = code.let(f"icmp ne i{s.lanes} {bits}, 0")
            with returning_if(code, wrong):
                code.put("ret i1 false")
    code.put("ret i1 true")
    return function("i1 @settled(ptr %from, i64 %n)", code, more="noinline")


def _copied(s: Shape, dtype: DType) -> str:
    """What is in order: from codes, or from places."""
    code = Code()
    whole = code.let(f"and i64 %n, {-s.lanes}")
    for low, high, step, type in (
        ("0", whole, s.lanes, s.vector), (whole, "%n", 1, s.scalar)
    ):  # fmt: skip
        with counted(code, low, high, step) as k:
            (x,) = read(code, type, ("%from",), k)
            x = decoded(code, s, dtype, x, type) if s.parts == 1 else x
            write(code, type, (x,), ("%to",), k)
    code.put("ret void")
    return function("void @copied(ptr %from, ptr %to, i64 %n)", code, more="noinline")


def _merge(s: Shape) -> str:
    """low … middle-1 and middle … high-1 of `from`, each in order, become one run of `other`."""
    code = Code()
    i, j = code.first("alloca i64"), code.first("alloca i64")
    code.put(f"store i64 %low, ptr {i}")
    code.put(f"store i64 %middle, ptr {j}")
    of, last = pointers(s, "%from"), code.let("sub nsw i64 %high, 1")
    with counted(code, "%low", "%high") as k:
        a, b = code.let(f"load i64, ptr {i}"), code.let(f"load i64, ptr {j}")
        inside = code.let(f"call i64 @llvm.smin.i64(i64 {b}, i64 {last})")
        x, y = (read(code, s.scalar, of, at) for at in (a, inside))
        second = before(code, s, y, x, s.scalar)
        more = code.let(f"icmp slt i64 {b}, %high")
        second = code.let(f"and i1 {second}, {more}")
        second = code.let(f"or i1 {second}, {code.let(f'icmp sge i64 {a}, %middle')}")
        chosen = tuple(
            code.let(f"select i1 {second}, {s.scalar} {q}, {s.scalar} {p}")
            for p, q in zip(x, y, strict=True)
        )
        write(code, s.scalar, chosen, pointers(s, "%other"), k)
        step = code.let(f"zext i1 {second} to i64")
        code.put(f"store i64 {code.let(f'add i64 {b}, {step}')}, ptr {j}")
        code.put(f"store i64 {code.let(f'add i64 {a}, 1')}, ptr {i}")
        with only_if(code, second):
            code.put(f"store i64 {a}, ptr {i}")
    code.put("ret void")
    return function(
        f"void @merge({parts(s, '%from', '%other')}, i64 %low, i64 %middle, i64 %high)",
        code,
        more="noinline",
    )


def _merged(s: Shape) -> str:
    """As `sort`, by merging runs of 1, 2, 4 … elements, to memory of its own and back."""
    code = Code()
    made = code.let(f"call ptr @nap_alloc(i64 {code.let(f'mul i64 %n, {s.parts * s.bits // 8}')})")
    with returning_if(code, code.let(f"icmp eq ptr {made}, null")):
        code.put("ret i64 -2")
    of = pointers(s, "%from")
    other = (made, *moved(code, s, (made,), "%n"))[: s.parts]
    width = code.first("alloca i64")
    turns = [code.first("alloca ptr") for _ in (*of, *other)]
    code.put(f"store i64 1, ptr {width}")
    for slot, p in zip(turns, (*of, *other), strict=True):
        code.put(f"store ptr {p}, ptr {slot}")
    head, body, done = (code.label(x) for x in ("head", "body", "done"))
    code.jump(head)
    code.begin(head)
    held = tuple(code.let(f"load ptr, ptr {slot}") for slot in turns)
    run = code.let(f"load i64, ptr {width}")
    code.branch(code.let(f"icmp slt i64 {run}, %n"), body, done)
    code.begin(body)
    pair = code.let(f"shl i64 {run}, 1")
    pairs = code.let(f"add i64 %n, {code.let(f'sub i64 {pair}, 1')}")
    with counted(code, "0", code.let(f"udiv i64 {pairs}, {pair}")) as k:
        low = code.let(f"mul i64 {k}, {pair}")
        ends = []
        for length in (run, pair):
            end = code.let(f"add i64 {low}, {length}")
            ends.append(code.let(f"call i64 @llvm.smin.i64(i64 {end}, i64 %n)"))
        code.put(f"call void @merge({passed(held)}, i64 {low}, i64 {ends[0]}, i64 {ends[1]})")
    code.put(f"store i64 {pair}, ptr {width}")
    for slot, p in zip(turns, (*held[s.parts :], *held[: s.parts]), strict=True):
        code.put(f"store ptr {p}, ptr {slot}")
    code.jump(head)
    code.begin(done)
    code.put(f"call void @copied(ptr {held[s.parts - 1]}, ptr %to, i64 %n)")
    code.put(f"call void @nap_free(ptr {made})")
    code.put("ret i64 0")
    return function(f"i64 @merged({parts(s, '%from')}, ptr %to, i64 %n)", code, more="noinline")
