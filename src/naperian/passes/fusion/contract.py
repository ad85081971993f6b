"""Sums of products of two arrays become contractions, whatever the storage order:

    c[i, j] = Σ_k a[i, k] * b[k, j]

`k` must be in both factors, and each factor must have indices of the result that the other lacks
(else it is a product with a vector, which a plain nest does as fast). The factors are arrays, read
along plain indices, forwards or backwards; one of them may be read in windows,

    y[o, j] = Σ_{c, s} w[o, c, s] * x[c, j + s]

if there is more to add up than the windows. One that is needed under a condition only, `a @ b if c
else d`, is made under it, and where a condition says which rows are needed, of those (`selected`).
Values of a recurrence are gathered over its time only if the recurrence does not need the sum: so
the adjoint of a matrix that a loop multiplies with is one product of two histories,

    Σ_t ȳ[t]·x[T - 1 - t]ᵀ

after the loop, and no longer a sum in it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

from naperian.ainf.syntax import Guard, Number, Operand, Read
from naperian.ainf.walk import free, step, variables
from naperian.names import Lit, Var
from naperian.node import node
from naperian.passes.fusion.graph import (
    Graph,
    Kind,
    Task,
    in_order,
    link,
    rename_indices,
    rename_operand,
)
from naperian.passes.fusion.unroll import WRITTEN_OUT
from naperian.sizes import ZERO, Size, size

_SHORT = 16  # elements of an axis that a loop along it is not worth
_FEW = 4  # products whose sum takes longer to store and load than to compute
_PANEL = 8  # elements of each side, from where a panel of them is as fast for small products, too
_SMALL = 4096  # multiplications, if the extents are constants: a plain nest is unrolled instead


def contract(graph: Graph) -> None:
    """See the module."""
    within = _times(graph)
    rounds = _Rounds(graph)
    for t in reversed(graph.tasks):  # a sum of sums before those in it
        adds = t.kind is Kind.ENTER and t.name == "add" and t.dtype.is_float and t.uses == 1
        if adds and not in_order(graph, t):
            _try(graph, t, within, rounds)
    graph.tasks = [t for t in graph.tasks if t.uses >= 0]


def _times(graph: Graph) -> dict[Task, frozenset[Var]]:
    """The recurrences' times that a task's value depends on, or whose loop it must stand in."""
    bits = {time: 1 << k for k, time in enumerate(graph.conditions)}
    out = {t: sum(bits[i] for i in t.path if i in bits) for t in graph.tasks}
    for t in graph.tasks:
        for s in t.sites:
            time = s.task.cell.time if s.carried and s.task.cell is not None else None
            if time is not None:
                out[t] |= bits.setdefault(time, 1 << len(bits))
    changed = True
    while changed:  # the last values of a loop may stand behind who reads them
        changed = False
        for t in graph.tasks:
            mine = out[t]
            for s in t.sites:
                mine |= out.get(s.task, 0)
            if mine != out[t]:
                changed = True
                out[t] = mine
    sets = {n: frozenset(i for i, bit in bits.items() if n & bit) for n in {*out.values()}}
    return {t: sets[n] for t, n in out.items()}


class _Rounds:
    """What the next round of a recurrence needs, by its time."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.known: dict[Var, set[Task]] = {}

    def need(self, time: Var, t: Task) -> bool:
        if time not in self.known:
            self.known[time] = self.needed(time)
        return t in self.known[time]

    def needed(self, time: Var) -> set[Task]:
        steps = (t for t in self.graph.tasks if t.kind is Kind.STEP)
        work = [t for t in steps if t.cell is not None and t.cell.time == time]
        found = set(work)
        while work:
            for s in work.pop().sites:
                if s.task not in found:
                    found.add(s.task)
                    work.append(s.task)
        return found


@node
class _Sum:
    """A sum of products of an element of one array with one of another."""

    over: tuple[Var, ...]
    inside: tuple[Task, ...]  # sums that it is the sum of, and a choice
    product: Task
    factors: tuple[Read, Read]
    names: Mapping[Var, Size]  # what the product's indices are here
    loops: Mapping[Var, Var]  # and which loops they go along with
    masks: tuple[Operand, ...]
    rows: frozenset[Var]  # indices of the one, and of the other alone
    columns: frozenset[Var]
    windows: frozenset[Var]


