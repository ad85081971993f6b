"""Where flattening stands, and making bindings there.

A `Place` knows the loops (`scope`) and conditions (`guards`) around the expression being
flattened, what the variables of core mean (`env`), and makes bindings accordingly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

from naperian import types
from naperian.ainf.syntax import Check, Guard, Number, Operand, Read, Trips
from naperian.ainf.walk import (
    Names,
    atoms,
    free,
    map_guards,
    number,
    rewrite,
    size_of,
    variables,
)
from naperian.broken import Broken
from naperian.dtypes import DType
from naperian.facts import Facts
from naperian.names import Lit, Var
from naperian.passes.bindings.builder import Builder, Guards
from naperian.passes.bindings.narrow import narrow_last
from naperian.passes.bindings.values import Truth, Value, extents, number_of
from naperian.prims import Math
from naperian.sizes import ONE, Atom, Clamp, Remainder, Size, clamp, size
from naperian.sizes import substitute as substitute_size
from naperian.source import NOWHERE, Span
from naperian.types import Fin, Range, Reverse, Set

_LOGIC = ("and", "or", "not")
_ORDER = ("lt", "le", "gt", "ge", "eq", "ne")


def _narrower(least: Callable[[Operand], Operand], s: Size) -> Size:
    """A size in which what is read has only the indices that it needs."""
    found = least(Number(s))
    assert isinstance(found, Number)
    return found.value


class Place:
    """The surroundings of an expression. `tests` remembers how Booleans were made, for the
    facts their guards state."""

    def __init__(
        self, name: str, origin: Span, sizes: tuple[Var, ...], facts: tuple[Size, ...],
        math: Math,
    ) -> None:
        self.math = math
        self.origin = origin
        self.facts = Facts(tuple(size(v) for v in sizes) + facts)
        self.env: dict[Var, Value] = {}
        self.scope: tuple[Var, ...] = ()
        self.guards: Guards = ()
        self.tests: dict[Var, tuple[str, tuple[Operand, ...]]] = {}
        self.failures: dict[tuple[str, Span], int] = {}
        # what was asked outside of all loops and conditions, and was checked there
        self.answers: dict[tuple[str, tuple[Operand, ...]], Read] = {}
        self.passed: set[Operand] = set()
        # of what does not depend on all that is around its place: that
        self.inside: dict[Var, tuple[tuple[Var, ...], Guards]] = {}
        self.numbers: dict[Var, tuple[int, int]] = {}  # between which a choice of numbers lies
        self.b = Builder(name, sizes)

    # sizes and sets, with the variables of core replaced

    def size(self, s: Size) -> Size:
        def replaced(a: Atom) -> Size | None:
            return number_of(self.env[a]) if isinstance(a, Var) and a in self.env else None

        return substitute_size(s, replaced)

    def set(self, s: Set) -> Set:
        match s:
            case Fin(n):
                return Fin(self.size(n))
            case Range(low, high):
                return Range(self.size(low), self.size(high))
            case Reverse(inner):
                return Reverse(self.set(inner))
            case types.Sum(left, right):
                return types.sum_of(self.set(left), self.set(right))
            case types.Slice(inner, start, step, n):
                return types.Slice(
                    self.set(inner), self.size(start), self.size(step), self.size(n)
                )
            case types.TupleSet(sets):  # of what its elements are called nothing depends any more
                return types.TupleSet(tuple(self.set(x) for x in sets))
            case _:
                return s

    def indices(self, s: Set, name: str) -> tuple[Var, ...]:
        """Fresh indices for the components of a set."""
        shape = extents(s)
        if len(shape) == 1:
            return (self.b.index(shape[0], name),)
        return tuple(self.b.index(n, f"{name}{k}") for k, n in enumerate(shape))

    def count(self, s: Set) -> Size:
        """The number of elements, never negative."""
        product = ONE
        for n in extents(s):
            product = product * (n if self.natural(n) else clamp(n, n + 1))
        return product

    def natural(self, s: Size) -> bool:
        if all(c >= 0 and all(self.natural_atom(a) for a in m) for m, c in s.terms):
            return True
        return self.facts.proves(s)

    def natural_atom(self, a: Atom) -> bool:
        match a:
            case Var() | Clamp() | Trips():
                return True
            case Remainder(_, below):
                return self.natural(below)
            case _:
                return False

    # making bindings

    def op(
        self, name: str, args: tuple[Operand, ...], dtype: DType, origin: Span = NOWHERE
    ) -> Read:
        once = dtype is DType.BOOL and not self.guards
        if once and (name, args) in self.answers:
            return self.answers[name, args]
        made = self.b.op(name, args, dtype, self.guards, origin)
        if once and not made.at:
            self.answers[name, args] = made
        if len(made.at) < len(self.scope) or len(self.b.guards[made.var]) < len(self.guards):
            self.inside[made.var] = self.scope, self.guards
        if name in _LOGIC or name in _ORDER or (name == "select" and dtype is DType.BOOL):
            self.tests[made.var] = (name, args)
        return made

    def narrowed(
        self, start: int, whole: Collection[Var] = ()
    ) -> Callable[[Operand], Operand] | None:
        """`narrow_last`, after which conditions still say what is asked in them."""
        made = self.b.bindings[start:]
        least = narrow_last(self.b, start, self.math, whole)
        if least is not None:
            for v in (b.var for b in made if b.var in self.tests):
                name, args = self.tests[v]
                self.tests[v] = name, tuple(map(least, args))
            for v in (b.var for b in made if b.var in self.inside):
                scope, guards = self.inside[v]
                self.inside[v] = scope, map_guards(guards, least, partial(_narrower, least))
        return least

    def check(self, holds: Operand, message: str, origin: Span) -> None:
        code = self.failure(message, origin)
        context = self.b.order(self.b.closed(self.scope))
        same = self.same(holds, context)
        for i in same:  # nothing is asked where there are no rounds
            extent = self.b.extent(i)
            assert extent is not None
            none = self.op("lt", (number(extent), Lit(1, DType.I64)), DType.BOOL)
            holds = self.op("or", (holds, none), DType.BOOL)
        context = tuple(i for i in context if i not in same)
        if holds in self.passed:
            return
        if not context and not self.guards:
            self.passed.add(holds)
        self.b.add(Check(holds, code), context, self.guards, DType.BOOL, origin, Var("check"))

    def same(self, holds: Operand, context: tuple[Var, ...]) -> list[Var]:
        """The loops of a context whose rounds all ask the same, inner ones first, if how many there
        are is known outside them: not that of a condition, which may fail before the first."""
        asked = self.b.closed([*free(holds), *(v for g in self.guards for v in free(g.operand))])
        out: list[Var] = []
        for i in reversed(context):
            inner = any(i in self.b.closures[j] for j in context if j != i and j not in out)
            index = self.b.indices[i]
            counted = index.extent is not None and index.condition is None
            if i not in asked and not inner and counted:
                out.append(i)
                asked |= self.b.closures[i] - {i}
        return out

    def failure(self, message: str, origin: Span) -> int:
        return self.failures.setdefault((message, origin), len(self.failures) + 1)

    def operand(self, value: Value) -> Operand:
        """A scalar as an operand."""
        match value:
            case Number(s):
                read = s.single
                if isinstance(read, Read) and self.b.dtype(read) is DType.I64:
                    return read
                return value
            case Read() | Lit():
                return value
            case Truth(s):
                k = s.constant
                if k is not None:
                    return Lit(bool(k), DType.BOOL)
                single = s.single
                if isinstance(single, Read) and self.b.dtype(single) is DType.BOOL:
                    return single
                return self.op("ne", (number(s), Lit(0, DType.I64)), DType.BOOL)
            case _:
                raise Broken("a table or tuple is used as a scalar")

    # conditions

    def guard(self, condition: Operand, holds: bool) -> Iterator[Guard]:
        """A condition as guards: conjunctions fall apart, comparisons of sizes state facts."""
        name = ""
        args: tuple[Operand, ...] = ()
        if isinstance(condition, Read) and condition.var in self.tests:
            name, args = self.tests[condition.var]
            context = self.b.contexts[condition.var]
            names: Names = dict(zip(context, condition.at, strict=True))
            args = tuple(rewrite(a, names) for a in args)
        if name == "not":
            yield from self.guard(args[0], not holds)
        elif (name, holds) in (("and", True), ("or", False)):
            for a in args:
                yield from self.guard(a, holds)
        elif name == "select" and args[1 if not holds else 2] == Lit(not holds, DType.BOOL):
            for a in (args[0], args[2 if not holds else 1]):  # `c and x`, or not (`c or y`)
                yield from self.guard(a, holds)
        elif name in _ORDER and all(self.b.dtype(a) is DType.I64 for a in args):
            facts = _facts(name, size_of(args[0]), size_of(args[1]), holds)
            for fact in facts or (None,):
                yield Guard(condition, holds, fact)
        else:
            yield Guard(condition, holds)

    def telling(self, guards: Guards) -> Guards:
        """The guards without those that one before them says as well: where `c or x` does not hold,
        neither does `c`."""
        out: list[Guard] = []
        said: set[tuple[Operand, bool]] = set()
        for g in guards:
            if (g.operand, g.holds) not in said:
                out.append(g)
                parts = ((p.operand, p.holds) for p in self.guard(g.operand, g.holds))
                said.update(p for p in parts if p != (g.operand, g.holds))
        return tuple(out)

    def arm(self, value: Value, guards: Guards) -> Operand:
        """A side of a choice as an operand that may be read on the other side, too: a read that
        is in range only here becomes a guarded binding."""
        operand = self.operand(value)
        if all(self.in_range(a) for a in atoms(operand) if isinstance(a, Read)):
            return operand
        return self.b.op("copy", (operand,), self.b.dtype(operand), guards)

    def in_range(self, r: Read) -> bool:
        for e, n in zip(r.at, self.b.shape(r), strict=True):
            i = e.single
            if n is None or (isinstance(i, Var) and self.b.extent(i) == n):
                continue
            facts = self.facts
            for v in variables(e):
                limit = self.b.extent(v)
                if limit is not None:
                    facts = facts.and_(size(v), limit - 1 - size(v))
            if not (facts.proves(e) and facts.proves(n - 1 - e)):
                return False
        return True


def _facts(name: str, a: Size, b: Size, holds: bool) -> tuple[Size, ...]:
    """What is not negative when `a name b` is `holds`."""
    match name if holds else _OPPOSITE[name]:
        case "lt":
            return (b - a - 1,)
        case "le":
            return (b - a,)
        case "gt":
            return (a - b - 1,)
        case "ge":
            return (a - b,)
        case "eq":
            return (a - b, b - a)
        case _:
            return ()


_OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
