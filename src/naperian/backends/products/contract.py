"""The product of two matrices: C[m, n] (+)= Σ_k A[m, k]·B[k, n], any strides.

    i64 @nap_contract_f64(m, n, k, C, cm, cn, A, am, ak, B, bk, bn, at, add)

One module per dtype and machine, compiled once and called by every kernel. Goto's algorithm: B is
copied a block of DEPTH rows at a time into panels as wide as the micro-kernel; threads take
blocks of rows of A, copy them if there are panels enough, and run the micro-kernel over all
panels, of which the next is fetched meanwhile. The micro-kernel holds a tile of C, `rows` by
`vectors`, in registers; rows beyond the edge repeat the last one and are not written, columns
beyond it are masked. Small products skip the copies; of few rows, threads take panels of B and copy
each where it is used, if it is read more than once. The sum over k runs in the same order whatever
the number of threads.

With a table, B[k, j] is `at[k] + j` elements after its first one: rows of B are windows of an array
and are read where they are. C is stored by rows then.
"""

from __future__ import annotations

from naperian.backends.code import REGISTER, Code, Value
from naperian.backends.llvm import AS_WRITTEN
from naperian.backends.products.microkernel import (
    Tile,
    add,
    below,
    counted,
    element,
    function,
    half,
    least,
    masked_load,
    micro_kernel,
    mul,
    only_if,
    returning_if,
    row_of_tiles,
    sub,
    tile,
)
from naperian.backends.products.turned import transposed
from naperian.backends.target import Target, host
from naperian.dtypes import DType

DEPTH = 512  # of the sum, per block: rows of B beside each other, and a tile's part of A
BLOCK = 8  # tiles of rows that one copy of A holds: it stays in the second-level cache
LEAST = 2  # tiles of rows in a block
CHUNKS = 16  # blocks that there are at least, if there are rows enough
BESIDE = 2  # panels that are copied together, along rows of B
WIDTH = 4096  # columns per copied block of B, about
NARROW = 4  # panels of B that do not repay a copy of A's rows, read once a panel
NEAR = 1 << 20  # bytes of B that stay in the second-level cache: what is next is fetched beyond
SMALL = 1 << 21  # multiplications up to which nothing is copied: about 128 by 128 by 128
FEW = 64  # tiles of rows that may be read where they are, if they stay in that cache
WORK = 4  # multiplications take as long as an addition elsewhere, at least


def contract_module(dtype: DType, target: Target | None = None) -> str:
    """The module that defines `@nap_contract_f64` or `@nap_contract_f32`."""
    target = target or host()
    t = tile(dtype, target)
    kernels = [micro_kernel(t, f"edge{v}", v, masked=True) for v in range(1, t.vectors + 1)]
    return AS_WRITTEN + "\n\n".join(
        [
            _DECLARATIONS,
            _packed(t),
            *kernels,
            micro_kernel(t, "tile", t.vectors),
            micro_kernel(t, "ahead", t.vectors, ahead=True),
            micro_kernel(half(t), "half", t.vectors),
            row_of_tiles(t),
            _copy_panel(t),
            _copy_turned(t),
            _copy_whole(t),
            _copy_panels(t),
            _copy_rows(t),
            _block_of_rows(t),
            _small(t),
            _large(t),
            _some_panels(t),
            _wide(t),
            _entry(t),
            f"attributes #0 = {{ {target.attributes} }}",
        ]
    )


_DECLARATIONS = """\
declare i64 @nap_parallel(ptr, ptr, i64, i64, i64) nounwind
declare i64 @nap_grain(i64) nounwind willreturn memory(none)
declare i64 @nap_poll() nounwind
declare noalias ptr @nap_alloc(i64) nounwind
declare void @nap_free(ptr) nounwind"""


def _packed(t: Tile) -> str:
    """Where the rows of a panel are."""
    places = ", ".join(f"i64 {p * t.columns}" for p in range(DEPTH))
    return f"@packed = internal constant [{DEPTH} x i64] [{places}]"


# --- copies -------------------------------------------------------------------------------------