def _try(graph: Graph, t: Task, within: dict[Task, frozenset[Var]], rounds: _Rounds) -> None:
    f = _found(graph, t, within)
    place = None if f is None else _place(graph, t, f, within, rounds)
    if f is not None and place is not None:
        _put(graph, t, f, *place)


def _found(graph: Graph, t: Task, within: dict[Task, frozenset[Var]]) -> _Sum | None:
    """What an accumulation adds up, if it is a contraction."""
    cell = t.cell
    assert cell is not None
    final, start = cell.final, cell.start
    if final is None or len(cell.writers) != 1 or t.guards != final.guards or not t.over:
        return None
    if not isinstance(start.args[0], Lit) or start.args[0].value != 0:
        return None
    if any(e.single != i for e, i in zip(t.at, cell.context, strict=True)):
        return None
    value, over, sums = _summed(graph, t)
    m = graph.source.get(value.var) if isinstance(value, Read) else None
    if not isinstance(value, Read) or m is None or m.kind is not Kind.COMPUTE or m.home:
        return None
    names = dict(zip(m.context, value.at, strict=True))
    masks: tuple[Operand, ...] = ()
    conditions = {(g.operand, g.holds) for g in t.guards}
    if m.name == "select" and {(g.operand, g.holds) for g in m.guards} <= conditions:
        masked = _masked(graph, m, names)
        if masked is None or within[t] & {*t.context, *over}:
            return None
        sums.append(m)
        m, names, masks = masked
    if m.name != "mul" or (masks and m.uses != 1):
        return None
    fixed = {i: e for i, e in names.items() if e.constant is not None}  # of windows of one
    a, b = (rename_operand(x, fixed) for x in m.args)
    if not (isinstance(a, Read) and isinstance(b, Read)):
        return None
    names = {i: e for i, e in names.items() if i not in fixed}
    loops = {i: v for i, e in names.items() if (v := _alone(graph, e)) is not None}
    if len(loops) < len(names) or len({*loops.values()}) < len(loops):
        return None
    if not {(rename_operand(g.operand, names), g.holds) for g in m.guards} <= conditions:
        return None
    seen: set[Var] = set()
    one, two = _plain(graph, a, seen), _plain(graph, b, seen)
    if one is None or two is None:
        return None
    one, two, windows = ({loops.get(i, i) for i in x} for x in (one, two, seen))
    if (windows and windows <= one & two) or not one | two >= {*t.context}:
        return None
    if not {*over} <= one & two or not one | two <= {*over, *t.context}:
        return None
    rows, columns = frozenset(one - two), frozenset(two - one)
    if not rows or not columns:
        return None
    return _Sum(
        over, tuple(sums), m, (a, b), names, loops, masks, rows, columns, frozenset(windows)
    )


