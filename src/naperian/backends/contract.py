"""The product of two matrices: C[m, n] (+)= Σ_k A[m, k]·B[k, n], any strides.

    i64 @nap_contract_f64(m, n, k, C, cm, cn, A, am, ak, B, bk, bn, add)

One module per dtype and machine, compiled once and called by every kernel. Goto's algorithm: B is
copied a block of DEPTH rows at a time into panels as wide as the micro-kernel; threads take
blocks of rows of A, copy them, and run the micro-kernel over all panels. The micro-kernel holds a
tile of C, `rows` by `vectors`, in registers; rows beyond the edge repeat the last one and are not
written, columns beyond it are masked. Small products skip the copies. The sum over k runs in the
same order whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from naperian.backends.code import REGISTER, Code, Value
from naperian.backends.target import Target, host
from naperian.dtypes import DType

DEPTH = 256  # of the sum, per block: a tile's operands stay in the first-level cache
BLOCK = 8  # tiles of rows that one copy of A holds: it stays in the second-level cache
WIDTH = 4096  # columns per copied block of B, about
SMALL = 1 << 21  # multiplications up to which nothing is copied: about 128 by 128 by 128
GRAIN = 1 << 18  # multiplications worth a thread


@dataclass(frozen=True, slots=True)
class Tile:
    """The micro-kernel's shape."""

    dtype: DType
    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {REGISTER[self.dtype]}>"


def tile(dtype: DType, target: Target) -> Tile:
    """As many accumulators as registers allow, beside a row of B and an element of A."""
    lanes = target.lanes(dtype.bytes)
    if target.registers >= 32:
        return Tile(dtype, 8, 3, lanes)
    return Tile(dtype, 4, 3 if target.vector_bytes == 32 else 2, lanes)


def contract_module(dtype: DType, target: Target | None = None) -> str:
    """The module that defines `@nap_contract_f64` or `@nap_contract_f32`."""
    target = target or host()
    t = tile(dtype, target)
    kernels = [_micro(t, vectors, True) for vectors in range(1, t.vectors + 1)]
    return "\n\n".join(
        [
            _DECLARATIONS,
            *kernels,
            _micro(t, t.vectors, False),
            _row_of_tiles(t),
            _copy_panel(t),
            _copy_panels(t),
            _copy_rows(t),
            _block_of_rows(t),
            _small(t),
            _large(t),
            _entry(t),
            f"attributes #0 = {{ {target.attributes} }}",
        ]
    )


_DECLARATIONS = """\
declare i64 @nap_parallel(ptr, ptr, i64, i64, i64) nounwind
declare i64 @nap_poll() nounwind
declare noalias ptr @nap_alloc(i64) nounwind
declare void @nap_free(ptr) nounwind"""


# --- writing loops ------------------------------------------------------------------------------


@contextmanager
def _loop(code: Code, low: Value, high: Value, step: int = 1) -> Iterator[Value]:
    """for i in low, low + step … below high."""
    head, body, done = code.label("head"), code.label("body"), code.label("done")
    before, index, after = code.block, code.name(), code.name()
    code.jump(head)
    code.begin(head)
    at = len(code.lines)
    code.put("")
    code.branch(code.let(f"icmp slt i64 {index}, {high}"), body, done)
    code.begin(body)
    yield index
    code.put(f"{after} = add nsw i64 {index}, {step}")
    code.lines[at] = f"  {index} = phi i64 [ {low}, %{before} ], [ {after}, %{code.block} ]"
    code.jump(head)
    code.begin(done)


@contextmanager
def _if(code: Code, condition: Value) -> Iterator[None]:
    """The body leaves by itself or goes on below."""
    yes, done = code.label("then"), code.label("join")
    code.branch(condition, yes, done)
    code.begin(yes)
    yield
    code.jump(done)
    code.begin(done)


@contextmanager
def _return_if(code: Code, condition: Value) -> Iterator[None]:
    """The body ends with a return."""
    yes, done = code.label("then"), code.label("go")
    code.branch(condition, yes, done)
    code.begin(yes)
    yield
    code.begin(done)


def _mul(code: Code, x: Value, y: Value | int) -> Value:
    return code.let(f"mul nsw i64 {x}, {y}")


def _add(code: Code, x: Value, y: Value | int) -> Value:
    return code.let(f"add nsw i64 {x}, {y}")


