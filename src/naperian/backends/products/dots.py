"""Few rows of a product whose factors both go along the sum: vectors go along it, too.

    @dots1, @dots2, @dots4 (m, n, k, C, cm, A, am, B, bn, add)

C[i, j] (+)= Σ_k A[i, k]·B[j, k] for 1, 2 or 4 rows of A at most. To turn the columns of a panel, as
`packing` does, takes longer than to add up the lanes of a vector once for each element.
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
    only_if,
    returning_if,
    sub,
)

FEW = 4  # rows
LONG = 8  # vectors of a row that repay the sums of their lanes


def dots(t: Tile, rows: int) -> str:
    """The rows, some columns at a time; rows and columns beyond the last are the last again."""
    code, some = Code(), _columns(t, rows)
    last = [add(code, x, -1) for x in ("%m", "%n")]
    whole = code.let(f"and i64 %k, {-t.lanes}")
    mask = below(code, t, sub(code, "%k", whole))
    a = [element(code, t, "%a", (least(code, last[0], r), "%am")) for r in range(rows)]
    with counted(code, "0", "%n", some) as j:
        b = [element(code, t, "%b", (least(code, last[1], add(code, j, q)), "%bn"))
             for q in range(some)]  # fmt: skip
        sums = _along(code, t, a, b, whole, mask)
        for r in range(rows):
            with only_if(code, code.let(f"icmp slt i64 {r}, %m")):
                c = element(code, t, "%c", (str(r), "%cm"), (j, 1))
                for q in range(some):
                    with only_if(code, code.let(f"icmp slt i64 {add(code, j, q)}, %n")):
                        _put(code, t, element(code, t, c, (str(q), 1)), sums[r][q])
    code.put("ret void")
    return function(f"void @dots{rows}({_DOTS})", code, more="noinline")


_DOTS = (
    "i64 %m, i64 %n, i64 %k, ptr noalias %c, i64 %cm, ptr noalias readonly %a, i64 %am, "
    "ptr noalias readonly %b, i64 %bn, i64 %add"
)


def _columns(t: Tile, rows: int) -> int:
    """As many sums as the multipliers have under way, or as leave registers for their factors."""
    return max(t.rows // 2, 8 // rows)


def _along(
    code: Code, t: Tile, a: list[Value], b: list[Value], whole: Value, mask: Value
) -> list[list[Value]]:
    """Sums of lanes along the rows of A and of B."""
    places = [(r, q) for r in range(len(a)) for q in range(len(b))]
    before = code.block
    head, body, done = (code.label(x) for x in ("head", "along", "end"))
    p, after = code.name(), code.name()
    sums = {x: (code.name(), code.name()) for x in places}
    code.jump(head)
    code.begin(head)
    code.put(f"{p} = phi i64 [ 0, %{before} ], [ {after}, %{body} ]")
    for old, new in sums.values():
        code.put(f"{old} = phi {t.vector} [ zeroinitializer, %{before} ], [ {new}, %{body} ]")
    code.branch(code.let(f"icmp slt i64 {p}, {whole}"), body, done)
    code.begin(body)
    left, right = (
        [code.let(f"load {t.vector}, ptr {element(code, t, x, (p, 1))}, align {t.dtype.bytes}")
         for x in rows]
        for rows in (a, b)
    )  # fmt: skip
    for r, q in places:
        old, new = sums[r, q]
        code.put(f"{new} = {_times(t, left[r], right[q], old)}")
    code.put(f"{after} = add nsw i64 {p}, {t.lanes}")
    code.jump(head)
    code.begin(done)
    left, right = (
        [masked_load(code, t, element(code, t, x, (whole, 1)), mask) for x in rows]
        for rows in (a, b)
    )
    ends = {(r, q): code.let(_times(t, left[r], right[q], sums[r, q][0])) for r, q in places}
    return [[ends[r, q] for q in range(len(b))] for r in range(len(a))]


def _times(t: Tile, x: Value, y: Value, plus: Value) -> str:
    v = t.vector
    return f"call {v} @llvm.fmuladd.v{t.lanes}f{t.dtype.bits}({v} {x}, {v} {y}, {v} {plus})"


def _put(code: Code, t: Tile, place: Value, lanes: Value) -> None:
    e, suffix = REGISTER[t.dtype], f"v{t.lanes}f{t.dtype.bits}"
    total = code.let(
        f"call reassoc {e} @llvm.vector.reduce.fadd.{suffix}({e} -0.0, {t.vector} {lanes})"
    )
    adds = code.let("icmp ne i64 %add, 0")
    old = code.let(f"load {e}, ptr {place}, align {t.dtype.bytes}")
    old = code.let(f"select i1 {adds}, {e} {old}, {e} 0.0")
    code.put(f"store {e} {code.let(f'fadd {e} {old}, {total}')}, ptr {place}")


def if_few(code: Code, t: Tile) -> None:
    """Returns with the product, where it is one of this kind."""
    here = code.let(f"icmp sle i64 %m, {FEW}")
    for condition in (
        "eq i64 %ak, 1", "eq i64 %bk, 1", f"sge i64 %k, {LONG * t.lanes}", "eq ptr %at, null",
    ):  # fmt: skip
        here = code.let(f"and i1 {here}, {code.let(f'icmp {condition}')}")
    args = "i64 %m, i64 %n, i64 %k, ptr %c, i64 %cm, ptr %a, i64 %am, ptr %b, i64 %bn, i64 %add"
    with returning_if(code, here):
        for rows in (1, 2):
            with returning_if(code, code.let(f"icmp sle i64 %m, {rows}")):
                code.put(f"call void @dots{rows}({args})")
                code.put("ret i64 0")
        code.put(f"call void @dots{FEW}({args})")
        code.put("ret i64 0")
