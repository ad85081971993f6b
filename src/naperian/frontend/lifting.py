"""Applying a function to arguments with more axes than its parameters.

The extra axes of each argument are its frame. Frames are lined up by index set: the common frame
is the frame of one argument, and every other one must embed in it, in order, in exactly one way.
With fixed ranks (`f~(1, 1)`) the shorter frame must be a prefix of the longer (Remora). The frame
of a tuple result goes inside the tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeGuard

from naperian.core import syntax as core
from naperian.frontend.cells import clash, convert, converts, equate, join_cells, show
from naperian.frontend.frames import LETTERS, Callee, align, because_of, frame_labels
from naperian.frontend.index_arguments import taken
from naperian.frontend.messages import lift_errors
from naperian.frontend.scalars import NUMBERS
from naperian.frontend.solve import Mismatch
from naperian.frontend.typed import Typed
from naperian.frontend.unknowns import Because
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.node import mutable
from naperian.sizes import size
from naperian.source import Span
from naperian.substitution import cell_at, dependent
from naperian.types import (
    INT,
    Data,
    Exists,
    Function,
    Set,
    Table,
    Tuple,
    Type,
    TypeVar,
    table,
)


@mutable
class Plan:
    """How one application is lifted: the common frame, and for each argument where its frame axes
    stand in it; the types its cells are converted to."""

    frame: list[Set] = field(default_factory=list)
    places: list[tuple[int, ...]] = field(default_factory=list)
    cells: list[Type] = field(default_factory=list)
    result: Type = INT


def apply(w: Walk, callee: Callee, args: list[Typed], span: Span) -> Typed:
    """The application, lifted as far as the arguments need."""
    solver = w.solver
    if callee.scalars is None:
        args = [_index(w, callee, k, arg) for k, arg in enumerate(args)]
    by_rows = _by_rows(w, callee, args, span)
    if by_rows is not None:
        return by_rows
    plan: Plan | None = None
    answer: Type | None = None
    scope = w.scope.so_far()

    def attempt(force: bool) -> bool:
        nonlocal plan
        with w.inside(scope):
            made = _plan(w, callee, args, span, force)
            if made is None:
                return False
            plan = made
            if answer is not None:
                kind = frame_type(w, made.frame, made.result)
                try:
                    solver.unify(answer, kind)
                except Mismatch as m:
                    raise clash(w, f"the result of {callee.title}", answer, kind, span, m) from None
        return True

    if not attempt(False):
        answer = solver.type("t")
        solver.tasks.append(attempt)
        result: Type = answer
    else:
        assert plan is not None
        result = frame_type(w, plan.frame, plan.result)

    def build() -> core.Expr:
        assert plan is not None
        lifted(w, span, plan.frame, list(zip(args, plan.places, strict=True)), plan.result)
        return _build(w, callee, args, plan)

    return Typed(result, build, span)


def _index(w: Walk, callee: Callee, k: int, arg: Typed) -> Typed:
    """An argument that may be an index of the parameter's set."""
    others = (t for n, t in enumerate(callee.params) if n != k)
    return taken(
        w, _argument(callee, k), callee.params[k], arg, others, _declared(callee, k)
    )


def _argument(callee: Callee, k: int) -> str:
    """What messages call an argument."""
    name = callee.names[k] if k < len(callee.names) else ""
    return f"argument `{name}` of {callee.title}" if name else f"the argument of {callee.title}"


def _declared(callee: Callee, k: int) -> Because | None:
    return callee.declared[k] if k < len(callee.declared) else None


