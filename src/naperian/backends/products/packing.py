"""Copies of the factors of a large product, and what its threads share.

B's block becomes panels as wide as the micro-kernel, row after row; A's rows are copied with a
little between them.
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
    returning_if,
    sub,
)
from naperian.backends.products.turned import transposed

DEPTH = 512  # of the sum, per block: rows of B beside each other, and a tile's part of A
WIDE = 128  # bytes of a panel's row that memory is fetched well by
LINES = 768  # bytes of a row of panels that are copied together, where their own rows are shorter
BLOCK = 8  # tiles of rows that one copy of A holds: it stays in the second-level cache


def packed(t: Tile) -> str:
    """Where the rows of a panel are, and lines of memory beside each other."""
    out = []
    for name, step in (("packed", t.columns), ("lines", LINE // t.dtype.bytes)):
        places = ", ".join(f"i64 {p * step}" for p in range(DEPTH))
        out.append(f"@{name} = internal constant [{DEPTH} x i64] [{places}]")
    return "\n".join(out)


def beside(t: Tile) -> int:
    """How many panels of few rows of B are copied together."""
    row = t.columns * t.dtype.bytes
    return max(1, LINES // row) if row <= WIDE else 1


JOB = ("m", "n", "k", "c", "cm", "a", "am", "ak", "b", "bk", "bn", "panels", "add", "rows")
"""What the threads of a large product share, in 8-byte words; a, b, c and n of the block; how many
rows of A are copied at a time."""
POINTERS = ("c", "a", "b", "panels")  # among them


def job(code: Code, *names: str) -> list[Value]:
    out = []
    for name in names:
        at = code.let(f"getelementptr i64, ptr %job, i64 {JOB.index(name)}")
        out.append(code.let(f"load {'ptr' if name in POINTERS else 'i64'}, ptr {at}"))
    return out


def copy_panel(t: Tile) -> str:
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


def copy_turned(t: Tile) -> str:
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


def copy_whole(t: Tile) -> str:
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


def copy_panels(t: Tile) -> str:
    """Panels low … high-1 of the block of B."""
    code = Code()
    n, k, b, bk, bn, panels = job(code, "n", "k", "b", "bk", "bn", "panels")
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


def copy_rows(t: Tile) -> str:
    """Up to BLOCK tiles of rows of A, as rows of DEPTH + a little: rows a power of two apart would
    all fall into the same places of the cache. If A is stored by columns, the copy is, too."""
    code, e = Code(), REGISTER[t.dtype]
    by_rows = code.let("icmp eq i64 %ak, 1")
    with returning_if(code, by_rows):
        with counted(code, "0", "%m") as i:
            a = element(code, t, "%a", (i, "%am"))
            to = element(code, t, "%to", (i, apart(t)))
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


def apart(t: Tile) -> int:
    return DEPTH + 64 // t.dtype.bytes
