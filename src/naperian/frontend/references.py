"""References: the names that handlers give, elements of them, and parameters `r: Ref(a)`.

What is done to a parameter is the row of its definition's type: `State` if it is read or assigned,
`Accum` if it is only added to. It is inferred, and checked against a row that is written.
"""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.frontend.cells import show
from naperian.frontend.indexing import index_of
from naperian.frontend.messages import data_errors, effect_errors, name_errors
from naperian.frontend.scope import Variable
from naperian.frontend.typed import Typed
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.source import Span
from naperian.surface import syntax as s
from naperian.types import Data, Reference, Type

ROW = ("State", "Accum", "Except", "IO")
"""The effects, in the order of a row."""


def is_reference(w: Walk, e: s.Expr) -> bool:
    """Whether an expression names a handler's reference, or an element of one."""
    while isinstance(e, s.IndexExpr):
        e = e.base
    if not isinstance(e, s.Name):
        return False
    entry = w.scope.find(e.name)
    return isinstance(entry, Variable) and isinstance(w.solver.head(entry.type), Reference)


def reference(w: Walk, e: s.Expr, effect: str) -> Typed:
    """A reference, to be used for this effect. Its type is that of what it holds."""
    match e:
        case s.Name(span, name):
            entry = w.scope.find(name)
            kind = w.solver.head(entry.type) if isinstance(entry, Variable) else None
            if not isinstance(entry, Variable) or not isinstance(kind, Reference):
                w.infer(e)  # a name that means nothing is told first
                raise effect_errors.no_reference(e.span.text, e.span)
            if effect == "State" and entry.what == "accum":
                raise effect_errors.accum_is_state(name, span, entry.span)
            var = entry.var
            w.use_reference(var, effect)
            return Typed(kind.cell, lambda: core.Ref(var), span)
        case s.IndexExpr(span, base, indices):
            if any(isinstance(i, s.RangeExpr) for i in indices):
                text = base.span.text
                raise name_errors.not_yet(
                    "a slice of a reference", span,
                    f"change its elements in a loop: `for k in Fin(3): {text}[k + 1] := x[k]`",
                )
            return index_of(w, reference(w, base, effect), e)
        case s.Checked(_, s.IndexExpr(_, base, _) as inner, False):
            return index_of(w, reference(w, base, effect), inner, checked=True)
        case s.Field(span, base, name, name_span) if is_part(w, base):
            return _field(w, reference(w, base, effect), name, span, name_span)
        case _:
            w.infer(e)
            raise effect_errors.no_reference(e.span.text, e.span)


def is_part(w: Walk, e: s.Expr) -> bool:
    """Whether an expression names a reference, or an element or a field inside of one."""
    while not is_reference(w, e):
        match e:
            case s.IndexExpr(_, base, _) | s.Field(_, base) | s.Checked(_, base, False):
                e = base
            case _:
                return False
    return True


def _field(w: Walk, held: Typed, name: str, span: Span, name_span: Span) -> Typed:
    """A field of a struct that a reference holds."""
    kind = w.solver.head(held.type)
    if w.solver.is_open(kind):
        raise effect_errors.undetermined_accum(held.span.text, held.span)
    if not isinstance(kind, Data) or kind.layout.tagged:
        raise effect_errors.no_reference(span.text, span)
    own = {f.name: f.item for f in kind.layout.variants[0].fields}
    if name not in own:
        raise data_errors.no_such_field(
            held.span.text, show(w, kind), name, name_span, [*own]
        )
    item = own[name]
    return Typed(kind.items[item], lambda: core.Part(held.build(), item), span)


def read(w: Walk, name: str, span: Span) -> Typed:
    """A reference used as a value: what it holds now."""
    entry = w.scope.find(name)
    assert isinstance(entry, Variable)
    if entry.what == "accum":
        raise effect_errors.reads_accum(name, span, entry.span)
    held = reference(w, s.Name(span, name), "State")
    return Typed(held.type, lambda: core.Get(held.build()), span)

def is_element(w: Walk, e: s.Expr) -> bool:
    """Whether an expression is an element of a reference; a slice is one of its contents."""
    inner = e.operand if isinstance(e, s.Checked) else e
    while isinstance(inner, s.IndexExpr):
        if any(isinstance(i, s.RangeExpr) for i in inner.indices):
            return False
        inner = inner.base
    return inner is not e and is_reference(w, inner)


def read_element(w: Walk, e: s.Expr) -> Typed:
    """`s[i]` used as a value: what that element holds now."""
    inner = e.operand if isinstance(e, s.Checked) else e
    while isinstance(inner, s.IndexExpr):
        inner = inner.base
    assert isinstance(inner, s.Name)
    read(w, inner.name, inner.span)  # an accumulator is not read
    held = reference(w, e, "State")
    return Typed(held.type, lambda: core.Get(held.build()), e.span)


def get(w: Walk, e: s.Call) -> Typed:
    """`get(s)`, `get(s[i])`: what a reference holds now, as naming it gives."""
    (given,) = e.args
    if isinstance(given, s.Keyword | s.Generator) or not is_part(w, given):
        raise effect_errors.gets_no_reference(given.span.text, given.span)
    held = reference(w, given, "State")
    return Typed(held.type, lambda: core.Get(held.build()), e.span)


def argument(w: Walk, e: s.Expr, effect: str) -> Typed:
    """A reference given to a parameter."""
    place = reference(w, e, effect or "Accum")
    return Typed(Reference(place.type), place.build, place.span)


def used_for(w: Walk, var: Var) -> str:
    """What a reference is used for."""
    uses = w.uses.get(var, set())
    return next((x for x in ROW if x in uses), "")


def row(w: Walk, d: s.Def, params: list[tuple[Var, Type]]) -> tuple[str, ...]:
    """The effects of a definition; no more than its signature says."""
    found = {used_for(w, v) for v, _ in params} | w.performed
    for name in d.effects or ():
        if name not in ROW:
            raise effect_errors.unknown_effect(name, d.name_span)
    if d.effects is not None:
        for name in ROW:
            if name in found and name not in d.effects:
                raise effect_errors.not_in_row(d.name, name, d.name_span)
        found |= set(d.effects)
    return tuple(x for x in ROW if x in found)