def _by_rows(w: Walk, callee: Callee, args: list[Typed], span: Span) -> Typed | None:
    """The application mapped over the outermost axis, if an argument has rows of unequal length
    in its frame: those are lined up row by row."""
    solver = w.solver
    over: Table | None = None
    for param, arg in zip(callee.params, args, strict=True):
        t = solver.head(arg.type)
        if over is None and isinstance(t, Table) and _extra(w, callee, param, t, dependent=True):
            over = t
    if over is None:
        return None
    own, i = over.set, Var("i")
    whole: list[tuple[Var, Typed]] = []
    cells: list[Typed] = []
    places: list[tuple[int, ...]] = []
    for param, arg in zip(callee.params, args, strict=True):
        t = solver.head(arg.type)
        v = Var("x")
        whole.append((v, arg))
        mapped = isinstance(t, Table) and _extra(w, callee, param, t, dependent=False) and (
            solver.same_set(t.set, own)
        )
        places.append((0,) if mapped else ())
        if mapped and isinstance(t, Table):
            cells.append(Typed(cell_at(t, size(i)), _at(v, i, own, w), arg.span))
        else:
            cells.append(Typed(arg.type, _ref(v), arg.span, arg.poly, arg.lets))
    with w.inside(w.scope.inner()) as scope:
        scope.assume_index(i, own)
        inner = apply(w, callee, cells, span)
        if solver.is_open(inner.type):
            solver.run()

    def build() -> core.Expr:
        frame = [solver.zonk_set(own)]
        lifted(w, span, frame, list(zip(args, places, strict=True)), inner.type)
        body = over_frame(w, inner.build(), inner.type, [i], frame)
        for v, a in reversed(whole):
            body = core.Let(v, a.build(), body)
        return body

    return Typed(_rows_type(own, i, solver.zonk(inner.type)), build, span)


def _extra(w: Walk, callee: Callee, param: Type, t: Type, dependent: bool) -> bool:
    """Whether an argument has more axes than its parameter (and one of them is dependent)."""
    wanted, pcell = w.solver.axes(param)
    if isinstance(pcell, Function | Table) or (
        callee.scalars is None and isinstance(pcell, TypeVar) and not w.solver.dtypes_of(pcell)
    ):
        return False
    axes, found = 0, False
    while isinstance(t, Table):
        axes, found = axes + 1, found or t.index is not None
        t = w.solver.head(t.cell)
    return axes > len(wanted) and (found or not dependent)


def _rows_type(own: Set, i: Var, cell: Type) -> Type:
    """The type of the table of cells, inside of tuples."""
    if isinstance(cell, Tuple) and cell.items:
        return Tuple(tuple(_rows_type(own, i, x) for x in cell.items))
    return dependent(own, i, cell)


def _at(v: Var, i: Var, own: Set, w: Walk) -> Callable[[], core.Expr]:
    return lambda: core.At(core.Ref(v), core.Ref(i), w.solver.zonk_set(own))


def lifted(
    w: Walk, span: Span, frame: list[Set], args: list[tuple[Typed, tuple[int, ...]]], result: Type
) -> None:
    """Remember a lift for `explain`."""
    if frame:
        sets = tuple(w.solver.zonk_set(x) for x in frame)
        places = tuple((a.span, where) for a, where in args)
        w.lifts[core.Lift(span, sets, places, w.solver.zonk(result))] = None


def frame_type(w: Walk, frame: list[Set], result: Type) -> Type:
    """The result's type under a frame, which goes inside tuples."""
    if not frame:
        return result
    result = w.solver.head(result)
    if _goes_inside(result):
        return Tuple(tuple(frame_type(w, frame, x) for x in result.items))
    return table(frame, result)


def _goes_inside(result: Type) -> TypeGuard[Tuple]:
    """A frame goes inside a tuple. `n=>Point` stays a table of structs, whose fields are fixed."""
    return isinstance(result, Tuple) and not isinstance(result, Data) and bool(result.items)


# ---------------------------------------------------------------- planning


def _plan(w: Walk, callee: Callee, args: list[Typed], span: Span, force: bool) -> Plan | None:
    frames: list[list[Set]] = []
    rests: list[tuple[list[Set], Type]] = []
    for k, (param, arg) in enumerate(zip(callee.params, args, strict=True)):
        split = _split(w, callee, k, param, arg, force)
        if split is None:
            return None
        frame, rest, cell = split
        frames.append(frame)
        rests.append((rest, cell))
    aligned = align(w, callee, args, frames, span, force)
    if aligned is None:
        return None
    common, places = aligned
    cells: list[Type] = []
    if callee.scalars is not None:
        typed = [
            Typed(cell, a.build, a.span, a.poly) for (_, cell), a in zip(rests, args, strict=True)
        ]
        cells, result = callee.scalars(w, typed, span)
    else:
        cells = _match_cells(w, callee, args, rests, span)
        result = callee.result
    return Plan(common, places, cells, result)


