"""Calling definitions and function values, and functions used as values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from naperian.core import syntax as core
from naperian.core.instances import short_name
from naperian.core.written import written_type
from naperian.frontend import references
from naperian.frontend.ambient import given as given_effects
from naperian.frontend.ambient import unless_thrown
from naperian.frontend.annotations import as_set
from naperian.frontend.arguments import guide, order, tell, waits
from naperian.frontend.between import known
from naperian.frontend.boxes import name_size, natural
from naperian.frontend.cells import equate, short, show
from naperian.frontend.constraints import at_types, demand
from naperian.frontend.frames import Callee
from naperian.frontend.lifting import apply
from naperian.frontend.messages import errors, index_errors
from naperian.frontend.scalars import INTERFACES
from naperian.frontend.typed import Typed
from naperian.frontend.unknowns import Because
from naperian.frontend.walk import Demand, Walk
from naperian.names import Var
from naperian.sizes import Size, show_fact, size, variables
from naperian.source import Span
from naperian.substitution import Substitution, sets_in
from naperian.surface import syntax as s
from naperian.type_show import show_type
from naperian.types import (
    INT,
    SETS,
    Data,
    Fin,
    Function,
    Index,
    Reference,
    Set,
    SetVar,
    Type,
    TypeVar,
    set_variables,
)


def instantiate(
    w: Walk, d: core.Definition, span: Span
) -> tuple[Substitution, Callable[[], Substitution]]:
    """Fresh unknowns for what the definition leaves to its caller."""
    solver = w.solver
    types: dict[Var, Type] = {}
    for p in d.types:
        t = solver.type(p.var.name, INTERFACES[p.interface] if p.interface else None)
        solver.unknown[t.var].ask(p.needs)
        if p.precision:
            solver.unknown[t.var].floats = True
        types[p.var] = t
    sets: dict[Var, Set] = {v: solver.set(v.name) for v in d.sets}
    sizes: dict[Var, Size] = {v: size(solver.size(v.name)) for v in d.sizes}
    solver.named.update(own.var for own in sets.values() if isinstance(own, SetVar))
    at = Substitution(types, sets, sizes)
    for wanted in d.wanted:
        asked = at_types(wanted, at)
        for v in [t.var for t in asked.types if isinstance(t, TypeVar)]:
            if v in solver.unknown and wanted.interface != "VSpace":  # which tables are, too
                solver.unknown[v].cell = True
        demand(w, Demand(asked, Because(span, f"`{short_name(d.name)}` needs it")))

    def solved() -> Substitution:
        return Substitution(
            {v: solver.zonk(t) for v, t in types.items()},
            {v: solver.zonk_set(x) for v, x in sets.items()},
            {v: solver.zonk_size(x) for v, x in sizes.items()},
        )

    return at, solved


def _dependent(d: core.Definition) -> set[Var]:
    """The integer parameters that sizes of the signature mention: `k: Int` and `Fin(k)`."""
    mentioned = {
        v
        for t in (*(p.type for p in d.params), d.result)
        for own in sets_in(t)
        for v in set_variables(own)
    } | {v for f, _ in d.facts for v in variables(f)}
    return {p.var for p in d.params if p.type == INT and p.var in mentioned}


def use_definition(
    w: Walk, d: core.Definition, name: str, span: Span, expected: Type | None,
    args: Sequence[s.Expr | Typed] | None = None, keywords: dict[str, s.Keyword] | None = None,
) -> Typed:
    """A definition called (`args` given) or used as a value."""
    if args is None and not d.constant:
        return function_value(
            w, len([p for p in d.params if p.default is None]),
            lambda given: use_definition(w, d, name, span, None, given, {}), span, expected,
        )
    at, solved = instantiate(w, d, span)
    _towards(w, at.type(d.result), expected)
    said = _implicit(w, d, name, at, keywords or {}, span)
    around = w.scope.so_far()
    if d.constant:
        number = d.body.value if isinstance(d.body, core.Number) else None
        return Typed(
            at.type(d.result), lambda: core.Use(d.name, solved()), span, number,
            exact=number is not None,
        )
    given = _arrange(w, d, name, args or (), keywords or {}, span)
    walked: dict[int, Typed] = {}
    dependent = _dependent(d)
    sizes: dict[Var, Size] = {}
    told = any(map(waits, given))
    for k in order(given):
        a, param = given[k], at.type(d.params[k].type)
        if a is None:
            default = d.params[k].default
            assert default is not None
            value = Typed(param, _default(w, default, param, at), span)
        elif isinstance(a, Typed):
            value = a
        elif isinstance(param, Reference):
            value = references.argument(w, a, d.params[k].effect)
        else:
            value = w.infer(a, guide(w, a, param))
        if d.params[k].var in dependent:
            poly = _size_of(w, value, d.params[k].name)
            sizes[d.params[k].var] = poly
            at = Substitution(at.types, at.sets, {**at.sizes, **sizes})
            value = Typed(INT, _number(w, poly), value.span, poly)
        elif told:
            tell(w, param, value)
        walked[k] = value
    typed = [walked[k] for k in range(len(given))]
    if any(isinstance(p.type, Function) for p in d.params):
        w.throws += w.throwing
    flag, effects = w.thrower, given_effects(w, d, span)
    guarded = bool(effects) and w.throws > 0
    params = [at.type(p.type) for p in d.params]
    result = at.type(d.result)
    _facts(w, d, name, at, span)

    def call(cells: list[core.Expr]) -> core.Expr:
        chosen = solved()
        fixed = {v: w.solver.zonk_size(p) for v, p in sizes.items()}
        chosen = Substitution(chosen.types, chosen.sets, {**chosen.sizes, **fixed})
        made: core.Expr = core.Call(core.Use(d.name, chosen), (*cells, *map(core.Ref, effects)))
        for n in map(w.solver.zonk_size, said):
            if not around.facts().proves(n):
                made = natural(n, made, span)
        return unless_thrown(w, made, result, flag) if guarded and flag is not None else made

    def text(texts: list[str]) -> str:
        return f"{name}({', '.join(texts)})"

    callee = Callee(
        f"`{name}`", tuple(params), result, call, None,
        tuple(p.name for p in d.params), _declared(d, name), written_type(d), text,
    )
    return known(w, d, at, typed, apply(w, callee, typed, span))


def _towards(w: Walk, result: Type, expected: Type | None) -> None:
    """What is open in the parameters of a data type that is made is what its place expects."""
    kind = w.solver.head(expected) if expected is not None else None
    if isinstance(kind, Data) and isinstance(result, Data) and result.layout == kind.layout:
        for ours, theirs in zip(result.args, kind.args, strict=True):
            if isinstance(ours, TypeVar) and w.solver.is_open(ours):
                assert not isinstance(theirs, Size)
                assert not isinstance(theirs, SETS)
                w.solver.unify(ours, theirs)


def _size_of(w: Walk, value: Typed, name: str) -> Size:
    """An argument that sizes mention, as a size."""
    if value.poly is None:
        equate(w, f"argument `{name}`", INT, value.type, value.span)
    return name_size(w, value, name)


def _declared(d: core.Definition, name: str) -> tuple[Because | None, ...]:
    """What the definition says of each parameter; nothing of one in the library, which has no
    text to point at."""
    if d.origin.source.name == "<builtin>":
        return (None,) * len(d.params)
    return tuple(Because(d.origin, _takes(name, p)) for p in d.params)


def _takes(name: str, p: core.Param) -> Callable[[], str]:
    return lambda: f"`{name}` takes `{p.name}: {show_type(p.type)}`"


def _number(w: Walk, poly: Size) -> Callable[[], core.Expr]:
    return lambda: core.Number(w.solver.zonk_size(poly))


def _default(w: Walk, e: core.Expr, t: Type, at: Substitution) -> Callable[[], core.Expr]:
    """A parameter's default, at the types it has in this call."""

    def at_this_call(e: core.Expr, t: Type) -> core.Expr:
        match e:
            case core.ConstOf(value, _):
                return core.ConstOf(value, w.solver.zonk(t))
            case core.Use(name, own):
                types = {v: w.solver.zonk(at.type(x)) for v, x in own.types.items()}
                return core.Use(name, Substitution(types, own.sets, own.sizes))
            case core.Op(name, args, kind):
                kind = w.solver.zonk(at.type(kind))
                return core.Op(name, tuple(at_this_call(a, kind) for a in args), kind)
            case _:
                return e

    return lambda: at_this_call(e, t)


