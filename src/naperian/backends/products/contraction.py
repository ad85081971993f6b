"""What a `Contract` becomes: one product of two matrices, or loops around such, or plain loops.

Neighbouring loops of a group whose strides fit are one loop (`i1·s·n2 + i2·s` is `i·s`). Then the
longest loop of each group is the matrix dimension and the others stand around the call. Integers,
products with a vector, and products of a few elements are plain loops.
"""

from __future__ import annotations

from collections.abc import Collection

from naperian.backends.products.strides import (
    Loops,
    Offset,
    constant,
    count,
    gathered,
    longest_run,
    rounds,
    stride,
    without,
)
from naperian.backends.products.tabled import tabled
from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Contract,
    Expr,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Part,
    Reduction,
    Stmt,
    Store,
    Update,
    Variable,
    When,
)
from naperian.names import Lit, Var
from naperian.node import node, replace
from naperian.prims import unit
from naperian.sizes import ONE, ZERO, Size, clamp, rename, size

TINY = 511  # multiplications that are not worth a call: a panel of eight is
FEW = 27  # multiplications that take less time than a call
CHANNELS = 8  # so many elements of a sum are worth a product for every window
IMAGES = 4  # and so many sums of the same windows
NARROW = 8  # so many elements beside each other are worth a row
WINDOW = 32  # elements that are written out

Matrix = tuple[Var, Size, Size, Size]
"""A buffer, the distance of the first element, and two strides."""


@node
class Product:
    """out[m, n] (+)= Σ_k left[m, k]·right[k, n]; strides in elements, in that order. Row k of the
    right one is where the table `at` says, if there is one; and each `run` of its columns where
    `to` says, from an element on, if there is that."""

    dtype: DType
    rows: Size
    columns: Size
    inner: Size
    out: Matrix
    left: Matrix
    right: Matrix
    accumulate: bool
    at: Var | None = None
    to: tuple[Var, Size] | None = None
    run: Size = ZERO


def declaration(dtype: DType) -> str:
    """The kernel of `products/contract.py`: m n k, then pointer and two strides each of out, left
    and right, then tables or null, a run, and whether to add. Gives a status."""
    return f"declare i64 @nap_contract_f{dtype.bits}({', '.join(_TYPES)}) nounwind"


_TYPES = ["i64"] * 3 + ["ptr", "i64", "i64"] * 3 + ["ptr", "ptr", "i64", "i64"]


def lower(
    s: Contract, offset: Offset, sizes: Collection[Var]
) -> Product | tuple[Stmt, ...]:
    """A contraction as one product, or as statements that may hold smaller contractions."""
    if not s.dtype.is_float or not (s.rows and s.columns and s.inner) or _is_tiny(s):
        return _plain(s, offset)
    out, left, right = (offset(*m) for m in (s.out, s.left, s.right))
    rows = longest_run(s.rows, out, left)
    columns = longest_run(s.columns, out, right)
    inner = longest_run(s.inner, left, right)
    lines = _in_lines(s, offset, sizes)
    if lines is not None:
        return lines
    around = without(s.batch + s.rows, rows) + without(s.columns, columns)
    over = without(s.inner, inner)
    written = _windows(s, offset) if over else None
    if over:
        seen = tabled(s, offset, sizes)
        if seen is not None:
            return seen if written is None else (_if_many(s, out, inner, seen, written),)
    if around or over:
        small = replace(s, batch=(), rows=rows, columns=columns, inner=inner)
        work = count(rows + columns + inner)
        if not over:
            return _if_few(s, rows + columns + inner, _nest(around, (small,), work))
        added: tuple[Stmt, ...] = (replace(small, accumulate=True),)
        for v, extent in reversed(over):
            added = (Loop(v, ZERO, extent, added, Order.SERIAL, (), work),)
        clear = () if s.accumulate else _nest(rows + columns, (_zero(s),), ONE)
        products = _nest(around, (*clear, *added), work * count(over))
        return products if written is None else (_if_many(s, out, inner, products, written),)
    vanish = {v for v, _ in rows + columns + inner}
    if gathered(left, vanish):
        s = replace(s, left=s.right, right=s.left)
        rows, columns, left, right = columns, rows, right, left
    table = gathered(right, vanish)
    m, n, k = (group[-1][0] for group in (rows, columns, inner))
    return Product(
        s.dtype,
        rounds(rows, sizes),
        rounds(columns, sizes),
        rounds(inner, sizes),
        (s.out[0], constant(out, vanish), stride(out, m), stride(out, n)),
        (s.left[0], constant(left, vanish), stride(left, m), stride(left, k)),
        (s.right[0], constant(right, vanish), stride(right, k), stride(right, n)),
        s.accumulate,
        table,
    )


