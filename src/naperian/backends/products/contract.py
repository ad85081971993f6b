"""The product of two matrices: C[m, n] (+)= Σ_k A[m, k]·B[k, n], any strides.

    i64 @nap_contract_f64(m, n, k, C, cm, cn, A, am, ak, B, bk, bn, at, to, run, add)

One module per dtype and machine, compiled once and called by every kernel. Goto's algorithm: B is
copied a block of DEPTH rows at a time into panels as wide as the micro-kernel; threads take
blocks of rows of A, copy them if there are panels enough, and run the micro-kernel over all
panels, of which the next is fetched meanwhile. The micro-kernel holds a tile of C, `rows` by
`vectors`, in registers; rows beyond the edge repeat the last one and are not written, columns
beyond it are masked. Small products skip the copies; of few rows, threads take panels of B and copy
each where it is used, if it is read more than once; of a few (`dots`, `lines`) there are neither
panels nor tiles. The sum over k runs in the same order whatever the number of threads.

With a table, B[k, j] is `at[k] + j` elements after its first one: rows of B are windows of an array
and are read where they are, or copied if there is a `run` (see `windows`; else it is 0). C is
stored by rows then.
"""

from __future__ import annotations

from naperian.backends.code import REGISTER, Code
from naperian.backends.llvm import AS_WRITTEN
from naperian.backends.products.dots import FEW, dots, if_few
from naperian.backends.products.lines import few, if_lines, lines
from naperian.backends.products.microkernel import (
    Tile,
    add,
    counted,
    element,
    function,
    half,
    least,
    micro_kernel,
    mul,
    only_if,
    returning_if,
    row_of_tiles,
    sub,
    tile,
)
from naperian.backends.products.packing import (
    DEPTH,
    beside,
    copy_panel,
    copy_panels,
    copy_rows,
    copy_turned,
    copy_whole,
    packed,
)
from naperian.backends.products.shares import (
    PRODUCT,
    block_of_rows,
    large,
    some_panels,
    stays,
    wide,
)
from naperian.backends.products.symmetric import if_symmetric, mirror, symmetric
from naperian.backends.products.windows import copy_run, run, turn_windows, windows
from naperian.backends.target import Target, host
from naperian.dtypes import DType

SMALL = 1 << 21  # multiplications up to which nothing is copied: about 128 by 128 by 128