def _sub(code: Code, x: Value, y: Value) -> Value:
    return code.let(f"sub nsw i64 {x}, {y}")


def _min(code: Code, x: Value, y: Value | int) -> Value:
    return code.let(f"call i64 @llvm.smin.i64(i64 {x}, i64 {y})")


def _at(code: Code, t: Tile, base: Value, *terms: tuple[Value, Value | int]) -> Value:
    """The element Σ index·stride after a first one."""
    for index, stride in terms:
        step = index if stride == 1 else _mul(code, index, stride)
        base = code.let(f"getelementptr {REGISTER[t.dtype]}, ptr {base}, i64 {step}")
    return base


def _function(header: str, code: Code, internal: bool = True, more: str = "") -> str:
    linkage = "define internal" if internal else "define"
    return f"{linkage} {header} {more} #0 {{\n{code.text()}\n}}"


# --- the micro-kernel ---------------------------------------------------------------------------


def _micro(t: Tile, vectors: int, masked: bool) -> str:
    """A tile of C of up to `rows` rows and some vectors; with a mask, only `lanes` elements of the
    last one exist."""
    code, e, v = Code(), REGISTER[t.dtype], t.vector
    size = t.dtype.bytes
    a = []
    for r in range(t.rows):
        last = code.let("add nsw i64 %m, -1")
        row = _min(code, str(r), last)
        a.append(_at(code, t, "%a", (row, "%am")))
    mask = ""
    if masked:
        count = code.let(f"insertelement <{t.lanes} x i64> poison, i64 %lanes, i64 0")
        zeros = f"<{t.lanes} x i32> zeroinitializer"
        count = code.let(
            f"shufflevector <{t.lanes} x i64> {count}, <{t.lanes} x i64> poison, {zeros}"
        )
        lanes = ", ".join(f"i64 {k}" for k in range(t.lanes))
        mask = code.let(f"icmp slt <{t.lanes} x i64> <{lanes}>, {count}")

    def load(pointer: Value, w: int) -> Value:
        if masked and w == vectors - 1:
            return code.let(
                f"call {v} @llvm.masked.load.v{t.lanes}f{t.dtype.bits}.p0(ptr align {size} "
                f"{pointer}, <{t.lanes} x i1> {mask}, {v} zeroinitializer)"
            )
        return code.let(f"load {v}, ptr {pointer}, align {size}")

    head, body, done = "head", "body", "done"
    code.jump(head)
    code.begin(head)
    sums = [[code.name() for _ in range(vectors)] for _ in range(t.rows)]
    new = [[code.name() for _ in range(vectors)] for _ in range(t.rows)]
    p, p_new, ia, ia_new, ib, ib_new = (code.name() for _ in range(6))
    for name, update in ((p, p_new), (ia, ia_new), (ib, ib_new)):
        code.put(f"{name} = phi i64 [ 0, %entry ], [ {update}, %{body} ]")
    for r in range(t.rows):
        for w in range(vectors):
            code.put(
                f"{sums[r][w]} = phi {v} [ zeroinitializer, %entry ], [ {new[r][w]}, %{body} ]"
            )
    code.branch(code.let(f"icmp slt i64 {p}, %k"), body, done)
    code.begin(body)
    b = _at(code, t, "%b", (ib, 1))
    row_of_b = [load(_at(code, t, b, (str(w * t.lanes), 1)), w) for w in range(vectors)]
    for r in range(t.rows):
        x = code.let(f"load {e}, ptr {_at(code, t, a[r], (ia, 1))}, align {size}")
        x = code.let(f"insertelement {v} poison, {e} {x}, i64 0")
        x = code.let(f"shufflevector {v} {x}, {v} poison, <{t.lanes} x i32> zeroinitializer")
        for w in range(vectors):
            code.put(
                f"{new[r][w]} = call {v} @llvm.fmuladd.v{t.lanes}f{t.dtype.bits}"
                f"({v} {x}, {v} {row_of_b[w]}, {v} {sums[r][w]})"
            )
    code.put(f"{p_new} = add nsw i64 {p}, 1")
    code.put(f"{ia_new} = add nsw i64 {ia}, %ak")
    code.put(f"{ib_new} = add nsw i64 {ib}, %bk")
    code.jump(head)
    code.begin(done)
    adds = code.let("icmp ne i64 %add, 0")
    for r in range(t.rows):
        with _if(code, code.let(f"icmp slt i64 {r}, %m")):
            c = _at(code, t, "%c", (str(r), "%cm"))
            old, put = code.label("old"), code.label("put")
            before = code.block
            code.branch(adds, old, put)
            code.begin(old)
            places = [_at(code, t, c, (str(w * t.lanes), 1)) for w in range(vectors)]
            olds = [
                code.let(f"fadd {v} {load(places[w], w)}, {sums[r][w]}") for w in range(vectors)
            ]
            code.jump(put)
            code.begin(put)
            totals = [
                code.let(f"phi {v} [ {sums[r][w]}, %{before} ], [ {olds[w]}, %{old} ]")
                for w in range(vectors)
            ]
            for w, total in enumerate(totals):
                place = _at(code, t, c, (str(w * t.lanes), 1))
                if masked and w == vectors - 1:
                    code.put(
                        f"call void @llvm.masked.store.v{t.lanes}f{t.dtype.bits}.p0({v} {total}, "
                        f"ptr align {size} {place}, <{t.lanes} x i1> {mask})"
                    )
                else:
                    code.put(f"store {v} {total}, ptr {place}, align {size}")
    code.put("ret void")
    name = f"@edge{vectors}" if masked else "@tile"
    return _function(f"void {name}({_MICRO})", code, more="noinline")


