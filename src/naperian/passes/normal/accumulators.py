"""Cells of handlers, and accumulators whose `+=` is the user's operator, while they are normalised.

Such an accumulator has an element for every leaf of its type, and `r += e` becomes

    r := op(r, e)

A loop around that goes in its order, unless parts of it may go side by side (`pieces`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

from naperian.broken import Broken
from naperian.core.syntax import (
    Add,
    Assign,
    At,
    Expr,
    Get,
    Ref,
)
from naperian.names import Var
from naperian.node import replace
from naperian.passes.normal.denote import (
    TRUE,
    Leaf,
    Meaning,
    Parts,
    Place,
    data,
)
from naperian.passes.normal.once import once
from naperian.passes.normal.pieces import Combined, additions, by_rows, in_pieces, rowwise, worth
from naperian.passes.normal.tables import (
    as_size,
    at,
    choose,
    element_at,
    index_expr,
    quote,
    table_of,
    tabulate,
)
from naperian.passes.normal.work import Work
from naperian.sizes import Size
from naperian.types import (
    UNIT,
    Fin,
    Set,
    Table,
    Type,
)


class Accumulators:
    """The accumulators with operators that are open, and what stands for their cells meanwhile."""

    def __init__(
        self, w: Work, call: Callable[[Meaning, list[Meaning], str], Meaning]
    ) -> None:
        self.w = w
        self.call = call  # a function with its arguments
        self.operators: dict[Var, Meaning] = {}  # of cells whose `+=` is the user's
        self.combined: list[Combined] = []  # the accumulators that have such cells
        self.instead: dict[Var, Var] = {}  # cells that stand for others
        self.row: dict[Var, Var] = {}  # cells that stand for one row of others
        self.sums: set[Var] = set()  # cells that are only added to, as a monoid of ours says
        self.silent: frozenset[Var] = frozenset()  # cells that nothing is added to just now
        self.loops = 0  # how many loops go side by side around this, or might

    @contextmanager
    def inside(self, opened: list[Combined]) -> Iterator[None]:
        """The body of a handler that opens these."""
        outside, self.combined = self.combined, [*self.combined, *opened]
        yield
        self.combined = outside

    def table(
        self, s: Set, turn: Callable[[Meaning], Meaning], var: str, name: str, apart: bool
    ) -> Meaning:
        """A table; what it adds to accumulators with operators it adds in a loop of its own, if
        that may stand `apart`, in pieces that go side by side."""
        outermost = not self.loops and apart
        self.loops += 1
        with self.w.inside() as scope:
            i, index = self.w.index(s, var)
            cell = turn(index)
        self.loops -= 1
        shared = [c for c in self.combined if not scope.cells.isdisjoint(c.cells)]
        own = {v for c in shared for v in c.cells}
        if not outermost or not shared or not scope.cells <= own | self.sums:
            left = once(self.w, s, (i,), scope, cell)
            return table_of(self.w, s, i, left, cell, name)
        rowed = rowwise(s, index_expr(index), shared, scope.statements)
        found = (0, TRUE) if rowed else worth(
            self.w, s, shared, additions(scope.statements, own)
        )
        if found is None:
            left = once(self.w, s, (i,), scope, cell)
            return table_of(self.w, s, i, left, cell, name)
        pieces, condition = found
        value = cell
        if value != Parts(()) or not scope.cells <= own:
            value = self.without(own, lambda: tabulate(self.w, s, turn, var, name))

        def adds(i: Meaning) -> Meaning:
            turn(i)
            return Parts(())

        self.without(scope.cells - own, lambda: self.rows(s, shared, adds) if rowed else choose(
            self.w,
            condition,
            lambda: self.cut(s, shared, pieces, adds, var, name),
            lambda: tabulate(self.w, s, adds, var, name),
            name,
        ))
        return value

    def rows(
        self, s: Set, shared: list[Combined], turn: Callable[[Meaning], Meaning]
    ) -> Meaning:
        """A loop whose iterations add to rows of their own."""

        def own_row(own: dict[Var, Var], i: Meaning) -> None:
            before, self.row = self.row, {**self.row, **own}
            self.operators |= {new: self.operators[v] for v, new in own.items()}
            self.loops += 1
            turn(i)
            self.loops -= 1
            self.row = before

        def combine(a: Combined, old: Meaning, new: Meaning) -> Meaning:
            return self.together(self.operators[a.cells[0]], a.type, old, new)

        by_rows(self.w, s, shared, own_row, combine)
        return Parts(())

    def together(self, operator: Meaning, t: Type, old: Meaning, new: Meaning) -> Meaning:
        """What an operator makes of two values, in every element of a type with axes."""
        if not isinstance(t, Table):
            return self.call(operator, [old, new], "new")
        s = t.set

        def element_of(i: Meaning) -> Meaning:
            return self.together(
                operator, t.cell, at(self.w, old, i, s), at(self.w, new, i, s)
            )

        return tabulate(self.w, s, element_of, "i", "new")

    def without(self, cells: AbstractSet[Var], make: Callable[[], Meaning]) -> Meaning:
        """What is made where nothing is added to these cells."""
        before, self.silent = self.silent, self.silent | cells
        made = make()
        self.silent = before
        return made

    def cut(
        self, s: Set, shared: list[Combined], pieces: int, turn: Callable[[Meaning], Meaning],
        var: str, name: str,
    ) -> Meaning:
        def turns(own: dict[Var, Var], first: Size, count: Size) -> None:
            before, self.instead = self.instead, {**self.instead, **own}
            self.operators |= {new: self.operators[v] for v, new in own.items()}
            self.loops += 1
            tabulate(
                self.w,
                Fin(count),
                lambda k: turn(element_at(self.w, s, first + as_size(self.w, k))),
                var,
                name,
            )
            self.loops -= 1
            self.instead = before

        return in_pieces(
            self.w, s, shared, pieces, turns, lambda r, x: self.add(r, x, name)
        )

    def add(self, reference: Meaning, new: Meaning, name: str) -> None:
        """`r += e`; with an operator of the user's, `r := op(r, e)` for every element."""
        known = next(iter(data(reference)), None)
        if isinstance(known, Place) and cell_of(known.expr) in self.silent:
            return
        reference = _standing(reference, self.instead, self.row)
        first = next(iter(data(reference)), None)
        operator = self.operators.get(cell_of(first.expr)) if isinstance(first, Place) else None
        if operator is None:
            put(self.w, Add, reference, new)
        elif isinstance(first, Place) and isinstance(first.type, Table):
            s = first.type.set

            def element_of(i: Meaning) -> Meaning:
                self.add(at(self.w, reference, i, s), at(self.w, new, i, s), name)
                return Parts(())

            tabulate(self.w, s, element_of, "i", name)
        else:
            held = read(self.w, reference, name)
            put(self.w, Assign, reference, self.call(operator, [held, new], name))


