"""A definition with a derivative of the user's own.

    @custom_jvp(slope)            custom_jvp(lambda x. body, x; lambda dx. slope(x, dx))
    def f(x): body          ⇒

    @custom_vjp(back)             custom_vjp(lambda x. body, x; lambda seed. back(x, seed))
    def f(x): body

The rule has the definition's parameters, then a tangent for each that has any, or the cotangent of
the value. It is looked at only where something differentiates `f`, so it may use `f` itself.
"""

from __future__ import annotations

from naperian.core.syntax import Call, Carried, Custom, Definition, Expr, Param, Ref
from naperian.leaves import leaves
from naperian.names import Var
from naperian.packing import runs
from naperian.types import Scalar, Type, TypeVar


def varies(t: Type) -> bool:
    """Whether all of a type has tangents."""
    found = leaves(t)
    return bool(found) and all(map(_is_float, found))


def partly(t: Type) -> bool:
    """Whether some of a type has tangents, and some has none."""
    return any(map(_is_float, leaves(t))) and not varies(t)


def _is_float(leaf: Type) -> bool:
    _, cell = runs(leaf)
    return isinstance(cell, TypeVar) or (isinstance(cell, Scalar) and cell.dtype.is_float)


def given(d: Definition, forward: bool) -> tuple[Param, ...]:
    """What a rule takes beside the parameters of what it is for."""
    if not forward:
        return (Param("seed", Var("seed"), d.result),)
    names = ((f"d{p.name}", p.type) for p in d.params if varies(p.type))
    return tuple(Param(n, Var(n), t) for n, t in names)


def body(d: Definition) -> Expr:
    """The body of a definition, with its rule."""
    if d.rule is None:
        return d.body
    carried = tuple(Carried(p.var, p.type, Ref(p.var)) for p in d.params if varies(p.type))
    own = given(d, d.rule.forward)
    args = (*(Ref(p.var) for p in d.params), *(Ref(p.var) for p in own))
    return Custom(
        d.rule.forward, carried, d.body, tuple((p.var, p.type) for p in own),
        Call(d.rule.use, args), d.origin,
    )
