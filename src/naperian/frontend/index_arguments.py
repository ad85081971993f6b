"""Indices as arguments: of the parameter's set by type, or proved to lie in it, as in brackets.

    def slope(x: Fin(n)=>Float, i: Fin(n)) -> Float = …

    slope(x, i - 1) for i in 1..n       i - 1 lies in Fin(n)
    slope(x, i) for i in 1..n           what lies in 1..n lies in Fin(n)
    closed(d) for d in Tu..Th           an index of a part of `Day` is a `Day`

The argument becomes one of the parameter's type. What is no index by what is known stays what it
is, and does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable

from naperian.frontend.cells import clash
from naperian.frontend.in_range import use
from naperian.frontend.messages.report import Reported
from naperian.frontend.solve import Mismatch
from naperian.frontend.typed import Typed
from naperian.frontend.unknowns import Because
from naperian.frontend.walk import Walk
from naperian.node import replace
from naperian.types import Fin, Index, Range, Scalar, Set, SetVar, Slice, Type, mentioned


def taken(
    w: Walk, what: str, param: Type, arg: Typed, others: Iterable[Type], declared: Because | None
) -> Typed:
    """An argument for a parameter that is an index: an index of another set, or index arithmetic,
    as an index of the parameter's. `others` are the types of the other parameters: one that
    mentions the set may say which it is."""
    solver = w.solver
    wanted, kind = solver.head(param), solver.head(arg.type)
    if not isinstance(wanted, Index) or kind == wanted:
        return arg
    match kind:
        case Index(own) if _is_numbered(w, own):
            target = solver.head_set(wanted.set)
            alone = isinstance(target, SetVar) or isinstance(solver.head_set(own), Fin)
            if alone and solver.set_is_open(target) and not any(
                mentioned(solver.zonk(wanted)) & mentioned(solver.zonk(t)) for t in others
            ):
                return arg
        case Scalar(dtype) if dtype.is_integer and arg.poly is not None:
            pass
        case _:
            return arg

    def refusal(example: str) -> Reported:
        try:
            solver.unify(wanted, kind)
            found = Mismatch(wanted, kind)
        except Mismatch as m:
            found = m
        said = clash(w, what, wanted, kind, arg.span, found, declared, arg.type).diagnostic
        notes = (*said.notes, example) if example.startswith("at ") else said.notes
        return Reported(replace(said, notes=notes))

    return Typed(wanted, use(w, arg, wanted.set, what, refusal=refusal), arg.span)


def _is_numbered(w: Walk, own: Set) -> bool:
    """Whether a set is known that may be a part of another, or contain one."""
    own = w.solver.head_set(own)
    if isinstance(own, SetVar):
        return own.var not in w.solver.unknown_sets
    return isinstance(own, Fin | Range | Slice)
