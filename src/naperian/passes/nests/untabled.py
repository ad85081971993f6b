"""What a table keeps of an argument is read in the argument. loops → loops

    before   allocate place[d]                       after
             for c in 0..d:                          for c in 0..d:
                 fail 1 if key[i] >= k                   fail 1 if key[i] >= k
                 store place[c] = key[i]
             for c in 0..d:                          for c in 0..d:
                 update x[place[c], c] += …              update x[key[i], c] += …

Such tables are left where an index is checked in one loop and used in another, as a derivative
does. Their elements are written before they are read, so where one is read the check has been made.
A place that is the same in all rounds is one row, and goes as vectors.
"""

from __future__ import annotations

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Program,
    Role,
    Stmt,
    Store,
)
from naperian.loops.walk import blocks, rebuild, remade, statements, takes, used_in, writes
from naperian.names import Var
from naperian.node import replace
from naperian.sizes import Size, substitute


def untabled(program: Program) -> Program:
    """See the module."""
    given = {b.var for b in program.buffers if b.role is Role.IN}
    around: dict[Var, frozenset[Var]] = {}  # of each table, the indices of the loops around it

    def look(body: tuple[Stmt, ...], inside: frozenset[Var]) -> None:
        for s in body:
            if isinstance(s, Allocate) and s.buffer.dtype is DType.I64:
                if s.buffer.role is Role.TEMP and s.fill is None and not s.planes:
                    around[s.buffer.var] = inside
            within = inside | {s.var} if isinstance(s, Loop) else inside
            for block in blocks(s):
                look(block, within)

    look(program.body, frozenset(program.sizes))
    if not around:
        return program
    inside = statements(program.body)
    named: dict[Var, Expr] = {s.var: s.value for s in inside if isinstance(s, Let)}
    copies: dict[Var, tuple[tuple[Var, ...], Load]] = {}
    other: set[Var] = {v for s in inside for v in takes(s)}
    for s in inside:
        table = writes(s)
        if table in around:
            found = _copied(s, named, given, around[table])
            if found is None or table in copies:
                other.add(table)
            else:
                copies[table] = found
    copies = {v: x for v, x in copies.items() if v not in other}
    if not copies:
        return program

    def without(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(
            rebuild(s, without) for s in body
            if not (isinstance(s, Allocate) and s.buffer.var in copies) and writes(s) not in copies
        )  # fmt: skip

    def place(v: Var, at: tuple[Size, ...]) -> tuple[Size, ...]:
        if v not in copies:
            return at
        axes, source = copies[v]
        here = dict(zip(axes, at, strict=True))
        return tuple(substitute(e, lambda a: here.get(a) if isinstance(a, Var) else None)
                     for e in source.at)  # fmt: skip

    names = {v: source.buffer for v, (_, source) in copies.items()}
    return replace(program, body=remade(without(program.body), lambda _: None, names, place))


def _copied(
    s: Stmt, named: dict[Var, Expr], given: set[Var], around: frozenset[Var]
) -> tuple[tuple[Var, ...], Load] | None:
    """The axes of a table and the element of an argument that is stored there, if one is."""
    if not isinstance(s, Store):
        return None
    value = named.get(s.value.var) if isinstance(s.value, Local) else s.value
    axes = tuple(e.single for e in s.at)
    if not isinstance(value, Load) or value.buffer not in given or len(set(axes)) != len(axes):
        return None
    known = {a for a in axes if isinstance(a, Var)}
    if len(known) != len(axes) or not all(e.plain for e in value.at):
        return None
    if not {v for e in value.at for v in used_in(e)} <= known | around:
        return None
    return tuple(a for a in axes if isinstance(a, Var)), value
