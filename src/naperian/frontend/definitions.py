"""One definition: its signature, its body walked and solved, its core."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Set

from naperian.core import syntax as core
from naperian.dtypes import FLOATS, DType
from naperian.frontend.ambient import hidden, may_have
from naperian.frontend.annotations import as_size, as_type, declared_names, mentions_float
from naperian.frontend.between import bounds
from naperian.frontend.binders import bind_pattern
from naperian.frontend.blocks import block, expect
from naperian.frontend.boxes import alone, around, check_scopes, closed
from naperian.frontend.cells import clash, convert
from naperian.frontend.coded import valued
from naperian.frontend.constraints import (
    find_interface,
    least,
    leave,
    left_to_callers,
    need,
    needs_of,
    overloads,
    suppose,
    with_variables,
)
from naperian.frontend.expressions import infer
from naperian.frontend.messages import errors, index_errors, limit_errors, name_errors
from naperian.frontend.naming import name_unknowns
from naperian.frontend.references import row, used_for
from naperian.frontend.scalars import interface_name
from naperian.frontend.scope import Scope, SetName, SizeName, TypeName, Variable
from naperian.frontend.solve import Mismatch, Solver
from naperian.frontend.typed import Build, Typed
from naperian.frontend.walk import Globals, Reading, Walk
from naperian.names import Var
from naperian.node import mutable, replace
from naperian.prims import Math
from naperian.sizes import ZERO, Size, show_fact, size, variables
from naperian.source import Diagnostic, Span
from naperian.substitution import apart, is_bound, sets_in
from naperian.surface import syntax as s
from naperian.types import (
    INT,
    UNIT,
    Exists,
    Fin,
    Function,
    Index,
    Scalar,
    SetVar,
    Table,
    Tuple,
    Type,
    TypeVar,
    mentioned,
    set_variables,
)

_NO_NAMES: Mapping[str, Var] = {}


def define(
    d: s.Def, name: str, globals: Globals, library: Globals, own: Mapping[str, Var] = _NO_NAMES
) -> tuple[core.Definition | None, tuple[Diagnostic, ...]]:
    """A function as core; None and what is wrong if it has a mistake. `own` are the variables that
    names of sets and sizes in the signature are to have.

    Where an index is not proved, the definition is read once more: a number that may be an Int or a
    Float says nothing before that is decided, and what loops carry is asked for then only
    (`induction`)."""
    wrong: tuple[Diagnostic, ...] = ()
    reading: Reading | None = Reading()
    while reading is not None:
        w = start(globals, library)
        w.place, w.reading = d.name_span, reading
        may_have(w)
        try:
            made = _define(w, d, name, own)
            w.forget()
            return made, ()
        except errors.Reported as r:
            if not wrong or r.diagnostic.code == wrong[0].code:
                wrong = (r.diagnostic,)
            reading = _again(w, r.diagnostic)
        except errors.Silent:
            reading = _again(w) if wrong else None
    return None, wrong


def _again(w: Walk, wrong: Diagnostic | None = None) -> Reading | None:
    """How else a definition can be read in which an index is not proved: with the names in it that
    nothing had decided, or which are of Ints by now, for Ints; without claims that are broken; with
    claims. None if that is how it was read."""
    if wrong is not None and wrong.code != "N0404":
        return None
    index = re.findall(r"\w+", wrong.labels[0].span.text) if wrong is not None else ()
    more = {name for name, t in w.undecided.items() if name in index or w.solver.head(t) == INT}
    if more:
        return replace(w.reading, whole=w.reading.whole | more)
    if w.broken:
        return replace(w.reading, broken=w.reading.broken | w.broken)
    return replace(w.reading, claims=True) if w.counts and not w.reading.claims else None


def constant(
    b: s.Bind, name: str, globals: Globals, library: Globals
) -> tuple[core.Definition | None, tuple[Diagnostic, ...]]:
    """`pi = 3.14159` at the top of a module."""
    w = start(globals, library)
    # a constant of floats has the precision of the place where it is used
    w.precision = TypeVar(Var("Float"))
    w.solver.rigid[w.precision.var] = FLOATS
    try:
        with w.inside(w.scope.inner()):
            wanted = as_type(w, b.type) if b.type is not None else None
            value = alone(w, lambda: w.infer(b.value, wanted), wanted)
            if wanted is not None:
                value = expect(w, value, wanted, f"`{b.pattern.span.text}`", b.type)
        finish(w, value.span, [])
        result = w.solver.zonk(value.type)
        if not w.solver.determined(result):
            raise errors.undetermined(f"`{b.pattern.span.text}`", value.span)
        precision = core.TypeParam(w.precision.var, "Floating", True)
        body = value.build()
        number = value.poly.constant if value.poly is not None else None
        if result == INT and number is not None and -(1 << 63) <= number < 1 << 63:
            body = core.Number(size(number))  # a size wherever it is named
        return core.Definition(
            name, (precision,), (), (), (), result, (), (), body, None, True,
            b.pattern.span, tuple(w.lifts),
        ), ()
    except errors.Reported as r:
        return None, (r.diagnostic,)
    except errors.Silent:
        return None, ()


def start(globals: Globals, library: Globals) -> Walk:
    solver = Solver()
    scope = Scope(solver, None, block=True, function=True)
    solver.place = scope
    w = Walk(globals, library, solver, scope, infer, block)
    solver.need = lambda t, interface: need(w, t, interface)
    solver.overloads = lambda t, interfaces: overloads(w, t, interfaces)
    return w


@mutable
class Header:
    """What a definition says before its body."""

    params: list[tuple[s.Param, Var, Type]]
    result: Type | None
    facts: tuple[tuple[Size, str], ...]
    sets: dict[str, Var]
    sizes: dict[str, Var]
    types: dict[str, Var]


def header(w: Walk, d: s.Def, own: Mapping[str, Var] = _NO_NAMES) -> Header:
    """The signature's names bound, its types and facts."""
    solver, scope = w.solver, w.scope
    written = [p.type for p in d.params if p.type is not None]
    if d.result is not None:
        written.append(d.result)
    sets, sizes, types = _signature_names(w, d, written, own)
    if any(mentions_float(w, t) for t in written):
        w.precision = TypeVar(Var("Float"))
        solver.rigid[w.precision.var] = FLOATS
    params: list[tuple[s.Param, Var, Type]] = []
    seen: dict[str, Span] = {}
    for p in d.params:
        if p.name in seen:
            raise name_errors.parameter_twice(p.name, p.span, seen[p.name])
        seen[p.name] = p.span
        v = Var(p.name)
        # a parameter may stand in the types after it: `k: Int` and `Fin(k)`
        t: Type = as_type(w, p.type) if p.type is not None else solver.type(p.name)
        params.append((p, v, t))
        kind = solver.head(t)
        poly = size(v) if kind == INT or isinstance(kind, Index) else None
        if isinstance(kind, Exists):
            box = Typed(t, _ref(v), p.span)
            w.region.wraps.append(bind_pattern(w, s.PName(p.span, p.name), box, "parameter"))
            continue
        scope.names[p.name] = Variable(v, t, p.span, poly, "parameter")
        if isinstance(kind, Index):
            scope.assume_index(v, kind.set)
    result = as_type(w, d.result) if d.result is not None else None
    facts = _facts(w, d, [t for _, _, t in params], result)
    scope.assume(*(f for f, _ in facts))
    return Header(params, result, facts, sets, sizes, types)


