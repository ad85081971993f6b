"""Between what the Int lies that a definition gives, which a call does not show.

    def low(p: Float) -> Int = max(Int(ceil(p)), 0)        low(p) >= 0
    def high(p: Float, n: Int) -> Int = min(Int(p), n)     high(p, n) <= n
    for k in low(z)..high(z, n): v[k] …                    so k is an index of Fin(n)

It is proved once, where the body stands; a caller knows it of the number, under a name of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from naperian.core import syntax as core
from naperian.facts import Facts
from naperian.frontend.fitting import fits
from naperian.frontend.naming import stands_for
from naperian.frontend.scope import Scope
from naperian.frontend.typed import Once, Typed, Value
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.sizes import Clamp, Quotient, Remainder, Size, atom, rename, size, variables
from naperian.substitution import Substitution
from naperian.types import INT


def bounds(
    w: Walk, scope: Scope, value: Typed, own: Collection[Var]
) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
    """What an Int at a place is at least and at most: a number, and some of these."""
    if value.poly is None:
        return (), ()
    with w.inside(scope):
        if not fits(w, value.poly):
            return (), ()
        it, facts = w.solver.zonk_size(value.poly), Facts(scope.facts().known)
    numbers = sorted({n + k for n in _numbers(it) for k in (-1, 0, 1)})
    low = [size(n) for n in reversed(numbers) if facts.proves(it - n)][:1]
    high = [size(n) for n in numbers if facts.proves(size(n) - it)][:1]
    low += [size(v) for v in own if facts.proves(it - atom(v))]
    for v in own:
        high += [x for x in (size(v) - 1, size(v)) if facts.proves(x - it)][:1]
    return tuple(low), tuple(high)


def _numbers(s: Size) -> Iterator[int]:
    """The numbers in a size, also inside of its atoms, and those that they take away."""
    yield from (s.offset, -s.offset)
    for a in s.atoms:
        match a:
            case Clamp(x, y) | Quotient(x, y) | Remainder(x, y):
                yield from _numbers(x)
                yield from _numbers(y)
            case _:
                pass


def known(
    w: Walk, d: core.Definition, at: Substitution, given: list[Typed], made: Typed
) -> Typed:
    """A call of a definition, as a number that lies where the definition says."""
    if not (d.at_least or d.at_most) or made.type != INT:
        return made
    v, build = stands_for(w, "number", made.span), made.build
    w.unnamed[v] = made.span.text
    for bound, sign in (*((x, 1) for x in d.at_least), *((x, -1) for x in d.at_most)):
        here = _at(w, d, at, given, bound)
        if here is not None:
            w.scope.assume((atom(v) - here) * sign)
    once = Once(build, lambda: core.Ref(v))
    return Typed(INT, once, made.span, atom(v), ((v, Value(build, once)),))


def _at(
    w: Walk, d: core.Definition, at: Substitution, given: list[Typed], bound: Size
) -> Size | None:
    """A bound in terms of the arguments, if nothing wraps in them."""
    names: dict[Var, Size] = {}
    for p, a in zip(d.params, given, strict=True):
        if p.var in variables(bound):
            if a.poly is None or not fits(w, a.poly):
                return None
            names[p.var] = a.poly
    return rename(at.size(bound), names)