def contract_module(dtype: DType, target: Target | None = None) -> str:
    """The module that defines `@nap_contract_f64` or `@nap_contract_f32`."""
    target = target or host()
    t = tile(dtype, target)
    kernels = [micro_kernel(t, f"edge{v}", v, masked=True) for v in range(1, t.vectors + 1)]
    return AS_WRITTEN + "\n\n".join(
        [
            _DECLARATIONS,
            packed(t),
            *kernels,
            micro_kernel(t, "tile", t.vectors),
            micro_kernel(t, "ahead", t.vectors, ahead=True),
            micro_kernel(half(t), "half", t.vectors),
            row_of_tiles(t),
            copy_panel(t),
            copy_turned(t),
            copy_whole(t),
            copy_panels(t),
            copy_rows(t),
            block_of_rows(t),
            *(dots(t, rows) for rows in (1, 2, FEW)),
            *(lines(t, rows) for rows in range(1, few(t) + 1)),
            _small(t),
            large(t),
            some_panels(t),
            wide(t),
            run(),
            copy_run(t),
            turn_windows(t),
            windows(t),
            mirror(t),
            symmetric(t, _name(t)),
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


def _small(t: Tile) -> str:
    """DEPTH rows of B after the other. They are copied if they are not contiguous, or if asked:
    then some panels beside each other, of fewer rows, so that a row is some lines of memory."""
    code = Code()
    own = code.first(f"alloca [{DEPTH} x i64], align 64")
    panels = code.first(f"alloca [{DEPTH * t.columns} x {REGISTER[t.dtype]}], align 64")
    if_few(code, t)
    if_lines(code, t)
    side_by_side = code.let("icmp eq i64 %bn, 1")
    together = code.let(f"and i1 %copy, {side_by_side}")
    deep = code.let(f"select i1 {together}, i64 {DEPTH // beside(t)}, i64 {DEPTH}")
    columns = code.let(f"select i1 {together}, i64 {beside(t) * t.columns}, i64 {t.columns}")
    spread = code.let(f"or i1 %copy, {code.let(f'xor i1 {side_by_side}, true')}")
    plain = code.let("icmp eq ptr %at, null")
    some = code.let("call i64 @llvm.smax.i64(i64 %k, i64 1)")  # of no rows the sum is 0
    with counted(code, "0", some, deep) as p:
        k = least(code, sub(code, "%k", p), deep)
        first = code.let(f"icmp eq i64 {p}, 0")
        adds = code.let(f"select i1 {first}, i64 %add, i64 1")
        with only_if(code, plain), counted(code, "0", k) as q:
            place = code.let(f"getelementptr i64, ptr {own}, i64 {q}")
            code.put(f"store i64 {mul(code, add(code, p, q), '%bk')}, ptr {place}")
        given = code.let(f"getelementptr i64, ptr %at, i64 {p}")
        table = code.let(f"select i1 {plain}, ptr {own}, ptr {given}")
        table = code.let(f"select i1 {spread}, ptr @packed, ptr {table}")
        a = element(code, t, "%a", (p, "%ak"))
        size = mul(code, k, t.columns)
        with counted(code, "0", "%n", columns) as start:
            width = least(code, sub(code, "%n", start), columns)
            whole = code.let(f"udiv i64 {width}, {t.columns}")
            whole = code.let(f"select i1 {together}, i64 {whole}, i64 0")
            rows = element(code, t, "%b", (p, "%bk"), (start, "%bn"))
            code.put(
                f"call void @copy.whole(i64 {whole}, i64 {k}, ptr {rows}, i64 %bk, ptr {panels})"
            )
            with counted(code, "0", width, t.columns) as at:
                j = add(code, start, at)
                left = sub(code, "%n", j)
                b = element(code, t, "%b", (j, "%bn"))
                q = code.let(f"udiv i64 {at}, {t.columns}")
                panel = element(code, t, panels, (q, size))
                more = code.let(f"icmp sge i64 {q}, {whole}")
                with only_if(code, code.let(f"and i1 {spread}, {more}")):
                    rows = element(code, t, b, (p, "%bk"))
                    code.put(
                        f"call void @copy.panel(i64 {left}, i64 {k}, ptr {rows}, i64 %bk, "
                        f"i64 %bn, ptr {panel})"
                    )
                b = code.let(f"select i1 {spread}, ptr {panel}, ptr {b}")
                code.put(
                    f"call void @column(i64 %m, i64 {left}, i64 {k}, ptr {a}, i64 %am, i64 %ak, "
                    f"ptr {b}, ptr {table}, ptr {element(code, t, '%c', (j, 1))}, i64 %cm, "
                    f"i64 {adds}, ptr null, ptr null, i64 0)"
                )
    code.put("ret i64 0")
    return function(f"i64 @small({PRODUCT}, i1 %copy)", code)


def _name(t: Tile) -> str:
    return f"@nap_contract_f{t.dtype.bits}"


def _entry(t: Tile) -> str:
    """Chooses; turns a product whose result is stored by columns around; and gives one whose
    result is neither a contiguous temporary. What has a table is done as it is."""
    code, e = Code(), REGISTER[t.dtype]
    name = _name(t)
    none = code.let("icmp slt i64 %m, 1")
    none = code.let(f"or i1 {none}, {code.let('icmp slt i64 %n, 1')}")
    with returning_if(code, none):
        code.put("ret i64 0")
    with returning_if(code, code.let("icmp ne i64 %run, 0")):
        code.put(f"ret i64 {code.let(f'call i64 @windows({PRODUCT}, ptr %to, i64 %run)')}")
    with returning_if(code, code.let("icmp ne ptr %at, null")):
        code.put(f"ret i64 {code.let(f'call i64 @small({PRODUCT}, i1 false)')}")
    strided = code.let("icmp ne i64 %cn, 1")
    strided = code.let(f"and i1 {strided}, {code.let('icmp ne i64 %n, 1')}")
    with returning_if(code, strided):
        by_columns = code.let("icmp eq i64 %cm, 1")
        by_columns = code.let(f"or i1 {by_columns}, {code.let('icmp eq i64 %m, 1')}")
        with returning_if(code, by_columns):
            turned = code.let(
                f"call i64 {name}(i64 %n, i64 %m, i64 %k, ptr %c, i64 %cn, i64 1, "
                "ptr %b, i64 %bn, i64 %bk, ptr %a, i64 %ak, i64 %am, ptr null, "
                "ptr null, i64 0, i64 %add)"
            )
            code.put(f"ret i64 {turned}")
        bytes = mul(code, mul(code, "%m", "%n"), t.dtype.bytes)
        own = code.let(f"call ptr @nap_alloc(i64 {bytes})")
        with returning_if(code, code.let(f"icmp eq ptr {own}, null")):
            code.put("ret i64 -2")
        status = code.let(
            f"call i64 {name}(i64 %m, i64 %n, i64 %k, ptr {own}, i64 %n, i64 1, "
            "ptr %a, i64 %am, i64 %ak, ptr %b, i64 %bk, i64 %bn, ptr null, "
            "ptr null, i64 0, i64 0)"
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
    if_symmetric(code, t, code.let(f"xor i1 {little}, true"))
    few = code.let(f"icmp sle i64 %m, {2 * t.rows}")
    few = code.let(f"or i1 {few}, {stays(code, t)}")
    ways = ((little, "small", ", i1 false"), (few, "wide", ""), ("true", "large", ""))
    for condition, way, more in ways:
        with returning_if(code, condition):
            code.put(f"ret i64 {code.let(f'call i64 @{way}({PRODUCT}{more})')}")
    code.put("unreachable")
    return function(
        f"i64 {name}(i64 %m, i64 %n, i64 %k, ptr %c, i64 %cm, i64 %cn, "
        "ptr %a, i64 %am, i64 %ak, ptr %b, i64 %bk, i64 %bn, ptr %at, ptr %to, i64 %run, "
        "i64 %add)",
        code,
        internal=False,
    )
