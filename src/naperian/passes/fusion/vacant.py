"""What stands in front of a loop over an axis reads no element of it if it has none. ainf → ainf

    before   v = sin(x[p[clamp(k, n)]])        after    some = gt(n, 0)
             for i < n: y = v * x[i]                    if some: w = p[clamp(k, n)]
                                                        q = select(some, w, 0)
                                                        if some: u = x[q]
                                                        v = sin(select(some, u, 0.0))
                                                        for i < n: y = v * x[i]

In the loop the axis has elements, so nobody asked whether `clamp` and `wrap` have any to choose
from; in front of it there may be none, and what lies beside a table is no place in another.
What was checked to have elements is left alone in loops, where the check would be one more; one
that asks only where some loop has rounds says nothing in front of that loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Check,
    Delay,
    Entry,
    Guard,
    Index,
    Number,
    Op,
    Operand,
    Prim,
    Program,
    Read,
)
from naperian.ainf.walk import free, map_prim, number, operands, variables
from naperian.dtypes import DType
from naperian.facts import Facts
from naperian.names import Lit, Var
from naperian.node import node, replace
from naperian.passes.bindings.builder import Builder, Guards
from naperian.passes.bindings.ranges import facts_about
from naperian.prims import unit
from naperian.sizes import ZERO, Clamp, Remainder, Size, size

Sizes = frozenset[Size]


def vacant(program: Program) -> Program:
    """See the module."""
    read = (o for b in program.bindings for o in operands(b.prim))
    if not any(True for o in read for _ in _axes(o, program.indices)):
        return program
    made = _Vacant(program)
    changed = made.result()
    return changed if made.changed else program


@node
class _Checked:
    """That an axis has elements where all of these have some, in loops that conditions end and
    under guards."""

    axis: Size
    rounds: tuple[Size, ...]
    loops: frozenset[Var]
    guards: frozenset[Guard]


class _Vacant:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.sizes = frozenset(program.sizes)
        self.b = Builder(program.name, program.sizes, program.params)
        for i, index in program.indices.items():
            inside = [] if index.condition is None else free(index.condition)
            self.b.add_index(i, index, (v for v in inside if v in self.b.closures))
        self.unsure: dict[Var, Sizes] = {}  # what is a value only where these axes have elements
        self.checked = tuple(_checked(program))
        self.known: dict[tuple[Size, Guards], Read] = {}
        self.changed = False

    def result(self) -> Program:
        for b in self.program.bindings:
            found: set[Size] = set()
            here = self.b.closed(b.context)
            look = partial(self.operand, b, found)
            prim: Prim
            match b.prim:
                case Accumulate(_, init, entries):
                    each = []
                    for e in entries:
                        inside = self.b.closed((*_rows(b, e), *e.over))
                        value = look(inside, (*b.guards, *e.guards), e.value)
                        each.append(self.placed(b, replace(e, value=value), inside))
                    start = look(here, b.guards, init)
                    prim = replace(b.prim, init=start, entries=tuple(each))
                case Delay(index=own, init=init):
                    # in front of the rounds; the next value is one's, and is made behind it
                    before = self.b.closed(i for i in b.context if i != own)
                    prim = replace(b.prim, init=look(before, b.guards, init))
                case _:
                    prim = map_prim(b.prim, partial(look, here, b.guards), _same)
            if found:
                self.unsure[b.var] = frozenset(found)
            self.b.add(prim, b.context, b.guards, b.dtype, b.origin, b.var)
        p = self.program
        return self.b.program(p.results, p.failures, p.math, p.lines)

    def operand(
        self, b: Binding, found: set[Size], here: frozenset[Var], guards: Guards, o: Operand
    ) -> Operand:
        """An operand, read where it is there. What it needs for that comes to `found`."""
        if isinstance(o, Lit):
            return o
        at = o.at if isinstance(o, Read) else (o.value,)
        if all([e.plain for e in at]) and (isinstance(o, Number) or o.var not in self.unsure):
            return o
        places = {n for n in self.needed(o) if not self.positive(n, here, guards)}
        if isinstance(o, Read):
            own = (n for n in self.unsure.get(o.var, ()) if not self.positive(n, here, guards))
            found.update(own)
        found |= places
        if isinstance(o, Number) or all(self.asked(n, here, guards) for n in places):
            return o
        self.changed = True
        for n in sorted(places, key=str):
            o = self.there(o, self.some(n, guards), n, guards, b)
        return o

    def some(self, n: Size, guards: Guards) -> Read:
        """Whether an axis has elements, asked once under the same guards."""
        if (n, guards) not in self.known:
            test = self.b.op("gt", (number(n), Lit(0, DType.I64)), DType.BOOL, guards)
            self.known[n, guards] = test
        return self.known[n, guards]

    def placed(self, b: Binding, e: Entry, here: frozenset[Var]) -> Entry:
        """What goes to a place that is there."""
        guards = (*b.guards, *e.guards)
        for n in sorted({n for k in e.at for n in self.needed(Number(k))}, key=str):
            if not self.positive(n, here, guards) and not self.asked(n, here, guards):
                self.changed = True
                there_is_one = Guard(self.some(n, b.guards), True, n - 1)
                e = replace(e, guards=(*e.guards, there_is_one))
        return e

    def there(self, o: Operand, some: Read, n: Size, guards: Guards, b: Binding) -> Operand:
        dtype = self.b.dtype(o)
        under = (*guards, Guard(some, True, n - 1))
        read = self.b.bind(Op("copy", (o,)), dtype, under, b.origin)
        none = Lit(unit("or" if dtype is DType.BOOL else "add", dtype), dtype)
        return self.b.op("select", (some, read, none), dtype, guards, b.origin)

    def needed(self, o: Operand) -> Iterator[Size]:
        """The axes that must have elements for an operand's places to be there."""
        yield from _axes(o, self.b.indices)
        for r in _inner(o):
            yield from self.unsure.get(r.var, ())

    def asked(self, n: Size, here: frozenset[Var], guards: Guards) -> bool:
        """Whether a check has found elements in an axis, or one that is no longer, before any round
        of these loops."""
        return bool(here) and any(
            _is_as_long(n, c.axis) and c.guards.issubset(guards) and c.loops <= here
            and all(self.positive(e, here, guards) for e in c.rounds)
            for c in self.checked
        )  # fmt: skip

    def positive(self, n: Size, here: Iterable[Var], guards: Guards) -> bool:
        """Whether an axis has elements in the rounds of these loops."""
        if _is_more(n):
            return True
        extents = [e for i in here if (e := self.b.extent(i)) is not None]
        if any(e == n or _divides(n, e) for e in extents):
            return True
        if len(n.terms) == 1 and n.single is None:  # of several axes as one, each
            ((factors, times),) = n.terms
            each = (isinstance(v, Var) and self.positive(size(v), here, guards) for v in factors)
            return times > 0 and all(each)
        facts = facts_about(n, self.b.indices, self.sizes, guards, Facts())
        return facts.and_(*(e - 1 for e in extents)).proves(n - 1)


