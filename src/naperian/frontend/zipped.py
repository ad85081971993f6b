"""A table of tuples and a tuple of tables are the same data: `as` takes one to the other.

    xs: n=>(Float, Int)             xs as (n=>Float, n=>Int)
    xy: (n=>Float, n=>Int)          xy as n=>(Float, Int)
"""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.frontend.cells import convert, converts
from naperian.frontend.fields import each
from naperian.frontend.typed import Build, Typed
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.source import Span
from naperian.types import Data, Set, Tuple, Type, table


def rezip(w: Walk, value: Typed, target: Type, span: Span) -> Typed | None:
    """The value as the target, if one is a table of tuples and the other a tuple of tables."""
    axes, cell = w.solver.axes(value.type)
    frame, wanted = w.solver.axes(target)
    if not isinstance(cell, Tuple) or not isinstance(wanted, Tuple):
        return None
    if isinstance(cell, Data) or isinstance(wanted, Data):
        return None
    if len(cell.items) != len(wanted.items) or bool(axes) == bool(frame):
        return None
    old = tuple(table(axes, x) for x in cell.items)
    new = tuple(table(frame, x) for x in wanted.items)
    whole = Var("t")
    parts: list[Typed] = []
    for k, (a, b, item) in enumerate(zip(old, new, cell.items, strict=True)):
        part = Typed(a, _item(w, whole, axes, k, item), value.span)
        converts(w, f"item {k} of `{value.span.text}`", b, a, part, value.span)
        parts.append(part)

    def build() -> core.Expr:
        made = [convert(w, p.build(), p.type, b) for p, b in zip(parts, new, strict=True)]
        return core.Let(whole, value.build(), _together(w, made, frame))

    return Typed(target, build, span)


def _item(w: Walk, whole: Var, axes: list[Set], k: int, item: Type) -> Build:
    return lambda: each(w, core.Ref(whole), axes, k, item)


def _together(w: Walk, parts: list[core.Expr], frame: list[Set]) -> core.Expr:
    """Tables over the frame as a table of tuples; the tuple itself, if the frame is empty."""
    if not frame:
        return core.Pack(tuple(parts))
    names = [Var("t") for _ in parts]
    indices = [Var("i") for _ in frame]
    sets = [w.solver.zonk_set(s) for s in frame]
    cells: list[core.Expr] = []
    for name in names:
        cell: core.Expr = core.Ref(name)
        for i, own in zip(indices, sets, strict=True):
            cell = core.At(cell, core.Ref(i), own)
        cells.append(cell)
    body: core.Expr = core.Pack(tuple(cells))
    for i, own in zip(reversed(indices), reversed(sets), strict=True):
        body = core.For(i, own, body)
    for name, part in zip(reversed(names), reversed(parts), strict=True):
        body = core.Let(name, part, body)
    return body
