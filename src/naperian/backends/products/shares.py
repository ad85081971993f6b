"""Who makes which part of a product that is not small: blocks of rows, or panels of columns."""

from __future__ import annotations

from naperian.backends.code import REGISTER, Code, Value
from naperian.backends.products.microkernel import (
    LINE,
    Tile,
    add,
    counted,
    element,
    function,
    least,
    mul,
    only_if,
    returning_if,
    sub,
)
from naperian.backends.products.packing import BLOCK, DEPTH, JOB, POINTERS, apart, beside, job

LEAST = 2  # tiles of rows in a block
CHUNKS = 16  # blocks that there are at least, if there are rows enough
BESIDE = 2  # panels that are copied together, along rows of B
WIDTH = 4096  # columns per copied block of B, about
NARROW = 4  # panels of B that do not repay a copy of A's rows, read once a panel
NEAR = 1 << 20  # bytes that stay in the second-level cache: of B, what is next is fetched beyond
FEW = 64  # tiles of rows that may be read where they are, if they stay in that cache
WORK = 4  # multiplications take as long as an addition elsewhere, at least

PRODUCT = (
    "i64 %m, i64 %n, i64 %k, ptr %c, i64 %cm, ptr %a, i64 %am, i64 %ak, ptr %b, i64 %bk, "
    "i64 %bn, ptr %at, i64 %add"
)


def block_of_rows(t: Tile) -> str:
    """Blocks of rows low … high-1 against all panels."""
    code = Code()
    names = ("m", "n", "k", "c", "cm", "a", "am", "ak", "panels", "add", "rows")
    m, n, k, c, cm, a, am, ak, panels, add, block = job(code, *names)
    copy = code.first(f"alloca [{t.rows * BLOCK * apart(t)} x {REGISTER[t.dtype]}], align 64")
    by_rows = code.let(f"icmp eq i64 {ak}, 1")
    pm = code.let(f"select i1 {by_rows}, i64 {apart(t)}, i64 1")
    pk = code.let(f"select i1 {by_rows}, i64 1, i64 {t.rows * BLOCK}")
    narrow = code.let(f"icmp sle i64 {n}, {NARROW * t.columns}")
    stays = code.let(f"and i1 {narrow}, {by_rows}")
    moves = code.let(f"xor i1 {stays}, true")
    pm = code.let(f"select i1 {stays}, i64 {am}, i64 {pm}")
    size = mul(code, k, t.columns)
    far = code.let(f"icmp sgt i64 {mul(code, n, k)}, {NEAR // t.dtype.bytes}")
    with counted(code, "%low", "%high") as at:
        i = mul(code, at, block)
        status = code.let("call i64 @nap_poll()")
        with returning_if(code, code.let(f"icmp ne i64 {status}, 0")):
            code.put(f"ret i64 {status}")
        rows = least(code, sub(code, m, i), block)
        there = element(code, t, a, (i, am))
        with only_if(code, moves):
            code.put(
                f"call void @copy.rows(i64 {rows}, i64 {k}, ptr {there}, i64 {am}, i64 {ak}, "
                f"ptr {copy})"
            )
        here = code.let(f"select i1 {moves}, ptr {copy}, ptr {there}")
        ci = element(code, t, c, (i, cm))
        with counted(code, "0", n, t.columns) as j:
            p = code.let(f"udiv i64 {j}, {t.columns}")
            panel = element(code, t, panels, (p, size))
            ahead = code.let(f"select i1 {far}, ptr {element(code, t, panel, (size, 1))}, ptr null")
            code.put(
                f"call void @column(i64 {rows}, i64 {sub(code, n, j)}, i64 {k}, ptr {here}, "
                f"i64 {pm}, i64 {pk}, ptr {panel}, ptr @packed, "
                f"ptr {element(code, t, ci, (j, 1))}, i64 {cm}, i64 {add}, ptr {ahead}, "
                f"ptr @lines, i64 {mul(code, k, LINE)})"
            )
    code.put("ret i64 0")
    return function("i64 @rows(ptr %job, i64 %low, i64 %high, i64 %chunk)", code)