_MICRO = (
    "i64 %m, i64 %lanes, i64 %k, ptr noalias readonly %a, i64 %am, i64 %ak, "
    "ptr noalias readonly %b, i64 %bk, ptr noalias %c, i64 %cm, i64 %add"
)


def _row_of_tiles(t: Tile) -> str:
    """`columns` columns of C, for all rows: one panel of B against every tile of rows of A."""
    code = Code()
    vectors = code.let(f"add nsw i64 %n, {t.lanes - 1}")
    vectors = code.let(f"udiv i64 {vectors}, {t.lanes}")
    before = _mul(code, _add(code, vectors, -1), t.lanes)
    lanes = _sub(code, "%n", before)
    full = code.let(f"icmp sge i64 %n, {t.columns}")
    choice = code.let(f"select i1 {full}, i64 0, i64 {vectors}")
    with _loop(code, "0", "%m", t.rows) as i:
        rows = _sub(code, "%m", i)
        a = _at(code, t, "%a", (i, "%am"))
        c = _at(code, t, "%c", (i, "%cm"))
        args = (
            f"i64 {rows}, i64 {lanes}, i64 %k, ptr {a}, i64 %am, i64 %ak, ptr %b, i64 %bk, "
            f"ptr {c}, i64 %cm, i64 %add"
        )
        labels = [code.label("case") for _ in range(t.vectors + 1)]
        join = code.label("join")
        cases = " ".join(f"i64 {k}, label %{x}" for k, x in enumerate(labels) if k)
        code.put(f"switch i64 {choice}, label %{labels[0]} [ {cases} ]")
        for k, x in enumerate(labels):
            code.begin(x)
            code.put(f"call void {f'@edge{k}' if k else '@tile'}({args})")
            code.jump(join)
        code.begin(join)
    code.put("ret void")
    return _function(
        "void @column(i64 %m, i64 %n, i64 %k, ptr %a, i64 %am, i64 %ak, ptr %b, i64 %bk, "
        "ptr %c, i64 %cm, i64 %add)",
        code,
        more="noinline",
    )


# --- copies -------------------------------------------------------------------------------------


