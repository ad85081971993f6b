"""`argmax(e for i, j in s(i) if p)`: where the largest is, of what the condition keeps.

    pairs = [((i, j), e) for i, j in s(i) if p]
    (lambda k: pairs[k][0])~(0)(argmax(value for (_, value) in pairs))

A binder over an array, `v in x`, stands for `x[i]`: what is told is `i`. Of a set that hangs on an
earlier binder, `j in 0..i`, it is `Int(j)`: outside, there is no such set.

By the language itself: so `e` is computed only where `p` holds and may rely on it, several binders
give a tuple, axes of `e` are frame, and if nothing is kept the run stops as for every `argmax` of
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from naperian.surface import syntax as s
from naperian.surface.walk import nodes

_PAIRS, _PLACE, _VALUE, _AT = "the kept", "the place", "the value", "which"  # not a program's names


def depends(g: s.Generator) -> bool:
    """Whether a binder may go over a set that depends on another: then no one axis has them all.
    One that names no set may go over a row's."""
    unsaid = [b.domain is None for b in g.binders]
    return any(_hang(g.binders)) or (any(unsaid[1:]) and not all(unsaid))


def _hang(binders: tuple[s.Binder, ...]) -> Iterator[bool]:
    """Of each binder, whether what it goes over mentions an earlier one."""
    before: set[str] = set()
    for b in binders:
        yield any(isinstance(x, s.Name) and x.name in before for x in nodes(b.domain))
        before |= {x.name for x in nodes(b.pattern) if isinstance(x, s.PName)}


def best_of_kept(call: s.Call, g: s.Generator, is_array: Callable[[s.Expr], bool]) -> s.Block:
    """The block that the call means; `is_array` tells of what a binder goes over."""
    names = count()
    arrays, g = _indexed(g, is_array)
    here, whole = g.element.span, call.span
    named = [(b, *_named(b.pattern, names)) for b in g.binders]
    binders = tuple(s.Binder(b.span, pattern, b.domain) for b, pattern, _ in named)
    places = tuple(
        _number(place) if hangs and isinstance(place, s.Name) else place
        for (_, _, place), hangs in zip(named, _hang(g.binders), strict=True)
    )
    place = places[0] if len(places) == 1 else s.TupleExpr(g.span, places)
    pair = s.TupleExpr(here, (place, g.element))
    kept = s.Comprehension(g.span, pair, binders, g.condition)

    second = s.PTuple(here, (s.PWild(here), s.PName(here, _VALUE)))
    values = s.Binder(here, second, s.Name(here, _PAIRS))
    generator = s.Generator(g.span, s.Name(here, _VALUE), (values,), None)
    found = s.Call(whole, call.function, (generator,))

    first = s.PTuple(here, (s.PName(here, _PLACE), s.PWild(here)))
    at = s.IndexExpr(whole, s.Name(whole, _PAIRS), (s.Name(whole, _AT),))
    part = s.Call(whole, s.Lambda(whole, (first,), s.Name(whole, _PLACE)), (at,))
    each = s.Lambda(whole, (s.PName(whole, _AT),), part)
    result = s.Call(whole, s.Rank(whole, each, (0,)), (found,))
    bind = s.Bind(g.span, s.PName(g.span, _PAIRS), None, kept)
    return s.Block(whole, (*arrays, bind, s.ExprStmt(whole, result)))


def _number(place: s.Name) -> s.Expr:
    return s.Call(place.span, s.Name(place.span, "Int"), (place,))


def _indexed(
    g: s.Generator, is_array: Callable[[s.Expr], bool]
) -> tuple[list[s.Bind], s.Generator]:
    """`e for v in x if p` as `(lambda v: e)(xs[i]) for i if (lambda v: p)(xs[i])`, and `xs = x`."""
    arrays: list[s.Bind] = []
    binders: list[s.Binder] = []
    element, condition = g.element, g.condition
    for k, b in reversed(list(enumerate(g.binders))):
        if b.domain is None or not is_array(b.domain):
            binders.insert(0, b)
            continue
        array, at = f"array {k}", f"place {k}"
        arrays.insert(0, s.Bind(b.span, s.PName(b.span, array), None, b.domain))
        binders.insert(0, s.Binder(b.span, s.PName(b.span, at), None))
        cell = s.IndexExpr(b.span, s.Name(b.span, array), (s.Name(b.span, at),))
        element = s.Call(element.span, s.Lambda(element.span, (b.pattern,), element), (cell,))
        if condition is not None:
            test = s.Lambda(condition.span, (b.pattern,), condition)
            condition = s.Call(condition.span, test, (cell,))
    return arrays, s.Generator(g.span, element, tuple(binders), condition)


def _named(p: s.Pattern, names: Iterator[int]) -> tuple[s.Pattern, s.Expr]:
    """The pattern with a name for all that it leaves out, and the value it takes apart."""
    match p:
        case s.PWild(span):
            name = f"unnamed {next(names)}"
            return s.PName(span, name), s.Name(span, name)
        case s.PTuple(span, items):
            pairs = [_named(x, names) for x in items]
            whole: s.Expr = s.TupleExpr(span, tuple(e for _, e in pairs))
            return s.PTuple(span, tuple(x for x, _ in pairs)), whole
        case s.PConstructor(span, name, tuple() as items):
            pairs = [_named(x, names) for x in items]
            whole = s.Call(span, s.Name(span, name), tuple(e for _, e in pairs))
            return s.PConstructor(span, name, tuple(x for x, _ in pairs)), whole
        case s.PName(span, name):
            return p, s.Name(span, name)
        case _:  # not irrefutable, which is told where it is bound
            return p, s.TupleExpr(p.span, ())
