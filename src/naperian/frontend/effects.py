"""Effects: handlers, references, and what is done with them.

    with accum() as h:                 a reference that is only added to
        for i: h[xs[i]] += 1
    with state(0) as s: …              one that is read by naming it, and assigned with `:=`

A handler's value is the last contents (a tuple for several handlers), or `(value, contents)` when
the body has a value other than (). What is done to references that are parameters is the row of a
definition's type; it is inferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.frontend.ambient import throws_to
from naperian.frontend.boxes import keeps_size
from naperian.frontend.calls import use_definition
from naperian.frontend.cells import convert, converts, show
from naperian.frontend.messages import effect_errors, errors
from naperian.frontend.operators import choose
from naperian.frontend.overloading import own_monoid
from naperian.frontend.reductions import named_monoid, unit_of
from naperian.frontend.scalars import INTERFACES, NUMBERS, Dtypes
from naperian.frontend.scope import Variable
from naperian.frontend.solve import Mismatch
from naperian.frontend.typed import Build, Typed, Wrap
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.node import node
from naperian.sizes import size
from naperian.source import Span
from naperian.substitution import cell_at
from naperian.surface import syntax as s
from naperian.types import (
    BOOL,
    UNIT,
    Data,
    Function,
    Index,
    Reference,
    Scalar,
    Set,
    Table,
    Tuple,
    Type,
    TypeVar,
    table,
)

_DTYPES: dict[str, Dtypes] = {
    "add": NUMBERS,
    "mul": NUMBERS,
    "min": INTERFACES["Ord"],
    "max": INTERFACES["Ord"],
    "and": frozenset({DType.BOOL}),
    "or": frozenset({DType.BOOL}),
}


@node
class Opened:
    """A handler of a `with`: the cell to be, and where its name stands."""

    var: Var
    type: Type
    start: Build
    monoid: str
    operator: Callable[[], core.Expr | None] | None
    state: bool
    span: Span


# ---------------------------------------------------------------- handlers


def with_block(w: Walk, st: s.With, expected: Type | None) -> Typed:
    """`with accum() as r, state(x0) as s: …` as a value."""
    named = tuple(h for h in st.handlers if h.effect is not None)
    flag, outer, throwing = None, w.thrower, w.throwing
    with w.inside(w.scope.inner(block=True)):
        hints = _hints(w, st, expected)
        opened = [_open(w, h, t) for h, t in zip(named, hints, strict=True)]
        for h, o in zip(named, opened, strict=True):
            assert h.name is not None
            what = "state" if o.state else "accum"
            w.scope.names[h.name] = Variable(o.var, Reference(o.type), h.span, None, what)
        if len(named) < len(st.handlers):
            w.thrower = flag = Var("thrown")
        throws = w.throws
        body = w.block(st.body, _kept(w, expected) if flag is not None and not named else None)
        if flag is not None:
            # a function made outside may have thrown, to the handler outside
            w.thrower, w.throws, w.throwing = outer, throws + throwing, throwing
    _no_escape(w, body)
    if flag is not None:
        return _except(w, st, flag, opened, body)
    contents = tuple(o.type for o in opened)
    last = contents[0] if len(contents) == 1 else Tuple(contents)
    bare = w.solver.head(body.type) == UNIT

    def build() -> core.Expr:
        whole = Var("done")
        made = core.Handle(tuple(_cell(w, o) for o in opened), body.build(), st.span)
        parts = [core.Part(core.Ref(whole), k + 1) for k in range(len(opened))]
        value: core.Expr = parts[0] if len(parts) == 1 else core.Pack(tuple(parts))
        if not bare:
            value = core.Pack((core.Part(core.Ref(whole), 0), value))
        return core.Let(whole, made, value)

    return Typed(last if bare else Tuple((body.type, last)), build, st.span)


def _kept(w: Walk, expected: Type | None) -> Type | None:
    """What is expected of the body where `Maybe` of it is."""
    kind = w.solver.head(expected) if expected is not None else None
    if not isinstance(kind, Data) or kind.layout.var.name != "Maybe":
        return None
    some = kind.layout.variants[kind.layout.variant("Some") or 0]
    return kind.items[some.fields[0].item]


def _except(w: Walk, st: s.With, flag: Var, opened: list[Opened], body: Typed) -> Typed:
    """`with except: …`: `Some` of the body's value unless something was thrown, else `None`; with
    other handlers in the same `with`, (that, contents)."""
    whole = Var("done")
    makers = w.library.data["Maybe"].makers
    value = Typed(body.type, lambda: core.Part(core.Ref(whole), 0), st.span)
    some = use_definition(w, makers["Some"], "Some", st.span, None, [value], {})
    none = use_definition(w, makers["None"], "None", st.span, some.type)
    ok = Typed(BOOL, lambda: core.Part(core.Ref(whole), 1), st.span)
    maybe = choose(w, ok, some, none, st.span)
    contents = tuple(o.type for o in opened)
    kind = maybe.type
    if contents:
        kind = Tuple((kind, contents[0] if len(contents) == 1 else Tuple(contents)))

    def build() -> core.Expr:
        true = core.Const(Lit(True, DType.BOOL))
        cells = (core.Cell(flag, BOOL, true, "and", None, True), *(_cell(w, o) for o in opened))
        made = core.Handle(cells, body.build(), st.span)
        out = maybe.build()
        parts = tuple(core.Part(core.Ref(whole), k + 2) for k in range(len(opened)))
        if parts:
            out = core.Pack((out, parts[0] if len(parts) == 1 else core.Pack(parts)))
        return core.Let(whole, made, out)

    return Typed(kind, build, st.span)


def throw(w: Walk, e: s.Call, expected: Type | None) -> Typed:
    """`throw()`: gives up what the `except` around it is computing. Of any type."""
    flag = throws_to(w, e.span)
    kind = expected if expected is not None else w.solver.type("a")

    def build() -> core.Expr:
        rest = core.Blank(w.solver.zonk(kind))
        return core.Let(Var("_"), core.Throw(core.Ref(flag), e.span), rest)

    def goal() -> None:  # a place that takes any type is fine, one that wants some table is not
        if not w.solver.is_open(kind) and not w.solver.determined(kind):
            raise errors.undetermined("`throw()`", e.span)

    w.solver.goals.append(goal)
    return Typed(kind, build, e.span)


def _hints(w: Walk, st: s.With, expected: Type | None) -> list[Type | None]:
    """What the place says of the contents."""
    n = sum(h.effect is not None for h in st.handlers)
    kind = w.solver.head(expected) if expected is not None else None
    several = _items(kind)
    if kind is not None and (n < len(st.handlers) or not only_effects(st.body)):
        # of a pair only its second, if the last line has a value; what is no pair is the contents
        alone = n == 1 == len(st.handlers) and not several and not w.solver.is_open(kind)
        if not alone:
            kind = w.solver.head(several[1]) if len(several) == 2 else None
    if n == 1:
        return [kind]
    items = _items(kind)
    return list(items) if len(items) == n else [None] * n


def _items(t: Type | None) -> tuple[Type, ...]:
    """The items of a tuple that is no struct."""
    return t.items if isinstance(t, Tuple) and not isinstance(t, Data) else ()


def only_effects(b: s.Block) -> bool:
    """Whether the last line is certainly an effect, of type ()."""
    match b.statements[-1]:
        case s.Set() | s.Update():
            return True
        case s.For(_, _, _, body):
            return only_effects(body)
        case s.Loop(_, ()) | s.ExprStmt(_, s.TupleExpr(_, ())):
            return True
        case s.If(_, arms, otherwise):
            return otherwise is None or all(only_effects(x) for _, x in arms)
        case _:
            return False


def value_pattern(st: s.With) -> str | None:
    """How the names of its handlers take the value of a `with` apart, for messages."""
    names = [h.name for h in st.handlers if h.name is not None]
    if not names or len(names) < len(st.handlers):
        return None
    last = names[0] if len(names) == 1 else f"({', '.join(names)})"
    return last if only_effects(st.body) else f"(_, {last})"


def _open(w: Walk, h: s.Handler, hint: Type | None) -> Opened:
    match h.effect:
        case s.Call(span, s.Name(_, ("accum" | "state") as how), args):
            if h.name is None:
                raise effect_errors.unnamed_handler(how, span)
            given = [a for a in args if not isinstance(a, s.Keyword | s.Generator)]
            if len(given) != len(args):
                raise effect_errors.handler_arguments(how, span)
            return _state(w, h, given, hint) if how == "state" else _accum(w, h, given, hint)
        case effect:
            assert effect is not None
            raise effect_errors.unknown_handler(effect.span)


def _state(w: Walk, h: s.Handler, given: list[s.Expr], hint: Type | None) -> Opened:
    if len(given) != 1:
        raise effect_errors.handler_arguments("state", h.span)
    start = w.infer(given[0], hint)
    t = start.type
    w.solver.hold(t)
    w.solver.carry(t)
    if hint is not None and w.solver.is_unknown(t) and isinstance(w.solver.head(hint), Scalar):
        converts(w, "the state", hint, t, start, start.span)
        t = hint

    def step() -> core.Expr | None:  # `s += e` is `s := s + e`, whoever does it
        own = _own(w, t, "add", False)
        return own[0] if own is not None else None

    return Opened(
        Var(h.name or ""), t, lambda: convert(w, start.build(), start.type, t), "add", step, True,
        h.span,
    )


def _accum(w: Walk, h: s.Handler, given: list[s.Expr], hint: Type | None) -> Opened:
    solver = w.solver
    if len(given) > 2:
        raise effect_errors.handler_arguments("accum", h.span)
    t: Type = solver.type("a")
    if hint is not None:
        solver.unify(t, hint)
    monoid = named_monoid(given[0]) if given else "add"
    unit: Typed | None = None
    operator: Typed | None = None
    if len(given) == 2:
        unit = w.infer(given[1])
    if monoid is None:
        if _never_monoid(given[0]):
            raise effect_errors.no_monoid(given[0].span.text, given[0].span)
        if unit is None:
            if not isinstance(given[0], s.Name | s.Lambda | s.Section):
                found = w.infer(given[0]).type
                if not isinstance(solver.head(found), Function):
                    raise effect_errors.no_operator(
                        given[0].span.text, show(w, found), given[0].span
                    )
            raise effect_errors.no_unit(given[0].span.text, given[0].span)
        cell = unit.type
        wanted = Function((cell, cell), cell)
        operator = w.infer(given[0], wanted)
        try:
            solver.unify(operator.type, wanted)
        except Mismatch:
            raise errors.wrong_type(
                "the operator", show(w, wanted), show(w, operator.type), given[0].span, ()
            ) from None
    if unit is not None:
        _cell_is(w, t, unit, given[1].span, operator)
    name = monoid or "add"
    var = Var(h.name or "")
    if unit is None or not any(isinstance(x, Index) for x in _inside(solver.zonk(unit.type))):
        w.counting.add(var)
    if operator is None:
        w.monoids[var] = name
        _scalars(w, t, name, not given, h)
    start = unit

    def first() -> core.Expr:
        own = _own(w, t, name, not given) if operator is None else None
        if own is not None and start is None:
            axes, _ = solver.axes(solver.zonk(t))
            return _filled(axes, own[1])
        return _everywhere(w, t, name, start)

    def step() -> core.Expr | None:
        if operator is not None:
            return operator.build()
        own = _own(w, t, name, not given)
        return own[0] if own is not None else None

    def determined() -> None:
        if not solver.determined(t):
            axes, cell = solver.axes(t)
            plain = "" if len(axes) != 1 or "_" in show(w, cell) else show(w, cell)
            raise effect_errors.undetermined_accum(h.name or "", h.span, plain)

    solver.goals.append(determined)
    return Opened(var, t, first, name, step, False, h.span)


def _own(
    w: Walk, t: Type, monoid: str, plain: bool
) -> tuple[core.Expr, core.Expr] | None:
    """The operator and the unit that the cells' type has by its instances."""
    return own_monoid(w, monoid, w.solver.axes(w.solver.zonk(t))[1], plain)