def _copy_panel(t: Tile) -> str:
    """to[k·columns + j] = B[k, j] for up to `columns` columns, 0 beyond n."""
    code, e = Code(), REGISTER[t.dtype]
    size = t.dtype.bytes
    unit = code.let("icmp eq i64 %bn, 1")
    full = code.let(f"icmp sge i64 %n, {t.columns}")
    with returning_if(code, code.let(f"and i1 {unit}, {full}")):
        code.put("call void @copy.whole(i64 1, i64 %k, ptr %b, i64 %bk, ptr %to)")
        code.put("ret void")
    with returning_if(code, unit):
        left = [sub(code, "%n", str(w * t.lanes)) for w in range(t.vectors)]
        masks = [below(code, t, n) for n in left]
        with counted(code, "0", "%k") as p:
            b = element(code, t, "%b", (p, "%bk"))
            to = element(code, t, "%to", (p, t.columns))
            for w in range(t.vectors):
                source = element(code, t, b, (str(w * t.lanes), 1))
                x = masked_load(code, t, source, masks[w])
                place = element(code, t, to, (str(w * t.lanes), 1))
                code.put(f"store {t.vector} {x}, ptr {place}, align {size}")
        code.put("ret void")
    along = code.let("icmp eq i64 %bk, 1")
    long = code.let(f"icmp sge i64 %k, {t.lanes}")
    with returning_if(code, code.let(f"and i1 {along}, {long}")):
        code.put("call void @copy.turned(i64 %n, i64 %k, ptr %b, i64 %bn, ptr %to)")
        code.put("ret void")
    have = least(code, "%n", t.columns)
    with counted(code, "0", have) as j, counted(code, "0", "%k") as p:
        x = code.let(f"load {e}, ptr {element(code, t, '%b', (j, '%bn'), (p, '%bk'))}")
        code.put(f"store {e} {x}, ptr {element(code, t, '%to', (j, 1), (p, t.columns))}")
    with counted(code, have, str(t.columns)) as j, counted(code, "0", "%k") as p:
        code.put(f"store {e} 0.0, ptr {element(code, t, '%to', (j, 1), (p, t.columns))}")
    code.put("ret void")
    return function(
        "void @copy.panel(i64 %n, i64 %k, ptr noalias readonly %b, i64 %bk, i64 %bn, "
        "ptr noalias %to)",
        code,
        more="noinline",
    )


def _copy_turned(t: Tile) -> str:
    """A panel of columns that are contiguous, of which each has a vector at least: squares of as
    many columns are turned in registers. The last square of a column may overlap the one before;
    beyond n is the last column again."""
    code, size = Code(), t.dtype.bytes
    last, end = add(code, "%n", -1), add(code, "%k", -t.lanes)
    have = least(code, "%n", t.columns)
    with counted(code, "0", have, t.lanes) as j:
        columns = []
        for q in range(t.lanes):
            columns.append(element(code, t, "%b", (least(code, add(code, j, q), last), "%bn")))
        to = element(code, t, "%to", (j, 1))
        with counted(code, "0", "%k", t.lanes) as p:
            p = least(code, p, end)
            square = [
                code.let(f"load {t.vector}, ptr {element(code, t, x, (p, 1))}, align {size}")
                for x in columns
            ]
            for q, x in enumerate(transposed(code, t.vector, square)):
                place = element(code, t, to, (add(code, p, q), t.columns))
                code.put(f"store {t.vector} {x}, ptr {place}, align {size}")
    code.put("ret void")
    return function(
        "void @copy.turned(i64 %n, i64 %k, ptr noalias readonly %b, i64 %bn, ptr noalias %to)",
        code,
        more="noinline",
    )


def _copy_whole(t: Tile) -> str:
    """Some whole panels, which lie beside each other in rows of B, and are k·columns apart."""
    code = Code()
    far = mul(code, "%k", t.columns)
    with counted(code, "0", "%k") as p, counted(code, "0", "%some") as q:
        b = element(code, t, "%b", (p, "%bk"), (q, t.columns))
        to = element(code, t, "%to", (p, t.columns), (q, far))
        for w in range(t.vectors):
            source = element(code, t, b, (str(w * t.lanes), 1))
            x = code.let(f"load {t.vector}, ptr {source}, align {t.dtype.bytes}")
            place = element(code, t, to, (str(w * t.lanes), 1))
            code.put(f"store {t.vector} {x}, ptr {place}, align {t.dtype.bytes}")
    code.put("ret void")
    return function(
        "void @copy.whole(i64 %some, i64 %k, ptr noalias readonly %b, i64 %bk, ptr noalias %to)",
        code,
        more="noinline",
    )


_JOB = ("m", "n", "k", "c", "cm", "a", "am", "ak", "b", "bk", "bn", "panels", "add", "rows")
"""What the threads of a large product share, in 8-byte words; a, b, c and n of the block; how many
rows of A are copied at a time."""
_POINTERS = ("c", "a", "b", "panels")


