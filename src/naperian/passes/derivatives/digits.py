"""Parts of tables that are seen under other index sets, where a place tells not all digits.

    v[i] to i // (2·h), i % (2·h) % h if i % (2·h) // h == 0        v[2·h·t + r] to t, r
    v[i] to i // (2·h), i % (2·h) % h if i % (2·h) // h != 0        v[2·h·t + h + r] to t, r

so a place reads what it is sent: halves that were written one behind the other, or the quarters of
a transform. A digit that no place tells has few values: it is each of those for which a condition
that asks for it holds, else it is summed over. In memory, one would be added after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TypeAlias

from naperian.ainf.syntax import Guard, Number, Op, Operand, Read
from naperian.ainf.walk import rewrite, rewrite_guards, rewrite_size, size_of, variables
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.node import node
from naperian.passes.bindings.builder import Builder
from naperian.passes.derivatives.parts import At, Part
from naperian.passes.derivatives.windows import Domain
from naperian.sizes import ZERO, Atom, Quotient, Remainder, Size, divided, size, substitute

_FEW = 4  # so many values of a digit are looked at one by one


def by_digits(b: Builder, part: Part, domain: Domain, target: At) -> list[Part]:
    """The part with those of its indices taken apart that are divided where it goes, for each value
    of a digit that its guards ask for."""
    whole, asked = part, None
    digits: list[Var] = []
    while (found := _divided(b, part, domain, target)) is not None:
        asked = [_asked(b, g) for g in part.guards] if asked is None else asked
        asked = [a and _Asked(found.told(a.less), a.equal) for a in asked]
        part = found.apart(part)
        domain = (*(v for v in domain if v != found.index), *found.digits)
        digits = [*(d for d in digits if d != found.index), *found.digits]
    told = {v for e in part.at for v in variables(e)}
    digits = [d for d in digits if d not in told]
    if asked is None or any(_few(b, d) is None for d in digits):
        return [whole]
    sent = [(part, asked)]
    for d in digits:
        sent = [each for p, a in sent for each in _each(b, p, a, d)]
    return [p for p, _ in sent]


@node
class _Asked:
    """A guard asks whether a difference is 0, or whether it is not."""

    less: Size
    equal: bool

    @property
    def holds(self) -> bool | None:
        """Whether it does, if that is known."""
        k = self.less.constant
        return None if k is None else (k == 0) == self.equal


@node
class _Divided:
    """An index that is `by` times its first digit, plus its last one."""

    index: Var
    by: Size
    digits: tuple[Var, Var]

    @property
    def whole(self) -> Size:
        first, last = self.digits
        return self.by * first + last

    def apart(self, part: Part) -> Part:
        """The part with the digits for the index."""
        names = {self.index: self.whole}
        over = tuple(x for v in part.over for x in (self.digits if v == self.index else (v,)))
        at = tuple(map(self.told, part.at))
        return Part(over, at, rewrite(part.value, names), rewrite_guards(part.guards, names))

    def told(self, e: Size) -> Size:
        """A number that is told by the digits."""

        def digit(a: Atom) -> Size | None:
            match a:
                case Quotient(above, below) if (above, below) == (size(self.index), self.by):
                    return size(self.digits[0])
                case Remainder(above, below) if (above, below) == (size(self.index), self.by):
                    return size(self.digits[1])
                case _:
                    return None

        return rewrite_size(substitute(e, digit), {self.index: self.whole})


def _divided(b: Builder, part: Part, domain: Domain, target: At) -> _Divided | None:
    """How an index is divided of which a place tells digits alone."""
    for a in (a for e in part.at for a in _divisions(e)):
        i = a.above.single
        if not isinstance(i, Var) or i not in domain or b.closed(variables(a.below)) & {*domain}:
            continue
        if any(i in b.closures[j] for j in domain if j != i):
            continue  # others go as far as it says
        if any(i in variables(substitute(e, partial(_without, i, a.below))) for e in part.at):
            continue
        count = _count(b, part, i, a.below, target)
        if count is not None and b.indices[i].condition is None:
            name = b.indices[i].name
            return _Divided(i, a.below, (b.index(count, name), b.index(a.below, name)))
    return None


def _divisions(e: Size) -> Iterator[Quotient | Remainder]:
    """What a place is told by, also by what is divided once more."""
    for a in e.atoms:
        if isinstance(a, Quotient | Remainder):
            yield a
            yield from _divisions(a.above)


def _without(i: Var, by: Size, a: Atom) -> Size | None:
    """Nothing, for a digit of an index."""
    is_digit = isinstance(a, Quotient | Remainder) and (a.above, a.below) == (size(i), by)
    return ZERO if is_digit else None


def _count(b: Builder, part: Part, i: Var, by: Size, target: At) -> Size | None:
    """How many values the first digit of an index has, if those of the last are as many for each.
    Where an axis has no place for what is left over, that is sent nowhere."""
    n = b.extent(i)
    if n is None:
        return None
    for e, x in zip(part.at, target, strict=True):
        if e.single == Quotient(size(i), by) and isinstance(x.single, Var):
            if b.extent(x.single) == n // by:
                return n // by
    return divided(n, by)


def _few(b: Builder, digit: Var) -> int | None:
    """How many values a digit has, if these are few."""
    n = b.extent(digit)
    count = None if n is None else n.constant
    return count if count is not None and count <= _FEW else None


_Sent: TypeAlias = tuple[Part, list[_Asked | None]]


def _each(b: Builder, part: Part, asked: list[_Asked | None], digit: Var) -> list[_Sent]:
    """The part for each value of a digit, if its guards ask for it."""
    count = _few(b, digit)
    if count is None or not any(a is not None and digit in variables(a.less) for a in asked):
        return [(part, asked)]
    out: list[_Sent] = []
    over = tuple(i for i in part.over if i != digit)
    for k in range(count):
        names = {digit: size(k)}
        here = [a and _Asked(rewrite_size(a.less, names), a.equal) for a in asked]
        answers = [None if a is None else a.holds for a in here]
        if False not in answers:
            guards = rewrite_guards(part.guards, names)
            left = [j for j, answer in enumerate(answers) if answer is None]
            value, open_ = rewrite(part.value, names), tuple(guards[j] for j in left)
            out.append((Part(over, part.at, value, open_), [here[j] for j in left]))
    return out


def _asked(b: Builder, g: Guard) -> _Asked | None:
    """The difference that a guard asks for, if it compares numbers."""
    read = g.operand
    if not isinstance(read, Read):
        return None
    made = next((x for x in b.bindings if x.var == read.var), None)
    if made is None or not isinstance(made.prim, Op) or made.prim.name not in ("eq", "ne"):
        return None
    if not all(map(_is_number, made.prim.args)):
        return None
    names = dict(zip(made.context, read.at, strict=True))
    x, y = (size_of(rewrite(o, names)) for o in made.prim.args)
    return _Asked(x - y, (made.prim.name == "eq") == g.holds)


def _is_number(o: Operand) -> bool:
    return isinstance(o, Number) or (isinstance(o, Lit) and o.dtype is DType.I64)
