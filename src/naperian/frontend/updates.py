"""What is done with references: `s := e`, `r += e` and its like."""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.frontend.added_up import combined, is_narrow
from naperian.frontend.cells import convert, converts, show
from naperian.frontend.messages import effect_errors
from naperian.frontend.overloading import own_monoid
from naperian.frontend.references import is_part, reference
from naperian.frontend.scope import Variable
from naperian.frontend.typed import Typed
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.node import replace
from naperian.surface import syntax as s
from naperian.types import INT, UNIT, Data, Index, Reference, Scalar, Table, Tuple, Type

_COMBINES = {"*": ("mul",), "&": ("and",), "|": ("or",)}


def set_(w: Walk, st: s.Set) -> Typed:
    """`s := e`, `s[i] := e`, `(a, b) := e`."""
    several = isinstance(st.target, s.TupleExpr) and st.target.items
    targets = several or (st.target,)
    places = [reference(w, t, "State") for t in targets]
    wanted: Type = places[0].type
    if isinstance(st.target, s.TupleExpr):
        wanted = Tuple(tuple(p.type for p in places))
    value = w.block(st.value, wanted) if isinstance(st.value, s.Block) else w.infer(
        st.value, wanted
    )
    converts(w, f"`{st.target.span.text}`", wanted, value.type, value, value.span)

    def build() -> core.Expr:
        new = Var("new")
        made: core.Expr = core.Pack(())
        if isinstance(st.target, s.TupleExpr):
            for k, p in reversed(list(enumerate(places))):
                step = core.Assign(p.build(), core.Part(core.Ref(new), k))
                made = core.Let(Var("_"), step, made)
        else:
            made = core.Assign(places[0].build(), core.Ref(new))
        return core.Let(new, convert(w, value.build(), value.type, wanted), made)

    return Typed(UNIT, build, st.span)


def update(w: Walk, st: s.Update) -> Typed:
    """`r += e` combines, in an accumulator as in a state; `s *= e` is `s := s * e`. A sum is added
    `-e` by `r -= e`, and `r *= e` combines where that is by `*`. A field is combined as its struct
    is, item by item, unless that has an operator of its own."""
    held = _held(w, st.target)
    accumulates = held is not None and held.what == "accum"
    whole = _adds_itself(w, st.target)
    if not accumulates and (st.op != "+" or whole is not None):
        return set_(w, s.Set(st.span, st.target, updated(st)))
    monoid = w.monoids.get(held.var) if held is not None else None
    takes_away = st.op == "-" and monoid == "add"
    if accumulates and st.op != "+" and not takes_away and monoid not in _COMBINES.get(st.op, ()):
        assert held is not None
        raise effect_errors.accum_is_state(held.var.name, st.op_span, held.span)
    if accumulates and whole is not None:
        assert held is not None
        text = st.target.span.text
        raise effect_errors.adds_whole(text, show(w, whole), st.target.span, held.span)
    if accumulates and takes_away:
        st = replace(st, value=s.Unary(st.value.span, "-", st.value))
    return _combine(w, st)


def updated(st: s.Update) -> s.Expr:
    """What is there after an update, as an expression."""
    return s.Binary(st.span, st.op, st.op_span, st.target, st.value)


def is_place(w: Walk, target: s.Expr) -> bool:
    """Whether an update of this changes a reference, or tries to, and gives no name a new value."""
    return is_part(w, target) or isinstance(target, s.IndexExpr | s.Checked)


def _adds_itself(w: Walk, target: s.Expr) -> Type | None:
    """A struct with an operator of its own that a field is in, or is: what is added to the field
    alone is no sum of such structs."""
    kinds: list[Type] = []

    def cell(e: s.Expr) -> Type | None:
        """What is under the axes of a place."""
        match e:
            case s.IndexExpr(_, base, _) | s.Checked(_, base):
                return cell(base)
            case s.Field(_, base, name):
                whole = cell(base)
                if not isinstance(whole, Data) or whole.layout.tagged:
                    return None
                fields = {f.name: f.item for f in whole.layout.variants[0].fields}
                kinds.append(whole)
                return inside(whole.items[fields[name]]) if name in fields else None
            case _:
                held = _held(w, e)
                kind = w.solver.head(held.type) if held is not None else None
                return inside(kind.cell) if isinstance(kind, Reference) else None

    def inside(t: Type) -> Type:
        return w.solver.head(w.solver.axes(t)[1])

    last = cell(target)
    if last is not None and kinds:
        kinds.append(last)
    held = _held(w, target)
    accumulates = held is not None and held.what == "accum"
    monoid = w.monoids.get(held.var) if held is not None and accumulates else "add"
    for t in kinds:
        if monoid is None or own_monoid(w, monoid, t, accumulates) is not None:
            return t
    return None


def _combine(w: Walk, st: s.Update) -> Typed:
    """`r += e`, `r[i] += e`."""
    place = reference(w, st.target, "Accum")
    value = w.block(st.value, place.type) if isinstance(st.value, s.Block) else w.infer(
        st.value, place.type
    )
    held = _held(w, st.target)
    counts = held is not None and held.var in w.counting  # holds numbers, and no indices
    own = held is not None and held.what == "accum" and held.var not in w.monoids
    adds = held is None or (not own and w.monoids.get(held.var) in (None, "add", "mul"))
    if counts and w.solver.is_open(w.solver.axes(place.type)[1]):
        w.solver.unify(place.type, _counted(w, value.type, adds))
    if adds:
        combined(w, place.type, value.type)
    converts(w, f"`{st.target.span.text}`", place.type, value.type, value, value.span)
    return Typed(
        UNIT,
        lambda: core.Add(place.build(), convert(w, value.build(), value.type, place.type)),
        st.span,
    )


def _held(w: Walk, target: s.Expr) -> Variable | None:
    """The variable that a place is part of."""
    while isinstance(target, s.IndexExpr | s.Checked | s.Field):
        target = target.operand if isinstance(target, s.Checked) else target.base
    entry = w.scope.find(target.name) if isinstance(target, s.Name) else None
    return entry if isinstance(entry, Variable) else None


def _counted(w: Walk, t: Type, adds: bool) -> Type:
    """What is combined of a type: indices are numbers, and bytes that are added up are Ints."""
    match w.solver.head(t):
        case Index():
            return INT
        case Scalar(d) if adds and is_narrow(d):
            return INT
        case Table(own, cell, None):
            return Table(own, _counted(w, cell, adds))
        case Tuple(items) as whole if not isinstance(whole, Data):
            return Tuple(tuple(_counted(w, x, adds) for x in items))
        case other:
            return other