def _filled(axes: list[Set], value: core.Expr) -> core.Expr:
    for own in reversed(axes):
        value = core.For(Var("i"), own, value)
    return value


def _never_monoid(e: s.Expr) -> bool:
    """Whether an operator combines in an order; those of bits do not, from a unit that is given."""
    return isinstance(e, s.Section) and e.right is None and e.op not in ("&", "|", "^")


def _cell_is(w: Walk, t: Type, unit: Typed, span: Span, operator: Typed | None) -> None:
    """Under its axes, the accumulator holds what the unit is; an operator of its own combines
    just that type, so that the unit does not widen."""

    def attempt(force: bool) -> bool:
        axes, cell = w.solver.axes(t)
        if w.solver.is_open(cell) and not force:
            return False
        if isinstance(w.solver.head(unit.type), Table):
            raise effect_errors.table_unit(unit.span)
        converts(w, "the unit", table(axes, cell), table(axes, unit.type), unit, span)
        if operator is not None:
            try:
                w.solver.unify(cell, unit.type)
            except Mismatch:
                raise effect_errors.accum_operator(
                    operator.span, show(w, cell), show(w, unit.type)
                ) from None
        return True

    w.solver.later(attempt)


def _scalars(w: Walk, t: Type, monoid: str, plain: bool, h: s.Handler) -> None:
    """The scalars of an accumulator are those that its monoid combines."""
    solver = w.solver

    def restrict(t: Type) -> None:
        match solver.head(t):
            case Table(_, cell):
                restrict(cell)
            case Tuple(items):
                for x in items:
                    restrict(x)
            case scalar:
                try:
                    solver.restrict(scalar, _DTYPES[monoid])
                except Mismatch:
                    raise effect_errors.accum_cells(h.span, show(w, scalar)) from None
                if monoid not in ("add", "mul"):
                    return
                if isinstance(scalar, Index):
                    raise effect_errors.accum_cells(h.span, show(w, scalar))
                if isinstance(scalar, TypeVar) and scalar.var in solver.unknown:
                    solver.unknown[scalar.var].computed = True
                    solver.grow(scalar)

    def attempt(force: bool) -> bool:
        _, cell = solver.axes(t)
        if solver.is_open(cell) and not force:
            return False
        if not solver.is_open(cell) and own_monoid(w, monoid, cell, plain) is None:
            restrict(t)
        return True

    solver.later(attempt)