def _job(code: Code, *names: str) -> list[Value]:
    out = []
    for name in names:
        at = code.let(f"getelementptr i64, ptr %job, i64 {_JOB.index(name)}")
        out.append(code.let(f"load {'ptr' if name in _POINTERS else 'i64'}, ptr {at}"))
    return out


def _copy_panels(t: Tile) -> str:
    """Panels low … high-1 of the block of B."""
    code = Code()
    n, k, b, bk, bn, panels = _job(code, "n", "k", "b", "bk", "bn", "panels")
    size = mul(code, k, t.columns)
    whole = code.let(f"udiv i64 {n}, {t.columns}")
    along = least(code, sub(code, whole, "%low"), sub(code, "%high", "%low"))
    along = code.let(f"select i1 {code.let(f'icmp eq i64 {bn}, 1')}, i64 {along}, i64 0")
    code.put(
        f"call void @copy.whole(i64 {along}, i64 {k}, "
        f"ptr {element(code, t, b, (mul(code, '%low', t.columns), bn))}, i64 {bk}, "
        f"ptr {element(code, t, panels, ('%low', size))})"
    )
    with counted(code, add(code, "%low", along), "%high") as p:
        j = mul(code, p, t.columns)
        code.put(
            f"call void @copy.panel(i64 {sub(code, n, j)}, i64 {k}, "
            f"ptr {element(code, t, b, (j, bn))}, i64 {bk}, i64 {bn}, "
            f"ptr {element(code, t, panels, (p, size))})"
        )
    code.put("ret i64 0")
    return function("i64 @copy.panels(ptr %job, i64 %low, i64 %high, i64 %chunk)", code)


def _copy_rows(t: Tile) -> str:
    """Up to BLOCK tiles of rows of A, as rows of DEPTH + a little: rows a power of two apart would
    all fall into the same places of the cache. If A is stored by columns, the copy is, too."""
    code, e = Code(), REGISTER[t.dtype]
    by_rows = code.let("icmp eq i64 %ak, 1")
    with returning_if(code, by_rows):
        with counted(code, "0", "%m") as i:
            a = element(code, t, "%a", (i, "%am"))
            to = element(code, t, "%to", (i, _apart(t)))
            bytes = mul(code, "%k", t.dtype.bytes)
            code.put(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {a}, i64 {bytes}, i1 false)")
        code.put("ret void")
    with returning_if(code, code.let("icmp eq i64 %am, 1")):
        bytes = mul(code, "%m", t.dtype.bytes)
        with counted(code, "0", "%k") as p:
            a = element(code, t, "%a", (p, "%ak"))
            to = element(code, t, "%to", (p, t.rows * BLOCK))
            code.put(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {a}, i64 {bytes}, i1 false)")
        code.put("ret void")
    with counted(code, "0", "%k") as p, counted(code, "0", "%m") as i:
        x = code.let(f"load {e}, ptr {element(code, t, '%a', (p, '%ak'), (i, '%am'))}")
        code.put(f"store {e} {x}, ptr {element(code, t, '%to', (p, t.rows * BLOCK), (i, 1))}")
    code.put("ret void")
    return function(
        "void @copy.rows(i64 %m, i64 %k, ptr noalias readonly %a, i64 %am, i64 %ak, "
        "ptr noalias %to)",
        code,
        more="noinline",
    )


def _apart(t: Tile) -> int:
    return DEPTH + 64 // t.dtype.bytes


# --- the products -------------------------------------------------------------------------------


def _block_of_rows(t: Tile) -> str:
    """Blocks of rows low … high-1 against all panels."""
    code = Code()
    names = ("m", "n", "k", "c", "cm", "a", "am", "ak", "panels", "add", "rows")
    m, n, k, c, cm, a, am, ak, panels, add, block = _job(code, *names)
    copy = code.first(f"alloca [{t.rows * BLOCK * _apart(t)} x {REGISTER[t.dtype]}], align 64")
    by_rows = code.let(f"icmp eq i64 {ak}, 1")
    pm = code.let(f"select i1 {by_rows}, i64 {_apart(t)}, i64 1")
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
                f"ptr {element(code, t, ci, (j, 1))}, i64 {cm}, i64 {add}, ptr {ahead})"
            )
    code.put("ret i64 0")
    return function("i64 @rows(ptr %job, i64 %low, i64 %high, i64 %chunk)", code)


