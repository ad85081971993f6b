"""A row in order: where its elements go, or where they come from.

    i64 @nap_row_sort_f64(n, to, ts, of, fs)      to[q·ts] = what is at place q of of[i·fs] in order
    i64 @nap_row_places_f64(n, to, ts, of, fs)    … = its ordinal, of equal ones the first first

One module per dtype and machine, compiled once and called by every kernel. Numbers become codes
(see `codes`). Quicksort: a sample's middle parts the codes, and
what is few enough is sorted in registers (see `network`). Where that goes on for too long the rest
is merged instead, so that no row takes more than n·log n. A long row is parted until there are
pieces for threads; what is in order does not depend on them.
"""

from __future__ import annotations

from naperian.backends.code import REGISTER, Code, Value
from naperian.backends.llvm import FINISHED
from naperian.backends.orders.calls import Row
from naperian.backends.orders.codes import encoded
from naperian.backends.orders.few import few, limit
from naperian.backends.orders.memory import (
    first_lanes,
    moved,
    passed,
    pivots,
    read,
    splat,
    store_masked,
    write,
)
from naperian.backends.orders.merge import merging
from naperian.backends.orders.network import Element, Shape
from naperian.backends.orders.partition import partition
from naperian.backends.orders.quick import middle, quicksort
from naperian.backends.orders.sides import table, way
from naperian.backends.products.microkernel import counted, function, only_if, returning_if
from naperian.backends.target import Target, host
from naperian.dtypes import DType

THREADS = 1 << 16  # elements worth threads
LEVELS = 3  # of parts, for them
DEPTH = 2  # parts of parts for every bit of the row's length, before it is merged


