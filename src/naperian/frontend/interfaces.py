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
from dataclasses import field

from naperian.core import syntax as core
from naperian.frontend.ambient import hidden as hidden_params
from naperian.frontend.ambient import may_have
from naperian.frontend.constraints import (
    left_to_callers,
    suppose,
)
from naperian.frontend.definitions import Header, complete, finish, header, start, suppose_all
from naperian.frontend.endless import Calls
from naperian.frontend.implement import implement
from naperian.frontend.instance_heads import (
    DERIVABLE,
    associated_types,
    check_coherent,
    check_derived,
    check_supers,
    default_name,
    head_of,
)
from naperian.frontend.messages import interface_errors, name_errors
from naperian.frontend.messages.report import Reported, Silent
from naperian.frontend.references import ROW
from naperian.frontend.scope import TypeName
from naperian.frontend.typed import Typed
from naperian.frontend.walk import Globals, Interface, Walk
from naperian.names import Var
from naperian.node import mutable, replace
from naperian.sizes import size
from naperian.source import Diagnostic, Source, Span
from naperian.substitution import Substitution
from naperian.surface import syntax as s
from naperian.types import (
    Data,
    Function,
    Index,
    Reference,
    SetVar,
    Table,
    Tuple,
    Type,
    TypeVar,
)


@mutable
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
                self.globals.without.add(d.name)
                continue
            except Silent:
                self.globals.without.add(d.name)
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
            except Silent:
                continue  # what it builds on was reported already
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
    named = {m.name: Var(f"{m.name}({', '.join(d.params)})") for m in associated_types(d.members)}
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
            raise name_errors.misplaced_member(m)
    return made


def _bind_params(w: Walk, d: s.Interface, interface: Interface) -> None:
    """The interface's names, and what it says of itself."""
    w.interface = interface
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


# ---------------------------------------------------------------- methods with a body


