"""Tables while they are normalised: made, read, chosen, and written out again.

A table that only re-indexes others is a view and costs nothing; one whose cells need work is
bound to a variable. The table of a tuple is the tuple of tables; what its cells share becomes a
table too, and so do the data that a table of functions closes over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from naperian.broken import Broken
from naperian.core.syntax import (
    At,
    Blank,
    Box,
    Const,
    Expr,
    For,
    If,
    Let,
    Literal,
    Number,
    Op,
    Pack,
    Part,
    Ref,
)
from naperian.core.walk import of_type
from naperian.dtypes import DType
from naperian.leaves import leaves, rebuild
from naperian.names import Lit, Var
from naperian.passes.normal.denote import (
    TRUE,
    Bound,
    Boxed,
    Chosen,
    Entry,
    Env,
    Fun,
    Guard,
    Items,
    Leaf,
    Meaning,
    Parts,
    Place,
    Scope,
    View,
    block,
    data,
    has_box,
    has_function,
    like,
    number,
    row_type,
    size_of,
    type_of,
)
from naperian.passes.normal.fold import constant, fold
from naperian.passes.normal.leaving import Leaving, leaving, mentioned, mentions, named_in
from naperian.passes.normal.places import aligned
from naperian.passes.normal.work import Work
from naperian.sizes import ONE, ZERO, Size, size
from naperian.substitution import cell_at, opened
from naperian.types import (
    BOOL,
    INT,
    UNIT,
    BoolSet,
    EnumSet,
    Exists,
    Fin,
    Function,
    Index,
    Range,
    Reference,
    Reverse,
    Scalar,
    Set,
    SetVar,
    Slice,
    Sum,
    Table,
    Text,
    Tuple,
    TupleSet,
    Type,
    TypeVar,
    UnitSet,
    cardinality,
    element,
    numbers,
)

# ---------------------------------------------------------------- written out


def quote(w: Work, m: Meaning) -> Expr:
    """The expression of data; to be used once, where it is made."""
    match m:
        case Leaf(e, _):
            return e
        case Parts(items):
            return Pack(tuple(quote(w, x) for x in items))
        case View(s, var, _, _):
            with w.inside() as scope:
                new = Var(var.name)
                cell = quote(w, at(w, m, w.opened(new, s), s))
            return For(new, s, block(scope.statements, cell))
        case Items():
            return stored(w, m).expr
        case Boxed(t, sizes, value):
            return Box(t, sizes, quote(w, value))
        case Fun() | Chosen() | Place():
            raise Broken("a function or reference is used as data")


def closed(w: Work, scope: Scope, parts: list[Meaning]) -> Expr:
    """The statements of a scope that ends here, and its values (a bare one for one)."""
    with w.inside(scope):
        values = tuple(quote(w, x) for x in parts)
    return block(scope.statements, values[0] if len(values) == 1 else Pack(values))


def apart(m: Meaning) -> list[Meaning]:
    """The leaves of data, as `leaves` has them: boxes taken apart, in tables too."""
    match m:
        case Parts(items):
            return [leaf for x in items for leaf in apart(x)]
        case Boxed(_, sizes, value):
            return [*(Leaf(number(n), INT) for n in sizes), *apart(value)]
        case View(s, var, names, cell) if has_box(cell):
            return [distributed(View(s, var, names, x)) for x in apart(cell)]
        case _:
            return [m]


def index_expr(m: Meaning) -> Expr:
    """An index as an expression."""
    match m:
        case Leaf():
            return m.expr
        case Parts(items):
            return Pack(tuple(index_expr(x) for x in items))
        case _:
            raise Broken("a table or function is used as an index")


def shaped(t: Type, parts: list[Meaning]) -> Meaning:
    """Leaves nested as the type has them."""
    return _nested(rebuild(t, parts))


def _nested(x: Meaning | tuple[Any, ...]) -> Meaning:
    return Parts(tuple(map(_nested, x))) if isinstance(x, tuple) else x


def conformed(m: Meaning, t: Type) -> Meaning:
    """The meaning nested as its type is. Only a cell of an empty table, which is never reached,
    may be less than that."""
    parts = data(m)
    wanted = leaves(t)
    if len(parts) == len(wanted):
        return m
    (only,) = parts
    return shaped(t, [only] * len(wanted))


def anything(t: Type) -> Expr:
    """Any value of a type, for what is never looked at."""
    match t:
        case Scalar(dtype):
            return constant(0, dtype)
        case Index(TupleSet() | UnitSet() | BoolSet() as s):
            return anything(element(s))
        case Index(Range(low, _)):
            return Number(low)
        case Index():
            return Number(ZERO)
        case Tuple(items):
            return Pack(tuple(anything(x) for x in items))
        case Table(s):
            i = Var("i")
            return For(i, s, anything(cell_at(t, size(i))))
        case Exists(vars):
            none = (ZERO,) * len(vars)
            return Box(t, none, anything(opened(t, none)))
        case TypeVar() | Function() | Reference() | Text():
            raise Broken(f"no value of {t!r}")


def blank(t: Type) -> Meaning:
    """`anything`, as a meaning: tables of it are views, functions give it."""
    match t:
        case Tuple(items):
            return Parts(tuple(blank(x) for x in items))
        case Index(TupleSet() | UnitSet() as s):
            return blank(element(s))
        case Table(s):
            i = Var("i")
            return distributed(View(s, i, (), blank(cell_at(t, size(i)))))
        case Function(params, result):
            return Fun(tuple(Var("x") for _ in params), Blank(result), Env({}))
        case Exists(vars):
            none = (ZERO,) * len(vars)
            return Boxed(t, none, blank(opened(t, none)))
        case Scalar() | Index() | TypeVar() | Reference() | Text():
            return Leaf(anything(t), t)


# ---------------------------------------------------------------- read


def at(w: Work, m: Meaning, index: Meaning, s: Set) -> Meaning:
    """`m[index]`."""
    match m:
        case Leaf(e, t):
            i = _plain(index_expr(index))
            if isinstance(t, Table) and t.index is not None:  # rows that depend on the index
                i = w.named(i, Index(s), "k")
                place = size_of(i)
                assert place is not None
                return Leaf(At(e, i, s), cell_at(t, place))
            return Leaf(At(e, i, s), t.cell if isinstance(t, Table) else t)
        case Parts(items):
            return Parts(tuple(at(w, x, index, s) for x in items))
        case Chosen(condition, a, b):
            return Chosen(condition, at(w, a, index, s), at(w, b, index, s))
        case View(_, var, names, cell):
            moves = w.moves({var: index_expr(w.held(index, var.name))})
            for n in names:
                value = moves.expr(n.value)
                moves.names[n.var] = w.named(value, moves.type(n.type), n.var.name)
            return w.moved(cell, moves)
        case Items(own, items):
            return _pick(w, m, index, own)
        case Place(e, Table(_, cell)):
            return Place(At(e, _plain(index_expr(index)), s), cell)
        case Fun() | Place() | Boxed():
            raise Broken("a function or a box is indexed")


def _plain(e: Expr) -> Expr:
    """`Number` of one variable as that variable."""
    if isinstance(e, Number):
        return number(e.value)
    if isinstance(e, Pack):
        return Pack(tuple(_plain(x) for x in e.items))
    return e


def _pick(w: Work, m: Items, index: Meaning, s: Set) -> Meaning:
    """An item of a literal table. A function is chosen by comparing the index."""
    k = ordinal(w, s, index_expr(index))
    number_of_items = k.constant
    if number_of_items is not None and 0 <= number_of_items < len(m.items):
        return m.items[number_of_items]
    if not has_function(m):
        return at(w, stored(w, m), index, s)
    chosen = m.items[-1]
    for j in reversed(range(len(m.items) - 1)):
        is_it = w.bind(Op("eq", (Number(k), constant(j, DType.I64)), INT), BOOL, "is")
        chosen = Chosen(index_expr(is_it), m.items[j], chosen)
    return chosen


def stored(w: Work, m: Items) -> Leaf:
    """A literal table as a variable, bound once in the scope it belongs to."""
    if not m.stored:
        with w.inside(m.home):
            e = Literal(m.set, tuple(quote(w, x) for x in m.items))
            leaf = w.bind(e, type_of(m), "items")
        assert isinstance(leaf, Leaf)
        m.stored.append(leaf)
    return m.stored[0]


# ---------------------------------------------------------------- made


def tabulate(
    w: Work, s: Set, cell_at: Callable[[Meaning], Meaning], var: str, name: str
) -> Meaning:
    """The table of `cell_at(index)` over a set."""
    with w.inside() as scope:
        i, index = w.index(s, var)
        cell = cell_at(index)
    return table_of(w, s, i, scope, cell, name)


def table_of(w: Work, s: Set, i: Var, scope: Scope, cell: Meaning, name: str) -> Meaning:
    """The table whose cell at `i` was made in a scope of its own."""
    if scope.cells:
        return _in_order(w, s, i, scope, cell, name)
    if not scope.works or isinstance(cell, Parts) or has_function(cell) or has_box(cell):
        return distributed(View(s, i, tuple(_fission(w, scope, i, s)), cell))
    body = closed(w, scope, [cell])
    t = row_type(s, i, scope.statements, type_of(cell))
    return w.bind(For(i, s, body), t, name, scope.fails)


def _in_order(w: Work, s: Set, i: Var, scope: Scope, cell: Meaning, name: str) -> Meaning:
    """A table whose cells have effects: one loop, whatever its cells are. One of tuples is read by
    components."""
    if has_function(cell):
        raise Broken("a table of functions with effects")
    if has_box(cell):
        return _boxes_in_order(w, s, i, leaving(scope, cell), cell, name)
    parts = data(cell)
    types = tuple(type_of(x) for x in parts)
    made = For(i, s, closed(w, scope, parts))
    if len(parts) == 1:
        rows = w.bind(made, Table(s, types[0]), name, scope.fails, scope.cells)
        return like(cell, [rows])
    rows = w.bind(made, Table(s, Tuple(types)), name, scope.fails, scope.cells)

    def held(index: Meaning) -> Meaning:
        row = At(index_expr(rows), index_expr(index), s)
        return like(cell, [Leaf(Part(row, k), t) for k, t in enumerate(types)])

    return tabulate(w, s, held, "i", name)


def _boxes_in_order(w: Work, s: Set, i: Var, left: Leaving, cell: Meaning, name: str) -> Meaning:
    """A table of boxes whose cells have effects: the loop gives what the boxes are made of."""
    names = _fission(w, Scope(list(left.before)), i, s)
    made = For(i, s, block([*names], closed(w, left.stays, left.given)))
    t = left.type[0] if len(left.type) == 1 else Tuple(left.type)
    rows = w.bind(made, row_type(s, i, names, t), name, left.stays.fails, left.stays.cells)
    row: Expr = At(index_expr(rows), Ref(i), s)
    several = len(left.type) != 1
    parts: list[Expr] = [Part(row, k) for k in range(len(left.type))] if several else [row]
    after = Scope([*names, *left.outside(parts)])
    return distributed(View(s, i, tuple(_fission(w, after, i, s)), cell))


def _fission(w: Work, scope: Scope, i: Var, s: Set) -> list[Bound]:
    """The statements of a loop's body as names: what is computed becomes a table of its own."""
    names: dict[Var, tuple[int, Bound]] = {}
    for st in scope.statements:
        match st:
            case Bound(var, value, t, work, fails):
                if work:
                    needed: list[Bound | Guard] = [*_needed(names, mentions(st))]
                    body = block(needed, value)
                    rows = row_type(s, i, (b for _, b in names.values()), t)
                    table = w.bind(For(i, s, body), rows, var.name, fails)
                    assert isinstance(table, Leaf)
                    value = At(table.expr, Ref(i), s)
                names[var] = len(names), Bound(var, value, t, work=False)
            case Guard(condition):
                needed = [*_needed(names, named_in(condition)), st]
                w.bind(For(i, s, block(needed, TRUE)), Table(s, BOOL), "checks", fails=True)
    return [b for _, b in names.values()]


