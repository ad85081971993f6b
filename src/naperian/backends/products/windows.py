"""The product of a matrix with windows of arrays, which are copied a panel at a time.

    @windows (m, n, k, C, cm, A, am, ak, B, bk, bn, at, add, to, run)

B[p, j] is `at[p]` + `to[j / run]` + (j % run)·`bn` elements after the first one: windows of an
image, row after row. A panel goes on in the next row where one ends, so that no lane is idle, and
its copy is what all rows of A read. Meanwhile the next one is fetched: to copy it from the
third-level cache, or from memory, takes longer than to multiply. Where few rows would read the
copy, or runs end where vectors do, each run is a product that reads where the array is.

Runs of columns are copied as they are. Short ones with long runs along the sum, as a layer's
weights have in its gradient, are turned: squares of as many columns, in registers.
"""

from __future__ import annotations

from naperian.backends.code import REGISTER, Code, Value
from naperian.backends.products.microkernel import (
    LINE,
    Tile,
    add,
    below,
    counted,
    element,
    function,
    least,
    masked_load,
    mul,
    only_if,
    returning_if,
    sub,
)
from naperian.backends.products.packing import DEPTH
from naperian.backends.products.shares import PRODUCT
from naperian.backends.products.turned import transposed

COPY = 4  # rows of A, for which a product takes as long as a copy
LONGER = 3  # times as long as a run of columns is one along the sum that is worth turning


def windows(t: Tile) -> str:
    """Run by run where they are, or DEPTH rows of B after the other, panel by panel."""
    code = Code()
    _if_in_place(code, t)
    panel = code.first(f"alloca [{DEPTH * t.columns} x {REGISTER[t.dtype]}], align 64")
    some = code.let("call i64 @llvm.smax.i64(i64 %k, i64 1)")  # of no rows the sum is 0
    most = add(code, "%n", -1)
    with counted(code, "0", some, DEPTH) as p:
        k = least(code, sub(code, "%k", p), DEPTH)
        first = code.let(f"icmp eq i64 {p}, 0")
        adds = code.let(f"select i1 {first}, i64 %add, i64 1")
        given = code.let(f"getelementptr i64, ptr %at, i64 {p}")
        a = element(code, t, "%a", (p, "%ak"))
        long = code.let(f"call i64 @run(i64 {k}, ptr {given})")
        turns = code.let(f"icmp sgt i64 {long}, {mul(code, '%run', LONGER)}")
        copies = code.let(f"xor i1 {turns}, true")
        with counted(code, "0", "%n", t.columns) as j:
            end = least(code, add(code, j, t.columns), "%n")
            with only_if(code, turns):
                code.put(
                    f"call void @turn.windows(i64 {j}, i64 {end}, i64 {k}, ptr %b, i64 %bn, "
                    f"ptr {given}, ptr %to, i64 %run, ptr {panel})"
                )
            with only_if(code, copies):
                _runs(code, t, j, end, k, given, panel)
            following = _column(code, t, least(code, end, most))
            code.put(
                f"call void @column(i64 %m, i64 {sub(code, '%n', j)}, i64 {k}, ptr {a}, i64 %am, "
                f"i64 %ak, ptr {panel}, ptr @packed, ptr {element(code, t, '%c', (j, 1))}, "
                f"i64 %cm, i64 {adds}, ptr {following}, ptr {given}, i64 {LINE})"
            )
    code.put("ret i64 0")
    return function(f"i64 @windows({PRODUCT}, ptr %to, i64 %run)", code)


def _if_in_place(code: Code, t: Tile) -> None:
    """Returns with the product, where nothing is worth a copy."""
    whole = code.let(f"and i64 {add(code, '%run', t.lanes - 1)}, {-t.lanes}")
    idle = mul(code, sub(code, whole, "%run"), "%m")
    here = code.let(f"icmp sle i64 {idle}, {mul(code, '%run', COPY)}")
    here = code.let(f"and i1 {here}, {code.let('icmp eq i64 %bn, 1')}")
    with returning_if(code, here):
        with counted(code, "0", "%n", "%run") as j:
            code.put(
                f"call i64 @small(i64 %m, i64 %run, i64 %k, ptr {element(code, t, '%c', (j, 1))}, "
                f"i64 %cm, ptr %a, i64 %am, i64 %ak, ptr {_column(code, t, j)}, i64 0, i64 1, "
                "ptr %at, i64 %add, i1 false)"
            )
        code.put("ret i64 0")


def _column(code: Code, t: Tile, j: Value) -> Value:
    """Where column j of B begins."""
    r = code.let(f"udiv i64 {j}, %run")
    away = code.let(f"load i64, ptr {code.let(f'getelementptr i64, ptr %to, i64 {r}')}")
    return element(code, t, "%b", (away, 1), (sub(code, j, mul(code, r, "%run")), "%bn"))