def _define(w: Walk, d: s.Def, name: str, own: Mapping[str, Var]) -> core.Definition:
    head = header(w, d, own)
    scope, params, result = w.scope, head.params, head.result
    assert d.body is not None
    with w.inside(scope.inner()):
        body = closed(w, w.region, w.block(d.body, result), result)
        ended = w.ended
        body = Typed(body.type, around(w.region.wraps, body.build), body.span)
        if result is not None:
            body = expect(w, body, result, f"the result of `{d.name}`", d.result)
        else:
            body = _in_values(w, body)
    given = defaults(w, params)
    taken = {*head.sets, *head.sizes, *head.types, *(p.name for p in d.params)}
    finish(w, d.span, [t for _, _, t in params], taken)
    made = complete(w, d, name, head, given, body)
    if made.result != INT or made.effects or ended is None:
        return made  # what is thrown has a number of its own
    integers = [p.var for p in made.params if p.type == INT]
    at_least, at_most = bounds(w, *ended, (*integers, *made.sets, *made.sizes))
    return replace(made, at_least=at_least, at_most=at_most)


def _in_values(w: Walk, body: Typed) -> Typed:
    """The result, where nothing is said of its type: places become the values they are of."""
    found = w.solver.zonk(body.type)
    target = valued(w, found)
    if target == found:
        return body
    return Typed(target, lambda: convert(w, body.build(), body.type, target), body.span)


