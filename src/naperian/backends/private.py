"""Arrays that a parallel loop accumulates.

The first chunk updates the array itself, every other one a copy of its own, which starts as the
monoid's unit; afterwards the copies are combined with the array in the order of chunks. So the
result does not depend on the number of threads. How long a chunk is depends on sizes alone: the
copies are never many, nor large beside the work, and a loop that has little work for a large array
is one chunk.
"""

from __future__ import annotations

from collections.abc import Callable

from naperian.backends.code import MEMORY, Value, literal
from naperian.backends.frame import Frame, Module, Place
from naperian.backends.indexing import memory, number, register
from naperian.backends.leaving import allocated, hold, leave_unless_zero
from naperian.backends.scalars import combine
from naperian.backends.services.regions import PART, SUMMED
from naperian.dtypes import DType
from naperian.loops.syntax import Reduction
from naperian.node import node
from naperian.prims import unit
from naperian.sizes import ZERO, Size, elements

MOST = 32  # chunks
WORTH = 64  # additions for every element of a copy, which costs about three


@node
class Copies:
    """The copies of an array: `stride` bytes apart, one fewer than there are chunks."""

    reduction: Reduction
    count: Size  # elements
    pointer: Value
    stride: Value


def _elements(frame: Frame, r: Reduction) -> Size:
    return elements(frame.place(r.var).buffer.shape, frame.module.program.sizes)


def grain(
    frame: Frame, arrays: tuple[Reduction, ...], trips: Value, work: Value, least: Value
) -> Value:
    """How many iterations a chunk has at least: `least`, so many that there are few copies, and
    so many that making and merging them is little beside their work. One is `least`, which may
    be less than 0."""
    code = frame.code

    def larger(a: Value, b: Value) -> Value:
        return code.let(f"call i64 @llvm.smax.i64(i64 {a}, i64 {b})")

    up = code.let(f"add i64 {trips}, {MOST - 1}")
    few = code.let(f"sdiv i64 {up}, {MOST}")
    count = sum((_elements(frame, r) for r in arrays), ZERO)
    worth = code.let(f"mul i64 {number(frame, count)}, {WORTH}")
    several = larger(few, code.let(f"sdiv i64 {worth}, {work}"))
    one = code.let(f"icmp sle i64 {several}, 1")
    return code.let(f"select i1 {one}, i64 {least}, i64 {larger(several, least)}")


def copies(frame: Frame, r: Reduction, chunks: Value) -> Copies:
    """Memory for the copies of an array, freed when `frame.exits` is popped."""
    code = frame.code
    count = _elements(frame, r)
    bytes = code.let(f"mul i64 {number(frame, count)}, {r.dtype.bytes}")
    stride = code.let(f"and i64 {code.let(f'add i64 {bytes}, 127')}, -128")  # no line is shared
    others = code.let(f"sub i64 {chunks}, 1")
    some, ready = code.label("copies"), code.label("ready")
    before = code.block
    code.branch(code.let(f"icmp sgt i64 {others}, 0"), some, ready)
    code.begin(some)
    made = allocated(frame, code.let(f"mul i64 {others}, {stride}"))
    last = code.block
    code.jump(ready)
    code.begin(ready)
    pointer = code.let(f"phi ptr [ null, %{before} ], [ {made}, %{last} ]")
    hold(frame, pointer)
    return Copies(r, count, pointer, stride)


def own(child: Frame, c: Copies) -> None:
    """In a chunk: its array is the caller's or its copy, which is filled."""
    code, r = child.code, c.reduction
    outer = child.place(r.var)
    base, stride = child.capture(c.pointer, "ptr"), child.capture(c.stride, "i64")
    first, other, ready = code.label("first"), code.label("other"), code.label("ready")
    code.branch(code.let("icmp eq i64 %chunk, 0"), first, other)
    code.begin(first)
    code.jump(ready)
    code.begin(other)
    offset = code.let(f"mul i64 {code.let('sub i64 %chunk, 1')}, {stride}")
    mine = code.let(f"getelementptr i8, ptr {base}, i64 {offset}")
    nothing = literal(unit(r.monoid, r.dtype), r.dtype)
    with child.scope():
        count = number(child, c.count)
        if nothing == literal(0, r.dtype):
            bytes = code.let(f"mul i64 {count}, {r.dtype.bytes}")
            code.put(f"call void @llvm.memset.p0.i64(ptr {mine}, i8 0, i64 {bytes}, i1 false)")
        else:
            _each(child, "0", count, lambda k: _put(child, r.dtype, mine, k, nothing))
    last = code.block
    code.jump(ready)
    code.begin(ready)
    pointer = code.let(f"phi ptr [ {outer.pointer}, %{first} ], [ {mine}, %{last} ]")
    child.places[r.var] = Place(pointer, outer.buffer, outer.strides)


