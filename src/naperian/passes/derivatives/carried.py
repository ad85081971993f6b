"""What a round hands on to the next has one history, not two. ainf → ainf

    for i<n, t<c + 1:  m = delay over t<c from z[i] next f[t, i]
    for u<c, i<n:      y = mul(w[u, i], f[c - u - 1, i])          a value of another round

    for u<c, i<n:      y = mul(w[u, i], m[i, c - u])              is the state of the next one

Where the derivative reads the state as well, all of its values are kept anyway. The values may also
be those of a scan along an axis, as of a network's layers, each of which sees what the one below it
gives: but for the first of each scan, which it starts from, they are those of the state.

    for t<c, j<n + 1:  h = delay over s<n from a[t] next f[t, s]
    for j<n, t<c + 1:  m = delay over t<c from z[j] next h[t, j + 1]
    for u<c, j<n:      y = mul(w[u, j], h[c - u - 1, n - j - 1])

    for u<c, j<n:      x = select(ge(n - j - 2, 0), m[n - j - 2, c - u], a[c - u - 1])
    for u<c, j<n:      y = mul(w[u, j], x[u, j])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from naperian.ainf.syntax import Binding, Delay, Guard, Number, Op, Operand, Program, Read
from naperian.ainf.walk import atoms, number, operands, reads, rewrite, variables
from naperian.dtypes import DType
from naperian.facts import Facts
from naperian.names import Lit, Var, fresh
from naperian.node import node, replace
from naperian.passes.bindings.ranges import checked, facts_about
from naperian.sizes import ONE, ZERO, places, size

_Bindings: TypeAlias = dict[Var, Binding]
_Readers: TypeAlias = dict[Var, list[tuple[Var, Read]]]


@node
class _Same:
    """A value that is a state's, a round later."""

    value: Binding
    state: Binding
    time: Var  # of the state's rounds
    axes: tuple[int, ...]  # of the state, among those of the value
    scan: int | None = None  # the axis along which there is one more, in front,
    first: Operand | None = None  # which is this

    @property
    def index(self) -> int:
        """Which axis of the state counts its rounds."""
        assert isinstance(self.state.prim, Delay)
        return self.state.context.index(self.state.prim.index)

    def is_afar(self, r: Read) -> bool:
        """Whether the value is read in another round, or after all of them."""
        return r.var == self.value.var and r.at[self.axes[self.index]] != size(self.time)


def carried(program: Program) -> Program:
    """See the module."""
    if not any([isinstance(b.prim, Delay) for b in program.bindings]):
        return program
    made, readers = _known(program)
    for m in program.bindings:
        for same in _same(program, m, made):
            after = _once(program, same, made, readers)
            if after is not program:
                program = after
                made, readers = _known(program)
    return program


def _known(program: Program) -> tuple[_Bindings, _Readers]:
    """The bindings by name, and which reads there are of each in which."""
    readers: _Readers = {}
    for b in program.bindings:
        for r in reads(b):
            readers.setdefault(r.var, []).append((b.var, r))
    return {b.var: b for b in program.bindings}, readers


def _same(program: Program, m: Binding, made: _Bindings) -> Iterator[_Same]:
    """The values that a state has, the last first."""
    if not isinstance(m.prim, Delay) or m.guards or not isinstance(m.prim.next, Read):
        return
    time, x = m.prim.time, made.get(m.prim.next.var)
    if x is None or x.guards or program.indices[time].condition is not None:
        return
    here: dict[object, object] = {time: m.prim.index}
    if isinstance(x.prim, Op):
        axes = _axes(program, m, x, [here.get(e.single, e.single) for e in m.prim.next.at])
        if axes is not None:
            yield _Same(x, m, time, axes)
        return
    if not isinstance(x.prim, Delay) or x.prim.time == time or not isinstance(x.prim.next, Read):
        return
    scan = x.context.index(x.prim.index)
    at = [e - (ONE if k == scan else ZERO) for k, e in enumerate(m.prim.next.at)]
    found = [here.get(e.single, e.single) for e in at]
    axes = _axes(program, m, x, found, scan)
    f = made.get(x.prim.next.var)
    if axes is None or program.indices[x.prim.time].condition is not None:
        return
    yield _Same(x, m, time, axes, scan, x.prim.init)
    if f is not None and isinstance(f.prim, Op) and not f.guards:
        names: dict[object, object] = dict(zip(x.context, found, strict=True))
        names[x.prim.time] = found[scan]
        axes = _axes(program, m, f, [names.get(e.single) for e in x.prim.next.at])
        if axes is not None:
            yield _Same(f, m, time, axes)


