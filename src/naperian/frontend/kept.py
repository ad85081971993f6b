"""`[e for i in s if p]`: the elements where a condition holds, as many as there are.

    keep  = [p for i in s]                          which
    place = [how many are kept before i, for i]     where each goes
    k     = sum(keep)
    which = [the i with keep[i] and place[i] == j, for j in Fin(k)]
    box(k, [e for j in Fin(k)] with i = which[j])

All in one pass over `s` and one over the kept: the sum that picks an `i` for every `j` is an
accumulation by key (`passes/algebra/scatter.py`). The element is computed only where it is kept.
Where all are, `if True`, which[j] is j.
"""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.core.joined import joined
from naperian.core.walk import everything, size_variables
from naperian.dtypes import DType
from naperian.frontend.binders import Bound, open_binder
from naperian.frontend.boxes import alone, close_to, closed
from naperian.frontend.operators import is_bool
from naperian.frontend.typed import Build, Typed, let_all
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.sizes import size
from naperian.source import Span
from naperian.surface import syntax as s
from naperian.types import (
    BOOL,
    INT,
    Exists,
    Fin,
    Index,
    Range,
    Scalar,
    Set,
    SetVar,
    Table,
    Tuple,
    TupleSet,
    Type,
    TypeVar,
    cardinality,
    element,
    numbers,
    set_variables,
)

_IN_ORDER = (Fin, SetVar, Range)  # sets whose elements are numbers, one after the other


def kept(
    w: Walk, binders: tuple[s.Binder, ...], item: s.Expr, condition: s.Expr,
    expected: Type | None, span: Span,
) -> Typed:
    """The box of the kept elements, over one axis whatever the number of binders."""
    wanted = w.solver.head(expected) if expected is not None else None
    whole = wanted.body if isinstance(wanted, Exists) else None
    hint = whole.cell if isinstance(whole, Table) else None
    outer = w.region
    with w.inside(w.scope.inner(block=True)):
        bounds = [open_binder(w, b) for b in binders]
        test = alone(w, lambda: w.infer(condition))
        is_bool(w, test)
        with w.inside(w.scope.inner()) as scope:
            if test.condition is not None:
                scope.assume(*test.condition.then)
            body = _wanted(w, alone(w, lambda: _item(w, item, hint), hint), hint)
    w.region = outer
    for b in reversed(bounds):
        body = closed(w, b.region, body, hint)
    k = Var("k")
    kind = Exists((k,), Table(Fin(size(k)), body.type))

    def build() -> core.Expr:
        return _filtered(w, bounds, span, test.build, body.build, w.solver.zonk(body.type))

    return Typed(kind, build, span)


def _wanted(w: Walk, body: Typed, hint: Type | None) -> Typed:
    """An index where a number is wanted becomes one here: its set may be of what binders name,
    `j in i..`, which the table of what is kept knows nothing of."""
    t = w.solver.head(hint) if hint is not None else None
    dtypes = w.solver.dtypes_of(t) if isinstance(t, Scalar | TypeVar) else None
    if t is None or not dtypes or DType.BOOL in dtypes:
        return body
    if not isinstance(w.solver.head(body.type), Index):
        return body
    return close_to(w, body, t)


def _item(w: Walk, item: s.Expr, hint: Type | None) -> Typed:
    return w.block(item, hint) if isinstance(item, s.Block) else w.infer(item, hint)


def _filtered(
    w: Walk, bounds: list[Bound], span: Span, test: Build, body: Build, cell: Type
) -> core.Expr:
    """The box of a filter. Where how far a binder goes depends on the first one, there is a filter
    for each element of that, and what they keep is put together."""
    rows = _depends(w, bounds)
    k = Var("k")
    kind = Exists((k,), Table(Fin(size(k)), cell))
    if not rows:
        return _Kept(w, bounds, span).box(test, body, kind)
    first, *rest = bounds
    own, i = w.solver.zonk_set(first.set), Var(first.var.name)
    inner = first.body(lambda: _filtered(w, rest, span, test, body, cell))()
    here = core.Let(first.var, core.Checked(core.Number(size(i)), own, proved=True), inner)
    places = Fin(cardinality(own))
    return let_all(first.outside, joined(core.For(i, places, here), places, kind))


def _depends(w: Walk, bounds: list[Bound]) -> bool:
    """Whether the range of a binder depends on one before."""
    bound: set[Var] = set()
    for b in bounds:
        mentioned = {v for _, value in b.outside for x in everything(value()) for v in _names(x)}
        if not bound.isdisjoint(mentioned | {*set_variables(w.solver.zonk_set(b.set))}):
            return True
        bound |= {b.var, *_bound(b.body(lambda: core.Pack(()))())}
    return False


