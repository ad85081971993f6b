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
from naperian.types import Exists, Function, Table, Type, TypeVar


def guides(e: s.Expr) -> bool:
    """Whether an expression is typed better when its expected type is known."""
    return isinstance(
        e,
        s.Lambda | s.Rank | s.Comprehension | s.Bracket | s.Name | s.Section | s.TupleExpr
        | s.Checked,
    )


def order(given: Sequence[s.Expr | Typed | None]) -> list[int]:
    """The places of the arguments, in the order they are walked."""
    return sorted(range(len(given)), key=lambda k: waits(given[k]))


def waits(e: s.Expr | Typed | None) -> bool:
    """Whether an argument is a function that is made where it stands."""
    return isinstance(e, s.Lambda | s.Rank | s.Section)


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