def _in_lines(
    s: Contract, offset: Offset, sizes: Collection[Var]
) -> Product | None:
    """Lines of columns of windows, if tables say where both begin."""
    out, left, right = (offset(*m) for m in (s.out, s.left, s.right))
    at = gathered(right, {v for v, _ in s.inner})
    to = gathered(right, {s.columns[0][0]})
    if at is None or to is None:
        return None
    vanish = {v for v, _ in s.rows + s.columns + s.inner}
    m, n, k = (group[-1][0] for group in (s.rows, s.columns, s.inner))
    [line] = [x for x in right.atoms if isinstance(x, Load) and x.buffer == to]
    first = line.at[0] - size(s.columns[0][0])
    return Product(
        s.dtype,
        rounds(s.rows, sizes),
        rounds(s.columns, sizes),
        rounds(s.inner, sizes),
        (s.out[0], constant(out, vanish), stride(out, m), ONE),
        (s.left[0], constant(left, vanish), stride(left, m), stride(left, k)),
        (s.right[0], constant(right, vanish), ZERO, stride(right, n)),
        s.accumulate,
        at,
        (to, first),
        rounds(s.columns[1:], sizes),
    )


def _if_many(
    s: Contract, out: Size, inner: Loops, products: tuple[Stmt, ...], written: tuple[Stmt, ...]
) -> Stmt:
    """Products where a sum is long enough for them, or enough of them read the same windows."""
    along = s.columns and stride(out, s.columns[-1][0]) == ONE
    images = count(s.rows if along else s.columns)
    long, many = (
        Apply("ge", (Number(n), Lit(least, DType.I64)), DType.BOOL, DType.I64)
        for n, least in ((count(inner), CHANNELS), (images, IMAGES))
    )
    return When(Apply("or", (long, many), DType.BOOL, DType.BOOL), products, written)


