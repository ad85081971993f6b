"""`print`: the numbers of values, told one after the other to whoever writes the line."""

from __future__ import annotations

from naperian.broken import Broken
from naperian.core.syntax import (
    Tell,
)
from naperian.lines import Line, form_of
from naperian.passes.normal.accumulators import cell_of
from naperian.passes.normal.denote import (
    Boxed,
    Leaf,
    Meaning,
    Parts,
    Place,
    number,
)
from naperian.passes.normal.tables import (
    as_size,
    at,
    index_expr,
    tabulate,
)
from naperian.passes.normal.work import Work
from naperian.sizes import ZERO
from naperian.substitution import cell_at, opened
from naperian.types import (
    INT,
    UNIT,
    Exists,
    Table,
    Tuple,
    Type,
    cardinality,
)


def tell_line(w: Work, world: Meaning, given: list[Meaning], parts: tuple[str | Type, ...]) -> None:
    """The numbers of a line are told one after the other, those of tables in loops."""
    types = [p for p in parts if not isinstance(p, str)]
    rest: list[Meaning] = []
    for m, t in zip(given, types, strict=True):
        _spell(w, world, m, t, rest)
    tell(w, world, rest, tuple(p if isinstance(p, str) else form_of(p) for p in parts))


def _spell(w: Work, world: Meaning, m: Meaning, t: Type, rest: list[Meaning]) -> None:
    """Tell the numbers of a value, but for those that come last, which are left in `rest`."""
    match t:
        case Exists(vars):
            sizes = m.sizes if isinstance(m, Boxed) else (ZERO,) * len(vars)
            _spell(w, world, m.value if isinstance(m, Boxed) else m, opened(t, sizes), rest)
        case Tuple(items):
            for k, x in enumerate(items):
                _spell(w, world, m.items[k] if isinstance(m, Parts) else m, x, rest)
        case Table(s):
            tell(w, world, [*rest, Leaf(number(cardinality(s)), INT)], ())
            rest.clear()

            def cell(i: Meaning) -> Meaning:
                inner: list[Meaning] = []
                place = ZERO if t.index is None else as_size(w, i)
                _spell(w, world, at(w, m, i, s), cell_at(t, place), inner)
                if inner:
                    tell(w, world, inner, ())
                return Parts(())

            tabulate(w, s, cell, "i", "told")
        case _:
            rest.append(m)


def tell(w: Work, world: Meaning, values: list[Meaning], line: Line) -> None:
    if not isinstance(world, Place):
        raise Broken("something is told to nobody")
    e = Tell(world.expr, tuple(index_expr(v) for v in values), line)
    w.bind(e, UNIT, "told", True, frozenset((cell_of(world.expr),)))
