"""What a sum of products reads in windows lies in memory for it. ainf → ainf

    before   for i<h, r<3 if i + r >= 1:  v = copy(x[i + r - 1])
             for i<h, r<3:                y = select(c[i, r], v[i, r], 0)
             … add over c, r of y[i, r] · k[o, c, r]
    after    for e<h + 2 if e >= 1:       v' = copy(x[e - 1])
             for e<h + 2:                 y' = select(c'[e], v'[e], 0)
             … add over c, r of y'[i + r] · k[o, c, r]

The law: what depends on two indices by their sum alone is the same for all that have that sum. So
an image with a margin is made once, and is no longer an array with a copy of each window.

It is done only where each element meets many others in a sum of products over more than the
window: there a margin costs nothing beside what it saves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from naperian.ainf.syntax import Accumulate, Binding, Index, Op, Program, Read
from naperian.ainf.walk import free, reads, rewrite_size, variables
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.passes.algebra.prune import prune
from naperian.passes.algebra.slid import Slid, summed
from naperian.sizes import size

_MANY = 8  # elements of an axis that are worth a product of matrices


def windows(program: Program) -> Program:
    """See the module."""
    made = _Windows(program)
    bindings = [replace(b, prim=p) if (p := made.product(b)) else b for b in program.bindings]
    if not made.added:
        return program
    placed = [x for b in bindings for x in (*made.before[b.var], b, *made.slid.all_behind(b.var))]
    return prune(replace(program, bindings=tuple(placed), indices=made.indices))


@dataclass(slots=True)
class _Windows:
    program: Program
    indices: dict[Var, Index] = field(init=False)
    made: dict[Var, Binding] = field(init=False)
    readers: dict[Var, list[Binding]] = field(init=False)
    before: dict[Var, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    slid: Slid = field(init=False)
    added: bool = False

    def __post_init__(self) -> None:
        self.indices = dict(self.program.indices)
        self.made = {b.var: b for b in self.program.bindings}
        self.slid = Slid(self.program, dict(self.made), self.indices)
        self.readers = defaultdict(list)
        for b in self.program.bindings:
            for v in {r.var for r in reads(b)}:
                self.readers[v].append(b)

    def product(self, b: Binding) -> Op | None:
        """The product with its windows from elsewhere, if it is one that is summed up so."""
        match b.prim:
            case Op("mul", (Read() as x, Read() as y)) if b.dtype.is_float and not b.guards:
                over, kept = self.sums(b)
                one = self.factor(b, x, y, over, kept)
                two = self.factor(b, y, x, over, kept)
                if one or two:
                    self.added = True
                    return Op("mul", (one or x, two or y))
            case _:
                pass
        return None

    def sums(self, b: Binding) -> tuple[set[Var], tuple[Var, ...]]:
        """The indices that a product is summed over, by those who alone read it and each other,
        and those that are left."""
        over: set[Var] = set()
        kept = b.context
        names = {i: size(i) for i in b.context}
        while len(self.readers[b.var]) == 1:
            [reader] = self.readers[b.var]
            match reader.prim:
                case Accumulate("add", _, (entry,)) if not entry.guards and not reader.guards:
                    pass
                case _:
                    break
            if not isinstance(entry.value, Read) or entry.value.var != b.var:  # it starts with it
                break
            if entry.at != tuple(map(size, reader.context)):
                break
            there = dict(zip(b.context, entry.value.at, strict=True))
            names = {i: rewrite_size(e, there) for i, e in names.items()}
            ours = {v: i for i, e in names.items() if isinstance(v := e.single, Var)}
            over.update(ours[i] for i in entry.over if i in ours)
            kept = tuple(ours[i] for i in reader.context if i in ours)
            b = reader
        return over, kept

    def factor(
        self, b: Binding, x: Read, y: Read, over: set[Var], kept: tuple[Var, ...]
    ) -> Read | None:
        """What to read instead of `x` where that is multiplied by `y`."""
        mine, theirs = ({v for v in free(r) if v in self.indices} for r in (x, y))
        if not (self.many(theirs - mine) and mine - theirs and self.many(mine & theirs & over)):
            return None
        if any(self.mentions_indices(i) for i in mine):
            return None
        return self.in_windows(x, theirs, kept) if x.var in self.made else None

    def many(self, some: Iterable[Var]) -> bool:
        extents = (self.indices[i].extent for i in some)
        return any(n is None or n.constant is None or n.constant >= _MANY for n in extents)

    def mentions_indices(self, i: Var) -> bool:
        n = self.indices[i].extent
        return n is None or any(v in self.indices for v in variables(n))

    def in_windows(self, x: Read, theirs: set[Var], kept: tuple[Var, ...]) -> Read | None:
        """The same element of a table whose indices are sums of those of `x`."""
        axes = [v for e in x.at if isinstance(v := e.single, Var) and v in self.indices]
        if len({*axes}) < len(x.at):
            return None
        pairs: list[tuple[int, int]] = []
        for k, i in enumerate(axes):
            for q, r in enumerate(axes):
                if self.is_short(i) or not self.is_short(r) or (i in theirs) == (r in theirs):
                    continue
                if not any(q in p or k in p for p in pairs) and self.slid.binding(x.var, ((k, q),)):
                    pairs.append((k, q))
        table = self.slid.binding(x.var, tuple(pairs)) if pairs else None
        windows = {axes[k] for p in pairs for k in p}
        if table is None or not self.many({*axes} & theirs - windows):
            return None
        at = dict(zip(table.context, summed(x.at, tuple(pairs)), strict=True))
        if kept and kept[-1] in windows:  # along which the sums are made, too
            table = self.in_order(table, sorted(at, key=lambda i: at[i].single is None))
        return Read(table.var, tuple([at[i] for i in table.context]))

    def in_order(self, table: Binding, context: list[Var]) -> Binding:
        """The same table with its axes in another order."""
        others = self.slid.behind[table.var]
        if not others:
            others.append(replace(table, var=fresh(table.var), context=tuple(context)))
        return others[0]

    def is_short(self, r: Var) -> bool:
        n = self.indices[r].extent
        return n is not None and n.constant is not None
