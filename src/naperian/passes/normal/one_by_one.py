"""What takes two tuples together number by number.

    sum i: n. (x[i], y[i])   ⇒   (sum i: n. x[i], sum i: n. y[i])

So a sum of structs whose `+` is that of their fields, derived or written, is a sum of each field,
in any order. Any other goes through its set with all numbers in hand.
"""

from __future__ import annotations

from naperian.core.syntax import Op, Ref
from naperian.names import Var
from naperian.passes.normal.denote import Bound, Guard, Leaf, Meaning


def one_by_one(
    name: str, statements: list[Bound | Guard], made: list[Meaning], names: list[list[Var]]
) -> bool:
    """Whether what was made of the numbers of two tuples is `name` of those at each place."""
    bound = {s.var: s for s in statements if isinstance(s, Bound)}
    if len(bound) != len(statements) or any(s.fails or s.cells for s in bound.values()):
        return False
    for m, pair in zip(made, zip(*names, strict=True), strict=True):
        found = bound.get(m.expr.var) if isinstance(m, Leaf) and isinstance(m.expr, Ref) else None
        match found:
            case Bound(value=Op(op, (Ref(x), Ref(y)))) if op == name and {x, y} == {*pair}:
                pass
            case _:
                return False
    return True
