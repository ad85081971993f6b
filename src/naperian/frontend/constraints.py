"""Interfaces that types must be instances of: asked for by a call, met by an instance, by what the
signature says, or left to the caller.

    def both(x: a, y: b) -> Bool = same(x, x) and same(y, y)     asks for  a: Same, b: Same
    both(1, (2, True))          asks for  Int: Same, (Int, Bool): Same, and so Int: Same, Bool: Same

A demand waits until its types are known. What is known of a type variable of the signature is what
`where` says; if `where` says nothing of it, what the body asks for is inferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeGuard

from naperian.core import syntax as core
from naperian.core.instances import fits, short_name, show_wanted
from naperian.dtypes import FLOATS
from naperian.frontend.cells import show
from naperian.frontend.messages import interface_errors
from naperian.frontend.messages.report import Reported, Silent
from naperian.frontend.scalars import INTERFACES, Dtypes, interface_name
from naperian.frontend.solve import Mismatch
from naperian.frontend.unknowns import Because
from naperian.frontend.walk import Demand, Interface, Walk
from naperian.names import Var
from naperian.source import Span
from naperian.substitution import Substitution
from naperian.type_show import show_type
from naperian.types import (
    F64,
    Data,
    Fin,
    Index,
    Range,
    Scalar,
    SetVar,
    Table,
    Tuple,
    Type,
    TypeVar,
)


def interface_of(w: Walk, name: str) -> Interface | None:
    """An interface by the name it has here."""
    return w.globals.interfaces.get(name) or w.library.interfaces.get(name)


def find_interface(w: Walk, name: str, count: int, span: Span) -> Interface:
    """The interface a text names, of so many types."""
    found = interface_of(w, name)
    if found is None:
        known = [*INTERFACES, *w.globals.interfaces, *w.library.interfaces]
        raise interface_errors.no_interface(name, span, list(dict.fromkeys(known)))
    if len(found.params) != count:
        raise interface_errors.wrong_count(name, [p.name for p in found.params], count, span)
    return found


def owner_of(w: Walk, associated: str) -> Interface | None:
    """The interface that has an associated type of this name."""
    return next((i for i in _interfaces(w) if associated in i.associated), None)


def associated_names(w: Walk) -> frozenset[str]:
    """The associated types of all interfaces that have a name here."""
    return frozenset(name for interface in _interfaces(w) for name in interface.associated)


def _interfaces(w: Walk) -> tuple[Interface, ...]:
    """The interfaces that have a name here, the one that this is a part of first."""
    own = () if w.interface is None else (w.interface,)
    return (*own, *w.globals.interfaces.values(), *w.library.interfaces.values())


def known_interface(w: Walk, full: str) -> Interface:
    found = w.globals.known.get(full)
    return found if found is not None else w.library.known[full]


def instances(w: Walk, interface: str) -> Iterator[core.Instance]:
    for i in (*w.globals.instances, *w.library.instances):
        if i.interface == interface:
            yield i


def need(w: Walk, t: Type, interface: str) -> None:
    """A built-in interface of a type: of an unknown one it is noted until the type is known."""
    solver = w.solver
    t = solver.head(t)
    match t:
        case Scalar():
            return
        case Index(Fin() | SetVar() | Range()) if interface in ("Eq", "Ord"):
            return
        case TypeVar(v) if v in solver.unknown:
            solver.unknown[v].ask((interface,))
        case TypeVar(v) if v not in solver.generic:
            return  # the precision
        case TypeVar(v):
            wanted = core.Wanted(interface, (t,))
            if _held(w, wanted) is not None:
                return
            if v in solver.closed:
                raise _not_given(w, wanted, Because(w.place, "used here"), [v])
            suppose(w, wanted)
        case _:
            demand(w, Demand(core.Wanted(interface, (t,)), Because(w.place, "used here")))


def is_plain(t: Type) -> TypeGuard[Tuple]:
    """A tuple without a name, which compares item by item."""
    return isinstance(t, Tuple) and not isinstance(t, Data) and bool(t.items)


def overloads(w: Walk, t: Type, interfaces: Iterable[str]) -> bool:
    """Whether a type that is no scalar has (as far as is known) instances of all of these."""
    if is_plain(t) and set(interfaces) <= {"Eq", "Ord"}:
        return True
    return all(
        any(
            fits(i, (t,), lambda x: _is_float(w, x), w.solver.is_unknown) is not False
            for i in instances(w, interface)
        )
        for interface in interfaces
    )


def is_vector(w: Walk, t: Type) -> bool:
    """Whether a type is made of floating-point numbers only: those are vector spaces."""
    t = w.solver.head(t)
    match t:
        case Tuple(items):
            if isinstance(t, Data) and t.layout.tagged:
                return False
            return bool(items) and all(is_vector(w, x) for x in items)
        case Table(_, cell):
            return is_vector(w, cell)
        case TypeVar() if is_space(w, t):
            return True
        case _:
            allowed = w.solver.dtypes_of(t)
            return allowed is not None and allowed <= FLOATS


def is_space(w: Walk, t: Type) -> bool:
    """Whether the signature says that a type variable is a vector space."""
    if not isinstance(t, TypeVar) or not (w.given or w.inferred):
        return False
    return _held(w, core.Wanted("VSpace", (t,))) is not None


def demand(w: Walk, d: Demand) -> None:
    """Settle the demand now, or when its types are known."""

    def settle() -> bool:
        d.settled = _settle(w, d)
        return d.settled

    if not settle():
        w.demands.append(d)
        w.solver.wants.append(settle)


def suppose(w: Walk, wanted: core.Wanted) -> None:
    """What a signature says of its types holds in its body, with all that follows from it."""
    if _held(w, wanted) is not None:
        return
    if wanted.interface not in INTERFACES and not wanted.associated:
        wanted = with_variables(w, known_interface(w, wanted.interface), wanted.types)
    w.given.append(wanted)
    if wanted.interface in INTERFACES:
        (t,) = wanted.types
        if isinstance(t, TypeVar):
            known = w.solver.rigid.get(t.var)
            own = INTERFACES[wanted.interface]
            w.solver.rigid[t.var] = own if known is None else known & own
    for more in supers(w, wanted):
        suppose(w, more)


def supers(w: Walk, wanted: core.Wanted) -> list[core.Wanted]:
    """What an instance of the interface builds on, for these types."""
    interface = known_interface(w, wanted.interface)
    at = Substitution(dict(zip(interface.params, wanted.types, strict=True)), {}, {})
    return [at_types(s, at) for s in interface.supers]


def at_types(wanted: core.Wanted, at: Substitution) -> core.Wanted:
    return core.Wanted(
        wanted.interface,
        tuple(at.type(t) for t in wanted.types),
        tuple((n, at.type(t)) for n, t in wanted.associated),
    )


def zonked(w: Walk, wanted: core.Wanted) -> core.Wanted:
    return core.Wanted(
        wanted.interface,
        tuple(w.solver.zonk(t) for t in wanted.types),
        tuple((n, w.solver.zonk(t)) for n, t in wanted.associated),
    )


def associated(w: Walk, interface: Interface, types: tuple[Type, ...], name: str) -> Type:
    """`Elem(c)` in a signature: what the instance says, or a variable that stands for it."""
    wanted = core.Wanted(interface.name, types)
    held = _held(w, wanted)
    if held is None:
        for i in instances(w, interface.name):
            found = fits(i, types, lambda t: _is_float(w, t))
            if not isinstance(found, bool):
                return found.type(i.associated[name])
        held = with_variables(w, interface, types)
        suppose(w, held)
    return dict(held.associated)[name]


def with_variables(w: Walk, interface: Interface, types: tuple[Type, ...]) -> core.Wanted:
    """The interface at these types, with a new type variable for each associated type."""
    made = []
    for name in interface.associated:
        v = Var(f"{name}({', '.join(show(w, t) for t in types)})")
        w.associated.append(v)
        made.append((name, TypeVar(v)))
    return core.Wanted(interface.name, types, tuple(made))


def _held(w: Walk, wanted: core.Wanted) -> core.Wanted | None:
    """The same among what is known of the signature's types."""
    for g in (*w.given, *w.inferred):
        if g.interface == wanted.interface and g.types == wanted.types:
            return g
    return None


