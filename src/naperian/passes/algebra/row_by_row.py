"""What is made of rows one after the other is made row by row. ainf → ainf

    before   for u<n + 1:  end   = delay over t<n from 0 next end[t] + count[t]
             total               = add over i<n of count[i]
             for q<total:  owner = add over i<n, j<count[i] at [end[i + 1] - count[i] + j] of i
             for p<total:  x     = exp(value[owner[p], p - end[owner[p] + 1] + count[owner[p]]])
             return for p<total: x[p]
    after    for i<n, j<count[i]: x = exp(value[i, j])
             return for i<n, j<count[i]: x[i, j]

The law: the places of row i are end[i] to end[i + 1] - 1, so every place belongs to one row, and
in order of places rows come in order and so do their elements, which is how a result over i and j
is stored. No count is negative: it is a number of elements. Whose an element is need not be written
down for every element, and looked up. So are sums over all places made, row by row. What is read at
any other place stays.
"""

from __future__ import annotations

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Delay,
    Entry,
    Index,
    Number,
    Op,
    Operand,
    Program,
    Read,
    Result,
)
from naperian.ainf.walk import atoms, atoms_in, free, rewrite, rewrite_size, variables
from naperian.dtypes import DType
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.algebra.prune import prune
from naperian.prims import ORDERED, PLACES
from naperian.sizes import ONE, Size, atom, size


def row_by_row(program: Program) -> Program:
    """See the module."""
    made = {b.var: b for b in program.bindings}
    for b in program.bindings:
        rows = _rows(program, made, b)
        if rows is not None:
            changed = rows.program()
            if changed is not program:
                return row_by_row(prune(changed))
    return program


def _rows(program: Program, made: dict[Var, Binding], b: Binding) -> _Rows | None:
    """The rows that a table says of every place to which it belongs."""
    match b:
        case Binding(
            owner, (p,), (), _,
            Accumulate("add", Lit(0), (Entry((i, j), (at,), Number(value), ()),)),
        ) if value == size(i):
            pass
        case _:
            return None
    indices = program.indices
    total, count = indices[p].extent, indices[j].extent
    n = indices[i].extent
    if total is None or count is None or n is None:
        return None
    known = count.single
    if not isinstance(known, Read) or known.at != (size(i),):
        return None
    if not _is_count(made, known.var) or not _is_total(program, made, total, known.var, n):
        return None
    ends = [
        a for a in at.atoms
        if isinstance(a, Read) and a.at == (size(i) + 1,) and at == atom(a) - count + size(j)
    ]
    if len(ends) != 1 or not _are_ends(program, made, ends[0].var, known.var, n):
        return None
    return _Rows(program, made, owner, total, (i, j), at)


def _is_count(made: dict[Var, Binding], v: Var) -> bool:
    """Whether numbers say how many there are of something."""
    b = made.get(v)
    if b is None or b.guards or not isinstance(b.prim, Accumulate) or b.prim.monoid != "add":
        return False
    return b.prim.init == Lit(0, DType.I64) and all(
        e.at == tuple(map(size, b.context)) and _is_one_or_none(made, e.value)
        for e in b.prim.entries
    )


def _is_one_or_none(made: dict[Var, Binding], x: Operand) -> bool:
    match x:
        case Lit(k):
            return k in (0, 1)
        case Read(v) if v in made:
            match made[v].prim:
                case Op("cast", (Read(c),)) if c in made:
                    return made[c].dtype is DType.BOOL
                case _:
                    return False
        case _:
            return False


def _is_total(
    program: Program, made: dict[Var, Binding], total: Size, count: Var, n: Size
) -> bool:
    a = total.single
    if not isinstance(a, Read) or a.at or a.var not in made:
        return False
    match made[a.var]:
        case Binding(guards=(), prim=Accumulate("add", Lit(0), (Entry((i,), (), value, ()),))):
            return value == Read(count, (size(i),)) and program.indices[i] == Index(n)
        case _:
            return False


def _are_ends(
    program: Program, made: dict[Var, Binding], ends: Var, count: Var, n: Size
) -> bool:
    match made.get(ends):
        case Binding(_, (u,), (), _, Delay(t, _, Lit(0), Number(after))):
            so_far, more = atom(Read(ends, (size(t),))), atom(Read(count, (size(t),)))
            steps = program.indices[t], program.indices[u]
            return after == so_far + more and steps == (Index(n), Index(n + ONE))
        case _:
            return False