def _copy_panel(t: Tile) -> str:
    """to[k·columns + j] = B[k, j] for up to `columns` columns, 0 beyond n."""
    code, e = Code(), REGISTER[t.dtype]
    size = t.dtype.bytes
    full = code.let(f"icmp sge i64 %n, {t.columns}")
    unit = code.let("icmp eq i64 %bn, 1")
    with _return_if(code, code.let(f"and i1 {full}, {unit}")):
        with _loop(code, "0", "%k") as p:
            b = _at(code, t, "%b", (p, "%bk"))
            to = _at(code, t, "%to", (p, t.columns))
            for w in range(t.vectors):
                x = code.let(
                    f"load {t.vector}, ptr {_at(code, t, b, (str(w * t.lanes), 1))}, align {size}"
                )
                place = _at(code, t, to, (str(w * t.lanes), 1))
                code.put(f"store {t.vector} {x}, ptr {place}, align {size}")
        code.put("ret void")
    have = _min(code, "%n", t.columns)
    with _loop(code, "0", have) as j, _loop(code, "0", "%k") as p:
        x = code.let(f"load {e}, ptr {_at(code, t, '%b', (j, '%bn'), (p, '%bk'))}")
        code.put(f"store {e} {x}, ptr {_at(code, t, '%to', (j, 1), (p, t.columns))}")
    with _loop(code, have, str(t.columns)) as j, _loop(code, "0", "%k") as p:
        code.put(f"store {e} 0.0, ptr {_at(code, t, '%to', (j, 1), (p, t.columns))}")
    code.put("ret void")
    return _function(
        "void @copy.panel(i64 %n, i64 %k, ptr noalias readonly %b, i64 %bk, i64 %bn, "
        "ptr noalias %to)",
        code,
        more="noinline",
    )


_JOB = ("m", "n", "k", "c", "cm", "a", "am", "ak", "b", "bk", "bn", "panels", "add")
"""What the threads of a large product share, in 8-byte words; a, b, c and n of the block."""
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
    size = _mul(code, k, t.columns)
    with _loop(code, "%low", "%high") as p:
        j = _mul(code, p, t.columns)
        code.put(
            f"call void @copy.panel(i64 {_sub(code, n, j)}, i64 {k}, "
            f"ptr {_at(code, t, b, (j, bn))}, i64 {bk}, i64 {bn}, "
            f"ptr {_at(code, t, panels, (p, size))})"
        )
    code.put("ret i64 0")
    return _function("i64 @copy.panels(ptr %job, i64 %low, i64 %high, i64 %chunk)", code)


def _copy_rows(t: Tile) -> str:
    """Up to BLOCK tiles of rows of A, as rows of DEPTH + a little: rows a power of two apart would
    all fall into the same places of the cache. If A is stored by columns, the copy is, too."""
    code, e = Code(), REGISTER[t.dtype]
    by_rows = code.let("icmp eq i64 %ak, 1")
    with _return_if(code, by_rows):
        with _loop(code, "0", "%m") as i:
            a = _at(code, t, "%a", (i, "%am"))
            to = _at(code, t, "%to", (i, _apart(t)))
            bytes = _mul(code, "%k", t.dtype.bytes)
            code.put(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {a}, i64 {bytes}, i1 false)")
        code.put("ret void")
    with _loop(code, "0", "%k") as p, _loop(code, "0", "%m") as i:
        x = code.let(f"load {e}, ptr {_at(code, t, '%a', (p, '%ak'), (i, '%am'))}")
        code.put(f"store {e} {x}, ptr {_at(code, t, '%to', (p, t.rows * BLOCK), (i, 1))}")
    code.put("ret void")
    return _function(
        "void @copy.rows(i64 %m, i64 %k, ptr noalias readonly %a, i64 %am, i64 %ak, "
        "ptr noalias %to)",
        code,
        more="noinline",
    )


def _apart(t: Tile) -> int:
    return DEPTH + 64 // t.dtype.bytes


# --- the products -------------------------------------------------------------------------------