def _split(
    w: Walk, callee: Callee, k: int, param: Type, arg: Typed, force: bool
) -> tuple[list[Set], list[Set], Type] | None:
    """The argument's frame, its cell's axes and its innermost cell."""
    solver = w.solver
    axes, cell = solver.axes(arg.type)
    if callee.scalars is not None:  # a primitive, whose parameters are scalars
        return None if not force and solver.is_open(cell) else (axes, [], cell)
    wanted, pcell = solver.axes(param)
    if isinstance(pcell, Function):
        return (axes, [], cell) if callee.lifts_functions and k == 0 else ([], axes, cell)
    takes_all = isinstance(pcell, TypeVar) and not solver.is_cell(pcell)
    if takes_all and (len(axes) <= len(wanted) or solver.is_unknown(pcell)):
        return [], axes, cell
    if solver.is_open(cell):
        if not force:
            return None
        if len(axes) < len(wanted):
            missing = table(wanted[len(axes) :], pcell)
            equate(w, f"the argument of {callee.title}", missing, cell, arg.span)
            axes, cell = solver.axes(arg.type)
    inner = 0
    if isinstance(pcell, Exists) and _boxes(w, cell) < _boxes(w, pcell):
        inner = len(solver.axes(pcell.body)[0])  # of a value that is closed for the call
    n = max(0, len(axes) - len(wanted) - inner)
    return axes[:n], axes[n:], cell


def _boxes(w: Walk, t: Type) -> int:
    """How many boxes are in each other."""
    _, t = w.solver.axes(t)
    return 1 + _boxes(w, t.body) if isinstance(t, Exists) else 0


# ---------------------------------------------------------------- cells


def _match_cells(
    w: Walk,
    callee: Callee,
    args: list[Typed],
    rests: list[tuple[list[Set], Type]],
    span: Span,
) -> list[Type]:
    """Equate each parameter with its argument's cell; scalars of one type variable are joined."""
    solver = w.solver
    groups: dict[Var, list[int]] = {}
    for k, param in enumerate(callee.params):
        wanted, pcell = solver.axes(param)
        if (
            isinstance(pcell, TypeVar)
            and solver.is_unknown(pcell)
            and solver.dtypes_of(pcell) is not None
            and len(rests[k][0]) == len(wanted)
        ):
            groups.setdefault(pcell.var, []).append(k)
    for v, members in groups.items():
        cells = [Typed(rests[k][1], args[k].build, args[k].span, args[k].poly) for k in members]
        dtypes = solver.dtypes_of(TypeVar(v)) or NUMBERS
        needs = solver.unknown[v].needs
        joined = join_cells(w, callee.title, cells, dtypes, span, needs)
        equate(w, f"the argument of {callee.title}", TypeVar(v), joined, cells[0].span)
    out: list[Type] = []
    for k, (param, arg) in enumerate(zip(callee.params, args, strict=True)):
        rest, cell = rests[k]
        out.append(param)
        what, declared = _argument(callee, k), _declared(callee, k)
        converts(w, what, param, table(rest, cell), arg, span, declared)
    return out


# ---------------------------------------------------------------- ranks


