"""Bodies of an instance's methods and of an interface's defaults, as definitions of their own."""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.core.instances import short_name
from naperian.core.written import written_type
from naperian.dtypes import FLOATS
from naperian.frontend.ambient import may_have
from naperian.frontend.annotations import as_type
from naperian.frontend.blocks import expect
from naperian.frontend.cells import convert, show
from naperian.frontend.constraints import (
    suppose,
)
from naperian.frontend.definitions import Header, complete, finish, start
from naperian.frontend.instance_heads import (
    suppose_given,
)
from naperian.frontend.messages import effect_errors, interface_errors, limit_errors
from naperian.frontend.messages.report import Reported, Silent, plural
from naperian.frontend.references import used_for
from naperian.frontend.scope import SetName, SizeName, TypeName, Variable
from naperian.frontend.solve import Mismatch
from naperian.frontend.walk import Globals, Interface, Walk
from naperian.names import Var
from naperian.node import replace
from naperian.sizes import size
from naperian.source import Diagnostic
from naperian.substitution import Substitution
from naperian.surface import syntax as s
from naperian.types import (
    INT,
    Index,
    SetVar,
    Type,
    TypeVar,
)


def implement(
    d: s.Def, name: str, interface: Interface, made: core.Instance | None, globals: Globals,
    library: Globals,
) -> tuple[core.Definition | None, tuple[Diagnostic, ...]]:
    """The definition of an instance's method, or (without an instance) of a default."""
    w = start(globals, library)
    try:
        return _implement(w, d, name, interface, made), ()
    except Reported as r:
        return None, (r.diagnostic,)
    except Silent:
        return None, ()


def _implement(
    w: Walk, d: s.Def, name: str, interface: Interface, made: core.Instance | None
) -> core.Definition:
    method = interface.methods[d.name]
    may_have(w)
    w.interface = interface
    w.ambient |= {p.name: p.var for p in method.hidden}
    w.thrower = w.ambient["Except"]
    solver, scope = w.solver, w.scope
    own = [p for p in method.types if p.var not in interface.variables]
    if made is None:
        variables = tuple(core.TypeParam(v, None) for v in interface.variables)
        at = Substitution({}, {}, {})
        for v in interface.variables:
            solver.generic.add(v)
            solver.closed.add(v)
        suppose(w, interface.itself)
        named: dict[str, Type] = {v.name: TypeVar(v) for v in interface.params}
    else:
        variables, at = made.variables, made.at
        suppose_given(w, made)
        named = {p.var.name: TypeVar(p.var) for p in variables if not p.precision}
        w.precision = next((TypeVar(p.var) for p in variables if p.precision), None)
    named |= {n: at.type(TypeVar(v)) for n, v in interface.associated.items()}
    for p in own:
        if p.precision:
            w.precision = w.precision or TypeVar(p.var)
            solver.rigid[p.var] = FLOATS
            continue
        solver.generic.add(p.var)
        solver.closed.add(p.var)
        named[p.var.name] = TypeVar(p.var)
        for bound in p.needs or ((p.interface,) if p.interface else ()):
            suppose(w, core.Wanted(bound, (TypeVar(p.var),)))
    for wanted in method.wanted[1:]:
        suppose(w, core.Wanted(wanted.interface, tuple(at.type(t) for t in wanted.types)))
    for n, t in named.items():
        scope.names[n] = TypeName(t, d.span)
    sets = (*(made.sets if made is not None else ()), *method.sets)
    sizes = (*(made.sizes if made is not None else ()), *method.sizes)
    for v in sets:
        scope.names[v.name] = SetName(SetVar(v), d.span)
    for v in sizes:
        scope.names[v.name] = SizeName(v, d.span)
    outside = at
    if w.precision is not None:  # inside an instance for `Float`, that is the only one
        at = at.and_(Substitution({p.var: w.precision for p in own if p.precision}, {}, {}))
    params, given = _parameters(w, d, method, outside, at)
    result = at.type(method.result)
    if d.result is not None:
        _same(w, "the result", d.result, result, d, method)
    facts = tuple((f, why) for f, why in method.facts)
    scope.assume(*(f for f, _ in facts))
    assert d.body is not None
    with w.inside(scope.inner()):
        body = w.block(d.body, result)
        body = expect(w, body, result, f"the result of `{d.name}`", d.result)
    finish(w, d.span, [])
    done = {used_for(w, v) for _, v, _ in params} | w.performed
    for effect in sorted(done.difference(method.effects, {"", "Accum"})):
        raise effect_errors.method_effect(short_name(interface.name), d.name, effect, d.name_span)
    head = Header(
        params, result, facts, {v.name: v for v in sets}, {v.name: v for v in sizes}, {}
    )
    w.precision = None
    whole = complete(w, d, name, head, [None] * len(params), body)
    answer = outside.type(method.result)
    inner = convert(w, whole.body, result, answer)
    for param, v, t in reversed(given):
        inner = core.Let(v, convert(w, core.Ref(param.var), param.type, t), inner)
    return core.Definition(
        name, (*variables, *own, *whole.types), whole.sets, whole.sizes,
        tuple(replace(p, type=outside.type(p.type)) for p in method.params), answer,
        facts, (), inner, d.doc, False, d.name_span, whole.lifts, whole.wanted, method.effects,
        method.hidden,
    )


def _parameters(
    w: Walk, d: s.Def, method: core.Definition, outside: Substitution, at: Substitution
) -> tuple[list[tuple[s.Param, Var, Type]], list[tuple[core.Param, Var, Type]]]:
    """The parameters under the names of the text, with the types of the interface; and those that
    have another type outside."""
    if len(d.params) != len(method.params):
        why = f"it has {plural(len(d.params), 'parameter')}"
        raise interface_errors.method_shape(
            d.name, written_type(method), d.name_span, why, method.origin
        )
    out: list[tuple[s.Param, Var, Type]] = []
    given: list[tuple[core.Param, Var, Type]] = []
    for p, declared in zip(d.params, method.params, strict=True):
        t = at.type(declared.type)
        if p.default is not None:
            what, why = f"`{d.name}` of an instance", f"calls are of the interface's `{d.name}`"
            raise limit_errors.not_its_default(what, why, p.default.span)
        if p.type is not None:
            _same(w, f"`{p.name}`", p.type, t, d, method)
        v, before = declared.var, outside.type(declared.type)
        if before != t:
            v = Var(p.name)
            given.append((core.Param(declared.name, declared.var, before), v, t))
        kind = w.solver.head(t)
        poly = size(v) if kind == INT or isinstance(kind, Index) else None
        w.scope.names[p.name] = Variable(v, t, p.span, poly, "parameter")
        if isinstance(kind, Index):
            w.scope.assume_index(v, kind.set)
        out.append((p, v, t))
    return out, given


def _same(
    w: Walk, what: str, written: s.Expr, wanted: Type, d: s.Def, method: core.Definition
) -> None:
    """A type that the instance writes is what the interface says."""
    found = as_type(w, written)
    try:
        w.solver.unify(found, wanted)
    except Mismatch:
        why = f"{what} is `{show(w, found)}`, not `{show(w, wanted)}`"
        raise interface_errors.method_shape(
            d.name, written_type(method), written.span, why, method.origin
        ) from None
