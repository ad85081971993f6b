"""Patterns with their types: what they ask of a value, and what they bind.

    pattern ::= Anything(name?) | Made(number, label, pattern…) | Exactly(number)
              | Either(pattern, pattern)

A value of a tuple or struct type is made in one way, of an enum in one way a variant, of `Bool` in
two; numbers are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.frontend.binders import bind_pattern
from naperian.frontend.cells import equate, show
from naperian.frontend.data import fresh, owner
from naperian.frontend.messages import data_errors, errors, name_errors
from naperian.frontend.typed import Build, Typed, Wrap
from naperian.frontend.unions import SIDES, is_side, project, side
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.node import node
from naperian.sizes import Size, size
from naperian.source import NOWHERE, Span
from naperian.surface import syntax as s
from naperian.types import BOOL, INT, Data, EnumSet, Index, Scalar, SetVar, Sum, Tuple, Type


@node
class Anything:
    """Fits every value, and names it perhaps."""

    span: Span
    name: str | None


@node
class Made:
    """Fits what is made this way, of parts that fit."""

    span: Span
    number: int
    parts: tuple[Pattern, ...]


@node
class Exactly:
    """Fits one number."""

    span: Span
    value: int | float


@node
class Either:
    """Fits what one of the sides fits."""

    span: Span
    left: Pattern
    right: Pattern


Pattern: TypeAlias = "Anything | Made | Exactly | Either"


@node
class Way:
    """One way in which values of a type are made: its parts, each with the item of the tuple that
    holds it."""

    label: str
    names: tuple[str, ...]
    types: tuple[Type, ...]
    items: tuple[int, ...]


def ways(w: Walk, t: Type) -> list[Way] | None:
    """All the ways in which values of a type are made; None if they are not to be listed."""
    t = w.solver.head(t)
    match t:
        case Data(items, layout):
            return [
                Way(
                    v.name,
                    tuple(f.name for f in v.fields),
                    tuple(items[f.item] for f in v.fields),
                    tuple(f.item for f in v.fields),
                )
                for v in layout.variants
            ]
        case Tuple(items):
            return [Way("", ("_",) * len(items), items, tuple(range(len(items))))]
        case Scalar(DType.BOOL):
            return [Way("False", (), (), ()), Way("True", (), (), ())]
        case Index(own):
            found = w.solver.head_set(own)
            if isinstance(found, EnumSet):
                return [Way(m, (), (), ()) for m in found.members]
            if isinstance(found, Sum):
                sides = (side(w, found, name, NOWHERE) for name in SIDES)
                return [
                    Way(name, ("i",), (Index(x),), (k,))
                    for k, (name, x) in enumerate(zip(SIDES, sides, strict=True))
                ]
            return None
        case _:
            return None


# ---------------------------------------------------------------- reading


def read(w: Walk, p: s.Pattern, t: Type) -> Pattern:
    """A pattern at the type of the value it is for."""
    kind = _known(w, p, t)
    match p:
        case s.PWild(span):
            return Anything(span, None)
        case s.PName(span, name):
            number = _number(w, kind, name)
            if number is not None:
                return _made(w, span, kind, number, name, ())
            if name[0].isupper() and _is_enum(w, kind):
                labels = [x.label for x in ways(w, kind) or ()]
                raise data_errors.unlikely_name(name, show(w, kind), span, labels)
            return Anything(span, name)
        case s.PConstructor(span, name, args):
            number = _number(w, kind, name)
            if number is None:
                if _is_enum(w, kind):
                    labels = [x.label for x in ways(w, kind) or ()]
                    short = name.rpartition(".")[2]
                    raise data_errors.no_variant(show(w, kind), short, span, labels)
                raise data_errors.pattern_type(span.text, show(w, kind), span)
            return _made(w, span, kind, number, name, args or ())
        case s.PNumber(span, value):
            return _exactly(w, span, kind, value)
        case s.PTuple(span, items):
            if not isinstance(kind, Tuple) or isinstance(kind, Data):
                raise data_errors.pattern_type(span.text, show(w, kind), span)
            if len(items) != len(kind.items):
                raise errors.pattern_shape(len(items), show(w, kind), span)
            parts = tuple(read(w, x, y) for x, y in zip(items, kind.items, strict=True))
            return Made(span, 0, parts)
        case s.PAlt(span, left, right):
            return Either(span, read(w, left, kind), read(w, right, kind))
        case s.PString(span):
            raise errors.text_as_data(span)
        case s.PBracket(span):
            raise name_errors.not_yet("a pattern of a table", span)
        case s.PBoth(span):
            raise name_errors.not_yet("`&` in a pattern", span)


def _known(w: Walk, p: s.Pattern, t: Type) -> Type:
    """The type of the value; where nothing is known of it, what the pattern says."""
    solver = w.solver
    kind = solver.head(t)
    if isinstance(kind, Index):
        return _index_of(w, p, kind)
    if not solver.is_open(kind):
        return kind
    match p:
        case s.PName(_, name) | s.PConstructor(_, name):
            info = owner(w, name, p.span)
            if info is not None:
                solver.unify(kind, fresh(w, info))
            elif name in ("True", "False"):
                solver.unify(kind, BOOL)
        case s.PNumber(_, int()):
            solver.unify(kind, INT)
        case s.PTuple(_, items):
            solver.unify(kind, Tuple(tuple(solver.type("a") for _ in items)))
        case s.PAlt(_, left, right):
            _known(w, left, t)
            _known(w, right, t)
        case _:
            pass
    return solver.head(kind)


def _index_of(w: Walk, p: s.Pattern, t: Index) -> Type:
    """An index; of a set that is not known yet, `left(i)` says that it is of two."""
    solver = w.solver
    match p:
        case s.PConstructor(_, name) if (
            name in SIDES
            and isinstance(solver.head_set(t.set), SetVar)
            and solver.set_is_open(t.set)
        ):
            solver.unify_set(t.set, Sum(solver.set("left"), solver.set("right")))
        case s.PAlt(_, one, _):
            _index_of(w, one, t)
        case _:
            pass
    return t


def _is_enum(w: Walk, t: Type) -> bool:
    return (isinstance(t, Data) and t.layout.tagged) or (
        isinstance(t, Index) and isinstance(w.solver.head_set(t.set), EnumSet)
    )


def _number(w: Walk, t: Type, name: str) -> int | None:
    """Which way of making the type a name means: `Found`, `Hit.Found`, `geo.Hit.Found`."""
    path, _, short = name.rpartition(".")
    found = ways(w, t)
    if found is None or (isinstance(t, Tuple) and not isinstance(t, Data)):
        return None
    labels = [x.label for x in found]
    if isinstance(t, Data):
        own = t.layout.var.name
    elif isinstance(t, Index):
        own_set = w.solver.head_set(t.set)
        own = own_set.var.name if isinstance(own_set, EnumSet) else ""
    else:
        own = ""
    is_struct = isinstance(t, Data) and not t.layout.tagged
    if path and not is_struct and path.rpartition(".")[2] != own:
        return None
    return labels.index(short) if short in labels else None


def _made(
    w: Walk, span: Span, t: Type, number: int, name: str, args: tuple[s.Pattern, ...]
) -> Made:
    way = (ways(w, t) or [])[number]
    if len(args) != len(way.types):
        raise data_errors.pattern_arity(name, [*way.names], len(args), span)
    return Made(span, number, tuple(read(w, a, x) for a, x in zip(args, way.types, strict=True)))


def _exactly(w: Walk, span: Span, t: Type, value: int | float) -> Exactly:
    whole = isinstance(value, int)
    dtypes = w.solver.dtypes_of(t)
    fits = (
        (isinstance(t, Index) and whole and ways(w, t) is None)
        or (dtypes is not None
        and DType.BOOL not in dtypes
        and (whole or any(d.is_float for d in dtypes)))
    )
    if not fits:
        raise data_errors.pattern_type(span.text, show(w, t), span)
    return Exactly(span, value)


# ---------------------------------------------------------------- names


def names(p: Pattern) -> Iterator[Anything]:
    """What a pattern binds; both sides of `|` bind the same."""
    match p:
        case Exactly():
            pass
        case Anything(_, name):
            if name is not None:
                yield p
        case Made(_, _, parts):
            for x in parts:
                yield from names(x)
        case Either(_, left, right):
            ours = {x.name: x for x in names(left)}
            theirs = {x.name: x for x in names(right)}
            for mine, other, there in ((ours, theirs, right), (theirs, ours, left)):
                for n, x in mine.items():
                    if n not in other:
                        assert n is not None
                        raise data_errors.alternatives(n, x.span, there.span)
            yield from ours.values()


def check_names(p: Pattern) -> None:
    """No name is bound twice."""
    seen: dict[str, Span] = {}
    for x in names(p):
        assert x.name is not None
        if x.name in seen:
            raise data_errors.bound_twice(x.name, x.span, seen[x.name])
        seen[x.name] = x.span


# ---------------------------------------------------------------- what a pattern does


def test(w: Walk, p: Pattern, t: Type, value: Build) -> Build | None:
    """Whether the value fits, in core; None if it always does."""
    match p:
        case Anything():
            return None
        case Exactly(_, number):
            return lambda: _equals(w, t, value(), number)
        case Made(_, number, parts):
            found = ways(w, t) or []
            tests: list[Build] = []
            if len(found) > 1:
                tests.append(lambda: _is_made(w, t, value(), number))
            way = found[number]
            for x, kind, item in zip(parts, way.types, way.items, strict=True):
                inner = test(w, x, kind, part(w, t, value, item))
                if inner is not None:
                    tests.append(inner)
            return _joined("and", tests) if tests else None
        case Either(_, left, right):
            one, other = test(w, left, t, value), test(w, right, t, value)
            return _joined("or", [one, other]) if one is not None and other is not None else None


def part(w: Walk, t: Type, value: Build, item: int) -> Build:
    """A component of a tuple, or what an index of a sum is an index of."""
    own = _sum(w, t)
    return (lambda: core.Part(value(), item)) if own is None else project(w, own, item, value)


def _sum(w: Walk, t: Type) -> Sum | None:
    kind = w.solver.head(t)
    own = w.solver.head_set(kind.set) if isinstance(kind, Index) else None
    return own if isinstance(own, Sum) else None


def _joined(op: str, tests: list[Build]) -> Build:
    def build() -> core.Expr:
        expr = tests[-1]()
        for x in reversed(tests[:-1]):
            expr = core.Op(op, (x(), expr), BOOL)
        return expr

    return build


def _equals(w: Walk, t: Type, value: core.Expr, number: int | float) -> core.Expr:
    kind = w.solver.zonk(t)
    match kind:
        case Scalar(dtype):
            lit = Lit(float(number) if dtype.is_float else int(number), dtype)
            return core.Op("eq", (value, core.Const(lit)), kind)
        case Index():
            return core.Op("eq", (value, core.Number(size(int(number)))), INT)
        case _:
            return core.Op("eq", (value, core.ConstOf(number, kind)), kind)


def _is_made(w: Walk, t: Type, value: core.Expr, number: int) -> core.Expr:
    kind = w.solver.zonk(t)
    own = _sum(w, t)
    if own is not None:
        return is_side(w, own, number, value)
    if kind == BOOL:
        return value if number else core.Op("not", (value,), BOOL)
    tag = core.Part(value, 0) if isinstance(kind, Data) else value
    return core.Op("eq", (tag, core.Number(size(number))), INT)


def bind(w: Walk, p: Pattern, t: Type, value: Build, poly: Size | None = None) -> list[Wrap]:
    """The names of a pattern bound in the current scope; what wraps the core of what follows."""
    match p:
        case Exactly(_, number):
            kind = w.solver.head(t)
            if isinstance(kind, Index):  # an index that is this number has it in its set
                v = Var("i")
                w.scope.assume(size(v) - int(number), int(number) - size(v))
                w.scope.assume_index(v, kind.set)
            return []
        case Anything(span, name):
            if name is None:
                return []
            return [bind_pattern(w, s.PName(span, name), Typed(t, value, span, poly))]
        case Made(_, number, parts):
            way = (ways(w, t) or [])[number]
            triples = zip(parts, way.types, way.items, strict=True)
            return [f for x, kind, i in triples for f in bind(w, x, kind, part(w, t, value, i))]
        case Either(_, left, right):
            return _bind_either(w, left, right, t, value)


def _bind_either(w: Walk, left: Pattern, right: Pattern, t: Type, value: Build) -> list[Wrap]:
    """The names of the side that fits: each is the one or the other part."""
    wraps: list[Wrap] = []
    theirs = {n: (kind, build) for n, _, kind, build in _parts(w, right, t, value)}
    for name, span, kind, build in _parts(w, left, t, value):
        other, build2 = theirs[name]
        equate(w, f"`{name}`", kind, other, span)
        wraps.append(
            bind_pattern(
                w, s.PName(span, name),
                Typed(kind, _chosen(test(w, left, t, value), build, build2), span),
            )
        )
    return wraps


def _chosen(test: Build | None, then: Build, otherwise: Build) -> Build:
    if test is None:
        return then
    return lambda: core.If(test(), then(), otherwise())


def _parts(
    w: Walk, p: Pattern, t: Type, value: Build
) -> Iterator[tuple[str, Span, Type, Build]]:
    """Every name with the part of the value it stands for."""
    match p:
        case Exactly():
            pass
        case Anything(span, name):
            if name is not None:
                yield name, span, t, value
        case Made(_, number, parts):
            way = (ways(w, t) or [])[number]
            for x, kind, item in zip(parts, way.types, way.items, strict=True):
                yield from _parts(w, x, kind, part(w, t, value, item))
        case Either(_, left, right):
            theirs = {n: build for n, _, _, build in _parts(w, right, t, value)}
            for name, span, kind, build in _parts(w, left, t, value):
                yield name, span, kind, _chosen(test(w, left, t, value), build, theirs[name])
