"""What a loop checks that its rounds do not change is checked in front of it. loops → loops

    before   free for j in 0..m:                    after    fail 1 if 0 < m and a[i] < 0
                 fail 1 if a[i] < 0                          free for j in 0..m:
                 store y[i, j] = x[a[i], j]                      store y[i, j] = x[a[i], j]

So it is of what a round does first. What stands behind another check that may fail is asked before
all of the nest, if all of its checks hang on what is there before:

    before   for i in 0..n: for j in 0..m:          after    var odd = False
                 fail 1 if a[i] < 0                          free for j in 0..m reducing or odd:
                 fail 2 if b[j] < 0                              odd := odd or b[j] < 0
                 …                                           if odd: for i in 0..n: for j in 0..m:
                                                                 fail 1 if a[i] < 0
                                                                 fail 2 if b[j] < 0
                                                             for i in 0..n:
                                                                 fail 1 if 0 < m and a[i] < 0
                                                                 for j in 0..m: …

If one fails, the rounds go through the checks in order, and the first that fails says so. A loop
without a way out becomes vectors, and one in order waits for no comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Order,
    Print,
    Program,
    Reduction,
    Stmt,
    Variable,
    When,
    While,
)
from naperian.loops.walk import (
    loads,
    reads,
    rebuild,
    rebuild_loops,
    statements,
    step,
    used_in,
)
from naperian.names import Lit, Var
from naperian.node import kept, replace
from naperian.passes.nests.once import asked, changed
from naperian.sizes import Size, rename

_Shapes = Mapping[Var, tuple[Size, ...]]


def checked_first(program: Program) -> Program:
    """See the module."""
    if not any(isinstance(x, Fail) for s in program.body for x in statements((s,))[1:]):
        return program  # nothing is checked in rounds
    made = [s for s in statements(program.body) if isinstance(s, Allocate)]
    shapes = {b.var: b.shape for b in (*program.buffers, *(s.buffer for s in made))}
    for s in made:  # parts may be the caller's
        if s.planes or shapes.get(s.buffer.var) != s.buffer.shape:
            shapes.pop(s.buffer.var, None)
    return replace(program, body=_leading(_apart(_leading(program.body), (), shapes)))


def _leading(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements, what rounds check first and do not change in front of their loops."""
    out: list[Stmt] = []
    for s in body:
        s = rebuild_loops(s, _leading)
        if isinstance(s, Loop) and _fails(s):
            own, rest, first = changed(s), list[Stmt](), True
            for x in s.body:
                if first and isinstance(x, Fail) and own.isdisjoint(reads(x)):
                    out.append(replace(x, condition=asked(x.condition, s)))
                    continue
                first = first and isinstance(x, Let | Variable | Allocate)
                rest.append(x)
            if not rest:
                continue  # it only checked
            s = replace(s, body=tuple(rest)) if len(rest) < len(s.body) else s
        out.append(s)
    return tuple(out)


