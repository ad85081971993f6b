"""Operators on values that are no scalars: the instance's method, or what follows from the parts.

    z * w              at Complex           Num(Complex).(*)(z, w)
    (1, 2) < (1, 3)                         item by item
    params - 0.1 * g   of tuples of Floats  item by item: they are a vector space

Each of these is an ordinary call, so it lifts like one.
"""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.core.methods import METHOD_OF
from naperian.dtypes import FLOATS, DType
from naperian.frontend.calls import use_definition
from naperian.frontend.cells import convert, join_cells
from naperian.frontend.constraints import (
    is_space,
    is_vector,
    known_interface,
    need,
    overloads,
)
from naperian.frontend.frames import Callee
from naperian.frontend.lifting import apply
from naperian.frontend.scalars import NUMBERS
from naperian.frontend.typed import Typed
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.prims import PRIMITIVES, Kind
from naperian.sizes import size
from naperian.source import Span
from naperian.substitution import Substitution, cell_at
from naperian.types import (
    BOOL,
    F64,
    Data,
    EnumSet,
    Function,
    Index,
    Scalar,
    Table,
    Tuple,
    Type,
    TypeVar,
)

_SWAPPED = {"gt": "lt", "ge": "le"}


def interface_of(name: str, exponent: int | None = None) -> str | None:
    """What a primitive asks of a type that is no scalar."""
    prim = PRIMITIVES[name]
    if name in ("ne", "gt", "ge"):
        return METHOD_OF[{"ne": "eq", **_SWAPPED}[name]][0]
    if name in METHOD_OF:
        return METHOD_OF[name][0]
    if name in ("min", "max"):
        return "Ord"
    if name == "pow" and exponent is not None:
        return "Num"
    match prim.kind:
        case Kind.LOGIC | Kind.SELECT:
            return None
        case Kind.INTEGER:
            return "Integral"
        case _:
            return "Real"


def exponent(args: list[Typed]) -> int | None:
    """The second operand, if it is a literal natural number."""
    k = args[1].poly.constant if len(args) == 2 and args[1].poly is not None else None
    return k if k is not None and k >= 0 else None


def is_data(w: Walk, t: Type) -> bool:
    """A type of single values that are no scalars."""
    t = w.solver.head(t)
    match t:
        case Tuple(items):
            return bool(items) or isinstance(t, Data)
        case Index(EnumSet()):
            return overloads(w, t, ("Num",))
        case _:
            return is_space(w, t)


def overloaded(
    w: Walk, name: str, args: list[Typed], span: Span, symbol: str | None
) -> Typed | None:
    """The operation, if an operand is no scalar and it means something there."""
    solver = w.solver
    cells = [solver.axes(a.type)[1] for a in args]
    t = next((c for c in cells if is_data(w, c)), None)
    if t is None:
        return None
    w.place = span
    title = symbol or name
    if name == "abs" and overloads(w, t, ("Norm",)):
        return _method(w, "Norm", "abs", title, args, span)
    if name == "ne":
        equal = overloaded(w, "eq", args, span, symbol)
        return equal and _negated(w, equal, span)
    if name in _SWAPPED:
        return overloaded(w, _SWAPPED[name], args[::-1], span, symbol)
    interface, method = METHOD_OF.get(name, ("", ""))
    if interface in ("Eq", "Ord") or (interface and overloads(w, t, (interface,))):
        scalars = [isinstance(c, Scalar) or _is_float_variable(w, c) for c in cells]
        if not ((name == "mul" and any(scalars)) or (name == "div" and scalars[1])):
            return _method(w, interface, method, title, args, span)
    if name == "pow" and (k := exponent(args)) is not None and overloads(w, t, ("Num",)):
        return _power(w, t, k, args[0], span)
    if name in ("min", "max") and overloads(w, t, ("Ord",)):
        need(w, t, "Ord")
        return _operation(w, name, title, t, args, span)
    if not is_vector(w, t):
        return None
    if name in ("add", "sub", "neg"):
        return _operation(w, name, title, t, args, span)
    if name == "mul" and is_data(w, cells[1]) and not is_data(w, cells[0]):
        return _scaled(w, name, title, t, args[0], args[1], span)
    if name in ("mul", "div") and is_data(w, cells[0]) and not is_data(w, cells[1]):
        return _scaled(w, name, title, t, args[1], args[0], span)
    return None


def _is_float_variable(w: Walk, t: Type) -> bool:
    return isinstance(t, TypeVar) and not w.solver.is_unknown(t) and (
        w.solver.dtypes_of(t) == FLOATS
    )


def _method(
    w: Walk, interface: str, method: str, title: str, args: list[Typed], span: Span
) -> Typed:
    definition = known_interface(w, interface).methods[method]
    return use_definition(w, definition, title, span, None, args, {})


