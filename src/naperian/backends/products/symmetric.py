"""A matrix times its own transpose: what is above the diagonal is computed, and mirrored.

    @symmetric, @mirror (n, k, C, cm, A, am, ak)

Each element is the same sum as the one across the diagonal, of the same products. Blocks of rows
are products of their own, from the diagonal on.
"""

from __future__ import annotations

from naperian.backends.code import REGISTER, Code, Value
from naperian.backends.products.microkernel import (
    Tile,
    add,
    counted,
    element,
    function,
    least,
    mul,
    returning_if,
    sub,
)
from naperian.backends.products.turned import transposed

BLOCKS = 6  # of rows: a twelfth of the square is computed in vain, on the diagonal
MOST = 128  # rows of a block
LEAST = 96  # rows that are worth it

BY_ROWS = 1 << 22  # bytes of A that several blocks may read again
BY_COLUMNS = 1 << 19  # where tiles of rows are not copied, and lie in a line for each column

_MATRIX = "i64 %n, i64 %k, ptr %c, i64 %cm, ptr %a, i64 %am, i64 %ak"


def symmetric(t: Tile, name: str) -> str:
    """The product, by the function of that name."""
    code = Code()
    part = code.let(f"udiv i64 %n, {BLOCKS * t.rows}")
    block = least(code, mul(code, add(code, part, 1), t.rows), MOST)
    with counted(code, "0", "%n", block) as i:
        left = sub(code, "%n", i)
        rows = element(code, t, "%a", (i, "%am"))
        status = code.let(
            f"call i64 {name}(i64 {least(code, left, block)}, i64 {left}, i64 %k, "
            f"ptr {element(code, t, '%c', (i, '%cm'), (i, 1))}, i64 %cm, i64 1, "
            f"ptr {rows}, i64 %am, i64 %ak, ptr {rows}, i64 %ak, i64 %am, ptr null, "
            "ptr null, i64 0, i64 0)"
        )
        with returning_if(code, code.let(f"icmp ne i64 {status}, 0")):
            code.put(f"ret i64 {status}")
    code.put("call void @mirror(i64 %n, ptr %c, i64 %cm)")
    code.put("ret i64 0")
    return function(f"i64 @symmetric({_MATRIX})", code, more="noinline")


def mirror(t: Tile) -> str:
    """C[i, j] = C[j, i] for j < i, by squares but on the diagonal."""
    code, vector, size = Code(), t.vector, t.dtype.bytes
    whole = code.let(f"and i64 %n, {-t.lanes}")
    with counted(code, "0", whole, t.lanes) as i:
        with counted(code, "0", i, t.lanes) as j:
            square = []
            for q in range(t.lanes):
                at = element(code, t, "%c", (add(code, j, q), "%cm"), (i, 1))
                square.append(code.let(f"load {vector}, ptr {at}, align {size}"))
            for q, x in enumerate(transposed(code, vector, square)):
                at = element(code, t, "%c", (add(code, i, q), "%cm"), (j, 1))
                code.put(f"store {vector} {x}, ptr {at}, align {size}")
        with counted(code, i, add(code, i, t.lanes)) as r:
            _row(code, t, r, i)
    with counted(code, whole, "%n") as r:
        _row(code, t, r, "0")
    code.put("ret void")
    return function("void @mirror(i64 %n, ptr %c, i64 %cm)", code, more="noinline")


def _row(code: Code, t: Tile, row: Value, first: Value) -> None:
    """C[row, j] = C[j, row] from the first j to the diagonal."""
    e = REGISTER[t.dtype]
    with counted(code, first, row) as j:
        x = code.let(f"load {e}, ptr {element(code, t, '%c', (j, '%cm'), (row, 1))}")
        code.put(f"store {e} {x}, ptr {element(code, t, '%c', (row, '%cm'), (j, 1))}")


def if_symmetric(code: Code, t: Tile, large: Value) -> None:
    """Returns with the product, where it is one of this kind, large, but not so large that blocks
    find nothing of what those before have read."""
    bytes = mul(code, mul(code, "%n", "%k"), t.dtype.bytes)
    rows = code.let("icmp eq i64 %ak, 1")
    most = code.let(f"select i1 {rows}, i64 {BY_ROWS}, i64 {BY_COLUMNS}")
    here = code.let(f"and i1 {large}, {code.let(f'icmp sle i64 {bytes}, {most}')}")
    for condition in (
        "eq ptr %a, %b", "eq i64 %am, %bn", "eq i64 %ak, %bk", "eq i64 %m, %n", "eq i64 %cn, 1",
        "eq i64 %add, 0", f"sge i64 %n, {LEAST}",
    ):  # fmt: skip
        here = code.let(f"and i1 {here}, {code.let(f'icmp {condition}')}")
    with returning_if(code, here):
        args = "i64 %n, i64 %k, ptr %c, i64 %cm, ptr %a, i64 %am, i64 %ak"
        code.put(f"ret i64 {code.let(f'call i64 @symmetric({args})')}")