def _axes(
    program: Program, m: Binding, x: Binding, found: list[object], scan: int | None = None
) -> tuple[int, ...] | None:
    """Which axis of a value is each of a state's, if it has the same: `found` are those of the
    state, in the order of the value's. Along a scan there is one more."""
    assert isinstance(m.prim, Delay)
    if len(found) != len(m.context) or {*found} != {*m.context} or x.dtype is not m.dtype:
        return None
    for k, i in enumerate(found):
        assert isinstance(i, Var)
        own, theirs = program.indices[x.context[k]], program.indices[i]
        if own.condition is not None or theirs.condition is not None or own.extent is None:
            return None
        more = ONE if k == scan else -ONE if i == m.prim.index else ZERO
        if theirs.extent is None or own.extent != theirs.extent + more:
            return None
    return tuple(found.index(i) for i in m.context)


def _once(program: Program, s: _Same, made: _Bindings, readers: _Readers) -> Program:
    """The program without reads of the value in other rounds, if all can be those of the state and
    there are such."""
    value = s.value.var
    far = {v for v, r in readers.get(value, ()) if s.is_afar(r)}
    if not far:
        return program
    inside = _needed(program.bindings, s.time, made)
    kept = any(
        v not in inside and r.at[s.index] != size(s.time)
        for v, r in readers.get(s.state.var, ())
    )  # fmt: skip
    shown = {a.var for r in program.results for a in atoms(r.value) if isinstance(a, Read)}
    if not kept or s.value.var in shown or not far.isdisjoint(inside):
        return program
    if not all(_plainly(made[v], s.value.var) for v in far):
        return program
    out: list[Binding] = []
    for b in program.bindings:
        if b.var in far:
            assert isinstance(b.prim, Op)
            names: dict[Operand, Operand] = {}
            for r in dict.fromkeys(b.prim.args):
                if isinstance(r, Read) and s.is_afar(r):
                    names[r], more = _instead(program, s, b, r)
                    out += more
            args = tuple(names.get(a, a) for a in b.prim.args)
            b = replace(b, prim=replace(b.prim, args=args))
        out.append(b)
    return replace(program, bindings=tuple(out))


def _needed(bindings: Iterable[Binding], time: Var, made: _Bindings) -> set[Var]:
    """What the rounds over a time need."""
    todo = [b.var for b in bindings if isinstance(b.prim, Delay) and b.prim.time == time]
    found = set(todo)
    while todo:
        for r in reads(made[todo.pop()]):
            if r.var in made and r.var not in found:
                found.add(r.var)
                todo.append(r.var)
    return found


def _plainly(b: Binding, var: Var) -> bool:
    """Whether a binding reads a value as an operand only."""
    if not isinstance(b.prim, Op):
        return False
    inner = (e for o in operands(b.prim) if isinstance(o, Read) for e in o.at)
    asked = (*(Number(e) for e in inner), *(g.operand for g in b.guards))
    return all(not isinstance(a, Read) or a.var != var for o in asked for a in atoms(o))


def _instead(program: Program, s: _Same, b: Binding, r: Read) -> tuple[Operand, list[Binding]]:
    """A read of the value as one of the state, or of what a scan starts from."""
    at = [e - ONE if k == s.scan else e for k, e in enumerate(r.at)]
    there = [at[k] + ONE if n == s.index else at[k] for n, k in enumerate(s.axes)]
    later = Read(s.state.var, tuple(there))
    if s.scan is None or s.first is None:
        return later, []
    less = at[s.scan]
    known = Facts().and_(*checked(program))
    sizes = frozenset(program.sizes)
    if facts_about(less, program.indices, sizes, b.guards, known).proves(less):
        return later, []
    of_first = dict(zip(s.value.context, r.at, strict=True))
    mentioned = {*variables(less)}
    asks = Binding(
        fresh(b.var), tuple(i for i in b.context if i in mentioned), (), DType.BOOL,
        Op("ge", (number(less), Lit(0, DType.I64))), b.origin,
    )  # fmt: skip
    asked = Read(asks.var, places(asks.context))
    guards = (*b.guards, Guard(asked, True, less))
    read = replace(
        b, var=fresh(b.var), guards=guards, dtype=s.value.dtype, prim=Op("copy", (later,))
    )
    arms = Read(read.var, places(b.context)), rewrite(s.first, of_first)
    chosen = replace(read, var=fresh(b.var), guards=b.guards, prim=Op("select", (asked, *arms)))
    return Read(chosen.var, places(b.context)), [asks, read, chosen]