def _place(
    graph: Graph, t: Task, f: _Sum, within: dict[Task, frozenset[Var]], rounds: _Rounds
) -> tuple[tuple[Var, ...], tuple[Guard, ...], Guard | None] | None:
    """The loops that a contraction stands in, the guards it is under, and the one that says which
    rows or columns are needed, if it pays."""
    cell = t.cell
    assert cell is not None
    final = cell.final
    assert final is not None
    rows, columns, inside = f.rows, f.columns, {*f.over}
    if f.windows and _few(graph, inside - f.windows) and (
        _few(graph, inside) or _few(graph, {*rows}) or _few(graph, {*columns})
    ):
        return None
    guards = () if _is_most(graph, t, f.factors, {*rows}, {*columns}) else t.guards
    waits = within[t] | within[f.product]
    chosen = _chosen(graph, f, guards, waits)
    guards = tuple([g for g in guards if g is not chosen])
    asked = {i for g in guards for i in free(g.operand)}
    if (asked - waits) & (rows | columns) or asked & inside:
        return None
    over = waits & inside
    if any(i in graph.conditions or rounds.need(i, final) for i in over):
        return None
    if over and _tiny(graph, (*rows, *columns)):  # sums in registers, and no history
        return None
    sides = (rows, columns, inside)
    if _tiny(graph, (*rows, *columns, *inside)) and any(_terms(graph, x) < _PANEL for x in sides):
        return None
    least = min(_terms(graph, rows), _terms(graph, columns))
    if _terms(graph, inside) <= _FEW and (final.home is None or least <= _FEW):
        return None
    if max(_terms(graph, rows), _terms(graph, columns)) <= WRITTEN_OUT:  # sums in registers
        return None
    if chosen is not None:  # in every loop that it is asked in
        asked |= {*free(chosen.operand)} - rows - columns
    times = [i for i in t.context if i in waits or i in asked]
    opened = t.context[: t.context.index(times[-1]) + 1] if times else ()
    if not any(((rows | columns) - {*times}) & graph.mentioned[i] for i in times):
        opened = tuple(i for i in opened if i in times or i not in rows | columns)
    if rows <= {*opened} or columns <= {*opened}:
        return None
    if any(graph.mentioned[i] for i in ({*t.context} - {*opened}) | inside):
        return None
    if f.masks and (opened or asked or f.windows or chosen is not None):
        return None
    return opened, guards, chosen


def _chosen(
    graph: Graph, f: _Sum, guards: tuple[Guard, ...], waits: frozenset[Var]
) -> Guard | None:
    """A guard that an array has for each row, or for each column, along one axis: those that are
    needed are put together (`selected`)."""
    sides = (f.rows - waits, f.columns - waits)
    found = [g for g in guards if any({*free(g.operand)} & side for side in sides)]
    if len(found) != 1 or f.windows:
        return None
    (guard,) = found
    asked = guard.operand
    own = [i for i in free(asked) if i in (f.rows | f.columns) - waits]
    if not isinstance(asked, Read) or len(own) != 1:
        return None
    made = graph.source.get(asked.var)
    if made is not None and (made.guards or made.kind is Kind.STEP):
        return None
    return guard if _plain(graph, asked, set()) is not None else None


def _put(
    graph: Graph, t: Task, f: _Sum, opened: tuple[Var, ...], guards: tuple[Guard, ...],
    chosen: Guard | None,
) -> None:  # fmt: skip
    """A contraction takes the place of the sum and of what only that is made of."""
    cell = t.cell
    assert cell is not None
    final = cell.final
    assert final is not None
    along = {j for j in f.names if f.loops.get(j) in f.over}
    a, b = (_laid_out(graph, x, along) for x in f.factors)
    gone = [t, cell.start, final, *f.inside]
    if f.product.uses == 1:  # else others have the product of a row and a column at hand, too
        gone.append(f.product)
    for task in gone:
        for s in task.sites:
            s.task.uses -= 1
        task.sites = []
    for task in gone:
        task.uses = -1 if task is not final else task.uses
    final.kind = Kind.PRODUCT
    final.guards = guards
    final.path = opened
    asked = (*f.masks, chosen.operand) if chosen is not None else f.masks
    final.name = "unless" if chosen is not None and not chosen.holds else ""
    final.args = (rename_operand(a, f.names), rename_operand(b, f.names), *asked)
    final.over = f.over
    final.at = ()
    final.cell = None
    link(graph, final)
    if not opened and not final.guards and not any(graph.mentioned[i] for i in t.context):
        for x, side in ((a, f.rows), (b, f.columns)):
            goes = (f.loops.get(i, i) for i in _along(graph, x))
            _as_read(graph, final, [v for v in goes if v in side])