_PRODUCT = (
    "i64 %m, i64 %n, i64 %k, ptr %c, i64 %cm, ptr %a, i64 %am, i64 %ak, ptr %b, i64 %bk, "
    "i64 %bn, ptr %at, i64 %add"
)


def _small(t: Tile) -> str:
    """DEPTH rows of B after the other. They are copied if they are not contiguous, or if asked."""
    code = Code()
    own = code.first(f"alloca [{DEPTH} x i64], align 64")
    panel = code.first(f"alloca [{DEPTH * t.columns} x {REGISTER[t.dtype]}], align 64")
    spread = code.let(f"or i1 %copy, {code.let('icmp ne i64 %bn, 1')}")
    plain = code.let("icmp eq ptr %at, null")
    some = code.let("call i64 @llvm.smax.i64(i64 %k, i64 1)")  # of no rows the sum is 0
    with counted(code, "0", some, DEPTH) as p:
        k = least(code, sub(code, "%k", p), DEPTH)
        first = code.let(f"icmp eq i64 {p}, 0")
        adds = code.let(f"select i1 {first}, i64 %add, i64 1")
        with only_if(code, plain), counted(code, "0", k) as q:
            place = code.let(f"getelementptr i64, ptr {own}, i64 {q}")
            code.put(f"store i64 {mul(code, add(code, p, q), '%bk')}, ptr {place}")
        given = code.let(f"getelementptr i64, ptr %at, i64 {p}")
        table = code.let(f"select i1 {plain}, ptr {own}, ptr {given}")
        table = code.let(f"select i1 {spread}, ptr @packed, ptr {table}")
        a = element(code, t, "%a", (p, "%ak"))
        with counted(code, "0", "%n", t.columns) as j:
            left = sub(code, "%n", j)
            b = element(code, t, "%b", (j, "%bn"))
            with only_if(code, spread):
                rows = element(code, t, b, (p, "%bk"))
                code.put(
                    f"call void @copy.panel(i64 {left}, i64 {k}, ptr {rows}, i64 %bk, i64 %bn, "
                    f"ptr {panel})"
                )
            b = code.let(f"select i1 {spread}, ptr {panel}, ptr {b}")
            code.put(
                f"call void @column(i64 %m, i64 {left}, i64 {k}, ptr {a}, i64 %am, i64 %ak, "
                f"ptr {b}, ptr {table}, ptr {element(code, t, '%c', (j, 1))}, i64 %cm, "
                f"i64 {adds}, ptr null)"
            )
    code.put("ret i64 0")
    return function(f"i64 @small({_PRODUCT}, i1 %copy)", code)