def _bound(e: core.Expr) -> set[Var]:
    """What is named around an expression."""
    out: set[Var] = set()
    for x in everything(e):
        match x:
            case core.Let(v):
                out.add(v)
            case core.Unbox(sizes, v):
                out |= {v, *sizes}
            case _:
                pass
    return out


class _Kept:
    """The core of one filter, whose ranges do not depend on each other."""

    def __init__(self, w: Walk, bounds: list[Bound], span: Span) -> None:
        self.bounds = bounds
        self.span = span
        self.sets = tuple(w.solver.zonk_set(b.set) for b in bounds)
        self.set: Set = self.sets[0] if len(bounds) == 1 else TupleSet(self.sets)

    def box(self, test: Build, body: Build, kind: Type) -> core.Expr:
        assert isinstance(kind, Exists)
        keep, place, k, j = Var("keep"), Var("place"), Var("k"), Var("j")
        i, before = Var("i"), Var("before")
        is_kept = core.At(core.Ref(keep), core.Ref(i), self.set)
        one = core.Op("cast", (is_kept,), INT)
        after = core.Op("add", (core.Ref(before), one), INT)
        zero = core.Const(Lit(0, DType.I64))
        start = (core.Carried(before, INT, zero),)
        which = [Var("which") for _ in _parts(element(self.set), zero)]
        lets = [
            (keep, self.at(test)),
            (place, core.Scan(start, i, self.set, after, True, self.span)),
            (k, core.Reduce("add", i, self.set, zero, one, INT, self.span)),
        ]
        own = Fin(size(k))
        if test() == core.Const(Lit(True, DType.BOOL)) and isinstance(self.set, _IN_ORDER):
            here = core.Number(numbers(self.set)[0] + size(j))
            each = core.Const(Lit(1, DType.I64))
            all_ = core.Reduce("add", i, self.set, zero, each, INT, self.span)
            values = core.For(j, own, core.Let(i, here, self.bind(i, body)))
            return self.around(core.Let(k, all_, core.Box(kind, (size(k),), values)))
        key = core.Op(
            "select",
            (is_kept, core.At(core.Ref(place), core.Ref(i), self.set),
             core.Const(Lit(-1, DType.I64))),
            INT,
        )
        hit = core.Op("eq", (key, core.Ref(j)), INT)
        for v, part in zip(which, _parts(element(self.set), core.Ref(i)), strict=True):
            number = core.Op("cast", (part,), INT)
            picked = core.Op("select", (hit, number, zero), INT)
            lets.append(
                (v, core.For(j, own, core.Reduce("add", i, self.set, zero, picked, INT, self.span)))
            )
        found: list[core.Expr] = [core.At(core.Ref(v), core.Ref(j), own) for v in which]
        values = core.For(j, own, core.Let(i, _whole(element(self.set), found), self.bind(i, body)))
        box: core.Expr = core.Box(kind, (size(k),), values)
        for v, value in reversed(lets):
            box = core.Let(v, value, box)
        return self.around(box)

    def at(self, body: Build) -> core.Expr:
        """The table of `body` over all elements."""
        i = Var("i")
        return core.For(i, self.set, self.bind(i, body))

    def bind(self, i: Var, body: Build) -> core.Expr:
        """`body` where the binders are the parts of an element."""
        for k, b in reversed(list(enumerate(self.bounds))):
            whole: core.Expr = core.Ref(i)
            part = whole if len(self.bounds) == 1 else core.Part(whole, k)
            body = _let(b.var, part, b.body(body))
        return body()

    def around(self, expr: core.Expr) -> core.Expr:
        """With what the binders' ranges need."""
        for b in reversed(self.bounds):
            expr = let_all(b.outside, expr)
        return expr


def _names(e: core.Expr) -> tuple[Var, ...]:
    own = (e.var,) if isinstance(e, core.Ref) else ()
    return (*own, *size_variables(e))


def _let(v: Var, value: core.Expr, body: Build) -> Build:
    return lambda: core.Let(v, value, body())


def _parts(t: Type, e: core.Expr) -> list[core.Expr]:
    """The scalars an index is made of."""
    if isinstance(t, Tuple):
        return [x for k, item in enumerate(t.items) for x in _parts(item, core.Part(e, k))]
    return [e]


def _whole(t: Type, parts: list[core.Expr]) -> core.Expr:
    """The index made of these numbers; takes them off the front of the list."""
    if isinstance(t, Tuple):
        return core.Pack(tuple(_whole(x, parts) for x in t.items))
    number = parts.pop(0)
    if t == BOOL:
        return core.Op("ne", (number, core.Const(Lit(0, DType.I64))), INT)
    return number

