"""The inner part of a matrix product: a tile of C held in registers.

    @tile, @half, @ahead, @edge1 … @edge3 (m, lanes, k, A, am, ak, B, at, C, cm, add, next, later)

adds k products of a column of A and a row of B to a tile of `rows` by `vectors`. Row p of B begins
at[p] elements after the first, so the rows may be windows of an array. Rows of the tile beyond m
repeat the last one and are not written; `@edgeV` has V vectors, the last with a mask;
`@half` half of the rows.
`@tile` and `@ahead` fetch what they write, which is far away when the sums are done; `@ahead` also
fetches what is read later: the lines with the elements later[p] after `next`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from naperian.backends.code import REGISTER, Code, Value
from naperian.backends.target import Target
from naperian.dtypes import DType
from naperian.node import node, replace


@node
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


def half(t: Tile) -> Tile:
    """For the last rows, and for products that have no others."""
    return replace(t, rows=t.rows // 2)


# --- writing loops ------------------------------------------------------------------------------


LINE = 64  # bytes that caches fetch


@contextmanager
def counted(code: Code, low: Value, high: Value, step: Value | int = 1) -> Iterator[Value]:
    """for i in low, low + step … below high. The step may be a name that the body gives a value."""
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
def only_if(code: Code, condition: Value) -> Iterator[None]:
    """The body leaves by itself or goes on below."""
    yes, done = code.label("then"), code.label("join")
    code.branch(condition, yes, done)
    code.begin(yes)
    yield
    code.jump(done)
    code.begin(done)


@contextmanager
def returning_if(code: Code, condition: Value) -> Iterator[None]:
    """The body ends with a return."""
    yes, done = code.label("then"), code.label("go")
    code.branch(condition, yes, done)
    code.begin(yes)
    yield
    code.begin(done)


def mul(code: Code, x: Value, y: Value | int) -> Value:
    return code.let(f"mul nsw i64 {x}, {y}")


def add(code: Code, x: Value, y: Value | int) -> Value:
    return code.let(f"add nsw i64 {x}, {y}")


def sub(code: Code, x: Value, y: Value) -> Value:
    return code.let(f"sub nsw i64 {x}, {y}")


def least(code: Code, x: Value, y: Value | int) -> Value:
    return code.let(f"call i64 @llvm.smin.i64(i64 {x}, i64 {y})")


def element(code: Code, t: Tile, base: Value, *terms: tuple[Value, Value | int]) -> Value:
    """The element Σ index·stride after a first one."""
    for index, stride in terms:
        step = index if stride == 1 else mul(code, index, stride)
        base = code.let(f"getelementptr {REGISTER[t.dtype]}, ptr {base}, i64 {step}")
    return base


def below(code: Code, t: Tile, n: Value) -> Value:
    """A vector's mask: its first n lanes."""
    count = code.let(f"insertelement <{t.lanes} x i64> poison, i64 {n}, i64 0")
    zeros = f"<{t.lanes} x i32> zeroinitializer"
    count = code.let(f"shufflevector <{t.lanes} x i64> {count}, <{t.lanes} x i64> poison, {zeros}")
    lanes = ", ".join(f"i64 {k}" for k in range(t.lanes))
    return code.let(f"icmp slt <{t.lanes} x i64> <{lanes}>, {count}")


def masked_load(code: Code, t: Tile, pointer: Value, mask: Value) -> Value:
    """The lanes of the mask; 0 in the others."""
    return code.let(
        f"call {t.vector} @llvm.masked.load.v{t.lanes}f{t.dtype.bits}.p0(ptr align {t.dtype.bytes} "
        f"{pointer}, <{t.lanes} x i1> {mask}, {t.vector} zeroinitializer)"
    )


def function(header: str, code: Code, internal: bool = True, more: str = "") -> str:
    linkage = "define internal" if internal else "define"
    return f"{linkage} {header} {more} #0 {{\n{code.text()}\n}}"


# --- the micro-kernel ---------------------------------------------------------------------------