def _masked(
    graph: Graph, t: Task, names: Mapping[Var, Size]
) -> tuple[Task, dict[Var, Size], tuple[Operand, ...]] | None:
    """The product that a choice takes under a condition that its first factor has, too, and else
    zero (`factors`); the names of its indices, and what the condition reads, if it is an array."""
    match t.args:
        case (Read() as c, Read() as v, Lit(0)):
            pass
        case _:
            return None
    m = graph.source.get(v.var)
    if m is None or m.kind is not Kind.COMPUTE or m.uses != 1 or m.home or not m.args:
        return None
    factor = m.args[0]
    x = graph.source.get(factor.var) if isinstance(factor, Read) else None
    here = {i: rename_indices(e, names) for i, e in zip(m.context, v.at, strict=True)}
    if not isinstance(factor, Read) or x is None or x.name != "select":
        return None
    if _plain(graph, c, set()) is None:
        return None
    there = dict(zip(x.context, factor.at, strict=True))
    first = rename_operand(rename_operand(x.args[0], there), here)
    condition = rename_operand(c, names)
    return (m, here, (condition,)) if first == condition else None


def _is_most(
    graph: Graph, t: Task, factors: tuple[Read, Read], rows: set[Var], columns: set[Var]
) -> bool:
    """Whether a product is needed for half of a square, told by an order of a row and a column, or
    outside its diagonal, and its factors are there for all of it: the scores of what comes before,
    in causal attention; correlations. The rest is computed in vain, which takes less than to leave
    it out."""
    if len(t.guards) != 1:
        return False
    guard = t.guards[0]
    for i in rows:
        for j in columns:
            extents = {graph.program.indices[v].extent for v in (i, j)}
            if len(extents) == 1 and (_orders(guard, i, j) or _differ(graph, guard, {i, j})):
                return all(_is_there(graph, x) for x in factors)
    return False


def _orders(guard: Guard, i: Var, j: Var) -> bool:
    """Whether a guard holds on one side of the diagonal, with it or without."""
    if (fact := guard.fact) is None:
        return False
    far = (fact - size(i) + size(j)).constant, (fact + size(i) - size(j)).constant
    return not {0, -1}.isdisjoint(far)


def _differ(graph: Graph, guard: Guard, pair: set[Var]) -> bool:
    """Whether a guard holds where two indices differ."""
    asked = guard.operand
    q = graph.source.get(asked.var) if isinstance(asked, Read) else None
    if q is None or not isinstance(asked, Read) or q.name != ("ne" if guard.holds else "eq"):
        return False
    names = dict(zip(q.context, asked.at, strict=True))
    sides = (rename_operand(a, names) for a in q.args)
    return {a.value.single for a in sides if isinstance(a, Number)} == pair


def _is_there(graph: Graph, x: Read) -> bool:
    """Whether a factor is read along whole axes of an array that is made without a condition."""
    q = graph.source.get(x.var)
    if q is None:
        shape = graph.params[x.var].shape
    elif q.guards or q.kind is Kind.STEP:
        return False
    else:
        extents = [graph.program.indices[i].extent for i in q.context]
        shape = tuple(ZERO if n is None else n for n in extents)
    for e, n in zip(x.at, shape, strict=True):
        i = graph.program.indices.get(v) if isinstance(v := e.single, Var) else None
        if i is None or i.extent != n:
            return False
    return True


def _along(graph: Graph, x: Read) -> list[Var]:
    """The loop indices of a read, as the axes are stored."""
    return [v for e in x.at for v in variables(e) if v in graph.program.indices]


def _as_read(graph: Graph, final: Task, side: list[Var]) -> None:
    """A product that has one reader, which has no other way to lay it out, as its factor is: its
    rows are then those of one matrix, where they were many little ones."""
    before = [i for i in final.context if i in side]
    if final.home is not None or final.uses != 1 or before == side:
        return
    [reader] = [t for t in graph.tasks if any(s.task is final for s in t.sites)]
    reads = [x for x in reader.args if isinstance(x, Read) and x.var == final.var]
    if len(reads) != 1 or reader.kind not in (Kind.COMPUTE, Kind.ENTER, Kind.PRODUCT):
        return
    order = [*(i for i in final.context if i not in side)]
    at = min(final.context.index(i) for i in side)
    order[at:at] = side
    place = [final.context.index(i) for i in order]
    read = Read(final.var, tuple(reads[0].at[k] for k in place))
    for s in reader.sites:
        s.task.uses -= 1
    reader.args = tuple(read if x is reads[0] else x for x in reader.args)
    final.context = tuple(order)
    link(graph, reader)