def read(w: Work, reference: Meaning, name: str) -> Meaning:
    """What the cells of a reference hold."""
    match reference:
        case Parts(items):
            return Parts(tuple(read(w, x, name) for x in items))
        case Place(e, t):
            return w.bind(Get(e), t, name, False, frozenset((cell_of(e),)))
        case Leaf():  # the flag of what nothing handles
            return reference
        case _:
            raise Broken("something is read that is no reference")


def put(w: Work, how: type[Assign] | type[Add], reference: Meaning, new: Meaning) -> None:
    """An effect on every leaf of a reference."""
    places = data(reference)
    values = data(new)
    for place, value in zip(places, values, strict=True):
        if not isinstance(place, Place):
            raise Broken("something is changed that is no reference")
        e = how(place.expr, quote(w, value))
        w.bind(e, UNIT, "done", False, frozenset((cell_of(place.expr),)))


def _standing(reference: Meaning, instead: dict[Var, Var], row: dict[Var, Var]) -> Meaning:
    """A reference to what stands for its cells, or for their rows."""

    def other(e: Expr) -> Expr:
        match e:
            case At(Ref(v)) if v in row:
                return Ref(row[v])
            case At():
                return replace(e, table=other(e.table))
            case _:
                return Ref(instead.get(e.var, e.var)) if isinstance(e, Ref) else e

    match reference:
        case Place(e, t) if instead or row:
            return Place(other(e), t)
        case Parts(items) if instead or row:
            return Parts(tuple(_standing(x, instead, row) for x in items))
        case _:
            return reference


def cell_of(reference: Expr) -> Var:
    """The cell a reference is, or is an element of."""
    while isinstance(reference, At):
        reference = reference.table
    assert isinstance(reference, Ref)
    return reference.var