def large(t: Tile) -> str:
    """Blocks of B, copied; then all rows against each."""
    code = Code()
    width = max(1, WIDTH // t.columns) * t.columns
    job = code.first(f"alloca [{len(JOB)} x i64], align 64")
    slots = {}
    for at, name in enumerate(JOB):
        slots[name] = code.first(f"getelementptr i64, ptr {job}, i64 {at}")

    def put(name: str, value: Value) -> None:
        type = "ptr" if name in POINTERS else "i64"
        code.put(f"store {type} {value}, ptr {slots[name]}")

    for name in ("m", "cm", "am", "ak", "bk", "bn"):
        put(name, f"%{name}")
    wide = least(code, code.let(f"add nsw i64 %n, {t.columns - 1}"), width)
    deep = least(code, "%k", DEPTH)
    bytes = mul(code, mul(code, wide, deep), t.dtype.bytes)
    panels = code.let(f"call ptr @nap_alloc(i64 {bytes})")
    with returning_if(code, code.let(f"icmp eq ptr {panels}, null")):
        code.put("ret i64 -2")
    put("panels", panels)
    # the blocks of rows are as many for two threads, and whole if there are many
    tiles = code.let(f"udiv i64 {add(code, '%m', t.rows - 1)}, {t.rows}")
    some = code.let(f"udiv i64 {add(code, tiles, CHUNKS - 1)}, {CHUNKS}")
    some = least(code, code.let(f"call i64 @llvm.smax.i64(i64 {some}, i64 {LEAST})"), BLOCK)
    block = mul(code, some, t.rows)
    put("rows", block)
    blocks = code.let(f"udiv i64 {sub(code, add(code, '%m', block), '1')}, {block}")
    leave = code.label("leave")
    stops = []
    with counted(code, "0", "%n", width) as j:
        n = least(code, sub(code, "%n", j), width)
        put("n", n)
        put("c", element(code, t, "%c", (j, 1)))
        count = code.let(f"udiv i64 {add(code, n, t.columns - 1)}, {t.columns}")
        with counted(code, "0", "%k", DEPTH) as p:
            k = least(code, sub(code, "%k", p), DEPTH)
            put("k", k)
            put("a", element(code, t, "%a", (p, "%ak")))
            put("b", element(code, t, "%b", (p, "%bk"), (j, "%bn")))
            first = code.let(f"icmp eq i64 {p}, 0")
            put("add", code.let(f"select i1 {first}, i64 %add, i64 1"))
            code.put(
                f"call i64 @nap_parallel(ptr @copy.panels, ptr {job}, i64 0, i64 {count}, "
                f"i64 {BESIDE})"
            )
            work = mul(code, mul(code, n, k), block)
            grain = code.let(f"call i64 @nap_grain(i64 {code.let(f'udiv i64 {work}, {WORK}')})")
            status = code.let(
                f"call i64 @nap_parallel(ptr @rows, ptr {job}, i64 0, i64 {blocks}, i64 {grain})"
            )
            go = code.label("go")
            stops.append((status, code.block))
            code.branch(code.let(f"icmp ne i64 {status}, 0"), leave, go)
            code.begin(go)
    stops.append(("0", code.block))
    code.jump(leave)
    code.begin(leave)
    sources = ", ".join(f"[ {value}, %{block} ]" for value, block in stops)
    status = code.let(f"phi i64 {sources}")
    code.put(f"call void @nap_free(ptr {panels})")
    code.put(f"ret i64 {status}")
    return function(f"i64 @large({PRODUCT})", code)


def wide(t: Tile) -> str:
    """Few rows: threads take panels and copy each where it is used, into their nearest cache, or
    read it where it is. A's rows stay in the second-level cache."""
    code = Code()
    job = code.first(f"alloca [{len(JOB)} x i64], align 64")
    for name in ("m", "n", "k", "c", "cm", "a", "am", "ak", "b", "bk", "bn", "add"):
        at = code.let(f"getelementptr i64, ptr {job}, i64 {JOB.index(name)}")
        code.put(f"store {'ptr' if name in POINTERS else 'i64'} %{name}, ptr {at}")
    count = code.let(f"udiv i64 {add(code, '%n', t.columns - 1)}, {t.columns}")
    work = mul(code, mul(code, "%m", "%k"), t.columns // WORK)
    grain = code.let(f"call i64 @nap_grain(i64 {work})")
    grain = code.let(f"call i64 @llvm.smax.i64(i64 {grain}, i64 {beside(t)})")
    status = code.let(
        f"call i64 @nap_parallel(ptr @panels, ptr {job}, i64 0, i64 {count}, i64 {grain})"
    )
    code.put(f"ret i64 {status}")
    return function(f"i64 @wide({PRODUCT})", code)


def stays(code: Code, t: Tile) -> Value:
    """Whether A's rows are no more than there are columns, and stay near; panels enough to be
    shared out."""
    part = mul(code, "%m", least(code, "%k", DEPTH))
    answer = code.let(f"icmp sle i64 {part}, {NEAR // t.dtype.bytes}")
    for condition in (
        f"sle i64 %m, {FEW * t.rows}", "sle i64 %m, %n", f"sgt i64 %n, {3 * t.columns}",
    ):  # fmt: skip
        answer = code.let(f"and i1 {answer}, {code.let(f'icmp {condition}')}")
    return answer


def some_panels(t: Tile) -> str:
    """All rows against panels low … high-1."""
    code = Code()
    names = ("m", "n", "k", "c", "cm", "a", "am", "ak", "b", "bk", "bn", "add")
    m, n, k, c, cm, a, am, ak, b, bk, bn, add_up = job(code, *names)
    again = code.let(f"icmp sgt i64 {m}, {t.rows}")  # a second tile reads what the first has read
    j, past = mul(code, "%low", t.columns), mul(code, "%high", t.columns)
    columns = sub(code, least(code, past, n), j)
    status = code.let(
        f"call i64 @small(i64 {m}, i64 {columns}, i64 {k}, ptr {element(code, t, c, (j, 1))}, "
        f"i64 {cm}, ptr {a}, i64 {am}, i64 {ak}, ptr {element(code, t, b, (j, bn))}, i64 {bk}, "
        f"i64 {bn}, ptr null, i64 {add_up}, i1 {again})"
    )
    code.put(f"ret i64 {status}")
    return function("i64 @panels(ptr %job, i64 %low, i64 %high, i64 %chunk)", code)
