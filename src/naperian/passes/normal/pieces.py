"""A loop that accumulates with the user's operator, so that parts of it go side by side.

Where each iteration adds to a row of its own, the rows are made for themselves:

    for i in s: for j in t: r[i] += e    ⇒    own = for i in s: with state(u) as row:
                                                  for j in t: row := f(row, e)
                                              r := for i in s: f(r[i], own[i])

Any other loop is cut into pieces:

    with accum(f, u) as r:         parts = for c in Fin(64):
        for i in s: r += e    ⇒        with state(u) as own:
                                           for i in piece c of s: own := f(own, e)
                                   for c in Fin(64): r := f(r, parts[c])

Which iterations are in a piece depends on their number alone, and the pieces are put together in
order: the result is the same on every machine. An array is accumulated so if it is small beside the
number of additions, for every piece has a copy of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from naperian.core.syntax import (
    Assign,
    At,
    Cell,
    Expr,
    For,
    Get,
    Handle,
    Let,
    Number,
    Op,
    Ref,
)
from naperian.core.walk import children, everything
from naperian.leaves import leaves
from naperian.names import Var
from naperian.node import node
from naperian.passes.normal.denote import TRUE, Bound, Guard, Meaning, Parts, Place, data, size_of
from naperian.passes.normal.tables import (
    at,
    closed,
    element_at,
    index_expr,
    quote,
    shaped,
    tabulate,
)
from naperian.passes.normal.work import Work
from naperian.sizes import ONE, ZERO, Size, size, variables
from naperian.source import Span
from naperian.types import BOOL, INT, UNIT, Fin, Set, Table, Tuple, Type, cardinality

PIECES = 64  # enough for as many threads, few enough to put together
COPIES = 16  # of an array
WORTH = 8 * COPIES  # additions for every element of it
MANY = "many"  # what says that there are so many


@node
class Combined:
    """An accumulator with an operator: its cells, one for each leaf of its type, and the unit."""

    type: Type
    cells: tuple[Var, ...]
    unit: tuple[Meaning, ...]
    origin: Span

    @property
    def places(self) -> Meaning:
        """A reference to it."""
        pairs = zip(self.cells, leaves(self.type), strict=True)
        return shaped(self.type, [Place(Ref(v), t) for v, t in pairs])


def worth(w: Work, s: Set, shared: list[Combined], each: Size) -> tuple[int, Expr] | None:
    """Into how many pieces a loop over a set is cut, and the condition under which it is. `each` of
    its iterations adds so often."""
    n, copied = cardinality(s), ZERO
    for t in (t for c in shared for t in leaves(c.type) if isinstance(t, Table)):
        count = _elements(t)
        if count is None:
            return None
        copied = copied + count
    pieces = PIECES if copied == ZERO else COPIES
    spare = n * each - copied * WORTH - pieces
    if spare.constant is not None:
        return (pieces, TRUE) if spare.constant >= 0 else None
    if copied == ZERO:
        return pieces, TRUE
    test = Op("ge", (Number(n * each), Number(copied * WORTH)), INT)
    return pieces, index_expr(w.bind(test, BOOL, MANY))


def additions(statements: list[Bound | Guard], cells: AbstractSet[Var]) -> Size:
    """How often an iteration adds to the cells, as far as that is known outside of it: once for
    every iteration of the loops around the first addition."""
    inside = {b.var for b in statements if isinstance(b, Bound)}
    for b in statements:
        if isinstance(b, Bound) and not b.cells.isdisjoint(cells):
            return _rounds(b.value, cells, inside)
    return ONE


def _rounds(e: Expr, cells: AbstractSet[Var], inside: set[Var]) -> Size:
    found = ONE
    while True:
        inner = next((x for x in children(e) if _touches(x, cells)), None)
        if inner is None:
            return found
        match e:
            case For(var, s, _):
                n = cardinality(s)
                found = found * (n if inside.isdisjoint(variables(n)) else ONE)
                inside.add(var)
            case Let(var):
                inside.add(var)
            case _:
                pass
        e = inner


def _touches(e: Expr, cells: AbstractSet[Var]) -> bool:
    return any(isinstance(x, Ref) and x.var in cells for x in everything(e))


def rowwise(
    s: Set, index: Expr, shared: list[Combined], statements: list[Bound | Guard]
) -> bool:
    """Whether all that an iteration does with the accumulators it does with their rows at its own
    index."""
    types = [t for c in shared for t in leaves(c.type)]
    if not all(isinstance(t, Table) and t.set == s and t.index is None for t in types):
        return False
    cells = {v for c in shared for v in c.cells}
    rest = [b.value if isinstance(b, Bound) else b.condition for b in statements]
    while rest:
        e = rest.pop()
        match e:
            case At(Ref(v), i, over) if v in cells:
                if i != index or over != s:
                    return False
            case Ref(v) if v in cells:
                return False
            case _:
                rest.extend(children(e))
    return True


def by_rows(
    w: Work, s: Set, shared: list[Combined], turn: Callable[[dict[Var, Var], Meaning], object],
    combine: Callable[[Combined, Meaning, Meaning], Meaning],
) -> None:
    """The loop. `turn` makes an iteration, with cells for the rows; `combine` puts together what
    was there and what was added."""

    def row(i: Meaning) -> Meaning:
        return _own(
            w, shared, lambda t, u: (t.cell, at(w, u, i, s)) if isinstance(t, Table) else (t, u),
            lambda own: turn(own, i), "row",
        )

    rows = iter(data(tabulate(w, s, row, "i", "rows")))
    for a in shared:
        mine = [next(rows) for _ in a.cells]
        before = [
            w.bind(Get(Ref(v)), t, v.name, False, frozenset((v,)))
            for v, t in zip(a.cells, leaves(a.type), strict=True)
        ]
        new = data(combine(a, shaped(a.type, before), shaped(a.type, mine)))
        for v, x in zip(a.cells, new, strict=True):
            w.bind(Assign(Ref(v), quote(w, x)), UNIT, "done", False, frozenset((v,)))


def _own(
    w: Work, shared: list[Combined], start: Callable[[Type, Meaning], tuple[Type, Meaning]],
    turn: Callable[[dict[Var, Var]], object], name: str,
) -> Parts:
    """What cells of its own hold after a turn with them. `start` gives the type and the unit of
    one, from those of the accumulator's."""
    own = {v: Var(v.name) for a in shared for v in a.cells}
    cells = []
    for a in shared:
        for v, t, u in zip(a.cells, leaves(a.type), a.unit, strict=True):
            mine, unit = start(t, u)
            cells.append(Cell(own[v], mine, quote(w, unit), "add", None, True))
    with w.inside() as scope:
        turn(own)
    made = Handle(tuple(cells), closed(w, scope, []), shared[0].origin)
    whole = Tuple((UNIT, *(c.type for c in cells)))
    kept = w.bind(made, whole, name, scope.fails, scope.cells - {*own.values()})
    assert isinstance(kept, Parts)
    return Parts(kept.items[1:])


