"""What is known of sizes, and proofs from it.

A fact is a polynomial that is not negative. `Facts.proves(goal)` shows that `goal >= 0` follows:
it assumes `goal <= -1` and looks for a contradiction by Fourier-Motzkin elimination over the
rationals, each monomial taken as an unknown of its own and each inequality rounded to integers.
That is sound, and complete enough for fence posts, stencils, parities, concatenations and
flattened indices; what it cannot show the user states with `assert`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from math import gcd

from naperian.names import Var
from naperian.node import kept, node
from naperian.sizes import (
    ONE,
    ZERO,
    Atom,
    Clamp,
    Monomial,
    Quotient,
    Remainder,
    Size,
    Term,
    atom,
    size,
    substitute,
)
from naperian.sums import exact

_LIMIT = 400  # inequalities held at once before the search gives up (an honest "cannot prove")


@node
class Apart:
    """A polynomial that is not 0: one that is known to have a sign is at least 1 away from it."""

    poly: Size


class Doubt:
    """Of a test of integers, which may have wrapped around, whether a proof hangs on it; then it is
    made so that nothing in it wraps."""

    needed = False


@node
class Doubted:
    """A polynomial that is not negative if nothing wraps in a test."""

    fact: Size
    test: Doubt


@node
class Facts:
    """Polynomials known to be at least 0. Immutable: a scope extends its parent's facts."""

    known: tuple[Size, ...] = ()
    doubted: tuple[Doubted, ...] = ()

    def and_(self, *more: Size) -> Facts:
        """These facts and some more (each a polynomial that is not negative)."""
        new = tuple(m for m in more if m.constant is None and m not in self.known)
        return Facts(self.known + new, self.doubted) if new else self

    def with_apart(self, apart: Iterable[Apart]) -> Facts:
        """These facts, and what inequalities (`!=`) say beside them."""
        more = []
        for a in apart:
            if self.proves(a.poly):
                more.append(a.poly - 1)
            elif self.proves(-a.poly):
                more.append(-a.poly - 1)
        return self.and_(*more)

    def proves(self, goal: Size) -> bool:
        """Whether `goal >= 0` follows from what is known."""
        number = goal.constant
        if number is not None and number >= 0:
            return True
        return self._asked(lambda facts: _proved(facts, goal))

    def _asked(self, follows: Callable[[Facts], bool]) -> bool:
        """Whether something follows from what is sure, or from as few tests besides as it takes."""
        if follows(Facts(self.known) if self.doubted else self):
            return True
        used = self.doubted
        if not used or not follows(Facts(self.known + tuple([d.fact for d in used]))):
            return False
        for d in self.doubted:
            others = tuple([x for x in used if x.test is not d.test])
            if follows(Facts(self.known + tuple([x.fact for x in others]))):
                used = others
        for d in used:
            d.test.needed = True
        return True

    def proves_equal(self, a: Size, b: Size) -> bool:
        """Whether `a == b` follows from what is known."""
        return a == b or (self.proves(a - b) and self.proves(b - a))

    @property
    def absurd(self) -> bool:
        """Whether the facts contradict each other, so that this place is never reached."""
        return self._asked(lambda facts: _contradiction(list(facts.known)))


@lru_cache(maxsize=4096)
def _proved(facts: Facts, goal: Size) -> bool:
    """`proves`. The passes ask the same of every operation that reads a view."""
    for a in goal.atoms:
        if isinstance(a, Clamp) and a.extent == a.value + 1:  # the value, or 0 if that is more
            return all(
                facts.and_(case).proves(_with(goal, a, s))
                for case, s in ((a.value, a.value), (-a.value - 1, ZERO))
            )
    if _contradiction([-goal - 1, *_relevant(goal, facts.known)]):
        return True
    meant = _written_out(goal, facts.known)
    return meant is not None and _proved(facts, meant)


