"""What may hold in every round of a loop that moves indices by hand, and of the elements of arrays.

    top <= i, top >= 0, 0 <= stack[k] <= n - 1

Each guess has a name, under which it is dropped when it turns out not to hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Expr,
    Fail,
    Let,
    Loop,
    Number,
    Order,
    Program,
    Stmt,
    Store,
    Variable,
    While,
)
from naperian.loops.walk import blocks, index_expressions, statements, used, used_in
from naperian.names import Lit, Var
from naperian.passes.nests.lines import Line, line, plus, symbol
from naperian.sizes import Clamp, Quotient, Remainder, Size

_BOUNDS = 5  # sizes that variables are compared with
_CARRIED = 6  # variables of a loop that are compared with each other


def clamps(s: Size) -> Iterator[Clamp]:
    """The clamped indices in an index expression, inner ones first."""
    if s.plain:
        return
    for a in s.atoms:
        match a:
            case Clamp(x, y) | Quotient(x, y) | Remainder(x, y):
                yield from clamps(x)
                yield from clamps(y)
                if isinstance(a, Clamp):
                    yield a
            case Var():
                pass
            case _:
                for i in a.at:  # type: ignore[attr-defined]
                    yield from clamps(i)


def clamped_in(s: Stmt) -> list[Clamp]:
    """The clamped indices of a statement itself."""
    return [c for i in index_expressions(s) for c in clamps(i)]


def moved_by_hand(body: Sequence[Stmt]) -> frozenset[Var]:
    """The variables and arrays that indices hang on which loops in order check or clamp; none where
    these are not moved by hand, but indices of loops."""
    asked = set(_asked(body, False))
    if not asked:
        return frozenset()
    given: dict[Var, list[Expr]] = {}
    for x in statements(body):
        match x:
            case Let(v, _, value) | Variable(v, _, value) | Assign(v, value) | Store(v, _, value):
                given.setdefault(v, []).append(value)
            case _:
                pass
    if asked.isdisjoint(given):
        return frozenset()
    todo = list(asked)
    while todo:
        for e in given.get(todo.pop(), ()):
            new = set(used(e)) - asked
            asked |= new
            todo += new
    return frozenset(asked)


def _asked(body: Sequence[Stmt], ordered: bool) -> Iterator[Var]:
    for s in body:
        if ordered:
            if isinstance(s, Fail):
                yield from used(s.condition)
            for c in clamped_in(s):
                yield from used_in(c.value)
        inner = ordered
        if isinstance(s, (Loop, While)):
            inner = isinstance(s, While) or s.order is Order.SERIAL
        for block in blocks(s):
            yield from _asked(block, inner)


def bounds_of(program: Program) -> list[Size]:
    """The sizes that indices are compared with."""
    found: dict[Size, None] = {}
    sizes = set(program.sizes)
    for s in statements(program.body):
        ends = [c.extent for c in clamped_in(s)]
        if isinstance(s, Fail):
            match s.condition:
                case Apply("or", (_, Apply("ge", (_, Number(n))))):
                    ends.append(n)
                case Apply("or", (_, Apply("ge", (_, Lit(int() as k))))):
                    ends.append(Size((((), k),)) if k else Size(()))
                case _:
                    pass
        found |= {n: None for n in ends if n.plain and sizes.issuperset(n.atoms)}
    return list(found)[:_BOUNDS]


class Guesses:
    """What is guessed in a walk, and what of it has not been dropped."""

    def __init__(self, bounds: Sequence[Line], wanted: frozenset[Var], arrays: Mapping[Var, bool]):
        self.bounds = bounds
        self.wanted = wanted
        self.arrays = arrays
        self.gone: set[object] = set()
        self.given_up: set[Var] = set()
        self.dropped = False
        self.loops = 0

    def begin(self) -> None:
        """A new walk."""
        self.dropped = False
        self.loops = 0

    def drop(self, name: object, used: bool = True) -> None:
        """A guess does not hold; the walk is for nothing if it has used it."""
        self.gone.add(name)
        self.dropped = self.dropped or used

    def next_loop(self) -> int:
        """The number of the loop that is met now, the same in every walk."""
        self.loops += 1
        return self.loops

    def of_loop(
        self, number: int, head: Mapping[Var, Line], start: Mapping[Var, Line],
        around: Sequence[Var],
    ) -> Iterator[tuple[object, Line]]:  # fmt: skip
        """Of what a loop carries, when a round begins."""
        carried = [v for v in head if v in self.wanted]
        for v in carried:
            for what, guess in self._of_one(head[v], start[v], around):
                if (number, v, what) not in self.gone:
                    yield (number, v, what), guess
            for w in carried[:_CARRIED]:
                if w is not v and (number, v, w) not in self.gone:
                    yield (number, v, w), plus(head[w], head[v], -1)

    def _of_one(
        self, s: Line, start: Line, around: Sequence[Var]
    ) -> Iterator[tuple[object, Line]]:
        yield "least", plus(s, start, -1)
        yield "most", plus(start, s, -1)
        yield "natural", s
        yield "from -1", plus(s, line(1))
        for k, n in enumerate(self.bounds):
            yield ("below", k), plus(plus(n, line(-1)), s, -1)
            yield ("up to", k), plus(n, s, -1)
        for i in around:
            yield ("index", i), plus(symbol(i), s, -1)

    def of_array(self, v: Var) -> bool:
        """Whether anything is guessed of an array's elements."""
        return v in self.arrays and v not in self.given_up

    def give_up(self, v: Var) -> None:
        """Nothing holds of an array's elements."""
        if self.of_array(v):
            self.given_up.add(v)
            self.dropped = True

    def of_elements(
        self, v: Var, at: Sequence[Line], element: Line
    ) -> Iterator[tuple[object, Line]]:
        """Of an element of an array."""
        guesses: list[tuple[object, Line]] = [("natural", element)]
        guesses += [
            (("below", k), plus(plus(n, line(-1)), element, -1)) for k, n in enumerate(self.bounds)
        ]
        if len(at) == 1:
            guesses.append(("place", plus(at[0], element, -1)))
        for what, guess in guesses:
            if (v, what) not in self.gone:
                yield (v, what), guess


def arrays_of(program: Program, wanted: frozenset[Var]) -> dict[Var, bool]:
    """The arrays of whole numbers that the program makes and that indices hang on."""
    made = [b for b in program.buffers if b.var in wanted]
    made += [x.buffer for x in statements(program.body) if isinstance(x, Allocate)]
    return {b.var: True for b in made if b.dtype is DType.I64 and b.var in wanted}