def _signature_names(
    w: Walk, d: s.Def, written: list[s.Expr], own: Mapping[str, Var]
) -> tuple[dict[str, Var], dict[str, Var], dict[str, Var]]:
    """Bind the lower-case names of the signature."""
    params = {p.name for p in d.params}
    set_names, size_names, type_names = declared_names(w, written)
    enums = {*w.globals.enums, *w.globals.data}
    # `where bins: Ix` makes a set of a name that indexes nothing
    indexing = [
        f.subject.name for f in d.facts if f.interface == "Ix" and isinstance(f.subject, s.Name)
    ]
    set_names = [*set_names, *(n for n in type_names if n in indexing)]
    type_names = [n for n in type_names if n not in indexing]
    # an interface's and an instance's own names are bound already
    params |= {n for n in (*set_names, *size_names, *type_names) if w.scope.find(n) is not None}
    sets = {n: own.get(n) or Var(n) for n in set_names if n not in params and n not in enums}
    sizes = {n: own.get(n) or Var(n) for n in size_names if n not in params and n not in sets}
    types = {n: Var(n) for n in type_names if n not in params and n not in enums}
    span = d.name_span
    for n, v in sets.items():
        w.scope.names[n] = SetName(SetVar(v), span)
    for n, v in sizes.items():
        w.scope.names[n] = SizeName(v, span)
    for n, v in types.items():
        w.scope.names[n] = TypeName(TypeVar(v), span)
        w.solver.generic.add(v)
    suppose_all(w, d.facts)
    return sets, sizes, types


def suppose_all(w: Walk, facts: tuple[s.Fact, ...]) -> None:
    """The interfaces of a `where` hold in what follows."""
    for f in facts:
        if f.interface == "Ix" and isinstance(f.subject, s.Name) and isinstance(
            w.scope.find(f.subject.name), SetName
        ):
            continue
        if f.interface is not None:
            wanted = wanted_of(w, f)
            suppose(w, wanted)
            w.solver.closed.update(t.var for t in wanted.types if isinstance(t, TypeVar))


def wanted_of(w: Walk, f: s.Fact) -> core.Wanted:
    """`a: Show`, `(a, b): Convert`."""
    assert f.interface is not None
    subjects = f.subject.items if isinstance(f.subject, s.TupleExpr) else (f.subject,)
    types = tuple(as_type(w, x) for x in subjects)
    interface = find_interface(w, f.interface, len(types), f.span)
    return with_variables(w, interface, types)


