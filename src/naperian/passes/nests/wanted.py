"""Rows that nobody reads are not computed. loops → loops

    before   free for j in 0..m:                  after    allocate rows[n]
                 allocate t[n]                             count = those in vertex, noted in rows
                 free for i in 0..n:                       free for j in 0..m:
                     var a = 0.0                               allocate t[n]
                     free for k in 0..b: …                     free for r in 0..count:
                     store t[i] = a                                i = rows[r]
                 free for e in 0..p:                               var a = 0.0
                     store out[j, e] = t[vertex[e]]                …

A table that is read only where memory says may have rows that nobody asks for: the points seen of
a mesh, the words of a text. Which they are is found out once, if the reader asks for fewer elements
than the table has rows. What is in the others nobody sees. The table is made in every round of
another loop (a direction of a Jacobian), and a row of it is a loop of its own.
"""

from __future__ import annotations

from typing import TypeAlias

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Contract,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Print,
    Program,
    Role,
    Sort,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.loops.walk import loads, mentions, parts, remade, statements, used_in, writes
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.sizes import ONE, ZERO, Atom, Clamp, Size, size

_ROUNDS = 8  # of the loop around, for which looking once is worth it

Asked: TypeAlias = tuple[Size, tuple[Loop, ...]]
"""A row that is read, in loops over sizes."""


def wanted(program: Program) -> Program:
    """See the module."""
    given = frozenset(b.var for b in program.buffers if b.role is Role.IN)
    sizes = frozenset(program.sizes)
    out: list[Stmt] = []
    for s in program.body:
        if isinstance(s, Loop) and _is_around(s):
            for k, x in enumerate(s.body):
                if isinstance(x, Loop) and _is_dear(x, sizes):
                    asked = _asked(s, x, given, sizes)
                    if asked:
                        first, rows = _found(x, asked)
                        out += first
                        s = replace(s, body=(*s.body[:k], rows, *s.body[k + 1 :]))
        out.append(s)
    return replace(program, body=tuple(out))


def _is_around(s: Loop) -> bool:
    rounds = (s.high - s.low).constant
    inside = statements(s.body)
    return (
        s.order is not Order.SERIAL and (rounds is None or rounds >= _ROUNDS)
        and not any(isinstance(x, Fail | Print | While) for x in inside)
    )  # fmt: skip


def _is_dear(s: Loop, sizes: frozenset[Var]) -> bool:
    """Whether a loop is over the rows of a table, each with a loop of its own of who knows how
    many rounds."""
    return (
        s.order is not Order.SERIAL and not s.reductions
        and s.low == ZERO and s.high.single in sizes
        and any(isinstance(x, Loop) and (x.high - x.low).constant is None
                for x in statements(s.body))
        and not any(isinstance(x, Update | Contract | Sort) for x in statements(s.body))
    )  # fmt: skip


def _asked(
    around: Loop, s: Loop, given: frozenset[Var], sizes: frozenset[Var]
) -> dict[Asked, None] | None:
    """The rows that are read of the tables which a loop makes, if only they are."""
    own = {x.buffer.var for x in statements(s.body) if isinstance(x, Allocate)}
    here = (x.buffer for x in around.body if isinstance(x, Allocate))
    tables = {b.var for b in here if b.shape[:1] == (s.high,)}
    stores = [x for x in statements(s.body) if isinstance(x, Store) and x.buffer not in own]
    made = {x.buffer for x in stores}
    if not made <= tables or any(x.at[0] != size(s.var) for x in stores):
        return None
    out: dict[Asked, None] = {}

    def block(body: tuple[Stmt, ...], inside: tuple[Loop, ...]) -> bool:
        return all(
            x is s or made.isdisjoint(mentions(x)) or isinstance(x, Allocate) or reader(x, inside)
            for x in body
        )

    def reader(x: Stmt, inside: tuple[Loop, ...]) -> bool:
        match x:
            case Loop(_, low, high, body):
                plain = low == ZERO and sizes.issuperset(high.atoms)
                return plain and block(body, (*inside, x))
            case Let() | Assign() | Store() if writes(x) not in made:
                if any(isinstance(e, Apply) and e.name == "select" for e in parts(x.value)):
                    return False
                for e in loads(x):
                    if e.buffer in made:
                        if not _is_told(e.at[0], inside, given):
                            return False
                        row = e.at[0]
                        out[row, tuple(i for i in inside if i.var in used_in(row))] = None
                return True
            case _:
                return False

    return out if block(around.body, ()) else None


def _is_told(row: Size, inside: tuple[Loop, ...], given: frozenset[Var]) -> bool:
    """Whether a row is an element of an argument, in every round of the loops around."""
    match row.single:
        case Clamp(value):
            return _is_told(value, inside, given)
        case Load(buffer, at):
            return buffer in given and all(
                i.constant is not None or any(i == size(x.var) for x in inside)
                or _is_told(i, inside, given)
                for i in at
            )  # fmt: skip
        case _:
            return False


def _found(s: Loop, asked: dict[Asked, None]) -> tuple[list[Stmt], Loop]:
    """The statements that find the rows, and the loop over them."""
    rows = Buffer(Var("rows"), DType.I64, (s.high,), Role.TEMP)
    marks = Buffer(Var("marks"), DType.BOOL, (s.high,), Role.TEMP)
    found, count, row, at = Var("found"), Var("count"), fresh(s.var), Var("at")
    reads = ZERO
    marked: list[Stmt] = []
    for index, inside in asked:
        nest, reads = _marks(marks.var, index, inside, reads)
        marked.append(nest)
    noted = (
        Let(at, DType.I64, Local(found)),
        Store(rows.var, (size(at),), Number(size(row))),
        Assign(found, Number(size(at) + ONE)),
    )
    each = When(Load(marks.var, (size(row),)), noted)
    some = (
        Allocate(marks, Lit(False, DType.BOOL)),
        *marked,
        Loop(row, ZERO, s.high, (each,), Order.SERIAL),
    )
    whole = fresh(s.var)
    itself = Store(rows.var, (size(whole),), Number(size(whole)))
    all_ = (
        Loop(whole, ZERO, s.high, (itself,), Order.FREE),
        Assign(found, Number(s.high)),
    )
    few = Apply("lt", (Number(reads), Number(s.high)), DType.BOOL, DType.I64)
    first: list[Stmt] = [
        Allocate(rows),
        Variable(found, DType.I64, Lit(0, DType.I64)),
        When(few, some, all_),
        Let(count, DType.I64, Local(found)),
    ]
    r = Var("r")
    here = Let(s.var, DType.I64, Load(rows.var, (size(r),)))
    return first, replace(s, var=r, high=size(count), body=(here, *s.body))


def _marks(marks: Var, row: Size, inside: tuple[Loop, ...], reads: Size) -> tuple[Stmt, Size]:
    """Loops that mark rows which are read, and how many are with those before."""
    names = {x.var: fresh(x.var) for x in inside}

    def replaced(a: Atom) -> Size | None:
        return size(names[a]) if isinstance(a, Var) and a in names else None

    (nest,) = remade((Store(marks, (row,), Lit(True, DType.BOOL)),), replaced)
    count = ONE
    for x in reversed(inside):
        nest = Loop(names[x.var], ZERO, x.high, (nest,), Order.SERIAL)
        count = count * x.high
    return nest, reads + count