def _runs(
    code: Code, t: Tile, j: Value, end: Value, k: Value, given: Value, panel: Value
) -> None:
    """A panel from one run of columns after the other."""
    last = code.let(f"udiv i64 {add(code, end, -1)}, %run")
    with counted(code, code.let(f"udiv i64 {j}, %run"), add(code, last, 1)) as r:
        start = mul(code, r, "%run")
        low = code.let(f"call i64 @llvm.smax.i64(i64 {start}, i64 {j})")
        high = least(code, add(code, start, "%run"), end)
        code.put(
            f"call void @copy.run(i64 {sub(code, high, low)}, i64 {k}, "
            f"ptr {_column(code, t, low)}, i64 %bn, ptr {given}, i64 {sub(code, low, j)}, "
            f"ptr {panel})"
        )


def run() -> str:
    """How many elements from the first of a table on are one or two apart, as the first two."""
    code = Code()
    head, body, done = (code.label(x) for x in ("head", "body", "done"))
    code.jump(head)
    code.begin(head)
    code.put("%p = phi i64 [ 1, %entry ], [ %q, %" + body + " ]")
    code.put("%before = phi i64 [ 0, %entry ], [ %step, %" + body + " ]")
    code.branch(code.let("icmp slt i64 %p, %k"), body, done)
    code.begin(body)
    here = code.let("getelementptr i64, ptr %at, i64 %p")
    one, two = code.let(f"load i64, ptr {code.let(f'getelementptr i64, ptr {here}, i64 -1')}"), (
        code.let(f"load i64, ptr {here}")
    )
    code.put(f"%step = sub nsw i64 {two}, {one}")
    near = code.let(f"icmp ult i64 {add(code, '%step', -1)}, 2")
    same = code.let("icmp eq i64 %step, %before")
    same = code.let(f"or i1 {same}, {code.let('icmp eq i64 %p, 1')}")
    code.put("%q = add nsw i64 %p, 1")
    code.branch(code.let(f"and i1 {near}, {same}"), head, done)
    code.begin(done)
    code.put("ret i64 %p")
    return function("i64 @run(i64 %k, ptr noalias readonly %at)", code, more="noinline")


def copy_run(t: Tile) -> str:
    """panel[p, first + j] = B[at[p] + j·bn] for up to `columns` columns j of one run. What a vector
    writes beyond them is written again with the next run, except at the panel's end."""
    code, e = Code(), REGISTER[t.dtype]
    for step in (1, 2):
        for vectors in range(1, t.vectors + 1):
            here = code.let(f"icmp eq i64 %bn, {step}")
            few = code.let(f"icmp sle i64 %n, {vectors * t.lanes}")
            with returning_if(code, code.let(f"and i1 {here}, {few}")):
                last = add(code, "%first", vectors * t.lanes)
                inside = code.let(f"icmp sle i64 {last}, {t.columns}")
                if t.lanes * t.dtype.bytes < LINE:  # masked stores take long
                    with only_if(code, inside):
                        _copies(code, t, step, vectors, whole=True)
                    inside = code.let(f"xor i1 {inside}, true")
                    with only_if(code, inside):
                        _copies(code, t, step, vectors)
                else:
                    _copies(code, t, step, vectors)
                code.put("ret void")
    with counted(code, "0", "%k") as p, counted(code, "0", "%n") as j:
        x = code.let(f"load {e}, ptr {element(code, t, _row(code, t, p), (j, '%bn'))}")
        code.put(f"store {e} {x}, ptr {element(code, t, _there(code, t, p), (j, 1))}")
    code.put("ret void")
    return function(
        "void @copy.run(i64 %n, i64 %k, ptr noalias readonly %b, i64 %bn, "
        "ptr noalias readonly %at, i64 %first, ptr noalias %panel)",
        code,
        more="noinline",
    )