def _arrange(
    w: Walk, d: core.Definition, name: str, args: Sequence[s.Expr | Typed],
    keywords: dict[str, s.Keyword], span: Span,
) -> list[s.Expr | Typed | None]:
    """Arguments in the order of the parameters; None where the default is taken."""
    names = [p.name for p in d.params]
    if len(args) > len(names):
        raise errors.arity(name, len(names), len(args), span, written_type(d))
    out: list[s.Expr | Typed | None] = [*args, *([None] * (len(names) - len(args)))]
    implicit = [v.name for v in d.implicit]
    for key, a in keywords.items():
        if key in names:
            k = names.index(key)
            if out[k] is not None:
                raise errors.argument_twice(name, key, a.span)
            out[k] = a.value
        elif key not in [v.name for v in (*d.sets, *d.sizes)]:
            raise errors.unknown_keyword(name, key, a.span, names + implicit)
    for k, value in enumerate(out):
        if value is None and d.params[k].default is None:
            if not keywords and len(args) < len(names):
                raise errors.arity(name, len(names), len(args), span, written_type(d))
            raise errors.missing_argument(name, names[k], span, written_type(d))
    return out


def _implicit(
    w: Walk, d: core.Definition, name: str, at: Substitution, keywords: dict[str, s.Keyword],
    span: Span,
) -> list[Size]:
    """`bins=Fin(256)`; what neither an argument nor a keyword fixes is an error at the end. The
    sizes that keywords give."""
    solver = w.solver
    said: list[Size] = []
    for v in d.sets:
        if v.name in keywords and v.name not in [p.name for p in d.params]:
            given = keywords[v.name].value
            own = as_set(w, given)
            if own is None:
                kind = "a number" if w.infer(given).poly is not None else "no index set"
                raise index_errors.not_a_set(given.span.text, kind, given.span)
            solver.unify_set(at.sets[v], own, Because(given.span, "given here"))
            if isinstance(own, Fin):
                said.append(own.size)
    for v in d.sizes:
        if v.name in keywords and v.name not in [p.name for p in d.params]:
            typed = w.infer(keywords[v.name].value)
            if typed.poly is None:
                raise index_errors.not_a_size(typed.span.text, show(w, typed.type), typed.span)
            solver.unify_size(at.sizes[v], typed.poly)
            said.append(typed.poly)
    if not d.implicit:
        return said

    def goal() -> None:
        for v in d.implicit:
            is_open = (
                solver.set_is_open(at.sets[v]) if v in at.sets else solver.size_is_open(at.sizes[v])
            )
            if is_open:
                raise index_errors.implicit_missing(name, v.name, v in at.sets, span)

    solver.goals.append(goal)
    return said