def _everywhere(w: Walk, t: Type, monoid: str, unit: Typed | None) -> core.Expr:
    """The unit in every cell of a type."""
    match w.solver.zonk(t):
        case Table(own) as rows:
            i = Var("i")
            return core.For(i, own, _everywhere(w, cell_at(rows, size(i)), monoid, unit))
        case kind if unit is not None:
            return convert(w, unit.build(), unit.type, kind)
        case Tuple(items):
            return core.Pack(tuple(_everywhere(w, x, monoid, None) for x in items))
        case kind:
            return unit_of(w, monoid, kind)


def _cell(w: Walk, o: Opened) -> core.Cell:
    operator = o.operator() if o.operator is not None else None
    what = f"what `{'state' if o.state else 'accum'}` holds"
    kind = keeps_size(w, what, o.type, o.span)
    return core.Cell(o.var, kind, o.start(), o.monoid, operator, o.state)


def _no_escape(w: Walk, body: Typed) -> None:
    """References, and functions that may hold them, end with their handler."""

    def goal() -> None:
        for t in _inside(w.solver.zonk(body.type)):
            if isinstance(t, Reference | Function):
                raise effect_errors.escapes(show(w, body.type), body.span)

    w.solver.goals.append(goal)


def _inside(t: Type) -> Iterator[Type]:
    yield t
    match t:
        case Table(_, cell):
            yield from _inside(cell)
        case Tuple(items):
            for x in items:
                yield from _inside(x)
        case _:
            pass


def performed(effect: Typed) -> Wrap:
    """An effect before the rest of a block."""
    return lambda rest: core.Let(Var("_"), effect.build(), rest)