def _needed(names: dict[Var, tuple[int, Bound]], used: Iterable[Var]) -> list[Bound]:
    """Those of the numbered names that are mentioned, and those they mention, in their order."""
    wanted: dict[int, Bound] = {}
    rest = list(used)
    while rest:
        found = names.get(rest.pop())
        if found is not None and found[0] not in wanted:
            k, wanted[k] = found
            rest.extend(mentions(wanted[k]))
    return [wanted[k] for k in sorted(wanted)]


def distributed(m: View) -> Meaning:
    """A view with tuples outside, each with the names it needs; one that is all of another table
    is that table."""
    if isinstance(m.cell, Parts):
        cells = m.cell.items
        return Parts(tuple(distributed(View(m.set, m.var, m.names, x)) for x in cells))
    if has_function(m.cell):
        return m
    names = {b.var: (k, b) for k, b in enumerate(m.names)}
    cell = m.cell
    while isinstance(cell, Leaf) and isinstance(cell.expr, Ref) and cell.expr.var in names:
        cell = Leaf(names[cell.expr.var][1].value, cell.type)
    match cell:
        case Leaf(At(table, Ref(var), s), t) if var == m.var and s == m.set:
            if not any(v == m.var or v in names for v in named_in(table)):
                return Leaf(table, row_type(s, var, m.names, t))
    return View(m.set, m.var, tuple(_needed(names, mentioned(cell))), cell)