def _if_few(s: Contract, loops: Loops, products: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Sums of a few terms, one by one, in place of products of as many multiplications: of square
    matrices, of which there are many, and which may be of two or three rows. Others seldom are."""
    if not s.batch or len({n for _, n in loops}) > 1 or loops[0][1].constant is not None:
        return products
    product: Expr = Apply("mul", (Load(*s.left), Load(*s.right)), s.dtype, s.dtype)
    few = Apply("le", (Number(count(loops)), Lit(FEW, DType.I64)), DType.BOOL, DType.I64)
    total, most = Var("total"), size(TINY)  # no loop is so long that it must be stopped
    add = Assign(total, Apply("add", (Local(total), product), s.dtype, s.dtype))
    body: tuple[Stmt, ...] = (add,)
    for v, extent in reversed(s.inner):
        body = (Loop(v, ZERO, clamp(extent, most), body, Order.SERIAL),)
    end = Update(*s.out, "add", Local(total)) if s.accumulate else Store(*s.out, Local(total))
    body = (Variable(total, s.dtype, Lit(unit("add", s.dtype), s.dtype)), *body, end)
    for v, extent in reversed(s.rows + s.columns):
        body = (Loop(v, ZERO, clamp(extent, most), body, Order.SERIAL),)
    return (When(few, _nest(s.batch, body, count(loops)), products),)


def _is_tiny(s: Contract) -> bool:
    n = count(s.rows + s.columns + s.inner).constant
    return n is not None and n <= TINY


def _nest(loops: Loops, body: tuple[Stmt, ...], work: Size) -> tuple[Stmt, ...]:
    """Independent loops, the outermost for threads."""
    for k, (v, extent) in reversed(list(enumerate(loops))):
        order = Order.FREE if k else Order.PARALLEL
        body = (Loop(v, ZERO, extent, body, order, (), work),)
        work = work * extent
    return body


def _windows(s: Contract, offset: Offset) -> tuple[Stmt, ...] | None:
    """Row by row of the result, with the inner loops of few elements written out: windows of a
    convolution, of which there are a few to add up."""
    out, left, right = (offset(*m) for m in (s.out, s.left, s.right))
    sides = ((s.rows, left), (s.columns, right))
    runs = [
        p for group, m in sides for p in group
        if stride(out, p[0]) == ONE == stride(m, p[0]) and (p[1].constant or NARROW) >= NARROW
    ]  # fmt: skip
    window = tuple(p for p in s.inner if p[1].constant is not None)
    if not runs or not window or not 0 < (count(window).constant or 0) <= WINDOW:
        return None
    points: list[dict[Var, Size]] = [{}]
    for v, extent in window:
        points = [{**p, v: size(k)} for p in points for k in range(extent.constant or 0)]

    def there(m: Part, point: dict[Var, Size]) -> Load:
        return Load(m[0], tuple(rename(e, point) for e in m[1]))

    total: Expr | None = None
    for p in points:
        term = Apply("mul", (there(s.left, p), there(s.right, p)), s.dtype, s.dtype)
        total = term if total is None else Apply("add", (total, term), s.dtype, s.dtype)
    assert total is not None
    row, work = runs[-1:], size(len(points))
    body: tuple[Stmt, ...] = (Update(*s.out, "add", total),)
    body = (Loop(row[0][0], ZERO, row[0][1], body, Order.FREE, (), work),)
    work = work * row[0][1]
    for v, extent in reversed(without(s.inner, window)):
        body = (Loop(v, ZERO, extent, body, Order.SERIAL, (), work),)
        work = work * extent
    if not s.accumulate:
        body = (Loop(row[0][0], ZERO, row[0][1], (_zero(s),), Order.FREE), *body)
    return _nest(without(s.batch + s.rows + s.columns, tuple(row)), body, work)


def _zero(s: Contract) -> Stmt:
    return Store(*s.out, Lit(unit("add", s.dtype), s.dtype))


def _plain(s: Contract, offset: Offset) -> tuple[Stmt, ...]:
    """Loops whose innermost is contiguous: a row of the result, else a dot product."""
    out, left, right = (offset(*m) for m in (s.out, s.left, s.right))
    product: Expr = Apply("mul", (Load(*s.left), Load(*s.right)), s.dtype, s.dtype)
    if s.columns and stride(out, s.columns[-1][0]) == ONE == stride(right, s.columns[-1][0]):
        rows, columns = s.rows, s.columns
    elif s.rows and stride(out, s.rows[-1][0]) == ONE == stride(left, s.rows[-1][0]):
        rows, columns = s.columns, s.rows
    else:
        return _dots(s, product)
    body: tuple[Stmt, ...] = (Update(*s.out, "add", product),)
    work = ONE
    for v, extent in reversed(columns):
        body = (Loop(v, ZERO, extent, body, Order.FREE, (), work),)
        work = work * extent
    for v, extent in reversed(s.inner):
        body = (Loop(v, ZERO, extent, body, Order.SERIAL, (), work),)
        work = work * extent
    if not s.accumulate:
        clear: tuple[Stmt, ...] = (_zero(s),)
        for v, extent in reversed(columns):
            clear = (Loop(v, ZERO, extent, clear, Order.FREE),)
        body = (*clear, *body)
    return _nest(s.batch + rows, body, work)


def _dots(s: Contract, product: Expr) -> tuple[Stmt, ...]:
    total = Var("total")
    body: tuple[Stmt, ...] = (
        Assign(total, Apply("add", (Local(total), product), s.dtype, s.dtype)),
    )
    work = ONE
    for v, extent in reversed(s.inner):
        sums = (Reduction(total, "add", s.dtype),)
        body = (Loop(v, ZERO, extent, body, Order.FREE, sums, work),)
        work = work * extent
    end: Stmt = Store(*s.out, Local(total))
    if s.accumulate:
        end = Update(*s.out, "add", Local(total))
    start = Variable(total, s.dtype, Lit(unit("add", s.dtype), s.dtype))
    return _nest(s.batch + s.rows + s.columns, (start, *body, end), work)
