"""Binders: `i`, `i in S`, `x in xs`, `(i, j) in (n, m)`, and patterns of `=` and lambdas."""

from __future__ import annotations

from dataclasses import field
from typing import TypeGuard

from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.frontend.annotations import as_set
from naperian.frontend.boxes import around, bind_box
from naperian.frontend.cells import show
from naperian.frontend.coded import decoded, place_of
from naperian.frontend.data import fresh, owner
from naperian.frontend.fields import each
from naperian.frontend.fitting import fits
from naperian.frontend.lifting import frame_type
from naperian.frontend.messages import data_errors, errors, index_errors, name_errors
from naperian.frontend.scope import Variable
from naperian.frontend.slices import range_set
from naperian.frontend.solve import Mismatch
from naperian.frontend.typed import Build, Typed, Wrap, let_all, within
from naperian.frontend.unknowns import Because
from naperian.frontend.walk import Region, Walk
from naperian.names import Var
from naperian.node import mutable
from naperian.sizes import HEAVY, Clamp, Size, size, weight
from naperian.source import Span
from naperian.substitution import cell_at
from naperian.surface import syntax as s
from naperian.type_show import show_set
from naperian.types import (
    INT,
    Data,
    Exists,
    Fin,
    Index,
    Set,
    SetVar,
    Sum,
    Table,
    Tuple,
    Type,
    TypeVar,
    element,
    set_variables,
)


@mutable
class Bound:
    """A binder opened in the current scope: the index variable and its set; `inside` wraps a body
    with what the pattern binds; `outside` are values named for the set's ends. The body is a
    `region` of its own, inside the one `around`. `element` is what is at `var`, where that is a
    place in a range of elements that are no numbers."""

    var: Var
    set: Set
    span: Span
    around: Region
    outside: tuple[tuple[Var, Build], ...] = ()
    inside: list[Wrap] = field(default_factory=list)
    region: Region = field(default_factory=Region)
    element: Typed | None = None

    def body(self, build: Build) -> Build:
        """The body with what the pattern binds around it."""
        if not self.inside and not self.region.wraps:
            return build
        return around([*self.inside, *self.region.wraps], build)


def over_array(w: Walk, domain: s.Expr) -> bool:
    """Whether what a binder goes over is an array and no set."""
    return not isinstance(domain, s.RangeExpr) and as_set(w, domain) is None


def open_binder(w: Walk, b: s.Binder, expected: Set | None = None) -> Bound:
    """Bind the pattern of a binder in the current scope, and enter the region of its body."""
    solver = w.solver
    if b.domain is None:
        own: Set = solver.set(b.pattern.name if isinstance(b.pattern, s.PName) else "n")
        if expected is not None:
            axis = solver.zonk_set(expected)
            because = Because(
                b.span, lambda: f"ranges over `{show_set(axis)}`, the axis that is expected here"
            )
            solver.unify_set(own, expected, because)
        bound = _bound(w, b, own)
        if isinstance(b.pattern, s.PTuple):
            parts = tuple(solver.set() for _ in b.pattern.items)
            try:
                solver.unify(Index(own), Tuple(tuple(Index(p) for p in parts)))
            except Mismatch:
                raise errors.pattern_shape(
                    len(parts), show_set(solver.zonk_set(own)), b.pattern.span
                ) from None
        _bind_index(w, b, bound)
        _require_range(w, b, own, bound.var)
        return bound
    if isinstance(b.domain, s.RangeExpr):
        found = range_set(w, b.domain)
        bound = _bound(w, b, found.set, found.lets)
        if found.places is None:
            _bind_index(w, b, bound)
            return bound
        bound.element = found.places.at(w, bound.var, b.span)
        bound.inside.append(bind_pattern(w, b.pattern, bound.element, "index"))
        return bound
    named = as_set(w, b.domain)
    if named is not None:
        bound = _bound(w, b, named)
        _bind_index(w, b, bound)
        return bound
    table = w.infer(b.domain)
    t = solver.head(table.type)
    if solver.is_open(t):
        t = Table(solver.set(), solver.type("a"))
        solver.unify(table.type, t)
    if not isinstance(t, Table):
        kind = "a number" if table.poly is not None else f"`{show(w, t)}`"
        raise index_errors.not_a_set(b.domain.span.text, kind, b.domain.span)
    whole = Var("xs")
    own = t.set
    bound = _bound(w, b, own, ((whole, table.build),), "i")
    i = bound.var
    value = Typed(
        cell_at(t, size(i)),
        lambda: core.At(core.Ref(whole), core.Ref(i), solver.zonk_set(own)),
        b.span,
    )
    w.scope.assume_index(i, own)
    bound.inside.append(bind_pattern(w, b.pattern, value, "element"))
    return bound


def _bound(
    w: Walk, b: s.Binder, own: Set, outside: tuple[tuple[Var, Build], ...] = (), name: str = ""
) -> Bound:
    """The binder; from here on the walk is in its body's region."""
    bound = Bound(Var(name or _name(b.pattern)), own, b.span, w.region, outside)
    w.region = bound.region
    return bound