def literal(w: Work, s: Set, items: list[Meaning], name: str) -> Meaning:
    """The table of these items."""
    if not items:
        return w.bind(Literal(s, ()), Table(s, UNIT), name)
    if any(map(has_box, items)):

        def item(i: Meaning) -> Meaning:
            return _one_of(w, items, ordinal(w, s, index_expr(i)), name)

        return tabulate(w, s, item, "i", name)
    if all(isinstance(x, Parts) for x in items):
        rows = [x.items for x in items if isinstance(x, Parts)]
        return Parts(tuple(literal(w, s, list(column), name) for column in zip(*rows, strict=True)))
    return Items(s, tuple(items), w.scope)


def _one_of(w: Work, items: list[Meaning], k: Size, name: str) -> Meaning:
    """The item of this number."""
    first, *rest = items
    if not rest:
        return first
    is_it = fold("eq", (number(k), constant(0, DType.I64)), DType.I64)
    if is_it is None:
        is_it = index_expr(w.bind(Op("eq", (Number(k), constant(0, DType.I64)), INT), BOOL, "is"))
    return choose(w, is_it, lambda: first, lambda: _one_of(w, rest, k - 1, name), name)


# ---------------------------------------------------------------- chosen


def choose(
    w: Work,
    condition: Expr,
    then: Callable[[], Meaning],
    otherwise: Callable[[], Meaning],
    name: str,
) -> Meaning:
    """The value of one side; each side's statements stay on its side."""
    if isinstance(condition, Const):
        return then() if condition.lit.value else otherwise()
    with w.inside() as yes:
        a = then()
    with w.inside() as no:
        b = otherwise()
    if has_function(a) or has_function(b) or has_box(a) or has_box(b):
        _hoist(w, yes, condition, True)
        _hoist(w, no, condition, False)
        stay = w.moves({})
        return _merged(w, condition, w.moved(a, stay), w.moved(b, stay), name)
    ours, theirs = data(a), data(b)
    if len(ours) != len(theirs):  # one side is a cell of an empty table
        whole = a if len(ours) > len(theirs) else b
        t = type_of(whole)
        ours, theirs = data(conformed(a, t)), data(conformed(b, t))
        a = whole
    differ = [k for k, (x, y) in enumerate(zip(ours, theirs, strict=True)) if not _same(x, y)]
    cells = yes.cells | no.cells
    if not differ and not yes.fails and not no.fails and not cells:
        return a
    types = [type_of(ours[k]) for k in differ]
    value = If(
        condition,
        closed(w, yes, [ours[k] for k in differ]),
        closed(w, no, [theirs[k] for k in differ]),
    )
    t = types[0] if len(types) == 1 else Tuple(tuple(types))
    made = data(w.bind(value, t, name, yes.fails or no.fails, cells))
    for k, m in zip(differ, made, strict=True):
        ours[k] = m
    return like(a, ours)


