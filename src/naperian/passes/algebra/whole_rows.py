"""What is added to several columns of a row that data name is added to the row. ainf → ainf

    before   for j<n, c<3:  x = add over i<m at [key[i], c] of v[i, c]
                                    over k<m at [key[k], 2] of w[k] from 0.0
    after    for i<m, c<3:  u = add(v[i, c], select(c == 2, w[i], -0.0))
             for j<n, c<3:  x = add over i<m at [key[i], c] of u[i, c] from 0.0

So the adjoint of a gathered row that is read whole and by its columns finds each row once, not once
for each of its readers. Floating sums are in another order.
"""

from __future__ import annotations

from naperian.ainf.syntax import Accumulate, Binding, Entry, Number, Op, Operand, Program, Read
from naperian.ainf.walk import atoms_of, free, rewrite, rewrite_guards, rewrite_size, variables
from naperian.dtypes import DType
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.prims import Math
from naperian.sizes import Size, places, size

_FEW = 8  # columns


def whole_rows(program: Program) -> Program:
    """See the module."""
    if program.math is Math.STRICT:
        return program
    made = _WholeRows(program)
    for b in program.bindings:
        made.binding(b)
    return replace(program, bindings=tuple(made.bindings), indices=made.indices)


class _WholeRows:
    def __init__(self, program: Program) -> None:
        self.indices = dict(program.indices)
        self.bindings: list[Binding] = []

    def binding(self, b: Binding) -> None:
        match b:
            case Binding(_, (_, *_, last), (), _, Accumulate("add", _, (_, _, *_))) if (
                b.dtype.is_float and self.is_few(last) and self.is_even(b.context)
            ):
                assert isinstance(b.prim, Accumulate)
                entries = self.merged(b, last, b.prim.entries)
                b = replace(b, prim=replace(b.prim, entries=entries))
        self.bindings.append(b)

    def is_few(self, i: Var) -> bool:
        n = self.indices[i].extent
        return n is not None and n.constant is not None and 0 < n.constant <= _FEW

    def is_even(self, context: tuple[Var, ...]) -> bool:
        """Whether all rows are as long."""
        extents = (self.indices[i].extent for i in context)
        return all(n is None or self.indices.keys().isdisjoint(variables(n)) for n in extents)

    def merged(self, b: Binding, last: Var, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """Entries of which few go to the same rows."""
        groups: list[list[tuple[Entry, Entry]]] = []  # as it was, and along the first one's indices
        for old in entries:
            e = self.by_columns(old, last)
            for group in groups:
                same = self.along(group[0][1], e, last)
                if same is not None:
                    group.append((old, same))
                    break
            else:
                groups.append([(old, e)])
        out: list[Entry] = []
        for group in groups:
            new = [e for _, e in group]
            out += (self.row(b, last, new),) if self.pays(last, new) else (old for old, _ in group)
        return tuple(out)

    def pays(self, last: Var, group: list[Entry]) -> bool:
        """Whether entries go to more columns than there are: some to one that another goes to."""
        n = self.indices[last].extent
        assert n is not None
        wide = n.constant or 0
        return sum(wide if e.at[-1].constant is None else 1 for e in group) > wide

    def by_columns(self, e: Entry, last: Var) -> Entry:
        """An entry with the index of the table's columns for its own, if it has one for all."""
        column = e.at[-1].single
        if column not in e.over or self.indices[column].extent != self.indices[last].extent:
            return e
        names = {column: size(last)}
        at = tuple(rewrite_size(s, names) for s in e.at)
        over = tuple(i for i in e.over if i != column)
        return Entry(over, at, rewrite(e.value, names), rewrite_guards(e.guards, names))

    def goes_by_rows(self, e: Entry, last: Var) -> bool:
        """Whether data name the rows of an entry, and it has a value for one column or for all."""
        column = e.at[-1]
        named = any(map(atoms_of, e.at[:-1])) and not e.guards
        return named and (column.constant is not None or column.single == last)

    def along(self, first: Entry, e: Entry, last: Var) -> Entry | None:
        """An entry along the indices of another, if it goes to the same rows."""
        if not (self.goes_by_rows(first, last) and self.goes_by_rows(e, last)):
            return None
        if len(first.over) != len(e.over) or not self.is_even(first.over):
            return None
        names: dict[Var, Size] = {}
        for i, j in zip(first.over, e.over, strict=True):
            n, m = self.indices[i].extent, self.indices[j].extent
            if n is None or m is None or n != rewrite_size(m, names):
                return None
            names[j] = size(i)
        if tuple(rewrite_size(s, names) for s in e.at[:-1]) != first.at[:-1]:
            return None
        return Entry(first.over, (*first.at[:-1], e.at[-1]), rewrite(e.value, names), ())

    def row(self, b: Binding, last: Var, group: list[Entry]) -> Entry:
        """One entry for those that go to the same rows."""
        order = (*(i for i in b.context if i != last), *group[0].over, last)

        def op(name: str, dtype: DType, *args: Operand) -> Read:
            asked = {v for a in args for v in free(a)}
            over = tuple(i for i in order if i in asked)
            made = Binding(fresh(b.var), over, (), dtype, Op(name, args), b.origin)
            self.bindings.append(made)
            return Read(made.var, places(over))

        total: Operand | None = None
        for e in group:
            value = e.value
            if e.at[-1].constant is not None:
                column = Number(size(last)), Lit(e.at[-1].constant, DType.I64)
                here = op("eq", DType.BOOL, *column)
                value = op("select", b.dtype, here, value, Lit(-0.0, b.dtype))
            total = value if total is None else op("add", b.dtype, total, value)
        assert total is not None
        return Entry(group[0].over, (*group[0].at[:-1], size(last)), total, ())