def micro_kernel(
    t: Tile, name: str, vectors: int, masked: bool = False, ahead: bool = False
) -> str:
    """A tile of C of up to `rows` rows and some vectors; with a mask, only `lanes` elements of the
    last one exist. What is read later may be fetched on the way."""
    code, e, v = Code(), REGISTER[t.dtype], t.vector
    size = t.dtype.bytes
    a = []
    for r in range(t.rows):
        last = code.let("add nsw i64 %m, -1")
        row = least(code, str(r), last)
        a.append(element(code, t, "%a", (row, "%am")))
    mask = below(code, t, "%lanes") if masked else ""

    def fetch(base: Value, at: Value | int, writes: int, level: int) -> None:
        line = code.let(f"getelementptr i8, ptr {base}, i64 {at}")
        code.put(f"call void @llvm.prefetch.p0(ptr {line}, i32 {writes}, i32 {level}, i32 1)")

    def load(pointer: Value, w: int) -> Value:
        if masked and w == vectors - 1:
            return masked_load(code, t, pointer, mask)
        return code.let(f"load {v}, ptr {pointer}, align {size}")

    if not masked:
        for r in range(t.rows):
            row = element(code, t, "%c", (str(r), "%cm"))
            for at in range(0, t.columns * size, LINE):
                fetch(row, at, writes=1, level=3)
    head, body, done = "head", "body", "done"
    code.jump(head)
    code.begin(head)
    sums = [[code.name() for _ in range(vectors)] for _ in range(t.rows)]
    new = [[code.name() for _ in range(vectors)] for _ in range(t.rows)]
    p, p_new, ia, ia_new = (code.name() for _ in range(4))
    for index, update in ((p, p_new), (ia, ia_new)):
        code.put(f"{index} = phi i64 [ 0, %entry ], [ {update}, %{body} ]")
    for r in range(t.rows):
        for w in range(vectors):
            code.put(
                f"{sums[r][w]} = phi {v} [ zeroinitializer, %entry ], [ {new[r][w]}, %{body} ]"
            )
    code.branch(code.let(f"icmp slt i64 {p}, %k"), body, done)
    code.begin(body)
    row = code.let(f"load i64, ptr {code.let(f'getelementptr i64, ptr %at, i64 {p}')}")
    b = element(code, t, "%b", (row, 1))
    row_of_b = [load(element(code, t, b, (str(w * t.lanes), 1)), w) for w in range(vectors)]
    if ahead:
        later = code.let(f"load i64, ptr {code.let(f'getelementptr i64, ptr %later, i64 {p}')}")
        fetch("%next", mul(code, later, size), writes=0, level=2)
    for r in range(t.rows):
        x = code.let(f"load {e}, ptr {element(code, t, a[r], (ia, 1))}, align {size}")
        x = code.let(f"insertelement {v} poison, {e} {x}, i64 0")
        x = code.let(f"shufflevector {v} {x}, {v} poison, <{t.lanes} x i32> zeroinitializer")
        for w in range(vectors):
            code.put(
                f"{new[r][w]} = call {v} @llvm.fmuladd.v{t.lanes}f{t.dtype.bits}"
                f"({v} {x}, {v} {row_of_b[w]}, {v} {sums[r][w]})"
            )
    code.put(f"{p_new} = add nsw i64 {p}, 1")
    code.put(f"{ia_new} = add nsw i64 {ia}, %ak")
    code.jump(head)
    code.begin(done)
    adds = code.let("icmp ne i64 %add, 0")
    for r in range(t.rows):
        with only_if(code, code.let(f"icmp slt i64 {r}, %m")):
            c = element(code, t, "%c", (str(r), "%cm"))
            old, put = code.label("old"), code.label("put")
            before = code.block
            code.branch(adds, old, put)
            code.begin(old)
            places = [element(code, t, c, (str(w * t.lanes), 1)) for w in range(vectors)]
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
                place = element(code, t, c, (str(w * t.lanes), 1))
                if masked and w == vectors - 1:
                    code.put(
                        f"call void @llvm.masked.store.v{t.lanes}f{t.dtype.bits}.p0({v} {total}, "
                        f"ptr align {size} {place}, <{t.lanes} x i1> {mask})"
                    )
                else:
                    code.put(f"store {v} {total}, ptr {place}, align {size}")
    code.put("ret void")
    return function(f"void @{name}({_MICRO})", code, more="noinline")


_MICRO = (
    "i64 %m, i64 %lanes, i64 %k, ptr noalias readonly %a, i64 %am, i64 %ak, "
    "ptr noalias readonly %b, ptr noalias readonly %at, ptr noalias %c, i64 %cm, i64 %add, "
    "ptr %next, ptr %later"
)


def row_of_tiles(t: Tile) -> str:
    """`columns` columns of C, for all rows: one panel of B against every tile of rows of A. If
    there is a next panel, the first tiles fetch it to the second-level cache, each its own lines,
    `far` bytes behind those of the one before."""
    code = Code()
    vectors = code.let(f"add nsw i64 %n, {t.lanes - 1}")
    vectors = code.let(f"udiv i64 {vectors}, {t.lanes}")
    before = mul(code, add(code, vectors, -1), t.lanes)
    lanes = sub(code, "%n", before)
    full = code.let(f"icmp sge i64 %n, {t.columns}")
    lines = -(-t.columns * t.dtype.bytes // LINE)
    some = code.let(f"select i1 {code.let('icmp ne ptr %next, null')}, i64 {lines * t.rows}, i64 0")
    names = ["@tile", *(f"@edge{k}" for k in range(1, t.vectors + 1)), "@ahead", "@half"]
    with counted(code, "0", "%m", t.rows) as i:
        rows = sub(code, "%m", i)
        a = element(code, t, "%a", (i, "%am"))
        c = element(code, t, "%c", (i, "%cm"))
        ahead = mul(code, code.let(f"udiv i64 {i}, {t.rows}"), "%far")
        ahead = code.let(f"getelementptr i8, ptr %next, i64 {ahead}")
        args = (
            f"i64 {rows}, i64 {lanes}, i64 %k, ptr {a}, i64 %am, i64 %ak, ptr %b, ptr %at, "
            f"ptr {c}, i64 %cm, i64 %add, ptr {ahead}, ptr %later"
        )
        fetches = code.let(f"icmp slt i64 {i}, {some}")
        whole = code.let(f"select i1 {fetches}, i64 {t.vectors + 1}, i64 0")
        low = code.let(f"icmp sle i64 {rows}, {t.rows // 2}")
        whole = code.let(f"select i1 {low}, i64 {t.vectors + 2}, i64 {whole}")
        choice = code.let(f"select i1 {full}, i64 {whole}, i64 {vectors}")
        labels = [code.label("case") for _ in names]
        join = code.label("join")
        cases = " ".join(f"i64 {k}, label %{x}" for k, x in enumerate(labels) if k)
        code.put(f"switch i64 {choice}, label %{labels[0]} [ {cases} ]")
        for x, name in zip(labels, names, strict=True):
            code.begin(x)
            code.put(f"call void {name}({args})")
            code.jump(join)
        code.begin(join)
    code.put("ret void")
    return function(
        "void @column(i64 %m, i64 %n, i64 %k, ptr %a, i64 %am, i64 %ak, ptr %b, ptr %at, "
        "ptr %c, i64 %cm, i64 %add, ptr %next, ptr %later, i64 %far)",
        code,
        more="noinline",
    )
