"""The functions whose typing no ordinary signature can express: sizes, index conversions, tables of
one value, `bitcast`, `@`; with the reductions, `BUILTINS`.

Everything else is written in the library (`std.nap`).
"""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.dtypes import FLOATS, DType
from naperian.frontend.annotations import SCALARS, as_set
from naperian.frontend.boxes import name_size
from naperian.frontend.calls import use_definition
from naperian.frontend.cells import convert, equate, join_cells, show
from naperian.frontend.derivatives import DERIVATIVES
from naperian.frontend.fields import replace
from naperian.frontend.frames import Callee
from naperian.frontend.indexing import at_side, into_set
from naperian.frontend.lifting import apply
from naperian.frontend.messages import errors, index_errors, lift_errors, set_errors
from naperian.frontend.operators import apply_primitive
from naperian.frontend.printing import printed
from naperian.frontend.reductions import REDUCTIONS, Builtin, reduce_over
from naperian.frontend.scalars import NUMBERS
from naperian.frontend.solve import Mismatch
from naperian.frontend.tables import whole
from naperian.frontend.typed import Typed
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.source import Span
from naperian.surface import syntax as s
from naperian.types import (
    F64,
    INT,
    Fin,
    Index,
    Scalar,
    Set,
    Sum,
    Table,
    Type,
    TypeVar,
    cardinality,
    table,
)


def _size(w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None) -> Typed:
    """`size(n)`, `size(x)`: how many elements a set, or the first axis of a table, has."""
    if args is None and len(e.args) == 1:
        a = e.args[0]
        if isinstance(a, s.Keyword | s.Generator):
            raise errors.arity("size", 1, 1, e.span, "n=>a -> Int")
        own = as_set(w, a)
        if own is None:
            typed = w.infer(a)
            t = w.solver.head(typed.type)
            if w.solver.is_open(t):
                t = Table(w.solver.set(), w.solver.type("a"))
                w.solver.unify(typed.type, t)
            if not isinstance(t, Table):
                raise errors.not_a_table_argument("size", a.span.text, show(w, t), a.span)
            own = t.set
            if not isinstance(a, s.Name):
                return _size_of_made(w, typed, t.set, e.span)
        found = own
        poly = cardinality(w.solver.zonk_set(found))
        return Typed(
            INT, lambda: core.Number(cardinality(w.solver.zonk_set(found))), e.span, poly
        )
    raise errors.arity("size", 1, len(e.args), e.span, "n=>a -> Int")


def _size_of_made(w: Walk, made: Typed, own: Set, span: Span) -> Typed:
    """The size of a table that is made for it: what is checked or done then happens."""

    def build() -> core.Expr:
        return core.Let(Var("made"), made.build(), core.Number(cardinality(w.solver.zonk_set(own))))

    return Typed(INT, build, span, cardinality(w.solver.zonk_set(own)))


def _set_or_size(w: Walk, a: s.Expr) -> Set:
    """An index set; a number `k` where one is meant stands for `Fin(k)`."""
    own = as_set(w, a)
    if own is None:
        typed = w.infer(a)
        if typed.poly is None:
            raise index_errors.not_a_set(a.span.text, "no index set", a.span)
        own = Fin(name_size(w, typed, "k"))
    return own


def _bring(how: str) -> Builtin:
    """`clamp(k, n)` and `wrap(k, n)`; `clamp(x, low, high)` of numbers."""

    def builtin(
        w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None
    ) -> Typed:
        plain = [a for a in e.args if not isinstance(a, s.Keyword | s.Generator)]
        if how == "clamp" and len(plain) == 3:
            x, low, high = (w.infer(a) for a in plain)
            return apply_primitive(
                w, "min", [apply_primitive(w, "max", [x, low], e.span), high], e.span
            )
        if len(plain) == 1 and isinstance(kind := _expected_set(w, expected), Index):
            return into_set(w, how, w.infer(plain[0]), kind.set, e.span)
        if len(plain) != 2:
            helps = (f"away from an axis, the set stands beside it: `{how}(k, n)`",)
            raise errors.arity(how, 2, len(plain), e.span, "(Int, n) -> n", helps)
        return into_set(w, how, w.infer(plain[0]), _set_or_size(w, plain[1]), e.span)

    return builtin