def _negated(w: Walk, value: Typed, span: Span) -> Typed:
    callee = Callee("`!=`", (BOOL,), BOOL, lambda cells: core.Op("not", tuple(cells), BOOL))
    return apply(w, callee, [value], span)


def _operation(
    w: Walk, name: str, title: str, t: Type, args: list[Typed], span: Span
) -> Typed:
    """The operation at a type that has it by its parts."""

    def call(cells: list[core.Expr]) -> core.Expr:
        return core.Op(name, tuple(cells), w.solver.zonk(t))

    def text(texts: list[str]) -> str:
        return f" {title} ".join(texts) if len(texts) == 2 else f"{title}{texts[0]}"

    return apply(w, Callee(f"`{title}`", (t,) * len(args), t, call, text=text), args, span)


def _power(w: Walk, t: Type, k: int, base: Typed, span: Span) -> Typed:
    """`z ** 3` is two multiplications."""
    need(w, t, "Num")

    def call(cells: list[core.Expr]) -> core.Expr:
        kind = w.solver.zonk(t)
        return core.Op("pow", (cells[0], core.ConstOf(k, kind)), kind)

    return apply(w, Callee("`**`", (t,), t, call), [base], span)


# ---------------------------------------------------------------- monoids of a type

_NEEDED = {"add": "Num", "mul": "Num", "min": "Bounded", "max": "Bounded"}


def own_monoid(w: Walk, name: str, t: Type, plain: bool) -> tuple[core.Expr, core.Expr] | None:
    """How a type that is no scalar accumulates, and from which unit: by its `Monoid` if the text
    names no operator (`plain`), else as its own instance says; None where its parts do it."""
    if not is_data(w, t):
        return None
    x, y = Var("x"), Var("y")
    refs = (core.Ref(x), core.Ref(y))
    nothing = Substitution({}, {}, {})
    if plain and overloads(w, t, ("Monoid",)):
        combine = core.Method("Monoid", "combine", (t,), Function((t, t), t), nothing)
        empty = core.Method("Monoid", "empty", (t,), Function((), t), nothing)
        return combine, core.Call(empty, ())
    interface = _NEEDED.get(name)
    if interface is None or not overloads(w, t, (interface,)):
        return None
    step = core.Lambda(((x, t), (y, t)), core.Op(name, refs, t))
    match name:
        case "add" | "mul":
            return step, core.ConstOf(0 if name == "add" else 1, t)
        case _:
            end = "lowest" if name == "max" else "highest"
            bound = core.Method("Bounded", end, (t,), Function((), t), nothing)
            return step, core.Call(bound, ())


# ---------------------------------------------------------------- vector spaces


def _scaled(
    w: Walk, name: str, title: str, t: Type, factor: Typed, value: Typed, span: Span
) -> Typed:
    """`s * v` and `v / s`: every number in `v` times, or by, `s`."""
    scalar: Type = w.float
    if not w.solver.is_unknown(factor.type):
        cell = w.solver.axes(factor.type)[1]
        number = Typed(cell, factor.build, factor.span)
        scalar = join_cells(w, f"`{title}`", [number], NUMBERS, span)

    def call(cells: list[core.Expr]) -> core.Expr:
        s, x = Var("s"), Var("x")
        body = _by_parts(w, name, core.Ref(s), scalar, core.Ref(x), w.solver.zonk(t))
        return core.Let(s, cells[0], core.Let(x, cells[1], body))

    def text(texts: list[str]) -> str:
        return f"{texts[0]} {title} {texts[1]}"

    return apply(w, Callee(f"`{title}`", (scalar, t), t, call, text=text), [factor, value], span)


def _by_parts(
    w: Walk, name: str, s: core.Expr, scalar: Type, x: core.Expr, t: Type
) -> core.Expr:
    match t:
        case Tuple(items):
            return core.Pack(tuple(
                _by_parts(w, name, s, scalar, core.Part(x, k), item)
                for k, item in enumerate(items)
            ))
        case Table(own):
            i = Var("i")
            row = core.At(x, core.Ref(i), own)
            return core.For(i, own, _by_parts(w, name, s, scalar, row, cell_at(t, size(i))))
        case TypeVar() if is_space(w, t):
            factor: core.Expr = core.Op("cast", (s,), F64)
            if name == "div":
                factor = core.Op("div", (core.Const(Lit(1.0, DType.F64)), factor), F64)
            kind = Function((F64, t), t)
            scaled = core.Method("VSpace", "scaled", (t,), kind, Substitution({}, {}, {}))
            return core.Call(scaled, (factor, x))
        case _:
            return core.Op(name, (x, convert(w, s, scalar, t)), t)