def ranked(
    w: Walk, title: str, make: Callable[[list[Typed]], Typed], args: list[Typed],
    ranks: tuple[int | None, ...], span: Span,
) -> Typed:
    """`f~(r, …)(x, …)`: `f` on cells of the given ranks, the frames lined up as prefixes
    (Remora's rule; the shorter frame's cells are replicated)."""
    solver = w.solver
    solver.run()  # the ranks of the arguments must be known here
    frames: list[list[Set]] = []
    cells: list[Typed] = []
    names = [Var("x") for _ in args]
    for k, (a, v) in enumerate(zip(args, names, strict=True)):
        axes, cell = solver.axes(a.type)
        fixed = ranks[k if len(ranks) > 1 else 0]
        n = len(axes) if fixed is None else fixed if fixed >= 0 else len(axes) + fixed
        if not 0 <= n <= len(axes):
            raise lift_errors.bad_rank(title, str(fixed), show(w, a.type), a.span)
        frames.append(axes[: len(axes) - n])
        cells.append(Typed(table(axes[len(axes) - n :], cell), _ref(v), a.span))
    common = max(frames, key=len, default=[])
    for a, frame in zip(args, frames, strict=True):
        for x, y in zip(frame, common, strict=False):
            try:
                solver.unify_set(x, y, because_of(w, a, x))
            except Mismatch:
                raise lift_errors.prefix(title, frame_labels(w, args, frames), span) from None
    inner = make(cells)

    def build() -> core.Expr:
        whole = [Var("x") for _ in args]
        indices = [Var(LETTERS[k % len(LETTERS)]) for k in range(len(common))]
        own_axes = [tuple(range(len(own))) for own in frames]
        lifted(w, span, common, list(zip(args, own_axes, strict=True)), inner.type)
        body = inner.build()
        for v, x, a, own in reversed(list(zip(names, whole, args, frames, strict=True))):
            cell: core.Expr = core.Ref(x)
            found = solver.zonk(a.type)
            for i in indices[: len(own)]:
                assert isinstance(found, Table)
                cell = core.At(cell, core.Ref(i), found.set)
                found = found.cell
            body = core.Let(v, cell, body)
        frame = [solver.zonk_set(s) for s in common]
        body = over_frame(w, body, inner.type, indices, frame)
        for x, a in reversed(list(zip(whole, args, strict=True))):
            body = core.Let(x, a.build(), body)
        return body

    return Typed(frame_type(w, common, inner.type), build, span)


def _ref(v: Var) -> Callable[[], core.Expr]:
    return lambda: core.Ref(v)


# ---------------------------------------------------------------- building


def _build(w: Walk, callee: Callee, args: list[Typed], plan: Plan) -> core.Expr:
    solver = w.solver
    exprs = [a.build() for a in args]
    frame = [solver.zonk_set(s) for s in plan.frame]
    if not frame:
        return callee.call(
            [
                convert(w, e, a.type, cell)
                for e, a, cell in zip(exprs, args, plan.cells, strict=True)
            ]
        )
    lets: list[tuple[Var, core.Expr]] = []
    indices = [Var(LETTERS[k % len(LETTERS)]) for k in range(len(frame))]
    cells = []
    for e, a, places, cell in zip(exprs, args, plan.places, plan.cells, strict=True):
        if places:
            e = named(e, lets)
            found: Type = solver.zonk(a.type)
            for p in places:
                assert isinstance(found, Table)
                e = core.At(e, core.Ref(indices[p]), found.set)
                found = found.cell
        else:
            found = a.type
            # kept out of the loop: evaluated once, and its name is not captured
            e = named(e, lets)
        cells.append(convert(w, e, found, cell))
    body = over_frame(w, callee.call(cells), plan.result, indices, frame)
    for v, value in reversed(lets):
        body = core.Let(v, value, body)
    return body


def named(e: core.Expr, lets: list[tuple[Var, core.Expr]]) -> core.Expr:
    """`e`, or a name for it if it is more than a name."""
    if isinstance(e, (core.Ref, core.Const, core.ConstOf, core.Use, core.Lambda, core.Number)):
        return e
    v = Var("x")
    lets.append((v, e))
    return core.Ref(v)


def over_frame(
    w: Walk, body: core.Expr, result: Type, indices: list[Var], frame: list[Set]
) -> core.Expr:
    """The table of `body` over the frame; a tuple of tables when the body is a tuple."""

    def nest(inner: core.Expr) -> core.Expr:
        for v, s in zip(reversed(indices), reversed(frame), strict=True):
            inner = core.For(v, s, inner)
        return inner

    result = w.solver.zonk(result)
    if not _goes_inside(result):
        return nest(body)
    whole = Var("t")
    return core.Let(whole, nest(body), unzip(core.Ref(whole), result, frame))


def unzip(value: core.Expr, cell: Type, frame: list[Set]) -> core.Expr:
    """A table of tuples as a tuple of tables."""
    if not _goes_inside(cell):
        return value
    parts = []
    for k, item in enumerate(cell.items):
        fresh = [Var("i") for _ in frame]
        inner: core.Expr = value
        for v, s in zip(fresh, frame, strict=True):
            inner = core.At(inner, core.Ref(v), s)
        inner = core.Part(inner, k)
        for v, s in zip(reversed(fresh), reversed(frame), strict=True):
            inner = core.For(v, s, inner)
        parts.append(unzip(inner, item, frame))
    return core.Pack(tuple(parts))
