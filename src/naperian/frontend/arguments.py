"""The order in which the arguments of a call are walked: functions written in place come last.

    descend(lambda y: sum((y - to) ** 2), x, 0.1)       descend : (a -> Float, a, Float) -> a

What `y` is, `x` says. So a lambda is walked when what the other arguments say of the parameters'
types is known; so are `f~(1)` and `(@ b)`.
"""

from __future__ import annotations

from collections.abc import Sequence

from naperian.frontend.cells import is_so
from naperian.frontend.solve import Mismatch
from naperian.frontend.typed import Typed
from naperian.frontend.walk import Walk
from naperian.surface import syntax as s
from naperian.types import Exists, Function, Index, Scalar, Table, Type, TypeVar


def guide(w: Walk, e: s.Expr, param: Type) -> Type | None:
    """The type of the parameter, where an expression is typed better when it is known: not of a
    table that has more axes as it is written, for over those the call is lifted."""
    kinds = s.Lambda | s.Rank | s.Bracket | s.Name | s.Section | s.TupleExpr | s.Checked
    if isinstance(e, kinds | s.Comprehension) or _is_brought(e):
        wanted, cell = w.solver.axes(param)
        number = isinstance(cell, Scalar) or (
            isinstance(cell, TypeVar) and bool(w.solver.dtypes_of(cell))
        )
        return None if number and _axes(e) > len(wanted) else param
    return None


def _is_brought(e: s.Expr) -> bool:
    """Whether this is `clamp(k)` or `wrap(k)`, of a set that its place says."""
    match e:
        case s.Call(_, s.Name(_, "clamp" | "wrap"), (arg,)):
            return not isinstance(arg, s.Keyword | s.Generator)
        case _:
            return False


def _axes(e: s.Expr) -> int:
    """How many axes a table has at least, as it is written."""
    match e:
        case s.Comprehension(_, element, binders, condition):
            return (len(binders) if condition is None else 1) + _axes(element)
        case s.Bracket(_, items) if items:
            first = items[0]
            return _axes(first.value) if isinstance(first, s.Star) else 1 + _axes(first)
        case _:
            return 0


def order(given: Sequence[s.Expr | Typed | None]) -> list[int]:
    """The places of the arguments, in the order they are walked."""
    return sorted(range(len(given)), key=lambda k: waits(given[k]))


def waits(e: s.Expr | Typed | None) -> bool:
    """Whether an argument is a function that is made where it stands."""
    return isinstance(e, s.Lambda | s.Rank | s.Section)


def points(w: Walk, f: s.Expr, args: Sequence[s.Expr]) -> list[Typed | None]:
    """What is differentiated at these points is typed after them: those that need no guide. Where
    the function is made too, what is written out or computed has nobody else to say its type."""
    plain = _is_plain if _is_made(f) else _is_named
    return [w.infer(a) if plain(a) else None for a in args]


def _is_made(f: s.Expr) -> bool:
    """Whether this is a lambda, or a derivative of one."""
    while isinstance(f, s.Call) and f.args and not isinstance(f.args[0], s.Keyword | s.Generator):
        f = f.args[0]
    return isinstance(f, s.Lambda)


def _is_named(e: s.Expr) -> bool:
    """Whether an expression says its type itself: it is named, or taken of what is."""
    match e:
        case s.TupleExpr(_, items):
            return all(map(_is_named, items))
        case s.Name() | s.Field() | s.IndexExpr():
            return True
        case s.Call(_, _, args):
            return not any(isinstance(a, s.Keyword | s.Generator) for a in args)
        case _:
            return False


def _is_plain(e: s.Expr) -> bool:
    """Whether an expression says its type itself: not so a number, a table of whole numbers, and
    what is over a set that its place says."""
    match e:
        case s.TupleExpr(_, items):
            return all(map(_is_plain, items))
        case s.Bracket(_, items):
            values = [x.value if isinstance(x, s.Star) else x for x in items]
            return any(not _is_whole(x) for x in values) and all(map(_is_element, values))
        case s.Comprehension(_, element, binders, _):
            return all(b.domain is not None for b in binders) and _is_element(element)
        case s.Unary(_, _, inner):
            return _is_plain(inner)
        case s.Binary(_, _, _, left, right):
            return _is_plain(left) or _is_plain(right)
        case s.As():
            return True
        case _:
            return _is_named(e) and not _is_brought(e)


def _is_element(e: s.Expr) -> bool:
    return isinstance(e, s.Number) or _is_plain(e)


def _is_whole(e: s.Expr) -> bool:
    return isinstance(e, s.Number) and isinstance(e.value, int)


def at_points(w: Walk, given: Sequence[Typed | None]) -> Function:
    """The type that points of floats say a function has; what else is given becomes a float."""
    solver = w.solver

    def told(t: Type) -> Type:
        axes, cell = solver.axes(t)
        match cell:
            case Scalar(dtype) if dtype.is_float:
                return t
            case Scalar() | Index():
                pass
            case TypeVar() if solver.is_open(cell):
                pass
            case _:
                return t
        free: Type = solver.type("a")
        for own in reversed(axes):
            free = Table(own, free)
        return free

    params = tuple(solver.type("a") if x is None else told(x.type) for x in given)
    return Function(params, solver.type("r"))


def tell(w: Walk, param: Type, arg: Typed) -> None:
    """What an argument says of its parameter's type, as far as lifting leaves no choice: the cell
    is innermost. What does not fit is told when the call is lifted."""
    solver = w.solver
    wanted, pcell = solver.axes(param)
    axes, cell = solver.axes(arg.type)
    if isinstance(pcell, Function | Exists) or solver.is_open(cell) or isinstance(cell, Exists):
        return
    because = is_so(w, arg)
    try:
        if isinstance(pcell, TypeVar) and solver.is_unknown(pcell) and not solver.is_cell(pcell):
            solver.unify(param, arg.type, because)
        elif wanted and len(axes) >= len(wanted) and not _dependent(arg.type):
            for own, theirs in zip(wanted, axes[len(axes) - len(wanted) :], strict=True):
                solver.unify_set(own, theirs, because)
    except Mismatch:
        return


def _dependent(t: Type) -> bool:
    return isinstance(t, Table) and (t.index is not None or _dependent(t.cell))