def _written_out(goal: Size, known: tuple[Size, ...]) -> Size | None:
    """The goal with a name in it replaced by the `min`, `max` or absolute value it is known to
    equal, or to be no further than, whose cases are looked at one by one."""
    named = {a for a in goal.atoms if isinstance(a, Var)}
    for f in known if named else ():
        if not any(isinstance(a, Clamp) and a.extent == a.value + 1 for a in f.atoms):
            continue
        equal = -f in known
        for m, c in f.terms:
            v = m[0] if len(m) == 1 else None
            if v not in named or abs(c) != 1 or v in _deep(rest := f - size(v) * c):
                continue
            alone = v not in _deep(goal - size(v) * (here := goal.coefficient(v)))
            if equal or (alone and here * c > 0):
                return _with(goal, v, rest * -c)
    return None


def _with(goal: Size, a: Atom, value: Size) -> Size:
    return substitute(goal, lambda b: value if b == a else None)


def _relevant(goal: Size, known: tuple[Size, ...]) -> list[Size]:
    """The facts connected to the goal through shared atoms, with bounds of derived atoms."""
    atoms = set(_deep(goal))
    facts = list(known)
    picked: list[Size] = []
    changed = True
    while changed:
        changed = False
        rest = []
        for f in facts:
            mine = _deep(f)
            if mine & atoms:
                picked.append(f)
                changed = changed or not mine <= atoms
                atoms |= mine
            else:
                rest.append(f)
        facts = rest
    for a in list(atoms):
        picked.extend(_bounds(a, known))
    return picked


@kept
def _deep(s: Size) -> frozenset[Atom]:
    """Every atom, also inside those of sizes."""
    out: set[Atom] = set()
    for a in s.atoms:
        out.add(a)
        match a:
            case Quotient(x, y) | Remainder(x, y) | Clamp(x, y):
                out |= _deep(x) | _deep(y)
            case _:
                pass
    return frozenset(out)


def _bounds(a: object, known: tuple[Size, ...]) -> list[Size]:
    """What holds of a derived atom whatever else is known."""
    match a:
        case Quotient(above, below):
            if exact(above, below):
                rest = above - below * atom(a)
                return [rest, -rest]
            return _divided(above, below, known)
        case Remainder(above, below):
            return _divided(above, below, known)
        case Clamp(value, extent) if extent == value + 1:
            c = atom(a)
            return [c, c - value]
        case Clamp(_, extent):
            c = atom(a)
            return [c, extent - 1 - c]
        case _:
            return []


def _divided(above: Size, below: Size, known: tuple[Size, ...]) -> list[Size]:
    """What holds of ⌊above / below⌋ and of what it leaves. Of a divisor that may be zero or less,
    nothing is said."""
    if not _positive(below, known):
        return []
    left = atom(Remainder(above, below))
    rest = above - below * atom(Quotient(above, below)) - left
    return [left, below - 1 - left, rest, -rest]


@lru_cache(maxsize=4096)
def _positive(s: Size, known: tuple[Size, ...]) -> bool:
    """Whether `s >= 1` is known, without what follows from divisions."""
    number = s.constant
    return number >= 1 if number is not None else _contradiction([-s, *known])


def at_least_zero(v: Var) -> Size:
    """The fact that a size is not negative."""
    return size(v)


