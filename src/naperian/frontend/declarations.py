"""What `struct` and `enum` declare: a data type, and the definitions that construct it.

    struct Point:                   Point = (Float, Float)
        x: Float             →      def Point(x: Float, y: Float = 0.0) -> Point = (x, y)
        y: Float = 0.0

    enum Shape =                    Shape = (tag, Float, Float)
        Dot                         Shape.Dot = (0, _, _)
        Disc(r: Float)       →      def Shape.Disc(r: Float) -> Shape = (1, r, _)
        Box(w: Float, h: Float)     def Shape.Box(w: Float, h: Float) -> Shape = (2, w, h)

Variants share slots of the same type; what a variant does not use is blank.
"""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.dtypes import FLOATS
from naperian.frontend.annotations import as_type, declared_names, mentions_float
from naperian.frontend.coded import numbering
from naperian.frontend.definitions import by_keyword, defaults, finish, shape_facts, start
from naperian.frontend.derived_sets import methods
from naperian.frontend.index_sets import check_fields, code, said_of_size
from naperian.frontend.messages import data_errors
from naperian.frontend.scope import SetName, SizeName, TypeName
from naperian.frontend.walk import DataInfo, Globals, Walk
from naperian.names import Var
from naperian.sizes import size
from naperian.source import Span
from naperian.surface import syntax as s
from naperian.surface.walk import nodes
from naperian.types import (
    Argument,
    Data,
    EnumSet,
    Field,
    Index,
    Layout,
    SetVar,
    Type,
    TypeVar,
    Variant,
    elements,
)


def has_fields(d: s.Enum) -> bool:
    """Whether it is data; an enum without fields (and parameters) is an index set."""
    return bool(d.params) or any(v.fields is not None for v in d.variants)


def declare(
    d: s.Struct | s.Enum, prefix: str, globals: Globals, library: Globals
) -> DataInfo:
    """The data type and its constructors; raises `Reported` for a mistake."""
    w = start(globals, library)
    written = _variants(d)
    types = [p.type for _, fields, _ in written for p in fields if p.type is not None]
    instance = globals.indexed.get(d.name)
    tagged = isinstance(d, s.Enum)
    derived = instance is not None and instance.members is None
    params = _parameters(w, d, types, instance)
    hidden = int(any(mentions_float(w, t) for t in types))
    if hidden:
        w.precision = TypeVar(Var("Float"))
        w.solver.rigid[w.precision.var] = FLOATS
        params.insert(0, w.precision)
    items: list[Type] = []
    if tagged:
        names = tuple(name for name, _, _ in written)
        items.append(Index(EnumSet(Var(d.name), names)))
    variants: list[Variant] = []
    kinds: list[list[Type]] = []
    for name, fields, _ in written:
        own, kind = _fields(w, fields, items)
        variants.append(Variant(name, own))
        kinds.append(kind)
    if instance is not None and derived:
        for (_, fields, _), kind in zip(written, kinds, strict=True):
            check_fields(w, d.name, fields, kind, instance.span)
    indexed = derived and not tagged and all(elements(t) is not None for t in items)
    layout = Layout(Var(d.name), tuple(variants), tagged, hidden, indexed)
    args: list[Argument] = [size(p) if isinstance(p, Var) else p for p in params]
    info = DataInfo(Data(tuple(items), layout, tuple(args)), tuple(params), d.name_span)
    if instance is not None and not indexed:
        info.coded = code(w, info, instance, prefix)
        if derived:
            info.methods["ordinal"], info.methods["at"] = methods(
                info.coded, info.params, numbering(w), instance.span
            )
    for number, ((name, fields, span), kind) in enumerate(zip(written, kinds, strict=True)):
        full = f"{prefix}{d.name}.{name}" if tagged else f"{prefix}{name}"
        info.makers[name] = _maker(w, info, number, full, fields, kind, span, d.doc)
    return info


_Written = tuple[str, tuple[s.Param, ...], Span]


def _variants(d: s.Struct | s.Enum) -> list[_Written]:
    """The variants as written, with their fields; a struct has itself."""
    if isinstance(d, s.Struct):
        written: list[_Written] = [(d.name, d.fields, d.name_span)]
    else:
        written = [(v.name, v.fields or (), v.span) for v in d.variants]
    seen: dict[str, Span] = {}
    for name, fields, span in written:
        if name in seen:
            raise data_errors.twice("variant", name, span, seen[name])
        seen[name] = span
        own: dict[str, Span] = {}
        for p in fields:
            if p.name in own:
                raise data_errors.twice("field", p.name, p.span, own[p.name])
            own[p.name] = p.span
            if p.type is None:
                raise data_errors.untyped_field(p.name, name, p.span)
    return written


