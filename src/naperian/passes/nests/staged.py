"""A table of which a round computes a few elements from many of it is not copied. loops → loops

    for t in 0..k:                                  for t in 0..k:
        allocate v[n, 3]                                allocate w[3]
        for i, j: store v[i, j] = s[i, j]       ⇒       for j in 0..3: store w[j] = f(s[t, …])
        for j in 0..3: store v[t, j] = f(s[t, …])       for j in 0..3: store s[t, j] = w[j]
        for i, j: store s[i, j] = v[i, j]

Changed at once, the elements would no longer be what the next ones are computed from (`coalesce`):
the rows of a matrix that is replaced by its product with another, or a row that is shifted. So they
wait until all are there, and are put back by the same loops, under the same conditions; an element
that is in no loop waits in a variable.
"""

from __future__ import annotations

from collections.abc import Iterator

from naperian.loops.syntax import (
    Allocate,
    Assign,
    Buffer,
    Let,
    Load,
    Local,
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
    step,
    used,
    used_in,
    users,
    writes,
)
from naperian.names import Lit, Var, fresh
from naperian.node import node, replace
from naperian.passes.nests.whole import Arrays, arrays, copies
from naperian.prims import unit
from naperian.sizes import Atom, Size, natural, size, substitute


@node
class _Stage:
    """Where an element waits that a store puts into a copy, the statement that puts it there in its
    place, and the store that puts it into the original afterwards."""

    place: Stmt
    store: Store
    here: Stmt
    there: Store


def staged(program: Program) -> Program:
    """See the module."""
    known = arrays(program)

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        used = users(body)
        for s in body:
            if isinstance(s, Allocate) and s.buffer.role is Role.TEMP and s.fill is None:
                after = _without(body, s, used[s.buffer.var], known)
                if after is not None:
                    body, used = after, users(after)
        return tuple(rebuild_allocations(s, block) for s in body)

    return replace(program, body=block(program.body))


def _without(
    body: tuple[Stmt, ...], made: Allocate, used: list[int], known: Arrays
) -> tuple[Stmt, ...] | None:
    """The statements without a copy of a table, if those that it is used in can wait with what they
    store in it."""
    v = made.buffer.var
    if len(used) < 3:
        return None
    first, *between, last = used
    of = next((of for to, of in copies(body[first], known) if to == v), None)
    if of is None or (of, v) not in copies(body[last], known):
        return None
    inside = body[first + 1 : last]
    if any(writes(x) == of for x in statements(inside)):
        return None
    changed = _changed(inside)
    out: list[Stmt] = []
    back: list[Stmt] = []
    for k, x in enumerate(body):
        if k in between:
            if any(y.buffer == v for z in statements((x,)) for y in loads(z)):
                return None
            stages = [_stage(path, made.buffer, of, changed) for path in _paths(x, v)]
            if not stages or not all(stages):
                return None
            found = [stage for stage in stages if stage is not None]
            out += (s.place for s in found)
            out.append(_replaced(x, {id(s.store): s.here for s in found}))
            back += _put_back((x,), {id(s.store): s.there for s in found})
        elif k == last:
            out += back
        elif k != first and x is not made:
            out.append(x)
    return tuple(out)


def _put_back(body: tuple[Stmt, ...], there: dict[int, Store]) -> Iterator[Stmt]:
    """The loops and conditions of statements, with the stores that put what waits into a table."""
    for s in body:
        if id(s) in there:
            yield there[id(s)]
            continue
        inner = [tuple(_put_back(block, there)) for block in blocks(s)]
        match s:
            case Loop() if inner[0]:
                var = fresh(s.var)
                names: dict[Atom, Size] = {s.var: size(var)}
                order = Order.SERIAL if s.order is Order.SERIAL else Order.FREE
                yield Loop(var, s.low, s.high, remade(inner[0], names.get), order)
            case When(condition) if inner[0] or inner[1]:
                yield When(condition, inner[0], inner[1])
            case _:
                pass


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
) -> _Stage | None:
    """How an element waits; None if more of them may than the table has, or if they are not known
    again afterwards."""
    *around, old = path
    loops = [x for x in around if isinstance(x, Loop)]
    conditions = [x for x in around if isinstance(x, When)]
    if not isinstance(old, Store) or len(loops) + len(conditions) < len(around):
        return None
    store = _by_the_loops(around, old)
    own = [x.var for x in loops]
    fixed = [u for x in loops for n in (x.low, x.high) for u in used_in(n)]
    free = [u for i in store.at for u in used_in(i)]
    free = [u for x in conditions for u in used(x.condition)] + free
    free = [u for u in free if u not in own]
    if not changed.isdisjoint(fixed) or not changed.isdisjoint(free) or of in free:
        return None
    if not loops:
        alone = Variable(fresh(table.var), table.dtype, Lit(unit("add", table.dtype), table.dtype))
        back = replace(store, buffer=of, value=Local(alone.var))
        return _Stage(alone, old, Assign(alone.var, store.value), back)
    shape = tuple(_natural(x.high - x.low) for x in loops)
    fewer = _degree(shape) < _degree(table.shape) or shape == table.shape
    if not fewer and not _each_once(loops, store.at):
        return None
    wait = Buffer(fresh(table.var), table.dtype, shape, Role.TEMP)
    here = Store(wait.var, tuple(size(x.var) - x.low for x in loops), store.value)
    back = Store(of, store.at, Load(wait.var, here.at))
    return _Stage(Allocate(wait), old, here, back)


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
        if len(own := [v for v in used_in(i) if v in names]) == 1 and step(i, own[0])
    }  # fmt: skip
    return alone.issuperset(names)


def _degree(shape: tuple[Size, ...]) -> int:
    """How many factors of a product of extents are no numbers."""
    return sum(max((len(m) for m, _ in n.terms), default=0) for n in shape)


def _replaced(s: Stmt, new: dict[int, Stmt]) -> Stmt:
    if id(s) in new:
        return new[id(s)]
    return rebuild(s, lambda body: tuple(_replaced(x, new) for x in body))


def _natural(extent: Size) -> Size:
    return extent if extent.constant is not None else natural(extent)