def _block_of_rows(t: Tile) -> str:
    """Tiles of rows low … high-1 against all panels."""
    code = Code()
    names = ("m", "n", "k", "c", "cm", "a", "am", "ak", "panels", "add")
    m, n, k, c, cm, a, am, ak, panels, add = _job(code, *names)
    copy = code.first(f"alloca [{t.rows * BLOCK * _apart(t)} x {REGISTER[t.dtype]}], align 64")
    by_rows = code.let(f"icmp eq i64 {ak}, 1")
    pm = code.let(f"select i1 {by_rows}, i64 {_apart(t)}, i64 1")
    pk = code.let(f"select i1 {by_rows}, i64 1, i64 {t.rows * BLOCK}")
    size = _mul(code, k, t.columns)
    first, past = _mul(code, "%low", t.rows), _mul(code, "%high", t.rows)
    end = _min(code, past, m)
    with _loop(code, first, end, t.rows * BLOCK) as i:
        status = code.let("call i64 @nap_poll()")
        with _return_if(code, code.let(f"icmp ne i64 {status}, 0")):
            code.put(f"ret i64 {status}")
        rows = _min(code, _sub(code, end, i), t.rows * BLOCK)
        code.put(
            f"call void @copy.rows(i64 {rows}, i64 {k}, ptr {_at(code, t, a, (i, am))}, "
            f"i64 {am}, i64 {ak}, ptr {copy})"
        )
        ci = _at(code, t, c, (i, cm))
        with _loop(code, "0", n, t.columns) as j:
            p = code.let(f"udiv i64 {j}, {t.columns}")
            code.put(
                f"call void @column(i64 {rows}, i64 {_sub(code, n, j)}, i64 {k}, ptr {copy}, "
                f"i64 {pm}, i64 {pk}, ptr {_at(code, t, panels, (p, size))}, i64 {t.columns}, "
                f"ptr {_at(code, t, ci, (j, 1))}, i64 {cm}, i64 {add})"
            )
    code.put("ret i64 0")
    return _function("i64 @rows(ptr %job, i64 %low, i64 %high, i64 %chunk)", code)


_PRODUCT = (
    "i64 %m, i64 %n, i64 %k, ptr %c, i64 %cm, ptr %a, i64 %am, i64 %ak, ptr %b, i64 %bk, "
    "i64 %bn, i64 %add"
)