def _facts(
    w: Walk, d: s.Def, params: list[Type], result: Type | None
) -> tuple[tuple[Size, str], ...]:
    """What callers must satisfy: `where n >= 1`, and sizes with a minus are not negative."""
    types = [*params, *([result] if result is not None else [])]
    # a run-time size: `Fin(k)` of a parameter `k: Int`
    numbers = {e.var for e in w.scope.names.values() if isinstance(e, Variable)}
    facts = list(shape_facts(types, numbers))
    for f in d.facts:
        if f.interface is None:
            facts += [(p, f.span.text) for p in _comparison(w, f.subject)]
    return tuple({fact: (fact, why) for fact, why in reversed(facts)}.values())[::-1]


def shape_facts(
    types: list[Type], numbers: Set[Var] = frozenset()
) -> tuple[tuple[Size, str], ...]:
    """The sizes in types that might be negative: those with a minus, and of run-time `numbers`."""
    return tuple(
        (own.size, show_fact(own.size))
        for t in types
        for own in sets_in(t)
        if isinstance(own, Fin)
        and not any(is_bound(v) for v in variables(own.size))  # checked where it is written
        and (
            any(c < 0 for _, c in own.size.terms)
            or any(v in numbers for v in variables(own.size))
        )
    )


def _comparison(w: Walk, e: s.Expr) -> Iterator[Size]:
    """A size fact as polynomials that are not negative."""
    if not isinstance(e, s.Compare):
        raise limit_errors.size_fact(e.span.text, e.span)
    for a, op, b in zip(e.operands, e.ops, e.operands[1:], strict=False):
        x, y = as_size(w, a), as_size(w, b)
        match op:
            case "<":
                yield y - x - 1
            case "<=":
                yield y - x
            case ">":
                yield x - y - 1
            case ">=":
                yield x - y
            case "==":
                yield x - y
                yield y - x
            case _:
                raise limit_errors.size_fact(e.span.text, e.span)


def defaults(w: Walk, params: list[tuple[s.Param, Var, Type]]) -> list[Typed | None]:
    """The defaults of parameters or fields, at their types."""
    out: list[Typed | None] = []
    for p, _, t in params:
        if p.default is None:
            out.append(None)
        elif not isinstance(p.default, s.Number | s.Unary | s.Name):
            raise limit_errors.default_computed(p.name, p.default.span)
        else:
            value = w.infer(p.default, t)
            out.append(expect(w, value, t, f"the default of `{p.name}`", p.type))
    return out


def finish(
    w: Walk, span: Span, params: list[Type], taken: Collection[str] = ()
) -> None:
    """Decide everything that is still open: first what the tasks say, then defaults, and what the
    parameters leave open is the caller's, under names that are not taken; then check what had to
    wait."""
    solver = w.solver
    try:
        solver.run()
        kept = {v for t in params for v in solver.unknown_types(t)}
        for v, u in list(solver.unknown.items()):
            if v in solver.types or v in kept or u.dtypes is None:
                continue
            if u.floats and solver.head(w.float) != TypeVar(v):
                solver.types[v] = w.float
            elif u.default is not None and u.default in u.dtypes:
                solver.types[v] = Scalar(u.default)
            elif DType.F64 in u.dtypes:
                solver.types[v] = w.float if u.dtypes == FLOATS else Scalar(DType.F64)
            else:
                solver.types[v] = Scalar(DType.I64)
        solver.run()
        name_unknowns(solver, params, taken)
        leave(w)
        while solver.goals or solver.tasks:
            solver.settle()
            solver.run()
    except Mismatch as m:
        if m.reasons:  # the check that had to wait says where it was made
            span = m.reasons[0].span
        if isinstance(m.left, Size) and isinstance(m.right, Size):
            a, b = solver.zonk_size(m.left), solver.zonk_size(m.right)
            message = f"a size would have to be both {a!r} and {b!r}"
            raise index_errors.size_clash(message, span, "here", m.reasons) from None
        raise clash(w, "a value", _as_type(m.left), _as_type(m.right), span, m) from None


def _as_type(x: object) -> Type:
    types = Scalar | TypeVar | Index | Table | Tuple | Function | Exists
    return x if isinstance(x, types) else UNIT