def _expected_set(w: Walk, expected: Type | None) -> Type | None:
    return w.solver.head(expected) if expected is not None else None


def _filled(name: str) -> Builtin:
    """`zeros(n, m)`, `ones(n)`, `full(n, m, value)`: tables over the given sets."""

    def builtin(
        w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None
    ) -> Typed:
        if args is not None:
            raise index_errors.not_a_value(name, "a function of index sets", e.span)
        plain = [a for a in e.args if not isinstance(a, s.Keyword | s.Generator)]
        count = len(plain) - (1 if name == "full" else 0)
        if count < 1:
            raise errors.arity(name, 1, len(plain), e.span, "(n, …) -> n=>…=>Float")
        sets: list[Set] = []
        sets += (_set_or_size(w, a) for a in plain[:count])
        if name == "full":
            value = w.infer(plain[-1])
        else:
            t = w.float
            value = Typed(
                t, lambda: core.ConstOf(0.0 if name == "zeros" else 1.0, w.solver.zonk(t)), e.span
            )

        scope = w.scope.so_far()

        def build() -> core.Expr:
            v = Var("x")
            body: core.Expr = core.Ref(v)
            for own in map(w.solver.zonk_set, reversed(sets)):
                body = whole(w, core.For(Var("i"), own, body), scope, e.span)
            return core.Let(v, value.build(), body)

        return Typed(table(sets, value.type), build, e.span)

    return builtin


def _eye(w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None) -> Typed:
    """`eye()`, over the set that is expected, `eye(n)` or `eye(n=Fin(3))`: the identity matrix."""
    given = [a for a in e.args if not isinstance(a, s.Keyword | s.Generator)]
    if args is not None or len(e.args) > 1 or any(isinstance(a, s.Generator) for a in e.args):
        raise errors.arity("eye", 1, len(args or e.args), e.span, "n -> n=>n=>Float")
    keys = {a.name: a for a in e.args if isinstance(a, s.Keyword)}
    for a in given:
        own = a if as_set(w, a) is not None else s.Call(a.span, s.Name(a.span, "Fin"), (a,))
        keys["n"] = s.Keyword(a.span, "n", own)
    return use_definition(w, w.library.definitions["eye"], "eye", e.span, expected, [], keys)


def _bitcast(w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None) -> Typed:
    """`bitcast(F32, u)`: the same bits as another type of the same width."""
    if args is not None:
        raise index_errors.not_a_value("bitcast", "a function of a type", e.span)
    plain = [a for a in e.args if not isinstance(a, s.Keyword | s.Generator)]
    if len(plain) != 2 or not isinstance(plain[0], s.Name) or (
        plain[0].name not in SCALARS and plain[0].name != "Float"
    ):
        raise errors.arity("bitcast", 2, len(plain), e.span, "(type, number) -> type")
    target = SCALARS.get(plain[0].name, Scalar(DType.F64))
    arg = w.infer(plain[1])

    def scalars(w: Walk, cells: list[Typed], span: Span) -> tuple[list[Type], Type]:
        kind = w.solver.head(cells[0].type)
        if w.solver.is_unknown(kind):
            whole = w.solver.dtypes_of(kind) != FLOATS
            equate(w, f"`{cells[0].span.text}`", INT if whole else F64, kind, cells[0].span)
            kind = w.solver.head(kind)
        if not isinstance(kind, Scalar) or not isinstance(target, Scalar) or (
            kind.dtype.bits != target.dtype.bits
        ):
            raise errors.operand("bitcast", "types of one width", show(w, kind), cells[0].span)
        return [kind], target

    callee = Callee(
        "`bitcast`", (TypeVar(Var("scalar")),), target,
        lambda cells: core.Op("bitcast", (cells[0],), target), scalars,
    )
    return apply(w, callee, [arg], e.span)


