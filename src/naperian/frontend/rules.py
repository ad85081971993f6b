"""`@custom_jvp(rule)` and `@custom_vjp(rule)`: whether the rule fits the function.

    @custom_jvp(slope)                              slope : (Float, Float) -> Float
    def f(x: Float) -> Float: …                     of x and the tangent of x

    @custom_vjp(back)                               back : (n=>Float, Int, Float) -> n=>Float
    def g(x: n=>Float, k: Int) -> Float: …          of x, k and the cotangent of the value

Rule and function are elaborated by then, each by itself, so that either may use the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from naperian.core import custom
from naperian.core import syntax as core
from naperian.core.varying import has_floats
from naperian.core.walk import everything
from naperian.dtypes import FLOATS
from naperian.facts import Facts
from naperian.frontend.calls import instantiate
from naperian.frontend.definitions import start
from naperian.frontend.derivatives import definition
from naperian.frontend.messages import derivative_errors, errors, name_errors
from naperian.frontend.named import known_names
from naperian.frontend.scalars import INTERFACES
from naperian.frontend.solve import Mismatch
from naperian.frontend.walk import Globals, Walk
from naperian.node import replace
from naperian.sizes import size
from naperian.source import Diagnostic
from naperian.substitution import Substitution
from naperian.surface import syntax as s
from naperian.type_show import show_type
from naperian.types import (
    INT,
    Exists,
    Function,
    Index,
    Reference,
    Type,
)


def with_rules(
    d: core.Definition, written: s.Def, globals: Globals, library: Globals
) -> tuple[core.Definition, tuple[Diagnostic, ...]]:
    """The definition with its rules; without those that do not fit, and what is wrong."""
    found: tuple[Diagnostic, ...] = ()
    for at in written.decorators:
        d, wrong = _with_rule(d, at, globals, library)
        found += wrong
    return d, found


def _with_rule(
    d: core.Definition, at: s.Decorator, globals: Globals, library: Globals
) -> tuple[core.Definition, tuple[Diagnostic, ...]]:
    w = start(globals, library)
    try:
        forward = at.name == "custom_jvp"
        _can_have_rule(d, at, forward)
        rule = definition(w, at.argument)
        if rule is None or rule.constant:
            raise _no_definition(w, at)
        use = _used(w, d, rule, at, forward)
        made = core.Rule(forward, use, at.argument.span)
        return replace(d, rules=(*d.rules, made)), ()
    except errors.Reported as r:
        return d, (r.diagnostic,)
    except errors.Silent:
        return d, ()


def _no_definition(w: Walk, at: s.Decorator) -> Exception:
    e = at.argument
    if isinstance(e, s.Name):
        if e.name in w.globals.failed:
            return errors.Silent()
        if e.name not in known_names(w):
            return name_errors.unknown_name(e.name, e.span, list(w.globals.definitions))
    return derivative_errors.no_rule(at.name, e.span)


def _can_have_rule(d: core.Definition, at: s.Decorator, forward: bool) -> None:
    for p in d.params:
        if isinstance(p.type, Function | Reference | Exists):
            kind = show_type(p.type)
            why = f"its parameter `{p.name}: {kind}` is no data"
            raise derivative_errors.cannot_have_rule(d.name, why, at.span)
    if d.effects:
        why = f"it has effects, {{{', '.join(d.effects)}}}"
        raise derivative_errors.cannot_have_rule(d.name, why, at.span)
    if not any(has_floats(p.type) for p in d.params):
        raise derivative_errors.no_tangent(
            f"`{d.name}`", written(d, forward=None), "no parameter varies continuously", at.span
        )
    if not has_floats(d.result):
        kind = show_type(d.result)
        raise derivative_errors.no_tangent("the result", kind, f"`{kind}`", at.span)


def _wanted(d: core.Definition, forward: bool) -> Function:
    """The type of a definition's rule, in the definition's own variables."""
    params = (*d.params, *custom.given(d, forward))
    return Function(tuple(p.type for p in params), custom.result(d, forward))


def written(d: core.Definition, forward: bool | None) -> str:
    """The type of a definition, or of its rule, for messages."""
    t = Function(tuple(p.type for p in d.params), d.result)
    return show_type(t if forward is None else _wanted(d, forward))


def _used(
    w: Walk, d: core.Definition, rule: core.Definition, at: s.Decorator, forward: bool
) -> core.Use:
    solver, wanted = w.solver, _wanted(d, forward)
    for p in d.types:
        if p.interface is not None:
            solver.rigid[p.var] = INTERFACES[p.interface]
        if p.precision:
            solver.rigid[p.var] = FLOATS
    clash = derivative_errors.wrong_rule(
        at.name, d.name, rule.name, show_type(wanted), written(rule, None), at.argument.span
    )
    if len(rule.params) != len(wanted.params) or rule.effects or rule.wanted:
        raise clash
    chosen, solved = instantiate(w, rule, at.argument.span)
    numbers = {
        q.var: size(p.var)
        for p, q in zip(d.params, rule.params, strict=False)
        if p.type == INT == q.type or isinstance(q.type, Index)
    }
    inside = Substitution(chosen.types, chosen.sets, {**chosen.sizes, **numbers})
    try:
        pairs: list[tuple[Type, Type]] = [
            (inside.type(q.type), t) for q, t in zip(rule.params, wanted.params, strict=True)
        ]
        for theirs, ours in [*pairs, (inside.type(rule.result), wanted.result)]:
            solver.unify(theirs, ours)
        solver.run()
    except Mismatch:
        raise clash from None
    use = core.Use(rule.name, solved())
    known = Facts((*(size(v) for v in d.sizes + d.sets), *(f for f, _ in d.facts)))
    done = Substitution(use.at.types, use.at.sets, {**use.at.sizes, **numbers})
    open_types = [t for t in use.at.types.values() if not solver.determined(t)]
    if open_types or not all(known.proves(done.size(f)) for f, _ in rule.facts):
        raise clash
    return use


def differentiates_itself(
    name: str, rule: core.Rule, definitions: Mapping[str, core.Definition]
) -> bool:
    """Whether a definition's rule asks for the derivative of the definition, which the rule is."""
    reached = _reached([rule.use.name], definitions)
    parts = [e for n in reached for e in everything(definitions[n].body)]
    asked = [e.body for e in parts if isinstance(e, core.Derivative)]
    if asked:  # perhaps of a function that was passed
        calls = [e for e in parts if isinstance(e, core.Call)]
        asked += [a for e in calls for a in e.args if isinstance(a, core.Use | core.Lambda)]
    inside = {x.name for e in asked for x in everything(e) if isinstance(x, core.Use)}
    return name in _reached(inside, definitions)


def _reached(names: Iterable[str], definitions: Mapping[str, core.Definition]) -> set[str]:
    """These definitions, all that they use, and the rules of those."""
    found: set[str] = set()
    rest = list(names)
    while rest:
        n = rest.pop()
        if n in found or n not in definitions:
            continue
        found.add(n)
        d = definitions[n]
        rest += [e.name for e in everything(d.body) if isinstance(e, core.Use)]
        rest += [r.use.name for r in d.rules]
    return found