def _elements(t: Type) -> Size | None:
    """How many elements a table has, if its rows are of one length."""
    count = ONE
    while isinstance(t, Table):
        if t.index is not None:
            return None
        count, t = count * cardinality(t.set), t.cell
    return count


def in_pieces(
    w: Work, s: Set, shared: list[Combined], pieces: int,
    turns: Callable[[dict[Var, Var], Size, Size], object],
    add: Callable[[Meaning, Meaning], None],
) -> Meaning:
    """The loop. `turns` makes some of its turns, from one on and so many, with other cells; `add`
    adds to a reference."""
    n, over = cardinality(s), Fin(size(pieces))

    def piece(c: Meaning) -> Meaning:
        k = size_of(index_expr(c))
        assert k is not None
        first = (k * n) // pieces
        count = ((k + 1) * n) // pieces - first
        return _own(
            w, shared, lambda t, u: (t, u), lambda own: turns(own, first, count), "piece"
        )

    rows = tabulate(w, over, piece, "piece", "pieces")

    def put(c: Size) -> None:
        found = iter(data(at(w, rows, element_at(w, over, c), over)))
        for a in shared:
            add(a.places, shaped(a.type, [next(found) for _ in a.cells]))

    def together(c: Meaning) -> Meaning:
        k = size_of(index_expr(c))
        assert k is not None
        put(k + 1)
        return Parts(())

    put(ZERO)  # so the others are put together in another loop than they are made in
    return tabulate(w, Fin(size(pieces - 1)), together, "piece", "done")
