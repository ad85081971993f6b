"""What a loop adds to one element goes on in a register, and then there. loops → loops

    before   for j: update g[a, b] += v[i, j] * x[i, j + b]

    after    var sum = -0.0
             free for j reducing add sum: sum := sum + v[i, j] * x[i, j + b]
             if 0 < m: update g[a, b] += sum

A sum into memory waits for memory in every round, and is no sum to vectors: so are the derivatives
of a kernel, each from a whole image. A loop that does more than that has registers for its sums if
nothing else is in the way of vectors: a derivative by the scale of a channel, beside a value that
is summed up. It regroups what is added: `strict` has none of it. Where there are no rounds, the
element may not even exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Let,
    Local,
    Loop,
    Number,
    Order,
    Program,
    Reduction,
    Stmt,
    Store,
    Update,
    Variable,
    When,
)
from naperian.loops.walk import loads, rebuild_loops, statements, used_in
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.passes.nests.independent import are_apart
from naperian.prims import Math
from naperian.sizes import Remainder, Size, size

_FEW = 8  # rounds that are written out
_PLACES = 16  # that a loop adds to, each a vector's register


def summed(program: Program) -> Program:
    """See the module."""
    return _in_blocks(program, lambda s, types: _alone(s, types) or _among_others(s, types))


def summed_besides(program: Program) -> Program:
    """The same for loops that sum up other things, too: a row of such rounds is a vector by itself,
    and waits for nothing that the next row would not wait for."""
    return _in_blocks(program, lambda s, types: _among_others(s, types) if s.reductions else None)


Types = Mapping[Var, DType]


def _in_blocks(program: Program, step: Callable[[Loop, Types], Sequence[Stmt] | None]) -> Program:
    if program.math is Math.STRICT:
        return program
    made = [s.buffer for s in statements(program.body) if isinstance(s, Allocate)]
    types = {b.var: b.dtype for b in (*program.buffers, *made)}

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            made = step(s, types) if isinstance(s, Loop) else None
            out += (rebuild_loops(s, block),) if made is None else made
        return tuple(out)

    return replace(program, body=block(program.body))


def _alone(s: Loop, types: Types) -> Sequence[Stmt] | None:
    """A loop that does nothing else but add to elements."""
    if not _is_sum(s):
        return None
    return _in_registers(s, {x.buffer for x in s.body if isinstance(x, Update)}, types)


def _among_others(s: Loop, types: Types) -> Sequence[Stmt] | None:
    """A loop that does more, if its rounds are independent then."""
    sums = _sums(s)
    if not sums:
        return None
    made = _in_registers(s, sums, types)
    loop = next(x for x in made if isinstance(x, Loop))
    return made if are_apart(loop) or (s.reductions and _only_sums(loop)) else None


def _sums(s: Loop) -> set[Var]:
    """The arrays that an innermost loop only adds to, at a few places that are the same in all
    rounds."""
    if s.order is not Order.SERIAL:
        return set()
    if not all(isinstance(x, Let | Variable | Assign | Store | Update) for x in s.body):
        return set()
    own = {s.var, *(x.var for x in s.body if isinstance(x, Let | Variable))}
    touched = {y.buffer for x in s.body for y in loads(x)}
    touched |= {x.buffer for x in s.body if isinstance(x, Store)}
    updates = [x for x in s.body if isinstance(x, Update)]
    touched |= {
        x.buffer for x in updates
        if x.monoid != "add" or not all(own.isdisjoint(used_in(e)) for e in x.at)
    }  # fmt: skip
    places = {(x.buffer, x.at) for x in updates if x.buffer not in touched}
    return {b for b, _ in places} if len(places) <= _PLACES else set()


def _is_sum(s: Loop) -> bool:
    """Whether a loop only adds to elements that are the same in all rounds."""
    if s.order is not Order.SERIAL or s.reductions:
        return False
    if not all(isinstance(x, Let | Update) for x in s.body):
        return False
    rounds = (s.high - s.low).constant
    if (rounds is not None and rounds <= _FEW) or not _goes_along(s):
        return False
    changed = {x.buffer for x in s.body if isinstance(x, Update)}
    own = {s.var, *(x.var for x in s.body if isinstance(x, Let))}
    return bool(changed) and all(
        changed.isdisjoint(y.buffer for y in loads(x))
        and (
            not isinstance(x, Update)
            or (x.monoid == "add" and all(own.isdisjoint(used_in(e)) for e in x.at))
        )
        for x in s.body
    )


def _only_sums(s: Loop) -> bool:
    """Whether a loop does nothing but sum up, along what lies side by side."""
    own = {r.var for r in s.reductions} | {x.var for x in s.body if isinstance(x, Variable)}
    rounds = (s.high - s.low).constant
    if (rounds is not None and rounds <= _FEW) or not _goes_along(s):
        return False
    return all(
        isinstance(x, Let | Variable) or (isinstance(x, Assign) and x.var in own) for x in s.body
    )


def _goes_along(s: Loop) -> bool:
    """Whether a loop reads what lies side by side; others may be rows that a loop around it adds
    up side by side."""
    read = [y.at for x in s.body for y in loads(x)]
    mine = [at for at in read if any(s.var in used_in(e) for e in at)]
    return bool(mine) and all(_lies_along(at, s.var) for at in mine)


def _lies_along(at: tuple[Size, ...], v: Var) -> bool:
    """Whether a place goes along the last axis with a variable, or along whole rows of it, which
    are one (`nests/collapse.py`)."""
    rest = size(v)
    for k in reversed(range(1, len(at))):
        match at[k].single:
            case Remainder(above, below) if above == rest:
                rest = rest // below
            case _:
                return all(v not in used_in(e) for e in at[:k])
    return rest == size(v) or v not in used_in(at[0] - rest)


def _in_registers(s: Loop, sums: set[Var], types: Types) -> list[Stmt]:
    """The loop with a register for each place that it adds to, and what is before and after it."""
    starts: list[Stmt] = []
    body: list[Stmt] = []
    ends: list[Stmt] = []
    reductions: list[Reduction] = []
    registers: dict[tuple[Var, tuple[Size, ...]], Var] = {}
    for x in s.body:
        if not isinstance(x, Update) or x.buffer not in sums:
            body.append(x)
            continue
        dtype = types[x.buffer]
        v = registers.get((x.buffer, x.at))
        if v is None:
            v = registers[x.buffer, x.at] = Var("sum")
            starts.append(Variable(v, dtype, Lit(-0.0 if dtype.is_float else 0, dtype)))
            reductions.append(Reduction(v, "add", dtype))
            ends.append(replace(x, value=Local(v)))
        body.append(Assign(v, Apply("add", (Local(v), x.value), dtype, dtype)))
    loop = replace(s, body=tuple(body), order=Order.FREE, reductions=(*s.reductions, *reductions))
    if not ((s.high - s.low).constant or 0) > 0:
        some = Apply("lt", (Number(s.low), Number(s.high)), DType.BOOL, DType.I64)
        ends = [When(some, tuple(ends))]
    return [*starts, loop, *ends]