class _Rows:
    """The places of rows one after the other, `total` in all; place `at` is element j of row i."""

    def __init__(
        self, program: Program, made: dict[Var, Binding], owner: Var, total: Size,
        pair: tuple[Var, Var], at: Size,
    ) -> None:  # fmt: skip
        self.before, self.bindings, self.owner, self.total = program, made, owner, total
        self.indices = dict(program.indices)
        i, j = fresh(pair[0]), fresh(pair[1])
        here = {pair[0]: size(i), pair[1]: size(j)}
        for old, new in zip(pair, (i, j), strict=True):
            index = program.indices[old]
            assert index.extent is not None
            self.indices[new] = replace(index, extent=rewrite_size(index.extent, here))
        self.pair, self.at = (i, j), rewrite_size(at, here)
        self.told: dict[Var, bool] = {owner: True}
        self.made: dict[Var, Binding] = {}

    def program(self) -> Program:
        """The program with all that is made in order of places made in that of rows."""
        results = tuple(map(self.result, self.before.results))
        after = [self.sums(b) for b in self.before.bindings]
        if results == self.before.results and tuple(after) == self.before.bindings:
            return self.before
        bindings: list[Binding] = []
        for old, b in zip(self.before.bindings, after, strict=True):
            bindings.append(b)
            if old.var in self.made:
                bindings.append(self.made[old.var])
        return replace(
            self.before, indices=self.indices, bindings=tuple(bindings), results=results
        )

    def is_place(self, p: Var) -> bool:
        index = self.before.indices[p]
        return index.extent == self.total and index.condition is None

    def result(self, r: Result) -> Result:
        if len(r.indices) != 1 or not r.new or not self.is_place(r.indices[0]):
            return r
        if not self.asks(r.value):
            return r
        value = self.moved(r.value, r.indices[0])
        return replace(r, indices=self.pair, value=value)

    def sums(self, b: Binding) -> Binding:
        """A binding that goes over all places, if what it adds up asks whose they are; not one that
        tells or asks for a place of its own, which is one index."""
        if not isinstance(b.prim, Accumulate) or b.var == self.owner:
            return b
        if b.prim.monoid in PLACES or b.prim.monoid in ORDERED:
            return b
        entries = tuple(map(self.entry, b.prim.entries))
        if entries == b.prim.entries:
            return b
        return replace(b, prim=replace(b.prim, entries=entries))

    def entry(self, e: Entry) -> Entry:
        found = [p for p in e.over if self.is_place(p)]
        if len(found) != 1 or e.guards or not self.asks(e.value):
            return e
        (p,) = found
        if any(p in variables(x) for i in e.over if (x := self.indices[i].extent) is not None):
            return e
        i, j = fresh(self.pair[0]), fresh(self.pair[1])
        names = {self.pair[0]: size(i), self.pair[1]: size(j)}
        extent = self.indices[self.pair[1]].extent
        assert extent is not None
        self.indices[i] = self.indices[self.pair[0]]
        self.indices[j] = Index(rewrite_size(extent, names))
        over = tuple(k for x in e.over for k in ((i, j) if x == p else (x,)))
        where = tuple(rewrite_size(self.moved_size(x, p), names) for x in e.at)
        return Entry(over, where, rewrite(self.moved(e.value, p), names))

    def asks(self, x: Operand) -> bool:
        """Whether something is made of whose a place is, and nothing in between is a loop."""
        return any(isinstance(a, Read) and self.asks_for(a.var) for a in atoms(x))

    def asks_for(self, v: Var) -> bool:
        if v not in self.told:
            self.told[v] = False
            b = self.bindings.get(v)
            if b is not None and self.is_simple(b):
                read = (a for a in atoms_in(b) if isinstance(a, Read))
                self.told[v] = any(self.asks_for(a.var) for a in read)
        return self.told[v]

    def is_simple(self, b: Binding) -> bool:
        """Whether a binding is an operation at a place."""
        return (
            len(b.context) == 1 and self.is_place(b.context[0]) and not b.guards
            and isinstance(b.prim, Op) and b.prim.name not in ("checked", "print", "after", "held")
        )  # fmt: skip

    def moved(self, x: Operand, p: Var) -> Operand:
        return rewrite(x, {p: self.at}, self.read)

    def moved_size(self, x: Size, p: Var) -> Size:
        return rewrite_size(x, {p: self.at}, self.read)

    def read(self, x: Read) -> Operand:
        """What is read at a place, as it is told of its row."""
        if x.at != (self.at,):
            return x
        if x.var == self.owner:
            return Number(size(self.pair[0]))
        if not self.asks_for(x.var):
            return x
        if x.var not in self.made:
            b = self.bindings[x.var]
            assert isinstance(b.prim, Op)
            args = tuple(self.moved(a, b.context[0]) for a in b.prim.args)
            mentioned = {v for a in args for v in free(a)}
            context = self.pair if self.pair[1] in mentioned else self.pair[:1]
            self.made[x.var] = replace(
                b, var=fresh(x.var), context=context, prim=replace(b.prim, args=args)
            )
        return Read(self.made[x.var].var, tuple(map(size, self.made[x.var].context)))