def contract(w: Walk, left: Typed, right: Typed, span: Span, op_span: Span) -> Typed:
    """`a @ b`: the last axis of `a` with the first of `b`; every other axis stays. Not lifted."""
    solver = w.solver
    for t, side in ((left, "left"), (right, "right")):
        axes, cell = solver.axes(t.type)
        if not axes:
            if not solver.is_open(cell):
                raise lift_errors.contraction(
                    show(w, left.type), show(w, right.type), span, left.span, right.span, (),
                    f"the {side} side is `{show(w, t.type)}`, which has no axis",
                )
            fresh = Table(solver.set(), solver.type("a", NUMBERS))
            solver.unify(cell, fresh)
    (a_axes, a_cell), (b_axes, b_cell) = solver.axes(left.type), solver.axes(right.type)
    try:
        solver.unify_set(a_axes[-1], b_axes[0])
    except Mismatch:
        helps: tuple[str, ...] = ()
        if len(a_axes) == len(b_axes) > 2:
            helps = ("for a shared batch axis: `matmul~(2, 2)(a, b)`",)
        elif len(b_axes) > 1 and solver.same_set(a_axes[-1], b_axes[-1]):
            helps = (f"`{left.span.text} @ transpose({right.span.text})`",)
        elif len(a_axes) > 1 and solver.same_set(a_axes[0], b_axes[0]):
            helps = (f"`transpose({left.span.text}) @ {right.span.text}`",)
        raise lift_errors.contraction(
            show(w, left.type), show(w, right.type), span, left.span, right.span, helps,
            "they have different index sets",
        ) from None
    sides = [Typed(a_cell, left.build, left.span), Typed(b_cell, right.build, right.span)]
    cell = join_cells(w, "`@`", sides, NUMBERS, op_span)
    rows, columns = a_axes[:-1], b_axes[1:]

    def build() -> core.Expr:
        a, b, k = Var("a"), Var("b"), Var("k")
        inner = solver.zonk_set(a_axes[-1])
        i = [Var("i") for _ in rows]
        j = [Var("j") for _ in columns]
        x: core.Expr = core.Ref(a)
        for v, own in zip(i, rows, strict=True):
            x = core.At(x, core.Ref(v), solver.zonk_set(own))
        x = core.At(x, core.Ref(k), inner)
        y: core.Expr = core.At(core.Ref(b), core.Ref(k), solver.zonk_set(b_axes[0]))
        for v, own in zip(j, columns, strict=True):
            y = core.At(y, core.Ref(v), solver.zonk_set(own))
        kind = solver.zonk(cell)
        product = core.Op(
            "mul", (convert(w, x, a_cell, kind), convert(w, y, b_cell, kind)), kind
        )
        body = reduce_over(w, "add", k, inner, product, cell, span, w.scope)
        for v, own in zip(reversed(i + j), reversed(rows + columns), strict=True):
            body = core.For(v, solver.zonk_set(own), body)
        return core.Let(a, left.build(), core.Let(b, right.build(), body))

    return Typed(table(rows + columns, cell), build, span)


def _side(name: str) -> Builtin:
    """`left(i)` and `right(j)` where an index of a sum is expected."""

    def builtin(
        w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None
    ) -> Typed:
        kind = w.solver.head(expected) if expected is not None else None
        own = w.solver.head_set(kind.set) if isinstance(kind, Index) else None
        if args is not None or not isinstance(own, Sum):
            raise set_errors.which_sum(name, e.span)
        if len(e.args) != 1 or isinstance(e.args[0], s.Keyword | s.Generator):
            raise errors.arity(name, 1, len(e.args), e.span, "n -> n | m")
        made = at_side(w, own, name, e.args[0], e.span)
        return Typed(made.type, made.build_all(), e.span)

    return builtin


BUILTINS: dict[str, Builtin] = {
    **REDUCTIONS,
    **DERIVATIVES,
    "left": _side("left"),
    "right": _side("right"),
    "size": _size,
    "clamp": _bring("clamp"),
    "wrap": _bring("wrap"),
    "zeros": _filled("zeros"),
    "ones": _filled("ones"),
    "full": _filled("full"),
    "eye": _eye,
    "print": printed,
    "bitcast": _bitcast,
    "replace": replace,
}
