"""`interface` and `instance` declarations.

    interface Shape(a):                       area becomes a function of any `a: Shape`
        def area(x: a) -> Float

    instance Shape(Square):                   the parameters are typed from the interface
        def area(x) = x.side * x.side

An instance's head is read before any body, so that bodies may use all instances; its methods are
definitions of their own, `Shape(Square).area`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from naperian.core import syntax as core
from naperian.core.instances import short_name, show_wanted
from naperian.core.written import written_type
from naperian.dtypes import FLOATS
from naperian.frontend import effect_errors, interface_errors, limit_errors, name_errors
from naperian.frontend.ambient import hidden as hidden_params
from naperian.frontend.ambient import may_have
from naperian.frontend.annotations import as_type, declared_names, mentions_float
from naperian.frontend.blocks import expect
from naperian.frontend.cells import convert, show
from naperian.frontend.constraints import (
    find_interface,
    left_to_callers,
    show_instance,
    stated,
    suppose,
    unmet,
)
from naperian.frontend.definitions import Header, complete, finish, header, start, suppose_all
from naperian.frontend.endless import Calls
from naperian.frontend.references import ROW, used_for
from naperian.frontend.report import Reported, Silent, plural
from naperian.frontend.scalars import INTERFACES
from naperian.frontend.scope import SetName, SizeName, TypeName, Variable
from naperian.frontend.solve import Mismatch, Solver
from naperian.frontend.typed import Typed
from naperian.frontend.unknowns import Because
from naperian.frontend.walk import Globals, Interface, Walk
from naperian.names import Var
from naperian.sizes import size
from naperian.source import Diagnostic, Source, Span
from naperian.substitution import Substitution
from naperian.surface import syntax as s
from naperian.type_show import show_type
from naperian.types import (
    INT,
    Data,
    EnumSet,
    Function,
    Index,
    Reference,
    Scalar,
    SetVar,
    Table,
    Tuple,
    Type,
    TypeVar,
)


@dataclass(slots=True)
class Declared:
    """The interfaces and instances of a module, in the order in which they can be known: all
    signatures, then all heads, then (after the module's definitions) the bodies."""

    globals: Globals
    library: Globals
    prefix: str
    methods: dict[str, core.Definition] = field(default_factory=dict)  # by their name here
    definitions: dict[str, core.Definition] = field(default_factory=dict)
    _interfaces: list[Interface] = field(default_factory=list)
    _own: list[tuple[s.Instance, core.Instance, Interface]] = field(default_factory=list)

    def interfaces(
        self, found: list[s.Interface], places: dict[str, Span]
    ) -> list[Diagnostic]:
        wrong: list[Diagnostic] = []
        for d in found:
            try:
                if d.name in self.library.interfaces:
                    raise interface_errors.built_in(d.name, d.span)
                made = declare(d, self.prefix + d.name, self.globals, self.library)
                for m in d.members:
                    if isinstance(m, s.Def):
                        if m.name in places:
                            raise name_errors.duplicate(m.name, m.name_span, places[m.name])
                        places[m.name] = m.name_span
            except Reported as r:
                wrong.append(r.diagnostic)
                self.globals.failed.update(m.name for m in d.members if isinstance(m, s.Def))
                self.globals.failed.add(d.name)
                continue
            except Silent:
                self.globals.failed.update(m.name for m in d.members if isinstance(m, s.Def))
                self.globals.failed.add(d.name)
                continue
            self._interfaces.append(made)
            self.globals.interfaces[d.name] = self.globals.known[made.name] = made
            self.methods |= made.methods
        return wrong

    def instances(self, found: list[s.Instance]) -> list[Diagnostic]:
        wrong: list[Diagnostic] = []
        for d in found:
            try:
                if d.name in self.globals.failed:
                    continue
                if d.name == "VSpace" and d.name not in self.globals.interfaces:
                    raise interface_errors.own_space(d.span)
                made, interface = head_of(d, self.prefix, self.globals, self.library)
                check_coherent(
                    made, [*self.library.instances, *self.globals.instances],
                    self._is_own(made, interface, d.span.source), d.span,
                )
            except Reported as r:
                wrong.append(r.diagnostic)
                continue
            except Silent:
                continue
            self.globals.instances.append(made)
            self._own.append((d, made, interface))
        for d, made, interface in self._own:
            try:
                check_supers(d, made, interface, self.globals, self.library)
                if d.members is None and d.name in DERIVABLE:
                    check_derived(d, made, self.globals, self.library)
            except Reported as r:
                wrong.append(r.diagnostic)
        return wrong

    def _is_own(self, made: core.Instance, interface: Interface, source: Source) -> bool:
        """Whether the interface, or one of the types, is declared in this text."""
        own = {i.set for i in self.globals.enums.values() if i.span.source == source}
        named = {
            i.pattern.layout for i in self.globals.data.values() if i.span.source == source
        }

        def mentions(t: Type) -> bool:
            match t:
                case Index(s):
                    return s in own
                case Data(_, layout):
                    return layout in named
                case Tuple(items):
                    return any(mentions(x) for x in items)
                case _:
                    return False

        return interface.span.source == source or any(mentions(t) for t in made.types)

    def bodies(self) -> list[Diagnostic]:
        wrong: list[Diagnostic] = []
        for interface in self._interfaces:
            for name, d in interface.defaults.items():
                self._body(d, default_name(interface, name), interface, None, wrong)
        for instance, made, interface in self._own:
            for m in instance.members or ():
                if isinstance(m, s.Def):
                    self._body(m, made.methods[m.name], interface, made, wrong)
            for name, d in interface.defaults.items():
                wanted = made.methods.get(name)
                if interface.built_in and wanted is not None and wanted not in self.definitions:
                    self._body(d, default_name(interface, name), interface, None, wrong)
        return wrong

    def endless(self, definitions: Mapping[str, core.Definition]) -> list[Diagnostic]:
        """The methods that would call themselves."""
        calls = Calls({**definitions, **self.definitions}, self.globals.instances)
        wrong = []
        for d, made, _ in self._own:
            for m in d.members or ():
                if isinstance(m, s.Def):
                    name = made.methods[m.name]
                    path = calls.endless(name)
                    if path is not None:
                        wrong.append(interface_errors.endless(m.name, m.name_span, path).diagnostic)
                        break
            if wrong:
                break
        return wrong

    def _body(
        self, d: s.Def, name: str, interface: Interface, made: core.Instance | None,
        wrong: list[Diagnostic],
    ) -> None:
        definition, mistakes = implement(d, name, interface, made, self.globals, self.library)
        wrong += mistakes
        if definition is not None:
            self.definitions[name] = definition


# ---------------------------------------------------------------- interfaces


def declare(d: s.Interface, full: str, globals: Globals, library: Globals) -> Interface:
    """An interface: each method as a definition that calls what the instance has."""
    params = tuple(Var(p) for p in d.params)
    named = {m.name: Var(f"{m.name}({', '.join(d.params)})") for m in _types(d.members)}
    made = Interface(full, params, (), named, {}, {}, d.span)
    w = start(globals, library)
    _bind_params(w, d, made)
    suppose_all(w, d.facts)
    supers = tuple(core.Wanted(g.interface, g.types) for g in w.given)
    made = Interface(full, params, supers, named, {}, {}, d.span)
    prefix = "std." if made.built_in else full[: len(full) - len(d.name)]
    for m in d.members:
        if isinstance(m, s.Def):
            made.methods[m.name] = _method(m, prefix + m.name, d, made, globals, library)
            if m.body is not None:
                made.defaults[m.name] = m
        elif not isinstance(m, s.AssociatedType):
            raise name_errors.misplaced_top(m.span)
    return made


def _types(members: tuple[s.Member, ...]) -> list[s.AssociatedType]:
    return [m for m in members if isinstance(m, s.AssociatedType)]


def _bind_params(w: Walk, d: s.Interface, interface: Interface) -> None:
    """The interface's names, and what it says of itself."""
    for v in interface.params:
        w.scope.names[v.name] = TypeName(TypeVar(v), d.span)
        w.solver.closed.add(v)
        w.solver.generic.add(v)
    for name, v in interface.associated.items():
        w.scope.names[name] = TypeName(TypeVar(v), d.span)
    w.globals.known.setdefault(interface.name, interface)


def _method(
    m: s.Def, name: str, d: s.Interface, interface: Interface, globals: Globals, library: Globals
) -> core.Definition:
    w = start(globals, library)
    may_have(w)
    globals.known[interface.name] = interface
    _bind_params(w, d, interface)
    suppose(w, interface.itself)
    known = {(g.interface, g.types) for g in w.given}
    head = header(w, m)
    types = [t for _, _, t in head.params]
    if head.result is None or any(p.type is None for p, _, _ in head.params):
        raise interface_errors.untyped_method(m.name, m.name_span)
    result = head.result
    mentioned = {v for t in (*types, result) for v in _type_variables(t)}
    unseen = [p.name for p in interface.params if p not in mentioned]
    if unseen:
        raise interface_errors.undetermined_method(d.name, m.name, unseen, m.name_span)
    wanted = [
        x for x in left_to_callers(w)
        if (x.interface, x.types) not in known
        or (x.interface != interface.name and mentioned & {*map(_variable, x.associated)})
    ]
    told = {t for x in wanted for _, t in x.associated}
    hidden = [v for v in w.associated if TypeVar(v) not in told]
    at = _identity(w, head, hidden)
    itself = interface.itself
    effects = hidden_params(w, m.effects or ())
    function = Function((*types, *(p.type for p in effects)), result)
    method = core.Method(interface.name, m.name, itself.types, function, at)
    refs = tuple(core.Ref(v) for v in (*(v for _, v, _ in head.params), *(p.var for p in effects)))
    body = Typed(result, lambda: core.Call(method, refs), m.span)
    finish(w, m.span, types)
    made = complete(w, m, name, head, [None] * len(types), body)
    types_left = [p for p in made.types if p.var not in hidden]
    row, params = _row(made)
    return core.Definition(
        made.name, (*(core.TypeParam(v, None) for v in interface.variables), *types_left),
        made.sets, made.sizes,
        params, made.result, made.facts, made.implicit, made.body, made.doc, False,
        made.origin, wanted=(itself, *wanted), effects=row, hidden=made.hidden,
    )


def _row(d: core.Definition) -> tuple[tuple[str, ...], tuple[core.Param, ...]]:
    """A method's effects, and its parameters with what is done to them: references are added to,
    unless the row says `State`."""
    if not any(isinstance(p.type, Reference) for p in d.params):
        return d.effects, d.params
    done = "State" if "State" in d.effects else "Accum"
    params = tuple(
        replace(p, effect=done) if isinstance(p.type, Reference) else p for p in d.params
    )
    return tuple(e for e in ROW if e in (*d.effects, done)), params


def _variable(associated: tuple[str, Type]) -> Var | None:
    _, t = associated
    return t.var if isinstance(t, TypeVar) else None


def _identity(w: Walk, head: Header, hidden: list[Var]) -> Substitution:
    """A method's own variables, each for itself."""
    types: dict[Var, Type] = {v: TypeVar(v) for v in head.types.values()}
    types |= {v: TypeVar(v) for v in w.associated if v not in hidden}
    if w.precision is not None:
        types[w.precision.var] = w.precision
    return Substitution(
        types,
        {v: SetVar(v) for v in head.sets.values()},
        {v: size(v) for v in head.sizes.values()},
    )


def _type_variables(t: Type) -> set[Var]:
    match t:
        case TypeVar(v):
            return {v}
        case Tuple(items):
            return {v for x in items for v in _type_variables(x)}
        case Function(params, result):
            return {v for x in (*params, result) for v in _type_variables(x)}
        case Table(_, cell):
            return _type_variables(cell)
        case _:
            return set()


# ---------------------------------------------------------------- instances


def head_of(
    d: s.Instance, prefix: str, globals: Globals, library: Globals
) -> tuple[core.Instance, Interface]:
    """The instance, before its methods: its types, conditions and associated types."""
    w = start(globals, library)
    variables, sets, sizes = _bind_instance(w, d)
    interface = find_interface(w, d.name, len(d.types), d.span)
    types = tuple(as_type(w, t) for t in d.types)
    for t, e in zip(types, d.types, strict=True):
        _check_head(w, d.name, t, e)
    if interface.built_in and globals is not library:
        _check_built_in(d, types[0])
    suppose_all(w, d.facts)
    title = f"{d.name}({', '.join(t.span.text for t in d.types)})"
    at: dict[Var, Type] = dict(zip(interface.params, types, strict=True))
    said = {m.name: m for m in _types(d.members or ())}
    for name, m in said.items():
        if name not in interface.associated:
            raise interface_errors.associated_type(
                title, name, m.span, False, list(interface.associated)
            )
    meant: dict[str, Type] = {}
    for name, v in interface.associated.items():
        if name not in said:
            raise interface_errors.associated_type(title, name, d.span, True, [])
        value = said[name].value
        assert value is not None
        at[v] = meant[name] = as_type(w, value)
    methods = _methods(d, title, interface, prefix, globals is library)
    given = stated(w)
    if any(g.interface == interface.name and g.types == types for g in given):
        raise interface_errors.bad_head(d.name, title, d.span, "it asks for itself", ())
    made = core.Instance(
        interface.name, variables, sets, sizes, types, given, Substitution(at, {}, {}), meant,
        methods, d.span,
    )
    return made, interface


def _bind_instance(
    w: Walk, d: s.Instance
) -> tuple[tuple[core.TypeParam, ...], tuple[Var, ...], tuple[Var, ...]]:
    """The lower-case names of the head, which any type, set or size may stand for."""
    set_names, size_names, names = declared_names(w, list(d.types))
    sets, sizes = tuple(map(Var, set_names)), tuple(map(Var, size_names))
    for v in sets:
        w.scope.names[v.name] = SetName(SetVar(v), d.span)
    for v in sizes:
        w.scope.names[v.name] = SizeName(v, d.span)
    out = []
    for n in names:
        v = Var(n)
        w.scope.names[n] = TypeName(TypeVar(v), d.span)
        w.solver.generic.add(v)
        w.solver.closed.add(v)
        out.append(core.TypeParam(v, None))
    if any(mentions_float(w, t) for t in d.types):
        w.precision = TypeVar(Var("Float"))
        w.solver.rigid[w.precision.var] = FLOATS
        out.append(core.TypeParam(w.precision.var, "Floating", True))
    return tuple(out), sets, sizes


def _check_head(w: Walk, interface: str, t: Type, e: s.Expr) -> None:
    match t:
        case Scalar() | Tuple() | Index(EnumSet()):
            return
        case TypeVar(v) if w.precision is not None and v == w.precision.var:
            return
        case TypeVar():
            why = "it stands for every type"
            helps: tuple[str, ...] = ("name the types, one instance for each",)
        case _:
            why = f"`{show(w, t)}` is no type of single values"
            helps = ("tables lift: an instance for the elements is enough",)
    raise interface_errors.bad_head(interface, e.span.text, e.span, why, helps)


def _check_built_in(d: s.Instance, t: Type) -> None:
    """The built-in types have their instances of the built-in interfaces."""
    text, span = d.types[0].span.text, d.types[0].span
    if d.name in ("Real", "Integral"):
        why = "only the built-in numbers are"
        raise interface_errors.bad_head(d.name, text, span, why, ())
    plain = type(t) is Tuple or isinstance(t, Index)
    if (d.name in ("Eq", "Ord") and plain) or (
        d.name in INTERFACES and isinstance(t, Scalar | TypeVar)
    ):
        why = f"`{text}` has its own {'comparison' if plain else 'operations'}"
        raise interface_errors.bad_head(d.name, text, span, why, ())


def _methods(
    d: s.Instance, title: str, interface: Interface, prefix: str, of_numbers: bool
) -> dict[str, str]:
    """The definition each method will have; in the library, where numbers do it their own way."""
    methods: dict[str, str] = {}
    if d.members is None and interface.built_in and d.name in DERIVABLE:
        return methods
    places: dict[str, Span] = {}
    for m in d.members or ():
        if isinstance(m, s.AssociatedType):
            continue
        if not isinstance(m, s.Def):
            raise name_errors.misplaced_top(m.span)
        if m.name in places:
            raise name_errors.duplicate(m.name, m.name_span, places[m.name])
        places[m.name] = m.name_span
        if m.name not in interface.methods:
            raise interface_errors.no_member(
                d.name, m.name, m.name_span, list(interface.methods)
            )
        methods[m.name] = f"{prefix}{title}.{m.name}"
    if of_numbers:
        return methods
    lacking = [n for n in interface.methods if n not in methods and n not in interface.defaults]
    if lacking:
        raise interface_errors.missing_methods(
            title, lacking, d.span,
            [f"def {n}({', '.join(p.name for p in interface.methods[n].params)}) = …"
             for n in lacking],
        )
    for n in interface.defaults:
        methods.setdefault(n, default_name(interface, n))
    return methods


DERIVABLE = ("Eq", "Ord", "Bounded", "Num", "Fractional", "Floating")


def check_derived(
    d: s.Instance, made: core.Instance, globals: Globals, library: Globals
) -> None:
    """Every part of a type with a derived instance has one."""
    w = start(globals, library)
    _suppose_given(w, made)
    (t,) = made.types
    types = show(w, t)
    if not isinstance(t, Data):
        raise interface_errors.no_deriving(d.name, types, d.span, f"`{types}` has no fields")
    if t.layout.tagged and d.name not in ("Eq", "Ord"):
        why = "an enum has several forms"
        raise interface_errors.no_deriving(d.name, types, d.span, why)
    for f in [f for v in t.layout.variants for f in v.fields]:
        kind = t.items[f.item]
        _, cell = w.solver.axes(kind) if d.name != "Ord" else ([], kind)
        if unmet(w, core.Wanted(d.name, (cell,)), Because(d.span, "")):
            why = f"its field `{f.name}` is `{show(w, kind)}`"
            raise interface_errors.no_deriving(d.name, types, d.span, why)


def default_name(interface: Interface, method: str) -> str:
    return f"{interface.name}.{method}"


def check_coherent(
    made: core.Instance, others: list[core.Instance], own: bool, span: Span
) -> None:
    """At most one instance fits any types, and it is where one would look for it."""
    for other in others:
        if other.interface == made.interface and _overlap(made, other):
            raise interface_errors.overlap(
                show_instance(made), show_instance(other), span, other.origin
            )
    if not own:
        types = show_instance(made).partition("(")[2][:-1]
        raise interface_errors.orphan(short_name(made.interface), types, span)


def _overlap(a: core.Instance, b: core.Instance) -> bool:
    """Whether some types fit both."""
    solver = Solver()
    sides = []
    for i in (a, b):
        fresh = {
            p.var: solver.type(p.var.name, FLOATS if p.precision else None) for p in i.variables
        }
        sides.append([Substitution(fresh, {}, {}).type(t) for t in i.types])
    try:
        for x, y in zip(*sides, strict=True):
            solver.unify(x, y)
    except Mismatch:
        return False
    return True


def check_supers(
    d: s.Instance, made: core.Instance, interface: Interface, globals: Globals, library: Globals
) -> None:
    """What the interface builds on holds for the instance's types."""
    w = start(globals, library)
    _suppose_given(w, made)
    title = show_instance(made)
    for more in interface.supers:
        wanted = core.Wanted(more.interface, tuple(made.at.type(t) for t in more.types))
        if unmet(w, wanted, Because(d.span, f"`{title}` builds on it")):
            raise interface_errors.no_super(
                title, show_wanted(wanted), _title(wanted), d.span
            )


def _title(wanted: core.Wanted) -> str:
    return f"{short_name(wanted.interface)}({', '.join(show_type(t) for t in wanted.types)})"


def _suppose_given(w: Walk, made: core.Instance) -> None:
    for p in made.variables:
        if p.precision:
            w.solver.rigid[p.var] = FLOATS
        else:
            w.solver.generic.add(p.var)
            w.solver.closed.add(p.var)
    for g in made.given:
        suppose(w, g)


# ---------------------------------------------------------------- methods with a body


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
        _suppose_given(w, made)
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