def _parameters(
    w: Walk, d: s.Struct | s.Enum, types: list[s.Expr], instance: s.Instance | None
) -> list[TypeVar | SetVar | Var]:
    """The parameters, in scope as what the fields use them for: sets, sizes or types. The fields
    of an index set are elements of sets."""
    sets, sizes, others = declared_names(w, types)
    if instance is not None:
        sets, others = [*sets, *others], []
        sizes += [p for p in said_of_size(instance, d) if p not in {*sets, *sizes}]
    for name in (*sets, *sizes, *others):
        if name not in d.params:
            raise data_errors.no_parameter(d.name, name, d.params, _mention(types, name))
    out: list[TypeVar | SetVar | Var] = []
    for name in d.params:
        v = Var(name)
        if name in w.scope.names:
            raise data_errors.twice("parameter", name, d.name_span, d.name_span)
        if name in sets:
            own = SetVar(v)
            w.scope.names[name] = SetName(own, d.name_span)
            out.append(own)
        elif name in sizes:
            w.scope.names[name] = SizeName(v, d.name_span)
            out.append(v)
        else:
            kind = TypeVar(v)
            w.scope.names[name] = TypeName(kind, d.name_span)
            w.solver.generic.add(v)
            out.append(kind)
    return out


def _mention(types: list[s.Expr], name: str) -> Span:
    """Where a name stands in the types."""
    for t in types:
        for x in nodes(t):
            if isinstance(x, s.Name) and x.name == name:
                return x.span
    return types[0].span


def _fields(
    w: Walk, fields: tuple[s.Param, ...], items: list[Type]
) -> tuple[tuple[Field, ...], list[Type]]:
    """The fields of a variant and their types. Each takes the first free item of its type."""
    tagged = len(items) > 0
    taken: set[int] = set()
    own: list[Field] = []
    kinds: list[Type] = []
    for p in fields:
        assert p.type is not None
        t = as_type(w, p.type)
        free = [k for k, x in enumerate(items) if k > 0 and k not in taken and x == t]
        if not tagged or not free:
            items.append(t)
            free = [len(items) - 1]
        taken.add(free[0])
        own.append(Field(p.name, free[0]))
        kinds.append(t)
    return tuple(own), kinds


def _maker(
    w: Walk, info: DataInfo, number: int, name: str, fields: tuple[s.Param, ...],
    kinds: list[Type], span: Span, doc: str | None,
) -> core.Definition:
    """The definition that constructs a variant."""
    params = [(p, Var(p.name), t) for p, t in zip(fields, kinds, strict=True)]
    given = defaults(w, params)
    finish(w, span, [])
    out = tuple(
        core.Param(p.name, v, t, x.build() if x is not None else None)
        for (p, v, t), x in zip(params, given, strict=True)
    )
    pattern = info.pattern
    body: list[core.Expr] = [core.Blank(t) for t in pattern.items]
    if pattern.layout.tagged:
        body[0] = core.Number(size(number))
    for f, p in zip(pattern.layout.variants[number].fields, out, strict=True):
        body[f.item] = core.Ref(p.var)
    sets = [p.var for p in info.params if isinstance(p, SetVar)]
    sizes = [p for p in info.params if isinstance(p, Var)]
    return core.Definition(
        name,
        tuple(
            core.TypeParam(p.var, None)
            if k >= pattern.layout.hidden
            else core.TypeParam(p.var, "Floating", True)
            for k, p in enumerate(info.params)
            if isinstance(p, TypeVar)
        ),
        tuple(sets), tuple(sizes), out, pattern,
        shape_facts(kinds), by_keyword(list(out), sets, sizes), core.Pack(tuple(body)), doc,
        pattern.layout.tagged and not fields, span,
    )


def method(d: s.Struct, m: s.Def) -> s.Def:
    """A method as a definition: its first parameter is the struct."""
    if not m.params:
        raise data_errors.method_without_self(d.name, m.name, m.name_span)
    first, *rest = m.params
    if first.type is not None:
        return m
    own: s.Expr = s.Name(first.span, d.name)
    if d.params:
        own = s.Call(first.span, own, tuple(s.Name(first.span, p) for p in d.params))
    params = (s.Param(first.span, first.name, own, first.default), *rest)
    return s.Def(
        m.span, m.name, m.name_span, params, m.effects, m.result, m.facts, m.body, m.doc
    )


