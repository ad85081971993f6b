"""What a table begins with, that is made of what is added to it, is added to it. ainf → ainf

    before   for i<n:  v = f(s[i]);  w = g(s[i])
             for j<n:  x = add over i<n at [key[i]] of w[i] from v[j]
    after    for j<n:  x = add over k<n at [k] of v[k] over i<n at [key[i]] of w[i] from 0.0

Elsewhere a row is there only after the loop that makes what it begins with, so another loop adds to
it; what both are made of would be stored for all rows, or computed twice. In a gradient over cells
and their neighbours that is all that the cells and the faces have in common. It costs to set the
table to zero and to read it once more, and floating sums are in another order.
"""

from __future__ import annotations

from collections.abc import Iterator

from naperian.ainf.syntax import Accumulate, Binding, Entry, Op, Operand, Program, Read
from naperian.ainf.walk import atoms, atoms_of, rewrite
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.prims import Math
from naperian.sizes import Size, places, size

_SHARED = 8  # values of a row that both are made of


def begins(program: Program) -> Program:
    """See the module."""
    if program.math is Math.STRICT:
        return program
    made = {b.var: b for b in program.bindings}
    indices = dict(program.indices)
    out: list[Binding] = []
    for b in program.bindings:
        entry = _beginning(b, made, program)
        if entry is not None:
            assert isinstance(b.prim, Accumulate)
            names = {i: fresh(i) for i in b.context}
            indices |= {new: indices[i] for i, new in names.items()}
            at = {i: size(new) for i, new in names.items()}
            own = Entry((*names.values(),), (*at.values(),), rewrite(entry, at), ())
            zero = Lit(0.0, b.dtype)
            b = replace(b, prim=replace(b.prim, init=zero, entries=(own, *b.prim.entries)))
        out.append(b)
    return replace(program, bindings=tuple(out), indices=indices)


def _beginning(b: Binding, made: dict[Var, Binding], program: Program) -> Operand | None:
    """What a table begins with, if that is made row by row of what is added to it."""
    match b:
        case Binding(_, (row, *_), (), _, Accumulate("add", Read(_, at) as init, entries)):
            pass
        case _:
            return None
    if at != places(b.context) or not b.dtype.is_float:
        return None
    n = program.indices[row].extent
    if n is None or n.constant is not None or any(
        (x := program.indices[i].extent) is None or x.constant is None for i in b.context[1:]
    ):
        return None
    named = [
        e for e in entries
        if atoms_of(e.at[0]) and e.over and program.indices[e.over[0]].extent == n
    ]  # fmt: skip
    mine = _needed(made, init, size(row))
    theirs = {v for e in named for v in _needed(made, e.value, size(e.over[0]))}
    return init if len(mine & theirs) >= _SHARED else None


def _needed(made: dict[Var, Binding], value: Operand, row: Size) -> set[Var]:
    """The values of a row that one of them is made of."""
    out: set[Var] = set()
    work = [value]
    while work:
        for r in atoms(work.pop()):
            b = made.get(r.var) if isinstance(r, Read) else None
            if not isinstance(r, Read) or b is None or b.var in out or row not in r.at[:1]:
                continue
            out.add(b.var)
            here = dict(zip(b.context, r.at, strict=True))
            work += [rewrite(o, here) for o in _operands(b)]
    return out


def _operands(b: Binding) -> Iterator[Operand]:
    match b.prim:
        case Op(_, args):
            yield from args
        case Accumulate(_, init, entries):
            yield init
            yield from (e.value for e in entries)
        case _:
            pass
