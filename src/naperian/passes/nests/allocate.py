"""The passes from loops to loops, and then less memory, allocated less often.

    for i: allocate t[8]; …     ⇒   allocate small t[8]; for i: …     (a sequential loop)
    allocate a[n]; … last use of a …; allocate b[n]   ⇒   b uses a's memory
    for i: store b[i] = f(a[i])                       ⇒   so it does where this is the last use

A small constant size (at most 4 KiB) is marked `small`: a stack slot.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from naperian.loops.memory import SMALL, constant_bytes
from naperian.loops.syntax import (
    Allocate,
    Let,
    Loop,
    Order,
    Program,
    Role,
    Stmt,
    Variable,
)
from naperian.loops.walk import (
    allocates,
    blocks,
    mentions,
    rebuild,
    rebuild_allocations,
    renamed,
    statements,
)
from naperian.names import Var
from naperian.node import replace
from naperian.passes.nests.abreast import abreast
from naperian.passes.nests.added import added
from naperian.passes.nests.ahead import ahead
from naperian.passes.nests.along_rows import along_rows
from naperian.passes.nests.alternate import alternate
from naperian.passes.nests.anyway import anyway
from naperian.passes.nests.around import around
from naperian.passes.nests.asked_beside import asked_beside
from naperian.passes.nests.begun_sums import begun_sums
from naperian.passes.nests.behind import behind
from naperian.passes.nests.beside import beside
from naperian.passes.nests.bounded import bounded
from naperian.passes.nests.checked_first import checked_first
from naperian.passes.nests.chosen import chosen
from naperian.passes.nests.coalesce import coalesce
from naperian.passes.nests.collapse import collapse
from naperian.passes.nests.columns import columns
from naperian.passes.nests.continued import continued
from naperian.passes.nests.cut import cut
from naperian.passes.nests.digits import digits
from naperian.passes.nests.filled import filled
from naperian.passes.nests.firsts import firsts
from naperian.passes.nests.found_first import found_first
from naperian.passes.nests.four_rows import four_rows
from naperian.passes.nests.guarded import guarded
from naperian.passes.nests.handed import handed
from naperian.passes.nests.idle import idle
from naperian.passes.nests.in_rows import in_rows
from naperian.passes.nests.independent import independent
from naperian.passes.nests.joined import joined
from naperian.passes.nests.lanes import lanes
from naperian.passes.nests.later import later
from naperian.passes.nests.limited import limited
from naperian.passes.nests.multiples import multiples
from naperian.passes.nests.narrow_sums import narrow_sums
from naperian.passes.nests.needed import needed
from naperian.passes.nests.older import older
from naperian.passes.nests.once import once
from naperian.passes.nests.one_history import one_history
from naperian.passes.nests.over import over
from naperian.passes.nests.panels import panels
from naperian.passes.nests.proved import proved
from naperian.passes.nests.rarely import rarely
from naperian.passes.nests.reread import reread
from naperian.passes.nests.residues import residues
from naperian.passes.nests.searched import searched
from naperian.passes.nests.short import short
from naperian.passes.nests.sink import sink
from naperian.passes.nests.skipped import skipped
from naperian.passes.nests.small import small
from naperian.passes.nests.sparse import sparse
from naperian.passes.nests.staged import staged
from naperian.passes.nests.sticky import sticky
from naperian.passes.nests.straight import straight
from naperian.passes.nests.summed import summed, summed_besides
from naperian.passes.nests.tried import tried
from naperian.passes.nests.turns import turns
from naperian.passes.nests.twice import twice
from naperian.passes.nests.unmoved import unmoved
from naperian.passes.nests.unread import unread
from naperian.passes.nests.unswitch import unswitched
from naperian.passes.nests.untabled import untabled
from naperian.passes.nests.viewed import placed, viewed
from naperian.passes.nests.wanted import wanted
from naperian.passes.nests.windows import windows
from naperian.prims import Math

_OF_PROGRAMS: tuple[Callable[[Program], Program], ...] = (
    added,  # before anybody asks what is in order
    filled,
    untabled,
    # what carried tables are kept in, while every loop is still as `schedule` made it
    older, one_history, unread, later, coalesce, in_rows, viewed, staged, turns, continued, twice,
    alternate,  # what must still be copied as a whole
    wanted,  # of rows, before loops over them are no longer seen
    # loops that go through memory as it lies: rows and columns are looked for in what comes of it
    residues, multiples, digits, collapse,
    windows, idle,
    summed_besides,  # what lanes would take for rounds that wait
    # what goes side by side; a loop belongs to the first that takes it
    straight, chosen, columns, lanes,
    checked_first,  # what has no way out is another loop for all that follow
    sparse, abreast, beside, panels, short, searched,
    summed,  # what no nest of sums has taken
    found_first,  # where the searches are as long as they are
    # what the loops as they are now still keep
    placed, over, sticky,
    firsts,  # of rows that are still put in order
    four_rows,
)  # fmt: skip
"""The passes, in their order. They know of each other only what the loops show."""

_OF_STATEMENTS: tuple[Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]], ...] = (
    begun_sums, skipped,
    once, limited, unswitched, cut, unmoved, guarded,  # without conditions in them that go before,
    behind,
)  # fmt: skip

_OF_PROVED: tuple[Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]], ...] = (
    small, narrow_sums,
    joined,  # what no way out is between,
    reread,
)  # fmt: skip


def allocate(program: Program) -> Program:
    """See the module."""
    for whole in _OF_PROGRAMS:
        program = whole(program)
    # what is left in order becomes vectors,
    program = around(replace(program, body=sink(program.body)))
    body = independent(program.body, program.math is Math.STRICT)
    for step in _OF_STATEMENTS:
        body = step(body)
    body = anyway(proved(idle(replace(program, body=body)))).body
    for step in _OF_PROVED:
        body = step(body)
    body = asked_beside(tried(ahead(body, program.sizes)))  # without ends in between
    body = along_rows(body, program)
    body = bounded(needed(rarely(replace(program, body=body))))
    body = _shared(_hoisted(body, _inside_and_out(body)))
    made = [s.buffer for s in statements(body) if isinstance(s, Allocate)]
    types = {b.var: b.dtype for b in (*program.buffers, *made)}
    return replace(program, body=handed(body, types))


def _bytes(s: Allocate) -> int | None:
    """The size of a temporary, if it is a constant."""
    return None if s.buffer.role is not Role.TEMP or s.planes else constant_bytes(s.buffer)


def _inside_and_out(body: tuple[Stmt, ...]) -> frozenset[Var]:
    """The buffers of which one copy of a body has its own in every iteration of a loop where
    another copy of it, around that loop, has one."""
    found: dict[Var, set[tuple[int, ...]]] = {}

    def look(block: tuple[Stmt, ...], path: tuple[int, ...]) -> None:
        for s in block:
            if isinstance(s, Allocate):
                found.setdefault(s.buffer.var, set()).add(path)
            own = isinstance(s, Loop) and s.order is not Order.SERIAL
            for inner in blocks(s):
                look(inner, (*path, id(s)) if own else path)

    look(body, ())
    return frozenset(
        v for v, paths in found.items()
        if any(p != q and q[: len(p)] == p for p in paths for q in paths)
    )  # fmt: skip


def _hoisted(
    body: tuple[Stmt, ...], kept: frozenset[Var], around: frozenset[Allocate] = frozenset()
) -> tuple[Stmt, ...]:
    """Constant-size buffers leave sequential loops and are marked if they are small. Those of
    other loops stay: every iteration has its own. A body of which there are copies (a cut loop)
    has its buffers once: those that are allocated `around` it are gone from it. (Not the buffers
    `kept`, which stay where they are.)"""
    out: list[Stmt] = []
    here: set[Allocate] = set()
    for k, s in enumerate(body):
        match s:
            case Allocate():
                n = _bytes(s)
                made = replace(s, small=True) if n is not None and n <= SMALL else s
                if made not in around | here:
                    here.add(made)
                    out.append(made)
            case _ if not allocates(s):
                out.append(s)
            case Loop(order=Order.SERIAL):
                inner = _hoisted(s.body, kept, around | here)
                up = [x for x in inner if isinstance(x, Allocate) and _bytes(x) is not None]
                names = kept | _variables(body[k:]) if up else kept
                free = [x for x in up if x.fill is None and x.buffer.var not in names]
                here.update(free)
                out += free
                out.append(replace(s, body=_without(inner, here)))
            case Loop():
                out.append(rebuild(s, partial(_hoisted, kept=kept)))
            case _:
                out.append(rebuild(s, partial(_hoisted, kept=kept, around=around | here)))
    return tuple(out)


def _variables(body: tuple[Stmt, ...]) -> frozenset[Var]:
    """The variables of some statements: the array that lanes have of one is called as it is, which
    the rest of the rows still has."""
    return frozenset(x.var for x in statements(body) if isinstance(x, Let | Variable))


def _without(body: tuple[Stmt, ...], gone: set[Allocate]) -> tuple[Stmt, ...]:
    """A body without buffers that are allocated around it now; a branch before the one that they
    come from may be a copy of that."""
    return tuple(
        rebuild_allocations(s, partial(_without, gone=gone))
        for s in body if not (isinstance(s, Allocate) and s in gone)
    )  # fmt: skip


def _shared(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Temporaries of one block whose uses do not overlap become one, under a name that is so in
    this block only: a copy of the block may find another."""
    names: dict[Var, Var] = {}
    mine = [s for s in body if isinstance(s, Allocate) and s.buffer.role is Role.TEMP]
    if len(mine) > 1:
        last: dict[Var, int] = {}
        ours = {s.buffer.var for s in mine}
        for k, s in enumerate(body):
            for v in mentions(s) & ours:
                last[v] = k
        free: dict[tuple[object, ...], list[tuple[int, Var]]] = {}
        for k, s in enumerate(body):
            if not isinstance(s, Allocate) or s.fill is not None or s.planes:
                continue
            b = s.buffer
            if b.var not in ours:
                continue
            pool = free.setdefault((b.dtype, b.shape), [])
            donor = next((x for x in pool if x[0] < k), None)
            if donor is not None:
                pool.remove(donor)
                names[b.var] = donor[1]
                pool.append((last.get(b.var, k), donor[1]))
            else:
                pool.append((last.get(b.var, k), b.var))
    kept = [s for s in body if not (isinstance(s, Allocate) and s.buffer.var in names)]
    return tuple(rebuild_allocations(s, _shared) for s in renamed(tuple(kept), names))