def _facts(w: Walk, d: core.Definition, name: str, at: Substitution, span: Span) -> None:
    """What the definition requires of its sizes must be known where it is called."""
    scope = w.scope.so_far()
    for fact, _ in d.facts:
        needed = at.size(fact)

        def goal(fact: Size = fact, needed: Size = needed) -> None:
            with w.inside(scope):
                found = w.solver.zonk_size(needed)
                if scope.facts().proves(found):
                    return
                if found.constant is None:
                    raise index_errors.fact_fails(name, show_fact(found), span, d.origin)
                here = {v.name: w.solver.zonk_size(at.size(size(v))) for v in variables(fact)}
                raise index_errors.fact_false(name, show_fact(fact), here, span, d.origin)

        w.solver.goals.append(goal)


def apply_value(
    w: Walk, function: Typed, e: s.Call, given: Sequence[Typed | None] | None = None
) -> Typed:
    """A call of a function value: a parameter, a lambda, an element of a table of functions.
    `given` are arguments, those that were walked already."""
    solver = w.solver
    kind = solver.head(function.type)
    axes, cell = solver.axes(kind)
    title = f"`{function.span.text}`" if len(function.span.text) < 30 else "this function"
    args_e = [a for a in e.args if not isinstance(a, s.Keyword | s.Generator)]
    for a in e.args:
        if isinstance(a, s.Keyword):
            raise errors.unknown_keyword(function.span.text, a.name, a.span, [])
    w.throws += w.throwing
    walked: list[Typed | None] = [*given] if given is not None else [None] * len(args_e)
    if solver.is_open(cell):
        typed = [t or w.infer(a) for a, t in zip(args_e, walked, strict=True)]
        fresh = Function(tuple(t.type for t in typed), solver.type("r"))
        equate(w, title, cell, fresh, function.span)
        if not axes:
            return Typed(
                fresh.result,
                lambda: core.Call(function.build(), tuple(t.build() for t in typed)),
                e.span,
            )
        cell, walked = solver.head(cell), [*typed]
    if not isinstance(cell, Function):
        own = function.span.text
        raise errors.not_a_function(
            own, show(w, kind), function.span,
            hidden=w.scope.find(own) is not None and own in w.globals.definitions,
        )
    if len(args_e) != len(cell.params):
        raise errors.arity(
            function.span.text, len(cell.params), len(args_e), e.span, show(w, cell)
        )
    typed = [
        t if t is not None
        else references.argument(w, a, next(iter(cell.effects), ""))
        if isinstance(p, Reference)
        else w.infer(a, guide(w, a, p))
        for a, p, t in zip(args_e, cell.params, walked, strict=True)
    ]

    def text(texts: list[str]) -> str:
        return f"{function.span.text}({', '.join(texts)})"

    if not axes:

        def call(cells: list[core.Expr]) -> core.Expr:
            return core.Call(function.build(), tuple(cells))

        callee = Callee(title, cell.params, cell.result, call, text=text)
        return apply(w, callee, typed, e.span)

    # a table of functions has a frame like any argument: apply it as one more argument
    def each(cells: list[core.Expr]) -> core.Expr:
        return core.Call(cells[0], tuple(cells[1:]))

    callee = Callee(title, (cell, *cell.params), cell.result, each, text=text, lifts_functions=True)
    return apply(w, callee, [function, *typed], e.span)