def _is_float(w: Walk, t: Type) -> bool:
    return w.solver.dtypes_of(t) is not None and (w.solver.dtypes_of(t) or FLOATS) <= FLOATS


def _settle(w: Walk, d: Demand) -> bool:
    """Whether the demand is met; False while its types are open. Reports one that cannot be."""
    solver = w.solver
    wanted = zonked(w, d.wanted)
    if wanted.interface in INTERFACES:
        (t,) = wanted.types
        if isinstance(t, TypeVar) and t.var in solver.unknown and solver.dtypes_of(t) is None:
            return False  # it may still become a struct
        if isinstance(t, TypeVar | Scalar):
            try:
                solver.restrict(t, INTERFACES[wanted.interface])
            except Mismatch:
                raise missing(w, wanted, d) from None
            need(w, t, wanted.interface)
            return True
        if is_plain(t) and wanted.interface in ("Eq", "Ord"):
            for x in t.items:
                demand(w, Demand(core.Wanted(wanted.interface, (x,)), d.because, (*d.path, wanted)))
            return True
        if isinstance(t, Index) and wanted.interface in ("Eq", "Ord"):
            return True
    if wanted.interface == "VSpace" and is_vector(w, wanted.types[0]):
        return True
    held = _held(w, wanted)
    if held is not None:
        _associate(w, wanted, held.associated)
        return True
    waits = False
    for i in instances(w, wanted.interface):
        here = fits(i, wanted.types, lambda t: _is_float(w, t), solver.is_unknown)
        if not isinstance(here, bool):
            here = here.and_(_chosen_types(w, i))
            said = tuple((n, here.type(t)) for n, t in i.associated.items())
            _associate(w, wanted, said)
            for condition in i.given:
                demand(w, Demand(at_types(condition, here), d.because, (*d.path, wanted)))
            return True
        waits = waits or here
    if any(solver.is_unknown(t) for t in wanted.types):
        return False
    if waits:
        return False
    free = [t.var for t in wanted.types if isinstance(t, TypeVar) and t.var in solver.generic]
    if free and not any(v in solver.closed for v in free):
        infer(w, wanted)
        return True
    if free:
        raise _not_given(w, wanted, d.because, free)
    raise missing(w, wanted, d)