def row_module(row: Row, target: Target | None = None) -> str:
    """The module that defines `@nap_row_sort_f64` and the like."""
    target, dtype, places = target or host(), row.dtype, row.places
    bits = 64 if places else dtype.bits
    s = Shape(bits, target.lanes(bits // 8), 1 + places)
    w = way(s, target)
    return FINISHED + "\n\n".join(
        [
            _DECLARATIONS,
            table(w) if w.table else "",
            few(s, dtype),
            partition(s, w, "less", "slt"),
            partition(s, w, "most", "sle"),
            quicksort(s, dtype, limit(s)),
            merging(s, dtype),
            _encode(s, dtype),
            _part(s),
            _piece(s),
            _row(s),
            _entry(s, dtype, limit(s)),
            f"attributes #0 = {{ {target.attributes} }}",
        ]
    )


_DECLARATIONS = """\
declare i64 @nap_parallel(ptr, ptr, i64, i64, i64) nounwind
declare i64 @nap_poll() nounwind
declare noalias ptr @nap_alloc(i64) nounwind
declare void @nap_free(ptr) nounwind"""


def _encode(s: Shape, dtype: DType) -> str:
    """Codes low … high-1 of a row, and their places; more if chunk is -1: memory that was just
    written by a mask is slow to read."""
    code, own = Code(), REGISTER[dtype]
    of, step = _job(code, "of", "fs")
    to = _array(code, s)

    def put(k: Value, lanes: int, mask: Value = "") -> None:
        type, code_type = (own, s.scalar) if lanes == 1 else (f"<{lanes} x {own}>", s.vector)
        there = code.let(f"mul nsw i64 {k}, {step}")
        there = code.let(f"getelementptr {own}, ptr {of}, i64 {there}")
        if mask:
            name = f"v{lanes}{'f' if dtype.is_float else 'i'}{dtype.bits}"
            x = code.let(
                f"call {type} @llvm.masked.load.{name}.p0(ptr align {dtype.bytes} {there}, "
                f"{s.mask} {mask}, {type} zeroinitializer)"
            )
        else:
            x = code.let(f"load {type}, ptr {there}, align {dtype.bytes}")
        row: Element = (encoded(code, s, dtype, x, lanes),)
        if s.parts > 1:
            count = k if lanes == 1 else splat(code, s, k)
            numbers = "0" if lanes == 1 else s.constant(*range(lanes))
            row = (*row, code.let(f"add {code_type} {count}, {numbers}"))
        spare = code.label("spare"), code.label("none"), code.label("stored")
        if mask:
            code.branch(code.let("icmp slt i64 %chunk, 0"), *spare[:2])
            code.begin(spare[0])
        write(code, code_type, row, to, k)
        if mask:
            code.jump(spare[2])
            code.begin(spare[1])
            store_masked(code, s, row, moved(code, s, to, k), mask)
            code.jump(spare[2])
            code.begin(spare[2])

    with returning_if(code, code.let(f"icmp ne i64 {step}, 1")):
        with counted(code, "%low", "%high") as k:
            put(k, 1)
        code.put("ret i64 0")
    whole = code.let(f"and i64 {code.let('sub i64 %high, %low')}, {-s.lanes}")
    whole = code.let(f"add i64 %low, {whole}")
    with counted(code, "%low", whole, s.lanes) as k:
        put(k, s.lanes)
    with only_if(code, code.let(f"icmp slt i64 {whole}, %high")):
        rest = code.let(f"trunc i64 {code.let(f'sub i64 %high, {whole}')} to i32")
        put(whole, s.lanes, first_lanes(code, s, rest))
    code.put("ret i64 0")
    return function("i64 @encode(ptr %job, i64 %low, i64 %high, i64 %chunk)", code)


_JOB = ("of", "fs", "to", "codes", "places", "depth")
_NODES = 2 << LEVELS  # the pieces that a row is parted into: of k they are 2k and 2k + 1
_WORDS = len(_JOB) + 2 * _NODES


def _job(code: Code, *names: str) -> tuple[Value, ...]:
    """What threads share: arguments, codes and places, and where pieces are."""
    out = []
    for name in names:
        at = code.let(f"getelementptr i64, ptr %job, i64 {_JOB.index(name)}")
        out.append(code.let(f"load {'i64' if name in ('fs', 'depth') else 'ptr'}, ptr {at}"))
    return tuple(out)


def _spans(code: Code, node: Value, job: Value = "%job") -> tuple[Value, Value]:
    """Where it is kept where a piece begins and how long it is."""
    at = code.let(f"shl i64 {node}, 1")
    at = code.let(f"add i64 {at}, {len(_JOB)}")
    first = code.let(f"getelementptr i64, ptr {job}, i64 {at}")
    return first, code.let(f"getelementptr i64, ptr {first}, i64 1")


def _array(code: Code, s: Shape) -> Element:
    return _job(code, "codes", "places")[: s.parts]


def _part(s: Shape) -> str:
    """Each of these pieces becomes two."""
    code = Code()
    array = _array(code, s)
    with counted(code, "%low", "%high") as node:
        start, n = (code.let(f"load i64, ptr {p}") for p in _spans(code, node))
        of = moved(code, s, array, start)
        pivot = pivots(s, middle(code, s, of, n))
        low = code.let(f"call i64 @less({passed(of)}, i64 {n}, {pivot})")
        left = code.let(f"shl i64 {node}, 1")
        right = code.let(f"add i64 {left}, 1")
        second = code.let(f"add i64 {start}, {low}")
        rest = code.let(f"sub i64 {n}, {low}")
        for child, where, count in ((left, start, low), (right, second, rest)):
            for p, x in zip(_spans(code, child), (where, count), strict=True):
                code.put(f"store i64 {x}, ptr {p}")
    code.put("ret i64 0")
    return function("i64 @part(ptr %job, i64 %low, i64 %high, i64 %chunk)", code)


def _piece(s: Shape) -> str:
    """These pieces are put in order."""
    code = Code()
    array = _array(code, s)
    to, depth = _job(code, "to", "depth")
    with counted(code, "%low", "%high") as node:
        start, n = (code.let(f"load i64, ptr {p}") for p in _spans(code, node))
        places = [moved(code, s, x, start) for x in (array, (to,))]
        with only_if(code, code.let(f"icmp sgt i64 {n}, 0")):
            status = code.let(f"call i64 @sort({passed(*places)}, i64 {n}, i64 {depth})")
            with returning_if(code, code.let(f"icmp ne i64 {status}, 0")):
                code.put(f"ret i64 {status}")
    code.put("ret i64 0")
    return function("i64 @piece(ptr %job, i64 %low, i64 %high, i64 %chunk)", code)


def _row(s: Shape) -> str:
    """All of it, by this thread or by all that are free."""
    code = Code()
    array = _array(code, s)
    to, depth = _job(code, "to", "depth")
    with returning_if(code, "%little"):
        code.put("call i64 @encode(ptr %job, i64 0, i64 %n, i64 -1)")
        code.put(f"call void @few({passed(array, (to,))}, i64 %n)")
        code.put("ret i64 0")
    many = code.let(f"icmp sge i64 %n, {THREADS}")
    here, shared, ready = code.label("here"), code.label("shared"), code.label("ready")
    code.branch(many, shared, here)
    code.begin(here)
    code.put("call i64 @encode(ptr %job, i64 0, i64 %n, i64 0)")
    code.jump(ready)
    code.begin(shared)
    _together(code, "encode", "0", "%n", THREADS // 4)
    code.jump(ready)
    code.begin(ready)
    with returning_if(code, code.let(f"call i1 @settled(ptr {array[0]}, i64 %n)")):
        code.put(f"call void @copied(ptr {array[-1]}, ptr {to}, i64 %n)")
        code.put("ret i64 0")
    with returning_if(code, code.let(f"xor i1 {many}, true")):
        given = f"{passed(array, (to,))}, i64 %n, i64 {depth}"
        code.put(f"ret i64 {code.let(f'call i64 @sort({given})')}")
    for p, x in zip(_spans(code, "1"), ("0", "%n"), strict=True):
        code.put(f"store i64 {x}, ptr {p}")
    for level in range(LEVELS):
        _together(code, "part", str(1 << level), str(2 << level))
    _together(code, "piece", str(_NODES // 2), str(_NODES))
    code.put("ret i64 0")
    return function("i64 @row(ptr %job, i64 %n, i1 %little)", code, more="noinline")


def _together(code: Code, name: str, low: Value, high: Value, grain: int = 1) -> None:
    """By all threads; the function is left if that fails."""
    call = f"call i64 @nap_parallel(ptr @{name}, ptr %job, i64 {low}, i64 {high}, i64 {grain})"
    status = code.let(call)
    with returning_if(code, code.let(f"icmp ne i64 {status}, 0")):
        code.put(f"ret i64 {status}")


def _entry(s: Shape, dtype: DType, few: int) -> str:
    """Where codes and places are: on the stack, if they are few, since `to` must not be written
    beyond its end; else what goes there last is in `to`, if that is contiguous, and what else there
    is in memory of the call's own."""
    code, size = Code(), s.bits // 8
    near = code.first(f"alloca [{few * s.parts} x {s.scalar}], align 64")
    job = code.first(f"alloca [{_WORDS} x i64], align 64")
    with returning_if(code, code.let("icmp slt i64 %n, 1")):
        code.put("ret i64 0")
    side = code.let("icmp eq i64 %ts, 1")
    little = code.let(f"icmp sle i64 %n, {few}")
    each = code.let(f"select i1 {side}, i64 {(s.parts - 1) * size}, i64 {s.parts * size}")
    need = code.let(f"select i1 {little}, i64 0, i64 {each}")
    own, ready = code.label("own"), code.label("ready")
    before_ = code.block
    code.branch(code.let(f"icmp eq i64 {need}, 0"), ready, own)
    code.begin(own)
    made = code.let(f"call ptr @nap_alloc(i64 {code.let(f'mul i64 %n, {need}')})")
    with returning_if(code, code.let(f"icmp eq ptr {made}, null")):
        code.put("ret i64 -2")
    after = code.block
    code.jump(ready)
    code.begin(ready)
    memory = code.let(f"phi ptr [ {near}, %{before_} ], [ {made}, %{after} ]")
    apart = code.let(f"select i1 {little}, i64 {few}, i64 %n")
    *first, own_last = (memory, *moved(code, s, (memory,), apart))[: s.parts]
    last = code.let(f"select i1 {side}, ptr %to, ptr {own_last}")
    held = (*first, code.let(f"select i1 {little}, ptr {own_last}, ptr {last}"))
    width = code.let("call i64 @llvm.ctlz.i64(i64 %n, i1 false)")
    depth = code.let(f"mul i64 {code.let(f'sub i64 64, {width}')}, {DEPTH}")
    words = ("%of", "%fs", last, held[0], held[-1], depth)
    for name, value in zip(_JOB, words, strict=True):
        type = "i64" if name in ("fs", "depth") else "ptr"
        at = code.let(f"getelementptr i64, ptr {job}, i64 {_JOB.index(name)}")
        code.put(f"store {type} {value}, ptr {at}")
    status = code.let(f"call i64 @row(ptr {job}, i64 %n, i1 {little})")
    with only_if(code, code.let("icmp ne i64 %ts, 1")), counted(code, "0", "%n") as k:
        (x,) = read(code, s.scalar, (last,), k)
        write(code, s.scalar, (x,), ("%to",), code.let(f"mul nsw i64 {k}, %ts"))
    with only_if(code, code.let(f"icmp ne i64 {need}, 0")):
        code.put(f"call void @nap_free(ptr {memory})")
    code.put(f"ret i64 {status}")
    name = Row(dtype, s.parts > 1).symbol
    return function(f"i64 @{name}(i64 %n, ptr %to, i64 %ts, ptr %of, i64 %fs)", code, False)
