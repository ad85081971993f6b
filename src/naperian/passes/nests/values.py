"""What is known of the whole numbers and conditions of loops where they stand, as lines (`lines`).

A line says exactly what a machine's number is: a sum that might wrap around is a symbol of its own,
of which nothing is known. Symbols never change: a variable that is assigned to has another line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from naperian.dtypes import DType
from naperian.loops.syntax import Apply, Expr, Load, Local, Number
from naperian.names import Lit, Var
from naperian.passes.nests.lines import (
    NUMBER,
    WORD,
    Choice,
    Known,
    Line,
    line,
    number_of,
    plus,
    symbol,
)
from naperian.sizes import Clamp, Quotient, Remainder, Size

Fact: TypeAlias = tuple[Any, ...]
"""("ge", line): it is not negative; ("ne", line); ("and" or "or", fact, fact); ("not", fact);
("named", name, fact); ("lit", bool); ("?",)"""

Implied: TypeAlias = "dict[tuple[object, bool], tuple[tuple[Line, ...], Implied]]"
"""What was found where a named condition held, or did not: lines, and what others imply there."""

LARGEST = (1 << 62) - 1  # of a size
UNKNOWN: Fact = ("?",)
_ORDERED = {"lt": (1, -1, 1), "le": (1, -1, 0), "gt": (-1, 1, 1), "ge": (-1, 1, 0)}


class Values:
    """The lines of scalars, and proofs about them."""

    def __init__(self) -> None:
        self.known = Known()
        self.now: dict[Var, Line] = {}
        self.truth: dict[Var, Fact] = {}
        self.implied: Implied = {}
        self.versions: dict[Var, object] = {}
        self.elements: dict[object, Line] = {}

    # --- numbers --------------------------------------------------------------------------------

    def opaque(self, low: int | None = None, high: int | None = None) -> Line:
        """A number of which only bounds are known."""
        new = symbol(object())
        if low is not None:
            self.known.add([plus(new, line(-low))])
        if high is not None:
            self.known.add([plus(line(high), new, -1)])
        return new

    def chosen(self, choices: list[Choice], key: object | None = None) -> Line:
        """A number that is one of several."""
        if all(c.value == choices[0].value for c in choices):
            return choices[0].value
        new = object()
        self.known.choices[new] = (key or new, choices)
        return symbol(new)

    def size(self, s: Size) -> Line:
        """An index expression."""
        out: Line = {}
        for monomial, c in s.terms:
            if not monomial:
                out = plus(out, line(c))
                continue
            factors = [self.atom(a) for a in monomial]
            product = factors[0]
            for f in factors[1:]:
                k = number_of(f)
                product = self._product(product, f) if k is None else plus({}, product, k)
            out = plus(out, product, c)
        return out

    def _product(self, a: Line, b: Line) -> Line:
        k = number_of(a)
        if k is not None:
            return plus({}, b, k)
        (x, c), (y, d) = next(iter(a.items())), next(iter(b.items()))
        if len(a) == len(b) == c == d == 1:
            return symbol(frozenset((x, y)) if x != y else (x, y))
        return self.opaque()

    def atom(self, a: object) -> Line:
        match a:
            case Var():
                return self.now.get(a) or ({} if a in self.now else symbol(a))
            case Load(buffer, at):
                return self.element(buffer, at, DType.I64)
            case Clamp(value, extent):
                return self._clamp(self.size(value), self.size(extent))
            case Quotient(x, y) | Remainder(x, y):
                return self._divided(self.size(x), self.size(y), isinstance(a, Remainder))
            case _:
                return self.opaque()

    def _clamp(self, value: Line, extent: Line) -> Line:
        last = plus(extent, line(-1))
        up = plus(last, value, -1)
        if self.known.proves(value) and self.known.proves(up):
            return value
        new = self.chosen([
            Choice(value, (value, up)), Choice(last, (last, plus({}, up, -1))), Choice(line(0)),
        ])  # fmt: skip
        self.known.add([new] if number_of(new) is None else [])
        return new

    def _divided(self, x: Line, y: Line, rest: bool) -> Line:
        """⌊x / y⌋ or what it leaves."""
        if not self.known.proves(plus(y, line(-1))):
            return self.opaque()
        new = self.opaque()
        k = number_of(y)
        if rest:
            self.known.add([new, plus(plus(y, line(-1)), new, -1)])
        elif k is not None:
            self.known.add([plus(x, new, -k), plus(plus(plus({}, new, k), line(k - 1)), x, -1)])
        elif self.known.proves(x):
            self.known.add([new, plus(x, new, -1)])
        return new

    def element(self, buffer: Var, at: tuple[Size, ...], dtype: DType) -> Line:
        """An element of an array: the same as long as nothing is stored there."""
        places = tuple([self.size(i) for i in at])
        key = (buffer, self.versions.get(buffer), tuple([frozenset(p.items()) for p in places]))
        found = self.elements.get(key)
        if found is None:
            found = self.elements[key] = self.opaque()
        self.known.add(self.of_element(buffer, places, found))
        return found

    def of_element(self, buffer: Var, at: tuple[Line, ...], found: Line) -> list[Line]:
        """What holds of all elements of an array."""
        return []

    def value(self, e: Expr) -> Line:
        """A whole number of 64 bits."""
        match e:
            case Lit(value):
                return line(int(value))
            case Local(v):
                found = self.now.get(v)
                return self.now.setdefault(v, symbol(v)) if found is None else found
            case Number(s):
                found = self.size(s)
                return found if s.plain and not any(a in self.now for a in s.atoms) else (
                    self.exact(found)
                )  # fmt: skip
            case Load(buffer, at):
                return self.element(buffer, at, DType.I64)
            case Apply("add", (x, y), DType.I64):
                return self.exact(plus(self.value(x), self.value(y)))
            case Apply("sub", (x, y), DType.I64):
                return self.exact(plus(self.value(x), self.value(y), -1))
            case Apply("neg", (x,), DType.I64):
                return self.exact(plus({}, self.value(x), -1))
            case Apply("mul", (x, y), DType.I64):
                a, b = self.value(x), self.value(y)
                k, m = number_of(a), number_of(b)
                if k is None and m is None:
                    return self.opaque()
                return self.exact(plus({}, b, k) if k is not None else plus({}, a, m or 0))
            case Apply("min" | "max" as name, (x, y), DType.I64):
                a, b = self.value(x), self.value(y)
                less = plus(b, a, -1) if name == "min" else plus(a, b, -1)
                new = self.chosen([Choice(a, (less,)), Choice(b, (plus({}, less, -1),))])
                sign = 1 if name == "min" else -1
                self.known.add([plus({}, plus(x, new, -1), sign) for x in (a, b)])
                return new
            case Apply("select", (c, x, y), DType.I64):
                return self._select(self.fact(c), x, y)
            case Apply("floordiv" | "mod" as name, (x, y), DType.I64):
                return self._divided(self.value(x), self.value(y), name == "mod")
            case Apply("bitand", (x, Lit(k)) | (Lit(k), x), DType.I64) if k >= 0:
                return self.opaque(0, int(k))
            case Apply("cast", _, DType.I64, DType.BOOL):
                return self.opaque(0, 1)
            case Apply("cast", _, DType.I64, of) if of.is_unsigned and of.bits < 64:
                return self.opaque(0, (1 << of.bits) - 1)
            case _:
                return self.opaque()

    def exact(self, a: Line) -> Line:
        """The line, if no sum of it wraps around."""
        if number_of(a) is not None or len(a) == 1:
            return a if all(abs(c) == 1 or s is NUMBER for s, c in a.items()) else self._fits(a)
        return self._fits(a)

    def _fits(self, a: Line) -> Line:
        known = self.known
        ends = plus(line(WORD), a, -1), plus(a, line(WORD))
        fits = all(known.proves(end, words=True) for end in ends)
        return a if fits else self.opaque()

    def _select(self, c: Fact, x: Expr, y: Expr) -> Line:
        choices = []
        for holds, e in ((True, x), (False, y)):
            mark, implied = len(self.known.facts), dict(self.implied)
            self.assume(c, holds)
            value = self.value(e)
            choices.append(Choice(value, self.known.back(mark)))
            self.implied = implied
        return self.chosen(choices)

    # --- conditions -----------------------------------------------------------------------------

    def fact(self, e: Expr) -> Fact:
        """What a condition says."""
        match e:
            case Lit(value):
                return ("lit", bool(value))
            case Local(v):
                return self.truth.get(v, ("named", v, UNKNOWN))
            case Apply("lt" | "le" | "gt" | "ge" as name, (x, y), _, DType.I64):
                a, b, less = _ORDERED[name]
                difference = plus(plus({}, self.value(y), a), self.value(x), b)
                return ("ge", plus(difference, line(-less)))
            case Apply("eq", (x, y), _, DType.I64):
                return ("not", ("ne", plus(self.value(x), self.value(y), -1)))
            case Apply("ne", (x, y), _, DType.I64):
                return ("ne", plus(self.value(x), self.value(y), -1))
            case Apply("and" | "or" as name, (x, y), DType.BOOL):
                return (name, self.fact(x), self.fact(y))
            case Apply("select", (c, x, Lit(False)), DType.BOOL):
                return ("and", self.fact(c), self.fact(x))
            case Apply("select", (c, Lit(True), x), DType.BOOL):
                return ("or", self.fact(c), self.fact(x))
            case Apply("not", (x,), DType.BOOL):
                return ("not", self.fact(x))
            case _:
                return UNKNOWN

    def assume(self, c: Fact, holds: bool) -> None:
        for f in self.facts_of(c, holds):
            self.known.add([f])

    def facts_of(self, c: Fact, holds: bool) -> Iterator[Line]:
        """What is not negative where a condition holds, or does not."""
        match c:
            case ("ge", a):
                yield a if holds else plus(line(-1), a, -1)
            case ("ne", a) if holds:
                for side in (a, plus({}, a, -1)):
                    if self.known.proves(side):
                        yield plus(side, line(-1))
            case ("ne", a):
                yield from (a, plus({}, a, -1))
            case ("not", x):
                yield from self.facts_of(x, not holds)
            case ("and" | "or" as name, x, y) if holds == (name == "and"):
                yield from self.facts_of(x, holds)
                yield from self.facts_of(y, holds)
            case ("and" | "or", x, y):
                for one, other in ((x, y), (y, x)):
                    if self.decided(one, not holds):
                        yield from self.facts_of(other, holds)
            case ("named", name, x):
                facts, others = self.implied.get((name, holds), ((), {}))
                yield from facts
                self.implied.update(others)
                yield from self.facts_of(x, holds)
            case _:
                pass

    def decided(self, c: Fact, holds: bool) -> bool:
        """Whether a condition is known to hold, or not to."""
        match c:
            case ("lit", value):
                return bool(value) is holds
            case ("ge", a):
                return self.known.proves(a if holds else plus(line(-1), a, -1))
            case ("not", x):
                return self.decided(x, not holds)
            case ("ne", a) if not holds:
                return self.known.proves(a) and self.known.proves(plus({}, a, -1))
            case ("ne", a):
                minus = plus({}, a, -1)
                return any(self.known.proves(plus(x, line(-1))) for x in (a, minus))
            case ("and" | "or" as name, x, y):
                each = (self.decided(z, holds) for z in (x, y))
                return all(each) if holds == (name == "and") else any(each)
            case ("named", _, x):
                return self.decided(x, holds)
            case _:
                return False
