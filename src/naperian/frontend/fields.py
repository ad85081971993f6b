"""Fields and methods of structs: `p.x`, `p.norm()`, `replace(p, x=1.0)`. All of them lift."""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.frontend.calls import use_definition
from naperian.frontend.cells import show
from naperian.frontend.coded import decoded
from naperian.frontend.data import fresh, info_of
from naperian.frontend.lifting import frame_type, unzip
from naperian.frontend.messages import data_errors, errors
from naperian.frontend.typed import Typed
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.source import Span
from naperian.surface import syntax as s
from naperian.types import Data, Field, Set, Type, table


def has_member(w: Walk, name: str) -> bool:
    """Whether any struct there is has such a field or method."""
    known = (*w.globals.known_data.values(), *w.library.known_data.values())
    return any(
        name in i.methods
        or any(f.name == name for v in i.pattern.layout.variants for f in v.fields)
        for i in known
    )


def as_struct(w: Walk, value: Typed, name: str) -> tuple[list[Set], Data] | None:
    """The frame and the data type of a value one of whose members is wanted. A value of which
    nothing is known is of the only struct that has the member."""
    axes, cell = w.solver.axes(value.type)
    if w.solver.is_open(cell):
        w.solver.run()
        axes, cell = w.solver.axes(value.type)
    if w.solver.is_open(cell):
        owners = [
            i for i in w.globals.known_data.values()
            if not i.pattern.layout.tagged
            and (name in i.methods or any(f.name == name for f in _fields(i.pattern)))
        ]
        if len(owners) == 1:
            w.solver.unify(cell, fresh(w, owners[0]))
            axes, cell = w.solver.axes(value.type)
    return (axes, cell) if isinstance(cell, Data) else None


def _fields(t: Data) -> tuple[Field, ...]:
    return t.layout.variants[0].fields


def field(
    w: Walk, value: Typed, name: str, span: Span, name_span: Span, strict: bool = True
) -> Typed | None:
    """`value.name`; None if the value is no struct. A struct without such a field is a mistake if
    `strict`."""
    value = decoded(w, value)
    found = as_struct(w, value, name)
    if found is None:
        return None
    axes, kind = found
    if kind.layout.tagged:
        if not strict:
            return None
        raise data_errors.field_of_enum(show(w, kind), name, name_span)
    own = {f.name: f.item for f in _fields(kind)}
    if name not in own:
        if not strict:
            return None
        raise data_errors.no_such_field(value.span.text, show(w, kind), name, name_span, [*own])
    item = own[name]
    result = kind.items[item]

    def build() -> core.Expr:
        return each(w, value.build(), axes, item, result)

    return Typed(frame_type(w, axes, result), build, span)


def each(w: Walk, value: core.Expr, axes: list[Set], item: int, result: Type) -> core.Expr:
    """An item of every cell of a table of tuples, as a lifted function gives it: if the items are
    tuples, a tuple of tables."""
    if not axes:
        return core.Part(value, item)
    whole, frame = Var("t"), [w.solver.zonk_set(a) for a in axes]
    unzipped = unzip(core.Ref(whole), w.solver.zonk(result), frame)
    return core.Let(whole, _items(value, frame, item), unzipped)


def _items(value: core.Expr, frame: list[Set], item: int) -> core.Expr:
    """The table of an item of every cell."""
    whole, indices = Var("s"), [Var("i") for _ in frame]
    cell: core.Expr = core.Ref(whole)
    for i, own in zip(indices, frame, strict=True):
        cell = core.At(cell, core.Ref(i), own)
    cell = core.Part(cell, item)
    for i, own in zip(reversed(indices), reversed(frame), strict=True):
        cell = core.For(i, own, cell)
    return core.Let(whole, value, cell)


def method(w: Walk, value: Typed, name: str) -> core.Definition | None:
    """The method of the value's struct, if it has one of this name."""
    found = as_struct(w, value, name)
    return info_of(w, found[1]).methods.get(name) if found is not None else None


def replace(
    w: Walk, e: s.Call, args: list[Typed] | None, expected: Type | None
) -> Typed:
    """`replace(p, x=1.0)`: the struct with some fields changed. It is a call of the constructor, so
    it lifts as one."""
    given = [a for a in e.args if not isinstance(a, s.Keyword | s.Generator)]
    changes = {a.name: a for a in e.args if isinstance(a, s.Keyword)}
    if args is None and len(given) == 1 and len(given) + len(changes) == len(e.args):
        args = [w.infer(given[0])]
    if args is None or len(args) != 1:
        raise errors.arity("replace", 1, len(given), e.span, "(struct, field=value)")
    whole = args[0]
    name = next(iter(changes), "")
    found = as_struct(w, whole, name)
    if found is None or found[1].layout.tagged:
        raise data_errors.replaced(whole.span.text, show(w, whole.type), whole.span)
    axes, kind = found
    own = [f.name for f in _fields(kind)]
    for key, a in changes.items():
        if key not in own:
            raise data_errors.no_such_field(whole.span.text, show(w, kind), key, a.span, own)
    v = Var("s")
    parts: list[s.Expr | Typed] = []
    for f in _fields(kind):
        if f.name in changes:
            parts.append(changes[f.name].value)
        else:
            parts.append(_kept(w, v, axes, f.item, kind, whole.span))
    info = info_of(w, kind)
    made = use_definition(w, info.makers[info.name], info.name, e.span, expected, parts, {})
    return Typed(made.type, lambda: core.Let(v, whole.build(), made.build()), e.span)


def _kept(w: Walk, v: Var, axes: list[Set], item: int, kind: Data, span: Span) -> Typed:
    def build() -> core.Expr:
        return _items(core.Ref(v), [w.solver.zonk_set(a) for a in axes], item)

    return Typed(table(axes, kind.items[item]), build, span)