def _name(p: s.Pattern) -> str:
    return p.name if isinstance(p, s.PName) else "i"


def _require_range(w: Walk, b: s.Binder, own: Set, var: Var) -> None:
    """At the end the range must be known, and of what stands around the binder."""
    known = w.scope.around()
    w.binders.append((own, b, var))

    def goal() -> None:
        found = w.solver.zonk_set(own)
        if _unsaid(w, found):
            # from which others may have it
            open_ = (x for x in w.binders if _unsaid(w, w.solver.zonk_set(x[0])))
            _, first, index = min(open_, key=lambda x: x[1].span.start)
            axes = (w.solver.zonk_set(axis) for axis in w.brought.get(index, ()))
            said = next((show_set(axis) for axis in axes if not _unsaid(w, axis)), None)
            raise index_errors.unknown_range(_name(first.pattern), said, first.span)
        for v in set_variables(found):
            if v in w.ranged and v not in known:
                name = _name(b.pattern)
                raise index_errors.range_by_another(name, show_set(found), v.name, b.span)

    w.solver.goals.insert(0, goal)


def _unsaid(w: Walk, own: Set) -> bool:
    """Whether nothing says what a set is, or a part of a sum; or the size of a box that is to be
    made."""
    match own:
        case SetVar(v):
            return v in w.solver.unknown_sets - w.solver.chosen
        case Fin(n):
            return w.solver.unsaid(n)
        case Sum(left, right):
            return _unsaid(w, left) or _unsaid(w, right)
        case _:
            return False


def _bind_index(w: Walk, b: s.Binder, bound: Bound) -> None:
    kind = w.solver.head(element(bound.set))
    p = b.pattern
    if place_of(w, kind) is not None:
        place = Typed(kind, lambda: core.Ref(bound.var), b.span)
        bound.inside.append(bind_pattern(w, p, decoded(w, place), "index"))
        return
    if isinstance(p, s.PName):
        if not isinstance(kind, Tuple):
            w.ranged.add(bound.var)
            w.scope.assume_index(bound.var, bound.set)
        shown = element(bound.set) if isinstance(kind, Index) else kind  # keeps the reason
        w.scope.names[p.name] = Variable(
            bound.var, shown, p.span,
            size(bound.var) if isinstance(kind, Index) else None, "index",
        )
        return
    if isinstance(p, s.PWild):
        return
    value = Typed(kind, lambda: core.Ref(bound.var), b.span)
    bound.inside.append(bind_pattern(w, p, value, "index"))


def _nested(items: list[str], kind: Type) -> str:
    """The items in the brackets of a type that has as many parts: `(y, (x, p))`."""

    def parts(t: Type) -> int:
        return sum(map(parts, t.items)) if _is_plain(t) else 1

    def taken(t: Type) -> str:
        return f"({', '.join(map(taken, t.items))})" if _is_plain(t) else left.pop(0)

    left = list(items)
    return taken(kind) if _is_plain(kind) and parts(kind) == len(items) else ""


def _is_plain(t: Type) -> TypeGuard[Tuple]:
    return isinstance(t, Tuple) and not isinstance(t, Data)


def settled(w: Walk, name: str, t: Type) -> Type:
    """The type of what gets a name, as far as it is known. A number that may become an Int or a
    Float is an Int, if that is how the definition is read (`Reading`)."""
    kind = w.solver.head(t)
    if (
        isinstance(kind, TypeVar)
        and kind.var in w.solver.unknown
        and DType.I64 in (w.solver.dtypes_of(kind) or ())
    ):
        if name not in w.reading.whole:
            w.undecided[name] = kind
            return kind
        w.solver.unify(kind, INT)
        return INT
    return kind