def _not_given(w: Walk, wanted: core.Wanted, because: Because, free: list[Var]) -> Reported:
    given = [g for g in w.given if any(TypeVar(v) in g.types for v in free)]
    implied = [(m.interface, m.types) for g in given for m in supers(w, g)]
    return interface_errors.not_given(
        show_wanted(wanted, lambda t: show(w, t)), because,
        [show_wanted(g) for g in given if (g.interface, g.types) not in implied],
    )


def infer(w: Walk, wanted: core.Wanted) -> None:
    """Leave the instance to the caller."""
    interface = known_interface(w, wanted.interface)
    made = with_variables(w, interface, wanted.types)
    w.inferred.append(made)
    for more in supers(w, made):
        suppose(w, more)
    _associate(w, wanted, made.associated)


def _chosen_types(w: Walk, i: core.Instance) -> Substitution:
    """The associated types that an instance's conditions are about: what meets these says them."""
    names = [(n, t.var) for g in i.given for n, t in g.associated if isinstance(t, TypeVar)]
    return Substitution({v: w.solver.type(n) for n, v in names}, {}, {})


def _associate(
    w: Walk, wanted: core.Wanted, known: tuple[tuple[str, Type], ...]
) -> None:
    """The associated types of a demand are those of what meets it."""
    by_name = dict(known)
    for name, t in wanted.associated:
        w.solver.unify(t, by_name[name])


