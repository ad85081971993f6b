"""Tables: comprehensions, literals, joins, and the same data under other index sets (`as`)."""

from __future__ import annotations

from contextlib import suppress
from functools import partial, reduce

from naperian.core import syntax as core
from naperian.frontend.annotations import as_type
from naperian.frontend.binders import Bound, open_binder
from naperian.frontend.boxes import alike, alone, closed, computed, countable, natural, open_box
from naperian.frontend.cells import convert, converts, show
from naperian.frontend.kept import kept
from naperian.frontend.messages import errors, index_errors, limit_errors, name_errors, set_errors
from naperian.frontend.operators import (
    join_types,
)
from naperian.frontend.repack import is_packed, repacked, same_cells
from naperian.frontend.scope import Scope
from naperian.frontend.solve import Mismatch
from naperian.frontend.typed import Build, Typed, wrap
from naperian.frontend.unknowns import Because
from naperian.frontend.walk import Walk
from naperian.frontend.zipped import rezip
from naperian.names import Var
from naperian.sizes import ONE, ZERO, Size, size
from naperian.source import Span
from naperian.substitution import cell_at, dependent
from naperian.surface import syntax as s
from naperian.type_show import show_set, show_type
from naperian.types import (
    INT,
    UNIT,
    BoolSet,
    EnumSet,
    Fin,
    Index,
    Range,
    Set,
    SetVar,
    Table,
    TupleSet,
    Type,
    cardinality,
    set_variables,
    sum_of,
    table,
)


def open_all(
    w: Walk, binders: tuple[s.Binder, ...], expected: Type | None = None
) -> tuple[list[Bound], Type | None]:
    """Open binders in order; the expected type of the body is what is left of `expected`."""
    bounds = []
    left = w.solver.head(expected) if expected is not None else None
    for b in binders:
        axis = left.set if isinstance(left, Table) and b.domain is None else None
        bound = open_binder(w, b, axis)
        bounds.append(bound)
        left = w.solver.head(cell_at(left, size(bound.var))) if isinstance(left, Table) else None
    return bounds, left


def _in_order(w: Walk, bounds: list[Bound]) -> None:
    """A range comes after the binders it depends on."""
    for k, b in enumerate(bounds):
        needed = set(set_variables(w.solver.zonk_set(b.set)))
        for later in bounds[k + 1 :]:
            if later.var in needed:
                raise set_errors.binder_order(b.var.name, later.var.name, b.span)


def name_ends(bounds: list[Bound]) -> None:
    """The ends of a table's range are names of the region around, as its type mentions them: the
    size of `a[e] for e in r[i]..r[i + 1]` is known only there."""
    for b in bounds:
        ends = {v for v in set_variables(b.set) if any(v == x for x, _ in b.outside)}
        if ends:
            b.around.names.update(ends)
            b.around.wraps += [partial(_named, v, value) for v, value in b.outside]
            b.outside = ()


def _named(v: Var, value: Build, expr: core.Expr) -> core.Expr:
    return core.Let(v, value(), expr)


def nest(
    w: Walk, bounds: list[Bound], body: Typed, span: Span, expected: Type | None = None
) -> Typed:
    """The table of the body over the binders, which its sizes may mention; cells whose sizes end
    with a binder's region are closed."""
    _in_order(w, bounds)
    wanted = [expected]
    for b in bounds:
        kind = w.solver.head(wanted[-1]) if wanted[-1] is not None else None
        wanted.append(cell_at(kind, size(b.var)) if isinstance(kind, Table) else None)
    is_effect = w.solver.head(body.type) == UNIT  # which is done as often as there are elements
    for b, cell, scope in reversed(list(zip(bounds, wanted[1:], _around(w, bounds), strict=True))):
        w.region = b.around
        inner = closed(w, b.region, body, cell)
        whole = dependent(b.set, b.var, w.solver.zonk(inner.type))
        body = Typed(whole, _one(w, b, b.body(inner.build), None if is_effect else scope), span)
    return body


def _around(w: Walk, bounds: list[Bound]) -> list[Scope]:
    """What is known outside each of these binders, which are bound in the scope of the walk."""
    outside = (w.scope.parent or w.scope).so_far()
    out = []
    for b in bounds:
        out.append(outside)
        outside = outside.inner()
        outside.assume_index(b.var, b.set)
    return out