def _large(t: Tile) -> str:
    """Blocks of B, copied; then all rows against each."""
    code = Code()
    width = max(1, WIDTH // t.columns) * t.columns
    job = code.first(f"alloca [{len(_JOB)} x i64], align 64")
    slots = {}
    for at, name in enumerate(_JOB):
        slots[name] = code.first(f"getelementptr i64, ptr {job}, i64 {at}")

    def put(name: str, value: Value) -> None:
        type = "ptr" if name in _POINTERS else "i64"
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
    return function(f"i64 @large({_PRODUCT})", code)


def _wide(t: Tile) -> str:
    """Few rows: threads take panels and copy each where it is used, into their nearest cache, or
    read it where it is. A's rows stay in the second-level cache."""
    code = Code()
    job = code.first(f"alloca [{len(_JOB)} x i64], align 64")
    for name in ("m", "n", "k", "c", "cm", "a", "am", "ak", "b", "bk", "bn", "add"):
        at = code.let(f"getelementptr i64, ptr {job}, i64 {_JOB.index(name)}")
        code.put(f"store {'ptr' if name in _POINTERS else 'i64'} %{name}, ptr {at}")
    count = code.let(f"udiv i64 {add(code, '%n', t.columns - 1)}, {t.columns}")
    work = mul(code, mul(code, "%m", "%k"), t.columns // WORK)
    grain = code.let(f"call i64 @nap_grain(i64 {work})")
    status = code.let(
        f"call i64 @nap_parallel(ptr @panels, ptr {job}, i64 0, i64 {count}, i64 {grain})"
    )
    code.put(f"ret i64 {status}")
    return function(f"i64 @wide({_PRODUCT})", code)


def _stays(code: Code, t: Tile) -> Value:
    """Whether A's rows are no more than there are columns, and stay near; panels enough to be
    shared out."""
    part = mul(code, "%m", least(code, "%k", DEPTH))
    answer = code.let(f"icmp sle i64 {part}, {NEAR // t.dtype.bytes}")
    for condition in (
        f"sle i64 %m, {FEW * t.rows}", "sle i64 %m, %n", f"sgt i64 %n, {3 * t.columns}",
    ):  # fmt: skip
        answer = code.let(f"and i1 {answer}, {code.let(f'icmp {condition}')}")
    return answer


def _some_panels(t: Tile) -> str:
    """All rows against panels low … high-1."""
    code = Code()
    names = ("m", "n", "k", "c", "cm", "a", "am", "ak", "b", "bk", "bn", "add")
    m, n, k, c, cm, a, am, ak, b, bk, bn, add_up = _job(code, *names)
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


def _entry(t: Tile) -> str:
    """Chooses; turns a product whose result is stored by columns around; and gives one whose
    result is neither a contiguous temporary. What has a table is done as it is."""
    code, e = Code(), REGISTER[t.dtype]
    name = f"@nap_contract_f{t.dtype.bits}"
    none = code.let("icmp slt i64 %m, 1")
    none = code.let(f"or i1 {none}, {code.let('icmp slt i64 %n, 1')}")
    with returning_if(code, none):
        code.put("ret i64 0")
    with returning_if(code, code.let("icmp ne ptr %at, null")):
        code.put(f"ret i64 {code.let(f'call i64 @small({_PRODUCT}, i1 false)')}")
    strided = code.let("icmp ne i64 %cn, 1")
    strided = code.let(f"and i1 {strided}, {code.let('icmp ne i64 %n, 1')}")
    with returning_if(code, strided):
        by_columns = code.let("icmp eq i64 %cm, 1")
        by_columns = code.let(f"or i1 {by_columns}, {code.let('icmp eq i64 %m, 1')}")
        with returning_if(code, by_columns):
            turned = code.let(
                f"call i64 {name}(i64 %n, i64 %m, i64 %k, ptr %c, i64 %cn, i64 1, "
                "ptr %b, i64 %bn, i64 %bk, ptr %a, i64 %ak, i64 %am, ptr null, i64 %add)"
            )
            code.put(f"ret i64 {turned}")
        bytes = mul(code, mul(code, "%m", "%n"), t.dtype.bytes)
        own = code.let(f"call ptr @nap_alloc(i64 {bytes})")
        with returning_if(code, code.let(f"icmp eq ptr {own}, null")):
            code.put("ret i64 -2")
        status = code.let(
            f"call i64 {name}(i64 %m, i64 %n, i64 %k, ptr {own}, i64 %n, i64 1, "
            "ptr %a, i64 %am, i64 %ak, ptr %b, i64 %bk, i64 %bn, ptr null, i64 0)"
        )
        adds = code.let("icmp ne i64 %add, 0")
        with counted(code, "0", "%m") as i, counted(code, "0", "%n") as j:
            x = code.let(f"load {e}, ptr {element(code, t, own, (i, '%n'), (j, 1))}")
            to = element(code, t, "%c", (i, "%cm"), (j, "%cn"))
            old = code.let(f"load {e}, ptr {to}")
            both = code.let(f"fadd {e} {old}, {x}")
            code.put(f"store {e} {code.let(f'select i1 {adds}, {e} {both}, {e} {x}')}, ptr {to}")
        code.put(f"call void @nap_free(ptr {own})")
        code.put(f"ret i64 {status}")
    size = code.let("uitofp i64 %m to double")
    for other in ("%n", "%k"):
        size = code.let(f"fmul double {size}, {code.let(f'uitofp i64 {other} to double')}")
    little = code.let(f"fcmp ole double {size}, {float(SMALL)}")
    few = code.let(f"icmp sle i64 %m, {2 * t.rows}")
    few = code.let(f"or i1 {few}, {_stays(code, t)}")
    ways = ((little, "small", ", i1 false"), (few, "wide", ""), ("true", "large", ""))
    for condition, way, more in ways:
        with returning_if(code, condition):
            code.put(f"ret i64 {code.let(f'call i64 @{way}({_PRODUCT}{more})')}")
    code.put("unreachable")
    return function(
        f"i64 {name}(i64 %m, i64 %n, i64 %k, ptr %c, i64 %cm, i64 %cn, "
        "ptr %a, i64 %am, i64 %ak, ptr %b, i64 %bk, i64 %bn, ptr %at, i64 %add)",
        code,
        internal=False,
    )
