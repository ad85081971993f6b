"""Which instance of an interface types have.

    instance Show((a, b)) where a: Show, b: Show        Show((Int, Bool)): a = Int, b = Bool

Instances never overlap, so at most one fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from naperian.broken import Broken
from naperian.core.syntax import Instance, Method, Module, TypeParam, Wanted
from naperian.names import Var
from naperian.types import (
    Function,
    Index,
    Reference,
    Scalar,
    Substitution,
    Table,
    Text,
    Tuple,
    Type,
    TypeVar,
    show_type,
)

IsFloat = Callable[[Type], bool]
IsOpen = Callable[[Type], bool]


def is_float(t: Type) -> bool:
    return isinstance(t, Scalar) and t.dtype.is_float


def never(_: Type) -> bool:
    return False


def fits(
    instance: Instance, types: tuple[Type, ...], floats: IsFloat = is_float, is_open: IsOpen = never
) -> dict[Var, Type] | bool:
    """What the instance's variables are for these types; False if it is not theirs, True if that
    hangs on types that are open."""
    found: dict[Var, Type] = {}
    variables = {p.var: p for p in instance.variables}
    verdicts = [
        _fits(pattern, t, variables, found, floats, is_open)
        for pattern, t in zip(instance.types, types, strict=True)
    ]
    if False in verdicts:
        return False
    return True if None in verdicts else found


def _fits(
    pattern: Type, t: Type, variables: dict[Var, TypeParam], found: dict[Var, Type],
    floats: IsFloat, is_open: IsOpen,
) -> bool | None:
    """Whether a type has the form of the pattern; None if that is open."""
    match pattern:
        case TypeVar(v) if v in variables:
            if variables[v].precision and not floats(t):
                return None if is_open(t) else False
            if v in found:
                return True if found[v] == t else None if is_open(t) else False
            found[v] = t
            return True
        case _ if is_open(t):
            return None
        case Tuple(items):
            if not isinstance(t, Tuple) or len(t.items) != len(items):
                return False
            parts = [
                _fits(x, y, variables, found, floats, is_open)
                for x, y in zip(items, t.items, strict=True)
            ]
            return False if False in parts else None if None in parts else True
        case Scalar() | Index() | TypeVar() | Table() | Function() | Reference() | Text():
            return pattern == t


def show_wanted(wanted: Wanted, show: Callable[[Type], str] = show_type) -> str:
    """`a: Show`, as in a `where`."""
    types = [show(t) for t in wanted.types]
    subject = types[0] if len(types) == 1 else f"({', '.join(types)})"
    return f"{subject}: {short_name(wanted.interface)}"


def bounds(p: TypeParam) -> list[str]:
    """What a `where` says of a type variable."""
    if p.precision:
        return []
    names = p.needs or ((p.interface,) if p.interface else ())
    return [f"{p.var.name}: {name}" for name in names]


def short_name(interface: str) -> str:
    """Without its module."""
    return interface.rpartition(".")[2]


def instance_of(
    instances: Iterable[Instance], interface: str, types: tuple[Type, ...]
) -> tuple[Instance, dict[Var, Type]] | None:
    """The instance that closed types have, and what its variables are."""
    for i in instances:
        if i.interface == interface:
            found = fits(i, types)
            if isinstance(found, dict):
                return i, found
    return None


def resolve(
    module: Module, method: Method, types: tuple[Type, ...]
) -> tuple[str, Substitution] | None:
    """The definition that a method is at closed types, and what its variables are there (all but
    the method's own); None if no instance is declared."""
    found = instance_of(module.instances, method.interface, types)
    if found is None:
        return None
    instance, variables = found
    here = Substitution(variables, {}, {})
    interface = {v: here.type(t) for v, t in instance.at.types.items()}
    name = instance.methods[method.name]
    at = Substitution({**interface, **variables}, {}, {})
    for wanted in module.definitions[name].wanted:
        at = at.and_(_associated(module, wanted, at))
    return name, at


def _associated(module: Module, wanted: Wanted, at: Substitution) -> Substitution:
    """What the variables for associated types are."""
    if not wanted.associated:
        return Substitution({}, {}, {})
    found = instance_of(module.instances, wanted.interface, tuple(map(at.type, wanted.types)))
    if found is None:
        raise Broken(f"{show_wanted(wanted)} is not so")
    instance, variables = found
    here = Substitution(variables, {}, {})
    types = {
        t.var: here.type(instance.associated[n])
        for n, t in wanted.associated if isinstance(t, TypeVar)
    }
    return Substitution(types, {}, {})
