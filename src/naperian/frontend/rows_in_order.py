"""What only the library calls: rows in order, from which it makes `sort` and `argsort`.

    in_order(x: n=>a) -> n=>a           ascending, -0.0 before 0.0, NaN last
    places_in_order(x: n=>a) -> n=>n    where they come from, of equal ones the first first
    has_few(x: n=>a) -> Bool            whether it is known, when compiled, that they are few
"""

from __future__ import annotations

from functools import partial

from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.frontend.frames import Callee
from naperian.frontend.lifting import apply
from naperian.frontend.reductions import Builtin
from naperian.frontend.scalars import NUMBERS
from naperian.frontend.typed import Typed
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.sizes import size
from naperian.surface import syntax as s
from naperian.types import BOOL, INT, Fin, Index, Set, Table, Type, cardinality

FEW = 9  # so many, as in the window of a filter, are sorted where they are, beside other rows


def _row(
    monoid: str, w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None
) -> Typed:
    plain = (a for a in e.args if not isinstance(a, s.Keyword | s.Generator))
    given = [w.infer(a) for a in plain] if args is None else args
    solver = w.solver
    own, t = solver.set("n"), solver.type("a", NUMBERS)
    cell: Type = t if monoid == "nth" else Index(own)

    def call(cells: list[core.Expr]) -> core.Expr:
        i, q, x = Var("i"), Var("q"), Var("x")
        axis = solver.zonk_set(own)
        value = core.At(core.Ref(x), core.Ref(i), axis)
        place, row = core.Number(size(q)), Fin(cardinality(axis))
        one = core.Reduce(monoid, i, axis, place, value, solver.zonk(t), e.span)
        new: tuple[Set, ...] = (axis,)
        made = core.Recast(core.For(q, row, one), (row,), new, solver.zonk(cell))
        return core.Let(x, cells[0], made)

    callee = Callee("a row in order", (Table(own, t),), Table(own, cell), call)
    return apply(w, callee, given, e.span)


def _has_few(
    w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None
) -> Typed:
    plain = (a for a in e.args if not isinstance(a, s.Keyword | s.Generator))
    (given,) = [w.infer(a) for a in plain] if args is None else args
    own = Table(w.solver.set("n"), w.solver.type("a"))
    w.solver.unify(given.type, own)

    def build() -> core.Expr:
        n = core.Number(cardinality(w.solver.zonk_set(own.set)))
        few = core.Op("le", (n, core.Const(Lit(FEW, DType.I64))), INT)
        return core.Op("known", (few,), BOOL)

    return Typed(BOOL, build, e.span)


OF_THE_LIBRARY: dict[str, Builtin] = {
    "in_order": partial(_row, "nth"),
    "places_in_order": partial(_row, "argnth"),
    "has_few": _has_few,
}
