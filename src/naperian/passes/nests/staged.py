"""A table of which a round computes a few elements from many of it is not copied. loops → loops

    for t in 0..k:                                  for t in 0..k:
        allocate v[n, 3]                                allocate w[3]
        for i, j: store v[i, j] = s[i, j]       ⇒       for j in 0..3: store w[j] = f(s[t, …])
        for j in 0..3: store v[t, j] = f(s[t, …])       for j in 0..3: store s[t, j] = w[j]
        for i, j: store s[i, j] = v[i, j]

Changed at once, the elements would no longer be what the next ones are computed from (`coalesce`):
the rows of a matrix that is replaced by its product with another. So they wait until all are there.
"""

from __future__ import annotations

from collections.abc import Iterator

from naperian.loops.syntax import (
    Allocate,
    Assign,
    Buffer,
    Let,
    Load,
    Loop,
    Number,
    Order,
    Program,
    Role,
    Stmt,
    Store,
    Variable,
    When,
)
from naperian.loops.walk import (
    blocks,
    loads,
    mentions,
    rebuild,
    rebuild_allocations,
    remade,
    statements,
    used,
    used_in,
    writes,
)
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.passes.nests.coalesce import Shapes, copies
from naperian.sizes import Atom, Size, natural, size, substitute


def staged(program: Program) -> Program:
    """See the module."""
    shapes = {
        s.buffer.var: s.buffer.shape for s in statements(program.body) if isinstance(s, Allocate)
    }
    shapes |= {b.var: b.shape for b in program.buffers}

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        for s in body:
            if isinstance(s, Allocate) and s.buffer.role is Role.TEMP and s.fill is None:
                body = _without(body, s, shapes) or body
        return tuple(rebuild_allocations(s, block) for s in body)

    return replace(program, body=block(program.body))


def _without(body: tuple[Stmt, ...], made: Allocate, shapes: Shapes) -> tuple[Stmt, ...] | None:
    """The statements without a copy of a table, if they can wait with what they store in it."""
    v = made.buffer.var
    users = [k for k, x in enumerate(body) if x is not made and v in mentions(x)]
    if len(users) < 3:
        return None
    first, *between, last = users
    of = next((of for to, of in copies(body[first], shapes) if to == v), None)
    if of is None or (of, v) not in copies(body[last], shapes):
        return None
    inside = body[first + 1 : last]
    if any(writes(x) == of for x in statements(inside)):
        return None
    changed = _changed(inside)
    out: list[Stmt] = []
    back: list[Stmt] = []
    for k, x in enumerate(body):
        if k in between:
            found = list(_paths(x, v))
            if len(found) != 1 or any(y.buffer == v for z in statements((x,)) for y in loads(z)):
                return None
            stage = _stage(found[0], made.buffer, of, changed)
            if stage is None:
                return None
            buffer, here, there = stage
            back.append(there)
            out += (Allocate(buffer), _replaced(x, found[0][-1], here))
        elif k == last:
            out += back
        elif k != first and x is not made:
            out.append(x)
    return tuple(out)


def _changed(body: tuple[Stmt, ...]) -> set[Var]:
    """What is another value, or none at all, after the statements of a block."""
    out: set[Var] = set()
    for s in body:
        for x in statements((s,)):
            to = writes(x)
            if to is not None:
                out.add(to)
            if isinstance(x, Variable | Assign | Loop) or (isinstance(x, Let) and x is not s):
                out.add(x.var)
    return out


def _paths(s: Stmt, v: Var) -> Iterator[tuple[Stmt, ...]]:
    """The statements that store in a buffer, each with those around it."""
    if writes(s) == v:
        yield (s,)
    for block in blocks(s):
        for x in block:
            if v in mentions(x):
                yield from ((s, *path) for path in _paths(x, v))


def _stage(
    path: tuple[Stmt, ...], table: Buffer, of: Var, changed: set[Var]
) -> tuple[Buffer, Store, Stmt] | None:
    """Where the elements wait, the store that puts one there, and the loops that put them into
    the table; None if they may be more than it has, or are not known again afterwards."""
    *around, store = path
    loops = [x for x in around if isinstance(x, Loop)]
    conditions = [x for x in around if isinstance(x, When)]
    if not isinstance(store, Store) or not loops or len(loops) + len(conditions) < len(around):
        return None
    store = _by_the_loops(around, store)
    names = {x.var: fresh(x.var) for x in loops}
    fixed = [*(u for x in loops for n in (x.low, x.high) for u in used_in(n)),
             *(u for x in conditions for u in used(x.condition))]  # fmt: skip
    free = [u for i in store.at for u in used_in(i) if u not in names]
    if not changed.isdisjoint(fixed) or not changed.isdisjoint(free) or of in free:
        return None
    shape = tuple(_natural(x.high - x.low) for x in loops)
    fewer = _degree(shape) < _degree(table.shape) or shape == table.shape
    if not fewer and not _each_once(loops, store.at):
        return None
    wait = Buffer(fresh(table.var), table.dtype, shape, Role.TEMP)
    here = Store(wait.var, tuple(size(x.var) - x.low for x in loops), store.value)
    there: Stmt = Store(of, store.at, Load(wait.var, here.at))
    for x in reversed(around):
        match x:
            case When(condition, then):
                sides = ((there,), ()) if _is_in(path, then) else ((), (there,))
                there = When(condition, *sides)
            case Loop():
                order = Order.SERIAL if x.order is Order.SERIAL else Order.FREE
                there = Loop(x.var, x.low, x.high, (there,), order)
            case _:
                pass
    return wait, here, _renamed(there, names)


def _by_the_loops(around: list[Stmt], store: Store) -> Store:
    """The store with its place by variables of loops, where it is by names that they bind."""
    known: dict[Atom, Size] = {}
    for x in around:
        for block in blocks(x):
            for y in block:
                if isinstance(y, Let) and isinstance(y.value, Number):
                    known[y.var] = substitute(y.value.value, known.get)
    return replace(store, at=tuple(substitute(i, known.get) for i in store.at))


def _each_once(loops: list[Loop], at: tuple[Size, ...]) -> bool:
    """Whether no round stores where another one does: there are no more than elements then."""
    names = [x.var for x in loops]
    alone = {
        own[0] for i in at
        if len(own := [v for v in used_in(i) if v in names]) == 1 and i.coefficient(own[0])
    }  # fmt: skip
    return alone.issuperset(names)


def _renamed(s: Stmt, names: dict[Var, Var]) -> Stmt:
    def replaced(a: Atom) -> Size | None:
        return size(names[a]) if isinstance(a, Var) and a in names else None

    def loop(x: Stmt) -> Stmt:
        return replace(x, var=names[x.var]) if isinstance(x, Loop) else x

    def all_(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(loop(rebuild(x, all_)) for x in body)

    (out,) = all_(remade((s,), replaced))
    return out


def _degree(shape: tuple[Size, ...]) -> int:
    """How many factors of a product of extents are no numbers."""
    return sum(max((len(m) for m, _ in n.terms), default=0) for n in shape)


def _is_in(path: tuple[Stmt, ...], block: tuple[Stmt, ...]) -> bool:
    return any(x is y for x in path for y in block)


def _replaced(s: Stmt, old: Stmt, new: Stmt) -> Stmt:
    if s is old:
        return new
    return rebuild(s, lambda body: tuple(_replaced(x, old, new) for x in body))


def _natural(extent: Size) -> Size:
    return extent if extent.constant is not None else natural(extent)
