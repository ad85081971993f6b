"""Definitions made of definitions: the derivative of a function as a function of its own.

    derived(f, "grad", (0,))     def grad(f)(x, y) = gradient(f)(x, y)
    derived(f, "jvp", (0,))      def jvp(f)(x, y, dx) = jvp(lambda x. f(x, y), x; dx)
    derived(f, "vjp", (0,))      def vjp(f)(x, y, seed) = vjp(lambda x. f(x, y), x; seed)
    derived(f, "vjps", (0,))     the same for a table of seeds: the value, and a table of results
    derived(f, "linearize", (0,))   def linearize(f)(x, y, dx): the tangent of `jvp` alone
    derived(f, "hvp", (0,))      def hvp(f)(x, y, dx): the tangent of grad(f)
    derived(f, "transpose_linear", (0,))     def transpose_linear(f)(y, seed): `vjp` at x = 0 alone

Parameters, sizes and what they must satisfy are those of `f`.
"""

from __future__ import annotations

from naperian.core.derivatives import (
    bare,
    called,
    differentiated,
    gradient,
    jacobian,
    rows_of,
)
from naperian.core.rows import bodies, hides, loose, spreadable, tightened, zero
from naperian.core.syntax import (
    At,
    Call,
    Definition,
    Expr,
    For,
    Lambda,
    Pack,
    Param,
    Part,
    Ref,
    TypeParam,
    Use,
)
from naperian.core.varying import floating, tagged
from naperian.leaves import leaves
from naperian.names import Var
from naperian.node import replace
from naperian.packing import runs
from naperian.sizes import size
from naperian.substitution import Substitution, apart, boxed, sets_in
from naperian.type_show import show_type
from naperian.types import (
    Exists,
    Function,
    Index,
    Scalar,
    SetVar,
    Table,
    Tuple,
    Type,
    TypeVar,
    set_variables,
)

KINDS = (
    "grad", "value_and_grad", "jacobian", "hessian", "jvp", "vjp", "jvps", "vjps",
    "linearize", "linearizes", "hvp", "hvps", "transpose_linear",
)  # fmt: skip
_OF_SCALARS = ("grad", "value_and_grad", "hessian", "hvp", "hvps")


class NoDerivativeError(Exception):
    """Why a definition has no such derivative."""


def derived(d: Definition, kind: str, wrt: tuple[int, ...]) -> Definition:
    """The derivative of a definition with respect to some of its parameters."""
    chosen = [d.params[k] for k in wrt]
    linear = kind == "transpose_linear"  # differentiated at 0, which has no tags, integers, sizes
    for p in chosen:
        in_part = not linear and not (kind == "hessian" and tagged(p.type))
        varying = floating(p.type) if in_part else p.type
        _differentiable(d, varying, f"its parameter `{p.name}`", not linear)
    in_part = not linear and not (kind == "jacobian" and tagged(d.result))
    _differentiable(d, floating(d.result) if in_part else d.result, "its result", not linear)
    if kind in _OF_SCALARS and isinstance(d.result, Table | Tuple | Exists):
        raise NoDerivativeError(
            f"`{kind.removesuffix('s')}` needs a function with a scalar result, and `{d.name}`"
            f" gives `{show_type(d.result)}`; its derivative is a Jacobian"
        )
    back = bare([p.type for p in chosen])
    t = Function(tuple(p.type for p in d.params), d.result)
    used: Expr = Use(d.name, _itself(d))
    if d.hidden:  # what its effects act on is given from here
        own = tuple((Var(p.name), p.type) for p in d.params)
        given = (*(v for v, _ in own), *(p.var for p in d.hidden))
        used = Lambda(own, Call(used, tuple(map(Ref, given))))
    args: list[Expr] = [Ref(p.var) for p in d.params]
    params = d.params
    result: Type
    match kind:
        case "jvp" | "vjp" | "linearize" | "hvp" | "transpose_linear":
            seeds = _seeds(d, kind, chosen)
            seed: Expr = Ref(seeds[0].var) if len(seeds) == 1 else _packed(seeds)
            at = [zero(p.type) if linear else Ref(p.var) for p in chosen]
            call = called(gradient(used, t, wrt) if kind == "hvp" else used, args, wrt)
            forward = kind in ("jvp", "linearize", "hvp")
            value = back if kind == "hvp" else d.result
            body: Expr = differentiated(
                forward, [p.type for p in chosen], at, call, value, seed, d.origin, linear
            )
            along: Type = value if forward else back
            pair = kind in ("jvp", "vjp")
            body, result = (body, Tuple((d.result, along))) if pair else (Part(body, 1), along)
            params = (*(p for p in params if not linear or p not in chosen), *seeds)
        case "jvps" | "vjps" | "linearizes" | "hvps":
            return _many(d, derived(d, kind[:-1], wrt), kind)
        case "jacobian":
            body = Call(jacobian(used, t, wrt), tuple(args))
            result = rows_of(d.result, back)
        case "hessian":
            slope = gradient(used, t, wrt)
            body = Call(jacobian(slope, Function(t.params, back), wrt), tuple(args))
            result = rows_of(back, back)
        case _:
            both = kind == "value_and_grad"
            body = Call(gradient(used, t, wrt, both), tuple(args))
            result = Tuple((d.result, back)) if both else back
    return replace(
        d, name=f"{kind}({d.name})", types=_floating(d, [*chosen]), params=params,
        result=apart(result, set()), body=body, constant=False, doc=None, lifts=(),
    )  # fmt: skip


