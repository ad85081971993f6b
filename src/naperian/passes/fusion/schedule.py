"""AiNF to loops.

    ended      how far a loop goes is read from another's end
    vacant     what stands in front of loops that make no rounds reads nothing
    factors    what stands under a condition of one factor of a product is a product, too
    distrust   indices of the caller are checked where they are read
    best       the first best in two reductions
    faint      what next to nothing is multiplied with takes no longer
    contract   sums of products become contractions
    unroll     vectors of a few components become scalars
    inline     producers read out of step are computed where they are read
    one_history  what a round hands on is kept once
    find_units recurrences
    order_loops  which loop is innermost
    crossed    what is read in loops in another order is computed there
    fuse       which tasks share a loop
    place      what is stored, and where
    Emitter    statements
    strips     what is in the way of vectors is taken out of their loops
    winners    the best of windows, and where it is, is found for many of them
    deferred   what is added where data name goes behind what computes it
    outside    a run ends where it meets an index outside its set
    jam        rows that are added to one array are added four at a time
    channels_last  what is summed through windows is in one piece
    across     columns that become rows go eight at a time

Fused chains keep nothing but their results:

    for i: t = x[i] * 2        parallel for i in 0..n:
    for i: y = exp(t[i])   ⇒       store y[i] = exp(x[i] * 2)
    return y
"""

from __future__ import annotations

from collections.abc import Iterable

from naperian.ainf import syntax as ainf
from naperian.ainf.waiting import at_once
from naperian.loops.syntax import (
    Allocate,
    Assign,
    Buffer,
    Let,
    Loop,
    Program,
    Role,
    Stmt,
    Variable,
    When,
    While,
)
from naperian.loops.walk import reads
from naperian.names import Var, zero
from naperian.passes.bindings.packed import (
    Offsets,
    made_of_themselves,
    packing,
    waits_for_itself,
    with_offsets,
)
from naperian.passes.fusion.best import best
from naperian.passes.fusion.block import Block
from naperian.passes.fusion.contract import contract
from naperian.passes.fusion.emit import Emitter
from naperian.passes.fusion.ended import ended
from naperian.passes.fusion.factors import factors
from naperian.passes.fusion.faint import faint
from naperian.passes.fusion.fuse import fuse
from naperian.passes.fusion.graph import forget, rewrite_size
from naperian.passes.fusion.history import one_history
from naperian.passes.fusion.inline import crossed, inline
from naperian.passes.fusion.order import order_loops
from naperian.passes.fusion.recurrence import find_units
from naperian.passes.fusion.storage import place, tasks_in
from naperian.passes.fusion.tasks import build
from naperian.passes.fusion.told import again
from naperian.passes.fusion.unroll import unroll
from naperian.passes.fusion.vacant import vacant
from naperian.passes.nests.across import across
from naperian.passes.nests.best_of_few import best_of_few
from naperian.passes.nests.channels_last import channels_last
from naperian.passes.nests.deferred import deferred
from naperian.passes.nests.distrust import distrust, suspects
from naperian.passes.nests.few_columns import few_columns
from naperian.passes.nests.jam import jam
from naperian.passes.nests.leading import leading
from naperian.passes.nests.outside import outside
from naperian.passes.nests.strips import strips
from naperian.passes.nests.trailing import trailing
from naperian.passes.nests.winners import winners
from naperian.sizes import Size, size