def _laid_out(graph: Graph, x: Read, inside: set[Var]) -> Read:
    """A factor that is only made for its product, and whose innermost axis would have a few
    elements, as windows with steps or edges have: the last axis that is not summed goes there."""
    q = graph.source.get(x.var)
    if q is None or q.kind is not Kind.COMPUTE or q.uses != 1 or q.home is not None:
        return x
    if q.path != q.context or any(graph.mentioned[i] for i in q.context):
        return x
    here = {i: e.single for i, e in zip(q.context, x.at, strict=True)}
    short = [i for i in q.context if _terms(graph, {i}) <= _SHORT]
    long = [i for i in q.context if i not in short]
    if not short or not long or q.context[-1] not in short:
        return x
    rest = [i for i in long if here[i] not in inside]
    if not rest:
        return x
    order = (*rest[:-1], *(i for i in long if i not in rest), *short, rest[-1])
    at = dict(zip(q.context, x.at, strict=True))
    q.context = q.path = order
    graph.laid_out.add(q)
    return Read(x.var, tuple([at[i] for i in order]))


def _summed(graph: Graph, t: Task) -> tuple[Operand, tuple[Var, ...], list[Task]]:
    """What a sum adds up over which indices, sums of sums taken together; and the tasks of those
    inside."""
    value, over = t.args[0], t.over
    inside: list[Task] = []
    while isinstance(value, Read):
        final = graph.source.get(value.var)
        cell = final.cell if final is not None else None
        if final is None or final.kind is not Kind.FINAL or cell is None or cell.time is not None:
            break
        entered = cell.writers[0]
        alone = final.uses == 1 and len(cell.writers) == 1 and final.home is None
        plain = entered.kind is Kind.ENTER and entered.name == "add" and not entered.guards
        here = dict(zip(final.context, value.at, strict=True))
        own = all(e.single == i for e, i in zip(entered.at, cell.context, strict=True))
        zero = isinstance(cell.start.args[0], Lit) and cell.start.args[0].value == 0
        if not (alone and plain and own and zero and entered.over) or in_order(graph, entered):
            break
        value, over = rename_operand(entered.args[0], here), (*over, *entered.over)
        inside += [entered, cell.start, final]
    return value, over, inside


def _alone(graph: Graph, e: Size) -> Var | None:
    """The loop index that a place goes along with, forwards or backwards."""
    mine = [v for v in variables(e) if v in graph.program.indices]
    return mine[0] if len(mine) == 1 and step(e, mine[0]) in (1, -1) else None


def _plain(graph: Graph, x: Read, windows: set[Var]) -> set[Var] | None:
    """The loop indices of a read, if it reads an array, each axis at plain indices of its own (or
    at a place that no loop moves). Those of an axis that has two are `windows`."""
    if not x.at:
        return None
    out: set[Var] = set()
    indices = graph.program.indices
    for e in x.at:
        mine = [v for v in variables(e) if v in indices]
        if len(mine) > 2 or any(v in out or not _goes_along(e, mine) for v in mine):
            return None
        if len(mine) == 2:
            windows.update(mine)
        out.update(mine)
    return out


def _goes_along(e: Size, mine: list[Var]) -> bool:
    """Whether a place goes along with an index, or by steps with a window's two."""
    return all(step(e, v) in (1, -1) or (len(mine) == 2 and step(e, v)) for v in mine)


_CHANNELS = 8  # a sum over fewer elements is not worth a product


def _few(graph: Graph, over: set[Var]) -> bool:
    extents = [graph.program.indices[i].extent for i in over]
    return not any(n is None or n.constant is None or n.constant >= _CHANNELS for n in extents)


def _terms(graph: Graph, inside: Collection[Var]) -> float:
    """How many products are summed."""
    return prod(
        float("inf") if n is None or n.constant is None else n.constant
        for n in (graph.program.indices[i].extent for i in inside)
    )


def _tiny(graph: Graph, over: tuple[Var, ...]) -> bool:
    count = 1
    for i in over:
        extent: Size | None = graph.program.indices[i].extent
        n = extent.constant if extent is not None else None
        if n is None:
            return False
        count *= max(n, 1)
    return count <= _SMALL