def merge(frame: Frame, c: Copies, chunks: Value) -> None:
    """The copies combined with the array, in their order; in parallel if they are long."""
    part = _merger(frame.module, c.reduction.monoid, c.reduction.dtype)
    to, count = frame.place(c.reduction.var).pointer, number(frame, c.count)
    args = f"ptr {part}, ptr {to}, ptr {c.pointer}, i64 {c.stride}, i64 {chunks}, i64 {count}"
    leave_unless_zero(frame, frame.code.let(f"call i64 @nap_merge({args})"))
    frame.code.put(f"call void @nap_free(ptr {c.pointer})")
    frame.exits.pop()


def _merger(module: Module, monoid: str, dtype: DType) -> str:
    """The part that `nap_merge` runs: a service for sums, or written once."""
    if monoid == "add" and dtype.name.lower() in SUMMED:
        name = f"@nap_merge_add_{dtype.name.lower()}"
        module.definitions[name] = f"declare i64 {name}(ptr, i64, i64, i64) nounwind"
        return name
    name = f"@nap.merge.{monoid}.{MEMORY[dtype]}.{int(dtype.is_signed)}"
    if name in module.shared:
        return name
    module.shared.add(name)
    frame = Frame(module)
    code = frame.code
    words = [code.first(f"getelementptr i64, ptr %env, i64 {k}") for k in range(3, 7)]
    to, base = (code.first(f"load ptr, ptr {w}") for w in words[:2])
    stride, others = (code.first(f"load i64, ptr {w}") for w in words[2:])
    independent = module.node("distinct !{}")

    def one(copy: Value) -> None:
        distance = code.let(f"mul i64 {copy}, {stride}")
        source = code.let(f"getelementptr i8, ptr {base}, i64 {distance}")
        _each(frame, "%low", "%high", lambda k: element(source, k), independent)

    def element(source: Value, k: Value) -> None:
        old, new = (_get(frame, dtype, p, k, independent) for p in (to, source))
        _put(frame, dtype, to, k, combine(frame, monoid, old, new, dtype), independent)

    _each(frame, "0", others, one)
    code.put("ret i64 0")
    frame.finish(f"define internal i64 {name}({PART}) noinline")
    return name


def _each(
    frame: Frame, low: Value, high: Value, body: Callable[[Value], None], group: int | None = None
) -> None:
    """`body(k)` for k = low … high-1, one vector at a time: memory is slower. Accesses of the group
    do not meet those of another k."""
    code = frame.code
    loop, done = code.label("each"), code.label("done")
    index, after, before = code.name(), code.name(), code.block
    code.branch(code.let(f"icmp slt i64 {low}, {high}"), loop, done)
    at = len(code.lines)
    code.begin(loop)
    with frame.scope():
        body(index)
    code.lines[at] += f"\n  {index} = phi i64 [ {low}, %{before} ], [ {after}, %{code.block} ]"
    code.put(f"{after} = add nsw i64 {index}, 1")
    more = code.let(f"icmp slt i64 {after}, {high}")
    hints = ['!"llvm.loop.unroll.disable"', '!"llvm.loop.interleave.count", i32 1']
    if group is not None:
        hints.append(f'!"llvm.loop.parallel_accesses", !{group}')
    code.branch(more, loop, done, f", !llvm.loop !{frame.module.loop(*hints)}")
    code.begin(done)


def _address(frame: Frame, dtype: DType, base: Value, k: Value) -> Value:
    return frame.code.let(f"getelementptr {MEMORY[dtype]}, ptr {base}, i64 {k}")


def _get(frame: Frame, dtype: DType, base: Value, k: Value, group: int) -> Value:
    at = _address(frame, dtype, base, k)
    value = f"load {MEMORY[dtype]}, ptr {at}{_within(group)}"
    return register(frame, frame.code.let(value), dtype)


def _put(
    frame: Frame, dtype: DType, base: Value, k: Value, value: Value, group: int | None = None
) -> None:
    at = _address(frame, dtype, base, k)
    new = memory(frame, value, dtype)
    frame.code.put(f"store {MEMORY[dtype]} {new}, ptr {at}{_within(group)}")


def _within(group: int | None) -> str:
    return "" if group is None else f", !llvm.access.group !{group}"