def _many(d: Definition, one: Definition, kind: str) -> Definition:
    """A derivative for a table of seeds. The function itself is computed once."""
    s, i = SetVar(Var("seeds")), Var("i")
    count = len(d.params)
    pairs = [
        (p, replace(p, var=Var(p.name), type=Table(s, loose(p.type)))) for p in one.params[count:]
    ]
    seeds = [q for _, q in pairs]
    at = {p.var: tightened(At(Ref(q.var), Ref(i), s), p.type, d.origin) for p, q in pairs}
    given: list[Expr] = [at.get(p.var, Ref(p.var)) for p in one.params]
    f = Lambda(tuple((p.var, p.type) for p in one.params), one.body)
    each = Call(f, tuple(given))
    made = replace(
        one, name=f"{kind}({d.name})", params=(*d.params, *seeds), sets=(*d.sets, s.var)
    )
    if kind in ("linearizes", "hvps"):
        return replace(made, body=For(i, s, each), result=Table(s, one.result))
    value = Call(Use(d.name, _itself(d)), tuple(Ref(p.var) for p in d.params))
    assert isinstance(one.result, Tuple)
    return replace(
        made, body=Pack((value, For(i, s, Part(each, 1)))),
        result=Tuple((one.result.items[0], Table(s, one.result.items[1]))),
    )


def _differentiable(d: Definition, t: Type, what: str, rows: bool) -> None:
    if hides(t) and not (rows and spreadable(t)):
        raise NoDerivativeError(
            f"`{d.name}` has no such derivative: {what} hides sizes that only a run knows; give the"
            " rows as one array, and where they end"
        )
    whole = {p.var for p in d.types if p.interface == "Integral"}
    for leaf in leaves(bodies(t)):
        _, cell = runs(leaf)
        if isinstance(cell, Scalar) and cell.dtype.is_float:
            continue
        if not isinstance(cell, TypeVar) or cell.var in whole:
            kind = "an index" if isinstance(cell, Index) else f"`{show_type(cell)}`"
            kind = "an integer" if isinstance(cell, TypeVar) else kind
            raise NoDerivativeError(
                f"`{d.name}` has no such derivative: {what} is made of {kind}, and only floats"
                " have tangents"
            )


def _itself(d: Definition) -> Substitution:
    """A definition's variables as they are."""
    sizes = {v: size(v) for v in d.sizes}
    mentioned = {
        v for t in (*(p.type for p in d.params), d.result) for s in sets_in(t)
        for v in set_variables(s)
    }  # fmt: skip
    sizes |= {p.var: size(p.var) for p in d.params if p.var in mentioned}
    types: dict[Var, Type] = {p.var: TypeVar(p.var) for p in d.types}
    return Substitution(types, {v: SetVar(v) for v in d.sets}, sizes)


def _floating(d: Definition, chosen: list[Param]) -> tuple[TypeParam, ...]:
    """The type variables, those that are differentiated as floats."""
    found = {
        cell.var for t in (*(p.type for p in chosen), d.result) for leaf in leaves(t)
        for cell in (runs(leaf)[1],) if isinstance(cell, TypeVar)
    }  # fmt: skip
    return tuple(
        replace(p, interface="Floating", needs=()) if p.var in found else p for p in d.types
    )


def _seeds(d: Definition, kind: str, chosen: list[Param]) -> tuple[Param, ...]:
    """The parameters for what is pushed forward or pulled back."""
    taken = {p.name for p in d.params}
    back = kind in ("vjp", "transpose_linear")
    wanted = [("seed", d.result)] if back else [(f"d{p.name}", p.type) for p in chosen]
    out = []
    hidden = {v for t in (*(p.type for p in d.params), d.result) for v in boxed(t)}
    for name, t in wanted:
        while name in taken:
            name += "_"
        taken.add(name)
        out.append(Param(name, Var(name), apart(t, hidden)))
    return tuple(out)


def _packed(seeds: tuple[Param, ...]) -> Expr:
    return Pack(tuple(Ref(p.var) for p in seeds))
