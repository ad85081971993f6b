"""`as` between tables whose rows have unequal lengths and flat ones.

    t as Fin(n * (n + 1) // 2)=>a        every element of t to its place
    x as (i: Fin(n))=>(..=i)=>a          [[x[place(i, j)] for j in ..=i] for i in Fin(n)]

The place of an element, the number of those before it, is a polynomial of its indices.
"""

from __future__ import annotations

from collections.abc import Sequence

from naperian.core import syntax as core
from naperian.frontend.cells import convert, equate, show, widens
from naperian.frontend.messages import errors, index_errors, set_errors
from naperian.frontend.typed import Typed
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.packing import Axis, count, place, runs
from naperian.sizes import ONE, ZERO, Size, size
from naperian.source import Span
from naperian.substitution import Substitution
from naperian.surface import syntax as s
from naperian.type_show import show_type
from naperian.types import (
    INT,
    BoolSet,
    Fin,
    Reverse,
    Set,
    Table,
    TupleSet,
    Type,
    UnitSet,
)


def is_packed(w: Walk, t: Type) -> bool:
    """Whether a table has rows of unequal length."""
    t = w.solver.head(t)
    while isinstance(t, Table):
        if t.index is not None:
            return True
        t = w.solver.head(t.cell)
    return False


def same_cells(w: Walk, found: Type, wanted: Type, span: Span) -> None:
    """The elements are of one type, or are widened."""
    kind = w.solver.head(found)
    if w.solver.dtypes_of(kind) is not None and w.solver.dtypes_of(wanted) is not None:
        if w.solver.is_unknown(kind) or w.solver.is_unknown(wanted):
            equate(w, "the elements", wanted, kind, span)
            return
    if not widens(w, found, wanted):
        equate(w, "the elements", wanted, found, span)


def repacked(w: Walk, e: s.As, value: Typed, target: Type) -> Typed:
    """The operand as the target, one of which has rows of unequal length."""
    solver = w.solver
    span = e.operand.span
    if solver.is_open(value.type):
        raise errors.undetermined(f"`{span.text}`", span)
    found = solver.zonk(value.type)
    old, held = runs(found)
    new, cell = runs(target)
    if not old:
        raise errors.wrong_type("the operand of `as`", show(w, target), show(w, found), span, ())
    same_cells(w, held, cell, span)
    left, right = (_total(w, shape, t, e.span) for shape, t in ((old, found), (new, target)))
    if not e.checked and not w.scope.facts().proves_equal(left, right):
        raise index_errors.recast_sizes(
            show(w, found), show_type(solver.zonk(target)), repr(left), repr(right), e.span
        )

    def build() -> core.Expr:
        kept = solver.zonk(cell)
        expr = convert(w, value.build(), found, _with_cell(found, kept))
        if is_packed(w, found):
            expr = _flattened(expr, old, kept, left)
        else:
            expr = core.Recast(expr, _sets(old), (Fin(left),), kept)
        if is_packed(w, target):
            expr = _packed(expr, new, right)
        else:
            expr = core.Recast(expr, (Fin(right),), _sets(new), kept)
        if not e.checked:
            return expr
        same = core.Op("eq", (core.Number(left), core.Number(right)), INT)
        return core.Check(same, f"`{e.span.text}` needs equally many elements", expr, e.span)

    return Typed(target, build, e.span)


Shape = list[tuple[Axis, ...]]
"""The axes of a table, in runs that are stored as one."""


def _sets(shape: Shape) -> tuple[Set, ...]:
    return tuple(axis.set for run in shape for axis in run)


def _total(w: Walk, shape: Shape, t: Type, span: Span) -> Size:
    """How many elements there are."""
    total = ONE
    for run in shape:
        n = count(run)
        counted = not any(isinstance(a.set, Reverse | TupleSet | BoolSet | UnitSet) for a in run)
        if n is None or (is_packed(w, t) and not counted):
            raise set_errors.no_closed_form(show(w, t), span)
        total = total * n
    return total


def _with_cell(t: Type, cell: Type) -> Type:
    """A table with other elements."""
    if isinstance(t, Table):
        return Table(t.set, _with_cell(t.cell, cell), t.index)
    return cell


def _opened(shape: Shape) -> tuple[list[tuple[Var, Set]], Size]:
    """A variable and its set for every axis, and the place of the element at them."""
    binders: list[tuple[Var, Set]] = []
    whole = ZERO
    for run in shape:
        here: list[Size] = []
        names: dict[Var, Size] = {}
        for axis in run:
            v = Var(axis.index.name if axis.index is not None else "j")
            binders.append((v, Substitution({}, {}, names).set(axis.set)))
            here.append(size(v))
            if axis.index is not None:
                names[axis.index] = size(v)
        n, k = count(run), place(run, here)
        assert n is not None
        assert k is not None
        whole = whole * n + k
    return binders, whole


def _for_all(binders: Sequence[tuple[Var, Set]], body: core.Expr) -> core.Expr:
    for v, own in reversed(binders):
        body = core.For(v, own, body)
    return body


def _packed(flat: core.Expr, shape: Shape, total: Size) -> core.Expr:
    """The rows of a flat table."""
    x = Var("x")
    binders, k = _opened(shape)
    element = core.At(core.Ref(x), core.Number(k), Fin(total))
    return core.Let(x, flat, _for_all(binders, element))


def _flattened(table: core.Expr, shape: Shape, cell: Type, total: Size) -> core.Expr:
    """Every element of a packed table at its place in a flat one."""
    x, out = Var("x"), Var("flat")
    binders, k = _opened(shape)
    element: core.Expr = core.Ref(x)
    for v, own in binders:
        element = core.At(element, core.Ref(v), own)
    whole = Table(Fin(total), cell)
    put = core.Assign(core.At(core.Ref(out), core.Number(k), Fin(total)), element)
    held = core.Cell(out, whole, core.Blank(whole), "add", None, True)
    return core.Let(x, table, core.Part(core.Handle((held,), _for_all(binders, put)), 1))
