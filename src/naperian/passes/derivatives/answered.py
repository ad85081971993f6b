"""What a loop backwards asks of a round is answered in that round. ainf → ainf

    for t<k, i<n:  a = …                              a loop forwards
    for t<k, i<n:  b = …
    for i<n, u<k:  y = le(a[k - u - 1, i], b[k - u - 1, i])

    for t<k, i<n:  c = le(a[t, i], b[t, i])
    for t<k, i<n:  d = held(c[t, i])                  y[i, u] is d[k - u - 1, i]

The derivative of a choice asks it again, and both numbers were kept for that, in every round: an
answer is a byte of their sixteen, and is there when they are. `held`, so that it is kept and not
computed again from them (`passes/fusion/inline.py`). So is what is asked of the state of a loop: of
that nothing is kept then, unless more of it is wanted.
"""

from __future__ import annotations

from functools import partial

from naperian.ainf.syntax import Binding, Delay, Op, Operand, Program, Read
from naperian.ainf.walk import atoms, reads, rewrite_guards, rewrite_prim, rewrite_size, variables
from naperian.names import Var, fresh
from naperian.node import node, replace
from naperian.sizes import ONE, Size, size

_ASKS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


@node
class _Turn:
    """How a round that asks is found from the one that answers: `there` gives the first's indices
    in the second's, `back` the second's in the first's, in order; `turned` go the other way."""

    context: tuple[Var, ...]
    there: dict[Var, Size]
    back: tuple[Size, ...]
    turned: frozenset[Var]


def answered(program: Program) -> Program:
    """See the module."""
    bindings = {b.var: b for b in program.bindings}
    out: list[Binding] = []
    notes: dict[Var, tuple[Binding, tuple[Var, ...], _Turn]] = {}

    def read(r: Read) -> Operand:
        if r.var not in notes:
            return r
        note, context, turn = notes[r.var]
        point = dict(zip(context, r.at, strict=True))
        return Read(note.var, tuple(rewrite_size(e, point) for e in turn.back))

    shown = {a.var for r in program.results for a in atoms(r.value) if isinstance(a, Read)}
    for b in program.bindings:
        turn = None if b.var in shown else _turned(program, b, bindings)
        if turn is None:
            out.append(b)
            continue
        asked = replace(
            b, var=fresh(b.var), context=turn.context, prim=rewrite_prim(b.prim, turn.there)
        )
        here = Read(asked.var, tuple(map(size, turn.context)))
        note = replace(asked, var=fresh(b.var), prim=Op("held", (here,)))
        notes[b.var] = note, b.context, turn
        out += (asked, note)
    if not notes:
        return program
    made = [
        replace(b, prim=rewrite_prim(b.prim, {}, read), guards=rewrite_guards(b.guards, {}, read))
        for b in out
    ]
    return replace(program, bindings=tuple(made))


def _turned(program: Program, b: Binding, bindings: dict[Var, Binding]) -> _Turn | None:
    """How a comparison is made where both its numbers are, if rounds there go the other way."""
    if not isinstance(b.prim, Op) or b.prim.name not in _ASKS or b.guards:
        return None
    found = (_round_of(program, b, bindings[r.var], r) for r in reads(b) if r.var in bindings)
    turn = next((t for t in found if t is not None), None)
    if turn is None:
        return None
    # all that is of a round is read the other way, so it is there before the loop backwards
    for r in reads(b):
        for e in (rewrite_size(e, turn.there) for e in r.at):
            if e.single not in turn.turned and not turn.turned.isdisjoint(variables(e)):
                return None
    return turn


def _round_of(program: Program, b: Binding, made: Binding, r: Read) -> _Turn | None:
    """How a comparison is made in the round in which one of its numbers is, if it reads one number
    in each."""
    if len(r.at) != len(b.context):
        return None
    context = made.context
    if isinstance(made.prim, Delay):  # what a round begins with, if it has rows (see `remade`)
        if not any(map(partial(_is_row, program, made.prim), context)):
            return None
        context = tuple(made.prim.time if i == made.prim.index else i for i in context)
    there: dict[Var, Size] = {}
    turned: set[Var] = set()
    for i, e in zip(context, r.at, strict=True):
        v = next((v for v in b.context if e in (size(v), _mirror(program, v))), None)
        if v is None or v in there or not _alike(program, i, v):
            return None
        extent = program.indices[v].extent
        if e == size(v) or extent is None:
            there[v] = size(i)
        else:
            there[v] = extent - size(i) - ONE
            turned.add(i)
    return _Turn(context, there, r.at, frozenset(turned)) if turned else None


def _is_row(program: Program, h: Delay, i: Var) -> bool:
    """Whether an axis of what a loop carries is one of elements, of which there may be many."""
    extent = program.indices[i].extent
    return i != h.index and extent is not None and extent.constant is None


def _mirror(program: Program, v: Var) -> Size | None:
    extent = program.indices[v].extent
    return None if extent is None else extent - size(v) - ONE


def _alike(program: Program, a: Var, b: Var) -> bool:
    """Whether two indices go equally far, wherever that is asked."""
    one, two = program.indices[a], program.indices[b]
    if one.condition is not None or two.condition is not None or one.extent != two.extent:
        return False
    return one.extent is not None and not any(v in program.indices for v in variables(one.extent))
