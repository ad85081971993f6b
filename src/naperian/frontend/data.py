"""Structs and enums with fields: finding them by name, and their types at fresh unknowns.

A struct is a tuple of its fields, an enum with fields the tuple of its tag and of the slots that
its variants keep their fields in (`types.Data`). What constructs them is an ordinary definition
(`declarations`), so that calls of a constructor take keywords and defaults, and lift.
"""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.frontend.messages import data_errors
from naperian.frontend.walk import DataInfo, Walk
from naperian.names import Var
from naperian.sizes import Size, size
from naperian.source import Span
from naperian.substitution import Substitution
from naperian.surface import syntax as s
from naperian.types import Data, Set, SetVar, Type, TypeVar


def find(w: Walk, e: s.Expr) -> DataInfo | None:
    """What `Point`, `geo.Point`, the name of a struct or of an enum with fields, means."""
    match e:
        case s.Name(_, name) if w.scope.find(name) is None and name not in w.globals.enums:
            return w.globals.data.get(name) or w.library.data.get(name)
        case s.Field(_, s.Name(_, module), name, _) if (
            module in w.globals.modules and w.scope.find(module) is None
        ):
            return w.globals.modules[module].data.get(name)
        case _:
            return None


def info_of(w: Walk, t: Data) -> DataInfo:
    """What is known of a data type."""
    return w.globals.known_data.get(t.layout.var) or w.library.known_data[t.layout.var]


def maker(w: Walk, name: str, expected: Type | None, span: Span) -> core.Definition | None:
    """What a bare name constructs: a variant of the enum that is expected, a struct, or a variant
    that only one enum has."""
    kind = w.solver.head(expected) if expected is not None else None
    if isinstance(kind, Data) and kind.layout.tagged and kind.layout.variant(name) is not None:
        return info_of(w, kind).makers[name]
    info = owner(w, name, span)
    return info.makers[name] if info is not None else None


def owner(w: Walk, name: str, span: Span) -> DataInfo | None:
    """The type that `Point(…)`, `Found(…)`, `Hit.Found(…)` makes a value of."""
    path, _, short = name.rpartition(".")
    for names in (w.globals, w.library):
        if path:
            outer, _, enum = path.rpartition(".")
            there = w.globals.modules.get(outer, names) if outer else names
            info = there.data.get(enum) or w.globals.modules.get(path, names).data.get(short)
            if info is not None and short in info.makers:
                return info
            continue
        if name in names.data and not names.data[name].pattern.layout.tagged:
            return names.data[name]
        owners = [
            i for i in names.data.values()
            if i.pattern.layout.tagged and i.pattern.layout.variant(name) is not None
        ]
        if len(owners) > 1:
            raise data_errors.which_enum(name, [i.name for i in owners], span)
        if owners:
            return owners[0]
        if name in names.definitions or name in names.enums:
            return None
    return None


def member(w: Walk, e: s.Field) -> core.Definition | None:
    """`Hit.Found`, `geo.Hit.Found`, `geo.Point`: what constructs it."""
    info = find(w, e)
    if info is not None and not info.pattern.layout.tagged:
        return info.makers[info.name]
    info = find(w, e.base)
    if info is None:
        return None
    if e.name in info.methods:
        return info.methods[e.name]
    if not info.pattern.layout.tagged or e.name not in info.makers:
        raise data_errors.no_variant(info.name, e.name, e.name_span, [*info.makers])
    return info.makers[e.name]


def fresh(w: Walk, info: DataInfo) -> Data:
    """The type with unknowns for its parameters."""
    solver = w.solver
    types: dict[Var, Type] = {}
    sets: dict[Var, Set] = {}
    sizes: dict[Var, Size] = {}
    for k, p in enumerate(info.params):
        match p:
            case TypeVar(v):
                types[v] = w.float if k < info.pattern.layout.hidden else solver.type(v.name)
            case SetVar(v):
                sets[v] = solver.set(v.name)
            case Var():
                sizes[p] = size(solver.size(p.name))
    made = Substitution(types, sets, sizes).type(info.pattern)
    assert isinstance(made, Data)
    return made
