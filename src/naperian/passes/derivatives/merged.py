"""What a function computes twice is one before it is differentiated. ainf → ainf

    before   for i if a[i] > 0:      p = mul(k, a[i])          each has a cotangent of its own
             for i if not a[i] > 0:  q = mul(k, a[i])
    after    for i:                  p = mul(k, a[i])          what both are sent is one

Equal bindings become one later, anyway (`cse`); but what is sent back to each is another value, and
goes all the way back by itself. Only within the same rounds: what two loops compute alike stays
beside what each makes of it.
"""

from __future__ import annotations

from collections.abc import Callable

from naperian.ainf.syntax import Binding, Delay, Operand
from naperian.ainf.walk import map_guards
from naperian.names import Var
from naperian.node import replace
from naperian.passes.algebra.cse import Merge
from naperian.passes.bindings.builder import Guards
from naperian.passes.bindings.place import Place


def merge_last(place: Place, start: int) -> Callable[[Operand], Operand] | None:
    """The same for the bindings from `start` on; what became of reads of them, if anything did."""
    b = place.b
    made = b.bindings[start:]
    program = replace(b.program((), (), place.math, ()), bindings=tuple(made))
    times = {x.prim.time for x in made if isinstance(x.prim, Delay)}

    def asked(merge: Merge, x: Binding) -> tuple[tuple[Var, ...], Guards] | None:
        """The loops around what does not depend on all of them, and the conditions it has not."""
        where = place.inside.get(x.var)
        if where is None:
            return None
        guards = map_guards(where[1], merge.operand, merge.size)
        return where[0], tuple(g for g in guards if g not in x.guards)

    def alike(merge: Merge, one: Binding, two: Binding) -> bool:
        """Whether two are in the same rounds, and asked for where the other one is."""
        same = times & b.closed(one.context) == times & b.closed(two.context)
        return same and asked(merge, one) == asked(merge, two)

    merge = Merge(program, alike)
    after = merge.result()
    if not merge.merged:
        return None
    b.bindings[start:] = after.bindings
    b.indices |= after.indices
    for x in made:
        if x.var in place.tests:
            name, args = place.tests[x.var]
            place.tests[x.var] = name, tuple(map(merge.operand, args))
    place.answers = {
        (name, tuple(map(merge.operand, args))): merge.read(r)
        for (name, args), r in place.answers.items()
    }
    place.passed = {*map(merge.operand, place.passed)}
    for x in after.bindings:
        before = asked(merge, merge.renamed(replace(x, guards=b.guards[x.var])))
        if before is not None:
            scope, others = before
            place.inside[x.var] = scope, (*x.guards, *others)
        b.guards[x.var] = x.guards
    return merge.operand
