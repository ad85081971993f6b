"""A loop that accumulates with the user's operator, cut into pieces that go side by side.

    with accum(f, u) as r:         parts = for c in Fin(64):
        for i in s: r += e    ⇒        with state(u) as own:
                                           for i in piece c of s: own := f(own, e)
                                   for c in Fin(64): r := f(r, parts[c])

Which iterations are in a piece depends on their number alone, and the pieces are put together in
order: the result is the same on every machine. An array is accumulated so if it is small beside the
number of iterations, for every piece has a copy of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from naperian.core.syntax import Cell, Expr, Handle, Number, Op, Ref
from naperian.leaves import leaves
from naperian.names import Var
from naperian.node import node
from naperian.passes.denote import TRUE, Meaning, Parts, Place, data, size_of
from naperian.passes.tables import at, closed, element_at, index_expr, quote, shaped, tabulate
from naperian.passes.work import Work
from naperian.sizes import ONE, ZERO, Size, size
from naperian.source import Span
from naperian.types import BOOL, INT, UNIT, Fin, Set, Table, Tuple, Type, cardinality

PIECES = 64  # enough for as many threads, few enough to put together
COPIES = 16  # of an array
WORTH = 8 * COPIES  # iterations for every element of it


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


def worth(w: Work, s: Set, shared: list[Combined]) -> tuple[int, Expr] | None:
    """Into how many pieces a loop over a set is cut, and the condition under which it is."""
    n, copied = cardinality(s), ZERO
    for t in (t for c in shared for t in leaves(c.type) if isinstance(t, Table)):
        count = _elements(t)
        if count is None:
            return None
        copied = copied + count
    pieces = PIECES if copied == ZERO else COPIES
    spare = n - copied * WORTH - pieces
    if spare.constant is not None:
        return (pieces, TRUE) if spare.constant >= 0 else None
    if copied == ZERO:
        return pieces, TRUE
    test = Op("ge", (Number(n), Number(copied * WORTH)), INT)
    return pieces, index_expr(w.bind(test, BOOL, "many"))


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
        own = {v: Var(v.name) for a in shared for v in a.cells}
        cells = tuple(
            Cell(own[v], t, quote(w, u), "add", None, True)
            for a in shared for v, t, u in zip(a.cells, leaves(a.type), a.unit, strict=True)
        )
        with w.inside() as scope:
            turns(own, first, ((k + 1) * n) // pieces - first)
        made = Handle(cells, closed(w, scope, []), shared[0].origin)
        whole = Tuple((UNIT, *(c.type for c in cells)))
        kept = w.bind(made, whole, "piece", scope.fails, scope.cells - {*own.values()})
        assert isinstance(kept, Parts)
        return Parts(kept.items[1:])

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
