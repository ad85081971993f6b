"""Values whose sizes only a run knows, as derivatives see them: opened, rows one after the other.

    exists k. Fin(k)=>Float            Fin(k)=>Float
    n=>(exists k. Fin(k)=>Float)       Fin(total)=>Float, also where the rows hold rows

A size does not vary: the tangent of such a value has the sizes of the value, as its gradient has.
"""

from __future__ import annotations

from collections.abc import Callable

from naperian.core.syntax import (
    MISSHAPEN,
    SEED,
    Add,
    At,
    Box,
    Carried,
    Cell,
    Check,
    Checked,
    ConstOf,
    Expr,
    For,
    Handle,
    Let,
    Number,
    Op,
    Pack,
    Part,
    Reduce,
    Ref,
    Scan,
    Unbox,
)
from naperian.names import Var
from naperian.node import node
from naperian.sizes import ZERO, Size, size
from naperian.source import Span
from naperian.substitution import boxed, cell_at, opened, sets_in
from naperian.types import (
    INT,
    Data,
    Exists,
    Fin,
    Set,
    Table,
    Tuple,
    Type,
    cardinality,
    set_variables,
)

OTHER_SIZES = f"{SEED} {MISSHAPEN}"


Again = Callable[[Expr, Span | None], Expr]


@node
class Spread:
    """A value as one without boxes, of a type that names the sizes. `again` makes the same of
    another value of its type: one of the same sizes, as is checked if it is given where from.
    `back` is the way back."""

    type: Type
    value: Expr
    again: Again
    back: Callable[[Expr], Expr]


Rest = Callable[[Spread], Expr]


def hides(t: Type) -> bool:
    """Whether sizes of a value are known at run time only."""
    return any(True for _ in boxed(t))


def bodies(t: Type) -> Type:
    """A type with what its boxes hold in their place."""
    match t:
        case Exists(_, body):
            return bodies(body)
        case Table(s, cell, index):
            return Table(s, bodies(cell), index)
        case Tuple(items) if hides(t):
            return Tuple(tuple(map(bodies, items)))
        case _:
            return t


def spreadable(t: Type) -> bool:
    """Whether a type's boxes, if there are any, are of the kinds above, perhaps in tuples."""
    match t:
        case _ if not hides(t):
            return True
        case Exists(vars, body):
            return spreadable(body) and _sized(body, frozenset(vars))
        case Table(s, Exists((k,), Table(Fin(n), cell, None)), None):
            return n == size(k) and not _mentions(cell, k) and spreadable(Table(s, cell))
        case Table(s, Tuple(items) as cell, None):
            plain = not isinstance(cell, Data) or not cell.layout.tagged
            return plain and all(spreadable(Table(s, x)) for x in items)
        case Data(items, layout):
            return not layout.tagged and all(map(spreadable, items))
        case Tuple(items):
            return all(map(spreadable, items))
        case _:
            return False


def spread(e: Expr, t: Type, rest: Rest) -> Expr:
    """What `rest` makes of a spread value, inside what names its sizes."""
    match t:
        case Exists():
            return _opened(e, t, rest)
        case Table(s, Exists((_,), Table(_, cell)) as box):
            return _rows(e, s, box, cell, rest)
        case Tuple(items) if hides(t):
            whole = Var("x")
            return Let(whole, e, _items(whole, items, (), rest))
        case Table(s, Tuple(items)) if hides(t):
            return _columns(e, s, items, rest)
        case _:
            return rest(Spread(t, e, lambda other, asked: other, lambda made: made))


def _items(whole: Var, items: tuple[Type, ...], done: tuple[Spread, ...], rest: Rest) -> Expr:
    if len(done) < len(items):
        own = Part(Ref(whole), len(done))
        return spread(own, items[len(done)], lambda s: _items(whole, items, (*done, s), rest))

    def each(e: Expr, f: Callable[[Spread, Expr], Expr]) -> Expr:
        x = Var("x")
        return Let(x, e, Pack(tuple(f(s, Part(Ref(x), k)) for k, s in enumerate(done))))

    return rest(
        Spread(
            Tuple(tuple(s.type for s in done)), Pack(tuple(s.value for s in done)),
            lambda other, asked: each(other, lambda s, x: s.again(x, asked)),
            lambda made: each(made, lambda s, x: s.back(x)),
        )
    )  # fmt: skip


def _columns(e: Expr, s: Set, items: tuple[Type, ...], rest: Rest) -> Expr:
    """A table of tuples is opened as a tuple of tables."""

    def columns(rows: Expr) -> Expr:
        x, i = Var("rows"), Var("i")
        made = (For(i, s, Part(At(Ref(x), Ref(i), s), k)) for k in range(len(items)))
        return Let(x, rows, Pack(tuple(made)))

    def rows(columns: Expr) -> Expr:
        x, i = Var("columns"), Var("i")
        cell = (At(Part(Ref(x), k), Ref(i), s) for k in range(len(items)))
        return Let(x, columns, For(i, s, Pack(tuple(cell))))

    def turned(x: Spread) -> Expr:
        return rest(
            Spread(
                x.type, x.value, lambda other, asked: x.again(columns(other), asked),
                lambda made: rows(x.back(made)),
            )
        )  # fmt: skip

    return spread(columns(e), Tuple(tuple(Table(s, x) for x in items)), turned)


