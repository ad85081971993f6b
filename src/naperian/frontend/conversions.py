"""Conversions between number types: `Int(x)`, `F32(x)`, `U8(x)`; lifted, and checked where a value
may not fit."""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.dtypes import FLOATS, DType
from naperian.frontend.annotations import SCALARS
from naperian.frontend.cells import show
from naperian.frontend.constraints import need
from naperian.frontend.frames import Callee
from naperian.frontend.lifting import apply
from naperian.frontend.messages import errors, index_errors
from naperian.frontend.operators import FALSE
from naperian.frontend.typed import Typed
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.source import Span
from naperian.types import (
    BOOL,
    INT,
    Index,
    Scalar,
    Table,
    Type,
    TypeVar,
)

_WIDE = Scalar(DType.F64)
_LARGEST = Scalar(DType.U64)
_MOST = (1 << 63) - 1  # what an `Int` holds


def conversion(w: Walk, name: str, arg: Typed, span: Span, literal: bool = False) -> Typed:
    """`Int(x)`, `F32(x)`, `U8(x)`: lifted; to a narrower integer it is checked. A `literal` is a
    float of the type itself; what has a name, or was computed, is what it would be without."""
    solver = w.solver
    target: Type = w.float if name == "Float" else SCALARS[name]

    def scalars(w: Walk, cells: list[Typed], span: Span) -> tuple[list[Type], Type]:
        kind = solver.head(cells[0].type)
        if isinstance(kind, Index):
            return [INT], target
        if solver.is_unknown(kind) and isinstance(target, Scalar):
            allowed = solver.dtypes_of(kind)
            if literal and target.dtype.is_float and target.dtype in (allowed or ()):
                solver.unify(kind, target)
                return [target], target
            if target == _LARGEST and arg.poly is not None and (arg.poly.constant or 0) > _MOST:
                solver.unify(kind, target)  # a literal that is no `Int`
                return [target], target
        if solver.dtypes_of(kind) is None:
            told = show(w, kind)
            generic = isinstance(kind, TypeVar) and not solver.is_unknown(kind)
            helps = (index_errors.stands_for_a_type(told),) if generic else ()
            raise errors.operand(name, "a number or an index", told, cells[0].span, helps)
        if kind != BOOL:
            need(w, kind, "Real")
        return [kind], target

    def call(args: list[core.Expr]) -> core.Expr:
        x = Var("x")
        found = solver.zonk(arg.type)
        while isinstance(found, Table):
            found = found.cell
        if isinstance(found, Index):
            found = INT
        wanted = solver.zonk(target)
        cast: core.Expr = core.Op("cast", (core.Ref(x),), wanted)
        if found == wanted:
            return args[0]
        test = _fits(found, wanted, x, solver.dtypes_of(found) == FLOATS)
        if test is not None and isinstance(wanted, Scalar):
            message = f"a value does not fit {wanted.dtype.surface_name}"
            cast = core.Check(test, message, cast, span)
        return core.Let(x, args[0], cast)

    def text(texts: list[str]) -> str:
        return f"{name}({texts[0]})"

    callee = Callee(f"`{name}`", (TypeVar(Var("scalar")),), target, call, scalars, text=text)
    result = apply(w, callee, [arg], span)
    if name == "Int":
        result.poly, result.lets = arg.poly, arg.lets
    return result


def _fits(found: Type, wanted: Type, x: Var, floats: bool) -> core.Expr | None:
    """The test that a value is representable in a narrower integer type; None if it always is
    (Int of a float truncates and saturates). Of a type variable only `floats` may be known."""
    if not (isinstance(found, Scalar | TypeVar) and isinstance(wanted, Scalar)):
        return None
    b = wanted.dtype
    low = 0 if b.is_unsigned else -(1 << (b.bits - 1))
    high = (1 << (b.bits - (0 if b.is_unsigned else 1))) - 1
    if isinstance(found, TypeVar):  # F64 holds its numbers, as far as the bounds can tell
        if not b.is_integer or b is DType.I64:
            return None
        if floats:
            below, bound = _below(b)
            return _both(
                core.Op("ge", (core.Ref(x), core.ConstOf(float(low), found)), found),
                core.Op(below, (core.Ref(x), core.ConstOf(bound, found)), found),
            )
        wide: core.Expr = core.Op("cast", (core.Ref(x),), _WIDE)
        return _both(
            core.Op("ge", (wide, core.Const(Lit(float(low), DType.F64))), _WIDE),
            core.Op("le", (wide, core.Const(Lit(float(high), DType.F64))), _WIDE),
        )
    a = found.dtype
    if not b.is_integer or a is DType.BOOL or (b is DType.I64 and not a.is_unsigned):
        return None
    tests: list[core.Expr] = []
    if a.is_float:
        below, bound = _below(b)
        return _both(
            core.Op("ge", (core.Ref(x), core.Const(Lit(float(low), a))), found),
            core.Op(below, (core.Ref(x), core.Const(Lit(bound, a))), found),
        )
    a_low = 0 if a.is_unsigned else -(1 << (a.bits - 1))
    a_high = (1 << (a.bits - (0 if a.is_unsigned else 1))) - 1
    if a_low < low:
        tests.append(core.Op("ge", (core.Ref(x), core.Const(Lit(low, a))), found))
    if a_high > high:
        tests.append(core.Op("le", (core.Ref(x), core.Const(Lit(high, a))), found))
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else _both(tests[0], tests[1])


def _below(b: DType) -> tuple[str, float]:
    """Which comparison with which float says that one is not above an integer type. The largest
    integer of 32 bits is no F32, that of 64 no float at all, but the first that is too large is."""
    high = (1 << (b.bits - (0 if b.is_unsigned else 1))) - 1
    return ("lt", float(high + 1)) if b.bits >= 32 else ("le", float(high))


def _both(a: core.Expr, b: core.Expr) -> core.Expr:
    return core.If(a, b, FALSE)
