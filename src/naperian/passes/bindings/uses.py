"""How often the values of a program are read, and what is read but once."""

from __future__ import annotations

from collections import Counter

from naperian.ainf.syntax import Accumulate, Binding, Entry, Operand, Program, Read
from naperian.ainf.walk import atoms, atoms_of, is_reduction, reads
from naperian.names import Lit, Var
from naperian.sizes import Size


def uses(program: Program) -> Counter[Var]:
    """Of each value, the reads in bindings and their guards, in results, and in how far indices
    go."""
    found = Counter(r.var for b in program.bindings for r in reads(b))
    shown = (a for r in program.results for a in atoms(r.value))
    extents = (x.extent for x in program.indices.values() if x.extent is not None)
    ends = (a for n in extents for a in atoms_of(n))
    found.update(a.var for a in (*shown, *ends) if isinstance(a, Read))
    return found


class Uses:
    """The bindings of a program by their names, and how often they are read."""

    def __init__(self, program: Program) -> None:
        self.made = {b.var: b for b in program.bindings}
        self.count = uses(program)

    def alone(self, o: Operand) -> tuple[Binding, dict[Var, Size]] | None:
        """The binding that an operand reads, if nothing else does, and what its indices are."""
        b = self.made.get(o.var) if isinstance(o, Read) else None
        if b is None or not isinstance(o, Read) or self.count[b.var] != 1:
            return None
        return b, dict(zip(b.context, o.at, strict=True))


def summed(b: Binding) -> Entry | None:
    """What a plain sum adds up, from zero."""
    match b.prim:
        case Accumulate("add", Lit(0), (entry,)) if is_reduction(b.context, b.prim):
            return entry
        case _:
            return None
