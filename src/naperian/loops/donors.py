"""Which results may be written over which arguments, as in `f(x, out=x)`.

    for i: y[i] = 2·x[i] + z[i]      x and z are donors of y
    for i: y[i] = x[n - 1 - i]       none: y[0] is written before x[0] is read

An argument of a result's type and shape is a donor of it if all that is read of it was read before:
in an earlier nest, or in the same iteration of independent ones, and then only the element that is
written. A run that may still fail takes nothing, so that a caller whose call failed has lost
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from naperian.loops.syntax import (
    Allocate,
    Contract,
    Fail,
    Loop,
    Order,
    Program,
    Role,
    Sort,
    Stmt,
    Store,
    Update,
    While,
    made_here,
)
from naperian.loops.walk import blocks, loads, mentions, statements
from naperian.names import Var
from naperian.sizes import Size


def donors(program: Program) -> tuple[tuple[Var, Var], ...]:
    """Pairs of an argument and the result that may be written over it."""
    body = program.body
    if any(isinstance(s, Allocate) and s.planes for s in statements(body)):
        return ()
    named = [mentions(s) for s in body]
    failing = max(
        (k for k, s in enumerate(body) if any(isinstance(t, Fail) for t in statements((s,)))),
        default=-1,
    )
    own = made_here(body)
    pairs = []
    for r in program.buffers:
        first = next((k for k, names in enumerate(named) if r.var in names), None)
        if r.role is not Role.OUT or r.var in own or not r.shape:
            continue
        if first is None or failing >= first:
            continue
        for a in program.buffers:
            if a.role is not Role.IN or (a.dtype, a.shape) != (r.dtype, r.shape):
                continue
            last = max((k for k, names in enumerate(named) if a.var in names), default=-1)
            if last < first or (last == first and together((body[first],), a.var, r.var)):
                pairs.append((a.var, r.var))
    return tuple(pairs)


def together(block: tuple[Stmt, ...], a: Var, r: Var) -> bool:
    """Whether every iteration reads no other element of `a` than it writes of `r`, and before."""
    match [s for s in block if not mentions(s).isdisjoint((a, r))]:
        case [Loop(_, _, _, body, Order.FREE | Order.PARALLEL, reductions)]:
            return all(x.var != r for x in reductions) and together(body, a, r)
        case concerned:
            pass
    places: set[tuple[Size, ...]] = set()
    written = False
    for s, repeated in _in_order(concerned):
        read = [x for x in loads(s) if x.buffer in (a, r)]
        places.update(x.at for x in read)
        if written and any(x.buffer == a for x in read):
            return False
        match s:
            case Store(buffer, at) if buffer == r:
                places.add(at)
                written = True
                if repeated:
                    return False
            case Update(buffer) if buffer == r:
                return False
            case Contract() | Sort() if not mentions(s).isdisjoint((a, r)):
                return False
            case _:
                pass
    return written and len(places) == 1


def _in_order(block: Sequence[Stmt], repeated: bool = False) -> Iterator[tuple[Stmt, bool]]:
    """Statements with what is in them, and whether a loop of the block repeats them."""
    for s in block:
        yield s, repeated
        for inner in blocks(s):
            yield from _in_order(inner, repeated or isinstance(s, Loop | While))