def _apart(body: tuple[Stmt, ...], around: tuple[Loop, ...], shapes: _Shapes) -> tuple[Stmt, ...]:
    """The statements, what the rounds of a nest check and only loops inside change in front."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Loop) and _fails(s):
            found = _found(s, around, shapes)
            apart = [c for c in found if s.var not in c.own and len(c.around) > 1]
            if apart:
                odd = Var("odd")
                out.append(Variable(odd, DType.BOOL, Lit(False, DType.BOOL)))
                out += (x for c in apart for x in c.before(odd))
                out.append(When(Local(odd), (_alone(s, found),)))
                s = _without(s, [c.check for c in apart])
            if not s.body:
                continue
            out.append(rebuild(s, partial(_apart, around=(*around, s), shapes=shapes)))
        else:
            out.append(rebuild_loops(s, partial(_apart, around=around, shapes=shapes)))
    return tuple(out)


@kept
def _fails(s: Loop) -> bool:
    return any([isinstance(x, Fail) for x in statements(s.body)])


@dataclass
class _Check:
    """A check in the loops around it, with the names that it needs, and the loops that change what
    is asked."""

    check: Fail
    around: tuple[Loop, ...]
    names: tuple[Let, ...]
    own: frozenset[Var]

    def before(self, odd: Var) -> tuple[Stmt, ...]:
        """Ask for all rounds, also if the other loops make none: then no check fails."""
        either = Apply("or", (Local(odd), self.check.condition), DType.BOOL, DType.BOOL)
        body: tuple[Stmt, ...] = (*self.names, Assign(odd, either))
        order, flags = Order.FREE, [Reduction(odd, "or", DType.BOOL)]
        for s in reversed([s for s in self.around if s.var in self.own]):
            body = (Loop(s.var, s.low, s.high, body, order, tuple(flags)),)
            order, flags = Order.SERIAL, []
        return body


def _found(s: Loop, around: tuple[Loop, ...], shapes: _Shapes) -> list[_Check]:
    """The checks of a nest, if each may be asked before it: of what is there in any case."""
    inside = list(statements(s.body))
    if any(isinstance(x, While | Print) for x in inside):
        return []
    out = []
    own = changed(s)
    for check, nest, lets in _checks(s, (), ()):
        names = _needed(check, lets)
        parts: tuple[Stmt, ...] = (*names, check)
        used = {v for x in parts for v in reads(x)} - {x.var for x in names}
        loops = {x.var: x for x in (*around, *nest)}
        mine = frozenset(used & {x.var for x in nest})
        ends = {v for x in nest for e in (x.low, x.high) for v in used_in(e)}
        if not own.isdisjoint((used - mine) | ends) or not all(
            _is_there(e, loops, shapes) for x in parts for e in loads(x)
        ):
            return []
        out.append(_Check(check, nest, names, mine))
    return out if len(out) == sum(isinstance(x, Fail) for x in inside) else []


def _checks(
    s: Loop, around: tuple[Loop, ...], lets: tuple[Let, ...]
) -> Iterator[tuple[Fail, tuple[Loop, ...], tuple[Let, ...]]]:
    """The checks that every round makes, with the loops around them and the names known there."""
    nest = (*around, s)
    for x in s.body:
        if isinstance(x, Let):
            lets = (*lets, x)
        elif isinstance(x, Fail):
            yield x, nest, lets
        elif isinstance(x, Loop):
            yield from _checks(x, nest, lets)


def _needed(check: Fail, lets: Sequence[Let]) -> tuple[Let, ...]:
    """The names that a check needs, and what these need."""
    wanted, found = {*reads(check)}, list[Let]()
    for x in reversed(lets):
        if x.var in wanted:
            wanted |= reads(x)
            found.append(x)
    return tuple(reversed(found))


def _is_there(x: Load, loops: Mapping[Var, Loop], shapes: _Shapes) -> bool:
    """Whether a buffer has such an element in all rounds of loops, the last of them innermost."""
    shape = shapes.get(x.buffer)
    if shape is None or len(shape) != len(x.at):
        return False
    for least, n in zip(x.at, shape, strict=True):
        most = least
        for v, s in reversed([*loops.items()]):
            low, high = step(least, v), step(most, v)
            if low is None or high is None:
                return False
            least = rename(least, {v: s.low if low > 0 else s.high - 1})
            most = rename(most, {v: s.low if high < 0 else s.high - 1})
        if any(e.constant is None or e.constant < 0 for e in (least, n - 1 - most)):
            return False
    return True


def _alone(s: Loop, found: Sequence[_Check]) -> Loop:
    """The checks of a nest in order, and nothing else."""
    kept = {id(x) for c in found for x in (c.check, *c.names)}

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for x in body:
            if isinstance(x, Loop) and _fails(x):
                out.append(replace(x, body=block(x.body), order=Order.SERIAL, reductions=()))
            elif id(x) in kept:
                out.append(x)
        return tuple(out)

    return replace(s, body=block(s.body), order=Order.SERIAL, reductions=())


def _without(s: Loop, gone: Sequence[Fail]) -> Loop:
    """A nest without some of its checks, and without loops that had nothing else."""
    left = (x for x in s.body if not any(x is y for y in gone))
    body = (_without(x, gone) if isinstance(x, Loop) else x for x in left)
    return replace(s, body=tuple(x for x in body if not isinstance(x, Loop) or x.body))
