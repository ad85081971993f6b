"""Effects that act on what the caller has: `Except` and `IO`.

    def root(x) = throw() if x < 0 else sqrt(x)        root : Float -> {Except} Float
    def log(x) = print(x)                              log : a -> {IO} ()

The flag of a handler, and the world that is printed to, are references like any other. A definition
is given its caller's: `core.Definition.hidden`.
"""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.frontend.messages import effect_errors
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.source import Span
from naperian.types import Reference, Type


def may_have(w: Walk) -> None:
    """What is walked is a function: whoever calls it handles its effects."""
    w.ambient = {effect: Var(effect.lower()) for effect in core.AMBIENT}
    w.thrower = w.ambient["Except"]


def hidden(w: Walk, row: tuple[str, ...]) -> tuple[core.Param, ...]:
    """The parameters that the effects of a row act on."""
    return tuple(
        core.Param(effect, w.ambient[effect], Reference(t), None, "State")
        for effect, t in core.AMBIENT.items()
        if effect in row
    )


def throws_to(w: Walk, span: Span) -> Var:
    """The flag that says whether something was thrown, where something may be thrown."""
    if w.thrower is None:
        raise effect_errors.unhandled_throw(span)
    w.throws += 1
    w.throwing = True
    if w.thrower == w.ambient.get("Except"):
        w.performed.add("Except")
    return w.thrower


def world(w: Walk, span: Span) -> Var:
    """Where what is printed goes."""
    if "IO" not in w.ambient:
        raise effect_errors.no_world(span)
    w.performed.add("IO")
    return w.ambient["IO"]


def given(w: Walk, d: core.Definition, span: Span) -> tuple[Var, ...]:
    """What a call gives to a definition for its effects."""
    return tuple(throws_to(w, span) if p.name == "Except" else world(w, span) for p in d.hidden)


def unless_thrown(w: Walk, expr: core.Expr, kind: Type, flag: Var) -> core.Expr:
    """What is done only if nothing was thrown before."""
    nothing = core.Blank(w.solver.zonk(kind))
    return core.If(core.Get(core.Ref(flag)), expr, nothing)