def function_value(
    w: Walk, arity: int, make: Callable[[list[Typed]], Typed], span: Span, expected: Type | None
) -> Typed:
    """A named function or operator as a value: eta-expanded at the types its place expects."""
    solver = w.solver
    kind = solver.head(expected) if expected is not None else None
    if isinstance(kind, Function) and len(kind.params) == arity:
        types = list(kind.params)
    else:
        types = [solver.type("a") for _ in range(arity)]
    variables = [Var("x") for _ in types]
    args = []
    with w.inside(w.scope.inner()) as scope:
        for v, t in zip(variables, types, strict=True):
            own = solver.head(t)
            args.append(Typed(t, _ref(v), span, size(v) if isinstance(own, Index) else None))
            if isinstance(own, Index):
                scope.assume_index(v, own.set)
        body = make(args)
    if isinstance(kind, Function) and len(kind.params) == arity:
        _agree(w, kind.result, body.type, span)

    def build() -> core.Expr:
        params = tuple((v, solver.zonk(t)) for v, t in zip(variables, types, strict=True))
        return core.Lambda(params, body.build())

    whole = Typed(Function(tuple(types), body.type), build, span)
    require_known(w, whole)
    return whole


def require_known(w: Walk, function: Typed) -> None:
    """A function value's type must be known at the end, or be the caller's to choose."""

    def goal() -> None:
        if not w.solver.determined(function.type):
            raise errors.undetermined(f"`{short(function.span.text)}`", function.span)

    w.solver.goals.append(goal)


def _agree(w: Walk, wanted: Type, found: Type, span: Span) -> None:
    equate(w, f"the result of `{span.text}`", wanted, found, span)


def _ref(v: Var) -> Callable[[], core.Expr]:
    return lambda: core.Ref(v)