def _same(a: Meaning, b: Meaning) -> bool:
    return isinstance(a, Leaf) and isinstance(b, Leaf) and a.expr == b.expr


def _hoist(w: Work, scope: Scope, condition: Expr, holds: bool) -> None:
    """One side's statements for both sides: what is not wanted has any value."""

    def only(value: Expr, other: Expr) -> Expr:
        return If(condition, value, other) if holds else If(condition, other, value)

    for st in scope.statements:
        match st:
            case Bound(var, value, t, _, fails, cells):
                value = only(value, instead(value, t))
                w.scope.statements.append(Bound(var, value, t, True, fails, cells))
            case Guard(test, message, origin):
                holds_here = w.bind(only(test, TRUE), BOOL, "holds")
                w.guard(index_expr(holds_here), message, origin)


def instead(value: Expr, t: Type) -> Expr:
    """Any value of the type that another has: with the names inside of it for the lengths of its
    rows."""

    def within(e: Expr, t: Type) -> tuple[Expr, set[Var]]:
        match e, t:
            case For(var, s, body), Table():
                inner, wanted = within(body, cell_at(t, size(var)))
                return For(var, s, inner), wanted | {*of_type(Index(s))}
            case Let(var, held, body), _:
                inner, wanted = within(body, t)
                if var not in wanted:
                    return inner, wanted
                return Let(var, held, inner), wanted | {*named_in(held)}
            case If(_, then), Table():  # of a choice in a side: what it has instead names the same
                return within(then, t)
            case _:
                return anything(t), {*of_type(t)}

    return within(value, t)[0] if isinstance(t, Table) else anything(t)