def complete(
    w: Walk, d: s.Def, name: str, head: Header, defaults: list[Typed | None], body: Typed
) -> core.Definition:
    """The definition of a header and its body, once all is solved."""
    solver = w.solver
    params, facts, sets, sizes, types = head.params, head.facts, head.sets, head.sizes, head.types
    out_params: list[core.Param] = []
    for (p, v, t), default in zip(params, defaults, strict=True):
        value = default.build() if default is not None else None
        out_params.append(core.Param(p.name, v, solver.zonk(t), value, used_for(w, v)))
    if solver.determined(solver.zonk(body.type)):
        for v in solver.unknown_sets - solver.sets.keys() - solver.chosen:
            solver.sets[v] = Fin(ZERO)  # of a function of the block that nobody calls
    expr = body.build()
    check_scopes(w, expr)
    result = solver.zonk(body.type)
    type_params = [
        core.TypeParam(
            v, interface_name(solver.rigid[v]) if v in solver.rigid else None,
            needs=needs_of(w, TypeVar(v)),
        )
        for v in types.values()
    ]
    type_params += [core.TypeParam(v, None) for v in w.associated]
    if w.precision is not None:
        type_params.append(core.TypeParam(w.precision.var, "Floating", True))
    generalised = dict.fromkeys(
        v for p in out_params for v in solver.unknown_types(p.type)
    )
    for v in generalised:
        u = solver.unknown[v]
        name_of = interface_name(u.dtypes) if u.dtypes is not None else None
        precision = u.dtypes == FLOATS and v.name == "Float"
        type_params.append(core.TypeParam(v, name_of, precision, least(w, u.needs, u.dtypes)))
    set_vars, size_vars = list(sets.values()), list(sizes.values())
    for made in out_params:
        for v in solver.unknown_extents(made.type):
            target = set_vars if v in solver.unknown_sets else size_vars
            if v not in target:
                target.append(v)
    known = {p.var for p in out_params} | set(set_vars) | set(size_vars)
    if not solver.determined(result):
        raise errors.undetermined(f"the result of `{d.name}`", body.span)
    for v in sorted(mentioned(result) - known, key=lambda v: v.id):
        raise index_errors.local_size(f"the result of `{d.name}`", v.name, body.span)
    implicit = by_keyword(out_params, set_vars, size_vars)
    final_facts = tuple((solver.zonk_size(f), why) for f, why in facts)
    seen: set[Var] = set()
    out_params = [replace(p, type=apart(p.type, seen)) for p in out_params]
    result = apart(result, seen)
    effects = row(w, d, [(v, t) for _, v, t in head.params])
    return core.Definition(
        name, tuple(type_params), tuple(set_vars), tuple(size_vars), tuple(out_params), result,
        final_facts, implicit, expr, d.doc, False, d.name_span, tuple(w.lifts), left_to_callers(w),
        effects, hidden(w, effects), math=Math(d.mark or "default"),
    )


def _ref(v: Var) -> Build:
    return lambda: core.Ref(v)


def by_keyword(
    params: list[core.Param], sets: list[Var], sizes: list[Var]
) -> tuple[Var, ...]:
    """The variables that no parameter's shape fixes."""
    fixed: set[Var] = set()
    for p in params:
        fixed |= set(_axes_variables(p.type))
    return tuple(v for v in (*sets, *sizes) if v not in fixed)


def _axes_variables(t: Type) -> Iterator[Var]:
    match t:
        case Table(own, cell, index):
            yield from set_variables(own)
            yield from (v for v in _axes_variables(cell) if v != index)
        case Tuple(items):
            for x in items:
                yield from _axes_variables(x)
        case Function(params, result):
            for x in (*params, result):
                yield from _axes_variables(x)
        case Exists(vars, body):
            yield from (v for v in _axes_variables(body) if v not in vars)
        case _:
            pass