def _one(w: Walk, b: Bound, inner: Build, around: Scope | None) -> Build:
    """The table over one binder."""

    def build() -> core.Expr:
        made = core.For(b.var, w.solver.zonk_set(b.set), inner())
        return made if around is None else whole(w, made, around, b.span)

    return wrap(b.outside, build)


def whole(w: Walk, made: core.For, around: Scope, span: Span) -> core.Expr:
    """A table, which is not made if an integer that is its size is negative, as far as is known
    around it."""
    own = made.set
    if not isinstance(own, Fin):
        return made
    if computed(w, around, own.size):
        return countable(own.size, made, span)
    if around.facts().proves(own.size):
        return made
    return natural(own.size, made, span)


def comprehension(w: Walk, e: s.Comprehension, expected: Type | None) -> Typed:
    if e.condition is not None:
        return kept(w, e.binders, e.element, e.condition, expected, e.span)
    with w.inside(w.scope.inner(block=True)):
        bounds, left = open_all(w, e.binders, expected)
        name_ends(bounds)
        body = w.infer(e.element, left)
        return nest(w, bounds, body, e.span, expected)


def ragged(w: Walk, bounds: list[Bound], span: Span) -> None:
    """Binders that become one axis of tuples must not depend on each other."""
    before: set[Var] = set()
    for b in bounds:
        own = w.solver.zonk_set(b.set)
        if before & set(set_variables(own)):
            raise set_errors.ragged_axis(show_set(own), span)
        before.add(b.var)


def generator_table(w: Walk, g: s.Generator) -> Typed:
    """`e for i, j` as an argument: the table over one axis of all binders."""
    if g.condition is not None:
        return open_box(w, kept(w, g.binders, g.element, g.condition, None, g.span))
    with w.inside(w.scope.inner(block=True)):
        bounds, _ = open_all(w, g.binders)
        name_ends(bounds)
        body = w.infer(g.element)
        whole = nest(w, bounds, body, g.span)
    if len(bounds) == 1:
        return whole
    ragged(w, bounds, g.span)

    def one_axis() -> core.Expr:
        sets = tuple(w.solver.zonk_set(b.set) for b in bounds)
        return core.Recast(whole.build(), sets, (TupleSet(sets),), w.solver.zonk(body.type))

    return Typed(Table(TupleSet(tuple(b.set for b in bounds)), body.type), one_axis, g.span)


def bracket(w: Walk, e: s.Bracket, expected: Type | None) -> Typed:
    """`[a, b, c]` and joins `[x, *xs]`."""
    solver = w.solver
    kind = solver.head(expected) if expected is not None else None
    cell_hint = kind.cell if isinstance(kind, Table) else None
    if isinstance(kind, Table) and kind.index is not None:
        return rows(w, e, kind)
    if any(isinstance(x, s.Star) for x in e.items):
        return join(w, e, cell_hint, kind.set if isinstance(kind, Table) else None)
    items = [
        alone(w, partial(w.infer, x, cell_hint), cell_hint)
        for x in e.items if not isinstance(x, s.Star)
    ]
    items = alike(w, items)
    axis: Set = Fin(size(len(items)))
    if isinstance(kind, Table):
        own = solver.zonk_set(kind.set)
        named = isinstance(own, EnumSet | BoolSet) or (isinstance(own, TupleSet) and own.made)
        if named and cardinality(own) == size(len(items)):
            axis = own
    if not items:
        cell: Type = cell_hint if cell_hint is not None else solver.type("a")
    else:
        try:
            cell = join_types(w, items, e.span)
        except errors.Reported as r:
            if r.diagnostic.code == "N0315":
                first, other = items[0], items[-1]
                if all(isinstance(solver.head(x.type), Table) for x in items):
                    raise set_errors.unequal_rows(
                        show(w, first.type), show(w, other.type), first.span, other.span
                    ) from None
                raise errors.elements(
                    show(w, first.type), show(w, other.type), first.span, other.span
                ) from None
            raise

    def build() -> core.Expr:
        if not items and solver.determined(cell):
            return core.Blank(solver.zonk(Table(axis, cell)))  # which says what its cells would be
        return core.Literal(
            solver.zonk_set(axis), tuple(convert(w, x.build(), x.type, cell) for x in items)
        )

    return Typed(Table(axis, cell), build, e.span)


