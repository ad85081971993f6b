"""Producers that no loop can share with their reader are computed again where they are read, if
that is cheap:

    y[i] = x[i] * 2;  z[i] = y[clamp(i - 1)] + y[clamp(i + 1)]
    ⇒  z[i] = x[clamp(i - 1)] * 2 + x[clamp(i + 1)] * 2

A read at the reader's own indices is left alone (fusion shares the loop), but a condition that is
the same in all rounds of a recurrence is asked in each, if its table would be longer than all that
it is made of:

    for t, i, k: … if c[i, k]       ⇒       for t, i, k: … if i + o[k] < n

A producer with one reader is always computed there when that makes no more values than before, so
that reversing, shifting or cutting an intermediate array costs nothing. What hangs on a table that
a loop changes in place is computed in that round, or every round would have to keep the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from naperian.ainf.syntax import Guard, Read, Trips
from naperian.ainf.walk import atoms, atoms_of, variables
from naperian.dtypes import DType
from naperian.names import Var
from naperian.passes.fusion.graph import (
    WHOLE,
    Cell,
    Graph,
    Kind,
    Site,
    Task,
    copy,
    cost,
    identity,
    in_register,
    link,
    map_reads,
    operand_sizes,
    rename_indices,
    rename_operand,
    rounds,
)
from naperian.sizes import Clamp, Quotient, Remainder, Size

_LIGHT = 3  # a value: two loads and an addition
_CONDITION = 6  # two such values compared
FREE = 24  # a value of indices alone, which a cut loop may decide
_ASKED = 14  # values that one may be made of
_NUMBER = 12  # a float of indices alone, which none decides: a sine takes longer than to read it
_AGAIN = 4  # and one that a loop around computes again for each round: so does a division
_TOGETHER = 12  # all copies of a producer
_SEEN = (7, 14)  # both, of what is seen under other index sets: a sum of two sums of two loads
_ROUND = (8, 24)  # and of what a recurrence reads, whose table of all rounds goes through memory
_OUTER = (5, 60)  # and of what spreads over more indices than each of its parts
_FOUND = 4  # what it takes to find a place that data name: two comparisons, and a read of one
_POINTS = 96  # all copies of what is only read where it is made, and in fewer loops
_STEPS = 4  # operations from arrays to what is made of them


def inline(graph: Graph) -> None:
    """See the module. New tasks are left out of order (`moved`)."""
    made = _computed(graph, partial(_wanted, *_along_ends(graph), _times(graph)))
    graph.tasks += (new for _, new in made)
    graph.moved = graph.moved or bool(made)
    graph.tasks = [t for t in graph.tasks if t.uses >= 0]


def crossed(graph: Graph) -> None:
    """The same for what is read at the reader's own indices, but in loops that turned out to stand
    in another order, or inside others: nothing can share them. In rounds of a time, a condition of
    indices alone is decided where loops are cut."""
    made = {new: p for p, new in _computed(graph, partial(_crosses, _times(graph)))}
    places = {t: (n, 0) for n, t in enumerate(graph.tasks) if t not in made}
    tasks = sorted((*graph.tasks, *made), key=lambda t: _place(t, made, places))
    graph.tasks = [t for t in tasks if t.uses >= 0]
    for n, t in enumerate(graph.tasks):
        t.order = n


def _place(
    t: Task, made: Mapping[Task, Task], places: dict[Task, tuple[int, int]]
) -> tuple[int, int]:
    """Behind what is copied and all that the copy reads, its guards among that."""
    if t not in places:
        read = (s.task for s in t.sites if not s.carried)
        last, copies = max(_place(x, made, places) for x in (made[t], *read))
        places[t] = last, copies + 1
    return places[t]


_Wanted = Callable[[Graph, Task, Task, tuple[Size, ...], int], bool]


def _computed(graph: Graph, wanted: _Wanted) -> list[tuple[Task, Task]]:
    """What is wanted where it is read is copied there: the producers with their copies."""
    weights: dict[Task, int] = {}
    for t in graph.tasks:
        if t.kind is Kind.COMPUTE:
            weights[t] = _weight(graph, t, weights)
    made: dict[tuple[Task, tuple[Size, ...], tuple[Var, ...], tuple[Guard, ...]], Task] = {}
    times = _times(graph)
    work = list(graph.tasks)
    out: list[tuple[Task, Task]] = []
    while work:
        t = work.pop()
        if t.uses < 0 or not t.sites or t.kind in WHOLE:
            continue
        path = t.path
        chosen: dict[Read, Task] = {}
        for s in t.sites:
            p = s.task
            if s.bound or not s.at or not _candidate(p):
                continue
            if not wanted(graph, t, p, s.at, weights.get(p, 1)) or _changes(p, s.at, times):
                continue
            if not (_own(graph, t, p, s.at) and keeps(graph, t, p)):
                chosen[Read(p.var, s.at)] = p
        if not chosen:
            continue
        replaced: dict[Read, Read] = {}
        for r, p in chosen.items():
            point = dict(zip(p.context, r.at, strict=True))
            guards = _both(_before(t.guards, p.var), p.guards, point)
            around = _around(path, r.at, guards)
            key = (p, r.at, around, guards)
            new = made.get(key)
            if new is None or new.uses < 0:
                new = copy(graph, p, point, around)
                new.guards = guards
                link(graph, new)
                if p in weights:
                    weights[new] = weights[p]
                made[key] = new
                out.append((p, new))
                work.append(new)
            replaced[r] = Read(new.var, identity(around))
        while replaced:  # x[k[i]] as it stands, then k[i]: what is inside of a read is part of it
            inside = {a for r in replaced for e in r.at for a in atoms_of(e)}
            outer = {r: new for r, new in replaced.items() if r not in inside}
            map_reads(graph, t, outer.get)
            replaced = {r: new for r, new in replaced.items() if r in inside}
    return out


def _times(graph: Graph) -> set[Var]:
    return {t.cell.time for t in graph.tasks if t.cell is not None and t.cell.time is not None}


def _around(
    path: tuple[Var, ...], at: tuple[Size, ...], guards: tuple[Guard, ...]
) -> tuple[Var, ...]:
    """The loops of a reader that what it reads at a point is in: no deeper than it hangs on, so
    that a guard is there before the loop that it guards."""
    needed = {v for e in at for v in variables(e)}
    for g in guards:
        for s in operand_sizes(g.operand):
            needed.update(variables(s))
    return path[: max((k + 1 for k, i in enumerate(path) if i in needed), default=0)]


def _before(guards: tuple[Guard, ...], var: Var) -> tuple[Guard, ...]:
    """The guards that hold where a task reads `var`: those before the first that does itself."""
    for k, g in enumerate(guards):
        if any(isinstance(r, Read) and r.var == var for r in atoms(g.operand)):
            return guards[:k]
    return guards


def _both(
    outer: tuple[Guard, ...], own: tuple[Guard, ...], point: Mapping[Var, Size]
) -> tuple[Guard, ...]:
    """The guards of a reader and those of what it reads at a point."""
    out = list(outer)
    for g in own:
        fact = rename_indices(g.fact, point) if g.fact is not None else None
        if fact is not None and atoms_of(fact):
            fact = None
        here = Guard(rename_operand(g.operand, point), g.holds, fact)
        if here not in out:
            out.append(here)
    return tuple(out)


def _candidate(p: Task) -> bool:
    if p.home is not None:
        return False
    if p.kind is Kind.FINAL:
        return not in_register(p.cell)
    return p.is_value


def loads(graph: Graph, p: Task) -> bool:
    """Whether a value needs memory: a parameter that is no integer, or what is itself more than
    index arithmetic."""
    work, seen = [p], {p}
    while work:
        q = work.pop()
        if len(seen) > _ASKED:
            return True
        if q.kind is not Kind.COMPUTE or q.home is not None:
            return True
        given = (graph.params.get(x.var) for x in q.args if isinstance(x, Read))
        if any(x is not None and (x.shape or x.dtype.is_float) for x in given):
            return True
        made = {s.task for s in q.sites if s.task.context} - seen
        seen |= made
        work += made
    return False


def _free(t: Task, p: Task) -> int:
    if not p.dtype.is_float:
        return FREE
    return _NUMBER if len(p.context) == len(t.path) else _AGAIN


def _weight(graph: Graph, t: Task, weights: dict[Task, int]) -> int:
    """What it takes to compute a value again: its operation, its loads, its light producers. What
    is read twice at a place is loaded once."""
    loads: list[Read] = []
    for x in t.args:
        if isinstance(x, Read) and x.at and x not in loads:
            loads.append(x)
    w = cost(t) + len(loads) + _FOUND * sum(_is_found(graph, r) for r in loads)
    met: list[tuple[Task, tuple[Size, ...]]] = []
    for s in t.sites:
        p, at = s.task, s.at
        light = weights.get(p, _LIGHT + 1) <= _LIGHT and weights[p] * p.uses <= _TOGETHER
        if p.context and light and (p, at) not in met:
            met.append((p, at))
            w += weights[p] - 1
            if at == identity(p.context) and any(x in loads for x in p.args):
                w -= 1
    return w


def _is_found(graph: Graph, r: Read) -> bool:
    """Whether data say where something is read, and it is brought into the array: neighbours are
    not read together. (What a caller's indices are is only made sure of.)"""

    for e in r.at:
        for a in () if e.plain else e.atoms:
            if isinstance(a, Clamp) and atoms_of(a.value):
                index = a.value.single
                if not (isinstance(index, Read) and index.var in graph.params):
                    return True
    return False


def _changes(p: Task, at: tuple[Size, ...], times: set[Var]) -> bool:
    """Whether a value hangs on a carried table that is changed in place, and is read in another
    round: computed there, it would need the table of every round."""
    point = dict(zip(p.context, at, strict=True))
    for s in p.sites:
        cell = s.task.cell
        if cell is None or (s.task.kind is Kind.FINAL and times.isdisjoint(s.task.path)):
            continue  # what a loop ends with is that in all rounds of others
        step = cell.writers[0] if cell.time is not None else None
        entered = cell if step is None else next((x.task.cell for x in step.sites), None)
        if entered is None or not entered.monoid or not _sparse(entered):
            continue
        if any(point[i].single != i for i in p.context if i in times):
            return True
    return False


def keeps(graph: Graph, t: Task, p: Task) -> bool:
    """Whether a value made of what a loop carries is all of its rounds that others ask for:
    computed where it is read, it would need what was carried in every round, which is as much.
    (Not what is read in another order, as derivatives do, which ask for more of a round.)"""
    cells = (s.task.cell for s in p.sites if s.carried)
    times = {c.time for c in cells if c is not None and c.time is not None}.difference(t.path)
    return bool(times) and all(
        s.task is p or times.isdisjoint(s.task.path) or not times.isdisjoint(x.path)
        for x in graph.tasks for s in x.sites
    )


def _sparse(cell: Cell) -> bool:
    """Whether few elements of a table are accumulated."""
    return any(
        e.single != i for w in cell.writers for i, e in zip(cell.context, w.at, strict=True)
    )


def _own(graph: Graph, t: Task, p: Task, at: tuple[Size, ...]) -> bool:
    """Whether a read is at indices of the reader's own that go as far as those of what is read."""
    names = [e.single for e in at]
    path = t.path
    for v in names:
        if type(v) is not Var or v not in path:
            return False
    if tuple(names) == p.context:
        return True
    if len(set(names)) != len(names):
        return False
    indices = graph.program.indices
    point = dict(zip(p.context, at, strict=True))

    def same(i: Var, v: Var) -> bool:
        mine, theirs = indices[v].extent, indices[i].extent
        return rounds(mine) == rounds(None if theirs is None else rename_indices(theirs, point))

    return all(same(i, v) for i, v in zip(p.context, names, strict=True) if isinstance(v, Var))


def _crosses(
    times: set[Var], graph: Graph, t: Task, p: Task, at: tuple[Size, ...], weight: int
) -> bool:
    if p.kind is Kind.FINAL:  # which turned out to be that of a table
        return not _own(graph, t, p, at)
    if weight > _free(t, p):
        return False
    point = dict(zip(p.context, at, strict=True))
    theirs = [point[i].single for i in p.path if i in point]
    mine = list(t.path[: len(theirs)])
    if theirs == mine or not _own(graph, t, p, at):
        return False
    if not loads(graph, p):
        return True
    light = _CONDITION if p.dtype is DType.BOOL else _LIGHT
    alone = not p.units and t.path[-1] in times
    light, together = _ROUND if alone else (light, _TOGETHER)
    return set(theirs) == set(mine) and weight <= light and weight * p.uses <= together


def _along_ends(graph: Graph) -> tuple[Counter[Task], set[Task]]:
    """How many reads of a value go along an end of it only, where they are few: a row of a table,
    for what a window does at a border. And what is read at one place for each of fewer indices
    alone, but where it is made, and as parts of an index say."""
    indices = graph.program.indices
    lengths: dict[tuple[Var, ...], int] = {}

    def long(axes: tuple[Var, ...]) -> int:
        if axes not in lengths:
            extents = [indices[i].extent for i in axes]
            lengths[axes] = sum(
                [n is None or (n.constant is None and not _is_few(n)) for n in extents]
            )
        return lengths[axes]

    found: Counter[Task] = Counter()
    few: set[Task] = set()
    others: list[tuple[Task, Site]] = []
    for t in graph.tasks:
        mine = long(t.path)
        for s in t.sites:
            if mine < long(s.task.context):
                found[s.task] += 1
                if any(map(_is_part, s.at)):
                    continue
                hangs_on = {v for e in s.at for v in variables(e) if v in indices}
                if hangs_on <= {e.single for e in s.at}:
                    few.add(s.task)  # for each of the shared ones it is one place
                    continue
            others.append((t, s))
    apart = {
        s.task for t, s in others
        if s.task in few and not any(map(_is_part, s.at)) and not _own(graph, t, s.task, s.at)
    }  # fmt: skip
    return found, few - apart


def _is_few(n: Size) -> bool:
    """Whether an extent is a number, or less if there is no room for so many."""
    return isinstance(n.single, Clamp) and n.single.value.constant is not None


def _wanted(
    ends: Counter[Task], few: set[Task], times: set[Var],
    graph: Graph, t: Task, p: Task, at: tuple[Size, ...], weight: int,
) -> bool:
    names = [e.single for e in at]
    if _own(graph, t, p, at):
        if p.kind is Kind.FINAL:
            return False
        if set(t.path[: len(names)]) == set(names):
            return weight <= _LIGHT and _swaps(p, at)
        if len(names) >= len(t.path):
            return False
        if not loads(graph, p):
            return weight <= _free(t, p)
        every_round = not times.isdisjoint(t.path) and times.isdisjoint(names)
        return weight <= (_ROUND[0] if every_round and _is_far(p) else 2)
    if p.kind is Kind.FINAL:
        return True
    parts = any(map(_is_part, at))
    if p in few and not parts and weight * ends[p] <= _POINTS:
        return True  # so there need be no table
    seen = parts and all(_is_part(e) or e.single in t.path for e in at)
    outer = not seen and weight <= _OUTER[0] and (_spreads(p) or _is_multiple(p))
    light, together = _SEEN if seen else _OUTER if outer else (_LIGHT, _TOGETHER)
    uses = max(p.uses - ends[p], 1)
    if weight <= light and (weight * uses <= together or not loads(graph, p)):
        return True
    if p.uses != 1 or len(t.path) > len(p.context):
        return False
    shared = {v for v in names if isinstance(v, Var)}  # in a round of these, others are numbers
    return all(shared.issuperset(_hangs_on(r)) for e in at for r in atoms_of(e))


def _swaps(p: Task, at: tuple[Size, ...]) -> bool:
    """Whether a value is read on the other side of a diagonal: who reads it there and who reads it
    as it is made share no loops, and neither do those with what is made of both."""
    here = {i: e.single for i, e in zip(p.context, at, strict=True)}
    return any(v != i and isinstance(v, Var) and here.get(v) == i for i, v in here.items())


def _spreads(p: Task) -> bool:
    """Whether a value is made of values that each have fewer indices: a product of a row with a
    number is read from memory more slowly than it is computed, and so is what is made of arrays of
    fewer axes, as all windows of a row are. What goes by turns, `i % 2`, is few values."""
    ranks = [len({v for e in x.at for v in _along(e)}) for x in p.args if isinstance(x, Read)]
    fewer = len(ranks) > 1 and max(ranks) < len(p.context)
    return fewer or 0 < _rank(p, _STEPS) < len(p.context)


def _rank(p: Task, steps: int) -> int:
    """How many axes an array has at most from which a value is computed, in so many easy steps."""
    carried = any(s.carried for s in p.sites)  # another one in every round
    if p.kind is not Kind.COMPUTE or cost(p) > _LIGHT or steps == 0 or carried:
        return len(p.context)
    made = {s.task.var for s in p.sites}
    given = (len(x.at) for x in p.args if isinstance(x, Read) and x.var not in made)
    return max((*given, *(_rank(s.task, steps - 1) for s in p.sites)), default=0)


def _is_far(p: Task) -> bool:
    """Whether a condition has more indices than each array that it is made of, none of them read
    where data say: its table is longer than all of these, which stay near."""
    easy = p.dtype is DType.BOOL and _rank(p, _STEPS) < len(p.context)
    return easy and not _gathers(p, _STEPS)


def _gathers(p: Task, steps: int) -> bool:
    """Whether a value is made of what is read where data say, in so many steps."""
    if any(atoms_of(e) for x in p.args if isinstance(x, Read) for e in x.at):
        return True
    return steps > 0 and any(_gathers(s.task, steps - 1) for s in p.sites)


def _is_multiple(p: Task) -> bool:
    """Whether a value is a number times one of which there are other multiples, as where a window's
    elements are weighed: it is read as fast as they are, and stored once."""
    tables = [s.task for s in p.sites if s.task.context]
    arrays = [x for x in p.args if isinstance(x, Read) and x.at]
    if p.name != "mul" or not len(tables) == len(arrays) == 1:
        return False
    return tables[0].uses > 1 and p.context == tables[0].context


def _along(e: Size) -> tuple[Var, ...]:
    """The indices that an index goes along."""
    a = e.single
    return () if isinstance(a, Remainder) and a.below.constant is not None else variables(e)


def _is_part(e: Size) -> bool:
    """Whether an index is a part of one that loops take apart (`passes/nests/digits.py`)."""
    match e.single:
        case Quotient(above, below) | Remainder(above, below):
            return below.constant is None and (isinstance(above.single, Var) or _is_part(above))
        case _:
            return False


def _hangs_on(r: Read | Trips) -> set[Var]:
    """The indices that a number is read at."""
    at = r.at if isinstance(r, Read) else [e for _, e in r.at]
    return {v for e in at for v in variables(e)}