def _contradiction(facts: list[Size]) -> bool:
    """Whether no rational assignment satisfies all facts: eliminate monomials one by one."""
    facts = _with_products(facts)
    rows: dict[frozenset[Term], int] = {}

    def add(row: dict[Monomial, int]) -> bool:
        """Keep the tightest row per direction; True on an outright contradiction."""
        constant = row.pop((), 0)
        row = {m: c for m, c in row.items() if c}
        if not row:
            return constant < 0
        g = 0
        for c in row.values():
            g = gcd(g, c)
        key = frozenset([(m, c // g) for m, c in row.items()])
        bound = constant // g
        if key not in rows or bound < rows[key]:
            rows[key] = bound
        opposite = frozenset([(m, -c) for m, c in key])
        return opposite in rows and rows[opposite] + rows[key] < 0

    for f in facts:
        if add(dict(f.terms)):
            return True
    while rows:
        ups: dict[Monomial, int] = {}
        downs: dict[Monomial, int] = {}
        rounded: set[Monomial] = set()
        for key in rows:
            for m, c in key:
                side = ups if c > 0 else downs
                side[m] = side.get(m, 0) + 1
                if abs(c) != 1:
                    rounded.add(m)
        alone = ups.keys() ^ downs.keys()
        if alone:  # as large, or as small, as you like: what mentions such a one says nothing
            rows = {key: b for key, b in rows.items() if alone.isdisjoint([m for m, _ in key])}
            continue
        # the cheapest monomial to eliminate, of those that lose nothing of being an integer
        cost = {m: (m in rounded, n * downs[m]) for m, n in ups.items()}
        least = min(cost.values())
        cheapest = [m for m in cost if cost[m] == least]
        target = cheapest[0] if len(cheapest) == 1 else min(cheapest, key=repr)
        plus, minus, rest = [], [], {}
        for key, bound in rows.items():
            c = dict(key).get(target, 0)
            if c > 0:
                plus.append((key, bound, c))
            elif c < 0:
                minus.append((key, bound, -c))
            else:
                rest[key] = bound
        rows = rest
        for key1, bound1, c1 in plus:
            for key2, bound2, c2 in minus:
                row: dict[Monomial, int] = {(): bound1 * c2 + bound2 * c1}
                for m, c in key1:
                    row[m] = row.get(m, 0) + c * c2
                for m, c in key2:
                    row[m] = row.get(m, 0) + c * c1
                if add(row):
                    return True
        if len(rows) > _LIMIT:
            return False
    return False


def _with_products(facts: list[Size]) -> list[Size]:
    """When a product of atoms occurs, products of facts about its factors may be needed:
    `i <= n - 1` times `m >= 0` gives `i * m <= n * m - m`. One round, for pairs; what squares
    that gives are not negative."""
    facts = facts + _longer(facts)
    products = {m for f in facts for m, _ in f.terms if len(m) == 2}
    if not products:
        return facts
    linear = [f for f in facts if all(len(m) <= 1 for m, _ in f.terms) and f.constant is None]
    factors = {a for m in products for a in m}
    about = [f for f in linear if any(a in factors for a in f.atoms)]
    if len(about) > 24:
        return facts
    new = []
    inside = [f.atoms for f in about]
    either = products | {(b, a) for a, b in products}
    for k, f in enumerate(about):
        partners = {b for a, b in either if a in inside[k]}
        for g, atoms in zip(about[k:], inside[k:], strict=True):
            if partners.isdisjoint(atoms):
                continue
            p = f * g
            if any(m in products for m, _ in p.terms):
                new.append(p)
    squares = {m for p in new for m, _ in p.terms if len(m) == 2 and m[0] == m[1]}
    return facts + new + [atom(m[0]) * atom(m[0]) for m in sorted(squares - products, key=repr)]


def _longer(facts: list[Size]) -> list[Size]:
    """Products of three and more are not negative if no factor is that is there an odd number of
    times."""
    longer = {m for f in facts for m, _ in f.terms if len(m) > 2}
    if not longer:
        return []
    known = {a for f in facts for a in _not_negative(f)}
    odd = {m: {a for a in m if m.count(a) % 2} for m in longer}
    return [Size(((m, 1),)) for m in sorted(longer, key=repr) if odd[m] <= known]


def _not_negative(fact: Size) -> tuple[Atom, ...]:
    """The atom that a fact about it alone says this of, as `3 * a - 2 >= 0` does."""
    match [(m, c) for m, c in fact.terms if m]:
        case [((a,), c)] if c > 0 and fact.offset <= 0:
            return (a,)
        case _:
            return ()


__all__ = ["ONE", "Facts", "at_least_zero"]