def _merged(w: Work, condition: Expr, a: Meaning, b: Meaning, name: str) -> Meaning:
    if isinstance(a, Parts) and isinstance(b, Parts):
        pairs = zip(a.items, b.items, strict=True)
        return Parts(tuple(_merged(w, condition, x, y, name) for x, y in pairs))
    if isinstance(a, Boxed) and isinstance(b, Boxed):
        return _either_box(w, condition, a, b, name)
    if isinstance(a, Boxed) or isinstance(b, Boxed):  # the other is a cell of an empty table
        return a if isinstance(a, Boxed) else b
    if has_function(a) or has_function(b):
        return Chosen(condition, a, b)
    if has_box(a) and has_box(b):
        s = _axis(a)
        return tabulate(
            w, s, lambda i: _merged(w, condition, at(w, a, i, s), at(w, b, i, s), name), "i", name
        )
    if _same(a, b):
        return a
    return w.bind(If(condition, quote(w, a), quote(w, b)), type_of(a), name)


def _either_box(w: Work, condition: Expr, a: Boxed, b: Boxed, name: str) -> Meaning:
    """The chosen box: its sizes first, then a value of these sizes."""
    sizes = tuple(
        x if x == y else _size(w, If(condition, number(x), number(y)))
        for x, y in zip(a.sizes, b.sizes, strict=True)
    )
    t = opened(a.type, sizes)
    return Boxed(a.type, sizes, _resized(w, condition, a.value, b.value, t, name))


