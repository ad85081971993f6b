"""`print(…)`: texts and values on a line, separated by blanks as Python does it."""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.frontend.ambient import unless_thrown, world
from naperian.frontend.cells import show
from naperian.frontend.coded import decoded
from naperian.frontend.messages import effect_errors
from naperian.frontend.typed import Typed
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.surface import syntax as s
from naperian.types import UNIT, Exists, Function, Reference, Table, Text, Tuple, Type


def printed(w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None) -> Typed:
    """`print(a, f"b is {b}")`, of type (). `args` are what a function is given that only prints."""
    parts: list[str | Typed] = []
    for k, a in enumerate(args if args is not None else e.args):
        if isinstance(a, s.Keyword | s.Generator):
            raise effect_errors.print_keyword(a.span)
        if k:
            parts.append(" ")
        parts += (
            p if isinstance(p, str) else decoded(w, p if isinstance(p, Typed) else w.infer(p))
            for p in (a.parts if isinstance(a, s.String) else (a,))
        )
    values = [p for p in parts if isinstance(p, Typed)]
    to, flag, guarded = world(w, e.span), w.thrower, w.throws > 0
    for value in values:
        _is_data(w, value)

    def build() -> core.Expr:
        names = [Var("shown") for _ in values]
        line = tuple(p if isinstance(p, str) else w.solver.zonk(p.type) for p in parts)
        made: core.Expr = core.Print(core.Ref(to), line or ("",), tuple(map(core.Ref, names)))
        if guarded and flag is not None:
            made = unless_thrown(w, made, UNIT, flag)
        for v, value in zip(reversed(names), reversed(values), strict=True):
            made = core.Let(v, value.build(), made)
        return made

    return Typed(UNIT, build, e.span)


def _is_data(w: Walk, value: Typed) -> None:
    """Functions and references cannot be shown."""

    def goal() -> None:
        if not _shown(w.solver.zonk(value.type)):
            raise effect_errors.no_text(show(w, value.type), value.span)

    w.solver.goals.append(goal)


def _shown(t: Type) -> bool:
    match t:
        case Function() | Reference() | Text():
            return False
        case Table(_, cell) | Exists(_, cell):
            return _shown(cell)
        case Tuple(items):
            return all(map(_shown, items))
        case _:
            return True
