"""A loop that finds how long its rows are once more, for lengths that are known.

    for t<T: k = …h[t]…              rows of the round
    for t<T, j<k[t]: r = …
    d = max over t<T of k[t]
    for t<T: k' = after(k[t], d)
    for t'<T, j'<k'[t']: r' = …

The reverse of a loop reads the rows of all rounds, one after the other in one array: how
long that is, and where a round's rows begin, is known when all lengths are. So the rows are made
by a second loop, which starts when the first one is over; of that only the lengths are kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from naperian.ainf.syntax import Accumulate, Binding, Delay, Op, Read
from naperian.ainf.walk import atoms, atoms_of, rewrite, rewrite_size, size_of
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.passes.bindings.builder import Builder
from naperian.passes.derivatives.copies import Copy, body, mentioned
from naperian.passes.derivatives.rules import renamed
from naperian.sizes import Atom, Size, size


def lengths(b: Builder, component: list[Binding], time: Var) -> list[Var]:
    """What says how far an index in a loop goes, and depends on what the loop carries."""
    for i, index in b.indices.items():
        n = index.extent
        if n is not None and not n.plain and time in b.closures[i]:
            break
    else:
        return []
    inside = body(b, component, time)
    made = {x.var for x in inside}
    indices = {i for x in inside for i in (*x.context, *_bound(x))}
    read = dict.fromkeys(
        a.var for i in b.order(indices) for n in (b.extent(i),) if n is not None
        for a in atoms_of(n) if isinstance(a, Read) and a.var in made
    )  # fmt: skip
    if not read:
        return []
    readers: dict[Var, list[Var]] = {}
    for x in inside:
        for v in _made_of(b, x, time):
            readers.setdefault(v, []).append(x.var)
    carried: set[Var] = set()
    todo = [x.var for x in inside if isinstance(x.prim, Delay) and x.prim.time == time]
    while todo:
        v = todo.pop()
        if v not in carried:
            carried.add(v)
            todo += readers.get(v, ())
    found = {v for v in read if v in carried}
    return [v for v in read if v in found and not _is_in_rows(b, v, found)]


def _is_in_rows(b: Builder, v: Var, lengths: set[Var]) -> bool:
    """Whether a length is one of many in rows whose lengths are others of these: it would be kept
    for rows that are not kept."""
    extents = (n for i in b.contexts[v] if (n := b.extent(i)) is not None)
    return any(isinstance(a, Read) and a.var in lengths for n in extents for a in atoms_of(n))


def found(
    b: Builder, component: list[Binding], time: Var, lengths: list[Var]
) -> tuple[list[Binding], dict[Var, Var]]:
    """The copies of a loop's bindings, and what each of them copies."""
    inside = body(b, component, time)
    outer = [{*x.context} for x in inside if isinstance(x.prim, Delay) and x.prim.time == time]
    outer += [{*b.contexts[k]} for k in lengths]
    around = set.intersection(*outer) - {time}
    copy = _Found(b, time, {x.var: Var(x.var.name) for x in inside})
    for k in lengths:
        copy.late[k] = _late(b, k, around)
    copy.loop(inside)
    copies = [copy.binding(x) for x in inside]
    copy.conditions()
    return copies, copy.moved


def _late(b: Builder, k: Var, around: set[Var]) -> Var:
    """A length, once it is known in all rounds."""
    context, guards = b.contexts[k], b.guards[k]
    value = Read(k, tuple(map(size, context)))
    names: dict[Var, Size] = {}  # of indices of its own: two lengths may be of one loop
    for i in b.order(i for i in context if i not in around):
        n = b.extent(i)
        assert n is not None
        names[i] = size(b.index(rewrite_size(n, names), b.indices[i].name))
    over = tuple(v for n in names.values() for v in (n.single,) if isinstance(v, Var))
    part = (over, rewrite(value, names), renamed(guards, names))
    whole = b.reduce("max", Lit(0, DType.I64), (part,), DType.I64)
    return b.add(Op("after", (value, whole)), context, guards, DType.I64).var


class _Found(Copy):
    def __init__(self, b: Builder, time: Var, moved: dict[Var, Var]) -> None:
        super().__init__(b, time, moved)
        self.late: dict[Var, Var] = {}

    def loop(self, bindings: list[Binding]) -> None:
        """The copies of the loop's own indices, then of those inside."""
        old = self.b.indices[self.time]
        assert old.extent is not None
        self.names[self.time] = size(self.b.index(old.extent, old.name))
        for x in bindings:
            if isinstance(x.prim, Delay) and x.prim.time == self.time:
                name = self.b.indices[x.prim.index].name
                self.names[x.prim.index] = size(self.b.index(old.extent + 1, name))
        self.indices(bindings)

    def atom(self, a: Atom) -> Size | None:
        """A length is said in one way, in how far an index goes and in where something is read: its
        ends, or its digits, would have to be looked for in every one of its rounds."""
        if isinstance(a, Read) and a.var in self.late:
            return size_of(Read(self.late[a.var], tuple(map(self.size, a.at))))
        return super().atom(a)


def _made_of(b: Builder, x: Binding, time: Var) -> Iterable[Var]:
    """What a binding's value depends on. A number that waits is what it was before."""
    match x.prim:
        case Op("after", (first, _)):
            return (a.var for a in atoms(first) if isinstance(a, Read))
        case _:
            return mentioned(b, x, time)


def _bound(x: Binding) -> tuple[Var, ...]:
    if isinstance(x.prim, Accumulate):
        return tuple(i for e in x.prim.entries for i in e.over)
    return ()
