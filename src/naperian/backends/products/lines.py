"""A few rows of a product, whose other factor goes along them: it is read row by row.

    @lines1, @lines2, @lines3, @lines4 (n, k, C, cm, A, am, ak, B, bk)

C[i, j] += Σ_k A[i, k]·B[k, j], some rows of B at a time, so that C is read and written once for
them. A panel of columns, which the micro-kernel takes, is a few lines of memory of each row, and
rows lie pages apart.
"""

from __future__ import annotations

from naperian.backends.code import REGISTER, Code, Value
from naperian.backends.products.microkernel import (
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
from naperian.backends.products.packing import beside

TOGETHER = 8  # products that are added at once
NEAR = 1 << 15  # bytes of rows of C that stay in the first-level cache meanwhile
FAR = 1 << 20  # bytes from the first row of B to the last that do not stay in the cache for a tile


def few(t: Tile) -> int:
    """How many rows at most: where a row of a panel is short, as many as a tile has."""
    return t.rows if beside(t) > 1 else 2


def lines(t: Tile, rows: int) -> str:
    """All rows of B, in pieces as long as what stays near of C."""
    code, some = Code(), TOGETHER // rows
    near = NEAR // max(2, rows) // t.dtype.bytes
    with counted(code, "0", "%n", near) as j:
        n = least(code, sub(code, "%n", j), near)
        whole = code.let(f"and i64 {n}, {-t.lanes}")
        mask = below(code, t, sub(code, n, whole))
        many = mul(code, code.let(f"sdiv i64 %k, {some}"), some)
        for low, high, step in (("0", many, some), (many, "%k", 1)):
            with counted(code, low, high, step) as p:
                factors = [[_factor(code, t, r, add(code, p, q)) for q in range(step)]
                           for r in range(rows)]  # fmt: skip
                b = [element(code, t, "%b", (add(code, p, q), "%bk"), (j, 1)) for q in range(step)]
                c = [element(code, t, "%c", (str(r), "%cm"), (j, 1)) for r in range(rows)]
                with counted(code, "0", whole, t.lanes) as x:
                    _step(code, t, factors, [element(code, t, y, (x, 1)) for y in b],
                          [element(code, t, y, (x, 1)) for y in c], None)  # fmt: skip
                with only_if(code, code.let(f"icmp slt i64 {whole}, {n}")):
                    _step(code, t, factors, [element(code, t, y, (whole, 1)) for y in b],
                          [element(code, t, y, (whole, 1)) for y in c], mask)  # fmt: skip
    code.put("ret void")
    return function(f"void @lines{rows}({_LINES})", code, more="noinline")


_LINES = (
    "i64 %n, i64 %k, ptr noalias %c, i64 %cm, ptr noalias readonly %a, i64 %am, i64 %ak, "
    "ptr noalias readonly %b, i64 %bk"
)


def _factor(code: Code, t: Tile, row: int, p: Value) -> Value:
    """An element of A, in all lanes."""
    e, v = REGISTER[t.dtype], t.vector
    x = code.let(f"load {e}, ptr {element(code, t, '%a', (str(row), '%am'), (p, '%ak'))}")
    x = code.let(f"insertelement {v} poison, {e} {x}, i64 0")
    return code.let(f"shufflevector {v} {x}, {v} poison, <{t.lanes} x i32> zeroinitializer")


def _step(
    code: Code, t: Tile, factors: list[list[Value]], b: list[Value], c: list[Value],
    mask: Value | None,
) -> None:  # fmt: skip
    """A vector of each row of C, or what there is of it."""
    v, suffix, align = t.vector, f"v{t.lanes}f{t.dtype.bits}", t.dtype.bytes

    def load(place: Value) -> Value:
        if mask is not None:
            return masked_load(code, t, place, mask)
        return code.let(f"load {v}, ptr {place}, align {align}")

    rows = [load(y) for y in b]
    for row, place in zip(factors, c, strict=True):
        total = load(place)
        for x, y in zip(row, rows, strict=True):
            total = code.let(f"call {v} @llvm.fmuladd.{suffix}({v} {x}, {v} {y}, {v} {total})")
        if mask is None:
            code.put(f"store {v} {total}, ptr {place}, align {align}")
        else:
            code.put(f"call void @llvm.masked.store.{suffix}.p0({v} {total}, ptr align {align} "
                     f"{place}, <{t.lanes} x i1> {mask})")  # fmt: skip


def if_lines(code: Code, t: Tile) -> None:
    """Returns with the product, where it is one of this kind."""
    far = code.let(f"icmp sge i64 {mul(code, '%bk', '%k')}, {FAR // t.dtype.bytes}")
    here = code.let(f"icmp sle i64 %m, {code.let(f'select i1 {far}, i64 {few(t)}, i64 2')}")
    for condition in (
        "eq i64 %bn, 1", f"sge i64 %n, {t.columns}", f"sge i64 %k, {TOGETHER}", "eq ptr %at, null",
    ):  # fmt: skip
        here = code.let(f"and i1 {here}, {code.let(f'icmp {condition}')}")
    with returning_if(code, here):
        bytes = mul(code, "%n", t.dtype.bytes)
        with only_if(code, code.let("icmp eq i64 %add, 0")), counted(code, "0", "%m") as i:
            c = element(code, t, "%c", (i, "%cm"))
            code.put(f"call void @llvm.memset.p0.i64(ptr {c}, i8 0, i64 {bytes}, i1 false)")
        args = "i64 %n, i64 %k, ptr %c, i64 %cm, ptr %a, i64 %am, i64 %ak, ptr %b, i64 %bk"
        for rows in range(1, few(t)):
            with returning_if(code, code.let(f"icmp eq i64 %m, {rows}")):
                code.put(f"call void @lines{rows}({args})")
                code.put("ret i64 0")
        code.put(f"call void @lines{few(t)}({args})")
        code.put("ret i64 0")