def schedule(program: ainf.Program) -> Program:
    """The program as loops over buffers. Its results are `out`, `out_1`, …"""
    checked = tuple(p.var for p in suspects(program))
    program = faint(best(distrust(factors(vacant(ended(program))))))
    waiting = program
    offsets: Offsets = {}
    together: frozenset[Var] = frozenset()
    new = set()  # results whose sizes are known only during the run
    while True:  # what is stored is known after fusion; what that needs is fused again
        stored = packing(program, offsets)
        outs = []
        for k, r in enumerate(program.results):
            shape = _shape(stored.layout(r.indices).shape)
            out = Buffer(Var("out" if k == 0 else f"out_{k}"), r.dtype, shape, Role.OUT)
            if r.new:
                new.add(out.var)
            outs.append(out)
        graph = build(program, [b.var for b in outs], stored)
        graph.together = together
        contract(graph)
        unroll(graph)
        inline(graph)
        one_history(graph)
        find_units(graph)
        order_loops(graph)
        crossed(graph)
        items = fuse(graph)
        storage = place(graph, items, frozenset(new))
        if not stored.missing:
            break
        if waits_for_itself(program, stored.missing):
            program, offsets, together = at_once(waiting), {}, frozenset()
            continue
        more_together = made_of_themselves(program, stored.missing) - together
        if more_together:  # in one loop no row is kept beyond its round
            together |= more_together
            continue
        program, more = with_offsets(program, stored.missing)
        offsets = {**offsets, **more}
    emitter = Emitter(graph, storage, items)
    block = Block()
    emitter.block(items, block)
    buffers = [Buffer(p.var, p.dtype, _shape(p.shape), Role.IN) for p in program.params]
    nests = strips(trailing(leading(_escape(block.statements()))))
    nests = deferred(winners(nests), {b.var: b.dtype for b in outs})
    nests = outside(nests, program.sizes, buffers)
    scalars = (p.var for p in program.params if not p.shape and not p.dtype.is_float)
    known = frozenset((*program.sizes, *scalars))
    nests = few_columns(best_of_few(nests, known), known, outs)
    body = across(channels_last(jam(nests, program.sizes)), program.sizes)
    made = {s.buffer.var: s.buffer for s in body if isinstance(s, Allocate)}
    outs = [made.get(b.var, b) for b in outs]
    notes = tuple(dict.fromkeys([*emitter.s.notes, *again(tasks_in(items))]))
    forget(graph)
    return Program(
        program.name, program.sizes, (*buffers, *outs), body, program.failures, notes, checked,
        program.math, program.lines,
    )  # fmt: skip


def _shape(extents: Iterable[Size]) -> tuple[Size, ...]:
    """A buffer's shape: it may mention scalar parameters, here by name."""

    def atom(a: ainf.Read | ainf.Trips | Var) -> Size | None:
        return size(a.var) if isinstance(a, ainf.Read) and not a.at else None

    return tuple(rewrite_size(n, atom) for n in extents)


def _escape(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A local that is bound under a `When` and read outside it becomes a variable:

    if c: { t = e; … }; … t …   ⇒   var t = 0; if c: { t := e; … }; … t …
    """
    home: dict[Var, tuple[int, ...]] = {}
    escaping: set[Var] = set()

    def look(block: tuple[Stmt, ...], path: tuple[int, ...]) -> None:
        for n, s in enumerate(block):
            inside = here = (*path, n, 2)
            if isinstance(s, While):  # its condition sees what the head binds
                look(s.head, here)
                inside = (*here, -1)
            else:
                here = path
            for v in reads(s):
                at = home.get(v)
                if at is not None and here[: len(at)] != at:
                    escaping.add(v)
            match s:
                case Let(var):
                    home[var] = path
                case When(_, then, otherwise):
                    look(then, (*path, n, 0))
                    look(otherwise, (*path, n, 1))
                case Loop(body=body) | While(body=body):
                    look(body, inside)
                case _:
                    pass

    look(body, ())
    if not escaping:
        return body
    inner, outer = _hoist(body, escaping)
    return _declared(outer) + inner


def _hoist(block: tuple[Stmt, ...], escaping: set[Var]) -> tuple[tuple[Stmt, ...], list[Let]]:
    """The block, and the bindings in it to be declared further out."""
    out: list[Stmt] = []
    outer: list[Let] = []
    for s in block:
        match s:
            case Let(var, _, value) if var in escaping:
                outer.append(s)
                out.append(Assign(var, value))
            case When(condition, then, otherwise):
                one, mine = _hoist(then, escaping)
                two, more = _hoist(otherwise, escaping)
                outer += mine + more
                out.append(When(condition, one, two))
            case Loop():
                inner, mine = _hoist(s.body, escaping)
                out.append(
                    Loop(s.var, s.low, s.high, _declared(mine) + inner, s.order, s.reductions,
                         s.work)
                )  # fmt: skip
            case While(head, condition, body):
                first, mine = _hoist(head, escaping)
                rest, more = _hoist(body, escaping)
                out.append(While(_declared(mine) + first, condition, _declared(more) + rest))
            case _:
                out.append(s)
    return tuple(out), outer


def _declared(lets: list[Let]) -> tuple[Stmt, ...]:
    return tuple(Variable(s.var, s.dtype, zero(s.dtype)) for s in lets)
