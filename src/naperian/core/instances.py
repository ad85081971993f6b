"""Which instance of an interface types have.

    instance Show((a, b)) where a: Show, b: Show        Show((Int, Bool)): a = Int, b = Bool

Instances never overlap, so at most one fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from naperian.broken import Broken
from naperian.core.syntax import Instance, Method, Module, TypeParam, Wanted
from naperian.names import Var
from naperian.sizes import Size
from naperian.substitution import Substitution
from naperian.type_show import show_type
from naperian.types import (
    SETS,
    Argument,
    Data,
    Scalar,
    Set,
    SetVar,
    Tuple,
    Type,
    TypeVar,
)

IsFloat = Callable[[Type], bool]
IsOpen = Callable[[Type], bool]


def is_float(t: Type) -> bool:
    return isinstance(t, Scalar) and t.dtype.is_float


def never(_: Type) -> bool:
    return False


def fits(
    instance: Instance, types: tuple[Type, ...], floats: IsFloat = is_float, is_open: IsOpen = never
) -> Substitution | bool:
    """What the instance's variables are for these types; False if it is not theirs, True if that
    hangs on types that are open."""
    matching = _Matching(instance, floats, is_open)
    verdicts = [matching.type(p, t) for p, t in zip(instance.types, types, strict=True)]
    if False in verdicts:
        return False
    return True if None in verdicts else matching.found


class _Matching:
    """What the variables of an instance are found to be. A verdict is None where it is open."""

    def __init__(self, instance: Instance, floats: IsFloat, is_open: IsOpen) -> None:
        self.variables = {p.var: p for p in instance.variables}
        self.floats = floats
        self.is_open = is_open
        self.types: dict[Var, Type] = {}
        self.sets: dict[Var, Set] = {}
        self.sizes: dict[Var, Size] = {}
        self.found = Substitution(self.types, self.sets, self.sizes)

    def type(self, pattern: Type, t: Type) -> bool | None:
        match pattern:
            case TypeVar(v) if v in self.variables:
                if self.variables[v].precision and not self.floats(t):
                    return None if self.is_open(t) else False
                if v in self.types:
                    return True if self.types[v] == t else None if self.is_open(t) else False
                self.types[v] = t
                return True
            case _ if self.is_open(t):
                return None
            case Data(_, layout, args):
                if not isinstance(t, Data) or t.layout != layout:
                    return False
                return self.all([
                    self.argument(x, y) for x, y in zip(args, t.args, strict=True)
                ])
            case Tuple(items):
                if not isinstance(t, Tuple) or isinstance(t, Data) or len(t.items) != len(items):
                    return False
                return self.all([self.type(x, y) for x, y in zip(items, t.items, strict=True)])
            case _:
                return pattern == t

    def argument(self, pattern: Argument, found: Argument) -> bool | None:
        """A set or a size of a data type: a variable of the instance stands for any."""
        if isinstance(pattern, Size):
            assert isinstance(found, Size)
            v = pattern.single
            if isinstance(v, Var):
                return self.sizes.setdefault(v, found) == found
            return pattern == found
        if isinstance(pattern, SETS):
            assert isinstance(found, SETS)
            if isinstance(pattern, SetVar):
                return self.sets.setdefault(pattern.var, found) == found
            return pattern == found
        assert not isinstance(found, (Size, *SETS))
        return self.type(pattern, found)

    @staticmethod
    def all(verdicts: list[bool | None]) -> bool | None:
        return False if False in verdicts else None if None in verdicts else True


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
) -> tuple[Instance, Substitution] | None:
    """The instance that closed types have, and what its variables are."""
    for i in instances:
        if i.interface == interface:
            found = fits(i, types)
            if not isinstance(found, bool):
                return i, found
    return None


def resolve(
    module: Module, method: Method, types: tuple[Type, ...]
) -> tuple[str, Substitution] | None:
    """The definition that a method is at closed types, and what its variables are there (all but
    the method's own); None if there is no instance that
    defines it."""
    found = instance_of(module.instances, method.interface, types)
    if found is None:
        return None
    instance, here = found
    name = instance.methods.get(method.name)
    if name is None:
        return None
    interface = {v: here.type(t) for v, t in instance.at.types.items()}
    at = Substitution(interface, {}, {}).and_(here)
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
    instance, here = found
    types = {
        t.var: here.type(instance.associated[n])
        for n, t in wanted.associated if isinstance(t, TypeVar)
    }
    return Substitution(types, {}, {})