def leave(w: Walk) -> None:
    """At the end of a definition: what is asked of types that the caller chooses is the caller's
    to meet; what is asked of types that nothing fixes is ambiguous."""
    solver = w.solver
    for d in [d for d in w.demands if not d.settled]:
        wanted = zonked(w, d.wanted)
        if not {v for t in wanted.types for v in solver.unknown_types(t)} <= solver.chosen:
            raise interface_errors.ambiguous_instance(
                show_wanted(wanted, lambda t: show(w, t)), d.because,
            )
        if wanted.interface in INTERFACES:
            solver.restrict(wanted.types[0], INTERFACES[wanted.interface])
        elif _held(w, wanted) is None:
            infer(w, wanted)
        d.settled = _settle(w, d)
    w.demands.clear()
    solver.wants.clear()


def unmet(w: Walk, wanted: core.Wanted, because: Because) -> bool:
    """Whether types that are known are no instance."""
    try:
        demand(w, Demand(wanted, because))
    except Reported:
        return True
    return False


def stated(w: Walk) -> tuple[core.Wanted, ...]:
    """What is said or inferred of the signature's types and does not follow from the rest."""
    held = [zonked(w, g) for g in (*w.given, *w.inferred)]
    implied = [(more.interface, more.types) for g in held for more in supers(w, g)]
    return tuple(g for g in held if g.associated or (g.interface, g.types) not in implied)


def left_to_callers(w: Walk) -> tuple[core.Wanted, ...]:
    """What callers of the definition must meet; built-in interfaces stand with the variable."""
    return tuple(g for g in stated(w) if g.interface not in INTERFACES)


def needs_of(w: Walk, t: TypeVar) -> tuple[str, ...]:
    """The built-in interfaces of a type variable of the signature that imply all it has."""
    held = [g for g in (*w.given, *w.inferred) if g.types == (t,) and g.interface in INTERFACES]
    return least(w, {g.interface for g in held}, w.solver.rigid.get(t.var))


def least(w: Walk, interfaces: set[str], dtypes: Dtypes | None) -> tuple[str, ...]:
    """Those that do not follow from others; and one that says which scalars it may be."""
    t = TypeVar(Var("a"))
    if dtypes is not None and not any(INTERFACES[i] <= dtypes for i in interfaces):
        name = interface_name(dtypes)
        if name in INTERFACES:
            interfaces = interfaces | {"Fractional" if name == "Floating" else name}
    implied = {
        more.interface for i in interfaces for more in all_supers(w, core.Wanted(i, (t,)))
    }
    return tuple(sorted(interfaces - implied))


def all_supers(w: Walk, wanted: core.Wanted) -> Iterator[core.Wanted]:
    for more in supers(w, wanted):
        yield more
        yield from all_supers(w, more)


def missing(w: Walk, wanted: core.Wanted, d: Demand) -> Reported | Silent:
    """The demand that nothing meets, and what there is; nothing is told if a mistake in an instance
    may be why."""

    def shown(x: core.Wanted) -> str:
        return show_wanted(x, lambda t: show(w, t))

    if wanted.interface == "VSpace":
        return interface_errors.no_space(show(w, wanted.types[0]), d.because)
    interface = short_name(wanted.interface)
    if interface in w.globals.without:
        return Silent()
    known = [show_instance(i) for i in instances(w, wanted.interface)]
    return interface_errors.no_instance(
        interface, ", ".join(show(w, t) for t in wanted.types), shown(wanted),
        d.because, [shown(x) for x in d.path], known,
    )


def show_instance(i: core.Instance) -> str:
    """`Show((a, b))`, as it is declared."""
    types = [show_type(_float(i).type(t)) for t in i.types]
    return f"{short_name(i.interface)}({', '.join(types)})"


def _float(i: core.Instance) -> Substitution:
    return Substitution({p.var: F64 for p in i.variables if p.precision}, {}, {})
