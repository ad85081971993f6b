"""Instances of `Ix`: types that are index sets.

    struct Cell(h, w):              Cell(h, w) is the set (h, w) whose elements are written
        row: h                      Cell(i, j): a table over it is stored as one over (h, w)
        col: w

    instance Ix(Cell)

Without a body an instance is derived from the fields, each of which must be an element of an index
set; of an enum, variant after variant (`derived_sets`). With one it says how values are numbered:

    instance Ix(Even):                  def Even.ordinal(e: Even) -> Int = e.half // 2
        def size() = 10           →     def Even.at(k: Fin(10)) -> Even = Even(2 * k)
        def ordinal(e) = e.half // 2
        def at(k) = Even(2 * k)         a table over Even has 10 elements (`coded`)
"""

from __future__ import annotations

from collections.abc import Mapping

from naperian.frontend import derived_sets, errors, interface_errors, set_errors
from naperian.frontend.annotations import as_set, as_size
from naperian.frontend.report import Reported
from naperian.frontend.walk import Coded, DataInfo, Walk
from naperian.names import Var
from naperian.sizes import Size
from naperian.source import Diagnostic, Span
from naperian.surface import syntax as s
from naperian.types import Data, Field, Fin, Index, Layout, Type, Variant, elements

_METHODS = {"size": "def size() = …", "ordinal": "def ordinal(x) = …", "at": "def at(k) = …"}


def index_sets(
    found: list[s.Instance], structures: Mapping[str, s.Struct | s.Enum], wrong: list[Diagnostic]
) -> dict[str, s.Instance]:
    """The structs and enums that are index sets, and what says so."""
    out: dict[str, s.Instance] = {}
    for d in found:
        try:
            name = _subject(d, structures)
            if name in out:
                raise errors.duplicate(f"Ix({name})", d.span, out[name].span)
            if d.members is not None:
                _check_members(d, name)
            out[name] = d
        except Reported as r:
            wrong.append(r.diagnostic)
    return out


def _subject(d: s.Instance, structures: Mapping[str, s.Struct | s.Enum]) -> str:
    """The name of the type in the head."""
    (t, *more) = d.types
    head = t.function if isinstance(t, s.Call) else t
    text = ", ".join(x.span.text for x in d.types)
    declared = structures.get(head.name) if isinstance(head, s.Name) else None
    if more or declared is None:
        why = "it is no struct and no enum with fields of this module"
        raise set_errors.no_instance_of_ix(text, d.span, why)
    if declared.params and (isinstance(declared, s.Enum) or d.members is not None):
        raise set_errors.no_instance_of_ix(text, d.span, "it has parameters")
    return declared.name


def _check_members(d: s.Instance, name: str) -> None:
    title = f"Ix({name})"
    given: dict[str, s.Def] = {}
    for m in d.members or ():
        if not isinstance(m, s.Def):
            raise errors.misplaced_top(m.span)
        if m.name not in _METHODS:
            raise interface_errors.no_member("Ix", m.name, m.name_span, [*_METHODS])
        if m.name in given:
            raise errors.duplicate(m.name, m.name_span, given[m.name].name_span)
        given[m.name] = m
        wanted = 0 if m.name == "size" else 1
        if len(m.params) != wanted or any(p.type or p.default for p in m.params) or m.result:
            raise set_errors.bare_method(m.name, _METHODS[m.name], m.name_span)
    lacking = [n for n in _METHODS if n not in given]
    if lacking:
        raise interface_errors.missing_methods(
            title, lacking, d.span, [_METHODS[n] for n in lacking]
        )
    _size(given["size"])  # raises if it is more than an expression


def numbering(indexed: Mapping[str, s.Instance]) -> dict[str, s.Def | s.Bind]:
    """The methods that number values, as definitions with their types."""
    out: dict[str, s.Def | s.Bind] = {}
    for name, d in indexed.items():
        own = _members(d)
        if not own:
            continue
        whole = s.Name(d.types[0].span, name)
        number = s.Name(d.types[0].span, "Int")
        places = s.Call(own["size"].span, s.Name(own["size"].span, "Fin"), (_size(own["size"]),))
        out[f"{name}.ordinal"] = _typed(own["ordinal"], whole, number)
        out[f"{name}.at"] = _typed(own["at"], places, whole)
    return out


def _members(d: s.Instance) -> dict[str, s.Def]:
    return {m.name: m for m in d.members or () if isinstance(m, s.Def)}


def _size(d: s.Def) -> s.Expr:
    """What `size` says, which is one expression."""
    assert d.body is not None
    match d.body.statements:
        case (s.ExprStmt(_, value),):
            return value
        case _:
            raise set_errors.no_constant_size(d.span)


def _typed(d: s.Def, param: s.Expr, result: s.Expr) -> s.Def:
    (p,) = d.params
    params = (s.Param(p.span, p.name, param, None),)
    return s.Def(
        d.span, d.name, d.name_span, params, d.effects, result, d.facts, d.body, d.doc
    )


def code(w: Walk, info: DataInfo, d: s.Instance, prefix: str) -> Coded:
    """How a type with an instance that says so is numbered."""
    name = info.name
    if info.pattern.layout.hidden:
        raise set_errors.no_instance_of_ix(name, d.span, "it holds a `Float`")
    count = _count(w, d) if d.members is not None else derived_sets.count(info.pattern)
    place = Layout(Var(name), (Variant(name, (Field("ordinal", 0),)),), False, 0, True)
    return Coded(
        info.pattern, Data((Index(Fin(count)),), place, ()),
        f"{prefix}{name}.ordinal", f"{prefix}{name}.at",
    )


def _count(w: Walk, d: s.Instance) -> Size:
    """What an instance says of the size."""
    said = _size(_members(d)["size"])
    try:
        n = as_size(w, said)
    except Reported:  # it says a name, and no definition is known yet
        raise set_errors.no_constant_size(said.span) from None
    if n.constant is None or n.constant < 0:
        raise set_errors.no_constant_size(said.span)
    return n


def check_fields(
    w: Walk, name: str, fields: tuple[s.Param, ...], kinds: list[Type], said: Span
) -> None:
    """Every field of an index set is an element of one."""
    for p, kind in zip(fields, kinds, strict=True):
        assert p.type is not None
        if as_set(w, p.type) is None or elements(kind) is None:
            raise set_errors.no_set_in_field(name, p.name, p.type.span, said)