def _rows(b: Binding, e: Entry) -> Iterator[Var]:
    """The axes of an accumulation that a contribution goes along: it has a place on each."""
    named = {*free(e.value), *(v for k in e.at for v in variables(k))}
    named |= {v for g in e.guards for v in free(g.operand)}
    yield from (i for i in b.context if i in named)


def _is_more(n: Size) -> bool:
    """Whether an axis is one element and more than a number found in the run says, as the strips of
    a loop with checkpoints are: such a number is how many there are of something."""
    more = n - 1
    counts = all(isinstance(a, Read) for a in more.atoms)
    return counts and all(c > 0 for _, c in more.terms)


def _axes(o: Operand, indices: Mapping[Var, Index]) -> Iterator[Size]:
    """The axes of which a place in an operand is an element, whatever it is made of. A remainder
    of an index alone is most often that of two loops which are one, and so have rounds."""
    sizes = o.at if isinstance(o, Read) else (o.value,) if isinstance(o, Number) else ()
    for s in sizes:
        for a in () if s.plain else s.atoms:
            match a:
                case Clamp(value, extent) if extent != value + 1 and extent.constant is None:
                    yield extent
                    yield from _axes(Number(value), indices)
                case Remainder(value, extent) if extent.constant is None:
                    if value.single is None or not any(v in indices for v in variables(value)):
                        yield extent
                    yield from _axes(Number(value), indices)
                case Read():
                    yield from _axes(a, indices)
                case _:
                    pass


def _inner(o: Operand) -> Iterator[Read]:
    """What the places of an operand are made of."""
    sizes = o.at if isinstance(o, Read) else (o.value,) if isinstance(o, Number) else ()
    for s in sizes:
        for a in s.atoms:
            match a:
                case Clamp(value, _) | Remainder(value, _):
                    yield from _inner(Number(value))
                case Read():
                    yield a
                    yield from _inner(a)
                case _:
                    pass


def _same(s: Size) -> Size:
    return s


def _divides(n: Size, extent: Size) -> bool:
    """Whether an axis is a factor of a loop's."""
    return isinstance(n.single, Var) and all(n.single in m for m, _ in extent.terms)


def _is_as_long(n: Size, axis: Size) -> bool:
    more = (n - axis).constant
    return more is not None and more >= 0


def _checked(program: Program) -> Iterator[_Checked]:
    """What checks find: `n > 0 or k < 1` is that n has elements in the rounds of a loop over k."""
    made = {b.var: b.prim for b in program.bindings if isinstance(b.prim, Op)}
    for b in program.bindings:
        if not isinstance(b.prim, Check):
            continue
        axes: list[Size] = []
        around = {i: program.indices[i] for i in b.context}
        loops = frozenset(i for i, index in around.items() if index.condition is not None)
        rounds = [x.extent for x in around.values() if x.extent is not None]
        work = [b.prim.condition]
        while work:
            o = work.pop()
            match made.get(o.var) if isinstance(o, Read) else None:
                case Op("or", args):
                    work += args
                case Op("ge", (Number(less), Lit(0))):
                    axes.append(less + 1)
                case Op("ge", (Number(n), Lit(1))) | Op("gt", (Number(n), Lit(0))):
                    axes.append(n)
                case Op("lt", (Number(n), Lit(1))):
                    rounds.append(n)
                case _:  # it holds for another reason, perhaps
                    axes += (ZERO, ZERO)
        if len(axes) == 1:
            yield _Checked(axes[0], tuple(rounds), loops, frozenset(b.guards))
