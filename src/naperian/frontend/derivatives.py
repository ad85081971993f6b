"""Derivatives of functions: `grad`, `jvp`, `vjp` and what is made of them.

Each takes a function and gives a function (or applies it at once). What is differentiated must
have tangents: floats, and tables and tuples with them. An unknown type is decided to be a float;
what is not known here is checked when the definition is.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from naperian.core import derivatives
from naperian.core import syntax as core
from naperian.core.derivatives import bare, rows_of
from naperian.core.rows import spreadable
from naperian.core.varying import floating, has_floats
from naperian.dtypes import FLOATS
from naperian.frontend.arguments import at_points
from naperian.frontend.arguments import points as points_of
from naperian.frontend.calls import instantiate
from naperian.frontend.cells import show
from naperian.frontend.constraints import is_space
from naperian.frontend.frames import Callee
from naperian.frontend.lifting import apply
from naperian.frontend.messages import derivative_errors, errors
from naperian.frontend.reductions import Builtin
from naperian.frontend.solve import Mismatch
from naperian.frontend.typed import Typed
from naperian.frontend.walk import Walk
from naperian.leaves import leaves
from naperian.source import Span
from naperian.surface import syntax as s
from naperian.types import Data, Exists, Function, Index, Scalar, Table, Tuple, Type, TypeVar


class Parts(IntEnum):
    """What may be beside the floats of what is differentiated; it does not vary."""

    NONE = 0
    FIELDS = 1  # integers, Booleans and indices, in tuples and structs
    TAGS = 2  # those of enums, too


def tangents(
    w: Walk, t: Type, what: str, span: Span, parts: Parts = Parts.NONE, rows: bool = False
) -> None:
    """A type has tangents: all of it, but for `parts` beside what has; with `rows`, also where its
    sizes are known at run time only."""
    solver = w.solver

    def leaf(t: Type) -> None:
        if isinstance(t, TypeVar) and is_space(w, t):
            return
        kind = show(w, t)
        if isinstance(t, Exists):
            raise derivative_errors.hidden_size(what, kind, span)
        if not isinstance(t, Scalar | TypeVar):
            why = "an index" if isinstance(t, Index) else f"`{kind}`"
            raise derivative_errors.no_tangent(what, kind, why, span)
        try:
            solver.restrict(t, FLOATS)
        except Mismatch:
            raise derivative_errors.no_tangent(what, kind, f"`{kind}`", span) from None

    def whole(t: Type) -> None:
        if not spreadable(floating(t) if parts else t):
            raise derivative_errors.hidden_size(what, show(w, t), span)

    when_known(w, t, leaf, parts, whole if rows else None)


def when_known(
    w: Walk, t: Type, leaf: Callable[[Type], None], parts: Parts = Parts.NONE,
    whole: Callable[[Type], None] | None = None,
) -> None:  # fmt: skip
    """`leaf` of every part of a type that is no table and no tuple, once all of them are known,
    but of the `parts` that stand beside floats; with `whole`, which is asked about all of it, also
    of what is in boxes."""
    solver = w.solver

    def known(t: Type, last: bool, beside: bool) -> bool:
        t = solver.head(t)
        match t:
            case Table(_, cell):
                return known(cell, last, beside)
            case Tuple(items):
                inside = parts > Parts.NONE and (beside or has_floats(solver.zonk(t)))
                tagged = isinstance(t, Data) and t.layout.tagged
                if tagged and inside and parts is not Parts.TAGS:
                    inside = False
                return all([known(x, last, inside) for x in items])
            case Exists(_, body) if whole is not None:
                return known(body, last, beside)
            case TypeVar() if solver.is_open(t) and not last:
                return False
            case Scalar() | Index() if beside and not has_floats(t):
                return True
            case _:
                leaf(t)
                return True

    def asked(force: bool) -> bool:
        if not known(t, force, False):
            return False
        if whole is not None:
            whole(solver.zonk(t))
        return True

    solver.later(asked)


def scalar(w: Walk, name: str, t: Type, span: Span) -> None:
    """A gradient is of one number."""
    solver = w.solver

    def known(force: bool) -> bool:
        kind = solver.head(t)
        if solver.is_open(kind) and not force:
            return False
        if isinstance(kind, Table | Tuple | Function):
            raise derivative_errors.not_scalar(name, show(w, kind), span)
        return True

    solver.later(known)
    tangents(w, t, "the result", span)


def function(
    w: Walk, name: str, e: s.Expr, given: Typed | None = None, expected: Function | None = None
) -> tuple[Typed, Function]:
    """The function to differentiate; one that is made here has the `expected` parameters."""
    if isinstance(e, s.Lambda):
        fits = expected is not None and len(expected.params) == len(e.params)
        wanted = expected if fits else None
    else:
        wanted = expected if isinstance(e, s.Call) and is_operator(w, e) else _declared(w, e)
    f = given if given is not None else w.infer(e, wanted)
    kind = w.solver.head(f.type)
    if not isinstance(kind, Function):
        raise derivative_errors.not_a_function(name, show(w, kind), e.span)
    return f, kind


def definition(w: Walk, e: s.Expr) -> core.Definition | None:
    """The definition that a name means."""
    match e:
        case s.Name(_, name) if w.scope.find(name) is None:
            return w.globals.definitions.get(name) or w.library.definitions.get(name)
        case s.Field(_, s.Name(_, module), member, _) if w.scope.find(module) is None:
            there = w.globals.modules.get(module)
            return there.definitions.get(member) if there is not None else None
        case _:
            return None


def _declared(w: Walk, e: s.Expr) -> Function | None:
    """A definition at exactly the types it declares: what is differentiated is not lifted."""
    d = definition(w, e)
    if d is None or d.constant:
        return None
    at, _ = instantiate(w, d, e.span)
    params = tuple(at.type(p.type) for p in d.params if p.default is None)
    return Function(params, at.type(d.result))


def _zonked(w: Walk, kind: Function) -> Function:
    done = w.solver.zonk(kind)
    assert isinstance(done, Function)
    return done


def is_operator(w: Walk, e: s.Call) -> bool:
    """Whether a call is `grad(f)` or its like: a function of the parameters of `f`."""
    match e.function:
        case s.Name(_, name):
            return name in OPERATORS and w.scope.find(name) is None and (
                name not in w.globals.definitions
            )
        case _:
            return False


def positional(e: s.Call) -> list[s.Expr]:
    return [a for a in e.args if not isinstance(a, s.Keyword | s.Generator)]


# ---------------------------------------------------------------- with respect to


def _parameter_names(w: Walk, e: s.Expr) -> list[str]:
    if isinstance(e, s.Lambda):
        return [p.name if isinstance(p, s.PName) else "" for p in e.params]
    d = definition(w, e)
    return [] if d is None else [p.name for p in d.params if p.default is None]


def _wrt(w: Walk, e: s.Call, f: s.Expr) -> tuple[int, ...]:
    """The parameters that `wrt=` names; the first one otherwise."""
    chosen: list[s.Expr] = []
    for a in e.args:
        if isinstance(a, s.Keyword):
            if a.name != "wrt":
                raise errors.unknown_keyword(e.function.span.text, a.name, a.span, ["wrt"])
            chosen = list(a.value.items) if isinstance(a.value, s.TupleExpr) else [a.value]
    known = _parameter_names(w, f)
    out: list[int] = []
    for c in chosen:
        text = "".join(p for p in c.parts if isinstance(p, str)) if isinstance(c, s.String) else ""
        if text not in known:
            given = text or c.span.text
            raise derivative_errors.unknown_parameter("wrt", given, known, c.span)
        if known.index(text) in out:
            raise derivative_errors.twice(text, c.span)
        out.append(known.index(text))
    return tuple(out) or (0,)


# ---------------------------------------------------------------- functions of functions


def _parameter(names: list[str], k: int) -> str:
    return f"parameter `{names[k]}`" if k < len(names) and names[k] else f"parameter {k + 1}"


def gradient(
    w: Walk, name: str, f: Typed, kind: Function, wrt: tuple[int, ...], value: bool, span: Span,
    names: list[str],
) -> Typed:  # fmt: skip
    """`grad(f)` and `value_and_grad(f)`; `names` are those of the parameters."""
    for k in wrt:
        what = _parameter(names, k)
        tangents(w, kind.params[k], what, f.span, parts=Parts.TAGS, rows=True)
    scalar(w, name, kind.result, f.span)
    back = bare([kind.params[k] for k in wrt])
    result = Tuple((kind.result, back)) if value else back
    return Typed(
        Function(kind.params, result),
        lambda: derivatives.gradient(f.build(), _zonked(w, kind), wrt, value),
        span,
    )


def jacobian(
    w: Walk, f: Typed, kind: Function, wrt: tuple[int, ...], span: Span, names: list[str]
) -> Typed:
    """`jacobian(f)`: the axes of the value, then those of the parameter."""
    for k in wrt:
        tangents(w, kind.params[k], _parameter(names, k), f.span, Parts.TAGS, rows=True)
    tangents(w, kind.result, "the result", f.span, Parts.FIELDS, rows=True)
    solver = w.solver
    rows: Type = solver.type("rows")
    back = bare([kind.params[k] for k in wrt])

    def known(force: bool) -> bool:
        found = solver.zonk(kind.result)
        if any(solver.is_open(x) for x in leaves(found)):
            if force:
                raise errors.undetermined(f"the result of `{f.span.text}`", f.span)
            return False
        solver.unify(rows, rows_of(found, back))
        return True

    solver.later(known)
    return Typed(
        Function(kind.params, solver.head(rows)),
        lambda: derivatives.jacobian(f.build(), _zonked(w, kind), wrt),
        span,
    )


def _operator(name: str) -> Builtin:
    """`grad`, `value_and_grad`, `jacobian`, `hessian`: of a function, a function."""

    def builtin(
        w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None
    ) -> Typed:
        plain = positional(e)
        if len(plain) != 1:
            helps = (f"`{name}(f)` is a function of its own: `{name}(f)(x)`",)
            raise errors.arity(name, 1, len(plain), e.span, f"{name}(f)", helps)
        wanted = w.solver.head(expected) if expected is not None else None
        of = Function(wanted.params, w.solver.type("r")) if isinstance(wanted, Function) else None
        f, kind = function(w, name, plain[0], args[0] if args else None, of)
        if not kind.params:
            raise derivative_errors.no_parameters(name, plain[0].span)
        wrt = _wrt(w, e, plain[0])
        names = _parameter_names(w, plain[0])
        if name == "hessian":  # whose rows would be of different variants
            for k in wrt:
                what = _parameter(names, k)
                tangents(w, kind.params[k], what, f.span, Parts.FIELDS, rows=True)
        if name == "jacobian":
            return jacobian(w, f, kind, wrt, e.span, names)
        if name != "hessian":
            return gradient(w, name, f, kind, wrt, name == "value_and_grad", e.span, names)
        inner = gradient(w, name, f, kind, wrt, False, e.span, names)
        assert isinstance(inner.type, Function)
        return jacobian(w, inner, inner.type, wrt, e.span, names)

    return builtin


# ---------------------------------------------------------------- applied at a point


def _applied(
    name: str, points: int, make: Callable[[core.Expr, Function, Span], core.Lambda],
    types: Callable[[Function], Type], prepare: Callable[[Walk, Typed, Function], Typed] | None,
) -> Builtin:  # fmt: skip
    """`jvp(f, x, dx)` and its like: `points` arguments of the parameters' type after the
    function."""

    def builtin(
        w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None
    ) -> Typed:
        plain = positional(e)
        if len(plain) != points + 1:
            usage = {0: f"{name}(f)", 1: f"{name}(f, x)", 2: f"{name}(f, x, dx)"}[points]
            helps: tuple[str, ...] = ()
            each = (len(plain) - 1) // points if points else 0
            if each > 1 and len(plain) == 1 + each * points:
                at = ", ".join(a.span.text for a in plain[1 : 1 + each])
                more = ", …" if points > 1 else ""
                helps = (f"of several parameters, a point is a tuple: `{name}(f, ({at}){more})`",)
            raise errors.arity(name, points + 1, len(plain), e.span, usage, helps)
        said = _at_point(w, plain[0], plain[1]) if points and args is None else None
        expected_here = said[1] if said is not None else None
        f, kind = function(w, name, plain[0], args[0] if args else None, expected_here)
        if prepare is not None:
            f = prepare(w, f, kind)
            assert isinstance(f.type, Function)
            kind = f.type
        whole = bare(list(kind.params))
        # what is linear is differentiated at 0, which is of no variant and no integer
        parts = Parts.TAGS if points > 0 else Parts.NONE
        for p in kind.params:
            tangents(w, p, "the parameter", f.span, parts, rows=points > 0)
        tangents(w, kind.result, "the result", f.span, parts, rows=points > 0)
        if points == 0:
            return Typed(types(kind), lambda: make(f.build(), _zonked(w, kind), e.span), e.span)
        first = [said[0]] if said is not None else []
        rest = args[1:] if args else [w.infer(a, whole) for a in plain[1 + len(first) :]]
        callee = Callee(
            f"`{name}`", (whole,) * points, types(kind),
            lambda cells: core.Call(make(f.build(), _zonked(w, kind), e.span), tuple(cells)),
        )
        return apply(w, callee, [*first, *rest], e.span)

    return builtin


def _at_point(w: Walk, f: s.Expr, e: s.Expr) -> tuple[Typed, Function] | None:
    """The point of a function that is made where it stands, and what it says of its type."""
    if not isinstance(f, s.Lambda):
        return None
    [point] = points_of(w, f, [e])
    if point is None:
        return None
    kind = w.solver.head(point.type)
    if len(f.params) == 1:
        items = [point]
    elif isinstance(kind, Tuple) and len(kind.items) == len(f.params):
        items = [Typed(t, point.build, point.span) for t in kind.items]
    else:
        return point, Function(tuple(w.solver.type("a") for _ in f.params), w.solver.type("r"))
    return point, at_points(w, items)


def _gradient_of(w: Walk, f: Typed, kind: Function) -> Typed:
    return gradient(w, "hvp", f, kind, (0,), False, f.span, [])


def _along(f: core.Expr, t: Function, origin: Span) -> core.Lambda:
    """Only the tangent."""
    both = derivatives.tangent(f, t, origin)
    return core.Lambda(both.params, core.Part(both.body, 1))


def _stopped(
    w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None
) -> Typed:
    """`stop_gradient(x)`: x, a constant to every derivative; of a tuple, struct or table, all its
    floats."""
    plain = positional(e)
    if len(plain) != 1 or len(e.args) != 1:
        raise errors.arity("stop_gradient", 1, len(e.args), e.span, "a -> a")
    x = args[0] if args else w.infer(plain[0], expected)

    def leaf(t: Type) -> None:
        match t:
            case TypeVar():
                tangents(w, t, "the argument", x.span)
            case Function() | Exists():
                raise derivative_errors.no_tangent("the argument", show(w, t), "this", x.span)
            case _:
                pass

    when_known(w, x.type, leaf)
    return Typed(x.type, lambda: derivatives.stopped(x.build(), w.solver.zonk(x.type)), e.span)


OPERATORS: dict[str, Builtin] = {
    name: _operator(name) for name in ("grad", "value_and_grad", "jacobian", "hessian")
}
DERIVATIVES: dict[str, Builtin] = {
    "stop_gradient": _stopped,
    **OPERATORS,
    "jvp": _applied(
        "jvp", 2, derivatives.tangent, lambda k: Tuple((k.result, k.result)), None
    ),
    "vjp": _applied(
        "vjp", 1, derivatives.pullback,
        lambda k: Tuple((k.result, Function((k.result,), bare(list(k.params))))), None,
    ),
    "linearize": _applied(
        "linearize", 1, derivatives.linearized,
        lambda k: Tuple((k.result, Function((bare(list(k.params)),), k.result))), None,
    ),
    "transpose_linear": _applied(
        "transpose_linear", 0, derivatives.transposed,
        lambda k: Function((k.result,), bare(list(k.params))), None,
    ),
    "hvp": _applied("hvp", 2, _along, lambda k: k.result, _gradient_of),
}  # fmt: skip