def turn_windows(t: Tile) -> str:
    """A panel of columns low … high-1, runs along the sum in pieces of as many as a vector has
    lanes. Beyond the last column it is there again."""
    code = Code()
    last, width = add(code, "%high", -1), sub(code, "%high", "%low")
    with counted(code, "0", width, t.lanes) as j:
        columns = [_column(code, t, least(code, add(code, add(code, "%low", j), q), last))
                   for q in range(t.lanes)]  # fmt: skip
        some = code.name()
        with counted(code, "0", "%k", some) as p:
            given = code.let(f"getelementptr i64, ptr %at, i64 {p}")
            most = least(code, sub(code, "%k", p), t.lanes)
            code.put(f"{some} = call i64 @run(i64 {most}, ptr {given})")
            away = code.let(f"load i64, ptr {given}")
            two = code.let(f"icmp sgt i64 {some}, 1")
            following = code.let(f"select i1 {two}, i64 1, i64 0")
            following = code.let(f"getelementptr i64, ptr {given}, i64 {following}")
            step = sub(code, code.let(f"load i64, ptr {following}"), away)
            to = element(code, t, "%panel", (p, t.columns), (j, 1))
            wide = code.let(f"icmp eq i64 {step}, 2")
            near = code.let(f"xor i1 {wide}, true")
            for apart, here in ((1, near), (2, wide)):
                with only_if(code, here):
                    _turn(code, t, columns, away, some, apart, to)
    code.put("ret void")
    return function(
        "void @turn.windows(i64 %low, i64 %high, i64 %k, ptr noalias readonly %b, i64 %bn, "
        "ptr noalias readonly %at, ptr noalias readonly %to, i64 %run, ptr noalias %panel)",
        code,
        more="noinline",
    )


def _turn(
    code: Code, t: Tile, columns: list[Value], away: Value, some: Value, step: int, to: Value
) -> None:
    """Some elements of every column, which become rows of a panel."""
    reach = add(code, mul(code, some, step), 1 - step)
    masks = [_kept(code, t, sub(code, reach, str(q * t.lanes))) for q in range(step)]
    square = []
    for x in columns:
        b = element(code, t, x, (away, 1))
        parts = [masked_load(code, t, element(code, t, b, (str(q * t.lanes), 1)), masks[q])
                 for q in range(step)]  # fmt: skip
        square.append(_thinned(code, t, parts))
    rows = transposed(code, t.vector, square)
    done = code.label("turned")
    for q, x in enumerate(rows):
        code.put(f"store {t.vector} {x}, ptr {element(code, t, to, (str(q), t.columns))}, "
                 f"align {t.dtype.bytes}")  # fmt: skip
        if q + 1 < t.lanes:
            more = code.label("more")
            code.branch(code.let(f"icmp sgt i64 {some}, {q + 1}"), more, done)
            code.begin(more)
    code.jump(done)
    code.begin(done)


def _thinned(code: Code, t: Tile, parts: list[Value]) -> Value:
    """Every second element of two vectors, or one as it is."""
    if len(parts) == 1:
        return parts[0]
    order = ", ".join(f"i32 {2 * q}" for q in range(t.lanes))
    return code.let(f"shufflevector {t.vector} {parts[0]}, {t.vector} {parts[1]}, "
                    f"<{t.lanes} x i32> <{order}>")  # fmt: skip


def _row(code: Code, t: Tile, p: Value) -> Value:
    far = code.let(f"load i64, ptr {code.let(f'getelementptr i64, ptr %at, i64 {p}')}")
    return element(code, t, "%b", (far, 1))


def _there(code: Code, t: Tile, p: Value) -> Value:
    return element(code, t, "%panel", (p, t.columns), ("%first", 1))


def _copies(code: Code, t: Tile, step: int, vectors: int, whole: bool = False) -> None:
    """Some vectors of every row of the panel, of elements that are `step` apart. Of the last one
    there are not all, but all may be written."""
    align, suffix = t.dtype.bytes, f"v{t.lanes}f{t.dtype.bits}"
    left = sub(code, "%n", str((vectors - 1) * t.lanes))
    reach = add(code, mul(code, left, step), 1 - step)
    masks = [_kept(code, t, sub(code, reach, str(q * t.lanes))) for q in range(step)]
    mask = _kept(code, t, left)
    with counted(code, "0", "%k") as p:
        row, to = _row(code, t, p), _there(code, t, p)
        for w in range(vectors):
            parts = []
            for q in range(step):
                at = element(code, t, row, (str((w * step + q) * t.lanes), 1))
                if w < vectors - 1:
                    parts.append(code.let(f"load {t.vector}, ptr {at}, align {align}"))
                else:
                    parts.append(masked_load(code, t, at, masks[q]))
            x = _thinned(code, t, parts)
            place = element(code, t, to, (str(w * t.lanes), 1))
            if whole or w < vectors - 1:
                code.put(f"store {t.vector} {x}, ptr {place}, align {align}")
            else:
                code.put(f"call void @llvm.masked.store.{suffix}.p0({t.vector} {x}, "
                         f"ptr align {align} {place}, <{t.lanes} x i1> {mask})")  # fmt: skip


def _kept(code: Code, t: Tile, n: Value) -> Value:
    """A mask that is not computed again in every round."""
    return code.let(f"freeze <{t.lanes} x i1> {below(code, t, n)}")
