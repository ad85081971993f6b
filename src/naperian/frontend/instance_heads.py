"""Heads of instances: what they are of, that no two overlap, that super interfaces have theirs."""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.core.instances import short_name, show_wanted
from naperian.dtypes import FLOATS
from naperian.frontend.annotations import as_type, declared_names, mentions_float
from naperian.frontend.cells import show
from naperian.frontend.constraints import (
    find_interface,
    show_instance,
    stated,
    suppose,
    unmet,
)
from naperian.frontend.definitions import start, suppose_all
from naperian.frontend.messages import interface_errors, name_errors
from naperian.frontend.scalars import INTERFACES
from naperian.frontend.scope import SetName, SizeName, TypeName
from naperian.frontend.solve import Mismatch, Solver
from naperian.frontend.unknowns import Because
from naperian.frontend.walk import Globals, Interface, Walk
from naperian.names import Var
from naperian.source import Span
from naperian.substitution import Substitution
from naperian.surface import syntax as s
from naperian.type_show import show_type
from naperian.types import (
    Data,
    EnumSet,
    Index,
    Scalar,
    SetVar,
    Tuple,
    Type,
    TypeVar,
)


def associated_types(members: tuple[s.Member, ...]) -> list[s.AssociatedType]:
    return [m for m in members if isinstance(m, s.AssociatedType)]


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
    said = {m.name: m for m in associated_types(d.members or ())}
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
            raise name_errors.misplaced_member(m)
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
    suppose_given(w, made)
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
    suppose_given(w, made)
    title = show_instance(made)
    for more in interface.supers:
        wanted = core.Wanted(more.interface, tuple(made.at.type(t) for t in more.types))
        if unmet(w, wanted, Because(d.span, f"`{title}` builds on it")):
            raise interface_errors.no_super(
                title, show_wanted(wanted), _title(wanted), d.span
            )


def _title(wanted: core.Wanted) -> str:
    return f"{short_name(wanted.interface)}({', '.join(show_type(t) for t in wanted.types)})"


def suppose_given(w: Walk, made: core.Instance) -> None:
    for p in made.variables:
        if p.precision:
            w.solver.rigid[p.var] = FLOATS
        else:
            w.solver.generic.add(p.var)
            w.solver.closed.add(p.var)
    for g in made.given:
        suppose(w, g)
