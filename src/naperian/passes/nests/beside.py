"""What lanes store in an array lies side by side there. loops → loops

    before   allocate t[26, n, 3]                    after    allocate t[n, 3, 26]
             for i in 0..n: for f in 0..3:                    for i in 0..n: for f in 0..3:
                 lanes for l in 0..8:                             lanes for l in 0..8:
                     store t[8 * j + l, i, f] = …                     store t[i, f, 8 * j + l] = …

Rows that go side by side (`lanes`) write an element of each of eight rows, which lie far apart:
that is eight stores, often to as many pages. If all who read the array read it by rows, too, the
rows' axis can be its last one. Where a product fills the array, the axes that lie before the rows'
in its factor come along: what is contiguous there stays so.
"""

from __future__ import annotations

from typing import TypeVar

from naperian.loops.syntax import (
    Allocate,
    Contract,
    Loop,
    Order,
    Program,
    Role,
    Sort,
    Stmt,
    Store,
    Update,
    When,
)
from naperian.loops.walk import (
    blocks,
    loads,
    rebuild_allocations,
    remade,
    statements,
    step,
    takes,
    used_in,
)
from naperian.names import Var
from naperian.node import replace
from naperian.sizes import Quotient, Size, atom, size

_T = TypeVar("_T")


def beside(program: Program) -> Program:
    """See the module."""
    axes: dict[Var, int] = {}
    rank = {
        s.buffer.var: len(s.buffer.shape) for s in statements(program.body)
        if isinstance(s, Allocate) and s.buffer.role is Role.TEMP and not s.planes
    }  # fmt: skip
    for s in statements(program.body):
        if isinstance(s, (Contract, Sort)):
            for v in takes(s):
                rank.pop(v, None)
    found: list[_Access] = []
    _accesses(program.body, (), found)
    outer = {(var, id(loop)) for var, _, around, _ in found for loop in around[:-1]}
    for var, at, around, stored in found:
        if var not in rank or (around and not stored and (var, id(around[-1])) in outer):
            continue  # an element at the end of a row, beside the loop along it
        axis = _axis(at, around[-1] if around else None, stored)
        if axis is None or axes.setdefault(var, axis) != axis:
            del rank[var]
    moved = {v: k for v, k in axes.items() if v in rank and k < rank[v] - 1}
    turned: dict[Var, tuple[int, ...]] = {v: (k,) for v, k in moved.items()}
    if not turned:
        return program
    for s in statements(program.body):
        if isinstance(s, Contract) and s.out[0] in turned:
            turned[s.out[0]] = _as_in_factor(s, moved[s.out[0]])

    def place(var: Var, at: tuple[Size, ...]) -> tuple[Size, ...]:
        return _moved(at, turned[var]) if var in turned else at

    def shaped(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(
            replace(s, buffer=replace(s.buffer, shape=place(s.buffer.var, s.buffer.shape)))
            if isinstance(s, Allocate) and s.buffer.var in turned else
            rebuild_allocations(s, shaped)
            for s in body
        )  # fmt: skip

    body = remade(program.body, lambda _: None, place=place, only=turned)
    return replace(program, body=shaped(body))


def _moved(items: tuple[_T, ...], axes: tuple[int, ...]) -> tuple[_T, ...]:
    stay = (x for k, x in enumerate(items) if k not in axes)
    return (*stay, *(items[k] for k in axes))


def _as_in_factor(s: Contract, axis: int) -> tuple[int, ...]:
    """An axis of a product's result, behind those that lie before it in its factor."""
    places = {i.single: k for k, i in enumerate(s.out[1])}
    for _, at in (s.left, s.right):
        if at[-1:] == (s.out[1][axis],):
            run: list[int] = []
            for i in reversed(at):
                if i.single not in places:
                    break
                run.append(places[i.single])
            batch = {places.get(size(v).single) for v, _ in s.batch}
            return tuple(k for k in reversed(run) if k not in batch)
    return (axis,)


_Access = tuple[Var, tuple[Size, ...], tuple[Loop, ...], bool]


def _accesses(body: tuple[Stmt, ...], around: tuple[Loop, ...], found: list[_Access]) -> None:
    """The elements that are read or written, with the loops around."""
    for s in body:
        if isinstance(s, (Store, Update)):
            found.append((s.buffer, s.at, around, True))
        found += [(e.buffer, e.at, around, False) for e in loads(s)]
        if isinstance(s, Loop) and _is_rest(s):
            continue
        both = blocks(s)
        if isinstance(s, When) and _goes_by_lanes(s.then) and not _goes_by_lanes(s.otherwise):
            both = (s.then,)  # otherwise there are few rows
        for b in both:
            _accesses(b, (*around, s) if isinstance(s, Loop) else around, found)


def _goes_by_lanes(body: tuple[Stmt, ...]) -> bool:
    return any(isinstance(x, Loop) and x.order is Order.LANES for x in statements(body))


def _is_rest(s: Loop) -> bool:
    """Whether a loop goes over the few rows that no lanes took."""
    for a in s.low.atoms:
        match a:
            case Quotient(above, below) if above == s.high and s.low == below * atom(a):
                return True
            case _:
                pass
    return False


def _axis(at: tuple[Size, ...], along: Loop | None, stored: bool) -> int | None:
    """The axis that the innermost loop goes along, if it is one and the loop is of lanes."""
    if along is None:
        return None
    axes = [k for k, i in enumerate(at) if along.var in used_in(i)]
    if len(axes) != 1:
        return None
    if stored and not (step(at[axes[0]], along.var) == 1 and _is_lanes(at[axes[0]], along)):
        return None
    return axes[0]


def _is_lanes(i: Size, along: Loop) -> bool:
    """Whether a loop is of lanes: of whole vectors, its index is `many·row + lane`."""
    if along.order is Order.LANES:
        return True
    many, row = along.high.constant, i - along.var
    return (
        along.order is Order.FREE and many is not None and many > 1
        and len(row.terms) == 1 and row.terms[0][1] == many
    )