def _size(w: Work, e: Expr) -> Size:
    n = size_of(index_expr(w.bind(e, INT, "k")))
    assert n is not None
    return n


def _resized(w: Work, condition: Expr, a: Meaning, b: Meaning, t: Type, name: str) -> Meaning:
    """The chosen one of two values, of type `t`; their own sizes may differ from it."""
    if type_of(a) == t == type_of(b):
        return _merged(w, condition, a, b, name)
    match t:
        case Table():
            return _cells(w, condition, (a, b), t, (type_of(a), type_of(b)), (), name)
        case Tuple(items):
            assert isinstance(a, Parts)
            assert isinstance(b, Parts)
            triples = zip(a.items, b.items, items, strict=True)
            return Parts(tuple(_resized(w, condition, x, y, z, name) for x, y, z in triples))
        case _:
            return _merged(w, condition, a, b, name)


def _cells(
    w: Work, condition: Expr, sides: tuple[Meaning, Meaning], t: Type, types: tuple[Type, Type],
    path: tuple[Meaning | int, ...], name: str,
) -> Meaning:  # fmt: skip
    """What the chosen side has at a path of indices and parts, as a value of type `t`: the sides'
    own `types` may have other axes."""

    def reached(m: Meaning) -> Meaning:
        for step in path:
            if isinstance(step, int):
                assert isinstance(m, Parts)
                m = m.items[step]
            else:
                m = at(w, m, step, _axis(m))
        return m

    first, second = types
    if path == () or first != t or second != t:
        match t:
            case Table(s, cell, index):
                known = index is None
                cells = (_row(first), _row(second)) if known else (cell, cell)
                return tabulate(
                    w, s, lambda i: _cells(w, condition, sides, cell, cells, (*path, i), name),
                    "i", name,
                )
            case Tuple(items) if isinstance(first, Tuple) and isinstance(second, Tuple):
                triples = enumerate(zip(items, first.items, second.items, strict=True))
                return Parts(
                    tuple(
                        _cells(w, condition, sides, x, (y, z), (*path, k), name)
                        for k, (x, y, z) in triples
                    )
                )
            case _:
                pass
    a, b = sides
    return choose(w, condition, lambda: reached(a), lambda: reached(b), name)


def _row(t: Type) -> Type:
    """The type of a table's cells, also where a table of tuples is a tuple of tables."""
    match t:
        case Table(_, cell):
            return cell
        case Tuple(items):
            return Tuple(tuple(map(_row, items)))
        case _:
            raise Broken("the cells of something that is no table")


def _axis(m: Meaning) -> Set:
    match m:
        case Leaf(_, Table(s)) | View(s) | Items(s):
            return s
        case Parts(items):
            return _axis(items[0])
        case _:
            raise Broken("an axis of something that is no table")


# ---------------------------------------------------------------- other axes


def recast(w: Work, m: Meaning, old: list[Set], new: list[Set]) -> Meaning:
    """The same cells in the same order under other axes: a view, with as little division as
    the axes allow."""
    if old == new:
        return m
    return _recast(w, m, aligned(old, new), new, [])


def _recast(
    w: Work, m: Meaning, groups: list[tuple[list[Set], list[Set]]], new: list[Set],
    indices: list[Meaning],
) -> Meaning:  # fmt: skip
    """What `indices`, the first of those of `new`, leave of it."""
    if len(indices) < len(new):
        s = new[len(indices)]
        return tabulate(w, s, lambda i: _recast(w, m, groups, new, [*indices, i]), "i", "recast")
    value, rest = m, indices
    for before, after in groups:
        mine, rest = rest[: len(after)], rest[len(after) :]
        for s, i in zip(before, _regrouped(w, before, after, mine), strict=True):
            value = at(w, value, i, s)
    return value