def rows(w: Walk, e: s.Bracket, kind: Table) -> Typed:
    """`[[1.0], [2.0, 3.0]]` where a dependent table is expected: its rows, each of the length that
    the type says."""
    solver = w.solver
    with suppress(Mismatch):  # told below, in the words of rows
        if isinstance(solver.head_set(kind.set), SetVar):
            solver.unify_set(kind.set, Fin(size(len(e.items))))
        else:
            solver.unify_size(cardinality(kind.set), size(len(e.items)))
    own = solver.zonk_set(kind.set)
    items: list[tuple[Var, Typed, Type]] = []
    base = own.low if isinstance(own, Range) else ZERO
    for k, x in enumerate(e.items):
        if isinstance(x, s.Star):
            raise limit_errors.joined_rows(x.span)
        wanted = cell_at(kind, base + k)
        typed = w.infer(x, wanted)
        if isinstance(x, s.Bracket):  # whose elements are told by their order
            wanted = _counted(solver.zonk(wanted))
        converts(w, "this row", wanted, typed.type, typed, x.span)
        items.append((Var("row"), typed, wanted))
    count = cardinality(own)
    if not w.scope.facts().proves_equal(count, size(len(items))):
        raise set_errors.row_count(repr(count), len(items), show(w, kind), e.span)

    def build() -> core.Expr:
        i, j = Var("i"), Var("j")
        whole = solver.zonk(kind)
        assert isinstance(whole, Table)
        inner = cell_at(whole, size(i))
        assert isinstance(inner, Table)
        body: core.Expr | None = None
        for k, (v, _, wanted) in reversed(list(enumerate(items))):
            t = solver.zonk(wanted)
            assert isinstance(t, Table)
            at: core.Expr = core.Ref(j)
            if t.set != inner.set and isinstance(inner.set, Range):
                at = core.Number(size(j) - inner.set.low)
            cell: core.Expr = core.At(core.Ref(v), at, t.set)
            here = core.Op("eq", (core.Ref(i), core.Number(base + k)), INT)
            body = cell if body is None else core.If(here, cell, body)
        assert body is not None
        expr: core.Expr = core.For(i, solver.zonk_set(own), core.For(j, inner.set, body))
        for v, typed, wanted in reversed(items):
            expr = core.Let(v, convert(w, typed.build(), typed.type, wanted), expr)
        return expr

    return Typed(kind, build, e.span)


def _counted(t: Type) -> Type:
    """A table over a range as one of as many elements."""
    if isinstance(t, Table) and isinstance(t.set, Range) and t.index is None:
        return Table(Fin(cardinality(t.set)), t.cell)
    return t


def _unlike(w: Walk, e: s.Bracket, cells: list[Typed]) -> errors.Reported:
    """Items that have no type together; a table among them may have been meant with its star."""
    kinds = [w.solver.head(c.type) for c in cells]
    tables = [isinstance(k, Table) for k in kinds]
    other = next((k for k in range(1, len(cells)) if tables[k] != tables[0]), len(cells) - 1)
    table = cells[other if tables[other] else 0]
    starred = (x.value.span for x in e.items if isinstance(x, s.Star))
    helps = () if table.span in starred else (f"`*{table.span.text}` joins its elements",)
    return errors.elements(
        show(w, cells[0].type), show(w, cells[other].type), cells[0].span, cells[other].span,
        helps if tables[0] != tables[other] else (),
    )


