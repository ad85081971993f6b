"""What a multiple of a number leaves is known without its index. loops → loops

    before   even = wrap(2 * i + 1, 2) == 0         after    v := v + y[i]
             if even: v := v + x[i]
             if not(even): v := v + y[i]

A loop over the rounds of one turn that is written out asks so, where a gradient reads back what a
finer grid was sent: half of what it would read is never there.
"""

from __future__ import annotations

from naperian.loops.syntax import Loop, Program
from naperian.loops.walk import remade, statements
from naperian.names import Var
from naperian.node import node, replace
from naperian.passes.nests.digits import decided, divisions
from naperian.sizes import Atom, Quotient, Remainder, Size, size


def multiples(program: Program) -> Program:
    """See the module."""
    inside = statements(program.body)
    known = _Known(frozenset((*(s.var for s in inside if isinstance(s, Loop)), *program.sizes)))
    if all(known.atom(a) is None for a in divisions(inside)):
        return program
    return replace(program, body=decided(remade(program.body, known.atom)))


@node
class _Known:
    """Atoms of what is `far` from the end of the integers: none of it has wrapped around."""

    far: frozenset[Var]

    def atom(self, a: Atom) -> Size | None:
        match a:
            case Remainder(above, below) if self.is_multiple(above, below):
                return size(above.offset) % below
            case Quotient(above, below) if self.is_multiple(above, below):
                return (above - above.offset) // below + size(above.offset) // below
            case _:
                return None

    def is_multiple(self, above: Size, below: Size) -> bool:
        """Whether a number is a multiple of a constant, and a constant."""
        by = below.constant
        if not by or not self.far.issuperset(above.atoms):
            return False
        return all(c % by == 0 for m, c in above.terms if m)
