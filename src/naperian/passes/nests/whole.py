"""Nests that store every element of an array once, and those that copy one array to another, or to
a row or column of another.

    for i in 0..n: for j in 0..m: store b[i, j] = a[i, j]                    b[n, m]
    for i in 0..n: for j in 0..(i + 1):
        store b[j + (i² + i) // 2] = a[j + (i² + i) // 2]                    b[(n² + n) // 2]

An axis of the array is a loop's, or that of several loops, in which rows stand in order without
gaps: the second begins where the first ended, and the last ends where the axis does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache

from naperian.facts import Facts
from naperian.loops.syntax import Allocate, Let, Load, Local, Loop, Program, Stmt, Store
from naperian.loops.walk import statements
from naperian.names import Var
from naperian.node import kept, node, replace
from naperian.sizes import ONE, ZERO, Size, is_natural, rename, size, variables
from naperian.sums import same

Shape = tuple[Size, ...]
Along = tuple[Size | None, ...]
"""A part of an array: None on the axes that it goes along, its place on the others."""
Nest = tuple[tuple[Var, Size], ...]
"""Loops inside each other, each from 0 to its end."""


@node
class Arrays:
    """The shapes of a program's arrays, and its sizes."""

    shapes: dict[Var, Shape]
    sizes: tuple[Var, ...]

    def are_alike(self, a: Var, b: Var) -> bool:
        """Whether two arrays have the same shape."""
        return a in self.shapes and self.shapes[a] == self.shapes.get(b)

    def is_whole(self, nest: Nest, to: Var, at: Shape) -> bool:
        """Whether `at` is every place of an array once."""
        shape = self.shapes.get(to)
        return shape is not None and _goes_over(nest, at, shape, self.sizes)


def arrays(program: Program) -> Arrays:
    """Those of the caller and those that the program allocates."""
    shapes = {b.var: b.shape for b in program.buffers}
    made = (s.buffer for s in statements(program.body) if isinstance(s, Allocate))
    return Arrays(shapes | {b.var: b.shape for b in made}, program.sizes)


def stored_whole(s: Stmt, known: Arrays, among: Collection[Var]) -> Store | None:
    """The store of a nest that writes every element of one of the arrays `among` once, and does
    nothing else."""
    found = _nest_of_one(s)
    if found is None or found[1].buffer not in among:
        return None
    nest, store = found
    return store if known.is_whole(nest, store.buffer, store.at) else None


def copies(s: Stmt, known: Arrays) -> Iterator[tuple[Var, Var]]:
    """The arrays of a nest that copies one to another of the same shape: to which, and of which."""
    found = _nest_of_one(s)
    if found is not None:
        nest, store = found
        pair = copied(store, known)
        if pair is not None and known.is_whole(nest, store.buffer, store.at):
            yield pair


def copied(store: Store, known: Arrays) -> tuple[Var, Var] | None:
    """The arrays of which a nest copies one to the other, if all that it stores is so copied."""
    if isinstance(store.value, Load) and store.value.at == store.at:
        to, of = store.buffer, store.value.buffer
        if to != of and known.are_alike(to, of):
            return to, of
    return None


def part_copied(s: Stmt, known: Arrays) -> tuple[Var, Var, Along] | None:
    """The table of a nest that is copied from a part of a larger array, or to it; the array, and
    the part."""
    found = _nest_of_one(s)
    if found is None or not isinstance(found[1].value, Load):
        return None
    nest, store = found
    value = found[1].value
    ends = ((store.buffer, store.at), (value.buffer, value.at))
    (table, at), (array, place) = sorted(ends, key=lambda x: len(x[1]))
    own = {v for v, _ in nest}
    part = tuple([None if own & {*variables(e)} else e for e in place])
    along = (place, known.shapes.get(array, ()))
    if at == place or [on_axes(part, x) for x in along] != [at, known.shapes.get(table)]:
        return None
    return (table, array, part) if known.is_whole(nest, table, at) else None


def on_axes(part: Along, of: Shape) -> Shape:
    """What is said of the axes that a part goes along."""
    return tuple([x for x, e in zip(of, part, strict=True) if e is None])


@kept
def _nest_of_one(s: Stmt) -> tuple[Nest, Store] | None:
    """The loops of a nest that does nothing but a store, and that."""
    nest: list[tuple[Var, Size]] = []
    while isinstance(s, Loop) and s.low == ZERO:
        nest.append((s.var, s.high))
        match s.body:
            case (only,):
                s = only
            case (Let(v, _, value), Store(_, _, Local(w)) as store) if v == w:
                s = replace(store, value=value)
            case _:
                return None
    return (tuple(nest), s) if isinstance(s, Store) and nest else None


@lru_cache(maxsize=4096)
def _goes_over(nest: Nest, at: Shape, shape: Shape, sizes: tuple[Var, ...]) -> bool:
    """Whether the loops of a nest go over the places of an array, one axis after the other."""
    left = nest
    for place, extent in zip(at, shape, strict=True):
        own = left[: sum(v in variables(place) for v, _ in left)]
        left = left[len(own) :]
        if len(own) == 1 and place == size(own[0][0]):
            if own[0][1] != extent:
                return False
        elif not own or not _goes_along(own, place, extent, nest, sizes):
            return False
    return not left


def _goes_along(
    rows: Nest, place: Size, extent: Size, nest: Nest, sizes: tuple[Var, ...]
) -> bool:
    """Whether rows in rows stand in an axis in order, without gaps."""
    (v, length), *around = reversed(rows)
    begin = place - size(v)
    if v in variables(begin) or not all(_is_long(n, nest, sizes) for _, n in rows):
        return False
    for i, n in around:
        if not same(rename(begin, {i: size(i) + ONE}), begin + length):
            return False
        first = rename(begin, {i: ZERO})
        begin, length = first, rename(begin, {i: n}) - first
    return begin == ZERO and same(length, extent)


def _is_long(n: Size, nest: Nest, sizes: tuple[Var, ...]) -> bool:
    """Whether the end of a loop in a nest is never negative."""
    if is_natural(n, sizes):
        return True
    ends = (end - 1 - size(v) for v, end in nest)
    return Facts((*map(size, sizes), *(size(v) for v, _ in nest), *ends)).proves(n)
