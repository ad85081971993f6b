"""What is known of index expressions where they stand, and their laws.

An index lies in 0 … extent-1, a size is not negative, a guard states its fact, and an assertion
at the top of a function holds after it. From these `facts` proves that a clamp does nothing or
which way a comparison goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from naperian.ainf.syntax import Binding, Check, Guard, Index, Number, Op, Program, Read
from naperian.ainf.walk import variables
from naperian.facts import Facts
from naperian.names import Lit, Var
from naperian.sizes import (
    ZERO,
    Atom,
    Clamp,
    Monomial,
    Quotient,
    Remainder,
    Size,
    atom,
    clamp,
    size,
    substitute,
    unwrapped,
)

IndexLaw: TypeAlias = Callable[[Atom, Facts], Size | None]


def facts_about(
    s: Size, indices: Mapping[Var, Index], sizes: frozenset[Var], guards: tuple[Guard, ...],
    known: Facts,
) -> Facts:  # fmt: skip
    """What is known where `s` stands: the ranges of all it mentions, and the guards' facts."""
    facts = known.and_(*(g.fact for g in guards if g.fact is not None))
    more: list[Size] = []
    seen: set[Var] = set()
    todo = list(variables(s))
    for fact in facts.known:
        todo += variables(fact)
    while todo:
        v = todo.pop()
        if v in seen:
            continue
        seen.add(v)
        if v in sizes:
            more.append(size(v))
        elif v in indices:
            extent = indices[v].extent
            more.append(size(v))
            if extent is not None:
                more.append(extent - 1 - size(v))
                within = extent.single
                if isinstance(within, Clamp):  # there is an index, so this is not clamped to 0
                    more.append(within.value - 1 - size(v))
                todo += variables(extent)
    return facts.and_(*dict.fromkeys(more))


def checked(program: Program) -> Iterator[Size]:
    """What is at least 0, or the run stops before all else."""
    made = {b.var: b for b in program.bindings}
    for b in program.bindings:
        if isinstance(b.prim, Check) and not b.guards and isinstance(b.prim.condition, Read):
            match made.get(b.prim.condition.var):
                case Binding(prim=Op("ge", (Number(less), Lit(0)))):
                    yield less
                case _:
                    pass


def clamp_in_range(a: Atom, facts: Facts) -> Size | None:
    """clamp(e, n) = e if 0 <= e < n;  = 0 if e <= 0;  = n - 1 if e >= n - 1 and n >= 1"""
    if not isinstance(a, Clamp):
        return None
    e, n = a.value, a.extent
    low, high = facts.proves(e), facts.proves(n - 1 - e)
    if low and high:
        return e
    if facts.proves(-e):
        return ZERO
    return n - 1 if facts.proves(e - n + 1) and facts.proves(n - 1) else None


def whole_quotient(a: Atom, facts: Facts) -> Size | None:
    """(q * m + r) // m = q if 0 <= r < m;  = q + r // m if m >= 1"""
    if not isinstance(a, Quotient):
        return None
    q, r = _divided(a.above, a.below)
    if facts.proves(r) and facts.proves(a.below - 1 - r):
        return q
    return q + atom(Quotient(r, a.below)) if q != ZERO and facts.proves(a.below - 1) else None


def whole_remainder(a: Atom, facts: Facts) -> Size | None:
    """wrap(q * m + r, m) = r if 0 <= r < m;  = wrap(r, m) if m >= 1"""
    if not isinstance(a, Remainder):
        return None
    above = unwrapped(a.above, a.below, _is_far)
    q, r = _divided(above, a.below)
    if facts.proves(r) and facts.proves(a.below - 1 - r):
        return r
    if q != ZERO and facts.proves(a.below - 1):
        return atom(Remainder(r, a.below))
    return atom(Remainder(above, a.below)) if above is not a.above else None


INDEX_LAWS: tuple[IndexLaw, ...] = (clamp_in_range, whole_quotient, whole_remainder)


def _divided(above: Size, below: Size) -> tuple[Size, Size]:
    """`above` as q * below + r, where `below` is one term; r keeps what is no multiple, or may have
    wrapped around: q is of indices and sizes alone."""
    if len(below.terms) != 1:
        return ZERO, above
    (divisor, k) = below.terms[0]
    q: list[tuple[Monomial, int]] = []
    r = ZERO
    for m, c in above.terms:
        rest = _without(m, divisor)
        if rest is None or c % k or not _is_far(Size(((rest, 1),))):
            r = r + Size(((m, c),))
        else:
            q.append((rest, c // k))
    total = ZERO
    for m, c in q:
        total = total + Size(((m, c),))
    return total, r


def _is_far(s: Size) -> bool:
    """Whether a number is far from the end of the integers: what is read is data."""
    return s.plain


def _without(m: Monomial, divisor: Monomial) -> Monomial | None:
    rest = list(m)
    for a in divisor:
        if a not in rest:
            return None
        rest.remove(a)
    return tuple(rest)


def simpler(s: Size, facts: Callable[[Size], Facts], seen: Callable[[IndexLaw], None]) -> Size:
    """An index expression by the index laws, innermost atoms first."""
    return s if s.plain else substitute(s, lambda a: _simpler_atom(a, facts, seen))


def _simpler_atom(
    a: Atom, facts: Callable[[Size], Facts], seen: Callable[[IndexLaw], None]
) -> Size | None:
    match a:
        case Clamp(x, n):
            new = clamp(simpler(x, facts, seen), simpler(n, facts, seen))
        case Quotient(x, n):
            new = simpler(x, facts, seen) // simpler(n, facts, seen)
        case Remainder(x, n):
            new = simpler(x, facts, seen) % simpler(n, facts, seen)
        case _:
            return None
    single = new.single
    if isinstance(single, Clamp | Quotient | Remainder):
        known = facts(new)
        for rule in INDEX_LAWS:
            found = rule(single, known)
            if found is not None:
                seen(rule)
                return found
    return new
