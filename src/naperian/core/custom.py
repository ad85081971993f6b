"""A definition with a derivative of the user's own.

    @custom_jvp(slope)            custom_jvp(lambda x. body, x; lambda dx. slope(x, dx))
    def f(x): body          ⇒

    @custom_vjp(back)             custom_vjp(lambda x. body, x; lambda seed. back(x, seed))
    def f(x): body

A definition may have both. A rule has the definition's parameters, then a tangent for each that has
any, or the cotangent of the value. What does not vary in a parameter or in the value is in these,
too (`varying.py`). A rule is looked at only where something differentiates `f`, so it may use `f`
itself.
"""

from __future__ import annotations

from naperian.core.derivatives import bare
from naperian.core.syntax import (
    Call,
    Carried,
    Custom,
    Definition,
    Expr,
    Let,
    OwnRule,
    Param,
    Ref,
    Rule,
)
from naperian.core.varying import floating, floats_of, has_floats, partly, with_floats
from naperian.names import Var
from naperian.types import Type


def given(d: Definition, forward: bool) -> tuple[Param, ...]:
    """What a rule takes beside the parameters of what it is for."""
    if not forward:
        return (Param("seed", Var("seed"), d.result),)
    names = ((f"d{p.name}", p.type) for p in d.params if has_floats(p.type))
    return tuple(Param(n, Var(n), t) for n, t in names)


def result(d: Definition, forward: bool) -> Type:
    """What a rule gives."""
    return d.result if forward else bare([p.type for p in d.params if has_floats(p.type)])


def body(d: Definition) -> Expr:
    """The body of a definition, with its rules."""
    if not d.rules:
        return d.body
    carried, inside = [], d.body
    args: list[Expr] = []
    for p in d.params:
        if not has_floats(p.type):
            args.append(Ref(p.var))
            continue
        x = Var(p.name) if partly(p.type) else p.var
        args.append(with_floats(Ref(p.var), p.type, Ref(x)))
        carried.append(Carried(x, floating(p.type), floats_of(Ref(p.var), p.type)))
        if x != p.var:
            inside = Let(p.var, args[-1], inside)

    def own(rule: Rule) -> OwnRule:
        taken = given(d, rule.forward)
        varying = [Ref(p.var) for p in d.params if has_floats(p.type)]
        likes = zip(varying if rule.forward else [d.body], taken, strict=True)
        more = (with_floats(e, p.type, Ref(p.var)) for e, p in likes)
        return OwnRule(
            rule.forward, tuple((p.var, floating(p.type)) for p in taken),
            floats_of(Call(rule.use, (*args, *more)), result(d, rule.forward)),
        )  # fmt: skip

    rules = tuple(map(own, d.rules))
    found = Custom(tuple(carried), floats_of(inside, d.result), rules, d.origin)
    return with_floats(d.body, d.result, found)
