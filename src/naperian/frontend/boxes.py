"""Sizes known at run time: opening and closing what has type `exists k. …`.

    ys = filter(p, xs)          (k, ys) = unbox(filter(p, xs))       ys : Fin(k)=>a from here on
    [ys[i] * 2 for i]           box(k, [ys[i] * 2 for i])            where the name `k` ends

An expression of such a type is opened where it stands: it gets a fresh size. A *region* is a place
whose sizes end with it: a function's body, a block, the element of a comprehension, a side of an
`if` or the right one of an `and`, what a `while` or a `case` asks. A value that leaves a region and
whose type mentions sizes of the region is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from operator import mul

from naperian.core import syntax as core
from naperian.core.resolve import resize
from naperian.core.walk import children, of_type, size_variables
from naperian.dtypes import DType
from naperian.frontend.cells import convert, converts
from naperian.frontend.cells import show as show_kind
from naperian.frontend.fitting import fits
from naperian.frontend.messages import index_errors, size_errors
from naperian.frontend.messages.report import Reported
from naperian.frontend.scope import Scope, SetName, SizeName
from naperian.frontend.slices import not_negative
from naperian.frontend.typed import Build, Typed, Wrap, let_all, within
from naperian.frontend.walk import Region, Walk
from naperian.names import Lit, Var
from naperian.sizes import Monomial, Size, rename, show, size, variables
from naperian.source import Span
from naperian.substitution import boxed, opened, sets_in
from naperian.types import (
    INT,
    Data,
    Exists,
    Fin,
    Range,
    Scalar,
    Slice,
    Type,
    axes,
    cardinality,
    numbers,
    set_variables,
    table,
)


def open_box(w: Walk, value: Typed) -> Typed:
    """The value of a box, opened in the region around; any other value as it is."""
    kind = w.solver.head(value.type)
    if not isinstance(kind, Exists):
        return value
    var = Var("x")
    made, wrap = bind_box(w, var, value, kind)
    w.wrap(wrap)
    return made


def bind_box(w: Walk, var: Var, value: Typed, kind: Exists) -> tuple[Typed, Wrap]:
    """The value of a box as a variable, and what binds it."""
    sizes = tuple(Var(_new(w, v.name)) for v in kind.vars)
    w.opened.update(dict.fromkeys(sizes, value.span))
    w.region.names.update(sizes)
    w.scope.assume(*map(size, sizes))
    build, lets = value.build, value.lets

    def wrap(expr: core.Expr) -> core.Expr:
        return let_all(lets, core.Unbox(sizes, var, within(lets, build), expr))

    return Typed(opened(kind, tuple(map(size, sizes))), lambda: core.Ref(var), value.span), wrap


def _new(w: Walk, name: str) -> str:
    """A name for a fresh size, so that two of them are told apart in messages."""
    taken = {v.name for v in w.opened}
    k = 1
    text = name
    while text in taken:
        k += 1
        text = f"{name}{k}"
    return text


def _base(v: Var) -> str:
    """The name without the number that told it from others."""
    return v.name.rstrip("0123456789") or v.name


def name_size(w: Walk, value: Typed, name: str) -> Size:
    """An Int as a size: its polynomial, or a fresh name bound in the region around."""
    poly = value.poly
    if poly is not None and not value.lets:
        return poly
    v = Var(name)
    build, lets, kind = value.build, value.lets, value.type
    if poly is not None and fits(w, poly):
        w.scope.assume(size(v) - poly, poly - size(v))
    w.region.names.update((v, *(named for named, _ in lets)))

    def bound(expr: core.Expr) -> core.Expr:
        whole = convert(w, within(lets, build), kind, INT)
        return let_all(lets, core.Let(v, whole, expr))

    w.wrap(bound)
    return size(v)


def alone(w: Walk, make: Callable[[], Typed], expected: Type | None = None) -> Typed:
    """A value made in a region of its own."""
    outer, w.region = w.region, Region()
    value = make()
    mine, w.region = w.region, outer
    inner = closed(w, mine, value, expected)
    if not mine.wraps:
        return inner
    build = around(mine.wraps, inner.build)
    return Typed(inner.type, build, inner.span, condition=inner.condition)


def around(wraps: list[Wrap], build: Build) -> Build:
    """What is bound around a value."""

    def whole() -> core.Expr:
        expr = build()
        for f in reversed(wraps):
            expr = f(expr)
        return expr

    return whole


def closed(w: Walk, region: Region, value: Typed, expected: Type | None) -> Typed:
    """The value as it leaves a region: boxed if its type mentions sizes of the region, or if a box
    is expected there."""
    wanted = w.solver.zonk(expected) if expected is not None else None
    found = w.solver.zonk(value.type) if region.names else value.type
    mentions = region.names and not region.names.isdisjoint(of_type(found))
    if mentions:
        value = _storable(w, value, found, region.names)
        value = counted(w, _natural(w, value, found, region.names), found, region.names)
        found = w.solver.zonk(value.type)
    if wanted is not None and any(boxed(wanted)):
        return close_to(w, value, wanted)
    if not mentions:
        return value
    if wanted is not None and not w.solver.is_open(wanted):
        return _as_declared(w, value, wanted)
    kind, sizes = hidden(found, region.names)

    def build() -> core.Expr:
        t = w.solver.zonk(kind)
        assert isinstance(t, Exists)
        return core.Box(t, sizes, value.build())

    return Typed(kind, build, value.span)


def _natural(w: Walk, value: Typed, found: Type, names: set[Var]) -> Typed:
    """The value, which is not made if an integer that is a size of it is negative."""
    facts = w.scope.facts().and_(*map(size, w.opened))
    sizes = dict.fromkeys(
        cardinality(s)
        for s in sets_in(found)
        if not isinstance(s, Range | Slice) and not names.isdisjoint(set_variables(s))
    )
    doubtful = [n for n in sizes if not facts.proves(n)]
    if not doubtful:
        return value

    def build() -> core.Expr:
        expr = value.build()
        for n in doubtful:
            expr = natural(n, expr, value.span)
        return expr

    return Typed(value.type, build, value.span, value.poly, value.lets)


def natural(n: Size, expr: core.Expr, span: Span) -> core.Expr:
    """What is made only if a size is one."""
    test = core.Op("ge", (core.Number(n), core.Const(Lit(0, DType.I64))), INT)
    return core.Check(test, f"the size `{show(n)}` is negative", expr, span)


_FLOAT = Scalar(DType.F64)
_MOST = 2.0**47
"""More elements than a computer has addresses for."""


def computed(w: Walk, around: Scope, n: Size) -> bool:
    """Whether a size is a product that integers found in the run are in, so that it may be more
    than an integer holds."""
    named: set[Var] = set(w.solver.unknown_sizes | w.solver.unknown_sets)
    scope: Scope | None = around
    while scope is not None:
        for entry in scope.names.values():
            if isinstance(entry, SizeName):
                named.add(entry.var)
            elif isinstance(entry, SetName):
                named.update(set_variables(entry.set))
        scope = scope.parent
    return any(
        len(atoms) > 1 and not named.issuperset(variables(Size(((atoms, c),))))
        for atoms, c in n.terms
    )


def countable(n: Size, expr: core.Expr, span: Span) -> core.Expr:
    """What is made only if a size, which is a product, is one of a table."""
    value, low = _in_floats(n), core.Const(Lit(0.0, DType.F64))
    known = core.Check(
        core.Op("ge", (value, low), _FLOAT), f"the size `{show(n)}` is negative", expr, span
    )
    return _at_most(value, show(n), known, span)


def _at_most(count: core.Expr, text: str, expr: core.Expr, span: Span) -> core.Expr:
    test = core.Op("le", (count, core.Const(Lit(_MOST, DType.F64))), _FLOAT)
    return core.Check(test, f"the size `{text}` {core.TOO_LARGE}", expr, span)


def _in_floats(n: Size) -> core.Expr:
    """A size, computed in floats, which do not overflow."""
    terms = n.terms or (((), 0),)
    return reduce(
        lambda a, b: core.Op("add", (a, b), _FLOAT), [_term(atoms, c) for atoms, c in terms]
    )


def _term(atoms: Monomial, c: int) -> core.Expr:
    numbers = [core.Op("cast", (core.Number(Size((((a,), 1),))),), _FLOAT) for a in atoms]
    factor: list[core.Expr] = [core.Const(Lit(float(c), DType.F64))] if c != 1 or not atoms else []
    return reduce(lambda a, b: core.Op("mul", (a, b), _FLOAT), [*factor, *numbers])


def _storable(w: Walk, value: Typed, found: Type, names: set[Var]) -> Typed:
    """The value, which is not made if integers say that it has more elements than can be counted:
    where each cell of a table of such values starts is the sum of their numbers."""
    said = names.difference(w.opened)
    extents = [cardinality(s) for s in axes(found)[0]]
    if said.isdisjoint(v for n in extents for v in variables(n)):
        return value
    text = show(reduce(mul, extents, size(1)))

    def build() -> core.Expr:
        count: core.Expr = core.Const(Lit(1.0, DType.F64))
        for n in extents:
            count = core.Op("mul", (count, _in_floats(w.solver.zonk_size(n))), _FLOAT)
        return _at_most(count, text, value.build(), value.span)

    return Typed(value.type, build, value.span, value.poly, value.lets)


def counted(w: Walk, value: Typed, found: Type, names: set[Var]) -> Typed:
    """The value with its ranges between `names` counted from 0, since nobody outside knows what
    they start with."""
    old, cell = axes(found)
    new = [
        Fin(not_negative(w, cardinality(s)))
        if isinstance(s, Range | Slice) and not names.isdisjoint(set_variables(s)) else s
        for s in old
    ]
    if new == old:
        return value

    def build() -> core.Expr:
        x = Var("x")
        which = [Var("i") for _ in new]
        expr: core.Expr = core.Ref(x)
        for v, before, after in zip(which, old, new, strict=True):
            first, step = numbers(before)
            moved = core.Number(first + step * size(v))
            expr = core.At(expr, core.Ref(v) if before == after else moved, before)
        for v, after in zip(reversed(which), reversed(new), strict=True):
            expr = core.For(v, after, expr)
        return core.Let(x, value.build(), expr)

    return Typed(table(new, cell), build, value.span)


def hidden(t: Type, names: set[Var]) -> tuple[Exists, tuple[Size, ...]]:
    """The type with the sizes that mention `names` hidden, and those sizes: one that stands
    everywhere as a whole, else the names themselves."""
    sizes = dict.fromkeys(
        cardinality(s) for s in sets_in(t) if not names.isdisjoint(set_variables(s))
    )
    if len(sizes) == 1:
        (whole,) = sizes
        k = Var(_base(v) if isinstance(v := whole.single, Var) else "k")
        body = resize(lambda s: size(k) if s == whole else s).type(t)
        return Exists((k,), body), (whole,)
    used = [v for v in dict.fromkeys(of_type(t)) if v in names]
    bound = {v: Var(_base(v)) for v in used}
    names_of = {v: size(b) for v, b in bound.items()}
    body = resize(lambda s: rename(s, names_of)).type(t)
    return Exists(tuple(bound.values()), body), tuple(map(size, used))


def _as_declared(w: Walk, value: Typed, wanted: Type) -> Typed:
    """The value where a fixed size is declared: fine if what is known here (an `assert`) says that
    its own is equal. If not, that is told where the value meets the declaration."""
    try:
        converts(w, "this value", wanted, value.type, value, value.span)
    except Reported:
        return value

    def build() -> core.Expr:
        expr = convert(w, value.build(), value.type, wanted)
        old, _ = w.solver.axes(value.type)
        new, cell = w.solver.axes(wanted)  # the cells are converted already
        before, after = (tuple(map(w.solver.zonk_set, sets)) for sets in (old, new))
        return expr if before == after else core.Recast(expr, before, after, w.solver.zonk(cell))

    return Typed(wanted, build, value.span)


def close_to(w: Walk, value: Typed, wanted: Type) -> Typed:
    """The value as one of a type with boxes in it."""
    converts(w, "this value", wanted, value.type, value, value.span)
    return Typed(wanted, lambda: convert(w, value.build(), value.type, wanted), value.span)


def alike(w: Walk, sides: list[Typed]) -> list[Typed]:
    """Sides of an `if`, items of a table: if one is a box, all are."""
    kinds = [w.solver.head(x.type) for x in sides]
    box = next((k for k in kinds if isinstance(k, Exists)), None)
    return sides if box is None else [close_to(w, x, box) for x in sides]


def keeps_size(w: Walk, what: str, t: Type, span: Span) -> Type:
    """The type of what is carried: it hides no size, for that could be another each time."""
    kind = w.solver.zonk(t)
    if any(True for _ in boxed(kind)):
        raise size_errors.hidden_size(what, show_kind(w, kind), span, _of_hidden_size(kind))
    return kind


def _of_hidden_size(t: Type) -> list[str]:
    """The fields of a struct that are tables of a size that it hides."""
    if not isinstance(t, Data) or t.layout.tagged:
        return []
    fields = t.layout.variants[0].fields
    return [f.name for f, x in zip(fields, t.items, strict=True) if isinstance(x, Exists)]


# ---------------------------------------------------------------- what must not leave


def check_scopes(w: Walk, expr: core.Expr) -> None:
    """No opened size is mentioned outside the region it was opened in, and no row's index before it
    is computed."""
    if w.opened or w.row_choices:
        for v in _escaping(expr, w.opened | w.row_choices):
            if v in w.row_choices:
                raise index_errors.range_from_inside(w.row_choices[v])
            raise size_errors.size_escapes(v.name, w.opened[v])


def _escaping(expr: core.Expr, sizes: dict[Var, Span]) -> Iterator[Var]:
    """The opened sizes that are mentioned where they are not bound."""
    rest: list[tuple[core.Expr, frozenset[Var]]] = [(expr, frozenset())]
    while rest:
        e, inside = rest.pop()
        for v in size_variables(e):
            if v in sizes and v not in inside:
                yield v
        if isinstance(e, core.Unbox):
            rest.append((e.value, inside))
            rest.append((e.body, inside.union(e.sizes)))
        elif isinstance(e, core.Let):
            rest += [(e.value, inside), (e.body, inside | {e.var})]
        else:
            rest.extend((x, inside) for x in children(e))