def _opened(e: Expr, box: Exists, rest: Rest) -> Expr:
    names, value = tuple(Var(v.name) for v in box.vars), Var("x")
    sizes = tuple(map(size, names))
    whole = opened(box, sizes)

    def inside(x: Spread) -> Expr:
        def again(other: Expr, asked: Span | None) -> Expr:
            theirs, y = tuple(Var(v.name) for v in box.vars), Var("y")
            made = x.again(resized(Ref(y), opened(box, tuple(map(size, theirs))), whole), asked)
            for mine, v in zip(sizes, theirs, strict=True):
                made = _same(mine, size(v), made, asked)
            return Unbox(theirs, y, other, made)

        return rest(Spread(x.type, x.value, again, lambda made: Box(box, sizes, x.back(made))))

    return Unbox(names, value, e, spread(Ref(value), whole, inside))


def _rows(e: Expr, s: Set, box: Exists, cell: Type, rest: Rest) -> Expr:
    """A table of boxes is opened by the number of its elements and where each row ends."""
    rows, counts, ends, total = Var("rows"), Var("counts"), Var("ends"), Var("total")
    flat = Table(Fin(size(total)), cell)

    def row(inside: Callable[[Var, Size, Callable[[Var], Expr]], Expr]) -> Expr:
        """A table over the rows: of an index, the row's length, and where an element of it is."""
        i, n, last = Var("i"), Var("n"), Var("last")

        def at(j: Var) -> Expr:
            return Number(size(last) - size(n) + size(j))

        body = inside(i, size(n), at)
        starts = Let(n, At(Ref(counts), Ref(i), s), Let(last, At(Ref(ends), Ref(i), s), body))
        return For(i, s, starts)

    def again(other: Expr, asked: Span | None) -> Expr:
        theirs, made = Var("rows"), Var("flat")

        def entered(i: Var, n: Size, at: Callable[[Var], Expr]) -> Expr:
            m, x, j = Var("m"), Var("x"), Var("j")
            element = At(Ref(x), _index(j, Fin(n), Fin(size(m))), Fin(size(m)))
            each = For(j, Fin(n), Add(At(Ref(made), at(j), flat.set), element))
            inner = _same(n, size(m), each, asked)
            return Unbox((m,), x, At(Ref(theirs), Ref(i), s), inner)

        start = Cell(made, flat, zero(flat), "add")
        return Let(theirs, other, Part(Handle((start,), row(entered)), 1))

    def back(found: Expr) -> Expr:
        x = Var("x")

        def one(i: Var, n: Size, at: Callable[[Var], Expr]) -> Expr:
            j = Var("j")
            return Box(box, (n,), For(j, Fin(n), At(Ref(x), at(j), flat.set)))

        return Let(x, found, row(one))

    i, k, x = Var("i"), Var("k"), Var("x")
    length = Unbox((k,), x, At(Ref(rows), Ref(i), s), Number(size(k)))
    so_far, t, n = Var("end"), Var("i"), Var("n")
    end = Let(n, At(Ref(counts), Ref(t), s), Number(size(so_far) + size(n)))
    summed = Scan((Carried(so_far, INT, Number(ZERO)),), t, s, end)
    j, value = Var("i"), Var("flat")
    number = Reduce("add", j, s, Number(ZERO), At(Ref(counts), Ref(j), s), INT)
    if hides(cell):
        own = _rows_of_rows(rows, s, counts, ends, flat, row, back, rest)
    else:
        own = Let(value, again(Ref(rows), None), rest(Spread(flat, Ref(value), again, back)))
    named = Let(counts, For(i, s, length), Let(ends, summed, Let(total, number, own)))
    return Let(rows, e, named)


