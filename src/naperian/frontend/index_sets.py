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

from collections.abc import Iterable, Mapping

from naperian.frontend import coded
from naperian.frontend.annotations import as_set, as_size
from naperian.frontend.messages import interface_errors, name_errors, set_errors
from naperian.frontend.messages.report import Reported
from naperian.frontend.scope import SetName, SizeName
from naperian.frontend.walk import Coded, DataInfo, Globals, Walk
from naperian.names import Var
from naperian.sizes import Size, size
from naperian.source import Diagnostic, Span
from naperian.substitution import Substitution
from naperian.surface import syntax as s
from naperian.surface.walk import nodes
from naperian.types import (
    Data,
    Field,
    Fin,
    Index,
    Layout,
    Set,
    SetVar,
    Type,
    Variant,
)

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
                raise name_errors.duplicate(f"Ix({name})", d.span, out[name].span)
            if d.members is not None:
                _check_members(d, structures[name])
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
    if isinstance(t, s.Call):
        names = [a.name for a in t.args if isinstance(a, s.Name) and a.name[0].islower()]
        if len(names) != len(t.args) or len({*names}) != len(declared.params):
            raise set_errors.instance_of_some(declared.name, declared.params, t.span)
    return declared.name


def _head(d: s.Instance, declared: Iterable[str]) -> tuple[str, ...]:
    """What the instance calls the parameters."""
    t = d.types[0]
    if not isinstance(t, s.Call):
        return tuple(declared)
    return tuple(a.name for a in t.args if isinstance(a, s.Name))


def _check_members(d: s.Instance, declared: s.Struct | s.Enum) -> None:
    name = declared.name
    title = f"Ix({name})"
    given: dict[str, s.Def] = {}
    if isinstance(declared, s.Struct):
        given |= {m.name: m for m in declared.methods if m.name in _METHODS}
    for m in d.members or ():
        if not isinstance(m, s.Def):
            raise name_errors.misplaced_member(m)
        if m.name not in _METHODS:
            raise interface_errors.no_member("Ix", m.name, m.name_span, [*_METHODS])
        if m.name in given:
            raise name_errors.duplicate(m.name, m.name_span, given[m.name].name_span)
        given[m.name] = m
        wanted = 0 if m.name == "size" else 1
        if len(m.params) != wanted or any(p.type or p.default for p in m.params) or m.result:
            raise set_errors.bare_method(m.name, _METHODS[m.name], m.name_span)
    lacking = [n for n in _METHODS if n not in _members(d)]
    if lacking:
        raise interface_errors.missing_methods(
            title, lacking, d.span, [_METHODS[n] for n in lacking]
        )
    _size(_members(d)["size"])  # raises if it is more than an expression


def numbering(
    indexed: Mapping[str, s.Instance], structures: Mapping[str, s.Struct | s.Enum]
) -> dict[str, s.Def | s.Bind]:
    """The methods that number values, as definitions with their types."""
    out: dict[str, s.Def | s.Bind] = {}
    for name, d in indexed.items():
        own = _members(d)
        if not own:
            continue
        whole: s.Expr = s.Name(d.types[0].span, name)
        params = _head(d, structures[name].params)
        if params:
            names = tuple(s.Name(d.types[0].span, x) for x in params)
            whole = s.Call(d.types[0].span, whole, names)
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
    if d.members is not None:
        count = _count(w, d, info)
    else:
        count = coded.numbering(w).starts(info.pattern)[-1]
    place = Layout(Var(name), (Variant(name, (Field("ordinal", 0),)),), False, 0, True)
    return Coded(
        info.pattern, Data((Index(Fin(count)),), place, info.pattern.args),
        f"{prefix}{name}.ordinal", f"{prefix}{name}.at", itself(info), d.members is None,
    )


def itself(info: DataInfo) -> Substitution:
    """A data type's parameters as themselves."""
    sets: dict[Var, Set] = {p.var: p for p in info.params if isinstance(p, SetVar)}
    return Substitution({}, sets, {p: size(p) for p in info.params if isinstance(p, Var)})


def numbered(name: str, globals: Globals) -> dict[str, Var]:
    """What the names in a head stand for in `Cell.ordinal` and `Cell.at`."""
    owner, _, short = name.rpartition(".")
    d, info = globals.indexed.get(owner), globals.data.get(owner)
    if d is None or info is None or short not in _METHODS:
        return {}
    return own_names(d, info)


def own_names(d: s.Instance, info: DataInfo) -> dict[str, Var]:
    """What the names in an instance's head stand for."""
    params = [p if isinstance(p, Var) else p.var for p in info.params]
    return dict(zip(_head(d, [p.name for p in params]), params, strict=True))


def said_of_size(d: s.Instance, declared: s.Struct | s.Enum) -> list[str]:
    """The parameters that an instance's size speaks of."""
    own = _members(d)
    if not own:
        return []
    said = {x.name for x in nodes(_size(own["size"])) if isinstance(x, s.Name)}
    names = zip(_head(d, declared.params), declared.params, strict=True)
    return [p for name, p in names if name in said]


def _count(w: Walk, d: s.Instance, info: DataInfo) -> Size:
    """What an instance says of the size."""
    said = _size(_members(d)["size"])
    with w.inside(w.scope.inner(block=True, function=True)) as scope:
        for name, p in zip(own_names(d, info), info.params, strict=True):
            if isinstance(p, SetVar):
                scope.names[name] = SetName(p, d.span)
            elif isinstance(p, Var):
                scope.names[name] = SizeName(p, d.span)
        try:
            n = as_size(w, said)
        except Reported:  # it says a name, and no definition is known yet
            raise set_errors.no_constant_size(said.span) from None
        if not scope.facts().proves(n):
            raise set_errors.no_constant_size(said.span)
        return n


def check_fields(
    w: Walk, name: str, fields: tuple[s.Param, ...], kinds: list[Type], said: Span
) -> None:
    """Every field of an index set is an element of one."""
    for p, kind in zip(fields, kinds, strict=True):
        assert p.type is not None
        if as_set(w, p.type) is None or coded.numbering(w).count(kind) is None:
            raise set_errors.no_set_in_field(name, p.name, p.type.span, said)