def bind_pattern(w: Walk, p: s.Pattern, value: Typed, what: str = "name") -> Wrap:
    """Bind the names of an irrefutable pattern to a value; gives what wraps the body in core. A
    pattern lifts as a function does: of a table of pairs, `(a, b)` are two tables."""
    solver = w.solver
    box = solver.head(value.type)
    if isinstance(box, Exists) and isinstance(p, s.PTuple | s.PConstructor):
        opened, opens = bind_box(w, Var("t"), value, box)
        inner = bind_pattern(w, p, opened, what)
        return lambda expr: opens(inner(expr))
    match p:
        case s.PWild():  # computed all the same, for its effects
            unnamed, before = value.build, value.lets
            return lambda expr: let_all(before, core.Let(Var("_"), within(before, unnamed), expr))
        case s.PName(span, name):
            v = Var(name)
            kind = settled(w, name, value.type)
            solver.hold(kind)
            if isinstance(kind, Exists):
                made, wrap = bind_box(w, v, value, kind)
                w.scope.names[name] = Variable(v, made.type, span, None, what)
                return wrap
            poly = value.poly
            if poly is None and (kind == INT or isinstance(kind, Index)):
                poly = size(v)
            elif poly is not None and not _stable(poly):
                if fits(w, poly):
                    w.scope.assume(size(v) - poly, poly - size(v))
                poly = size(v)
            if isinstance(kind, Index) and poly == size(v):
                w.scope.assume_index(v, kind.set)
            if poly == size(v):
                w.scope.assume(*(claim(poly) for claim in value.always))
                w.region.names.add(v)
                if value.ways:
                    w.choices[v] = value.ways
            w.region.names.update(named for named, _ in value.lets)
            w.scope.names[name] = Variable(v, value.type, span, poly, what)
            build = value.build
            lets = value.lets

            def named(expr: core.Expr) -> core.Expr:
                return let_all(lets, core.Let(v, within(lets, build), expr))

            return named
        case s.PTuple(span, items):
            axes, kind = solver.axes(value.type)
            if not axes and solver.is_open(kind):
                kind = Tuple(tuple(solver.type("a") for _ in items))
                solver.unify(value.type, kind)
            if (
                not isinstance(kind, Tuple)
                or isinstance(kind, Data)
                or len(kind.items) != len(items)
            ):
                nested = _nested([x.span.text for x in items], kind)
                raise errors.pattern_shape(
                    len(items), show(w, value.type), span, bool(axes), nested
                )
            whole = Var("t")
            wraps = []
            for k, (item, part) in enumerate(zip(items, kind.items, strict=True)):
                piece = Typed(frame_type(w, axes, part), _part(w, whole, axes, k, part), item.span)
                if value.items:
                    known = value.items[k]
                    piece.poly = known.poly if not known.lets else None
                    piece.ways, piece.items = known.ways, known.items
                    piece.always = known.always
                wraps.append(bind_pattern(w, item, piece, what))
            build = value.build

            def unpack(expr: core.Expr) -> core.Expr:
                for f in reversed(wraps):
                    expr = f(expr)
                return core.Let(whole, build(), expr)

            return unpack
        case s.PConstructor(_, _, args):
            return _bind_made(w, p, args or (), value, what)
        case _:
            raise errors.refutable(p.span)


def _bind_made(
    w: Walk, p: s.PConstructor, args: tuple[s.Pattern, ...], value: Typed, what: str
) -> Wrap:
    """`Point(x, y) = p`: of a type that is made in one way only."""
    solver = w.solver
    info = owner(w, p.name, p.span)
    axes, kind = solver.axes(value.type)
    if info is not None and not axes and solver.is_open(kind):
        kind = fresh(w, info)
        solver.unify(value.type, kind)
    base, _, field = p.name.partition(".")
    if info is None and field and p.args is None and w.scope.find(base) is not None:
        raise data_errors.field_assigned(base, field, p.span)
    if info is None or not isinstance(kind, Data) or info.pattern.layout != kind.layout:
        raise data_errors.pattern_type(p.span.text, show(w, kind), p.span)
    short = p.name.rpartition(".")[2]
    others = [v.name for v in kind.layout.variants if v.name != short]
    if others:
        raise data_errors.partial_binding(p.span.text, show(w, kind), others, p.span)
    (variant,) = kind.layout.variants
    if len(args) != len(variant.fields):
        names = [f.name for f in variant.fields]
        raise data_errors.pattern_arity(p.name, names, len(args), p.span)
    whole = Var("s")
    wraps = [
        bind_pattern(
            w, x, Typed(frame_type(w, axes, part), _part(w, whole, axes, k, part), x.span), what
        )
        for x, f in zip(args, variant.fields, strict=True)
        for k, part in [(f.item, kind.items[f.item])]
    ]
    build = value.build

    def unpack(expr: core.Expr) -> core.Expr:
        for f in reversed(wraps):
            expr = f(expr)
        return core.Let(whole, build(), expr)

    return unpack


def _part(w: Walk, whole: Var, axes: list[Set], k: int, part: Type) -> Build:
    """An item of a tuple; of a table of tuples, the table of that item."""
    return lambda: each(w, core.Ref(whole), axes, k, part)


def _stable(poly: Size) -> bool:
    """Short enough to write in place of its name."""
    if poly.plain:
        return len(poly.terms) <= 4
    short = len(poly.terms) <= 4 and weight(poly) <= HEAVY
    return short and not any(isinstance(a, Clamp) for a in poly.atoms)


def pattern_type(w: Walk, p: s.Pattern) -> Type:
    """A fresh type of a pattern's shape, for a lambda's parameter."""
    if isinstance(p, s.PTuple):
        return Tuple(tuple(pattern_type(w, x) for x in p.items))
    return w.solver.type(_name(p))


def check_new(w: Walk, p: s.Pattern, kind: str) -> None:
    """Binding a name of an enclosing block would change nothing there: an error."""
    match p:
        case s.PName(span, name):
            outer = w.scope.enclosing(name)
            if isinstance(outer, Variable):
                raise name_errors.hides_enclosing(name, span, outer.span, kind)
        case s.PTuple(_, items) | s.PConstructor(_, _, tuple() as items):
            for x in items:
                check_new(w, x, kind)
        case _:
            pass


