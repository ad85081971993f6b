"""A part of an array that windows go over, at a place that data name, is cut out once. ainf → ainf

    before   for k<p, e<s + t:                v = add(a[k], e)
             for k<p, y<s, i<t:               z = mul(x[clamp(v[k, y + i], n)], w[i])
    after    for k<p, e<s + t:                v = add(a[k], e)
             for k<p, e<s + t:                u = copy(x[clamp(v[k, e], n)])
             for k<p, y<s, i<t:               z = mul(u[k, y + i], w[i])

The law: what depends on two indices by their sum alone is the same for all that have that sum. A
place that data name and that is clamped is looked up element by element, where neighbours in a
table are read together; each is looked up once now, and not in every window that it is in.
"""

from __future__ import annotations

from naperian.ainf.syntax import Binding, Delay, Index, Op, Operand, Program, Read
from naperian.ainf.walk import (
    atoms_of,
    free,
    map_guards,
    map_prim,
    reads,
    rewrite_size,
    variables,
)
from naperian.dtypes import DType
from naperian.facts import Facts
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.passes.bindings.ranges import checked, facts_about
from naperian.sizes import ONE, ZERO, Clamp, Size, clamp, places, size

_OFTEN = 16  # windows that an element is in, from which on a table is worth it
_SOME = 16  # elements of an axis whose extent no number says


def cut_out(program: Program) -> Program:
    """See the module."""
    made = _CutOut(program)
    bindings = tuple(x for b in program.bindings for x in made.binding(b))
    if len(bindings) == len(program.bindings):
        return program
    return replace(program, bindings=bindings, indices=made.indices)


class _Left(Exception):
    """A read stays as it is."""


class _CutOut:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.indices = dict(program.indices)
        self.known = Facts().and_(*checked(program))
        self.arrays = {p.var: (p.dtype, p.shape) for p in program.params}
        self.made: dict[Var, Binding] = {}
        self.tables: dict[tuple[object, ...], Var] = {}
        self.new: list[Binding] = []

    def binding(self, b: Binding) -> tuple[Binding, ...]:
        """A binding that reads what is cut out, and what it is the first to read."""
        if all([e.plain for r in reads(b) for e in r.at]):  # data name no place
            self.made[b.var] = b
            return (b,)
        self.new = []
        prim = map_prim(b.prim, self.operand, lambda s: s)
        guards = map_guards(b.guards, self.operand, lambda s: s)
        self.made[b.var] = b
        return (*self.new, replace(b, prim=prim, guards=guards))

    def operand(self, o: Operand) -> Operand:
        try:
            return self.read(o) if isinstance(o, Read) else o
        except _Left:
            return o

    def read(self, r: Read) -> Read:
        """The same element of what is cut out."""
        dtype, shape = self.array(r.var)
        windows: dict[tuple[Size, Size], Var] = {}  # by the sum of indices, and its extent
        at = tuple(self.placed(e, n, windows) for e, n in zip(r.at, shape, strict=True))
        gone = {v for e, _ in windows for v in variables(e)}
        left = {v for e in at for v in variables(e) if v in self.indices}
        if not dtype.is_float or not windows or gone & left or self.often(windows) < _OFTEN:
            raise _Left
        kept = tuple(v for v in dict.fromkeys(free(r)) if v in left)
        for v in kept:
            self.extent(v)
        context = (*kept, *windows.values())
        names = dict(zip(context, places(_NAMES[: len(context)]), strict=True))
        extents = (*(self.indices[v] for v in kept), *(n for _, n in windows))
        key = (r.var, *(rewrite_size(e, names) for e in at), extents)
        if key not in self.tables:
            self.indices |= {u: Index(n) for (_, n), u in windows.items()}
            table = Binding(fresh("part"), context, (), dtype, Op("copy", (Read(r.var, at),)))
            self.new.append(table)
            self.tables[key] = table.var
        return Read(self.tables[key], (*map(size, kept), *(e for e, _ in windows)))

    def placed(self, e: Size, n: Size, windows: dict[tuple[Size, Size], Var]) -> Size:
        """An index with a name for every sum of indices at which the data is read that name the
        place."""

        def of(inner: Read) -> Operand:
            _, shape = self.array(inner.var)
            there = []
            for x, extent in zip(inner.at, shape, strict=True):
                if x.single is None and x.constant is None:
                    if not x.plain or not self.indices.keys().isdisjoint(variables(extent)):
                        raise _Left
                    there.append(size(windows.setdefault((x, extent), fresh("e"))))
                else:
                    there.append(x)
            return Read(inner.var, tuple(there))

        found = rewrite_size(e, {}, of)
        it = found.single
        if isinstance(it, Clamp) and (moved := self.moved(it.value, windows)) != it.value:
            found = clamp(moved, it.extent)
        if found != e and not (
            isinstance(it, Clamp) and it.extent == n and self.known.proves(n - 1)
        ):
            raise _Left  # it may be outside
        return found

    def moved(self, e: Size, windows: dict[tuple[Size, Size], Var]) -> Size:
        """A sum of indices and data, `y + i + a[k]`, with a name for that of the indices."""
        data: set[Var] = set()
        for r in atoms_of(e):
            if not isinstance(r, Read) or not self.array(r.var):
                raise _Left
            data.update(free(r))
        plain = [v for v in e.atoms if isinstance(v, Var) and v in self.indices and v not in data]
        if e.plain or len(plain) < 2 or any(e.coefficient(v) != 1 for v in plain):
            return e
        total, extent = ZERO, ONE
        for v in plain:
            total, extent = total + size(v), extent + self.extent(v) - 1
        sizes = frozenset(self.program.sizes)
        if not facts_about(extent, self.indices, sizes, (), self.known).proves(extent):
            raise _Left
        return e - total + size(windows.setdefault((total, extent), fresh("e")))

    def extent(self, v: Var) -> Size:
        """How far an index goes, whatever the others are."""
        n = self.indices[v].extent
        if n is None or not self.indices.keys().isdisjoint(variables(n)):
            raise _Left
        return n

    def array(self, var: Var) -> tuple[DType, tuple[Size, ...]]:
        """What is read, which is all there."""
        if var in self.arrays:
            return self.arrays[var]
        b = self.made.get(var)
        if b is None or b.guards or isinstance(b.prim, Delay):
            raise _Left
        shape = [self.indices[i].extent for i in b.context]
        if None in shape:
            raise _Left
        return b.dtype, tuple(n for n in shape if n is not None)

    def often(self, windows: dict[tuple[Size, Size], Var]) -> int:
        """How many windows an element is in, about."""
        total = 1
        for e, _ in windows:
            extents = [self.indices[v].extent for v in variables(e) if v in self.indices]
            many = sorted(_SOME if n is None or n.constant is None else n.constant for n in extents)
            for n in many[:-1]:
                total *= n
        return total


_NAMES = tuple(Var("i") for _ in range(64))  # of the indices of a table, whatever theirs are