def _small(t: Tile) -> str:
    """No copies, unless the rows of B are not contiguous."""
    code = Code()
    unit = code.let("icmp eq i64 %bn, 1")
    with _return_if(code, unit):
        with _loop(code, "0", "%n", t.columns) as j:
            code.put(
                f"call void @column(i64 %m, i64 {_sub(code, '%n', j)}, i64 %k, ptr %a, i64 %am, "
                f"i64 %ak, ptr {_at(code, t, '%b', (j, 1))}, i64 %bk, "
                f"ptr {_at(code, t, '%c', (j, 1))}, i64 %cm, i64 %add)"
            )
        code.put("ret i64 0")
    panel = code.let(f"call ptr @nap_alloc(i64 {_mul(code, '%k', t.columns * t.dtype.bytes)})")
    with _return_if(code, code.let(f"icmp eq ptr {panel}, null")):
        code.put("ret i64 -2")
    with _loop(code, "0", "%n", t.columns) as j:
        left = _sub(code, "%n", j)
        code.put(
            f"call void @copy.panel(i64 {left}, i64 %k, ptr {_at(code, t, '%b', (j, '%bn'))}, "
            f"i64 %bk, i64 %bn, ptr {panel})"
        )
        code.put(
            f"call void @column(i64 %m, i64 {left}, i64 %k, ptr %a, i64 %am, i64 %ak, "
            f"ptr {panel}, i64 {t.columns}, ptr {_at(code, t, '%c', (j, 1))}, i64 %cm, i64 %add)"
        )
    code.put(f"call void @nap_free(ptr {panel})")
    code.put("ret i64 0")
    return _function(f"i64 @small({_PRODUCT})", code)


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
    wide = _min(code, code.let(f"add nsw i64 %n, {t.columns - 1}"), width)
    deep = _min(code, "%k", DEPTH)
    bytes = _mul(code, _mul(code, wide, deep), t.dtype.bytes)
    panels = code.let(f"call ptr @nap_alloc(i64 {bytes})")
    with _return_if(code, code.let(f"icmp eq ptr {panels}, null")):
        code.put("ret i64 -2")
    put("panels", panels)
    tiles = code.let(f"udiv i64 {_add(code, '%m', t.rows - 1)}, {t.rows}")
    leave = code.label("leave")
    stops = []
    with _loop(code, "0", "%n", width) as j:
        n = _min(code, _sub(code, "%n", j), width)
        put("n", n)
        put("c", _at(code, t, "%c", (j, 1)))
        count = code.let(f"udiv i64 {_add(code, n, t.columns - 1)}, {t.columns}")
        with _loop(code, "0", "%k", DEPTH) as p:
            k = _min(code, _sub(code, "%k", p), DEPTH)
            put("k", k)
            put("a", _at(code, t, "%a", (p, "%ak")))
            put("b", _at(code, t, "%b", (p, "%bk"), (j, "%bn")))
            first = code.let(f"icmp eq i64 {p}, 0")
            put("add", code.let(f"select i1 {first}, i64 %add, i64 1"))
            code.put(
                f"call i64 @nap_parallel(ptr @copy.panels, ptr {job}, i64 0, i64 {count}, i64 8)"
            )
            # a chunk is whole blocks of rows if there are enough for everybody
            work = _mul(code, _mul(code, n, k), t.rows)
            grain = code.let(f"udiv i64 {GRAIN}, {work}")
            grain = code.let(f"call i64 @llvm.smax.i64(i64 {grain}, i64 {BLOCK})")
            status = code.let(
                f"call i64 @nap_parallel(ptr @rows, ptr {job}, i64 0, i64 {tiles}, i64 {grain})"
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
    return _function(f"i64 @large({_PRODUCT})", code)


def _entry(t: Tile) -> str:
    """Chooses; turns a product whose result is stored by columns around; and gives one whose
    result is neither a contiguous temporary."""
    code, e = Code(), REGISTER[t.dtype]
    name = f"@nap_contract_f{t.dtype.bits}"
    none = code.let("icmp slt i64 %m, 1")
    none = code.let(f"or i1 {none}, {code.let('icmp slt i64 %n, 1')}")
    with _return_if(code, none):
        code.put("ret i64 0")
    strided = code.let("icmp ne i64 %cn, 1")
    strided = code.let(f"and i1 {strided}, {code.let('icmp ne i64 %n, 1')}")
    with _return_if(code, strided):
        by_columns = code.let("icmp eq i64 %cm, 1")
        by_columns = code.let(f"or i1 {by_columns}, {code.let('icmp eq i64 %m, 1')}")
        with _return_if(code, by_columns):
            turned = code.let(
                f"call i64 {name}(i64 %n, i64 %m, i64 %k, ptr %c, i64 %cn, i64 1, "
                "ptr %b, i64 %bn, i64 %bk, ptr %a, i64 %ak, i64 %am, i64 %add)"
            )
            code.put(f"ret i64 {turned}")
        bytes = _mul(code, _mul(code, "%m", "%n"), t.dtype.bytes)
        own = code.let(f"call ptr @nap_alloc(i64 {bytes})")
        with _return_if(code, code.let(f"icmp eq ptr {own}, null")):
            code.put("ret i64 -2")
        status = code.let(
            f"call i64 {name}(i64 %m, i64 %n, i64 %k, ptr {own}, i64 %n, i64 1, "
            "ptr %a, i64 %am, i64 %ak, ptr %b, i64 %bk, i64 %bn, i64 0)"
        )
        adds = code.let("icmp ne i64 %add, 0")
        with _loop(code, "0", "%m") as i, _loop(code, "0", "%n") as j:
            x = code.let(f"load {e}, ptr {_at(code, t, own, (i, '%n'), (j, 1))}")
            to = _at(code, t, "%c", (i, "%cm"), (j, "%cn"))
            old = code.let(f"load {e}, ptr {to}")
            both = code.let(f"fadd {e} {old}, {x}")
            code.put(f"store {e} {code.let(f'select i1 {adds}, {e} {both}, {e} {x}')}, ptr {to}")
        code.put(f"call void @nap_free(ptr {own})")
        code.put(f"ret i64 {status}")
    size = code.let("uitofp i64 %m to double")
    for other in ("%n", "%k"):
        size = code.let(f"fmul double {size}, {code.let(f'uitofp i64 {other} to double')}")
    little = code.let(f"fcmp ole double {size}, {float(SMALL)}")
    args = (
        "i64 %m, i64 %n, i64 %k, ptr %c, i64 %cm, ptr %a, i64 %am, i64 %ak, ptr %b, i64 %bk, "
        "i64 %bn, i64 %add"
    )
    for condition, way in ((little, "small"), ("true", "large")):
        with _return_if(code, condition):
            code.put(f"ret i64 {code.let(f'call i64 @{way}({args})')}")
    code.put("unreachable")
    return _function(
        f"i64 {name}(i64 %m, i64 %n, i64 %k, ptr %c, i64 %cm, i64 %cn, "
        "ptr %a, i64 %am, i64 %ak, ptr %b, i64 %bk, i64 %bn, i64 %add)",
        code,
        internal=False,
    )