def _regrouped(w: Work, old: list[Set], new: list[Set], indices: list[Meaning]) -> list[Meaning]:
    """Indices of `old` where `indices` of `new` stand, by rows."""
    if old == new:
        return indices
    rest = ZERO
    for s, i in zip(new, indices, strict=True):
        rest = rest * cardinality(s) + ordinal(w, s, index_expr(i))
    out = []
    for k, s in enumerate(old):
        if k == len(old) - 1:
            place = rest
        else:
            stride = ONE
            for x in old[k + 1 :]:
                stride = stride * cardinality(x)
            place, rest = w.places.divide(rest, stride)
        out.append(element_at(w, s, place))
    return out


def ordinal(w: Work, s: Set, index: Expr) -> Size:
    """Where the cell at an index is stored."""
    match s:
        case Fin() | SetVar() | EnumSet() | Sum():
            return _number(w, index, s)
        case Range() | Slice():
            first, step = numbers(s)
            return w.places.divide(_number(w, index, s) - first, step)[0]
        case Reverse(inner):
            return cardinality(inner) - 1 - ordinal(w, inner, index)
        case UnitSet():
            return ZERO
        case BoolSet():
            known = fold("cast", (index,), DType.I64)
            if known is None:
                known = index_expr(w.bind(Op("cast", (index,), INT), INT, "k"))
            n = size_of(known)
            assert n is not None
            return n
        case TupleSet(sets):
            place = ZERO
            for k, x in enumerate(sets):
                part = index.items[k] if isinstance(index, Pack) else None
                assert part is not None
                place = place * cardinality(x) + ordinal(w, x, part)
            return place


def _number(w: Work, index: Expr, s: Set) -> Size:
    n = size_of(w.named(index, Index(s), "k"))
    assert n is not None
    return n


def as_size(w: Work, entry: Entry) -> Size:
    """The number that an index, a scalar or a set is where a size is meant."""
    match entry:
        case Leaf(_, Scalar(DType.BOOL)) | Parts():
            return ordinal(w, _indexed(entry), quote(w, entry))
        case Leaf(e, t):
            n = size_of(w.named(e, t, "k"))
            if n is not None:
                return n
        case (
            Fin() | SetVar() | BoolSet() | UnitSet() | EnumSet() | TupleSet() | Range()
            | Reverse() | Sum() | Slice()
        ):
            return cardinality(entry)
        case _:
            pass
    raise Broken(f"{entry!r} stands in a size")


def _indexed(m: Meaning) -> Set:
    """The set that an index is of."""
    match m:
        case Parts(items):
            return TupleSet(tuple(_indexed(x) for x in items)) if items else UnitSet()
        case Leaf(_, Index(s)):
            return s
        case Leaf(_, Scalar(DType.BOOL)):
            return BoolSet()
        case _:
            raise Broken(f"{m!r} stands in a size")


def element_at(w: Work, s: Set, place: Size) -> Meaning:
    """The index whose cell is stored at a place: the inverse of `ordinal`."""
    match s:
        case Fin() | SetVar() | EnumSet() | Sum():
            return Leaf(number(place), Index(s))
        case Range() | Slice():
            first, step = numbers(s)
            return Leaf(number(first + step * place), Index(s))
        case Reverse(inner):
            return element_at(w, inner, cardinality(inner) - 1 - place)
        case UnitSet():
            return Parts(())
        case BoolSet():
            if place.constant is not None:
                return Leaf(Const(Lit(bool(place.constant), DType.BOOL)), BOOL)
            zero = constant(0, DType.I64)
            return w.bind(Op("ne", (Number(place), zero), INT), BOOL, "b")
        case TupleSet(sets):
            parts = []
            for x in reversed(sets[1:]):
                place, rest = w.places.divide(place, cardinality(x))
                parts.append(element_at(w, x, rest))
            parts.append(element_at(w, sets[0], place))
            return Parts(tuple(reversed(parts)))