def _rows_of_rows(
    rows: Var, s: Set, counts: Var, ends: Var, flat: Table, row: Callable[..., Expr],
    back: Callable[[Expr], Expr], rest: Rest,
) -> Expr:  # fmt: skip
    """Nothing adds boxes up: those of all rows are taken from the row each is in."""
    made, owner, k = Var("owner"), Var("owner"), Var("k")

    def entered(i: Var, n: Size, at: Callable[[Var], Expr]) -> Expr:
        j = Var("j")
        return For(j, Fin(n), Add(At(Ref(made), at(j), flat.set), Number(size(i))))

    owners = Table(flat.set, INT)
    none = For(Var("p"), flat.set, Number(ZERO))
    found = Part(Handle((Cell(made, owners, none, "add"),), row(entered)), 1)

    def again(other: Expr, asked: Span | None) -> Expr:
        theirs, p, i, n, last = (Var(x) for x in ("rows", "p", "i", "n", "last"))
        m, x, lengths = Var("m"), Var("x"), Var("lengths")

        def opened_row(inner: Expr) -> Expr:
            return Unbox((m,), x, At(Ref(theirs), Ref(i), s), inner)

        equal = Let(n, At(Ref(counts), Ref(i), s), _same(size(n), size(m), Number(size(n)), asked))
        checked = Ref(counts) if asked is None else For(i, s, opened_row(equal))
        place = size(p) - size(last) + size(n)
        element = opened_row(At(Ref(x), Number(place), Fin(size(m))))
        inside = Let(
            n, At(Ref(lengths), Ref(i), s), Let(last, At(Ref(ends), Ref(i), s), element)
        )
        named = Let(i, Checked(Number(size(k)), s, proved=True), inside)
        mine = Let(k, At(Ref(owner), Ref(p), flat.set), named)
        return Let(theirs, other, Let(lengths, checked, For(p, flat.set, mine)))

    def inner(x: Spread) -> Expr:
        return rest(
            Spread(
                x.type, x.value, lambda other, asked: x.again(again(other, asked), asked),
                lambda made: back(x.back(made)),
            )
        )  # fmt: skip

    return Let(owner, found, spread(again(Ref(rows), None), flat, inner))


def loose(t: Type) -> Type:
    """A type with the tables of boxes in boxes of their own: how many rows there are is asked in
    the run (`tightened`), so that a table of such values is one of rows of rows."""
    match t:
        case Table(_, cell) if hides(t):
            k = Var("k")
            return Exists((k,), Table(Fin(size(k)), loose(cell)))
        case Data(items, layout, args):
            return Data(tuple(map(loose, items)), layout, args)
        case Tuple(items):
            return Tuple(tuple(map(loose, items)))
        case _:
            return t


def tightened(e: Expr, t: Type, origin: Span) -> Expr:
    """A value of a loose type as one of the type."""
    match t:
        case Table(s, cell) if hides(t):
            k, x, i = Var("k"), Var("x"), Var("i")
            own = Fin(size(k))
            inner = tightened(At(Ref(x), _index(i, s, own), own), cell, origin)
            return Unbox((k,), x, e, _same(cardinality(s), size(k), For(i, s, inner), origin))
        case Tuple(items) if hides(t):
            x = Var("x")
            parts = (tightened(Part(Ref(x), k), item, origin) for k, item in enumerate(items))
            return Let(x, e, Pack(tuple(parts)))
        case _:
            return e


def zero(t: Type) -> Expr:
    """The zero of a type of floats."""
    match t:
        case Table(s, cell):
            return For(Var("i"), s, zero(cell))
        case Tuple(items):
            return Pack(tuple(zero(x) for x in items))
        case _:
            return ConstOf(0.0, t)


def _same(mine: Size, theirs: Size, then: Expr, asked: Span | None) -> Expr:
    if asked is None:
        return then
    # what is computed as less than nothing, where there is no row of it, is nothing
    length = Op("max", (Number(mine), Number(ZERO)), INT)
    equal = Op("eq", (Number(theirs), length), INT)
    return Check(equal, OTHER_SIZES, then, asked)


def _index(i: Var, own: Set, other: Set) -> Expr:
    """An index as one of a set of the same size."""
    return Ref(i) if own == other else Checked(Ref(i), other, proved=True)


def resized(e: Expr, old: Type, new: Type) -> Expr:
    """A table as one over sets of the same sizes."""
    match old, new:
        case _ if old == new:
            return e
        case Table(own), Table(s):
            i = Var("i")
            inner = At(e, _index(i, s, own), own)
            return For(i, s, resized(inner, cell_at(old, size(i)), cell_at(new, size(i))))
        case Tuple(items), Tuple(others):
            x = Var("x")
            parts = zip(items, others, strict=True)
            made = (resized(Part(Ref(x), k), a, b) for k, (a, b) in enumerate(parts))
            return Let(x, e, Pack(tuple(made)))
        case _:
            return e


def _sized(t: Type, hidden: frozenset[Var]) -> bool:
    """Whether the sets that mention hidden sizes are numbers from 0."""
    match t:
        case Table(s, cell):
            plain = isinstance(s, Fin) or hidden.isdisjoint(set_variables(s))
            return plain and _sized(cell, hidden)
        case Tuple(items):
            return all(_sized(x, hidden) for x in items)
        case Exists(_, body):
            return not any(_mentions(body, v) for v in hidden)
        case _:
            return True


def _mentions(t: Type, v: Var) -> bool:
    return any(v in set_variables(s) for s in sets_in(t))