def join(w: Walk, e: s.Bracket, cell_hint: Type | None, expected: Set | None) -> Typed:
    """`[a, *xs, b]`: pieces one after the other, over the sum of their sets (a `Fin` if they all
    are, or if one is expected)."""
    solver = w.solver
    pieces: list[tuple[Typed, Size]] = []
    sets: list[Set] = []
    cells: list[Typed] = []
    for x in e.items:
        if isinstance(x, s.Star):
            if x.double:
                raise name_errors.not_yet("a grid of blocks", x.span)
            typed = w.infer(x.value)
            t = solver.head(typed.type)
            if not isinstance(t, Table):
                raise errors.not_a_table(x.value.span.text, show(w, t), x.value.span)
            pieces.append((typed, cardinality(solver.zonk_set(t.set))))
            sets.append(solver.zonk_set(t.set))
            cells.append(Typed(t.cell, typed.build, x.value.span))
        else:
            typed = w.infer(x, cell_hint)
            pieces.append((typed, ONE))
            sets.append(Fin(ONE))
            cells.append(typed)
    try:
        cell = join_types(w, cells, e.span)
    except errors.Reported as r:
        if r.diagnostic.code != "N0315":
            raise
        raise _unlike(w, e, cells) from None
    total = ZERO
    for _, n in pieces:
        total = total + n
    axis: Set = Fin(total)
    numbered = expected is not None and isinstance(solver.head_set(expected), Fin)
    if not numbered and not any(map(solver.set_is_open, sets)):
        axis = reduce(sum_of, sets)

    def build() -> core.Expr:
        i = Var("i")
        lets: list[tuple[Var, core.Expr]] = []
        arms: list[tuple[Size, core.Expr]] = []
        start = ZERO
        for (typed, n), x, c in zip(pieces, e.items, cells, strict=True):
            value = typed.build()
            if isinstance(x, s.Star):
                v = Var("xs")
                lets.append((v, value))
                t = solver.zonk(typed.type)
                assert isinstance(t, Table)
                place: core.Expr = core.Number(size(i) - start)
                if not isinstance(t.set, Fin):
                    place = core.Checked(place, t.set, proved=True)
                value = core.At(core.Ref(v), place, t.set)
            else:
                v = Var("x")
                lets.append((v, value))
                value = core.Ref(v)
            start = start + solver.zonk_size(n)
            arms.append((start, convert(w, value, c.type, cell)))
        body = arms[-1][1]
        for end, value in reversed(arms[:-1]):
            test = core.Op("lt", (core.Number(size(i)), core.Number(end)), INT)
            body = core.If(test, value, body)
        expr: core.Expr = core.For(i, solver.zonk_set(axis), body)
        for v, value in reversed(lets):
            expr = core.Let(v, value, expr)
        return expr

    return Typed(Table(axis, cell), build, e.span)


# ---------------------------------------------------------------- conversions of axes



def recast(w: Walk, e: s.As) -> Typed:
    """`e as T`: the same data under other index sets."""
    solver = w.solver
    target = as_type(w, e.type)
    new, cell = solver.axes(target)
    value = w.infer(e.operand, target if isinstance(e.operand, s.Bracket) else None)
    if is_packed(w, target) or is_packed(w, value.type):
        return repacked(w, e, value, target)
    all_axes, found = solver.axes(value.type)
    if solver.is_open(found):
        raise errors.undetermined(f"`{e.operand.span.text}`", e.operand.span)
    old = all_axes
    zipped = rezip(w, value, target, e.span)
    if zipped is not None:
        return zipped
    if not new or not old:
        operand = e.operand.span.text
        is_index = isinstance(target, Index)
        wanted, given = show(w, target), show(w, value.type)
        if wanted == given:
            raise errors.no_table(wanted, e.operand.span)
        raise errors.wrong_type(
            "the operand of `as`", wanted, given, e.operand.span,
            notes=("`as` changes index sets; `Int(x)`, `F32(x)` … convert numbers",),
            helps=(f"`{operand}?` is the index, checked at run time",) if is_index else (),
        )
    kept: Type = cell
    same_cells(w, found, cell, e.operand.span)
    left, right = _product(old), _product(new)
    scope = w.scope.so_far()

    def goal() -> None:
        if e.checked:
            return
        a, b = solver.zonk_size(left), solver.zonk_size(right)
        with w.inside(scope):
            if not scope.facts().proves_equal(a, b):
                raise index_errors.recast_sizes(
                    show(w, value.type), show_type(solver.zonk(target)), repr(a), repr(b), e.span
                )

    with suppress(Mismatch):  # the goal below says it in the words of `as`
        solver.unify_size(left, right, Because(e.span, f"`{e.span.text}`"))
    solver.goals.append(goal)

    def build() -> core.Expr:
        body = convert(w, value.build(), value.type, table(old, kept))
        expr: core.Expr = core.Recast(
            body,
            tuple(solver.zonk_set(x) for x in old),
            tuple(solver.zonk_set(x) for x in new),
            solver.zonk(kept),
        )
        if e.checked:
            same = core.Op(
                "eq", (core.Number(solver.zonk_size(left)), core.Number(solver.zonk_size(right))),
                INT,
            )
            expr = core.Check(same, f"`{e.span.text}` needs equally many elements", expr, e.span)
        facts = scope.facts().and_(*map(size, w.opened))
        for n in map(solver.zonk_size, map(cardinality, new)) if len(new) > 1 else ():
            if not facts.proves(n):  # two of them might have a positive product
                expr = natural(n, expr, e.span)
        return expr

    return Typed(target, build, e.span)


def _product(sets: list[Set]) -> Size:
    total = ONE
    for x in sets:
        total = total * cardinality(x)
    return total
